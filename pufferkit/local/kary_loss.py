"""The privacy loss of answers drawn from any matrix, on a chain of any number of states.

Given X_i the two sides of an entry are independent, and each answer is drawn on its own. So the
loss of an ordered pair of values is a sum, what the entry's own answer says about that pair, plus
the left side, plus the right side (`pufferkit.local.kary_sides`):

    loss(x, x') = max over z of log M(x, z) / M(x', z) + left(x, x') + right(x, x').

Where a side is not known to be bounded (chains that forget slowly or not at all, many states), the
bound from the event-level epsilon serves: `entry_loss`.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.local.bayesian_loss import known_adversary
from pufferkit.local.diameter_bounds import MOST_BLOCK, entry_bound
from pufferkit.local.kary_sides import MOST_ANSWERS, KarySide
from pufferkit.local.losses import Loss
from pufferkit.rounding import EPS, round_up

MOST_STATES = 8
"""States whose pairs are followed; each known value has a sequence of its own."""

LONGEST = 100
"""Series up to this length are followed to the end; longer ones are promised as any length is."""

_EXACT = 1e-8
_LARGEST = 60.0


def pair_losses(
    chain: MarkovChain, matrix: Floats, length: int | None, every: bool, *, reach: bool = True
) -> tuple[Floats, Floats, str] | None:
    """Bound and reached loss of every ordered pair of values, and how they were got, or ``None``.

    Answers that say nothing about some state, or all about it, are not for this bound.
    """
    used = matrix[:, matrix.any(axis=0)]
    if len(chain) > MOST_STATES or not (used > 0).all() or len(chain.closed_classes) > 1:
        return None
    if not (chain.stationary > 0).all():
        return None
    logs = np.log(used)
    own = np.array([(row - logs).max(axis=1) for row in logs])
    if own.max() > _LARGEST:
        return None
    share, kernel = chain.stationary, chain.transition
    reverse = kernel.T * share / share[:, None]
    reverse /= reverse.sum(axis=1, keepdims=True)
    # The reversal is computed, so its entries are off by a few units in the last place.
    start = np.ones(len(chain)) if chain.is_stationary else chain.initial / share
    ends = np.ones(len(chain))
    left, right = (KarySide(own_kernel, used, reach=reach) for own_kernel in (reverse, kernel))
    own = own + 8 * EPS * (1 + np.abs(logs).max())
    np.fill_diagonal(own, 0.0)
    if length is not None and length <= LONGEST:
        listed = reach and used.shape[1] ** (length - 1) <= MOST_ANSWERS
        before = left.within(start, length, every, listed)
        after = right.within(ends, length, every, listed)
        pairs = list(zip(before, reversed(after), strict=True))
        bound = np.max([one.bound + other.bound for one, other in pairs], axis=0)
        reached = np.max([one.reached + other.reached for one, other in pairs], axis=0)
        return own + bound, own + reached, "all answers" if listed else "pairs of states"
    past, future = left.at_any_distance(start, every), right.at_any_distance(ends, every)
    if past is None or future is None:
        return None
    return (
        own + past.bound + future.bound,
        own + past.reached + future.reached,
        "pairs of states to the limit",
    )


def matrix_loss(
    chain: MarkovChain, matrix: Floats, length: int | None, adversary: str, *, reach: bool = True
) -> Loss:
    """A certified loss of answers drawn from the rows of ``matrix``.

    It is ``exact`` if all answers were compared, or if some reach the bound to eight digits.
    """
    rows = np.ascontiguousarray(matrix, dtype=np.float64).tobytes()
    return _loss_of(chain, rows, length, known_adversary(adversary), reach)


@lru_cache(maxsize=4)  # a mechanism is searched, then made, then made with its promise
def _loss_of(chain: MarkovChain, rows: bytes, length: int | None, name: str, reach: bool) -> Loss:
    matrix = np.frombuffer(rows).reshape(len(chain), -1)
    if (matrix == matrix[0]).all():
        return Loss((0.0, 0.0), name, length, "answers carry no information", True)
    losses = pair_losses(chain, matrix, length, name == "every", reach=reach)
    if losses is not None:
        bound, reached, method = losses
        value = round_up(float(bound.max()))
        whole = length is None or length <= LONGEST
        # A start without some states rules out values that were counted as known.
        whole = whole and (name == "ignorant" or bool((chain.initial > 0).all()))
        exact = whole and float(reached.max()) >= value - _EXACT * (1 + value)
        if value <= (inf if exact else entry_bound(chain, event_level(matrix))):
            return Loss((value, value), name, length, method, exact)
    return entry_loss(chain, event_level(matrix), length, name)


def event_level(matrix: Floats) -> float:
    """Largest log-ratio of an answer under two states, rounded up."""
    used = matrix[:, matrix.any(axis=0)]
    if not (used > 0).all():
        return inf
    logs = np.log(used)
    return round_up(float(np.ptp(logs, axis=0).max()))


def entry_loss(chain: MarkovChain, b: float, length: int | None, adversary: str) -> Loss:
    """A certified bound on the loss of answers with event-level epsilon ``b``.

    Every way to answer of that event-level epsilon is covered, and every number of states.
    """
    name = known_adversary(adversary)
    options: list[tuple[float, str]] = [(entry_bound(chain, b), "tanh bound")]
    if length is not None:
        options.append((round_up(length * b), "entries added up"))
    if name == "ignorant" and length is not None and 0 < b < inf:
        from pufferkit.influence.curve.profile import InfluenceCurve  # noqa: PLC0415

        options.append((InfluenceCurve(chain, length).epsilon(b), "influence curve"))
    value, method = min(options)
    if value == inf and b < inf:
        raise NotApplicable(
            f"transition: this chain does not mix within {MOST_BLOCK} steps (it is periodic, "
            "reducible or very sparse), so no loss is certified for series of any length; give a "
            "length, for which entries can be added up"
        )
    return Loss((value, value), name, length, method, value == 0)
