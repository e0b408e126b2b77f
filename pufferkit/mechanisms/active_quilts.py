"""The active quilt of every node, and the noise that each node needs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.bayesian_network import NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable, printable
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.chains import active_of
from pufferkit.influence.quilts.networks import best_quilts
from pufferkit.mechanisms.calibration import checked
from pufferkit.mechanisms.markov_quilt import covering, endpoints, network_of
from pufferkit.rounding import round_up
from pufferkit.shown import Shown

MOST_SEARCHES = 100_000
"""Most nodes times chains of a class that are solved."""

_LINES = 20
"""Most nodes in the text, those that need most noise."""

_GAPS = "entries that were not observed count as nearby here; markov_quilt may need less noise"
_MIXING = "influence from the speed of mixing, as in markov_quilt_approx(bound='tight')"


class ActiveQuilt(NamedTuple):
    """A node, the quilt with the least score, and the noise that this node by itself would need."""

    node: Hashable
    quilt: tuple[Hashable, ...]
    """Nodes of the quilt; none for the trivial one, which keeps everything."""
    nearby: int
    """card(X_N): the nodes that the quilt does not separate, the node itself included."""
    influence: float
    """Max-influence of the node on its quilt."""
    scale: float
    """L card(X_N) / (epsilon - influence)."""
    belief: str
    """The belief of the class that needs most noise at this node."""


@dataclass(frozen=True, eq=False, repr=False)
class ActiveQuilts(Shown):
    """Active quilts of nodes, from `active_quilts`.

    Attributes
    ----------
    rows
        One for each node, in the order requested.
    epsilon
        Pufferfish privacy for each node.
    query
        Name of the query.
    notes
        Remarks for readers.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> table = pk.active_quilts(chain, pk.count(1, 100), 1, nodes=[1, 50])
    >>> table.hardest.node, table.hardest.quilt, round(table.scale, 5)
    (50, (45, 55), 12.83996)
    """

    rows: tuple[ActiveQuilt, ...]
    epsilon: float
    query: str
    notes: tuple[str, ...] = ()

    @property
    def hardest(self) -> ActiveQuilt:
        """The node of the table that needs most noise; the first of equals."""
        return max(self.rows, key=lambda row: row.scale)

    @property
    def scale(self) -> float:
        """The largest scale of the table: that of `markov_quilt`, if all nodes are in it."""
        return self.hardest.scale

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each node; the nodes of its quilt in one text."""
        return [
            {**row._asdict(), "quilt": ", ".join(str(node) for node in row.quilt)}
            for row in self.rows
        ]

    def remarks(self) -> tuple[str, ...]:
        """The notes."""
        return self.notes

    def __str__(self) -> str:
        shown = sorted(self.rows, key=lambda row: -row.scale)[:_LINES]
        lines = [
            f"{self.query}: active quilts of {len(self.rows):,} nodes, epsilon {self.epsilon:g}"
        ]
        cells = [("node", "quilt", "nearby", "influence", "scale")]
        cells += [
            (
                printable(row.node),
                "{" + ", ".join(printable(node) for node in row.quilt) + "}",
                f"{row.nearby:,}",
                f"{row.influence:.4f}",
                f"{row.scale:.6g}",
            )
            for row in shown
        ]
        wide = [max(len(row[column]) for row in cells) for column in range(5)]
        for row in cells:
            words = "  ".join(cell.ljust(width) for cell, width in zip(row[:2], wide, strict=False))
            numbers = (cell.rjust(n) for cell, n in zip(row[2:], wide[2:], strict=True))
            lines.append("  ".join([words, *numbers]))
        if len(self.rows) > _LINES:
            lines.append(f"and {len(self.rows) - _LINES:,} nodes that need no more noise")
        return "\n".join([*lines, *self.notes])


