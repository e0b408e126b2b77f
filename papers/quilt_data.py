"""[Q] Tables 1 and 3 and Figure 4, lower row, on measured series.

The household of Table 3 is public (AMPds2); the activity data of Table 1 are not, so other people's
are used.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from papers import measured_series as files
from papers.result import (
    Chart,
    Result,
    Rows,
    Settings,
    attempt,
    by_these_rows,
    simulated_error,
)
from pufferkit.audit.noise_drawn import rehearsed
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.asking import relative_frequencies
from pufferkit.data.series import Series
from pufferkit.fitting.fit import fit
from pufferkit.mechanisms.baselines import group_dp
from pufferkit.mechanisms.calibration import Calibration

CUTS = (100, 760, 2020, 5999)
LEVELS = ("sedentary", "light", "lifestyle", "moderate", "vigorous")
WIDTH = 200
"""Watts in a level of power."""

MECHANISMS = ("group_dp", "gk16", "markov_quilt_approx", "markov_quilt", "influence_curve")
GROUPS = ("cyclist", "older woman", "overweight woman")

_AUTHORS = tuple(Path(name).stem for name in files.AMPDS2)
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
five levels (cut points 100, 760, 2020, 5999 counts). The paper has three groups of 16 to 40 people
and four states, and starts a new chain at gaps of ten minutes. These data say nothing of groups, so
all people are one, twice: "all minutes" takes each person's week as one chain; "worn minutes"
starts a new chain after an hour or more without any count. A column `group` in the file makes a row
for each group, of worn minutes.

Numbers cannot be compared, because people, levels and lengths differ.

Added: influence_curve. `participant_dp` is the row "DP" of the paper: it hides a whole person.

{FITTED}"""

NOTE_3 = f"""\
The authors' household is AMPds2. Where its file Electricity_P.csv is found it is read, `theirs`
says yes, and `expected` is to be held against `published`, the mean of 20 trials. Others: one
household of UCI by minute, and by ten minutes. Levels of 200 W that occur; pieces between
missing values are independent.

`score` is the noise for a 1-Lipschitz query. `at_paper_size` is the error these scores would
give with 51 levels and 1,000,000 entries, to be held against `published`.

group_dp has the factor 2 of a histogram that [Q] 5.1 leaves out and its Table 3 has.

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
    """The groups that the file names; else all participants: all minutes, and worn minutes."""
    people = files.activity(files.need(settings.data, "unidata.csv"))
    named = files.group_of(files.need(settings.data, "unidata.csv"))
    if settings.quick and not named:
        people = {person: counts[:2000] for person, counts in list(people.items())[:2]}
    if named:
        return [
            Cohort.of(name, {p: files.worn(c) for p, c in people.items() if named[p] == name})
            for name in dict.fromkeys(named.values())
        ]
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
    note = f"{NOTE_1}\n\n{by_these_rows(_said_of_order(rows, ('group', 'task')))}"
    return Result("quilt-table-1", "[Q] Table 1: errors on activity", rows, note, chart)


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
                    "theirs": "yes" if name in _AUTHORS else "no",
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
    claims = [*_said_of_order(rows, ("household", "epsilon")), *_said_of_size(rows)]
    note = f"{NOTE_3}\n\n{by_these_rows(claims)}"
    return Result("quilt-table-3", "[Q] Table 3: errors on electricity", rows, note, chart)


def _said_of_order(rows: Rows, cell: tuple[str, str]) -> list[tuple[str, bool]]:
    """The claims of [Q] about both tables: where GK16 applies, and the order of the others."""
    cells: dict[tuple[Any, ...], dict[str, float | None]] = {}
    for row in rows:
        cells.setdefault(tuple(row[c] for c in cell), {})[row["mechanism"]] = row["expected"]
    claims = [("GK16 does not apply", all(own["gk16"] is None for own in cells.values()))]
    ratios = {
        name: [
            error / approx
            for own in cells.values()
            if (error := own[name]) is not None
            and (approx := own["markov_quilt_approx"]) is not None
        ]
        for name in ("group_dp", "markov_quilt")
    }
    where = "" if len(ratios["group_dp"]) == len(cells) else ", where that applies"
    if ratios["markov_quilt"]:
        words = f"markov_quilt needs no more noise than markov_quilt_approx{where}"
        claims.append((words, max(ratios["markov_quilt"]) <= 1))
    if ratios["group_dp"]:
        gap = min(ratios["group_dp"])
        words = f"group_dp needs at least {gap:.3g} times what markov_quilt_approx needs{where}"
        claims.append((words, gap > 1))
    return claims


def _said_of_size(rows: Rows) -> list[tuple[str, bool]]:
    """How the errors compare with [Q] Table 3: at the paper's size, and on its own household."""

    def ratios(column: str, theirs: str, names: tuple[str, ...]) -> list[float]:
        return [
            row[column] / row["published"]
            for row in rows
            if row["theirs"] == theirs and row["mechanism"] in names and row[column] is not None
        ]

    quilts = ("markov_quilt_approx", "markov_quilt")
    claims = []
    for words, within, own in (
        ("group_dp at the paper's size", 1.05, ratios("at_paper_size", "no", ("group_dp",))),
        (
            "in another house the quilts at the paper's size",
            2,
            ratios("at_paper_size", "no", quilts),
        ),
        ("on the authors' household all errors", 1.1, ratios("expected", "yes", tuple(TABLE_3))),
    ):
        if own:
            low, high = min(own), max(own)
            said = f"{words}: {low:.3g} to {high:.3g} of the published (within {within:g} times)"
            claims.append((said, low >= 1 / within and high <= within))
    return claims


