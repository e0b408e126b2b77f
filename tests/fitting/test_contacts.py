"""Beliefs about people who meet: what the odds and the share say, by definition."""

import numpy as np
import pytest

import pufferkit as pk

MET = [("ada", "ben"), ("ben", "ada"), ("ada", "eve"), ("dot", "")]


def given(theta, node, others):
    """Chances of the values of a node, given those of all others, from the joint distribution."""
    rows = theta.joint().table.items()
    total = dict.fromkeys((0, 1), 0.0)
    at = [list(theta.nodes).index(name) for name in (node, *others)]
    for outcome, chance in rows:
        if all(outcome[place] == others[name] for place, name in zip(at[1:], others, strict=True)):
            total[outcome[at[0]]] += chance
    return total[1] / total[0]


def test_all_contacts_in_the_second_state_multiply_the_odds_of_whoever_has_most():
    theta = pk.fit(MET, "contacts", odds=20)
    well, ill = ({"ben": x, "eve": x, "dot": 0} for x in (0, 1))
    assert given(theta, "ada", ill) / given(theta, "ada", well) == pytest.approx(20)
    ill, well = ({"ada": x, "eve": 0, "dot": 0} for x in (1, 0))
    two_of_three = 20 ** (2 / 3)
    assert given(theta, "ben", ill) / given(theta, "ben", well) == pytest.approx(two_of_three)


def test_somebody_without_contacts_has_the_share():
    theta = pk.fit(MET, "contacts", odds=20, share=0.2)
    assert theta.distribution("dot")[1] == pytest.approx(0.2)


def test_noise_is_bounded_by_the_odds():
    theta = pk.fit(MET, "contacts", odds=20)
    scale = pk.influence_curve(theta, pk.count(1, 4), 1.0).scale
    assert 1 <= scale < 1 / (1 - np.log(20) / 4)


@pytest.mark.parametrize(
    ("contacts", "options", "name"),
    [
        (MET, {}, "odds"),
        (MET, {"odds": 60}, "odds"),
        (MET, {"odds": 0.5}, "odds"),
        (MET, {"odds": 2, "share": 1}, "share"),
        (["ab"], {"odds": 2}, "contacts"),
        ([("ada", "ada")], {"odds": 2}, "contacts"),
        (MET, {"odds": 2, "step": "5m"}, "kind"),
    ],
)
def test_what_is_refused(contacts, options, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        pk.fit(contacts, "contacts", **options)
