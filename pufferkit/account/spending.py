"""What was spent: by one release, and on each entry by all of them, as runs.

For releases under which all states are equally far apart, event-level epsilons add up as numbers.
Each kind of query has its own distances between states, so a run of entries has one number for each
kind. Neighbours with the same spending form one run: a year of hourly releases is a single run.
Sums are rounded up after each release, so a history gives the same numbers whether it is added up
at once or continued from a stored state.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import combinations, pairwise, zip_longest
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.account.amounts import PICO, in_epsilon
from pufferkit.account.chain import Entry
from pufferkit.beliefs.base import Beliefs
from pufferkit.checks import Floats
from pufferkit.data.series import Pattern, observed_places, runs_of
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.curve.graphs import record_loss
from pufferkit.influence.curve.steps import off_diagonal
from pufferkit.influence.profile import InfluenceCurve, metric_of_sum
from pufferkit.influence.shape.theorem_s import NoisyRun
from pufferkit.mechanisms.calibration import ALONE, Calibration
from pufferkit.mechanisms.influence_curve import Contribution, contributions_of
from pufferkit.mechanisms.release import Guarantee
from pufferkit.records import ByDigest
from pufferkit.rounding import EPS, round_up

# -- spending ------------------------------------------------------------------------------------


QUILTS = frozenset({"markov_quilt", "markov_quilt_approx"})
ENTRYWISE = QUILTS | ALONE | {"influence_curve", "gk16", "group_dp", "entry_dp"}
"""Mechanisms that give a per-entry bound, whatever else they promise. The mechanisms for sums do
so for sums only: their theorem does not involve the Lipschitz constant of another query."""
_NEAR = 1e-9


@dataclass(frozen=True)
class Spending:
    """The facts about one release that an account needs.

    Attributes
    ----------
    mechanism, epsilon
        The mechanism and the epsilon it promised.
    window
        First and last entry used, counted from 1.
    entry_epsilon
        The most by which one entry changes the log-likelihood of the output; ``None`` if there is
        no bound.
    quilt
        Nodes of the binding quilt, for mechanisms that have one.
    quilt_sets
        Name of the family of quilts that was searched, for networks.
    contributions
        For sums: every state of the chain with its contribution, from 0 to 1, or a row of such
        numbers. The release hardly distinguishes states with similar contributions. ``None``: all
        states are equally far apart.
    smooth
        Whether the contributions are to coordinates with sech noise, so that Theorem S counts
        how far hidden regimes differ on average.
    gaps
        Lengths of the runs of entries in the window, alternately observed and unobserved, beginning
        with an observed run; unobserved entries spend nothing. ``None``: every entry was observed.
    made_for
        Lengths of the independent segments that the noise was calibrated for, in increasing order;
        ``None`` if they are those of the series.
    beliefs
        Digest of the beliefs that the noise was calibrated for; ``None`` if it needs none. The
        promise of the release holds under these. Under others only its event-level epsilon does.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(week, pk.histogram(week.states, 100), 0.5)
    >>> first = pk.Spending.of(noise)
    >>> first.window
    (1, 100)
    >>> pk.compose([first, first], week, 100).epsilon
    1.05105
    """

    mechanism: str
    epsilon: float
    window: tuple[int, int]
    entry_epsilon: float | None = None
    quilt: tuple[int, ...] | None = None
    quilt_sets: str | None = None
    contributions: tuple[tuple[Hashable, Contribution], ...] | None = None
    smooth: bool = False
    gaps: tuple[int, ...] | None = None
    made_for: tuple[int, ...] | None = field(default=None, compare=False)
    beliefs: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        # A float: `_tightest` reads an int as micro-epsilon.
        object.__setattr__(self, "epsilon", checks.privacy(self.epsilon))
        first, last = self.window
        if not 1 <= first <= last:
            raise ValueError(f"window: must satisfy 1 <= first <= last, got {first} to {last}")
        if self.entry_epsilon is not None:
            checks.positive("entry_epsilon", self.entry_epsilon)
        if self.gaps is not None and sum(self.gaps) != last - first + 1:
            raise ValueError(
                f"gaps: they cover {sum(self.gaps)} entries, the window {first} to {last} does not"
            )
        if self.smooth and self.contributions is None:
            raise ValueError("contributions: must be given for sech noise, a row for each state")
        if self.contributions is not None:
            rows = [
                np.atleast_1d(checks.numbers("contributions", v)) for _, v in self.contributions
            ]
            apart = [float(np.abs(one - other).sum()) for one, other in combinations(rows, 2)]
            least = np.min(rows, axis=0) if rows else np.ones(1)
            if least.any() or not abs(max(apart, default=0.0) - 1) < _NEAR:
                raise ValueError(
                    "contributions: must have one for each state, the least 0 and the largest 1 "
                    f"(for rows: two at L1 distance 1), got {self.contributions}"
                )

    @classmethod
    def of(cls, calibration: Calibration, window: tuple[int, int] | None = None) -> Spending:
        """The spending of a release by this calibration; by default over the whole series."""
        if calibration.guarantee == Guarantee.SECRETS:
            raise NoTheorem(
                "an account covers every entry, and this release hides only the pairs of secrets "
                "it was calibrated for; calibrate it without secrets="
            )
        known, made_for = calibration.mechanism in ENTRYWISE, sum(calibration.query.lengths)
        if not calibration.composes:
            known = calibration.query.weights is not None
            if window is not None and window[1] - window[0] + 1 < made_for:
                raise ValueError(
                    f"window: {window[0]} to {window[1]} is shorter than the {made_for} entries "
                    f"that {calibration.mechanism} was calibrated for, and a shorter sum may need "
                    "more noise; calibrate it for the window"
                )
        if window is not None and window[1] - window[0] >= made_for:
            raise ValueError(
                f"window: {window[0]} to {window[1]} has {window[1] - window[0] + 1} entries, but "
                f"the noise was calibrated for {made_for}"
            )
        gaps = None if calibration.query.pattern is None else joined(calibration.query.pattern)
        if window is not None and gaps is not None and sum(gaps) != window[1] - window[0] + 1:
            if "pattern" in (calibration.verification_data or {}):
                raise ValueError(
                    f"window: {window[0]} to {window[1]} is shorter than the {sum(gaps)} entries "
                    "whose gaps the noise is calibrated for; make the query with the series of the "
                    "window"
                )
            gaps = None
        theta = calibration.beliefs
        added: tuple[Contribution, ...] | None = calibration.spent_rows
        if added is None:
            added = contributions_of(theta, calibration.query, calibration.scales)
        return cls(
            calibration.mechanism,
            calibration.epsilon,
            window or (1, made_for),
            calibration.entry_epsilon if known else None,
            calibration.evidence.quilt,
            contributions=None
            if added is None or theta is None
            else tuple(zip(theta.states, added, strict=True)),
            smooth=calibration.family == "discrete sech",
            gaps=gaps,
            made_for=tuple(sorted(calibration.query.lengths)),
            beliefs=None if theta is None else theta.digest,
        )

    @property
    def used(self) -> list[tuple[int, int]]:
        """First and last entry of each run that spends something."""
        runs, place = [], self.window[0]
        for n, count in enumerate(self.gaps or (self.window[1] - place + 1,)):
            if n % 2 == 0 and count:
                runs.append((place, place + count - 1))
            place += count
        return runs

    def ordered(self, states: Sequence[Hashable]) -> Spending:
        """The spending with contributions in the order of the states."""
        if self.contributions is None:
            return self
        added = dict(self.contributions)
        if set(added) != set(states):
            raise ValueError(
                f"contributions: are for the states {list(added)}, the beliefs have {list(states)}"
            )
        return replace(self, contributions=tuple((state, added[state]) for state in states))


@dataclass(frozen=True)
class Smooth:
    """A kind of query with sech noise: row x is what an entry x adds to each coordinate."""

    rows: tuple[tuple[float, ...], ...]


KindOfSum = tuple[Contribution, ...] | Smooth | None
"""What entries add to a sum with Laplace noise, or with sech noise; ``None`` where all states are
equally far apart."""


def kind_of(added: Any) -> Any:
    """The contributions of states, read from JSON, as tuples again."""
    if added is None:
        return None
    if isinstance(added, Mapping):
        return Smooth(kind_of(added["sech"]))
    return tuple(tuple(row) if isinstance(row, list) else row for row in added)


def _run(
    count: int, states: Sequence[Hashable], kinds: Sequence[KindOfSum], row: Amounts
) -> NoisyRun:
    """Entries that spent these amounts by queries of these kinds, rounded up."""
    beside, rows = np.zeros((len(states), len(states))), []
    for b, kind in zip(row, kinds, strict=False):
        if isinstance(kind, Smooth):
            rows.append(b * np.array(kind.rows))
        else:
            beside += b * distance_of(states, kind)
    beside *= 1 + (len(kinds) + 2) * EPS
    return NoisyRun(count, np.hstack(rows) if rows else None, beside)


def distance_of(states: Sequence[Hashable], kind: KindOfSum) -> Floats:
    """The distances between states under one kind of query."""
    if isinstance(kind, Smooth):
        return metric_of_sum(kind.rows)
    return off_diagonal(len(states)) if kind is None else metric_of_sum(kind)


def spending_of(entry: Entry, states: Sequence[Hashable]) -> Spending:
    """The spending of one charge; ``states`` are those of its contributions."""
    body = entry.body
    pico, quilt = body["entry_privacy_pico"], body["quilt"]
    added, gaps = kind_of(body["contributions"]), body["gaps"]
    return Spending(
        body["mechanism"],
        in_epsilon(entry.epsilon),
        (body["window"][0], body["window"][1]),
        None if pico is None else pico / PICO,
        None if quilt is None else tuple(quilt),
        contributions=None if added is None else tuple(zip(states, added, strict=True)),
        smooth=body["smooth"],
        gaps=None if gaps is None else tuple(gaps),
        beliefs=body.get("beliefs"),
    )


def joined(pattern: Pattern) -> tuple[int, ...]:
    """The runs of successive segments, joined into the runs of one stretch of entries."""
    places = np.concatenate([observed_places(runs) for runs in pattern])
    return runs_of(places)


# -- spent profile -------------------------------------------------------------------------------


_MOST_USED = 200
"""Releases with more runs than this are charged as if they had used their whole windows."""

_MOST_KEPT = 5_000
"""Most runs of a profile; beyond this, neighbours are merged at the larger of their spendings."""

_MOST_ENTRIES = 5_000
"""For longer segments `entry_rows` gives only the largest loss."""

_EXACT = 12
"""Segments with up to this many runs are evaluated run by run."""

Amounts = tuple[float, ...]
AmountRun = tuple[int, int, Amounts]
"""First entry, last entry, and the spending on each of them by each kind of query."""


@dataclass(frozen=True)
class SpentProfile:
    """What was spent on each entry, as runs."""

    kinds: tuple[KindOfSum, ...] = ()
    """For each kind of query the contribution of every state, in the order of the states."""
    runs: tuple[AmountRun, ...] = ()
    """Runs of entries with some spending, in order."""

    def with_spending(self, spending: Spending) -> SpentProfile:
        """The profile with one more release, which has a per-entry bound."""
        added, b = spending.contributions, spending.entry_epsilon
        assert b is not None
        kind: Any = None if added is None else tuple(value for _, value in added)
        kind = Smooth(kind) if spending.smooth else kind
        return self.after(spending.used, b, kind)

    def nowhere_above(self, spending: Spending) -> bool:
        """Whether no entry has spent more than this release alone spends on the entries it uses."""
        alone = SpentProfile().with_spending(spending)
        (row,) = {row for _, _, row in alone.runs} or {()}
        limits = dict(zip(alone.kinds, row, strict=False))
        rows = {amounts for _, _, amounts in self.runs}
        spent = (pair for row in rows for pair in zip(self.kinds, row, strict=False))
        return all(b <= limits.get(kind, 0.0) for kind, b in spent)

    def after(self, used: Iterable[tuple[int, int]], b: float, kind: KindOfSum) -> SpentProfile:
        """The profile with one more release, of event-level epsilon ``b`` on the runs it used."""
        known = self if kind in self.kinds else replace(self, kinds=(*self.kinds, kind))
        place, runs = known.kinds.index(kind), list(known.runs)
        own = [(first, last) for first, last in used]
        if len(own) > _MOST_USED:
            own = [(own[0][0], own[-1][1])]
        for first, last in own:
            _add(runs, first, last, place, b)
        if len(runs) > _MOST_KEPT:
            runs = _fewer(runs, _MOST_KEPT * 3 // 4)
        return replace(known, runs=tuple(runs))

    def loss(
        self,
        theta: Beliefs,
        sizes: Sequence[int],
        enough: float | None = None,
        horizon: int | None = None,
    ) -> float:
        """Loss of every entry of every segment on the influence curve.

        With ``enough``, any upper bound that does not exceed ``enough`` may be returned instead,
        and histories with many runs are merged into fewer, which never lowers the result. With
        ``horizon`` the result is at most the loss of a series of so many entries of which each
        spends as much as the one that spends most; and where entries do not separate what lies on
        either side, it covers those that are still to come (`with_the_rest`).
        """
        if not self.runs:
            return 0.0
        if theta.entries is not None:
            return record_loss(theta, self._largest(theta, 1).cost(len(theta.states)))
        bound = math.inf
        if enough or horizon is not None:
            # A profile with the largest spending everywhere loses no less.
            bound = _loss_of(ByDigest(theta), self._largest(theta, max(horizon or 0, *sizes)))
            if enough is not None and bound <= enough:
                return bound
        if horizon is not None and theta.hides_states:
            sizes = with_the_rest(sizes, self.runs[-1][1], horizon)
        worst, start = 0.0, 1
        seen: set[tuple[tuple[int, Amounts], ...]] = set()
        ends = [last for _, last, _ in self.runs]
        for size in sizes:
            own = self._within(start, start + size - 1, bisect_left(ends, start))
            start += size
            if enough is not None and len(own) > _EXACT:
                own = [(b - a + 1, row) for a, b, row in _fewer(_placed(own), _EXACT)]
            if tuple(own) in seen:
                continue
            seen.add(tuple(own))
            runs = [_run(count, theta.states, self.kinds, row) for count, row in own]
            worst = max(worst, _loss_of(ByDigest(theta), *runs))
        return min(worst, bound)

    def largest_loss(self, theta: Beliefs, length: int) -> float:
        """The loss if each of so many entries spent as much as the one that spends most."""
        if not self.runs:
            return 0.0
        return _loss_of(ByDigest(theta), self._largest(theta, length))

    def _largest(self, theta: Beliefs, length: int) -> NoisyRun:
        """So many entries, each with the largest spending of one."""
        row: Amounts = reduce(_either, {row for _, _, row in self.runs}, ())
        return _run(length, theta.states, self.kinds, row)

    def noisy_runs(self, states: Sequence[Hashable], first: int, last: int) -> list[NoisyRun]:
        """The spending of entries ``first`` to ``last``, as runs."""
        at = bisect_left(self.runs, first, key=lambda run: run[1])
        return [
            _run(count, states, self.kinds, row) for count, row in self._within(first, last, at)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as the ledger keeps it."""
        runs = [[first, last, *row] for first, last, row in self.runs]
        kinds = [{"sech": own.rows} if isinstance(own, Smooth) else own for own in self.kinds]
        return {"kinds": kinds, "runs": runs}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SpentProfile:
        """What ``to_dict`` described."""
        runs = tuple((int(run[0]), int(run[1]), tuple(run[2:])) for run in data["runs"])
        return cls(tuple(kind_of(kind) for kind in data["kinds"]), runs)

    def _within(self, first: int, last: int, at: int) -> list[tuple[int, Amounts]]:
        """The runs of a segment, including the unused ones between them, with their lengths."""
        nothing: Amounts = ()
        own, place = list[tuple[int, Amounts]](), first
        for a, b, row in self.runs[at:]:
            if a > last:
                break
            if a > place:
                own.append((a - place, nothing))
            begin, end = max(a, first), min(b, last)
            own.append((end - begin + 1, row))
            place = end + 1
        if place <= last:
            own.append((last - place + 1, nothing))
        return own


