"""What the tables and figures are made of.

`Result`: rows, a chart, and a note on how they compare. `Baseline`: noise by another theorem.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from pufferkit.audit.noise_drawn import rehearsed
from pufferkit.data.query import Query
from pufferkit.data.write import harmless
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import NamedProgress
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.plan import calibrate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]
Item = TypeVar("Item")
Claims = Iterable[tuple[str, bool]]
"""A claim, and whether the rows support it."""
_PRINTED = 60


@dataclass(frozen=True)
class Settings:
    """How an experiment is run; see `papers.run`."""

    quick: bool = False
    seed: int = 0
    data: Path | None = None
    progress: NamedProgress | None = None

    def tracked(self, items: Iterable[Item], what: str) -> Iterator[Item]:
        """The items one after another, with progress."""
        listed = list(items)
        for done, item in enumerate(listed, 1):
            yield item
            if self.progress is not None:
                self.progress(what, done, len(listed))


@dataclass(frozen=True)
class Chart:
    """Which columns make a picture.

    Attributes
    ----------
    kind
        Lines over numbers, or bars over names.
    x
        Column along the bottom.
    y
        Columns with heights: a line or a set of bars for each.
    by
        Column that splits the rows into lines or sets of bars.
    panel
        Column that splits the rows into pictures side by side.
    once
        Columns drawn once, not for each value of ``by``.
    labels
        Words for columns and for values of ``by``.
    log
        Axes on a logarithmic scale: "", "x", "y" or "xy".
    x_range
        The part of a line to draw; all of it if left out.
    x_label, y_label
        Words below and beside.
    marks
        Vertical dashed lines: words to place.
    levels
        Horizontal dashed lines: words to height.
    shade
        Columns above which the picture is shaded, each with the height up to which.
    above
        Values of ``by`` that lie far above all others: the axis is broken, and they are drawn in a
        strip of their own on top. Each panel then has heights of its own.
    beside
        A second chart of the same rows, drawn to the right.
    """

    kind: Literal["lines", "bars"]
    x: str
    y: tuple[str, ...]
    by: str | None = None
    panel: str | None = None
    once: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    log: Literal["", "x", "y", "xy"] = ""
    x_range: tuple[float, float] | None = None
    x_label: str = ""
    y_label: str = ""
    marks: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    shade: Mapping[str, float] = field(default_factory=dict)
    above: tuple[str, ...] = ()
    beside: Chart | None = None


@dataclass(frozen=True)
class Result:
    """The rows of one table or figure.

    Attributes
    ----------
    name
        As in `papers.names`.
    title
        The table or figure, in words.
    rows
        Plain data, one dict for each row; ``None`` where there is no number.
    note
        What agrees with the paper, what cannot be compared, what is added; paragraphs are
        separated by empty lines.
    chart
        How to draw the rows.
    """

    name: str
    title: str
    rows: Rows
    note: str
    chart: Chart

    @property
    def columns(self) -> list[str]:
        """All columns, in the order in which they first occur."""
        return list(dict.fromkeys(column for row in self.rows for column in row))

    def to_csv(self) -> str:
        """The rows as CSV; numbers keep every digit, ``None`` is empty."""
        stream = io.StringIO()
        table = csv.DictWriter(stream, self.columns, lineterminator="\n")
        table.writeheader()
        for row in self.rows:
            table.writerow({c: harmless(v) if isinstance(v, str) else v for c, v in row.items()})
        return stream.getvalue()

    def plot(self) -> Figure:
        """The picture of the rows, one panel beside another."""
        from papers.figures import drawn  # noqa: PLC0415

        return drawn(self)

    def __str__(self) -> str:
        shown = self.rows[:_PRINTED]
        cells = [self.columns, *([_cell(row.get(c)) for c in self.columns] for row in shown)]
        widths = [max(len(line[j]) for line in cells) for j in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if n == 0 or not _number(cell) else cell.rjust(width)
                for cell, width in zip(line, widths, strict=True)
            ).rstrip()
            for n, line in enumerate(cells)
        ]
        if len(self.rows) > _PRINTED:
            lines.append(f"... and {len(self.rows) - _PRINTED} more rows")
        note = "\n".join(fill(" ".join(part.split()), 96) for part in self.note.split("\n\n"))
        return "\n".join([self.title, "", *lines, "", note])


@dataclass(frozen=True)
class Baseline:
    """Noise by another theorem, for comparison. It cannot be released.

    Attributes
    ----------
    name
        The mechanism.
    noise
        The distribution, "gaussian" or "laplace".
    deviation, expected_l1_error
        Standard deviation of the noise on a coordinate, and the mean error over all of them.
    promise
        The guarantee, and against whom it holds.
    why
        What determined the size of the noise.
    weaker
        Whether the guarantee is weaker than Pufferfish for each entry.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> from papers.renyi import renyi_pufferfish
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> renyi_pufferfish(chain, count(1, 20), 1, delta=1e-6).weaker
    True
    """

    name: str
    noise: str
    deviation: float
    expected_l1_error: float
    promise: str
    why: str
    weaker: bool


def by_these_rows(claims: Claims, *, ours: bool = False) -> str:
    """What is said of a table or figure, one paragraph for each, and whether its rows say so too.

    Whether a paper agrees is worked out from the rows of the run, never written down. ``ours`` if
    no paper says it.
    """
    yes, no = ("Holds", "Does not hold") if ours else ("Agrees", "Does not agree")
    return "\n\n".join(f"{yes if holds else no}: {said}." for said, holds in claims)


def attempt(mechanism: str, beliefs: Any, query: Query, epsilon: float) -> Calibration | None:
    """The noise of a mechanism, or ``None`` where it does not apply."""
    try:
        return calibrate(mechanism, beliefs, query, epsilon)
    except NotApplicable:
        return None


def simulated_error(calibration: Calibration, trials: int, rng: np.random.Generator) -> float:
    """Mean L1 error over ``trials`` draws of the noise.

    Seeded noise, to be repeated; for measuring errors only, never for a release.
    """
    draws = rehearsed(calibration, (trials, calibration.query.size), rng)
    return float(np.abs(draws).sum(axis=1).mean())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == "-"
    return True
