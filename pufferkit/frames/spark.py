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
from pufferkit.frames.aggregate import BEFORE, BREAK, FIRST, SEGMENT, STATE, SUBJECT, WINDOW, Rules
from pufferkit.frames.assemble import plain_times
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
        pairs = aggregate.in_polars(aggregate.pair_counts(linked).collect())
        if self.rules.every is not None:
            step = aggregate.smallest_step(self._entries, ordered=False).collect()
            low = aggregate.in_polars(step).item()
            if low is not None and low <= 0:
                raise self.source.duplicates(self._entries)
        self.source.refuse_rows(pairs, self._entries)
        self._cells.extend(pairs[STATE].drop_nulls().unique().to_list())
        inside = pairs.filter(~pairs[BREAK]).select(BEFORE, STATE, "n")
        self._moves.extend(inside.iter_rows())
        counted = aggregate.piece_counts(linked, self.rules).to_native()
        return counted.filter(counted[STATE].isNotNull()).persist()

    @cached_property
    def _cells(self) -> list[Any]:
        return []

    @cached_property
    def _moves(self) -> list[tuple[Any, Any, int]]:
        return []

    def transitions(self, states: Sequence[Hashable]) -> Counts:
        """How often each of these states is followed by each; all states that occur are known."""
        self._pieces  # noqa: B018 - counts, and with them the moves
        place = {state: number for number, state in enumerate(states)}
        labels = zip(self._cells, self._labels(states), strict=True)
        code = {cell: place[label] for cell, label in labels}
        found = np.zeros((len(states), len(states)), dtype=np.int64)
        for one, other, number in self._moves:
            found[code[one], code[other]] += int(number)
        return found

    def sizes(self) -> Table:
        """Subjects, segments and windows with their numbers of entries, on the driver.

        It is a table over one state, ``"entry"``: what is public, without any counts of states.
        """
        from pyspark.sql import functions  # noqa: PLC0415

        keys = [SUBJECT, SEGMENT] + ([WINDOW] if self.windows is not None else [])
        sums = functions.sum("n").alias("n"), functions.min(FIRST).alias(FIRST)
        rows = self._pieces.groupBy(*keys).agg(*sums).toArrow()
        return _sizes(rows, self.windows)

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

        pieces = self._pieces
        segments = pieces.groupBy(SUBJECT, SEGMENT).agg(f.sum("n").alias("n"))
        longest = segments.groupBy(SUBJECT).agg(f.max("n").alias(LONGEST))
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


def _sizes(rows: Any, windows: Windows | None) -> Table:
    import polars as pl  # noqa: PLC0415

    frame = pl.DataFrame(rows)
    sources.refuse_nobody(frame)
    window = [WINDOW] if windows is not None else []
    frame = frame.sort(SUBJECT, SEGMENT, *window)
    if frame.height == 0:
        raise ValueError("table: no row has a state; there is nothing to release")
    change = (frame[SUBJECT] != frame[SUBJECT].shift(1)).fill_null(True)
    size = frame.height
    begins = frame.group_by(SUBJECT, maintain_order=True).agg(pl.col(FIRST).min())
    return Table(
        subjects=tuple(frame.filter(change)[SUBJECT].to_list()),
        states=("entry",),
        owner=change.cast(pl.Int64).cum_sum().to_numpy() - 1,
        segment=frame[SEGMENT].cast(pl.Int64).to_numpy(),
        window=frame[WINDOW].to_numpy() if window else np.zeros(size, dtype=np.int64),
        pieces=frame["n"].cast(pl.Int64).to_numpy()[:, None],
        transitions=np.zeros((1, 1), dtype=np.int64),
        windows=windows,
        begins=plain_times(begins[FIRST].to_list()),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
