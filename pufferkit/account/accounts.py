"""An account: a budget of epsilon for everything that is ever released about the data of a name.

The budget is the Pufferfish epsilon of all releases together. A release is priced as if the series
went on without an end and every entry were asked like these: its noise is that of such a series
(`endless`), and it costs what it adds to the largest loss of the profile (`standing.price`). So a
question that is asked every day costs its epsilon once, and a stream is an account that goes on.

The first charge fixes the terms: beliefs, time step, and the time of entry 1. Entries are counted
from it, by the clock where there is one. Beliefs that were bought from the data
(`private_transitions`) have spent some of the budget already: the first release charges that too.
"""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import pufferkit
from pufferkit import checks
from pufferkit.account.amounts import (
    PICO,
    allowed_micro,
    in_epsilon,
    show,
    spent_micro,
    spent_pico,
    three_digits,
)
from pufferkit.account.chain import Balance, checked_name
from pufferkit.account.ledger import Ledger, Read, Terms, over_budget
from pufferkit.account.marks import SeriesData
from pufferkit.account.pay import Clock, Owed, Payer, Payment, data_of, horizon_of, standing_of
from pufferkit.account.periods import Period, Window, by_rule, inside, period_of, rule_of
from pufferkit.account.spending import Spending, entry_rows, joined
from pufferkit.account.theorems import ANY_START, check_start
from pufferkit.beliefs.base import Beliefs, as_beliefs, beliefs_from_dict, check_series, check_step
from pufferkit.beliefs.provenance import owed
from pufferkit.data.calendar import Calendar
from pufferkit.data.durations import SECOND
from pufferkit.data.joint import joint_query
from pufferkit.data.query import Query, Question, bound
from pufferkit.data.series import Series
from pufferkit.errors import LedgerError, NotApplicable, NoTheorem, OverBudget, printable
from pufferkit.mechanisms.calibration import Calibration, check_states, in_order, requested
from pufferkit.mechanisms.influence_curve import endless
from pufferkit.mechanisms.joint_plan import JointPlan, check_pairs, joint_plan
from pufferkit.mechanisms.plan import COMPOSING, Plan, calibrate, plan
from pufferkit.mechanisms.release import Release
from pufferkit.mechanisms.usefulness import questioned, warn_if_drowned
from pufferkit.records import canonical, digest
from pufferkit.rounding import least_passing
from pufferkit.shown import Shown, Statement

# -- account plan --------------------------------------------------------------------------------


BEST = "best"


@dataclass(frozen=True, repr=False)
class AccountPlan(Shown):
    """A plan, with the noise that the account would add, and what it would cost."""

    plan: Plan | JointPlan
    noise: Calibration
    cost: float
    remaining: float

    @property
    def fits(self) -> bool:
        """Whether the budget allows it."""
        return self.cost <= self.remaining

    def statements(self) -> list[Statement]:
        """Those of the plan, and what the account would take."""
        verdict = "fits" if self.fits else "does NOT fit"
        taken = (
            f"{self.noise.mechanism} with noise of scale {self.noise.mean_scale:.4g}, which "
            f"composes with later releases, would take {self.cost:g} of the remaining "
            f"{self.remaining:g}: {verdict}"
        )
        said = Statement("remark" if self.fits else "warning", taken)
        rest = self.plan.statements()
        return [*rest, said] if self.fits else [said, *rest]


def best_for(beliefs: Beliefs, query: Query, epsilon: float) -> Calibration:
    """The least noise among mechanisms with a per-entry bound, which compose."""
    made: list[Calibration] = []
    for name in COMPOSING:
        with suppress(NotApplicable):
            made.append(calibrate(name, beliefs, query, epsilon))
    return min(made, key=lambda one: one.mean_scale)


# -- account -------------------------------------------------------------------------------------


_PURCHASE = "private_transitions"
_CHARGE = "charge"
_CURVE = "influence_curve"
_PARTS = 1000
"""Of a refused epsilon, in which what would fit is looked for."""


