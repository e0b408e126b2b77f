"""From public people to beliefs that none of them refutes.

People are divided into groups. Each group in turn is left out: every class is fitted to the others
and tested on the group (`pufferkit.fitting.check_model`), until one fold *refutes* it. Otherwise
the class *survives* the fold, or the fold has *no power*: its people are too few, or too briefly
observed, to show twice the influence that the class budgets. Only a class that survives every fold
can be recommended, and never a single fitted model, which usually shows less influence than the
truth.

=====================  =========================================================================
single chain           one chain for everybody, taken as known
seasonal chain         the same for each hour of the day
two-sided region       every chain that the counts leave plausible, forward and backward
hull of people         mixtures of each person's chain, of each quarter of each person's day, and
                       of the pooled chain, changing at any time, forwards and backwards
calibrated hull        the same, with the contamination that people left out have shown
hidden regimes         entries emitted by hidden regimes, one model for everybody
regimes of people      each person's own transitions between these regimes
=====================  =========================================================================

Where people differ, hulls and regimes of people also hold one
person beyond those seen (`pufferkit.fitting.baum_welch.beyond`): a new one is more influential than
each of n people with probability 1 / (n + 1), and no test on these people can show it.

Classes are ranked by promise: the noise of each is asked what the adversaries of the others would
learn from it, and the class whose noise leaves the least to them comes first. A loss falls with the
noise, so that is the class with the most noise; one that contains another never ranks below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import loss_if_unsure
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.provenance import FoldRecord
from pufferkit.beliefs.regime_class import RegimeClass
from pufferkit.data.query import Query
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.fitting import baum_welch
from pufferkit.fitting.baum_welch import (
    FEW_PEOPLE,
    REFITS,
    beyond,
    people_models,
    refits,
    regime_influence,
)
from pufferkit.fitting.check_model import (
    INFLUENCE,
    Days,
    InfluenceCheck,
    Person,
    influence_check,
    influence_of_each,
    largest_influence,
    rows_check,
    times_the_data,
)
from pufferkit.fitting.fit import fit
from pufferkit.fitting.measured_influence import VISITS, MeasuredInfluence, TooFewWindows
from pufferkit.fitting.people import PARTS, SMOOTHING, Codes, People
from pufferkit.fitting.row_tests import Check
from pufferkit.influence.profile import InfluenceCurve
from pufferkit.influence.progress import TextProgress
from pufferkit.mechanisms.influence_curve import influence_curve, metric_of
from pufferkit.records import Report
from pufferkit.shown import aligned
from pufferkit.threads import one_thread

REGIMES = (2, 3, 4, 6, 8, 12)
"""Numbers of regimes that are tried, one after another."""

FOLDS = 5
"""Groups of people that are left out in turn, if there are as many people."""

LEVEL = 0.05
"""The chance that some fold refutes a class that is right."""

MOST_FITTED = 60_000
"""Most entries to which hidden regimes are fitted; of longer data the first days of everybody."""

_STRETCHES = 4
_GAIN = 0.003
_FIRST_ROUNDS = 5
_LONG = 30.0
_THINNED = (2, 5, 10)
_SINGLE = ("single chain", "seasonal chain")
_KNOWN = "holds against adversaries who know this one chain"
_REGION = (
    "holds against adversaries who know the chain in force, any that the counts leave plausible"
)
_QUICKLY = (
    "quick tries four regimes at most, on fewer folds and entries: without it more may survive"
)
_TAKEN = "; the fit is taken at its word"

FoldVerdict = Literal["yes", "no", "no power"]


@dataclass(frozen=True)
class Fold:
    """What the people of one fold say about a class fitted to the others."""

    people: tuple[int, ...]
    """Who was left out: their numbers from 1, in the order of the data."""
    rows: Check
    """Whether the moves of each part of the day are those of the class."""
    influence: InfluenceCheck
    """Whether the class budgets for the influence of one entry; this decides."""

    @property
    def verdict(self) -> FoldVerdict:
        """Refuted, survived, or too little data to refute anything.

        Series drawn from the class must reach the influence of the people, or its rows must be
        theirs: a budget that is large by slack alone says nothing.
        """
        if self.influence.passed is False or self.rows.passed is False:
            return "no"
        meant = self.influence.p_value is not None or self.rows.passed is True
        return "yes" if self.influence.passed and self.influence.power and meant else "no power"


@dataclass(frozen=True, eq=False)
class Candidate:
    """One class of beliefs, fitted to everybody and tested on every fold."""

    name: str
    """Its name in the table."""
    beliefs: ChainClass | None
    """The class, fitted to everybody; ``None`` if it could not be built."""
    promise: str
    """The adversaries it holds against, or why it could not be built."""
    folds: tuple[Fold, ...] = ()
    """What the folds say, up to the first that refutes it."""
    scale: float | None = None
    """Laplace scale for the query; ``None`` if there is none."""
    single: bool = False
    """Whether it is one fitted model taken as the truth, which is never recommended."""
    losses: dict[str, float] = field(default_factory=dict)
    """Loss of an entry to the adversaries of the other candidates, at this noise."""

    @property
    def verdict(self) -> FoldVerdict:
        """``"no"`` if some fold refutes it, ``"yes"`` if it survives all, else ``"no power"``."""
        said = {fold.verdict for fold in self.folds}
        if "no" in said or self.scale is None:
            return "no"
        return "yes" if said == {"yes"} else "no power"

    @property
    def survived(self) -> int:
        """The number of folds that had power and did not refute it."""
        return sum(fold.verdict == "yes" for fold in self.folds)

    @property
    def covers(self) -> bool:
        """Whether it can be recommended: it survives every fold and is no single fitted model."""
        return self.verdict == "yes" and not self.single

    @property
    def influence(self) -> InfluenceCheck | None:
        """The test that decides, in the fold that comes closest to refuting the class."""
        tested = [fold.influence for fold in self.folds if fold.influence.budget is not None]
        return min(
            tested,
            key=lambda check: (
                bool(check.passed),
                (check.budget or 0.0) / (check.statistic or 1.0),
            ),
            default=None,
        )

    @property
    def more_data(self) -> float | None:
        """How many times the data it would take to have power in every fold."""
        return max((fold.influence.more_data or 1.0 for fold in self.folds), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the beliefs in words."""
        return {
            "name": self.name,
            "beliefs": None if self.beliefs is None else self.beliefs.description,
            "promise": self.promise,
            "verdict": self.verdict,
            "survived": self.survived,
            "single": self.single,
            "scale": self.scale,
            "losses": self.losses,
            "folds": [{"verdict": fold.verdict, **asdict(fold)} for fold in self.folds],
        }


