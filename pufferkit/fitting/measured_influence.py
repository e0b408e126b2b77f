"""The influence of one entry, in entries, measured on a series.

Learning X_i = x instead of x' changes the expected histogram h by

    N(x, x') = 1/2 || E[h | X_i = x] - E[h | X_i = x'] ||_1   entries.

Laplace noise of scale s on a histogram loses at least 2 N / s (1 + o(1)) as s grows, whatever the
belief: take an output beyond the range of h in the direction of the signs of the difference. So a
class of beliefs must budget for N, which data can test.

Here E[h | X_i = x] is the mean histogram of the ``window`` entries on either side of the visits to
x. Days are taken as the units that vary: the point estimate subtracts the bias that drawing days
again shows, and the standard error is the jackknife's over days. The largest of many noisy
differences is too large, so the lower limit is cross-fitted: pair and signs v are chosen on half of
the days, and v . (m_x - m_x') / 2 on the other half estimates at most N, because |v_j| <= 1.

A decision about a class compares like with like: series drawn from the class, of the same lengths,
measured in the same way (`pufferkit.fitting.check_model.influence_check`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.fitting.people import Codes, checked_people

VISITS = 50
"""A state is compared if the windows around it are more than this many."""

_DAYS = 3
"""A state must be visited on this many days; one day carries no information about variation."""

_BOOTSTRAPS = 1000


@dataclass(frozen=True)
class MeasuredInfluence:
    """The number of entries by which the expected histogram changes when one entry is learned."""

    window: int
    """Entries on either side that count."""
    days: int
    """How many days there were."""
    plug_in: float
    """Largest difference of mean histograms; what simulated series are compared with."""
    point: float
    """The same without the bias that drawn days show, 2 N - mean of the bootstrap."""
    cross_fit: float
    error: float
    lower: float
    """Estimate from pair and signs of other days, its standard error over days, and the limit that
    N exceeds with the confidence asked for."""
    pair: tuple[int, int]
    """The two states that differ most."""


class TooFewWindows(NotApplicable):
    """There are too few windows to measure influence; ``more_data`` times these would do."""

    def __init__(self, message: str, more_data: float | None) -> None:
        super().__init__(message)
        self.more_data = more_data


@dataclass(frozen=True, eq=False)
class _DaySums:
    """For every day and state: the visits, and the histograms around them added up."""

    visits: Floats
    sums: Floats
    kept: NDArray[np.bool_]

    def more_data(self, visits: int) -> float | None:
        """How many times the data would show a second state often enough; ``None`` if never."""
        windows = np.sort(self.visits.sum(axis=0))[::-1]
        if len(windows) < 2 or windows[1] == 0:
            return None
        days = int((self.visits[:, np.argsort(self.visits.sum(axis=0))[-2]] > 0).sum())
        return float(max((visits + 1) / windows[1], _DAYS / max(days, 1), 1.0))

    def means(self, weights: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Mean histogram around each state with these weights of the days; which are known."""
        visits = weights @ self.visits
        sums = np.tensordot(weights, self.sums, 1)
        return sums / np.maximum(visits, 1e-9)[..., None], self.kept & (visits > 0)

    def largest(self, weights: Floats) -> tuple[float, int, int, Floats]:
        """The largest N, its pair, and the signed differences of that pair."""
        means, known = self.means(weights)
        pairs = _differences(means, known)
        x, y = np.unravel_index(int(pairs.argmax()), pairs.shape)
        return float(pairs[x, y]), int(x), int(y), (means[x] - means[y]) / 2


def measured_influence(
    sequences: Sequence[Any],
    states: int,
    window: int,
    day: int,
    *,
    confidence: float = 0.95,
    visits: int = VISITS,
    seed: int = 0,
) -> MeasuredInfluence:
    """N of one subject's sequences, with limits.

    Theorem: CLASSES Theorem 0. Whatever the belief, Laplace noise on a histogram that is private
    for it has a scale of at least 2 N / epsilon (1 + o(1)) as epsilon falls.

    Parameters
    ----------
    sequences
        Arrays of codes of one subject, -1 where nothing was observed. Several are pooled: for
        several people that is what someone learns who does not know whose series it is.
    states
        How many states there are.
    window
        Entries on either side of a visit. Only whole windows count; entries not observed are
        replaced by the mean of their window, and windows less than half observed are left out.
    day
        Entries in a day, or in whatever block is taken to vary from one to the next.
    confidence
        Of the lower limit.
    visits
        A state is compared if it has more visits than this, on three days at least.
    seed
        Of the days drawn for the bias.

    Raises
    ------
    NotApplicable
        With fewer than two days or fewer than two states that are visited often enough.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.1, 0.9]])
    >>> round(measured_influence([chain.sample(50_000, seed=1)], 2, 40, 500).point)  # 9 exactly
    9
    """
    coded = checked_people(sequences, states)
    width, length = checks.whole("window", window, 1), checks.whole("day", day, 1)
    summed = _summed(coded, states, width, length, visits)
    total = len(summed.visits)
    if total < 2 or summed.kept.sum() < 2:
        raise TooFewWindows(
            f"influence: needs two days of {length} entries and two states with more than {visits} "
            f"whole windows of {width} entries on either side; there are {total} days and "
            f"{int(summed.kept.sum())} states: give more data, or a shorter window",
            summed.more_data(visits),
        )
    everything = np.ones(total)
    plug_in, x, y, difference = summed.largest(everything)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(total, everything / total, size=_BOOTSTRAPS).astype(float)
    mean = float(_differences(*summed.means(drawn)).max(axis=(1, 2)).mean())
    cross_fit = _cross_fit(summed)
    error = _jackknife(summed, x, y, np.sign(difference))
    below = NormalDist().inv_cdf(checks.real("confidence", confidence)) * error
    return MeasuredInfluence(
        width,
        total,
        plug_in,
        max(2 * plug_in - mean, 0.0),
        cross_fit,
        error,
        max(cross_fit - below, 0.0),
        (x, y),
    )


