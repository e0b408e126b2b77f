"""Rows in polars batches, each subject in time order: what one batch passes to the next.

The last row of a subject is carried into the batch that continues it, so that neighbours are linked
and segments numbered as if there were one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferkit.frames import aggregate
from pufferkit.frames.aggregate import BASE, FRESH, SEGMENT, SUBJECT, TIME, Rules

if TYPE_CHECKING:
    import polars as pl


def lazy(frame: pl.DataFrame) -> Any:
    """A frame for narwhals, evaluated as a whole."""
    import narwhals as nw  # noqa: PLC0415

    return nw.from_native(frame.lazy())


def collected(result: Any) -> pl.DataFrame:
    """The collected result of `lazy`."""
    rows: pl.DataFrame = result.to_native().collect()
    return rows


def linked(frame: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """`aggregate.linked` of rows in order."""
    import narwhals as nw  # noqa: PLC0415

    rows: pl.DataFrame = aggregate.linked(nw.from_native(frame), rules, ordered=True).to_native()
    return rows


def smallest(frame: pl.DataFrame) -> Any:
    """`aggregate.smallest_step` of rows in order; ``None`` if no subject has two rows."""
    import narwhals as nw  # noqa: PLC0415

    return aggregate.smallest_step(nw.from_native(frame), ordered=True).to_native().item()


def with_carry(frame: pl.DataFrame, carry: pl.DataFrame | None) -> pl.DataFrame:
    """The rows of this batch, preceded by the last earlier row of each subject."""
    import polars as pl  # noqa: PLC0415

    if carry is None:
        return frame
    seen = carry.join(frame.select(pl.col(SUBJECT).unique()), on=SUBJECT, how="semi")
    fresh = frame.with_columns(pl.lit(1, pl.Int64).alias(FRESH), pl.lit(0, pl.Int64).alias(BASE))
    return pl.concat([seen.select(fresh.columns), fresh], how="vertical_relaxed")


def numbered(
    pieces: pl.DataFrame, linked: pl.DataFrame, frame: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Segments numbered on from the previous batch, and the last row of each subject."""
    import polars as pl  # noqa: PLC0415

    if BASE not in pieces.columns:
        pieces = pieces.with_columns(pl.lit(0, pl.Int64).alias(BASE))
    starts = pieces.group_by(SUBJECT).agg(
        (pl.col(BASE).max() - pl.col(SEGMENT).min()).alias("_shift")
    )
    shifted = (pl.col(SEGMENT) + pl.col("_shift")).alias(SEGMENT)
    pieces = pieces.join(starts, on=SUBJECT).with_columns(shifted).drop("_shift")
    ends = linked.group_by(SUBJECT, maintain_order=True).last().drop(TIME)
    ends = ends.join(starts, on=SUBJECT).with_columns(
        (pl.col(SEGMENT) + pl.col("_shift")).alias(BASE), pl.lit(0, pl.Int64).alias(FRESH)
    )
    latest = frame.group_by(SUBJECT, maintain_order=True).agg(pl.col(TIME).last())
    ends = ends.join(latest, on=SUBJECT)
    names = [name for name in frame.columns if name not in (BASE, FRESH)]
    return pieces.filter(pl.col("n") > 0), ends.select(*names, FRESH, BASE)
