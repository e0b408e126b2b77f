"""Coded sequences of people, the input of the tests of models.

A person is an array of whole numbers, the states of the entries in time order, with `UNOBSERVED`
where nothing was observed. It may come with an array of slots: the time of day of every entry,
counted in entries from 0. Without it the first entry is taken to be in slot 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.data.series import UNOBSERVED

Codes = NDArray[np.intp]


def checked_people(people: Iterable[Any], states: int) -> list[Codes]:
    """The sequences as arrays of codes, or an error that names the person and the rule."""
    size = checks.whole("states", states, 1)
    coded = []
    for number, person in enumerate(people, 1):
        codes = np.asarray(person)
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or codes.size == 0:
            raise ValueError(
                f"people: sequence {number} must be a row of whole numbers, the states from 0; "
                "give one such row for each person"
            )
        if codes.min() < UNOBSERVED or codes.max() >= size:
            raise ValueError(
                f"people: sequence {number} has states from {codes.min()} to {codes.max()}; they "
                f"must lie between 0 and {size - 1}, or be {UNOBSERVED} where nothing was observed"
            )
        coded.append(codes.astype(np.intp))
    if not coded:
        raise ValueError("people: must hold at least one sequence, got none")
    return coded


def checked_slots(slots: Sequence[Any] | None, people: Sequence[Codes], day: int) -> list[Codes]:
    """The time of day of every entry, from 0 to ``day - 1``."""
    if slots is None:
        return [np.arange(len(person)) % day for person in people]
    times = [np.asarray(row) for row in slots]
    if [row.shape for row in times] != [person.shape for person in people]:
        raise ValueError("slots: must be one row for each person, as long as the person's sequence")
    for row in times:
        if row.dtype.kind not in "iu" or (row.size and not 0 <= row.min() <= row.max() < day):
            raise ValueError(f"slots: must be whole numbers from 0 to {day - 1}, the times of day")
    return [row.astype(np.intp) for row in times]
