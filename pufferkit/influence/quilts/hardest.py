"""The member of a class that determines the noise, and the quilt that does so over a class.

Each member is solved only as far as needed: once some member is known to need a score s, another
matters only if it needs more. Stationary chains are first screened many at a time with the quilt
that was best for the worst chain so far; most chains need no further work.

`hardest_quilt` and `quilt_bound` dispatch on the class of beliefs; the implementations for classes
other than chains with known matrices are registered next to their mathematics. Import the functions
from `pufferkit.influence.answers`, which loads all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from math import inf
from typing import Literal

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, Member
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.chains import (
    CONVERGED,
    AnyStartInfluence,
    ChainInfluence,
    InfluenceReading,
    StationaryInfluence,
)
from pufferkit.influence.quilts.given_start import GivenStartInfluence
from pufferkit.influence.quilts.powers import TINY, Powers
from pufferkit.influence.quilts.search import NOTHING, Binding, Quilt
from pufferkit.threads import one_thread


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
    >>> chain = MarkovChain([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]])
    >>> round(float(np.exp(max_influence(chain, 2, 1, 1))), 6)
    36.0
    """
    check_reading(influence)
    node = checks.whole("node", node, 1)
    if left is not None and not 1 <= checks.whole("left", left, 1) < node:
        raise ValueError(f"left: X_{node} has no node {left} to its left; it has {node - 1}")
    if right is not None:
        right = checks.whole("right", right, 1)
    members = as_chain_class(beliefs).members()
    values = [influence_of(m, influence, node).worst_pair(node, left, right)[0] for m in members]
    return max(0.0, *values)


@singledispatch
def influence_between(
    theta: ChainClass, node: int, left: int | None = None, right: int | None = None
) -> float:
    """Upper bound on the max-influence of X_node on its endpoints, over the class.

    Classes without members register their own bounds; import this from
    `pufferkit.influence.answers`.
    """
    return max_influence(theta, node, left, right)


def check_reading(influence: str) -> None:
    """Refuse a reading of max-influence that does not exist."""
    if influence not in ("definition", "formula"):
        raise ValueError(f"influence: must be 'definition' or 'formula', got {influence!r}")


def influence_of(
    member: Member, reading: InfluenceReading, length: int | None = None
) -> ChainInfluence:
    """The influence of one member of a class, for segments of up to ``length`` nodes."""
    if member.any_start or member.chain.is_stationary:
        length = None
    return _influence(member.chain, member.any_start, reading, length)


@lru_cache(maxsize=1)  # the mechanisms of a plan ask for the same one, and for the powers in it
def _influence(
    chain: MarkovChain, any_start: bool, reading: InfluenceReading, length: int | None
) -> ChainInfluence:
    if any_start:
        return AnyStartInfluence(chain, reading)
    if chain.is_stationary:
        return StationaryInfluence(chain, reading)
    return GivenStartInfluence(chain, reading, length or 1)


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
    variant: Literal["definition", "formula", "paper", "tight"] = "definition"
    """Which reading of the theorem was used; see `pufferkit.mechanisms.release.Evidence`."""
    notes: tuple[str, ...] = ()
    """Remarks for readers."""
    quilts: tuple[tuple[int, ...], ...] | None = None
    """For networks: the quilt of every node, by indices."""

    @classmethod
    def of_chain(
        cls,
        belief: str,
        node: int,
        length: int,
        quilt: Quilt,
        variant: Literal["definition", "formula", "paper", "tight"],
        *notes: str,
    ) -> QuiltBound:
        """From a quilt of a chain, whose endpoints are known by their distances."""
        ends = [node - quilt.keep_left] if quilt.ends_left else []
        if quilt.ends_right:
            ends.append(node + quilt.keep_right)
        return cls(belief, node, length, tuple(ends), quilt.influence, quilt.score, variant, notes)


@singledispatch
def hardest_quilt(theta: Beliefs, search: QuiltSearch) -> QuiltBound:
    """The hardest node of a class and its best quilt.

    [Q] Algorithms 2 and 3. ``NotApplicable`` if there is none for a class.
    """
    raise NotApplicable(f"markov_quilt needs Markov chains or a graph, not a {theta.description}")


