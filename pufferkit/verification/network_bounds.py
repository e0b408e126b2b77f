"""Quilts on Bayesian networks, recomputed for `verify`.

A release records one for every node. What it separates is followed from node to node, its
influence is computed from the joint distribution of the node and the quilt, and card / (epsilon -
influence) is compared with the scale ([Q] Theorem 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from math import inf
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.verification.pair_tables import Allowance, NotChecked
from pufferkit.verification.sum_checks import joint_with_sum


def score_of_quilts(
    theta: NetworkClass, verification_data: Mapping[str, Any], epsilon: float, work: Allowance
) -> float:
    """The largest score over nodes, each with the quilt that was recorded for it."""
    recorded = verification_data.get("quilts")
    nodes = theta.nodes
    if recorded is None or len(recorded) != len(nodes):
        raise NotChecked("the file does not hold a quilt for every node")
    worst = 0.0
    for node, places in zip(nodes, recorded, strict=True):
        quilt = [nodes[place] for place in places]
        if node in quilt:
            raise NotChecked(f"the quilt recorded for {node!r} holds the node itself")
        work.spend(5e3 * len(nodes))
        nearby = len(connected(theta.networks[0], node, set(quilt)))
        influence = max(_influence(network, node, quilt, work) for network in theta.networks)
        room = epsilon - influence
        worst = max(worst, nearby / room if room > 0 else inf)
    return worst


def connected(network: BayesianNetwork, node: Node, given: set[Node]) -> set[Node]:
    """The nodes not d-separated from ``node`` by ``given``, itself included.

    Trails that may still be open are followed from node to node, with the direction in which each
    is entered: from a child, or from a parent.
    """
    opened, todo = set[Node](), list(given)  # a collider is open if it or a descendant is given
    while todo:
        n = todo.pop()
        if n not in opened:
            opened.add(n)
            todo += network.parents[n]
    entered, trails = set[tuple[Node, bool]](), [(node, True)]
    while trails:
        n, from_child = step = trails.pop()
        if step in entered:
            continue
        entered.add(step)
        if n not in given:
            trails += [(child, False) for child in network.children[n]]
        if n not in given if from_child else n in opened:
            trails += [(parent, True) for parent in network.parents[n]]
    return {n for n, _ in entered} - given


def _influence(
    network: BayesianNetwork, node: Node, quilt: Sequence[Node], work: Allowance
) -> float:
    """[Q] Definition 4.1, from the joint distribution of the node and its quilt."""
    joint = joint_with_sum(network, (node, *quilt), work)
    rows = [row / row.sum() for row in joint.reshape(len(joint), -1) if row.any()]
    worst = 0.0
    for one, other in permutations(rows, 2):
        known = one > 0
        if (other[known] == 0).any():
            return inf
        worst = max(worst, float(np.log(one[known] / other[known]).max()))
    return worst
