"""A table that stays on a Spark cluster: sorted, linked and counted there.

Spark sorts the rows of each partition by subject and time; its Python workers link and count them
in one pass (`spark_workers`) and keep the counts in packs of whole subjects. Packs come to the
driver one after another, so that it holds a few thousand subjects, however many there are.

Spark works lazily and computes lost partitions again, so a DataFrame with noise in its plan could
draw twice for one release. Noise that no ledger keeps is therefore drawn only by
`CountedTable.write`, a job that writes files: Spark commits the output of one attempt of each
task, and what is read afterwards are those files.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.cluster import spark_workers as workers
from pufferkit.cluster.spark_storage import job
from pufferkit.cluster.spark_workers import ENTRIES, FACTS, PACKS, PAIRS, PIECES, SplitReading
from pufferkit.data import count, sources
from pufferkit.data.assemble import (
    HIGHEST,
    LOWEST,
    assembled,
    clock_step,
    moves,
    state_labels,
)
from pufferkit.data.count import HIGH, LOW, STATE, SUBJECT, TIME, WINDOW, Rules
from pufferkit.data.durations import SECOND
from pufferkit.data.spark_source import moment, quoted
from pufferkit.data.table import Counts, Table, Windows

if TYPE_CHECKING:
    import polars as pl


NUMBER, SCALE = "_entries", "_scale"

_JOINS = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"

_AT_A_TIME = 8
"""Parts in which small numbers of all partitions come to the driver."""

TableWork = Callable[[Iterator[Table]], Iterator[Mapping[str, Any]]]
"""Columns made from the tables of a partition; runs in an executor."""


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """A table on a cluster, whose rows are linked and cut there; see `read`."""

    source: sources.Source
    rules: Rules
    """The source of the rows, and how they become entries."""
    states: tuple[Hashable, ...] | None
    """All states that can occur; ``None`` if they were not declared."""
    groups: Mapping[str, Mapping[Hashable, Hashable]] = field(default_factory=dict)
    """By their column, the groups of the subjects."""

    @property
    def windows(self) -> Windows | None:
        """How windows are cut."""
        return self.rules.windows

    def collect(self) -> Table:
        """The aggregates of all subjects, collected on the driver."""
        with self.counted() as counted:
            pieces = list(counted.packs(counted.kept))
            made = assembled(pieces, counted.pairs, self.rules, self.states, counted.unknown)
        return replace(made, groups=self.groups)

    @contextmanager
    def counted(self, *, single: bool = False) -> Iterator[CountedTable]:
        """The table counted on the cluster, which caches the counts until the block ends.

        With ``single`` it caches the single entries too.

        Spark reuses cached rows for every equal plan, also for one over a folder that has received
        new files since. So they are cached under a unique mark, and released afterwards.
        """
        from pyspark.sql import functions as f  # noqa: PLC0415

        entries = count.entries(self.source.frame, self.rules)
        rows = entries.to_native().repartition(SUBJECT).sortWithinPartitions(SUBJECT, TIME)
        packs = rows.mapInArrow(
            partial(workers.count_rows, rules=self.rules, entries=single), PACKS
        )
        packs = _kept(packs.withColumn("_mark", f.lit(uuid.uuid4().hex)))
        try:
            with job("counting"):
                packs.count()
            pairs, facts = self._moves_and_facts(packs)
            if facts["nobody"]:
                raise ValueError(f"table: {facts['nobody']} rows have no subject")
            if pairs is None:
                raise ValueError("table: has no rows")
            if facts["smallest"] is not None and facts["smallest"] <= 0:
                raise self.source.duplicates(entries)
            self.source.refuse_rows(pairs, entries)
            pieces, rows = (packs.where(f.col("kind") == kind) for kind in (PIECES, ENTRIES))
            answers = rows if single else pieces
            yield CountedTable(self, entries, pieces, answers, pairs, facts)
        finally:
            packs.unpersist()

    def _moves_and_facts(self, packs: Any) -> tuple[pl.DataFrame | None, dict[str, Any]]:
        """Transitions of all partitions together, and other facts about them."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        pairs: pl.DataFrame | None = None
        facts: dict[str, Any] = {"nobody": 0, "smallest": None, LOW: None, HIGH: None}
        with job("counting"):
            for row in (
                packs.where(f.col("kind").isin(PAIRS, FACTS)).coalesce(_AT_A_TIME).toLocalIterator()
            ):
                frame = workers.opened(bytes(row["payload"]))
                if row["kind"] == PAIRS:
                    parts = [frame] if pairs is None else [pairs, frame]
                    pairs = count.merged_pairs(parts)
                    continue
                assert row["kind"] == FACTS
                own = frame.row(0, named=True)
                facts["nobody"] += own["nobody"]
                for name, choose in (("smallest", min), (LOW, min), (HIGH, max)):
                    both = [x for x in (facts[name], own.get(name)) if x is not None]
                    facts[name] = choose(both) if both else None
        return pairs, facts

    @property
    def session(self) -> Any:
        """The Spark session that the rows belong to."""
        return self.source.frame.to_native().sparkSession


