"""A Bayesian network on finitely many discrete variables: beliefs about entries without an order.

Every node has a table with the distribution of the node for each combination of its parents'
values, and

    P(X_1, ..., X_n) = product over nodes of P(X_i | parents of X_i)        ([Q] 4.1).

Variables may have different numbers of values. Distributions of a few nodes are contractions of the
tables of these nodes and their ancestors; the joint distribution of all nodes is only for small
networks.

Classes Theta of Bayesian networks: one graph, finitely many sets of parameters ([Q] 4.1).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs import graph as checked
from pufferkit.beliefs.base import GraphClass
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.graph import Graph, Node, NodeValues, TableRows, bits
from pufferkit.beliefs.junction_tree import (
    TINY,
    CliqueTree,
    Factor,
    JointTable,
    JunctionTree,
    LogFactor,
    contract,
)
from pufferkit.beliefs.markov_chain import labels
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.records import JsonRecord
from pufferkit.shown import Shown

MOST_ROWS = 1 << 18
"""Most rows of a joint distribution that is listed."""


@dataclass(frozen=True, eq=False, repr=False)
class BayesianNetwork(Shown, JsonRecord):
    """Nodes, their parents, and the distribution of each node given its parents.

    Parameters
    ----------
    parents
        {node: tuple of its parents}, for every node.
    tables
        {node: {tuple of parent values: distribution of the node}}, a row for each combination of
        parent values; {(): distribution} for a node without parents.
    values
        {node: labels of its values}, in the order of its distributions; 0, 1, ... for nodes left
        out.

    Attributes
    ----------
    nodes
        Parents before children, otherwise in the order of ``parents``.
    arrays
        The tables as read-only arrays: one axis for each parent, then one for the node.

    Examples
    --------
    >>> flu = BayesianNetwork(
    ...     parents={"Ada": (), "Ben": ("Ada",)},
    ...     tables={"Ada": {(): [0.9, 0.1]}, "Ben": {(0,): [0.95, 0.05], (1,): [0.6, 0.4]}},
    ... )
    >>> flu.distribution("Ben").round(3).tolist()
    [0.915, 0.085]
    >>> flu.distribution("Ada", given={"Ben": 1}).round(3).tolist()
    [0.529, 0.471]
    >>> flu.ancestors(["Ben"]), round(flu.joint().probability("Ben", 1), 3)
    (('Ada', 'Ben'), 0.085)
    """

    parents: Mapping[Node, tuple[Node, ...]]
    tables: Mapping[Node, Mapping[NodeValues, Floats]]
    values: Mapping[Node, NodeValues]
    nodes: tuple[Node, ...]
    arrays: Mapping[Node, Floats]

    def __init__(
        self,
        parents: Mapping[Node, Iterable[Node]],
        tables: Mapping[Node, TableRows],
        values: Mapping[Node, Iterable[Hashable]] | None = None,
    ) -> None:
        graph = checked.graph(parents)
        order = checked.topological(graph)
        checked.same_nodes("tables", tables, graph, every=True)
        checked.same_nodes("values", values or {}, graph, every=False)
        known = {
            node: checked.value_labels(node, tables[node], (values or {}).get(node))
            for node in order
        }
        arrays = {node: checked.array(node, tables[node], graph[node], known) for node in order}
        rows = {
            node: MappingProxyType(_labelled(table, [known[parent] for parent in graph[node]]))
            for node, table in arrays.items()
        }
        checks.assign(
            self,
            parents=MappingProxyType({n: graph[n] for n in order}),
            tables=MappingProxyType(rows),
            values=MappingProxyType(known),
            nodes=order,
            arrays=MappingProxyType(arrays),
        )

    @classmethod
    def from_pgmpy(cls, model: Any) -> BayesianNetwork:
        """A discrete network of pgmpy, with its state names.

        Only the object is needed, so pgmpy is not imported here. It reads BIF and XMLBIF files:
        ``BayesianNetwork.from_pgmpy(pgmpy.readwrite.BIFReader("flu.bif").get_model())``.
        """
        try:
            nodes, tables_of = list(model.nodes()), {cpd.variable: cpd for cpd in model.get_cpds()}
        except (AttributeError, TypeError):
            raise ValueError(
                "model: must be a pgmpy DiscreteBayesianNetwork with its tables (CPDs), "
                f"got {type(model).__name__}"
            ) from None
        parents: dict[Node, tuple[Node, ...]] = {}
        tables: dict[Node, TableRows] = {}
        values: dict[Node, NodeValues] = {}
        for node in nodes:
            if node not in tables_of:
                raise ValueError(
                    f"model: node {node!r} has no table; add a TabularCPD for it first"
                )
            cpd = tables_of[node]
            parents[node] = tuple(cpd.variables[1:])
            values[node] = tuple(cpd.state_names[node])
            distributions = np.moveaxis(np.asarray(cpd.values, dtype=np.float64), 0, -1)
            keys = product(*(cpd.state_names[parent] for parent in parents[node]))
            tables[node] = dict(
                zip(keys, distributions.reshape(-1, distributions.shape[-1]), strict=True)
            )
        return cls(parents, tables, values)

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        return f"BayesianNetwork({self.description})"

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each node, the values of its parents and its own value."""
        return [
            {
                "node": str(node),
                "given": ", ".join(
                    f"{parent}={value}"
                    for parent, value in zip(self.parents[node], given, strict=True)
                ),
                "value": str(value),
                "probability": float(p),
            }
            for node, rows in self.tables.items()
            for given, row in rows.items()
            for value, p in zip(self.values[node], row, strict=True)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        plain = {node: dict(rows) for node, rows in self.tables.items()}
        return BayesianNetwork, (dict(self.parents), plain, dict(self.values))

    @property
    def description(self) -> str:
        """One line for tables and reports."""
        edges = sum(len(p) for p in self.parents.values())
        shape = "tree-shaped " if self.is_tree and edges else ""
        return f"{shape}network of {len(self)} nodes, {edges} edges"

    @cached_property
    def sizes(self) -> Mapping[Node, int]:
        """How many values each node has."""
        return MappingProxyType({node: len(own) for node, own in self.values.items()})

    @cached_property
    def children(self) -> Mapping[Node, tuple[Node, ...]]:
        """Children of every node, in the order of ``nodes``."""
        children: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for parent in self.parents[node]:
                children[parent].append(node)
        return MappingProxyType({node: tuple(own) for node, own in children.items()})

    @property
    def is_tree(self) -> bool:
        """Whether every node has at most one parent; a forest counts as a tree."""
        return all(len(p) <= 1 for p in self.parents.values())

    @cached_property
    def is_positive(self) -> bool:
        """Whether no table has a zero."""
        return all(bool((table > 0).all()) for table in self.arrays.values())

    @cached_property
    def components(self) -> tuple[tuple[Node, ...], ...]:
        """Parts of the network without an edge between them: they are independent."""
        rest, parts = (1 << len(self)) - 1, []
        while rest:
            part = self.graph.component((rest & -rest).bit_length() - 1)
            parts.append(self.graph.names(part))
            rest &= ~part
        return tuple(parts)

    @cached_property
    def log_factors(self) -> tuple[LogFactor, ...]:
        """The logarithms of the tables, by indices of nodes."""
        place = self.graph.place
        with np.errstate(divide="ignore"):
            return tuple(
                (tuple(place[n] for n in (*self.parents[node], node)), np.log(self.arrays[node]))
                for node in self.nodes
            )

    @cached_property
    def marginals(self) -> tuple[JointTable | None, ...]:
        """The distribution of every node, by one junction tree; ``None`` in parts too wide for it.

        Two passes serve all nodes, where a contraction for each would need an order of its own.
        """
        sizes = [self.sizes[node] for node in self.nodes]
        shape = CliqueTree.all_of(sizes, [scope for scope, _ in self.log_factors], None)[0]
        tree = JunctionTree.on(shape, sizes, self.log_factors)
        return tuple(tree.marginal(j) if tree.home[j] >= 0 else None for j in range(len(sizes)))

    def ancestors(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """These nodes and their ancestors, parents first."""
        chosen = self.graph.mask(self._known(node) for node in nodes)
        return self.graph.names(self.graph.above(chosen))

    def distribution(self, *nodes: Node, given: Mapping[Node, Hashable] | None = None) -> Floats:
        """The joint distribution of some nodes, given values of others.

        Parameters
        ----------
        nodes
            At least one; axis j of the array belongs to node j.
        given
            {node: value} of other nodes.

        Raises
        ------
        NotApplicable
            If the contraction needs too much memory; it is not started then.
        ValueError
            If the given values have probability zero together.
        """
        table = self.table(nodes, given)
        if not given:
            return checks.frozen(np.array(table.values))
        whole = table.values.sum()
        if whole < TINY:
            raise ValueError(
                f"given: {dict(given)} has probability {whole:g}, so no distribution is defined "
                "given it"
            )
        return checks.frozen(table.values / whole)

    def table(
        self, nodes: Sequence[Node], given: Mapping[Node, Hashable] | None = None
    ) -> JointTable:
        """P(nodes = ., given), with the exact pattern of zeros and a bound on rounding."""
        known = dict(given or {})
        if not nodes or len({*nodes, *known}) < len(nodes) + len(known):
            raise ValueError(
                f"nodes: must be different, at least one, and none of them given; "
                f"got {list(nodes)} given {list(known)}"
            )
        graph = self.graph
        chosen = graph.mask(self._known(node) for node in (*nodes, *known))
        fixed = {graph.place[node]: self._index(node, value) for node, value in known.items()}
        keep = tuple(graph.place[node] for node in nodes)
        return self._contract(chosen, keep, fixed)

    @cached_property
    def graph(self) -> Graph:
        """The directed graph, for tests of d-separation."""
        return Graph(self.parents)

    def _contract(self, chosen: int, keep: tuple[int, ...], fixed: Mapping[int, int]) -> JointTable:
        graph = self.graph
        gates = graph.gates(chosen)
        needed, factors = graph.above(chosen), []
        for j in bits(gates):
            needed &= ~graph.ancestors[j]
            factors.append(Factor(self._marginal(j), (j,)))
        for j in bits(needed):
            node = graph.nodes[j]
            axes = (*(graph.place[parent] for parent in self.parents[node]), j)
            factors.append(Factor(JointTable.exact(self.arrays[node]), axes).at(fixed))
        what = f"the joint distribution of {', '.join(str(graph.nodes[j]) for j in keep)}"
        return contract(factors, keep, what)

    def _marginal(self, j: int) -> JointTable:
        """The distribution of one node, from the distributions of the gates above it."""
        todo = [] if j in self._marginals else [j]
        while todo:
            missing = [g for g in bits(self.graph.gates(1 << todo[-1])) if g not in self._marginals]
            if missing:
                todo += missing
            else:
                last = todo.pop()
                self._marginals[last] = self._contract(1 << last, (last,), {})
        return self._marginals[j]

    @cached_property
    def _marginals(self) -> dict[int, JointTable]:
        return {}

    def joint(self) -> FiniteJoint:
        """The joint distribution of all nodes, row by row; for small networks.

        Raises
        ------
        NotApplicable
            If it has more than `MOST_ROWS` rows.
        """
        rows = prod(self.sizes.values())
        if rows > MOST_ROWS:
            raise NotApplicable(
                f"the joint distribution of {len(self)} nodes has {rows:,} rows and needs about "
                f"{rows * 300 / 1e9:,.1f} GB; use distribution(...) of a few nodes, or a "
                "mechanism that "
                "works on the network itself"
            )
        table = self.table(self.nodes)
        if (table.values[table.possible] < TINY).any():
            raise NotApplicable(
                "the joint distribution has probabilities that underflow; merge the rarest values"
            )
        labelled = product(*(self.values[node] for node in self.nodes))
        whole = zip(labelled, table.values.ravel().tolist(), strict=True)
        return FiniteJoint(dict(whole), self.nodes)

    def _known(self, node: Node) -> Node:
        if node not in self.parents:
            shown = ", ".join(repr(n) for n in self.nodes[:8]) + (", ..." * (len(self) > 8))
            raise ValueError(f"node: {node!r} is not in the network; its nodes are {shown}")
        return node

    def _index(self, node: Node, value: Hashable) -> int:
        own = self.values[node]
        if value not in own:
            raise ValueError(
                f"value: {value!r} is not a value of node {node!r}; it has {list(own)}"
            )
        return own.index(value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; parents, values and tables in the order of ``nodes``."""
        return {
            "kind": "bayesian_network",
            "nodes": list(self.nodes),
            "parents": [list(self.parents[node]) for node in self.nodes],
            "values": [list(self.values[node]) for node in self.nodes],
            "tables": [
                [[list(key), row.tolist()] for key, row in self.tables[node].items()]
                for node in self.nodes
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BayesianNetwork:
        """The network that ``to_dict`` described.

        ``parents``, ``tables`` and ``values`` may also be objects with one entry for each node.
        """
        for needed in ("parents", "tables"):
            if needed not in data:
                raise ValueError(f"model: has no {needed!r}; a network needs parents and tables")
        try:
            parents = {n: labels(p) for n, p in _by_node(data, "parents").items()}
            tables = {
                node: {labels(key): row for key, row in rows}
                for node, rows in _by_node(data, "tables").items()
            }
            values = {n: labels(v) for n, v in _by_node(data, "values").items()}
        except TypeError as error:
            raise ValueError(f"model: this network is malformed ({error})") from None
        return cls(parents, tables, values)


def _labelled(table: Floats, parents: Sequence[NodeValues]) -> dict[NodeValues, Floats]:
    """The rows of a table by the values of the parents."""
    rows = table.reshape(-1, table.shape[-1])
    return dict(zip(product(*parents), rows, strict=True))


def _by_node(data: Mapping[str, Any], name: str) -> Mapping[Any, Any]:
    """{node: entry}, from an object or from a list in the order of the nodes."""
    values = data.get(name) or {}
    if isinstance(values, Mapping):
        return values
    nodes = labels(data.get("nodes") or ())
    if len(nodes) != len(values):
        raise ValueError(
            f"model: {name!r} lists {len(values)} entries for {len(nodes)} nodes; give "
            "one for each, or an object {node: entry}"
        )
    return dict(zip(nodes, values, strict=True))


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
    if isinstance(beliefs, NetworkClass):
        return beliefs
    if isinstance(beliefs, BayesianNetwork):
        return NetworkClass((beliefs,))
    if isinstance(beliefs, Iterable) and not isinstance(beliefs, (str, Mapping)):
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
