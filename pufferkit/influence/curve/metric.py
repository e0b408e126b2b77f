"""Distances between states for a release, and the cost of entries by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.data.queries import CLOSE
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.sweep import (
    Run,
)
from pufferkit.rounding import EPS


@dataclass(frozen=True, eq=False)
class Metric:
    """Distances between states for a release, relative to the two that are furthest apart.

    An entry of event-level epsilon b moves the log-likelihood by at most ``b distance(x, x')`` when
    x is replaced by x'.
    """

    distance: Floats

    @classmethod
    def discrete(cls, size: int) -> Metric:
        """All states at distance 1: valid for anything with event-level epsilon b."""
        return cls(off_diagonal(size))

    @classmethod
    def of(cls, contributions: Sequence[float | tuple[float, ...]]) -> Metric:
        """The metric of a noisy sum, from the contributions of the states: numbers or rows of them.

        It is the L1 distance, scaled so that the largest is 1. States that contribute
        almost the same keep a small distance, for the rounding of answers.
        """
        values = np.array(contributions).reshape(len(contributions), -1)
        distance = np.abs(values[:, None, :] - values[None, :, :]).sum(axis=2)
        room = values.shape[1] * EPS
        apart = np.clip(distance * (1 + 16 * EPS + room) + 4 * room, CLOSE, 1.0)
        return cls(np.where(distance > 0, apart, 0.0))


def as_metric(metric: Metric | Floats | None, size: int) -> Metric:
    """A metric over ``size`` states, scaled to a largest distance of 1; discrete by default."""
    if metric is None or size == 1:  # one state: nothing to hide
        return Metric.discrete(size)
    distance = metric.distance if isinstance(metric, Metric) else checks.numbers("metric", metric)
    if distance.shape != (size, size):
        raise ValueError(
            f"metric: must have a row and a column for each of {size} states, got shape "
            f"{distance.shape}"
        )
    if distance.min() < 0 or distance.diagonal().any() or distance.max() <= 0:
        raise ValueError(
            "metric: must have zeros on the diagonal, no negative and some positive entry"
        )
    return Metric(distance / distance.max())


@dataclass(frozen=True, eq=False)
class PairRun:
    """``count`` consecutive entries, and the cost of replacing a state by another there."""

    count: int
    cost: Floats

    @property
    def scalar(self) -> Run:
        """The same with one number, the largest cost of a pair."""
        return Run(self.count, float(self.cost.max()))
