"""A table that stays on a Spark cluster until noise has been added.

Spark works lazily and computes lost partitions again, so a DataFrame with noise in its plan could
draw twice for one release. Noise is therefore drawn only by `ClusterTable.write_noisy`, a job that
writes files: Spark commits the output of one attempt of each task, and what is read afterwards are
those files.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

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
from pufferkit.rounding import round_up

LONGEST, ENTRIES = "_longest", "_entries"


@dataclass(frozen=True)
class Noise:
    """What the executors need to know to draw.

    Attributes
    ----------
    scales
        Scale that a subject needs, by the length of its longest segment.
    lipschitz, largest
        Of one row; see `noise.laplace_rows`.
    shares
        Whether to divide by the number of entries, which is public, afterwards.
    """

    scales: dict[int, float]
    lipschitz: float
    largest: float
    shares: bool

    def draw(self, counts: Counts, longest: Counts, entries: Counts) -> tuple[Floats, Floats]:
        """Safe noise on the rows of one batch; runs in an executor."""
        wanted = np.array([self.scales[int(n)] for n in longest])
        values, scales = noise.laplace_rows(counts, wanted, self.lipschitz, self.largest)
        if self.shares:
            values = values / entries[:, None]
            scales = np.array([round_up(s / n) for s, n in zip(scales, entries, strict=True)])
        return values, scales


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Rows on a cluster, linked and cut there; see `read_table`.

    Attributes
    ----------
    source, rules
        Where the rows are and how they become entries.
    states
        All states that can occur; ``None`` if they were not declared.
    """

    source: sources.Source
    rules: Rules
    states: tuple[Hashable, ...] | None

    @property
    def windows(self) -> Windows | None:
        """How windows are cut."""
        return self.rules.windows

    def collect(self) -> Table:
        """The aggregates of all subjects, brought to the driver."""
        from pufferkit.frames.tables import table_of_sql  # noqa: PLC0415

        return table_of_sql(self.source, self.rules, self.states)

    @cached_property
    def _entries(self) -> Any:
        return aggregate.entries(self.source.frame, self.rules)

    @cached_property
    def _pieces(self) -> Any:
        """Counts of each state in each piece, a native frame that the cluster keeps."""
        linked = aggregate.linked(self._entries, self.rules, ordered=False)
        pairs = aggregate.collected_pairs(linked)
        if self.rules.every is not None:
            step = aggregate.smallest_step(self._entries, ordered=False).collect()
            low = aggregate.in_polars(step).item()
            if low is not None and low <= 0:
                raise self.source.duplicates(self._entries)
        self.source.refuse_rows(pairs, self._entries)
        self._cells.extend(pairs[STATE].drop_nulls().unique().to_list())
        self._pairs.append(pairs)
        return aggregate.piece_counts(linked, self.rules).to_native().persist()

    @cached_property
    def _cells(self) -> list[Any]:
        return []

    @cached_property
    def _pairs(self) -> list[Any]:
        return []

    @cached_property
    def _layout(self) -> Layout:
        """Where the pieces lie, on the driver: public numbers, without any counts of states."""
        import polars as pl  # noqa: PLC0415
        from pyspark.sql import functions as f  # noqa: PLC0415

        keys = [SUBJECT, SEGMENT] + ([WINDOW] if self.windows is not None else [])
        seen = f.col(STATE).isNotNull()
        rows = self._pieces.groupBy(*keys).agg(
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
        return laid_out(extents, keys, clock_step(self._pairs[0], extents, self.rules), self.rules)

    def transitions(self, states: Sequence[Hashable]) -> Counts:
        """How often each of these states is followed by each; all states that occur are known."""
        step = self._layout.step
        place = {state: number for number, state in enumerate(states)}
        labels = zip(self._cells, self._labels(states), strict=True)
        code = {cell: place[label] for cell, label in labels}
        found = np.zeros((len(states), len(states)), dtype=np.int64)
        for one, other, number in moves(self._pairs[0], step):
            found[code[one], code[other]] += number
        return found

    def sizes(self) -> Table:
        """Subjects, segments and windows with their numbers of entries, on the driver.

        It is a table over one state, ``"entry"``: what is public, without any counts of states.
        """
        layout = self._layout
        entries = layout.pieces["n"].to_numpy()[:, None]
        nothing = np.zeros((1, 1), dtype=np.int64)
        return layout.table(("entry",), entries, nothing, steps_between(self._pairs[0]))

    def refuse_unknown(self, states: Sequence[Hashable]) -> None:
        """Rows with other states than these are an error, before anything is charged."""
        self._pieces  # noqa: B018 - counts, and with them the states that occur
        known = set(states)
        labelled = zip(self._cells, self._labels(states), strict=True)
        strange = [cell for cell, label in labelled if label not in known]
        if strange:
            raise self.source.unknown(self._entries, strange)

    def write_noisy(
        self,
        path: str,
        states: Sequence[Hashable],
        labels: Sequence[str],
        by: Noise,
        note: str | None = None,
    ) -> Any:
        """Draw noise in the executors, write the rows to ``path``, and give them as a frame.

        A note becomes a column of its own.
        """
        from pyspark.sql import functions as f  # noqa: PLC0415

        step = self._layout.step
        span = f.sum("n") if step is None else _steps(f.max(HIGH) - f.min(LOW), step) + 1
        # A segment without a single observed entry is none.
        segments = self._pieces.groupBy(SUBJECT, SEGMENT).agg(span.alias("n"), f.max(STATE))
        segments = segments.filter(f.col(f"max({STATE})").isNotNull())
        longest = segments.groupBy(SUBJECT).agg(f.max("n").cast("long").alias(LONGEST))
        pieces = self._pieces.filter(f.col(STATE).isNotNull())
        keys = [SUBJECT] + ([WINDOW] if self.windows is not None else [])
        sums = []
        for number, state in enumerate(states):
            cells = [
                c
                for c, label in zip(self._cells, self._labels(states), strict=True)
                if label == state
            ]
            counted = f.when(f.col(STATE).isin(cells), f.col("n")).otherwise(f.lit(0))
            sums.append(f.sum(counted if cells else f.lit(0)).cast("long").alias(f"_{number}"))
        rows = pieces.groupBy(*keys).agg(f.sum("n").cast("long").alias(ENTRIES), *sums)
        rows = rows.join(longest, SUBJECT)
        schema = rows.select(*keys, ENTRIES).schema
        named = ", ".join(
            f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in schema
        )
        numbers = ", ".join(f"`_{n}` double" for n in range(len(states)))
        noisy = rows.mapInArrow(
            partial(_draw_batches, by=by, keys=keys, size=len(states)),
            f"{named}, `_scale` double, {numbers}",
        )
        out = [f.col(SUBJECT).alias("subject")]
        if self.windows is not None:
            start = f.col(WINDOW) * f.lit(self.windows.width) + f.lit(self.windows.origin)
            start = f.timestamp_micros(start) if self.windows.of_time else start
            out.append(start.alias("window_start"))
        out += [f.col(ENTRIES).alias("entries"), f.col("_scale").alias("scale")]
        taken = {"subject", "window_start", "entries", "scale"}
        if note is not None:
            out.append(f.lit(note).alias("note"))
            taken.add("note")
        prefix = "state " if taken & set(labels) else ""
        out += [f.col(f"_{n}").alias(prefix + label) for n, label in enumerate(labels)]
        noisy.select(*out).write.mode("errorifexists").parquet(path)
        return self.read(path)

    def read(self, path: str) -> Any:
        """A frame that `write_noisy` wrote."""
        return self._session.read.parquet(path)

    def _labels(self, states: Sequence[Hashable]) -> list[Hashable]:
        if self.rules.bins is not None:
            names = tuple(states) if self.states is None else self.states
            return [names[cell] for cell in self._cells]
        return state_labels(self._cells, tuple(states))

    @property
    def _session(self) -> Any:
        return self.source.frame.to_native().sparkSession


def _draw_batches(batches: Iterator[Any], *, by: Noise, keys: list[str], size: int) -> Any:
    """Runs in an executor: counts in, noisy numbers out."""
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        if batch.num_rows == 0:
            continue
        counts = np.column_stack([batch.column(f"_{n}").to_numpy() for n in range(size)])
        entries = batch.column(ENTRIES).to_numpy()
        values, scales = by.draw(counts, batch.column(LONGEST).to_numpy(), entries)
        columns = {key: batch.column(key) for key in [*keys, ENTRIES]}
        columns["_scale"] = pa.array(scales)
        columns |= {f"_{n}": pa.array(values[:, n]) for n in range(size)}
        yield pa.RecordBatch.from_pydict(columns)


def _steps(distance: Any, step: int | float) -> Any:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.round(distance / f.lit(step))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
