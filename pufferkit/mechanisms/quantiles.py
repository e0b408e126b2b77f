"""Quantiles by two methods; which has the smaller error is known before the data are seen.

*The noisy histogram inverted* (`Release.derive`) comes with an interval of levels, and any
number of quantiles follow from one release. *The exponential mechanism* (`pufferkit.quantile`)
releases a level only; its noise does not add up over the levels, so with many of them its error is
smaller. Both cost the same event-level epsilon b: the histogram has noise of scale 2 / b, the
choice the least that costs b (`pufferkit.noise.choice_scale`): half of that with two levels, near
to it with many.

The error of a method is the share of the entries by which its level misses the quantile:
max(0, F_{j-1} - q n, q n - F_j) / n with F_j entries at or below level j. Its mean is taken over
noise drawn with a fixed seed, on data whose levels have the stationary distribution of the beliefs;
for several chains the largest mean counts. For beliefs without known chains all levels are taken as
equally frequent. No data are used, so the choice costs nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pufferkit.beliefs.base import Beliefs
from pufferkit.checks import Floats
from pufferkit.data.queries import Quantile
from pufferkit.data.query import Lengths, Query
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.mechanisms.post_processing import Derived
from pufferkit.mechanisms.release import Release, project_to_simplex
from pufferkit.mechanisms.usefulness import warn_if_drowned
from pufferkit.noise import choice_scale
from pufferkit.shown import Shown, aligned

QuantileMethod = Literal["noisy histogram inverted", "exponential mechanism"]
INVERTED: QuantileMethod = "noisy histogram inverted"
CHOSEN: QuantileMethod = "exponential mechanism"

_DRAWS, _MOST_CHAINS = 2000, 20  # mean errors to about 2%, in a tenth of a second


@dataclass(frozen=True, repr=False)
class QuantilePlan(Shown):
    """The better method to release a quantile.

    Attributes
    ----------
    calibration
        The calibration of the method with the smaller expected error. Release it, or give its
        ``query`` and ``epsilon`` to `release` with an account, and read the release with `answer`.
    way, errors, about
        The chosen method, the expected error of each as a share of the entries, and the
        distribution of levels for which it was computed.
    share, values
        Share of the quantile, and the value of each level.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["0 kW", "1 kW"])
    >>> plan = pk.plan_quantile(chain, 0.5, {"0 kW": 0, "1 kW": 1}, 5000, epsilon=1)
    >>> data = [chain.states[code] for code in chain.sample(5000, seed=1)]
    >>> plan.release(data).value
    (0.0,)
    >>> plan.answer(plan.calibration.release(data)).value
    (0.0,)
    """

    calibration: Calibration
    way: QuantileMethod
    errors: Mapping[QuantileMethod, float]
    about: str
    share: float
    values: Mapping[Any, float]

    @property
    def query(self) -> Query:
        """The query for `release`."""
        return self.calibration.query

    def release(self, series: Any, *, anyway: bool = False) -> Derived:
        """The quantile of the data with noise. Every call draws fresh noise and spends epsilon.

        Noise that drowns the answer gives a warning (`DrownedAnswer`), unless ``anyway``.
        """
        warn_if_drowned(self.calibration, anyway=anyway)
        return self.answer(self.calibration.release(series, anyway=True))

    def answer(self, release: Release, level: float = 0.95) -> Derived:
        """The quantile in a release of ``query``; post-processing, so free."""
        if release.query != self.query.name or release.kind != self.query.kind:
            raise ValueError(f"release: must be of {self.query.name}, got {release.query}")
        return release.derive("quantile", level=level, share=self.share, values=self.values)

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each method."""
        return [
            {"way": way, "expected_error": error, "taken": way == self.way}
            for way, error in self.errors.items()
        ]

    def caption(self) -> str:
        """The method, and the data for which the two were compared."""
        head = f"quantile {self.share:g} by {self.way}, epsilon {self.calibration.epsilon:g}"
        return f"{head}; expected error ({self.about}):"

    def text_table(self) -> str:
        """The expected error of each method."""
        shown = aligned((way, f"{error:.2%} of the entries") for way, error in self.errors.items())
        return "\n".join(shown)


