"""Unbiased estimates from sanitised answers: counts and transitions of the true series.

Let M be the emission matrix and V its inverse. Given the true series, answers are independent, and
the mean of V(z_t, y) is 1 if x_t = y and 0 otherwise. So sums of V(z_t, y) estimate how often y
occurred, and sums of V(z_t, y) V(z_{t+1}, y') how often y' followed y (the inverse of the Kronecker
product of M with itself), both without bias.

Variances are estimated without bias too, from counts of single answers, pairs and triples: answers
are independent, and neighbouring pairs share one. Intervals speak of the noise alone, given the
true series, as those of a `Release` do.

Flips that are a chain (`CorrelatedResponse`) are each as likely as the others, so counts are
estimated by the same V, and pairs by the inverse of the matrix of two neighbouring answers. With
correlation m of neighbouring flips, no functions of two stretches of flips that are d entries apart
correlate by more than |m|^d. So the variance of a sum over entries is at most
(1 + |m|) / (1 - |m|) times the sum of the variances, and of a sum over pairs, neighbours of which
share a flip, at most 2 + (1 + |m|) / (1 - |m|) times. Hoeffding's inequality holds with the first
of these factors for the variance (Fan, Jiang and Sun 2021).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.local.responses import Response
from pufferkit.local.sanitizing import coded
from pufferkit.shown import aligned


@dataclass(frozen=True, eq=False)
class Estimates:
    """Unbiased estimates from sanitised answers, each with half the width of its interval.

    Attributes
    ----------
    states, length, level
        Of what, from how many answers, at which confidence (for each number on its own).
    counts, counts_error
        How often each state occurred.
    transitions, transitions_error
        How often each state (row) was followed by each (column), within segments.
    """

    states: tuple[Hashable, ...]
    length: int
    level: float
    counts: Floats
    counts_error: Floats
    transitions: Floats
    transitions_error: Floats

    @property
    def frequencies(self) -> Floats:
        """Share of each state. They sum to one; single ones may be negative or above one."""
        shares: Floats = self.counts / self.length
        return shares

    @property
    def frequencies_error(self) -> Floats:
        """Half the width of the intervals of ``frequencies``."""
        widths: Floats = self.counts_error / self.length
        return widths

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "states": list(self.states),
            "length": self.length,
            "level": self.level,
            "frequencies": self.frequencies.tolist(),
            "frequencies_error": self.frequencies_error.tolist(),
            "transitions": self.transitions.tolist(),
            "transitions_error": self.transitions_error.tolist(),
        }

    def __str__(self) -> str:
        shares = zip(self.frequencies, self.frequencies_error, strict=True)
        each = (f"{share:.4f} +- {error:.4f}" for share, error in shares)
        rows = aligned(zip(map(str, self.states), each, strict=True))
        return "\n".join([f"{self.length} answers, {self.level:.0%} intervals", *rows])


def estimate(
    answers: Any, mechanism: Response, level: float = 0.95, *, guaranteed: bool = False
) -> Estimates:
    """Frequencies and transition counts of the true series, from its sanitised answers.

    Post-processing, so it costs no privacy.

    Parameters
    ----------
    answers
        What `sanitize` returned (not an iterator).
    mechanism
        The mechanism that sanitised.
    level
        Confidence of each interval.
    guaranteed
        Intervals by Hoeffding's inequality, which hold for any length, in place of the usual ones
        by the central limit theorem, which want a few hundred answers.
    """
    level = checks.real("level", level)
    if not 0 < level < 1:
        raise ValueError(f"level: must lie between 0 and 1, got {level:g}; for example 0.95")
    codes, lengths = _codes(answers, mechanism)
    matrix = mechanism.matrix
    if np.linalg.cond(matrix) > 1e12:
        raise ValueError("mechanism: its answers carry no information, so there is no estimate")
    inverse: Floats = np.linalg.inv(matrix).astype(np.float64)
    size = len(matrix)
    singles, pairs, triples = _tables(codes, lengths, size)
    counts = singles @ inverse
    spread = (1 + abs(mechanism.memory)) / (1 - abs(mechanism.memory))
    both = np.linalg.inv(mechanism.pair_matrix) if mechanism.memory else np.kron(inverse, inverse)
    transitions = (pairs.ravel() @ both).reshape(size, size)
    if guaranteed:
        reach = sqrt(log(2 / (1 - level)) / 2 * spread)
        width = inverse.max(axis=0) - inverse.min(axis=0)
        counts_error = reach * width * sqrt(singles.sum())
        # Pairs that share no answer are independent: two such sets, half the risk each.
        wide = (both.max(axis=0) - both.min(axis=0)).reshape(size, size)
        halves = (
            sqrt(log(4 / (1 - level)) / 2 * spread) * 2 * sqrt((pairs.sum() + len(lengths)) / 2)
        )
        transitions_error = halves * wide
    else:
        reach = NormalDist().inv_cdf((1 + level) / 2)
        counts_error = reach * np.sqrt(_count_variance(singles, inverse, counts) * spread)
        if mechanism.memory:
            own = np.maximum(pairs.ravel() @ both**2 - transitions.ravel(), 0.0) * (2 + spread)
            pair_variance = own.reshape(size, size)
        else:
            pair_variance = _pair_variance(pairs, triples, inverse, transitions)
        transitions_error = reach * np.sqrt(pair_variance)
    return Estimates(
        mechanism.states,
        len(codes),
        level,
        counts,
        counts_error,
        transitions,
        transitions_error,
    )


def _codes(answers: Any, mechanism: Response) -> tuple[NDArray[Any], tuple[int, ...]]:
    if isinstance(answers, np.ndarray):
        if answers.ndim != 1 or answers.size == 0:
            raise ValueError(f"answers: must be one row of states, got shape {answers.shape}")
        return coded(answers, mechanism.states), (len(answers),)
    series = answers if isinstance(answers, Series) else Series.of(answers, mechanism.states)
    if series.states != mechanism.states:
        raise ValueError(
            f"answers: have states {list(series.states)}, the mechanism {list(mechanism.states)}"
        )
    parts = series.stretches
    return np.concatenate(parts), tuple(len(part) for part in parts)


def _tables(
    codes: NDArray[Any], lengths: tuple[int, ...], size: int
) -> tuple[Floats, Floats, Floats]:
    """How often each answer, each pair and each triple of neighbours occurred."""
    singles = np.bincount(codes, minlength=size).astype(float)
    pairs, triples = np.zeros(size**2), np.zeros(size**3)
    start = 0
    for length in lengths:
        part = codes[start : start + length].astype(np.intp)
        start += length
        two = part[:-1] * size + part[1:]
        pairs += np.bincount(two, minlength=size**2)
        if length > 2:
            triples += np.bincount(two[:-1] * size + part[2:], minlength=size**3)
    return singles, pairs.reshape(size, size), triples.reshape(size, size, size)


def _count_variance(singles: Floats, inverse: Floats, counts: Floats) -> Floats:
    """The sum of V(z)^2 - V(z), whose mean is the variance: the mean of V(z) is 0 or 1."""
    variance: Floats = np.maximum(singles @ inverse**2 - counts, 0.0)
    return variance


def _pair_variance(pairs: Floats, triples: Floats, inverse: Floats, transitions: Floats) -> Floats:
    """Variance of each pair sum: its own terms, and twice those that share an answer.

    For t_i = V(z_i, y) V(z_{i+1}, y'), the covariance of t_i and t_{i+1} has the unbiased estimate
    V(z_i, y) [V(z_{i+1}, y') V(z_{i+1}, y) - 1{y = y'} V(z_{i+1}, y)] V(z_{i+2}, y').
    """
    own = (inverse**2).T @ pairs @ inverse**2 - transitions
    middle = inverse[:, :, None] * inverse[:, None, :]
    size = len(inverse)
    places = np.arange(size)
    middle[:, places, places] -= inverse
    shared = np.einsum("abc,ay,byw,cw->yw", triples, inverse, middle, inverse, optimize=True)
    variance: Floats = np.maximum(own + 2 * shared, 0.0)
    return variance
