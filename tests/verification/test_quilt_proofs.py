"""Recorded quilts and vectors of GK16: honest ones pass, no mutant shows less noise to be enough.

The mechanisms find the least scale that their theorem allows, so with a scale that is 2% smaller no
record whatever may pass.
"""

from collections.abc import Iterator
from copy import deepcopy
from math import inf, log
from random import Random
from typing import Any

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.verification.check_quilts import (
    Nearby,
    of_chain,
    score_of_chain,
    spread_on_chain,
)
from pufferkit.verification.claims import Allowance
from pufferkit.verification.verify import MOST_WORK
from tests.fuzz import records
from tests.oracles import brute

pytestmark = pytest.mark.filterwarnings("ignore::pufferkit.errors.DrownedAnswer")

CUT = 0.98


def matrix(rng: np.random.Generator, states: int, kind: int) -> np.ndarray:
    """Dense, with zeros, a cycle, or slow."""
    rows = rng.dirichlet(np.full(states, rng.choice([0.3, 1, 5])), states)
    if kind == 1:
        rows = rows * (rng.random((states, states)) > 0.4)
        rows[np.arange(states), rng.integers(0, states, states)] += 0.2
        rows /= rows.sum(axis=1, keepdims=True)
    if kind == 2:
        rows = np.roll(np.eye(states), 1, axis=1)
    return 0.9 * np.eye(states) + 0.1 * rows if kind == 3 else rows


def beliefs_of(rng: np.random.Generator, states: int) -> Any:
    kind, start = (int(n) for n in rng.integers(0, 4, 2))
    rows = matrix(rng, states, kind)
    if start == 0:
        chain = pk.MarkovChain(np.eye(states)[0], rows)
        return pk.MarkovChain.steady(rows) if len(chain.closed_classes) == 1 else chain
    if start == 1:
        return pk.ChainClass.any_start(rows, matrix(rng, states, kind))
    if start == 2:
        return pk.MarkovChain(np.eye(states)[0], rows)
    return pk.ChainClass.of(*(pk.MarkovChain(rng.dirichlet(np.ones(states)), rows),) * 2)


def released(seed: int) -> Iterator[dict[str, Any]]:
    """Records of one belief by every mechanism that applies."""
    rng = np.random.default_rng(seed)
    states = int(rng.integers(2, 5))
    length = int(rng.choice([1, 2, 3, 5, 9, 30, 300]))
    epsilon = float(rng.choice([1e-3, 0.3, 1, 3, 30]))
    theta, query = beliefs_of(rng, states), pk.count(0, length)
    data: Any = [n % states for n in range(length)]
    if length > 3 and seed % 3 == 0:
        data = [None if rng.random() < 0.3 else x for x in data[:-1]] + [0]
        data = pk.Series.of(data, range(states))
        query = pk.count(0, data)
    for mechanism in (
        lambda: pk.markov_quilt(theta, query, epsilon),
        lambda: pk.markov_quilt(theta, query, epsilon, influence="formula"),
        lambda: pk.markov_quilt_approx(theta, query, epsilon),
        lambda: pk.markov_quilt_approx(theta, query, epsilon, bound="tight"),
        lambda: pk.gk16(theta, query, epsilon),
    ):
        try:
            yield mechanism().release(data, anyway=True).to_dict()
        except pk.NotApplicable:
            continue


def mutated(record: dict[str, Any], rng: Random) -> dict[str, Any]:
    """The scale cut, and some numbers of the proof moved, dropped, doubled or spoiled."""
    record = deepcopy(record)
    record["scale"] *= rng.choice([CUT, 0.9, 0.5, 1e-3])
    proof = record["verification_data"]
    field = "quilts" if "quilts" in proof else "sums"
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        place: Any = proof[field]
        while rng.random() < 0.9 and isinstance(place, list) and place:
            inner = rng.choice(place)
            if not isinstance(inner, list) or not inner:
                break
            place = inner
        if not place:
            continue
        n = rng.randrange(len(place))
        old = place[n]
        if isinstance(old, (int, float)):
            near = [old + 1, old - 1, -old, 0, 2 * old, old / 2, 10**18]
            place[n] = rng.choice([*near, rng.randint(-9, 9), 0.5, -0.0, inf, None, True, "1", []])
        elif rng.random() < 0.3:
            del place[n]
        elif rng.random() < 0.5:
            place.insert(n, deepcopy(old))
        else:
            rng.shuffle(place)
    return record


@pytest.mark.parametrize("seed", range(20))
def test_honest_records_pass_and_no_mutant_of_less_noise_does(seed):
    rng = Random(seed)
    for record in released(seed):
        assert pk.verify(record).ok, record
        for _ in range(12):
            spoiled = mutated(record, rng)
            end = records.judged(spoiled, MOST_WORK)
            assert end == "not ok", spoiled["verification_data"]


