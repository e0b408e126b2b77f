"""Answers computed from states coded as whole numbers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats
from pufferkit.data.series import UNOBSERVED, Series


@dataclass(frozen=True, eq=False)
class OverCodes:
    """An answer computed from states coded as whole numbers; an object, so that it can be pickled.

    Entries that were not observed have code -1; states that are not among ``states`` have the code
    after the last. Subclasses compute the answer from the codes. In units, every coordinate must
    lie between 0 and the number of entries.
    """

    states: tuple[Hashable, ...]
    lengths: tuple[int, ...]

    def of_codes(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        """The answer, in whole multiples of the unit."""
        raise NotImplementedError

    @property
    def unit(self) -> Fraction:
        """The unit of the answer."""
        return Fraction(1)

    def check(self, series: Series) -> None:
        """Refuse a series that the query was not made for."""
        if series.lengths != self.lengths:
            raise ValueError(
                f"series: has segments of {list(series.lengths)[:5]} entries, but the query was "
                f"made for {list(self.lengths)[:5]}, in this order"
            )

    def exact(self, series: Series) -> list[Fraction]:
        """The exact answer for a series."""
        self.check(series)
        codes = series.codes
        if series.states != self.states:
            place, other = {label: code for code, label in enumerate(self.states)}, len(self.states)
            table = np.array([*(place.get(label, other) for label in series.states), UNOBSERVED])
            codes = table[codes]
        return [int(value) * self.unit for value in self.of_codes(codes).ravel()]

    def __call__(self, entries: NDArray[Any]) -> Floats:
        place: dict[Any, int] = {str(label): x for x, label in enumerate(self.states)}
        place |= {label: x for x, label in enumerate(self.states)}
        place[None] = UNOBSERVED
        plain = [tuple(e) if isinstance(e, list) else e for e in entries.tolist()]
        other = len(self.states)
        codes = np.array([place[e] if e in place else place.get(str(e), other) for e in plain])
        values = self.of_codes(codes).ravel().tolist()
        return np.array([float(int(value) * self.unit) for value in values])
