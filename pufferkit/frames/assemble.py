"""From counts, as engines give them, to a `Table`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.data.table import Counts, Table
from pufferkit.frames import aggregate, sources
from pufferkit.frames.aggregate import FIRST, SEGMENT, STATE, SUBJECT, WINDOW, Rules
from pufferkit.frames.files import state_labels

if TYPE_CHECKING:
    import polars as pl


MOST_STATES = 1000
"""More different values than this are readings, unless they were declared to be states."""


def assembled(
    pieces: Sequence[pl.DataFrame],
    pairs: Sequence[pl.DataFrame],
    rules: Rules,
    known: tuple[Hashable, ...] | None,
    refuse: Any,
) -> Table:
    """The table that the counts of all batches make together."""
    import polars as pl  # noqa: PLC0415

    if not pieces:
        raise ValueError("table: has no rows")
    window = [WINDOW] if rules.windows is not None else []
    keys = [SUBJECT, SEGMENT, *window]
    rows = pl.concat(pieces, how="vertical_relaxed")
    sources.refuse_nobody(rows)
    rows = rows.filter(~pl.col(STATE).is_null())
    rows = rows.group_by(*keys, STATE).agg(pl.col("n").cast(pl.Int64).sum(), pl.col(FIRST).min())
    rows = rows.filter(pl.col("n") > 0).sort(keys)
    if rows.height == 0:
        raise ValueError("table: no row has a state; there is nothing to release")
    cells = rows[STATE].unique().to_list()
    labels: list[Any]
    if rules.bins is not None:
        labels = [known[cell] for cell in cells] if known is not None else cells
    else:
        labels = state_labels(cells, known)
    if known is None and len(cells) > MOST_STATES:
        raise ValueError(
            f"state: has {len(cells):,} different values, too many to be taken for states; cut "
            "numbers into levels with bins=, for example Bins.width(200, high=1600), or name all "
            "states with states="
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
    rows = rows.join(coded, on=STATE).sort(keys)
    new = pl.any_horizontal([(pl.col(key) != pl.col(key).shift(1)).fill_null(True) for key in keys])
    rows = rows.with_columns(new.alias("_new")).with_columns(
        (pl.col("_new").cast(pl.Int64).cum_sum() - 1).alias("_piece")
    )
    firsts = rows.filter(pl.col("_new"))
    counts = np.zeros((firsts.height, len(states)), dtype=np.int64)
    # Added up, because two spellings in a file can stand for one state.
    np.add.at(counts, (rows["_piece"].to_numpy(), rows["_code"].to_numpy()), rows["n"].to_numpy())
    begins = rows.group_by(SUBJECT, maintain_order=True).agg(pl.col(FIRST).min())
    change = (firsts[SUBJECT] != firsts[SUBJECT].shift(1)).fill_null(True)
    owner = change.cast(pl.Int64).cum_sum().to_numpy() - 1
    numbers = firsts.select((pl.col(SEGMENT).rank("dense").over(SUBJECT) - 1).cast(pl.Int64))
    transitions, steps = _transitions(
        pl.concat(pairs, how="vertical_relaxed"), code_of, len(states)
    )
    return Table(
        subjects=tuple(firsts.filter(change)[SUBJECT].to_list()),
        states=states,
        owner=owner,
        segment=numbers[SEGMENT].to_numpy(),
        window=firsts[WINDOW].to_numpy() if window else np.zeros(len(owner), dtype=np.int64),
        pieces=counts,
        transitions=transitions,
        windows=rules.windows,
        steps=steps,
        begins=plain_times(begins[FIRST].to_list()),
        of_time=rules.of_time,
    )


def _transitions(
    pairs: pl.DataFrame, code_of: dict[Any, int], size: int
) -> tuple[Counts, tuple[float, float] | None]:
    import polars as pl  # noqa: PLC0415

    inside = pairs.filter(~pl.col(aggregate.BREAK))
    found = np.zeros((size, size), dtype=np.int64)
    for one, other, number in inside.select(aggregate.BEFORE, STATE, "n").iter_rows():
        found[code_of[one], code_of[other]] += int(number)
    if inside.height == 0:
        return found, None
    return found, (float(inside["low"].min()), float(inside["high"].max()))  # type: ignore[arg-type]


def plain_times(times: Sequence[Any]) -> tuple[int | float, ...]:
    """Times as plain numbers."""
    return tuple(time if isinstance(time, int) else float(time) for time in times)


def _sorted_labels(labels: Sequence[Hashable]) -> tuple[Hashable, ...]:
    distinct: set[Any] = set(labels)
    try:
        return tuple(sorted(distinct))
    except TypeError:
        return tuple(sorted(distinct, key=repr))
