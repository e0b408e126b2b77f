"""The privacy loss of randomised response on a binary chain: Bayesian DP, [B] Definition 3.

For a target i and known entries K the loss is the largest log-ratio

    log P(Z = z | X_i = x, X_K = x_K) / P(Z = z | X_i = x', X_K = x_K)

over outputs z, values x, x' and x_K of positive probability. Only the nearest known entry on either
side matters, so `pufferkit.local.one_sided` gives it exactly, in time linear in the length.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, expm1, inf, isfinite, log, sqrt
from typing import Any, Literal, get_args

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.local.diameter_bounds import projective_diameter, side_bound
from pufferkit.local.known_entries import given_set
from pufferkit.local.losses import Loss, LossPair, ends_of, own_pair, padded, unbounded
from pufferkit.local.one_sided import Binary, answers, supports

Adversary = Literal["every", "ignorant"]

LONGEST = 1 << 17
"""Series up to this length are evaluated exactly."""

FAR = 1 << 16
"""Distances evaluated when there is no length; larger ones are bounded."""

_CLOSE = 1e-10
_LARGE = 300.0
_DIGITS = 30.0
_SETTLED_NODE = 4


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
    """[B] Theorem 1, and the same for chains that tend to alternate.

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