def plug_in_influence(
    sequences: Sequence[Any], states: int, window: int, day: int, visits: int = VISITS
) -> float:
    """The largest difference of mean histograms, in entries; 0 with too few visits to compare."""
    summed = _summed(checked_people(sequences, states), states, window, day, visits)
    return summed.largest(np.ones(len(summed.visits)))[0]


def as_observed(people: Sequence[Any], data: Sequence[Codes]) -> list[Codes]:
    """Simulated sequences without the entries that the data lack."""
    if [len(person) for person in people] != [len(person) for person in data]:
        raise ValueError("people: must be as long as the data")
    return [np.where(own < 0, own, other) for other, own in zip(people, data, strict=True)]


def _summed(people: Sequence[Codes], states: int, window: int, day: int, visits: int) -> _DaySums:
    """Visits and histograms by day, one state at a time so that memory grows with length only."""
    blocks = sum((len(person) - 1) // day + 1 for person in people)
    number, sums = np.zeros((blocks, states)), np.zeros((blocks, states, states))
    first = 0
    for person in people:
        own = (len(person) - 1) // day + 1
        centre = np.arange(window, len(person) - window)
        seen = _window_sums(person >= 0, window)
        usable = (person[window : len(person) - window] >= 0) & (2 * seen > 2 * window + 1)
        every = bool(usable.all()) and seen.min(initial=2 * window + 1) == 2 * window + 1
        if not every:
            centre, seen = centre[usable], seen[usable]
        cell = (centre // day) * states + person[centre]
        number[first : first + own] += _by_cell(cell, None, own, states)
        for state in range(states):
            inside = _window_sums(person == state, window)
            if not every:
                inside = inside[usable] * ((2 * window + 1) / seen)
            sums[first : first + own, :, state] = _by_cell(cell, inside, own, states)
        first += own
    used = number.sum(axis=1) > 0
    number, sums = number[used], sums[used]
    often = number.sum(axis=0) > visits
    kept = often & ((number > 0).sum(axis=0) >= min(_DAYS, len(number)))
    return _DaySums(number, sums, kept)


def _window_sums(marks: NDArray[np.bool_], window: int) -> NDArray[Any]:
    """How many marks lie within a window around each entry that has a whole one."""
    upto, width = np.zeros(len(marks) + 1, dtype=np.int32), 2 * window + 1
    np.cumsum(marks, out=upto[1:])
    sums: NDArray[Any] = upto[width:] - upto[:-width]
    return sums


def _by_cell(cell: NDArray[Any], weights: NDArray[Any] | None, days: int, states: int) -> Floats:
    return np.bincount(cell, weights, minlength=days * states).reshape(days, states).astype(float)


def _differences(means: Floats, known: NDArray[np.bool_]) -> Floats:
    """N of every pair of known states; several tables of means at once come first."""
    states = range(means.shape[-1])
    apart = [np.abs(means[..., [x], :] - means).sum(axis=-1) / 2 for x in states]
    return np.stack(apart, axis=-2) * (known[..., None] & known[..., None, :])


def _cross_fit(summed: _DaySums) -> float:
    """Pair and signs from every other day, the value from the days between; mean of both ways.

    Theorem: ENGINE Lemma D. Each value estimates at most N, because no sign is larger than 1.
    """
    odd = np.arange(len(summed.visits)) % 2 == 1
    values = []
    for chosen in (odd, ~odd):
        means, known = summed.means(chosen.astype(float))
        others, also = summed.means((~chosen).astype(float))
        pairs = _differences(means, known & also)
        x, y = np.unravel_index(int(pairs.argmax()), pairs.shape)
        values.append(float(np.sign(means[x] - means[y]) @ (others[x] - others[y])) / 2)
    return float(np.mean(values))


def _jackknife(summed: _DaySums, x: int, y: int, signs: Floats) -> float:
    """Standard error over days of the signed difference of one pair."""
    visits = summed.visits.sum(axis=0) - summed.visits
    sums = summed.sums.sum(axis=0) - summed.sums
    means = [sums[:, z] / np.maximum(visits[:, z], 1e-9)[:, None] for z in (x, y)]
    values = (means[0] - means[1]) @ signs / 2
    total = len(values)
    return float(np.sqrt((total - 1) / total * np.sum((values - values.mean()) ** 2)))
