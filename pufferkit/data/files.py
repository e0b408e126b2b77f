"""Raw files: separator, header, and the formats of numbers and dates.

The format is detected, reported (`Opened.notes`) and can be overridden (`TextFormat`). Where two
readings are possible, neither is chosen: the error names the option that decides.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from pufferkit.records import read_stream

if TYPE_CHECKING:
    import polars as pl

P = ParamSpec("P")
T = TypeVar("T")

FILE = "file"
"""Column with the file that a row comes from."""

INDEX = "index"
"""The name of a first column that has none: the row names of R, or the index of pandas."""

_INDEX_OF_PANDAS = "__index_level_0__"
"""Its name in a Parquet file."""

STANDARD_INPUT = "-"

MARKS = ("?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""Cells in columns of numbers where nothing was measured."""

PARQUET_MAGIC, _GZIP_MAGIC = b"PAR1", b"\x1f\x8b"
_SAMPLE = 1 << 16
_MOST_LOOKED_AT = 1 << 27
"""Bytes of the largest text file that is searched for a damaged row."""
_MOST_PIPED = 1 << 30
"""Bytes of the largest table that is read from standard input."""
_SEPARATORS = (";", "\t", "|", ",")
_SPACE = " "
_MOST_ROWS_WHOLE = 0.8  # of a file with damaged rows; with fewer it is no table
_IN_WORDS = {"\t": "tab", _SPACE: "space"}
_ENDINGS = (".gz", ".csv", ".tsv", ".txt", ".dat", ".parquet")
_WILD = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?")

Dates = Literal["day first", "month first"]


@dataclass(frozen=True)
class TextFormat:
    """The format of a text file. What is left out is detected and reported.

    Attributes
    ----------
    separator
        Separator of cells: one character, or ``" "`` for any run of spaces and tabs.
    header
        Whether the first line names the columns; without one they are called 1, 2, 3, ...
    decimal
        ``"."`` or ``","``, in columns of numbers.
    dates
        ``"day first"`` or ``"month first"``, for dates like 03/04/2024.
    missing
        Cell that means not observed, besides an empty one. In columns of numbers also `?`, `NA`,
        `NaN` and `null`.

    Examples
    --------
    >>> TextFormat(separator=";", dates="day first").separator
    ';'
    """

    separator: str | None = None
    header: bool | None = None
    decimal: str | None = None
    dates: Dates | None = None
    missing: tuple[str, ...] = ()
    _skipped: int = field(default=0, repr=False)
    _names: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        named = {"tab": "\t", "space": _SPACE, "comma": ",", "semicolon": ";", "\\t": "\t"}
        if self.separator is not None:
            given = named.get(self.separator, self.separator)
            if len(given) != 1 or given in '"\n\r':
                raise ValueError(
                    f"separator: must be one character, tab or space, got {self.separator!r}"
                )
            object.__setattr__(self, "separator", given)
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal: must be '.' or ',', got {self.decimal!r}")
        if self.dates not in (None, "day first", "month first"):
            raise ValueError(f"dates: must be 'day first' or 'month first', got {self.dates!r}")
        object.__setattr__(self, "missing", tuple(self.missing))


@dataclass(frozen=True, eq=False)
class Opened:
    """One or several files as one lazy table; cells of text files are unchanged text."""

    name: str
    lazy: pl.LazyFrame
    is_text: bool
    form: TextFormat
    notes: tuple[str, ...] = ()
    several: bool = False
    size: int = 0
    paths: tuple[Path, ...] = ()


def is_files(source: Any) -> bool:
    """Whether this names files: a path, a pattern, or a list of paths."""
    if isinstance(source, (list, tuple)):
        return bool(source) and all(isinstance(one, (str, Path)) for one in source)
    return isinstance(source, (str, Path))


def files_of(source: Any) -> list[Path]:
    """The files that a path, a pattern such as ``N*`` or a list of them names, sorted."""
    if isinstance(source, (list, tuple)):
        files = [file for one in source for file in files_of(one)]
        if len(set(files)) < len(files):
            twice = next(file for file, often in Counter(files).items() if often > 1)
            raise ValueError(
                f"files: {twice} is named twice; a list names files (states in memory are a series "
                "by Series.of)"
            )
        return files
    path = Path(source)
    if path.exists() or not _WILD.search(str(source)):
        return [path]
    matching = sorted(Path(one) for one in glob(str(source)) if Path(one).is_file())
    if not matching:
        raise ValueError(f"{source}: no such file")
    return matching


