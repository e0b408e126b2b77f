"""The entries of a subject that were released before: still in place, and what they have spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pufferkit.accounting.amounts import MICRO, PICO
from pufferkit.accounting.entries import Entry
from pufferkit.accounting.standing import segments_until
from pufferkit.fleet.subject_run import PendingRelease

Span = tuple[int, int, int]
"""First and last entry of a window, and the event-level epsilon spent on it, in units of 10^-12."""


def check_same(label: str, release: PendingRelease, before: Entry) -> None:
    """Raise if a label was used for another set of entries."""
    name, charged = release.account, before.body
    if charged["window"] != [release.first, release.last]:
        raise ValueError(
            f"label: the run {label!r} was made for other data of {name!r} "
            f"(entries {charged['window']}, now {[release.first, release.last]}); "
            "give this one another label"
        )
    if charged.get("entries", release.entries) != release.entries:
        raise ValueError(
            f"label: the run {label!r} used {charged['entries']} entries of {name!r} in this "
            f"window, and now there are {release.entries}: rows arrived late; leave them out, "
            "or give this run another label, which pays for the whole window again"
        )


def check_unchanged(name: str, earlier: Sequence[Entry], release: PendingRelease) -> None:
    """Raise unless the data only grew at the end, with released entries in their old places."""
    seen: set[Any] = set()
    lengths = release.lengths
    for entry in earlier:
        last, recorded = entry.body["window"][1], entry.body["segments"]
        begins = entry.body.get("begins")
        if None not in (begins, release.begins) and begins != release.begins:
            moved = "earlier" if release.begins < begins else "later"  # type: ignore[operator]
            raise ValueError(
                f"table: the entries of {name!r} begin {moved} than when they were released "
                f"(ledger entry {entry.seq}), so they would be counted anew; give the whole "
                "series from the same beginning on"
            )
        if last > 1 and "step" in entry.body and entry.body["step"] != release.step:
            raise ValueError(
                f"table: entries of {name!r} were {_apart(entry.body['step'])} when they were "
                f"released (ledger entry {entry.seq}) and are {_apart(release.step)} now, so they "
                "would be counted anew; every= puts them on the grid they were on"
            )
        mark = (last, str(recorded))
        if mark in seen:
            continue
        seen.add(mark)
        if last > sum(lengths) or recorded_segments(lengths, last) != recorded:
            raise ValueError(
                f"table: {name!r} had other segments when entries up to {last} were released "
                f"(ledger entry {entry.seq}); the account is for data that only grow at the end"
            )


def _apart(step: int | float | None) -> str:
    return "rows without a clock" if step is None else f"{step} apart"


def recorded_segments(lengths: Sequence[int], last: int) -> list[int] | str:
    """What a charge records of the segments up to entry ``last``."""
    segments = segments_until(lengths, last)
    return segments if isinstance(segments, str) else list(segments)


def spent_on_entry(spans: Sequence[Span]) -> int:
    """The largest sum of event-level epsilons on one entry."""
    steps = [(first, pico) for first, _, pico in spans]
    steps += [(last + 1, -pico) for _, last, pico in spans]
    most = now = 0
    for _, change in sorted(steps):
        now += change
        most = max(most, now)
    return most


def spent_on_segment(spans: Sequence[Span], lengths: tuple[int, ...]) -> int:
    """Millionths of epsilon if all entries of a segment may change at once."""
    worst, start = 0, 1
    for length in lengths:
        end = start + length - 1
        inside = (
            max(0, min(last, end) - max(first, start) + 1) * pico for first, last, pico in spans
        )
        worst, start = max(worst, sum(inside)), end + 1
    return -(-worst * MICRO // PICO)
