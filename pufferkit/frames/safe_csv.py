"""CSV whose cells a spreadsheet does not execute as formulas.

A text cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return is a formula to
many spreadsheets. Such a cell, or one that begins so after apostrophes, gets an apostrophe in
front; a cell that is a number is unchanged. To undo it, remove one apostrophe from every cell that
has apostrophes followed by one of these characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
    import io  # noqa: PLC0415

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