def test_an_entry_of_one_state_has_nothing_to_hide():
    chain = pk.MarkovChain.steady([[1.0]])
    for noise in (
        pk.markov_quilt(chain, pk.count(0, 9), 1),
        pk.markov_quilt_approx(chain, pk.count(0, 9), 1),
        pk.gk16(chain, pk.count(0, 9), 1),
    ):
        assert pk.verify(noise.release([0] * 9, anyway=True)).ok


def test_the_printed_formula_is_checked_as_printed():
    chain = pk.MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    for reading, scale in (("formula", 13.02192), ("definition", 12.93405)):
        noise = pk.markov_quilt(chain, pk.count(1, 100), 1, influence=reading)
        verdict = pk.verify(noise.release([0, 1] * 50))
        assert verdict.needed_scale == pytest.approx(scale, abs=1e-5)


def test_proofs_are_small():
    chain = pk.MarkovChain.steady(np.random.default_rng(1).dirichlet(np.ones(10), 10))
    for noise in (
        pk.markov_quilt(chain, pk.count(0, 10**6), 1),
        pk.markov_quilt_approx(chain, pk.count(0, 10**6), 1, bound="tight"),
        pk.markov_quilt(pk.ChainClass.any_start(chain.transition), pk.count(0, 10**6), 1),
        pk.gk16(pk.MarkovChain.steady([[0.6, 0.4], [0.3, 0.7]]), pk.count(0, 10**6), 1),
    ):
        assert len(str(noise.verification_data)) < 4000


def test_proofs_of_many_members_are_small():
    chains = [pk.MarkovChain.steady([[0.9, 0.1], [p, 1 - p]]) for p in np.linspace(0.3, 0.5, 40)]
    noise = pk.markov_quilt(pk.ChainClass.of(*chains), pk.count(1, 1000), 1)
    (case,) = noise.verification_data["quilts"]
    assert len(case) == 40
    assert len(str(case)) < 40 * 100
    assert pk.verify(noise.release([0, 1] * 500)).ok


def by_definition(chain: pk.MarkovChain, node: int, ends: list[int]) -> float:
    """[Q] Definition 4.1 from the joint distribution of all entries."""
    length, states = max([node, *ends]), len(chain)
    joint = chain.initial.reshape(-1)
    for _ in range(length - 1):
        joint = (joint.reshape(-1, states)[..., None] * chain.transition).reshape(-1)
    table = joint.reshape((states,) * length)
    table = table.sum(axis=tuple(n for n in range(length) if n + 1 not in (node, *ends)))
    table = np.moveaxis(table, [*sorted([node, *ends])].index(node), 0).reshape(states, -1)
    rows = [row / row.sum() for row in table if row.sum() > 0]
    ratios = [
        log(p / q) if q > 0 else inf
        for one in rows
        for other in rows
        for p, q in zip(one, other, strict=True)
        if p > 0
    ]
    return max(0.0, *ratios)


@pytest.mark.parametrize("seed", range(20))
def test_any_runs_at_all_score_at_least_what_the_definition_says(seed):
    """Random runs, endpoints beyond the segment and before it included: never a smaller score."""
    rng = np.random.default_rng(seed)
    states, length = int(rng.integers(2, 4)), int(rng.integers(1, 7))
    rows = matrix(rng, states, int(rng.integers(0, 4)))
    start = np.eye(states)[0] if seed % 2 else rng.dirichlet(np.ones(states))
    chain = pk.MarkovChain(start, rows)
    if seed % 5 == 0 and len(chain.closed_classes) == 1:
        chain = pk.MarkovChain.steady(rows)
    (member,) = pk.ChainClass.of(chain).members()
    side, epsilon = of_chain(member, length), 5.0
    for _ in range(20):
        runs, left = [], length
        while left:
            count = int(rng.integers(1, left + 1))
            runs.append([count, *(int(n) for n in rng.integers(-1, length + 1, 2))])
            runs[-1][2] = max(0, runs[-1][2])
            left -= count
        score = score_of_chain(side, runs, Nearby(length), epsilon, Allowance(1e12))
        quilts = [(a, b) for count, a, b in runs for _ in range(count)]
        worst = 0.0
        for node, (a, b) in enumerate(quilts, 1):
            if np.count_nonzero(chain.marginal(node)) == 1:
                continue  # nothing to hide
            ends = [-a] if a < 0 else [node - a] if 0 < a < node else []
            ends += [node + b] if b and node + b <= length else []
            near = [n for n in range(1, length + 1) if _between(n, node, ends)]
            room = inf if node in ends else epsilon - by_definition(chain, node, ends)
            worst = max(worst, len(near) / room if room > 0 else inf)
        assert score >= worst * (1 - 1e-9), runs


