"""The definitions, written out. Slow on purpose, and without a line of pufferkit.

Nodes count from 1. A distribution is a sequence of probabilities, a matrix a sequence of
distributions; entries may be floats or `Fraction`, and with fractions everything is exact until the
last logarithm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import exp, inf, lcm, log, log1p
from typing import Any

import numpy as np

Number = float | Fraction
Distribution = Sequence[Number]
Matrix = Sequence[Distribution]


# --- the joint distribution, one entry for each path ----------------------------------------------


def joint_distribution(initial: Distribution, transition: Matrix, length: int) -> np.ndarray:
    """Probability of every path: entry [x_1, ..., x_T]."""
    exact = any(isinstance(p, Fraction) for p in initial)
    kind = object if exact else float
    joint, step = np.array(initial, dtype=kind), np.array(transition, dtype=kind)
    for _ in range(length - 1):
        joint = joint[..., None] * step
    return joint


def conditional_distributions(
    joint: np.ndarray, node: int, others: Sequence[int]
) -> list[np.ndarray]:
    """Distributions of the ``others`` given each possible value of X_node."""
    axes = [node - 1, *(n - 1 for n in others)]
    rest = tuple(n for n in range(joint.ndim) if n not in axes)
    table = joint.sum(axis=rest) if rest else joint
    first = sorted(axes).index(node - 1)
    rows = np.moveaxis(table, first, 0).reshape(joint.shape[0], -1)
    return [row / row.sum() for row in rows if row.sum() > 0]


def influence_in(joint: np.ndarray, node: int, others: Sequence[int]) -> float:
    """[Q] Definition 4.1: terms that are both 0 are skipped, c/0 is infinite."""
    if not others:
        return 0.0
    worst: Number = 1
    for above, below in product(conditional_distributions(joint, node, others), repeat=2):
        happens = above > 0
        if (below[happens] == 0).any():
            return inf
        worst = max(worst, *(above[happens] / below[happens]))
    return exact_log(worst)


def influence(
    initial: Distribution,
    transition: Matrix,
    length: int,
    node: int,
    left: int | None,
    right: int | None,
) -> float:
    """Max-influence of X_node on {X_{node-left}, X_{node+right}} in a chain of this length."""
    return influence_in(
        joint_distribution(initial, transition, length), node, _endpoints(node, left, right)
    )


def exact_log(ratio: Number) -> float:
    """Logarithm to full relative accuracy, of fractions of any size."""
    if not isinstance(ratio, Fraction):
        return log(ratio)
    if Fraction(1, 2) < ratio < 2:
        return log1p(float(ratio - 1))
    # A power of two is split off exactly, so that what is left fits a float.
    doublings = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    return log(float(ratio / Fraction(2) ** doublings)) + doublings * log(2)


# --- quilts ---------------------------------------------------------------------------------------


def quilts(length: int, node: int) -> Iterator[tuple[int | None, int | None, int]]:
    """All of [Q] Lemma 4.6: distances of the endpoints, and the number of nearby nodes."""
    for left in (None, *range(1, node)):
        for right in (None, *range(1, length - node + 1)):
            first = 1 if left is None else node - left + 1
            last = length if right is None else node + right - 1
            yield left, right, last - first + 1


def _endpoints(node: int, left: int | None, right: int | None) -> list[int]:
    ends = [] if left is None else [node - left]
    return ends if right is None else [*ends, node + right]


def score(nearby: int, epsilon: float, influence: float) -> float:
    """Of a quilt, [Q] Algorithm 2."""
    return nearby / (epsilon - influence) if influence < epsilon else inf


def node_scores(
    influence: Callable[[int, int | None, int | None], float], length: int, epsilon: float
) -> list[float]:
    """The least score of every node, over all quilts."""
    return [
        min(
            score(nearby, epsilon, influence(node, left, right))
            for left, right, nearby in quilts(length, node)
        )
        for node in range(1, length + 1)
    ]


def quilt_scale(initial: Distribution, transition: Matrix, length: int, epsilon: float) -> float:
    """[Q] Algorithm 3 for a 1-Lipschitz query, by listing paths."""
    joint = joint_distribution(initial, transition, length)
    return max(
        node_scores(lambda i, a, b: influence_in(joint, i, _endpoints(i, a, b)), length, epsilon)
    )


# --- formula (5), for what paths cannot reach -----------------------------------------------------


def exact_power(transition: Matrix, steps: int) -> list[list[Fraction]]:
    """P^steps in fractions, by whole numbers over one denominator."""
    scale = lcm(*(Fraction(p).denominator for row in transition for p in row))
    whole = np.array([[int(p * scale) for p in row] for row in transition], dtype=object)
    power = np.linalg.matrix_power(whole, steps) if steps else np.eye(len(whole), dtype=int)
    return [[Fraction(int(n), scale**steps) for n in row] for row in power]


def _largest(pairs: Iterator[tuple[Fraction, Fraction]]) -> Fraction | float:
    """The largest ratio; infinite at c/0; terms that are both 0 skipped; 0 if nothing is left."""
    largest: Fraction | float = Fraction(0)
    for above, below in pairs:
        if above > 0 and below == 0:
            return inf
        if below > 0:
            largest = max(largest, above / below)
    return largest


def three_point_influence(
    initial: Distribution,
    transition: Matrix,
    node: int,
    left: int | None,
    right: int | None,
    *,
    all_sources: bool = False,
) -> float:
    """Max-influence from the distribution of the three nodes involved, in fractions.

    ``all_sources`` is [Q] (5) as printed: X_{node-left} runs over impossible values too.
    """
    size = range(len(initial))
    distribution = _row(initial, exact_power(transition, node - 1))
    sources = _row(initial, exact_power(transition, node - 1 - (left or 0)))
    before, after = exact_power(transition, left or 0), exact_power(transition, right or 0)
    worst = 0.0
    for x, other in product(size, repeat=2):
        if x == other or distribution[x] == 0 or distribution[other] == 0:
            continue
        parts: list[Fraction | float] = []
        if right is not None:
            parts.append(_largest((after[x][y], after[other][y]) for y in size))
        if left is not None:
            parts.append(distribution[other] / distribution[x])
            parts.append(
                _largest(
                    (before[u][x], before[u][other]) for u in size if sources[u] or all_sources
                )
            )
        if inf in parts:
            return inf
        ratio = Fraction(1)
        for part in parts:
            ratio *= part
        worst = max(worst, exact_log(ratio))
    return worst


def _row(distribution: Distribution, power: Matrix) -> list[Fraction]:
    return [
        sum((Fraction(p) * row[y] for p, row in zip(distribution, power, strict=True)), Fraction(0))
        for y in range(len(distribution))
    ]


def scan_scale(
    initial: Distribution,
    transition: Matrix,
    length: int,
    epsilon: float,
    *,
    all_sources: bool = False,
    any_start: bool = False,
) -> float:
    """[Q] Algorithm 3 over all quilts and nodes from tables of (5): every score is looked at.

    ``all_sources`` as in `three_point_influence`; ``any_start`` is [Q] C.4.
    """
    step = np.array(transition, dtype=float)
    size = len(step)
    power, distribution = [np.eye(size)], [np.array(initial, dtype=float)]
    for _ in range(length):
        power.append(power[-1] @ step)
        distribution.append(distribution[-1] @ step)
    right = [_row_ratios(p) for p in power]
    if any_start:
        reached = [p.any(axis=0) for p in power]
        prior = [_row_ratios(p.T).T for p in power]
    else:
        reached = [p > 0 for p in distribution]
        prior = [_log(p)[None, :] - _log(p)[:, None] for p in distribution]

    @cache
    def left(a: int, sources: bytes) -> np.ndarray:
        return _row_ratios(power[a][np.frombuffer(sources, dtype=bool)].T)

    worst = 0.0
    for i in range(1, length + 1):
        states = np.flatnonzero(reached[i - 1])
        pairs = np.ix_(states, states)
        b_side = np.array([right[b][pairs].ravel() for b in range(1, length - i + 1)])
        best = length / epsilon
        if len(b_side):
            best = min(best, _least(i + np.arange(len(b_side)), epsilon, b_side.max(axis=1)))
        for a in range(1, i):
            known = np.ones(size, bool) if all_sources else reached[i - a - 1]
            base = (prior[i - 1][pairs] + left(a, known.tobytes())[pairs]).ravel()
            best = min(best, score(length - i + a, epsilon, base.max()))
            if len(b_side):
                both = (base + b_side).max(axis=1)
                best = min(best, _least(a + np.arange(len(b_side)), epsilon, both))
        worst = max(worst, best)
    return worst


def _least(nearby: np.ndarray, epsilon: float, influence: np.ndarray) -> float:
    room = epsilon - influence
    return float(np.where(room > 0, nearby / np.where(room > 0, room, 1), inf).min())


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.where(values > 0, values, 1.0))


def _row_ratios(matrix: np.ndarray) -> np.ndarray:
    """Largest log-ratio of two rows, for all pairs of rows."""
    table = np.empty((len(matrix), len(matrix)))
    for x, other in product(range(len(matrix)), repeat=2):
        above, below = matrix[x], matrix[other]
        happens = above > 0
        if x == other:
            table[x, other] = 0
        elif not happens.any():
            table[x, other] = -inf
        elif (below[happens] == 0).any():
            table[x, other] = inf
        else:
            table[x, other] = np.log(above[happens] / below[happens]).max()
    return table


# --- every initial distribution -------------------------------------------------------------------

ALMOST = 1e-100
"""Weight of all other states in a start that is nearly sure of one: the supremum is a limit."""


def nearly_sure_starts(size: int) -> list[np.ndarray]:
    """Starts that come close to the corners of the simplex from inside.

    For one secret and one quilt the influence is a ratio of linear functions of the start, largest
    at a corner, and all values stay possible inside. So the supremum is the limit at a corner.
    """
    starts = np.full((size, size), ALMOST)
    np.fill_diagonal(starts, 1 - (size - 1) * ALMOST)
    return list(starts)


def influence_over_starts(
    transition: Matrix, length: int, node: int, left: int | None, right: int | None
) -> float:
    """[Q] C.4 by the definition; what grows like 1 / ``ALMOST`` is infinite."""
    largest = max(
        influence(start, transition, length, node, left, right)
        for start in nearly_sure_starts(len(transition))
    )
    return inf if largest > -log(ALMOST) / 2 else largest


def quilt_scale_over_starts(transition: Matrix, length: int, epsilon: float) -> float:
    """The largest `quilt_scale` over starts, with the supremum over starts taken quilt by quilt."""
    return max(
        node_scores(
            lambda i, a, b: influence_over_starts(transition, length, i, a, b), length, epsilon
        )
    )


# --- the privacy that is really lost --------------------------------------------------------------

Answers = Mapping[tuple[float, ...], float]


def answers_given(
    joint: np.ndarray, node: int, answer: Callable[[tuple[int, ...]], tuple[float, ...]]
) -> list[Answers]:
    """Distribution of the exact answer given each possible value of X_node."""
    distributions: list[dict[tuple[float, ...], float]] = [
        defaultdict(float) for _ in range(joint.shape[0])
    ]
    for path in product(range(joint.shape[0]), repeat=joint.ndim):
        if joint[path] > 0:
            distributions[path[node - 1]][answer(path)] += float(joint[path])
    totals = [sum(distribution.values()) for distribution in distributions]
    return [
        {value: p / total for value, p in distribution.items()}
        for distribution, total in zip(distributions, totals, strict=True)
        if total > 0
    ]


def laplace_loss(distributions: Sequence[Answers], scale: float) -> float:
    """Largest log-ratio of densities of answer + Laplace noise, over outputs and pairs.

    Between neighbouring atoms each density is A / z + B z in z = exp(w / scale), for each
    coordinate w of the output, so the ratio of two is a fractional linear function of z^2, hence
    monotone. Beyond the last atom it is constant. So outputs made of atoms are enough.
    """
    atoms = sorted({value for distribution in distributions for value in distribution})
    axes = [sorted(set(values)) for values in zip(*atoms, strict=True)]
    outputs = np.array(list(product(*axes)))
    distance = np.abs(outputs[:, None, :] - np.array(atoms)[None, :, :]).sum(axis=2)
    kernel = np.exp(-distance / scale)
    density = np.array(
        [
            kernel @ [distribution.get(value, 0.0) for value in atoms]
            for distribution in distributions
        ]
    )
    logs = np.log(density)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def privacy_loss(
    initial: Distribution,
    transition: Matrix,
    length: int,
    answer: Callable[[tuple[int, ...]], tuple[float, ...]],
    scale: float,
) -> float:
    """What an adversary who believes in this chain can learn about some entry from one output."""
    joint = joint_distribution(initial, transition, length)
    return max(
        laplace_loss(answers_given(joint, node, answer), scale) for node in range(1, length + 1)
    )


def of_observed(
    answer: Callable[[tuple[int, ...]], tuple[float, ...]], observed: Sequence[bool]
) -> Callable[[tuple[int, ...]], tuple[float, ...]]:
    """The same answer about the observed entries of a path alone; the chain runs through all."""
    return lambda path: answer(tuple(x for x, seen in zip(path, observed, strict=True) if seen))


def count_of(state: int) -> Callable[[tuple[int, ...]], tuple[float, ...]]:
    return lambda path: (float(path.count(state)),)


def sum_of(values: Sequence[float]) -> Callable[[tuple[int, ...]], tuple[float, ...]]:
    return lambda path: (float(sum(values[x] for x in path)),)


def histogram_of(size: int) -> Callable[[tuple[int, ...]], tuple[float, ...]]:
    return lambda path: tuple(float(path.count(x)) for x in range(size))


def lipschitz(answer: Callable[[Any], tuple[Number, ...]], size: int, length: int) -> Number:
    """Largest L1 change of the answer over all pairs of data sets that differ in one entry."""
    largest: Number = 0
    for path in product(range(size), repeat=length):
        for n, state in product(range(length), range(size)):
            moved = answer((*path[:n], state, *path[n + 1 :]))
            change = sum(abs(u - v) for u, v in zip(answer(path), moved, strict=True))
            largest = max(largest, change)
    return largest


# --- mixing and GK16 ------------------------------------------------------------------------------


def exact_stationary(transition: Matrix) -> list[Fraction]:
    """The stationary distribution of an irreducible matrix, by Gauss elimination in fractions."""
    size = len(transition)
    rows = [
        [Fraction(transition[x][y]) - (x == y) for x in range(size)] + [Fraction(0)]
        for y in range(size)
    ]
    rows[-1] = [Fraction(1)] * (size + 1)
    for n in range(size):
        pivot = next(m for m in range(n, size) if rows[m][n] != 0)
        rows[n], rows[pivot] = rows[pivot], rows[n]
        rows[n] = [value / rows[n][n] for value in rows[n]]
        for m in range(size):
            if m != n and rows[m][n] != 0:
                factor = rows[m][n]
                rows[m] = [u - factor * v for u, v in zip(rows[m], rows[n], strict=True)]
    return [row[-1] for row in rows]


def gk16_matrix(initial: Distribution, transition: Matrix, length: int) -> np.ndarray:
    """Entry i, j: half the largest log-ratio of P(X_i | neighbours) when neighbour j changes."""
    joint = joint_distribution(initial, transition, length)
    size, gamma = len(initial), np.zeros((length, length))
    for node in range(1, length + 1):
        neighbours = [n for n in (node - 1, node + 1) if 1 <= n <= length]
        axes = tuple(n - 1 for n in range(1, length + 1) if n not in (node, *neighbours))
        table = np.moveaxis(joint.sum(axis=axes), 0 if node == 1 else 1, -1)
        distributions = {
            around: table[around] / table[around].sum()
            for around in product(range(size), repeat=len(neighbours))
            if table[around].sum() > 0
        }
        for one, two in product(distributions, repeat=2):
            changed = [n for n, u, v in zip(neighbours, one, two, strict=True) if u != v]
            if len(changed) == 1:
                moved = _max_divergence(distributions[one], distributions[two]) / 2
                place = node - 1, changed[0] - 1
                gamma[place] = max(gamma[place], moved)
    return gamma


def _max_divergence(above: np.ndarray, below: np.ndarray) -> float:
    happens = above > 0
    if (below[happens] == 0).any():
        return inf
    return float(np.log(above[happens] / below[happens]).max())


def mixing_bound(pi_min: float, gap: float, left: int | None, right: int | None) -> float:
    """[Q] Lemma C.1 as printed."""

    def term(steps: int) -> float:
        decay = exp(-gap * steps / 2)
        return log((pi_min + decay) / (pi_min - decay)) if decay < pi_min else inf

    return (2 * term(left) if left else 0.0) + (term(right) if right else 0.0)
