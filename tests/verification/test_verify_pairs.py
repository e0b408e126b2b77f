"""Releases calibrated pair by pair: honest ones pass, less noise and false limits do not."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import verify
from pufferkit.verification.pair_steps import plan_value, steps
from pufferkit.verification.pair_tables import Allowance
from tests.oracles import pairs as oracle

THREE = [[0.7, 0.2, 0.1], [0.25, 0.6, 0.15], [0.05, 0.35, 0.6]]
SPARSE = [[0.8, 0.2, 0, 0], [0.1, 0.7, 0.2, 0], [0, 0.2, 0.7, 0.1], [0, 0, 0.4, 0.6]]
OTHER = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]
BELIEFS = {
    "steady": pk.MarkovChain.steady(THREE),
    "sparse": pk.MarkovChain.steady(SPARSE),
    "fixed start": pk.MarkovChain([1, 0, 0], THREE),
    "several": pk.ChainClass.of(pk.MarkovChain.steady(THREE), pk.MarkovChain.steady(OTHER)),
}


def release(beliefs, ask, length, epsilon):
    states = range(4 if beliefs == "sparse" else 3)
    query = {
        "count": lambda: pk.count(1, length),
        "histogram": lambda: pk.histogram(states, length),
        "total": lambda: pk.total({s: s * s for s in states}, length),
    }[ask]()
    noise = pk.influence_curve(BELIEFS[beliefs], query, epsilon)
    assert noise.evidence.bound == "pairs"
    return noise.release([n % 3 for n in range(length)])


CASES = [
    ("steady", "count", 3000, 1),
    ("steady", "total", 12, 0.5),
    ("sparse", "total", 10**6, 0.3),
    ("sparse", "histogram", 10, 3),
    ("fixed start", "histogram", 10**5, 1),
    ("fixed start", "count", 9, 2),
    ("several", "total", 500, 1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_honest_releases_pass_and_less_noise_does_not(case):
    record = release(*case)
    again = pk.Release.from_json(record.to_json())
    assert verify(again).ok
    assert not verify(replace(again, scale=0.99 * record.scale)).ok


@pytest.fixture(scope="module")
def honest():
    return release("steady", "count", 3000, 1).to_dict()


def test_false_limits_are_caught(honest):
    (name,) = honest["verification_data"]["pairs"]

    def passes(change):
        record = deepcopy(honest)
        change(record["verification_data"]["pairs"][name])
        return verify(record).ok

    def scaled(side, factor):
        def change(own):
            (limit,) = own[side]["limits"]
            limit["limit"] = (factor * np.array(limit["limit"])).tolist()

        return change

    def one_pair(own):
        own["left"]["limits"][0]["limit"][0][1] *= 0.999

    assert passes(lambda own: None)
    assert not passes(scaled("left", 0.99))  # no certificate
    assert not passes(scaled("right", 0.5))
    assert not passes(scaled("right", 1.1))  # a certificate, but of too much
    assert not passes(one_pair)
    for change in ({"first": 1}, {"last": 3001}, {"first": 3, "last": 2}, {"last": 2.5}):
        assert not passes(lambda own, change=change: own["left"]["limits"][0].update(change))
    for blocks in ([[2, {"plans": [4000]}]], [[2, {"plans": ["1"]}]], [[2]], [[2, {"": [1]}]]):
        assert not passes(lambda own, blocks=blocks: own["left"].update({"blocks": blocks}))


@pytest.mark.parametrize(
    "limit", [[[0.0]], "large", [[0, 1, 1], [1, 0, 1], [1, 1, float("nan")]], None, [[-1] * 3] * 3]
)
def test_limits_that_are_none_are_caught(honest, limit):
    record = deepcopy(honest)
    (own,) = record["verification_data"]["pairs"].values()
    own["left"]["limits"][0]["limit"] = limit
    assert not verify(record).ok


def test_without_limits_the_scalar_curve_must_do(honest):
    for pairs in ({}, None, [], {"somebody else": {"left": None, "right": None}}):
        assert not verify(
            {**honest, "verification_data": {**honest["verification_data"], "pairs": pairs}}
        ).ok


def test_weights_say_what_a_pair_costs():
    """A sum whose weights are said to be closer together than its Lipschitz constant."""
    record = release("steady", "total", 12, 0.5).to_dict()
    assert verify(record).ok
    values = dict(zip(range(3), (0, 3, 4), strict=True))
    assert not verify({**record, "question": pk.total(values, 12).question}).ok


def test_a_limit_for_one_chain_does_not_serve_another():
    record = release("several", "total", 500, 1).to_dict()
    names = list(record["verification_data"]["pairs"])
    record["verification_data"]["pairs"] = {name: deepcopy(BAD) for name in names}
    assert not verify(record).ok


NOTHING = {
    "limits": [{"first": 2, "last": 500, "limit": [[0.0] * 3] * 3}],
    "blocks": [],
    "plans": None,
}
BAD = {"left": NOTHING, "right": NOTHING}


@pytest.mark.parametrize("seed", range(12))
def test_steps_by_the_solver_are_the_optimum(seed):
    rng = np.random.default_rng(seed)
    size = 2 + seed % 4
    kernel = rng.dirichlet(np.full(size, 0.7), size)
    kernel[rng.random((size, size)) < 0.3] = 0
    kernel[np.arange(size), np.arange(size)] += 0.1
    kernel /= kernel.sum(axis=1, keepdims=True)
    points = rng.random((size, 2)) * [0.01, 1, 8][seed % 3]
    limit = np.abs(points[:, None] - points[None]).sum(axis=2)
    table = steps(kernel, limit, Allowance(1e12))
    for x in range(size):
        for y in range(size):
            if x != y:
                best = oracle.step(kernel[x], kernel[y], limit)
                assert table[x, y] == pytest.approx(best, abs=2e-6)


def test_any_plan_is_worth_at_least_the_step():
    p, q = np.array([0.5, 0.5, 0]), np.array([0.2, 0.3, 0.5])
    limit = np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]], dtype=float)
    best = oracle.step(p, q, limit)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert plan_value(rng.random((3, 3)), p, q, limit) >= best - 1e-6
    assert plan_value(np.zeros((3, 3)), p, q, limit) == np.inf
