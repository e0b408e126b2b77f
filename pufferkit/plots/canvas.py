"""Shared by all figures: empty axes, colours, grid, legend and the file format.

Figures are made without pyplot, so no window opens and no setting of the caller's is touched.
Colours are those of Okabe and Ito, which colour-blind readers can distinguish; hatching, markers
and labels repeat the information for readers without colour.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
"""Suffixes of the pictures that can be drawn."""

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)
BLACK, GREY, PALE = "#222222", "#6B6B6B", "#E3E3E3"
COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK)
"""Colours of successive curves."""
STATES = (BLUE, YELLOW, GREEN, PINK, SKY, BLACK)
"""Colours of states, in their order, wherever states have colours; orange is for warnings."""
FADED = 0.35
"""How much is left of the colour of a number that its noise drowns."""


def panels(
    count: int, width: float, height: float, title: str, *, shared: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with empty axes side by side, which share their heights if so said."""
    figure = _figure()(figsize=(width, height), layout="constrained")
    every: list[Axes] = []
    for n in range(count):
        axes = figure.add_subplot(1, count, n + 1, sharey=every[0] if every and shared else None)
        every.append(axes)
    return _dressed(figure, every, title)


def broken(
    count: int, width: float, height: float, title: str
) -> tuple[Figure, list[Axes], list[Axes]]:
    """Empty axes side by side, each with a strip above a break in its heights."""
    figure = _figure()(figsize=(width, height), layout="constrained")
    places = figure.add_gridspec(2, count, height_ratios=[1, 4], hspace=0.02)
    lower = [figure.add_subplot(places[1, n]) for n in range(count)]
    upper = [figure.add_subplot(places[0, n], sharex=lower[n]) for n in range(count)]
    _dressed(figure, [*lower, *upper], title)
    marks: dict[str, Any] = {"marker": [(-1, -0.6), (1, 0.6)], "markersize": 9, "linestyle": "none"}
    for below, above in zip(lower, upper, strict=True):
        above.spines["bottom"].set_visible(False)
        above.tick_params(bottom=False, labelbottom=False)
        for axes, edge in ((below, 1), (above, 0)):  # two strokes where the axis is broken
            axes.plot([0], [edge], transform=axes.transAxes, color=BLACK, clip_on=False, **marks)
    return figure, lower, upper


