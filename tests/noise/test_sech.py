"""Discrete sech noise: its coin by listing every toss, its tails, and draws by chi-squared.

The proposal is the discrete Laplace sampler, whose own tests are in `test_exact_laplace`.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from pufferkit.noise import sech
from pufferkit.noise.sech import DiscreteSech

ALARM = 1e-6  # bytes are seeded, so a test that passes once passes always


def seeded(seed=1):
    return np.random.default_rng(seed).bytes


def one_round(monkeypatch, size, a):
    """P(accept), P(reject), P(again) of one round of the coin, a rational number for e^{-1/s}."""
    ends = dict.fromkeys(("accept", "reject", "again"), Fraction(0))
    bits = bin(size).count("1")
    for fair, *heads in product([False, True], repeat=1 + bits):
        weight, left, asked = Fraction(1, 2), list(heads), [0]

        def tossed(coin, count, *_, left=left, asked=asked):
            if not count:
                return np.zeros(0, dtype=bool)
            assert count == 1
            asked.append(a ** (2**coin.i))
            return np.array([left[len(asked) - 2]])

        rounds = []

        def source(count, fair=fair, rounds=rounds):
            rounds.append(count)
            if len(rounds) > 1:
                raise LookupError
            return bytes([128 * fair])

        monkeypatch.setattr(sech, "tosses", tossed)
        coin = DiscreteSech.of(Fraction(1))
        try:
            accepted = bool(coin._accepted(np.array([size]), None, source)[0])
            end = "accept" if accepted else "reject"
        except LookupError:
            end = "again"
        used = asked[1:]
        for chance, side in zip(used, heads, strict=False):
            weight *= chance if side else 1 - chance
        if all(not side for side in heads[len(used) :]):  # list what was not asked for once
            ends[end] += weight
    return ends


@pytest.mark.parametrize("a", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("size", [0, 1, 2, 5, 7, 12])
def test_the_coin_accepts_with_one_over_one_plus_q(monkeypatch, size, a):
    ends, q = one_round(monkeypatch, size, a), a ** (2 * size)
    assert ends == {"accept": Fraction(1, 2), "reject": q / 2, "again": (1 - q) / 2}
    assert ends["accept"] / (1 - ends["again"]) == 1 / (1 + q)


def looks_right(draws, scale):
    """A chi-squared test of the numbers that are expected often; the others in one cell."""
    reach = int(8 * scale) + 3
    cells = np.arange(-int(45 * scale) - 5, int(45 * scale) + 6)
    mass = 1 / np.cosh(np.minimum(np.abs(cells) / scale, 700))
    expected = len(draws) * (mass / mass.sum())[np.abs(cells) <= reach]
    seen = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    kept = expected > 20
    expected, seen = expected[kept], seen[1:-1][kept]
    expected = np.append(expected, max(len(draws) - expected.sum(), 1.0))
    seen = np.append(seen, len(draws) - seen.sum())
    return stats.chi2(len(seen) - 1).sf(((seen - expected) ** 2 / expected).sum()) > ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(40)])
def test_draws_follow_the_distribution(scale):
    draws = DiscreteSech.of(scale).on(np.full(200_000, -4), source=seeded()) + 4
    assert looks_right(draws, float(scale))
    assert not looks_right(draws, 0.8 * float(scale))
    assert not looks_right(draws, 1.25 * float(scale))


@pytest.mark.parametrize("scale", [3e7, 2.0**40])
def test_draws_of_large_scales_are_sech(scale):
    draws = DiscreteSech.of(Fraction(scale)).on(np.zeros(50_000, np.int64), source=seeded(2))
    tested = [
        stats.kstest(draws / scale, stats.hypsecant(scale=s).cdf).pvalue for s in (0.8, 1, 1.25)
    ]
    assert [p > ALARM for p in tested] == [False, True, False]


def test_draws_of_several_scales_are_those_of_each():
    scales = [Fraction(1, 2), Fraction(3), Fraction(60)]
    which = np.arange(300_000) % 3
    draws = DiscreteSech.of(*scales).on(np.zeros(len(which), np.int64), which, seeded(3))
    for number, scale in enumerate(scales):
        assert looks_right(draws[which == number], float(scale))
    together = draws.reshape(-1, 3)
    assert np.abs(np.corrcoef(np.sign(together).T)[np.triu_indices(3, 1)]).max() < 0.015


@pytest.mark.parametrize("side", [-1, 1])
def test_noise_that_64_bits_do_not_hold_leads_to_the_last_answer(monkeypatch, side):
    law = DiscreteSech.of(Fraction(2**40))
    ends = {-1: -(2**63), 1: 2**63 - 1}
    monkeypatch.setattr(
        type(law.proposal), "on", lambda self, values, *_: np.full(len(values), ends[side])
    )
    for answer in (-(2**61), 0, 2**61):
        assert law.on(np.array([answer]), source=seeded()).tolist() == [side * (2**62 - 1)]


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**40) + 1])
def test_scales_that_do_not_fit_are_refused(scale):
    with pytest.raises(ValueError, match="at most 2"):
        DiscreteSech.of(scale)
    with pytest.raises(ValueError, match=r"2\^61"):
        DiscreteSech.of(Fraction(1)).on(np.array([2**61 + 1]))