def plan_quantile(
    beliefs: Any, share: float, values: Mapping[Any, float], lengths: Lengths, epsilon: float
) -> QuantilePlan:
    """The method to release a quantile with the smaller expected error, with its noise.

    Parameters
    ----------
    beliefs
        As for `influence_curve`.
    share, values, lengths
        As for `pufferkit.quantile`.
    epsilon
        Pufferfish privacy for each entry.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> pk.plan_quantile(chain, 0.9, {0: 0, 1: 1}, 1000, epsilon=1).way
    'noisy histogram inverted'
    """
    asked = Quantile(share, values)
    by_choice = influence_curve(beliefs, asked, epsilon, lengths)
    theta, chosen, part = by_choice.beliefs, by_choice.query, float(asked.share)
    assert theta is not None
    entries = sum(chosen.observed or chosen.lengths)
    way, errors, about = better_way(theta, tuple(asked.levels), part, entries, by_choice.scale)
    calibration = by_choice
    if way == INVERTED:
        calibration = influence_curve(beliefs, asked.in_numbers(), epsilon, lengths)
    return QuantilePlan(calibration, way, errors, about, part, dict(values))


def better_way(
    theta: Beliefs, states: Sequence[Hashable], share: float, entries: int, scale: float
) -> tuple[QuantileMethod, dict[QuantileMethod, float], str]:
    """The method with the smaller expected error, the error of each, and the assumed levels.

    ``states`` are in the order of their values; there are ``entries`` of them in the data, and
    both methods have noise of this scale.
    """
    shares, about = _levels(theta, states)
    each = [expected_errors(own, share, entries, scale) for own in shares]
    errors: dict[QuantileMethod, float] = {
        INVERTED: max(inverted for inverted, _ in each),
        CHOSEN: max(by_choice for _, by_choice in each),
    }
    return CHOSEN if errors[CHOSEN] < errors[INVERTED] else INVERTED, errors, about


def expected_errors(
    shares: Floats, share: float, entries: int, scale: float
) -> tuple[float, float]:
    """The mean error of the histogram inverted and of the exponential mechanism, as shares.

    Parameters
    ----------
    shares
        Share of each level, in their order.
    share
        Share of the quantile.
    entries, scale
        Number of entries, and scale of the noise of the histogram.
    """
    rng = np.random.default_rng(0)
    counts, wanted, size = shares * entries, share * entries, (_DRAWS, len(shares))
    upto = np.cumsum(counts)
    misses = np.maximum(0.0, np.maximum(upto - counts - wanted, wanted - upto))
    kept = -np.expm1(-1 / scale)
    noise = rng.geometric(kept, size) - rng.geometric(kept, size)
    noisy = np.cumsum(project_to_simplex(counts + noise, np.full(_DRAWS, float(entries))), axis=1)
    places = np.minimum((noisy < wanted * (1 - 1e-12)).sum(axis=1), len(shares) - 1)
    ranks = choice_scale(scale, len(shares))
    choices = np.argmax(rng.exponential(ranks, size) - misses, axis=1)
    return float(misses[places].mean()) / entries, float(misses[choices].mean()) / entries


def _levels(theta: Beliefs, states: Sequence[Hashable]) -> tuple[list[Floats], str]:
    """The shares of the levels under the beliefs, in this order, and a description."""
    order = [theta.states.index(state) for state in states]
    members = theta.named_members
    if not members:
        return [np.full(len(states), 1 / len(states))], "all levels equally often"
    return (
        [np.asarray(member.chain.stationary)[order] for member in members[:_MOST_CHAINS]],
        "levels as often as in the stationary distribution of the beliefs",
    )
