"""Classes of many chains: limits close to those of one show that the others lose no more."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs import chain_parts
from pufferkit.influence.curve.engine import PartCurve, loss
from pufferkit.influence.curve.steps import Transport
from pufferkit.influence.profile import InfluenceCurve


def chains(seed, states, number):
    rng = np.random.default_rng(seed)
    return [
        pk.MarkovChain.steady(rng.dirichlet(np.full(states, rng.uniform(0.3, 4)), states))
        for _ in range(number)
    ]


def metric_of(rng, states):
    own = rng.uniform(0.2, 1, (states, states))
    return np.maximum(own, own.T) * (1 - np.eye(states))


@pytest.mark.parametrize("states", [2, 3, 5])
def test_what_limits_of_another_show_is_never_below_the_loss(states):
    """Whatever the limits and the runs, and however small the bound that they are to show."""
    rng, shown = np.random.default_rng(states), 0
    for chain in chains(states, states, 25):
        length = int(rng.choice([1, 2, 5, 40, 3000]))
        cost = rng.choice([0.01, 0.2, 1.5]) * metric_of(rng, states)
        runs = [(length, cost)]
        if length > 4 and rng.random() < 0.5:
            first = int(rng.integers(1, length - 1))
            runs = [(first, cost), (length - first, cost * rng.uniform(0, 1))]
        (part,) = pk.ChainClass.of(chain).parts(length)
        exact = loss(part, runs).value
        for share in (0.9, 0.999, 1.0, 1.001, 1.1, 2.0):
            near = tuple(cost * rng.choice([1.0, 1.5, 4.0, 20.0]) for _ in range(2))
            within = PartCurve(part, length).within(near, runs, exact * share)
            assert not within or exact * share >= exact * (1 - 1e-6)
            shown += within
    assert shown > 25


def test_a_large_class_has_the_noise_of_its_hardest_chain(monkeypatch):
    some = [*chains(1, 3, 40), pk.MarkovChain.steady([[0.0, 1, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])]
    query = pk.histogram([0, 1, 2], 300)
    alone = max(pk.influence_curve(chain, query, 1).scale for chain in some)
    searched = []
    loss_of = PartCurve.loss
    monkeypatch.setattr(
        PartCurve, "loss", lambda self, *given: searched.append(self.name) or loss_of(self, *given)
    )
    noise = pk.influence_curve(pk.ChainClass.of(*some), query, 1)
    assert noise.scale == pytest.approx(alone, rel=1e-6)
    assert len(set(searched)) < 20
    verdict = pk.verify(noise.release([0, 1, 2] * 100))
    assert verdict.ok, str(verdict)


def test_the_largest_loss_of_a_class_is_that_of_its_hardest_chain():
    some = chains(2, 3, 12)
    profile = [0.3] * 4 + [0.0] * 3 + [0.6] * 5
    alone = [InfluenceCurve(chain, 12).epsilon(profile) for chain in some]
    name, largest = InfluenceCurve(pk.ChainClass.of(*some), 12).binding(profile)
    assert largest.value == pytest.approx(max(alone), rel=1e-9)
    assert name == f"chain {np.argmax(alone) + 1} of 12"


@pytest.mark.parametrize("length", [1, 2, 3, 40])
def test_chains_with_and_without_a_known_start_are_one_class(length):
    """A single entry has no steps to either side; a start that is known, few that are alike."""
    start = pk.MarkovChain([0.8, 0.1, 0.1], chains(5, 3, 1)[0].transition)
    some = [*chains(4, 3, 3), start, pk.MarkovChain([1.0, 0.0, 0.0], np.full((3, 3), 1 / 3))]
    query = pk.count(1, length)
    alone = max(pk.influence_curve(chain, query, 1).scale for chain in some)
    for each in (some, some[::-1]):
        noise = pk.influence_curve(pk.ChainClass.of(*each), query, 1)
        assert noise.scale == pytest.approx(alone, rel=1e-6)


def test_many_dense_states_have_one_variation_for_all_with_a_word(monkeypatch):
    chain, query = chains(3, 4, 1)[0], pk.histogram(range(4), 1000)
    pairs = pk.influence_curve(chain, query, 1)
    monkeypatch.setattr(chain_parts, "MOST_CELLS", 100)
    one_number = pk.influence_curve(chain, query, 1)
    assert one_number.scale >= pairs.scale
    assert "one bound for all pairs of values" in str(one_number.evidence)
    shown = " ".join(str(pk.plan(chain, query, 1)).split())
    assert "one bound for all pairs of values" in shown


def test_a_search_with_seasons_begins_near_its_end(monkeypatch):
    solved, ask = [], Transport.__call__

    def counted(self, limit):
        solved.append(limit)
        return ask(self, limit)

    monkeypatch.setattr(Transport, "__call__", counted)
    rng, slots = np.random.default_rng(3), 30
    beliefs = pk.ChainClass.seasonal([rng.dirichlet(np.ones(16), 16) for _ in range(slots)])
    made = pk.influence_curve(beliefs, pk.count(1, 1000), 1)
    assert len(solved) < 2 * slots * 8  # both sides, four scales, the record
    assert pk.verify(made.release([0, 1] * 500)).ok
