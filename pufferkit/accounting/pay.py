"""The one payer: what is asked of accounts is priced, drawn, charged and stored.

For one series or for a batch of subjects the way is the same. One read gives the balances, the
standings and the values that are stored already. What is stored is returned, free. The rest is
priced, and if one account cannot pay, none does and nothing is drawn. Then noise is drawn, and one
write stores charges and values together, if no account has changed since it was read. What is
handed over is what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pufferkit.accounting.amounts import spent_micro, spent_pico
from pufferkit.accounting.charges import Charge, Terms, over_budget
from pufferkit.accounting.entries import Balance
from pufferkit.accounting.fingerprints import Data
from pufferkit.accounting.ledger import Ledger, Read
from pufferkit.accounting.spending import Spending
from pufferkit.accounting.standing import Standing, as_stored, price
from pufferkit.beliefs.base import Beliefs
from pufferkit.errors import LedgerError, OverBudget

Value = Mapping[str, Any]
DrawValues = Callable[[Sequence[int]], Iterable[Value]]
"""The noisy values of those of the asked that have these numbers, in order."""


@dataclass(frozen=True)
class Payment:
    """One release that is asked of an account.

    ``spending`` is over the window in the numbering of the account, ``lengths`` are the segments of
    its whole series. ``facts`` are recorded with the charge. ``stores`` is whether a value belongs
    to it. ``bought`` is the key of a purchase of beliefs, which is charged once. ``endless`` is
    whether the noise is that of a series without an end, ``clocked`` whether places are told by a
    clock, so that data need not begin at the first entry. ``data`` and ``rows`` are those of the
    whole series and of the window, by which they are recognised.
    """

    account: str
    key: str
    spending: Spending
    lengths: tuple[int, ...]
    facts: Mapping[str, Any]
    stores: bool = True
    bought: bool = False
    endless: bool = False
    clocked: bool = False
    data: Data | None = None
    rows: Data | None = None


@dataclass(frozen=True)
class Prices:
    """The beliefs under which accounts pay, and the longest series that they may cover."""

    theta: Beliefs
    terms: Terms
    horizon: int | None


@dataclass(frozen=True)
class Owed:
    """What one account has still to pay: its charges without values, and its balance before."""

    before: Balance
    charges: tuple[Charge, ...]
    numbers: tuple[int | None, ...]
    """For each charge the number of the value that belongs to it."""

    @property
    def total(self) -> int:
        """The total after all of them, in millionths of epsilon."""
        return self.charges[-1].total if self.charges else self.before.total


def pay(
    ledger: Ledger,
    prices: Prices,
    asked: Sequence[Payment],
    draw: DrawValues,
    *,
    read: Read | None = None,
    data_meant: bool = False,
    refused: Callable[[Balance, Standing, int], OverBudget] | None = None,
) -> list[Value | None]:
    """The stored value of each of the asked, charged and drawn once.

    Parameters
    ----------
    ledger, prices
        The ledger, and the terms on which accounts pay.
    asked
        What is asked; that of one account is one release, whose windows do not overlap.
    draw
        Draws values; called when all can pay, and again if another process paid in between.
    read
        What `Ledger.look` gave for the asked, if it was looked at already.
    data_meant
        Whether data that look like those of another account are meant.
    refused
        The error for an account that cannot pay, from its balance, standing and new total.

    Raises
    ------
    OverBudget
        If one account cannot pay; then none does.
    """
    names = list(dict.fromkeys(one.account for one in asked))
    keys = list(dict.fromkeys(one.key for one in asked))
    while True:
        read = ledger.look(names, keys) if read is None else read
        values: list[Value | None] = [read.values.get((one.account, one.key)) for one in asked]
        owed = owing(read, prices, asked, refused)
        charges = [charge for account in owed for charge in account.charges]
        if not charges:
            return values
        numbers = [number for account in owed for number in account.numbers]
        wanted = [number for number in numbers if number is not None]
        drawn = dict(zip(wanted, draw(wanted), strict=True)) if wanted else {}
        stored = [
            charge if number is None else charge._replace(value=drawn[number])
            for charge, number in zip(charges, numbers, strict=True)
        ]
        if ledger.charge_many(stored, data_meant=data_meant):
            return [drawn.get(number, value) for number, value in enumerate(values)]
        read = None


def owing(
    read: Read,
    prices: Prices,
    asked: Sequence[Payment],
    refused: Callable[[Balance, Standing, int], OverBudget] | None = None,
) -> list[Owed]:
    """What each account has still to pay, given what was read; raises if one cannot."""
    groups: dict[str, list[tuple[int, Payment]]] = {}
    for number, one in enumerate(asked):
        groups.setdefault(one.account, []).append((number, one))
    known: dict[Any, tuple[int, str, Standing]] = {}
    return [_owed(read, prices, group, refused, known) for group in groups.values()]


def _owed(
    read: Read,
    prices: Prices,
    group: Sequence[tuple[int, Payment]],
    refused: Callable[[Balance, Standing, int], OverBudget] | None,
    known: dict[Any, tuple[int, str, Standing]],
) -> Owed:
    name, terms = group[0][1].account, prices.terms
    balance, standing = standing_of(read, name, terms)
    new = []
    for number, one in group:
        if (name, one.key) in read.values or one.key in standing.bought:
            continue
        if (name, one.key) in read.charged:
            if not one.stores:
                continue
            raise LedgerError(
                f"ledger: {name!r} was charged for this release, and the value is missing: entries "
                "were removed. Restore a backup and run pufferkit ledger verify"
            )
        new.append((number, one))
    if not new:
        return Owed(balance, (), ())
    lengths = standing.whole(name, group[0][1].lengths, clocked=group[0][1].clocked)
    total, charges, numbers = balance.total, list[Charge](), list[int | None]()
    purchases = [one for one in new if one[1].bought]
    releases = [one for one in new if not one[1].bought]
    for part in (purchases, releases):
        if not part:
            continue
        before = standing
        wanted = [one for _, one in part]
        total, rule, standing = _priced(standing, total, wanted, lengths, prices, known)
        if total > balance.budget:
            if refused is not None:
                raise refused(balance, before, total)
            short = over_budget(total - balance.total, balance.remaining)
            raise OverBudget(f"{name}: {short}")
        state, last = standing.to_dict(), part[-1][1]
        for number, one in part:
            charges.append(
                Charge(
                    name,
                    one.key,
                    spent_micro(one.spending.epsilon),
                    total,
                    _body(one, prices.theta, rule, standing),
                    after=balance.entries,
                    terms=terms,
                    data=one.data,
                    state=state if one is last else None,
                    rows=one.rows,
                )
            )
            numbers.append(number if one.stores else None)
    return Owed(balance, tuple(charges), tuple(numbers))


def _priced(
    before: Standing,
    total: int,
    part: Sequence[Payment],
    lengths: tuple[int, ...],
    prices: Prices,
    known: dict[Any, tuple[int, str, Standing]],
) -> tuple[int, str, Standing]:
    """The total, the rule and the standing after a release; once for all that are alike."""
    theta, endless = prices.theta, part[0].endless
    new = tuple(as_stored(one.spending, theta) for one in part)
    bought = part[0].key if part[0].bought else None
    alike = (before, total, new, lengths, endless, bought)
    if alike not in known:
        total, rule = price(
            before, total, new, theta, lengths, horizon=prices.horizon, endless=endless
        )
        after = before
        for spending in new:
            after = after.after(spending, lengths, rule=rule, bought=bought)
        known[alike] = (total, rule, after)
    return known[alike]


def standing_of(read: Read, name: str, terms: Terms) -> tuple[Balance, Standing]:
    """Balance and standing of an account as it was read; raises if it has other terms."""
    balance = read.balances.get(name)
    if balance is None:
        return Balance(name, terms.rule, terms.budget, 0, 0), Standing()
    terms.check(balance, read.opened[name])
    state = read.states.get(name)
    if state is None and balance.total:
        raise LedgerError(
            f"ledger: the standing of {name!r} is missing, so it was damaged; restore a backup and "
            "run pufferkit ledger verify"
        )
    return balance, Standing() if state is None else Standing.from_dict(state)


def _body(one: Payment, theta: Beliefs, rule: str, after: Standing) -> dict[str, Any]:
    """What a charge records: enough to add it up again (`Standing.after_entry`)."""
    spending, b = one.spending.ordered(theta.states), one.spending.entry_epsilon
    added = spending.contributions
    bought = {"bought": one.key} if one.bought else {}
    return {
        "labels": [],
        "scale": None,
        **one.facts,
        "window": list(spending.window),
        "segments": after.to_dict()["segments"],
        "beliefs": theta.digest,
        "mechanism": spending.mechanism,
        "entry_privacy_pico": None if b is None else spent_pico(b),
        "quilt": None if spending.quilt is None else list(spending.quilt),
        "contributions": None if added is None else [value for _, value in added],
        "gaps": None if spending.gaps is None else list(spending.gaps),
        "rule": rule,
        **bought,
    }
