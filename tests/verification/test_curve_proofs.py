"""Releases calibrated pair by pair: honest ones pass, less noise and false limits do not."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import verify
from pufferkit.records import packed_matrix, unpacked_matrix
from pufferkit.verification.verify import MOST_WORK
from tests.fuzz import records

THREE = [[0.7, 0.2, 0.1], [0.25, 0.6, 0.15], [0.05, 0.35, 0.6]]
SPARSE = [[0.8, 0.2, 0, 0], [0.1, 0.7, 0.2, 0], [0, 0.2, 0.7, 0.1], [0, 0, 0.4, 0.6]]
OTHER = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]
BELIEFS = {
    "steady": pk.MarkovChain.steady(THREE),
    "sparse": pk.MarkovChain.steady(SPARSE),
    "fixed start": pk.MarkovChain([1, 0, 0], THREE),
    "several": pk.ChainClass.of(pk.MarkovChain.steady(THREE), pk.MarkovChain.steady(OTHER)),
}


def passed(record):
    """Whether a record passes; else it does not, or is not of the format."""
    end = records.judged(record, MOST_WORK)
    assert end in ("ok", "not ok")
    return end == "ok"


def release(beliefs, ask, length, epsilon):
    states = range(4 if beliefs == "sparse" else 3)
    query = {
        "count": lambda: pk.count(1, length),
        "histogram": lambda: pk.histogram(states, length),
        "total": lambda: pk.total({s: s * s for s in states}, length),
    }[ask]()
    noise = pk.influence_curve(BELIEFS[beliefs], query, epsilon)
    assert noise.verification_data["curve"]
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
    def passes(change):
        record = deepcopy(honest)
        change(record["verification_data"]["curve"][0][0])
        return passed(record)

    def limited(side, change):
        def changed(own):
            (limit,) = own[side]["limits"]
            limit["limit"] = packed_matrix(change(unpacked_matrix(limit["limit"], 3)), 1e-15)

        return changed

    def one_pair(limit):
        limit[0, 1] *= 0.999
        return limit

    assert passes(lambda own: None)
    assert passes(limited("left", lambda limit: limit))
    assert not passes(limited("left", lambda limit: 0.99 * limit))  # no certificate
    assert not passes(limited("right", lambda limit: 0.5 * limit))
    assert not passes(limited("right", lambda limit: 1.1 * limit))  # one, but of too much
    assert not passes(limited("left", one_pair))
    for change in ({"first": 1}, {"last": 3001}, {"first": 3, "last": 2}, {"last": 2.5}):
        assert not passes(lambda own, change=change: own["left"]["limits"][0].update(change))
    for blocks in ([[2, [4000]]], [[2, ["1"]]], [[2]], [[2, [0]]], [[2, [1] * 99]], 5):
        assert not passes(lambda own, blocks=blocks: own["left"].update({"blocks": blocks}))


@pytest.mark.parametrize(
    "limit",
    [[[0.0]], "large", [[0, 1], [1, 0]], None, 0.0, 0.5, -1.0, 1e300, [1e-9, "?"], [1, 2, 3], {}],
)
def test_limits_that_are_none_are_caught(honest, limit):
    record = deepcopy(honest)
    record["verification_data"]["curve"][0][0]["left"]["limits"][0]["limit"] = limit
    assert not passed(record)


def test_without_a_proof_all_entries_must_be_paid_for(honest):
    bad = ({}, None, [], [None], [[None]], [[]], [[{"left": None, "right": None}]], [[{}]], 7)
    for curve in (*bad, [[{"left": {}, "right": {}}]], [[{"left": []}]], [[{"left": 1}]]):
        data = {**honest["verification_data"], "curve": curve}
        assert not passed({**honest, "verification_data": data})


def test_what_is_paid_for_needs_no_proof():
    chain = pk.MarkovChain([0.5, 0.5], [[1, 0], [0, 1]])
    noise = pk.influence_curve(chain, pk.count(1, 9), 1)
    assert noise.verification_data is None or "curve" not in noise.verification_data
    assert verify(noise.release([0] * 9)).ok


def test_weights_say_what_a_pair_costs():
    """A sum whose weights are said to be closer together than its Lipschitz constant."""
    record = release("steady", "total", 12, 0.5).to_dict()
    assert verify(record).ok
    values = dict(zip(range(3), (0, 3, 4), strict=True))
    assert not verify({**record, "question": pk.total(values, 12).question}).ok


def test_a_limit_for_one_chain_does_not_serve_another():
    record = release("several", "total", 500, 1).to_dict()
    (proofs,) = record["verification_data"]["curve"]
    nothing = {
        "limits": [{"first": 2, "last": 500, "limit": packed_matrix(np.zeros((3, 3)), 1e-9)}],
        "blocks": [],
        "plans": None,
    }
    for own in (
        proofs[:1] * 2,
        proofs[::-1],
        proofs[:1],
        [{"left": nothing, "right": nothing}] * 2,
    ):
        assert not verify({**record, "verification_data": {"curve": [own]}}).ok


def test_every_chain_of_a_large_class_has_a_limit_of_its_own():
    """Also those that were only seen to lose less than the hardest one."""
    rng = np.random.default_rng(0)
    matrices = 0.6 * rng.dirichlet(np.ones(3), (30, 3)) + 0.4 / 3
    theta = pk.ChainClass.of(*(pk.MarkovChain.steady(own) for own in matrices))
    record = pk.influence_curve(theta, pk.count(1, 2000), 1).release([0] * 2000).to_dict()
    assert verify(record).ok
    for n in range(30):
        changed = deepcopy(record)
        (own,) = changed["verification_data"]["curve"]
        own[n]["left"]["limits"][0]["limit"][0] *= 0.5
        assert not verify(changed).ok


def test_the_variation_between_values_that_never_meet_counts_for_nothing():
    """A cycle of six from a fixed start; its limits say nothing about other pairs."""
    cycle = 0.7 * np.roll(np.eye(6), 1, axis=1) + 0.3 * np.roll(np.eye(6), -1, axis=1)
    noise = pk.influence_curve(pk.MarkovChain(np.eye(6)[0], cycle), pk.count(1, 400), 1)
    record = noise.release([n % 6 for n in range(400)], anyway=True).to_dict()
    assert verify(record).ok
    assert not verify({**record, "scale": 0.98 * record["scale"]}).ok


def test_packed_matrices_are_rounded_up():
    rng = np.random.default_rng(1)
    for size, most in ((1, 1.0), (3, 1e-12), (7, 600.0)):
        matrix = most * rng.random((size, size))
        again = unpacked_matrix(packed_matrix(matrix, 1e-9 * most), size)
        assert (again >= matrix).all()
        assert again == pytest.approx(matrix, abs=1.01e-9 * most)
    for bad in (None, 5, [1], [1, "x"], ["a", "b"], [1e-9, packed_matrix(np.eye(2), 1e-9)[1]]):
        with pytest.raises(ValueError, match="matrix"):
            unpacked_matrix(bad, 3)
