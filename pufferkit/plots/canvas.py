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
COLOURS = (BLUE, YELLOW, GREEN, PINK, SKY, BLACK)
"""Colours of states, in their order, and of successive curves; orange is for warnings."""
FADED = 0.35
"""How much is left of the colour of a number that its noise drowns."""


WIDE = 5.6
"""Inches of a figure: it fits paper, and can still be read on a telephone."""


def panels(
    count: int,
    width: float,
    height: float,
    title: str,
    *,
    columns: int | None = None,
    shared: bool = True,
) -> tuple[Figure, list[Axes]]:
    """A figure with empty axes in so many columns, by default side by side.

    Those side by side share their heights if so said.
    """
    figure = _figure()(figsize=(width, height), layout="constrained")
    across, every = columns or count, list[Any]()
    for n in range(count):
        like = every[0] if every and shared and columns is None else None
        every.append(figure.add_subplot(-(-count // across), across, n + 1, sharey=like))
    return dressed(figure, every, title)


def dressed(figure: Figure, every: list[Axes], title: str) -> tuple[Figure, list[Axes]]:
    """The same figure and axes, with the lines and the title that all figures have."""
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


def wide_for(count: int) -> float:
    """Inches of a figure with so many names below it."""
    return min(14.0, max(WIDE, 1.6 + 0.24 * count))


def name_places(axes: Axes, labels: Sequence[str], share: float = 0.8) -> None:
    """Names below the places 0, 1, ...; slanted where they would touch, and then not all of them.

    ``share`` is that of the figure that the axes have. Labels are the user's: a dollar sign in them
    is no formula.
    """
    room = share * axes.figure.bbox.width / axes.figure.dpi / len(labels)
    slanted = 0.085 * max(map(len, labels)) > room
    step = max(1, int(np.ceil(0.2 / room)))
    slant: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    places = range(0, len(labels), step)
    shown = [labels[place] for place in places]
    axes.set_xticks(places, shown, parse_math=False, **(slant if slanted else {}))
    axes.tick_params(axis="x", length=0)
    if not axes.images:  # a heat map has its own limits
        axes.set_xlim(
            *((-0.6, len(labels) - 0.4) if len(labels) > 2 else (-1.1, len(labels) + 0.1))
        )


def heat(
    axes: Axes,
    cells: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    most: float = 1.0,
    numbers: str = "",
    faint: Any = None,
    share: float = 0.6,
) -> Any:
    """A heat map from white for 0 to dark for ``most``, with names and numbers where they fit.

    Parameters
    ----------
    cells
        A matrix; nothing is drawn where it is not a number.
    rows, columns
        The names of both sides.
    most
        What is darkest.
    numbers
        How numbers are written into cells, such as ``.2f``; empty for none.
    faint
        How much is left of the colour of each cell.
    share
        Of the width of the figure, that the axes have.
    """
    drawn = axes.imshow(cells, cmap="Blues", vmin=0.0, vmax=most, aspect="auto", alpha=faint)
    axes.spines["bottom"].set_visible(False)
    name_places(axes, columns, share)
    axes.set_yticks(range(len(rows)), list(rows), parse_math=False)
    axes.tick_params(length=0)
    if numbers and max(len(rows), len(columns)) <= _MOST_NUMBERS:
        for (y, x), cell in np.ndenumerate(np.asarray(cells, dtype=float)):
            if np.isfinite(cell):
                colour = "white" if cell > 0.6 * most else BLACK
                text = format(cell, numbers)
                axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=9)
    return drawn


_MOST_NUMBERS = 12


def ranked(
    axes: Axes,
    names: Sequence[str],
    values: Sequence[float],
    notes: Sequence[str],
    measure: str,
    *,
    good: Sequence[bool] = (),
    colours: Sequence[str] = (),
    log: bool = False,
) -> None:
    """A line for each name, the first on top: a bar, or a dot where the axis is logarithmic.

    Hollow for what does not hide entries or fails. Notes stand right of the axes.
    """
    for y, (value, note) in enumerate(zip(values, notes, strict=True)):
        fine = not good or good[y]
        face = (colours[y] if colours else BLUE) if fine else "white"
        edge = (BLACK if colours else BLUE) if fine else ORANGE
        if log:
            axes.plot([value], [y], "o", ms=9, mfc=face, mec=edge, mew=1.6)
        else:
            hatch = None if fine else "////"
            axes.barh(y, value, height=0.62, color=face, edgecolor=edge, hatch=hatch)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
        axes.annotate(note, (1.02, y), va="center", fontsize=9, color=BLACK, **place)
    axes.set_yticks(range(len(names)), list(names), parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    if log:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 2, max(values) * 2)
        plain_numbers(axes.xaxis)
    else:
        axes.set_xlim(0, 1.05 * max(values) or 1.0)
    axes.set_xlabel(measure)
    grid(axes, "x")


def intervals(
    axes: Axes,
    places: Sequence[Any],
    values: Any,
    low: Any,
    high: Any,
    *,
    colour: str = BLACK,
    marker: str = "",
    line: str = "none",
    label: str | None = None,
) -> None:
    """Values with their intervals; an end that is not finite is drawn as far as the others."""
    centre, ends, tops = (np.asarray(one, dtype=float) for one in (values, low, high))
    most = np.max(np.abs([*centre, *tops]), initial=0.0, where=np.isfinite([*centre, *tops]))
    ends, tops = np.where(np.isfinite(ends), ends, centre), np.where(np.isfinite(tops), tops, most)
    reach = np.maximum([centre - ends, tops - centre], 0.0)
    look: dict[str, Any] = {"marker": marker, "markersize": 4, "linestyle": line, "color": colour}
    axes.errorbar(places, centre, yerr=reach, elinewidth=1.2, capsize=4, label=label, **look)


def measure_up(axes: Axes, text: str) -> None:
    """What the heights measure, in lines that are no longer than the axes are high."""
    figure = axes.figure
    place = axes.get_subplotspec()
    rows = 1 if place is None else place.get_gridspec().nrows
    high = (figure.bbox.height / figure.dpi - 1.2) / rows
    axes.set_ylabel(fill(text, max(16, int(10 * high))), parse_math=False)


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


def dated(axes: Axes) -> None:
    """Dates and hours below, as short as they can be."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415

    places = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(places))  # type: ignore[no-untyped-call]


def whole_numbers(axes: Axes) -> None:
    """Ticks below at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(figure: Figure) -> None:
    """Below the figure, each label once, whatever the number of panels; as many as fit in a row."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    room = 0.078 * max(map(len, handles)) + 0.65
    columns = max(1, min(len(handles), int(figure.get_figwidth() / room)))
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
