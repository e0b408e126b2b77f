"""Pictures of beliefs: matrices as heat maps, a clock as lines, a network as its arrows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pufferkit.plots.canvas import (
    BLACK,
    GREY,
    PALE,
    STATES,
    blank,
    grid,
    legend,
    panels,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pufferkit.beliefs.bayesian_network import BayesianNetwork
    from pufferkit.beliefs.seasonal_class import SeasonalClass
    from pufferkit.shown import Matrix

_MOST_PANELS = 4
_MOST_NUMBERS = 12
_DAY = 86_400


def matrices_figure(matrices: Sequence[Matrix], title: str) -> Figure:
    """Matrices of probabilities side by side, as heat maps with the numbers in them.

    Parameters
    ----------
    matrices
        Of a class of beliefs. The first four are drawn, and the title says how many there are.
    """
    if not matrices:
        raise ValueError("beliefs: name no matrix, so there is no picture")
    shown = matrices[:_MOST_PANELS]
    if len(matrices) > len(shown):
        title += f"\nthe first {len(shown)} of {len(matrices)} matrices"
    wide = max(len(one.columns) for one in shown)
    long = max(len(one.rows) for one in shown)
    width = min(16.0, max(6.4, len(shown) * (1.6 + 0.62 * wide)))
    figure, every = panels(len(shown), width, min(12.0, 2.6 + 0.42 * long), title, shared=False)
    for axes, one in zip(every, shown, strict=True):
        axes.imshow(one.cells, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_title(one.name, fontsize=10, loc="left", color=BLACK, parse_math=False)
        axes.set_xlabel(one.across, parse_math=False)
        axes.set_ylabel(one.down, parse_math=False)
        crowded = sum(map(len, one.columns)) > 9 * width / len(shown)
        axes.set_xticks(
            range(len(one.columns)),
            one.columns,
            rotation=40 if crowded else 0,
            ha="right" if crowded else "center",
            parse_math=False,
        )
        axes.set_yticks(range(len(one.rows)), one.rows, parse_math=False)
        axes.tick_params(length=0)
        if max(len(one.rows), len(one.columns)) > _MOST_NUMBERS:
            continue
        for y, row in enumerate(one.cells):
            for x, cell in enumerate(row):
                dark = "white" if cell > 0.6 else BLACK
                axes.text(x, y, f"{cell:.2g}", ha="center", va="center", color=dark, fontsize=9)
    return figure


def clock_figure(theta: SeasonalClass) -> Figure:
    """How likely each state is at each slot of the clock."""
    title = f"What an adversary may know: {theta.description}"
    figure, axes = blank(7.6, 4.2, title)
    slots = range(len(theta.marginals))
    for n, state in enumerate(theta.states):
        heights = [float(marginal[n]) for marginal in theta.marginals]
        axes.step(slots, heights, where="mid", color=STATES[n % len(STATES)], label=str(state))
    if theta.step is not None and round(theta.step * len(slots)) == _DAY:
        places = [hour * len(slots) / 24 for hour in range(0, 25, 6)]
        axes.set_xticks(places, [f"{hour}:00" for hour in range(0, 25, 6)])
        axes.set_xlabel("time of day")
    else:
        whole_numbers(axes)
        axes.set_xlabel("slot of the clock, counted from 0")
    axes.set_ylabel("probability of the state")
    axes.set_ylim(0, 1)
    grid(axes)
    legend(figure, 4)
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
    size = (min(14.0, max(5.0, 1.2 * wide)), min(12.0, 1.4 + 1.0 * len(layers)))
    figure, axes = blank(*size, network.description)
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
