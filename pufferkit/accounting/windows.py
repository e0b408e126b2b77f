"""Releases over disjoint windows of one chain, when only their epsilons are known.

Given X_i, the releases to its left and to its right are independent, and X_i affects a window only
through the window's nearest entry. So for every entry of the series, used by a release or not:

- *outside a window*, P(output | X_j = x) is a mean of P(output | X_n = u) over the values u of the
  nearest entry X_n of the window: X_j loses no more than the largest loss between two values of
  X_n, and no more than the max-influence of X_j on X_n;
- *before the first and after the last window*, an entry affects all outputs only through the end
  entry of that window, which loses at least as much;
- *between two windows*, X_j loses to both: the sum of the two sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.quilts.chains import MixingInfluence
from pufferkit.mechanisms.markov_quilt import influence_between
from pufferkit.records import ByDigest

if TYPE_CHECKING:
    from pufferkit.accounting.spending import Spending

QUILTS = frozenset({"markov_quilt", "markov_quilt_approx"})
PRIVATE = QUILTS | {"influence_curve", "gk16", "group_dp", "wasserstein", "exact_sum"}
"""Mechanisms that promise Pufferfish privacy for every entry they use."""

_ONE_BY_ONE = 8
"""Gaps of up to this many entries are examined entry by entry, longer ones in stretches."""


def parallel(history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]) -> float:
    """[C] Theorem 3.1, for any number of disjoint windows and every entry of the series.

    *Secrets*: any two values of any entry, in a window, between windows or outside all of them (the
    theorem in the paper speaks of entries in the windows). *Beliefs*: chains that hold from any
    time on (stationary, or any start), one segment. *Releases*: any mechanisms that are Pufferfish
    private for the entries they use; nothing else about them is known.

    In window j, what lies to the right is reached only through its last entry and adds at most

        right_j = min( e(first entry of window j+1 | last entry of window j),
                       epsilon_{j+1} + right_{j+1} ),

    likewise left_j, and an entry of the window loses at most epsilon_j + left_j + right_j. With two
    windows epsilon_A goes with e(X_T3 | X_T2); the statement printed in the paper pairs them the
    other way round, and its bound can be too small.

    An entry X_i between windows j and j+1 loses to both, at most

        min( epsilon_j + left_j, e(last entry of j | X_i) )
        + min( epsilon_{j+1} + right_{j+1}, e(first entry of j+1 | X_i) )

    and at most e(both of these entries | X_i). Before the first window and after the last one no
    entry loses more than the nearest entry of that window. The result is the largest of all these.
    """
    theta, sizes = as_chain_class(beliefs), checks.segment_lengths(lengths)
    ordered = _disjoint(history, sizes)
    _entries_are_a_chain(theta)
    all_by(history, PRIVATE, "Pufferfish private releases")
    count = len(ordered)
    right, left = [0.0] * count, [0.0] * count
    for j in range(count - 2, -1, -1):
        last, first = ordered[j].window[1], ordered[j + 1].window[0]
        seen = _influence(theta, last, right=first - last)
        right[j] = min(seen, ordered[j + 1].epsilon + right[j + 1])
    for j in range(1, count):
        last, first = ordered[j - 1].window[1], ordered[j].window[0]
        seen = _influence(theta, first, left=first - last)
        left[j] = min(seen, ordered[j - 1].epsilon + left[j - 1])
    worst = max(s.epsilon + left[j] + right[j] for j, s in enumerate(ordered))
    for j, (one, other) in enumerate(pairwise(ordered)):
        ends = one.window[1], other.window[0]
        sides = one.epsilon + left[j], other.epsilon + right[j + 1]
        worst = max(worst, _between(theta, ends, sides, worst))
    return worst


def _between(
    theta: ChainClass, ends: tuple[int, int], sides: tuple[float, float], enough: float
) -> float:
    """The largest loss of an entry between two windows; not exact if it is at most ``enough``.

    Influence never grows with the distance (data processing) nor, for shift-invariant beliefs, with
    the place in the series. So a stretch of entries loses no more than a hypothetical entry that is
    as near to the first window as its first entry and as near to the second as its last.
    """
    last, first = ends
    worst = 0.0
    if sum(sides) <= enough:
        return worst
    for near, far in _stretches(first - last - 1):
        node, left, right = last + near, near, first - last - far
        apart = min(sides[0], _influence(theta, node, left=left)) + min(
            sides[1], _influence(theta, node, right=right)
        )
        if apart > max(worst, enough):
            worst = max(worst, min(apart, _influence(theta, node, left, right)))
    return worst


def _stretches(count: int) -> Iterator[tuple[int, int]]:
    """Distances 1 to ``count`` in stretches whose lengths double from both ends to the middle."""
    if count <= _ONE_BY_ONE:
        yield from ((n, n) for n in range(1, count + 1))
        return
    half = count // 2
    for size, mirrored in ((half, False), (count - half, True)):
        near = 1
        while near <= size:
            far = min(2 * near - 1, size)
            yield (count + 1 - far, count + 1 - near) if mirrored else (near, far)
            near = far + 1


def far_apart(history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]) -> float:
    """[C] Theorem 3.3: two distant windows by markov_quilt_approx cost the larger epsilon.

    *Secrets*: any two values of any entry of the series (in the paper: of the windows). *Beliefs*:
    chains that mix and hold from any time on, one segment. *Releases*: two, by
    `markov_quilt_approx` with either bound, over windows A = [T1, T2] and B = [T3, T4].

    For every chain of the class some entry of A must have an active quilt with both endpoints, at
    distances a and b, and some entry of B one at a' and b'; the gap T3 - T2 must be at least as
    long as either window (last minus first entry), and at least b + a' - 1. Then epsilon_A and
    epsilon_B are enough, because the bounds on influence depend on distances only, so every entry
    X_i may borrow these quilts. With s the event-level epsilon of A, (a + b - 1) s + e(a, b) <=
    epsilon_A.

    - X_i in A: {X_{i-a}, X_{i+b}} has at most a + b - 1 entries of A nearby and none of B, since i
      + b <= T3. Where the series has no X_{i-a}, the right endpoint alone does. Likewise in B.
    - X_i between them: the quilt of A if i + b <= T3 (nearby at most a - 1 entries of A, none of
      B), else that of B, whose left endpoint i - a' is then at least T2.
    - X_i outside: its effect passes through X_T1 or X_T4.
    """
    theta, sizes = as_chain_class(beliefs), checks.segment_lengths(lengths)
    if len(history) != 2:
        raise NoTheorem("[C] 3.3 is about two releases")
    all_by(history, {"markov_quilt_approx"}, "markov_quilt_approx releases")
    if any(s.gaps is not None for s in history):
        raise NoTheorem("[C] 3.3 uses the same quilts at all entries, and some were not observed")
    both = _disjoint(history, sizes)
    _entries_are_a_chain(theta)
    gap = both[1].window[0] - both[0].window[1]
    longer = max(s.window[1] - s.window[0] for s in both)
    if gap < longer:
        raise NoTheorem(f"[C] 3.3 needs a gap of at least {longer} entries, there are {gap}")
    try:
        chains = theta.mixing_bounds()
    except NotApplicable as reason:
        raise NoTheorem(f"[C] 3.3 is about chains that mix: {reason}") from None
    for mixing in chains:
        # The tighter bound has smaller quilts and scores, so they are active for both bounds.
        influence = MixingInfluence.tight(mixing)
        quilts = []
        for spending in both:
            first, last = spending.window
            quilts.append(influence.hardest(last - first + 1, spending.epsilon)[1])
            if not (quilts[-1].ends_left and quilts[-1].ends_right):
                raise NoTheorem(
                    "[C] 3.3 needs an active quilt with two endpoints in each window; the window "
                    f"{first} to {last} is too short for that"
                )
        reach = quilts[0].keep_right + quilts[1].keep_left - 1
        if gap < reach:
            raise NoTheorem(
                f"entries between the windows need a gap of at least {reach} entries, "
                f"there are {gap}"
            )
    return max(s.epsilon for s in both)


def all_by(history: Sequence[Spending], mechanisms: frozenset[str] | set[str], what: str) -> None:
    """Refuse a history with other mechanisms than these."""
    others = sorted({s.mechanism for s in history} - mechanisms)
    if others:
        raise NoTheorem(f"it is about {what}; the history has {', '.join(others)}")


def check_start(window: tuple[int, int], theta: Beliefs, sizes: Sequence[int]) -> None:
    """Refuse a window that starts within a segment under a fixed initial distribution."""
    start = 1
    for size in sizes:
        if window[0] == start:
            return
        start += size
    shift_invariant(theta)


def entries_separate(window: tuple[int, int], theta: Beliefs, sizes: Sequence[int]) -> None:
    """Refuse a window within a segment if entries do not separate what lies on either side.

    A release promises to hide the entries it uses. Another entry of the segment affects the output
    only through the nearest of them only if the entries themselves form a Markov chain. Where they
    depend on hidden states, two entries together may reveal more about the hidden state than each
    alone; and a secret about several entries may extend across the end of a window.
    """
    if not theta.hides_states:
        return
    start = 1
    for size in sizes:
        end = start + size - 1
        if window[0] <= end and start <= window[1] and not (window[0] <= start <= end <= window[1]):
            raise NoTheorem(
                f"entries outside the window {window[0]} to {window[1]} may affect the output "
                "directly, not through its entries: the beliefs have hidden states, or secrets "
                "that extend over the ends of the window"
            )
        start = end + 1


def shift_invariant(theta: Beliefs) -> None:
    """Raise unless every window is itself a chain of the class: no fixed initial distribution."""
    fixed = theta.fixed_start
    if fixed is not None:
        raise NoTheorem(
            f"windows need beliefs that hold from any time on; {fixed} has a fixed "
            "initial distribution; use ChainClass.any_start, MarkovChain.steady, or a clock with "
            "any first slot"
        )


def _entries_are_a_chain(theta: ChainClass) -> None:
    shift_invariant(theta)
    if theta.hides_states:
        raise NoTheorem(
            "it is about single entries of Markov chains; these beliefs have hidden states or "
            "secrets about several entries"
        )


def _disjoint(history: Sequence[Spending], sizes: tuple[int, ...]) -> list[Spending]:
    if len(history) < 2:
        raise NoTheorem("there is only one release")
    if len(sizes) > 1:
        raise NoTheorem("it is about windows of one chain; the series has several segments")
    ordered = sorted(history, key=lambda s: s.window)
    for one, other in pairwise(ordered):
        if other.window[0] <= one.window[1]:
            raise NoTheorem("it needs disjoint windows, and some overlap")
    return ordered


def _influence(
    theta: ChainClass, node: int, left: int | None = None, right: int | None = None
) -> float:
    return _influence_of(ByDigest(theta), node, left, right)


@lru_cache(maxsize=4096)
def _influence_of(
    known: ByDigest[ChainClass], node: int, left: int | None, right: int | None
) -> float:
    try:
        return influence_between(known.itself, node, left, right)
    except NotApplicable as reason:
        raise NoTheorem(f"the influence of entries on one another is not known: {reason}") from None
