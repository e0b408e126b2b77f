"""[Q] Table 2: how long it takes to find the scale of the noise. Times are of this machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from statistics import fmean
from time import perf_counter

import numpy as np

from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.estimation import fit
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.queries import Query, count, mean, relative_frequencies
from pufferkit.experiments import measured as files
from pufferkit.experiments.quilt_data import groups, households
from pufferkit.experiments.result import Chart, Result, Rows, Settings, attempt

MECHANISMS = (
    "group_dp",
    "gk16",
    "markov_quilt_approx",
    "markov_quilt_approx_tight",
    "markov_quilt",
    "influence_curve",
    "wasserstein",
)
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
compare.

synthetic: T = 100, mean over a grid of chains (p0, p1), stationary start. activity and power:
only with --data; NHANES and the UCI household in place of the authors' data, which are not
public.

Agrees: markov_quilt_approx is the quicker of the two quilt mechanisms.

Differs: markov_quilt needs no limit on the length of quilts and takes milliseconds where the
authors took minutes, by searching boxes of quilts. On two states the authors are quicker.

Added: influence_curve, and its price in time; wasserstein, for the mean of two states only, because
a histogram is not a number; group_dp and the tight variant of markov_quilt_approx."""

NOTE_SIZE = """\
A generated chain (seeded): 51 states, moves mostly to nearby ones, mixes in hundreds of steps;
stationary start. `published` are the authors' seconds at epsilon 1 for their 51 power levels
and T of about 1,000,000 (another chain: theirs is not public, and another machine).

Agrees: group_dp has the error 102 / epsilon, markov_quilt_approx is the quicker quilt mechanism.

Added: influence_curve. Neither exact mechanism slows down as T grows, once it is long."""


def table_2(settings: Settings) -> Result:
    """Running times on the synthetic chains and, with data, on the measured ones. Draws nothing."""
    runs = 1 if settings.quick else 5
    problems: dict[str, list[Callable[[], tuple[MarkovChain, Query]]]] = {
        "synthetic": [_grid_chain(p0, p1) for p0, p1 in product(_grid(settings.quick), repeat=2)]
    }
    if files.has(settings.data, "unidata.csv"):
        people = groups(settings)[0]
        problems["activity"] = [_again(people.chain, people.all_lengths)] * runs
    if files.has(settings.data, "household_power_consumption*.txt"):
        series = next(iter(households(settings).values()))
        problems["power"] = [_again(fit(series), series.lengths)] * runs
    data = settings.data
    if data is not None and len(problems) == 1:
        files.need(data, "unidata.csv", "household_power_consumption*.txt")
        raise ValueError(f"data: {data} must be a folder here, with the files under their names")
    rows: Rows = []
    work = [(problem, name) for problem in problems for name in MECHANISMS]
    for problem, name in settings.tracked(work, "mechanisms"):
        times = [_seconds(name, make) for make in problems[problem]]
        known = [t for t in times if t is not None]
        published = TABLE_2[problem].get(name, ())
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
    return Result("quilt-table-2", "[Q] Table 2: running times", rows, NOTE, chart)


def paper_size(settings: Settings) -> Result:
    """Scales and running times for 51 states and a million entries."""
    states, length, runs = (12, 10**4, 1) if settings.quick else (51, 10**6, 3)
    matrix = sticky_chain(states, settings.seed)
    rows: Rows = []
    work = [(e, name) for e in (0.2, 1.0, 5.0) for name in LARGE]
    for epsilon, name in settings.tracked(work, "mechanisms"):
        times, scale = [], 0.0
        for _ in range(runs):
            chain = MarkovChain.steady(matrix)
            start = perf_counter()
            calibration = attempt(name, chain, count(0, length), epsilon)
            times.append(perf_counter() - start)
            scale = calibration.scale if calibration else float("nan")
        published = TABLE_2["power"].get(name) if epsilon == 1 else None
        rows.append(
            {
                "epsilon": epsilon,
                "mechanism": name,
                "score": scale,
                "expected": 2 * scale * states / length,
                "seconds": fmean(times),
                "published": published[0] if published else None,
            }
        )
    chart = Chart(
        "bars", "mechanism", ("seconds", "published"), panel="epsilon", log="y", y_label="seconds"
    )
    title = f"[Q] Table 2 at the paper's size: {states} states, T = {length:,}"
    return Result("quilt-table-2-size", title, rows, NOTE_SIZE, chart)


def sticky_chain(states: int, seed: int) -> Floats:
    """Moves mostly to nearby states, and seldom."""
    rng = np.random.default_rng(seed)
    place = np.arange(states)
    weights = np.exp(-np.abs(place[:, None] - place) / 2) * rng.random((states, states)) + 1e-7
    weights += 10 * np.eye(states)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _grid(quick: bool) -> list[float]:
    return [0.3, 0.6] if quick else [round(0.1 * n, 1) for n in range(1, 10)]


def _grid_chain(p0: float, p1: float) -> Callable[[], tuple[MarkovChain, Query]]:
    return lambda: (MarkovChain.steady([[p0, 1 - p0], [1 - p1, p1]]), mean([0, 1], 100))


def _again(chain: MarkovChain, lengths: object) -> Callable[[], tuple[MarkovChain, Query]]:
    """The same problem made anew, so that nothing is known from the run before."""

    def make() -> tuple[MarkovChain, Query]:
        fresh = MarkovChain.steady(chain.transition, chain.states)
        return fresh, relative_frequencies(fresh.states, lengths)  # type: ignore[arg-type]

    return make


def _seconds(name: str, make: Callable[[], tuple[MarkovChain, Query]]) -> float | None:
    chain, query = make()
    theta = ChainClass.of(chain)
    start = perf_counter()
    calibration = attempt(name, theta, query, 1.0)
    return perf_counter() - start if calibration else None