class Account(Shown):
    """A budget for everything that is ever released about the data of one name.

    Parameters
    ----------
    ledger
        A `Ledger`, or a path or URL to open one.
    name
        Named after the data. Who gives the same name shares the budget. The first charge creates
        the account.
    budget
        Pufferfish epsilon for everything released about these data.
    horizon
        The most entries that one segment of the series may ever have. By default a series without
        an end; for beliefs that do not mix, the longest segment of the first data.
    confirm_data
        The same data under a second name, and data that changed since an earlier release, are
        refused; ``True`` confirms that this is intended.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> import pufferkit as pk
    >>> chain, data = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), [0, 0, 1] * 100
    >>> anna = pk.Account(mkdtemp() + "/ledger.db", "anna", budget=1.0)
    >>> release = pk.release(data, chain, pk.count(1), 0.4, account=anna)
    >>> anna.remaining, anna.spent
    (0.6, 0.4)
    >>> pk.release(data, chain, pk.count(1), 0.4, account=anna).value == release.value  # free
    True
    >>> anna.cost(data, chain, pk.histogram(), 0.3) < 0.35
    True
    >>> anna.plan(data, chain, pk.histogram(), 0.3).fits
    True
    """

    def __init__(
        self,
        ledger: Ledger | str,
        name: str,
        budget: float,
        *,
        horizon: int | None = None,
        confirm_data: bool = False,
    ) -> None:
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self.name = checked_name("name", name)
        self._budget = allowed_micro(budget)
        self._horizon = None if horizon is None else checks.whole("horizon", horizon, 1)
        self._meant = checks.flag("confirm_data", confirm_data)
        self._made: dict[str, Calibration] = {}
        self._marks: tuple[Series, SeriesData] | None = None
        self._beliefs: Beliefs | None = None
        self._about: Mapping[str, Any] | None = None
        known, about = self._look()
        if about is not None:
            Terms(self._budget, "composed", about).check(known, {"about": about})

    def __str__(self) -> str:
        left, budget = show(self._balance.remaining), show(self._budget)
        return f"Account({self.name!r}, {left} of {budget} remain)"

    def table_rows(self) -> list[dict[str, Any]]:
        """One row for each charge, for a data frame or a notebook."""
        return self.history

    def caption(self) -> str:
        """What remains, in one line."""
        left, budget = show(self._balance.remaining), show(self._budget)
        return f"account {printable(self.name)}: {left} of {budget} remain"

    def shown_rows(self) -> list[dict[str, Any]]:
        """The charges in words: what was asked, and what it left."""
        names = {"query": "question", "window": "entries", "epsilon": "epsilon", "total": "spent"}
        return [
            {
                title: f"{row[name][0]:,} to {row[name][1]:,}" if name == "window" else row[name]
                for name, title in names.items()
            }
            for row in self.history
        ]

    @property
    def budget(self) -> float:
        """Epsilon for everything."""
        return in_epsilon(self._budget)

    @property
    def remaining(self) -> float:
        """Epsilon that is left."""
        return in_epsilon(self._balance.remaining)

    @property
    def spent(self) -> float:
        """Epsilon of everything released so far."""
        return in_epsilon(self._balance.total)

    @property
    def history(self) -> list[dict[str, Any]]:
        """One row for each charge, oldest first."""
        return [
            {
                "entry": entry.seq,
                "query": entry.body["query"],
                "window": tuple(entry.body["window"]),
                "mechanism": entry.body["mechanism"],
                "epsilon": in_epsilon(entry.epsilon),
                "scale": entry.body["scale"],
                "total": in_epsilon(entry.total),
                "rule": entry.body["rule"],
                "made_at": entry.made_at,
                "made_by": entry.made_by,
            }
            for entry in self.ledger.entries(self.name)
            if entry.kind == "charge"
        ]

    @property
    def profile(self) -> list[dict[str, Any]]:
        """The spending on the entries up to the last that was used, run by run (`entry_rows`)."""
        read = self.ledger.look([self.name])
        if self.name not in read.balances:
            return []
        standing = standing_of(read, read.balances[self.name])
        if standing.profile is None:
            raise NoTheorem("profile: a release gives no per-entry bound")
        if isinstance(standing.segments, str):
            raise NoTheorem("profile: the account has too many segments to list")
        return entry_rows(standing.profile, self.beliefs, standing.segments)

    @property
    def beliefs(self) -> Beliefs:
        """The beliefs under which the account pays, fixed by its first charge."""
        self._look()
        if self._beliefs is None:
            if self._about is None:
                raise ValueError(f"account: {self.name!r} has paid for nothing yet; give beliefs=")
            known = str(self._about["beliefs"])
            record = self.ledger.beliefs(known)
            if record is None:
                raise ValueError("beliefs: the ledger cannot hold their labels; give beliefs=")
            theta = beliefs_from_dict(record)
            if theta.digest != known:
                raise LedgerError(
                    f"ledger: the beliefs of {self.name!r} are missing or were changed; restore a "
                    "backup and run pufferkit ledger verify"
                )
            self._beliefs = theta
        return self._beliefs

    def plan(
        self,
        data: Any,
        beliefs: Any,
        query: Any,
        epsilon: float | None,
        *,
        window: Window | None = None,
    ) -> AccountPlan:
        """Every mechanism side by side, and what the best that composes would cost."""
        series = Subject.of(self, data, beliefs)
        wanted = series.wanted(query, epsilon, BEST, window, "")
        several = wanted.query if wanted.several is None else wanted.several
        table = plan(series.payer.theta, several, epsilon)  # type: ignore[arg-type]
        noise = series.calibrated(wanted)
        return AccountPlan(table, noise, series.cost(wanted, noise), self.remaining)

    def cost(
        self,
        data: Any,
        beliefs: Any,
        query: Any,
        epsilon: float | None,
        *,
        mechanism: str = BEST,
        window: Window | None = None,
        label: str = "",
    ) -> float:
        """What `release` with the same arguments would cost; nothing is written.

        0 for a release that is already stored.
        """
        series = Subject.of(self, data, beliefs)
        wanted = series.wanted(query, epsilon, mechanism, window, label)
        if (self.name, wanted.key) in self.ledger.look([self.name], [wanted.key]).values:
            return 0.0
        return series.cost(wanted, series.calibrated(wanted))

    def charge(
        self,
        entry_epsilon: float,
        window: tuple[int, int] | None = None,
        *,
        data: Any = None,
        beliefs: Any = None,
        label: str = "",
    ) -> float:
        """Charge what something else spends on these data: answers of `local.sanitize`, a library.

        Theorem: `entry_profile`, for the secrets and beliefs of its docstring. If the density of
        an output changes by a factor of at most e^b when one entry of the window changes, and by
        none when another entry does, it is a release of event-level epsilon b over the window,
        whatever made it: event-level epsilons add up entry by entry.

        Parameters
        ----------
        entry_epsilon
            Event-level epsilon b of the output, for each entry of the window: of mechanisms with
            differential privacy for one entry, their epsilon. Independent of the beliefs.
        window
            First and last entry that it uses, counted from 1; by default all of the data.
        data, beliefs
            The data, by which they are recognised, and the beliefs; the first charge of an account
            needs beliefs.
        label
            With a label the same charge is made once, however often it is asked for. Without one
            every call is a new charge. Charge before anything noisy is drawn.

        Returns
        -------
        The epsilon by which the account has grown; 0 for a label that was charged before.

        Raises
        ------
        OverBudget
            If the joint guarantee would exceed the budget; nothing is spent then.

        Examples
        --------
        >>> from tempfile import mkdtemp
        >>> import pufferkit as pk
        >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
        >>> anna = pk.Account(mkdtemp() + "/ledger.db", "anna", 1.0)
        >>> anna.charge(0.1, window=(1, 30), beliefs=chain, label="library") > 0.1
        True
        >>> anna.charge(0.1, window=(1, 30), label="library")
        0.0
        """
        b = spent_pico(checks.privacy(entry_epsilon)) / PICO
        if data is None and window is None:
            raise ValueError("window: first and last entry that were used; or give data=")
        theta = self.beliefs if beliefs is None else as_beliefs(beliefs)
        series = Subject.of(self, data, theta, reach=None if window is None else window[1])
        bounds = series.bounds(window)
        once = label or secrets.token_hex(16)
        key = digest({"charge": b, "window": list(bounds), "label": label, "once": once})
        # Only its event-level epsilon is known, so no rule may use its mechanism.
        spending, facts = Spending(_CHARGE, b, bounds, b), {"query": label or _CHARGE}
        before = self._balance.total
        series.pay([series.payment(key, spending, facts, stores=False)], [], None)
        return in_epsilon(max(0, self._balance.total - before))

    def change_beliefs(self, beliefs: Any, *, why: str = "") -> float:
        """Pay under other beliefs from now on; the ledger records who changed them, when and why.

        What was spent is priced under both, and the larger counts: the promise of the account holds
        under the old beliefs for everything so far, and under the new ones for everything.

        Returns
        -------
        The epsilon by which the account has grown.

        Raises
        ------
        NoTheorem
            If a release was priced by its own promise, which holds under its beliefs only, or has
            no per-entry bound.
        OverBudget
            If what was released would cost more than the budget under the new beliefs.

        Examples
        --------
        >>> from tempfile import mkdtemp
        >>> import pufferkit as pk
        >>> calm = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
        >>> slow = pk.MarkovChain.steady([[0.95, 0.05], [0.2, 0.8]])
        >>> anna = pk.Account(mkdtemp() + "/ledger.db", "anna", budget=3)
        >>> _ = pk.release([0, 0, 1] * 100, calm, pk.count(1), 1, account=anna)
        >>> anna.change_beliefs(slow, why="a study of 2026") > 0
        True
        >>> anna.remaining < 2
        True
        """
        theta, read = as_beliefs(beliefs), self.ledger.look([self.name])
        if self.name not in read.balances:
            raise ValueError(f"account: {self.name!r} has paid for nothing yet; release with them")
        balance, about = read.balances[self.name], dict(read.opened[self.name]["about"])
        standing, old = standing_of(read, balance), self.beliefs
        if theta.states != old.states or (theta.entries is None) != (old.entries is None):
            raise ValueError("beliefs: must have the states of the account, in the same order")
        if about.get("step") is not None:
            check_step(theta.step, float(about["step"]))
        if standing.promised or standing.profile is None:
            raise NoTheorem(
                "beliefs: an earlier release was priced by its own promise, which holds under its "
                "beliefs only; open another account for the new ones"
            )
        if owed(theta.sources) is not None:
            raise ValueError("beliefs: were bought from data; open another account for them")
        segments, profile = standing.segments, standing.profile
        lengths = (standing.last,) if isinstance(segments, str) else segments
        several = isinstance(segments, str) or len(lengths) > 1
        if several and theta.fixed_start is not None and about.get("origin") is not None:
            raise NoTheorem(
                "beliefs: say how a segment begins, and the account does not know at which times "
                "its later segments began; give beliefs for any start, or any first slot"
            )
        if len(lengths) == 1 and about.get("origin") is not None and about.get("step") is not None:
            every = round(about["step"] * SECOND)
            theta.check_clock(Calendar(int(about["origin"]), every, about.get("zone")), lengths)
        declared = self._horizon or about.pop("horizon", None)
        about.pop("horizon", None)
        horizon = horizon_of(declared, theta, max(lengths or (1,)), None, self.name)
        about["beliefs"] = theta.digest
        if isinstance(segments, str) and horizon is not None:  # too many to list
            loss = profile.largest_loss(theta, horizon)
        else:
            loss = profile.loss(theta, lengths, None, horizon)
        total = max(balance.total, spent_micro(loss))
        terms = Payer(self.ledger, theta, horizon, balance.budget).terms(about, None)
        self.ledger.change_terms(self.name, terms, total, after=balance.entries, why=why)
        self._about, self._beliefs = None, theta
        self._made.clear()
        return in_epsilon(total - balance.total)

    def _reaching(self, reach: int) -> tuple[int, ...]:
        """The segments of the series, of which only the entries up to one are known."""
        segments = standing_of(self.ledger.look([self.name]), self._balance).segments
        if isinstance(segments, str):
            raise ValueError("data: the account has many segments; give data=")
        *closed, last = segments or (0,)
        return *closed, max(last, reach - sum(closed))

    @property
    def _balance(self) -> Balance:
        return self._look()[0]

    def _recognised(self, data: Series) -> SeriesData:
        """By which data are recognised; that of the last data is kept."""
        if self._marks is None or not _same(self._marks[0], data):
            self._marks = data, SeriesData(data.codes, data.states, data.lengths)
        return self._marks[1]

    def _look(self) -> tuple[Balance, Mapping[str, Any] | None]:
        """Balance and terms; an account that does not exist is empty."""
        read = self.ledger.look([self.name])
        known = read.balances.get(self.name)
        if known is None:
            return Balance(self.name, "composed", self._budget, 0, 0), None
        about = read.opened[self.name]["about"]
        if self._about is not None and self._about != about:
            self._beliefs = None  # changed by another process
        self._about = about
        return known, about


