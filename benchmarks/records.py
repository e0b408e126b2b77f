"""Size of the records of releases, and the CPU seconds of `pufferkit.verify` on each.

``python benchmarks/records.py`` prints the table of notes/scaling.md; words pick rows.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

import pufferkit as pk

LENGTH = 2016
Made = tuple[Any, Any]


def rows(rng: np.random.Generator, states: int, stays: float = 0.6) -> np.ndarray:
    return (1 - stays) * rng.dirichlet(np.ones(states), states) + stays * np.eye(states)


def ladder(_: np.random.Generator, states: int) -> np.ndarray:
    steps = 0.8 * np.eye(states) + 0.1 * (np.eye(states, k=1) + np.eye(states, k=-1))
    return steps / steps.sum(axis=1, keepdims=True)


def names(states: int) -> list[str]:
    return [f"s{n}" for n in range(states)]


def steady(matrix: np.ndarray) -> pk.MarkovChain:
    return pk.MarkovChain.steady(matrix, names(len(matrix)))


def fixed(matrix: np.ndarray) -> pk.MarkovChain:
    return pk.MarkovChain(np.eye(len(matrix))[0], matrix, names(len(matrix)))


def any_start(matrix: np.ndarray) -> Any:
    return pk.ChainClass.any_start(matrix, states=names(len(matrix)))


def tree(rng: np.random.Generator) -> Any:
    parents = {n: (int(rng.integers(0, n)),) if n else () for n in range(100)}
    table = {(state,): row for state, row in zip(names(3), rows(rng, 3).tolist(), strict=True)}
    tables = {n: table if n else {(): [0.3, 0.3, 0.4]} for n in parents}
    return pk.BayesianNetwork(parents, tables, dict.fromkeys(parents, names(3)))


def contacts(rng: np.random.Generator) -> Any:
    edges = {tuple(sorted(rng.choice(100, 2, replace=False).tolist())) for _ in range(500)}
    return pk.MarkovRandomField.ising(sorted(edges), 0.03, 0.1, names(2))


def asked(beliefs: Any, question: str) -> Any:
    graph = hasattr(beliefs, "nodes")
    length = len(beliefs.nodes) if graph else LENGTH
    states: list[Hashable] = list(beliefs.values[beliefs.nodes[0]] if graph else beliefs.states)
    if question == "histogram":
        return pk.histogram(states, length)
    if question == "mean":
        return pk.mean({state: n for n, state in enumerate(states)}, length)
    return pk.count(states[0], length)


JOBS: dict[str, tuple[str, Callable[[np.random.Generator], Any], str]] = {}
for size in (2, 5, 8, 10, 20, 30, 45, 50):
    for question in ("count", "histogram", "mean") if size in (10, 45, 50) else ("histogram",):
        made = lambda rng, size=size: steady(rows(rng, size))  # noqa: E731
        JOBS[f"chain, {size} dense states, {question}"] = "influence_curve", made, question
for size in (10, 26, 50):
    made = lambda rng, size=size: steady(ladder(rng, size))  # noqa: E731
    JOBS[f"chain, ladder of {size}, mean"] = "influence_curve", made, "mean"
    made = lambda rng, size=size: any_start(ladder(rng, size))  # noqa: E731
    JOBS[f"any start, ladder of {size}, mean"] = "influence_curve", made, "mean"
for size in (3, 10, 30, 50):
    made = lambda rng, size=size: any_start(rows(rng, size))  # noqa: E731
    JOBS[f"any start, {size} dense states, histogram"] = "influence_curve", made, "histogram"
    made = lambda rng, size=size: fixed(rows(rng, size))  # noqa: E731
    JOBS[f"fixed start, {size} dense states, histogram"] = "influence_curve", made, "histogram"
for size in (3, 10):
    made = lambda rng, size=size: pk.ChainClass.hull(  # noqa: E731
        *(steady(0.9 * rows(rng, size) + 0.1 / size) for _ in range(14))
    )
    JOBS[f"hull of 14, {size} states"] = "influence_curve", made, "count"
    made = lambda rng, size=size: pk.ChainClass.of(  # noqa: E731
        *(steady(rows(rng, size)) for _ in range(14))
    )
    JOBS[f"list of 14, {size} states"] = "influence_curve", made, "count"
    made = lambda rng, size=size: pk.ChainClass.around(  # noqa: E731
        (5000 * rows(rng, size)).astype(int).tolist(), 0.95, names(size)
    )
    JOBS[f"region around counts, {size} states"] = "influence_curve", made, "histogram"
for period in (24, 168):
    made = lambda rng, period=period: pk.ChainClass.seasonal(  # noqa: E731
        [rows(rng, 3) for _ in range(period)], names(3)
    )
    JOBS[f"season of {period} slots"] = "influence_curve", made, "histogram"
for size in (2, 8, 24):
    made = lambda rng, size=size: pk.RegimeClass(  # noqa: E731
        rows(rng, size, 0.8), 0.2 * rng.dirichlet(np.ones(4), size) + 0.2, names(4)
    )
    JOBS[f"{size} regimes"] = "influence_curve", made, "count"
for coupling in (0.1, 0.2):
    made = lambda _, coupling=coupling: pk.MarkovRandomField.grid(  # noqa: E731
        10, 10, coupling, 0.1, names(2)
    )
    JOBS[f"grid of 100 nodes, coupling {coupling}"] = "influence_curve", made, "count"
JOBS["tree of 100 nodes"] = "influence_curve", tree, "count"
JOBS["100 people with 10 contacts each"] = "influence_curve", contacts, "count"
for mechanism in ("markov_quilt", "exact_sum"):
    JOBS[f"tree of 100 nodes, {mechanism}"] = mechanism, tree, "count"
    for size in (2, 10, 50) if mechanism == "markov_quilt" else (2, 10):
        made = lambda rng, size=size: steady(rows(rng, size))  # noqa: E731
        JOBS[f"chain, {size} dense states, {mechanism}"] = mechanism, made, "count"
JOBS["fixed start, 50 dense states, markov_quilt"] = (
    "markov_quilt",
    lambda rng: fixed(rows(rng, 50)),
    "count",
)


def measured(name: str) -> str:
    mechanism, make, question = JOBS[name]
    beliefs = make(np.random.default_rng(len(name)))
    query = asked(beliefs, question)
    noise = getattr(pk, mechanism)(beliefs, query, 1)
    graph = hasattr(beliefs, "nodes")
    states = beliefs.values[beliefs.nodes[0]] if graph else beliefs.states
    data: Any = [states[n % len(states)] for n in range(query.lengths[0])]
    release = noise.release(dict(zip(beliefs.nodes, data, strict=True)) if graph else data)
    record = json.loads(release.to_json())
    gc.collect()
    gc.freeze()  # what other rows left in caches is not looked through again
    times = []
    for _ in range(4):
        begun = time.process_time()
        assert pk.verify(record).ok, name
        times.append(time.process_time() - begun)
    proof, whole = (
        len(json.dumps(own, separators=(",", ":"))) / 1000
        for own in (record["verification_data"], record)
    )
    return f"| {name} | {proof:,.1f} | {whole:,.1f} | {min(times):.3f} |"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| record | proof, kB | whole, kB | verify, CPU s |\n|---|---|---|---|")
    for job in JOBS:
        if all(word in job for word in sys.argv[1:]):
            print(measured(job), flush=True)
