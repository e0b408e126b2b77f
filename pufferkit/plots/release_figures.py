"""Rows in, figure out: plans, releases, flip probabilities and attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pufferkit.data.bins import Bins
from pufferkit.mechanisms.calibration import DROWNED
from pufferkit.mechanisms.plan import room
from pufferkit.mechanisms.release import Guarantee
from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    FADED,
    GREEN,
    ORANGE,
    PINK,
    SKY,
    YELLOW,
    blank,
    footnote,
    grid,
    legend,
    measure_up,
    name_bars,
    note_beside,
    noted_bar,
    noted_dot,
    plain_numbers,
    whole_numbers,
)
from pufferkit.plots.question_figures import moves_figure, time_figure
from pufferkit.shown import at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pufferkit.audit.report import Audit
    from pufferkit.mechanisms.explain import PairTable
    from pufferkit.mechanisms.markov_quilt import ActiveQuilts
    from pufferkit.mechanisms.release import Release

_MOST_LABELS = 40


def plan_figure(rows: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """The error of each mechanism as a dot on a logarithmic axis.

    Parameters
    ----------
    rows
        ``Plan.rows``. Mechanisms that do not apply are named below the dots.
    title
        Drawn above.
    """
    dots = [row for row in rows if row["applicable"]]
    others = [row["mechanism"] for row in rows if not row["applicable"]]
    if not dots:
        raise ValueError("rows: no mechanism applies, so there is nothing to draw")
    figure, axes = blank(7.2, 1.9 + 0.36 * len(dots), title)
    axes.set_xscale("log")
    for y, row in enumerate(dots):
        note = at_most(row["half_width_95"])
        if not row["pufferfish"]:
            note += ", does not hide entries"
        elif row.get("tightness") is not None:
            note += f", room {room(row['tightness'])}"
        noted_dot(axes, y, row["half_width_95"], note, good=row["pufferfish"])
    errors = [row["half_width_95"] for row in dots]
    axes.set_xlim(min(errors) / 2, max(errors) * 2)
    plain_numbers(axes.xaxis)
    axes.set_ylim(-0.6, len(dots) - 0.4)
    names = [row["mechanism"] for row in dots]
    name_bars(axes, names, "95% of answers are within this of the truth (left is better)")
    axes.tick_params(axis="y", length=0)
    if others:
        footnote(figure, f"Not applicable here: {', '.join(others)}.")
    return figure


def release_figure(release: Release, exact: Sequence[float] | None = None) -> Figure:
    """A release as bars with 95% intervals of the noise; by time and for moves, as a heat map.

    Bars are ``raw``, the answer as drawn, around which the intervals lie. Where ``value`` is the
    nearest histogram, a mark shows it. What noise drowns is faded.

    Parameters
    ----------
    release
        What was released.
    exact
        The exact answer, drawn only if given. It has no privacy.
    """
    count = len(release.labels)
    if exact is not None and len(exact) != count:
        raise ValueError(f"exact: has {len(exact)} numbers for {count} labels")
    picture = "bars" if release.asks is None or exact is not None else release.asks.picture
    if picture != "bars":
        return time_figure(release) if picture == "slots" else moves_figure(release)
    positions = list(range(count))
    chosen = release.noise == "noisy choice"
    lows, highs = zip(*release.as_drawn().interval(), strict=True)
    reach = [(high - low) / 2 for low, high in zip(lows, highs, strict=True)]
    total = release.total
    drowned = total is not None and not chosen and max(reach) > DROWNED * total / count
    title = _heading(release)
    title += "\nfaded: the noise is more than half of an average answer" if drowned else ""
    figure, axes = blank(min(14.0, max(6.4, 1.6 + 0.75 * count)), 4.4, title)
    axes.bar(
        positions,
        release.raw,
        width=0.62,
        color=SKY,
        alpha=FADED if drowned else 1.0,
        label="as drawn, with noise",
    )
    if not chosen:
        axes.errorbar(
            positions,
            release.raw,
            yerr=reach,
            fmt="none",
            ecolor=BLACK,
            elinewidth=1.3,
            capsize=5,
            label="95% interval of the noise",
        )
    if release.presentation == "nearest histogram":
        _marks(axes, release.value, BLUE, "nearest histogram")
    if exact is not None:
        _marks(axes, exact, ORANGE, "exact: not private")
    if total is not None:
        shown = [*release.raw, *release.value, *highs, *(exact or ())]
        axes.set_ylim(0, min(total, 1.05 * max(shown)))
    margin = 0.6 if count > 2 else 1.5
    axes.set_xlim(-margin, count - 1 + margin)
    axes.spines["bottom"].set_visible(False)
    axes.axhline(0, color=BLACK, linewidth=0.9)
    grid(axes, "y")
    measure_up(axes, f"{counted(release)}, with noise")
    if count > 1:
        axes.set_xlabel(_of_what(release.labels), parse_math=False)
    _name_states(figure, axes, release.labels)
    axes.tick_params(axis="x", length=0)
    legend(figure, 3)
    return figure


def _name_states(figure: Figure, axes: Axes, labels: Sequence[str]) -> None:
    """Names below the places of a figure, slanted where they would touch; none if too many."""
    if len(labels) > _MOST_LABELS:
        return
    crowded = sum(len(label) for label in labels) > 12 * figure.get_figwidth()
    # Labels are the user's: a dollar sign in them is no formula.
    slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if crowded else {}
    axes.set_xticks(range(len(labels)), list(labels), parse_math=False, **slant)


def _marks(axes: Axes, values: Sequence[float], colour: str, label: str) -> None:
    axes.plot(
        range(len(values)),
        list(values),
        linestyle="none",
        marker="D",
        markersize=7,
        markerfacecolor=colour,
        markeredgecolor="white",
        label=label,
    )


def error_figure(
    rows: Sequence[Mapping[str, Any]],
    *,
    target: float | None = None,
    chosen: tuple[float, float] | None = None,
    what: str = "answers",
    title: str = "",
) -> Figure:
    """Error against epsilon for every mechanism, with the target and the chosen point.

    Parameters
    ----------
    rows
        Of `pufferkit.mechanisms.target_errors.error_rows`: mechanism, epsilon, half_width.
    target
        A half-width, drawn as a line.
    chosen
        Epsilon and half-width of the release that is planned.
    what
        What the answers are, for the axis.
    """
    if not rows:
        raise ValueError("rows: no mechanism applies, so there is nothing to draw")
    figure, axes = blank(7.2, 4.6, title)
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    styles = ("-", "--", "-.", ":")
    colours = (BLUE, GREEN, SKY, PINK, YELLOW, ORANGE)
    for n, name in enumerate(names):
        own = sorted((r["epsilon"], r["half_width"]) for r in rows if r["mechanism"] == name)
        hides = name != "entry_dp"
        axes.plot(
            [x for x, _ in own],
            [y for _, y in own],
            color=colours[n % len(colours)] if hides else ORANGE,
            linestyle=styles[n % 4] if hides else ":",
            marker="o",
            markersize=3,
            label=name if hides else f"{name}: does not hide correlated entries",
        )
    if target is not None:
        axes.axhline(
            target, color=BLACK, linewidth=1.1, linestyle="--", label=f"target {target:.3g}"
        )
    if chosen is not None:
        axes.plot(
            *chosen, linestyle="none", marker="*", markersize=14, color=BLACK, label="planned"
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    grid(axes)
    axes.set_xlabel("epsilon (left: more privacy)")
    measure_up(axes, f"95% of {what} are within this")
    legend(figure, 3)
    return figure


def simulation_figure(
    exact: Sequence[float],
    drawn: Sequence[Sequence[float]],
    labels: Sequence[str],
    what: str = "answers",
    title: str = "",
) -> Figure:
    """Simulated releases of generated or public data beside the truth.

    Parameters
    ----------
    exact, drawn
        The true answer of simulated data, and several noisy ones.
    labels
        Of the coordinates.
    """
    if not drawn or any(len(one) != len(exact) for one in drawn):
        raise ValueError("drawn: needs at least one answer, each as long as the exact one")
    figure, axes = blank(min(14.0, max(6.4, 1.6 + 0.75 * len(exact))), 4.4, title)
    for x, truth in enumerate(exact):
        ys = [one[x] for one in drawn]
        spread = [x + 0.25 * (n / max(1, len(ys) - 1) - 0.5) for n in range(len(ys))]
        axes.plot(
            spread, ys, linestyle="none", marker="o", markersize=4, color=SKY, label="simulated"
        )
        axes.plot(
            [x - 0.3, x + 0.3],
            [truth] * 2,
            color=BLACK,
            linewidth=2,
            label="exact answer of simulated data",
        )
    axes.axhline(0, color=BLACK, linewidth=0.6)
    grid(axes, "y")
    measure_up(axes, f"{what}, simulated and exact")
    if len(labels) > 1:
        axes.set_xlabel(_of_what(labels), parse_math=False)
    _name_states(figure, axes, labels)
    legend(figure, 2)
    return figure


def audit_figure(audit: Audit) -> Figure:
    """What was promised, and what the audit computed, proved and could have detected, as bars.

    ``audit`` comes from `pufferkit.audit.audit`.
    """
    colours = {"promised": SKY, "proven by attack": ORANGE, "detectable": "white"}
    rows = [
        (row["what"], row["epsilon"], colours.get(row["what"], BLUE)) for row in audit.table_rows()
    ]
    title = f"{audit.mechanism}: {audit.verdict}\n{audit.belief}, entry {audit.entry}"
    figure, axes = blank(7.2, 1.7 + 0.5 * len(rows), title)
    for y, (_, loss, colour) in enumerate(rows):
        axes.barh(y, loss, height=0.6, color=colour, edgecolor=BLACK, linewidth=0.8)
        note_beside(axes, y, loss, f"{loss:.4g}")
    axes.axvline(audit.promise, color=BLACK, linewidth=1.2, linestyle="--")
    measure = "epsilon: log of the ratio by which a release may change the odds of a secret"
    name_bars(axes, [name for name, _, _ in rows], measure, 1.15 * max(loss for _, loss, _ in rows))
    return figure


def active_figure(table: ActiveQuilts) -> Figure:
    """The noise that each node alone would need: points over entries, bars of named nodes.

    ``table`` comes from `pufferkit.active_quilts`. Of many named nodes those that need most.
    """
    title = f"How much noise each node needs for a {table.query} at epsilon {table.epsilon:g}"
    measure = "scale of the noise by the active quilt"
    places = [row.node for row in table.rows if isinstance(row.node, int)]
    if len(places) == len(table.rows):
        figure, axes = blank(7.2, 4.0, title)
        axes.plot(places, [row.scale for row in table.rows], ".", color=BLUE, markersize=4)
        axes.axhline(table.scale, color=BLACK, linewidth=1.2, linestyle="--")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("node")
        measure_up(axes, measure)
        whole_numbers(axes)
        grid(axes, "y")
        return figure
    rows = sorted(table.rows, key=lambda row: -row.scale)[:_MOST_LABELS]
    figure, axes = blank(7.2, 1.7 + 0.3 * len(rows), title)
    for y, row in enumerate(rows):
        noted_bar(axes, y, row.scale, f"{row.scale:.4g}", good=True)
    name_bars(axes, [str(row.node) for row in rows], measure, 1.15 * rows[0].scale)
    return figure


def pair_figure(table: PairTable) -> Figure:
    """How well each pair of values is hidden, as a heat map with the numbers in it.

    ``table`` comes from `pufferkit.explain`. Dark pairs lose most, up to epsilon.
    """
    names = [str(state) for state in table.states]
    count = len(names)
    side = min(12.0, 2.6 + 0.7 * count)
    title = f"How well a {table.query} at epsilon {table.epsilon:g} hides each pair of values"
    figure, axes = blank(side + 0.8, side, title)
    axes.imshow(table.losses, cmap="Blues", vmin=0, vmax=table.epsilon)
    axes.set_xticks(range(count), names, parse_math=False)
    axes.set_yticks(range(count), names, parse_math=False)
    axes.set_xlabel("taken for")
    axes.set_ylabel("value of an entry")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if count <= _MOST_LABELS // 2:
        for x in range(count):
            for y in range(count):
                loss = float(table.losses[x, y])
                dark = loss > 0.6 * table.epsilon
                axes.text(
                    y,
                    x,
                    "" if x == y else f"{loss:.2g}",
                    ha="center",
                    va="center",
                    color="white" if dark else BLACK,
                )
    return figure


def counted(release: Release) -> str:
    """What the numbers of a release count, for an axis; its own name where that says it."""
    return release.query if release.asks is None else release.asks.axis


def _of_what(labels: Sequence[str]) -> str:
    """What the labels of coordinates are: states, or levels with their unit."""
    bins = Bins.of_names(labels)
    if bins is None:
        return "state"
    return f"level in {bins.unit}" if bins.unit else "level"


def _heading(release: Release) -> str:
    entries = f"{sum(release.lengths):,} entries"
    hides = "hides every entry" if release.guarantee is not Guarantee.ENTRY else "hides too little"
    return (
        f"{release.query.capitalize()} of {entries}: {release.mechanism} {hides} at epsilon "
        f"{release.epsilon:g}"
    )
