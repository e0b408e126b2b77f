"""The Markov Quilt Mechanism on chains: [Q] Algorithms 3 and 4."""

from __future__ import annotations

from typing import Any, Literal

from pufferkit import checks
from pufferkit.beliefs.chain_class import BinaryClass, ChainClass
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.protocol import as_beliefs
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.data.queries import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.regions import region_influence
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.chains import Reading, check_reading
from pufferkit.influence.quilts.hardest import hardest_member
from pufferkit.influence.quilts.mixing import MixingInfluence
from pufferkit.influence.quilts.networks import hardest_node
from pufferkit.influence.quilts.search import Quilt
from pufferkit.mechanisms.calibration import Calibration, chains_only, check_states
from pufferkit.mechanisms.release import Evidence, Variant
from pufferkit.rounding import round_up

Bound = Literal["paper", "tight"]


def markov_quilt(
    beliefs: Any,
    query: Query,
    epsilon: float,
    *,
    influence: Reading = "definition",
    progress: Progress | None = None,
) -> Calibration:
    """Noise of the Markov Quilt Mechanism, over all quilts of [Q] Lemma 4.6.

    The scale is L times the largest, over chains of the class and nodes i, of the least

        card(nearby nodes) / (epsilon - max-influence of X_i on the quilt)

    over quilts ([Q] Theorem 4.3). No limit on the size of quilts, no grid over chains: the optimum
    is exact for `ChainClass.of`, for `ChainClass.any_start` ([Q] C.4) and for `ChainClass.binary`,
    whose worst chain is at a corner. Over `ChainClass.around` influence is bounded from above
    (`pufferkit.influence.curve.regions`); two states are exact there too.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or a `ChainClass`; or a `BayesianNetwork`, or several with one graph, for
        which [Q] Algorithm 2 searches quilts by d-separation.
    query
        What is asked; its segments are independent and start alike.
    epsilon
        Pufferfish privacy for each entry.
    influence
        ``"definition"``: max-influence over values that can occur, [Q] Definition 4.1.
        ``"formula"``: [Q] (5) as printed, which also counts left endpoints of probability zero; it
        gives the paper's numbers and never less noise.
    progress
        For networks: called with the number of nodes done and their total.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, markov_quilt
    >>> theta = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    >>> noise = markov_quilt(theta, count(1, 100), 1)
    >>> round(noise.scale, 5), noise.evidence.node, noise.evidence.quilt
    (12.93405, 8, (1, 13))
    """
    epsilon = checks.privacy(epsilon)
    check_reading(influence)
    found = as_beliefs(beliefs)
    check_states(found, query)
    if isinstance(found, NetworkClass):
        return _network_quilt(found, query, epsilon, progress)
    theta = chains_only(found, "markov_quilt")
    members = theta.corners() if isinstance(theta, RegionClass) else theta.members()
    if members is None:
        return _region_quilt(theta, query, epsilon, influence)
    member, binding = hardest_member(members, query.longest, epsilon, influence)
    notes = ["influence by [Q] (5) as printed"] if influence == "formula" else []
    if isinstance(theta, BinaryClass):
        notes.append("worst chain of the interval is at a corner, exactly")
    if isinstance(theta, RegionClass):
        notes.append("worst chain of the region is at a corner, exactly")
    return Calibration(
        "markov_quilt",
        epsilon,
        round_up(query.lipschitz * binding.quilt.score),
        query,
        theta,
        _evidence(member.name, binding.node, query.longest, binding.quilt, notes, influence),
    )


def markov_quilt_approx(
    beliefs: Any, query: Query, epsilon: float, *, bound: Bound = "paper"
) -> Calibration:
    """Noise of the Markov Quilt Mechanism when only the speed of mixing is used: [Q] Algorithm 4.

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
    epsilon = checks.privacy(epsilon)
    theta = chains_only(beliefs, "markov_quilt_approx")
    check_states(theta, query)
    node, quilt, notes = _hardest_by_mixing(theta, query.longest, epsilon, bound)
    return Calibration(
        "markov_quilt_approx",
        epsilon,
        round_up(query.lipschitz * quilt.score),
        query,
        theta,
        _evidence(theta.description, node, query.longest, quilt, notes, bound),
    )


def _region_quilt(
    theta: ChainClass, query: Query, epsilon: float, influence: Reading
) -> Calibration:
    if influence == "formula":
        raise NotApplicable(
            "[Q] (5) as printed is for known matrices; over a region use influence='definition'"
        )
    assert isinstance(theta, RegionClass)
    node, quilt = region_influence(theta).hardest(query.longest, epsilon)
    notes = ["influence bounded over the region, any start"]
    return Calibration(
        "markov_quilt",
        epsilon,
        round_up(query.lipschitz * quilt.score),
        query,
        theta,
        _evidence("all chains of the region", node, query.longest, quilt, notes, influence),
    )


def _network_quilt(
    theta: NetworkClass, query: Query, epsilon: float, progress: Progress | None
) -> Calibration:
    node, quilt, influence, score, quilts = hardest_node(theta, epsilon, progress)
    return Calibration(
        "markov_quilt",
        epsilon,
        round_up(query.lipschitz * score),
        query,
        theta,
        Evidence(
            theta.description,
            node,
            len(theta.nodes),
            quilt,
            influence,
            bound="quilts",
            variant="definition",
        ),
        workings={"quilts": [list(own) for own in quilts]},
    )


def _hardest_by_mixing(
    theta: ChainClass, length: int, epsilon: float, bound: Bound
) -> tuple[int, Quilt, list[str]]:
    bounds = theta.mixing_bounds()
    if bound == "paper":
        pi_min, gap = min(m.pi_min for m in bounds), min(m.gap for m in bounds)
        influence = MixingInfluence(gap / 2, 1 / pi_min, 2)
        node, quilt = influence.hardest(length, epsilon)
        return node, quilt, [f"pi_min {pi_min:.6g}, gap {gap:.6g}, [Q] Lemma C.1"]
    if bound == "tight":
        solved = [MixingInfluence.tight(m).hardest(length, epsilon) for m in bounds]
        node, quilt = max(solved, key=lambda pair: pair[1].score)
        return node, quilt, ["influence from the operator norm of P"]
    raise ValueError(f"bound: must be 'paper' or 'tight', got {bound!r}")


def _evidence(
    belief: str, node: int, length: int, quilt: Quilt, notes: list[str], variant: Variant
) -> Evidence:
    nodes = []
    if quilt.ends_left:
        nodes.append(node - quilt.keep_left)
    if quilt.ends_right:
        nodes.append(node + quilt.keep_right)
    return Evidence(
        belief,
        node,
        length,
        tuple(nodes),
        quilt.influence,
        notes=tuple(notes),
        bound="quilts",
        variant=variant,
    )
