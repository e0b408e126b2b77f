"""Tables out: frames, CSV and Parquet, and files of randomised answers.

CSV is written so that a spreadsheet executes no cell. A text cell that begins with ``=``, ``+``,
``-``, ``@``, a tab or a carriage return is a formula to many spreadsheets. Such a cell, or one that
begins so after apostrophes, gets an apostrophe in front; a cell that is a number is unchanged. To
undo it, remove one apostrophe from every cell that has apostrophes followed by one of these
characters.
"""

from __future__ import annotations

import io
import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferkit.data import files
from pufferkit.data.files import TextFormat

if TYPE_CHECKING:
    import polars as pl

_FORMULA = r"^'*[=+\-@\t\r]"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def harmless(cell: str) -> str:
    """A text cell that is not a formula.

    >>> harmless("=1+2"), harmless("-1.5"), harmless("home"), harmless("'=x")
    ("'=1+2", '-1.5', 'home', "''=x")
    """
    if re.search(_FORMULA, cell) and not re.search(_NUMBER, cell):
        return f"'{cell}"
    return cell


def csv_bytes(table: pl.DataFrame) -> bytes:
    """The table as CSV, with column names and text cells made harmless."""
    import polars as pl  # noqa: PLC0415

    texts = [name for name, kind in table.schema.items() if kind in (pl.String, pl.Categorical)]
    cells = pl.col(texts).cast(pl.String)
    formula = cells.str.contains(_FORMULA) & ~cells.str.contains(_NUMBER)
    safe = table.with_columns(
        pl.when(formula).then(pl.lit("'") + cells).otherwise(cells).name.keep() if texts else []
    )
    stream = io.BytesIO()
    safe.rename({name: harmless(name) for name in table.columns}).write_csv(stream)
    return stream.getvalue()


def frame_of(rows: Sequence[Mapping[str, Any]], backend: str = "polars") -> Any:
    """Rows as a frame of polars, pandas or pyarrow."""
    import narwhals as nw  # noqa: PLC0415

    if backend not in ("polars", "pandas", "pyarrow"):
        raise ValueError(f"backend: must be polars, pandas or pyarrow, got {backend!r}")
    engine: Any = backend
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_plain_cell(row.get(name)) for row in rows] for name in names}
    try:
        return nw.from_dict(columns, backend=engine).to_native()
    except ImportError:
        raise ImportError(f"backend: {backend} is not installed; pip install {backend}") from None


def _plain_cell(cell: Any) -> Any:
    """Cells of types that frames support; others as text."""
    return cell if cell is None or isinstance(cell, (str, int, float, datetime)) else str(cell)


def write_columns(path: Path | str, columns: Mapping[str, Any]) -> bytes:
    """The bytes of a ``.csv`` or ``.parquet`` file with these columns."""
    import polars as pl  # noqa: PLC0415

    return _content(path, pl.DataFrame(dict(columns), strict=False))


def _content(path: Path | str, table: pl.DataFrame) -> bytes:
    """The bytes of a file of this name."""
    check_table(path)
    if Path(path).suffix.lower() == ".csv":
        return csv_bytes(table)
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()


_SUFFIXES = (".csv", ".parquet")


def check_table(path: str | Path) -> None:
    """Raise if no table can be written under this name. Writes nothing."""
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise ValueError(f"{path}: tables are written to {' or '.join(_SUFFIXES)} files")


@files.readable
def answer_table(
    source: str | Path,
    target: str | Path,
    state: str,
    kept: Sequence[str],
    answers: Sequence[Hashable],
    text: TextFormat | None = None,
    *,
    numeric: bool = False,
) -> bytes:
    """The content of a table like ``source``: kept columns, with answers in place of states.

    Parameters
    ----------
    source
        The file that the true series was read from. Other columns are left out.
    target
        Name of the new file; its suffix decides the format.
    state
        Column of the states, and of the answers.
    kept
        Columns to copy unchanged.
    answers
        One for each row that has a state, in order; other rows have none.
    text, numeric
        Format of the source, and whether its states are numbers, among which some marks mean that
        nothing was measured.
    """
    import polars as pl  # noqa: PLC0415

    columns = [*kept, state]
    opened = files.opened(source, text)
    table = opened.lazy.select(columns).collect()
    marks = {*opened.form.missing, *(files.MARKS if numeric else ())} if opened.is_text else set()
    mixed = len({type(answer) for answer in answers}) > 1
    given = iter(str(answer) if mixed else answer for answer in answers)
    cells = [
        None if _nothing_in(cell) or str(cell).strip() in marks else next(given)
        for cell in table[state].to_list()
    ]
    return _content(target, table.with_columns(pl.Series(state, cells)).select(columns))


def _nothing_in(cell: Any) -> bool:
    """Whether a cell is empty."""
    return cell is None or cell == "" or (isinstance(cell, float) and isnan(cell))
