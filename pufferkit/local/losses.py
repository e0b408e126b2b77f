"""The privacy loss of randomised response on a binary chain: Bayesian DP, [B] Definition 3.

For a target i and known entries K the loss is the largest log-ratio

    log P(Z = z | X_i = x, X_K = x_K) / P(Z = z | X_i = x', X_K = x_K)

over outputs z, values x, x' and x_K of positive probability. Only the nearest known entry on either
side matters, so `pufferkit.local.sides` gives it exactly, in time linear in the length.

*Closed bounds.* Conditioning a chain on any set of entries reweights the columns of its kernels,
and the projective diameter D of P does not change under reweighting. Over all reweightings, what
varies by a beyond a step varies before it by s with tanh(s/4) = tanh(D/4) tanh(a/4). With
event-level epsilon b, each side of an entry is at most the fixed point s of a = b + s, and the loss
is at most b + 2 s. It solves w Y^2 - k (w - 1) Y - 1 = 0 with Y = e^{s/2}, w = e^{b/2}, k =
e^{D/2}.

That needs no laziness, no stationary start and no two states. If P has zeros, D is infinite and one
step is not enough: pay for blocks of m entries, then step by P^m, whose diameter is D_m. The sides
are then at most m b + s with a = m b + s, and the loss is at most 2 (m b + s) - b.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import exp, expm1, inf, isfinite, log, sqrt, tanh
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.local.sides import Binary, Trace, answers, successors, supports
from pufferkit.rounding import EPS, last_passing, round_up

Adversary = Literal["every", "ignorant"]

LONGEST = 1 << 17
"""Series up to this length are evaluated exactly."""

FAR = 1 << 16
"""Distances evaluated when there is no length; larger ones are bounded."""

_CLOSE = 1e-10
_LARGE = 300.0
_DIGITS = 30.0
_SETTLED_NODE = 4

MOST_BLOCK = 64
"""Largest block of entries that is tried."""

_HUGE = 700.0
_FORGOTTEN = 1e-3
_SMALLEST = 1e-12


def projective_diameter(kernel: Floats) -> float:
    """Largest log of K(x,u) K(x',u') / (K(x,u') K(x',u)), rounded up; columns of zeros left out."""
    used = kernel[:, kernel.any(axis=0)]
    if (used == 0).any():
        return inf
    logs = np.log(used)
    worst = 0.0
    for row in logs:
        ratios = logs - row
        worst = max(worst, float((ratios.max(axis=1) - ratios.min(axis=1)).max()))
    # Rows that are equal by distribution but not to the last digit are not worth a zero.
    return worst * (1 + 1e-14) + 1e-15 if worst else 0.0


def side_bound(diameter: float, b: float) -> float:
    """The fixed point s of tanh(s/4) = tanh(D/4) tanh((b + s)/4), rounded up."""
    if b == 0 or diameter == 0:
        return 0.0
    if diameter / 2 > _HUGE or b > 2 * _HUGE:
        return inf if b > 0 and diameter == inf else diameter
    k = exp(diameter / 2)
    rise = -expm1(-b / 2)
    y = k / 2 * (rise + sqrt(rise * rise + 4 * exp(-b / 2) / (k * k)))
    return min(diameter, 2 * log(y) * (1 + 1e-14) + 1e-14) if y > 1 else 0.0


def entry_bound(chain: MarkovChain, b: float) -> float:
    """Loss against every adversary of answers of event-level epsilon ``b``, at any length.

    It holds for any start. Infinite if no block up to ``MOST_BLOCK`` makes the chain forget.
    """
    if b == 0 or len(chain) == 1:
        return 0.0
    best = inf
    for m, diameter in enumerate(_diameters(chain), 1):
        spent = m * b
        if 2 * spent - b >= best:
            break
        if diameter < inf:
            best = min(best, 2 * (spent + side_bound(diameter, spent)) - b)
    return round_up(best) if best < inf else inf


@lru_cache(maxsize=16)
def _diameters(chain: MarkovChain) -> tuple[float, ...]:
    """D_1, D_2, ... until next to nothing is left."""
    diameters, power = [], np.eye(len(chain))
    for m in range(1, MOST_BLOCK + 1):
        power = power @ chain.transition
        error = 16 * m * len(chain) * float(np.finfo(float).eps)
        diameters.append(projective_diameter(power) + error)
        if diameters[-1] < _FORGOTTEN:
            break
    return tuple(diameters)


def largest_entry_epsilon(chain: MarkovChain, epsilon: float) -> float:
    """The largest b found with ``entry_bound(chain, b) <= epsilon``; 0 if there is none."""

    def margin(b: float) -> float:
        return epsilon - entry_bound(chain, b)

    least = _SMALLEST * epsilon
    if margin(epsilon) >= 0:
        return epsilon
    return last_passing(margin, least, epsilon, 4 * EPS) if margin(least) >= 0 else 0.0


class Loss(float):
    """A privacy loss with the method behind it. It is a number, rounded up.

    Attributes
    ----------
    adversary
        ``"every"``, ``"ignorant"``, or a description of the known entries.
    length
        Length of the series; ``None`` for the supremum over all lengths.
    method
        The method: ``"closed form"``, ``"exact recursion"``, ``"tanh bound"``, ...
    exact
        Whether it is the loss itself, to rounding, and not only a bound on it.
    directions
        The two log-ratios it is the larger of: X_i = 0 over X_i = 1, and the other way round.
    """

    adversary: str
    length: int | None
    method: str
    exact: bool
    directions: tuple[float, float]

    def __new__(
        cls,
        directions: tuple[float, float],
        adversary: str,
        length: int | None,
        method: str,
        exact: bool,
    ) -> Loss:
        made = super().__new__(cls, max(directions))
        made.adversary, made.length = adversary, length
        made.method, made.exact, made.directions = method, exact, directions
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.directions, self.adversary, self.length, self.method, self.exact

    def __str__(self) -> str:
        kind = "=" if self.exact else "<="
        size = "any length" if self.length is None else f"length {self.length}"
        return f"loss {kind} {float(self):.6g} (adversary: {self.adversary}; {size}; {self.method})"


class LossPair(NamedTuple):
    """Something for each of the two directions: 0 over 1, and 1 over 0."""

    zero: float
    one: float


def own_pair(own: tuple[float, ...]) -> LossPair:
    """The most an entry's own answer says, in each direction."""
    return LossPair(max(own), -min(own))


