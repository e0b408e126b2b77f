"""Rényi Pufferfish privacy (Pierquin, Bellet, Tommasi, Boussard, 2024), for comparison.

Let W be the largest infinity-Wasserstein distance between the distributions of the answer given
two values of one entry, as for the Wasserstein Mechanism. Under Gaussian noise of standard
deviation s the two distributions of the output have a Rényi divergence of order alpha of at most
alpha W^2 / (2 s^2), for every alpha > 1: couple the answers so that they differ by at most W, and
use that the divergence is jointly quasi-convex. That is (alpha, epsilon)-Rényi Pufferfish privacy.
A Rényi bound for all orders gives, for every delta, the guarantee

    P(S | X_i = a) <= e^epsilon P(S | X_i = b) + delta   for every set S of outputs,

with epsilon = r + 2 sqrt(r log(1 / delta)), r = W^2 / (2 s^2), at the best order. The same coupling
shows it with the exact delta of two Gaussians at distance W, which never needs more noise.

With a coupling that leaves a share *far* of the mass aside, W is the near distance, usually much
shorter, and *far* is added to delta.

The guarantee is weaker than Pufferfish privacy: it may fail with probability delta.
"""

from __future__ import annotations

from itertools import combinations
from math import exp, inf, log, pi, sqrt
from typing import Any, Literal

import numpy as np

from papers.result import Baseline
from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums.chain_sums import SummedChain
from pufferkit.mechanisms.calibration import chains_only, checked
from pufferkit.mechanisms.wasserstein import summed_chain, values_of, wasserstein
from pufferkit.rounding import at_least, last_passing, least_passing, round_up

Noise = Literal["gaussian", "laplace"]
Conversion = Literal["renyi", "exact"]

MOST_PRODUCTS = 4e9
"""Most products for near distances."""


def renyi_pufferfish(
    beliefs: Any,
    query: Query,
    epsilon: float,
    delta: float,
    *,
    noise: Noise = "gaussian",
    conversion: Conversion = "renyi",
    near: bool = False,
) -> Baseline:
    """Noise of the general Wasserstein mechanism, for (epsilon, delta); it cannot be released.

    Parameters
    ----------
    beliefs, query, epsilon
        As for `wasserstein`: a number, and beliefs whose distributions are known.
    delta
        The probability with which the guarantee may fail, between 0 and 1.
    noise
        Gaussian; or Laplace, which needs `near` (without it, it is `wasserstein` with delta 0).
    conversion
        How the standard deviation follows from the distance: by Rényi divergences, as published,
        or by the exact delta of two Gaussians.
    near
        Whether to use the near distance, which leaves aside a share of the mass: delta for Laplace
        noise, half of it for Gaussian noise. For chains and sums.

    Raises
    ------
    NotApplicable
        If `wasserstein` has no theorem, and for near distances of other beliefs than chains.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> print(renyi_pufferfish(chain, count(1, 20), 1, delta=1e-6).promise)
    (1, 1e-06)-Pufferfish for each entry: may fail with probability 1e-06
    >>> round(renyi_pufferfish(chain, count(1, 20), 1, delta=1e-6).deviation, 2)
    21.4
    >>> near = renyi_pufferfish(chain, count(1, 20), 1, delta=1e-6, noise="laplace", near=True)
    >>> round(near.deviation, 2)
    5.66
    """
    theta, query, epsilon = checked(beliefs, query, epsilon)
    if theta.names_secrets:
        raise NotApplicable(
            f"Rényi Pufferfish privacy covers single entries, not a {theta.description}"
        )
    delta = checks.real("delta", delta)
    if not 0 < delta < 1:
        raise ValueError(f"delta: must lie between 0 and 1, got {delta:g}")
    if noise not in ("gaussian", "laplace"):
        raise ValueError(f"noise: must be 'gaussian' or 'laplace', got {noise!r}")
    if conversion not in ("renyi", "exact"):
        raise ValueError(f"conversion: must be 'renyi' or 'exact', got {conversion!r}")
    if noise == "laplace" and not near:
        raise ValueError("noise: Laplace noise without near is wasserstein, with delta 0; use that")
    aside = 0.0 if not near else delta if noise == "laplace" else delta / 2
    if near:
        distance = _near(theta, query, aside)
    else:
        distance = float(wasserstein(theta, query, epsilon).evidence.influence or 0.0)
    name, why = f"renyi{'_near' * near}_{noise}", "near distance" if near else "W-infinity"
    why = f"{why} {distance:.6g}"
    if noise == "laplace":
        scale = round_up(distance / epsilon)
        deviation, error = sqrt(2) * scale, scale
    else:
        ratio, order = _by_order(epsilon, delta - aside)
        if conversion == "exact":
            ratio, name = _by_tails(epsilon, delta - aside, ratio), f"{name}_exact"
        else:
            why += f", order {order:.4g}"
        deviation = round_up(distance / ratio)
        error = deviation * sqrt(2 / pi)
    return Baseline(
        name,
        noise,
        deviation,
        error,
        f"({epsilon:g}, {delta:g})-Pufferfish for each entry: may fail with probability {delta:g}",
        why,
        weaker=True,
    )


