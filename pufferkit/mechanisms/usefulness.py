"""Whether a release is useful: its noise compared with the answer, before any is drawn.

The range of an answer is public: shares lie between 0 and 1, counts between 0 and the number of
entries. An *average answer* is the value of a coordinate when nothing is known: an equal part of
the total for histograms, the middle of the range for single numbers. A quantile by a noisy choice
is judged by its rank, a number of entries. Noise *drowns* an answer if half its 95% interval is
more than half of an average one.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferkit.data.query import Query
from pufferkit.errors import DrownedAnswer
from pufferkit.shown import Shown, three_digits

if TYPE_CHECKING:
    from pufferkit.mechanisms.calibration import Calibration

DROWNED = 0.5
"""Half-widths above this share of an average answer drown it."""

LARGE_EPSILON = 10.0
"""A larger epsilon gives a warning."""

_LARGEST_EXPONENT = 700


def answer_range(query: Query) -> tuple[float, float] | None:
    """The least and largest value of a coordinate, in the unit of its noise, if known."""
    if query.chooses:
        return 0.0, float(sum(query.observed or query.lengths))
    return query.bounds


def average_answer(query: Query) -> float | None:
    """How far an average coordinate is above its least possible value."""
    bounds = answer_range(query)
    if bounds is None:
        return None
    if query.total is not None:
        return query.total / query.size
    return (bounds[1] - bounds[0]) / 2


@dataclass(frozen=True, repr=False)
class Usefulness(Shown):
    """How large the noise is compared with the answer.

    Attributes
    ----------
    what
        The noun for the coordinates: shares, counts, totals, means.
    half_width, level
        With this probability a coordinate is off by no more than this.
    average
        An average answer; ``None`` for queries whose range is unknown.
    bounds
        Least and largest answer, if known.
    mechanism, epsilon
        The mechanism and its epsilon.

    Examples
    --------
    >>> from pufferkit import MarkovChain, influence_curve, relative_frequencies
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = influence_curve(chain, relative_frequencies([0, 1], 1000), 1)
    >>> Usefulness.of(noise).drowned
    False
    >>> Usefulness.of(influence_curve(chain, relative_frequencies([0, 1], 10), 1)).drowned
    True
    """

    what: str
    half_width: float
    level: float
    average: float | None
    bounds: tuple[float, float] | None
    mechanism: str
    epsilon: float

    @classmethod
    def of(cls, calibration: Calibration, level: float = 0.95) -> Usefulness:
        """The noise of a calibration compared with the answer of its query."""
        query = calibration.query
        noun = "answers" if query.asks is None else query.asks.noun
        return cls(
            "ranks" if query.chooses else noun,
            calibration.half_width(level),
            level,
            average_answer(query),
            answer_range(query),
            calibration.mechanism,
            calibration.epsilon,
        )

    @property
    def relative(self) -> float | None:
        """The half-width as a share of an average answer."""
        return None if not self.average else self.half_width / self.average

    @property
    def drowned(self) -> bool:
        """Whether the noise drowns the answer; false if the range is unknown."""
        return self.relative is not None and self.relative > DROWNED

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "mechanism": self.mechanism,
            "half_width": self.half_width,
            "level": self.level,
            "average_answer": self.average,
            "answer_range": None if self.bounds is None else list(self.bounds),
            "relative_error": self.relative,
            "drowned": self.drowned,
        }

    def __str__(self) -> str:
        sure = f"{100 * self.level:g}%"
        text = f"{self.mechanism}: {sure} of {self.what} are within {self.half_width:.3g}"
        if self.bounds is None or self.average is None or self.relative is None:
            return text + "; the range of the answer is not known, so judge it yourself"
        low, high = self.bounds
        text += f" of the truth, which lies between {low:g} and {high:g}"
        text += f"; that is {_times(self.relative)} an average answer, {self.average:.4g}"
        return text if not self.drowned else f"{text}\n{self.warning}"

    @property
    def warning(self) -> str:
        """The warning about noise that drowns the answer."""
        part = "" if self.relative is None else f", {_times(self.relative)} an average answer"
        return (
            f"the noise drowns the answer: {100 * self.level:g}% of {self.what} are off by up "
            f"to {self.half_width:.3g}{part}"
        )


def warn_if_drowned(
    calibration: Calibration, *, anyway: bool, rows: str = "", stacklevel: int = 3
) -> None:
    """Warn that noise drowns an answer, before anything is charged or drawn.

    Parameters
    ----------
    calibration
        The noise to be judged.
    anyway
        Whether the release is meant all the same; then there is no warning.
    rows
        Which of many rows was judged, in words.
    stacklevel
        Frames from here to the call that the warning is about.
    """
    if anyway:
        return
    useful = Usefulness.of(calibration)
    if useful.drowned:
        message = f"{useful.warning}{rows}; anyway=True releases it without this warning"
        warnings.warn(DrownedAnswer(message, calibration), stacklevel=stacklevel)


def questioned(epsilon: float) -> str | None:
    """A warning about an epsilon that guarantees hardly anything; ``None`` for others."""
    if epsilon <= LARGE_EPSILON:
        return None
    factor = f"{math.exp(epsilon):,.3g}" if epsilon < _LARGEST_EXPONENT else "more than 1e304"
    return (
        f"epsilon {epsilon:g} lets a release multiply the odds of any two values of an entry by "
        f"{factor}; 0.1 to 3 are usual"
    )


def _times(part: float) -> str:
    """A share in per cent, without an exponent; in times where it is large.

    >>> _times(0.089), _times(0.01234), _times(1164.34)
    ('8.9% of', '1.2% of', '1,160 times')
    """
    if part > 2:
        return f"{three_digits(part)} times"
    return f"{100 * part:.0f}% of" if part >= 0.1 else f"{100 * part:.2g}% of"
