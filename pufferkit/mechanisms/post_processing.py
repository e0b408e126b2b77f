"""Post-processing of released numbers, at no cost: rates, stays, quantiles, curves.

Every function below takes a `Release` and never data, so it costs no
privacy. Intervals: the released numbers lie in their simultaneous intervals with probability at
least ``level``, and a derived number lies between its least and largest value over that box (and
over what is possible: counts are not negative). So each derived interval holds with at least that
probability, for all of them at once. It accounts for the noise only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.errors import printable
from pufferkit.noise import choice_scale
from pufferkit.shown import Shown, aligned, with_interval

if TYPE_CHECKING:
    from pufferkit.mechanisms.release import Release


@dataclass(frozen=True, repr=False)
class Derived(Shown):
    """Numbers derived from a release.

    Attributes
    ----------
    what, how
        What they are, and how values and intervals were computed.
    labels, value, low, high
        One for each number; an interval may be infinite if the release is uninformative.
    level
        With at least this probability all intervals hold at once.
    epsilon
        That of the release: post-processing adds nothing.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> release = pk.influence_curve(chain, pk.histogram([0, 1], 3000), 1).release([0, 0, 1] * 1000)
    >>> derived = release.derive("top states", count=1)
    >>> derived.labels, derived.epsilon
    (('0',), 1.0)
    """

    what: str
    labels: tuple[str, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    epsilon: float
    how: str

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each number: label, value, low and high."""
        rows = zip(self.labels, self.value, self.low, self.high, strict=True)
        return [dict(zip(("label", "value", "low", "high"), row, strict=True)) for row in rows]

    def caption(self) -> str:
        """What they are, and how they were computed."""
        return f"{self.what}, epsilon {self.epsilon:g} (of the release); {self.how}"

    def shown_rows(self) -> list[dict[str, Any]]:
        """Each number and its interval, with the digits that the noise leaves."""
        return [
            {"": label, "value": value, f"{self.level:.0%}": f"{low} to {high}"}
            for label, value, low, high in self._digits()
        ]

    def text_table(self) -> str:
        """The same as text."""
        each = (
            (label, f"{value:>10}   {self.level:.0%}: {low} to {high}")
            for label, value, low, high in self._digits()
        )
        return "\n".join(aligned(each))

    def _digits(self) -> list[tuple[str, str, str, str]]:
        rows = zip(self.labels, self.value, self.low, self.high, strict=True)
        return [(printable(label), *with_interval(*numbers)) for label, *numbers in rows]


def transition_rates(release: Release, level: float = 0.95) -> Derived:
    """Transition rates: rows of the transition counts divided by their sums.

    A rate n / (n + others) rises with n and falls with the others, so its interval has its ends at
    corners of the box.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(chain, pk.transition_counts([0, 1], 3000), 2)
    >>> rates = noise.release([0, 0, 1] * 1000).derive("rates")
    >>> 0.4 < rates.value[0] < 0.6
    True
    """
    size = round(len(release.labels) ** 0.5)
    if not _made_for(release, "rates"):
        raise ValueError(f"release: must be of transition counts, got {release.query}")
    raw = np.maximum(np.array(release.raw).reshape(size, size), 0.0)
    low, high = _box(release, level, 0.0)
    low, high = low.reshape(size, size), high.reshape(size, size)
    value = _share(raw, raw.sum(axis=1, keepdims=True) - raw)
    least = _share(low, high.sum(axis=1, keepdims=True) - high, 0.0)
    most = _share(high, low.sum(axis=1, keepdims=True) - low, 1.0)
    how = "rows of noisy counts divided by their sums, negative ones set to 0"
    ends = (value, least, np.maximum(most, value))
    return _derived(release, level, "transition rates", release.labels, ends, how)


