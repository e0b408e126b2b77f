"""What of a stream may still be spent: a rate, and the entries that are not closed.

Entries lie on an axis of whole numbers: their numbers, or microseconds, of clocks or of instants. A
window is a half-open stretch of it. Windows come in the order of their beginnings; what lies before
the beginning of the last one is closed for ever, and of the rest it is known how much was spent,
stretch by stretch. So nothing grows with the number of windows: each of the stretches ends where a
window ends that overlaps the last one, and all of those have spent something at the same entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pufferkit.accounting.amounts import PICO
from pufferkit.errors import OverBudget


@dataclass(frozen=True)
class Use:
    """What one release uses: a window, and how much it spends on each of its entries."""

    axis: str
    begin: int
    end: int
    pico: int


@dataclass(frozen=True)
class Frontier:
    """Where a stream stands; amounts are in units of 10^-12 of event-level epsilon."""

    micro: int
    rate: int
    """Epsilon for ever, in millionths, and the most that may be spent on an entry."""
    axis: str = ""
    """What the axis counts, ``entries``, ``time`` or ``instants``; empty before the first window.
    """
    begin: int = 0
    """Where the last window begins; everything before is closed."""
    runs: tuple[tuple[int, int], ...] = ()
    """Ends of the stretches from there on, in order, and what was spent on each of them."""

    @property
    def end(self) -> int:
        """After the last entry that was used."""
        return self.runs[-1][0] if self.runs else self.begin

    def after(self, use: Use) -> Frontier:
        """Where it stands after one more release.

        Raises
        ------
        ValueError
            If the window begins in what is closed, or lies on another axis.
        OverBudget
            If an entry of the window would spend more than the rate.
        """
        if not use.begin < use.end or use.pico <= 0:
            raise ValueError(f"window: needs a beginning before its end, got {use}")
        if self.axis not in ("", use.axis):
            raise ValueError(
                f"window: this stream has windows of {self.axis}, not of {use.axis}; give these"
            )
        if self.axis and use.begin < self.begin:
            raise ValueError("window: begins before the last one; windows come in order")
        runs, start = [], use.begin
        for end, spent in (*self.runs, (max(use.end, self.end), 0)):
            inside = min(end, use.end)
            if start < inside:
                total = spent + use.pico
                if total > self.rate:
                    raise OverBudget(
                        f"requested {use.pico / self.rate:.3g} of the window, remaining "
                        f"{max(0, self.rate - spent) / self.rate:.3g}; an entry pays once. Ask "
                        "for several answers of a window with shares of it"
                    )
                runs.append((inside, total))
                start = inside
            if max(start, use.end) < end:
                runs.append((end, spent))
                start = end
        return replace(self, axis=use.axis, begin=use.begin, runs=_joined(runs))

    def changed(self, micro: int, rate: int) -> Frontier:
        """With another epsilon from the first entry on that was not used yet."""
        return replace(self, micro=micro, rate=rate, begin=self.end, runs=())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as the ledger keeps it."""
        stands = {"epsilon": self.micro, "rate": self.rate}
        open_ = {"axis": self.axis, "begin": self.begin, "runs": [list(run) for run in self.runs]}
        return {"stream": stands, "open": open_}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frontier:
        """What ``to_dict`` described."""
        stands, open_ = data["stream"], data["open"]
        runs = tuple((int(end), int(spent)) for end, spent in open_["runs"])
        axis, begin = str(open_["axis"]), int(open_["begin"])
        return cls(int(stands["epsilon"]), int(stands["rate"]), axis, begin, runs)

    @property
    def b(self) -> float:
        """The rate as event-level epsilon."""
        return self.rate / PICO


def _joined(runs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Neighbours that spent the same, as one."""
    joined: list[tuple[int, int]] = []
    for end, spent in runs:
        if joined and joined[-1][1] == spent:
            joined[-1] = (end, spent)
        else:
            joined.append((end, spent))
    return tuple(joined)
