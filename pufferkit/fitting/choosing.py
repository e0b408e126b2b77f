"""From a table of public people to beliefs that held-out people do not refute.

People are split. Every class of `pufferkit.fitting.candidates` is fitted to one part and tested on
the other (`pufferkit.fitting.decision`). A class can be recommended only if it budgets for the
influence that the held-out people show; of these, the one with the least noise for the query is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.people_counts import People, calibrated_contamination
from pufferkit.beliefs.sequences import Codes
from pufferkit.data.query import Query
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.fitting.candidates import (
    hidden_regimes,
    people_hull,
    regimes_of_people,
    seasonal_chain,
    single_chain,
    two_sided_region,
    unsure_of_person,
)
from pufferkit.fitting.decision import (
    INFLUENCE,
    PREDICTION,
    ROWS,
    Days,
    InfluenceCheck,
    flexible_predictors,
    influence_check,
    influence_of_people,
    prediction_check,
    rows_check,
)
from pufferkit.fitting.measured_influence import MeasuredInfluence
from pufferkit.fitting.ratio_tests import Check
from pufferkit.influence.progress import TextProgress
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.records import Report
from pufferkit.threads import one_thread

REGIMES = (2, 3, 4, 6, 8, 12)
"""Numbers of regimes that are tried, one after another."""

_STRETCHES = 4
_GAIN = 0.003
_THINNED = (2, 5, 10)
_KNOWN = "holds against adversaries who know this one chain"
_REGION = (
    "holds against adversaries who know the chain in force, any that the counts leave plausible"
)

_SHORT = {ROWS: "rows", PREDICTION: "prediction", INFLUENCE: "influence"}


@dataclass(frozen=True, eq=False)
class Candidate:
    """One class of beliefs, tested on people who were held out."""

    name: str
    """Its name in the table."""
    beliefs: ChainClass | None
    """The class; ``None`` if it could not be built."""
    promise: str
    """The adversaries it holds against, or why it could not be built."""
    checks: tuple[Check, ...] = ()
    """The results of the tests."""
    scale: float | None = None
    """Laplace scale for the query; ``None`` if there is none."""
    at_its_word: bool = False
    """Whether one fitted model is taken as the truth. It is not recommended: such a fit usually
    shows less influence than the truth."""

    @property
    def influence(self) -> InfluenceCheck | None:
        """The test that decides."""
        return next((check for check in self.checks if isinstance(check, InfluenceCheck)), None)

    @property
    def covers(self) -> bool:
        """Whether the class budgets for the influence of the held-out people, and not by slack.

        Series drawn from the class must reach the influence of the people, or its rows must be
        theirs. Predictions worse than a flexible predictor's are reported but do not decide,
        because influence already measures what matters.
        """
        influence, rows = self.influence, self._answer(ROWS)
        if self.scale is None or influence is None or not influence.passed or rows is False:
            return False
        return influence.p_value is not None or rows is True

    def _answer(self, name: str) -> bool | None:
        return next((check.passed for check in self.checks if check.name == name), None)

    @property
    def failed(self) -> tuple[Check, ...]:
        """Tests that it fails."""
        return tuple(check for check in self.checks if check.passed is False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the beliefs in words."""
        return {
            "name": self.name,
            "beliefs": None if self.beliefs is None else self.beliefs.description,
            "promise": self.promise,
            "covers": self.covers,
            "scale": self.scale,
            "checks": [asdict(check) for check in self.checks],
        }


