"""The one payer: what is asked of accounts is priced, drawn, charged and stored.

For one series or for a batch of subjects the way is the same. One read gives the balances, the
standings and the values that are stored already. What is stored is returned, free. The rest is
priced, and if one account cannot pay, none does and nothing is drawn. Then noise is drawn, and one
write stores charges and values together, if no account has changed since it was read. What is
handed over is what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pufferkit.account.amounts import spent_micro, spent_pico
from pufferkit.account.chain import Balance
from pufferkit.account.ledger import Charge, Ledger, Read, Terms, over_budget
from pufferkit.account.marks import Data
from pufferkit.account.spending import Spending
from pufferkit.account.standing import Standing, as_stored, price
from pufferkit.beliefs.base import Beliefs
from pufferkit.errors import LedgerError, OverBudget

Value = Mapping[str, Any]
DrawValues = Callable[[Sequence[int]], Iterable[Value]]
"""The noisy values of those of the asked that have these numbers, in order."""

_NEW = Standing()
_EXACT = 500
"""Losses that are computed entry by entry for the subjects of one run; the others pay the bound
of a series without an end, which is hardly more."""


class Payment(NamedTuple):
    """One release that is asked of an account, which is opened on these terms.

    ``spending`` is over the window in the numbering of the account, ``lengths`` are the segments of
    its whole series; without a spending the account keeps the value of a release that others pay
    for, and its total is the largest of theirs, or ``least``. ``facts`` are recorded with the
    charge. ``stores`` is whether a value belongs to it. ``bought`` is the key of a purchase of
    beliefs, which is charged once. ``endless`` is whether the noise is that of a series without an
    end, ``clocked`` whether places are told by a clock, so that data need not begin at the first
    entry. ``data`` and ``rows`` are those of the whole series and of the window, by which they are
    recognised. ``release`` tells the windows of one release from those of another that is paid for
    at the same time.
    """

    account: str
    key: str
    terms: Terms
    spending: Spending | None
    lengths: tuple[int, ...]
    facts: Mapping[str, Any]
    release: str = ""
    stores: bool = True
    bought: bool = False
    endless: bool = False
    clocked: bool = False
    data: Data | None = None
    rows: Data | None = None
    least: int = 0


@dataclass(frozen=True)
class Prices:
    """The beliefs under which accounts pay, and the longest series that they may cover."""

    theta: Beliefs
    horizon: int | None
    known: dict[Any, Priced] = field(default_factory=dict, compare=False, repr=False)
    """What releases cost so far; subjects that are alike pay alike."""


@dataclass(frozen=True)
class Priced:
    """The total of an account after a release, the rule, the standing, and what is recorded.

    ``alike`` are the objects by whose identity it is known: none of them may be gone.
    """

    alike: tuple[Any, ...]
    total: int
    rule: str
    after: Standing
    state: Mapping[str, Any]
    bodies: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Owed:
    """What one account has still to pay: its charges without values."""

    balance: Balance
    total: int
    """The total of the account after all of them, in millionths of epsilon."""
    charges: tuple[Charge, ...] = ()
    numbers: tuple[int | None, ...] = ()
    """For each charge the number of the value that belongs to it."""


Refused = Callable[[Owed], OverBudget]
"""The error for an account that cannot pay."""


@dataclass(frozen=True)
class Paid:
    """The values of the asked that store one, and the largest total of an account after it."""

    values: list[Value]
    total: int


def short_of(owed: Owed) -> OverBudget:
    """The error for an account that cannot pay what it owes."""
    balance = owed.balance
    return OverBudget(
        f"{balance.account}: {over_budget(owed.total - balance.total, balance.remaining)}"
    )


def pay(
    ledger: Ledger,
    prices: Prices,
    asked: Sequence[Payment],
    draw: DrawValues,
    *,
    read: Read | None = None,
    confirm_data: bool = False,
    refused: Refused = short_of,
) -> Paid:
    """The stored values of the asked, charged and drawn once.

    Parameters
    ----------
    ledger, prices
        The ledger, and the beliefs under which accounts pay.
    asked
        What is asked; the windows of one release do not overlap.
    draw
        Draws values; called when all can pay, and again if another process paid in between.
    read
        What `Ledger.look` gave for the asked, if it was looked at already.
    confirm_data
        Whether data that look like those of another account are meant.
    refused
        The error for an account that cannot pay.

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
        owed = owing(read, prices, asked)
        check_affordable(owed, refused)
        total = max((account.total for account in owed), default=0)
        charges = [charge for account in owed for charge in account.charges]
        numbers = [number for account in owed for number in account.numbers]
        wanted = [number for number in numbers if number is not None]
        drawn = dict(zip(wanted, draw(wanted), strict=True)) if wanted else {}
        stored = [
            charge if number is None else charge._replace(value=drawn[number])
            for charge, number in zip(charges, numbers, strict=True)
        ]
        if not stored or ledger.charge_many(stored, read=read, confirm_data=confirm_data):
            all_values = (drawn.get(number, value) for number, value in enumerate(values))
            return Paid([value for value in all_values if value is not None], total)
        read = None


