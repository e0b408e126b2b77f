"""Correlated noise ([B] 3.3): the answers are the bits XORed with a second binary chain.

The noise chain y is stationary with P(0 -> 1) = rho_0 and P(1 -> 0) = rho_1, and z_t = x_t xor y_t.
If rho_0 + rho_1 = 1 its entries are independent: randomised response with rho = rho_0. Whoever
answers keeps one bit from entry to entry, the last y_t, so a phone can answer as entries arise.

[B] finds no gain over independent noise, against the ignorant adversary and with rho_0 + rho_1 <= 1
and theta < rho_0. Against *every* adversary there is one: at theta = 0.2 and epsilon = 5 a share of
0.0829 of the bits is flipped, where independent noise flips 0.1226. Who knows entries near X_i has
most to gain from bits that do not fit them, and flips that come in runs take that away.

*Why the recursion is exact.* Both chains are independent, so the outputs leave x alone hidden. It
moves from t to t + 1 by

    M_{z, w}(x, x') = P(x, x') N(x xor z, x' xor w),    z = z_t, w = z_{t+1}.

Fixing X_j cuts the sum over paths in two, and what lies beyond the nearest known entry cancels in
the ratio of X_i = 0 to X_i = 1. So that log-ratio is a left part plus a right part, which share the
output z_i and nothing else. For a given pair of outputs a part is a monotone Moebius function of
the part one entry further away. The least and the largest value for each output at the near end,
both reached, therefore go to the least and the largest of the next entry: following them is exact,
against an adversary who knows any set of entries, and linear in the length.

Dividing by the same sum without outputs, P(x), P(x | X_j = u) or P(X_j = v | x), leaves the
conditional probability of [B] Definition 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local.losses import Loss, known_adversary
from pufferkit.local.sides import Binary
from pufferkit.rounding import EPS, last_passing_each

CLOSE = 1e-10
"""Distances are followed until all that are further away add no more than this."""

FARTHEST = 1 << 14
"""Distances that are followed at most; what lies further away is bounded."""

_SETTLED = 1e-12
_LEFT, _RIGHT = slice(0, 3), slice(3, 6)
"""Sides: nothing known, the entry at that distance known to be 0, known to be 1."""


class XorSides:
    """The two sides of an entry, for one data chain and many noise chains.

    Parameters
    ----------
    transition, start
        The data chain: its matrix, all moves possible, and log P(X_1 = 0) / P(X_1 = 1).
    rho
        One row for each noise chain: P(0 -> 1) and P(1 -> 0).
    """

    def __init__(self, transition: Floats, start: float, rho: Floats) -> None:
        self.start = start
        self.rho = rho
        moves = np.log(np.stack([1 - rho[:, 0], rho[:, 0], rho[:, 1], 1 - rho[:, 1]], axis=1))
        moves = moves.reshape(-1, 2, 2)
        kernels = np.empty((len(rho), 2, 2, 2, 2))
        for z, w in product((0, 1), repeat=2):
            kernels[:, z, w] = np.log(transition) + moves[:, [z, 1 - z]][:, :, [w, 1 - w]]
        to_left = kernels.swapaxes(3, 4)  # far output first, then near output
        to_right = kernels.swapaxes(1, 2)
        self._maps = np.stack([to_left] * 3 + [to_right] * 3)
        plain = np.log(transition)
        self._plain = np.stack([plain.T] * 3 + [plain] * 3)
        self._size = 1 + float(np.abs(kernels).max())

    def padding(self, steps: int) -> Floats:
        """More than rounding can have taken off a part, for each noise chain.

        Every step adds a few units in the last place and shrinks what came before by tanh(D/4),
        where D is the projective diameter of the kernel.
        """
        logs = self._maps[0]
        crossed = logs[..., 0, 0] + logs[..., 1, 1] - logs[..., 0, 1] - logs[..., 1, 0]
        kept = np.tanh(np.abs(crossed).max(axis=(1, 2)) / 4)
        count = np.minimum(steps, 1 / np.maximum(1 - kept, EPS))
        pad: Floats = 32 * EPS * self._size * (1 + count)
        return pad

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """At distance 0, 1, 2, ...: what is said at most, and a bound on all that is further away.

        Shapes (6 sides, chains, outputs, 2) and (2 sides, chains, outputs, 2); the last axis is for
        state 1 and for state 0.
        """
        count = len(self.rho)
        own = np.log(self.rho[:, 1] / self.rho[:, 0])
        low = np.empty((6, count, 2))
        low[0] = self.start + np.stack([own, -own], axis=1)
        low[1], low[2], low[3], low[4], low[5] = inf, -inf, 0.0, inf, -inf
        high = low.copy()
        reference = np.array([self.start, inf, -inf, 0.0, inf, -inf])
        outer = np.broadcast_to(np.array([-inf, inf])[:, None, None, None], (2, 2, count, 2))
        silent = np.array([[-inf, -inf], [inf, inf]])
        sides = [0, 3]
        while True:
            ratios = np.full((6, count, 2, 2), -inf)
            finite = np.isfinite(reference)
            away = reference[finite][:, None, None]
            ratios[finite] = np.stack([away - low[finite], high[finite] - away], axis=-1)
            if np.isfinite(silent).all():
                limits = silent[:, :, None, None]
                beyond = np.stack([limits[1] - outer[0], outer[1] - limits[0]], axis=-1)
            else:
                beyond = np.full((2, count, 2, 2), inf)
            yield ratios, beyond
            low, high = _moved_range(self._maps, low, high)
            reference = _moved(self._plain, reference)
            outer = np.stack(_moved_range(self._maps[sides], outer[0], outer[1]))
            ends = np.stack([_moved(self._plain[sides], silent[end]) for end in (0, 1)])
            silent = np.stack([ends.min(axis=0), ends.max(axis=0)])


def _moved(logs: Floats, g: Floats) -> Floats:
    """Log (m00 e^g + m01) / (m10 e^g + m11), with the limits at g = +-inf."""
    a, b, c, d = logs[..., 0, 0], logs[..., 0, 1], logs[..., 1, 0], logs[..., 1, 1]
    finite = np.isfinite(g)
    if finite.all():
        moved: Floats = np.logaddexp(a + g, b) - np.logaddexp(c + g, d)
        return moved
    inner = np.where(finite, g, 0.0)
    moved = np.logaddexp(a + inner, b) - np.logaddexp(c + inner, d)
    limited: Floats = np.where(finite, moved, np.where(g > 0, a - c, b - d))
    return limited


def _moved_range(maps: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Least and largest value for each near output, over the far ones."""
    shape = maps.shape[:-2]
    one = _moved(maps, np.broadcast_to(low[..., None], shape))
    two = _moved(maps, np.broadcast_to(high[..., None], shape))
    return np.minimum(one, two).min(axis=-2), np.maximum(one, two).max(axis=-2)


