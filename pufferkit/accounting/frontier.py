"""What a stream may still spend: a rate, and the entries that are not yet closed.

Entries lie on an axis of integers: entry numbers, or microseconds of local time or of instants. A
window is a half-open interval of the axis. Windows come in the order of their beginnings.
Everything before the beginning of the last window is closed for ever; for the rest the amount spent
is kept, stretch by stretch. So nothing grows with the number of windows: each stretch ends where a
window ends that overlaps the last one, and all of those have spent something at the same entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pufferkit.accounting.amounts import PICO
from pufferkit.data.durations import of_seconds
from pufferkit.errors import OverBudget


@dataclass(frozen=True)
class Use:
    """The use by one release: its window, and the amount it spends on each entry of it."""

    axis: str
    begin: int
    end: int
    pico: int
    step: float | None = None
    """Seconds from one entry to the next; ``None`` without a clock."""


@dataclass(frozen=True)
class Frontier:
    """The state of a stream; amounts are in units of 10^-12 of event-level epsilon."""

    micro: int
    rate: int
    """Epsilon of the whole stream, in millionths, and the most that may be spent on an entry."""
    axis: str = ""
    """Unit of the axis: ``entries``, ``time`` or ``instants``; empty before the first window.
    """
    begin: int = 0
    """The beginning of the last window; everything before it is closed."""
    runs: tuple[tuple[int, int], ...] = ()
    """Ends of the stretches from there on, in order, and what was spent on each of them."""
    step: float | None = None
    """Seconds from one entry to the next, in the first window with a clock."""

    @property
    def end(self) -> int:
        """The place after the last entry that was used."""
        return self.runs[-1][0] if self.runs else self.begin

    def after(self, use: Use) -> Frontier:
        """The state after one more release.

        Raises
        ------
        ValueError
            If the window begins before the last one, or lies on another axis.
        OverBudget
            If an entry of the window would spend more than the rate.
        """
        if not use.begin < use.end or use.pico <= 0:
            raise ValueError(f"window: must begin before it ends, got {use}")
        if self.axis not in ("", use.axis):
            raise ValueError(
                f"window: this stream has windows of {self.axis}, got one of {use.axis}; use "
                f"windows of {self.axis}"
            )
        if None not in (self.step, use.step) and self.step != use.step:
            raise ValueError(
                f"window: entries of this stream are {of_seconds(self.step)} apart, those of the "
                f"window {of_seconds(use.step)}; put them on the same grid"
            )
        if self.axis and use.begin < self.begin:
            raise ValueError("window: begins before the last one; release windows in order")
        runs, start = [], use.begin
        for end, spent in (*self.runs, (max(use.end, self.end), 0)):
            inside = min(end, use.end)
            if start < inside:
                total = spent + use.pico
                if total > self.rate:
                    raise OverBudget(
                        f"requested {use.pico / self.rate:.3g} of the window, remaining "
                        f"{max(0, self.rate - spent) / self.rate:.3g}; each entry can be spent "
                        "once. For several answers about a window, give each a share of it"
                    )
                runs.append((inside, total))
                start = inside
            if max(start, use.end) < end:
                runs.append((end, spent))
                start = end
        step = use.step if self.step is None else self.step
        return replace(self, axis=use.axis, begin=use.begin, runs=_joined(runs), step=step)

    def changed(self, micro: int, rate: int) -> Frontier:
        """The state with another epsilon from the first unused entry on."""
        return replace(self, micro=micro, rate=rate, begin=self.end, runs=())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        stands = {"epsilon": self.micro, "rate": self.rate}
        open_ = {"axis": self.axis, "begin": self.begin, "runs": [list(run) for run in self.runs]}
        timed = {} if self.step is None else {"step": self.step}
        return {"stream": stands, "open": open_, **timed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frontier:
        """The frontier described by ``to_dict``."""
        stands, open_ = data["stream"], data["open"]
        runs = tuple((int(end), int(spent)) for end, spent in open_["runs"])
        axis, begin = str(open_["axis"]), int(open_["begin"])
        rates = int(stands["epsilon"]), int(stands["rate"])
        return cls(*rates, axis, begin, runs, data.get("step"))

    @property
    def b(self) -> float:
        """The rate as event-level epsilon."""
        return self.rate / PICO


def _joined(runs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge neighbouring stretches that spent the same."""
    joined: list[tuple[int, int]] = []
    for end, spent in runs:
        if joined and joined[-1][1] == spent:
            joined[-1] = (end, spent)
        else:
            joined.append((end, spent))
    return tuple(joined)