def check_affordable(owed: Sequence[Owed], refused: Refused = short_of) -> None:
    """Raise if one account cannot pay what it owes."""
    short = [account for account in owed if account.total > account.balance.budget]
    if short:
        more = f" (and {len(short) - 1:,} more like it)" if len(short) > 1 else ""
        raise OverBudget(f"{refused(short[0])}{more}")


def owing(read: Read, prices: Prices, asked: Sequence[Payment]) -> list[Owed]:
    """What each account has still to pay, given what was read."""
    groups: dict[str, list[tuple[int, Payment]]] = {}
    for number, one in enumerate(asked):
        groups.setdefault(one.account, []).append((number, one))
    owed, standings = list[Owed](), dict[int, Standing]()
    for group in groups.values():
        if group[0][1].spending is None:
            most = max((account.total for account in owed), default=0)
            owed.append(_kept(read, group, most))
        else:
            owed.append(_owed(read, prices, group, standings))
    return owed


def _owed(
    read: Read,
    prices: Prices,
    group: Sequence[tuple[int, Payment]],
    standings: dict[int, Standing],
) -> Owed:
    first = group[0][1]
    name, terms = first.account, first.terms
    balance, standing = standing_of(read, name, terms, standings)
    new = [one for one in group if _unpaid(read, one[1]) and one[1].key not in standing.bought]
    if not new:
        return Owed(balance, balance.total)
    lengths = standing.whole(name, first.lengths, clocked=first.clocked)
    total, charges, numbers = balance.total, list[Charge](), list[int | None]()
    releases: dict[tuple[bool, str], list[tuple[int, Payment]]] = {}
    for number, asked in new:
        releases.setdefault((asked.bought, asked.release), []).append((number, asked))
    for part in releases.values():
        priced = _priced(standing, total, [one for _, one in part], lengths, prices)
        total, standing, last = priced.total, priced.after, part[-1][1]
        for (number, one), body in zip(part, priced.bodies, strict=True):
            assert one.spending is not None
            charges.append(
                Charge(
                    name,
                    one.key,
                    spent_micro(one.spending.epsilon),
                    total,
                    body,
                    after=balance.entries,
                    terms=terms,
                    data=one.data,
                    state=priced.state if one is last else None,
                    rows=one.rows,
                )
            )
            numbers.append(number if one.stores else None)
    return Owed(balance, total, tuple(charges), tuple(numbers))


def _unpaid(read: Read, one: Payment) -> bool:
    """Whether a release is neither stored nor charged; raises if its value was removed."""
    place = (one.account, one.key)
    if place in read.values:
        return False
    if place in read.charged and one.stores:
        raise LedgerError(
            f"ledger: {one.account!r} was charged for this release, and the value is missing: "
            "entries were removed. Restore a backup and run pufferkit ledger verify"
        )
    return place not in read.charged


