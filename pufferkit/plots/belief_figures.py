"""What an adversary may know: matrices, clocks, networks; and people's days."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import ceil, sqrt
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    PALE,
    WIDE,
    blank,
    footnote,
    grid,
    heat,
    legend,
    panels,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pufferkit.beliefs.bayesian_network import BayesianNetwork
    from pufferkit.beliefs.seasonal_class import SeasonalClass
    from pufferkit.shown import Matrix

Point = tuple[float, float]

_MOST_MATRICES = 4
_MOST_DAYS = 60
_MOST_NAMES = 40
_MOST_BINDING = 5
_MOST_STATES = 12
_TIED = 1e-6
_DAY = 86_400
_HOURS = range(0, 25, 6)


def matrices_figure(matrices: Sequence[Matrix], title: str) -> Figure:
    """Matrices of probabilities, two in a row, as heat maps with the numbers in them.

    Parameters
    ----------
    matrices
        Of a class of beliefs. The first four are drawn, and the title says how many there are.
    """
    if not matrices:
        raise ValueError("beliefs: name no matrix, so there is no picture")
    shown = matrices[:_MOST_MATRICES]
    if len(matrices) > len(shown):
        title += f"\nthe first {len(shown)} of {len(matrices)} matrices"
    columns = min(2, len(shown))
    wide = max(len(one.columns) for one in shown)
    long = max(len(one.rows) for one in shown)
    width = min(14.0, max(WIDE, columns * (1.2 + 0.44 * wide)))
    rows = -(-len(shown) // columns)
    size = (width, min(14.0, 0.8 + rows * (1.4 + 0.36 * long)))
    figure, every = panels(len(shown), *size, title, columns=columns)
    for axes, one in zip(every, shown, strict=True):
        heat(axes, one.cells, one.rows, one.columns, numbers=".2g", share=0.75 / columns)
        name = fill(one.name, int(8 * width / columns))
        axes.set_title(name, fontsize=10, loc="left", color=BLACK, parse_math=False)
        axes.set_xlabel(one.across, parse_math=False)
        axes.set_ylabel(one.down, parse_math=False)
    return figure


def clock_figure(theta: SeasonalClass) -> Figure:
    """How likely each state is at each slot of the clock."""
    figure, axes = blank(WIDE, 3.8, f"What an adversary may know: {theta.description}")
    slots = range(len(theta.marginals))
    for n, state in enumerate(theta.states):
        heights = [float(marginal[n]) for marginal in theta.marginals]
        axes.step(slots, heights, where="mid", color=COLOURS[n % len(COLOURS)], label=str(state))
    if theta.step is not None and round(theta.step * len(slots)) == _DAY:
        axes.set_xticks([hour * len(slots) / 24 for hour in _HOURS], [f"{h}:00" for h in _HOURS])
        axes.set_xlabel("time of day")
    else:
        whole_numbers(axes)
        axes.set_xlabel("slot of the clock, counted from 0")
    axes.set_ylabel("probability of the state")
    axes.set_ylim(0, 1)
    grid(axes)
    legend(figure)
    return figure


def days_figure(
    codes: Sequence[int], states: Sequence[Any], day: int, title: str, *, clock: bool = False
) -> Figure:
    """One person's days below one another, a colour for each state.

    Parameters
    ----------
    codes
        States by number, -1 where nothing was observed.
    states
        Their names.
    day
        Entries in a day, or in a line of the picture.
    title
        Drawn above.
    clock
        Whether lines are days from midnight, so that hours can be written below them.
    """
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    entries = np.asarray(codes[: day * _MOST_DAYS], dtype=float)
    lines = -(-len(entries) // day)
    picture = np.full(lines * day, np.nan)
    picture[: len(entries)] = np.where(entries < 0, np.nan, entries)
    figure, axes = blank(WIDE, 1.8 + 0.18 * lines, title)
    count = len(states)
    colours: Any = ListedColormap(COLOURS[:count]) if count <= len(COLOURS) else "Blues"
    shown = axes.imshow(
        picture.reshape(lines, day),
        aspect="auto",
        interpolation="nearest",
        cmap=colours,
        vmin=-0.5,
        vmax=count - 0.5,
    )
    if clock:
        axes.set_xticks([day * hour / 24 - 0.5 for hour in _HOURS], [f"{h}:00" for h in _HOURS])
    axes.set_xlabel("time of day" if clock else "entry")
    axes.set_ylabel("day")
    numbers = range(0, lines, max(1, lines // 10))
    axes.set_yticks(numbers, [str(n + 1) for n in numbers])
    bar = figure.colorbar(shown, ticks=range(count) if count <= _MOST_STATES else None)
    if count <= _MOST_STATES:
        bar.ax.set_yticklabels([str(state) for state in states], fontsize=8, parse_math=False)
        bar.ax.tick_params(length=0)
    return figure


def network_figure(network: BayesianNetwork) -> Figure:
    """Nodes in layers, arrows from parents to children."""
    depth: dict[object, int] = {}
    for node in network.nodes:
        depth[node] = 1 + max((depth[parent] for parent in network.parents[node]), default=-1)
    layers: dict[int, list[object]] = {}
    for node, level in depth.items():
        layers.setdefault(level, []).append(node)
    wide = max(len(layer) for layer in layers.values())
    size = (min(14.0, max(WIDE, 1.2 * wide)), min(12.0, 1.4 + 0.8 * len(layers)))
    figure, axes = blank(*size, f"What an adversary may know: {network.description}")
    places = {
        node: (n - (len(layer) - 1) / 2, -level)
        for level, layer in layers.items()
        for n, node in enumerate(layer)
    }
    for node, parents in network.parents.items():
        for parent in parents:
            axes.annotate(
                "",
                xy=places[node],
                xytext=places[parent],
                arrowprops={"arrowstyle": "->", "color": GREY, "shrinkA": 14, "shrinkB": 14},
            )
    for node, (x, y) in places.items():
        axes.text(
            x, y, str(node), ha="center", va="center", fontsize=10, color=BLACK, parse_math=False,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": PALE, "edgecolor": GREY},
        )  # fmt: skip
    axes.set_xlim(-(wide + 0.4) / 2, (wide + 0.4) / 2)
    axes.set_ylim(-len(layers) + 0.4, 0.6)
    axes.set_axis_off()
    return figure


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
    figure, axes = blank(WIDE, 4.8, title)
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
