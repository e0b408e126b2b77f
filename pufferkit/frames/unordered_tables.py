"""Tables in engines without an order of rows: duckdb and Spark."""

from __future__ import annotations

from collections.abc import Hashable

from pufferkit.data.table import Table
from pufferkit.frames import aggregate, table_sources
from pufferkit.frames.aggregate import Rules
from pufferkit.frames.table_assembly import assembled


def table_of_sql(
    source: table_sources.Source, rules: Rules, known: tuple[Hashable, ...] | None
) -> Table:
    """The aggregates of a table in an unordered engine."""
    frame = aggregate.entries(source.frame, rules)
    if rules.every is not None:
        low = aggregate.in_polars(aggregate.smallest_step(frame, ordered=False).collect())
        if low.item() is not None and low.item() <= 0:
            raise source.duplicates(frame)
    pieces, pairs = aggregate.collected(frame, rules)
    source.refuse_rows(pairs, frame)
    return assembled([pieces], pairs, rules, known, lambda bad: source.unknown(frame, bad))