def unbounded(name: str, length: int | None) -> Loss:
    """The loss of answers that can give a state away."""
    return Loss((inf, inf), name, length, "an output is possible under one state only", True)


def padded(chain: MarkovChain, pair: LossPair, steps: int) -> tuple[float, float]:
    """Rounded up by more than the recursion can have lost.

    Every step adds a few units in the last place and shrinks what came before by tanh(D/4).
    """
    kept = tanh(projective_diameter(chain.transition) / 4)
    count = min(steps, 1 / (1 - kept)) if kept < 1 else steps
    return tuple(  # type: ignore[return-value]
        value + 16 * EPS * (1 + abs(value)) * (1 + count) if isfinite(value) else value
        for value in pair
    )


def ends_of(trace: Trace) -> Floats:
    """(-low, high) of a trace: what it says for state 1, and for state 0."""
    return np.array([-trace.low, trace.high])


def given_set(
    binary: Binary,
    own: tuple[float, ...],
    length: int,
    known: Mapping[int, Any],
    target: int | None,
) -> Loss:
    """`pufferkit.local.loss` for known entries, over one target or all."""
    chain = binary.chain
    fixed: dict[int, frozenset[int]] = {}
    for position, value in known.items():
        node = checks.whole("known", position, 1)
        if value is None:
            fixed[node] = frozenset((0, 1))
        elif value in chain.states:
            fixed[node] = frozenset((chain.states.index(value),))
        else:
            raise ValueError(f"known: {value!r} at {node} is not a state; there are {chain.states}")
    for node in [*fixed, *([] if target is None else [target])]:
        if node > length:
            raise ValueError(f"known: position {node} lies beyond the length {length}")
    if target in fixed:
        raise ValueError(f"target: entry {target} is itself known")
    forward, backward = _possible(chain, fixed, length)
    free = [node for node in range(1, length + 1) if node not in fixed]
    nodes = free if target is None else [target]
    best = np.zeros(2)
    sure = not all(isfinite(answer) for answer in own)
    if sure:
        own = (1.0, -1.0)  # any that tell something: is there an entry left to tell?
    ordered = sorted(fixed)
    start, end = binary.unknown_left(own, length - 1), binary.unknown_right(own, length - 1)
    lefts = [ends_of(binary.known("left", value, own, length - 1)) for value in (0, 1)]
    rights = [ends_of(binary.known("right", value, own, length - 1)) for value in (0, 1)]
    zero, one = own_pair(own)
    places = np.searchsorted(ordered, nodes)
    for node, place in zip(nodes, places.tolist(), strict=True):
        left, right = ends_of(start)[:, node - 1], ends_of(end)[:, length - node]
        if place > 0:
            near = ordered[place - 1]
            left = np.max([lefts[v][:, node - near] for v in forward[near - 1]], axis=0)
        if place < len(ordered):
            near = ordered[place]
            right = np.max([rights[v][:, near - node] for v in backward[near - 1]], axis=0)
        best = np.maximum(best, left + right + [one, zero])
    pair = LossPair(float(best[1]), float(best[0]))
    if sure and max(pair) > 0:
        return unbounded(_described(fixed), length)
    directions = padded(chain, pair, length) if max(pair) > 0 else (0.0, 0.0)
    return Loss(directions, _described(fixed), length, "exact recursion", True)


