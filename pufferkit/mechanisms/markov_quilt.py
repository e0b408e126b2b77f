"""The Markov Quilt Mechanism: [Q] Algorithms 2, 3 and 4.

A class of beliefs is covered by bounds on influence (`covering`): one for each chain that may be
the worst, or one for all of them. The search over quilts is the same for all
(`pufferkit.influence.quilts`), and the record says which quilts serve which nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from math import inf
from typing import Any, Literal, NamedTuple

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, GraphClass, Member
from pufferkit.beliefs.bayesian_network import NetworkClass, as_network_class
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.chain_tables import tables_of
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.secrets import Secrets, Sets
from pufferkit.data.query import Query, Question
from pufferkit.data.series import SegmentPattern
from pufferkit.errors import NotApplicable, printable
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.chains import (
    AroundBlock,
    ChainInfluence,
    HardestChain,
    InfluenceReading,
    MixingInfluence,
    Named,
    active_of,
    hardest,
    hardest_observed,
    hardest_of,
    listed,
)
from pufferkit.influence.quilts.networks import best_quilts, hardest_node
from pufferkit.influence.quilts.search import Binding, QuiltRuns
from pufferkit.mechanisms.calibration import Calibration, chains_only, checked
from pufferkit.mechanisms.influence_curve import WORTH, patterns_of, recorded
from pufferkit.mechanisms.release import Evidence, Variant
from pufferkit.rounding import round_up
from pufferkit.shown import Shown, grid

MixingVariant = Literal["paper", "tight"]

MOST_NODES, MOST_IN_ALL = 64, 2_000
"""Most nodes of an independent part of a random field in which quilts are searched, and in all."""


def markov_quilt(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    influence: InfluenceReading = "definition",
    longest: int | None = None,
    secrets: Secrets | Sequence[Secrets] | None = None,
    progress: Progress | None = None,
    most_work: float = inf,
) -> Calibration:
    """Noise of the Markov Quilt Mechanism, over all quilts of [Q] Lemma 4.6.

    Theorem: [Q] Theorem 4.3. The scale is L times the largest, over chains of the class and nodes
    i, of the least

        card(nearby nodes) / (epsilon - max-influence of X_i on the quilt)

    over quilts. In a series with gaps only observed entries count as nearby
    (`pufferkit.influence.quilts.chains.hardest_observed`). No limit on the size of quilts, no grid
    over chains: the optimum is exact for `ChainClass.of`, for `ChainClass.any_start` ([Q] C.4) and
    for `ChainClass.binary`, whose worst chain is at a corner. Over `ChainClass.around` influence is
    bounded from above (`pufferkit.influence.curve.regions`); two states are exact there too.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or a `ChainClass`; or a `BayesianNetwork`, or several with one graph, for
        which [Q] Algorithm 2 searches quilts by d-separation.
    query
        The query; its segments are independent and have the same initial distribution.
    epsilon
        Pufferfish privacy for each entry.
    influence
        ``"definition"``: max-influence over values that can occur, [Q] Definition 4.1.
        ``"formula"``: [Q] (5) as printed, which also counts left endpoints of probability zero; it
        gives the paper's numbers and never less noise.
    longest
        l of [Q] Algorithm 3: only quilts with at most so many nearby entries, each evaluated, at
        the paper's cost and with its noise, which is never less. For known chains without gaps.
    secrets
        Other secrets than single entries: quilts around windows
        (`pufferkit.influence.quilts.chains.AroundBlock`).
    progress
        For networks: called with the number of nodes done and their total.
    most_work
        For networks: give up after about so many nanoseconds, with `NotApplicable`.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, markov_quilt
    >>> theta = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    >>> noise = markov_quilt(theta, count(1, 100), 1)
    >>> round(noise.scale, 5), noise.evidence.node, noise.evidence.quilt
    (12.93405, 8, (1, 13))
    """
    theta, query, epsilon = checked(beliefs, query, epsilon, over, secrets)
    check_reading(influence)
    options: dict[str, Any] = {"influence": influence}
    if longest is not None:
        options["longest"] = longest
        known = theta.lists_matrices and _members(theta.members(), query.longest, influence)
        bound = _listed(known, query, epsilon, longest, influence)
    else:
        search = QuiltSearch(query.longest, epsilon, influence, progress, most_work)
        whole = hardest_quilt(theta, search)
        bound = _over_gaps(lambda n: covering(theta, n, influence), query, epsilon, whole)
    return _calibration("markov_quilt", theta, query, epsilon, bound, options)


def markov_quilt_approx(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    bound: MixingVariant = "paper",
    longest: int | None = None,
) -> Calibration:
    """Noise of the Markov Quilt Mechanism when only the speed of mixing is used.

    Theorem: [Q] Algorithm 4 (MQMApprox).

    Cost does not depend on the length of the series nor on the number of states beyond finding
    ``pi_min`` and the eigengap. All three forms of quilts are searched, for every node.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass` of irreducible, aperiodic chains.
    query, epsilon
        As in `markov_quilt`.
    bound
        ``"paper"``: [Q] Lemma C.1 with the least pi_min and gap over the class.
        ``"tight"``: the operator norm in place of exp(-gap/2), chain by chain, and the exact prior
        for stationary starts. Same guarantee, less noise.
    longest
        l of [Q] Algorithm 4, as in `markov_quilt`.

    Raises
    ------
    NotApplicable
        If a chain is periodic or reducible, or the gap is zero.

    Examples
    --------
    >>> from pufferkit import ChainClass, count, markov_quilt_approx
    >>> theta = ChainClass.mixing(states=2, pi_min=0.2, gap=0.75)
    >>> round(markov_quilt_approx(theta, count(1, 100), 1).scale, 5)
    31.70976
    """
    theta = chains_only(beliefs, "markov_quilt_approx")
    _, query, epsilon = checked(theta, query, epsilon, over)
    named, note = by_mixing(theta, bound)
    options: dict[str, Any] = {"bound": bound}
    if longest is not None:
        options["longest"] = longest
        quilts = _listed(named, query, epsilon, longest, bound, note)
    else:
        found = hardest_of(named, hardest(query.longest, epsilon))
        whole = QuiltBound.of_chain(found, query.longest, bound, note)
        quilts = _over_gaps(lambda _: named, query, epsilon, whole)
    return _calibration("markov_quilt_approx", theta, query, epsilon, quilts, options)


def _listed(
    named: Named | Literal[False],
    query: Query,
    epsilon: float,
    longest: int,
    variant: Variant,
    *notes: str,
) -> QuiltBound:
    """The hardest node among quilts of at most l entries."""
    most = checks.whole("longest", longest, 1)
    if not named or query.pattern is not None:
        raise NotApplicable("longest: [Q]'s l is for known chains without gaps; leave it out")
    found = hardest_of(named, listed(query.longest, epsilon, most))
    notes = (*notes, f"quilts of at most {most} entries")
    return QuiltBound.of_chain(found, query.longest, variant, *notes)


def max_influence(
    beliefs: object,
    node: int,
    left: int | None = None,
    right: int | None = None,
    *,
    influence: InfluenceReading = "definition",
) -> float:
    """Max-influence of X_node on {X_{node-left}, X_{node+right}}.

    Theorem: [Q] Definition 4.1, for chains and classes of chains.

    Parameters
    ----------
    beliefs
        A chain or a class of chains; the largest influence over the class is returned.
    node
        i, counted from 1.
    left, right
        Distances a and b of the endpoints; ``None`` for no endpoint on that side.
    influence
        ``"definition"``, or ``"formula"`` for [Q] (5) as printed.

    Examples
    --------
    >>> from math import exp
    >>> from pufferkit import MarkovChain, max_influence
    >>> chain = MarkovChain([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]])
    >>> round(exp(max_influence(chain, 2, 1, 1)), 6)
    36.0
    """
    check_reading(influence)
    node = checks.whole("node", node, 1)
    if left is not None and not 1 <= checks.whole("left", left, 1) < node:
        raise ValueError(f"left: X_{node} has no node {left} to its left; it has {node - 1}")
    if right is not None:
        right = checks.whole("right", right, 1)
    return _largest(_members(as_chain_class(beliefs).members(), node, influence), node, left, right)


def influence_between(
    theta: ChainClass, node: int, left: int | None = None, right: int | None = None
) -> float:
    """Upper bound on the max-influence of X_node on its endpoints, over the class."""
    return _largest(covering(theta, node) or _bounds(theta, node)[0], node, left, right)


def _largest(named: Named, node: int, left: int | None, right: int | None) -> float:
    return max(0.0, *(own.between(node, left, right)[0] for _, own in named))


def check_reading(influence: str) -> None:
    """Refuse a reading of max-influence that does not exist."""
    if influence not in ("definition", "formula"):
        raise ValueError(f"influence: must be 'definition' or 'formula', got {influence!r}")


@dataclass(frozen=True)
class QuiltSearch:
    """Which quilts are searched: of segments of up to ``length``, for Pufferfish ``epsilon``.

    ``reading`` is how max-influence is read; ``progress`` is called with the number of nodes done.
    On networks the search gives up after about ``most_work`` nanoseconds. Of ``nodes`` the active
    quilts are asked; of all, if none are named.
    """

    length: int
    epsilon: float
    reading: InfluenceReading = "definition"
    progress: Progress | None = None
    most_work: float = inf
    nodes: Sequence[Hashable] | None = None


class QuiltBound(NamedTuple):
    """The node of a class that needs most noise with its best quilt, as evidence.

    ``score`` is the noise for a query with Lipschitz constant 1. ``proof`` has of a network the
    quilt of every node, by indices; of chains the quilts that serve the nodes, for every chain, for
    every pattern of gaps or width of a window, as lists.
    """

    evidence: Evidence
    score: float
    proof: list[Any]

    @classmethod
    def of_chain(
        cls, found: HardestChain, length: int, variant: Variant, *notes: str, observed: bool = False
    ) -> QuiltBound:
        """From the hardest node of a chain, whose endpoints are known by their distances."""
        evidence = Evidence(
            found.name,
            found.binding.node,
            length,
            endpoints(found.binding),
            found.binding.quilt.influence,
            notes=notes,
            bound="quilts",
            variant=variant,
            counted="observed" if observed else None,
        )
        return cls(evidence, found.binding.quilt.score, [_plain(found.proofs)])


def endpoints(binding: Binding) -> tuple[int, ...]:
    """The nodes of a quilt of a chain."""
    node, (left, right) = binding.node, binding.quilt.ends
    return tuple(end for end, there in ((node - left, left), (node + right, right)) if there)


def _members(
    members: Sequence[Member], length: int, reading: InfluenceReading = "definition"
) -> Named:
    return [(m.name, ChainInfluence(tables_of(m, length), reading)) for m in members]


def covering(theta: Beliefs, length: int, reading: InfluenceReading = "definition") -> Named | None:
    """Bounds that together cover a class, at every node by itself; ``None`` if it has none."""
    if theta.names_secrets:
        return None
    try:
        corners = theta.corners()
    except NotApplicable:
        return by_mixing(theta, "tight")[0]
    return None if corners is None else _members(corners, length, reading)


def by_mixing(theta: Beliefs, bound: MixingVariant) -> tuple[Named, str]:
    """Bounds from mixing that together hold for every chain of a class, and their source."""
    bounds = theta.mixing_bounds()
    if bound == "paper":
        pi_min, gap = min(m.pi_min for m in bounds), min(m.gap for m in bounds)
        note = f"pi_min {pi_min:.6g}, gap {gap:.6g}, [Q] Lemma C.1"
        least = replace(bounds[0], pi_min=pi_min, gap=gap)
        return [(theta.description, MixingInfluence.paper(least))], note
    if bound == "tight":
        note = "influence from the operator norm of P"
        return [(theta.description, MixingInfluence.tight(m)) for m in bounds], note
    raise ValueError(f"bound: must be 'paper' or 'tight', got {bound!r}")


@singledispatch
def hardest_quilt(theta: Beliefs, search: QuiltSearch) -> QuiltBound:
    """The hardest node of a class and its best quilt; ``NotApplicable`` if there is none."""
    raise NotApplicable(f"markov_quilt needs Markov chains or a graph, not a {theta.description}")


@hardest_quilt.register
def _(theta: ChainClass, search: QuiltSearch) -> QuiltBound:
    named, notes = _bounds(theta, search.length, search.reading)
    found = hardest_of(named, hardest(search.length, search.epsilon))
    return QuiltBound.of_chain(found, search.length, search.reading, *notes)


def _bounds(
    theta: ChainClass, length: int, reading: InfluenceReading = "definition"
) -> tuple[Named, list[str]]:
    """Bounds among which the worst case of a class is, and remarks on them."""
    corners, worst = theta.corners(), theta.where_worst
    notes = ["influence by [Q] (5) as printed"] if reading == "formula" else []
    notes += [] if worst is None else [worst]
    if corners is not None:
        return _members(corners, length, reading), notes
    influence = theta.influence
    if reading == "formula":
        raise NotApplicable(
            "[Q] (5) as printed is for known matrices; over a region use influence='definition'"
        )
    return [("all chains of the region", influence)], notes


@hardest_quilt.register
def _(theta: EventClass, search: QuiltSearch) -> QuiltBound:
    if any(isinstance(one, Sets) and one.window > 1 for one in theta.hidden):
        raise NotApplicable(
            "markov_quilt has no theorem for sets of entries that lie apart; use influence_curve"
        )
    theta.check_length(search.length)
    members = theta.known_chains()
    bounds = []
    for window in sorted({min(one.window, search.length) for one in theta.hidden}):
        if window == 1:
            bounds.append(hardest_quilt(theta.beliefs, search))
            continue
        own = _members(members, search.length, search.reading)
        named = [(name, AroundBlock(entry, window)) for name, entry in own]
        around = f"around {window} entries from the node on"
        found = hardest_of(named, hardest(search.length, search.epsilon))
        bounds.append(QuiltBound.of_chain(found, search.length, search.reading, around))
    proof = [bound.proof[0] for bound in bounds]
    return max(bounds, key=lambda bound: bound.score)._replace(proof=proof)


@hardest_quilt.register(NetworkClass)
@hardest_quilt.register(FieldClass)
def _(theta: GraphClass, search: QuiltSearch) -> QuiltBound:
    networks, epsilon = _as_network(theta, search.epsilon)
    found = hardest_node(networks, epsilon, search.progress, search.most_work)
    evidence = Evidence(
        theta.description,
        found.node,
        len(networks.nodes),
        found.quilt,
        found.influence,
        bound="quilts",
        variant="definition",
    )
    return QuiltBound(evidence, found.score, [list(own) for own in found.quilts])


@singledispatch
def _as_network(theta: GraphClass, epsilon: float) -> tuple[NetworkClass, float]:
    """The networks in which quilts are searched, and epsilon lowered by what rounding may add."""
    return as_network_class(theta), epsilon


@_as_network.register
def _(theta: FieldClass, epsilon: float) -> tuple[NetworkClass, float]:
    """The network that a field is written as.

    Averaging nodes out in some order gives a Bayesian network with the same distribution
    (`MarkovRandomField.network`). Its graph has the edges of the field and some more, so what it
    separates is separated in the field, and [Q] Theorem 4.3 holds with its quilts.
    """
    nodes, part = len(theta.nodes), theta.largest_part
    if len(theta.fields) > 1 or part > MOST_NODES or nodes > MOST_IN_ALL:
        raise NotApplicable(
            f"quilts are searched for one Markov random field with independent parts of up to "
            f"{MOST_NODES} nodes, {MOST_IN_ALL:,} in all; here are {len(theta.fields)} of "
            f"{nodes:,}, in parts of up to {part:,}; use influence_curve"
        )
    (network,), rounding = theta.networks()
    if epsilon <= rounding:
        raise NotApplicable(
            f"epsilon {epsilon:g} is below the rounding error of this field; use a larger one"
        )
    return network, epsilon - rounding


def _over_gaps(
    named: Callable[[int], Named | None], query: Query, epsilon: float, whole: QuiltBound
) -> QuiltBound:
    """The hardest node when quilts count observed entries; ``whole`` if that gains little."""
    each: dict[SegmentPattern, HardestChain] = {}
    for runs in patterns_of(query):
        own = named(sum(runs))
        found = None if own is None else hardest_observed(own, runs, epsilon, whole.score)
        if found is None or found.binding.quilt.score > whole.score * (1 - WORTH):
            return whole
        each[runs] = found
    if not each:
        return whole
    worst = max(each, key=lambda runs: each[runs].binding.quilt.score)
    variant, notes = whole.evidence.variant or "definition", whole.evidence.notes
    bound = QuiltBound.of_chain(each[worst], sum(worst), variant, *notes, observed=True)
    return bound._replace(proof=[_plain(each[runs].proofs) for runs in sorted(each)])


def _calibration(
    mechanism: str,
    theta: Beliefs,
    query: Query,
    epsilon: float,
    bound: QuiltBound,
    options: dict[str, Any],
) -> Calibration:
    """The calibration of the hardest quilt, of the whole span or of the observed entries."""
    gaps = recorded(query) if bound.evidence.counted == "observed" else {}
    return Calibration(
        mechanism,
        epsilon,
        round_up(query.lipschitz * bound.score),
        query,
        theta,
        bound.evidence,
        verification_data={"quilts": bound.proof} | gaps,
        options=options,
    )


def _plain(proofs: Sequence[QuiltRuns]) -> list[Any]:
    """The quilts of every chain, as lists."""
    return [[list(run) for run in runs] for runs in proofs]


# --- the active quilt of every node, and the noise that each node needs -------------------------

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

    def caption(self) -> str:
        """The question, how many nodes, and epsilon."""
        return f"{self.query}: active quilts of {len(self.rows):,} nodes, epsilon {self.epsilon:g}"

    def text_table(self) -> str:
        """The nodes that need most noise."""
        shown = sorted(self.rows, key=lambda row: -row.scale)[:_LINES]
        cells = [
            (
                "{" + ", ".join(printable(node) for node in row.quilt) + "}",
                f"{row.nearby:,}",
                f"{row.influence:.4f}",
                f"{row.scale:.6g}",
            )
            for row in shown
        ]
        down = [f"node {printable(row.node)}" for row in shown]
        table = grid(down, ("quilt", "nearby", "influence", "scale"), cells)
        more = len(self.rows) - len(shown)
        return table + (f"\nand {more:,} nodes that need no more noise" if more else "")


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
                 quilt  nearby  influence    scale
    node 8     {1, 13}      11     0.1495  12.9341
    node 50   {45, 55}       9     0.2991    12.84
    node 100      {96}       4     0.2877  5.61547
    node 1         {2}       1     0.0000        1
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
    search = QuiltSearch(query.longest, epsilon, progress=progress, nodes=chosen)
    rows = tuple(
        row._replace(scale=round_up(query.lipschitz * row.scale)) for row in _active(theta, search)
    )
    notes = [] if getattr(theta, "names_matrices", True) else [_MIXING]
    notes += [_GAPS] if query.pattern is not None else []
    return ActiveQuilts(rows, epsilon, query.name, tuple(notes))


@singledispatch
def _active(theta: Beliefs, search: QuiltSearch) -> list[ActiveQuilt]:
    """The active quilts of these nodes, or of all, with scores in place of scales."""
    raise NotApplicable(
        "active quilts exist for Markov chains, networks and random fields, not for a "
        f"{theta.description}"
    )


@_active.register
def _(theta: ChainClass, search: QuiltSearch) -> list[ActiveQuilt]:
    length, nodes = search.length, search.nodes
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
        for name, binding in active_of(named, entries, length, search.epsilon, search.progress)
    ]


@_active.register(NetworkClass)
@_active.register(FieldClass)
def _(theta: GraphClass, search: QuiltSearch) -> list[ActiveQuilt]:
    networks, epsilon = _as_network(theta, search.epsilon)
    chosen = _chosen(theta.nodes, search.nodes)
    return [
        ActiveQuilt(row.node, row.quilt, nearby, row.influence, row.score, theta.description)
        for row, nearby in best_quilts(networks, epsilon, chosen, search.progress)
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