@pytest.mark.parametrize("seed", range(12))
def test_runs_of_any_start_score_at_least_the_largest_over_starts(seed):
    rng = np.random.default_rng(seed)
    states, length, epsilon = int(rng.integers(2, 4)), int(rng.integers(2, 6)), 6.0
    rows = matrix(rng, states, int(rng.choice([0, 1, 3])))
    (member,) = pk.ChainClass.any_start(rows).members()
    side = of_chain(member, length)
    for _ in range(8):
        left, right = (int(n) for n in rng.integers(0, length, 2))
        cut = int(rng.integers(1, length + 1))
        runs = [[cut, left, right]] + [[length - cut, right, left]] * (cut < length)
        score = score_of_chain(side, runs, Nearby(length), epsilon, Allowance(1e12))
        worst = 0.0
        for node in range(1, length + 1):
            a, b = (left, right) if node <= cut else (right, left)
            a, b = a if a < node else 0, b if node + b <= length else 0
            influence = brute.influence_over_starts(rows, length, node, a or None, b or None)
            card = (a or node) + (b or length - node + 1) - 1
            worst = max(worst, card / (epsilon - influence) if influence < epsilon else inf)
        assert score >= worst * (1 - 1e-9), runs


def test_the_entry_that_ends_a_quilt_by_name_must_be_sure():
    """Only a fixed start makes an entry sure, and it must come before the node."""
    (member,) = pk.ChainClass.of(pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])).members()
    side = of_chain(member, 5)
    assert score_of_chain(side, [[5, -1, 0]], Nearby(5), 100.0, Allowance(1e12)) == inf
    there_and_back = [[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]]
    (member,) = pk.ChainClass.of(pk.MarkovChain([0, 0.3, 0.7], there_and_back)).members()
    side = of_chain(member, 4)
    assert score_of_chain(side, [[4, -4, 0]], Nearby(4), 100.0, Allowance(1e12)) == inf
    named = [[1, 0, 1], [1, 0, 0], [1, -2, 1], [1, 0, 0]]
    assert score_of_chain(side, named, Nearby(4), 100.0, Allowance(1e12)) == pytest.approx(0.01)


def test_vectors_below_zero_or_for_another_length_show_nothing():
    (member,) = pk.ChainClass.of(pk.MarkovChain.steady([[0.95, 0.05], [0.1, 0.9]])).members()
    assert spread_on_chain(member, 6, [[6, -1e6]], Allowance(1e12)) == inf
    for recorded in ([[5, 1e6]], [[7, 1e6]], [[6.0, 1e6]], [[6]], None):
        with pytest.raises((TypeError, ValueError)):
            spread_on_chain(member, 6, recorded, Allowance(1e12))


@pytest.mark.parametrize("seed", range(20))
def test_any_vector_shows_no_less_than_the_row_sums(seed):
    """As it is, with entries lowered, exchanged, negative, or too few or many of them."""
    rng, random = np.random.default_rng(seed), Random(seed)
    length = int(rng.integers(2, 9))
    rows = rng.dirichlet(np.full(3, 30.0), 3)
    chain = pk.MarkovChain(rng.dirichlet(np.full(3, 30.0)), rows)
    (member,) = pk.ChainClass.of(chain).members()
    gamma = brute.gk16_matrix(chain.initial, chain.transition, length)
    sums = np.linalg.solve(np.eye(length) - gamma, np.ones(length))
    exact = [[1, float(x) * (1 + 1e-9)] for x in sums]
    assert spread_on_chain(member, length, exact, Allowance(1e12)) == pytest.approx(2 * sums.max())
    for _ in range(30):
        runs = deepcopy(exact)
        for _ in range(random.choice([1, 2, length])):
            n = random.randrange(len(runs))
            runs[n][1] *= random.choice([0.99, 0.5, 0.0, -1.0, 1.01, -9.0])
        if random.random() < 0.2:
            runs[random.randrange(len(runs))][0] = random.choice([2, 3, 9])
        try:
            spread = spread_on_chain(member, length, runs, Allowance(1e12))
        except TypeError:
            assert sum(count for count, _ in runs) != length
            continue
        assert spread >= 2 * sums.max() * (1 - 1e-9)
    longer = [exact[0], [10**9 - 2, 2 * float(sums.max())], exact[-1]]
    assert spread_on_chain(member, 10**9, longer, Allowance(1e12)) == inf


def _between(n: int, node: int, ends: list[int]) -> bool:
    low = max((end for end in ends if end < node), default=0)
    high = min((end for end in ends if end > node), default=10**9)
    return low < n < high
