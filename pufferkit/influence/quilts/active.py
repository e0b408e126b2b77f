"""The active quilt of each node: the one with the least score, [Q] Section 4.

The score of a quilt is card(X_N) / (epsilon - max-influence), and the noise of a release is L times
the largest active score over nodes ([Q] Algorithms 2 and 3). `hardest_quilt` solves only the node
that decides; here every requested node is solved to the end.

Over a class, chains and networks differ as the algorithms do: each chain has its own best quilt,
and the chain that needs most decides for the node; in networks with one graph one quilt serves all
of them, by the largest influence.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import singledispatch

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.field_class import FieldClass
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.fields import network_of
from pufferkit.influence.quilts.gaps import solvers
from pufferkit.influence.quilts.hardest import QuiltBound, QuiltSearch
from pufferkit.influence.quilts.networks import best_quilts
from pufferkit.influence.quilts.search import NOTHING, Quilt

MOST_SEARCHES = 100_000
"""Most nodes times chains of a class that are solved."""

Active = tuple[QuiltBound, int]
"""A node with its active quilt, and how many nodes are nearby."""


@singledispatch
def active_quilts(
    theta: Beliefs, search: QuiltSearch, nodes: Sequence[Hashable] | None = None
) -> list[Active]:
    """The active quilts of these nodes, or of all; ``NotApplicable`` if a class has none."""
    raise NotApplicable(
        "active quilts exist for Markov chains, networks and random fields, not for a "
        f"{theta.description}"
    )


@active_quilts.register
def _(
    theta: ChainClass, search: QuiltSearch, nodes: Sequence[Hashable] | None = None
) -> list[Active]:
    length, epsilon = search.length, search.epsilon
    theta.check_length(length)
    named = solvers(theta, length, search.reading)
    if named is None:
        raise NotApplicable(
            f"no single chain of this class decides for a node ({theta.description}), so there "
            "is no "
            "active quilt; plan lists the mechanisms with a bound for the whole class"
        )
    if nodes is None:
        _check_number(length, len(named))
        entries = list(range(1, length + 1))
    else:
        _check_number(len(nodes), len(named))
        entries = [_entry(node, length) for node in nodes]
    worst = dict.fromkeys(entries, ("", NOTHING))
    for name, solver in named:
        solve, hint = solver.solve(length, epsilon), None
        for done, node in enumerate(worst, 1):
            # A chain that needs no more than another at this node does not decide.
            quilt: Quilt = solve(node, max(0.0, worst[node][1].score), hint)
            hint = quilt
            if quilt.score > worst[node][1].score:
                worst[node] = name, quilt
            if search.progress is not None:
                search.progress(done, len(worst))
    # Without matrices, only the speed of mixing is known.
    variant = search.reading if theta.names_matrices else "tight"
    return [
        (
            QuiltBound.of_chain(name, node, length, quilt, variant),
            quilt.keep_left + quilt.keep_right - 1,
        )
        for node, (name, quilt) in worst.items()
    ]


@active_quilts.register
def _(
    theta: NetworkClass, search: QuiltSearch, nodes: Sequence[Hashable] | None = None
) -> list[Active]:
    return _of_graph(theta, theta, search, nodes)


@active_quilts.register
def _(
    theta: FieldClass, search: QuiltSearch, nodes: Sequence[Hashable] | None = None
) -> list[Active]:
    network, epsilon = network_of(theta, search.epsilon)
    lowered = QuiltSearch(search.length, epsilon, search.reading, search.progress)
    return _of_graph(theta, network, lowered, nodes)


def _of_graph(
    theta: NetworkClass | FieldClass,
    networks: object,
    search: QuiltSearch,
    nodes: Sequence[Hashable] | None,
) -> list[Active]:
    known = theta.nodes
    if nodes is not None:
        strange = [node for node in nodes if node not in known]
        if strange:
            raise ValueError(
                f"nodes: {strange[0]!r} is not a node of the beliefs, which have "
                f"{len(known):,}: {', '.join(map(repr, known[:5]))}{', ...' * (len(known) > 5)}"
            )
    chosen = list(dict.fromkeys(known if nodes is None else nodes))
    _check_number(len(chosen), 1)
    rows = best_quilts(networks, search.epsilon, chosen, search.progress)
    return [
        (
            QuiltBound(
                theta.description, row.node, len(known), row.quilt, row.influence, row.score
            ),
            nearby,
        )
        for row, nearby in rows
    ]


def _entry(node: Hashable, length: int) -> int:
    place = checks.whole("nodes", node, 1)
    if place > length:
        raise ValueError(f"nodes: must be at most {length:,}, the last entry, got {place:,}")
    return place


def _check_number(nodes: int, chains: int) -> None:
    if nodes * chains > MOST_SEARCHES:
        of = f" of {chains:,} chains" if chains > 1 else ""
        raise ValueError(
            f"nodes: {nodes:,} nodes{of} are too many to solve one by one, the most are "
            f"{MOST_SEARCHES:,}; name some, such as nodes=[1, 2, 3]"
        )
