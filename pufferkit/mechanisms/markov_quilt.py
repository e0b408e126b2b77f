"""The Markov Quilt Mechanism: [Q] Algorithms 2, 3 and 4.

A class of beliefs is covered by bounds on influence (`covering`): one for each chain that may be
the worst, or one for all of them. The search over quilts is the same for all
(`pufferkit.influence.quilts`), and the record says which quilts serve which nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from math import inf
from typing import Any, Literal

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, Member
from pufferkit.beliefs.bayesian_network import NetworkClass
from pufferkit.beliefs.binary_class import BinaryClass
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.chain_tables import tables_of
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.finite_class import AnyStartClass, FiniteClass
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.beliefs.secrets import Secrets, Sets
from pufferkit.data.query import Query, Question
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.chains import (
    AroundBlock,
    ChainInfluence,
    HardestChain,
    InfluenceReading,
    MixingInfluence,
    Named,
    hardest_listed,
    hardest_member,
    hardest_observed,
    hardest_of,
)
from pufferkit.influence.quilts.networks import hardest_node
from pufferkit.influence.quilts.search import Binding, QuiltRuns
from pufferkit.mechanisms.calibration import Calibration, chains_only, checked
from pufferkit.mechanisms.evidence import Evidence, Variant
from pufferkit.mechanisms.gapped_series import WORTH, patterns_of, recorded
from pufferkit.rounding import round_up

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
        named = _known_chains(theta, query.longest, influence)
        hardest = _listed(named, query, epsilon, longest, influence)
        options["longest"] = longest
        return _calibration("markov_quilt", theta, query, epsilon, hardest, options)
    search = QuiltSearch(query.longest, epsilon, influence, progress, most_work)
    hardest = _over_gaps(
        lambda length: covering(theta, length, influence),
        query,
        epsilon,
        hardest_quilt(theta, search),
    )
    return _calibration("markov_quilt", theta, query, epsilon, hardest, options)


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
    if longest is not None:
        hardest = _listed(named, query, epsilon, longest, bound, note)
        options = {"bound": bound, "longest": longest}
        return _calibration("markov_quilt_approx", theta, query, epsilon, hardest, options)
    whole = QuiltBound.of_chain(
        hardest_of(named, query.longest, epsilon), query.longest, bound, note
    )
    hardest = _over_gaps(lambda _: named, query, epsilon, whole)
    return _calibration("markov_quilt_approx", theta, query, epsilon, hardest, {"bound": bound})


def _listed(
    named: Named | None, query: Query, epsilon: float, longest: int, variant: Variant, *notes: str
) -> QuiltBound:
    """The hardest node among quilts of at most l entries."""
    most = checks.whole("longest", longest, 1)
    if named is None or query.pattern is not None:
        raise NotApplicable("longest: [Q]'s l is for known chains without gaps; leave it out")
    hardest = hardest_listed(named, query.longest, epsilon, most)
    notes = (*notes, f"quilts of at most {most} entries")
    return QuiltBound.of_chain(hardest, query.longest, variant, *notes)


def max_influence(
    beliefs: object,
    node: int,
    left: int | None = None,
    right: int | None = None,
    *,
    influence: InfluenceReading = "definition",
) -> float:
    """Max-influence of X_node on {X_{node-left}, X_{node+right}}, [Q] Definition 4.1.

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
    named = _members(as_chain_class(beliefs).members(), node, influence)
    return max(0.0, *(own.between(node, left, right)[0] for _, own in named))


@singledispatch
def influence_between(
    theta: ChainClass, node: int, left: int | None = None, right: int | None = None
) -> float:
    """Upper bound on the max-influence of X_node on its endpoints, over the class."""
    named = _members(theta.members(), node)
    return max(0.0, *(own.between(node, left, right)[0] for _, own in named))


@influence_between.register
def _(theta: RegionClass, node: int, left: int | None = None, right: int | None = None) -> float:
    return theta.influence.between(node, left, right)[0]


@influence_between.register
def _(theta: MixingClass, node: int, left: int | None = None, right: int | None = None) -> float:
    named = covering(theta, node) or _members(theta.members(), node)
    return max(0.0, *(own.between(node, left, right)[0] for _, own in named))


@singledispatch
def _known_chains(theta: Beliefs, longest: int, influence: InfluenceReading) -> Any:
    """The chains of a class that names them; ``None`` for other beliefs."""
    return None


