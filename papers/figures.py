"""Pictures of results: rows and a `Chart` in, figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

from papers.result import Chart, Result
from pufferkit.plots.canvas import BLACK, COLOURS, dressed, grid, legend, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ChartRow = Mapping[str, Any]
Points = list[tuple[Any, float]]

_MARKERS = "osD^vPX"
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++", "--")
_FEW = 25
_ANY = object()


def drawn(result: Result) -> Figure:
    """The picture of a result, one panel beside another."""
    charts = [result.chart] if result.chart.beside is None else [result.chart, result.chart.beside]
    shown = [(chart, panel) for chart in charts for panel in _values(result.rows, chart.panel)]
    size = 6.4 if len(shown) == 1 else 4.2 * len(shown)
    if result.chart.above:
        figure, every, strips = _broken(len(shown), size, 4.6, result.title)
    else:
        figure, every = panels(len(shown), size, 4.6, result.title, shared=len(charts) == 1)
        strips = every
    for axes, strip, (chart, panel) in zip(every, strips, shown, strict=True):
        own = [r for r in result.rows if chart.panel is None or r.get(chart.panel) == panel]
        draw = _draw_lines if chart.kind == "lines" else _draw_bars
        draw(axes, own, chart, _lines(result.rows, chart))
        if strip is not axes:
            draw(strip, own, chart, _lines(result.rows, chart))
            _break(axes, strip, own, chart)
        if panel is not None:
            strip.set_title(f"{chart.panel} {panel}", fontsize=10, parse_math=False)
        if "y" in chart.log:
            axes.set_yscale("log")
        axes.set_xlabel(chart.x_label, fontsize=9, parse_math=False)
        if len(charts) > 1 or axes is every[0]:
            axes.set_ylabel(chart.y_label, parse_math=False)
    legend(figure)
    return figure


def _broken(
    count: int, width: float, height: float, title: str
) -> tuple[Figure, list[Axes], list[Axes]]:
    """Empty axes side by side, each with a strip above a break in its heights."""
    figure, _ = panels(0, width, height, "")
    places = figure.add_gridspec(2, count, height_ratios=[1, 4], hspace=0.02)
    lower = [figure.add_subplot(places[1, n]) for n in range(count)]
    upper = [figure.add_subplot(places[0, n], sharex=lower[n]) for n in range(count)]
    dressed(figure, [*lower, *upper], title)
    marks: dict[str, Any] = {"marker": [(-1, -0.6), (1, 0.6)], "markersize": 9, "linestyle": "none"}
    for below, above in zip(lower, upper, strict=True):
        above.spines["bottom"].set_visible(False)
        above.tick_params(bottom=False, labelbottom=False)
        for axes, edge in ((below, 1), (above, 0)):  # two strokes where the axis is broken
            axes.plot([0], [edge], transform=axes.transAxes, color=BLACK, clip_on=False, **marks)
    return figure, lower, upper


def _break(axes: Axes, strip: Axes, rows: Sequence[ChartRow], chart: Chart) -> None:
    """Heights below and above the break: all but those far above, and those alone."""
    below: list[float] = []
    above: list[float] = []
    for row in rows:
        far = chart.by is not None and row.get(chart.by) in chart.above
        (above if far else below).extend(row[c] for c in chart.y if row.get(c) is not None)
    if below:
        axes.set_ylim(0, 1.05 * max(below))
    if above:
        least = min(above)
        edge = max([0.8 * least, *(1.05 * y for y in below)])
        strip.set_ylim(min(edge, 0.97 * least), 1.2 * max(above))


def _draw_lines(
    axes: Axes, rows: Sequence[ChartRow], chart: Chart, lines: Mapping[tuple[str, Any], str]
) -> None:
    for n, ((column, value), words) in enumerate(lines.items()):
        points = sorted(_points(rows, chart, column, value))
        if points:
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                label=words,
                color=COLOURS[n % len(COLOURS)],
                marker=_MARKERS[n % len(_MARKERS)] if len(points) < _FEW else None,
                markersize=5,
                linestyle=("-", "--", ":", "-.")[n % 4],
            )
    for n, (value, (column, top)) in enumerate(
        product(_values(rows, chart.by), chart.shade.items())
    ):
        points = sorted(_points(rows, chart, column, value))
        words = chart.labels.get(column, column)
        if value is not None:
            words = f"{chart.labels.get(str(value), str(value))}, {words}"
        axes.fill_between(
            [x for x, _ in points],
            [y for _, y in points],
            top,
            color=COLOURS[n % len(COLOURS)],
            alpha=0.18,
            linewidth=0,
            hatch=_HATCHES[n % len(_HATCHES)],
            label=words,
        )
    for words, place in chart.marks.items():
        axes.axvline(place, color=BLACK, linestyle="--", linewidth=1.1, label=words)
    for words, height in chart.levels.items():
        axes.axhline(height, color=BLACK, linestyle="--", linewidth=1.1, label=words)
    if "x" in chart.log:
        axes.set_xscale("log")
    grid(axes)


def _draw_bars(
    axes: Axes, rows: Sequence[ChartRow], chart: Chart, lines: Mapping[tuple[str, Any], str]
) -> None:
    names = _values(rows, chart.x)
    width = 0.8 / len(lines)
    for n, ((column, value), words) in enumerate(lines.items()):
        points = _points(rows, chart, column, value)
        if not points:
            continue
        axes.bar(
            [names.index(x) + (n - (len(lines) - 1) / 2) * width for x, _ in points],
            [y for _, y in points],
            width=width,
            label=words,
            color=COLOURS[n % len(COLOURS)],
            hatch=_HATCHES[n % len(_HATCHES)],
            edgecolor="white",
            linewidth=0.4,
        )
    axes.set_xticks(range(len(names)), [str(name) for name in names], parse_math=False)
    for label in axes.get_xticklabels():
        label.set_rotation(30)
        label.set_horizontalalignment("right")
    grid(axes, "y")


def _lines(rows: Sequence[ChartRow], chart: Chart) -> dict[tuple[str, Any], str]:
    """Each column with each value of ``by`` that has numbers, and its words."""
    lines = {}
    for value in _values(rows, chart.by):
        for column in chart.y:
            if _points(rows, chart, column, value):
                own = chart.labels.get(column, column)
                by = "" if value is None else chart.labels.get(str(value), str(value))
                both = f"{by}, {own}" if len(chart.y) > 1 else by
                lines[column, value] = both if by else own
    return lines | {(column, _ANY): chart.labels.get(column, column) for column in chart.once}


def _points(rows: Sequence[ChartRow], chart: Chart, column: str, value: Any) -> Points:
    low, high = chart.x_range or (-inf, inf)
    points = [
        (row[chart.x], row[column])
        for row in rows
        if row.get(column) is not None
        and (chart.by is None or value is _ANY or row.get(chart.by) == value)
        and (chart.kind == "bars" or low <= row[chart.x] <= high)
    ]
    return list(dict(points).items()) if value is _ANY else points


def _values(rows: Sequence[ChartRow], column: str | None) -> list[Any]:
    """Values of a column, each once, in order; one ``None`` if there is no column."""
    return [None] if column is None else list(dict.fromkeys(row.get(column) for row in rows))
