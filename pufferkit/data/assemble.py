"""From counts, as engines give them, to a `Table`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.data.count import (
    BEFORE,
    BREAK,
    FIRST,
    HIGH,
    LOW,
    SEGMENT,
    SLOT,
    STATE,
    STEP,
    SUBJECT,
    TIME,
    WINDOW,
    Rules,
)
from pufferkit.data.durations import in_words
from pufferkit.data.series import UNOBSERVED
from pufferkit.data.table import Counts, Table

if TYPE_CHECKING:
    import polars as pl


ROWS, LOWEST, HIGHEST = "_rows", "_lowest", "_highest"

MOST_ENTRIES = 20_000_000
"""Most entries that are kept one by one, unobserved ones included."""

MOST_STATES = 1000
"""More distinct values than this are readings, unless they were declared as states."""


_SURE = 0.25
"""Largest part of a step by which rounding may move an entry."""


def assembled(
    pieces: Sequence[pl.DataFrame],
    pairs: pl.DataFrame | None,
    rules: Rules,
    known: tuple[Hashable, ...] | None,
    refuse: Any,
    entries: pl.DataFrame | None = None,
) -> Table:
    """The table that the counts of all batches make together.

    ``entries`` are the rows themselves, subject by subject in time order, if they are few enough
    to be kept.
    """
    import polars as pl  # noqa: PLC0415

    if not pieces or pairs is None:
        raise ValueError(f"{rules.name}: has no rows")
    lines = pl.concat(pieces, how="vertical_relaxed")
    _refuse_nobody(lines, rules)
    extents = extents_of(lines, rules)
    step = clock_step(pairs, extents, rules)
    return table_of(lines, extents, pairs, step, rules, known, refuse, entries)


def table_of(
    lines: pl.DataFrame,
    extents: pl.DataFrame,
    pairs: pl.DataFrame,
    step: int | float | None,
    rules: Rules,
    known: tuple[Hashable, ...] | None,
    refuse: Any,
    entries: pl.DataFrame | None = None,
) -> Table:
    """The table of some whole subjects; step and pairs are those of all."""
    import polars as pl  # noqa: PLC0415

    keys = _keys(rules)
    rows = lines.filter(~pl.col(STATE).is_null())
    rows = rows.group_by(*keys, STATE).agg(pl.col("n").cast(pl.Int64).sum())
    rows = rows.filter(pl.col("n") > 0)
    if rows.height == 0:
        raise ValueError(f"{rules.name}: no row has a state; there is nothing to release")
    columns = rows[STATE], pairs[STATE], pairs[BEFORE]
    cells = list(dict.fromkeys(x for own in columns for x in own.drop_nulls().unique().to_list()))
    labels: list[Any]
    if rules.bins is not None:
        labels = [known[cell] for cell in cells] if known is not None else cells
    else:
        labels = state_labels(cells, known)
    if known is None and len(cells) > MOST_STATES:
        raise ValueError(
            f"state: the column has {len(cells):,} distinct values, too many for states; cut "
            "numbers into levels with bins=, for example Bins.width(200, high=1600) (--levels "
            "200:1600 or --cuts 100,760), or list all states with states="
        )
    states = known if known is not None else _sorted_labels(labels)
    place = {label: code for code, label in enumerate(states)}
    strange = [cell for cell, label in zip(cells, labels, strict=True) if label not in place]
    if strange:
        raise refuse(strange)
    code_of = dict(zip(cells, (place[label] for label in labels), strict=True))
    coded = pl.DataFrame(
        {STATE: cells, "_code": [code_of[cell] for cell in cells]},
        schema_overrides={STATE: rows.schema[STATE]},
    )
    layout = laid_out(extents, keys, step, rules)
    numbered = layout.pieces.select(*keys).with_row_index("_piece")
    rows = rows.join(coded, on=STATE).join(numbered, on=keys)
    counts = np.zeros((layout.pieces.height, len(states)), dtype=np.int64)
    # Added up, because two spellings in a file can stand for one state.
    np.add.at(counts, (rows["_piece"].to_numpy(), rows["_code"].to_numpy()), rows["n"].to_numpy())
    transitions = np.zeros((len(states), len(states)), dtype=np.int64)
    for one, other, number in moves(pairs, layout.step):
        transitions[code_of[one], code_of[other]] += number
    codes = None if entries is None else layout.codes(entries, coded)
    return layout.table(states, counts, transitions, steps_between(pairs), codes)


def _keys(rules: Rules) -> list[str]:
    """Columns that name a piece."""
    return [SUBJECT, SEGMENT, *([WINDOW] if rules.windows is not None else [])]


def extents_of(lines: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The public facts about each piece: its number of entries, and its first and last place."""
    import polars as pl  # noqa: PLC0415

    seen = ~pl.col(STATE).is_null()
    return lines.group_by(_keys(rules)).agg(
        pl.col("n").cast(pl.Int64).filter(seen).sum(),
        pl.col("n").cast(pl.Int64).sum().alias(ROWS),
        pl.col(FIRST).min(),
        pl.col(LOW).filter(seen).min(),
        pl.col(HIGH).filter(seen).max(),
        pl.col(LOW).min().alias(LOWEST),
        pl.col(HIGH).max().alias(HIGHEST),
    )


