"""Quilts and max-influence of Bayesian networks by the names of their nodes."""

from dataclasses import dataclass

from pufferkit.beliefs.bayesian_network import as_network_class
from pufferkit.influence.quilts.networks import _NodeSearch, influence_in, quilts


@dataclass(frozen=True)
class NamedQuilt:
    """A quilt of a node: X_Q, X_N (the node included) and X_R, [Q] Definition 4.2."""

    nodes: tuple
    nearby: tuple
    remote: tuple


def separated(network, node, given=()):
    """Everything d-separated from the node by ``given``, in topological order."""
    return quilt_of(network, node, given).remote


def quilt_of(network, node, given=()):
    """The quilt with X_Q = ``given``: X_R is all that it separates from the node, X_N the rest."""
    graph = network.graph
    mask = graph.mask(given)
    return _named(graph, (mask, graph.connected(graph.place[node], mask)[0]))


def quilts_of(network, node):
    """The quilts that are looked at for a node."""
    graph = network.graph
    return tuple(_named(graph, quilt) for quilt in quilts(graph, graph.place[node]))


def network_influence(networks, node, others):
    """Max-influence of a node on a set of others, [Q] Definition 4.1, the largest over a class."""
    theta = as_network_class(networks)
    chosen = tuple(others)
    if not chosen:
        return 0.0
    return max(influence_in(network.table((node, *chosen))) for network in theta.networks)


def best_quilt(network, node, epsilon):
    """X_Q of the best quilt of one node, its influence and score."""
    theta, graph = as_network_class(network), network.graph
    best = _NodeSearch(theta, graph, graph.place[node], epsilon).best(enough=0.0)
    return graph.names(best.quilt), best.influence, best.score


def _named(graph, quilt):
    given, near = quilt
    rest = (1 << len(graph.nodes)) - 1 & ~given & ~near
    return NamedQuilt(graph.names(given), graph.names(near), graph.names(rest))