def _add(runs: list[AmountRun], first: int, last: int, place: int, b: float) -> None:
    """Spend ``b`` on entries ``first`` to ``last`` by one kind of query, in place."""
    low = high = bisect_left(runs, first, key=lambda run: run[1])
    new, here = list[AmountRun](), first
    while high < len(runs) and runs[high][0] <= last:
        a, z, row = runs[high]
        if a < first:
            new.append((a, first - 1, row))
        if a > here:
            new.append((here, a - 1, _more((), place, b)))
        here = min(z, last) + 1
        new.append((max(a, first), here - 1, _more(row, place, b)))
        if z > last:
            new.append((last + 1, z, row))
        high += 1
    if here <= last:
        new.append((here, last, _more((), place, b)))
    left, right = max(0, low - 1), min(len(runs), high + 1)
    runs[left:right] = _joined([*runs[left:low], *new, *runs[high:right]])


def _joined(runs: Iterable[AmountRun]) -> list[AmountRun]:
    """Merge neighbouring runs with the same spending."""
    joined: list[AmountRun] = []
    for first, last, row in runs:
        if joined and joined[-1][1] + 1 == first and joined[-1][2] == row:
            joined[-1] = (joined[-1][0], last, row)
        else:
            joined.append((first, last, row))
    return joined