def sizes_of(
    extents: pl.DataFrame, pairs: pl.DataFrame, step: int | float | None, rules: Rules
) -> Table:
    """A table over one state, ``"entry"``: the public facts, without counts of states."""
    layout = laid_out(extents, _keys(rules), step, rules)
    entries = layout.pieces["n"].to_numpy()[:, None]
    nothing = np.zeros((1, 1), dtype=np.int64)
    return layout.table(("entry",), entries, nothing, steps_between(pairs))


@dataclass(frozen=True, eq=False)
class Layout:
    """The places of the pieces of a table."""

    pieces: pl.DataFrame
    """Subject, segment, window, first and last place and number of observed entries of each."""
    spans: Counts
    begins: tuple[int | float, ...]
    """Length of every segment, and the beginning of each subject's series."""
    step: int | float | None
    """Step of the clock, in the units of the places; ``None`` if rows are the entries."""
    rules: Rules
    """How rows became entries."""
    segments: Counts
    starts: NDArray[Any]
    """Number and lowest place of each segment, in the order of the spans."""

    def codes(self, entries: pl.DataFrame, coded: pl.DataFrame) -> Counts | None:
        """The entries one by one, those that were not observed included, segment by segment.

        Segments are numbered through all subjects. ``None`` where that would be too many.
        """
        if int(self.spans.sum()) > MOST_ENTRIES:
            return None
        new = np.flatnonzero(entries[BREAK].to_numpy())  # one row for each segment
        sizes = np.diff(new, append=entries.height)
        order = np.full(int(entries[SEGMENT].max()) + 1, -1)  # type: ignore[arg-type]
        order[self.segments] = np.arange(len(self.spans))
        code = _codes(entries[STATE], coded)
        places = order[entries[SEGMENT].to_numpy()[new]]
        if np.array_equal(places, np.arange(len(self.spans))) and np.array_equal(sizes, self.spans):
            return code  # a row for each entry, in order
        number = np.repeat(places, sizes)
        if self.step is None:
            at = np.arange(entries.height) - np.repeat(new, sizes)
        else:
            place = entries[TIME if self.rules.every is None else SLOT].to_numpy()
            at = steps_in(place - self.starts[number], self.step)
        at = at + (np.cumsum(self.spans) - self.spans)[number]
        seen = (number >= 0) & (code != UNOBSERVED)
        codes = np.full(int(self.spans.sum()), UNOBSERVED, dtype=np.int64)
        codes[at[seen]] = code[seen]
        return codes

    def table(
        self,
        states: tuple[Hashable, ...],
        counts: Counts,
        transitions: Counts,
        steps: tuple[float, float] | None = None,
        codes: Counts | None = None,
    ) -> Table:
        """The table with these counts in its pieces."""
        pieces, rules = self.pieces, self.rules
        new, owner = _runs(pieces[SUBJECT].rle_id().to_numpy())
        windowed = rules.windows is not None
        step = self.step if rules.every is None else rules.every
        split = len(self.spans) > len(self.begins)
        after = rules.independent_after if split else None
        return Table(
            subjects=tuple(pieces[SUBJECT].gather(new).to_list()),
            states=states,
            owner=owner,
            segment=pieces["_number"].to_numpy(),
            window=pieces[WINDOW].to_numpy() if windowed else np.zeros(len(owner), dtype=np.int64),
            pieces=counts,
            transitions=transitions,
            windows=rules.windows,
            steps=steps,
            begins=self.begins,
            of_time=rules.of_time,
            first=pieces["_from"].to_numpy(),
            last=pieces["_to"].to_numpy(),
            spans=self.spans,
            every=step,
            independent_after=None if after is None else in_words(after, rules.of_time),
            read_as=rules.read_as,
            codes=codes,
            starts=self._starts(),
            timezone=rules.timezone,
        )

    def _starts(self) -> tuple[int | float, ...]:
        """The beginning of each segment, in the units of the time column."""
        every, lowest = self.rules.every, self.starts.tolist()
        if every is not None:
            lowest = [slot * every + self.rules.origin for slot in lowest]
        return tuple(lowest)


