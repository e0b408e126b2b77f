"""Classes of many chains: a rough bound leaves few of them to look at."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs import chain_parts
from pufferkit.beliefs.base import Member
from pufferkit.influence.curve import profile, screening
from pufferkit.influence.curve.profile import InfluenceCurve
from pufferkit.influence.curve.screening import Screen


def chains(seed, states, number):
    rng = np.random.default_rng(seed)
    return [
        pk.MarkovChain.steady(rng.dirichlet(np.full(states, rng.uniform(0.3, 4)), states))
        for _ in range(number)
    ]


@pytest.mark.parametrize("states", [2, 3, 5])
@pytest.mark.parametrize("b", [0.01, 0.2, 1.5])
def test_never_below_the_curve(states, b):
    some = chains(states, states, 8)
    rough = Screen([Member("", chain, False) for chain in some]).losses(b)
    for chain, bound in zip(some, rough, strict=True):
        exact = InfluenceCurve(chain, 5000).binding(b)[1].value
        assert exact <= bound * (1 + 1e-6)


def test_what_it_does_not_know_is_infinite():
    zeros = pk.MarkovChain.steady([[0.0, 1.0], [0.5, 0.5]])
    known = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    members = [Member("", zeros, False), Member("", known, False), Member("", known, True)]
    start = Member("", pk.MarkovChain([1.0, 0.0], known.transition), False)
    rough = Screen([*members, start]).losses(0.1)
    assert np.isfinite(rough).tolist() == [False, True, False, False]


@pytest.mark.slow
def test_the_same_noise_with_and_without_screening(monkeypatch):
    some = [*chains(1, 3, 10), pk.MarkovChain.steady([[0.0, 1, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])]
    theta, query = pk.ChainClass.of(*some), pk.histogram([0, 1, 2], 4000)
    screened = pk.influence_curve(theta, query, 1)
    asked = []
    hides = profile.InfluenceCurve._hides
    monkeypatch.setattr(
        profile.InfluenceCurve, "_hides", lambda self, *a: asked.append(self) or hides(self, *a)
    )
    pk.influence_curve(theta, query, 1)
    assert len(asked) < 6
    monkeypatch.setattr(profile, "FEW", 1000)
    plain = pk.influence_curve(theta, query, 1)
    assert screened.scale == pytest.approx(plain.scale, rel=1e-4)
    assert screened.evidence.belief == plain.evidence.belief


def test_classes_too_large_for_tables_are_not_screened(monkeypatch):
    monkeypatch.setattr(screening, "_MOST_CELLS", 10)
    rough = Screen([Member("", chain, False) for chain in chains(0, 3, 3)]).losses(0.1)
    assert np.isinf(rough).all()


def test_many_dense_states_have_one_variation_for_all_with_a_word(monkeypatch):
    chain, query = chains(3, 5, 1)[0], pk.histogram(range(5), 1000)
    pairs = pk.influence_curve(chain, query, 1)
    monkeypatch.setattr(chain_parts, "MOST_CELLS", 100)
    one_number = pk.influence_curve(chain, query, 1)
    assert one_number.scale >= pairs.scale
    assert "one bound for all pairs of values" in str(one_number.evidence)
    shown = " ".join(str(pk.plan(chain, query, 1)).split())
    assert "one bound for all pairs of values" in shown
