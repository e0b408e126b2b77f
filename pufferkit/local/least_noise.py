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

*A distribution of answers for each state* (``design="optimised"``). The loss of an ordered pair of
states is what its own answers say plus what both sides say. With limits A(x, x') on the former,

    M(x, z) <= e^{A(x, x')} M(x', z)    for all answers z,

the fewest wrong answers are a linear programme in M. For two states A is the pair (A*, B*)
above and the programme is the polygon. For more states the limits are
searched: they are scaled until the loss of M, as certified by `pufferkit.local.kary`, is
epsilon, then raised for pairs that lose less than others and lowered for the rest. No answer may be
likelier than the right one. Every M that is kept is private by its own certificate, so the search
can miss the best design, not the promise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from math import exp, expm1, inf, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.local.correlated import check_bits, least_shares
from pufferkit.local.kary import matrix_loss, pair_losses
from pufferkit.local.losses import binary_loss, known_adversary, largest_entry_epsilon, loss
from pufferkit.local.responses import (
    CorrelatedResponse,
    KaryResponse,
    MatrixResponse,
    RandomizedResponse,
    Response,
    state_weights,
)
from pufferkit.local.sides import Binary
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
    """(A*, B*): the largest allowed log-ratios of an answer. For positively correlated chains.

    Theorem: [B] Corollary 1, with the constraints that it omits.
    """

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


_MIXED = 1e-9
"""Share of answers that do not look at the state, so that no answer is impossible."""


_SHAPES = 12
_SCALED = 1e-5
_TEMPER = 0.7
_LEAST = 1e-3
_WIDER = 1.1


def cheapest_matrix(symmetric: KaryResponse, epsilon: float) -> MatrixResponse:
    """The fewest wrong answers found, at most those of the symmetric response that is given.

    Shapes of the limits are tried against the ignorant adversary, who is quick to hide from; the
    best one is then scaled against the adversary of the promise.
    """
    chain, name, length = symmetric.chain, symmetric.adversary, symmetric.length
    sought, shares = symmetric.epsilon, state_weights(chain, length)

    def wrong(matrix: Floats) -> float:
        return float(shares @ (1 - np.diagonal(matrix)))

    def losses_of(matrix: Floats, every: bool) -> Floats | None:
        losses = pair_losses(chain, matrix, length, every, reach=False)
        return None if losses is None else losses[0]

    shape = np.full((len(chain), len(chain)), symmetric.entry_epsilon)
    best, fewest = shape, inf
    for _ in range(_SHAPES):
        losses = losses_of(fewest_wrong(shape, shares), every=False)
        if losses is None:
            break
        scaled = np.minimum(shape * sought / float(losses.max()), sought)
        share = wrong(fewest_wrong(scaled, shares))
        if share < fewest:
            best, fewest = scaled, share
        room = sought / np.maximum(losses, _LEAST * sought)
        np.fill_diagonal(room, 1.0)
        shape = np.minimum(shape * room**_TEMPER, sought)

    def margin(scale: float) -> float:
        losses = losses_of(fewest_wrong(best * scale, shares), name == "every")
        return -inf if losses is None else sought - float(losses.max())

    low, high = 1.0, _WIDER
    while margin(low) < 0 and low > _LEAST:
        low, high = low / _WIDER, low
    while margin(high) >= 0:
        low, high = high, high * _WIDER
    matrix = fewest_wrong(best * last_passing(margin, low, high, _SCALED), shares)
    if wrong(matrix) < symmetric.expected_noise:
        made = MatrixResponse(chain, matrix, epsilon, name, length)
        if made.loss <= sought:
            return made
    return MatrixResponse(chain, symmetric.drawn_matrix, epsilon, name, length)


def fewest_wrong(limits: ArrayLike, shares: Floats) -> Floats:
    """M with the fewest wrong answers, if M(x, z) <= e^limits(x, x') M(x', z) for all answers."""
    from scipy.optimize import linprog  # noqa: PLC0415  (slow to load)

    size = len(shares)
    limits = np.asarray(limits, dtype=float)
    rows = []
    for x, other in permutations(range(size), 2):
        for z in range(size):
            row = np.zeros((size, size))
            row[x, z], row[other, z] = 1.0, -np.exp(limits[x, other])
            rows.append(row.ravel())
        row = np.zeros((size, size))
        row[x, other], row[x, x] = 1.0, -1.0
        rows.append(row.ravel())
    solution = linprog(
        -np.diag(shares).ravel(),
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=np.kron(np.eye(size), np.ones(size)),
        b_eq=np.ones(size),
        bounds=(0, 1),
    )
    matrix: Floats = np.maximum(solution.x.reshape(size, size), 0.0)
    matrix = (1 - _MIXED) * matrix / matrix.sum(axis=1, keepdims=True) + _MIXED / size
    return matrix


_TOTALS = 25
_SPLIT = 9
_ALIKE = 1e-6
_COARSE = 1e-7


def cheapest_correlated(
    chain: MarkovChain, epsilon: float, adversary: str, length: int | None
) -> CorrelatedResponse:
    """The noise chain with the least share of flips known to lose at most ``epsilon``.

    Of noise chains with the same share the one nearest to independent flips is taken: it leaves the
    smallest variance. The search is over rho_0 + rho_1, and what it ends with is checked.
    """
    check_bits(chain)
    every = adversary == "every"
    totals = np.linspace(0, 2, _TOTALS + 2)[1:-1]  # 1 is one of them
    shares = least_shares(chain, totals, epsilon, every, length, _COARSE)
    for edge in (False, False, True, True):
        least = shares.min()
        alike = np.flatnonzero(shares <= least * (1 + _ALIKE))
        at = int(alike[np.abs(totals[alike] - 1).argmin()])
        low, high = max(at - 1, 0), min(at + 1, len(totals) - 1)
        if edge:  # how near to 1 does the least share stay the least?
            low, high = (low, at) if totals[at] > 1 else (at, high)
        extra = np.linspace(totals[low], totals[high], _SPLIT + 2)[1:-1]
        more = least_shares(chain, extra, epsilon, every, length, _COARSE)
        order = np.argsort(np.concatenate([totals, extra]), kind="stable")
        totals = np.concatenate([totals, extra])[order]
        shares = np.concatenate([shares, more])[order]
    alike = np.flatnonzero(shares <= shares.min() * (1 + _ALIKE))
    total = float(totals[alike[np.abs(totals[alike] - 1).argmin()]])
    (share,) = least_shares(chain, np.array([total]), epsilon, every, length).tolist()
    for nudge in (0.0, *np.geomspace(1e-15, 1e-3, 13).tolist()):
        raised = share * (1 + nudge)
        if not 0 < raised <= 0.5:
            break
        made = CorrelatedResponse(
            chain, raised * total, (1 - raised) * total, epsilon, adversary, length
        )
        if made.is_private:
            return made
    raise NotApplicable("epsilon: no correlated noise is certified to keep this promise")