def _codes(states: pl.Series, coded: pl.DataFrame) -> Counts:
    """The code of each state, `UNOBSERVED` where there is none; ``coded`` lists the codes."""
    import polars as pl  # noqa: PLC0415

    if states.dtype.is_integer() and coded.height:
        low, high = int(coded[STATE].min()), int(coded[STATE].max())  # type: ignore[arg-type]
        if high - low < _NEAR:  # a place in an array for each number; the last one is for none
            at = (coded[STATE].cast(pl.Int64) - low).to_numpy()
            code_of = np.full(high - low + 2, UNOBSERVED, dtype=np.int64)
            code_of[at] = coded["_code"].to_numpy()
            number = states if states.dtype == pl.Int64 else states.cast(pl.Int64)
            return np.asarray(code_of[number.fill_null(high + 1).to_numpy() - low])
    if states.dtype != pl.Categorical:
        rows = states.to_frame().join(coded, on=STATE, how="left", maintain_order="left")
        return np.asarray(rows["_code"].fill_null(UNOBSERVED))
    numbers = coded[STATE].to_physical().to_numpy()
    code_of = np.full(int(numbers.max(initial=0)) + 2, UNOBSERVED, dtype=np.int64)
    code_of[numbers] = coded["_code"].to_numpy()
    # No state has the last number.
    return np.asarray(code_of[states.to_physical().fill_null(len(code_of) - 1).to_numpy()])


def clock_step(pairs: pl.DataFrame, extents: pl.DataFrame, rules: Rules) -> int | float | None:
    """The step of the clock that the times make, in the units of the places; 1 on a grid."""
    import polars as pl  # noqa: PLC0415

    if rules.every is not None:
        return 1
    if STEP not in pairs.columns:
        return None
    inside = pairs.filter(~pl.col(BREAK) & ~pl.col(STEP).is_null())
    steps = inside.group_by(STEP).agg(pl.col("n").cast(pl.Int64).sum())
    if not steps.schema[STEP].is_float():
        exact: int | None = even_step(dict(steps.select(STEP, "n").iter_rows()))
        return exact
    unit = 2.0**-21 if steps.schema[STEP] == pl.Float32 else 2.0**-50
    largest = max(abs(float(extents[name].max() or 0)) for name in (LOWEST, HIGHEST))  # type: ignore[arg-type]
    largest = max(largest, abs(float(extents[LOWEST].min() or 0)))  # type: ignore[arg-type]
    return rounded_step(
        steps[STEP].cast(pl.Float64).to_numpy(), steps["n"].to_numpy(), 2 * unit * largest
    )


