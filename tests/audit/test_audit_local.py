"""Audits of local mechanisms, and [B] Figure 2."""

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from papers.local_figures import attack_curve
from pufferkit.audit import audit, exact_loss
from tests.strategies.stand_ins import Response, symmetric

LAZY = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


@pytest.mark.slow
def test_dp_noise_on_correlated_bits_fails_and_ours_passes():
    """[B] 4.1 at epsilon 0.5."""
    chain = symmetric(0.1)
    dp = Response(chain, 1 / (np.exp(0.5) + 1), 0.5)
    assert not audit(dp, seed=1).passed
    b = pk.entry_epsilon(chain, 30, 0.5)
    ours = audit(Response(chain, 1 / (np.exp(b) + 1), 0.5), seed=1)
    assert ours.passed
    assert ours.entry == 15


@pytest.mark.slow
def test_the_ignorant_adversary_is_not_every_adversary():
    """theta = 0.05: noise for the ignorant one, attacked by one who knows two entries."""
    chain = symmetric(0.35)
    response = Response(chain, 0.123188, 3.0)
    assert audit(response, trials=20_000, seed=1).passed
    knowing = audit(replace(response, adversary="every"), trials=20_000, seed=1)
    assert knowing.proven > 2
    informed = audit(response, trials=20_000, length=7, known={1: 0, 7: 0}, seed=1)
    assert informed.proven <= 3.0762
    assert "X_1 = 0, X_7 = 0" in str(informed)


def test_three_states_and_half_the_privacy():
    chain = pk.MarkovChain.steady([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    loss = exact_loss(Response(chain, 0.1, 1), length=7)
    honest = audit(Response(chain, 0.1, loss), length=7, trials=20_000, seed=1)
    assert honest.passed
    assert not audit(Response(chain, 0.1, loss / 2), length=7, trials=20_000, seed=1).passed


def test_local_audits_can_be_repeated():
    response = Response(LAZY, 0.2, 1.0)
    assert audit(response, trials=2000, seed=5) == audit(response, trials=2000, seed=5)


@pytest.mark.slow
def test_the_real_local_mechanism():
    local = pytest.importorskip("pufferkit.local")
    chain = symmetric(0.2)
    loss = local.loss(chain, 0.25, 0.25)
    response = local.RandomizedResponse(chain, 0.25, 0.25, float(loss))
    assert audit(response, trials=20_000, seed=1).passed
    assert exact_loss(response, length=7) <= float(loss) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trials": 5}, "at least 100"),
        ({"confidence": 1}, "confidence"),
        ({"length": 0}, "at least 1"),
        ({"length": 4, "entry": 7}, "beyond the 4"),
        ({"length": 4, "known": {2: 0}}, "attack another"),
        ({"beliefs": pk.MarkovChain.steady(np.full((3, 3), 1 / 3))}, "matrix"),
    ],
)
def test_refusals_for_local_mechanisms(options, said):
    with pytest.raises(ValueError, match=said):
        audit(Response(LAZY, 0.2, 1.0), **options)


@pytest.mark.slow
def test_figure_2_of_local_bdp():
    """DP noise is broken the more, the more correlation; ours never."""
    rows = attack_curve(0.5, [0.02, 0.1, 0.3, 0.5], trials=4000)
    dp = [row for row in rows if row["noise"] == "dp"]
    ours = [row for row in rows if row["noise"] == "ours"]
    bound = rows[0]["bound"]
    assert bound == pytest.approx(0.622459, abs=1e-6)
    assert all(row["single_bit"] == pytest.approx(bound) for row in dp)
    success = [row["correlation_aware"] for row in dp]
    assert success == sorted(success, reverse=True)
    assert success[0] > 0.8  # the text: it more than doubles what DP allows
    assert dp[0]["charged"] > 2 * 0.5
    assert success[-1] == pytest.approx(bound)
    assert all(row["correlation_aware"] <= bound + 1e-12 for row in ours)
    assert all(row["rho"] >= pair["rho"] - 1e-12 for row, pair in zip(ours, dp, strict=True))


@pytest.mark.parametrize("theta", [0, 0.6, -1, float("nan")])
def test_thetas(theta):
    with pytest.raises(ValueError, match="thetas"):
        attack_curve(0.5, [theta])


class Sampling(Response):
    """A response with a sampler of its own."""

    def sanitize(self, series):
        if self.name == "refuses":
            raise ValueError("does not keep its promise")
        rho = 0.05 if self.name == "lies" else self.rho
        flips = np.random.default_rng(1).random(len(series)) < rho
        return pk.Series(
            np.where(flips, 1 - series.codes, series.codes), series.states, series.lengths
        )


def test_the_sampler_of_the_mechanism_is_what_is_audited():
    chain = symmetric(0.3)
    loss = exact_loss(Response(chain, 0.3, 1), length=9)
    honest = audit(Sampling(chain, 0.3, loss), length=9, trials=5000, seed=1)
    assert honest.passed
    assert "by the mechanism itself" in str(honest)
    assert not audit(Sampling(chain, 0.3, loss, name="lies"), length=9, trials=5000, seed=1).passed
    refused = audit(Sampling(chain, 0.3, loss, name="refuses"), length=9, trials=5000, seed=1)
    assert "by the emission matrix" in str(refused)


def test_a_mechanism_that_promises_for_short_series():
    short = Response(LAZY, 0.2, 1.0)
    object.__setattr__(short, "length", 5)
    assert "5 sanitised entries" in audit(short, trials=200, seed=1).attacker
    with pytest.raises(ValueError, match="at most 5 entries"):
        audit(short, trials=200, length=6)