@dataclass(frozen=True, eq=False)
class Wanted:
    """A release that is asked for: its query, its window in the account and the entries there."""

    query: Query
    epsilon: float | None
    mechanism: str
    bounds: tuple[int, int]
    part: Series
    key: str
    label: str = ""
    several: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """The data of an account under its beliefs; ``offset`` entries come before them.

    Without ``data`` only the number of entries is known.
    """

    account: Account
    payer: Payer
    data: Series | None
    terms: Terms
    offset: int
    lengths: tuple[int, ...]
    """The segments of the whole series of the account, up to the end of the data."""

    @classmethod
    def of(cls, account: Account, data: Any, beliefs: Any, reach: int | None = None) -> Subject:
        """Data checked against beliefs and account, in the numbering of the account."""
        theta, name = as_beliefs(beliefs), account.name
        known = account._about or account._look()[1]
        series, clock = None, None
        if data is None:
            lengths = account._reaching(checks.whole("window", reach, 1))
            step = theta.step if known is None else known.get("step")
        else:
            series = _series(data, theta)
            check_series(theta, series)
            calendar, step, lengths = series.calendar, series.step, series.lengths
            if calendar is not None:
                clock = Clock(calendar.starts[0], calendar.every, calendar.timezone)
        ledger, budget = account.ledger, account._budget
        payer = Payer(ledger, theta, None, budget, confirm_data=account._meant)
        about, offset, lengths = payer.placed(name, known, lengths, clock, step)
        payer.horizon = horizon_of(account._horizon, theta, max(lengths), known, name)
        about = about if data is not None else {**(known or {}), **about}
        return cls(account, payer, series, payer.terms(about, known), offset, lengths)

    @property
    def marks(self) -> SeriesData | None:
        """By which the whole series is recognised; ``None`` if only a later part is given."""
        if self.data is None or self.offset:
            return None
        return self.account._recognised(self.data)

    @property
    def clocked(self) -> bool:
        """Whether a clock tells the places of the entries."""
        return self.data is not None and self.data.calendar is not None

    def bounds(self, window: Window | Period | None) -> tuple[int, int]:
        """First and last entry, in the numbering of the account."""
        least, most = self.offset + 1, sum(self.lengths)
        if window is None:
            return least, most
        period = window if isinstance(window, Period) else period_of(window)
        if period is not None:
            if self.data is None:
                raise ValueError("window: a period needs data=, which tell the times of entries")
            first, last = inside(self.data, period)
            return first + self.offset, last + self.offset
        first, last = (checks.whole("window", n, 1) for n in window)  # type: ignore[union-attr]
        if not least <= first <= last <= most:
            raise ValueError(
                f"window: needs {least} <= first <= last <= {most}, got {first} to {last}"
            )
        return first, last

    def part(self, bounds: tuple[int, int]) -> Series:
        """The entries of a window."""
        assert self.data is not None
        return self.data.window(bounds[0] - self.offset, bounds[1] - self.offset)

    def wanted(
        self, query: Any, epsilon: float | None, mechanism: str, window: Any, label: str
    ) -> Wanted:
        """What is asked for, with its key; a window that no theorem covers is refused.

        The key of a period does not depend on the entries that were observed in it: rows that
        arrive late do not make it another release.
        """
        bounds = self.bounds(window)
        part, period = self.part(bounds), None
        if window is not None:
            period = window if isinstance(window, Period) else period_of(window)
        states = self.payer.theta.states
        if mechanism not in ANY_START:
            check_start(bounds, self.payer.theta, self.lengths)
        several, asked = _bound(query, states, part)
        stated: Any = asked.digest
        if several is not None:
            stated = {name: [own.digest, error] for name, (own, error) in several.items()}
        elif period is not None and isinstance(query, Question):
            stated = query.digest
        key = digest(
            {
                "query": stated,
                "window": list(bounds) if period is None else period.key,
                "epsilon": None if epsilon is None else float(checks.privacy(epsilon)),
                "mechanism": mechanism,
                "label": label,
            }
        )
        return Wanted(asked, epsilon, mechanism, bounds, part, key, label, several)

    def calibrated(self, wanted: Wanted) -> Calibration:
        """The noise for what is asked for."""
        if wanted.several is not None:
            made = joint_plan(self.payer.theta, wanted.several, wanted.epsilon).calibration
            return self._holding(made)
        return self.calibrate(wanted.query, checks.privacy(wanted.epsilon), wanted.mechanism)

    def calibrate(self, query: Query, epsilon: float, mechanism: str) -> Calibration:
        """The noise of a mechanism, made once for all windows of the same lengths and gaps."""
        theta, made = self.payer.theta, self.account._made
        horizon = self.payer.horizon
        key = digest(requested(mechanism, theta, query, epsilon, {"horizon": horizon}))
        if key not in made:
            if horizon is not None and mechanism in (BEST, _CURVE):
                check_states(theta, query)
                made[key] = endless(theta, query, epsilon, horizon)
            elif mechanism == BEST:
                made[key] = best_for(theta, query, epsilon)
            else:
                made[key] = calibrate(mechanism, theta, query, epsilon)
        return self._holding(replace(made[key], query=query))

    def _holding(self, calibration: Calibration) -> Calibration:
        """The calibration, with what its beliefs were bought for, which the account holds."""
        if self._bought is None:
            return calibration
        known = replace(calibration.evidence, bought=self._bought.entry_epsilon)
        return replace(calibration, evidence=known)

    def payment(
        self, key: str, spending: Spending | None, facts: Mapping[str, Any], **more: Any
    ) -> Payment:
        """What is asked of the account."""
        return Payment(
            self.account.name,
            key,
            self.terms,
            spending,
            self.lengths,
            tuple(facts.items()),
            clocked=self.clocked,
            data=self.marks,
            **more,
        )

    def asked(self, wanted: Wanted, calibration: Calibration | None) -> Payment:
        """What a release asks of the account; without noise if it is stored already."""
        part, (first, last) = wanted.part, wanted.bounds
        if calibration is None:
            return self.payment(wanted.key, None, {})
        spending = Spending.of(calibration, wanted.bounds)
        # Where a clock counts entries, a later part may be given alone: it must be another one.
        alone = self.clocked and self.data is not None and len(part) == len(self.data)
        return self.payment(
            wanted.key,
            replace(spending, gaps=None if part.pattern is None else joined(part.pattern)),
            {
                "query": calibration.query.name,
                "labels": calibration.query.labels,
                "scale": calibration.scale,
                "calibration": calibration.digest,
                "label": wanted.label,
                "use": ("entries", first, last + 1),
            },
            endless=calibration.evidence.horizon is not None,
            rows=SeriesData(part.codes, part.states, part.lengths, thinned=False)
            if alone
            else None,
        )

    def owed(self, asked: Payment) -> Owed:
        """What the account would owe for a release; nothing is written."""
        asking = self._with_purchase([asked])
        read = self.account.ledger.look([self.account.name], [one.key for one in asking])
        return self.payer.owing(read, asking)[0]

    def cost(self, wanted: Wanted, noise: Calibration) -> float:
        """What a release would add to the total; nothing is written."""
        asked = self.asked(wanted, noise)
        owed = self.owed(asked)
        self.account.ledger.check_data(data_of([asked]), confirm_data=self.account._meant)
        return in_epsilon(owed.total - owed.balance.total)

    def pay(
        self,
        asked: Sequence[Payment],
        made: Sequence[tuple[Wanted, Calibration | None]],
        read: Read | None,
    ) -> list[Mapping[str, Any]]:
        """Draw, then write charges and values in one transaction before anything is returned."""
        account, everything = self.account, self._with_purchase(asked)
        before = len(everything) - len(asked)

        def draw(numbers: Sequence[int]) -> list[Mapping[str, Any]]:
            drawn = []
            for wanted, calibration in (made[number - before] for number in numbers):
                assert calibration is not None
                value = calibration.release(calibration.checked(wanted.part), anyway=True)
                drawn.append(json.loads(canonical(value.to_dict())))  # as stored
            return drawn

        def refused(owed: Owed) -> OverBudget:
            balance, first = owed.balance, owed.charges[0]
            if first.key == self._purchase_key and (first.total or 0) > balance.budget:
                return OverBudget(
                    f"budget: the beliefs were bought from these data, which alone costs "
                    f"{show(first.total or 0)} of {show(balance.budget)}; give a larger budget"
                )
            alone = len(made) == 1 and made[0][0].several is None
            fits = self._what_fits(*made[0]) if alone else ""
            return over_budget(owed.total - balance.total, balance.remaining, fits)

        values, _ = self.payer.pay(everything, draw, read=read, refused=refused)
        account._beliefs = self.payer.theta
        account._about = account._about or self.terms.about
        return values

    def released(self, wanted: Sequence[Wanted], anyway: bool) -> list[Release]:
        """The stored release of each window; those that are new are one payment."""
        account, keys = self.account, [one.key for one in wanted]
        read = account.ledger.look([account.name], keys)
        made = list[tuple[Wanted, Calibration | None]]()
        for one in wanted:
            stored = (account.name, one.key) in read.values
            made.append((one, None if stored else self.calibrated(one)))
        first, noise = made[0]
        if first.several is None and noise is not None:
            warn_if_drowned(noise, self.payer.theta, anyway=anyway, stacklevel=5)
        values = self.pay([self.asked(*one) for one in made], made, read)
        return [Release.from_dict(value) for value in values]

    def _what_fits(self, wanted: Wanted, refused: Calibration | None) -> str:
        """The largest epsilon, to three digits, for which the same mechanism fits the budget."""
        assert refused is not None
        most = refused.epsilon

        def epsilon(part: int) -> float:
            return three_digits(most * part / _PARTS)

        def refuses(part: int) -> bool:
            smaller = self.calibrate(wanted.query, epsilon(part), wanted.mechanism)
            try:
                owed = self.owed(self.asked(wanted, smaller))
            except NoTheorem:
                return True
            return owed.total > owed.balance.budget

        fits = least_passing(refuses, 0, _PARTS) - 1
        name = refused.mechanism if wanted.mechanism == BEST else wanted.mechanism
        return f"epsilon {epsilon(fits):g} would fit ({name})" if fits else "no epsilon would fit"

    @cached_property
    def _bought(self) -> Spending | None:
        """What the data have been spent for the beliefs, on every entry."""
        bought = owed(self.payer.theta.sources)
        if bought is None:
            return None
        entries = sum(self.lengths)
        if entries < bought.entries:
            raise ValueError(
                f"beliefs: were {bought.words}, and the data have {entries:,}; give all of them, "
                "or, for data of other people, use PrivateTransitions.for_others"
            )
        b = spent_pico(bought.entry_epsilon) / PICO
        # Only its event-level epsilon holds under these beliefs, so no rule knows the mechanism.
        return Spending(_PURCHASE, b, (1, entries), b)

    @property
    def _purchase_key(self) -> str:
        b = None if self._bought is None else self._bought.entry_epsilon
        return digest({_PURCHASE: b, "beliefs": self.payer.theta.digest})

    def _with_purchase(self, asked: Sequence[Payment]) -> list[Payment]:
        """The release, after the purchase of its beliefs, which is charged once."""
        if self._bought is None:
            return list(asked)
        facts, more = {"query": _PURCHASE}, {"stores": False, "bought": True}
        return [self.payment(self._purchase_key, self._bought, facts, **more), *asked]