def even_step(steps: Mapping[Any, int]) -> Any:
    """The even step, given how often each exact time between neighbours occurs, or None.

    The times have an even step if every time between neighbouring rows is a whole multiple of the
    shortest, and more than half of them are the shortest. Then a gap of g steps is g - 1 entries
    that were not observed. Otherwise the rows themselves are the entries. One accidental short step
    must not become the step of the grid: it would put neighbouring entries far apart, and noise
    would be too small.

    >>> even_step({5: 90, 10: 3, 600: 1}), even_step({5: 90, 7: 3}), even_step({1: 2, 60: 90})
    (5, None, None)
    """
    if not steps or min(steps) <= 0:
        return None
    shortest = min(steps)
    even = all(step % shortest == 0 for step in steps)
    return shortest if even and 2 * steps[shortest] > sum(steps.values()) else None


def rounded_step(steps: NDArray[Any], counts: NDArray[Any], error: float) -> float | None:
    """The even step of floats, each with a rounding error of at most ``error``, or None.

    The step is the mean of those that equal the shortest up to rounding, written as the shortest
    decimal that the error allows: 0.1, not 0.0999999.
    """
    if not steps.size or steps.min() <= 0:
        return None
    near = steps <= steps.min() + 2 * error
    step = float(np.average(steps[near], weights=counts[near]))
    for digits in range(1, 16):
        decimal = float(f"{step:.{digits}g}")
        if abs(decimal - step) <= error:
            step = decimal
            break
    times = np.rint(steps / step)
    off = np.abs(steps - times * step)
    sure = error * (1 + times) <= _SURE * step
    even = bool(np.all(sure & (off <= error * (1 + times))))
    return step if even and 2 * counts[near].sum() > counts.sum() else None


def laid_out(
    extents: pl.DataFrame, keys: Sequence[str], step: int | float | None, rules: Rules
) -> Layout:
    """Places of the pieces: by the clock, or row by row where there is none.

    ``extents`` has the keys of each piece, ``n`` observed entries among `ROWS` rows, the time of
    the first row, and the lowest and highest place of observed entries and of all rows. Sorted by
    the keys, segments and subjects are runs of pieces: one pass over arrays.
    """
    import polars as pl  # noqa: PLC0415

    rows = extents.sort(keys)
    subject, segment = rows[SUBJECT].rle_id().to_numpy(), rows[SEGMENT].to_numpy()
    first, inside = _runs(subject, segment)
    seen = np.add.reduceat(rows["n"].to_numpy(), first) > 0 if len(first) else first
    if not seen.any():
        raise ValueError(f"{rules.name}: no row has a state; there is nothing to release")
    if not seen.all():
        return laid_out(rows.filter(pl.Series(seen[inside])), keys, step, rules)
    entries, size = rows["n"].to_numpy(), rows[ROWS].to_numpy()
    low, high = rows[LOWEST].to_numpy(), rows[HIGHEST].to_numpy()
    start, total = np.minimum.reduceat(low, first), np.add.reduceat(size, first)
    if step is None:
        after = np.cumsum(size)
        after -= (after - size)[first][inside]
        begin, end, spans = after - size, after - 1, total
    else:
        # Pieces without an observed entry are left out below.
        seen_at = rows.select(pl.col(c).fill_null(pl.col(LOWEST)) for c in (LOW, HIGH))
        begin, end = (steps_in(c.to_numpy() - start[inside], step) for c in seen_at)
        spans = steps_in(np.maximum.reduceat(high, first) - start, step) + 1
    there = entries > 0
    if step is not None and rules.every is None:
        # Rounding may have moved two rows to one place; then there is no clock.
        after, own = end[there][:-1], inside[there]
        overlap = (begin[there][1:] <= after) & (own[1:] == own[:-1])
        in_order = rules.windows is None or rules.windows.repeats is None
        if (total > spans).any() or (in_order and overlap.any()):
            return laid_out(extents, keys, None, rules)
    of_subject, owner = _runs(subject)
    number = inside - inside[of_subject][owner]
    places = {"_from": begin, "_to": end, "_number": number}
    pieces = rows.select(*keys, "n").with_columns(pl.Series(n, v) for n, v in places.items())
    return Layout(
        pieces if there.all() else pieces.filter(pl.Series(there)),
        spans,
        tuple(np.minimum.reduceat(rows[FIRST].to_numpy(), of_subject).tolist()),
        step,
        rules,
        segment[first],
        start,
    )


