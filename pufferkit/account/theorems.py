"""What releases about the same series cost together: theorems and their conditions.

**Windows of one chain**, when only their epsilons are known: given X_i, the releases to its left
and to its right are independent, and X_i affects a window only through the window's nearest entry.
So for every entry of the series, used by a release or not:

- *outside a window*, P(output | X_j = x) is a mean of P(output | X_n = u) over the values u of the
  nearest entry X_n of the window: X_j loses no more than the largest loss between two values of
  X_n, and no more than the max-influence of X_j on X_n;
- *before the first and after the last window*, an entry affects all outputs only through the end
  entry of that window, which loses at least as much;
- *between two windows*, X_j loses to both: the sum of the two sides.

**The rules.** Pufferfish privacy does not compose in general. Every rule below is a theorem,
applied only where its conditions have been checked; the tightest applicable rule is used and named.
Each rule holds for *every* entry of the series, used or not. Its docstring states which beliefs and
releases it covers, and why.

===================  ==========================================================================
``single``           one release
``entry_profile``    event-level epsilons add up per entry; loss of that profile (influence curve)
``quilt_sum``        [C] 3.7: Markov quilt releases over the same entries add up
``quilt_max``        [Q] 4.4: K times the largest epsilon, same quilt sets
``parallel``         [C] 3.1 with the pairing of its proof: disjoint windows and entries between
``far_apart``        [C] 3.3: two distant windows released with markov_quilt_approx
``dependence``       [C] 3.6: two releases whose outputs depend on each other by at most E
``group_sum``        group DP releases add up
===================  ==========================================================================

``parallel`` and ``far_apart`` are about windows of a chain. The other rules also hold for networks
and joint distributions, where a release uses every entry.

All bounds hold output by output, so later releases may be chosen after looking at earlier ones.

**E of [C] 3.6**: how far two noisy sums over the same entries depend on each other, given one
entry. Given X_i = x, sums A and B over all entries get independent Laplace noise. With m(a, b) the
probability of the sums, the outputs have the density, up to constants that cancel below,

    J(o, q) = sum over a, b of m(a, b) e^{-|o - a| / s} e^{-|q - b| / t},

J_A(o) and J_B(q) likewise with one noise. We bound the largest |log J(o, q) / (J_A(o) J_B(q))|.

**Where it is.** Fix q, and let o move between two neighbouring values of A. There both J and J_A
are c u + d / u with u = e^{o / s} and c, d >= 0, so J / J_A = (c u^2 + d) / (c' u^2 + d') is
monotone in u: at one end of the interval it is at least as large, at the other at least as small.
Beyond the least and the largest value it is constant. Then the same with q, o being a value of A.
So the largest and the least ratio over all outputs are at pairs of values of the sums. Outputs of
discrete noise are some of these outputs with the same J. More noise is less: noise of a larger
scale s' is noise of scale s and, with probability 1 - (s / s')^2, noise of scale s' on top of it
(likewise for discrete noise), so that J and J_A J_B become means with the same weights.

**How it is computed.** m by a forward recursion, one entry after another; where B is a multiple of
A up to a constant (two states always are so) along a line. Sums with a kernel e^{-|o - a| / s} by
one pass up and one down. Only non-negative numbers are added and multiplied, so relative errors add
up (`_rounding`); numbers so small that underflow may matter are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from itertools import accumulate, pairwise
from math import log
from typing import Any

import numpy as np

from pufferkit import checks, noise
from pufferkit.account.amounts import in_epsilon, spent_micro
from pufferkit.account.spending import QUILTS, Spending, profile_of
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.finite_class import FiniteClass
from pufferkit.beliefs.finite_joint import FiniteJoint, JointClass
from pufferkit.checks import Bools, Floats, Ints
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.quilts.chains import MixingInfluence, hardest
from pufferkit.mechanisms.calibration import ALONE, GAPS, Calibration
from pufferkit.mechanisms.markov_quilt import influence_between
from pufferkit.mechanisms.release import Guarantee
from pufferkit.mechanisms.wasserstein import values_of
from pufferkit.records import ByDigest
from pufferkit.rounding import EPS, round_up
from pufferkit.shown import Shown

# -- windows -------------------------------------------------------------------------------------


PRIVATE = QUILTS | ALONE | {"influence_curve", "gk16", "group_dp"}
"""Mechanisms that promise Pufferfish privacy for every entry they use."""

_ONE_BY_ONE = 8
"""Gaps of up to this many entries are examined entry by entry, longer ones in stretches."""


def parallel(history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]) -> float:
    """Disjoint windows: each entry loses what its own window and the others tell of it.

    Theorem: [C] Theorem 3.1, for any number of disjoint windows and every entry of the series.

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
    """Two distant windows by markov_quilt_approx cost the larger epsilon.

    Theorem: [C] Theorem 3.3, for every entry of the series.

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
            quilts.append(hardest(last - first + 1, spending.epsilon)(influence, 0.0, None).quilt)
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


def check_part(
    theta: Beliefs, mechanism: str, window: tuple[int, int], sizes: Sequence[int]
) -> None:
    """Refuse noise that is made for a part of a series as if it were all of it.

    The part must be a series of the class itself, and entries outside it must lose no more than
    those in it.
    """
    if mechanism not in ANY_START:
        check_start(window, theta, sizes)
        entries_separate(window, theta, sizes)


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


# -- composition ---------------------------------------------------------------------------------


Rule = Callable[[], float | int]

ANY_START = frozenset({"group_dp", "entry_dp"})
"""Mechanisms that need no beliefs, so that a window may start anywhere."""


@dataclass(frozen=True)
class Considered:
    """One rule: the epsilon it gives, or why it does not apply."""

    rule: str
    micro: int | None
    why: str


@dataclass(frozen=True, repr=False)
class Composition(Shown):
    """The joint guarantee by the tightest rule, with the outcome of every other rule."""

    micro: int
    rule: str
    considered: tuple[Considered, ...]

    @property
    def epsilon(self) -> float:
        """Pufferfish epsilon for everything in the history, rounded up to a millionth."""
        return in_epsilon(self.micro)

    def caption(self) -> str:
        """Epsilon, and the rule that gives it."""
        return f"epsilon {self.epsilon:g} by {self.rule}"

    def text_table(self) -> str:
        """What each rule gives, and why."""
        lines = []
        for row in self.considered:
            value = "-" if row.micro is None else f"{in_epsilon(row.micro):g}"
            lines.append(f"  {row.rule:<14} {value:>10}  {row.why}")
        return "\n".join(lines)


def compose(
    history: Sequence[Spending],
    beliefs: Any,
    lengths: int | Sequence[int],
    *,
    dependence: float | None = None,
) -> Composition:
    """The joint Pufferfish guarantee of several releases about one series.

    Parameters
    ----------
    history
        The releases.
    beliefs
        The class Theta for the whole series: chains, networks or joint distributions. A release
        that was calibrated for other beliefs is charged by its event-level epsilon.
    lengths
        Length of the series, or lengths of its independent segments in the order of the entries;
        for networks and joint distributions the number of entries.
    dependence
        E of [C] Theorem 3.6, if you know it: a bound, both ways, on the max-divergence between the
        joint distribution of two outputs and the product of their distributions, given any value of
        any entry of the series, whether or not a release used it. `dependence` computes it for two
        sums over the whole series.

    Raises
    ------
    NoTheorem
        If no rule applies; the message says why for each.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(week, pk.count(1, 50), 0.5)
    >>> history = [Spending.of(noise, window=(1, 50)), Spending.of(noise, window=(51, 100))]
    >>> both = compose(history, week, 100)
    >>> both.epsilon, both.rule
    (0.5, 'entry_profile')
    """
    theta, sizes = as_beliefs(beliefs), checks.segment_lengths(lengths)
    if not history:
        return Composition(0, "nothing released", ())
    for spending in history:
        if spending.window[1] > sum(sizes):
            raise ValueError(
                f"window: {spending.window[0]} to {spending.window[1]} goes beyond the series of "
                f"{sum(sizes)} entries"
            )
    if theta.entries is not None:
        _whole_record(history, theta.entries, sizes)
    rules = rules_for(history, theta, sizes, dependence)
    if theta.entries is None and any(_other_segments(spending, sizes) for spending in history):
        # The promise is about other segments; only costs say what is lost here.
        rules = {"entry_profile": rules["entry_profile"]}
    if any(spending.beliefs not in (None, theta.digest) for spending in history):
        # The promise is made under other beliefs. Costs hold under any, and so does group DP for
        # parts that are no larger, which its rule checks.
        rules = {name: rules[name] for name in rules if name in ("entry_profile", "group_sum")}
    return _tightest(rules)


def _other_segments(spending: Spending, sizes: tuple[int, ...]) -> bool:
    """Whether the promise of a release does not cover the segments of the series in its window.

    Shorter segments than the noise was calibrated for lose no more. Noise that follows the
    distribution of a sum is the exception: a shorter sum may need more of it.
    """
    if spending.made_for is None:
        return False
    first, last = spending.window
    ends = list(accumulate(sizes))
    parts = [
        min(last, end) - max(first, end - size + 1) + 1
        for size, end in zip(sizes, ends, strict=True)
    ]
    inside = sorted(part for part in parts if part > 0)
    if spending.mechanism in ALONE:
        return inside != list(spending.made_for)
    return inside[-1] > spending.made_for[-1]


def _tightest(rules: Mapping[str, Rule]) -> Composition:
    """The rule with the smallest epsilon, with the outcome of every other rule."""
    considered = []
    for name, rule in rules.items():
        try:
            charge = rule()
        except NoTheorem as reason:
            considered.append(Considered(name, None, str(reason)))
        else:
            micro = charge if isinstance(charge, int) else spent_micro(charge)
            considered.append(Considered(name, micro, ""))
    usable = [row for row in considered if row.micro is not None]
    if not usable:
        reasons = "; ".join(f"{row.rule}: {row.why}" for row in considered)
        raise NoTheorem(f"no theorem covers this combination of releases ({reasons})")
    best = min(usable, key=lambda row: row.micro or 0)
    return Composition(best.micro or 0, best.rule, tuple(considered))


def rules_for(
    history: Sequence[Spending],
    theta: Beliefs,
    sizes: tuple[int, ...],
    dependence: float | None = None,
) -> dict[str, Rule]:
    """The rules by name, ready to be called; one that does not apply raises ``NoTheorem``."""

    def anchored(charge: float) -> float:
        # A calibration holds for a series with the initial distribution of the beliefs.
        for spending in history:
            if spending.mechanism not in ANY_START:
                check_start(spending.window, theta, sizes)
                entries_separate(spending.window, theta, sizes)
        return charge

    def by_dependence() -> float:
        if theta.names_secrets and dependence is not None:
            raise NoTheorem(
                "E of [C] 3.6 conditions on the value of one entry, and these secrets differ"
            )
        return anchored(bounded_dependence(history, dependence))

    rules: dict[str, Rule] = {
        "single": lambda: anchored(single(history)),
        "entry_profile": lambda: entry_profile(history, theta, sizes),
        "quilt_max": lambda: anchored(quilt_max(history)),
        "group_sum": lambda: group_sum(history, theta),
        "dependence": by_dependence,
        "quilt_sum": lambda: anchored(quilt_sum(history)),
    }
    if theta.entries is None:
        rules["parallel"] = lambda: parallel(history, theta, sizes)
        rules["far_apart"] = lambda: far_apart(history, theta, sizes)
    return rules


def single(history: Sequence[Spending]) -> float:
    """One release costs what it promises.

    *Secrets*: any two values of any entry. *Beliefs*: any; for a window that starts within a
    segment, chains that hold from any time on, so that the window is a series of the class.
    *Releases*: one, by a mechanism that is Pufferfish private for every entry it uses.

    An entry X_j that was not used affects the output only through the nearest entry X_n of the
    window in its segment: P(output | X_j = x) is a mean of P(output | X_n = u) over values u, and
    the log-ratio of two such means is at most that of two values of X_n. This fails where entries
    depend on hidden states; the window must then consist of whole segments.
    """
    if len(history) != 1:
        raise NoTheorem("there are several releases")
    all_by(history, PRIVATE, "Pufferfish private releases")
    return history[0].epsilon


def entry_profile(history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]) -> float:
    """Loss of the whole history on the influence curve.

    *Secrets*: any two values of any entry. *Beliefs*: any chains, with any start; networks and
    joint distributions, where all entries are used. *Releases*: any with a per-entry bound.

    Event-level epsilons add up where windows overlap and do not where they are disjoint, so the
    joint release has event-level epsilon b_t at entry t, with b_t = 0 at entries that no release
    used or that were not observed. For each pair of states, every release has its own distances,
    and b_t d_t is their sum. The theorem of the influence curve gives the loss of every entry of
    each
    segment under that profile.
    """
    theta, sizes = as_beliefs(beliefs), checks.segment_lengths(lengths)
    return profile_of(history, theta).loss(theta, sizes)


def _whole_record(
    history: Sequence[Spending], names: tuple[Hashable, ...], sizes: tuple[int, ...]
) -> None:
    entries = len(names)
    if sizes != (entries,):
        raise ValueError(f"lengths: the beliefs have {entries} entries, got {list(sizes)}")
    for spending in history:
        if spending.window != (1, entries):
            raise NoTheorem(
                "releases about networks and joint distributions use all entries, not a window"
            )


def quilt_sum(history: Sequence[Spending]) -> int:
    """The epsilons of Markov quilt releases over the same entries add up.

    Theorem: [C] Theorem 3.7, for chains and networks and entries that were not observed.

    *Secrets*: any two values of any entry. *Beliefs*: any class of chains, each with quilts of its
    own, or of networks. *Releases*: by `markov_quilt` or `markov_quilt_approx`, with any bound on
    the influence, all over the same entries.

    Fix an entry of the window and a belief. Release k spends b_k on an entry and has a quilt with
    n_k nearby entries and influence e_k such that n_k b_k + e_k <= epsilon_k. Let * be the release
    with the least n. Its quilt serves all: the joint loss is at most

        sum_k n_* b_k + e_*  <=  sum over k != * of n_k b_k + n_* b_* + e_*  <=  sum_k epsilon_k.

    A shorter segment of the window has the same quilts, cut at its end. Entries that were not used
    affect the output only through the nearest used one, as for `single`. With gaps, n counts
    observed entries, which are the same in all releases.
    """
    all_by(history, QUILTS, "Markov quilt releases")
    if len({(s.window, s.gaps) for s in history}) > 1:
        raise NoTheorem("[C] 3.7 needs releases over the same entries")
    return sum(spent_micro(s.epsilon) for s in history)


def quilt_max(history: Sequence[Spending]) -> int:
    """K times the largest epsilon. Never smaller than `quilt_sum`.

    Theorem: [Q] Theorem 4.4.

    *Secrets, beliefs*: as for `quilt_sum`. *Releases*: by `markov_quilt`, all over the same entries
    and searching the same quilts. The quilt that is best at the largest epsilon has n b_k + e <=
    epsilon for every k, because noise never shrinks with epsilon; so K n b_k + e is at most K
    epsilon.
    """
    all_by(history, {"markov_quilt"}, "markov_quilt releases")
    if len({(s.window, s.gaps) for s in history}) > 1:
        raise NoTheorem("[Q] 4.4 needs releases over the same entries")
    if len({s.quilt_sets for s in history}) > 1:
        raise NoTheorem("[Q] 4.4 needs the same quilt sets in all releases")
    return len(history) * max(spent_micro(s.epsilon) for s in history)


def group_sum(history: Sequence[Spending], theta: Beliefs | None = None) -> int:
    """Group DP releases add up.

    *Secrets*: any two values of any entry. *Beliefs*: any under which segments, or the parts of a
    graph, are independent; no part may be larger than the parts each release was made for.
    *Releases*: by `group_dp`, over any windows. Each is differentially private for all entries of a
    segment at once, so the log-likelihood of all outputs changes by at most the sum when a whole
    segment changes, and the value of one entry carries no information about other segments.
    """
    all_by(history, {"group_dp"}, "group DP releases")
    most = None if theta is None else theta.largest_part
    for s in history:
        if most is not None and (s.entry_epsilon or 0.0) * most > s.epsilon * (1 + 1e-9):
            raise NoTheorem(f"a group DP release was made for parts smaller than {most} entries")
    return sum(spent_micro(s.epsilon) for s in history)


def bounded_dependence(history: Sequence[Spending], dependence: float | None) -> float:
    """Two releases that depend on one another by at most E: epsilon_A + epsilon_B + 2 E.

    Theorem: [C] Theorem 3.6.

    *Secrets*: any two values of any entry. *Beliefs*: as for `single`. *Releases*: any two that are
    Pufferfish private, with E as in `compose`: given any value of *any* entry of the series, used
    or not, and any belief. For both values of a secret the joint density is within a factor e^E of
    the product, and each log-density of the product changes by at most its own epsilon; for entries
    that were not used, as for `single`.
    """
    if dependence is None:
        raise NoTheorem(
            "[C] 3.6 needs the bound E, which was not given; dependence(first, second) computes it "
            "for two sums over the whole series"
        )
    bound = checks.real("dependence", dependence)
    if bound < 0:
        raise ValueError(f"dependence: E must be at least 0, got {bound:g}")
    if len(history) != 2:
        raise NoTheorem("[C] 3.6 is about two releases")
    all_by(history, PRIVATE, "Pufferfish private releases")
    return history[0].epsilon + history[1].epsilon + 2 * bound


# -- joint sums ----------------------------------------------------------------------------------


MOST_WORK = 6e10
"""Most nanoseconds: about a minute."""

MOST_NUMBERS = 2.5e8
"""Most floats in memory at once."""

_LEAST = 1e-240
_RAREST = 1e-30
_EACH_STEP = 3e4


@dataclass(frozen=True, eq=False)
class Axis:
    """One noisy sum: the whole non-negative value of each state, and scales per unit of them."""

    values: Ints
    gap: float

    def decay(self, entries: int) -> Floats:
        """The factor by which the density falls from each value of the sum to the next."""
        return np.full(entries * int(self.values.max()), np.exp(-self.gap))


def chain_dependence(
    initial: Floats, transition: Floats, lengths: Sequence[int], first: Axis, second: Axis
) -> float:
    """The largest |log J / (J_A J_B)| over entries of independent segments, their values, outputs.

    It holds for the sums over all segments; never less than the truth.
    """
    size, entries = len(initial), sum(lengths)
    steps = np.stack([first.values, second.values], axis=1)
    turned = [bool((first.values == other).all()) for other in (second.values, _turn(second))]
    if any(turned):
        steps[:, 1] = 0
    _check_work(lengths, size, first, second, line=any(turned))
    decays = first.decay(entries), second.decay(entries)
    largest = 0.0
    for length in sorted(set(lengths)):
        rest = list(lengths)
        rest.remove(length)
        kernels = _kernels(initial, transition, [length, *rest])
        before, possible = _placed(initial, steps), initial > 0
        for entry in range(1, length + 1):
            given = _given(before[:, 0], possible)
            for kernel in kernels[entry - 1 :]:
                given = _moved(given, kernel, steps)
            masses = given.sum(axis=0)
            if any(turned):
                masses = _on_line(masses[:, :, 0], rising=turned[0])
            largest = max(largest, largest_log_ratio(masses, *decays))
            if entry < length:
                before = _moved(before, kernels[entry - 1], steps)
                possible = np.asarray((kernels[entry - 1][possible] > 0).any(axis=0))
    return largest + _rounding(entries * (size + 3), decays)


def listed_dependence(
    places: tuple[Ints, Ints], weights: Floats, secrets: Sequence[Bools], decays: Sequence[Floats]
) -> float:
    """The same for data listed one by one: their indices on both axes, weights, and the secrets."""
    shape = len(decays[0]) + 1, len(decays[1]) + 1
    largest = 0.0
    for chosen in secrets:
        mass = np.zeros((1, *shape))
        whole = weights[chosen].sum()
        _check_rare(whole)
        np.add.at(mass[0], (places[0][chosen], places[1][chosen]), weights[chosen] / whole)
        largest = max(largest, largest_log_ratio(mass, *decays))
    return largest + _rounding(len(weights), decays)


def largest_log_ratio(masses: Floats, *decays: Floats) -> float:
    """The largest |log J / (J_A J_B)| of several tables m(a, b), without the rounding."""
    along = np.moveaxis(masses, 0, -1)
    whole = along.sum(axis=(0, 1))
    alone = [_smoothed(along.sum(axis=1 - n), decay) for n, decay in enumerate(decays)]
    joint = _smoothed(along, decays[0]).swapaxes(0, 1)
    joint = _smoothed(joint, decays[1]).swapaxes(0, 1)
    if joint.min() < _LEAST:
        raise NotApplicable(
            "the likelihood of some outputs underflows: the scale of the noise is small against "
            "the range of the sums; use a shorter series or a smaller epsilon"
        )
    ratio = joint / alone[0][:, None] / alone[1][None] * whole
    return max(log(ratio.max()), -log(ratio.min()), 0.0)


def _smoothed(mass: Floats, decay: Floats) -> Floats:
    """Sums along the first axis with weights e^{-distance / scale}."""
    up = mass.copy()
    for n, factor in enumerate(decay):
        up[n + 1] += factor * up[n]
    down = np.zeros_like(mass[0])
    for n in range(len(decay) - 1, -1, -1):
        down = decay[n] * (down + mass[n + 1])
        up[n] += down
    return up


def _placed(mass: Floats, steps: Ints) -> Floats:
    """The first entry: mass[y] at the value of state y; axes y, secret (one) and both sums."""
    placed = np.zeros((len(mass), 1, *(steps.max(axis=0) + 1)))
    for y, (u, v) in enumerate(steps):
        placed[y, 0, u, v] = mass[y]
    return placed


def _moved(mass: Floats, kernel: Floats, steps: Ints) -> Floats:
    """One entry further, its value added to both sums."""
    mixed = (kernel.T @ mass.reshape(len(kernel), -1)).reshape(mass.shape)
    cases, a, b = mass.shape[1:]
    moved = np.zeros((len(kernel), cases, *(steps.max(axis=0) + np.array([a, b]))))
    for y, (u, v) in enumerate(steps):
        moved[y, :, u : u + a, v : v + b] = mixed[y]
    return moved


def _given(before: Floats, possible: Bools) -> Floats:
    """The sums so far given each possible value of the entry that was added last."""
    values = np.flatnonzero(possible)
    given = np.zeros((len(before), len(values), *before.shape[1:]))
    for n, x in enumerate(values):
        whole = before[x].sum()
        _check_rare(whole)
        given[x, n] = before[x] / whole
    return given


def _check_rare(whole: float) -> None:
    if whole < _RAREST:
        raise NotApplicable(
            f"some value of an entry has a probability below {_RAREST:g}, which may underflow; "
            "drop or merge such states"
        )


def _kernels(initial: Floats, transition: Floats, lengths: Sequence[int]) -> list[Floats]:
    """From each entry to the next; a new segment starts anew."""
    anew = np.tile(initial, (len(initial), 1))
    kernels: list[Floats] = []
    for length in lengths:
        kernels += [transition] * (length - 1) + [anew]
    return kernels[:-1]


def _turn(axis: Axis) -> Ints:
    turned: Ints = axis.values.max() - axis.values
    return turned


def _on_line(masses: Floats, *, rising: bool) -> Floats:
    """Tables with these masses on the diagonal, or on the other one."""
    room = masses.shape[1]
    tables = np.zeros((len(masses), room, room))
    places = np.arange(room)
    tables[:, places, places if rising else places[::-1]] = masses
    return tables


def _rounding(products: int, decays: Sequence[Floats]) -> float:
    """Bound on the error of log J / (J_A J_B): four numbers, each with this many roundings.

    A probability is a sum of products with ``products`` roundings. A kernel adds two numbers and
    multiplies one for each value, and its factors e^{-gap} are off by 1 + gap / 2 roundings each;
    products of factors below e^{-650} do not count. Every sum takes as many additions as there are
    values. What underflows is, even multiplied by all later sums, below 1e-15 of `_LEAST`.
    """
    values = sum(len(decay) + 1 for decay in decays)
    return 4 * EPS * (products + 6 * values + 2000)


def _check_work(lengths: Sequence[int], size: int, *axes: Axis, line: bool) -> None:
    """Refuse a computation that takes too long: steps of tables, then passes over them."""
    entries = sum(lengths)
    sizes = [1.0 + entries * int(axis.values.max()) for axis in axes]
    moved = sizes[0] * (1.0 if line else sizes[1])
    each = _EACH_STEP + moved * size**2 * (size + 6) / 3
    steps = sum(length * (entries - length / 2) for length in set(lengths))
    passes = sum(set(lengths)) * size * (40 * sizes[0] * sizes[1] + 1e4 * sum(sizes))
    work = steps * each + passes
    numbers = 2 * size**2 * moved + 6 * size * sizes[0] * sizes[1]
    if work > MOST_WORK or numbers > MOST_NUMBERS:
        raise NotApplicable(
            f"the joint distributions of the two sums take about {work / 1e9:,.0f} s and "
            f"{8 * numbers / 1e9:,.1f} GB, more than {MOST_WORK / 1e9:.0f} s or "
            f"{8 * MOST_NUMBERS / 1e9:.0f} GB; use a shorter series, fewer states or rounder values"
        )


def decays_of(centres: Sequence[Any], scale: Any) -> Floats:
    """The factor by which the density falls between neighbouring centres, which are exact."""
    return np.array([np.exp(-float((b - a) / scale)) for a, b in pairwise(centres)])


# -- dependence ----------------------------------------------------------------------------------


def dependence(first: Calibration, second: Calibration) -> float:
    """E of [C] Theorem 3.6 for two releases of sums over the whole of the same series.

    The largest, over the distributions of the class, entries i, their possible values x and outputs
    (o, q), of

        | log p(o, q | X_i = x) - log p(o | X_i = x) p(q | X_i = x) |.

    Two releases that are Pufferfish private with epsilon_A and epsilon_B lose together at most
    epsilon_A + epsilon_B + 2 E: ``compose(history, beliefs, lengths, dependence=E)`` charges that
    where it is less than the other rules charge. E covers these two releases only, not a third one,
    and a series of no more entries than they used. The second release may be chosen after looking
    at the first, because the bound holds output by output.

    Parameters
    ----------
    first, second
        Calibrations by any mechanism that promises Pufferfish privacy for each entry
        (`wasserstein`, `exact_sum`, `influence_curve`, ...) under the same known distributions,
        each for a single number: `count`, `total` or `mean`.

    Returns
    -------
    float
        E, rounded up. The extremes are computed in closed form, not searched for
        (`pufferkit.account.theorems` has the proof).

    Raises
    ------
    NoTheorem
        For secrets other than any two values of any entry.
    NotApplicable
        For beliefs that are not finitely many known chains or joint distributions, for vectors,
        for queries that are not sums, for gaps, and where it would take more than about a minute.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.1, 0.9], [0.9, 0.1]])
    >>> noise = pk.wasserstein(chain, pk.count(1, 20), epsilon=0.5)
    >>> bound = pk.dependence(noise, noise)
    >>> round(bound, 3)
    0.183
    >>> both = pk.compose([pk.Spending.of(noise)] * 2, chain, 20, dependence=bound)
    >>> round(both.epsilon, 2), both.rule
    (1.37, 'dependence')
    """
    theta = _checked(first, second)
    grids = sum(_grid(calibration) for calibration in (first, second))
    return round_up(_largest(theta, first, second) + 2 * grids)


def _grid(calibration: Calibration) -> float:
    """The most by which rounding an answer to the grid of Laplace noise changes a log-density.

    Noise is drawn with at least the calibrated scale, and additional noise is post-processing.
    """
    if calibration.unit is not None:
        return 0.0
    query = calibration.query
    step = 2.0 ** noise.grid_exponent(calibration.sensitivity, query.size, query.largest)
    return step / 2 / calibration.scale


def _scale(calibration: Calibration) -> Fraction:
    return Fraction(min(calibration.scales or (calibration.scale,)))


def _checked(first: Calibration, second: Calibration) -> Beliefs:
    """The beliefs of both, if the theorem and the computation cover them."""
    for name, calibration in (("first", first), ("second", second)):
        if not isinstance(calibration, Calibration):
            raise ValueError(
                f"{name}: must be a Calibration, such as wasserstein(chain, count(1, 100), 1), "
                f"got {type(calibration).__name__}"
            )
        theta, query = calibration.beliefs, calibration.query
        if theta is None:
            raise ValueError(
                f"{name}: {calibration.mechanism} was calibrated without beliefs, and the "
                "dependence of two releases cannot be bounded without them"
            )
        named = calibration.guarantee in (Guarantee.SECRETS, Guarantee.EVENTS)
        if named or theta.names_secrets:
            raise NoTheorem(
                f"{name}: [C] 3.6 is computed for any two values of any entry, and this release "
                "was calibrated for other secrets; calibrate it without secrets"
            )
        if calibration.mechanism not in PRIVATE:
            raise NoTheorem(
                f"{name}: [C] 3.6 needs Pufferfish privacy, got {calibration.mechanism}"
            )
        if query.weights is None or query.size != 1 or query.chooses:
            raise NotApplicable(
                f"{name}: {query.name} is not a scalar sum; E is computed for count, total and mean"
            )
        if query.missing:
            raise NotApplicable(f"{name}: {GAPS}")
    if sorted(first.query.lengths) != sorted(second.query.lengths):
        raise ValueError(
            f"second: runs over segments of {list(second.query.lengths)} entries, the first over "
            f"{list(first.query.lengths)}; both must be sums over the same series"
        )
    one, other = first.beliefs, second.beliefs
    assert one is not None
    assert other is not None
    if one is not other and one.to_dict() != other.to_dict():
        raise ValueError("second: it was calibrated for other beliefs than the first")
    return one


@singledispatch
def _largest(theta: Beliefs, first: Calibration, second: Calibration) -> float:
    raise NotApplicable(
        f"E is computed for finitely many known chains (ChainClass.of) or joint distributions; "
        f"got a {theta.description}"
    )


@_largest.register
def _(theta: FiniteClass, first: Calibration, second: Calibration) -> float:
    lengths, members = first.query.lengths, theta.known_members("dependence")
    if len(lengths) > 1 and len(members) > 1:
        raise NotApplicable(
            f"with several segments, each of them could follow a different one of {len(members)} "
            "chains; E is computed for one chain or for one segment"
        )
    axes = []
    for calibration in (first, second):
        values, unit = values_of(calibration.query, theta.states)
        axes.append(Axis(np.array(values), float(unit / _scale(calibration))))
    return max(
        chain_dependence(member.chain.initial, member.chain.transition, lengths, *axes)
        for member in members
    )


@_largest.register
def _(theta: JointClass, first: Calibration, second: Calibration) -> float:
    return max(_listed(joint, first, second) for joint in theta.joints)


def _listed(joint: FiniteJoint, first: Calibration, second: Calibration) -> float:
    """One joint distribution, row by row."""
    rows = [row for row, p in joint.table.items() if p > 0]
    places, decays = [], []
    for calibration in (first, second):
        weights = calibration.query.weights or {}
        sums = [sum((weights[v][0] for v in row if v in weights), Fraction(0)) for row in rows]
        centres = sorted(set(sums))
        place = {centre: n for n, centre in enumerate(centres)}
        places.append(np.array([place[one] for one in sums]))
        decays.append(decays_of(centres, _scale(calibration)))
    secrets = [
        np.array([row[n] == value for row in rows])
        for n, name in enumerate(joint.names)
        for value in joint.values(name)
    ]
    chances = np.array([float(joint.table[row]) for row in rows])
    return listed_dependence((places[0], places[1]), chances, secrets, decays)