@dataclass(frozen=True, eq=False)
class Choice(Report):
    """Every class that was fitted, what the folds say, and the recommended one."""

    rows: tuple[Candidate, ...]
    """The classes, from the simplest to the widest."""
    measured: MeasuredInfluence | None
    """Largest influence of one entry of anybody; ``None`` if it cannot be measured."""
    people: int
    """Number of people, or of stretches of one person."""
    folds: tuple[tuple[int, ...], ...]
    """Who was left out in each fold: their numbers from 1, in the order of the data."""
    seed: int
    """Seed of the folds, and of what was drawn."""
    query: str
    epsilon: float
    """The query and epsilon for which noise is compared."""
    advice: tuple[str, ...] = ()
    """Remedies if no class survives, and remarks on the data."""
    whose: str = "people"
    """What was left out: people, or stretches of one person."""

    @property
    def ranked(self) -> tuple[Candidate, ...]:
        """The classes that can be recommended, the widest promise first.

        That is the most noise first: of two classes the one with more noise leaves less to anybody,
        and no more than epsilon to the adversaries of the other.
        """
        return self._widest_first(row for row in self.rows if row.covers)

    @staticmethod
    def _widest_first(rows: Iterable[Candidate]) -> tuple[Candidate, ...]:
        return tuple(sorted(rows, key=lambda row: -(row.scale or 0.0)))

    @property
    def best(self) -> Candidate | None:
        """The class with the widest promise that survives every fold."""
        return self.ranked[0] if self.ranked else None

    @property
    def influence(self) -> dict[str, InfluenceCheck] | None:
        """By class the test that decides; ``None`` if the influence cannot be measured."""
        tested = {row.name: row.influence for row in self.rows if row.influence is not None}
        return tested if tested and self.measured is not None else None

    @property
    def tested_beliefs(self) -> ChainClass | None:
        """The recommended beliefs, which tell how they were tested and who is not covered."""
        best = self.best
        if best is None or best.beliefs is None:
            return None
        tested = FoldRecord(
            self.people if self.whose == "people" else 1,
            len(self.folds),
            self.seed,
            self.query,
            self.epsilon,
            tuple((name, float(f"{loss:.6g}")) for name, loss in best.losses.items()),
        )
        plain = best.beliefs.to_dict()
        _first_source(plain)["tested"] = tested.to_dict()
        return ChainClass.from_dict(plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "recommended": None if self.best is None else self.best.name,
            "ranked": [row.name for row in self.ranked],
            "steps": list(self.steps),
            "measured": None if self.measured is None else asdict(self.measured),
            "people": self.people,
            "folds": [list(fold) for fold in self.folds],
            "seed": self.seed,
            "query": self.query,
            "epsilon": self.epsilon,
            "advice": list(self.advice),
        }

    @property
    def steps(self) -> tuple[str, ...]:
        """The price of each step down from the best, in words.

        Steps are the classes that survive, single models too, and the class with the least noise.
        """
        lines = []
        for wide, narrow in pairwise(_downwards(self.rows)):
            gained = narrow.losses.get(wide.name)
            price = (wide.scale or 0.0) / (narrow.scale or 1.0)
            held = "" if gained is None else f", where {narrow.name} lets them learn {gained:.3g}"
            refuted = " (refuted)" if narrow.verdict == "no" else ""
            lines.append(
                f"{wide.name}: {price:.3g} times the noise of {narrow.name}{refuted}; its "
                f"adversaries learn {self.epsilon:g}{held}"
            )
        return tuple(lines)

    def shown_rows(self) -> list[dict[str, str]]:
        """Class, promise, folds survived, noise, and loss to the other candidates, as words."""
        return [
            {
                "class": row.name,
                "promise": row.promise,
                "folds survived": _survived(row, len(self.folds)),
                "noise": "-" if row.scale is None else f"{row.scale:.4g}",
                "loss to the others' adversaries": _losses(row, self.epsilon),
            }
            for row in self.rows
        ]

    def warnings(self) -> list[str]:
        """That nothing is recommended, if so."""
        if self.best is not None:
            return []
        unsure = [row for row in self.rows if row.verdict == "no power" and not row.single]
        words = "no class survives every fold" if not unsure else "these data have no power"
        return [f"recommended: none of these; {words}"]

    def caption(self) -> str:
        """Who was left out, for which noise, and how much an entry gives away."""
        groups = "; ".join(", ".join(map(str, fold)) for fold in self.folds)
        head = (
            f"{self.people} {self.whose} in {len(self.folds)} folds, seed {self.seed}, left out in "
            f"turn: {groups}; noise for {self.query} at epsilon {self.epsilon:g}"
        )
        if self.measured is None:
            return head
        return (
            f"{head}\none entry gives away {self.measured.point:.3g} entries within "
            f"{self.measured.window} on either side (at least {self.measured.lower:.3g})"
        )

    def text_table(self) -> str:
        """Every class: folds survived, noise, and the loss to the adversaries of the others."""
        cells = [("class", "folds survived", "noise", "loss to the others' adversaries")]
        for row in self.shown_rows():
            name, _, folds, noise, loss = row.values()
            cells.append((name, folds, noise, loss))
        return "\n".join(aligned(cells, ""))

    def remarks(self) -> list[str]:
        """The promise of each class, the recommended one, and what to do."""
        lines = [f"{row.name}: {row.promise}" for row in self.rows]
        best = self.best
        if best is not None:
            lines.append(f"recommended: {best.name}, the widest promise that survives every fold")
            lines += self.steps
            others = {name: loss for name, loss in best.losses.items() if loss > self.epsilon}
            lines.append(
                f"not covered: {', '.join(f'{n} ({v:.3g})' for n, v in others.items())}"
                if others
                else "the adversaries of all other candidates are covered too"
            )
        return [*lines, *self.advice]


