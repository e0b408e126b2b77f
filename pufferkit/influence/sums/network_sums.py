"""Distributions of a sum over a Bayesian network, given one node: message passing, exactly.

Tables become whole numbers over a common denominator, a distribution of a sum becomes a list of
whole numbers, and variables are summed out one after the other, least connected first. The joint
distribution is never listed; every number is exact, so ties between tails are decided exactly.
Larger networks go to `pufferkit.influence.sums.network_messages`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from fractions import Fraction
from itertools import combinations
from math import lcm, prod
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums import network_messages as messages
from pufferkit.influence.sums.network_messages import NodeDistance
from pufferkit.influence.sums.transport import w_infinity
from pufferkit.rounding import as_fraction

MOST_WORK = 3 * 10**7

# Nanoseconds of a product of whole numbers, of a factor of one node; of a node with all others.
_EXACT_PRODUCT, _EXACT_TABLE = 60.0, 2e4
_MESSAGES, _PAIR_OF_NODES = 7e5, 7e3
_PAIR_OF_VALUES, _PER_SUM = 6e4, 400.0

SumDistribution = dict[int, Fraction]
_Polynomial = tuple[tuple[Hashable, ...], Any]


def largest_distance(network: BayesianNetwork, weights: Mapping[Hashable, int]) -> NodeDistance:
    """The largest W of the sum given two values of one node; in floats where the network is large.

    ``weights`` as below. ``NotApplicable`` if that takes too much work or memory too.
    """
    if not _exact_serves(network, weights):
        return messages.largest_distance(network, weights)
    worst = NodeDistance(0, network.nodes[0], True)
    for node, given in conditional_distributions(network, weights).items():
        for one, other in combinations(given.values(), 2):
            worst = max(worst, NodeDistance(int(w_infinity(one, other)), node, True), key=_value)
    return worst


def work_of(network: BayesianNetwork, weights: Mapping[Hashable, int]) -> float:
    """About how many nanoseconds the largest distance takes."""
    exact = _exact_work(network, _elimination_order(network), weights)
    if exact <= MOST_WORK:
        return _EXACT_PRODUCT * exact + _EXACT_TABLE * len(network.nodes) ** 2
    nodes = len(network.nodes)
    pairs = sum(size * (size - 1) // 2 for size in network.sizes.values())
    compared = pairs * (_PAIR_OF_VALUES + nodes * _PER_SUM)
    return (
        messages.work_of(network, weights) + compared + nodes * (_MESSAGES + nodes * _PAIR_OF_NODES)
    )


def _exact_serves(network: BayesianNetwork, weights: Mapping[Hashable, int]) -> bool:
    return _exact_work(network, _elimination_order(network), weights) <= MOST_WORK


def _value(distance: NodeDistance) -> int:
    return distance.value


def conditional_distributions(
    network: BayesianNetwork, weights: Mapping[Hashable, int]
) -> Mapping[Hashable, dict[Hashable, SumDistribution]]:
    """{node: {value: distribution of the sum given that value}}, possible values only.

    ``weights`` maps values of nodes to whole numbers from 0 up; other values count 0.
    """
    factors = [_whole_table(network, node) for node in network.nodes]
    order = _elimination_order(network)
    _check_work(network, order, weights)
    return {
        node: _distributions_given(network, factors, order, weights, node) for node in network.nodes
    }


def distribution_given(
    network: BayesianNetwork,
    weights: Mapping[Hashable, int],
    event: Mapping[Hashable, Collection[Hashable]],
) -> SumDistribution:
    """Distribution of the sum given which values some nodes have; empty if that is impossible."""
    order = _elimination_order(network)
    _check_work(network, order, weights)
    live = [_whole_table(network, node) for node in network.nodes]
    for node, allowed in event.items():
        chosen = np.array([int(value in allowed) for value in network.values[node]], dtype=object)
        live.append(((node,), chosen[:, None]))
    for variable in order:
        used = [factor for factor in live if variable in factor[0]]
        live = [factor for factor in live if variable not in factor[0]]
        live.append(_summed_out(network, used, variable, weights))
    _, numbers = _product(live, network)
    whole = sum(numbers)
    return {s: Fraction(int(n), int(whole)) for s, n in enumerate(numbers) if n}


def _distributions_given(
    network: BayesianNetwork,
    factors: list[_Polynomial],
    order: list[Hashable],
    weights: Mapping[Hashable, int],
    node: Hashable,
) -> dict[Hashable, SumDistribution]:
    distributions: dict[Hashable, SumDistribution] = {}
    live = list(factors)
    for variable in [other for other in order if other != node]:
        used = [factor for factor in live if variable in factor[0]]
        live = [factor for factor in live if variable not in factor[0]]
        live.append(_summed_out(network, used, variable, weights))
    scope, table = _product(live, network)
    assert scope in ((node,), ())
    for place, value in enumerate(network.values[node]):
        numbers = table[place]
        whole = sum(numbers)
        if whole:
            shift = weights.get(value, 0)
            distributions[value] = {
                s + shift: Fraction(int(n), int(whole)) for s, n in enumerate(numbers) if n
            }
    return distributions


def _whole_table(network: BayesianNetwork, node: Hashable) -> _Polynomial:
    """The table of a node as whole numbers; axes: parents, node, and one for the sum."""
    array = network.arrays[node]
    exact = np.array([as_fraction("tables", float(p)) for p in array.ravel()], dtype=object)
    rows = exact.reshape(-1, array.shape[-1])
    rows = np.array([row / sum(row) for row in rows], dtype=object)
    denominator = lcm(*(p.denominator for p in rows.ravel()))
    whole = np.array([int(p * denominator) for p in rows.ravel()], dtype=object)
    return (*network.parents[node], node), whole.reshape(*array.shape, 1)


def _summed_out(
    network: BayesianNetwork,
    used: list[_Polynomial],
    variable: Hashable,
    weights: Mapping[Hashable, int],
) -> _Polynomial:
    scope, table = _product(used, network)
    axis = scope.index(variable)
    table = np.moveaxis(table, axis, 0)
    shifts = [weights.get(value, 0) for value in network.values[variable]]
    length = table.shape[-1] + max(shifts)
    total = np.zeros((*table.shape[1:-1], length), dtype=object)
    for part, shift in zip(table, shifts, strict=True):
        total[..., shift : shift + part.shape[-1]] += part
    return scope[:axis] + scope[axis + 1 :], total


def _product(factors: list[_Polynomial], network: BayesianNetwork) -> _Polynomial:
    """The product over all variables of the factors; sums add up by convolution."""
    scope: tuple[Hashable, ...] = ()
    table = np.ones(1, dtype=object)
    for own, values in factors:
        joint = scope + tuple(v for v in own if v not in scope)
        first = _spread(table, scope, joint)
        second = _spread(values, own, joint)
        length = first.shape[-1] + second.shape[-1] - 1
        shape = tuple(len(network.values[v]) for v in joint)
        result = np.zeros((*shape, length), dtype=object)
        for s in range(second.shape[-1]):
            result[..., s : s + first.shape[-1]] += first * second[..., s : s + 1]
        scope, table = joint, result
    return scope, table


def _spread(table: Any, scope: tuple[Hashable, ...], joint: tuple[Hashable, ...]) -> Any:
    """A factor with its axes in the order of ``joint``, length 1 where it does not depend."""
    order = [scope.index(v) for v in joint if v in scope]
    moved = np.transpose(table, [*order, table.ndim - 1])
    index = tuple(slice(None) if v in scope else None for v in joint)
    return moved[(*index, slice(None))]


def _elimination_order(network: BayesianNetwork) -> list[Hashable]:
    """Least connected first, in the moral graph, joining the neighbours of the eliminated node."""
    around = _moral_graph(network)
    order, place = [], network.graph.place
    while around:
        node = min(around, key=lambda n: (len(around[n]), place[n]))
        _eliminate(around, node)
        order.append(node)
    return order


def _moral_graph(network: BayesianNetwork) -> dict[Hashable, set[Hashable]]:
    """The neighbours of each node: parents, children, and other parents of these."""
    around: dict[Hashable, set[Hashable]] = {node: set() for node in network.nodes}
    for node in network.nodes:
        family = {node, *network.parents[node]}
        for one in family:
            around[one] |= family - {one}
    return around


def _eliminate(around: dict[Hashable, set[Hashable]], node: Hashable) -> None:
    """Take a node out and join its neighbours, in place."""
    for one in around[node]:
        around[one] |= around[node] - {one}
        around[one].discard(node)
    del around[node]


def _check_work(
    network: BayesianNetwork, order: list[Hashable], weights: Mapping[Hashable, int]
) -> None:
    """Refuse a computation that takes too long, before it is started."""
    work = _exact_work(network, order, weights)
    if work > MOST_WORK:
        raise NotApplicable(
            f"the exact distributions take about {float(min(work, 10**300)):.0e} products of "
            "whole numbers; use rounder values, markov_quilt, or influence_curve on a tree"
        )


def _exact_work(
    network: BayesianNetwork, order: list[Hashable], weights: Mapping[Hashable, int]
) -> int:
    widest, around = 1, _moral_graph(network)
    for node in order:
        # One more for the node that is kept to the end.
        sizes = [len(network.values[v]) for v in (node, *around[node])]
        widest = max(widest, prod(sizes))
        _eliminate(around, node)
    most_values = max(len(network.values[v]) for v in network.nodes)
    length = len(network.nodes) * max(weights.values(), default=1) + 1
    return len(network.nodes) ** 2 * widest * most_values * length**2 // 4
