"""Records of every mechanism with one field spoiled: each ends in a verdict."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import polars

import pufferkit as pk
from tests.asking import for_each
from tests.fuzz.seeds import CHAIN, NETWORK, PRIVATE, STATES

NUMBERS: list[Any] = [
    0, -1, 1, 2, 3, 0.5, -0.0, 1e-320, 1e-12, 1 - 2**-53, 1e15, 2**53, 2**63, 10**30, 10**400,
    1e308, -1e308, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
OTHERS: list[Any] = [
    None, True, False, "", "1", "1/0", "1/3", "nan", "\ud800", "x" * 3000, [], [[]], {}, [None],
    [True], {"a": 1}, [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], [1, 2, 3], [0] * 500, "rest", ["rest"],
]  # fmt: skip
QUICK = 2e7
"""Units of work after which a verdict gives up."""


def honest() -> dict[str, dict[str, Any]]:
    """A record of each mechanism and of each shape."""
    size, data = len(PRIVATE), pk.Series.of(PRIVATE, STATES)
    count, bins = pk.count("run", size), pk.histogram(STATES, size)
    region = pk.ChainClass.around(pk.Series.of(PRIVATE * 20, STATES), 0.9)
    gaps = pk.Series.of([*PRIVATE[:5], None, None, *PRIVATE[5:]], STATES)
    listed = [0 if state == "rest" else 1 for state in PRIVATE][:2]
    joint = pk.FiniteJoint({(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.1, (1, 1): 0.4})
    field = pk.MarkovRandomField.ising([("a", "b"), ("b", "c")], 0.4)
    order = pk.ChainClass.order(
        2, [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.3, 0.7]]], states=STATES
    )
    calendar = pk.Calendar("2026-11-16", every="1h")
    releases = {
        "curve": pk.influence_curve(CHAIN, bins, 1),
        "pairs": pk.influence_curve(CHAIN, count, 1),
        "region": pk.influence_curve(region, bins, 1),
        "any start": pk.influence_curve(
            pk.ChainClass.any_start(CHAIN.transition, states=STATES), count, 1
        ),
        "binary": pk.influence_curve(pk.ChainClass.binary(0.2, 0.8, STATES), count, 1),
        "mixing": pk.influence_curve(pk.ChainClass.mixing(STATES, 0.2, 0.5), count, 1),
        "order": pk.influence_curve(order, bins, 1),
        "runs": pk.influence_curve(CHAIN, count, 1, secrets=pk.Secrets.runs(2)),
        "quilt": pk.markov_quilt(CHAIN, bins, 1),
        "formula": pk.markov_quilt(CHAIN, count, 1, influence="formula"),
        "approx": pk.markov_quilt_approx(CHAIN, count, 1),
        "approx tight": pk.markov_quilt_approx(CHAIN, count, 1, bound="tight"),
        "gk16": pk.gk16(pk.MarkovChain.steady([[0.6, 0.4], [0.5, 0.5]], STATES), count, 1),
        "group": pk.group_dp(count, 1),
        "entry": pk.entry_dp(count, 1),
        "exact sum": pk.exact_sum(CHAIN, count, 1),
        "wasserstein": pk.wasserstein(CHAIN, count, 1),
        "quantile": pk.influence_curve(CHAIN, pk.quantile(0.5, {"rest": 0, "run": 1}, size), 1),
        "transitions": pk.influence_curve(CHAIN, pk.transition_counts(STATES, size), 1),
        "hours": pk.influence_curve(CHAIN, pk.by_time("hour", STATES, size, calendar), 1),
        "total": pk.influence_curve(CHAIN, pk.total({"rest": 0, "run": 2.5}, size), 1),
        "dashboard": pk.plan(
            CHAIN, {"a": (bins, 20), "b": (pk.episodes("run", size), 20)}
        ).calibration,
    }
    made = {name: noise.release(data, anyway=True) for name, noise in releases.items()}
    made["gaps"] = pk.influence_curve(CHAIN, pk.histogram(STATES, gaps), 1).release(
        gaps, anyway=True
    )
    entries = {"a": 0, "b": 1, "c": 1}
    for name, graph in {"network": NETWORK, "field": field}.items():
        for how in (pk.markov_quilt, pk.influence_curve):
            made[f"{name} {how.__name__}"] = how(graph, pk.count(1, 3), 1).release(
                entries, anyway=True
            )
    made["joint"] = pk.wasserstein(joint, pk.count(1, 2), 1).release(listed, anyway=True)
    rows = polars.DataFrame({"t": range(size), "x": PRIVATE, "who": [n % 2 for n in range(size)]})
    table = pk.read(rows, subject="who", time="t", state="x", states=STATES)
    records = {name: json.loads(release.to_json()) for name, release in made.items()}
    records["table"] = json.loads(for_each(table, CHAIN, 1, anyway=True).to_json())
    return records


def places(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a record, as the keys that lead to it; of long lists the first and last."""
    keys = list(record) if isinstance(record, dict) else range(len(record))
    for key in keys if len(keys) < 9 or isinstance(record, dict) else (*keys[:2], keys[-1]):
        yield (*path, key)
        if isinstance(record[key], (dict, list)):
            yield from places(record[key], (*path, key))


def spoiled(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The record with another value at a place; ``KeyError`` as the value takes it out."""
    changed = copy.deepcopy(record)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    if value is KeyError:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return changed


def judged(record: Any, most_work: float = QUICK) -> str:
    """How the verification of a record ended: a verdict, or what broke."""
    try:
        verdict = pk.verify(record, most_work=most_work)
        str(verdict)
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.200}"
    return "ok" if verdict.ok else "not ok"


def every_change(rng: Random, each: int) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """For each place of each record, some of the values; and the record without it."""
    for name, record in honest().items():
        for path in places(record):
            values = [*rng.sample(NUMBERS, each), *rng.sample(OTHERS, each), KeyError]
            for value in values:
                yield name, path, value
