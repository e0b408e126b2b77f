"""The part that runs inside an engine: it links neighbours, detects gaps, and returns only counts.

A segment ends where pieces were declared independent, and nowhere else. A row without a state is an
entry that was not observed. How many entries a gap contains is computed afterwards, from the clock
that the steps between rows make (`assemble`): missing rows are never materialised.

It is written once, for narwhals. In engines that keep rows in order (polars, and pandas and pyarrow
through it) rows are sorted first, and a neighbour is the previous row. Unordered engines (duckdb,
Spark) find the neighbour with a window function over the subject.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferkit.data.bins import Bins
from pufferkit.data.table import Windows

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

SUBJECT, TIME, STATE, SLOT, WINDOW = "_subject", "_time", "_state", "_slot", "_window"
END, MOMENT = "_end", "_moment"
SEGMENT, FRESH, BASE, BREAK, STEP = "_segment", "_fresh", "_base", "_break", "_step"
BEFORE, FIRST, LOW, HIGH, TICKS = "_before", "_first", "_low", "_high", "_ticks"
WALL = "_wall"

MOST_STEPS = 200_000
"""More distinct transitions and time steps than this do not come from a clock."""

MOST_LINES = 2_000_000
"""Finer counts than these are not held in memory."""


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
    import narwhals as nw  # noqa: PLC0415

    return 2.0**-21 if kind == nw.Float32 else 2.0**-50


def linked(frame: Any, rules: Rules, *, ordered: bool, broken: bool = True) -> Any:
    """Every row with the previous row: whether a segment breaks there, and the time between them.

    ``ordered``: rows stand subject by subject in time order. Otherwise the engine finds them.
    Without ``broken`` all rows of a subject are numbered as one segment.
    """
    import narwhals as nw  # noqa: PLC0415

    def before(column: str) -> nw.Expr:
        shifted = nw.col(column).shift(1)
        return shifted if ordered else shifted.over(SUBJECT, order_by=TIME)

    place = TIME
    if rules.every is not None:
        # One entry for each slot, its first reading.
        place = SLOT
        frame = frame.filter(~nw.col(STATE).is_null())
        frame = frame.with_columns(before(SLOT).alias("_other"), before(SUBJECT).alias(BEFORE))
        same = (nw.col(BEFORE) == nw.col(SUBJECT)) & (nw.col("_other") == nw.col(SLOT))
        frame = frame.filter(~same.fill_null(False))
    frame = frame.with_columns(
        (nw.col(place) - before(place)).alias(STEP),
        before(STATE).alias(BEFORE),
        before(SUBJECT).alias("_other"),
    )
    first = (nw.col("_other") != nw.col(SUBJECT)).fill_null(True)
    step = nw.when(~first).then(nw.col(STEP))
    apart = first
    if rules.independent_after is not None:
        away = nw.col(STEP) if rules.every is None else nw.col(STEP) * rules.every
        longer = away > rules.independent_after
        if (kind := frame.collect_schema()[TIME]).is_float() or isinstance(rules.every, float):
            # 0.4 - 0.3 is above 0.1 in floats: a step that is longer only by rounding is no gap.
            slack = (nw.col(TIME).abs() + away) * rounding_of(kind)
            longer = away - slack > rules.independent_after
        apart = apart | longer.fill_null(True)
    if rules.every is not None:
        # On a grid the clock is known: next to one another, or not.
        step = nw.when(~first).then(nw.when(nw.col(STEP) > 2).then(2).otherwise(nw.col(STEP)))
    one = [] if broken else [nw.lit(1).cast(nw.Int64).alias(SEGMENT)]
    frame = frame.with_columns(apart.alias(BREAK), step.alias(STEP), *one)
    if not broken:
        return frame
    segment = nw.col(BREAK).cast(nw.Int64).cum_sum()
    return frame.with_columns(
        (segment if ordered else segment.over(SUBJECT, order_by=TIME)).alias(SEGMENT)
    )


def piece_counts(frame: Any, rules: Rules, *, ordered: bool = False) -> Any:
    """The number of rows of each state in each piece, the time of the first, and their places.

    Rows without a state have a line of their own. Places are times, or slots of the grid.
    """
    import narwhals as nw  # noqa: PLC0415

    carried = FRESH in frame.collect_schema().names()
    number = nw.col(FRESH).sum() if carried else nw.len()
    bases = [nw.col(BASE).max()] if carried else []
    counts = number.alias("n"), *_extents(rules), *bases
    keys = _piece_keys(rules)
    if ordered:  # segments are numbered through all subjects
        counts = (*counts, nw.col(SUBJECT).min())
        keys.remove(SUBJECT)
    return frame.group_by(*keys).agg(*counts)


def _piece_keys(rules: Rules) -> list[str]:
    return [SUBJECT, SEGMENT, STATE, *([WINDOW] if rules.windows is not None else [])]


def _extents(rules: Rules) -> tuple[Any, Any, Any]:
    """The time of the first row, and the lowest and highest place."""
    import narwhals as nw  # noqa: PLC0415

    place = nw.col(TIME if rules.every is None else SLOT)
    return nw.col(TIME).min().alias(FIRST), place.min().alias(LOW), place.max().alias(HIGH)


def pair_counts(frame: Any, *, by_step: bool = True) -> Any:
    """How often each state follows each after each step; and rows that have no time."""
    import narwhals as nw  # noqa: PLC0415

    lost = nw.col(TIME).is_null().cast(nw.Int64).sum()
    keys = [BEFORE, STATE, BREAK] + ([STEP] if by_step else [])
    return frame.group_by(*keys).agg(
        nw.len().alias("n"),
        nw.col(STEP).min().alias("low"),
        nw.col(STEP).max().alias("high"),
        lost.alias("lost"),
    )


def collected(frame: Any, rules: Rules) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`piece_counts` and `pair_counts` of entries in an unordered engine.

    Both are sums of finer counts, by the keys of either. Where these are few, as on a clock, the
    engine finds neighbours once and the sums are made here; otherwise it is asked for each, and
    needs no neighbours to count the pieces of whole series. To number segments costs it more than
    to find neighbours, so that is done only if one breaks.
    """
    import polars as pl  # noqa: PLC0415

    whole = linked(frame, rules, ordered=False, broken=False)
    lines = None if _many_lines(frame) else _fine(whole, rules)
    if lines is not None and (lines[BREAK] & lines[STEP].is_not_null()).any():
        lines = _fine(linked(frame, rules, ordered=False), rules)
    if lines is None:
        pairs = collected_pairs(whole)
        if (pairs[BREAK] & pairs["low"].is_not_null()).any():
            whole = linked(frame, rules, ordered=False)
        return in_polars(piece_counts(whole, rules).collect()), pairs
    number = pl.col("n").cast(pl.Int64).sum()
    pieces = lines.group_by(_piece_keys(rules)).agg(
        number, pl.col(FIRST).min(), pl.col(LOW).min(), pl.col(HIGH).max()
    )
    ends = pl.col(STEP).min().alias("low"), pl.col(STEP).max().alias("high")
    sums = [number, *ends, pl.col("lost").cast(pl.Int64).sum()]
    pairs = lines.group_by(BEFORE, STATE, BREAK, STEP).agg(sums)
    if pairs.height > MOST_STEPS:
        pairs = lines.group_by(BEFORE, STATE, BREAK).agg(sums)
    return pieces, pairs