def release_series(
    data: Any,
    beliefs: Any,
    query: Any,
    epsilon: float | None,
    *,
    account: Account | None,
    mechanism: str,
    window: Window | None,
    label: str,
    anyway: bool,
) -> Release | WindowReleases:
    """Answer a question about one series, paid from an account if there is one (`release`)."""
    if epsilon is not None and (odd := questioned(checks.privacy(epsilon))) is not None:
        warnings.warn(odd, UserWarning, stacklevel=3)
    if account is None:
        theta = as_beliefs(beliefs)
        series = _series(data, theta)
        if window is not None:
            raise ValueError(
                "window: needs an account; without one, give the entries of the window"
            )
        several, asked = _bound(query, theta.states, series)
        if several is not None:
            return joint_plan(theta, several, epsilon).calibration.release(series, anyway=True)
        level = checks.privacy(epsilon)
        best = mechanism == BEST
        made = plan(theta, asked, level).best if best else calibrate(mechanism, theta, asked, level)
        warn_if_drowned(made, theta, anyway=anyway, stacklevel=4)
        return made.release(series, anyway=True)
    if not isinstance(account, Account):
        raise ValueError(f"account: must be an Account, got {type(account).__name__}")
    subject = Subject.of(account, data, beliefs)
    rule = rule_of(window)
    if rule is None:
        one = subject.wanted(query, epsilon, mechanism, window, label)
        return subject.released([one], anyway)[0]
    assert subject.data is not None
    whole, partial = by_rule(subject.data, rule)
    wanted = [subject.wanted(query, epsilon, mechanism, period, label) for period in whole]
    releases = subject.released(wanted, anyway)
    rows = {period.name: one for period, one in zip(whole, releases, strict=True)}
    return WindowReleases(rows, tuple(period.name for period in partial))


