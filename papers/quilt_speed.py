"""[Q] Table 2: how long it takes to find the scale of the noise. Times are of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from statistics import fmean
from time import perf_counter

import numpy as np

from papers import measured_series as files
from papers.quilt_data import groups, households
from papers.result import Chart, Result, Rows, Settings, attempt, by_these_rows
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.asking import count, mean, relative_frequencies
from pufferkit.data.query import Query
from pufferkit.fitting.fit import fit

MECHANISMS = (
    "group_dp",
    "gk16",
    "markov_quilt_approx",
    "markov_quilt_approx_tight",
    "markov_quilt",
    "influence_curve",
    "wasserstein",
)
QUICK = ("group_dp", "gk16", "markov_quilt_approx", "markov_quilt")
"""Those of the paper, which are run on its whole grid; the others on every tenth value of it."""

LARGE = ("group_dp", "markov_quilt_approx", "markov_quilt", "influence_curve")
"""Those that are run at the paper's size."""

TABLE_2: dict[str, dict[str, tuple[float, ...]]] = {
    "synthetic": {
        "gk16": (6.3589e-4,),
        "markov_quilt_approx": (1.8458e-4,),
        "markov_quilt": (7.6794e-4,),
    },
    "activity": {
        "markov_quilt_approx": (0.0064, 0.0060, 0.0028),
        "markov_quilt": (1.5186, 1.2786, 0.6299),
    },
    "power": {"markov_quilt_approx": (0.0567,), "markov_quilt": (282.2273,)},
}
"""Published seconds at epsilon 1; three groups of people for activity."""

NOTE = """\
Seconds to find the scale, epsilon 1, mean of several runs with nothing kept between them;
`published` are the authors' seconds on a 3 GHz desktop of 2012, so only orders of magnitude
compare. They stand only where the problem is theirs: the synthetic grid, and AMPds2 if it is found;
activity and other households are other problems.

synthetic: T = 100, mean over the grid of the paper, p0 and p1 in 0.1, 0.11, ..., 0.9, stationary
start; what is added here takes every tenth value, as `applies` shows. activity and power:
only with --data; NHANES in place of the authors' activity, which is not public, and a household
of UCI unless AMPds2 is found.

Differs: markov_quilt needs no limit on the length of quilts; it searches boxes of quilts.

Added: influence_curve, and its price in time; wasserstein, for the mean of two states only, because
a histogram is not a number; group_dp and the tight variant of markov_quilt_approx."""

NOTE_SIZE = """\
A generated chain (seeded): 51 states, moves mostly to nearby ones, mixes in hundreds of steps;
stationary start. `published` are the authors' seconds at epsilon 1 for their 51 power levels
and T of about 1,000,000 (another chain, and another machine).

Added: influence_curve."""


def table_2(settings: Settings) -> Result:
    """Running times on the synthetic chains and, with data, on the measured ones. Draws nothing."""
    runs = 1 if settings.quick else 5
    fine, coarse = (
        [_grid_chain(p0, p1) for p0, p1 in product(stays, repeat=2)]
        for stays in (_grid(settings.quick), _grid(settings.quick)[:: 1 if settings.quick else 10])
    )
    problems: dict[str, list[Callable[[], tuple[MarkovChain, Query]]]] = {"synthetic": fine}
    if files.has(settings.data, "unidata.csv"):
        people = groups(settings)[0]
        problems["activity"] = [_again(people.chain, people.all_lengths)] * runs
    if files.has(settings.data, *files.POWER):
        series = next(iter(households(settings).values()))
        problems["power"] = [_again(fit(series), series.lengths)] * runs
    data = settings.data
    if data is not None and len(problems) == 1:
        files.need(data, "unidata.csv", *files.POWER)
        raise ValueError(f"data: {data} must be a folder here, with the files under their names")
    comparable = {"synthetic"} | ({"power"} if files.has(data, *files.AMPDS2) else set())
    rows: Rows = []
    work = [(problem, name) for problem in problems for name in MECHANISMS]
    for problem, name in settings.tracked(work, "mechanisms"):
        slow = problem == "synthetic" and name not in QUICK
        times = [_seconds(name, make) for make in (coarse if slow else problems[problem])]
        known = [t for t in times if t is not None]
        published = TABLE_2[problem].get(name, ()) if problem in comparable else ()
        rows.append(
            {
                "problem": problem,
                "mechanism": name,
                "seconds": fmean(known) if known else None,
                "applies": f"{len(known)} of {len(times)}",
                "published": fmean(published) if published else None,
            }
        )
    chart = Chart(
        "bars", "mechanism", ("seconds", "published"), panel="problem", log="y", y_label="seconds"
    )
    note = f"{NOTE}\n\n{by_these_rows(_said_of_times(rows, 'problem'))}"
    return Result("quilt-table-2", "[Q] Table 2: running times", rows, note, chart)


