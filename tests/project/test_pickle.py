"""Every public value survives pickle and deepcopy, and is as frozen afterwards as before."""

import copy
import pickle
from enum import Enum
from functools import cached_property

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.data.asking import transition_counts
from pufferkit.data.table import Windows
from pufferkit.local import (
    CorrelatedResponse,
    KaryResponse,
    MatrixResponse,
    RandomizedResponse,
    cheapest_noise,
    estimate,
)
from pufferkit.local.correlated import XorChain
from tests.asking import for_each

STEP = [[0.9, 0.1], [0.4, 0.6]]
CHAIN = pk.MarkovChain.steady(STEP, states=["home", "out"])
WORDS = ["home", "out"]
NETWORK = pk.BayesianNetwork(
    {"a": (), "b": ("a",)}, {"a": {(): [0.5, 0.5]}, "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]}}
)
JOINT = pk.FiniteJoint({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25})
QUERIES = {
    "count": pk.count("out", 6),
    "histogram": pk.histogram(WORDS, 6),
    "relative_frequencies": pk.relative_frequencies(WORDS, [2, 4]),
    "total": pk.total({"home": 0, "out": 2.5}, 6),
    "mean": pk.mean({"home": 0, "out": 2.5}, 6),
    "transition_counts": transition_counts(WORDS, 6),
    "own": pk.Query("own", len, 1, 6),
}


def table():
    rows = {"who": ["x"] * 3 + ["y"] * 3, "at": [1, 2, 3] * 2, "state": WORDS * 3}
    import polars

    return pk.read(polars.DataFrame(rows), subject="who", time="at", state="state", states=WORDS)


def calibration():
    return pk.influence_curve(CHAIN, pk.count("out", 6), 1)


def estimates():
    response = cheapest_noise(CHAIN, 2)
    return estimate(response.sanitize(pk.Series.of(WORDS * 20, WORDS)), response)


MAKERS = {
    **{f"query {name}": (lambda query=query: query) for name, query in QUERIES.items()},
    "chain": lambda: CHAIN,
    "fitted chain": lambda: pk.fit([0, 0, 1, 1, 0, 1, 0, 0, 1]),
    "finite class": lambda: pk.ChainClass.of(CHAIN),
    "any start": lambda: pk.ChainClass.any_start(STEP, states=WORDS),
    "binary": lambda: pk.ChainClass.binary(0.2, 0.8),
    "mixing": lambda: pk.ChainClass.mixing(2, 0.2, 0.5),
    "region": lambda: pk.ChainClass.around([[90, 10], [8, 12]], 0.95),
    "network": lambda: NETWORK,
    "joint": lambda: JOINT,
    "calibration": calibration,
    "quilt calibration": lambda: pk.markov_quilt(CHAIN, pk.histogram(WORDS, 6), 1),
    "network calibration": lambda: pk.markov_quilt(NETWORK, pk.count(1, 2), 1),
    "sum calibration": lambda: pk.exact_sum(CHAIN, pk.count(CHAIN.states[0], 6), 1),
    "joint calibration": lambda: pk.wasserstein(JOINT, pk.count(1, 2), 1),
    "curve": lambda: pk.InfluenceCurve(CHAIN, 6),
    "plan": lambda: pk.plan(CHAIN, pk.count("out", 6), 1),
    "release": lambda: calibration().release(WORDS * 3),
    "evidence": lambda: calibration().evidence,
    "series": lambda: pk.Series.of([WORDS, WORDS]),
    "bins": lambda: pk.Bins([1, 2]),
    "windows": lambda: Windows(7, 0, False),
    "table": table,
    "releases": lambda: for_each(table(), CHAIN, 1),
    "spending": lambda: pk.Spending.of(calibration()),
    "composition": lambda: pk.compose([pk.Spending.of(calibration())], CHAIN, 6),
    "report": lambda: pk.check_model(pk.Series.of(WORDS * 30, WORDS), CHAIN),
    "randomized response": lambda: RandomizedResponse(CHAIN, 0.3, 0.3),
    "kary response": lambda: KaryResponse(CHAIN, 0.3),
    "matrix response": lambda: MatrixResponse(CHAIN, [[0.7, 0.3], [0.4, 0.6]]),
    "correlated response": lambda: CorrelatedResponse(CHAIN, 0.1, 0.4),
    "xor chain": lambda: XorChain(CHAIN, 0.3, 0.3),
    "estimates": estimates,
    "audit": lambda: pk.audit.audit(calibration(), CHAIN, trials=500, seed=1),
}


def arrays(value):
    """Every array inside a value, but for what is computed from it when needed."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from arrays(part)
    elif hasattr(value, "__dict__") and not isinstance(value, (Enum, type)):
        for name, part in vars(value).items():
            if not isinstance(getattr(type(value), name, None), cached_property):
                yield from arrays(part)


WAYS = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("name", MAKERS)
def test_values_survive_and_stay_frozen(name):
    value = MAKERS[name]()
    for way in WAYS.values():
        again = way(value)
        assert type(again) is type(value)
        if name != "query own":
            assert repr(again).replace(f"{id(again):x}", "") == repr(value).replace(
                f"{id(value):x}", ""
            )
        if hasattr(value, "to_dict"):
            assert again.to_dict() == value.to_dict()
        before, after = list(arrays(value)), list(arrays(again))
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        assert all(
            a.flags.writeable >= b.flags.writeable for a, b in zip(before, after, strict=True)
        )


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_answers_the_same_afterwards(name):
    query, series = QUERIES[name], pk.Series.of(WORDS * 3, WORDS)
    again = pickle.loads(pickle.dumps(query))
    assert again.exact(series) == query.exact(series)
    entries = np.array(series.labels)
    assert np.array_equal(again.evaluate(entries), query.evaluate(entries))


def test_a_calibration_that_was_pickled_releases():
    again = pickle.loads(pickle.dumps(calibration()))
    assert again.release(WORDS * 3).scale == calibration().release(WORDS * 3).scale


def test_a_function_of_the_users_own_gives_the_plain_error():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(pk.Query("own", lambda entries: len(entries) + 1, 1, 6))