def active_quilts(
    beliefs: Any,
    query: Query,
    epsilon: float,
    nodes: Iterable[Hashable] | None = None,
    *,
    progress: Progress | None = None,
) -> ActiveQuilts:
    """The active quilt of every node, and the noise that each node by itself would need.

    A quilt X_Q of X_i separates it from all but the nearby nodes X_N. The active one ([Q] Section
    4) has the least score

        card(X_N) / (epsilon - max-influence of X_i on X_Q),

    and L times the largest score over nodes is the noise of `markov_quilt` ([Q] Theorem 4.3): so a
    table of all nodes shows which node determines the noise, and how much less the others need.
    Noise below the largest scale gives no guarantee for the node that needs it.

    Over a class of chains the largest least score over its chains counts at each node, and
    ``belief`` names the chain. Networks with one graph share one quilt. In networks whose parts
    have more than 12 nodes the quilts are those that `markov_quilt` considers. Segments start
    alike; the table is of the longest.

    Parameters
    ----------
    beliefs
        A `MarkovChain`, a `ChainClass`, a `BayesianNetwork` or several with one graph, or a
        `MarkovRandomField`. A class known only by its mixing has bounds from that.
    query, epsilon
        As in `markov_quilt`.
    nodes
        Numbers of entries from 1, or names of nodes; all of them if left out.
    progress
        Called with the number of nodes done and their total, chain by chain.

    Raises
    ------
    NotApplicable
        If the secrets are not single entries, or no single chain of a class decides.
    ValueError
        If there are more than 100,000 nodes (times chains) to solve, or no such node.

    Examples
    --------
    >>> from pufferkit import MarkovChain, active_quilts, count
    >>> theta = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    >>> print(active_quilts(theta, count(1, 100), 1, nodes=[1, 8, 50, 100]))
    count: active quilts of 4 nodes, epsilon 1
    node  quilt     nearby  influence    scale
    8     {1, 13}       11     0.1495  12.9341
    50    {45, 55}       9     0.2991    12.84
    100   {96}           4     0.2877  5.61547
    1     {2}            1     0.0000        1
    """
    theta, query, epsilon = checked(beliefs, query, epsilon)
    if theta.names_secrets:
        raise NotApplicable(
            "active quilts are defined for single entries, not for these secrets "
            f"({theta.description})"
        )
    chosen = None
    if nodes is not None:
        if isinstance(nodes, str) or not isinstance(nodes, Iterable):
            raise ValueError(f"nodes: expected a list of nodes, got {nodes!r}; write [{nodes!r}]")
        chosen = list(nodes)
        if not chosen:
            raise ValueError("nodes: must name at least one node; leave it out for all of them")
    bounds = _active(theta, query.longest, epsilon, chosen, progress)
    rows = tuple(
        ActiveQuilt(node, quilt, nearby, influence, round_up(query.lipschitz * score), belief)
        for node, quilt, nearby, influence, score, belief in bounds
    )
    notes = [] if getattr(theta, "names_matrices", True) else [_MIXING]
    notes += [_GAPS] if query.pattern is not None else []
    return ActiveQuilts(rows, epsilon, query.name, tuple(notes))


@singledispatch
def _active(
    theta: Beliefs,
    length: int,
    epsilon: float,
    nodes: Sequence[Hashable] | None,
    progress: Progress | None,
) -> list[ActiveQuilt]:
    """The active quilts of these nodes, or of all, with scores in place of scales."""
    raise NotApplicable(
        "active quilts exist for Markov chains, networks and random fields, not for a "
        f"{theta.description}"
    )


@_active.register
def _(
    theta: ChainClass,
    length: int,
    epsilon: float,
    nodes: Sequence[Hashable] | None,
    progress: Progress | None,
) -> list[ActiveQuilt]:
    theta.check_length(length)
    named = covering(theta, length)
    if named is None:
        raise NotApplicable(
            f"no single chain of this class decides for a node ({theta.description}), so there "
            "is no active quilt; plan lists the mechanisms with a bound for the whole class"
        )
    _check_number(length if nodes is None else len(nodes), len(named))
    entries = range(1, length + 1) if nodes is None else [_entry(node, length) for node in nodes]
    return [
        ActiveQuilt(
            binding.node,
            endpoints(binding),
            binding.quilt.keep_left + binding.quilt.keep_right - 1,
            binding.quilt.influence,
            binding.quilt.score,
            name,
        )
        for name, binding in active_of(named, entries, length, epsilon, progress)
    ]


@_active.register
def _(
    theta: FieldClass,
    length: int,
    epsilon: float,
    nodes: Sequence[Hashable] | None,
    progress: Progress | None,
) -> list[ActiveQuilt]:
    network, lowered = network_of(theta, epsilon)
    rows = _active(network, length, lowered, _chosen(theta.nodes, nodes), progress)
    return [row._replace(belief=theta.description) for row in rows]


@_active.register
def _(
    theta: NetworkClass,
    length: int,
    epsilon: float,
    nodes: Sequence[Hashable] | None,
    progress: Progress | None,
) -> list[ActiveQuilt]:
    chosen = _chosen(theta.nodes, nodes)
    return [
        ActiveQuilt(row.node, row.quilt, nearby, row.influence, row.score, theta.description)
        for row, nearby in best_quilts(theta, epsilon, chosen, progress)
    ]


def _chosen(known: Sequence[Hashable], nodes: Sequence[Hashable] | None) -> list[Hashable]:
    """These nodes of a graph, or all."""
    strange = [node for node in nodes or () if node not in known]
    if strange:
        raise ValueError(
            f"nodes: {strange[0]!r} is not a node of the beliefs, which have "
            f"{len(known):,}: {', '.join(map(repr, known[:5]))}{', ...' * (len(known) > 5)}"
        )
    chosen = list(dict.fromkeys(known if nodes is None else nodes))
    _check_number(len(chosen), 1)
    return chosen


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
