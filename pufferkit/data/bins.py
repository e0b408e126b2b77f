"""Numbers as states: levels between public cut points, named the same way everywhere."""

from __future__ import annotations

import csv
import math
import re
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.records import read_text

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_AMOUNT = re.compile(rf"\s*({_NUMBER})\s*([^\s0-9].*?)?\s*")
_PREFIXES = {"n": -9, "u": -6, "µ": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9}
_BELOW = re.compile(rf"below ({_NUMBER})(?: (.+))?")
_BETWEEN = re.compile(rf"({_NUMBER}) to ({_NUMBER})(?: (.+))?")
_ABOVE = re.compile(rf"({_NUMBER})(?: (.+))? and more")


@dataclass(frozen=True)
class Bins:
    """Numbers as states, by public cut points: x is in state j if j of the cuts are at most x.

    Parameters
    ----------
    cuts
        Increasing numbers. They must not come from the private data.
    labels
        A name for each bin, one more than there are cuts. If left out, names made from the cuts.
    unit
        The unit of the numbers, used in the names.

    Examples
    --------
    >>> Bins([100, 760, 2020, 5999]).names
    ('below 100', '100 to 760', '760 to 2020', '2020 to 5999', '5999 and more')
    >>> Bins.width(200, low=0, high=1000).cuts
    (200.0, 400.0, 600.0, 800.0)
    >>> Bins([0.5], unit="kW").names
    ('below 0.5 kW', '0.5 kW and more')
    >>> Bins.quantiles([1, 2, 3, 4, 100], 2).cuts
    (3.0,)
    """

    cuts: tuple[float, ...]
    labels: tuple[Hashable, ...] | None = None
    unit: str = ""

    def __init__(
        self, cuts: Iterable[float], labels: Iterable[Hashable] | None = None, unit: str = ""
    ) -> None:
        numbers = tuple(checks.real("cuts", cut) for cut in cuts)
        if not numbers:
            raise ValueError("cuts: must have at least one number, or there is only one state")
        if any(not a < b for a, b in pairwise(numbers)):
            raise ValueError(f"cuts: must increase, got {list(numbers)}")
        object.__setattr__(self, "cuts", numbers)
        object.__setattr__(self, "unit", str(unit))
        object.__setattr__(self, "labels", None)
        if labels is not None:
            object.__setattr__(self, "labels", self.named(tuple(labels)))

    @classmethod
    def width(cls, width: float, *, low: float = 0.0, high: float, unit: str = "") -> Bins:
        """Bins of equal width from ``low`` to ``high``; numbers outside fall into the end bins."""
        step, start = checks.positive("width", width), checks.real("low", low)
        count = math.ceil((checks.real("high", high) - start) / step - 1e-9)
        if not 2 <= count <= 10_000:
            raise ValueError(
                f"width: {width:g} from {low:g} to {high:g} makes {count} bins; choose a width "
                "that makes 2 to 10,000"
            )
        # Decimal arithmetic, so that three times 0.2 is 0.6 and not the float next to it.
        first, wide = Decimal(repr(start)), Decimal(repr(step))
        return cls((float(first + wide * j) for j in range(1, count)), unit=unit)

    @classmethod
    def levels(cls, text: str, unit: str = "") -> Bins:
        """Bins of equal width as text: ``"200W:2kW"`` is 200 W wide up to 2 kW.

        With three parts, as in ``"1:35:42"``, the middle one is the lowest; otherwise that is 0. A
        unit in the text is converted to ``unit``, the unit of the numbers, by its prefix.

        >>> Bins.levels("500W:2kW", unit="kW").cuts
        (0.5, 1.0, 1.5)
        """
        parts = text.split(":")
        if len(parts) not in (2, 3):
            raise ValueError(
                f"levels: {text!r} must be width:highest or width:lowest:highest, like 200W:2kW; "
                "single cut points are cuts=, --cuts 0.5,1,2"
            )
        numbers = [_amount(part, unit) for part in parts]
        low = numbers[1] if len(numbers) == 3 else 0.0
        return cls.width(numbers[0], low=low, high=numbers[-1], unit=unit)

    @classmethod
    def from_file(cls, path: str | Path) -> Bins:
        """Bins from a CSV file with columns ``from`` and ``label``; the first has no ``from``."""
        table = csv.DictReader(read_text(path))
        if not {"from", "label"} <= set(table.fieldnames or ()):
            raise ValueError(f"{path}: needs columns 'from' and 'label', a row for each level")
        rows = [((row["from"] or "").strip(), (row["label"] or "").strip()) for row in table]
        if len(rows) < 2 or rows[0][0] or not all(label for _, label in rows):
            raise ValueError(
                f"{path}: needs at least two levels, each with a label; the first is for all that "
                "is below the second, so its 'from' is empty"
            )
        try:
            cuts = [float(low) for low, _ in rows[1:]]
        except ValueError:
            raise ValueError(f"{path}: 'from' must be a number in all rows but one") from None
        return cls(cuts, [label for _, label in rows])

    @classmethod
    def quantiles(cls, public: Iterable[float], count: int) -> Bins:
        """``count`` bins with about equally many of the *public* numbers in each.

        Quantiles of the private data would be a release of their own, without noise.
        """
        wanted = checks.whole("count", count, 2)
        values = checks.numbers("public", list(public))
        if values.ndim != 1 or values.size == 0:
            raise ValueError("public: must be a list of numbers")
        edges = np.unique(np.quantile(values, np.arange(1, wanted) / wanted))
        return cls(float(cut) for cut in edges)

    @classmethod
    def of_names(cls, names: Sequence[Hashable]) -> Bins | None:
        """The bins whose names, made from their cuts, are these; ``None`` if there are none.

        >>> Bins.of_names(["below 100", "100 to 760", "760 and more"]).cuts
        (100.0, 760.0)
        """
        texts = [str(name) for name in names]
        if len(texts) < 2:
            return None
        first, last = _BELOW.fullmatch(texts[0]), _ABOVE.fullmatch(texts[-1])
        if first is None or last is None:
            return None
        cuts = [float(first[1])]
        for text in texts[1:-1]:
            inner = _BETWEEN.fullmatch(text)
            if inner is None:
                return None
            cuts.append(float(inner[2]))
        try:
            bins = cls(cuts, unit=first[2] or "")
        except ValueError:
            return None
        return bins if list(bins.names) == texts else None

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The labels, or names made from the cuts."""
        if self.labels is not None:
            return self.labels
        unit = f" {self.unit}" if self.unit else ""
        shown = [_shown(cut) for cut in self.cuts]
        inner = [f"{a} to {b}{unit}" for a, b in pairwise(shown)]
        return (f"below {shown[0]}{unit}", *inner, f"{shown[-1]}{unit} and more")

    def named(self, states: Iterable[Hashable] | None) -> tuple[Hashable, ...]:
        """The given states as names of the bins, or else the names of the bins; checked to fit."""
        if states is None:
            return self.names
        given = checks.distinct_states(states)
        if len(given) != len(self.cuts) + 1:
            own = ", ".join(str(name) for name in self.names)
            raise ValueError(f"states: {len(given)} names for {len(self.cuts) + 1} bins ({own})")
        levels = Bins.of_names(given)
        if levels is not None and levels.cuts != self.cuts:
            raise ValueError(
                f"bins: have cuts {', '.join(map(_shown, self.cuts))}, but the states are levels "
                f"with cuts {', '.join(map(_shown, levels.cuts))}; use the cuts of the model"
            )
        return given

    @property
    def middles(self) -> tuple[float, ...]:
        """The midpoint of each bin; the end bins are taken to be as wide as their neighbours.

        >>> Bins([100, 200, 400]).middles
        (50.0, 150.0, 300.0, 500.0)
        """
        cuts = self.cuts
        if len(cuts) == 1:
            raise ValueError("bins: two levels have no midpoints; give the value of each state")
        first, last = cuts[1] - cuts[0], cuts[-1] - cuts[-2]
        edges = (cuts[0] - first, *cuts, cuts[-1] + last)
        return tuple((a + b) / 2 for a, b in pairwise(edges))

    def level(self, number: float) -> int:
        """Index of the bin that contains a number, from 0."""
        return bisect_right(self.cuts, number)


def as_bins(bins: Any) -> Bins:
    """Bins as given, or made from cut points."""
    return bins if isinstance(bins, Bins) else Bins(bins)


def _shown(number: float) -> str:
    """A number in the fewest digits that identify it exactly."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _amount(text: str, unit: str) -> float:
    """A number with or without a unit, in the unit of the column."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"levels: {text!r} is not a number with or without a unit, like 200W")
    number, own = Decimal(match[1]), match[2] or ""
    if not own or own == unit:
        return float(number)
    if not unit:
        raise ValueError(f"levels: {text!r} has a unit; give the unit of the column (unit=)")
    for one, power in _PREFIXES.items():
        for other, base in _PREFIXES.items():
            if own.startswith(one) and unit.startswith(other):
                rest = own[len(one) :]
                if rest and rest == unit[len(other) :]:
                    return float(number * Decimal(10) ** (power - base))
    raise ValueError(f"levels: {own!r} cannot be converted to {unit!r}, the unit of the column")