def longest_losses(sides: XorSides, every: bool, enough: float = inf) -> tuple[Floats, Floats]:
    """Supremum over all lengths: what near distances reach, and a bound on it.

    Both have a row for each noise chain: 0 over 1, and 1 over 0. With ``enough``, for searches,
    chains that lose more, or lose no more with greater distance, are followed no further.
    """
    parts = (_LEFT, _RIGHT) if every else (slice(0, 1), slice(3, 4))
    best = np.full((2, len(sides.rho), 2, 2), -inf)
    before = np.full((len(sides.rho), 2), -inf)
    for steps, (ratios, beyond) in enumerate(sides.walk()):
        best = np.maximum(best, np.stack([ratios[part].max(axis=0) for part in parts]))
        if steps & 7 and steps < FARTHEST:
            continue
        near = best.sum(axis=0).max(axis=1)
        far = np.maximum(best, beyond).sum(axis=0).max(axis=1)
        known = (far - near <= CLOSE).all(axis=1)
        if enough < inf:
            known |= (near > enough).any(axis=1) | (near - before <= _SETTLED).all(axis=1)
        if steps >= FARTHEST or known.all():
            break
        before = near
    pad = 2 * sides.padding(steps)[:, None]
    return np.maximum(near[:, ::-1], 0.0), np.maximum(far[:, ::-1] + pad, 0.0)