def _described(fixed: Mapping[int, Any]) -> str:
    if not fixed:
        return "ignorant"
    some = ", ".join(str(node) for node in sorted(fixed)[:6]) + (", ..." if len(fixed) > 6 else "")
    return f"knows {some}"


def _possible(
    chain: MarkovChain, fixed: Mapping[int, frozenset[int]], length: int
) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """Values of each entry that agree with what is known up to it, and from it on."""
    both = frozenset((0, 1))
    forward = [supports(chain, 1)[0] & fixed.get(1, both)]
    for node in range(2, length + 1):
        forward.append(successors(chain, forward[-1]) & fixed.get(node, both))
    backward = [fixed.get(length, both)]
    for node in range(length - 1, 0, -1):
        later = backward[-1]
        ahead = frozenset(x for x in both if chain.transition[x][list(later)].any())
        backward.append(ahead & fixed.get(node, both))
    backward.reverse()
    if not all(f & b for f, b in zip(forward, backward, strict=True)):
        raise ValueError(
            "known: these entries together have probability zero, so nothing is conditioned on them"
        )
    return forward, backward


def loss(
    chain: MarkovChain,
    rho_0: float,
    rho_1: float,
    length: int | None = None,
    adversary: str = "every",
    *,
    known: Mapping[int, Any] | None = None,
    target: int | None = None,
) -> Loss:
    """Loss of randomised response on a binary chain.

    Theorem: [B] Definition 4, computed; each adversary of it is one of [B] Definition 3.

    Parameters
    ----------
    chain
        Two states, any start. ``q`` of [B] is ``chain.transition[0, 1]``, ``r`` is
        ``chain.transition[1, 0]``.
    rho_0, rho_1
        P(output 1 | state 0) and P(output 0 | state 1).
    length
        Number of entries; ``None`` for the supremum over all lengths.
    adversary
        ``"every"`` (any set of other entries known, [B] Definition 4) or ``"ignorant"`` (none
        known, [B] Theorem 1).
    known
        One given set of known entries instead: position, from 1, to the state there, or to
        ``None`` for the worst state. Needs ``length``.
    target
        The entry in question, from 1; by default the worst one. Needs ``length``.

    Returns
    -------
    Loss
        A float with ``method`` and ``exact``. Secrets and known values of probability zero are
        skipped; an output possible under one secret only makes the loss infinite.

    Examples
    --------
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> print(loss(chain, 0.082913, 0.082913, adversary="ignorant"))
    loss = 5 (adversary: ignorant; any length; closed form)
    >>> print(loss(chain, 0.082913, 0.082913, 7, known={1: 0, 7: 0}, target=4))
    loss = 5.70963 (adversary: knows 1, 7; length 7; exact recursion)
    """
    binary = _binary(chain)
    own = answers(probability("rho_0", rho_0), probability("rho_1", rho_1))
    size = None if length is None else checks.whole("length", length, 1)
    name = known_adversary(adversary)
    node = None if target is None else checks.whole("target", target, 1)
    if known is not None or node is not None:
        if size is None:
            raise ValueError("length: give it together with known and target")
        if name == "every" and known is None and node is not None:
            return _one_target(binary, own, size, node)
        return given_set(binary, own, size, known or {}, node)
    return binary_loss(binary, own, size, name)


def _one_target(binary: Binary, own: tuple[float, ...], length: int, target: int) -> Loss:
    """The loss of one entry against every adversary."""
    if target > length or length > LONGEST:
        raise ValueError(
            f"target: must be an entry of a series of at most {LONGEST}, got {target} of {length}"
        )
    finite = all(isfinite(answer) for answer in own)
    pair = _recursion(binary, own if finite else (1.0, -1.0), length, "every", target)
    if max(pair) == 0:
        return Loss((0.0, 0.0), "every", length, "exact recursion", True)
    if not finite:
        return unbounded("every", length)
    return Loss(padded(binary.chain, pair, length), "every", length, "exact recursion", True)


