"""Classes Theta of Bayesian networks: one graph, finitely many sets of parameters ([Q] 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.listed_class import GraphClass
from pufferkit.beliefs.network_checks import Node


@dataclass(frozen=True, eq=False, repr=False)
class NetworkClass(GraphClass):
    """Networks over the same nodes, with the same parents and the same values.

    Parameters
    ----------
    networks
        At least one. Quilts come from the graph, so all must share it; influence is the largest
        over the class.
    """

    kind = "networks"
    member, member_kind = BayesianNetwork, "bayesian_network"
    called = "network"

    networks: tuple[BayesianNetwork, ...]

    def check_alike(self) -> None:
        for number, network in enumerate(self.networks, 1):
            _same(number, self.networks[0], network)

    @property
    def edges(self) -> tuple[tuple[Node, Node], ...]:
        parents = self.networks[0].parents
        return tuple((above, node) for node, own in parents.items() for above in own)

    @property
    def largest_part(self) -> int:
        return max(len(part) for part in self.networks[0].components)


def as_network_class(beliefs: Any) -> NetworkClass:
    """A class unchanged; a network, or several, as a class."""
    match beliefs:
        case NetworkClass():
            return beliefs
        case BayesianNetwork():
            return NetworkClass((beliefs,))
        case Iterable() if not isinstance(beliefs, (str, Mapping)):
            return NetworkClass(tuple(beliefs))
    raise ValueError(
        f"beliefs: must be a BayesianNetwork or a list of them, got {type(beliefs).__name__}"
    )


def _same(number: int, first: BayesianNetwork, other: BayesianNetwork) -> None:
    if set(first.nodes) != set(other.nodes):
        strange = sorted(map(repr, set(first.nodes) ^ set(other.nodes)))
        raise ValueError(f"networks: number {number} differs in its nodes ({', '.join(strange)})")
    for node in first.nodes:
        if set(first.parents[node]) != set(other.parents[node]):
            raise ValueError(
                f"networks: number {number} gives {node!r} the parents {other.parents[node]}, the "
                f"first one {first.parents[node]}; a class has one graph, so add the missing "
                "parents to both (a table may ignore a parent)"
            )
        if first.values[node] != other.values[node]:
            raise ValueError(
                f"networks: number {number} gives {node!r} the values {other.values[node]}, the "
                f"first one {first.values[node]}; use the same values in the same order"
            )