def mean_stay(release: Release, level: float = 0.95) -> Derived:
    """The mean length of a stay, in entries: time in the states over the number of episodes.

    A stay has at least one entry, and no interval reaches below that.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(chain, pk.stays(1, 3000), 2)
    >>> stay = noise.release([0, 0, 1] * 1000).derive("mean stay")
    >>> 1 <= stay.low[0] <= stay.value[0] <= stay.high[0]
    True
    """
    if not _made_for(release, "mean stay"):
        raise ValueError(f"release: must be of stays, got {release.query}")
    low, high = _box(release, level, 0.0)
    entries, episodes = (max(float(v), 0.0) for v in release.raw)
    least = max(1.0, float(low[0] / high[1])) if high[1] > 0 else 1.0
    most = max(least, float(high[0] / low[1])) if low[1] > 0 else inf
    value = min(max(entries / max(episodes, 1.0), least), most)
    how = "noisy time over noisy episodes; the ends are ratios at the corners of their intervals"
    ends = (value, least, most)
    return _derived(release, level, "mean length of a stay", ("entries",), ends, how)


def variance(release: Release, low: float, high: float, level: float = 0.95) -> Derived:
    """The variance of clipped values, from their released moments: mean square minus squared mean.

    Parameters
    ----------
    release
        A release of `pufferkit.variance` with the same range.
    low, high
        The declared range.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> query = pk.variance({0: 0, 1: 1}, 5000, clip=(0, 1))
    >>> release = pk.influence_curve(chain, query, 2).release(chain.sample(5000, seed=1))
    >>> 0 <= release.derive().value[0] <= 0.25
    True
    """
    if not _made_for(release, "variance"):
        raise ValueError(f"release: must be of a variance, got {release.query}")
    half = (checks.real("high", high) - checks.real("low", low)) / 2
    (m_low, s_low), (m_high, s_high) = (np.clip(end, -1.0, 1.0) for end in _box(release, level))
    square = 0.0 if m_low <= 0 <= m_high else min(m_low**2, m_high**2)
    most = min(1.0, max(0.0, float(s_high) - square))
    least = max(0.0, float(s_low) - max(m_low**2, m_high**2))
    mean, second = release.raw
    value = min(max(second - mean**2, least), most)
    how = "mean square minus squared mean, over the box of both"
    ends = (value * half**2, least * half**2, most * half**2)
    return _derived(release, level, "variance", ("variance",), ends, how)


def cumulative(release: Release, level: float = 0.95) -> Derived:
    """The share of entries at or below each level, from a histogram in the order of levels.

    A sum over the first bins is also the total, which is public, minus the sum over the others; the
    tighter of the two is used, and the curve never decreases.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> release = pk.influence_curve(chain, pk.histogram([0, 1], 3000), 1).release([0, 0, 1] * 1000)
    >>> release.derive("cumulative").value[-1]
    1.0
    """
    values, low, high, total = _steps_of(release, level)
    how = "sums of the noisy histogram from either end, made monotone"
    ends = (values / total, low / total, high / total)
    return _derived(release, level, "cumulative distribution", release.labels, ends, how)


def quantile(
    release: Release,
    share: float,
    values: Sequence[float] | Mapping[str, float],
    level: float = 0.95,
) -> Derived:
    """The level below which this share of the entries lies: the noisy histogram inverted.

    The interval contains every level that the band of the cumulative distribution allows, so it has
    at least the probability of the band.

    Parameters
    ----------
    release
        A release of a histogram or of relative frequencies, its states in the order of the levels.
    share
        Between 0 and 1; 0.5 is the median.
    values
        The value of each level.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> release = pk.influence_curve(chain, pk.histogram([0, 1], 3000), 1).release([0, 0, 1] * 1000)
    >>> release.derive("quantile", share=0.5, values=[0, 1]).value
    (0.0,)
    """
    if not 0 < checks.real("share", share) < 1:
        raise ValueError(f"share: must lie between 0 and 1, got {share:g}; 0.5 is the median")
    numbers = _values(release, values)
    middle, low, high, total = _steps_of(release, level)
    at = share * total
    place = [int(np.searchsorted(curve, at * (1 - 1e-12))) for curve in (middle, high, low)]
    chosen = [numbers[min(n, len(numbers) - 1)] for n in place]
    how = "the noisy histogram inverted"
    return _derived(release, level, f"quantile {share:g}", (f"{share:g}",), chosen, how)