def _many_lines(frame: Any) -> bool:
    """Whether finer counts are likely too many to be worth asking for."""
    import narwhals as nw  # noqa: PLC0415

    rows = int(frame.select(nw.len()).collect().item())
    if rows <= MOST_LINES:
        return False
    numbers = frame.select(nw.col(SUBJECT).n_unique(), nw.col(STATE).n_unique()).collect()
    subjects, states = (int(number) for number in numbers.row(0))
    return min(rows, subjects * states**2) > MOST_LINES


def _fine(frame: Any, rules: Rules) -> pl.DataFrame | None:
    """Counts by the keys of pieces and of pairs together; ``None`` if they are too many."""
    import narwhals as nw  # noqa: PLC0415

    lost = nw.col(TIME).is_null().cast(nw.Int64).sum().alias("lost")
    fine = frame.group_by(*_piece_keys(rules), BEFORE, BREAK, STEP)
    counts = fine.agg(nw.len().alias("n"), *_extents(rules), lost)
    lines = in_polars(counts.head(MOST_LINES + 1).collect())
    return lines if lines.height <= MOST_LINES else None


def collected_pairs(frame: Any) -> pl.DataFrame:
    """`pair_counts` of an unordered engine; without steps if there are too many."""
    pairs = in_polars(pair_counts(frame).head(MOST_STEPS + 1).collect())
    if pairs.height <= MOST_STEPS:
        return pairs
    return in_polars(pair_counts(frame, by_step=False).collect())


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


def smallest_step(frame: Any, *, ordered: bool) -> Any:
    """Smallest time between neighbours before they are put on a grid."""
    import narwhals as nw  # noqa: PLC0415

    def before(column: str) -> nw.Expr:
        shifted = nw.col(column).shift(1)
        return shifted if ordered else shifted.over(SUBJECT, order_by=TIME)

    steps = frame.with_columns(before(TIME).alias("_other"), before(SUBJECT).alias(BEFORE))
    steps = steps.filter((nw.col(BEFORE) == nw.col(SUBJECT)).fill_null(False))
    return steps.select(
        (nw.col(TIME) - nw.col("_other")).min().alias("low"),
    )


def in_polars(frame: Any) -> pl.DataFrame:
    """A small result of any engine as a polars frame."""
    import polars as pl  # noqa: PLC0415

    table = frame.to_native()
    return table if isinstance(table, pl.DataFrame) else pl.DataFrame(frame.to_arrow())


# -- rows in batches: the last row of a subject is carried into the batch that continues it ------


def lazy(frame: pl.DataFrame) -> Any:
    """A frame for narwhals, evaluated as a whole."""
    import narwhals as nw  # noqa: PLC0415

    return nw.from_native(frame.lazy())


def evaluated(result: Any) -> pl.DataFrame:
    """The collected result of `lazy`."""
    rows: pl.DataFrame = result.to_native().collect()
    return rows


def linked_rows(frame: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """`linked` of rows in order."""
    import narwhals as nw  # noqa: PLC0415

    rows: pl.DataFrame = linked(nw.from_native(frame), rules, ordered=True).to_native()
    return rows


def smallest(frame: pl.DataFrame) -> Any:
    """`smallest_step` of rows in order; ``None`` if no subject has two rows."""
    import narwhals as nw  # noqa: PLC0415

    return smallest_step(nw.from_native(frame), ordered=True).to_native().item()


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
