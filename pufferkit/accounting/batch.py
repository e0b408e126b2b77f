"""What a list of charges comes to, on what terms, and how a refusal is put."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from pufferkit.accounting.amounts import show
from pufferkit.accounting.database import ENTRIES
from pufferkit.accounting.entries import (
    Account,
    Charge,
    Draft,
    Terms,
    accounts_named,
    entries_named,
)
from pufferkit.errors import OverBudget


class Batch:
    """The drafts that a list of charges comes to."""

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

    def drafts(self, charges: Sequence[Charge]) -> list[Draft] | None:
        """Openings, charges and values in order; ``None`` if an account has moved on."""
        found: list[Draft] = []
        for charge in charges:
            place = (charge.account, charge.key)
            if charge.value is not None and place in self._valued:
                return None
            if place not in self._charged:
                new = self._charge(charge)
                if new is None:
                    return None
                found += new
                self._charged.add(place)
            if charge.value is not None:
                total = self._totals[charge.account]
                found.append(Draft(charge.account, "value", charge.key, 0, total, charge.value))
                self._valued.add(place)
        return found

    def _charge(self, charge: Charge) -> list[Draft] | None:
        name, known = charge.account, self._before.get(charge.account)
        if known is None and charge.terms is None:
            raise ValueError(f"account: {name!r} is not in this ledger; open it first")
        if charge.after != (0 if known is None else known.entries):
            return None
        budget = known.budget if known is not None else charge.terms.budget  # type: ignore[union-attr]
        found = []
        if name not in self._totals and charge.terms is not None:
            found.append(Draft(name, "open", "", 0, 0, charge.terms.body))
        total = self._totals.get(name, 0)
        if charge.total > budget:
            refusal = over_budget(charge.total - total, budget - total)
            raise OverBudget(f"{name}: {refusal}")
        total = self._totals[name] = max(charge.total, total)
        marks = self._marks.pop(name, {})
        body = {**charge.body, **marks} if marks else charge.body
        found.append(Draft(name, "charge", charge.key, charge.epsilon, total, body))
        return found


def rows(connection: sa.Connection, account: str | None) -> Generator[Any, None, None]:
    """The rows of all entries in order, or of those of one account."""
    query = ENTRIES.select().order_by(ENTRIES.c.seq)
    if account is not None:
        query = query.where(ENTRIES.c.account == account)
    with connection.execution_options(yield_per=1000).execute(query) as found:
        yield from found


def required(connection: sa.Connection, account: str) -> Account:
    """Where an account stands; an error if it is not there."""
    found = accounts_named(connection, [account]).get(account)
    if found is None:
        raise ValueError(f"account: {account!r} is not in this ledger; open it first")
    return found


def on_terms(connection: sa.Connection, terms: Mapping[str, Terms]) -> dict[str, Account]:
    """Those of these accounts that are there, on the same terms."""
    known = accounts_named(connection, terms)
    for opened in entries_named(connection, known, "open"):
        terms[opened.account].check(known[opened.account], opened)
    return known


def over_budget(requested: int, remaining: int, fits: str = "") -> OverBudget:
    """The refusal, in the words people look for."""
    return OverBudget(
        f"requested {show(requested)}, remaining {show(max(0, remaining))}, "
        f"short by {show(requested - max(0, remaining))}" + (f"; {fits}" if fits else "")
    )