def load_duration(
    release: Release, values: Sequence[float] | Mapping[str, float], level: float = 0.95
) -> Derived:
    """For how many entries the load is at least each level: the load duration curve.

    It is the total minus the cumulative distribution, from the highest level down.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> release = pk.influence_curve(chain, pk.histogram([0, 1], 3000), 1).release([0, 0, 1] * 1000)
    >>> release.derive("load duration", values=[0, 1]).labels
    ('at least 0', 'at least 1')
    """
    numbers = _values(release, values)
    values_below, low, high, total = _steps_of(release, level)
    below = [np.concatenate([[0.0], curve[:-1]]) for curve in (values_below, high, low)]
    middle, least, most = (total - curve for curve in below)
    how = "the total minus the noisy cumulative distribution"
    ends = (middle, least, most)
    labels = tuple(f"at least {number:g}" for number in numbers)
    return _derived(release, level, "load duration", labels, ends, how)


def peak(
    release: Release, values: Sequence[float] | Mapping[str, float], level: float = 0.95
) -> Derived:
    """The highest level that certainly occurs, and the highest that may occur.

    A level certainly occurs if the interval of its bin lies above 0. The value and the lower end
    are the highest such level, the upper end the highest whose interval allows an entry.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> release = pk.influence_curve(chain, pk.histogram([0, 1], 3000), 1).release([0, 0, 1] * 1000)
    >>> release.derive("peak", values=[0, 1]).value
    (1.0,)
    """
    numbers = _values(release, values)
    low, high = _box(release, level, 0.0)
    sure, possible = np.flatnonzero(low > 0), np.flatnonzero(high > 0)
    least = numbers[sure[-1]] if len(sure) else numbers[0]
    most = numbers[possible[-1]] if len(possible) else least
    how = "the highest bin whose interval lies above 0"
    return _derived(release, level, "peak", ("peak",), (least, least, max(most, least)), how)


def top_states(release: Release, count: int, level: float = 0.95) -> Derived:
    """The states that occur most, by their noisy counts, each with its interval.

    If the intervals of a chosen state and another overlap, the choice may be due to the noise,
    which ``how`` states.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> release = pk.influence_curve(chain, pk.histogram([0, 1], 3000), 1).release([0, 0, 1] * 1000)
    >>> release.derive("top states", count=1).how
    'surely the most frequent'
    """
    if not _one_histogram(release):
        raise ValueError(f"release: must be a histogram over states, got {release.query}")
    count = checks.whole("count", count, 1)
    if count >= len(release.labels):
        raise ValueError(
            f"count: must be at most {len(release.labels)}, the number of states, got {count}"
        )
    low, high = _box(release, level, 0.0)
    order = np.argsort(-np.array(release.raw), kind="stable")
    inside, outside = order[:count], order[count:]
    sure = low[inside].min() >= high[outside].max()
    return _derived(
        release,
        level,
        f"top {count} states",
        tuple(release.labels[n] for n in inside),
        (np.maximum(np.array(release.raw)[inside], 0.0), low[inside], high[inside]),
        "surely the most frequent"
        if sure
        else "by noisy counts; intervals overlap, so others may be among them",
    )


DERIVED: dict[str, Callable[..., Derived]] = {
    "rates": transition_rates,
    "mean stay": mean_stay,
    "variance": variance,
    "cumulative": cumulative,
    "quantile": quantile,
    "load duration": load_duration,
    "peak": peak,
    "top states": top_states,
}
"""What `Release.derive` computes, by name."""


def derive(release: Release, what: str | None, *, level: float, **arguments: Any) -> Derived:
    """See `Release.derive`."""
    asked = dict((release.question or {}).get("derive") or {})
    meant = asked.pop("what", None)
    if what is None and meant is None:
        raise ValueError(
            f"what: nothing follows from {release.query} by itself; name one of "
            f"{', '.join(DERIVED)}"
        )
    if what not in (None, *DERIVED):
        raise ValueError(f"what: must be one of {', '.join(DERIVED)}, got {what!r}")
    given = {**(asked if what in (None, meant) else {}), **arguments}
    name = str(meant if what is None else what)
    if release.noise == "noisy choice":
        return _chosen(release, level)
    try:
        return DERIVED[name](release, level=level, **given)
    except TypeError as error:
        raise ValueError(f"what: {name} does not take these arguments; {error}") from None