def _near(theta: Any, query: Query, aside: float) -> float:
    if query.size > 1 or query.weights is None or query.missing:
        raise NotApplicable("near distances are for sums over entries that were all observed")
    members = chains_only(theta, "near distances").members()
    if any(member.any_start or member.chain.has_underflow for member in members):
        raise NotApplicable("near distances need known distributions, not a class with any start")
    values, unit = values_of(query, theta.states)
    if max(values) == 0:
        raise NotApplicable("no secret moves the answer: there is nothing to hide")
    steps = max(
        near_distance(summed_chain(member.chain, values, length), aside)
        for member in members
        for length in set(query.lengths)
    )
    if steps == 0:
        raise NotApplicable(
            "no secret moves more than a share delta of the mass: there is nothing to hide"
        )
    return at_least(steps * unit)


def _by_order(epsilon: float, delta: float) -> tuple[float, float]:
    """The largest distance over deviation that Rényi divergences allow, and its order.

    That is sqrt(2 r) at the largest r with r + 2 sqrt(r log(1 / delta)) <= epsilon.
    """
    rare = sqrt(log(1 / delta))
    root = epsilon / (sqrt(rare**2 + epsilon) + rare)
    return sqrt(2) * root * (1 - 1e-12), 1 + rare / root


def _by_tails(epsilon: float, delta: float, passes: float) -> float:
    """The largest distance over deviation at which two Gaussians satisfy (epsilon, delta)."""
    from scipy.special import log_ndtr  # noqa: PLC0415  (slow to load)

    def margin(ratio: float) -> float:
        above = exp(log_ndtr(ratio / 2 - epsilon / ratio))
        below = exp(min(0.0, epsilon + log_ndtr(-ratio / 2 - epsilon / ratio)))
        return delta * (1 - 1e-9) - (above - below)

    fails = 2 * passes
    while margin(fails) >= 0:
        passes, fails = fails, 2 * fails
        if fails == inf:
            break
    return last_passing(margin, passes, fails, 1e-9)


def unpaired(mu: Floats, nu: Floats, reach: int) -> float:
    """The least mass that must move further than ``reach``, of two distributions on 0, 1, ...

    On the line the most mass is paired within a reach by pairing the lowest that is left with the
    lowest that is left, and giving up the lower of the two where they lie further apart: if
    x_0 <= y_0 were paired with y_1 and x_1, the pairs (x_0, y_0) and (x_1, y_1) would do as well.
    """
    first, second = mu.tolist(), nu.tolist()
    x = y = 0
    left, right, paired = first[0], second[0], 0.0
    while True:
        if abs(x - y) <= reach:
            moved = min(left, right)
            paired += moved
            left, right = left - moved, right - moved
            forward = left <= right
        else:
            forward = x < y
        if forward:
            x += 1
            if x == len(first):
                return max(0.0, 1 - paired)
            left = first[x]
        else:
            y += 1
            if y == len(second):
                return max(0.0, 1 - paired)
            right = second[y]


def near_distance(summed: SummedChain, far: float) -> int:
    """How far one entry moves a sum, except for a share ``far`` of the mass.

    The largest over entries and pairs of their values of the least w such that the distributions of
    the sum given either can be coupled with P(|x - y| > w) <= far. Rounding counts against it: the
    mass left aside is less than ``far`` by more than all errors.
    """
    length, size = summed.length, len(summed.values)
    slack = 1e-12 + 1e-14 * length
    if far <= 10 * slack:
        raise NotApplicable(f"delta: {far:g} is below the rounding error; use a larger one")
    if length * size * (length * summed.largest) ** 2 / 4 > MOST_PRODUCTS:
        raise NotApplicable(
            f"near distances over {length:,} entries take too long; shorten the series"
        )
    reach = 0
    for _, joint in summed.of_values().each():
        lower, _ = joint.chosen(joint.possible).log_tails()
        given = np.diff(np.exp(lower), prepend=0.0, axis=1)
        for mu, nu in combinations(given, 2):
            if unpaired(mu, nu, reach) > far - slack:
                # The sums differ by less than their number.
                reach = least_passing(
                    lambda w, mu=mu, nu=nu: unpaired(mu, nu, w) <= far - slack,  # type: ignore[misc]
                    reach,
                    len(mu),
                )
    return reach
