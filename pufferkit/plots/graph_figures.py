"""Pictures of graphs: who is a neighbour of whom, and whose privacy sets the noise."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING

from pufferkit.plots.canvas import BLACK, BLUE, GREY, ORANGE, PALE, blank, footnote

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[float, float]

_MOST_NAMES = 40
_MOST_BINDING = 5
_TIED = 1e-6


def graph_figure(
    nodes: Sequence[Hashable],
    edges: Iterable[tuple[Hashable, Hashable]],
    title: str,
    losses: Mapping[Hashable, float] | None = None,
) -> Figure:
    """Nodes and edges, independent parts side by side, the largest first.

    Parameters
    ----------
    nodes, edges
        The graph.
    title
        Above it.
    losses
        How much a release tells about each node: the darker the more. The largest are ringed and
        named.
    """
    pairs = list(edges)
    places = _places(nodes, pairs)
    figure, axes = blank(8.6, 6.4, title)
    from matplotlib.collections import LineCollection  # noqa: PLC0415 - slow to load

    lines = [(places[one], places[other]) for one, other in pairs]
    axes.add_collection(LineCollection(lines, colors=GREY, linewidths=0.8, zorder=1))
    across = [places[node][0] for node in nodes]
    up = [places[node][1] for node in nodes]
    size = max(12.0, min(160.0, 9000.0 / len(nodes)))
    if losses is None:
        axes.scatter(across, up, s=size, color=BLUE, edgecolors=BLACK, linewidths=0.5, zorder=2)
    else:
        shades = axes.scatter(
            across, up, s=size, c=[losses[node] for node in nodes], cmap="Blues", vmin=0,
            edgecolors=BLACK, linewidths=0.4, zorder=2,
        )  # fmt: skip
        figure.colorbar(shades, ax=axes, label="bound on the loss of a node", shrink=0.7)
        most = max(losses.values())
        binding = [node for node in nodes if losses[node] >= most * (1 - _TIED)]
        for node in binding:
            axes.scatter(
                *places[node], s=2.6 * size, facecolors="none", edgecolors=ORANGE, linewidths=2.2,
                zorder=3,
            )  # fmt: skip
        for node in binding[:_MOST_BINDING]:
            axes.annotate(
                str(node), places[node], xytext=(9, 9), textcoords="offset points", color=BLACK,
                fontsize=10, parse_math=False, zorder=4, bbox={"facecolor": PALE, "alpha": 0.9},
            )  # fmt: skip
        names = ", ".join(map(str, binding[:_MOST_BINDING]))
        more = f" and {len(binding) - _MOST_BINDING:,} more" if len(binding) > _MOST_BINDING else ""
        footnote(figure, f"ringed: who sets the noise ({names}{more}), with a loss of {most:.3g}")
    if len(nodes) <= _MOST_NAMES:
        for node in nodes:
            axes.annotate(
                str(node), places[node], xytext=(0, -14), textcoords="offset points", ha="center",
                color=BLACK, fontsize=8, parse_math=False,
            )  # fmt: skip
    axes.set_axis_off()
    axes.margins(0.04)
    return figure


def _places(
    nodes: Sequence[Hashable], edges: Sequence[tuple[Hashable, Hashable]]
) -> dict[Hashable, Point]:
    """Each part laid out by itself, parts in rows."""
    import networkx as nx  # noqa: PLC0415 - slow to load

    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    order = {node: number for number, node in enumerate(nodes)}
    parts = sorted(
        nx.connected_components(graph), key=lambda own: (-len(own), min(order[n] for n in own))
    )
    wide = 1.35 * sqrt(sum(_side(len(own)) ** 2 for own in parts))
    places: dict[Hashable, Point] = {}
    left = top = deepest = 0.0
    for own in parts:
        side = _side(len(own))
        if left and left + side > wide:
            left, top, deepest = 0.0, top - deepest, 0.0
        part = graph.subgraph(sorted(own, key=order.__getitem__))
        if len(own) == 1:
            shape = {next(iter(own)): (0.0, 0.0)}
        elif len(own) <= 60:
            shape = nx.kamada_kawai_layout(part)
        else:
            shape = nx.spring_layout(part, seed=1, iterations=150, k=1.2 / sqrt(len(own)))
        for node, (x, y) in shape.items():
            half = 0.33 * side
            places[node] = (left + side / 2 + half * float(x), top - side / 2 + half * float(y))
        left += side
        deepest = max(deepest, side)
    return places


def _side(count: int) -> float:
    """Room for a part: a square of this side."""
    return float(ceil(2 * sqrt(count)) / 2 + 0.5)