def _kept(frame: Any) -> Any:
    """The frame, to be cached; small partitions are merged, where Spark adapts plans.

    Spark does not do so by itself for cached frames, and a task takes some 30 ms even for a handful
    of rows.
    """
    settings = frame.sparkSession.conf
    before = settings.get(_JOINS, None)
    settings.set(_JOINS, "true")
    try:
        return frame.persist()
    finally:
        if before is None:
            settings.unset(_JOINS)
        else:
            settings.set(_JOINS, before)


@dataclass(frozen=True, eq=False)
class LongestSegments:
    """The public facts about all subjects together."""

    longest: Counts
    """Lengths of longest segments that occur, each once."""
    subjects: int
    segments: int
    rows: int
    """Numbers of subjects, of segments, and of pairs of a subject and a window."""


@dataclass(frozen=True)
class Columns:
    """The columns of released rows: the labels of the answer, windows, and a note in every row."""

    labels: tuple[str, ...]
    windowed: bool
    note: str | None = None


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A `ClusterTable` while the cluster caches its counts."""

    table: ClusterTable
    entries: Any
    """The table, and its rows as entries."""
    kept: Any
    """The packs of counts, a native frame."""
    answering: Any
    """The packs that answer the question: the same, or those of single entries."""
    pairs: pl.DataFrame
    """Which cell follows which after which step, and how often."""
    facts: Mapping[str, Any]
    """Lowest and highest place of all."""

    @cached_property
    def cells(self) -> tuple[Any, ...]:
        """The states that occur, as written in the table."""
        return tuple(self.pairs[STATE].drop_nulls().unique().to_list())

    @cached_property
    def _measured(self) -> tuple[SplitReading, LongestSegments]:
        """How packs are read, and the public facts about all of them."""
        import polars as pl  # noqa: PLC0415
        from pyspark.sql import functions as f  # noqa: PLC0415

        rules, sums = self.table.rules, ("subjects", "segments", "rows")
        ends = pl.DataFrame({LOWEST: [self.facts[LOW]], HIGHEST: [self.facts[HIGH]]})
        reading = SplitReading(rules, self.pairs, clock_step(self.pairs, ends, rules))
        while True:
            each = self.kept.mapInArrow(partial(workers.measure, reading=reading), workers.MEASURES)
            with job("counting"):
                added = (f.sum(name).alias(name) for name in sums)
                lines = each.groupBy("longest").agg(*added, f.max("crowded").alias("no")).collect()
            if not any(line["no"] for line in lines):
                break
            # Rounding moved two rows of some subject to one place; then there is no clock.
            reading = replace(reading, step=None)
        if not lines:
            raise ValueError("table: no row has a state; there is nothing to release")
        totals = [sum(int(line[name]) for line in lines) for name in sums]
        longest = np.array(sorted(int(line["longest"]) for line in lines))
        lengths = LongestSegments(longest, *totals)
        return replace(reading, segmented=lengths.segments > lengths.subjects), lengths

    @property
    def lengths(self) -> LongestSegments:
        """What is public of all subjects together."""
        return self._measured[1]

    @property
    def step(self) -> float | None:
        """Seconds from one entry to the next; ``None`` without even times that are timestamps."""
        rules = self.table.rules
        every = self._measured[0].step if rules.every is None else rules.every
        return every / SECOND if rules.of_time and every is not None else None

    @property
    def uneven(self) -> bool:
        """Whether there are timestamps of neighbours, and no even step."""
        return self.table.rules.of_time and self.step is None and self.lengths.longest.max() > 1

    def reading(self, states: Sequence[Hashable]) -> SplitReading:
        """How packs are read, by these states."""
        known = tuple(states) if self.table.rules.bins is None else self.table.states
        return replace(self._measured[0], known=known)

    def transitions(self, states: Sequence[Hashable]) -> Counts:
        """How often each of these states is followed by each; all states that occur are known."""
        place = {state: number for number, state in enumerate(states)}
        labels = zip(self.cells, self._labels(states), strict=True)
        code = {cell: place[label] for cell, label in labels}
        counts = np.zeros((len(states), len(states)), dtype=np.int64)
        for one, other, number in moves(self.pairs, self._measured[0].step):
            counts[code[one], code[other]] += number
        return counts

    def refuse_unknown(self, states: Sequence[Hashable]) -> None:
        """Raise if rows have other states than these, before anything is charged."""
        known = set(states)
        labelled = zip(self.cells, self._labels(states), strict=True)
        strange = [cell for cell, label in labelled if label not in known]
        if strange:
            raise self.unknown(strange)

    def unknown(self, cells: Sequence[Any]) -> ValueError:
        """The error for rows with these states."""
        return self.table.source.unknown(self.entries, cells)

    # -- subjects, a few thousand at a time --------------------------------------------------------

    def tables(self, states: Sequence[Hashable]) -> Iterator[Table]:
        """All subjects with their counts, one table after another, on the driver."""
        reading = self.reading(states)
        return filter(None, map(reading.table, self._together(self.answering)))

    def sizes(self) -> Iterator[Table]:
        """The same without counts of states, which stay on the cluster."""
        strip = partial(workers.without_counts, rules=self.table.rules)
        reading = self._measured[0]
        return filter(None, map(reading.sizes, self._together(self.kept.mapInArrow(strip, PACKS))))

    def packs(self, kept: Any) -> Iterator[pl.DataFrame]:
        """The frames of packs, one partition after another."""
        with job("counting"):
            for row in kept.select("payload").toLocalIterator(prefetchPartitions=True):
                yield workers.opened(bytes(row["payload"]))

    def _together(self, kept: Any) -> Iterator[pl.DataFrame]:
        """Small packs as larger ones: a partition may hold a few subjects only."""
        import polars as pl  # noqa: PLC0415

        held, lines = list[pl.DataFrame](), 0
        for pack in self.packs(kept):
            held.append(pack)
            lines += pack.height
            if lines >= workers.LINES_OF_A_PACK:
                yield pl.concat(held, how="vertical_relaxed")
                held, lines = [], 0
        if held:
            yield pl.concat(held, how="vertical_relaxed")

    # -- work in the executors ---------------------------------------------------------------------

    def worked(self, states: Sequence[Hashable], work: TableWork, schema: str) -> Any:
        """What ``work`` makes of all subjects in the executors, a native frame."""
        make = partial(workers.worked, reading=self.reading(states), work=work)
        return self.answering.mapInArrow(make, schema)

    def write(self, path: str, states: Sequence[Hashable], work: TableWork, out: Columns) -> None:
        """Files of rows that the executors compute, noise included."""
        made = self.worked(states, work, self._schema(out))
        self._named(made, out).write.mode("errorifexists").parquet(path)

    def write_rows(self, path: str, rows: Mapping[str, Any], out: Columns) -> None:
        """Files of rows that the driver holds."""
        pack = workers.in_pack(rows)
        frame = self.table.session.createDataFrame([(bytearray(pack),)], "payload binary")
        made = frame.mapInArrow(workers.handed_on, self._schema(out))
        self._named(made, out).write.mode("errorifexists").parquet(path)

    @property
    def subject_kind(self) -> Any:
        """Arrow's kind of the column of subjects."""
        from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415

        return to_arrow_type(self.entries.to_native().schema[SUBJECT].dataType)

    def _schema(self, out: Columns) -> str:
        """Columns of the rows: subject, window, entries, scale and the numbers of the answer."""
        kind = self.entries.to_native().schema[SUBJECT].dataType.simpleString()
        window = f"{quoted(WINDOW)} long, " if out.windowed else ""
        numbers = ", ".join(f"`_{n}` double" for n in range(len(out.labels)))
        return f"{quoted(SUBJECT)} {kind}, {window}`{NUMBER}` long, `{SCALE}` double, {numbers}"

    def _named(self, made: Any, columns: Columns) -> Any:
        """Rows under the public names of the columns."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        out = [f.col(SUBJECT).alias("subject")]
        if columns.windowed:
            out.append(self._start().alias("window_start"))
        out += [f.col(NUMBER).alias("entries"), f.col(SCALE).alias("scale")]
        taken = {"subject", "window_start", "entries", "scale"}
        if columns.note is not None:
            out.append(f.lit(columns.note).alias("note"))
            taken.add("note")
        prefix = "state " if taken & set(columns.labels) else ""
        out += [f.col(f"_{n}").alias(prefix + name) for n, name in enumerate(columns.labels)]
        return made.select(*out)

    def _start(self) -> Any:
        """The start of each row's window, as a time of the table's type."""
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