@one_thread()
def choose_beliefs(
    people: People | Table | Sequence[Series],
    query: Query,
    *,
    epsilon: float = 1.0,
    day: int | None = None,
    firsts: Sequence[int] | None = None,
    window: int | None = None,
    folds: int | None = None,
    regimes: Sequence[int] = REGIMES,
    alpha: float = 0.1,
    repetitions: int = 100,
    quick: bool = False,
    seed: int = 0,
    progress: TextProgress | None = None,
) -> Choice:
    """Fit every class to public people, test it on those left out in turn, and recommend one.

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
    folds
        Into how many groups people are divided; by default 5, or one for each person.
    regimes
        Numbers of hidden regimes to try, in this order. Half of the people choose the number that
        predicts the other half best; more are tried while the class of people is refuted.
    alpha
        A calibrated hull misses a new person with this probability at most, with enough people.
    repetitions, seed
        Number of series drawn from the classes; seed of these and of the folds.
    quick
        Three folds, at most four regimes and fewer entries for fitting them.
    progress
        Called with the name of the next step.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    >>> people = [pk.Series.of(chain.sample(60, seed=n).tolist(), [0, 1]) for n in range(4)]
    >>> choice = choose_beliefs(people, pk.count(1, 60), regimes=(), repetitions=2)
    >>> choice.rows[0].name, len(choice.folds)
    ('single chain', 4)
    """
    epsilon = checks.privacy(epsilon)
    given = People.of(people, day, firsts)
    everybody, notes = _everybody(given)
    groups = _groups(len(everybody.series), 3 if quick and folds is None else folds, seed)
    trial = _Trial(
        everybody,
        groups,
        Days.of(
            [np.asarray(s) for one in everybody.series for s in one.segments], everybody.day, window
        ),
        query,
        epsilon,
        LEVEL / len(groups),
        repetitions,
        seed,
        progress or (lambda _: None),
        MOST_FITTED // 3 if quick else MOST_FITTED,
    )
    trial.tell(trial.estimate(regimes))
    measured = None
    try:
        measured = largest_influence(trial.measure(range(len(everybody.series))))
    except NotApplicable as reason:
        notes.append(f"influence cannot be measured: {reason}")
    rows = [
        trial.row("single chain", _single_chain),
        trial.row("seasonal chain", lambda built: fit(built, "seasonal")),
        trial.row("two-sided region", lambda built: fit(built, "around")),
        trial.row("hull of people", lambda built: fit(built, "hull", beyond=True)),
        trial.row(
            "calibrated hull",
            lambda built: fit(built, "hull", inflate="calibrated", alpha=alpha, beyond=True),
        ),
        *trial.regime_rows([n for n in regimes if n <= 4] if quick else regimes),
    ]
    trial.tell("what the others' adversaries would learn")
    rows = _with_losses(rows, query, epsilon)
    notes += _too_rare(everybody)
    numbers = tuple(tuple(n + 1 for n in group) for group in groups)
    choice = Choice(
        tuple(rows),
        measured,
        len(everybody.series),
        numbers,
        seed,
        query.name,
        epsilon,
        whose="people" if len(given.series) > 1 else "stretches of one person",
    )
    if choice.best is not None:
        best = replace(choice.best, beliefs=choice.tested_beliefs)
        known = tuple(best if row.name == best.name else row for row in choice.rows)
        choice = replace(choice, rows=known)
    else:
        notes += [_QUICKLY] * quick
        notes += _power_words(choice, everybody)
        trial.tell("coarser steps")
        notes += trial.advice()
    return replace(choice, advice=tuple(notes))


