"""[Q] Tables 1 and 3 and Figure 4, lower row, on measured series that stand in for the authors'."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit.audit.noise_drawn import rehearsed
from pufferkit.beliefs.estimation import fit
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.queries import relative_frequencies
from pufferkit.data.series import Series
from pufferkit.experiments import measured as files
from pufferkit.experiments.result import Chart, Result, Rows, Settings, attempt, simulated_error
from pufferkit.mechanisms.baselines import group_dp
from pufferkit.mechanisms.calibration import Calibration

CUTS = (100, 760, 2020, 5999)
LEVELS = ("sedentary", "light", "lifestyle", "moderate", "vigorous")
WIDTH = 200
"""Watts in a level of power."""

MECHANISMS = ("group_dp", "gk16", "markov_quilt_approx", "markov_quilt", "influence_curve")
GROUPS = ("cyclist", "older woman", "overweight woman")

_NONE = (None, None, None)
TABLE_1: dict[tuple[str, str], tuple[float | None, ...]] = {
    ("aggregate", "participant_dp"): (0.2918, 0.8746, 0.4763),
    ("aggregate", "group_dp"): (0.0834, 0.1138, 0.0458),
    ("individual", "group_dp"): (2.3157, 1.7860, 1.1492),
    ("aggregate", "markov_quilt_approx"): (0.0107, 0.0156, 0.0048),
    ("individual", "markov_quilt_approx"): (0.6319, 0.2790, 0.1967),
    ("aggregate", "markov_quilt"): (0.0074, 0.0098, 0.0033),
    ("individual", "markov_quilt"): (0.4077, 0.1742, 0.1316),
}
"""Published errors at epsilon 1 of cyclists, older women, overweight women."""

TABLE_3: dict[str, tuple[float, float, float]] = {
    "group_dp": (516.1555, 102.8868, 19.8712),
    "markov_quilt_approx": (0.3369, 0.0614, 0.0113),
    "markov_quilt": (0.1298, 0.0188, 0.0022),
}
"""Published errors at epsilon 0.2, 1, 5; 51 levels, about a million minutes."""

FITTED = """\
The chain is counted from the very series that is released, with a stationary start,
only because the paper does so to compare algorithms. That is itself a release without noise;
use public or historical data for a real one. The files read here are public."""

NOTE_1 = f"""\
The authors' activity data are not public. Here: NHANES, minutes of a week from a few people, in
five levels (cut points 100, 760, 2020, 5999 counts). "all minutes" takes each person's week as
one chain; "worn minutes" starts a new chain after an hour or more without any count, as the
paper does at gaps. The paper has 16 to 40 people a group and four states.

Agrees: GK16 does not apply; markov_quilt needs less than markov_quilt_approx, both far less
than group_dp. Numbers cannot be compared, because people, levels and lengths differ.

Added: influence_curve. `participant_dp` is the row "DP" of the paper: it hides a whole person.

{FITTED}"""

NOTE_3 = f"""\
The authors' household is not public. Here: one household of UCI by minute, and by ten minutes
where that file is found; levels of 200 W that occur; pieces between missing values are
independent.

`score` is the noise for a 1-Lipschitz query. `at_paper_size` is the error these scores would
give with 51 levels and 1,000,000 entries, to be held against `published`.

Agrees: GK16 does not apply; group_dp at paper size is 102 / epsilon, as published (with the
factor 2 of a histogram that [Q] 5.1 leaves out); the order and size of the quilt mechanisms.

Cannot be compared further: another household, another matrix.

Added: influence_curve.

