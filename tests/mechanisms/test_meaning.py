"""What epsilon means for one release, in the words of the data."""

from itertools import pairwise, product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.provenance import FoldRecord, Provenance
from pufferkit.mechanisms.explain import meaning, stretch_losses

CHAIN = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], ["rest", "run"], step="5m")


def probability(path):
    chance = CHAIN.initial[path[0]]
    for now, after in pairwise(path):
        chance *= CHAIN.transition[now, after]
    return chance


def test_the_loss_of_an_hour_bounds_that_of_any_two_hours():
    """A count over 13 entries with Laplace noise, and all values of the first 12 of them."""
    noise = pk.influence_curve(CHAIN, pk.count("run", 13), 1)
    (loss,) = [loss for name, loss in stretch_losses(noise) if name == "an hour"]
    density = {}
    for hour in product((0, 1), repeat=12):
        likely = np.array([probability((*hour, x)) for x in (0, 1)])
        outputs = np.arange(-20.0, 34.0, 1.0)
        answers = sum(hour) + np.array([0, 1])
        shown = np.exp(-np.abs(outputs[:, None] - answers) / noise.scale) @ (likely / likely.sum())
        density[hour] = np.log(shown)
    every = np.array(list(density.values()))
    exact = float((every.max(axis=0) - every.min(axis=0)).max())
    assert exact <= loss <= 1.2 * exact
    assert loss > 1


def test_words_name_the_states_the_step_and_who_is_not_covered():
    noise = pk.influence_curve(CHAIN, pk.count("run", 2016), 1)
    first, odds, longer = meaning(noise)
    assert "one entry, 5m" in first
    assert "'run'" in odds
    assert "the same for 'rest'" in odds
    assert "an hour up to" in longer
    assert "a week" in longer
    tested = FoldRecord(20, 5, 3, "count", 1.0, (("hull of people", 1.0), ("4 regimes", 1.59)))
    source = Provenance(digests=("x",), transitions=9, tested=tested)
    chosen = pk.MarkovChain.steady(CHAIN.transition, CHAIN.states, source)
    again = pk.MarkovChain.from_json(chosen.to_json())
    assert again.fitted_on.tested == tested
    plan = pk.plan(again, pk.count("run", 100), 1)
    words = "survived 5 folds of 20 people (seed 3); at epsilon 1 for count not covered: 4 regimes"
    assert any(words in line for line in plan.remarks())
    assert words in meaning(plan.best)[-1]
    assert '"4 regimes": 1.59' in plan.best.release(["rest", "run"] * 50).to_json()
    with pytest.raises(ValueError, match="tested"):
        FoldRecord.from_dict(["no"])


def test_where_there_is_nothing_to_say():
    assert meaning(pk.entry_dp(pk.count("run", 10), 1)) == ()
    hidden = pk.ChainClass.of(CHAIN).with_secrets(pk.Secrets.runs(3))
    assert meaning(pk.influence_curve(hidden, pk.count("run", 30), 1)) == ()
    unknown = pk.MarkovChain.steady(CHAIN.transition, CHAIN.states)
    lines = meaning(pk.influence_curve(unknown, pk.count("run", 50), 1))
    assert "10 entries in a row" in lines[-1]


def test_someone_unsure_of_the_member_is_told_apart():
    other = pk.MarkovChain.steady([[0.7, 0.3], [0.3, 0.7]], CHAIN.states, step="5m")
    hull = pk.ChainClass.hull(CHAIN, other)
    noise = pk.influence_curve(hull, pk.count("run", 50), 1)
    assert f"loses up to {1 + hull.loss_of_type:.3g}" in meaning(noise)[-1]
