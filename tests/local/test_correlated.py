"""Flips that come in runs: [B] 3.3 against every adversary, by definition and by attack."""

import os
from itertools import pairwise, product
from math import log

import numpy as np
import pytest
from scipy import stats

import pufferkit as pk
from pufferkit.audit import audit, exact_loss
from pufferkit.local import (
    CorrelatedResponse,
    XorChain,
    cheapest_noise,
    correlated_noise_rows,
    estimate,
    mechanism_from_json,
)
from pufferkit.noise import local_answers
from tests.oracles.brute_xor import worst, xor_table

FLAT = pk.MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
RUNS = (0.0415, 0.4585)


def chain_of(q, r, start=None):
    matrix = [[1 - q, q], [r, 1 - r]]
    return pk.MarkovChain.steady(matrix) if start is None else pk.MarkovChain(start, matrix)


def by_definition(chain, rho_0, rho_1, length, adversary="every"):
    first = np.array([rho_1, rho_0]) / (rho_0 + rho_1)
    moves = [[1 - rho_0, rho_0], [rho_1, 1 - rho_1]]
    return worst(xor_table(chain.initial, chain.transition, first, moves, length), adversary)


@pytest.mark.parametrize("adversary", ["every", "ignorant"])
@pytest.mark.parametrize(
    "case",
    [
        (0.2, 0.2, None, *RUNS),
        (0.3, 0.1, [0.5, 0.5], 0.2, 0.3),
        (0.9, 0.7, None, 0.6, 0.9),
        (0.05, 0.4, [1.0, 0.0], 0.3, 0.1),
        (0.6, 0.2, [0.0, 1.0], 0.02, 0.97),
    ],
)
def test_loss_is_the_definition(case, adversary):
    q, r, start, rho_0, rho_1 = case
    chain = chain_of(q, r, start)
    limit = XorChain(chain, rho_0, rho_1).loss(None, adversary)
    for length in (1, 2, 3, 6):
        real = by_definition(chain, rho_0, rho_1, length, adversary)
        made = XorChain(chain, rho_0, rho_1).loss(length, adversary)
        assert made.directions == pytest.approx(real, abs=1e-11)
        assert all(ours >= theirs for ours, theirs in zip(made.directions, real, strict=True))
        assert limit >= max(real)


@pytest.mark.slow
def test_nine_entries_by_definition():
    real = by_definition(FLAT, *RUNS, 9)
    assert XorChain(FLAT, *RUNS).loss(9, "every").directions == pytest.approx(real, abs=1e-11)
    made = cheapest_noise(FLAT, 5, length=9, design="correlated")
    assert max(by_definition(FLAT, *made, 9)) == pytest.approx(5, abs=1e-9)


def test_fewer_flips_than_independent_noise():
    """theta = 0.2, epsilon = 5: 0.0829 for 0.1226, as many as the ignorant adversary would take."""
    alone = cheapest_noise(FLAT, 5)
    runs = cheapest_noise(FLAT, 5, design="correlated")
    assert alone.expected_noise == pytest.approx(0.12255, abs=1e-5)
    assert runs.expected_noise == pytest.approx(0.082913, abs=1e-6)
    assert runs.loss == pytest.approx(5, abs=1e-6)
    assert runs.loss <= 5
    assert runs.loss.exact
    assert cheapest_noise(FLAT, 5, "ignorant").expected_noise == pytest.approx(0.082913, abs=1e-6)
    (row,) = correlated_noise_rows(0.2, 5, [runs.rho_0 + runs.rho_1], "every")
    assert row["expected_noise"] == pytest.approx(runs.expected_noise, abs=1e-9)


@pytest.mark.parametrize("case", [(0.2, 0.35, 2, None), (0.8, 0.6, 1, None), (0.1, 0.1, 3, 5)])
def test_what_is_chosen_keeps_its_promise_by_definition(case):
    q, r, epsilon, length = case
    chain = chain_of(q, r)
    made = cheapest_noise(chain, epsilon, length=length, design="correlated")
    real = max(by_definition(chain, *made, length or 6))
    assert real <= made.loss <= epsilon
    if length:
        assert real == pytest.approx(epsilon, abs=1e-6)


