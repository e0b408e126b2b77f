"""A file like the one a series was read from, with randomised answers in place of states."""

from __future__ import annotations

import io
from collections.abc import Hashable, Sequence
from pathlib import Path

from pufferkit.frames import raw_files
from pufferkit.frames.raw_files import TextFormat
from pufferkit.frames.row_times import nothing_in
from pufferkit.frames.safe_csv import csv_bytes

_SUFFIXES = (".csv", ".parquet")


def check_table(path: str | Path) -> None:
    """Raise if no table can be written under this name. Writes nothing."""
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise ValueError(f"{path}: tables are written to {' or '.join(_SUFFIXES)} files")


@raw_files.readable
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

    check_table(target)
    columns = [*kept, state]
    opened = raw_files.opened(source, text)
    table = opened.lazy.select(columns).collect()
    marks = (
        {*opened.form.missing, *(raw_files.MARKS if numeric else ())} if opened.is_text else set()
    )
    mixed = len({type(answer) for answer in answers}) > 1
    given = iter(str(answer) if mixed else answer for answer in answers)
    cells = [
        None if nothing_in(cell) or str(cell).strip() in marks else next(given)
        for cell in table[state].to_list()
    ]
    table = table.with_columns(pl.Series(state, cells)).select(columns)
    if Path(target).suffix.lower() == ".csv":
        return csv_bytes(table)
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()