@_known_chains.register(FiniteClass)
@_known_chains.register(AnyStartClass)
def _(theta: ChainClass, longest: int, influence: InfluenceReading) -> Any:
    return covering(theta, longest, influence)


def check_reading(influence: str) -> None:
    """Refuse a reading of max-influence that does not exist."""
    if influence not in ("definition", "formula"):
        raise ValueError(f"influence: must be 'definition' or 'formula', got {influence!r}")


@dataclass(frozen=True)
class QuiltSearch:
    """Which quilts are searched: of segments of up to ``length``, for Pufferfish ``epsilon``.

    ``reading`` is how max-influence is read; ``progress`` is called with the number of nodes done.
    On networks the search gives up after about ``most_work`` nanoseconds.
    """

    length: int
    epsilon: float
    reading: InfluenceReading = "definition"
    progress: Progress | None = None
    most_work: float = inf


@dataclass(frozen=True)
class QuiltBound:
    """The node of a class that needs most noise, with its best quilt."""

    belief: str
    """Name of the belief that decides."""
    node: Hashable
    length: int
    """The node, and how many there are."""
    quilt: tuple[Hashable, ...]
    """Nodes of its quilt."""
    influence: float
    score: float
    """Max-influence on the quilt, and noise for a query with Lipschitz constant 1."""
    variant: Variant = "definition"
    """Which reading of the theorem was used; see `pufferkit.mechanisms.release.Evidence`."""
    notes: tuple[str, ...] = ()
    """Remarks for readers."""
    proof: Sequence[Any] = ()
    """Of a network the quilt of every node, by indices. Of chains the quilts that serve the nodes,
    for every chain, for every pattern of gaps or width of a window, as lists."""
    observed: bool = False
    """Whether only observed entries count."""

    @classmethod
    def of_chain(
        cls,
        hardest: HardestChain,
        length: int,
        variant: Variant,
        *notes: str,
        observed: bool = False,
    ) -> QuiltBound:
        """From the hardest node of a chain, whose endpoints are known by their distances."""
        node, quilt = hardest.binding.node, hardest.binding.quilt
        return cls(
            hardest.name,
            node,
            length,
            endpoints(hardest.binding),
            quilt.influence,
            quilt.score,
            variant,
            notes,
            [_plain(hardest.proofs)],
            observed,
        )


def endpoints(binding: Binding) -> tuple[int, ...]:
    """The nodes of a quilt of a chain."""
    node, (left, right) = binding.node, binding.quilt.ends
    return tuple(end for end, there in ((node - left, left), (node + right, right)) if there)


def _members(
    members: Sequence[Member], length: int, reading: InfluenceReading = "definition"
) -> Named:
    return [(m.name, ChainInfluence(tables_of(m, length), reading)) for m in members]


@singledispatch
def covering(theta: Beliefs, length: int, reading: InfluenceReading = "definition") -> Named | None:
    """Bounds that together cover a class, at every node by itself; ``None`` if it has none."""
    return None


@covering.register(FiniteClass)
@covering.register(AnyStartClass)
@covering.register(BinaryClass)
def _(theta: ChainClass, length: int, reading: InfluenceReading = "definition") -> Named | None:
    return _members(theta.members(), length, reading)


@covering.register
def _(theta: RegionClass, length: int, reading: InfluenceReading = "definition") -> Named | None:
    corners = theta.corners()
    return None if corners is None else _members(corners, length, reading)


@covering.register
def _(theta: MixingClass, length: int, reading: InfluenceReading = "definition") -> Named | None:
    return by_mixing(theta, "tight")[0]


def by_mixing(theta: ChainClass, bound: MixingVariant) -> tuple[Named, str]:
    """Bounds from mixing that together hold for every chain of a class, and their source."""
    bounds = theta.mixing_bounds()
    if bound == "paper":
        pi_min, gap = min(m.pi_min for m in bounds), min(m.gap for m in bounds)
        note = f"pi_min {pi_min:.6g}, gap {gap:.6g}, [Q] Lemma C.1"
        return [(theta.description, MixingInfluence(gap / 2, 1 / pi_min, 2))], note
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
    return _hardest_corner(theta, theta.members(), search)


