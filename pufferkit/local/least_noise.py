"""The least noise for a promised epsilon.

Write A = log((1 - rho_0) / rho_1) and B = log((1 - rho_1) / rho_0) for the largest log-ratio of an
answer in each direction. If the chain is positively correlated, the loss in one direction depends
on A alone and increases with it, the other on B alone. So a promise is A <= A*, B <= B*, that is

    rho_0 + e^{A*} rho_1 >= 1,    rho_1 + e^{B*} rho_0 >= 1:

a polygon in [0, 1/2]^2, whatever the adversary and the length, and the cheapest noise is one of its
vertices. Against the ignorant adversary, in the limit, e^{A*} = t^2 in closed form ([B] Corollary 1
with the constraints it omits): E = e^{eps/2}, w = r E - q / E,
t = (w + sqrt(w^2 + 4 (1-q)(1-r))) / (2 (1-q)).

If the chain tends to alternate, both directions depend on A and B. The edge of what is private is
then a curve, along which the cheapest point is searched.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, expm1, inf, log
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.local.bayesian_loss import binary_loss, known_adversary, loss
from pufferkit.local.correlated_response import CorrelatedResponse, cheapest_correlated
from pufferkit.local.diameter_bounds import largest_entry_epsilon
from pufferkit.local.kary_loss import matrix_loss
from pufferkit.local.matrix_response import cheapest_matrix
from pufferkit.local.mechanism_records import Response
from pufferkit.local.one_sided import Binary
from pufferkit.local.response import KaryResponse, RandomizedResponse, state_weights
from pufferkit.rounding import last_passing

_DESIGNS = ("independent", "optimised", "correlated")
_GRID = 13
_SEARCH = 1e-7
_FINE = 3e-15
_CLOSE = 1e-6
_LITTLE = (1e-3, 1e-2)
_NARROW = 1e-6
_HALF = 0.5
_MOST_EPSILON = 50.0
"""Upper end of searches: draws are multiples of 2^-64, so no log-ratio exceeds 44."""


def cheapest_noise(
    chain: MarkovChain,
    epsilon: float,
    adversary: str = "every",
    length: int | None = None,
    *,
    design: str = "independent",
) -> Response:
    """Randomised response with the least expected noise known to lose at most ``epsilon``.

    Parameters
    ----------
    chain
        The belief. Two states: least noise over all rho_0, rho_1 in [0, 1/2]. More states: the
        k-ary response with the least certified rho, unless ``design`` says otherwise.
    epsilon
        Bayesian DP wanted.
    adversary
        ``"every"`` (any set of other entries known) or ``"ignorant"`` (none known).
    length
        Longest series to promise for; ``None``: any length.
    design
        ``"independent"``: a coin for each entry. ``"optimised"``: for more than two states, a
        distribution of answers for each state, searched for the least share of wrong answers.
        ``"correlated"``: flips that come in runs, for two states; fewer of them are needed against
        ``"every"`` adversary.

    Returns
    -------
    RandomizedResponse, KaryResponse, MatrixResponse or CorrelatedResponse
        Its ``loss`` was computed from the floats it holds, and is at most ``epsilon``.

    Examples
    --------
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.35, 0.65]])
    >>> [round(rho, 6) for rho in cheapest_noise(chain, 0.5, adversary="ignorant")]
    [0.415235, 0.5]
    >>> flat = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> alone, runs = (cheapest_noise(flat, 5, design=d) for d in ("independent", "correlated"))
    >>> round(alone.expected_noise, 4), round(runs.expected_noise, 4)
    (0.1226, 0.0829)
    """
    epsilon = checks.privacy(epsilon)
    name = known_adversary(adversary)
    size = None if length is None else checks.whole("length", length, 1)
    if not isinstance(chain, MarkovChain):
        raise ValueError(f"chain: must be a MarkovChain, got {type(chain).__name__}")
    if len(chain) == 1:
        raise ValueError("chain: has one state, so there is nothing to hide")
    if design not in _DESIGNS:
        raise ValueError(f"design: must be one of {', '.join(_DESIGNS)}, got {design!r}")
    sought = min(epsilon, _MOST_EPSILON)
    if design == "correlated":
        runs = cheapest_correlated(chain, sought, name, size)
        return CorrelatedResponse(chain, runs.rho_0, runs.rho_1, epsilon, name, size)
    if len(chain) > 2:
        noise = _cheapest_kary(chain, sought, name, size)
        if design == "optimised":
            return cheapest_matrix(noise, epsilon)
        return KaryResponse(chain, noise.rho, epsilon, name, size)
    weights = state_weights(chain, size)
    binary = Binary.of(chain)
    if binary.rising:
        limits = answer_limits(binary, sought, name, size)
        candidates = _vertices(*limits)
    else:
        candidates = _along_the_edge(chain, sought, name, size, weights)
    cheapest = min(candidates, key=lambda pair: float(weights @ np.array(pair)))
    rho_0, rho_1 = _private_side(cheapest, lambda r: loss(chain, r[0], r[1], size, name) <= sought)
    return RandomizedResponse(chain, rho_0, rho_1, epsilon, name, size)


def answer_limits(
    binary: Binary, epsilon: float, adversary: str, length: int | None
) -> tuple[float, float]:
    """(A*, B*): the largest allowed log-ratios of an answer. For positively correlated chains."""

    def largest(direction: int) -> float:
        def margin(a: float) -> float:
            return epsilon - binary_loss(binary, (a, -a), length, adversary).directions[direction]

        if margin(epsilon) >= 0:
            return epsilon
        return last_passing(margin, _tiny(binary, epsilon, length), epsilon, _FINE)

    p = binary.chain.transition
    if p[0, 1] == p[1, 0] and binary.chain.is_stationary:
        return (largest(0),) * 2
    return largest(0), largest(1)


def _tiny(binary: Binary, epsilon: float, length: int | None) -> float:
    """An answer that is surely private: by the tanh bound, or by adding up all entries."""
    small = 0.0 if length is None else epsilon / length * (1 - 1e-9)
    return max(small, largest_entry_epsilon(binary.chain, epsilon))


def constraint_planes(
    chain: MarkovChain,
    epsilon: float,
    adversary: str = "ignorant",
    length: int | None = None,
    points: int = 51,
) -> list[dict[str, Any]]:
    """The two constraints on (rho_0, rho_1), for plotting ([B] Figure 1).

    Parameters
    ----------
    chain
        Two states, positively correlated (q + r <= 1).
    epsilon, adversary, length
        As for `cheapest_noise`.
    points
        Values of rho_0, evenly spaced over [0, 1/2].

    Returns
    -------
    list of dict
        ``rho_0``; ``first`` and ``second``, the least rho_1 that each constraint allows there
        (above 1/2: none does); ``least``, the larger of the two and of 0; ``feasible``; and the
        ``expected_noise`` at ``least``.
    """
    if len(chain) != 2 or not Binary.of(chain).rising:
        raise NotApplicable(
            "chain: the constraints are planes only for two states with q + r <= 1; use "
            "cheapest_noise for others"
        )
    name, epsilon = known_adversary(adversary), checks.privacy(epsilon)
    a, b = answer_limits(Binary.of(chain), epsilon, name, length)
    weights = state_weights(chain, length)
    rows = []
    for rho_0 in np.linspace(0, _HALF, checks.whole("points", points, 2)):
        first, second = float((1 - rho_0) * exp(-a)), float(1 - exp(b) * rho_0)
        least = max(first, second, 0.0)
        rows.append(
            {
                "rho_0": float(rho_0),
                "first": first,
                "second": second,
                "least": least,
                "feasible": least <= _HALF,
                "expected_noise": float(weights @ np.array([rho_0, least])),
            }
        )
    return rows


def _vertices(a: float, b: float) -> list[tuple[float, float]]:
    """Vertices of rho_0 + e^a rho_1 >= 1, rho_1 + e^b rho_0 >= 1 inside [0, 1/2]^2."""
    vertices = [
        (_HALF, max(_HALF * exp(-a), 1 - exp(b) * _HALF)),
        (max(_HALF * exp(-b), 1 - exp(a) * _HALF), _HALF),
    ]
    if a > 0 and b > 0:
        # (e^a - 1) / (e^(a+b) - 1), written so that neither large nor small a, b lose digits
        total = -expm1(-a - b)
        vertices.append((-expm1(-a) * exp(-b) / total, -expm1(-b) * exp(-a) / total))
    return [pair for pair in vertices if max(pair) <= _HALF]


def _along_the_edge(
    chain: MarkovChain, epsilon: float, name: str, length: int | None, weights: Floats
) -> list[tuple[float, float]]:
    """Cheap private pairs of a chain that alternates: least rho_1 for each rho_0, and corners."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  (slow to load)

    def margin(rho_0: float, rho_1: float) -> float:
        return epsilon - loss(chain, rho_0, rho_1, length, name)

    def least(rho_0: float, precision: float) -> float:
        if margin(rho_0, _HALF) < 0:
            return inf
        return last_passing(lambda rho_1: margin(rho_0, rho_1), _HALF, 0.0, precision)

    def cost(place: float) -> float:
        rho_0 = min(exp(place), _HALF)
        return float(weights[0] * rho_0 + weights[1] * least(rho_0, _SEARCH))

    # The cost is flat at its least, so a coarse search loses next to nothing; the last one is fine.
    lowest = last_passing(lambda rho_0: margin(rho_0, _HALF), _HALF, 0.0, _SEARCH)
    grid = np.linspace(log(lowest), log(_HALF), _GRID).tolist()
    costs = [cost(place) for place in grid]
    at = int(np.argmin(costs))
    low, high = grid[max(0, at - 1)], grid[min(_GRID - 1, at + 1)]
    finer = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": _NARROW})
    options = [(costs[at], grid[at]), (float(finer.fun), float(finer.x))]
    rho_0 = min(exp(min(options)[1]), _HALF)
    corner = last_passing(lambda rho_0: margin(rho_0, _HALF), _HALF, 0.0, _FINE)
    return [(rho_0, least(rho_0, _FINE)), (corner, _HALF), (_HALF, least(_HALF, _FINE))]