@dataclass(frozen=True, eq=False)
class _Trial:
    """People, their folds, and what is asked."""

    everybody: People
    groups: list[list[int]]
    clock: Days
    query: Query
    epsilon: float
    level: float
    repetitions: int
    seed: int
    tell: Callable[[str], None]
    most: int
    measured: dict[int, list[Person]] = field(default_factory=dict)

    @cached_property
    def rest(self) -> list[People]:
        """For each fold those who are not left out."""
        everybody = range(len(self.everybody.series))
        return [self.everybody.only([n for n in everybody if n not in g]) for g in self.groups]

    def estimate(self, regimes: Sequence[int]) -> str:
        """What is to come, and what takes longest, by what a step took on one core of 2024."""
        entries = sum(len(one) for one in self.everybody.series)
        people, states = len(self.everybody.series), len(self.everybody.states)
        fits, fitted = 1 + len(self.groups), min(entries, self.most)
        again = REFITS if people < FEW_PEOPLE else 1
        kernels = people * (1 + PARTS * self.clock.known)
        takes = {
            "tests": 3e-6 * entries * fits,
            "the seasonal chain": 1e-3 * self.clock.day * states if self.clock.known else 0.0,
            "hulls": 1e-6 * kernels * states**2 * (2 * self.clock.window + 1) * (3 + fits),
            "hidden regimes": (3e-5 * fitted + 1e-6 * fitted * fits * again + 0.03 * people * fits)
            * bool(regimes),
        }
        longest, total = max(takes, key=lambda name: takes[name]), sum(takes.values())
        quick = "" if total < _LONG else "; quick takes fewer folds, regimes and entries"
        return (
            f"{entries:,} entries of {people} people, {len(self.groups)} folds, "
            f"{5 + 2 * bool(regimes)} classes: some {max(2, round(total))} s, most of it for "
            f"{longest}{quick}"
        )

    def measure(self, group: Sequence[int]) -> list[Person]:
        """The influence of these people; each is measured once."""
        states, people = len(self.everybody.states), []
        for number in group:
            if number not in self.measured:
                own = [[np.asarray(s) for s in self.everybody.series[number].segments]]
                try:
                    found = influence_of_each(own, states, self.clock, self.seed)
                except NotApplicable:
                    found = []
                self.measured[number] = found
            people += self.measured[number]
        if people:
            return people
        each = [[np.asarray(s) for s in self.everybody.series[n].segments] for n in group]
        return influence_of_each(each, states, self.clock, self.seed)

    def row(
        self,
        name: str,
        make: Callable[[People], ChainClass],
        make_fold: Callable[[int], ChainClass] | None = None,
    ) -> Candidate:
        """A class fitted to everybody; fitted to the others it is tested on one fold after another.

        The first fold that refutes it ends the tests.
        """
        make_fold = make_fold or (lambda number: make(self.rest[number]))
        folds: list[Fold] = []
        try:
            self.tell(name)
            theta = make(self.everybody)
            if name == "calibrated hull" and not theta.contamination:
                raise NotApplicable("people left out require no contamination: it is the hull")
            for number, group in enumerate(self.groups):
                self.tell(f"{name}, fold {number + 1} of {len(self.groups)}")
                folds.append(self.test(group, make_fold(number)))
                if folds[-1].verdict == "no":
                    break
            self.tell(f"{name}, noise")
            scale = influence_curve(theta, self.query, self.epsilon).scale
        except (NotApplicable, NoTheorem) as reason:
            return Candidate(name, None, f"not built: {reason}")
        single = name in _SINGLE or name.endswith("hidden regimes")
        unsure = loss_if_unsure(theta, self.epsilon)
        words = "" if unsure is None else f"; someone unsure of the member loses up to {unsure:.3g}"
        promise = promise_of(theta) + words + (_TAKEN if single else "")
        return Candidate(name, theta, promise, tuple(folds), scale, single)

    def test(self, group: Sequence[int], theta: ChainClass) -> Fold:
        """What the people left out say about a class that was fitted to the others."""
        tested = self.everybody.only(group)
        segments = [np.asarray(s) for one in tested.series for s in one.segments]
        slots = [row for number in range(len(tested.series)) for row in tested.slots(number)]
        rows = rows_check(segments, theta, self.clock, slots=slots, level=self.level)
        numbers = tuple(n + 1 for n in group)
        if rows.passed is False:
            refuted = InfluenceCheck(INFLUENCE, None, "not tested: the rows refute the class")
            return Fold(numbers, rows, refuted)
        try:
            influence = influence_check(
                self.measure(group),
                theta,
                self.clock,
                level=self.level,
                repetitions=self.repetitions,
                seed=self.seed,
            )
        except NotApplicable as reason:
            more = reason.more_data if isinstance(reason, TooFewWindows) else None
            influence = InfluenceCheck(INFLUENCE, None, str(reason), more_data=more)
        return Fold(numbers, rows, influence)

    def regime_rows(self, regimes: Sequence[int]) -> list[Candidate]:
        """The number that predicts best, or the first above it whose class of people survives."""
        rows: list[Candidate] = []
        for count in self._numbers(regimes) if regimes else ():
            self.tell(f"{count} hidden regimes")
            try:
                whole = baum_welch.fit(
                    self._levels(self.everybody),
                    len(self.everybody.states),
                    count,
                    restarts=4,
                    seed=self.seed,
                )
            except NotApplicable as reason:
                return [*rows, Candidate(f"{count} hidden regimes", None, f"not built: {reason}")]
            rows = self._of_regimes(whole)
            if rows[1].verdict != "no":
                break
        return rows

    def _of_regimes(self, whole: HiddenModel) -> list[Candidate]:
        """One model for everybody, and one for each person, with the regimes of this fit."""

        @cache
        def model(number: int) -> HiddenModel:
            return baum_welch.refine(whole, self._levels(self.rest[number]), iterations=50)

        def of_people(people: People, model: HiddenModel) -> RegimeClass:
            # Refitted to as many entries as the model was fitted to.
            return regimes_of_people(
                people, model, self.clock.window, self.seed, self._levels(people)
            )

        return [
            self.row(
                f"{whole.regimes} hidden regimes",
                lambda everybody: regime_class(whole, everybody),
                lambda number: regime_class(model(number), self.rest[number]),
            ),
            self.row(
                f"{whole.regimes} regimes of people",
                lambda everybody: of_people(everybody, whole),
                lambda number: of_people(self.rest[number], model(number)),
            ),
        ]

    def _numbers(self, regimes: Sequence[int]) -> list[int]:
        """The number of regimes with which half of the people predict the others, and larger ones.

        More are taken only if they gain 0.003 nats an entry.
        """
        half = max(len(self.everybody.series) // 2, 1)
        built = self._levels(self.everybody.only(range(half)))
        tested = self._levels(self.everybody.only(range(half, len(self.everybody.series))))
        entries = sum(int((np.asarray(piece) >= 0).sum()) for piece in tested)
        states, reached, chosen = len(self.everybody.states), -np.inf, 0
        for at, count in enumerate(regimes):
            self.tell(f"how well {count} regimes predict")
            model = baum_welch.fit(
                built, states, count, restarts=2, seed=self.seed, tolerance=_GAIN / 300
            )
            nats = baum_welch.log_likelihood(model, tested) / max(entries, 1)
            if nats < reached + _GAIN:
                break
            reached, chosen = nats, at
        return list(regimes[chosen : chosen + 2])

    def _levels(self, people: People) -> list[Codes]:
        """Segments for fitting regimes: of long data the first entries of everybody."""
        total = sum(len(one) for one in people.series)
        share = min(1.0, self.most / max(total, 1))
        pieces = [np.asarray(s) for one in people.series for s in one.segments]
        return [piece[: max(int(len(piece) * share), 2)] for piece in pieces]

    def advice(self) -> list[str]:
        """Remedies: every second, fifth or tenth entry, if the hull of people survives there."""
        lines = ["what may survive: more regimes, fewer levels, more people, or coarser steps"]
        for factor in _THINNED:
            if self.clock.day // factor < 6:
                break
            coarse = Days(
                self.clock.day // factor, max(self.clock.window // factor, 1), self.clock.known
            )
            thinned = replace(
                self, everybody=_thinned(self.everybody, factor), clock=coarse, measured={}
            )
            try:
                group = self.groups[0]
                fold = thinned.test(group, fit(thinned.rest[0], "hull", beyond=True))
            except (NotApplicable, NoTheorem, ValueError):
                continue
            words = {"yes": "survives", "no": "does not survive", "no power": "is not tested by"}
            lines.append(
                f"  one entry in {factor}: the hull of people {words[fold.verdict]} the first "
                f"fold; {fold.influence.text}"
            )
            if fold.verdict == "yes":
                break
        return lines


def _single_chain(people: People) -> ChainClass:
    return ChainClass.of(fit(people.pooled, smoothing=SMOOTHING))


def regime_class(model: HiddenModel, people: People) -> RegimeClass:
    """One model of hidden regimes for everybody."""
    return RegimeClass(
        model.transition,
        model.emission,
        people.states,
        fitted_on=people.source,
        step=people.step,
    )


def regimes_of_people(
    people: People,
    model: HiddenModel,
    window: int,
    seed: int = 0,
    fitted: Sequence[Codes] | None = None,
) -> RegimeClass:
    """Each person's own transitions between the regimes of the common model.

    With fewer than ten people also the refit to data simulated from the model, of twenty, that
    shows most influence: the fit alone would be overconfident. ``fitted`` are the segments that the
    model was fitted to, if not all. The twenty are compared after a few rounds, which move a fit
    most; the one that is taken goes on. Where people differ, also one `beyond` them.
    """
    each = [[np.asarray(segment) for segment in one.segments] for one in people.series]
    models = [model, *people_models(model, each)]
    if len(each) < FEW_PEOPLE:
        segments = [s for person in each for s in person] if fitted is None else fitted
        again = refits(model, segments, count=REFITS, seed=seed, iterations=_FIRST_ROUNDS)
        most = max(range(REFITS), key=lambda n: regime_influence(again[n], window))
        models.append(refits(model, segments, numbers=[most], seed=seed)[0])
    models += beyond(models[1 : len(each) + 1])
    return RegimeClass.of(*(regime_class(one, people) for one in models))


def _with_losses(rows: Sequence[Candidate], query: Query, epsilon: float) -> list[Candidate]:
    """Each class with the loss to the adversaries of the others at its noise, at most.

    A class that cannot be recommended is compared only with the best, or with the most noise if
    none is best, and with the one above it in the steps down from there. The loss of a class falls
    with the noise, and is at most epsilon at its own: where that is less than the noise asked
    about, epsilon is the answer. A curve is asked from the most noise on.
    """
    losses: dict[str, dict[str, float]] = {row.name: {} for row in rows}
    steps = _downwards(rows)
    wanted = {(narrow.name, wide.name) for wide, narrow in pairwise(steps)}
    top = steps[0] if steps else max(rows, key=lambda row: row.scale or 0.0)
    wanted |= {(row.name, top.name) for row in rows}
    scales = sorted(((row.scale, row.name, row.covers) for row in rows if row.scale), reverse=True)
    for other in rows:
        if other.beliefs is None:
            continue
        curve = InfluenceCurve(other.beliefs, query.longest, metric_of(other.beliefs, query))
        for scale, name, covers in scales:
            if name == other.name:
                continue
            if not covers and (name, other.name) not in wanted:
                continue
            if other.scale is not None and other.scale <= scale:
                losses[name][other.name] = epsilon
                continue
            with suppress(NotApplicable, NoTheorem):
                losses[name][other.name] = curve.epsilon(query.lipschitz / scale)
    return [replace(row, losses=losses[row.name]) for row in rows]


def _downwards(rows: Sequence[Candidate]) -> list[Candidate]:
    """The best, the classes that survive below it, single models too, and the least noise."""
    ordered = sorted(rows, key=lambda row: -(row.scale or 0.0))
    best = next((row for row in ordered if row.covers), None)
    if best is None:
        return []
    narrower = [row for row in ordered if row.scale and row.scale <= (best.scale or 0.0)]
    least = narrower[-1]
    return [best, *(r for r in narrower if r is not best and (r.verdict == "yes" or r is least))]


def _first_source(plain: Any) -> dict[str, Any]:
    """The first provenance in the record of a class."""
    inside = plain.values() if isinstance(plain, dict) else plain
    if isinstance(plain, dict) and plain.get("fitted_on"):
        source = plain["fitted_on"]
        found: dict[str, Any] = source[0] if isinstance(source, list) else source
        return found
    for value in inside:
        if isinstance(value, (dict, list)):
            deeper = _first_source(value)
            if deeper:
                return deeper
    return {}


def _everybody(people: People) -> tuple[People, list[str]]:
    """The people; a single one is cut into stretches of whole days."""
    if len(people.series) > 1:
        return people, []
    note = "one person only, cut into stretches: nothing here is about other people; add people"
    return _stretches(people), [note]


def _groups(total: int, folds: int | None, seed: int) -> list[list[int]]:
    """The people of each fold, drawn with the seed."""
    count = min(FOLDS, total) if folds is None else checks.whole("folds", folds, 2)
    if count > total:
        raise ValueError(
            f"folds: {count} folds of {total} people would leave out nobody; take {total} at most"
        )
    order = np.random.default_rng(seed).permutation(total)
    return [sorted(int(n) for n in part) for part in np.array_split(order, min(count, total))]


def _stretches(people: People) -> People:
    """A person's longest segment in stretches of whole days."""
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
        people.origin,
    )