@hardest_quilt.register
def _(theta: RegionClass, search: QuiltSearch) -> QuiltBound:
    corners = theta.corners()
    if corners is not None:
        return _hardest_corner(theta, corners, search)
    if search.reading == "formula":
        raise NotApplicable(
            "[Q] (5) as printed is for known matrices; over a region use influence='definition'"
        )
    named = [("all chains of the region", theta.influence)]
    start = "any start" if theta.before is None else "both directions"
    return QuiltBound.of_chain(
        hardest_of(named, search.length, search.epsilon),
        search.length,
        search.reading,
        f"influence bounded over the region, {start}",
    )


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
            bounds.append(_hardest_corner(theta.beliefs, members, search))
            continue
        own = _members(members, search.length, search.reading)
        named = [(name, AroundBlock(entry, window)) for name, entry in own]
        around = f"around {window} entries from the node on"
        hardest = hardest_of(named, search.length, search.epsilon)
        bounds.append(QuiltBound.of_chain(hardest, search.length, search.reading, around))
    proof = [bound.proof[0] for bound in bounds]
    return replace(max(bounds, key=lambda bound: bound.score), proof=proof)


@hardest_quilt.register
def _(theta: NetworkClass, search: QuiltSearch) -> QuiltBound:
    return _of_network(theta, theta, search)


@hardest_quilt.register
def _(theta: FieldClass, search: QuiltSearch) -> QuiltBound:
    network, epsilon = network_of(theta, search.epsilon)
    return _of_network(theta, network, replace(search, epsilon=epsilon))


def _of_network(theta: Beliefs, networks: NetworkClass, search: QuiltSearch) -> QuiltBound:
    node, quilt, influence, score, quilts = hardest_node(
        networks, search.epsilon, search.progress, search.most_work
    )
    proof = [list(own) for own in quilts]
    number = len(networks.nodes)
    return QuiltBound(theta.description, node, number, quilt, influence, score, proof=proof)


def network_of(theta: FieldClass, epsilon: float) -> tuple[NetworkClass, float]:
    """The network that a field is written as, and epsilon lowered by the rounding of its tables.

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


def _hardest_corner(
    theta: ChainClass, members: Sequence[Member], search: QuiltSearch
) -> QuiltBound:
    """The hardest quilt of a class whose worst case is among these members."""
    length, reading = search.length, search.reading
    notes = ["influence by [Q] (5) as printed"] if reading == "formula" else []
    notes += [theta.where_worst] if theta.where_worst is not None else []
    hardest = hardest_member(members, length, search.epsilon, reading)
    return QuiltBound.of_chain(hardest, length, reading, *notes)


def _over_gaps(
    named: Callable[[int], Named | None], query: Query, epsilon: float, whole: QuiltBound
) -> QuiltBound:
    """The hardest node when quilts count observed entries; ``whole`` if that gains little."""
    bounds = []
    for runs in patterns_of(query):
        length = sum(runs)
        own = named(length)
        hardest = None if own is None else hardest_observed(own, runs, epsilon, whole.score)
        if hardest is None or hardest.binding.quilt.score > whole.score * (1 - WORTH):
            return whole
        bounds.append((sorted(set(query.pattern or ())).index(runs), hardest, length))
    if not bounds:
        return whole
    _, worst, length = max(bounds, key=lambda own: own[1].binding.quilt.score)
    bound = QuiltBound.of_chain(worst, length, whole.variant, *whole.notes, observed=True)
    return replace(bound, proof=[_plain(own.proofs) for _, own, _ in sorted(bounds, key=_first)])


def _first(bound: tuple[int, HardestChain, int]) -> int:
    return bound[0]


def _calibration(
    mechanism: str,
    theta: Beliefs,
    query: Query,
    epsilon: float,
    hardest: QuiltBound,
    options: dict[str, Any],
) -> Calibration:
    """The calibration of the hardest quilt, of the whole span or of the observed entries."""
    proof = {"quilts": list(hardest.proof)}
    return Calibration(
        mechanism,
        epsilon,
        round_up(query.lipschitz * hardest.score),
        query,
        theta,
        Evidence(
            hardest.belief,
            hardest.node,
            hardest.length,
            hardest.quilt,
            hardest.influence,
            notes=hardest.notes,
            bound="quilts",
            variant=hardest.variant,
            counted="observed" if hardest.observed else None,
        ),
        verification_data=proof | (recorded(query) if hardest.observed else {}),
        options=options,
    )


def _plain(proofs: Sequence[QuiltRuns]) -> list[Any]:
    """The quilts of every chain, as lists; those of an earlier chain by its number."""
    first = {runs: number for number, runs in reversed(list(enumerate(proofs)))}
    return [
        [list(run) for run in runs] if first[runs] == number else first[runs]
        for number, runs in enumerate(proofs)
    ]
