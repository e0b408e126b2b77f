"""Rows become entries, neighbours are linked, gaps detected, and only counts are returned.

A segment ends where pieces were declared independent, and nowhere else. A row without a state is an
entry that was not observed. How many entries a gap contains is computed afterwards, from the clock
that the steps between rows make (`assemble`): missing rows are never materialised.

What a row is (`entries`) is written for narwhals and runs in the engine that has the rows. They are
linked in one way, in polars: subject by subject in time order a neighbour is the previous row. Rows
in memory are sorted, those of duckdb come sorted batch by batch, and an executor of Spark has its
subjects together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferkit.data.bins import Bins
from pufferkit.data.table import Windows

if TYPE_CHECKING:
    import polars as pl

SUBJECT, TIME, STATE, SLOT, WINDOW = "_subject", "_time", "_state", "_slot", "_window"
END, MOMENT = "_end", "_moment"
SEGMENT, FRESH, BASE, BREAK, STEP = "_segment", "_fresh", "_base", "_break", "_step"
BEFORE, FIRST, LOW, HIGH, TICKS = "_before", "_first", "_low", "_high", "_ticks"
WALL = "_wall"

MOST_STEPS = 200_000
"""More distinct transitions and time steps than this do not come from a clock."""


@dataclass(frozen=True)
class Rules:
    """How rows become entries; durations are in the units of the time column."""

    independent_after: int | float | None = None
    every: int | float | None = None
    origin: int | float = 0
    windows: Windows | None = None
    bins: Bins | None = None
    of_time: bool = False
    read_as: tuple[str, ...] = ()
    timezone: str | None = None
    name: str = "table"
    nearest: bool = False
    """Whether a reading belongs to the nearest slot, and not to the last one before it."""


def entries(frame: Any, rules: Rules) -> Any:
    """Subject, time, state, slot and window of every row.

    ``frame`` has the three columns under their inner names; times are numbers by now.
    """
    import narwhals as nw  # noqa: PLC0415

    kinds = frame.collect_schema()
    state = unchanged = nw.col(STATE)
    if rules.bins is not None:
        number = state.cast(nw.Float64)
        reached = [(number >= cut).cast(nw.Int32) for cut in rules.bins.cuts]
        level = reached[0]
        for one in reached[1:]:
            level = level + one
        state = nw.when(~(number.is_null() | number.is_nan())).then(level)
    elif kinds[STATE].is_float():
        state = nw.when(~state.is_nan()).then(state + 0.0)  # one zero, not -0.0 beside 0.0
    elif isinstance(kinds[STATE], (nw.Categorical, nw.Enum)):
        state = state.cast(nw.String)
    time = nw.col(TIME)
    coded = frame if state is unchanged else frame.with_columns(state.alias(STATE))
    early = 0 if not rules.nearest or rules.every is None else before_half(rules.every)
    if rules.every is not None:
        coded = _with_place(coded, rules.origin - early, rules.every, SLOT)
        if kinds[TIME].is_float() or isinstance(rules.every * rules.origin, float):
            # 0.3 / 0.1 is below 3 in floats: a reading that is late only by rounding is on time.
            number, unit = time.cast(nw.Float64), rounding_of(kinds[TIME]) / rules.every
            places = (number - (rules.origin - early)) / rules.every
            slack = (number.abs() + abs(rules.origin)) * unit
            coded = coded.with_columns(((places + slack) // 1).cast(nw.Int64).alias(SLOT))
    if rules.windows is not None:
        shown = WALL if WALL in kinds.names() else TIME  # days are cut by local time
        if early:
            moment = nw.col(SLOT) * rules.every + rules.origin
            coded = coded.with_columns((nw.col(shown) + moment - time).alias(MOMENT))
            shown = MOMENT
        coded = _with_place(coded, rules.windows.origin, rules.windows.width, WINDOW, shown)
        if rules.windows.repeats is not None:
            number, repeats = nw.col(WINDOW), rules.windows.repeats
            coded = coded.with_columns((number - (number // repeats) * repeats).alias(WINDOW))
    return coded


def before_half(step: int | float) -> int | float:
    """How early a reading may be for its slot: half a step, of whole numbers less than that."""
    return (step - 1) // 2 if isinstance(step, int) else step / 2


def off_the_grid(frame: Any, rules: Rules) -> tuple[float, float] | None:
    """How far readings are from the nearest slot, on average and at most, if they belong to it.

    A clock that jitters around the moments of the grid is early as often as it is late. Cut at the
    moments themselves, every fourth slot would have no reading and every fourth reading no slot.
    Readings belong to the nearest slot if they are near to it: on average less than a fifth of the
    step away (those of no clock, and those of a finer clock, are more than a fifth away). Otherwise
    a slot begins at its moment. Where no reading is early both are the same.

    One judgement holds for all rows of a source, and it knows nothing but the times of the rows,
    which are public: a state, or that there is none, does not move a reading. It is made before
    rows are cut into batches. If rows are added until it turns out differently, readings of the
    past are other entries than before; an account has marks of the entries it was charged for and
    refuses them (`pufferkit.account.marks`), so no reading is paid as one entry and then read as
    another.
    """
    import narwhals as nw  # noqa: PLC0415

    every = rules.every
    if every is None:
        return None
    late = nw.col(TIME) - rules.origin - nw.col(SLOT) * every
    placed = _with_place(frame, rules.origin, every, SLOT).select(late.alias("late"))
    ahead = nw.col("late") * 2 > every
    away = nw.when(ahead).then(every - nw.col("late")).otherwise(nw.col("late"))
    means = placed.select(
        away.mean().alias("mean"), away.max().alias("most"), ahead.max().alias("early")
    )
    mean, most, early = (means.collect() if isinstance(means, nw.LazyFrame) else means).row(0)
    return (float(mean), float(most)) if early and 5 * mean < every else None


def _with_place(
    frame: Any, origin: int | float, width: int | float, name: str, time: str = TIME
) -> Any:
    """The frame with the number of the slot or window of each row."""
    import narwhals as nw  # noqa: PLC0415

    whole = frame.collect_schema()[time].is_integer() and isinstance(origin + width, int)
    if whole and frame.implementation.is_spark_like():
        from pufferkit.data.spark_source import with_quotient  # noqa: PLC0415

        native = with_quotient(frame.to_native(), time, int(origin), int(width), name)
        return nw.from_native(native)
    place = (nw.col(time) - origin) // width
    return frame.with_columns(place.cast(nw.Int64).alias(name))


def rounding_of(kind: Any) -> float:
    """More than the rounding errors of a few steps with numbers of this kind, in proportion."""
    return 2.0**-21 if str(kind) == "Float32" else 2.0**-50


def linked(frame: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Every row with the previous row: whether a segment breaks there, and the time between them.

    Rows stand subject by subject in time order. On a grid a slot has one entry, its first reading.
    """
    import polars as pl  # noqa: PLC0415

    place, same = TIME, pl.col(SUBJECT) == pl.col(SUBJECT).shift(1)
    if rules.every is not None:
        place = SLOT
        frame = frame.filter(pl.col(STATE).is_not_null())
        again = same & (pl.col(SLOT) == pl.col(SLOT).shift(1))
        frame = frame.filter(~again.fill_null(False))
    step = pl.col(place) - pl.col(place).shift(1)
    apart = first = (~same).fill_null(True)
    if rules.independent_after is not None:
        away = step if rules.every is None else step * rules.every
        if (kind := frame.schema[TIME]).is_float() or isinstance(rules.every, float):
            # 0.4 - 0.3 is above 0.1 in floats: a step that is longer only by rounding is no gap.
            away = away - (pl.col(TIME).abs() + away) * rounding_of(kind)
        apart = apart | (away > rules.independent_after).fill_null(True)
    if rules.every is not None:  # the clock is known: next to one another, or not
        step = step.clip(upper_bound=2)
    before = pl.col(STATE).shift(1).alias(BEFORE)
    frame = frame.with_columns(pl.when(~first).then(step).alias(STEP), before, apart.alias(BREAK))
    return frame.with_columns(pl.col(BREAK).cast(pl.Int64).cum_sum().alias(SEGMENT))


