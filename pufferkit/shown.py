"""How objects are displayed: text at a prompt, tables in a notebook, figures, dataframes.

What an object says is one list of statements (`Shown.statements`): warnings first, then what it is
about, its table, and remarks. A terminal colours them, a pipe gets them as text, JSON as a list, a
notebook and a page as HTML; none of them has words of its own.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any, Literal, NamedTuple

import pufferkit

MOST_ROWS = 100
"""Most rows that a notebook shows."""

WIDTH = 80
"""Most characters of a line of text."""


def aligned(
    rows: Iterable[Sequence[str]], indent: str = "  ", width: int | None = None
) -> list[str]:
    """Texts in columns of one width; of the last what is too wide goes on below it.

    >>> aligned([("one", "entry"), ("three", "entries of a series")], width=17)
    ['  one    entry', '  three  entries of a', '         series']
    """
    listed = list(rows)
    wide = [max(map(len, column)) for column in list(zip(*listed, strict=True))[:-1]]
    before = len(indent) + sum(wide) + 2 * len(wide)
    room, lines = max((width or WIDTH) - before, 12), list[str]()
    for row in listed:
        cells = [f"{cell:<{size}}" for cell, size in zip(row, wide, strict=False)]
        first, *more = [row[-1]] if len(row[-1]) <= room else _broken(row[-1], room)
        lines += [indent + "  ".join([*cells, first]).rstrip()]
        lines += [" " * before + part for part in more]
    return lines


def three_digits(number: float) -> str:
    """A number with three significant digits, without an exponent where it is short.

    >>> three_digits(12079.0), three_digits(0.012345), three_digits(60), three_digits(2.5e12)
    ('12,100', '0.0123', '60', '2.5e+12')
    """
    if not math.isfinite(number) or (number and not 1e-4 <= abs(number) < 1e9):
        return f"{number:.3g}"
    places = 2 - math.floor(math.log10(abs(number))) if number else 0
    text = f"{round(number, places):,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A number and its interval in the digits that the interval leaves, which is rounded outwards.

    >>> with_interval(0.44957, 0.422619, 0.482143), with_interval(89002.0, 88537.0, 89455.0)
    (('0.450', '0.422', '0.483'), ('89,002', '88,537', '89,455'))
    """
    width = high - low
    if not math.isfinite(width) or (width and math.log10(abs(width)) < -8):
        return f"{value:.6g}", f"{low:.6g}", f"{high:.6g}"
    places = 6 if not width else max(0, 1 - math.floor(math.log10(abs(width))))
    unit = 10.0**places
    ends = math.floor(low * unit + 1e-6) / unit, math.ceil(high * unit - 1e-6) / unit
    texts = [f"{number:,.{places}f}" for number in (value, *ends)]
    if places and not any(text.rpartition(".")[2].strip("0") for text in texts):
        texts = [text.rpartition(".")[0] for text in texts]
    shown, least, most = ("0" if not text.strip("-0.,") else text for text in texts)
    return shown, least, most


def at_most(number: float) -> str:
    """The least number of three significant digits that is not below this one.

    >>> at_most(468.2), at_most(60.0), at_most(0.0123401)
    ('469', '60', '0.0124')
    """
    if not number or not math.isfinite(number):
        return three_digits(number)
    unit = 10.0 ** (math.floor(math.log10(abs(number))) - 2)
    steps = number / unit
    whole = round(steps)  # 60.000000001 is 60 that was computed
    return three_digits((whole if steps <= whole * (1 + 1e-9) else math.ceil(steps)) * unit)


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """A statement in lines that fit a terminal, continued ones indented."""
    return [part for line in text.split("\n") for part in _broken(line, width, "  ")]


def _broken(line: str, width: int, indent: str = "") -> list[str]:
    """A line broken at words."""
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(line, width, subsequent_indent=indent, **options) or [""]


def grid(
    down: Sequence[str], across: Sequence[str], cells: Sequence[Sequence[str]], width: int = WIDTH
) -> str:
    """A table of texts with names for its rows and columns; what is too wide goes below.

    >>> print(grid(["Monday", "Tuesday"], ["rest", "walk"], [["12", "0"], ["9", "3"]]))
             rest  walk
    Monday     12     0
    Tuesday     9     3
    """
    first = max(map(len, down))
    each = [max(len(head), *(len(row[n]) for row in cells)) + 2 for n, head in enumerate(across)]
    lines, at = list[str](), 0
    while at < len(across):
        end, room = at + 1, width - first - each[at]
        while end < len(across) and each[end] <= room:
            room, end = room - each[end], end + 1
        rows = [("", across), *zip(down, cells, strict=True)]
        lines += [] if not at else [""]
        lines += [
            f"{name:<{first}}" + "".join(f"{row[n]:>{each[n]}}" for n in range(at, end))
            for name, row in rows
        ]
        at = end
    return "\n".join(lines)


class Statement(NamedTuple):
    """Something that is said; a ``table`` has its own lines, all others wrap at words."""

    kind: Literal["warning", "head", "table", "remark"]
    text: str

    def lines(self, width: int = WIDTH) -> list[str]:
        """The lines of a terminal or a text of this width."""
        return self.text.split("\n") if self.kind == "table" else wrapped(self.text, width)


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

    def caption(self) -> str:
        """What it is about, above the table."""
        return ""

    def warnings(self) -> Sequence[str]:
        """What must be known before the numbers are used; said first."""
        return ()

    def text_table(self) -> str:
        """The table as text; empty if there is none."""
        return ""

    def remarks(self) -> Sequence[str]:
        """What is said below the table."""
        return ()

    def statements(self) -> list[Statement]:
        """All that is said of it, in order, whoever shows it."""
        said = [Statement("warning", line) for line in self.warnings()]
        said += [Statement("head", line) for line in self.caption().split("\n") if line]
        table = self.text_table()
        said += [Statement("table", table)] if table else []
        return said + [Statement("remark", line) for line in self.remarks()]

    def __str__(self) -> str:
        return "\n".join(line for said in self.statements() for line in said.lines())

    def _repr_html_(self) -> str:
        rows = self.shown_rows()
        said = self.statements()
        text = "\n".join(line for own in said for line in own.lines()) or str(self)
        words = f"<pre>{escape(text)}</pre>"
        if not rows:
            return words
        shown = in_html(said, rows)
        return f"{shown}<details><summary>as text</summary>{words}</details>"

    def plot(self) -> Any:
        """A matplotlib figure, for a notebook or ``figure.savefig``."""
        return pufferkit.plots.figure_of(self)

    def to_frame(self, backend: str = "polars") -> Any:
        """The rows as a dataframe of polars, pandas or pyarrow."""
        rows = self.table_rows()
        if not rows:
            raise ValueError(f"{type(self).__name__}: has no rows")
        return import_module("pufferkit.data.write").frame_of(rows, backend)


def in_html(said: Iterable[Statement], rows: Sequence[Mapping[str, Any]] = ()) -> str:
    """Statements on a page; with ``rows``, these are the table, before all remarks."""
    marked = [(kind, _HTML[kind].format(escape(text))) for kind, text in said]
    if rows:
        marked = [(kind, text) for kind, text in marked if kind != "table"]
        marked.insert(sum(kind != "remark" for kind, _ in marked), ("table", _table(rows)))
    return "".join(text for _, text in marked)


_HTML = {
    "warning": '<p style="color:#b00020">{}</p>',
    "head": "<p><b>{}</b></p>",
    "table": "<pre>{}</pre>",
    "remark": "<p>{}</p>",
}


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
    return three_digits(value) if isinstance(value, float) else str(value)
