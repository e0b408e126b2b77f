"""Pictures of graphs: parts side by side, and who sets the noise."""

import pytest

import pufferkit as pk
from pufferkit.plots.belief_figures import graph_figure

STREET = pk.MarkovRandomField.ising([("a", "b"), ("b", "c"), ("x", "y")], 0.4, nodes=["alone"])


def test_the_ringed_node_is_the_one_that_decides():
    noise = pk.influence_curve(STREET, pk.count(1, 6), 1)
    figure = noise.plot()
    words = " ".join(
        text.get_text() for text in figure.findobj(match=lambda o: hasattr(o, "get_text"))
    )
    assert noise.evidence.node == "b"
    assert "who sets the noise (b)" in words
    assert STREET.plot() is not None
    assert pk.influence_curve([STREET, STREET], pk.count(1, 6), 1).beliefs.plot() is not None


def test_parts_do_not_overlap():
    figure = graph_figure(
        range(90), [(n, n + 1) for n in range(69)], "a long part and twenty others"
    )
    (dots,) = [own for own in figure.axes[0].collections if len(own.get_offsets()) == 90]
    assert len({(round(x, 3), round(y, 3)) for x, y in dots.get_offsets()}) == 90


def test_networks_show_who_binds_and_chains_do_not():
    tree = STREET.network()
    assert pk.influence_curve(tree, pk.count(1, 6), 1).plot() is not None
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    with pytest.raises(ValueError, match="no picture of it, unless"):
        pk.influence_curve(chain, pk.count(1, 10), 1).plot()
