"""The largest divergence of one chain from another given any secret: passes of maxima.

For data x let r(x) = log p(x) / q(x), a sum over the start and the moves. Given a secret S that
both think possible, the max-divergence of p from q is

    max { r(x) : x in S }  -  log p(S) / q(S).

*An entry*, X_i = a: paths through a, by a forward and a backward pass of maxima.

*Entries in a row* have given moves between them, whose ratios cancel: what is left is what lies
before the first value and after the last, for any two ends that the adversary's moves can join.

*Entries anywhere* split the series into stretches, which are independent given the entries. Each
adds the largest ratio of a path between its ends minus the ratio of the probabilities of the two
ends; the best entries are found one by one, from left to right.

*The label of a window* is read by an automaton. Maxima (for paths) and sums (for probabilities)
over the windows from a to b that end in a label are tables, the same wherever the window lies.

Secrets that the adversary thinks impossible are not compared; what only one of the two thinks
possible, given such a secret, makes the divergence infinite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.secrets import Automaton, Events, Pairs, Runs, Secrets, Sets
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

MOST_WORK = 200_000_000
"""Sums to compare for sets of entries."""

# A path impossible under the first never counts; one impossible under the second is infinite.
_NEVER, _UNSEEN, _INFINITE = 1e300, 1e200, 1e150


def chain_delta(
    adversary: MarkovChain,
    belief: MarkovChain,
    length: int,
    hidden: Sequence[Secrets] = (Runs(1),),
) -> float:
    """Largest divergence given any secret that the adversary thinks possible, either way."""
    known, held = _marginals(adversary, length), _marginals(belief, length)
    possible = known > 0
    outside = possible & (held == 0)
    delta = 0.0
    for first, second, ours, theirs in (
        (adversary, belief, known, held),
        (belief, adversary, held, known),
    ):
        moves = _log_ratio(first.transition, second.transition)
        forward, backward = _passes(moves, _log_ratio(first.initial, second.initial), length)
        both = possible & ~outside
        odds = np.log(np.where(both, ours, 1.0)) - np.log(np.where(both, theirs, 1.0))
        given = np.where(both, forward - odds, -_NEVER)
        unseen = bool(outside.any()) or ((forward + backward)[both] > _INFINITE).any()
        for secrets in hidden:
            if isinstance(secrets, Pairs):
                named = secrets.parts(adversary.states).any(axis=1)
                if (outside & named).any():
                    return inf
                own = (given + backward)[:, named].max()
            elif first is adversary and unseen:
                # What only the adversary thinks possible has a secret too, whichever they are.
                return inf
            elif isinstance(secrets, Runs):
                own = _runs(given, backward, adversary, secrets.window)
            elif isinstance(secrets, Sets):
                own = _sets(given, backward, moves, (first, second), adversary, secrets.window)
            else:
                assert isinstance(secrets, Events)
                logs = (_logs(ours), _logs(theirs))
                automaton = secrets.automaton(adversary.states)
                own = _events(forward, backward, moves, (first, second), logs, automaton)
            if own > _INFINITE:
                return inf
            delta = max(delta, float(own))
    return delta


def _runs(given: Floats, backward: Floats, adversary: MarkovChain, window: int) -> float:
    own = min(window, len(given))
    joined = _reached(adversary.transition > 0, own - 1)
    # The best value to end with, for each to begin with.
    ends = np.where(joined[None], backward[own - 1 :, None, :], -_NEVER).max(axis=2)
    largest: float = (given[: len(given) - own + 1] + ends).max()
    return largest


def _sets(
    given: Floats,
    backward: Floats,
    moves: Floats,
    pair: tuple[MarkovChain, MarkovChain],
    adversary: MarkovChain,
    count: int,
) -> float:
    length, size = given.shape
    own = min(count, length)
    work = (own - 1) * (length * size) ** 2 // 2
    if work > MOST_WORK:
        raise NotApplicable(
            f"closeness: {own} entries of {length} need {work:.1e} sums (at most {MOST_WORK:.0e}); "
            "take shorter segments, or hide entries in a row by Secrets.runs"
        )
    stretches = np.array(list(_stretches(moves, pair, adversary, length if own > 1 else 1)))
    best = given
    for _ in range(own - 1):
        longer = np.full_like(best, -_NEVER)
        for j in range(1, length):
            sums = best[:j, :, None] + stretches[j - 1 :: -1]
            longer[j] = sums.max(axis=(0, 1))
        best = longer
    largest: float = (best + backward).max()
    return largest


def _stretches(
    moves: Floats, pair: tuple[MarkovChain, MarkovChain], adversary: MarkovChain, length: int
) -> Iterator[Floats]:
    """For 1, 2, ... steps: the divergence of what lies between two entries, given both."""
    possible = adversary.transition > 0
    between = moves
    joined: Any = possible
    powers = [chain.transition for chain in pair]
    for step in range(1, length):
        if step > 1:
            between = (between[:, :, None] + moves[None]).max(axis=1)
            joined = (joined[:, :, None] & possible[None]).any(axis=1)
            powers = [p @ c.transition for p, c in zip(powers, pair, strict=True)]
        if any((power[joined] <= 0).any() for power in powers):
            raise NotApplicable(
                "closeness: some moves of several steps are too rare for a float; merge or drop "
                "rare states, or hide entries in a row by Secrets.runs"
            )
        one, other = (np.log(np.where(joined, power, 1.0)) for power in powers)
        yield np.where(joined, between - one + other, -_NEVER)


def _events(
    forward: Floats,
    backward: Floats,
    moves: Floats,
    pair: tuple[MarkovChain, MarkovChain],
    logs: tuple[Floats, Floats],
    automaton: Automaton,
) -> float:
    window = len(automaton.moves)
    starts = len(forward) - window + 1
    paths = _through(moves, automaton, np.maximum)
    sums = [_through(_logs(chain.transition), automaton, np.logaddexp) for chain in pair]
    largest = -inf
    for label in range(len(automaton.labels)):
        ahead = (paths[label][None] + backward[window - 1 :, None, :]).max(axis=2)
        best = (forward[:starts] + ahead).max(axis=1)
        first, second = (
            np.logaddexp.reduce(own[:starts] + np.logaddexp.reduce(table[label], axis=1), axis=1)
            for own, table in zip(logs, sums, strict=True)
        )
        # What both think possible; what only one does is infinite by another way (chain_delta).
        compared = (first > -_UNSEEN) & (second > -_UNSEEN)
        given = best[compared] - first[compared] + second[compared]
        largest = max(largest, float(given.max(initial=-inf)))
    return largest


def _through(steps: Floats, automaton: Automaton, gather: np.ufunc) -> Floats:
    """For each label, first value and last value: all windows between them, gathered."""
    size = len(steps)
    values = np.arange(size)
    table = np.full((size, int(automaton.moves[0].max()) + 1, size), -_NEVER)
    table[values, automaton.moves[0][0], values] = 0.0
    for ahead in automaton.moves[1:]:
        longer = np.full((size, int(ahead.max()) + 1, size), -_NEVER)
        for state in range(table.shape[1]):
            step = gather.reduce(table[:, state, :, None] + steps[None], axis=1)
            place = (slice(None), ahead[state], values)
            longer[place] = gather(longer[place], step)
        table = longer
    result = np.full((len(automaton.labels), size, size), -_NEVER)
    for state in range(table.shape[1]):
        label = automaton.ends[state]
        result[label] = gather(result[label], table[:, state])
    return result


def _passes(moves: Floats, start: Floats, length: int) -> tuple[Floats, Floats]:
    """Largest log-ratios up to each entry and value, and after it."""
    forward, backward = np.empty((length, len(start))), np.zeros((length, len(start)))
    forward[0] = start
    for i in range(1, length):
        forward[i] = (forward[i - 1][:, None] + moves).max(axis=0)
    for i in range(length - 2, -1, -1):
        backward[i] = (moves + backward[i + 1]).max(axis=1)
    return forward, backward


def _reached(possible: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """Which values follow which after so many possible moves."""
    reached: Any = np.eye(len(possible), dtype=bool)
    power: Any = possible
    while steps:
        if steps & 1:
            reached = (reached[:, :, None] & power[None]).any(axis=1)
        power = (power[:, :, None] & power[None]).any(axis=1)
        steps >>= 1
    return np.asarray(reached)


def _log_ratio(above: Floats, below: Floats) -> Floats:
    """The log of above / below. A step impossible above outweighs any number of steps below."""
    possible = np.log(np.where(above > 0, above, 1.0)) - np.log(np.where(below > 0, below, 1.0))
    ratio: Floats = np.where(above > 0, np.where(below > 0, possible, _UNSEEN), -_NEVER)
    return ratio


def _logs(values: Floats) -> Floats:
    logs: Floats = np.where(values > 0, np.log(np.where(values > 0, values, 1.0)), -_NEVER)
    return logs


def _marginals(chain: MarkovChain, length: int) -> Floats:
    distributions = np.empty((length, len(chain)))
    distributions[0] = chain.initial
    for i in range(1, length):
        distributions[i] = distributions[i - 1] @ chain.transition
    return distributions