def piece_counts(rows: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The number of rows of each state in each piece, the time of the first, and their places.

    Rows without a state have a line of their own. Places are times, or slots of the grid. Segments
    are numbered through all subjects.
    """
    import polars as pl  # noqa: PLC0415

    carried = FRESH in rows.columns
    place = pl.col(TIME if rules.every is None else SLOT)
    keys = [SEGMENT, STATE, *([WINDOW] if rules.windows is not None else [])]
    counts = [
        (pl.col(FRESH).sum() if carried else pl.len()).alias("n"),
        pl.col(TIME).min().alias(FIRST),
        place.min().alias(LOW),
        place.max().alias(HIGH),
        *([pl.col(BASE).max()] if carried else []),
        pl.col(SUBJECT).min(),
    ]
    lines = rows.lazy().group_by(keys).agg(counts)
    return lines.select(SUBJECT, pl.exclude(SUBJECT)).collect()


def pair_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """How often each state follows each after each step; and rows that have no time."""
    import polars as pl  # noqa: PLC0415

    counts = [
        pl.len().alias("n"),
        pl.col(STEP).min().alias("low"),
        pl.col(STEP).max().alias("high"),
        pl.col(TIME).null_count().cast(pl.Int64).alias("lost"),
    ]
    return rows.lazy().group_by(BEFORE, STATE, BREAK, STEP).agg(counts).collect()


def merged_pairs(counts: list[pl.DataFrame]) -> pl.DataFrame:
    """`pair_counts` of several batches as one; without steps if there are too many."""
    import polars as pl  # noqa: PLC0415

    rows = pl.concat(counts, how="diagonal_relaxed")
    keys = [BEFORE, STATE, BREAK, STEP]
    if STEP not in rows.columns or any(STEP not in batch.columns for batch in counts):
        keys = keys[:-1]
    sums = [pl.col("n").sum(), pl.col("low").min(), pl.col("high").max(), pl.col("lost").sum()]
    merged = rows.group_by(keys).agg(sums)
    if STEP in keys and merged.height > MOST_STEPS:
        return merged_pairs([merged.drop(STEP)])
    return merged


def smallest_step(rows: pl.DataFrame) -> Any:
    """Smallest time between neighbours before they are put on a grid; ``None`` without any."""
    import polars as pl  # noqa: PLC0415

    same = pl.col(SUBJECT) == pl.col(SUBJECT).shift(1)
    return rows.select((pl.col(TIME) - pl.col(TIME).shift(1)).filter(same).min()).item()


# -- rows in batches: the last row of a subject is carried into the batch that continues it ------


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
