"""Reading and writing a ledger in transactions: snapshots, batches of charges, refusals.

A ledger that does not exist reads as empty. Anchors are checked and advanced here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pufferkit.accounting import database
from pufferkit.accounting.amounts import show
from pufferkit.accounting.anchor import START, Anchor, Head
from pufferkit.accounting.database import Answered
from pufferkit.accounting.entries import (
    STATE,
    Account,
    Charge,
    Draft,
    Extended,
    Terms,
    accounts_named,
    body_of,
    leading_to,
    texts_named,
)
from pufferkit.accounting.ledger_places import Place, empty
from pufferkit.accounting.ledger_tables import Connection
from pufferkit.accounting.recognition import Recognition
from pufferkit.errors import OverBudget

_AT_ONCE = 2000


class Access:
    """The transactions of one ledger."""

    def __init__(self, place: Place, recognition: Recognition, anchor: Anchor | None) -> None:
        self.place, self.recognition, self.anchor = place, recognition, anchor
        self._made = False

    def read(self, act: Callable[[Connection], Answered], *, settle: bool = False) -> Answered:
        """``act`` on one snapshot, which must hold the head in the anchor.

        With ``settle``, used for values that will be handed over, the anchor catches up after a
        crash between commit and anchor.
        """
        anchor = self.anchor
        held = None if anchor is None else anchor.read()  # before the snapshot: never ahead of it

        def checked(connection: Connection) -> tuple[Answered, Head | None]:
            if anchor is None:
                return act(connection), None
            if held is not None or settle:
                anchor.check(connection, held)
            return act(connection), Head(*connection.head)

        if self.exists():
            result, head = database.read(self.place, checked)
        else:
            with empty() as connection:
                result, head = checked(connection)
        if settle and anchor is not None and head is not None and head != START:
            anchor.advance(head)
        return result

    def write(self, act: Callable[[Connection], Answered]) -> Answered:
        """``act`` under the write lock; the anchor advances after the commit."""
        anchor = self.anchor

        def checked(connection: Connection) -> tuple[Answered, Head]:
            if anchor is not None:
                anchor.check(connection, anchor.read())
            return act(connection), Head(*connection.head)

        if not self.exists():
            # What an empty ledger would refuse is refused before a ledger is created.
            with self.recognition.trial(), empty() as connection:
                checked(connection)
            if anchor is not None and anchor.read() is None:
                anchor.advance(START)
            database.make(self.place)
        self.recognition.prepare(self.place)
        result, head = database.write(self.place, checked)
        self._made = True
        if anchor is not None and head != START:
            anchor.advance(head)
        return result

    def exists(self) -> bool:
        """Whether the ledger exists."""
        self._made = self._made or database.exists(self.place)
        return self._made


class Batch:
    """The drafts for a list of charges."""

    def __init__(
        self,
        known: Mapping[str, Account],
        charged: set[tuple[str, str]],
        valued: set[tuple[str, str]],
        marks: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._before, self._charged, self._valued = dict(known), charged, valued
        self._totals = {name: account.total for name, account in known.items()}
        self._marks = dict(marks)
        self.states: dict[str, Mapping[str, Any] | None] = {}

    def drafts(self, charges: Sequence[Charge]) -> list[Draft] | None:
        """Openings, charges and values in order; ``None`` if an account has newer entries."""
        drafts: list[Draft] = []
        for charge in charges:
            name, key, value = charge.account, charge.key, charge.value
            place = (name, key)
            new = place not in self._charged
            if value is not None and place in self._valued:
                return None
            if (new or value is not None) and self._moved_on(charge):
                return None
            if new:
                drafts += self._charge(charge)
                self._charged.add(place)
            if value is not None:
                drafts.append(Draft(name, "value", key, 0, self._totals[name], value))
                self._valued.add(place)
        return drafts

    def _moved_on(self, charge: Charge) -> bool:
        known = self._before.get(charge.account)
        if known is None and charge.terms is None:
            raise ValueError(f"account: {charge.account!r} is not in this ledger; open it first")
        return charge.after != (0 if known is None else known.entries)

    def _charge(self, charge: Charge) -> list[Draft]:
        name, known = charge.account, self._before.get(charge.account)
        budget = known.budget if known is not None else charge.terms.budget  # type: ignore[union-attr]
        drafts = []
        if name not in self._totals and charge.terms is not None:
            drafts.append(Draft(name, "open", "", 0, 0, charge.terms.body))
        total = self._totals.get(name, 0)
        if charge.total > budget:
            refusal = over_budget(charge.total - total, budget - total)
            raise OverBudget(f"{name}: {refusal}")
        total = self._totals[name] = max(charge.total, total)
        marks = self._marks.pop(name, {})
        body = Extended(charge.body, marks) if marks else charge.body
        if charge.state is not None:
            body = leading_to(body, charge.state)
        elif STATE in body:  # copied from another entry
            body = {name: value for name, value in body.items() if name != STATE}
        if charge.state is not None or known is not None:
            self.states[name] = charge.state  # ``None`` marks the stored state as out of date
        drafts.append(Draft(name, "charge", charge.key, charge.epsilon, total, body))
        return drafts


def rows(connection: Connection, account: str | None = None) -> Iterator[Sequence[Any]]:
    """The rows of all entries in order, or of one account's, read in batches."""
    where, of = ("", ()) if account is None else (" AND account = ?", (account,))
    text = f"SELECT * FROM pufferkit_entries WHERE seq > ?{where} ORDER BY seq LIMIT {_AT_ONCE}"
    some = connection.execute(text, (0, *of)).fetchall()
    while some:
        yield from some
        some = connection.execute(text, (some[-1][0], *of)).fetchall()


def required(connection: Connection, account: str) -> Account:
    """The balance of an account; raises if the account does not exist."""
    known = accounts_named(connection, [account]).get(account)
    if known is None:
        raise ValueError(f"account: {account!r} is not in this ledger; open it first")
    return known


def on_terms(
    connection: Connection, terms: Mapping[str, Terms], known: Mapping[str, Account] | None = None
) -> Mapping[str, Account]:
    """Those of these accounts that exist; raises if their terms differ."""
    known = accounts_named(connection, terms) if known is None else known
    opened = [name for name in terms if name in known]
    agreed = set()
    for seq, name, text in texts_named(connection, opened, "open"):
        account = known[name]
        same = (text, id(terms[name]), account.rule, account.budget)
        if same not in agreed:  # which many accounts have in common
            terms[name].check(account, body_of(seq, text))
            agreed.add(same)
    return known


def over_budget(requested: int, remaining: int, fits: str = "") -> OverBudget:
    """The error for a charge that exceeds the budget."""
    return OverBudget(
        f"requested {show(requested)}, remaining {show(max(0, remaining))}, "
        f"short by {show(requested - max(0, remaining))}" + (f"; {fits}" if fits else "")
    )
