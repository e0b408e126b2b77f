"""How objects are displayed: text at a prompt, tables in a notebook, figures, dataframes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pufferkit

MOST_ROWS = 100
"""Most rows that a notebook shows."""


def aligned(rows: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each name and text, the names padded to one width."""
    listed = list(rows)
    wide = max(len(name) for name, _ in listed)
    return [f"  {name:<{wide}}  {text}" for name, text in listed]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Conditional probabilities of the columns given the rows; named, as there may be several."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Any
    down: str = "after"
    across: str = "next"

    @classmethod
    def of(cls, name: str, states: Iterable[Hashable], cells: Any, across: str = "next") -> Matrix:
        """A transition matrix between states."""
        labels = tuple(str(state) for state in states)
        return cls(name, labels, labels, cells, across=across)

    def table_rows(self) -> list[dict[str, Any]]:
        """A dictionary for each row, its label under the key ``down``."""
        return [
            {self.down: label, **dict(zip(self.columns, map(float, row), strict=True))}
            for label, row in zip(self.rows, self.cells, strict=True)
        ]


class Shown:
    """An object for people to look at: its ``repr`` is its ``str``, and a notebook shows HTML.

    If it has rows, ``table_rows`` gives them; if there is a figure of it, `plot` draws it.
    """

    def __repr__(self) -> str:
        return str(self)

    def table_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of `to_frame`; empty if it has none."""
        return ()

    def shown_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the table in a notebook."""
        return self.table_rows()

    def remarks(self) -> Sequence[str]:
        """Lines that a notebook shows below the table, outside the folded text."""
        return ()

    def _repr_html_(self) -> str:
        rows = self.shown_rows()
        words = f"<pre>{escape(str(self))}</pre>"
        if not rows:
            return words
        below = "".join(f"<p>{escape(line)}</p>" for line in self.remarks())
        return f"{_table(rows)}{below}<details><summary>as text</summary>{words}</details>"

    def plot(self) -> Any:
        """A matplotlib figure, for a notebook or ``figure.savefig``."""
        return pufferkit.plots.figure_of(self)

    def to_frame(self, backend: str = "polars") -> Any:
        """The rows as a dataframe of polars, pandas or pyarrow."""
        rows = self.table_rows()
        if not rows:
            raise ValueError(f"{type(self).__name__}: has no rows")
        return pufferkit.frames.frame_of(rows, backend)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = []
    for row in rows[:MOST_ROWS]:
        cells = "".join(f"<td>{escape(_cell(row.get(name)))}</td>" for name in names)
        lines.append(f"<tr>{cells}</tr>")
    more = len(rows) - MOST_ROWS
    end = f"<p>{more:,} more rows</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{end}"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
