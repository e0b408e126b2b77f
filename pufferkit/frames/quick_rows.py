"""Series from columns as arrays, where nothing in them needs a second look.

Text times that are all written like 2024-03-04T08:15:00, or whole numbers, on a clock, in order;
states of which there are not many. For everything else, and for every error, rows are read one by
one by `pufferkit.frames.series_files`, which says what is wrong where: here the answer is ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.data.calendar import Calendar
from pufferkit.data.clock import even_step
from pufferkit.data.series import UNOBSERVED, Series
from pufferkit.frames.row_times import MOST_ENTRIES

if TYPE_CHECKING:
    import polars as pl

_MOST_STATES = 10_000
_EPOCH = datetime(1970, 1, 1)
_DAY, _CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "([01][0-9]|2[0-3]):[0-5][0-9]"
_TIMES = {
    length: (f"^{_DAY}{between}{_CLOCK}{pattern}$", f"%Y-%m-%d{between}%H:%M{form}")
    for between in "T "
    for length, pattern, form in (
        (f"16{between}", "", ""),
        (f"19{between}", ":[0-5][0-9]", ":%S"),
        (f"26{between}", r":[0-5][0-9]\.[0-9]{6}", ":%S%.6f"),
    )
}
"""By the length of a time and what stands after the day: how all of them look, for polars."""

_WHOLE = "^(0|-?[1-9][0-9]{0,14})$"

StateLabels = Callable[[list[Any], tuple[Hashable, ...] | None], list[Hashable]]


def quick_series(
    states: pl.Series,
    times: pl.Series | None,
    declared: tuple[Hashable, ...] | None,
    labels: StateLabels,
) -> Series | None:
    """The series of one segment, entry by entry; ``labels`` gives the states of cells."""
    codes = _codes(states, declared, labels)
    if codes is None:
        return None
    own, names = codes
    if times is None:
        return Series(own, names, (len(own),))
    moments = _whole_times(times)
    if moments is None or len(moments) < 2:
        return None
    between, often = np.unique(np.diff(moments), return_counts=True)
    step = even_step(dict(zip(between.tolist(), often.tolist(), strict=True)))
    if step is None:
        return None
    places = (moments - moments[0]) // step
    if places[-1] >= MOST_ENTRIES:
        return None
    entries = np.full(places[-1] + 1, UNOBSERVED, dtype=np.intp)
    entries[places] = own
    calendar = None
    if not times.dtype.is_integer() and not _is_number(times):
        start = _EPOCH + timedelta(microseconds=int(moments[0]))
        calendar = Calendar([start], int(step))
    return Series(entries, names, (len(entries),), calendar=calendar)


def _codes(
    states: pl.Series, declared: tuple[Hashable, ...] | None, labels: StateLabels
) -> tuple[NDArray[np.intp], tuple[Hashable, ...]] | None:
    """The place of each state among all, and all states."""
    import polars as pl  # noqa: PLC0415

    if not (states.dtype == pl.String or states.dtype.is_signed_integer()):
        return None
    cells = states.unique()
    if len(cells) > _MOST_STATES:
        return None
    present = [cell for cell in cells.to_list() if cell is not None and cell != ""]
    try:
        known = Series.of([labels(present, declared)], declared)
    except ValueError:
        return None
    to_code = dict(zip(present, known.codes.tolist(), strict=True))
    coded = states.replace_strict(to_code, default=UNOBSERVED, return_dtype=pl.Int64)
    return coded.fill_null(UNOBSERVED).to_numpy().astype(np.intp), known.states


def _is_number(times: pl.Series) -> bool:
    first = times[0]
    return isinstance(first, str) and first.lstrip("-").isdecimal()


def _whole_times(times: pl.Series) -> NDArray[np.int64] | None:
    """Times as whole numbers, timestamps in microseconds."""
    import polars as pl  # noqa: PLC0415

    if times.null_count():
        return None
    if times.dtype == pl.String:
        first = times[0]
        known = _TIMES.get(f"{len(first)}{first[10:11]}")
        if _is_number(times):
            known = _WHOLE, ""
        if known is None or not times.str.contains(known[0]).all():
            return None
        form = known[1]
        if not form:
            times = times.cast(pl.Int64)
        else:
            times = times.str.to_datetime(form, time_unit="us", strict=False)
    if times.null_count() or not (
        times.dtype.is_signed_integer() or times.dtype == pl.Datetime("us")
    ):
        return None
    return times.to_physical().cast(pl.Int64).to_numpy()
