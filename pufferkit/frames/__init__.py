"""Tables in, tables out. The only importer of dataframe engines, through narwhals.

`series_files` reads one subject's series from a file, `tables` reads many subjects from any engine,
`aggregate` runs inside the engine, and `spark` holds what only a cluster needs.
"""

from pufferkit.frames.answer_files import answer_table, check_table
from pufferkit.frames.damaged_files import check_parquet
from pufferkit.frames.group_column import groups_of
from pufferkit.frames.raw_files import TextFormat, first_cell, first_rows
from pufferkit.frames.raw_times import Clock
from pufferkit.frames.series_files import read_record, read_series, states_from_text
from pufferkit.frames.tables import frame_of, read_table, write_columns
from pufferkit.frames.window_files import Late, read_window

__all__ = [
    "Clock",
    "Late",
    "TextFormat",
    "answer_table",
    "check_parquet",
    "check_table",
    "first_cell",
    "first_rows",
    "frame_of",
    "groups_of",
    "read_record",
    "read_series",
    "read_table",
    "read_window",
    "states_from_text",
    "write_columns",
]