def promise_of(theta: ChainClass) -> str:
    """The adversaries that a class covers, in one sentence."""
    if theta.promise is not None:
        return theta.promise
    return _KNOWN if theta.lists_matrices else _REGION


def _survived(row: Candidate, folds: int) -> str:
    """How many folds a class survived, or which refutes it and by what, in words."""
    if row.beliefs is None:
        return "not built"
    if row.verdict != "no":
        return f"{'no power: ' * (row.verdict == 'no power')}{row.survived} of {folds}"
    wrong = "rows" if row.folds[-1].rows.passed is False else "influence"
    return f"NO: {wrong}, fold {len(row.folds)} of {folds}"


def _losses(row: Candidate, epsilon: float) -> str:
    """The largest loss to the others, and to whom; at most epsilon where all are covered."""
    if not row.losses:
        return "-"
    name, most = max(row.losses.items(), key=lambda item: item[1])
    return f"{most:.3g} to {name}" if most > epsilon else f"at most {epsilon:g}"


def _power_words(choice: Choice, everybody: People) -> list[str]:
    """The data it would take for a verdict, if these have no power."""
    unsure = [row for row in choice.rows if row.verdict == "no power" and not row.single]
    if not unsure:
        return []
    days = sum(len(one) for one in everybody.series) / (everybody.day or 1)
    unit = "days" if everybody.day else "entries"
    lines = []
    for row in unsure:
        more = row.more_data or 1.0
        if more > 1:
            lines.append(
                f"{row.name}: no power; about {times_the_data(more)} times these {days:,.0f} "
                f"{unit} of {choice.people} {choice.whose} would show an influence of twice what "
                "it budgets"
            )
        else:
            fold = next(fold for fold in row.folds if fold.verdict == "no power")
            why = fold.influence if fold.influence.passed is None else fold.rows
            lines.append(f"{row.name}: no power on {', '.join(map(str, fold.people))}; {why.text}")
    return lines


def _too_rare(everybody: People) -> list[str]:
    """States that nobody visits often enough to test what they give away."""
    most = np.max(
        [
            np.bincount(one.codes[one.codes >= 0], minlength=len(everybody.states))
            for one in everybody.series
        ],
        axis=0,
    )
    rare = [
        f"{state} ({count})"
        for state, count in zip(everybody.states, most.tolist(), strict=True)
        if count <= VISITS
    ]
    if not rare:
        return []
    return [
        f"too rare to test what they give away, with the most entries of one person: "
        f"{', '.join(rare)}; there the class is taken at its word, or merge levels"
    ]


def _thinned(people: People, factor: int) -> People:
    day = None if people.day is None or people.day % factor else people.day // factor
    thin = []
    for one in people.series:
        parts = [segment[::factor] for segment in one.segments]
        thin.append(Series(np.concatenate(parts), one.states, tuple(len(p) for p in parts)))
    firsts = tuple(first // factor for first in people.firsts)
    return People(tuple(thin), day, firsts if day else (0,) * len(thin))