def binary_loss(binary: Binary, own: tuple[float, ...], length: int | None, name: str) -> Loss:
    """`loss`, from the log-ratios of the answers instead of flip probabilities."""
    chain = binary.chain
    if not any(len(values) == 2 for values in supports(chain, min(length or 4, 4))):
        return Loss((0.0, 0.0), name, length, "no entry has two possible values", True)
    if all(answer == 0 for answer in own):
        return Loss((0.0, 0.0), name, length, "answers carry no information", True)
    if not all(isfinite(answer) for answer in own):
        return unbounded(name, length)
    if length is not None and length <= LONGEST:
        loss = _recursion(binary, own, length, name)
        return Loss(padded(chain, loss, length), name, length, "exact recursion", True)
    if not (np.linalg.matrix_power(chain.transition, 2) > 0).all():
        size = "of any length" if length is None else f"of {length} entries"
        raise NotApplicable(
            f"transition: some moves never happen, so the chain may not mix and the loss for a "
            f"series {size} may be unbounded; give a length of at most {LONGEST}"
        )
    if name == "ignorant" and chain.is_stationary and max(own_pair(own)) < _LARGE:
        loss = _closed_form(binary, own)
        return Loss(padded(chain, loss, 1), name, length, "closed form", length is None)
    return _limit(binary, own, name, length)


def probability(name: str, value: Any) -> float:
    """A number from 0 to 1, or an error."""
    number = checks.real(name, value)
    if not 0 <= number <= 1:
        raise ValueError(f"{name}: must be a probability between 0 and 1, got {number:g}")
    return number


def known_adversary(name: Any) -> str:
    """The name of an adversary, or an error."""
    if name not in get_args(Adversary):
        raise ValueError(
            f"adversary: must be 'every' (any other entries known) or 'ignorant' (none known), "
            f"got {name!r}"
        )
    return str(name)


def _binary(chain: Any) -> Binary:
    if not isinstance(chain, MarkovChain):
        raise ValueError(f"chain: must be a MarkovChain, got {type(chain).__name__}")
    if len(chain) != 2:
        raise ValueError(
            f"chain: has {len(chain)} states; rho_0 and rho_1 are for two. For more states see "
            "KaryResponse and cheapest_noise"
        )
    return Binary.of(chain)


def _recursion(
    binary: Binary, own: tuple[float, ...], length: int, name: str, target: int | None = None
) -> LossPair:
    """Best left side plus best right side, for one target or the worst."""
    before = binary.unknown_left(own, length - 1)
    after = binary.unknown_right(own, length - 1)
    left = np.array([-before.low, before.high])
    right = np.array([-after.low, after.high])
    if name == "every" and length > 1:
        right = np.maximum(right, _best_known_right(binary, own, length))
        left = np.maximum(left, _best_known_left(binary, own, length))
    sums = left + right[:, ::-1]
    sums = sums.max(axis=1) if target is None else sums[:, target - 1]
    zero, one = own_pair(own)
    return LossPair(max(0.0, float(sums[1]) + zero), max(0.0, float(sums[0]) + one))


def _best_known_right(binary: Binary, own: tuple[float, ...], length: int) -> Floats:
    """Index m: the best known entry among m to the right."""
    ends = [ends_of(binary.known("right", value, own, length - 1)) for value in (0, 1)]
    best = np.maximum(*ends)
    best[:, 0] = -inf
    largest: Floats = np.maximum.accumulate(best, axis=1)
    return largest


def _best_known_left(binary: Binary, own: tuple[float, ...], length: int) -> Floats:
    """Index i - 1: the best known entry to the left of X_i, among values it can take."""
    ends = [ends_of(binary.known("left", value, own, length - 1)) for value in (0, 1)]
    for end in ends:
        end[:, 0] = -inf
    best = np.full((2, length), -inf)
    possible = supports(binary.chain, _SETTLED_NODE)
    for node, values in enumerate(possible[: length - 1], 1):
        for value in values:
            best[:, node:] = np.maximum(best[:, node:], ends[value][:, 1 : length - node + 1])
    if len(possible[-1]) == 2 and length > _SETTLED_NODE:
        later = np.maximum.accumulate(np.maximum(*ends), axis=1)
        shifted = later[:, 1 : length - _SETTLED_NODE + 1]
        best[:, _SETTLED_NODE:] = np.maximum(best[:, _SETTLED_NODE:], shifted)
    return best