def _chosen(release: Release, level: float) -> Derived:
    """The level that was chosen; only the error of its rank is bounded."""
    levels = (release.question or {})["levels"]
    ranks = rank_error(release.scale, len(levels), level)
    return Derived(
        release.query,
        (release.query.removeprefix("quantile "),),
        release.value,
        (float(levels[0]),),
        (float(levels[-1]),),
        level,
        release.epsilon,
        f"exponential mechanism; its rank is off by at most {ranks:.4g} entries; there is no "
        "interval of levels",
    )


def rank_error(scale: float, levels: int, level: float) -> float:
    """A bound on the error in ranks of a noisy choice among levels, with this probability.

    A level with error t is chosen only if its exponential noise is at least t, because some
    level has no error: P(error >= t) <= (levels - 1) e^{-t / s}, s the scale of the choice.
    """
    if not 0 < checks.real("level", level) < 1:
        raise ValueError(f"level: must lie between 0 and 1, got {level:g}; for example 0.95")
    return choice_scale(scale, levels) * max(0.0, log((levels - 1) / (1 - level)))


def _made_for(release: Release, what: str) -> bool:
    """Whether the question was asked to derive this from its release."""
    return bool(((release.question or {}).get("derive") or {}).get("what") == what)


def _one_histogram(release: Release) -> bool:
    """Whether this is a histogram over states, or their shares."""
    binned = release.asks is not None and release.asks.binned
    return binned and len(release.totals or ()) == 1 and "slots" not in (release.question or {})


def _box(release: Release, level: float, least: float = -inf) -> tuple[Floats, Floats]:
    """Ends of the simultaneous intervals of the noisy answer."""
    ends = np.array(release.as_drawn().interval(level, simultaneous=True))
    low, high = np.maximum(ends[:, 0], least), np.maximum(ends[:, 1], least)
    return low, high


def _steps_of(release: Release, level: float) -> tuple[Floats, Floats, Floats, float]:
    """Counts up to each bin and their band, all rising from 0 to the total."""
    if not _one_histogram(release) or release.total is None:
        raise ValueError(
            f"release: must be a histogram over levels in their order, got {release.query}"
        )
    total = release.total
    low, high = _box(release, level, 0.0)
    high = np.minimum(high, total)
    from_below = np.cumsum(low), np.cumsum(high)
    above = [np.cumsum(end[::-1])[::-1] - end for end in (low, high)]
    least = np.clip(np.maximum(from_below[0], total - above[1]), 0.0, total)
    most = np.clip(np.minimum(from_below[1], total - above[0]), 0.0, total)
    middle = np.cumsum(release.as_histogram().value)
    least = np.maximum.accumulate(least)
    most = np.minimum.accumulate(most[::-1])[::-1]
    most[-1], least[-1] = total, total
    # Noise that no histogram of this total explains puts the ends the wrong way round.
    least, most = np.minimum(least, most), np.maximum(least, most)
    middle = np.clip(middle, least, most)
    middle[-1] = total
    return middle, least, most, total


def _values(release: Release, values: Sequence[float] | Mapping[Any, float]) -> list[float]:
    """The value of each level, which must increase."""
    if isinstance(values, Mapping):
        by_name: dict[Hashable, float] = {str(state): value for state, value in values.items()}
        missing = [label for label in release.labels if label not in by_name]
        if missing:
            raise ValueError(
                f"values: have no value for {', '.join(missing)}; give one for each level"
            )
        numbers = [checks.real("values", by_name[label]) for label in release.labels]
    else:
        numbers = [checks.real("values", value) for value in values]
    if len(numbers) != len(release.labels):
        raise ValueError(
            f"values: must be one for each of {len(release.labels)} levels, got {len(numbers)}"
        )
    if any(b <= a for a, b in pairwise(numbers)):
        raise ValueError(
            "values: must increase from level to level; sort the states by their values"
        )
    return numbers


def _share(part: Floats, others: Floats, empty: float = 0.0) -> Floats:
    whole = part + others
    share: Floats = np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), empty)
    return share


def _derived(
    release: Release, level: float, what: str, labels: tuple[str, ...], ends: Any, how: str
) -> Derived:
    """Numbers from their values, lower and upper ends."""
    value, low, high = (tuple(float(number) for number in np.ravel(end)) for end in ends)
    return Derived(what, labels, value, low, high, level, release.epsilon, how)
