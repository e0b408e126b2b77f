"""The losses of pairs: all within the promise, close pairs far below it."""

import pytest

import pufferkit as pk

LADDER = [[0.7, 0.25, 0.05], [0.2, 0.6, 0.2], [0.05, 0.25, 0.7]]


def test_every_pair_keeps_the_promise_and_close_ones_more():
    chain = pk.MarkovChain.steady(LADDER, states=["low", "middle", "high"])
    noise = pk.influence_curve(chain, pk.total({"low": 0, "middle": 1, "high": 2}, 500), 1)
    table = pk.explain(noise)
    assert table.losses.max() <= 1
    assert table.losses[0, 2] > 0.99
    assert 0 < table.losses[0, 1] < 0.8
    assert not table.losses.diagonal().any()
    assert "middle" in str(table)
    assert len(str(table).splitlines()) == 9


@pytest.mark.parametrize(
    "query", [pk.total([0, 1, 2], 60), pk.histogram(range(3), 60), pk.count(1, 60)], ids=str
)
def test_a_release_explains_itself(query):
    noise = pk.influence_curve(pk.MarkovChain.steady(LADDER), query, 1)
    release = pk.Release.from_json(noise.release([0, 1, 2] * 20).to_json())
    assert release.explain().losses == pytest.approx(pk.explain(noise).losses, rel=1e-6, abs=1e-9)


def test_any_start_has_a_bound_for_each_pair():
    beliefs = pk.ChainClass.any_start(LADDER)
    table = pk.explain(pk.influence_curve(beliefs, pk.histogram([0, 1, 2], 50), 1))
    assert table.losses[0, 1] < table.losses[0, 2] <= 1


def test_only_chains_have_pairs_of_values():
    with pytest.raises(ValueError, match="beliefs"):
        pk.explain(pk.entry_dp(pk.count(1, 10), 1))


def test_the_picture_has_a_number_for_each_pair():
    noise = pk.influence_curve(pk.MarkovChain.steady(LADDER), pk.count(1, 50), 1)
    figure = pk.plots.pair_figure(pk.explain(noise))
    assert len([text for text in figure.axes[0].texts if text.get_text()]) == 6