def losses_of_length(sides: XorSides, length: int, every: bool) -> Floats:
    """Largest losses over all entries of a series: a row for each noise chain, rounded up."""
    ratios = np.stack([step[0] for step, _ in zip(sides.walk(), range(length), strict=False)])
    left, right = ratios[:, 0], ratios[:, 3]
    if every and length > 1:
        known = np.maximum.accumulate(ratios, axis=0)
        right = np.maximum(right, known[:, 4:].max(axis=1))
        # An entry known at X_1 has a value that X_1 can take.
        first = [u for u, end in enumerate((-inf, inf)) if sides.start != end]
        left[1:] = np.maximum(left[1:], ratios[1:, [1 + u for u in first]].max(axis=1))
        left[2:] = np.maximum(left[2:], known[1:-1, 1:3].max(axis=1))
    worst: Floats = (left + right[::-1]).max(axis=(0, 2))
    return np.maximum(worst[:, ::-1] + 2 * sides.padding(length)[:, None], 0.0)


LONGEST = 1 << 12
"""Series up to this length are followed to the end; longer ones are promised as any length is."""

_HALF = 0.5
_GRID = 24
_LARGE = 40.0


@dataclass(frozen=True, eq=False)
class XorChain:
    """Bits of a binary chain, XORed with a stationary binary noise chain.

    Parameters
    ----------
    chain
        The belief about the bits: all moves possible, any start.
    rho_0, rho_1
        P(noise 0 -> 1) and P(noise 1 -> 0), strictly between 0 and 1.

    Examples
    --------
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> print(XorChain(chain, 0.0415, 0.4585).loss(9, "every"))
    loss = 4.68621 (adversary: every; length 9; exact recursion)
    """

    chain: MarkovChain
    rho_0: float
    rho_1: float

    def __post_init__(self) -> None:
        check_bits(self.chain)
        for name in ("rho_0", "rho_1"):
            object.__setattr__(self, name, noise_move(name, getattr(self, name)))

    @property
    def expected_noise(self) -> float:
        """Share of bits that are flipped: rho_0 / (rho_0 + rho_1)."""
        return self.rho_0 / (self.rho_0 + self.rho_1)

    @property
    def noise(self) -> Floats:
        """Transition matrix of the noise chain."""
        return np.array([[1 - self.rho_0, self.rho_0], [self.rho_1, 1 - self.rho_1]])

    def loss(self, length: int | None = None, adversary: str = "ignorant") -> Loss:
        """The loss of series of this length; ``None``: the supremum over all lengths.

        Parameters
        ----------
        length
            Number of entries. Up to 4096 the loss is exact; beyond, that of any length bounds it.
        adversary
            ``"ignorant"`` ([B] 3.3) or ``"every"`` ([B] Definition 4).
        """
        size = None if length is None else checks.whole("length", length, 1)
        every = known_adversary(adversary) == "every"
        sides = xor_sides(self.chain, np.array([[self.rho_0, self.rho_1]]))
        if size is not None and size <= LONGEST:
            zero, one = losses_of_length(sides, size, every)[0].tolist()
            return Loss((zero, one), adversary, size, "exact recursion", True)
        near, far = longest_losses(sides, every)
        (zero, one), exact = far[0].tolist(), bool((far - near).max() <= 2 * CLOSE)
        return Loss((zero, one), adversary, size, "recursion to the limit", exact and size is None)


def check_bits(chain: Any) -> None:
    """Raise an error unless this is a binary chain in which every move is possible."""
    if not isinstance(chain, MarkovChain) or len(chain) != 2:
        raise ValueError("chain: must be a MarkovChain of two states")
    if not (chain.transition > 0).all():
        raise ValueError("chain: must have no zeros, so that every move is possible")