def _more(row: Amounts, place: int, b: float) -> Amounts:
    """A row with ``b`` more at one place, rounded up, without zeros at its end."""
    own = [*row, *[0.0] * (place + 1 - len(row))]
    own[place] = round_up(own[place] + b, 1) if own[place] else b
    return tuple(own)


def _placed(own: Sequence[tuple[int, Amounts]]) -> list[AmountRun]:
    runs, place = [], 1
    for count, row in own:
        runs.append((place, place + count - 1, row))
        place += count
    return runs


def _fewer(runs: list[AmountRun], most: int) -> list[AmountRun]:
    """Merge runs until at most ``most`` are left; a merged run takes the larger spending.

    Runs are merged where that adds the least (entries times event-level epsilon).
    """
    while len(runs) > most:
        added = []
        for n, ((a, b, row), (c, d, other)) in enumerate(pairwise(runs)):
            both = sum(_either(row, other))
            spent = (b - a + 1) * sum(row) + (d - c + 1) * sum(other)
            added.append(((d - a + 1) * both - spent, n))
        taken: set[int] = set()
        for _, n in sorted(added):
            if len(runs) - len(taken) <= most:
                break
            if not {n - 1, n, n + 1} & taken:
                taken.add(n)
        fewer, skip = list[AmountRun](), False
        for n, run in enumerate(runs):
            if skip:
                skip = False
            elif n in taken:
                after, skip = runs[n + 1], True
                fewer.append((run[0], after[1], _either(run[2], after[2])))
            else:
                fewer.append(run)
        runs = _joined(fewer)
    return runs


