"""A trained attacker learns from real releases, and no more than they may give away."""

import pytest

import pufferkit as pk
from pufferkit import NotApplicable
from pufferkit.audit import trained_attack

CHAIN = pk.MarkovChain.steady([[0.95, 0.05], [0.05, 0.95]], ["rest", "run"])
PEOPLE = [
    pk.Series.of([CHAIN.states[x] for x in CHAIN.sample(6000, seed=n)], CHAIN.states)
    for n in range(4)
]


def test_little_noise_is_seen_through_and_enough_noise_is_not():
    pytest.importorskip("sklearn")
    query = pk.count("run", 10)
    enough = trained_attack(pk.influence_curve(CHAIN, query, 0.5), PEOPLE)
    assert enough.proven <= 0.5
    assert "within the promised 0.5" in str(enough)
    little = trained_attack(pk.entry_dp(query, 0.5), PEOPLE)  # hides no entry that others predict
    assert little.proven > 0.5
    assert little.success > little.baseline + 0.2
    assert "ABOVE the promised 0.5" in str(little)
    assert little.windows == 1200
    assert pk.influence_curve(CHAIN, query, 0.5).scale > 3 * 2


def test_what_cannot_be_attacked():
    pytest.importorskip("sklearn")
    noise = pk.influence_curve(CHAIN, pk.count("run", 10), 1)
    with pytest.raises(NotApplicable, match="two people"):
        trained_attack(noise, PEOPLE[:1])
    with pytest.raises(NotApplicable, match="needs 50 of each"):
        trained_attack(pk.influence_curve(CHAIN, pk.count("run", 3000), 1), PEOPLE)
    with pytest.raises(NotApplicable, match="one segment"):
        trained_attack(pk.influence_curve(CHAIN, pk.count("run", [5, 5]), 1), PEOPLE)
