"""What pufferkit charges for a case, and what was told for it."""

from collections.abc import Callable
from functools import partial

import numpy as np

import pufferkit as pk
from pufferkit.account.theorems import rules_for
from pufferkit.beliefs.finite_class import BinaryClass
from pufferkit.beliefs.region_class import RegionClass
from tests.attacks.cases import Asked, Case
from tests.oracles.joint_loss import NoisySum, any_start_losses, dependence, losses

MECHANISMS: dict[str, Callable[..., pk.Calibration]] = {
    "influence_curve": pk.influence_curve,
    "markov_quilt": pk.markov_quilt,
    "markov_quilt formula": partial(pk.markov_quilt, influence="formula"),
    "markov_quilt_approx": pk.markov_quilt_approx,
    "approx tight": partial(pk.markov_quilt_approx, bound="tight"),
    "gk16": pk.gk16,
    "wasserstein": pk.wasserstein,
    "exact_sum": pk.exact_sum,
    "group_dp": lambda _, query, epsilon: pk.group_dp(query, epsilon),
    "entry_dp": lambda _, query, epsilon: pk.entry_dp(query, epsilon),
}
LARGEST_GRID = 800


def beliefs_of(case: Case) -> pk.ChainClass:
    """The class of a case."""
    matrices = case.matrices()
    first = matrices[0]
    if case.kind in ("steady", "several"):
        return pk.ChainClass.of(*(pk.MarkovChain.steady(matrix) for matrix in matrices))
    if case.kind == "fixed start":
        start = np.array(case.start)
        return pk.ChainClass.of(pk.MarkovChain(start / start.sum(), first))
    if case.kind == "any start":
        return pk.ChainClass.any_start(*matrices)
    if case.kind == "binary":
        stays = np.diag(first)
        low, high = max(0.0, stays.min() - case.width), min(1.0, stays.max() + case.width)
        return pk.ChainClass.binary(low, high)
    if case.kind == "mixing":
        rarest, gap = _mixing(first)
        return pk.ChainClass.mixing(case.states, rarest * (1 - 1e-9), gap * (1 - 1e-9))
    low, high = first * (1 - case.width), first + case.width * (1 - first)
    return RegionClass(low, high)


def _mixing(matrix: np.ndarray) -> tuple[float, float]:
    """The rarest state and the eigengap of P P*."""
    values, vectors = np.linalg.eig(matrix.T)
    distribution = np.abs(np.real(vectors[:, np.argmin(np.abs(values - 1))]))
    distribution /= distribution.sum()
    root = np.sqrt(distribution)
    symmetric = root[:, None] * matrix / root[None, :]
    return float(distribution.min()), float(1 - np.linalg.svd(symmetric, compute_uv=False)[1] ** 2)


def losses_of(case: Case, theta: pk.ChainClass, history: list[NoisySum]) -> np.ndarray:
    """The joint loss of every entry under the worst chain of the class that is known."""
    if np.prod([_support(case, told) for told in history]) > LARGEST_GRID:
        raise ValueError("too many outputs to list")
    if case.kind in ("steady", "several", "fixed start"):
        chains = theta.chains  # type: ignore[attr-defined]
        worst = [losses(c.initial, c.transition, history, case.lengths) for c in chains]
    else:
        matrices = case.matrices() + _corners(theta)
        worst = [any_start_losses(matrix, history, case.length) for matrix in matrices]
    return np.max(worst, axis=0)


def _corners(theta: pk.ChainClass) -> list[np.ndarray]:
    """Some extreme chains of a region or an interval: sticky ones, restless ones, and others."""
    if isinstance(theta, RegionClass):
        low, high, corners = theta.low, theta.high, []
        size = len(low)
        for orders in ([[x] for x in range(size)], [[] for _ in range(size)], [[0]] * size):
            matrix = low.copy()
            for x, first in enumerate(orders):
                # What is left of a row goes to the first states in order, its own one last if open.
                rest = [y for y in range(size) if y not in first and y != x]
                for y in [*first, *rest, *({x} - set(first))]:
                    matrix[x, y] += min(high[x, y] - low[x, y], 1 - matrix[x].sum())
            corners.append(matrix / matrix.sum(axis=1, keepdims=True))
        return corners
    if isinstance(theta, BinaryClass):
        ends = (theta.low, theta.high)
        return [np.array([[a, 1 - a], [1 - b, b]]) for a in ends for b in ends]
    return []


