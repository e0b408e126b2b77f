"""Markov random fields: undirected graphs of nodes that depend on their neighbours.

    P(X_1, ..., X_n)  =  product over potentials phi_C of phi_C(X_C) / Z

with a table phi_C >= 0 for each of several small sets C of nodes. Two nodes are neighbours if a set
contains both; a node is independent of all others given its neighbours, and parts of the graph
without an edge between them are independent of one another.

Classes Theta of Markov random fields: finitely many fields of the same nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import exp, prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.base import Distribution, GraphClass
from pufferkit.beliefs.bayesian_network import MOST_ROWS, BayesianNetwork, NetworkClass
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.graph import Node, NodeValues, node_labels
from pufferkit.beliefs.junction_tree import (
    JunctionTree,
    LogFactor,
    log_sum,
    neighbours,
    parts,
    spread,
)
from pufferkit.beliefs.markov_chain import labels
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.records import JsonRecord
from pufferkit.shown import Shown

MOST_TABLES = 1 << 16
"""Most rows, over all tables, of a field that is written as a network."""

Edge = tuple[Node, Node]


@dataclass(frozen=True, eq=False, repr=False)
class MarkovRandomField(Shown, JsonRecord):
    """Nodes, and a table of weights for each small set of interacting nodes.

    Parameters
    ----------
    potentials
        {tuple of nodes: table of weights, an axis for each of them}. Weights are at least 0 and
        need not be normalised.
    values
        {node: labels of its values}, in the order of the tables; 0, 1, ... for nodes left out. A
        node that is named here and in no potential is uniform.

    Attributes
    ----------
    nodes
        The nodes in the order of ``values``, then of ``potentials``.

    Examples
    --------
    >>> flu = MarkovRandomField(
    ...     {("Ada",): [9, 1], ("Ben",): [9, 1], ("Ada", "Ben"): [[3, 1], [1, 3]]}
    ... )
    >>> flu.distribution("Ada").round(3).tolist()
    [0.955, 0.045]
    >>> street = MarkovRandomField.ising([("Ada", "Ben"), ("Ben", "Cem")], coupling=0.4, field=-1)
    >>> street.edges, street.components, street.width
    ((('Ada', 'Ben'), ('Ben', 'Cem')), (('Ada', 'Ben', 'Cem'),), 2)
    >>> town = MarkovRandomField.potts([(1, 2)], coupling=1.0, states=["north", "south", "centre"])
    >>> sorted(town.sample(seed=1)) == [1, 2], len(MarkovRandomField.grid(8, 8, 0.2))
    (True, 64)
    >>> street.network().distribution("Ben").round(3).tolist()
    [0.961, 0.039]
    >>> round(street.joint().probability("Ben", 1), 3)
    0.039
    """

    potentials: Mapping[tuple[Node, ...], Floats]
    values: Mapping[Node, NodeValues]
    nodes: tuple[Node, ...]

    def __init__(
        self,
        potentials: Mapping[tuple[Node, ...], ArrayLike],
        values: Mapping[Node, Iterable[Hashable]] | None = None,
    ) -> None:
        if not isinstance(potentials, Mapping) or not (potentials or values):
            raise ValueError(
                "potentials: must be a mapping {tuple of nodes: table of weights} with at least "
                f"one of them, got {type(potentials).__name__}"
            )
        tables = {_scope(scope): _weights(scope, own) for scope, own in potentials.items()}
        known = {node: node_labels(node, own) for node, own in (values or {}).items()}
        for scope, table in tables.items():
            for node, count in zip(scope, table.shape, strict=True):
                own = known.setdefault(node, tuple(range(count)))
                if len(own) != count:
                    raise ValueError(
                        f"potentials[{scope!r}]: has {count} weights along {node!r}, which has "
                        f"{len(own)} values"
                    )
        checks.assign(
            self,
            potentials=MappingProxyType(tables),
            values=MappingProxyType(known),
            nodes=tuple(known),
        )

    @classmethod
    def ising(
        cls,
        edges: Iterable[Edge],
        coupling: float | Mapping[Edge, float],
        field: float | Mapping[Node, float] = 0.0,
        values: Iterable[Hashable] = (0, 1),
        nodes: Iterable[Node] = (),
    ) -> MarkovRandomField:
        """An Ising model: two values, and neighbours that tend to agree.

        With s = -1 for the first value and +1 for the second, the weight of a data set is
        exp(sum over nodes of field s_i + sum over edges of coupling s_i s_j). Given all others, a
        neighbour in the second state in place of the first multiplies the odds by
        exp(4 coupling).

        Parameters
        ----------
        edges
            Pairs of neighbours, or an undirected graph of networkx.
        coupling
            One number, or one for each edge; below 0 if neighbours tend to differ.
        field
            One number, or one for each node; below 0 if the first value is more common.
        values
            Labels of the two values.
        nodes
            Names of all nodes, to choose their order or to include nodes without neighbours.
        """
        two = checks.distinct_states(values)
        if len(two) != 2:
            raise ValueError(f"values: an Ising model has two values, got {len(two)}")
        pairs, named = _graph(edges, nodes)
        each = _each("field", field, named)
        strengths = _each("coupling", coupling, pairs)
        potentials: dict[tuple[Node, ...], ArrayLike] = {}
        for node in named:
            potentials[node,] = [_exp("field", -each[node]), _exp("field", each[node])]
        for pair in pairs:
            alike, unlike = (_exp("coupling", sign * strengths[pair]) for sign in (1, -1))
            potentials[pair] = [[alike, unlike], [unlike, alike]]
        return cls(potentials, dict.fromkeys(named, two))

    @classmethod
    def potts(
        cls,
        edges: Iterable[Edge],
        coupling: float | Mapping[Edge, float],
        states: Iterable[Hashable],
        nodes: Iterable[Node] = (),
    ) -> MarkovRandomField:
        """A Potts model: the weight is exp(sum of coupling over edges whose ends agree)."""
        every = checks.distinct_states(states)
        pairs, named = _graph(edges, nodes)
        strengths = _each("coupling", coupling, pairs)
        same = np.eye(len(every))
        potentials: dict[tuple[Node, ...], ArrayLike] = {
            pair: np.where(same > 0, _exp("coupling", strengths[pair]), 1.0) for pair in pairs
        }
        return cls(potentials, dict.fromkeys(named, every))

    @classmethod
    def grid(
        cls,
        rows: int,
        columns: int,
        coupling: float,
        field: float = 0.0,
        values: Iterable[Hashable] = (0, 1),
    ) -> MarkovRandomField:
        """An Ising model on a rectangle; node "2,3" is row 2, column 3."""
        high, wide = checks.whole("rows", rows, 1), checks.whole("columns", columns, 1)
        names = {(r, c): f"{r + 1},{c + 1}" for r in range(high) for c in range(wide)}
        edges = [
            (name, names[beside])
            for (r, c), name in names.items()
            for beside in ((r, c + 1), (r + 1, c))
            if beside in names
        ]
        return cls.ising(edges, coupling, field, values, names.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        return f"MarkovRandomField({self.description})"

    def __reduce__(self) -> tuple[Any, ...]:
        plain = {scope: np.array(table) for scope, table in self.potentials.items()}
        return MarkovRandomField, (plain, dict(self.values))

    @property
    def description(self) -> str:
        """One line for tables and reports."""
        return f"Markov random field of {len(self):,} nodes, {len(self.edges):,} edges"

    @cached_property
    def place(self) -> Mapping[Node, int]:
        """Indices of the nodes, from 0."""
        return MappingProxyType({node: n for n, node in enumerate(self.nodes)})

    @cached_property
    def sizes(self) -> Mapping[Node, int]:
        """How many values each node has."""
        return MappingProxyType({node: len(own) for node, own in self.values.items()})

    @cached_property
    def log_factors(self) -> tuple[LogFactor, ...]:
        """The logarithms of the potentials, by indices of nodes."""
        with np.errstate(divide="ignore"):
            return tuple(
                (tuple(self.place[node] for node in scope), np.log(table))
                for scope, table in self.potentials.items()
            )

    @cached_property
    def _near(self) -> list[set[int]]:
        return neighbours(len(self), [scope for scope, _ in self.log_factors])

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Pairs of neighbours, each once."""
        return tuple(
            (self.nodes[one], self.nodes[other])
            for one, own in enumerate(self._near)
            for other in sorted(own)
            if one < other
        )

    @cached_property
    def components(self) -> tuple[tuple[Node, ...], ...]:
        """Parts of the graph without an edge between them: they are independent."""
        return tuple(tuple(self.nodes[n] for n in part) for part in parts(self._near))

    @cached_property
    def junction_tree(self) -> JunctionTree:
        """The cliques and their distributions; ``TooWide`` if they are too large."""
        sizes = [self.sizes[node] for node in self.nodes]
        return JunctionTree.of(sizes, self.log_factors, "field")

    @property
    def width(self) -> int:
        """Number of nodes of the largest clique that exact distributions need."""
        return max(len(own) for own in self.junction_tree.cliques)

    def distribution(self, node: Node) -> Floats:
        """The distribution of one node.

        Raises
        ------
        TooWide
            If exact distributions need too much memory; the message has the number.
        """
        if node not in self.place:
            raise ValueError(f"node: {node!r} is not in the field")
        return checks.frozen(self.junction_tree.marginal(self.place[node]).values)

    def sample(self, seed: int | np.random.Generator | None = None) -> dict[Node, Hashable]:
        """One data set, {node: value}, drawn clique by clique."""
        rng = np.random.default_rng(seed)
        tree = self.junction_tree
        drawn: dict[int, int] = {}
        for c in reversed(range(len(tree.cliques))):
            own = tree.cliques[c]
            given = tuple(drawn.get(n, slice(None)) for n in own)
            table = np.exp(tree.tables[c][given] - tree.tables[c][given].max())
            at = rng.choice(table.size, p=(table / table.sum()).ravel())
            fresh = [n for n in own if n not in drawn]
            drawn.update(zip(fresh, map(int, np.unravel_index(at, table.shape)), strict=True))
        return {node: self.values[node][drawn[n]] for n, node in enumerate(self.nodes)}

    def network(self) -> BayesianNetwork:
        """The same distribution as a `BayesianNetwork`, to about 12 digits; for small widths.

        The parents of a node are those of its neighbours that are eliminated after it.
        """
        tree = self.junction_tree
        after = {node: place for place, node in enumerate(tree.order)}
        above = {
            n: [m for m in tree.cliques[tree.home[n]] if after[m] > after[n]]
            for n in reversed(tree.order)
        }
        sizes = [self.sizes[node] for node in self.nodes]
        rows = sum(prod(sizes[m] for m in own) for own in above.values())
        if rows > MOST_TABLES:
            raise NotApplicable(
                f"as a network this field has {rows:,} rows in its tables, more than "
                f"{MOST_TABLES:,}"
            )
        parents: dict[Node, tuple[Node, ...]] = {}
        tables: dict[Node, dict[NodeValues, Floats]] = {}
        for n, own in above.items():
            node, whole = self.nodes[n], tree.cliques[tree.home[n]]
            rest = [axis for axis, m in enumerate(whole) if m != n and m not in own]
            logs = log_sum(tree.tables[tree.home[n]], rest)
            left = [m for m in whole if m == n or m in own]
            logs = np.moveaxis(logs, left.index(n), -1)
            total = log_sum(logs, [logs.ndim - 1])[..., None]
            possible = total > -np.inf
            given = np.where(possible, np.exp(logs - np.where(possible, total, 0.0)), 1 / sizes[n])
            given = given / given.sum(axis=-1, keepdims=True)
            parents[node] = tuple(self.nodes[m] for m in own)
            keys = product(*(self.values[parent] for parent in parents[node]))
            tables[node] = dict(zip(keys, given.reshape(-1, sizes[n]), strict=True))
        return BayesianNetwork(parents, tables, dict(self.values))

    def joint(self) -> FiniteJoint:
        """The joint distribution of all nodes, row by row; for small fields."""
        rows = prod(self.sizes.values())
        if rows > MOST_ROWS:
            raise NotApplicable(
                f"{len(self)} nodes make {rows:.3g} data sets, more than {MOST_ROWS:,}; take a "
                "part of the field"
            )
        logs = np.zeros([self.sizes[node] for node in self.nodes])
        for scope, table in self.log_factors:
            logs = logs + spread(table, scope, range(len(self)))
        top = float(logs.max())
        if top == -np.inf:
            raise ValueError("model: no data set has a weight above zero")
        weights = np.exp(logs - top)
        shares = (weights / weights.sum()).ravel().tolist()
        named = product(*(self.values[node] for node in self.nodes))
        return FiniteJoint(dict(zip(named, shares, strict=True)), self.nodes)

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each potential and combination of values."""
        return [
            {
                "nodes": ", ".join(map(str, scope)),
                "values": ", ".join(map(str, key)),
                "weight": float(weight),
            }
            for scope, table in self.potentials.items()
            for key, weight in zip(
                product(*(self.values[node] for node in scope)), table.ravel(), strict=True
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "kind": "markov_random_field",
            "nodes": list(self.nodes),
            "values": [list(self.values[node]) for node in self.nodes],
            "potentials": [
                [list(scope), table.tolist()] for scope, table in self.potentials.items()
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MarkovRandomField:
        """The field that ``to_dict`` described."""
        try:
            potentials = {labels(scope): table for scope, table in data["potentials"]}
            named = labels(data.get("nodes") or ())
            own = data.get("values")
            values = (
                None
                if own is None
                else {node: labels(each) for node, each in zip(named, own, strict=True)}
            )
        except KeyError:
            raise ValueError("model: a Markov random field needs 'potentials'") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"model: this field is malformed ({error})") from None
        return cls(potentials, values)


def _scope(scope: Any) -> tuple[Node, ...]:
    if not isinstance(scope, tuple) or not scope or len(set(scope)) < len(scope):
        raise ValueError(
            f"potentials: keys are tuples of different nodes, got {scope!r}; for one node write "
            "('Ada',)"
        )
    return scope


def _weights(scope: Any, values: ArrayLike) -> Floats:
    table = checks.numbers(f"potentials[{scope!r}]", values)
    if table.ndim != len(scope) or 0 in table.shape:
        raise ValueError(
            f"potentials[{scope!r}]: needs an axis for each of its {len(scope)} nodes, "
            f"got the shape {table.shape}"
        )
    if (table < 0).any() or not (table > 0).any():
        raise ValueError(
            f"potentials[{scope!r}]: weights must be at least 0 and not all 0, got {table.min():g}"
        )
    return checks.frozen(table)


def _graph(edges: Any, nodes: Iterable[Node]) -> tuple[list[Edge], list[Node]]:
    """Edges and nodes, checked; a graph of networkx has both."""
    if hasattr(edges, "edges") and hasattr(edges, "nodes"):
        edges, nodes = edges.edges(), tuple(nodes) or edges.nodes()
    pairs: dict[Edge, None] = {}
    for edge in edges:
        pair = tuple(edge) if isinstance(edge, (tuple, list)) else ()
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"edges: must be pairs of different nodes, got {edge!r}")
        one, other = pair
        if (one, other) in pairs or (other, one) in pairs:
            raise ValueError(f"edges: {edge!r} is listed twice; add the couplings up")
        pairs[one, other] = None
    named = dict.fromkeys(nodes)
    named.update(dict.fromkeys(node for pair in pairs for node in pair))
    if not named:
        raise ValueError("edges: are empty, and so are nodes; a field needs at least one node")
    return list(pairs), list(named)


def _each(name: str, given: Any, wanted: Sequence[Any]) -> dict[Any, float]:
    """A number for each item, from one number for all or a mapping."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(wanted, checks.real(name, given))
    missing = [one for one in wanted if one not in given]
    extra = [one for one in given if one not in set(wanted)]
    if missing or extra:
        raise ValueError(
            f"{name}: must have one number for each; missing {missing[:5]}, unknown {extra[:5]}"
        )
    return {one: checks.real(f"{name}[{one!r}]", given[one]) for one in wanted}


