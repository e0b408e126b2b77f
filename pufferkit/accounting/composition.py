"""What several releases about the same series cost together: theorems and their conditions.

Pufferfish privacy does not compose in general. Every rule below is a theorem, applied only where
its conditions have been checked; the tightest applicable rule is used and named. Each rule holds
for *every* entry of the series, used or not. Its docstring states which beliefs and releases it
covers, and why.

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

``parallel`` and ``far_apart`` are about windows of a chain (`pufferkit.accounting.windows`). The
other rules also hold for networks and joint distributions, where a release uses every entry.

All bounds hold output by output, so later releases may be chosen after looking at earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pufferkit import checks
from pufferkit.accounting.amounts import in_epsilon, spent_micro
from pufferkit.accounting.spending import Spending
from pufferkit.accounting.spent_profile import profile_of
from pufferkit.accounting.windows import (
    PRIVATE,
    QUILTS,
    all_by,
    check_start,
    entries_separate,
    far_apart,
    parallel,
)
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.errors import NoTheorem
from pufferkit.mechanisms.calibration import OF_SUMS
from pufferkit.shown import Shown

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

    def __str__(self) -> str:
        lines = [f"epsilon {self.epsilon:g} by {self.rule}"]
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
    if spending.mechanism in OF_SUMS:
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
    """[C] Theorem 3.7: the epsilons of Markov quilt releases over the same entries add up.

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
    """[Q] Theorem 4.4: K times the largest epsilon. Never smaller than `quilt_sum`.

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
    """[C] Theorem 3.6: epsilon_A + epsilon_B + 2 E.

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