def test_an_attack_that_climbs_finds_nothing_above_the_bound():
    """Coordinate ascent on the true loss less the promise, over chain, start and noise."""

    def gain(point):
        q, r, first, rho_0, rho_1 = point
        chain = chain_of(q, r, [first, 1 - first])
        return max(by_definition(chain, rho_0, rho_1, 4)) - XorChain(chain, rho_0, rho_1).loss(
            None, "every"
        )

    for seed in range(3):
        rng = np.random.default_rng(seed)
        point = rng.uniform(0.05, 0.95, 5)
        best = gain(point)
        for size in (0.3, 0.1, 0.03):
            for place in range(5):
                for step in (-size, size):
                    moved = point.copy()
                    moved[place] = np.clip(moved[place] + step, 0.002, 0.998)
                    value = gain(moved)
                    if value > best:
                        point, best = moved, value
        assert best <= 0


def test_flips_are_the_chain_that_is_promised(monkeypatch):
    monkeypatch.setattr(local_answers, "_CHUNK", 1000)
    made = CorrelatedResponse(FLAT, 0.1, 0.35)
    lengths = (50_000, *(3,) * 10_000)
    flips = local_answers.chain_flips(lengths, made.thresholds).astype(int)
    streams = [local_answers.flip_stream(made.thresholds) for _ in range(10_000)]
    streamed = np.array([[next(own) for _ in range(3)] for own in streams], dtype=int)
    for rows in (flips[50_000:].reshape(-1, 3), streamed):
        seen = np.bincount(rows @ [4, 2, 1], minlength=8)
        start, moves, _ = made.noise_states
        shares = [start[a] * moves[a, b] * moves[b, c] for a, b, c in product((0, 1), repeat=3)]
        assert stats.chisquare(seen, 10_000 * np.array(shares)).pvalue > 1e-10
    long = flips[:50_000]
    for state, rho in ((0, 0.1), (1, 0.35)):
        moved = long[1:][long[:-1] == state] != state
        assert stats.binomtest(int(moved.sum()), len(moved), rho).pvalue > 1e-10
        assert stats.binomtest(int(moved.sum()), len(moved), 0.8 * rho).pvalue < 1e-10


def test_every_form_of_input_and_gaps(monkeypatch):
    asked = []
    real = local_answers.chain_flips

    def watched(lengths, thresholds):
        asked.append(tuple(lengths))
        return np.resize([False, True], len(real(lengths, thresholds)))

    monkeypatch.setattr(local_answers, "chain_flips", watched)
    home = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["home", "out"])
    made = CorrelatedResponse(home, 0.1, 0.4)
    assert made.sanitize(["home", "home", "out"]) == ["home", "out", "out"]
    assert made.sanitize([["home", "out"], ["out"]]) == [["home", "home"], ["out"]]
    # An entry that was not observed has a flip of its own, which is thrown away.
    gap = pk.Series.of(["home", None, "home", "home"], ["home", "out"])
    assert made.sanitize(gap).labels == ["home", None, "home", "out"]
    assert asked == [(3,), (2, 1), (4,)]
    bits = CorrelatedResponse(FLAT, 0.1, 0.4)
    for kind in (np.uint8, np.int64, np.bool_):
        assert bits.sanitize(np.array([0, 0, 1], dtype=kind)).tolist() == [0, 1, 1]
    assert set(bits.sanitize(iter([0, 1] * 50))) == {0, 1}