def _cheapest_kary(
    chain: MarkovChain, epsilon: float, name: str, length: int | None
) -> KaryResponse:
    size = len(chain)

    def at(b: float) -> float:
        return min(1 / size, 1 / (expm1(b) + size))

    def margin(rho: float, adversary: str = name) -> float:
        matrix = np.full((size, size), rho)
        np.fill_diagonal(matrix, 1 - (size - 1) * rho)
        return epsilon - matrix_loss(chain, matrix, length, adversary, reach=False)

    rho, sure = at(epsilon), at(largest_entry_epsilon(chain, epsilon))
    # The ignorant adversary is quick to hide from, and the others often take little more.
    if margin(rho, "ignorant") < 0:
        rho = last_passing(lambda r: margin(r, "ignorant"), sure, rho, _CLOSE)
    if margin(rho) < 0:
        little_more = (rho * (1 + more) for more in _LITTLE)
        enough = next((r for r in little_more if r < sure and margin(r) >= 0), sure)
        rho = last_passing(margin, enough, rho, _CLOSE)
    if rho == 1 / size:
        raise NotApplicable(
            f"epsilon: no noise is certified to lose at most {epsilon:g} on this chain"
        )

    def fits(rho: float) -> bool:
        return bool(KaryResponse(chain, rho, None, name, length).loss <= epsilon)  # type: ignore[arg-type]

    (rho,) = _private_side((rho,), lambda r: fits(*r), 1 / size)
    return KaryResponse(chain, rho, epsilon, name, length)


def _private_side(
    rho: tuple[float, ...], passes: Callable[[tuple[float, ...]], bool], most: float = _HALF
) -> tuple[float, ...]:
    """The same flip probabilities, raised until they pass; at ``most`` an answer says nothing."""
    nudge = 1e-16
    raised = tuple(min(most, r) for r in rho)
    while not passes(raised):
        if min(raised) >= most:
            raise NotApplicable("epsilon: no flip probabilities are certified to keep this promise")
        nudge *= 4
        raised = tuple(min(most, r * (1 + nudge)) for r in rho)
    return raised