def _kept(read: Read, group: Sequence[tuple[int, Payment]], most: int) -> Owed:
    """The charges of an account that keeps the values of releases which others pay for."""
    name, terms = group[0][1].account, group[0][1].terms
    balance = read.balances.get(name)
    if balance is None:
        balance = Balance(name, terms.rule, terms.budget, 0, 0)
    else:
        terms.check(balance, read.opened[name])
    new = [(number, one) for number, one in group if _unpaid(read, one)]
    if not new:
        return Owed(balance, balance.total)
    total = max(balance.total, most, *(one.least for _, one in new))
    charges = [
        Charge(
            name,
            one.key,
            spent_micro(one.facts["epsilon"]),
            total,
            one.facts,
            balance.entries,
            terms=terms,
        )
        for _, one in new
    ]
    return Owed(balance, total, tuple(charges), tuple(number for number, _ in new))


def _priced(
    before: Standing,
    total: int,
    part: Sequence[Payment],
    lengths: tuple[int, ...],
    prices: Prices,
) -> Priced:
    """What a release costs and leads to; once for all that are alike."""
    theta, known, first = prices.theta, prices.known, part[0]
    bought = first.key if first.bought else None
    same = (before, *(one.spending for one in part), *(one.facts for one in part))
    alike = (total, lengths, first.endless, bought, *map(id, same))
    if alike not in known:
        stored = [as_stored(one.spending, theta) for one in part if one.spending is not None]
        now, rule = price(
            before,
            total,
            stored,
            theta,
            lengths,
            horizon=prices.horizon,
            endless=first.endless,
            exact=len(known) < _EXACT,
        )
        after = before
        for spending in stored:
            after = after.after(spending, lengths, rule=rule, bought=bought)
        state = after.to_dict()
        bodies = tuple(
            _body(one, spending, theta, rule, state)
            for one, spending in zip(part, stored, strict=True)
        )
        known[alike] = Priced(same, now, rule, after, state, bodies)
    return known[alike]


def standing_of(
    read: Read, name: str, terms: Terms, known: dict[int, Standing] | None = None
) -> tuple[Balance, Standing]:
    """Balance and standing of an account as it was read; raises if it has other terms.

    ``known`` are the standings of states that were read, of which many accounts share one.
    """
    balance = read.balances.get(name)
    if balance is None:
        return Balance(name, terms.rule, terms.budget, 0, 0), _NEW
    terms.check(balance, read.opened[name])
    state = read.states.get(name)
    if state is None and balance.total:
        raise LedgerError(
            f"ledger: the standing of {name!r} is missing, so it was damaged; restore a backup and "
            "run pufferkit ledger verify"
        )
    if state is None:
        return balance, _NEW
    standings = {} if known is None else known
    if id(state) not in standings:
        standings[id(state)] = Standing.from_dict(state)
    return balance, standings[id(state)]


def _body(
    one: Payment, spending: Spending, theta: Beliefs, rule: str, state: Mapping[str, Any]
) -> dict[str, Any]:
    """What a charge records: enough to add it up again (`Standing.after_entry`)."""
    b, added = spending.entry_epsilon, spending.contributions
    bought = {"bought": one.key} if one.bought else {}
    return {
        "labels": [],
        "scale": None,
        **one.facts,
        "window": list(spending.window),
        "segments": state["segments"],
        "beliefs": theta.digest,
        "mechanism": spending.mechanism,
        "entry_privacy_pico": None if b is None else spent_pico(b),
        "quilt": None if spending.quilt is None else list(spending.quilt),
        "contributions": None if added is None else [value for _, value in added],
        "gaps": None if spending.gaps is None else list(spending.gaps),
        "rule": rule,
        **bought,
    }