def _support(case: Case, told: NoisySum) -> int:
    """How many sums there are at most: multisets of values."""
    sums = {0.0}
    for _ in range(told.first, told.last + 1):
        sums = {round(s + v, 9) for s in sums for v in set(told.values)}
    return len(sums)


def parts(case: Case, asked: Asked) -> list[int]:
    """Lengths of the pieces of a window."""
    sizes, start = [], 0
    for length in case.lengths:
        inside = min(asked.last, start + length) - max(asked.first, start + 1) + 1
        if inside > 0:
            sizes.append(inside)
        start += length
    return sizes


def query_of(case: Case, asked: Asked) -> pk.Query:
    """What is asked, over the pieces of the window."""
    if not 1 <= asked.first <= asked.last <= case.length:
        raise ValueError("window out of the series")
    over = parts(case, asked)
    if case.missing:
        over = data_of(case).window(asked.first, asked.last)
    if asked.values is None:
        return pk.histogram(range(case.states), over)
    if asked.own:
        values = asked.values

        def summed(entries: np.ndarray) -> float:
            return sum(values[entry] for entry in entries if entry is not None)

        moved = {state: value - min(values) for state, value in enumerate(values)}
        return pk.per_entry(summed, moved, range(case.states), over, name="own", unit=1, trials=5)
    return pk.total(asked.values, over)


def data_of(case: Case) -> pk.Series:
    """A series with the gaps of a case; what else it says does not matter."""
    codes = [-1 if t in case.missing else 0 for t in range(1, case.length + 1)]
    return pk.Series(codes, tuple(range(case.states)), case.lengths)


def told(case: Case, asked: Asked, scale: float) -> list[NoisySum]:
    """The numbers that a release tells."""
    rows = np.eye(case.states).tolist() if asked.values is None else [asked.values]
    return [NoisySum(asked.first, asked.last, tuple(row), scale, case.missing) for row in rows]


def by_compose_of_others(case: Case) -> tuple[np.ndarray, float]:
    """Noise that was made for one chain, charged by `compose` under another one."""
    believed, true = (pk.MarkovChain.steady(matrix) for matrix in case.matrices())
    spent, history = [], []
    for asked in case.asked:
        made = MECHANISMS[asked.mechanism](believed, query_of(case, asked), asked.epsilon)
        spent.append(pk.Spending.of(made, (asked.first, asked.last)))
        history += told(case, asked, made.scale)
    charge = pk.compose(spent, true, case.lengths).epsilon
    return losses_of(case, pk.ChainClass.of(true), history), charge


def by_rule(case: Case, rule: str) -> tuple[np.ndarray, float]:
    """The loss of every entry, and what one rule of `compose` charges for the history."""
    theta, spent, history = beliefs_of(case), [], []
    for asked in case.asked:
        made = MECHANISMS[asked.mechanism](theta, query_of(case, asked), asked.epsilon)
        spent.append(pk.Spending.of(made, (asked.first, asked.last)))
        history.append(told(case, asked, made.scale))
    bound = None
    if rule == "dependence":
        (chain,) = theta.chains  # type: ignore[attr-defined]
        bound = dependence(chain.initial, chain.transition, *history, [case.length])
    if rule == "compose":
        charge = pk.compose(spent, theta, case.lengths).epsilon
    else:
        charge = rules_for(spent, theta, case.lengths, bound)[rule]()
        charge = charge / 1e6 if isinstance(charge, int) else charge
    return losses_of(case, theta, [one for each in history for one in each]), charge
