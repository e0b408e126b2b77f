"""The streams of many subjects: one window of each, at one total epsilon per subject."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pufferkit.accounting.ledger import Ledger
from pufferkit.accounting.stream import Stream, part_of
from pufferkit.accounting.stream_windows import Window
from pufferkit.data.query import Question
from pufferkit.data.query import question as question_named
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.fleet.subject_run import account_names
from pufferkit.influence.progress import Progress
from pufferkit.mechanisms.release import Release
from pufferkit.mechanisms.usefulness import warn_if_drowned


def release_window(
    table: Table,
    beliefs: Any,
    epsilon: float,
    ledger: Ledger,
    window: Window,
    *,
    query: str | Question = "histogram",
    share: float = 1.0,
    label: str = "",
    prefix: str = "",
    data_meant: bool = False,
    progress: Progress | None = None,
    anyway: bool = False,
) -> dict[Hashable, Release]:
    """One window of the stream of each subject that has entries in it.

    Subjects are independent of one another, so each has its own stream and account, and `Stream`
    promises epsilon for everything that is ever released about any of its entries. Noise is drawn
    once per subject and window: a job that was killed, or that runs again, gets the stored values
    from the ledger and draws the rest. Which subjects have entries in a window is assumed public.

    Parameters
    ----------
    table
        From `read_table`, with evenly spaced times; rows of other windows are left out.
    beliefs, epsilon, ledger, window, share, label, data_meant
        As for `Stream` and `Stream.release`.
    query
        The name of a question, or a `Question`.
    prefix
        Put before a subject's name to name its account.
    progress
        Called with the number of subjects done and the number of all subjects.
    anyway
        Noise that drowns the window of median size gives a warning, `DrownedAnswer`, before
        anything is charged, unless this is true.
    """
    question = (query if isinstance(query, Question) else question_named(query)).in_numbers()
    names = account_names(table, prefix)
    streams = {
        name: Stream(beliefs, epsilon, ledger, name=name, data_meant=data_meant) for name in names
    }
    parts = {
        subject: part
        for subject in table.subjects
        if (part := _part(table.series(subject), window)) is not None
    }
    if not parts:
        raise ValueError(f"table: no subject has entries in the window {window!r}")
    states = streams[names[0]].beliefs.states
    asked = {
        subject: question.bind(states, Series.of(part, states)) for subject, part in parts.items()
    }
    middle = sorted(parts, key=lambda subject: len(parts[subject]))[len(parts) // 2]
    noise = streams[names[0]].calibrate(asked[middle], share)
    rows = f" (a window of {len(parts[middle]):,} entries)"
    warn_if_drowned(noise, anyway=anyway, rows=rows)
    releases: dict[Hashable, Release] = {}
    for number, (subject, name) in enumerate(zip(table.subjects, names, strict=True), 1):
        if subject in parts:
            releases[subject] = streams[name].release(
                asked[subject], parts[subject], window, share=share, label=label, anyway=True
            )
        if progress is not None:
            progress(number, len(names))
    return releases


def _part(series: Series, window: Window) -> Series | None:
    """The entries of a window; ``None`` if none was observed."""
    if series.calendar is None:
        raise ValueError(
            "table: the times are not evenly spaced, so it is not known which rows are in the "
            "window; every= puts them on a grid"
        )
    return part_of(series, window)
