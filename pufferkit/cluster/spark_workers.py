"""The work of Spark's Python workers: link and count sorted rows, and process packs of subjects.

A *pack* is the counts of some whole subjects, as bytes. Rows come sorted by subject and time, in
batches, and a worker holds one batch and the counts of one pack: a subject of any length is read
in the memory of a batch. Nothing here draws noise on its own.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pufferkit.data import count
from pufferkit.data.assemble import extents_of, sizes_of, table_of
from pufferkit.data.count import (
    BASE,
    FRESH,
    HIGH,
    LOW,
    SEGMENT,
    STATE,
    SUBJECT,
    WINDOW,
    Rules,
)
from pufferkit.data.durations import in_words
from pufferkit.data.table import Table

if TYPE_CHECKING:
    import polars as pl


PACKS = "kind string, payload binary"
PIECES, ENTRIES, PAIRS, FACTS = "pieces", "entries", "pairs", "facts"

ROWS_AT_ONCE = 200_000
LINES_OF_A_PACK = 50_000
"""Rows that are linked together, and counts of states that make a pack."""

_ONE_THREAD = "POLARS_MAX_THREADS"


def count_rows(batches: Iterator[Any], *, rules: Rules, entries: bool = False) -> Iterator[Any]:
    """Packs of all subjects of a partition, then its transition counts.

    With ``entries`` the rows themselves too, for questions that counts do not answer.
    """
    import polars as pl  # noqa: PLC0415

    carry: pl.DataFrame | None = None
    pairs: pl.DataFrame | None = None
    lines, single = list[pl.DataFrame](), list[pl.DataFrame]()
    nobody, steps, ends = 0, list[Any](), list[pl.DataFrame]()
    for rows in _frames(batches, ROWS_AT_ONCE):
        nobody += rows[SUBJECT].null_count()
        named = rows.filter(~pl.col(SUBJECT).is_null())
        if named.height == 0:
            continue
        frame = count.with_carry(named, carry)
        linked = count.linked(frame, rules)
        if rules.every is not None:
            steps.append(count.smallest_step(frame))
        fresh = linked.filter(pl.col(FRESH) == 1) if FRESH in linked.columns else linked
        counts = count.pair_counts(fresh)
        pairs = count.merged_pairs([counts] if pairs is None else [pairs, counts])
        pieces = count.piece_counts(linked, rules)
        pieces, last = count.numbered(pieces, linked, frame)
        open_subject = frame[SUBJECT].tail(1)
        before = [last] if carry is None else [last, carry]
        carry = pl.concat(before).unique(SUBJECT, keep="first", maintain_order=True)
        carry = carry.filter(pl.col(SUBJECT).is_in(open_subject.implode()))
        lines.append(pieces.drop(BASE))
        ends.append(_ends(pieces))
        unfinished = pl.col(SUBJECT).is_in(open_subject.implode())
        if sum(part.height for part in lines) >= LINES_OF_A_PACK:
            together = _merged(lines, rules)
            yield from _packs(PIECES, together.filter(~unfinished))
            lines = [together.filter(unfinished)]
        if entries:
            together = pl.concat([*single, named])
            whole = together.height >= LINES_OF_A_PACK
            if whole:
                yield from _packs(ENTRIES, together.filter(~unfinished))
            single = [together.filter(unfinished) if whole else together]
    if lines:
        yield from _packs(PIECES, _merged(lines, rules))
    if single:
        yield from _packs(ENTRIES, single[0])
    if pairs is not None:
        yield _pack(PAIRS, pairs)
        extent = _ends_of(ends)
        known = [step for step in steps if step is not None]
        smallest = pl.Series("smallest", [min(known) if known else None], strict=False)
        yield _pack(FACTS, extent.with_columns(pl.lit(nobody).alias("nobody"), smallest))
    elif nobody:
        yield _pack(FACTS, pl.DataFrame({"nobody": [nobody]}))


@dataclass(frozen=True, eq=False)
class SplitReading:
    """Facts about all subjects together, by which a pack becomes a table."""

    rules: Rules
    pairs: pl.DataFrame
    """Which state follows which after which step, and how often."""
    step: int | float | None
    """Step of the clock, in the units of the places."""
    known: tuple[Hashable, ...] | None = None
    """All states, in the order of the counts."""
    segmented: bool = False
    """Whether any subject has several segments."""

    def table(self, lines: pl.DataFrame) -> Table | None:
        """The subjects of a pack; ``None`` if no row of them has a state."""
        entries = None
        if "n" not in lines.columns:  # rows, which are linked and counted here
            entries = count.linked(lines, self.rules)
            lines = count.piece_counts(entries, self.rules)
        if lines[STATE].null_count() == lines.height:
            return None
        extents = extents_of(lines, self.rules)
        made = table_of(
            lines, extents, self.pairs, self.step, self.rules, self.known, _not_declared, entries
        )
        return self._recorded(made)

    def sizes(self, lines: pl.DataFrame) -> Table | None:
        """The public facts about the subjects of a pack, or about their extents."""
        extents = extents_of(lines, self.rules) if STATE in lines.columns else lines
        if not extents["n"].sum():
            return None
        return self._recorded(sizes_of(extents, self.pairs, self.step, self.rules))

    @property
    def independent_after(self) -> str | None:
        """The time after which pieces were declared independent, as text, if there are any."""
        after = self.rules.independent_after
        return in_words(after, self.rules.of_time) if self.segmented and after is not None else None

    def _recorded(self, table: Table) -> Table:
        """The table with the facts recorded about all subjects."""
        return replace(table, independent_after=self.independent_after)


def measure(batches: Iterator[Any], *, reading: SplitReading) -> Iterator[Any]:
    """For each length of a longest segment: subjects, segments, rows, and whether clocks hold."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    for lines in unpacked(batches):
        table = reading.sizes(lines)
        if table is None:
            continue
        longest, place = np.unique(table.longest, return_inverse=True)
        segments = np.diff(table._starts[2])
        new = np.ones(len(table.owner), dtype=bool)
        new[1:] = (np.diff(table.owner) != 0) | (np.diff(table.window) != 0)
        rows = np.bincount(table.owner[new], minlength=len(table.subjects))
        crowded = reading.rules.every is None and reading.step is not None and table.every is None
        columns = {
            "longest": longest,
            "subjects": np.bincount(place),
            "segments": np.bincount(place, weights=segments).astype(np.int64),
            "rows": np.bincount(place, weights=rows).astype(np.int64),
            "crowded": np.full(len(longest), crowded),
        }
        yield pa.RecordBatch.from_pydict({name: pa.array(own) for name, own in columns.items()})


