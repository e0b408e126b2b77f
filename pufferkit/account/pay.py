"""The one payer: what is asked of accounts is placed, priced, drawn, charged and stored.

For one series or for a batch of subjects the way is the same. One read gives the balances, the
standings and the values that are stored already. What is stored is returned, free, if the data are
those it is of. The rest is priced, and if one account cannot pay, none does and nothing is drawn.
Then noise is drawn, and one write stores charges and values together, if no account has changed
since it was read. What is handed over is what is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pufferkit.account.amounts import spent_micro, spent_pico
from pufferkit.account.chain import Balance
from pufferkit.account.ledger import Charge, Ledger, Read, Terms, over_budget
from pufferkit.account.marks import Data
from pufferkit.account.spending import Spending
from pufferkit.account.standing import Standing, as_stored, price
from pufferkit.beliefs.base import Beliefs, beliefs_from_dict
from pufferkit.data.calendar import Calendar
from pufferkit.errors import LedgerError, OverBudget
from pufferkit.mechanisms.influence_curve import HORIZON, goes_on
from pufferkit.records import ByDigest, unsourced

Value = Mapping[str, Any]
About = Mapping[str, Any]
Facts = tuple[tuple[str, Any], ...]
DrawValues = Callable[[Sequence[int]], Iterable[Value]]
"""The noisy values of those of the asked that have these numbers, in order."""

_NEW = Standing()
_EXACT = 500
"""Losses that are computed entry by entry for the subjects of one run; the others pay the bound
of a series without an end, which is hardly more."""


class Clock(NamedTuple):
    """The time of entry 1 of some data, and from one entry to the next; or their numbering.

    ``told`` is whether these are times by which an account places entries.
    """

    begins: int | float | None
    every: int | float | None
    zone: str | None = None
    told: bool = True


class Payment(NamedTuple):
    """One release that is asked of an account, which is opened on these terms.

    ``spending`` is over the window in the numbering of the account, ``lengths`` are the segments of
    its whole series; ``None`` for what is stored already. ``facts`` are recorded with the charge.
    ``stores`` is whether a value belongs to it. ``bought`` is whether it is a purchase of beliefs,
    which is charged once. ``endless`` is whether the noise is that of a series without an end,
    ``clocked`` whether places are told by a clock, so that data need not begin at the first entry.
    ``data`` and ``rows`` are those of the whole series and of the window, by which they are
    recognised. ``release`` tells the windows of one release from those of another that is paid for
    at the same time. With ``keeps`` the account keeps the value of a release that others pay for,
    of this epsilon; its total is the largest of theirs, or ``least``.
    """

    account: str
    key: str
    terms: Terms
    spending: Spending | None
    lengths: tuple[int, ...]
    facts: Facts
    release: str = ""
    stores: bool = True
    bought: bool = False
    endless: bool = False
    clocked: bool = False
    data: Data | None = None
    rows: Data | None = None
    keeps: float | None = None
    least: int = 0


class Owed(NamedTuple):
    """What one account has still to pay: its charges without values, and its total after them.

    ``numbers`` are those of the values that belong to the charges.
    """

    balance: Balance
    total: int
    charges: Sequence[Charge] = ()
    numbers: Sequence[int | None] = ()


Refused = Callable[[Owed], OverBudget]
"""The error for an account that cannot pay."""

Priced = tuple[int, Standing, Mapping[str, Any], Sequence[tuple[int, Mapping[str, Any]]]]
"""The total of an account after a release, its standing, that as a record, and the promise and the
record of each charge."""


class Payer:
    """Accounts of one ledger that pay under the same beliefs and on the same terms.

    Parameters
    ----------
    ledger
        The ledger.
    theta, horizon
        The beliefs, and the longest series that an account may cover; ``None`` for named entries.
    budget
        Of each account, in millionths.
    confirm_data
        Whether data that look like those of another account are meant.
    """

    def __init__(
        self,
        ledger: Ledger,
        theta: Beliefs,
        horizon: int | None,
        budget: int,
        *,
        confirm_data: bool = False,
    ) -> None:
        self.ledger, self.theta, self.horizon = ledger, theta, horizon
        self._budget, self._meant = budget, confirm_data
        self._terms: dict[Any, Terms] = {}
        self._priced: dict[Any, Priced] = {}

    # -- places ---------------------------------------------------------------------------------

    def terms(self, about: About, known: About | None) -> Terms:
        """The terms of an account, which it states when it is opened."""
        limited = self.horizon not in (None, HORIZON)
        stated = {**about, **({"horizon": self.horizon} if limited else {})}
        alike = known is None, *stated.items()
        if alike not in self._terms:
            record = kept(ByDigest(self.theta)) if known is None else None
            self._terms[alike] = Terms(self._budget, "composed", stated, record)
        return self._terms[alike]

    def placed(
        self,
        name: str,
        known: About | None,
        lengths: tuple[int, ...],
        clock: Clock | None = None,
        step: float | None = None,
    ) -> tuple[dict[str, Any], int, tuple[int, ...]]:
        """Where data lie in an account: what its terms are about, the entries before, all segments.

        ``known`` is what the terms are about on which it was opened, ``lengths`` are the segments
        of the data.
        """
        about: dict[str, Any] = {"beliefs": self.theta.digest}
        offset = 0
        if clock is not None and clock.told and clock.begins is not None:
            about |= {"origin": _origin(known, clock), "zone": clock.zone}
            offset, lengths = self._after(about["origin"], clock, lengths)
        elif clock is not None:
            about |= {"begins": clock.begins, "every": clock.every}
            _check_rows(name, clock, known or {})
        if step is not None:
            about["step"] = step
        return about, offset, lengths

    def _after(
        self, origin: int, clock: Clock, lengths: tuple[int, ...]
    ) -> tuple[int, tuple[int, ...]]:
        """The entries before these data, and the segments of the whole series.

        Refuses a later part that is not on the grid of the account, has several segments, or lies
        beyond a change of clocks.
        """
        every = int(clock.every or 1)
        offset, rest = divmod(int(clock.begins or 0) - origin, every)
        if rest or offset < 0:
            where = "between its entries" if rest else "before its first entry"
            raise ValueError(
                f"data: begin {where}, by the clock of the account; give the series on the same "
                "grid, from the same beginning on"
            )
        if offset:
            if len(lengths) > 1:
                raise ValueError(
                    "data: begin after the first entry of the account and have several segments; "
                    "give the whole series from its beginning on"
                )
            lengths = (offset + lengths[0],)
            self.theta.check_clock(Calendar(origin, every, clock.zone), lengths)
        return offset, lengths

    # -- payments -------------------------------------------------------------------------------

    def pay(
        self,
        asked: Sequence[Payment],
        draw: DrawValues,
        *,
        read: Read | None = None,
        refused: Refused | None = None,
    ) -> tuple[list[Value], int]:
        """The stored values of the asked, charged and drawn once, and the largest total.

        Parameters
        ----------
        asked
            What is asked; the windows of one release do not overlap.
        draw
            Draws values; called when all can pay, and again if another process paid in between.
        read
            What `Ledger.look` gave for the asked, if it was looked at already.
        refused
            The error for an account that cannot pay.

        Raises
        ------
        OverBudget
            If one account cannot pay; then none does.
        """
        names = list(dict.fromkeys(one.account for one in asked))
        keys = list(dict.fromkeys(one.key for one in asked))
        data = data_of(asked)
        while True:
            read = self.ledger.look(names, keys) if read is None else read
            values: list[Value | None] = [read.values.get((one.account, one.key)) for one in asked]
            owed = self.owing(read, asked)
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
            if not stored:
                self.ledger.check_data(data, confirm_data=self._meant)
            if not stored or self.ledger.charge_many(
                stored, read=read, data=data, confirm_data=self._meant
            ):
                both = (drawn.get(number, value) for number, value in enumerate(values))
                return [value for value in both if value is not None], total
            read = None

    def owing(self, read: Read, asked: Sequence[Payment]) -> list[Owed]:
        """What each account has still to pay, given what was read."""
        groups: dict[str, list[tuple[int, Payment]]] = {}
        for number, one in enumerate(asked):
            groups.setdefault(one.account, []).append((number, one))
        owed, standings = list[Owed](), dict[int, Standing]()
        for group in groups.values():
            if group[0][1].keeps is None:
                owed.append(self._owed(read, group, standings))
            else:
                owed.append(_kept(read, group, max((one.total for one in owed), default=0)))
        return owed

    def _owed(
        self,
        read: Read,
        group: Sequence[tuple[int, Payment]],
        standings: dict[int, Standing],
    ) -> Owed:
        first = group[0][1]
        balance = balance_of(read, first.account, first.terms)
        standing = standing_of(read, balance, standings)
        releases: dict[tuple[bool, str], list[tuple[int, Payment]]] = {}
        for number, asked in group:
            if _unpaid(read, asked) and asked.key not in standing.bought:
                releases.setdefault((asked.bought, asked.release), []).append((number, asked))
        total, charges, numbers = balance.total, list[Charge](), list[int | None]()
        lengths = first.lengths
        if releases:
            lengths = standing.whole(first.account, lengths, clocked=first.clocked)
        for part in releases.values():
            priced = self._price(standing, total, [one for _, one in part], lengths)
            total, standing, state, bodies = priced
            for place, ((number, one), (epsilon, body)) in enumerate(
                zip(part, bodies, strict=True), 1
            ):
                charges.append(
                    Charge(
                        one.account,
                        one.key,
                        epsilon,
                        total,
                        body,
                        after=balance.entries,
                        terms=one.terms,
                        state=state if place == len(part) else None,
                        rows=one.rows,
                    )
                )
                numbers.append(number if one.stores else None)
        return Owed(balance, total, charges, numbers)

    def _price(
        self, before: Standing, total: int, part: Sequence[Payment], lengths: tuple[int, ...]
    ) -> Priced:
        """What a release costs and leads to; once for all that are alike."""
        first = part[0]
        bought, asked = first.key if first.bought else None, [(p.spending, p.facts) for p in part]
        alike = total, lengths, first.endless, bought, before, *asked
        if alike not in self._priced:
            stored = [as_stored(one, self.theta) for one, _ in asked if one is not None]
            now, rule = price(
                before,
                total,
                stored,
                self.theta,
                lengths,
                horizon=self.horizon,
                endless=first.endless,
                exact=len(self._priced) < _EXACT,
            )
            after = before
            for spending in stored:
                after = after.after(spending, lengths, rule=rule, bought=bought)
            state, more = after.to_dict(), {"beliefs": self.theta.digest, "rule": rule}
            more |= {} if bought is None else {"bought": bought}
            more["segments"] = state["segments"]
            bodies = [
                (spent_micro(spending.epsilon), _body(one.facts, spending) | more)
                for one, spending in zip(part, stored, strict=True)
            ]
            self._priced[alike] = now, after, state, bodies
        return self._priced[alike]


def data_of(asked: Iterable[Payment]) -> dict[str, Data]:
    """The data of the accounts that pay, where they are recognised."""
    return {one.account: one.data for one in asked if one.data is not None}


def check_affordable(owed: Sequence[Owed], refused: Refused | None = None) -> None:
    """Raise if one account cannot pay what it owes."""
    short = [account for account in owed if account.total > account.balance.budget]
    if short:
        more = f" (and {len(short) - 1:,} more like it)" if len(short) > 1 else ""
        raise OverBudget(f"{(refused or short_of)(short[0])}{more}")


def short_of(owed: Owed, fits: str = "") -> OverBudget:
    """The error for an account that cannot pay what it owes."""
    balance = owed.balance
    error = over_budget(owed.total - balance.total, balance.remaining, fits)
    return OverBudget(f"{balance.account}: {error}")


def balance_of(read: Read, name: str, terms: Terms) -> Balance:
    """The balance of an account as it was read; raises if it has other terms."""
    balance = read.balances.get(name)
    if balance is None:
        return Balance(name, terms.rule, terms.budget, 0, 0)
    terms.check(balance, read.opened[name])
    return balance


def standing_of(read: Read, balance: Balance, known: dict[int, Standing] | None = None) -> Standing:
    """The standing of an account as it was read.

    ``known`` are the standings of states that were read, of which many accounts share one.
    """
    name, state = balance.account, read.states.get(balance.account)
    if state is None and balance.total:
        raise LedgerError(
            f"ledger: the standing of {name!r} is missing, so it was damaged; restore a backup and "
            "run pufferkit ledger verify"
        )
    if state is None:
        return _NEW
    standings = {} if known is None else known
    if id(state) not in standings:
        standings[id(state)] = Standing.from_dict(state)
    return standings[id(state)]


def _unpaid(read: Read, one: Payment) -> bool:
    """Whether a release is neither stored nor charged; raises if its value was removed."""
    place = (one.account, one.key)
    if one.stores and place in read.charged and place not in read.values:
        raise LedgerError(
            f"ledger: {one.account!r} was charged for this release, and the value is missing: "
            "entries were removed. Restore a backup and run pufferkit ledger verify"
        )
    return place not in read.charged


def _kept(read: Read, group: Sequence[tuple[int, Payment]], most: int) -> Owed:
    """The charges of an account that keeps the values of releases which others pay for."""
    first = group[0][1]
    balance = balance_of(read, first.account, first.terms)
    new = [(number, one) for number, one in group if _unpaid(read, one)]
    total = max(balance.total, *(max(most, one.least) for _, one in new), 0)
    charges = [
        Charge(
            one.account,
            one.key,
            spent_micro(one.keeps or 0.0),
            total,
            dict(one.facts),
            balance.entries,
            one.terms,
        )
        for _, one in new
    ]
    return Owed(balance, total, charges, [number for number, _ in new])


def _body(facts: Facts, spending: Spending) -> dict[str, Any]:
    """What a charge records: enough to add it up again (`Standing.after_entry`)."""
    b, added = spending.entry_epsilon, spending.contributions
    return {
        "labels": [],
        "scale": None,
        **dict(facts),
        "window": spending.window,
        "mechanism": spending.mechanism,
        "entry_privacy_pico": None if b is None else spent_pico(b),
        "quilt": spending.quilt,
        "contributions": None if added is None else [value for _, value in added],
        "smooth": spending.smooth,
        "gaps": spending.gaps,
    }


def _origin(known: About | None, clock: Clock) -> int:
    """The time of the first entry of an account."""
    origin = None if known is None else known.get("origin")
    return int((clock.begins or 0) if origin is None else origin)


def _check_rows(name: str, clock: Clock, known: About) -> None:
    """Refuse entries that no clock tells and that are counted from another place than before."""
    begins = known.get("begins")
    if None not in (begins, clock.begins) and begins != clock.begins:
        moved = "earlier" if clock.begins < begins else "later"  # type: ignore[operator]
        raise ValueError(
            f"table: the entries of {name!r} begin {moved} than when they were released, so they "
            "would be counted anew; give the whole series from the same beginning on"
        )
    if "every" in known and known["every"] != clock.every:
        before, now = (
            "rows without a clock" if step is None else f"{step} apart"
            for step in (known["every"], clock.every)
        )
        raise ValueError(
            f"table: entries of {name!r} were {before} when they were released and are {now} now, "
            "so they would be counted anew; every= puts them on the grid they were on"
        )


def horizon_of(
    declared: int | None, theta: Beliefs, longest: int, known: About | None, name: str
) -> int | None:
    """The most entries that a segment may have; ``None`` for named entries."""
    if theta.entries is not None:
        return None
    horizon = declared or (None if known is None else known.get("horizon"))
    if horizon is None and known is None and not goes_on(theta):
        horizon = longest
    if horizon is not None and longest > horizon:
        raise ValueError(
            f"data: a segment has {longest:,} entries, but the account {name!r} is for at most "
            f"{horizon:,}, because its beliefs do not mix or its horizon was declared so; open "
            "another account with horizon="
        )
    return HORIZON if horizon is None else int(horizon)


@lru_cache(maxsize=8)
def kept(known: ByDigest[Beliefs]) -> Mapping[str, Any] | None:
    """The record of beliefs, which the ledger keeps; ``None`` if JSON does not keep their labels.

    It is without provenance, which their digest leaves out.
    """
    theta = known.itself
    try:
        record: Mapping[str, Any] = json.loads(json.dumps(unsourced(theta.to_dict())))
        return record if beliefs_from_dict(record).digest == theta.digest else None
    except (TypeError, ValueError):
        return None