@hardest_quilt.register
def _(theta: ChainClass, search: QuiltSearch) -> QuiltBound:
    return hardest_corner(theta, theta.members(), search)


@singledispatch
def quilt_bound(theta: Beliefs, length: int, epsilon: float) -> QuiltBound:
    """The best bound by quilts that a class has: `hardest_quilt`, or one from mixing."""
    return hardest_quilt(theta, QuiltSearch(length, epsilon))


def hardest_corner(theta: ChainClass, members: Sequence[Member], search: QuiltSearch) -> QuiltBound:
    """The hardest quilt of a class whose worst case is among these members."""
    length, reading = search.length, search.reading
    member, binding = hardest_member(members, length, search.epsilon, reading)
    notes = ["influence by [Q] (5) as printed"] if reading == "formula" else []
    notes += [theta.where_worst] if theta.where_worst is not None else []
    return QuiltBound.of_chain(member.name, binding.node, length, binding.quilt, reading, *notes)


@one_thread()
def hardest_member(
    members: Sequence[Member], length: int, epsilon: float, reading: InfluenceReading
) -> tuple[Member, Binding]:
    """The member whose hardest node has the largest least score in a segment of ``length``.

    The longest segment is always the hardest: with the same start, node i of a longer segment has
    the quilts it had in the shorter one, except that those without a right endpoint keep more.
    """
    bounds = np.full(len(members), inf)
    screened = np.array(
        [not m.any_start and m.chain.is_stationary and not m.chain.has_underflow for m in members]
    )
    worst, binding = members[0], Binding(0, NOTHING)
    while True:
        candidate = int(bounds.argmax())
        if bounds[candidate] <= binding.quilt.score:
            return worst, binding
        member, hint = members[candidate], binding.quilt if binding.node else None
        candidate_binding = influence_of(member, reading, length).hardest(
            length, epsilon, max(0.0, binding.quilt.score), hint
        )
        bounds[candidate] = -inf
        if candidate_binding.quilt.score > binding.quilt.score:
            worst, binding = member, candidate_binding
        quilt = candidate_binding.quilt
        if quilt.ends_left and quilt.ends_right and screened.sum() > 1:
            rest = np.flatnonzero(screened & (bounds > binding.quilt.score)).tolist()
            if rest:
                chains = [members[n].chain for n in rest]
                bounds[rest] = np.minimum(bounds[rest], _scores(chains, quilt, epsilon))


def _scores(chains: Sequence[MarkovChain], quilt: Quilt, epsilon: float) -> Floats:
    """Upper bounds on the least scores of stationary chains, from one quilt with both endpoints.

    Such a quilt serves every node of a stationary chain ([Q] Lemma C.4). Chains with an impossible
    entry in a power are left to the full search.
    """
    a, b = quilt.keep_left, quilt.keep_right
    stack = np.array([chain.transition for chain in chains])
    before, after = np.linalg.matrix_power(stack, a), np.linalg.matrix_power(stack, b)
    distributions = np.array([chain.initial for chain in chains])
    whole = (
        (before.min(axis=(1, 2)) > TINY)
        & (after.min(axis=(1, 2)) > TINY)
        & (distributions.min(axis=1) > 0)
    )
    scores = np.full(len(chains), inf)
    if not whole.any():
        return scores
    before, after, distributions = (
        np.log(before[whole]),
        np.log(after[whole]),
        np.log(distributions[whole]),
    )
    size = stack.shape[1]
    worst = np.zeros(len(distributions))
    for x in range(size):
        for other in range(size):
            left = (before[:, :, x] - before[:, :, other]).max(axis=1)
            right = (after[:, x] - after[:, other]).max(axis=1)
            np.maximum(
                worst, distributions[:, other] - distributions[:, x] + left + right, out=worst
            )
    powers = Powers(stack[0])
    room = epsilon - worst - powers.rounding(a) - powers.rounding(b) - CONVERGED
    scores[whole] = np.where(room > 0, (a + b - 1) / np.maximum(room, 1e-300), inf)
    return scores