def figure_4_lower(settings: Settings) -> Result:
    """Exact and noisy aggregated histograms of activity, epsilon 1."""
    rng, trials = np.random.default_rng(settings.seed), 20
    rows: Rows = []
    for group in settings.tracked(groups(settings), "groups"):
        query = relative_frequencies(group.chain.states, group.all_lengths)
        shares: dict[str, tuple[Floats, float | None]] = {"exact": (group.exact[None], None)}
        for name in MECHANISMS:
            calibration = attempt(name, group.chain, query, 1.0)
            if calibration is not None:
                noise = rehearsed(calibration, (trials, query.size), rng)
                shares[name] = group.exact + noise, calibration.half_width()
        for name, (values, width) in shares.items():
            for state, drawn in zip(group.chain.states, values.T, strict=True):
                row: dict[str, Any] = {"group": group.name, "state": state, "mechanism": name}
                row |= {"share": float(drawn.mean()), "lowest": float(drawn.min())}
                rows.append({**row, "highest": float(drawn.max()), "half_width_95": width})
    chart = Chart(
        "bars", "state", ("share",), "mechanism", "group", y_label="share of minutes, epsilon 1"
    )
    title = "[Q] Figure 4, lower row: histograms of activity"
    note = (
        "`share` is the mean of 20 trials of seeded noise, as in the paper, `lowest` and `highest` "
        "their range; `half_width_95` says how far one can be. GK16 is left out where it does not "
        "apply. The exact shares are in the table because these data are public."
        f"\n\n{NOTE_1}\n\n{by_these_rows(_said_of_widths(rows))}"
    )
    return Result("quilt-figure-4-lower", title, rows, note, chart)


def _said_of_widths(rows: Rows) -> list[tuple[str, bool]]:
    """The claims of [Q] about Figure 4, lower row: GroupDP drowns the shares, the quilts do not."""
    widths = {
        (row["group"], row["mechanism"]): row["half_width_95"]
        for row in rows
        if row["mechanism"] != "exact"
    }
    everyone = {group for group, _ in widths}
    order = ("markov_quilt", "markov_quilt_approx", "group_dp")
    found = [
        [widths[group, name] for name in order if (group, name) in widths] for group in everyone
    ]
    wider = all(own == sorted(own) and own[0] < own[-1] for own in found)
    return [
        ("GK16 does not apply", all((group, "gk16") not in widths for group in everyone)),
        ("the closest histogram is by markov_quilt, the farthest by group_dp", wider),
    ]


def households(settings: Settings) -> dict[str, Series]:
    """Power levels of each household that is found, the one of the paper first."""
    paths = [files.need(settings.data, *files.POWER)]
    for pattern in files.POWER[len(files.AMPDS2) :]:
        if files.has(settings.data, pattern):
            paths.append(files.need(settings.data, pattern))
    most = 3000 if settings.quick else None
    return {path.stem: levels(files.power(path), most) for path in dict.fromkeys(paths)}


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