{FITTED}"""


@dataclass(frozen=True)
class Cohort:
    """A group of participants: for each of them, coded pieces; and the chain counted from all."""

    name: str
    pieces: dict[str, list[list[Hashable]]]
    chain: MarkovChain

    @classmethod
    def of(cls, name: str, measured: dict[str, list[Floats]]) -> Cohort:
        """From counts by minute."""
        coded: dict[str, list[list[Hashable]]] = {
            person: [[LEVELS[n] for n in np.digitize(piece, CUTS)] for piece in pieces]
            for person, pieces in measured.items()
        }
        everyone = [piece for pieces in coded.values() for piece in pieces]
        used = {level for piece in everyone for level in piece}
        levels = [level for level in LEVELS if level in used]
        return cls(name, coded, fit(Series.of(everyone, levels)))

    @property
    def lengths(self) -> list[list[int]]:
        """Lengths of the pieces of each participant."""
        return [[len(piece) for piece in pieces] for pieces in self.pieces.values()]

    @property
    def all_lengths(self) -> list[int]:
        """Lengths of all pieces."""
        return [length for lengths in self.lengths for length in lengths]

    @property
    def exact(self) -> Floats:
        """The aggregated relative frequencies."""
        everyone = [piece for pieces in self.pieces.values() for piece in pieces]
        counts = Series.of(everyone, self.chain.states).counts
        return np.asarray(counts / counts.sum(), dtype=float)


def groups(settings: Settings) -> list[Cohort]:
    """The participants twice: all minutes, and minutes in which the device was worn."""
    people = files.activity(files.need(settings.data, "unidata.csv"))
    if settings.quick:
        people = {person: counts[:2000] for person, counts in list(people.items())[:2]}
    return [
        Cohort.of("all minutes", {person: [counts] for person, counts in people.items()}),
        Cohort.of("worn minutes", {person: files.worn(c) for person, c in people.items()}),
    ]


def table_1(settings: Settings) -> Result:
    """Errors of the histogram of a group and of each person, epsilon 1."""
    rng, trials = np.random.default_rng(settings.seed), 20
    rows: Rows = []
    work = [(g, task) for g in groups(settings) for task in ("aggregate", "individual")]
    for group, task in settings.tracked(work, "tasks"):
        persons = group.lengths
        asked = [group.all_lengths] if task == "aggregate" else persons
        names = ("participant_dp", *MECHANISMS) if task == "aggregate" else MECHANISMS
        for name in names:
            if name == "participant_dp":
                whole = [sum(lengths) for lengths in persons]
                query = relative_frequencies(group.chain.states, whole)
                calibrations: list[Calibration] | None = [group_dp(query, 1.0)]
            else:
                calibrations = _calibrations(name, group.chain, asked)
            rows.append(
                {
                    "group": group.name,
                    "task": task,
                    "mechanism": name,
                    "expected": _mean(c.expected_l1_error for c in calibrations or ()),
                    "simulated": _mean(simulated_error(c, trials, rng) for c in calibrations or ()),
                    **{
                        f"published, {who}": value
                        for who, value in zip(GROUPS, TABLE_1.get((task, name), _NONE), strict=True)
                    },
                }
            )
    chart = Chart(
        "bars",
        "mechanism",
        ("expected",),
        "group",
        "task",
        once=tuple(f"published, {who}" for who in GROUPS),
        log="y",
        y_label="L1 error of the histogram, epsilon 1",
    )
    return Result("quilt-table-1", "[Q] Table 1: errors on activity", rows, NOTE_1, chart)


def table_3(settings: Settings) -> Result:
    """Errors of the histogram of power levels, for each epsilon."""
    rng, trials = np.random.default_rng(settings.seed), 20
    rows: Rows = []
    series = households(settings)
    work = [(name, s, e) for name, s in series.items() for e in (0.2, 1.0, 5.0)]
    for name, own, epsilon in settings.tracked(work, "households"):
        chain = fit(own)
        query = relative_frequencies(chain.states, own.lengths)
        place = (0.2, 1.0, 5.0).index(epsilon)
        for mechanism in MECHANISMS:
            calibration = attempt(mechanism, chain, query, epsilon)
            score = None if calibration is None else calibration.scale / query.lipschitz
            at_size = None if score is None else 51 * 2 * score / 10**6
            if mechanism == "group_dp":
                at_size = 51 * 2 / epsilon
            published = TABLE_3.get(mechanism)
            rows.append(
                {
                    "household": name,
                    "levels": len(chain),
                    "entries": len(own),
                    "epsilon": epsilon,
                    "mechanism": mechanism,
                    "score": score,
                    "expected": None if calibration is None else calibration.expected_l1_error,
                    "simulated": None
                    if calibration is None
                    else simulated_error(calibration, trials, rng),
                    "at_paper_size": at_size,
                    "published": None if published is None else published[place],
                }
            )
    chart = Chart(
        "bars",
        "mechanism",
        ("at_paper_size",),
        "household",
        "epsilon",
        once=("published",),
        log="y",
        y_label="L1 error with 51 levels, 1,000,000 entries",
    )
    return Result("quilt-table-3", "[Q] Table 3: errors on electricity", rows, NOTE_3, chart)


def figure_4_lower(settings: Settings) -> Result:
    """Exact and noisy aggregated histograms of activity, epsilon 1."""
    rng = np.random.default_rng(settings.seed)
    rows: Rows = []
    for group in settings.tracked(groups(settings), "groups"):
        query = relative_frequencies(group.chain.states, group.all_lengths)
        shares: dict[str, tuple[Floats, float | None]] = {"exact": (group.exact, None)}
        for name in MECHANISMS:
            calibration = attempt(name, group.chain, query, 1.0)
            if calibration is not None:
                noise = rehearsed(calibration, (query.size,), rng)
                shares[name] = group.exact + noise, calibration.half_width()
        for name, (values, width) in shares.items():
            for state, share in zip(group.chain.states, values, strict=True):
                row: dict[str, Any] = {"group": group.name, "state": state, "mechanism": name}
                rows.append({**row, "share": float(share), "half_width_95": width})
    chart = Chart(
        "bars", "state", ("share",), "mechanism", "group", y_label="share of minutes, epsilon 1"
    )
    title = "[Q] Figure 4, lower row: histograms of activity"
    note = (
        "One draw of seeded noise for each mechanism; `half_width_95` says how far it can be. GK16 "
        "does not apply. The exact shares are in the table because these data are public.\n\n"
        + NOTE_1
    )
    return Result("quilt-figure-4-lower", title, rows, note, chart)


def households(settings: Settings) -> dict[str, Series]:
    """Power levels of the household, by minute and, where that file is found, by ten minutes."""
    minute, ten = "household_power_consumption*.txt", "powerconsumption_2008_10min.csv"
    paths = [files.need(settings.data, minute, ten)]
    if files.has(settings.data, minute) and files.has(settings.data, ten):
        paths.append(files.need(settings.data, ten))
    most = 3000 if settings.quick else None
    return {path.stem: levels(files.power(path), most) for path in paths}


def levels(pieces: Sequence[Floats], most: int | None = None) -> Series:
    """Watts as levels of 200 W, named by their lower end; at most so many entries of the first."""
    if most is not None:
        pieces = [pieces[0][:most]]
    # Half a milliwatt, so that 0.2 kW read as 199.99999 W is in the level it belongs to.
    coded = [(np.floor((piece + 5e-4) / WIDTH) * WIDTH).astype(int).tolist() for piece in pieces]
    return Series.of(coded)


def _calibrations(
    name: str, chain: MarkovChain, asked: Sequence[Sequence[int]]
) -> list[Calibration] | None:
    """One for each query; queries that need the same noise share the work."""
    scores: dict[int, float] = {}
    made = []
    for lengths in asked:
        query = relative_frequencies(chain.states, lengths)
        if query.longest not in scores:
            calibration = attempt(name, chain, query, 1.0)
            if calibration is None:
                return None
            scores[query.longest] = calibration.scale / query.lipschitz
        made.append(Calibration(name, 1.0, scores[query.longest] * query.lipschitz, query))
    return made


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return float(np.mean(listed)) if listed else None
