"""Outputs beyond all exact answers: the loss there, for any number of states and any length.

At an output that lies above every possible answer in some coordinates and below it in the others
(one sign each), the density is a constant times e^{sum_j sign_j answer_j / s}. For a sum over
entries that is a product, so with g(x) = e^{sum_j sign_j V_j(x) / s}

    p(w, X_i = x | X_1 = u)  ~  (G P G ... P G)(u, x) (P G ... P G 1)(x),    G = diag(g),

i factors G in the first part and one for each later entry in the second. Other segments are
independent of the secret and add nothing. Few outputs are looked at, so what is found is a lower
bound; where a whole grid of outputs is too large to list, it is often the loss itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np

from pufferkit.audit.any_start_loss import largest_ratios
from pufferkit.audit.report import WorstCase
from pufferkit.beliefs.base import Member
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable

_ALL_SIGNS = 8
_MOST_LENGTH = 2_000


def outer_cases(member: Member, query: Query, scale: float) -> Iterator[WorstCase]:
    """The worst outer output for every entry of the longest segment; none for other queries."""
    if query.weights is None or query.size < 2 or query.longest > _MOST_LENGTH:
        return
    chain = member.chain
    nothing = (Fraction(0),) * query.size
    added = np.array(
        [[float(w) for w in query.weights.get(state, nothing)] for state in chain.states]
    )
    signs = _signs(query.size)
    exponents = signs @ added.T / scale
    begin = sum(query.lengths[: query.lengths.index(query.longest)])
    # The outermost answers stand for all outputs beyond them: the ratio does not change there.
    outermost = sum(query.lengths) * np.where(signs > 0, added.max(axis=0), added.min(axis=0))
    for place, (logs, mass) in enumerate(_tables(chain, exponents, query.longest), 1):
        best = _open(chain, logs, mass) if member.any_start else _known(chain, logs, mass)
        if best is None:
            continue
        loss, at, one, other, start = best
        yield WorstCase(
            loss,
            f"{member.name}{start}",
            begin + place,
            chain.states[one],
            chain.states[other],
            tuple(outermost[at].tolist()),
            complete=False,
        )


def _signs(size: int) -> Floats:
    """All signs of a few coordinates; of many, one or two against the others."""
    if size <= _ALL_SIGNS:
        return np.array(list(product((1.0, -1.0), repeat=size)))
    rows = [np.ones(size)]
    for chosen in (c for n in (1, 2) for c in combinations(range(size), n)):
        rows.append(np.ones(size))
        rows[-1][list(chosen)] = -1.0
    return np.vstack([np.array(rows), -np.array(rows)])


def _tables(chain: MarkovChain, exponents: Floats, length: int) -> Iterator[tuple[Floats, Floats]]:
    """For entries 1, 2, ...: log p(w, x | u) by output, u and x, up to a constant; and P(x | u)."""
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    moves, size = chain.transition, len(chain)
    after = [np.ones_like(weights)]
    for _ in range(length - 1):
        before = (weights * after[-1]) @ moves.T
        after.append(before / before.max(axis=1, keepdims=True))
    first = np.einsum("ux,ox->oux", np.eye(size), weights)
    mass = np.eye(size)
    for place in range(length):
        if place:
            first = (first @ moves) * weights[:, None, :]
            first /= first.max(axis=(1, 2), keepdims=True)
            mass = mass @ moves
        with np.errstate(divide="ignore"):
            yield np.log(first) + np.log(after[length - 1 - place])[:, None, :], mass


_Best = tuple[float, int, int, int, str]
"""Loss, place of the output, the likelier and the unlikelier value, and words for the start."""


def _known(chain: MarkovChain, logs: Floats, mass: Floats) -> _Best | None:
    with np.errstate(divide="ignore"):
        given = np.logaddexp.reduce(logs + np.log(chain.initial)[None, :, None], axis=1)
        alone = np.log(chain.initial @ mass)
    can = np.flatnonzero(np.isfinite(alone))
    if len(can) < 2:
        return None
    odds = given[:, can] - alone[can]
    if not np.isfinite(odds).all():
        return None  # underflow: nothing is proved there
    spread = odds.max(axis=1) - odds.min(axis=1)
    at = int(spread.argmax())
    one, other = int(can[odds[at].argmax()]), int(can[odds[at].argmin()])
    return float(spread[at]), at, one, other, ""


def _open(chain: MarkovChain, logs: Floats, mass: Floats) -> _Best | None:
    """The largest over starts: they need two states at most, as in the exact loss."""
    best: _Best | None = None
    for rows in _pairs(len(chain)):
        for a, b in permutations(range(len(chain)), 2):
            try:
                losses, odds = largest_ratios(
                    logs[:, rows, a].T, logs[:, rows, b].T, mass[rows, a], mass[rows, b]
                )
            except NotApplicable:
                continue
            at = int(losses.argmax())
            if np.isfinite(losses[at]) and (best is None or losses[at] > best[0]):
                x, y = (chain.states[u] for u in rows)
                start = f": start in {x} or {y} at odds 1 : {odds[at]:.6g}"
                best = float(losses[at]), at, a, b, start
    return best


def _pairs(size: int) -> list[Sequence[int]]:
    return [list(pair) for pair in combinations(range(size), 2)]
