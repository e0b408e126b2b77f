"""The influence curve by brute force, from definitions alone: no code of the package is used.

Three things are computed here, each on its own.

- What a release really loses. ``f`` is the likelihood of one output as a function of the data. The
  loss of entry i is the largest log E[f | X_i = x] / E[f | X_i = x'] over possible x, x'. Small
  chains are done by listing all paths; product mechanisms on long chains by passing messages.
- What the theorem promises: all blocks l and m at every node, steps by trying all subsets.
- Extremal releases that spend exactly b_t on entry t.

A promise below a real loss is a broken promise. A promise below the theorem has no proof.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from itertools import product
from math import inf, log

import numpy as np

# ------------------------------------------------------------------ chains by listing all paths


@cache
def paths(states: int, length: int) -> np.ndarray:
    """All paths, one in each row."""
    return np.array(list(product(range(states), repeat=length)))


def losses_by_paths(distributions, transition, length: int, logs: np.ndarray) -> np.ndarray:
    """The loss of every entry, over all the initial ``distributions``.

    ``logs`` is log f: one row for each output, one column for each path.
    """
    distributions, transition = (
        np.atleast_2d(np.asarray(distributions, float)),
        np.asarray(transition, float),
    )
    size, all_paths = len(transition), paths(len(transition), length)
    given_first = np.ones(len(all_paths))  # the distribution of a path given its first entry
    for before, after in zip(all_paths.T[:-1], all_paths.T[1:], strict=True):
        given_first = given_first * transition[before, after]
    able = given_first > 0
    all_paths, given_first, logs = all_paths[able], given_first[able], logs[:, able]
    weighted = np.exp(logs - logs.max(axis=1, keepdims=True)) * given_first
    losses = np.zeros(length)
    for i in range(length):
        # For first entry u and X_i = x: the probability, and the mean of f on that event.
        event = (all_paths[:, 0] * size + all_paths[:, i])[:, None] == np.arange(size**2)
        chance = (given_first @ event).reshape(size, size)
        mean = (weighted @ event).reshape(-1, size, size)
        for distribution in distributions:
            possible = distribution @ chance > 0
            given = (distribution @ mean)[:, possible] / (distribution @ chance)[possible]
            assert (given > 1e-290).all(), "pick a smaller b: this brute force has underflowed"
            logs_given = np.log(given)
            losses[i] = max(losses[i], (logs_given.max(axis=1) - logs_given.min(axis=1)).max())
    return losses


# ------------------------------------------------------------- releases that spend b on each entry


def count_release(states: int, length: int, state: int, b: float) -> np.ndarray:
    """Count of a state plus Laplace noise of scale 1/b. Extremes lie at whole outputs."""
    counts = (paths(states, length) == state).sum(axis=1)
    return -b * np.abs(counts[None, :] - np.arange(length + 1)[:, None])


def total_release(states: int, length: int, values, b: float) -> np.ndarray:
    """Sum of values plus Laplace noise. Extremes lie at outputs that are possible sums."""
    values = np.asarray(values, float)
    sums = values[paths(states, length)].sum(axis=1)
    return -b / np.ptp(values) * np.abs(sums[None, :] - np.unique(sums.round(9))[:, None])


def histogram_release(states: int, length: int, b: float) -> np.ndarray:
    """Histogram plus Laplace noise of scale 2/b in every bin."""
    bins = np.array([(paths(states, length) == x).sum(axis=1) for x in range(states)])
    outputs = np.array(list(product(range(length + 1), repeat=states)))
    return -b / 2 * sum(np.abs(bins[x][None, :] - outputs[:, x, None]) for x in range(states))


def product_release(states: int, sets, bs) -> np.ndarray:
    """f(x) = exp(sum of b_t over t with x_t in S_t); one sequence of sets."""
    all_paths = paths(states, len(sets))
    inside = [np.isin(all_paths[:, t], list(chosen)) for t, chosen in enumerate(sets)]
    return (np.array(bs) @ np.array(inside, dtype=float))[None, :]


def random_release(rng: np.random.Generator, states: int, bs, outputs: int = 40) -> np.ndarray:
    """Arbitrary likelihoods that one entry t can move by b_t: lower envelopes of cones."""
    bs = np.asarray(bs, float)
    all_paths = paths(states, len(bs))
    rows = []
    for _ in range(outputs):
        anchors = all_paths[rng.integers(len(all_paths), size=rng.integers(1, 6))]
        heights = rng.random(len(anchors)) * bs.sum() * rng.choice([0.0, 0.2, 1.0])
        distances = (all_paths[None, :, :] != anchors[:, None, :]) @ bs
        rows.append(rng.choice([-1, 1]) * (heights[:, None] + distances).min(axis=0))
    return np.array(rows)


def every_release(rng: np.random.Generator, states: int, length: int, b: float) -> np.ndarray:
    """Outputs of all the releases above that have one b for all entries."""
    releases = [count_release(states, length, x, b) for x in range(states)]
    releases.append(random_release(rng, states, np.full(length, b)))
    if states > 1:
        releases.append(total_release(states, length, np.arange(states) ** 2.0, b))
        releases.append(total_release(states, length, rng.permutation(states), b))
    if states > 1 and (length + 1) ** states <= 1300:
        releases.append(histogram_release(states, length, b))
    return np.vstack(releases)


def releases_with_profile(rng: np.random.Generator, states: int, bs) -> np.ndarray:
    """Arbitrary and product releases that spend b_t on entry t."""
    subsets = _proper_subsets(states)
    chosen = [rng.integers(len(subsets), size=len(bs)) for _ in range(20)]
    products = [product_release(states, [subsets[n] for n in row], bs) for row in chosen]
    return np.vstack([random_release(rng, states, bs), *products])


def _proper_subsets(states: int) -> list[tuple[int, ...]]:
    masks = range(1, max(2, 2**states - 1))
    return [tuple(x for x in range(states) if mask >> x & 1) for mask in masks]


# -------------------------------------------------- the worst product release, by passing messages


def product_losses(initial, transition, bs, beam: int = 4096) -> np.ndarray:
    """The loss of every entry to the worst release f(x) = exp(sum of b_t over x_t in S_t).

    Given X_i the sides are independent, so the sets to the left, at and to the right of i can be
    chosen apart. All choices are followed while there are at most ``beam``; then those that
    separate some pair of states most, and some others: still real releases, so still real losses.
    """
    initial, transition = np.asarray(initial, float), np.asarray(transition, float)
    distributions = marginals(initial, transition, len(bs))
    backwards = [_reversed(distributions[t], transition) for t in range(len(bs) - 1)]
    right = _messages([transition] * (len(bs) - 1), bs[::-1], len(initial), beam)[::-1]
    left = _messages(backwards, bs, len(initial), beam)
    losses = np.zeros(len(bs))
    for i, distribution in enumerate(distributions):
        possible = np.flatnonzero(distribution > 0)
        if len(possible) > 1:
            pairs = np.ix_(possible, possible)
            losses[i] = bs[i] + (_best(left[i])[pairs] + _best(right[i])[pairs]).max()
    return losses


def _messages(kernels, bs, size: int, beam: int) -> list[np.ndarray]:
    """Logs of what each choice of sets beyond a node makes of every value at that node."""
    tilts = np.array([[1.0 if x in s else 0.0 for x in range(size)] for s in _proper_subsets(size)])
    messages = [np.zeros((1, size))]
    for kernel, b in zip(kernels, bs, strict=False):
        here = (messages[-1][:, None, :] + b * tilts[None, :, :]).reshape(-1, size)
        with np.errstate(divide="ignore"):
            logs = np.logaddexp.reduce(np.log(kernel)[None, :, :] + here[:, None, :], axis=2)
        known = kernel.any(axis=1)
        logs[:, ~known] = 0.0  # a value that cannot occur
        logs -= logs[:, known].max(axis=1, keepdims=True)
        messages.append(_thinned(logs, beam))
    return messages


def _thinned(logs: np.ndarray, beam: int) -> np.ndarray:
    if len(logs) <= beam:
        return logs
    differences = logs[:, :, None] - logs[:, None, :]
    best = np.argsort(-differences, axis=0)[: max(1, beam // 2 // logs.shape[1] ** 2)].ravel()
    others = np.random.default_rng(len(logs)).integers(len(logs), size=beam - len(best))
    return logs[np.unique(np.concatenate([best, others]))]


def _best(logs: np.ndarray) -> np.ndarray:
    return (logs[:, :, None] - logs[:, None, :]).max(axis=0)


def marginals(initial, transition, length: int) -> np.ndarray:
    """The distribution of every entry."""
    distributions = [np.asarray(initial, float)]
    for _ in range(length - 1):
        distributions.append(distributions[-1] @ np.asarray(transition, float))
    return np.array(distributions)


def _reversed(distribution: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """P(X_t = u | X_{t+1} = x) from the distribution of X_t; rows of impossible x are zero."""
    joint = (distribution[:, None] * transition).T
    sums = joint.sum(axis=1, keepdims=True)
    return np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)


def starts(rng: np.random.Generator, size: int, random: int = 6) -> list[np.ndarray]:
    """Initial distributions to try where any start is possible: corners, near ones, random."""
    eye = np.eye(size)
    rows = [*eye, np.full(size, 1 / size)]
    for x, y in product(range(size), repeat=2):
        if x != y:
            rows += [(1 - s) * eye[x] + s * eye[y] for s in (1e-9, 1e-5, 1e-3, 0.02, 0.1, 0.3)]
    rest = [rng.dirichlet(np.full(size, rng.choice([0.1, 1.0]))) for _ in range(random)]
    return [
        *rows,
        *(
            np.maximum(distribution, 1e-12) / np.maximum(distribution, 1e-12).sum()
            for distribution in rest
        ),
    ]


# ------------------------------------------------------------- the theorem, every block, no tricks


def step(kernel, a) -> np.ndarray:
    """step_{x,x'}(K, a) for every pair, by all subsets. Kernels and a may be stacked."""
    kernel, a = np.asarray(kernel, float), np.asarray(a, float)[..., None, None]
    size = kernel.shape[-1]
    masks = np.array(list(product([0.0, 1.0], repeat=size)))
    inside = np.minimum(kernel @ masks.T, 1.0)
    outside = np.minimum(kernel @ (1 - masks).T, 1.0)  # never 1 - inside: tails decide
    with np.errstate(divide="ignore", invalid="ignore"):
        if np.isinf(a).any():
            logs = np.log(inside)
        else:
            logs = np.logaddexp(np.log(inside) + a, np.log(outside))
        differences = logs[..., :, None, :] - logs[..., None, :, :]
    differences[np.isnan(differences)] = -inf  # terms that are both 0 are skipped
    return differences.max(axis=-1)


def diameter_step(diameter, a) -> np.ndarray:
    """tanh(s / 4) = tanh(D / 4) tanh(a / 4) solved for s, for stacks of D and a.

    Written as e^{s/2} = (e^{(D+a)/2} + 1) / (e^{D/2} + e^{a/2}), because tanh is 1 to a float from
    20 on and nothing can be got back from it.
    """
    least, most = np.minimum(diameter, a), np.maximum(diameter, a)
    finite = np.where(np.isfinite(most), most, 0.0)
    low = np.minimum(least, finite)
    s = 2 * (np.logaddexp((low + finite) / 2, 0) - np.logaddexp(low / 2, finite / 2))
    return np.where(np.isfinite(most), np.maximum(s, 0.0), least)


def diameters(columns: np.ndarray) -> np.ndarray:
    """The projective diameter of every pair of columns of a non-negative matrix."""
    size = columns.shape[1]
    table = np.zeros((size, size))
    for x, y in product(range(size), repeat=2):
        rows = (columns[:, x] > 0) | (columns[:, y] > 0)
        with np.errstate(divide="ignore"):
            ratios = np.log(columns[rows, x]) - np.log(columns[rows, y])
        if x != y and len(ratios):
            table[x, y] = ratios.max() - ratios.min() if np.isfinite(ratios).all() else inf
    return table


StepsAt = Callable[[int, np.ndarray], np.ndarray]
"""(node, variation beyond blocks 1, 2, ...) to the steps of those blocks for every pair."""


def theorem_losses(transition, bs, initial=None) -> np.ndarray:
    """loss_i of docs/theory.md for every entry; any start if ``initial`` is left out."""
    transition, bs = np.asarray(transition, float), np.asarray(bs, float)
    length, size = len(bs), len(transition)
    powers = [np.eye(size)]
    for _ in range(length):
        powers.append(powers[-1] @ transition)
    stack = np.array(powers[1:])
    if initial is None:
        supports = [powers[t].max(axis=0) > 0 for t in range(length)]
        left_steps = _any_start_steps(powers, supports)
    else:
        distributions = marginals(initial, transition, length)
        supports = [distribution > 0 for distribution in distributions]
        left_steps = _given_steps(powers, distributions)
    pairs = [np.outer(s, s) for s in supports]
    beta = _sweep(lambda i, a: step(stack[: len(a)], a), bs[::-1], pairs[::-1])
    alpha = _sweep(left_steps, bs, pairs)
    losses = np.zeros(length)
    for i in range(length):
        before = _options(left_steps, bs, alpha, i, size)
        after = _options(
            lambda j, a: step(stack[: len(a)], a), bs[::-1], beta, length - 1 - i, size
        )
        best = inf
        for spent, steps in zip(*before, strict=True):
            both = np.where(pairs[i], steps + after[1], -inf).max(axis=(1, 2))
            best = min(best, float((spent + after[0] - bs[i] + both).min()))
        losses[i] = best
    return losses


def _options(steps: StepsAt, bs, values, i: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every block at node i, and last of all the side exhausted: what is spent, and the steps."""
    spent = np.cumsum(bs[: i + 1][::-1])
    options = np.zeros((i + 1, size, size))
    if i:
        options[:-1] = steps(i, values[:i][::-1])
    return spent, options


def _sweep(steps: StepsAt, bs, pairs) -> np.ndarray:
    values = np.zeros(len(bs))
    for i in range(len(bs)):
        spent, options = _options(steps, bs, values, i, len(pairs[0]))
        values[i] = (spent + np.where(pairs[i], options, -inf).max(axis=(1, 2))).min()
    return values


def _given_steps(powers, distributions) -> StepsAt:
    def steps(i: int, a: np.ndarray) -> np.ndarray:
        kernels = np.array(
            [_reversed(distributions[i - m], powers[m]) for m in range(1, len(a) + 1)]
        )
        return step(kernels, a)

    return steps


def _any_start_steps(powers, supports) -> StepsAt:
    known: dict[tuple[int, bytes], np.ndarray] = {}

    def diameter(i: int, m: int) -> np.ndarray:
        key = m, supports[i - m].tobytes()
        if key not in known:
            known[key] = diameters(powers[m][supports[i - m]])
        return known[key]

    def steps(i: int, a: np.ndarray) -> np.ndarray:
        stack = np.array([diameter(i, m) for m in range(1, len(a) + 1)])
        return diameter_step(stack, np.asarray(a)[:, None, None])

    return steps


# --------------------------------------------------------------------------------- random chains


def random_matrix(rng: np.random.Generator, size: int, kind: str | None = None) -> np.ndarray:
    """A transition matrix: dense, sparse, periodic, reducible, with ties, or deterministic."""
    kinds = [
        "dense",
        "skewed",
        "sparse",
        "periodic",
        "reducible",
        "ties",
        "deterministic",
        "sticky",
    ]
    kind = kind or str(rng.choice(kinds))
    if kind == "skewed":
        matrix = rng.dirichlet(np.full(size, 0.15), size)
        matrix = np.maximum(matrix, 1e-9)
    elif kind == "sparse":
        matrix = rng.random((size, size)) * (rng.random((size, size)) < 0.5)
        matrix[np.arange(size), rng.permutation(size)] += 0.2
    elif kind == "periodic":
        matrix = np.zeros((size, size))
        half = max(1, size // 2)
        matrix[:half, half:] = rng.random((half, size - half)) + 0.01
        matrix[half:, :half] = rng.random((size - half, half)) + 0.01
        if size == 1:
            matrix[:] = 1.0
    elif kind == "reducible":
        matrix = np.triu(rng.random((size, size)) + 0.01)
    elif kind == "ties":
        rows = rng.integers(1, 4, (2, size)).astype(float)
        matrix = rows[rng.integers(2, size=size)]
    elif kind == "deterministic":
        matrix = np.eye(size)[rng.integers(size, size=size)]
    elif kind == "sticky":
        matrix = np.eye(size) * 20 + rng.random((size, size))
    else:
        matrix = rng.random((size, size)) + 0.02
    return matrix / matrix.sum(axis=1, keepdims=True)


def random_start(rng: np.random.Generator, size: int) -> np.ndarray:
    """A point mass, a distribution with zeros, or a full one."""
    distribution = rng.dirichlet(np.ones(size))
    if rng.random() < 0.5:
        distribution *= rng.random(size) < 0.6
    if rng.random() < 0.3 or distribution.sum() == 0:
        distribution = np.eye(size)[rng.integers(size)]
    return distribution / distribution.sum()


def stationary_distribution(transition) -> np.ndarray:
    """A stationary distribution as a left eigenvector; for checks that need no more than 1e-9."""
    size = len(transition)
    system = np.vstack([np.asarray(transition).T - np.eye(size), np.ones(size)])
    return np.maximum(np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0], 0)


def mixing_of(transition) -> tuple[float, float]:
    """pi_min and 1 - lambda_2(P P*), with P* the time reversal: [Q] (6) and (7)."""
    transition = np.asarray(transition, float)
    pi = stationary_distribution(transition)
    both = transition @ ((transition.T * pi) / pi[:, None])
    moduli = np.sort(np.abs(np.linalg.eigvals(both)))
    return float(pi.min()), float(1 - moduli[-2]) if len(pi) > 1 else 1.0


def binary_diameter(stay: float, other: float) -> float:
    """log (1-q)(1-r) / (q r) in absolute value, with q, r the probabilities of leaving."""
    leave, leave_other = 1 - stay, 1 - other
    if min(stay, other, leave, leave_other) <= 0:
        return inf
    return abs(log(stay * other / (leave * leave_other)))


# ------------------------------------------------------------------------------------------ time


@contextmanager
def within(seconds: int):
    """Fail, rather than hang, if what is inside computes for longer; waiting does not count."""

    def stop(*_):
        raise TimeoutError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