def stacked(count: int, height: float, title: str) -> tuple[Figure, list[Axes]]:
    """A figure with empty axes one below the other, two in a row if there are many."""
    columns = 1 if count <= 3 else 2
    rows = -(-count // columns)
    figure = _figure()(figsize=(8.4 * columns**0.5, 0.8 + height * rows), layout="constrained")
    every = [figure.add_subplot(rows, columns, n + 1) for n in range(count)]
    return _dressed(figure, every, title)


def _dressed(figure: Figure, every: list[Axes], title: str) -> tuple[Figure, list[Axes]]:
    for axes in every:
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(GREY)
        axes.set_axisbelow(True)
        axes.tick_params(colors=BLACK, labelsize=10)
    lines = [fill(line, int(figure.get_figwidth() * 11)) for line in title.splitlines()]
    if lines:
        figure.suptitle(
            "\n".join(lines), x=0.012, ha="left", fontsize=11, color=BLACK, parse_math=False
        )
    return figure, every


def check_picture(path: str | Path) -> None:
    """An error if no picture can be drawn to this path. Draws nothing."""
    if Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: figures are written to {', '.join(FORMATS)} files")
    _figure()


def picture(figure: Figure, path: str | Path, *, dark: bool = False) -> bytes:
    """The content of a file that shows the figure, in the format of the suffix of ``path``.

    Parameters
    ----------
    figure
        From any function of this package; it is not changed.
    path
        Its suffix says which format.
    dark
        For a dark page: light lines and words on a dark ground.
    """
    check_picture(path)
    stream = io.BytesIO()
    with darkened(figure) if dark else nullcontext():
        figure.savefig(stream, format=Path(path).suffix.lower()[1:], dpi=150)
    return stream.getvalue()


_NIGHT = {
    "#FFFFFF": "#121212",
    "#000000": "#EEEEEE",
    BLACK: "#EEEEEE",
    GREY: "#B4B4B4",
    PALE: "#3A3A3A",
    BLUE: "#4DA3D9",
}
_PARTS = ("facecolor", "edgecolor", "color", "markerfacecolor", "markeredgecolor")


@contextmanager
def darkened(figure: Figure) -> Iterator[None]:
    """The figure for a dark page, as long as the context lasts.

    Colours of curves and bars stay: those of Okabe and Ito are told apart on either ground. Black,
    greys, white and the one dark blue change; words in the cells of a heat map do not, because the
    cells keep their colours.
    """
    from matplotlib.colors import to_hex, to_rgba_array  # noqa: PLC0415
    from matplotlib.text import Text  # noqa: PLC0415

    figure.draw_without_rendering()  # ticks are made when they are first needed
    cells = [image for axes in figure.axes for image in axes.get_images()]
    left_alone = {text for image in cells for text in image.axes.texts}
    things = [thing for thing in figure.findobj() if thing not in left_alone]
    boxes = [thing.get_bbox_patch() for thing in things if isinstance(thing, Text)]
    kept: list[tuple[Any, Any]] = []
    for thing in (*things, *filter(None, boxes)):
        for name in _PARTS:
            get, put = getattr(thing, f"get_{name}", None), getattr(thing, f"set_{name}", None)
            if get is None or put is None:
                continue
            value = get()
            try:
                [colour] = np.unique(to_rgba_array(value), axis=0)
            except (ValueError, TypeError):
                continue  # several colours, or none
            night = _NIGHT.get(to_hex(colour).upper())
            if night is not None and colour[-1] > 0:
                kept.append((put, value))
                put(night)
    try:
        yield
    finally:
        for put, value in reversed(kept):
            put(value)


@cache
def _figure() -> type[Figure]:
    """Figures that a notebook shows, also if pyplot was never imported there."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "plots need matplotlib, which is not installed; pip install 'pufferkit[plots]'"
        ) from None

    class Picture(Figure):
        """A figure as PNG, where a notebook asks for it."""

        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=100)
            return stream.getvalue()

    return Picture


def blank(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    """A figure with one empty set of axes."""
    figure, every = panels(1, width, height, title)
    return figure, every[0]


def noted_dot(axes: Axes, y: float, x: float, note: str, *, good: bool) -> None:
    """A dot on a logarithmic axis, where a bar would have no beginning; words right of the axes.

    Hollow for what does not hide entries or fails.
    """
    axes.plot(
        [x],
        [y],
        linestyle="none",
        marker="o",
        markersize=9,
        markerfacecolor=BLUE if good else "white",
        markeredgecolor=BLUE if good else ORANGE,
        markeredgewidth=1.6,
    )
    axes.annotate(
        note,
        (1.02, y),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=9,
        color=BLACK,
        annotation_clip=False,
    )


def measure_up(axes: Axes, text: str) -> None:
    """What the heights measure, in lines that are no longer than the axes are high."""
    high = axes.figure.bbox.height / axes.figure.dpi
    axes.set_ylabel(fill(text, max(16, int(8.5 * (high - 1.2)))), parse_math=False)


def noted_bar(axes: Axes, y: float, width: float, note: str, *, good: bool) -> None:
    """A horizontal bar with a label after it; hatched for what does not hide entries or fails."""
    axes.barh(
        y,
        width,
        height=0.62,
        color=BLUE if good else "white",
        edgecolor=BLUE if good else ORANGE,
        hatch=None if good else "////",
        linewidth=1.2,
    )
    note_beside(axes, y, width, note)


def name_bars(axes: Axes, names: Sequence[str], measure: str, most: float | None = None) -> None:
    """Names of horizontal bars down the side, the first on top, and what they measure."""
    axes.set_yticks(range(len(names)), list(names), parse_math=False)
    axes.invert_yaxis()
    if most is not None:
        axes.set_xlim(0, most)
    axes.set_xlabel(measure)
    grid(axes, "x")


def note_beside(axes: Axes, y: float, width: float, note: str) -> None:
    """Words behind the end of a horizontal bar."""
    place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(note, (width, y), fontsize=9, color=BLACK, **place)


def footnote(figure: Figure, text: str) -> None:
    """Small words below a figure."""
    wrapped = fill(text, int(figure.get_figwidth() * 13))
    figure.supxlabel(wrapped, x=0.012, ha="left", fontsize=9, color=GREY)


def grid(axes: Axes, axis: Any = "both") -> None:
    """Pale lines behind the data."""
    axes.grid(axis=axis, color=PALE, linewidth=0.8)


def plain_numbers(axis: Any) -> None:
    """Ticks of a logarithmic axis as they are said: 0.1, not a power of ten."""
    axis.set_major_formatter(
        lambda value, _: f"{value:g}" if 1e-5 < value < 1e6 else f"{value:.0e}"
    )
    axis.set_minor_formatter(lambda *_: "")


def whole_numbers(axes: Axes) -> None:
    """Ticks below at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(figure: Figure, columns: int) -> None:
    """Below the figure, each label once, whatever the number of panels."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawn = figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )
    for text in drawn.get_texts():
        text.set_parse_math(False)  # labels are the user's: a dollar sign in them is no formula