def noise_move(name: str, value: Any) -> float:
    """A probability of the noise chain, or an error."""
    rho = checks.real(name, value)
    if not 0 < rho < 1:
        raise ValueError(f"{name}: must lie strictly between 0 and 1, got {rho:g}")
    return rho


def xor_sides(chain: MarkovChain, rho: Floats) -> XorSides:
    """The sides of an entry of this chain, for noise chains with these rows of rho_0, rho_1."""
    return XorSides(chain.transition, Binary.of(chain).start, rho)


def correlated_noise_rows(
    theta: float, epsilon: float, sums: Iterable[float], adversary: str = "ignorant"
) -> list[dict[str, Any]]:
    """Least expected noise of the XOR chain for each rho_0 + rho_1, over all lengths.

    Parameters
    ----------
    theta
        Probability that the (symmetric) data chain changes state.
    epsilon
        Loss allowed.
    sums
        Values of rho_0 + rho_1, in (0, 2); at 1 the noise is independent. [B] assumes a sum of at
        most 1, and theta < rho_0.
    adversary
        ``"ignorant"``, as in [B] 3.3, or ``"every"``.

    Returns
    -------
    list of dict
        ``sum``, ``rho_0``, ``rho_1``, ``expected_noise``, ``loss``, and ``assumptions``: whether
        those of [B] 3.3 hold at the solution. Sums at which no noise is private are left out.
    """
    theta, epsilon = checks.real("theta", theta), checks.privacy(epsilon)
    every = known_adversary(adversary) == "every"
    chain = MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
    check_bits(chain)
    totals = np.array([checks.real("sums", total) for total in sums])
    if not ((totals > 0) & (totals < 2)).all():
        raise ValueError("sums: rho_0 + rho_1 lies strictly between 0 and 2")
    rows = []
    for total, share in zip(
        totals.tolist(), least_shares(chain, totals, epsilon, every), strict=True
    ):
        if share > _HALF:
            continue
        made = XorChain(chain, share * total, (1 - share) * total)
        rows.append(
            {
                "sum": total,
                "rho_0": made.rho_0,
                "rho_1": made.rho_1,
                "expected_noise": made.expected_noise,
                "loss": float(made.loss(None, adversary)),
                "assumptions": bool(total <= 1 and theta < made.rho_0 < made.rho_1),
            }
        )
    return rows


def least_shares(
    chain: MarkovChain,
    totals: Floats,
    epsilon: float,
    every: bool,
    length: int | None = None,
    precision: float = 1e-12,
) -> Floats:
    """For each rho_0 + rho_1 the least share of flips that is private; above 1/2 where none is.

    The shares of a grid are tried, then those between the least that passed and the one below it,
    by what near distances reach: not certified.
    """

    def private(shares: Floats, sums: Floats) -> NDArray[np.bool_]:
        rho = np.stack([shares * sums, (1 - shares) * sums], axis=-1)
        passed: NDArray[np.bool_] = np.asarray(((rho > 0) & (rho < 1)).all(axis=-1))
        sides = xor_sides(chain, rho[passed])
        if length is not None and length <= LONGEST:
            losses = losses_of_length(sides, length, every)
        else:
            losses = longest_losses(sides, every, epsilon)[0]
        passed[passed] = losses.max(axis=1) <= epsilon
        return passed

    grid = np.geomspace(np.exp(-min(epsilon, _LARGE)) / 8, _HALF, _GRID)
    tried = private(np.tile(grid, len(totals)), np.repeat(totals, _GRID)).reshape(-1, _GRID)
    first = tried.argmax(axis=1)
    good = np.where(tried.any(axis=1), grid[first], 1.0)
    bad = np.where((first > 0) & (good < 1), grid[first - 1], good)
    return last_passing_each(lambda shares: private(shares, totals), good, bad, precision)
