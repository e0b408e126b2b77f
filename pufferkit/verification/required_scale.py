"""The scale that a recorded release needs, by the theorem of its mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np

from pufferkit.beliefs.base import Beliefs, Member
from pufferkit.beliefs.bayesian_network import NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.junction_tree import GraphModel
from pufferkit.beliefs.kernel_class import KernelClass
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.beliefs.secrets import Events, Sets
from pufferkit.checks import Floats
from pufferkit.mechanisms.release import Release
from pufferkit.verification.allowance import (
    TOLERANCE,
    Allowance,
    BadBeliefs,
    NotChecked,
    larger_than,
    largest,
)
from pufferkit.verification.curve_proofs import loss_of_part
from pufferkit.verification.graph_proofs import largest_part, loss_on_graphs
from pufferkit.verification.quilt_proofs import (
    KnownChain,
    Nearby,
    RegionBound,
    Tables,
    mixing_bounds,
    quilts_of_case,
    score_of_chain,
    score_of_networks,
    spread_on_chain,
    spread_on_graph,
)
from pufferkit.verification.recorded_release import (
    cost_of_pairs,
    cost_runs,
    longest_promised,
    observed_until,
    patterns,
)
from pufferkit.verification.sum_checks import exact_sum_scale, wasserstein_scale


@dataclass(frozen=True)
class _Claim:
    """A release, the Lipschitz constant of its query, what was checked, and the work allowed."""

    record: Release
    lipschitz: float
    checks: list[str]
    work: Allowance

    def cost(self, theta: Beliefs) -> Floats:
        """What replacing an entry costs, in recorded scales with room for rounding."""
        return cost_of_pairs(self.record, theta, self.lipschitz) / (1 + TOLERANCE)

    @property
    def verification_data(self) -> Mapping[str, Any]:
        return self.record.verification_data or {}

    def scale_for(self, loss: float) -> float:
        """The recorded scale if it keeps the loss within epsilon, else a larger one."""
        enough = loss <= self.record.epsilon
        return self.record.scale if enough else larger_than(self.record.scale)


def needed_scale(
    record: Release,
    beliefs: Callable[[], Beliefs],
    lipschitz: float,
    checks: list[str],
    work: Allowance,
) -> float:
    """A sufficient scale, at most the reported one, or a lower bound on what is needed.

    ``beliefs`` reads the recorded beliefs, which not every mechanism has.
    """
    epsilon = record.epsilon
    if record.mechanism == "entry_dp":
        checks.append(
            f"entry_dp: L / epsilon = {lipschitz / epsilon:.9g}; this is NOT Pufferfish privacy, "
            "it does not hide entries that others predict"
        )
        return lipschitz / epsilon
    if record.mechanism == "group_dp" and record.beliefs is not None:
        most = _largest_part(beliefs())
        checks.append(f"group_dp: L times the largest independent part, {most}, over epsilon")
        return lipschitz * most / epsilon
    if record.mechanism == "group_dp":
        most = max(record.observed or record.lengths)
        checks.append(f"group_dp: L times the observed entries of a segment, {most}, over epsilon")
        return lipschitz * most / epsilon
    theta = beliefs()
    if record.mechanism == "wasserstein":
        if record.observed is not None:
            raise BadBeliefs("wasserstein has no theorem for entries that were not observed")
        return wasserstein_scale(record, theta, checks, work)
    if record.mechanism == "exact_sum":
        return exact_sum_scale(record, theta, checks, work)
    return _needed(theta, _Claim(record, lipschitz, checks, work))


@singledispatch
def _needed(theta: Beliefs, claim: _Claim) -> float:
    """The needed scale by quilts, GK16 or the influence curve, for each class of beliefs."""
    raise BadBeliefs(f"are joint distributions, to which {claim.record.mechanism} does not apply")


@_needed.register
def _on_chain(theta: ChainClass, claim: _Claim) -> float:
    """Quilts, neighbours or the influence curve of chains."""
    record = claim.record
    if record.mechanism == "influence_curve":
        return _by_curve(theta, claim)
    if not theta.names_matrices and record.mechanism in ("gk16", "markov_quilt"):
        raise BadBeliefs(f"give no transition matrix, which {record.mechanism} needs")
    if record.mechanism == "gk16":
        spread = partial(spread_on_chain, length=longest_promised(record))
        return _by_neighbours(theta.members(), claim, spread)
    return _by_quilts(theta, claim)


def _by_curve(theta: ChainClass, claim: _Claim) -> float:
    """The recorded proof of every part of the class, for every pattern of gaps."""
    record, longest = claim.record, longest_promised(claim.record)
    theta.check_length(longest)
    cost, beside = claim.cost(theta), record.evidence.beside or 0.0
    cost = cost + beside * ~np.eye(len(cost), dtype=bool)
    cases = [cost_runs(runs, cost) for runs in patterns(record)]
    if cases and beside:
        raise NotChecked("there is no theorem for gaps with other spending beside")
    cases = cases or [[(longest, cost)]]
    proofs = claim.verification_data.get("curve") or [None] * len(cases)
    if not isinstance(proofs, list) or len(proofs) != len(cases):
        raise TypeError("there must be a proof for each pattern of gaps")
    losses = []
    for runs, recorded in zip(cases, proofs, strict=True):
        parts = theta.parts(sum(count for count, _ in runs))
        each = [None] * len(parts) if recorded is None else recorded
        if not isinstance(each, list) or len(each) != len(parts):
            raise TypeError(f"there must be a proof for each of {len(parts)} part(s) of the class")
        for part, own in zip(parts, each, strict=True):
            losses.append(loss_of_part(part, runs, own, claim.work))
    counted = (
        f", only observed entries counted by {len(cases)} pattern(s)" if patterns(record) else ""
    )
    claim.checks.append(
        f"influence_curve: the recorded proof for {theta.description}, over segments of up to "
        f"{longest:,} entries{counted}; the largest loss is {largest(losses):.9g}"
    )
    if beside:
        claim.checks.append(
            f"influence_curve: {beside:.9g} of event-level epsilon is spent beside it"
        )
    return claim.scale_for(largest(losses))


def _by_quilts(theta: ChainClass, claim: _Claim) -> float:
    """The recorded quilts of every chain that covers the class, at every node."""
    record, work = claim.record, claim.work
    segments = [Nearby(longest_promised(record))]
    if seen := patterns(record):
        segments = [Nearby(sum(runs), observed_until(runs)) for runs in seen]
    how = "how fast they mix" if _by_mixing(theta, record) else "their transition matrices"
    claim.checks.append(
        f"{record.mechanism}: the recorded Markov quilts for {theta.description}, from {how}, over "
        f"segments of up to {max(segment.length for segment in segments):,} entries"
    )
    scores = []
    for case, segment in enumerate(segments):
        sides = _covering(theta, record, segment.length, work)
        runs = quilts_of_case(claim.verification_data, case, len(segments), len(sides))
        for side, own in zip(sides, runs, strict=True):
            scores.append(score_of_chain(side, own, segment, record.epsilon, work))
    return claim.lipschitz * largest(scores)


def _covering(
    theta: ChainClass, record: Release, longest: int, work: Allowance
) -> Sequence[Tables]:
    """The chains, or the bounds on all chains of a class, that quilts are recorded for."""
    printed = record.evidence.variant == "formula"
    if _by_mixing(theta, record):
        return _mixing_bounds(theta, record.evidence.variant == "tight")
    whole = _whole_region(theta)
    members = _corners_of(theta) if whole is None else ()
    return whole or [KnownChain(m, longest, work, as_printed=printed) for m in members]


@singledispatch
def _corners_of(theta: ChainClass) -> Sequence[Member]:
    """The chains whose quilts serve the class."""
    return theta.members()


@_corners_of.register
def _(theta: RegionClass) -> Sequence[Member]:
    return theta.corners() or ()


@singledispatch
def _whole_region(theta: ChainClass) -> Sequence[Tables] | None:
    """The bound on all chains of a region at once, where its corners do not suffice."""
    return None


@_whole_region.register
def _(theta: RegionClass) -> Sequence[Tables] | None:
    return [RegionBound(theta)] if theta.corners() is None else None


def _by_mixing(theta: ChainClass, record: Release) -> bool:
    return not theta.names_matrices or record.mechanism == "markov_quilt_approx"


@_needed.register
def _on_events(theta: EventClass, claim: _Claim) -> float:
    """Quilts around several consecutive entries, or the curve."""
    record, work = claim.record, claim.work
    if record.mechanism != "markov_quilt":
        return _on_kernels(theta, claim)
    longest = longest_promised(record)
    for secrets in theta.hidden:
        if isinstance(secrets, Sets) and secrets.window > 1:
            raise BadBeliefs("hide sets of entries that are not adjacent, which quilts do not")
        if isinstance(secrets, Events) and secrets.window > longest:
            raise BadBeliefs(
                f"hide {secrets.description}, which needs longer segments than those of the release"
            )
    theta.known_chains()
    sides = _covering(theta.beliefs, record, longest, work)
    windows = sorted({min(one.window, longest) for one in theta.hidden})
    scores = []
    for case, window in enumerate(windows):
        claim.checks.append(f"markov_quilt: quilts around {window} entries in a row")
        runs = quilts_of_case(claim.verification_data, case, len(windows), len(sides))
        for side, own in zip(sides, runs, strict=True):
            score = score_of_chain(side, own, Nearby(longest), record.epsilon, work, window)
            scores.append(score)
    return claim.lipschitz * largest(scores)


@_needed.register
def _on_kernels(theta: KernelClass, claim: _Claim) -> float:
    """The curve, which alone covers classes that are given by their kernels."""
    if claim.record.mechanism != "influence_curve":
        raise BadBeliefs(f"are covered by influence_curve only, not by {claim.record.mechanism}")
    return _by_curve(theta, claim)


@_needed.register
def _on_network(theta: NetworkClass, claim: _Claim) -> float:
    """Quilts as recorded, or the influence curve."""
    record, work = claim.record, claim.work
    if record.mechanism == "markov_quilt":
        claim.checks.append(
            f"markov_quilt: the recorded quilt of every node of a {theta.description}"
        )
        return claim.lipschitz * score_of_networks(
            theta, claim.verification_data, record.epsilon, work
        )
    if record.mechanism == "gk16":
        return _by_neighbours(theta.networks, claim, spread_on_graph)
    if record.mechanism != "influence_curve":
        raise BadBeliefs(f"are networks, to which {record.mechanism} does not apply")
    return _on_graphs(theta, theta.networks, claim)


@_needed.register
def _on_fields(theta: FieldClass, claim: _Claim) -> float:
    """Quilts of the field as a network, or the influence curve of its graph."""
    record, work = claim.record, claim.work
    if record.mechanism == "markov_quilt" and len(theta.fields) == 1:
        claim.checks.append(
            f"markov_quilt: the recorded quilt of every node of a {theta.description}"
        )
        ((network,), rounding), quilts = theta.networks(), claim.verification_data
        return claim.lipschitz * score_of_networks(network, quilts, record.epsilon - rounding, work)
    if record.mechanism == "gk16":
        return _by_neighbours(theta.fields, claim, spread_on_graph)
    if record.mechanism != "influence_curve":
        raise BadBeliefs(f"are random fields, to which {record.mechanism} does not apply")
    return _on_graphs(theta, theta.fields, claim)


def _on_graphs(theta: Beliefs, models: Sequence[GraphModel], claim: _Claim) -> float:
    if claim.record.evidence.beside:
        raise NotChecked("there is no theorem for graphs with other spending beside")
    recorded = claim.verification_data.get("graphs")
    loss = loss_on_graphs(models, theta.states, claim.cost(theta), recorded, claim.work)
    claim.checks.append(
        f"influence_curve: the largest loss of a node is {loss:.9g}, by the recorded "
        "ways out of its cliques"
    )
    return claim.scale_for(loss)


def _by_neighbours(models: Sequence[Any], claim: _Claim, spread: Callable[..., float]) -> float:
    """GK16: the recorded vector of every chain or graph."""
    record, work = claim.record, claim.work
    claim.checks.append(
        "gk16: distributions of an entry given its neighbours, and a recorded x >= 1 + Gamma x"
    )
    recorded = claim.verification_data.get("sums")
    if not isinstance(recorded, list) or len(recorded) != len(models):
        raise TypeError("there must be a vector for each of the beliefs")
    pairs = zip(models, recorded, strict=True)
    spreads = [spread(model, recorded=own, work=work) for model, own in pairs]
    return claim.lipschitz * largest(spreads) / record.epsilon


@singledispatch
def _largest_part(theta: Beliefs) -> int:
    """Size of the largest connected component of the graph."""
    if theta.entries is None:
        raise BadBeliefs("are about a series, for which group_dp needs none")
    return len(theta.entries)


@_largest_part.register
def _(theta: NetworkClass) -> int:
    return max(largest_part(network) for network in theta.networks)


@_largest_part.register
def _(theta: FieldClass) -> int:
    return max(largest_part(field) for field in theta.fields)


def _mixing_bounds(theta: ChainClass, tight: bool) -> list[Any]:
    try:
        return list(mixing_bounds(theta, tight=tight))
    except ValueError as error:
        raise BadBeliefs(str(error)) from None