def _runs(*columns: NDArray[Any]) -> tuple[Counts, Counts]:
    """Where runs of equal rows begin, and the number of the run of each row."""
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.flatnonzero(new), np.cumsum(new) - 1


def steps_in(distance: NDArray[Any], step: int | float) -> Counts:
    """Distances in steps of the clock."""
    if isinstance(step, int):
        return (distance // step).astype(np.int64)
    number = distance.astype(np.float64) / step
    below = np.trunc(number)
    half = np.abs(number - below) >= 0.5
    return (below + np.where(half, np.sign(number), 0)).astype(np.int64)


def moves(pairs: pl.DataFrame, step: int | float | None) -> Iterator[tuple[Any, Any, int]]:
    """How often a state is followed by another, both observed and one step apart."""
    import polars as pl  # noqa: PLC0415

    inside = pairs.filter(~pl.col(BREAK) & ~pl.col(BEFORE).is_null() & ~pl.col(STATE).is_null())
    if step is not None and STEP in pairs.columns:
        near = pl.Series(steps_in(inside[STEP].to_numpy(), step) == 1)
        inside = inside.filter(near)
    for one, other, number in inside.select(BEFORE, STATE, "n").iter_rows():
        yield one, other, int(number)


def steps_between(pairs: pl.DataFrame) -> tuple[float, float] | None:
    """The shortest and the longest time between neighbours in a segment."""
    inside = pairs.filter(~pairs[BREAK])
    if inside.height == 0:
        return None
    return float(inside["low"].min()), float(inside["high"].max())  # type: ignore[arg-type]


_NEAR = 1 << 16
"""States that are whole numbers and not further apart than this are found in an array."""

_INTERVAL = re.compile(r"[\[(]\s*([^,\s]+),\s*([^,\s]+)\s*[\])]")


def _sorted_labels(labels: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Labels in order; intervals such as (20, 100] by their ends."""
    distinct: set[Any] = set(labels)
    ends = [_INTERVAL.fullmatch(str(label)) for label in distinct]
    if distinct and all(ends):
        with suppress(ValueError):
            order = {own[0]: tuple(map(float, own.groups())) for own in ends if own is not None}
            return tuple(sorted(distinct, key=lambda label: order[str(label)]))
    try:
        return tuple(sorted(distinct))
    except TypeError:
        return tuple(sorted(distinct, key=repr))


def _refuse_nobody(lines: pl.DataFrame, rules: Rules) -> None:
    """Raise unless every row has a subject."""
    nobody = lines[SUBJECT].is_null()
    if nobody.any():
        rows = int(lines.filter(nobody)["n"].sum())
        raise ValueError(f"{rules.name}: {rows} rows have no subject")


def state_labels(cells: Sequence[Any], states: tuple[Hashable, ...] | None) -> list[Hashable]:
    """Cells as state labels, by the types of the declared states."""
    wholes = {cell: _whole(cell) for cell in set(cells)}
    if states is None:
        return list(cells) if None in wholes.values() else [wholes[cell] for cell in cells]
    exact, printed = set(states), {str(label): label for label in states}
    integers = {label for label in states if isinstance(label, int)}

    def meaning(cell: Hashable) -> Hashable:
        if cell in exact:
            return cell
        return wholes[cell] if wholes[cell] in integers else printed.get(str(cell), cell)

    meanings = {cell: meaning(cell) for cell in wholes}
    return [meanings[cell] for cell in cells]


def _whole(cell: Any) -> int | None:
    """The integer in a cell, as a number or as plain text; ``None`` if there is none."""
    if isinstance(cell, str):
        spelled = cell.removesuffix(".0")
        return int(spelled) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", spelled) else None
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else None
    return cell if isinstance(cell, int) and not isinstance(cell, bool) else None


def states_from_text(names: Iterable[str]) -> list[Hashable]:
    """Names of states as labels: integers if all are integers, as in a file."""
    return state_labels([name.strip() for name in names], None)
