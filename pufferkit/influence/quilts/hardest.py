"""The member of a class that decides the noise.

Each member is solved only as far as needed: once some member is known to need a score s, another
matters only if it needs more. Stationary chains are first screened many at a time with the quilt
that was best for the worst chain so far; most fall there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from pufferkit.beliefs.chain_class import Member
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.influence.quilts.chains import SETTLED, Binding, Reading, influence_of
from pufferkit.influence.quilts.powers import TINY, Powers
from pufferkit.influence.quilts.search import NOTHING, Quilt


def hardest_member(
    members: Sequence[Member], length: int, epsilon: float, reading: Reading
) -> tuple[Member, Binding]:
    """The member whose hardest node has the largest least score in a segment of ``length``.

    The longest segment is always the hardest: with the same start, node i of a longer segment has
    the quilts it had in the shorter one, except that those without a right endpoint keep more.
    """
    bounds = np.full(len(members), inf)
    screened = np.array(
        [not m.any_start and m.chain.is_stationary and not m.chain.has_lost_states for m in members]
    )
    worst, binding = members[0], Binding(0, NOTHING)
    while True:
        candidate = int(bounds.argmax())
        if bounds[candidate] <= binding.quilt.score:
            return worst, binding
        member, hint = members[candidate], binding.quilt if binding.node else None
        found = influence_of(member, reading, length).hardest(
            length, epsilon, max(0.0, binding.quilt.score), hint
        )
        bounds[candidate] = -inf
        if found.quilt.score > binding.quilt.score:
            worst, binding = member, found
        quilt = found.quilt
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
    laws = np.array([chain.initial for chain in chains])
    whole = (
        (before.min(axis=(1, 2)) > TINY) & (after.min(axis=(1, 2)) > TINY) & (laws.min(axis=1) > 0)
    )
    scores = np.full(len(chains), inf)
    if not whole.any():
        return scores
    before, after, laws = np.log(before[whole]), np.log(after[whole]), np.log(laws[whole])
    size = stack.shape[1]
    worst = np.zeros(len(laws))
    for x in range(size):
        for other in range(size):
            left = (before[:, :, x] - before[:, :, other]).max(axis=1)
            right = (after[:, x] - after[:, other]).max(axis=1)
            np.maximum(worst, laws[:, other] - laws[:, x] + left + right, out=worst)
    powers = Powers(stack[0])
    room = epsilon - worst - powers.rounding(a) - powers.rounding(b) - SETTLED
    scores[whole] = np.where(room > 0, (a + b - 1) / np.maximum(room, 1e-300), inf)
    return scores
