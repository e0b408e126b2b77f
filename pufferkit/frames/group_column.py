"""The group of each subject, from a column of its rows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pufferkit.frames.raw_files import readable


@readable
def groups_of(rows: Any, *, subject: str, group: str) -> dict[Hashable, Hashable]:
    """The group of each subject, for ``release(table, ..., per=groups)``.

    Parameters
    ----------
    rows
        A pandas, polars or pyarrow table, or a duckdb relation.
    subject, group
        Columns with the subject and its group. A subject is in one group.

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"who": ["ann", "ann", "bob"], "region": ["north", "north", "south"]})
    >>> groups_of(people, subject="who", group="region")
    {'ann': 'north', 'bob': 'south'}
    """
    import narwhals as nw  # noqa: PLC0415

    if subject == group:
        raise ValueError(
            f"group: {group!r} is the column of subjects; for one row each give per='subject'"
        )
    frame: Any = nw.from_native(rows)
    for role, column in {"subject": subject, "group": group}.items():
        if column not in frame.collect_schema().names():
            raise ValueError(f"{role}: there is no column {column!r}")
    pairs: Any = frame.lazy().select(subject, group).unique().collect()
    members: dict[Hashable, Hashable] = {}
    for who, key in sorted(pairs.iter_rows(), key=repr):
        if who in members or key is None:
            count = "no group" if key is None else "two groups"
            raise ValueError(f"group: subject {who!r} is in {count}; give each exactly one")
        members[who] = key
    return members
