"""How objects show themselves: words at a prompt, tables in a notebook, pictures and frames."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pufferkit

MOST_ROWS = 100
"""Rows that a notebook shows."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Probabilities of what is across, given what is down; with a name among several."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Any
    down: str = "after"
    across: str = "next"

    @classmethod
    def of(cls, name: str, states: Iterable[Hashable], cells: Any, across: str = "next") -> Matrix:
        """A matrix of moves between states."""
        labels = tuple(str(state) for state in states)
        return cls(name, labels, labels, cells, across=across)

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each row, its label under the word that is down."""
        return [
            {self.down: label, **dict(zip(self.columns, map(float, row), strict=True))}
            for label, row in zip(self.rows, self.cells, strict=True)
        ]


class Shown:
    """Something a person looks at: its ``str`` is its ``repr``, and HTML in a notebook.

    Where it has rows, ``table_rows`` gives them; where there is a picture of it, `plot` draws it.
    """

    def __repr__(self) -> str:
        return str(self)

    def table_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of `to_frame`; none where there are none."""
        return ()

    def shown_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the table in a notebook."""
        return self.table_rows()

    def remarks(self) -> Sequence[str]:
        """What a notebook says below the table, and does not hide among the words."""
        return ()

    def _repr_html_(self) -> str:
        rows = self.shown_rows()
        words = f"<pre>{escape(str(self))}</pre>"
        if not rows:
            return words
        below = "".join(f"<p>{escape(line)}</p>" for line in self.remarks())
        return f"{_table(rows)}{below}<details><summary>words</summary>{words}</details>"

    def plot(self) -> Any:
        """A matplotlib figure of it, for a notebook or ``figure.savefig``."""
        return pufferkit.plots.figure_of(self)

    def to_frame(self, backend: str = "polars") -> Any:
        """Its rows as a frame of polars, pandas or pyarrow."""
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