MEASURES = "longest long, subjects long, segments long, rows long, crowded boolean"


def without_counts(batches: Iterator[Any], *, rules: Rules) -> Iterator[Any]:
    """Packs with public facts only."""
    for lines in unpacked(batches):
        yield _pack(PIECES, extents_of(lines, rules))


def worked(
    batches: Iterator[Any],
    *,
    reading: SplitReading,
    work: Callable[[Iterator[Table]], Iterator[Any]],
) -> Iterator[Any]:
    """The columns that ``work`` returns for the tables of a partition."""
    import pyarrow as pa  # noqa: PLC0415

    tables = (reading.table(lines) for lines in unpacked(batches))
    for columns in work(table for table in tables if table is not None):
        yield pa.RecordBatch.from_pydict(dict(columns))


def handed_on(batches: Iterator[Any]) -> Iterator[Any]:
    """The rows in packs that the driver made."""
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        for payload in batch.column("payload"):
            with pa.ipc.open_stream(payload.as_py()) as stream:
                yield from stream


def in_pack(columns: Mapping[str, Any]) -> bytes:
    """Columns as a pack of rows, for `handed_on`."""
    import pyarrow as pa  # noqa: PLC0415

    table, buffer = pa.table(dict(columns)), io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table)
    return buffer.getvalue()


def opened(payload: bytes) -> pl.DataFrame:
    """The frame of a pack."""
    os.environ.setdefault(_ONE_THREAD, "1")
    import polars as pl  # noqa: PLC0415

    return pl.read_ipc(io.BytesIO(payload))


def unpacked(batches: Iterator[Any]) -> Iterator[pl.DataFrame]:
    """The frames of packs."""
    for batch in batches:
        for payload in batch.column("payload"):
            yield opened(payload.as_py())


def _frames(batches: Iterator[Any], most: int) -> Iterator[pl.DataFrame]:
    """Arrow batches as larger frames. Workers share a machine, so each has one thread."""
    os.environ.setdefault(_ONE_THREAD, "1")
    import polars as pl  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    held, rows = list[Any](), 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= most:
            yield pl.DataFrame(pa.Table.from_batches(held))
            held, rows = [], 0
    if rows:
        yield pl.DataFrame(pa.Table.from_batches(held))


def _merged(lines: list[pl.DataFrame], rules: Rules) -> pl.DataFrame:
    """Pieces that lay in several batches, as one."""
    import polars as pl  # noqa: PLC0415

    keys = [SUBJECT, SEGMENT, STATE, *([WINDOW] if rules.windows is not None else [])]
    together = pl.concat(lines, how="vertical_relaxed")
    sums = [pl.col("n").cast(pl.Int64).sum(), pl.col(count.FIRST).min()]
    return together.group_by(keys, maintain_order=True).agg(
        *sums, pl.col(LOW).min(), pl.col(HIGH).max()
    )


def _ends(pieces: pl.DataFrame) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415

    return pieces.select(pl.col(LOW).min(), pl.col(HIGH).max())


def _ends_of(ends: list[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415

    return _ends(pl.concat(ends, how="vertical_relaxed"))


def _packs(kind: str, frame: pl.DataFrame) -> Iterator[Any]:
    """A pack, if the frame has rows."""
    if frame.height:
        yield _pack(kind, frame)


def _pack(kind: str, frame: pl.DataFrame) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="lz4")
    return pa.RecordBatch.from_pydict({"kind": [kind], "payload": [buffer.getvalue()]})


def _not_declared(cells: Any) -> ValueError:
    return ValueError(f"state: {cells} are not declared")
