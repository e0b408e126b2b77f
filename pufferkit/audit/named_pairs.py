"""Secrets that a release was given: pairs of events, about any entries, which an audit tells apart.

`wasserstein` records for each pair what its two events are: entries and the values that each may
have, or rows of a joint distribution. Nothing else was promised, so nothing else is attacked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Beliefs, Distribution
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.checks import Bools
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.evidence import Guarantee

ValueLabels = Sequence[Sequence[Hashable]]
"""For each entry the labels of its codes."""


@dataclass(frozen=True, eq=False)
class NamedPairs(Distribution):
    """A distribution of which only pairs of events are hidden, as a release records them."""

    pairs: Any = ()

    @property
    def of_entries(self) -> bool:
        return False

    def rows(self, codes: NDArray[np.uint16], labels: ValueLabels) -> list[tuple[Bools, Bools]]:
        """For each pair, which of the listed data are in its first and in its second event."""
        return [
            (self._event(one, codes, labels), self._event(other, codes, labels))
            for one, other in self.pairs
        ]

    def _event(self, event: Any, codes: NDArray[np.uint16], labels: ValueLabels) -> Bools:
        if isinstance(self.distribution, FiniteJoint):
            listed = [n for n, p in enumerate(self.distribution.table.values()) if p > 0]
            return np.isin(listed, event)
        inside = np.ones(len(codes), dtype=bool)
        for entry, allowed in event:
            if isinstance(self.distribution, BayesianNetwork):
                place = self.distribution.nodes.index(entry)
                chosen = [n for n, label in enumerate(labels[place]) if label in allowed]
            else:  # entries of chains are counted from 1, and states by their places
                place, chosen = entry - 1, allowed
            inside &= np.isin(codes[:, place], chosen)
        return inside


def distributions_of(theta: Beliefs, calibration: Calibration) -> list[Distribution]:
    """The distributions of a class, with the secrets that were promised to be hidden."""
    each = theta.distributions()
    if calibration.guarantee != Guarantee.SECRETS:
        return each
    record = (calibration.verification_data or {}).get("secrets")
    if record is None:
        raise NotApplicable("this release does not say which events it hides; calibrate it again")
    by_joint = isinstance(each[0].distribution, FiniteJoint)
    if by_joint and len(record) != len(each):
        raise NotApplicable("its secrets are rows of other beliefs; audit it against its own")
    return [
        NamedPairs(
            own.name, own.distribution, own.complete, pairs=record[n] if by_joint else record
        )
        for n, own in enumerate(each)
    ]