def _either(row: Amounts, other: Amounts) -> Amounts:
    """The larger of the two, for each kind."""
    return tuple(max(own) for own in zip_longest(row, other, fillvalue=0.0))


@lru_cache(maxsize=4096)
def _loss_of(known: ByDigest[Beliefs], *runs: NoisyRun) -> float:
    """The loss of a segment of these runs of entries; many subjects have the same."""
    return _curve(known, sum(run.count for run in runs)).epsilon(runs)


def curve_of(theta: Beliefs, length: int) -> InfluenceCurve:
    """The influence curve of segments of this length, cached."""
    return _curve(ByDigest(theta), length)


@lru_cache(maxsize=32)
def _curve(known: ByDigest[Beliefs], length: int) -> InfluenceCurve:
    return InfluenceCurve(known.itself, length)


def with_the_rest(sizes: Sequence[int], last: int, horizon: int) -> tuple[int, ...]:
    """The segments up to entry ``last``, the last of them with entries that are still to come.

    An entry that comes after all that were used loses no more than the last of them, if it depends
    on the others through that one alone, and if any two values of both are secrets. Where it does
    not, as with hidden states and named secrets, it may lose more.
    """
    kept, end = list[int](), 0
    for size in sizes:
        kept.append(size)
        end += size
        if end >= last:
            break
    return (*kept[:-1], max(kept[-1], horizon))