@dataclass(frozen=True, eq=False)
class Choice(Report):
    """Every class that was fitted, and the recommended one."""

    rows: tuple[Candidate, ...]
    """The classes, from the simplest to the widest."""
    measured: MeasuredInfluence | None
    """Influence of one entry on people held out; ``None`` if it cannot be measured."""
    public: int
    held_out: int
    """Numbers of people, or stretches of one person, used for fitting and for testing."""
    query: str
    epsilon: float
    """The query and epsilon for which noise is compared."""
    advice: tuple[str, ...] = ()
    """Remedies if no class passes, and remarks on the split."""

    @property
    def best(self) -> Candidate | None:
        """The class with the least noise among those that cover and are not a bare fit."""
        covering = [row for row in self.rows if row.covers and not row.at_its_word]
        return min(covering, key=lambda row: row.scale or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "recommended": None if self.best is None else self.best.name,
            "measured": None if self.measured is None else asdict(self.measured),
            "public": self.public,
            "held_out": self.held_out,
            "query": self.query,
            "epsilon": self.epsilon,
            "advice": list(self.advice),
        }

    def table(self) -> list[tuple[str, str, str, str]]:
        """Class, promise, covers and noise, as words."""
        return [
            (row.name, row.promise, _covers(row), "-" if row.scale is None else f"{row.scale:.4g}")
            for row in self.rows
        ]

    def __str__(self) -> str:
        lines = [
            f"built on {self.public}, tested on {self.held_out} held out; "
            f"noise for {self.query} at epsilon {self.epsilon:g}"
        ]
        if self.measured is not None:
            lines.append(
                f"one entry gives away {self.measured.point:.3g} entries within "
                f"{self.measured.window} on either side (at least {self.measured.lower:.3g})"
            )
        cells = [("class", "covers?", "noise"), *((r[0], r[2], r[3]) for r in self.table())]
        wide = [max(len(row[n]) for row in cells) for n in range(3)]
        lines += ["  ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)) for row in cells]
        lines += [f"{row.name}: {row.promise}" for row in self.rows]
        best = self.best
        if best is None:
            lines.append("recommended: none of these; people held out refute them")
        else:
            lines.append(f"recommended: {best.name}")
            lines += [f"  but: {check.name}: NO, {check.text}" for check in best.failed]
        return "\n".join([*lines, *self.advice])


@one_thread()
def choose_beliefs(
    people: People | Table | Sequence[Series],
    query: Query,
    *,
    epsilon: float = 1.0,
    day: int | None = None,
    firsts: Sequence[int] | None = None,
    window: int | None = None,
    held_out: int | None = None,
    regimes: Sequence[int] = REGIMES,
    alpha: float = 0.1,
    repetitions: int = 100,
    seed: int = 0,
    progress: TextProgress | None = None,
) -> Choice:
    """Fit every class to some public people, test it on the others, and recommend one.

    Parameters
    ----------
    people
        Public people: a `Table`, or one `Series` each over the same states. A single person is cut
        into stretches; the result then says nothing about other people.
    query
        The query about the series to be released, with the lengths of that series.
    epsilon
        Epsilon at which noise is compared.
    day
        Entries in a day; a table with times knows it. Without it there are no seasonal classes.
    firsts
        With series: slot of the first entry of each, from 0 to ``day - 1``; 0 if left out.
    window
        Entries on either side within which influence is measured; by default a third of a day.
    held_out
        How many people to test on; by default a quarter, drawn with ``seed``.
    regimes
        Numbers of hidden regimes to try, in this order, until the influence is covered and
        predictions no longer improve. That choice is made on those held out.
    alpha
        A calibrated hull misses a new person with this probability at most, with enough people.
    repetitions, seed
        Number and seed of the series drawn from the classes.
    progress
        Called with the name of the next step.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    >>> people = [pk.Series.of(chain.sample(60, seed=n).tolist(), [0, 1]) for n in range(4)]
    >>> choice = choose_beliefs(people, pk.count(1, 60), regimes=(), repetitions=2)
    >>> choice.rows[0].name, choice.held_out
    ('single chain', 1)
    """
    epsilon = checks.privacy(epsilon)
    tell = progress or (lambda _: None)
    built, tested, notes = _split(People.of(people, day, firsts), held_out, seed)
    segments = [np.asarray(s) for one in tested.series for s in one.segments]
    slots = [row for number in range(len(tested.series)) for row in tested.slots(number)]
    clock = Days.of(segments, day, window)
    each = [[np.asarray(s) for s in one.segments] for one in tested.series]
    learned = [np.asarray(s) for s in built.pooled.segments]
    times = [row for number in range(len(built.series)) for row in built.slots(number)]
    tell("flexible predictors")
    flexible = flexible_predictors(learned, len(built.states), clock, slots=times, seed=seed)

    def row(name: str, theta: ChainClass, words: str = "") -> Candidate:
        tell(name)
        asked = (
            rows_check(segments, theta, clock, slots=slots),
            prediction_check(segments, theta, clock, flexible, slots=slots),
            influence_check(each, theta, clock, repetitions=repetitions, seed=seed),
        )
        scale = influence_curve(theta, query, epsilon).scale
        return Candidate(name, theta, promise_of(theta) + words, asked, scale)

    rows = []
    for name, make in (
        ("single chain", single_chain),
        ("seasonal chain", seasonal_chain),
        ("two-sided region", two_sided_region),
        ("hull of people", people_hull),
    ):
        rows.append(_attempt(name, partial(_built, name, make, built, row)))
    rows[-1] = replace(rows[-1], promise=rows[-1].promise + _unsure(built, epsilon))
    rows.append(_attempt("calibrated hull", lambda: _calibrated(built, alpha, row)))
    rows += _regime_rows(built, clock, regimes, row, seed)
    measured = None
    try:
        measured, _ = influence_of_people(each, len(built.states), clock, seed)
    except NotApplicable as reason:
        notes.append(f"influence cannot be measured: {reason}")
    choice = Choice(
        tuple(rows), measured, len(built.series), len(tested.series), query.name, epsilon
    )
    if choice.best is None:
        tell("coarser steps")
        notes += _advice(built, tested, clock, repetitions, seed)
    return replace(choice, advice=tuple(notes))


def _attempt(name: str, make: Callable[[], Candidate]) -> Candidate:
    try:
        return make()
    except NotApplicable as reason:
        return Candidate(name, None, f"not built: {reason}")


def _unsure(built: People, epsilon: float) -> str:
    """The bound for an adversary unsure which of the public people it is."""
    if len(built.series) < 2:
        return ""
    most = epsilon + unsure_of_person(built)
    return f"; someone unsure which of these people it is loses at most {most:.3g}"


def _built(
    name: str, make: Callable[[People], ChainClass], people: People, row: Callable[..., Candidate]
) -> Candidate:
    return row(name, make(people))


def _calibrated(built: People, alpha: float, row: Callable[..., Candidate]) -> Candidate:
    calibrated = calibrated_contamination(built, alpha)
    words = f"; contamination {calibrated.eta:.3g}, {calibrated.words}"
    return row("calibrated hull", people_hull(built, min(calibrated.eta, 0.99)), words)


def _regime_rows(
    built: People, clock: Days, regimes: Sequence[int], row: Callable[..., Candidate], seed: int
) -> Iterator[Candidate]:
    """One model for everybody, with more regimes until they no longer help; then one per person."""
    best, model, nats = None, None, float("inf")
    for count in regimes:
        try:
            theta, fitted = hidden_regimes(built, count, seed)
            words = "; the fit is taken at its word"
            tried = replace(row(f"{count} hidden regimes", theta, words), at_its_word=True)
        except NotApplicable as reason:
            yield Candidate(f"{count} hidden regimes", None, f"not built: {reason}")
            break
        own = tried.checks[1].statistic
        worse = own is not None and own > nats - _GAIN
        if best is not None and best.covers and worse:
            break
        best, model, nats = tried, fitted, min(nats, nats if own is None else own)
    if best is None or model is None:
        return
    yield best
    name = f"{model.regimes} regimes of people"
    yield _attempt(name, lambda: row(name, regimes_of_people(built, model, clock.window, seed)))


def _split(everybody: People, held_out: int | None, seed: int) -> tuple[People, People, list[str]]:
    """People to fit and people to test; a single person is cut into stretches of whole days."""
    notes = []
    if len(everybody.series) == 1:
        notes.append(
            "one person only, cut into stretches: nothing here is about other people; add people"
        )
        everybody = _stretches(everybody)
        order = np.arange(len(everybody.series))
    else:
        order = np.random.default_rng(seed).permutation(len(everybody.series))
    total = len(everybody.series)
    count = max(1, total // 4) if held_out is None else checks.whole("held_out", held_out, 1)
    if count >= total:
        raise ValueError(
            f"held_out: {count} of {total} people leaves nobody to build on; hold out "
            f"{total - 1} at most"
        )
    return everybody.only(sorted(order[:-count])), everybody.only(sorted(order[-count:])), notes


def _stretches(people: People) -> People:
    """A person's longest segment in stretches; the last is as long as a quarter, and tests."""
    one = people.series[0]
    codes: Codes = max(one.segments, key=len)
    start = sum(one.lengths[: [len(own) for own in one.segments].index(len(codes))])
    step = people.day or 1
    part = max(len(codes) // _STRETCHES // step, 1) * step
    cuts = [part * n for n in range(_STRETCHES)]
    if cuts[-1] + 2 > len(codes):
        raise NotApplicable(
            f"people: one series of {len(codes)} entries is too short to build and to test; give "
            "more people or a longer series"
        )
    usable = [
        (one.window(start + cut + 1, start + cut + len(piece)), (people.firsts[0] + cut) % step)
        for cut, piece in zip(cuts, np.split(codes, cuts[1:]), strict=True)
        if (piece >= 0).any()
    ]
    return People(
        tuple(piece for piece, _ in usable),
        people.day,
        tuple(first for _, first in usable),
    )


def promise_of(theta: ChainClass) -> str:
    """The adversaries that a class covers, in one sentence."""
    if theta.promise is not None:
        return theta.promise
    return _KNOWN if theta.lists_matrices else _REGION


def _covers(row: Candidate) -> str:
    check = row.influence
    if row.beliefs is None or check is None:
        return "not built"
    names = ", ".join(_SHORT[other.name] for other in row.failed)
    if row.covers:
        yes = "as fitted" if row.at_its_word else "yes"
        return f"{yes}, but: {names}" if names else yes
    return f"NO: {names}" if names else "?"


def _advice(built: People, tested: People, clock: Days, repetitions: int, seed: int) -> list[str]:
    """Remedies: every second, fifth or tenth entry, if a simple class covers them."""
    lines = ["what would pass: more hidden regimes, fewer levels, more people, or coarser steps"]
    for factor in _THINNED:
        if clock.day // factor < 6:
            break
        coarse = Days(clock.day // factor, max(clock.window // factor, 1), clock.known)
        try:
            theta = people_hull(_thinned(built, factor))
            each = [
                [np.asarray(s) for s in one.segments] for one in _thinned(tested, factor).series
            ]
            check = influence_check(each, theta, coarse, repetitions=repetitions, seed=seed)
        except (NotApplicable, ValueError):
            continue
        words = "passes" if check.passed else "does not pass"
        lines.append(f"  every {factor}th entry: the hull of people {words}; {check.text}")
        if check.passed:
            break
    return lines


def _thinned(people: People, factor: int) -> People:
    day = None if people.day is None or people.day % factor else people.day // factor
    thin = []
    for one in people.series:
        parts = [segment[::factor] for segment in one.segments]
        thin.append(Series(np.concatenate(parts), one.states, tuple(len(p) for p in parts)))
    firsts = tuple(first // factor for first in people.firsts)
    return People(tuple(thin), day, firsts if day else (0,) * len(thin))
