"""The scale that a recorded release needs, by the theorem of its mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from math import inf
from typing import Any

from pufferkit.beliefs.base import Beliefs, Member
from pufferkit.beliefs.bayesian_network import NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.junction_tree import GraphModel
from pufferkit.beliefs.kernel_class import KernelClass
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.beliefs.secrets import Events, Pairs, Runs, Secrets, Sets
from pufferkit.checks import Floats
from pufferkit.data.series import SegmentPattern
from pufferkit.mechanisms.release import Release
from pufferkit.verification.chain_bounds import Task, loss_by_curve
from pufferkit.verification.chain_proofs import loss_of_chain
from pufferkit.verification.gap_bounds import (
    cost_runs,
    loss_over_gaps,
    observed_until,
    patterns,
)
from pufferkit.verification.graph_proofs import largest_part, loss_on_graphs
from pufferkit.verification.kernel_steps import loss_of_kernels
from pufferkit.verification.pair_tables import (
    TOLERANCE,
    Allowance,
    BadBeliefs,
    KnownChain,
    NotChecked,
    PairTables,
    members_to_check,
    mixing_bounds,
)
from pufferkit.verification.quilt_proofs import (
    Nearby,
    quilts_of_case,
    score_of_chain,
    score_of_networks,
    spread_on_chain,
    spread_on_graph,
)
from pufferkit.verification.recorded_release import (
    cost_in_scales,
    cost_of_pairs,
    hint_of,
    longest_promised,
)
from pufferkit.verification.region_tables import RegionBound
from pufferkit.verification.sum_checks import exact_sum_scale, wasserstein_scale


@dataclass(frozen=True)
class _Claim:
    """A release, the Lipschitz constant of its query, what was checked, and the work allowed."""

    record: Release
    lipschitz: float
    checks: list[str]
    work: Allowance

    @property
    def scale(self) -> float:
        """The recorded scale, with room for rounding."""
        return self.record.scale * (1 + TOLERANCE)

    @property
    def verification_data(self) -> Mapping[str, Any]:
        return self.record.verification_data or {}

    def scale_for(self, loss: float) -> float:
        """The recorded scale if it keeps the loss within epsilon, else a larger one."""
        enough = loss <= self.record.epsilon
        return self.record.scale if enough else self.record.scale * (1 + 1e-3)


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
    record, work = claim.record, claim.work
    longest, epsilon = longest_promised(record), record.epsilon
    evidence = record.evidence
    if not theta.names_matrices and record.mechanism in ("gk16", "markov_quilt"):
        raise BadBeliefs(f"give no transition matrix, which {record.mechanism} needs")
    if record.mechanism == "gk16":
        return _by_neighbours(theta.members(), claim, partial(spread_on_chain, length=longest))
    if evidence.bound == "quilts":
        return _by_quilts(theta, claim)
    if seen := patterns(record):
        return _over_gaps(theta, claim, seen)
    if evidence.bound == "pairs":
        return _by_pairs(theta, claim)
    beside = evidence.beside or 0.0
    how = "how fast they mix" if _by_mixing(theta, record) else "their transition matrices"
    claim.checks.append(
        f"{record.mechanism}: the influence curve for {theta.description}, from {how}, over "
        f"segments of up to {longest}"
    )

    def largest(scale: float, work: Allowance) -> float:
        """The largest loss over the class, on the curve."""
        task = Task(longest, claim.lipschitz / scale + beside, epsilon, hint_of(record), work)
        sides = _sides_of(theta, record, longest, work)
        return max(loss_by_curve(side, task) for side in sides)

    worst = largest(claim.scale, work)
    if beside:
        claim.checks.append(
            f"{record.mechanism}: {beside:.9g} of event-level epsilon is spent beside it"
        )
    claim.checks.append(f"influence_curve: the largest loss of an entry is {worst:.9g}")
    if worst <= epsilon:
        return record.scale
    # How much more is needed, as far as that is quick to compute.
    failed, factor, quick = (
        record.scale * (1 + 2 * TOLERANCE),
        1.005,
        Allowance(2 * work.spent + 1e9),
    )
    try:
        while largest(record.scale * factor, quick) > epsilon:
            failed, factor = record.scale * factor, factor**2
    except NotChecked:
        pass
    return failed


def _by_quilts(theta: ChainClass, claim: _Claim) -> float:
    """The recorded quilts of every chain that covers the class, at every node."""
    record, work = claim.record, claim.work
    segments = [Nearby(longest_promised(record))]
    if seen := patterns(record):
        segments = [Nearby(sum(runs), observed_until(runs)) for runs in seen]
    how = "how fast they mix" if _by_mixing(theta, record) else "their transition matrices"
    claim.checks.append(
        f"{record.mechanism}: the recorded Markov quilts for {theta.description}, from {how}, over "
        f"segments of up to {max(segment.length for segment in segments)}"
    )
    worst = 0.0
    for case, segment in enumerate(segments):
        sides = _covering(theta, record, segment.length, work)
        runs = quilts_of_case(claim.verification_data, case, len(segments), len(sides))
        for side, own in zip(sides, runs, strict=True):
            score = score_of_chain(side, own, segment, record.epsilon, work)
            worst = max(worst, score)
    return _scale_beside(worst, claim)


def _scale_beside(score: float, claim: _Claim) -> float:
    """The scale that hides the hardest node, with other spending beside it."""
    beside = claim.record.evidence.beside or 0.0
    if beside:
        claim.checks.append(
            f"{claim.record.mechanism}: {beside:.9g} of event-level epsilon is spent beside it"
        )
    left = 1 / score - beside if score > 0 else inf
    return claim.lipschitz / left if left > 0 else inf


def _covering(
    theta: ChainClass, record: Release, longest: int, work: Allowance
) -> Sequence[PairTables]:
    """The chains, or the bounds on all chains of a class, that quilts are recorded for."""
    printed = record.evidence.variant == "formula"
    if _by_mixing(theta, record):
        return _mixing_bounds(theta, work, record.evidence.variant == "tight")
    whole = _whole_region(theta, work)
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
def _whole_region(theta: ChainClass, work: Allowance) -> Sequence[PairTables] | None:
    """The bound on all chains of a region at once, where its corners do not suffice."""
    return None


@_whole_region.register
def _(theta: RegionClass, work: Allowance) -> Sequence[PairTables] | None:
    return [RegionBound(theta, work)] if theta.corners() is None else None


def _over_gaps(theta: ChainClass, claim: _Claim, seen: Sequence[SegmentPattern]) -> float:
    """Only observed entries counted, every entry of the recorded patterns hidden."""
    record, work = claim.record, claim.work
    evidence, epsilon, scale = record.evidence, record.epsilon, claim.scale
    if evidence.beside:
        raise NotChecked("there is no recomputation of gaps with other spending beside")
    b, longest = claim.lipschitz / scale, max(record.lengths)
    sides = _sides_of(theta, record, longest, work)
    claim.checks.append(
        f"{record.mechanism}: only observed entries counted, by {len(seen)} recorded "
        f"pattern{'s' if len(seen) > 1 else ''} of gaps, every entry hidden, for "
        f"{theta.description}"
    )
    proofs = claim.verification_data.get("pairs") or [{}] * len(seen)
    if len(proofs) != len(seen):
        raise BadBeliefs("there is not one proof for each pattern of gaps")
    cost = cost_in_scales(record, theta, claim.lipschitz, scale)
    largest = 0.0
    for runs, proof in zip(seen, proofs, strict=True):
        for side, name in zip(sides, _names(theta, sides, proof), strict=True):
            if proof.get(name) is not None:
                loss = loss_of_chain(side, cost_runs(runs, cost), proof[name], work)
            else:
                loss = loss_over_gaps(side, runs, b, epsilon, work)
            largest = max(largest, loss)
    claim.checks.append(f"influence_curve: the largest loss of an entry is {largest:.9g}")
    return claim.scale_for(largest)


def _names(theta: ChainClass, sides: Sequence[PairTables], proofs: Mapping[str, Any]) -> list[str]:
    """Names of the proofs: of the chains that are checked, or of one for all."""
    if all(isinstance(side, KnownChain) for side in sides):
        return [member.name for member in members_to_check(theta)]
    return [next(iter(proofs), "")] * len(sides)


def _by_mixing(theta: ChainClass, record: Release) -> bool:
    return not theta.names_matrices or record.mechanism == "markov_quilt_approx"


def _sides_of(
    theta: ChainClass, record: Release, longest: int, work: Allowance
) -> Sequence[PairTables]:
    """The sides by which the recorded mechanism bounds the class."""
    variant = record.evidence.variant
    if _by_mixing(theta, record):
        tight = record.mechanism == "influence_curve" or variant == "tight"
        return _mixing_bounds(theta, work, tight)
    return _sides(theta, longest, work, variant == "formula")


@singledispatch
def _sides(theta: ChainClass, longest: int, work: Allowance, printed: bool) -> list[PairTables]:
    """The sides of every chain to check, or of all chains of a class at once."""
    return [KnownChain(m, longest, work, as_printed=printed) for m in members_to_check(theta)]


@_sides.register
def _(theta: RegionClass, longest: int, work: Allowance, printed: bool) -> list[PairTables]:
    if len(theta.states) != 2 or theta.before is not None:
        return [RegionBound(theta, work)]
    return [KnownChain(m, longest, work, as_printed=printed) for m in members_to_check(theta)]


@_needed.register
def _on_events(theta: EventClass, claim: _Claim) -> float:
    """Quilts around several consecutive entries, or the curve of kernels."""
    record, work = claim.record, claim.work
    if record.mechanism == "influence_curve" and not theta.kernels():
        return _around_windows(theta, claim)
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
    worst = 0.0
    for case, window in enumerate(windows):
        claim.checks.append(f"markov_quilt: quilts around {window} entries in a row")
        runs = quilts_of_case(claim.verification_data, case, len(windows), len(sides))
        for side, own in zip(sides, runs, strict=True):
            score = score_of_chain(side, own, Nearby(longest), record.epsilon, work, window)
            worst = max(worst, score)
    return _scale_beside(worst, claim)


def _around_windows(theta: EventClass, claim: _Claim) -> float:
    """Values of several entries in a row, by what the sides of the curve add to their ends."""
    record, work = claim.record, claim.work
    longest, base = longest_promised(record), theta.beliefs
    b = claim.lipschitz / claim.scale + (record.evidence.beside or 0.0)
    sides: Sequence[PairTables] = (
        _sides(base, longest, work, False)
        if base.names_matrices
        else _mixing_bounds(base, work, True)
    )
    proofs = claim.verification_data.get("pairs") or {}
    cost = cost_in_scales(record, theta, claim.lipschitz, claim.scale)
    largest = 0.0
    for one in theta.hidden:
        window, weights = min(longest, one.window), _weights(one, theta)
        strictest = 1.0 if weights is None else float(weights.max())
        task = Task(longest, b, record.epsilon / strictest, None, work)
        ending = f": {one.description}" if len(theta.hidden) > 1 else ""
        mine = {name: proof for name, proof in proofs.items() if name.endswith(ending)}
        names = _names(base, sides, {name.removesuffix(ending): None for name in mine})
        for side, name in zip(sides, names, strict=True):
            proof = mine.get(name + ending)
            if proof is not None:
                loss = loss_of_chain(side, [(longest, cost)], proof, work, window, weights)
            else:
                loss = loss_by_curve(side, task, window) * strictest
            largest = max(largest, loss)
    claim.checks.append(
        f"influence_curve: {theta.description}, over segments of up to {longest}; the largest loss "
        f"is {largest:.9g}"
    )
    return claim.scale_for(largest)


def _weights(secrets: Secrets, theta: EventClass) -> Floats | None:
    """What the loss of each pair of values counts, for named pairs."""
    if isinstance(secrets, Pairs):
        return secrets.parts(theta.states)
    if isinstance(secrets, Runs):
        return None
    raise BadBeliefs(
        f"hide {secrets.description}, for which no theorem covers these initial distributions"
    )


@_needed.register
def _on_kernels(theta: KernelClass, claim: _Claim) -> float:
    """The pairwise curve of a class that is given by its kernels."""
    record, work = claim.record, claim.work
    if record.mechanism != "influence_curve":
        raise BadBeliefs(f"are covered by influence_curve only, not by {record.mechanism}")
    longest, scale = longest_promised(record), claim.scale
    recorded = claim.verification_data.get("pairs")
    cost = cost_in_scales(record, theta, claim.lipschitz, scale)
    largest = longest * float(cost.max())  # a segment paid for whole hides all about it
    if record.evidence.bound != "pairs" or largest <= record.epsilon:
        pass
    elif not isinstance(recorded, Mapping):
        raise BadBeliefs("no pairs of values are recorded for them in the verification data")
    else:
        largest = 0.0
        for part in theta.kernels():
            if part.name not in recorded:
                raise BadBeliefs(f"no pairs of values are recorded for {part.name}")
            own = loss_of_kernels(part, longest, cost, recorded[part.name], work)
            largest = max(largest, own)
    claim.checks.append(
        f"influence_curve: pair by pair of values for {theta.description}, over segments of up to "
        f"{longest}; the largest loss is {largest:.9g}"
    )
    return claim.scale_for(largest)


def _by_pairs(theta: ChainClass, claim: _Claim) -> float:
    """The pairwise curve of the chains that a limit is recorded for, the scalar one of others."""
    record, work = claim.record, claim.work
    longest, scale = longest_promised(record), claim.scale
    recorded = claim.verification_data.get("pairs")
    if not isinstance(recorded, Mapping):
        raise BadBeliefs("no proof is recorded for them in the verification data")
    cost = cost_in_scales(record, theta, claim.lipschitz, scale)
    largest, used = 0.0, list[Any]()
    sides = _sides_of(theta, record, longest, work)
    for side, name in zip(sides, _names(theta, sides, recorded), strict=True):
        own = recorded.get(name)
        if own is None:
            task = Task(longest, float(cost.max()), record.epsilon, None, work)
            loss = loss_by_curve(side, task)
        else:
            loss = loss_of_chain(side, [(longest, cost)], own, work)
            used += [own[side].get("plans") for side in ("left", "right")]
        largest = max(largest, loss)
    claim.checks.append(
        f"influence_curve: pair by pair of values for {theta.description}, over segments of up to "
        f"{longest}, {_by_plans(used)}; the largest loss is {largest:.9g}"
    )
    return claim.scale_for(largest)


def _by_plans(plans: Sequence[Any]) -> str:
    """Whether the plans behind the steps were recorded."""
    return "solved again" if None in plans else "by the recorded plans"


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
    record, work = claim.record, claim.work
    cost = cost_of_pairs(record, theta, claim.lipschitz) / claim.scale
    recorded = claim.verification_data.get("graphs")
    loss = loss_on_graphs(models, theta.states, cost, recorded, work)
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
    largest = max(
        spread(model, recorded=own, work=work) for model, own in zip(models, recorded, strict=True)
    )
    return claim.lipschitz * largest / record.epsilon


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


def _mixing_bounds(theta: ChainClass, work: Allowance, tight: bool) -> list[Any]:
    try:
        return list(mixing_bounds(theta, work, tight=tight))
    except ValueError as error:
        raise BadBeliefs(str(error)) from None