def _closed_form(binary: Binary, own: tuple[float, ...]) -> LossPair:
    """The limit of the loss to the ignorant adversary.

    Theorem: [B] Theorem 1, and the same for chains that tend to alternate.

    A stationary binary chain is reversible, so both sides are alike. A side with all answers 0 has
    the ratio x = (P00 w x + P01) / (P10 w x + P11), w = P(0 | 0) / P(0 | 1); it is the limit, and
    no other output or length gives more. If det P < 0 the worst answers alternate.
    """
    zero, one = own_pair(own)
    (p00, p01), (p10, p11) = binary.chain.transition.tolist()
    if binary.rising:

        def excess_at(answer: float) -> float:
            # P00 w - P11; near w = 1 by P00 - P11 = P10 - P01, so that slow chains keep digits
            rise = expm1(answer)
            near = abs(rise) < 0.5
            return float(p00 * rise + (p10 - p01) if near else p00 * exp(answer) - p11)

        high = _fixed(excess_at(zero), p01, p10 * exp(zero))
        low = _fixed(excess_at(-one), p01, p10 * exp(-one))
    else:
        up, down = exp(zero), exp(-one)
        excess = p01 * p10 * down * expm1(zero + one) + p00 * p00 * up * down - p11 * p11
        high = _fixed(excess, p01 * (p00 * down + p11), p10 * up * (p00 * down + p11))
        excess = p01 * p10 * up * expm1(-zero - one) + p00 * p00 * up * down - p11 * p11
        low = _fixed(excess, p01 * (p00 * up + p11), p10 * down * (p00 * up + p11))
    return LossPair(max(0.0, zero + 2 * high), max(0.0, one - 2 * low))


def _fixed(excess: float, b: float, c: float) -> float:
    """Logarithm of the x > 0 with x = (a x + b) / (c x + d), from a - d, b and c."""
    root = sqrt(excess * excess + 4 * b * c)
    return log((excess + root) / (2 * c)) if excess >= 0 else log(2 * b / (root - excess))


def _limit(binary: Binary, own: tuple[float, ...], name: str, length: int | None) -> Loss:
    """The supremum over all lengths: near distances one by one, far ones by a bound."""
    # P forgets a share |1 - q - r| with every step, and answers only make it forget faster.
    kept = abs(float(np.trace(binary.chain.transition)) - 1)
    steps = 64 if kept == 0 else int(min(FAR, max(64, _DIGITS / -log(kept)))) if kept < 1 else FAR
    while True:
        near, far = _sides(binary, own, name, steps)
        gap = max(far - near)
        if gap <= _CLOSE or steps >= FAR:
            break
        steps *= 4
    zero, one = own_pair(own)
    low, high = np.maximum(near, far).tolist()
    pair = LossPair(max(0.0, zero + high), max(0.0, one + low))
    exact, method = bool(gap <= _CLOSE) and length is None, "recursion to the limit"
    bound = tanh_pair(binary, own)
    if max(bound) < max(pair):
        pair, exact, method = bound, False, "tanh bound"
    return Loss(padded(binary.chain, pair, steps), name, length, method, exact)


def _sides(binary: Binary, own: tuple[float, ...], name: str, steps: int) -> tuple[Floats, Floats]:
    """Both sides together: what near distances reach, and a bound on all that are further."""
    near, far = np.zeros(2), np.zeros(2)
    for side in ("left", "right"):
        unknown = binary.unknown_left if side == "left" else binary.unknown_right
        traces = [unknown(own, steps)]
        if name == "every":
            traces += [binary.known(side, value, own, steps) for value in (0, 1)]
        reached = np.max([ends_of(trace).max(axis=1) for trace in traces], axis=0)
        tail = np.array(binary.tail(side, own, steps))
        near += reached
        far += np.maximum(reached, tail)
    return near, far


def tanh_bound(chain: MarkovChain, rho_0: float, rho_1: float) -> Loss:
    """A closed bound on the loss against every adversary, for every start and every length."""
    binary = _binary(chain)
    own = answers(probability("rho_0", rho_0), probability("rho_1", rho_1))
    return Loss(tanh_pair(binary, own), "every", None, "tanh bound", False)


def tanh_pair(binary: Binary, own: tuple[float, ...]) -> LossPair:
    """The bound from the projective diameter.

    The two directions do not mix if det P >= 0; else the larger serves both.

    A step over reweighted kernels keeps the sign of what it carries if P is positively correlated,
    so upwards and downwards variation have fixed points of their own.
    """
    diameter = projective_diameter(binary.chain.transition)
    zero, one = own_pair(own)
    if not binary.rising:
        zero = one = max(zero, one)
    return LossPair(zero + 2 * side_bound(diameter, zero), one + 2 * side_bound(diameter, one))