class WindowReleases(dict[str, Release]):
    """A release for each window of a rule, by the name of the window; ``left_out`` are partial."""

    def __init__(self, rows: Mapping[str, Release], left_out: tuple[str, ...]) -> None:
        super().__init__(rows)
        self.left_out = left_out

    def plot(self) -> Any:
        """A matplotlib figure: a line for each state over the windows."""
        return pufferkit.plots.figure_of(self)


def _bound(
    query: Any, states: tuple[Any, ...], over: Series
) -> tuple[Mapping[str, Any] | None, Query]:
    """The query about these data; several with their errors, and the query that joins them."""
    if isinstance(query, Mapping):
        check_pairs(query)
        several = {
            name: (_bound(own, states, over)[1], error) for name, (own, error) in query.items()
        }
        return several, joint_query({name: own for name, (own, _) in several.items()}, states)
    if not isinstance(query, (Query, Question)):
        raise ValueError(
            f"query: must be a question, such as histogram() or count('walking'), got {query!r:.60}"
        )
    return None, query if isinstance(query, Query) else bound(query, states, over)


def _same(one: Series, other: Series) -> bool:
    """Whether two series have the same entries."""
    alike = one.states == other.states and one.lengths == other.lengths
    return one is other or (alike and np.array_equal(one.codes, other.codes))


def _series(data: Any, theta: Beliefs) -> Series:
    """The data as a series over the states of the beliefs."""
    states, names = theta.states, theta.entries
    if names is not None and isinstance(data, Mapping):
        data = in_order(data, names)
    series = data if isinstance(data, Series) else Series.of(data, states)
    if set(series.states) - set(states):
        series = Series.of(series, states)
    if names is not None and series.lengths != (len(names),):
        raise ValueError(
            f"data: must have one value for each of the {len(names)} entries of the beliefs, "
            f"got {len(series)}"
        )
    return series
