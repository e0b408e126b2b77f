"""A table that stays on a Spark cluster until noise has been added.

Spark works lazily and computes lost partitions again, so a DataFrame with noise in its plan could
draw twice for one release. Noise is therefore drawn only by `CountedTable.write_noisy`, a job that
writes files: Spark commits the output of one attempt of each task, and what is read afterwards are
those files.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit import noise
from pufferkit.checks import Floats
from pufferkit.data.table import Counts, Table, Windows
from pufferkit.frames import aggregate, sources
from pufferkit.frames.aggregate import FIRST, HIGH, LOW, SEGMENT, STATE, SUBJECT, WINDOW, Rules
from pufferkit.frames.assemble import (
    HIGHEST,
    LOWEST,
    ROWS,
    Layout,
    clock_step,
    laid_out,
    moves,
    steps_between,
)
from pufferkit.frames.files import state_labels
from pufferkit.frames.spark_source import moment, quoted
from pufferkit.frames.unordered import table_of_sql

if TYPE_CHECKING:
    import polars as pl

ENTRIES, SCALE = "_entries", "_wanted"

RowKeys = Sequence[tuple[Hashable, int]]
"""Rows of a release by subject and window, 0 where there are no windows."""


@dataclass(frozen=True)
class RowNoise:
    """What the executors need to know to draw."""

    shares: bool
    """Whether to divide by the number of entries, which is public, afterwards."""

    def draw(self, counts: Counts, wanted: Floats, entries: Counts) -> tuple[Floats, Floats]:
        """Noise of the wanted scales on the rows of one batch; runs in an executor."""
        values = noise.discrete_laplace_rows(counts, wanted[:, None]).astype(np.float64)
        return noise.as_shares(values, wanted, entries) if self.shares else (values, wanted)


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Rows on a cluster, linked and cut there; see `read_table`."""

    source: sources.Source
    rules: Rules
    """Where the rows are and how they become entries."""
    states: tuple[Hashable, ...] | None
    """All states that can occur; ``None`` if they were not declared."""

    @property
    def windows(self) -> Windows | None:
        """How windows are cut."""
        return self.rules.windows

    def collect(self) -> Table:
        """The aggregates of all subjects, brought to the driver."""
        return table_of_sql(self.source, self.rules, self.states)

    @contextmanager
    def counted(self) -> Iterator[CountedTable]:
        """The table counted on the cluster, which keeps the counts until the block is left.

        Spark hands kept rows to every plan like the one that made them, also to one over a folder
        that has got new files since. So they are kept under a mark of their own, and let go.
        """
        from pyspark.sql import functions as f  # noqa: PLC0415

        entries = aggregate.entries(self.source.frame, self.rules)
        linked = aggregate.linked(entries, self.rules, ordered=False)
        pairs = aggregate.collected_pairs(linked)
        if self.rules.every is not None:
            step = aggregate.smallest_step(entries, ordered=False).collect()
            low = aggregate.in_polars(step).item()
            if low is not None and low <= 0:
                raise self.source.duplicates(entries)
        self.source.refuse_rows(pairs, entries)
        pieces = aggregate.piece_counts(linked, self.rules).to_native()
        pieces = pieces.withColumn("_mark", f.lit(uuid.uuid4().hex)).persist()
        try:
            yield CountedTable(
                table=self,
                entries=entries,
                pieces=pieces,
                cells=tuple(pairs[STATE].drop_nulls().unique().to_list()),
                pairs=pairs,
            )
        finally:
            pieces.unpersist()

    @property
    def session(self) -> Any:
        """The Spark session that the rows belong to."""
        return self.source.frame.to_native().sparkSession


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A `ClusterTable` while the cluster keeps its counts."""

    table: ClusterTable
    entries: Any
    """The table, and its rows as entries."""
    pieces: Any
    """Counts of each state in each piece, a native frame; rows without a state have their own."""
    cells: tuple[Any, ...]
    """The states that occur, as they stand in the table."""
    pairs: pl.DataFrame
    """Which cell follows which after which step, and how often."""

    @cached_property
    def _layout(self) -> Layout:
        """Where the pieces lie, on the driver: public numbers, without any counts of states."""
        import polars as pl  # noqa: PLC0415
        from pyspark.sql import functions as f  # noqa: PLC0415

        keys = [SUBJECT, SEGMENT, *self._keys[1:]]
        seen = f.col(STATE).isNotNull()
        rows = self.pieces.groupBy(*keys).agg(
            f.sum(f.when(seen, f.col("n")).otherwise(0)).cast("long").alias("n"),
            f.sum("n").cast("long").alias(ROWS),
            f.min(FIRST).alias(FIRST),
            f.min(f.when(seen, f.col(LOW))).alias(LOW),
            f.max(f.when(seen, f.col(HIGH))).alias(HIGH),
            f.min(LOW).alias(LOWEST),
            f.max(HIGH).alias(HIGHEST),
        )
        extents = pl.DataFrame(rows.toArrow())
        sources.refuse_nobody(extents)
        rules = self.table.rules
        return laid_out(extents, keys, clock_step(self.pairs, extents, rules), rules)

    def transitions(self, states: Sequence[Hashable]) -> Counts:
        """How often each of these states is followed by each; all states that occur are known."""
        place = {state: number for number, state in enumerate(states)}
        labels = zip(self.cells, self._labels(states), strict=True)
        code = {cell: place[label] for cell, label in labels}
        counts = np.zeros((len(states), len(states)), dtype=np.int64)
        for one, other, number in moves(self.pairs, self._layout.step):
            counts[code[one], code[other]] += number
        return counts

    def sizes(self) -> Table:
        """Subjects, segments and windows with their numbers of entries, on the driver.

        It is a table over one state, ``"entry"``: what is public, without any counts of states.
        """
        layout = self._layout
        entries = layout.pieces["n"].to_numpy()[:, None]
        nothing = np.zeros((1, 1), dtype=np.int64)
        return layout.table(("entry",), entries, nothing, steps_between(self.pairs))

    def refuse_unknown(self, states: Sequence[Hashable]) -> None:
        """Rows with other states than these are an error, before anything is charged."""
        known = set(states)
        labelled = zip(self.cells, self._labels(states), strict=True)
        strange = [cell for cell, label in labelled if label not in known]
        if strange:
            raise self.table.source.unknown(self.entries, strange)

    def write_noisy(
        self,
        path: str,
        states: Sequence[Hashable],
        by: RowNoise,
        rows: RowKeys,
        scales: Floats,
        note: str | None = None,
    ) -> None:
        """Draw noise in the executors and write these rows to ``path``.

        Each row has the scale that the driver charged for. A note becomes a column of its own.
        """
        from pyspark.sql import functions as f  # noqa: PLC0415

        keys = self._keys
        sums = []
        for number, state in enumerate(states):
            labels = zip(self.cells, self._labels(states), strict=True)
            cells = [cell for cell, label in labels if label == state]
            counted = f.when(f.col(STATE).isin(cells), f.col("n")).otherwise(f.lit(0))
            sums.append(f.sum(counted if cells else f.lit(0)).cast("long").alias(f"_{number}"))
        pieces = self.pieces.filter(f.col(STATE).isNotNull())
        counts = pieces.groupBy(*keys).agg(f.sum("n").cast("long").alias(ENTRIES), *sums)
        counts = counts.join(self._frame(rows, scales), keys)
        schema = counts.select(*keys, ENTRIES).schema
        named = ", ".join(
            f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema
        )
        numbers = ", ".join(f"`_{n}` double" for n in range(len(states)))
        noisy = counts.mapInArrow(
            partial(_draw_batches, by=by, keys=keys, size=len(states)),
            f"{named}, `_scale` double, {numbers}",
        )
        out = [f.col(SUBJECT).alias("subject")]
        if self.table.windows is not None:
            out.append(self._start().alias("window_start"))
        out += [f.col(ENTRIES).alias("entries"), f.col("_scale").alias("scale")]
        taken = {"subject", "window_start", "entries", "scale"}
        if note is not None:
            out.append(f.lit(note).alias("note"))
            taken.add("note")
        names = [str(state) for state in states]
        prefix = "state " if taken & set(names) else ""
        out += [f.col(f"_{n}").alias(prefix + name) for n, name in enumerate(names)]
        noisy.select(*out).write.mode("errorifexists").parquet(path)

    def only(self, written: Any, rows: RowKeys) -> Any:
        """These rows of a frame that `write_noisy` wrote."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        keys = [f.col(SUBJECT).alias("subject")]
        if self.table.windows is not None:
            keys.append(self._start().alias("window_start"))
        wanted = self._frame(rows).select(*keys)
        return written.join(wanted, wanted.columns, "left_semi")

    @property
    def _keys(self) -> list[str]:
        return [SUBJECT] + ([WINDOW] if self.table.windows is not None else [])

    def _frame(self, rows: RowKeys, scales: Floats | None = None) -> Any:
        """Rows, by subject and window, as a frame on the cluster; with their scales."""
        import pyarrow as pa  # noqa: PLC0415
        from pyspark.sql import types as t  # noqa: PLC0415

        schema = t.StructType(self.pieces.select(*self._keys).schema.fields)
        columns = dict(zip(self._keys, zip(*rows, strict=True), strict=False))
        if scales is not None:
            schema = schema.add(SCALE, t.DoubleType())
            columns[SCALE] = scales.tolist()
        arrays = {name: pa.array(cells) for name, cells in columns.items()}
        return self.table.session.createDataFrame(pa.table(arrays), schema)

    def _start(self) -> Any:
        """When the window of a row starts, a time of the kind that the table has."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        windows = self.table.windows
        assert windows is not None
        start = f.col(WINDOW) * f.lit(windows.width) + f.lit(windows.origin)
        return moment(start, zoned=self.table.source.zoned) if windows.of_time else start

    def _labels(self, states: Sequence[Hashable]) -> list[Hashable]:
        if self.table.rules.bins is not None:
            names = tuple(states) if self.table.states is None else self.table.states
            return [names[cell] for cell in self.cells]
        return state_labels(self.cells, tuple(states))


def _draw_batches(batches: Iterator[Any], *, by: RowNoise, keys: list[str], size: int) -> Any:
    """Runs in an executor: counts in, noisy numbers out."""
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        if batch.num_rows == 0:
            continue
        counts = np.column_stack([batch.column(f"_{n}").to_numpy() for n in range(size)])
        entries = batch.column(ENTRIES).to_numpy()
        values, scales = by.draw(counts, batch.column(SCALE).to_numpy(), entries)
        columns = {key: batch.column(key) for key in [*keys, ENTRIES]}
        columns["_scale"] = pa.array(scales)
        columns |= {f"_{n}": pa.array(values[:, n]) for n in range(size)}
        yield pa.RecordBatch.from_pydict(columns)