def opened(source: Any, form: TextFormat | None = None) -> Opened:
    """Open text files, compressed with gzip or not, and Parquet files."""
    import polars as pl  # noqa: PLC0415

    form = form or TextFormat()
    files = files_of(source)
    tables = [_opened(file, form) for file in files]
    if len(tables) == 1 and not isinstance(source, (list, tuple)) and files[0] == Path(source):
        return tables[0]
    columns = [table.lazy.collect_schema().names() for table in tables]
    for file, own in zip(files, columns, strict=True):
        if own != columns[0]:
            raise ValueError(
                f"{file}: has columns {own}, but {files[0]} has {columns[0]}; files read together "
                "must have the same columns"
            )
    if FILE in columns[0]:
        raise ValueError(f"{files[0]}: has a column {FILE!r}, which would name the file; rename it")
    names = [subject_of(file) for file in files]
    if len(set(names)) < len(names):
        raise ValueError("files: two of them have the same name in different folders; rename one")
    parts = [
        table.lazy.with_columns(pl.lit(name).alias(FILE))
        for table, name in zip(tables, names, strict=True)
    ]
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    of_files = f"a subject for each of {len(files)} files" if len(files) > 1 else "one file"
    first = tables[0]
    return Opened(
        f"{files[0]}" + (f" and {len(files) - 1} more" if len(files) > 1 else ""),
        pl.concat(parts, how="vertical"),
        first.is_text,
        first.form,
        (*notes, of_files),
        several=True,
        size=sum(table.size for table in tables),
        paths=tuple(files),
    )


def with_name(table: Opened, source: Any) -> Opened:
    """The table with the column `FILE`, if it has none."""
    import polars as pl  # noqa: PLC0415

    if FILE in table.lazy.collect_schema().names():
        return table
    name = pl.lit(subject_of(Path(source))).alias(FILE)
    return replace(table, lazy=table.lazy.with_columns(name))


def subject_of(file: Path) -> str:
    """The name of a file without folder and suffixes, used as the name of its subject."""
    name = file.name
    while name.lower().endswith(_ENDINGS):
        name = name[: name.rindex(".")]
    return name or file.name


def name_of(file: Path) -> str:
    """The name of a file in errors."""
    return "standard input" if str(file) == STANDARD_INPUT else str(file)


def _opened(file: Path, form: TextFormat) -> Opened:
    import polars as pl  # noqa: PLC0415

    content = content_of(file)
    head = head_of(file) if content is None else content[:_SAMPLE]
    size = file.stat().st_size if content is None else len(content)
    name = name_of(file)
    if not head:
        raise ValueError(f"{name}: is empty")
    if head.startswith(PARQUET_MAGIC):
        if file.suffix.lower() == ".csv":
            raise ValueError(f"{file}: is a Parquet file; rename it to {file.stem}.parquet")
        lazy = pl.scan_parquet(file if content is None else io.BytesIO(content), glob=False)
        if INDEX not in lazy.collect_schema().names():
            lazy = lazy.rename({_INDEX_OF_PANDAS: INDEX}, strict=False)
        return Opened(name, lazy, False, form, size=size, paths=(file,))
    if file.suffix.lower() == ".parquet":
        raise ValueError(f"{file}: is not a Parquet file; if it is CSV, rename it")
    sniffed, notes = _sniffed(name, head, form)
    scanned = _scanned(file, content, sniffed)
    return Opened(name, scanned, True, sniffed, notes, size=size, paths=(file,))


def refuse_ragged(paths: Iterable[Path], form: TextFormat) -> None:
    """Raise, with its number, for the first row that has more or fewer cells than the header.

    Also for the first line that is not UTF-8.
    """
    for file in paths:
        content = content_of(file)
        content = file.read_bytes() if content is None else content
        text = _decoded(name_of(file), content)
        separator = form.separator or ","
        lines = text.splitlines()[form._skipped :]
        if separator == _SPACE:
            cells: Iterable[int] = (len(_cells(line, separator)) for line in lines)
        elif '"' in text:
            cells = map(len, csv.reader(lines, delimiter=separator))
        else:
            cells = (line.count(separator) + 1 if line else 0 for line in lines)
        counts = [number for number in cells if number]
        width = len(form._names) or counts[0]
        row = next((row for row, n in enumerate(counts[bool(form.header) :], 1) if n != width), 0)
        if row:
            there = counts[row - 1 + bool(form.header)]
            raise ValueError(
                f"{name_of(file)}: row {row} has {there} cells and the file has {width} columns; "
                "complete the row or remove it"
            )