def test_a_stream_goes_on_in_its_own_process_only():
    made = CorrelatedResponse(FLAT, 0.1, 0.4)
    stream, other = (made.sanitize(iter([0] * 100)) for _ in range(2))
    next(stream)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            next(other)  # had not begun: its noise is drawn here
            try:
                next(stream)
            except pk.NoTheorem:
                os.write(write, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"refused"
    os.close(read)
    os.close(write)
    assert len(list(stream)) == 99


def answers_and_chances(made, truth):
    """Every sanitised series with its probability."""
    start, moves, _ = made.noise_states
    for flips in product((0, 1), repeat=len(truth)):
        chance = start[flips[0]]
        for a, b in pairwise(flips):
            chance *= moves[a, b]
        yield np.array(truth) ^ np.array(flips), chance


@pytest.mark.parametrize("rho", [(0.1, 0.4), (0.3, 0.9), (0.02, 0.1)])
def test_estimates_are_unbiased_and_their_variance_is_bounded(rho):
    made = CorrelatedResponse(FLAT, *rho)
    for truth in ([0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 1], [0] * 6):
        counts, moves, weights, said = [], [], [], []
        for answers, chance in answers_and_chances(made, truth):
            told = estimate(answers, made, 0.68268949)
            counts.append(told.counts)
            moves.append(told.transitions)
            said.append((told.counts_error**2, told.transitions_error**2))
            weights.append(chance)
        mean, pairs = np.tensordot(weights, counts, 1), np.tensordot(weights, moves, 1)
        assert mean == pytest.approx([truth.count(0), truth.count(1)], abs=1e-9)
        wanted = np.zeros((2, 2))
        np.add.at(wanted, (truth[:-1], truth[1:]), 1)
        assert pairs == pytest.approx(wanted, abs=1e-9)
        variance = np.tensordot(weights, (np.array(counts) - mean) ** 2, 1)
        assert (variance <= np.tensordot(weights, [own for own, _ in said], 1) + 1e-9).all()
        variance = np.tensordot(weights, (np.array(moves) - pairs) ** 2, 1)
        assert (variance <= np.tensordot(weights, [own for _, own in said], 1) + 1e-9).all()


def test_guaranteed_intervals_hold():
    made = CorrelatedResponse(FLAT, 0.1, 0.4)
    truth = [0, 0, 0, 1, 1, 0, 0, 1]
    moves = np.zeros((2, 2))
    np.add.at(moves, (truth[:-1], truth[1:]), 1)
    for level in (0.5, 0.9):
        outside = np.zeros(2)
        for answers, chance in answers_and_chances(made, truth):
            told = estimate(answers, made, level, guaranteed=True)
            outside[0] += chance * (abs(told.counts[1] - 3) > told.counts_error[1])
            apart = abs(told.transitions - moves) > told.transitions_error
            outside[1] += chance * apart[0, 1]
        assert (outside <= 1 - level).all()


def test_records_and_refusals():
    made = cheapest_noise(FLAT, 3, design="correlated")
    assert mechanism_from_json(made.to_json()).to_dict() == made.to_dict()
    assert "correlated response" in str(made)
    with pytest.raises(ValueError, match="design"):
        cheapest_noise(FLAT, 1, design="magic")
    with pytest.raises(ValueError, match="two states"):
        cheapest_noise(pk.MarkovChain.steady(np.full((3, 3), 1 / 3)), 1, design="correlated")
    with pytest.raises(ValueError, match="no zeros"):
        CorrelatedResponse(pk.MarkovChain.steady([[0, 1], [0.5, 0.5]]), 0.1, 0.4)
    with pytest.raises(ValueError, match="rho_1"):
        CorrelatedResponse(FLAT, 0.1, 1)
    broken = CorrelatedResponse(FLAT, 0.1, 0.4, epsilon=0.5)
    assert not broken.is_private
    with pytest.raises(ValueError, match="nothing was sanitised"):
        broken.sanitize([0, 1])
    # Tiny probabilities are drawn as they are kept: multiples of 2^-64.
    small = CorrelatedResponse(FLAT, 1e-12 / 3, 0.4)
    assert small.thresholds[0] / 2**64 == small.rho_0 >= 1e-12 / 3
    with pytest.raises(ValueError, match="sums"):
        correlated_noise_rows(0.2, 1, [2.5])


def test_the_audit_knows_the_noise_remembers():
    made = CorrelatedResponse(FLAT, *RUNS)
    for known in ({}, {1: 0, 7: 1}):
        told = exact_loss(made, length=7, known=known)
        assert told <= made.loss
    ignorant = max(by_definition(FLAT, *RUNS, 7, "ignorant"))
    assert exact_loss(made, length=7) == pytest.approx(ignorant, abs=1e-9)
    good = audit(made, length=9, trials=4000, confidence=0.999, seed=1)
    assert good.passed
    assert "the mechanism itself" in str(good)
    assert good.proven > 1
    claimed = CorrelatedResponse(FLAT, *RUNS, epsilon=0.7 * float(made.loss))
    assert not audit(claimed, length=9, trials=4000, confidence=0.999, seed=1).passed


def test_flips_all_alike_say_little_to_the_ignorant_and_all_to_others():
    """Nearly constant noise: who knows one entry knows the noise."""
    made = XorChain(FLAT, 1e-6, 1e-6)
    assert made.loss(50) < 1e-9
    assert made.loss(3, "every") > 2 * log(1e6) - 1
