"""Temporal privacy leakage (Cao, Yoshikawa, Xiao, Xiong, 2017, 2019), for comparison.

At every time t something about X_t is released that is eps_t-private for a change of X_t only. An
adversary knows the chain, and everything about all other people, but no entry of X. The loss of X_t
by all releases up to t is the backward leakage, that by the releases from t on the forward leakage:

    B_t = L(backward kernel; B_{t-1}) + eps_t,   F_t = L(forward kernel; F_{t+1}) + eps_t,
    TPL_t = B_t + F_t - eps_t,

with L(K; a) the largest log-ratio of q.x / d.x over two rows q, d of K and vectors x in [1, e^a].
At the best x the entries of e^a are those with the largest q_j / d_j, so a sort finds it.

L is the step of the scalar influence curve, so the leakage is that curve without its jumps over
blocks and without distinguishing pairs of states: `influence_curve` never needs more noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from papers.result import Baseline
from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.steps import KnownRows
from pufferkit.influence.kernels import Kernel
from pufferkit.mechanisms.calibration import chains_only, check_states
from pufferkit.rounding import last_passing, round_up

_LONG = 2_000
"""For longer series the leakage is replaced by its supremum over all lengths."""


@dataclass(frozen=True, eq=False)
class TemporalLeakage:
    """The leakage of the entry of each time by the releases of all times.

    Attributes
    ----------
    epsilons
        Event-level epsilon of the release of each time.
    backward, forward
        Leakage by the releases up to each time, and by those from it on.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> leakage = temporal_leakage(chain, [0.1] * 10)
    >>> leakage.backward.round(3).tolist()[:3]
    [0.1, 0.16, 0.196]
    >>> round(leakage.largest, 3)
    0.368
    """

    epsilons: Floats
    backward: Floats
    forward: Floats

    @property
    def total(self) -> Floats:
        """The leakage of each entry by all releases; that of its own time is in both parts."""
        return self.backward + self.forward - self.epsilons

    @property
    def largest(self) -> float:
        """The leakage of the entry that loses most."""
        return float(self.total.max()) * (1 + 1e-12)


def temporal_leakage(chain: MarkovChain, epsilons: ArrayLike) -> TemporalLeakage:
    """The leakage at each time, if every time has a release with an event-level epsilon.

    It holds for each entry of one series, against adversaries who know this chain and all other
    series, but no entry of this one. It does not cover adversaries who know entries or have other
    beliefs about the chain, series that depend on one another, or a whole series at once.

    Parameters
    ----------
    chain
        The belief; its initial distribution is that of the first entry.
    epsilons
        Event-level epsilon of the release of each time, from the first on; 0 where there is none.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> temporal_leakage(chain, [1, 0, 1]).total.round(3).tolist()
    [1.336, 1.139, 1.336]
    """
    spent = checks.numbers("epsilons", epsilons)
    if spent.ndim != 1 or not spent.size or spent.min() < 0 or not spent.max() < inf:
        raise ValueError("epsilons: must be one row of numbers of at least 0, one for each time")
    earlier, later = _steps(chain, len(spent))
    backward, forward = spent.copy(), spent.copy()
    for t in range(1, len(spent)):
        backward[t] += earlier[t - 1].largest(backward[t - 1])
    for t in range(len(spent) - 2, -1, -1):
        forward[t] += later[t].largest(forward[t + 1])
    return TemporalLeakage(spent, backward, forward)


def leakage_limit(chain: MarkovChain, epsilon: float) -> float:
    """The supremum of the leakage over all lengths, if every time has a release of this epsilon.

    Infinite if it grows without bound. For chains with a stationary start.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> round(leakage_limit(MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]]), 0.1), 3)
    0.398
    >>> leakage_limit(MarkovChain.steady([[0, 1], [1, 0]]), 0.1)
    inf
    """
    epsilon = checks.privacy(epsilon)
    if not chain.is_stationary:
        raise NotApplicable("the leakage over all time needs a stationary start; give a length")
    (backward, *_), (forward, *_) = _steps(chain, 2)
    return (_fixed_point(backward, epsilon) + _fixed_point(forward, epsilon) - epsilon) * (
        1 + 1e-12
    )


def step_epsilon(chain: MarkovChain, leakage: float, length: int | None = None) -> float:
    """The largest event-level epsilon of a release at every time for a given leakage.

    Parameters
    ----------
    chain
        The belief.
    leakage
        Total loss allowed for each entry.
    length
        Number of times; unlimited if left out.

    Examples
    --------
    >>> from pufferkit import MarkovChain, entry_epsilon
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> round(step_epsilon(chain, 1, length=1000), 3)
    0.3
    >>> three = MarkovChain.steady([[0.8, 0.2, 0], [0.1, 0.8, 0.1], [0, 0.2, 0.8]])
    >>> round(step_epsilon(three, 1, length=1000), 4), round(entry_epsilon(three, 1000, 1), 4)
    (0.0876, 0.1006)
    """
    leakage = checks.privacy(leakage)
    times = None if length is None else checks.whole("length", length, 1)
    if times is not None and times > _LONG and chain.is_stationary:
        times = None  # no length exceeds the supremum
    if times is not None and times > _LONG**2:
        raise NotApplicable(f"the leakage over {times:,} times needs a stationary start")

    def margin(epsilon: float) -> float:
        if times is None:
            return leakage - leakage_limit(chain, epsilon)
        return leakage - temporal_leakage(chain, np.full(times, epsilon)).largest

    if margin(leakage) >= 0:
        return leakage
    passes = leakage / 2
    while margin(passes) < 0:
        passes /= 2
        if passes < leakage * 1e-9:
            raise NotApplicable(
                "the leakage grows without bound: the dependence between entries does not decay"
            )
    return last_passing(margin, passes, leakage, 1e-6)


def temporal_noise(beliefs: Any, query: Query, epsilon: float) -> Baseline:
    """Laplace noise by temporal leakage: L over the epsilon of a step. For comparison.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> round(temporal_noise(chain, count(1, 1000), 1).expected_l1_error, 2)
    3.34
    """
    epsilon = checks.privacy(epsilon)
    theta = chains_only(beliefs, "temporal leakage")
    check_states(theta, query)
    if query.chooses:
        raise NotApplicable(
            "temporal leakage is for numbers with noise, not for a noisy choice of a level"
        )
    members = theta.members()
    if theta.names_secrets or any(member.any_start for member in members):
        raise NotApplicable(
            "temporal leakage is for entries of chains with a known initial distribution"
        )
    steps = {m.name: step_epsilon(m.chain, epsilon, query.longest) for m in members}
    worst = min(steps, key=lambda name: steps[name])
    scale = round_up(query.lipschitz / steps[worst])
    return Baseline(
        "temporal_leakage",
        "laplace",
        sqrt(2) * scale,
        query.size * scale,
        "Pufferfish for each entry",
        f"{worst}: event-level epsilon {steps[worst]:.6g}",
        weaker=False,
    )


def _fixed_point(step: KnownRows, epsilon: float) -> float:
    """The least a with step(a) + epsilon <= a, from above.

    The step has a slope of at most 1, so a minus the step only grows: the iteration from below
    never passes a point where it is at least epsilon.
    """

    def margin(variation: float) -> float:
        return variation - step.largest(variation) - epsilon

    passes = 2 * epsilon
    while margin(passes) < 0:
        passes *= 2
        if passes > max(1e4, 1e4 * epsilon):
            return inf
    return last_passing(margin, passes, epsilon, 1e-10)


def _steps(chain: MarkovChain, length: int) -> tuple[list[KnownRows], list[KnownRows]]:
    """Steps from entry t to t - 1 and to t + 1, for each t that has one."""
    if chain.has_underflow:
        raise NotApplicable("the probability of some states underflows; drop or merge them")
    matrix, earlier, later = chain.transition, [], []
    before = chain.initial
    for _ in range(length - 1):
        after = before @ matrix
        if (after[(before > 0) @ (matrix > 0)] == 0).any():
            raise NotApplicable("the probability of some states underflows; drop or merge them")
        with np.errstate(invalid="ignore", divide="ignore"):
            joint = np.nan_to_num(before[:, None] * matrix / after, nan=0.0, posinf=0.0)
        earlier.append(_step(joint.T, after > 0))
        later.append(_step(matrix, before > 0))
        if chain.is_stationary:
            return earlier * (length - 1), later * (length - 1)
        before = after
    return earlier, later


def _step(kernel: Floats, possible: Any) -> KnownRows:
    error = 8 * len(kernel) * float(np.finfo(float).eps)
    return KnownRows(Kernel(kernel, kernel > 0), possible, error)