def _decoded(name: str, content: bytes, *, cut: bool = False) -> str:
    """Text in UTF-8, or an error with its first bad line; ``cut``: perhaps within a letter."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if cut and error.start > len(content) - 4:
            return content[: error.start].decode("utf-8-sig")
        line = content.count(b"\n", 0, error.start) + 1
        words = f"{name}: line {line} is not text in UTF-8; export it as UTF-8"
        raise ValueError(words) from None


def readable(read: Callable[P, T]) -> Callable[P, T]:
    """A function of a source, whose reader's errors become errors about the file.

    Files are read in pieces, so that damage may show wherever rows are first needed.
    """

    @wraps(read)
    def reading(*args: P.args, **options: P.kwargs) -> T:
        import polars as pl  # noqa: PLC0415

        try:
            return read(*args, **options)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            source = args[0] if args else options.get("source")
            form = cast("TextFormat | None", options.get("text", options.get("form")))
            raise _unreadable(files_of(source) if is_files(source) else [], form, error) from None

    return reading


def _unreadable(files: Sequence[Path], form: TextFormat | None, error: Exception) -> ValueError:
    """The error for a source that cannot be read: its damaged row, or what its reader says."""
    import polars as pl  # noqa: PLC0415

    kind, name = "table", ", ".join(map(name_of, files)) or "table"
    if isinstance(error, pl.exceptions.NoDataError):
        return ValueError(f"{name}: is empty")
    for file in files:
        content = content_of(file)
        head = head_of(file) if content is None else content[:_SAMPLE]
        kind = "Parquet" if head.startswith(PARQUET_MAGIC) else "text"
        size = file.stat().st_size if content is None else len(content)
        if kind == "text" and size <= _MOST_LOOKED_AT:
            sniffed, _ = _sniffed(name_of(file), head, form or TextFormat())
            refuse_ragged([file], sniffed)
    reason = str(error).partition("\n")[0]
    return ValueError(f"{name}: is not a readable {kind} file ({reason})")


@readable
def first_cell(source: Any, column: str, form: TextFormat | None = None) -> Any:
    """The first cell of a column that is not empty; ``None`` if there is none."""
    import polars as pl  # noqa: PLC0415

    table = opened(source, form)
    check_columns(table.name, table.lazy.collect_schema().names(), [("state", column)])
    cell = pl.col(column)
    if table.is_text:
        cell = cell.filter(~cell.str.strip_chars().is_in([*MARKS, *table.form.missing, ""]))
    cells = table.lazy.select(cell.drop_nulls().first()).collect()
    return cells.item() if cells.height else None


@readable
def first_rows(source: Any, count: int, form: TextFormat | None = None) -> dict[str, list[Any]]:
    """The first cells of every column, by its name; unchanged text for a text file."""
    return opened(source, form).lazy.head(count).collect().to_dict(as_series=False)


_READ: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()


def _standard_input() -> bytes:
    """All of standard input, which can be read only once."""
    stream = sys.stdin.buffer
    if stream not in _READ:
        _READ[stream] = read_stream(stream, "standard input", _MOST_PIPED)
    return _READ[stream]


def content_of(file: Path) -> bytes | None:
    """The content of standard input and compressed files; ``None`` for files read lazily."""
    if str(file) == STANDARD_INPUT:
        content = _standard_input()
    else:
        if file.is_dir():
            raise ValueError(f"{file}: is a directory; name a file, or files by a pattern in it")
        if not file.is_file() and file.exists():
            raise ValueError(f"{file}: is not a regular file; name a file on disk, or pipe it to -")
        with file.open("rb") as stream:
            if stream.read(2) != _GZIP_MAGIC:
                return None
        content = file.read_bytes()
    if content[:2] != _GZIP_MAGIC:
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{file}: is not a readable gzip file ({error})") from None


def head_of(file: Path) -> bytes:
    """The first bytes of a file."""
    with file.open("rb") as stream:
        return stream.read(_SAMPLE)


def _sniffed(name: str, head: bytes, form: TextFormat) -> tuple[TextFormat, tuple[str, ...]]:
    """The format with separator and header filled in, and notes on what was detected."""
    if head.startswith(b"PK\x03\x04"):
        raise ValueError(f"{name}: is a spreadsheet or zip file; export it as CSV or Parquet")
    if b"\0" in head:
        raise ValueError(f"{name}: is not a CSV file in UTF-8; export it as plain text")
    text = _decoded(name, head, cut=len(head) == _SAMPLE)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(head) == _SAMPLE and len(lines) > 1:
        lines = lines[:-1]  # cut off within a line
    if not lines:
        raise ValueError(f"{name}: is empty")
    notes = []
    comments = _comments(lines)
    if comments:
        lines = lines[comments:]
        notes.append(f"{comments} line{'s' if comments > 1 else ''} of comments left out")
    separator = form.separator or _separator(lines)
    first = _cells(lines[0], separator)
    header = form.header
    if header is None:
        header = not any(_NUMBER.fullmatch(cell) or _is_moment(cell) for cell in first)
    if form.separator is None and separator != ",":
        notes.append(f"separator {_IN_WORDS.get(separator, separator)}")
    if form.header is None and not header:
        notes.append(f"no header, columns 1 to {len(first)}")
    names = _with_index(first, lines[1:200], separator) if header else ()
    if names:
        notes.append(f"the column without a name is {INDEX}")
    sniffed = replace(form, separator=separator, header=header, _skipped=comments, _names=names)
    return sniffed, tuple(notes)


def _with_index(first: Sequence[str], rows: Sequence[str], separator: str) -> tuple[str, ...]:
    """The names of the columns, if one has none in the header; else nothing."""
    if INDEX in first or len(set(first)) < len(first):
        return ()
    if {len(_cells(row, separator)) for row in rows} == {len(first) + 1} and "" not in first:
        return (INDEX, *first)
    return tuple(name or INDEX for name in first) if "" in first else ()


def _comments(lines: Sequence[str]) -> int:
    """The number of lines at the beginning that are comments, not names of columns."""
    count = next((n for n, line in enumerate(lines) if not line.startswith("#")), 0)
    if count and count < len(lines):
        signs = {sign: lines[count - 1].count(sign) for sign in _SEPARATORS}
        if any(number and lines[count].count(sign) == number for sign, number in signs.items()):
            count -= 1  # the last one names the columns
    return count


def _separator(lines: Sequence[str]) -> str:
    """The first separator that splits all lines into the same number of cells, above one.

    The header may have one cell less, where rows have names. If none does, a few rows may be short
    or long, which are refused by their number.
    """
    sample = lines[:200]
    for separator in (*_SEPARATORS, _SPACE):
        if separator == _SPACE:
            for sign in _SEPARATORS:
                cells = [len(_cells(line, sign)) for line in sample]
                if cells[0] > 1 and cells.count(cells[0]) >= max(2, _MOST_ROWS_WHOLE * len(cells)):
                    return sign
        counts = [len(_cells(line, separator)) for line in sample]
        short = len(counts) > 1 and counts[0] == counts[1] - 1
        if len(set(counts[short:])) > 1 or counts[-1] == 1:
            continue
        if short and not all(re.match(r"[\"0-9]", line.strip()) for line in sample[1:]):
            continue
        # Words with a space between them are not two cells.
        apart = r"[-+.\"0-9]"
        if separator == _SPACE and not all(
            re.match(apart, line.strip()) for line in sample[short:]
        ):
            continue
        return separator
    return ","


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line; separators within quotes do not count."""
    if separator == _SPACE:
        return [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', line)]
    bare = re.sub(r'"[^"]*"', lambda quoted: "x" * len(quoted[0]), line) if '"' in line else line
    ends = [n for n, sign in enumerate(bare) if sign == separator]
    starts = [0, *(end + 1 for end in ends)]
    return [line[a:b].strip().strip('"') for a, b in zip(starts, [*ends, len(line)], strict=True)]


def _is_moment(cell: str) -> bool:
    return re.match(r"[0-9]{1,4}[-/.:][0-9]{1,2}\b", cell) is not None


def _scanned(file: Path, content: bytes | None, form: TextFormat) -> pl.LazyFrame:
    import polars as pl  # noqa: PLC0415

    separator = form.separator or ","
    options: dict[str, Any] = {
        "separator": separator,
        "has_header": form.header and not form._names,
        "infer_schema": False,  # unchanged text: cells are interpreted later
        "skip_lines": form._skipped + bool(form._names),
    }
    if separator == _SPACE:
        whole = file.read_bytes() if content is None else content
        lines = (b" ".join(line.split()) for line in whole.splitlines())
        content = b"\n".join(line for line in lines if line) + b"\n"
    if content is not None:
        lazy = pl.read_csv(io.BytesIO(content), **options).lazy()
    else:
        lazy = pl.scan_csv(file, glob=False, **options)
    names = lazy.collect_schema().names()
    if form._names:
        return lazy.rename(dict(zip(names, form._names, strict=True)))
    if not form.header:
        lazy = lazy.rename({name: str(n) for n, name in enumerate(names, 1)})
    return lazy


def check_columns(name: str, there: Sequence[str], columns: Iterable[tuple[str, str]]) -> None:
    """Raise, listing the columns, if one of these (role, column) pairs is missing."""
    for role, column in columns:
        if column not in there:
            listed = ", ".join(repr(other) for other in there)
            raise ValueError(f"{name}: has no column {column!r} for {role}; it has {listed}")


def as_numbers(table: Opened, column: str) -> tuple[pl.Expr, tuple[str, ...]]:
    """A column of text as numbers, and what was detected about it."""
    import polars as pl  # noqa: PLC0415

    cell = pl.col(column).str.strip_chars()
    marks = [*MARKS, *table.form.missing]
    there = table.lazy.select(
        cell.filter(cell.is_in(marks)).unique().implode().alias("marks"),
        cell.str.contains(r"^[+-]?[0-9]*,[0-9]+$").any().alias("comma"),
        cell.str.contains(r"^[+-]?[0-9]*\.[0-9]+$").any().alias("point"),
        cell.filter(cell.str.contains(",", literal=True))
        .str.contains(r"^[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+$")
        .all()
        .alias("thousands"),
    ).collect()
    notes = []
    marked = sorted(there["marks"].to_list()[0] or [])
    if marked:
        notes.append(f"not observed where {column} is {' or '.join(marked)}")
    decimal = table.form.decimal
    if decimal is None:
        comma, point = bool(there["comma"].item()), bool(there["point"].item())
        if comma and point:
            raise ValueError(
                f"{table.name}: column {column!r} has numbers with a comma and numbers with a "
                "point; give the decimal sign (decimal=',' or --decimal ,)"
            )
        if comma and table.form.separator == "," and there["thousands"].item():
            raise ValueError(
                f"{table.name}: column {column!r} has commas before three digits, which may "
                "separate thousands; write the numbers without them, or if they are decimal "
                "commas, say so (decimal=',' or --decimal ,)"
            )
        decimal = "," if comma else "."
        if comma:
            notes.append("decimal comma")
    plain: pl.Expr = pl.when(~cell.is_in([*marks, ""])).then(cell)
    if decimal == ",":
        plain = plain.str.replace(",", ".", literal=True)
    bad = (
        table.lazy.with_row_index("_row", 1)
        .select("_row", cell.alias("cell"), plain.cast(pl.Float64, strict=False).alias("number"))
        .filter(pl.col("number").is_null() & ~pl.col("cell").is_in([*marks, ""]))
        .head(1)
        .collect()
    )
    if bad.height:
        raise ValueError(
            f"{table.name}: row {bad['_row'].item()} has {bad['cell'].item()!r} in column "
            f"{column!r}, which is not a number; if it means not observed, declare it "
            f"(missing={bad['cell'].item()!r} or --missing)"
        )
    return plain.cast(pl.Float64), tuple(notes)


# -- damaged Parquet ----------------------------------------------------------------------------

_READ_ALL = """
import io, sys
import polars as pl
source = sys.argv[1] if len(sys.argv) > 1 else io.BytesIO(sys.stdin.buffer.read())
try:
    lazy = pl.scan_parquet(source, glob=False)
    flat = [name for name, kind in lazy.collect_schema().items() if not kind.is_nested()]
    lazy.select(pl.col(flat).hash().max()).collect(engine="streaming")
except pl.exceptions.PolarsError as error:
    print(str(error).partition("\\n")[0])
    sys.exit(3)
"""
_SAID = 3


def check_parquet(file: Path) -> None:
    """Raise if this is a Parquet file that cannot be read completely.

    The reader panics on some damaged files and prints so from a thread of its own; for others it
    requests more memory than there is. Neither can be caught, so a child process reads it first.
    """
    content = content_of(file)
    if not (head_of(file) if content is None else content).startswith(PARQUET_MAGIC):
        return
    child = subprocess.run(
        [sys.executable, "-I", "-c", _READ_ALL, *([str(file)] if content is None else [])],
        input=content,
        capture_output=True,
        check=False,
    )
    if child.returncode != 0:
        reason = child.stdout.decode(errors="replace").strip()
        damaged = "it is damaged or incomplete"
        raise ValueError(
            f"{name_of(file)}: is not a readable Parquet file "
            f"({reason if child.returncode == _SAID else damaged})"
        )