def _exp(name: str, value: float) -> float:
    if abs(value) > 300:
        raise ValueError(f"{name}: must lie between -300 and 300, got {value:g}")
    return exp(value)


@dataclass(frozen=True, eq=False, repr=False)
class FieldClass(GraphClass):
    """Markov random fields over the same nodes with the same values; their graphs may differ.

    Parameters
    ----------
    fields
        At least one.
    """

    kind = "fields"
    member, member_kind = MarkovRandomField, "markov_random_field"
    called = "field"

    fields: tuple[MarkovRandomField, ...]

    def check_alike(self) -> None:
        first = self.fields[0]
        for number, other in enumerate(self.fields, 1):
            if other.nodes != first.nodes:
                raise ValueError(
                    f"fields: number {number} has other nodes than the first, or in another order"
                )
            for node in first.nodes:
                if other.values[node] != first.values[node]:
                    raise ValueError(
                        f"fields: number {number} gives {node!r} the values "
                        f"{other.values[node]}, the first one {first.values[node]}"
                    )

    @property
    def edges(self) -> tuple[tuple[Node, Node], ...]:
        return tuple(dict.fromkeys(edge for field in self.fields for edge in field.edges))

    @property
    def largest_part(self) -> int:
        return max(len(part) for field in self.fields for part in field.components)

    def distributions(self) -> list[Distribution]:
        return [
            Distribution(f"field {n} of {len(self.fields)}", field.joint())
            for n, field in enumerate(self.fields, 1)
        ]

    def networks(self) -> tuple[list[NetworkClass], float]:
        """Each field as a class of one network, and the most that rounding adds to a loss.

        For any data set the probabilities differ by a factor of at most e^eta, where eta is the
        error of the distributions times the number of nodes. Conditional probabilities given a
        value then differ by a factor of at most e^(2 eta), and a loss by at most 4 eta.
        """
        each = [NetworkClass((field.network(),)) for field in self.fields]
        error = max(field.junction_tree.error for field in self.fields)
        return each, 4 * len(self.nodes) * (3 * error + 1e-15)