def profile_of(history: Sequence[Spending], theta: Beliefs) -> SpentProfile:
    """The profile of a history; ``NoTheorem`` if a release has no per-entry bound."""
    unknown = sorted({s.mechanism for s in history if s.entry_epsilon is None})
    if unknown:
        raise NoTheorem(f"{', '.join(unknown)} gives no per-entry bound")
    profile = SpentProfile()
    for spending in history:
        profile = profile.with_spending(spending.ordered(theta.states))
    return profile


def entry_rows(
    profile: SpentProfile, theta: Beliefs, lengths: Sequence[int]
) -> list[dict[str, Any]]:
    """Runs of entries, with the spending of all releases together on each entry.

    ``event_epsilon`` is the event-level epsilon of the entry: the sum over the releases that used
    it, for the two values that they distinguish best. ``epsilon`` is the Pufferfish loss of the
    entry under that profile, by the influence curve: what all releases reveal about it, also
    through its neighbours. The largest over all entries is what `entry_profile` charges. In
    segments of more than `_MOST_ENTRIES` entries every run has the largest loss of the segment.
    """
    if theta.entries is not None:
        raise NotApplicable(f"profiles over time are for chains, not for a {theta.description}")
    rows: list[dict[str, Any]] = []
    start = 0
    for size in lengths:
        runs = profile.noisy_runs(theta.states, start + 1, start + size)
        most = [float(run.cost(len(theta.states)).max()) for run in runs]
        spent = np.repeat(most, [run.count for run in runs])
        curve = curve_of(theta, size)
        if size <= _MOST_ENTRIES and spent.any():
            losses = np.max(list(curve.entry_losses(runs).values()), axis=0)
        else:
            losses = np.full(size, curve.epsilon(runs))
        changes = np.flatnonzero((np.diff(spent) != 0) | (np.diff(losses) != 0)) + 1
        for first, after in zip([0, *changes], [*changes, size], strict=True):
            rows.append(
                {
                    "first": start + int(first) + 1,
                    "last": start + int(after),
                    "event_epsilon": float(spent[first]),
                    "epsilon": float(losses[first]),
                }
            )
        start += size
    return rows