def _said_of_times(rows: Rows, by: str) -> list[tuple[str, bool]]:
    """Which of the two quilt mechanisms is the quicker, and how we compare with the authors."""
    claims = []
    for own in dict.fromkeys(row[by] for row in rows):
        times = {row["mechanism"]: row for row in rows if row[by] == own}
        rough, exact = (times[name] for name in ("markov_quilt_approx", "markov_quilt"))
        known = [row["seconds"] for row in (rough, exact)]
        said = (
            f"{own}: markov_quilt_approx takes {_or_dash(known[0])} s, less than the "
            f"{_or_dash(known[1])} s of markov_quilt"
        )
        if exact["published"]:
            said += f" (published: {_or_dash(rough['published'])} and {exact['published']:.2g})"
        if None not in known:
            claims.append((said, known[0] < known[1]))
    return claims


def _or_dash(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2g}"


def paper_size(settings: Settings) -> Result:
    """Scales and running times for 51 states and a million entries."""
    states, length, runs = (12, 10**4, 1) if settings.quick else (51, 10**6, 3)
    matrix = sticky_chain(states, settings.seed)
    rows: Rows = []
    work = [(e, name) for e in (0.2, 1.0, 5.0) for name in LARGE]
    for epsilon, name in settings.tracked(work, "mechanisms"):
        times: list[float] = []
        scale: float | None = None
        for _ in range(runs):
            chain = MarkovChain.steady(matrix)
            start = perf_counter()
            calibration = attempt(name, chain, count(0, length), epsilon)
            times.append(perf_counter() - start)
            scale = calibration.scale if calibration else None
        theirs = epsilon == 1 and not settings.quick  # their size
        published = TABLE_2["power"].get(name) if theirs else None
        rows.append(
            {
                "epsilon": epsilon,
                "mechanism": name,
                "score": scale,
                "expected": None if scale is None else 2 * scale * states / length,
                "seconds": fmean(times),
                "published": published[0] if published else None,
            }
        )
    chart = Chart(
        "bars", "mechanism", ("seconds", "published"), panel="epsilon", log="y", y_label="seconds"
    )
    title = f"[Q] Table 2 at the paper's size: {states} states, T = {length:,}"
    errors = {row["epsilon"]: row["expected"] for row in rows if row["mechanism"] == "group_dp"}
    size = f"group_dp has the error 2 x {states} / epsilon"
    holds = all(abs(error * e / (2 * states) - 1) < 1e-6 for e, error in errors.items())
    claims = by_these_rows([(size, holds), *_said_of_times(rows, "epsilon")])
    return Result("quilt-table-2-size", title, rows, f"{NOTE_SIZE}\n\n{claims}", chart)


def sticky_chain(states: int, seed: int) -> Floats:
    """Moves mostly to nearby states, and seldom."""
    rng = np.random.default_rng(seed)
    place = np.arange(states)
    weights = np.exp(-np.abs(place[:, None] - place) / 2) * rng.random((states, states)) + 1e-7
    weights += 10 * np.eye(states)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _grid(quick: bool) -> list[float]:
    """The staying probabilities of [Q] 5.2: 0.1, 0.11, ..., 0.9."""
    return [0.3, 0.6] if quick else [round(0.01 * n, 2) for n in range(10, 91)]


def _grid_chain(p0: float, p1: float) -> Callable[[], tuple[MarkovChain, Query]]:
    return lambda: (MarkovChain.steady([[p0, 1 - p0], [1 - p1, p1]]), mean([0, 1], 100))


def _again(chain: MarkovChain, lengths: Sequence[int]) -> Callable[[], tuple[MarkovChain, Query]]:
    """The same problem made anew, so that nothing is known from the run before."""

    def make() -> tuple[MarkovChain, Query]:
        fresh = MarkovChain.steady(chain.transition, chain.states)
        return fresh, relative_frequencies(fresh.states, lengths)

    return make


def _seconds(name: str, make: Callable[[], tuple[MarkovChain, Query]]) -> float | None:
    chain, query = make()
    theta = ChainClass.of(chain)
    start = perf_counter()
    calibration = attempt(name, theta, query, 1.0)
    return perf_counter() - start if calibration else None
