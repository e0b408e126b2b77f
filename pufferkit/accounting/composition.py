"""What several releases about the same series cost together: theorems, with their conditions.

Pufferfish privacy does not compose by itself. Every rule below is a theorem, applied only where its
conditions were checked, and the tightest one that applies is used and named.

===================  ==========================================================================
``entry_profile``    entry privacies add up per entry; the loss under that profile (influence curve)
``quilt_sum``        [C] 3.7: Markov quilt releases over the same chain add up
``quilt_max``        [Q] 4.4: K times the largest epsilon, same quilt sets
``parallel``         [C] 3.1, with the pairing of its proof: disjoint windows
``far_apart``        [C] 3.3: two far windows released with markov_quilt_approx
``dependence``       [C] 3.6: two releases whose outputs depend on each other by at most E
``group_sum``        group DP releases add up
===================  ==========================================================================

For networks and joint laws a release uses every entry, and only ``entry_profile``, ``quilt_max``,
``dependence`` and ``group_sum`` are theorems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from pufferkit import checks
from pufferkit.accounting.amounts import in_epsilon, spent_micro
from pufferkit.beliefs.chain_class import ChainClass, MixingClass, as_chain_class
from pufferkit.beliefs.joint_class import JointClass
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.protocol import Beliefs, as_beliefs, entries_of
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.errors import NoTheorem
from pufferkit.influence.curve.regions import region_influence
from pufferkit.influence.curve.sweep import Run
from pufferkit.influence.curve.trees import TreeCurve
from pufferkit.influence.quilts.chains import max_influence
from pufferkit.influence.quilts.mixing import MixingInfluence
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import InfluenceCurve
from pufferkit.rounding import round_up

QUILTS = frozenset({"markov_quilt", "markov_quilt_approx"})
PRIVATE = QUILTS | {"influence_curve", "gk16", "group_dp", "wasserstein"}
ENTRYWISE = QUILTS | {"influence_curve", "gk16", "group_dp", "entry_dp"}
"""Mechanisms that vouch for the privacy of single entries, whatever else they promise."""
ANY_START = frozenset({"group_dp", "entry_dp"})
"""Mechanisms that ask no beliefs, so that it does not matter where a window starts."""


@dataclass(frozen=True)
class Spending:
    """What one release did, as far as accounts go.

    Attributes
    ----------
    mechanism, epsilon
        What was promised.
    window
        First and last entry that were used, counted from 1.
    entry_privacy
        By how much one entry moves the log-likelihood of the output; ``None`` if not vouched for.
    quilt
        Nodes of the binding quilt, for mechanisms that have one.
    quilt_sets
        Name of the family of quilts that was searched, for networks.
    """

    mechanism: str
    epsilon: float
    window: tuple[int, int]
    entry_privacy: float | None = None
    quilt: tuple[int, ...] | None = None
    quilt_sets: str | None = None

    def __post_init__(self) -> None:
        # A float: rules that count in whole micro-epsilon are told by their type.
        object.__setattr__(self, "epsilon", checks.privacy(self.epsilon))
        first, last = self.window
        if not 1 <= first <= last:
            raise ValueError(f"window: needs 1 <= first <= last, got {first} to {last}")
        if self.entry_privacy is not None:
            checks.positive("entry_privacy", self.entry_privacy)

    @classmethod
    def of(cls, calibration: Calibration, window: tuple[int, int] | None = None) -> Spending:
        """The spending of a release by this calibration; over the whole series if no window."""
        known = calibration.mechanism in ENTRYWISE
        return cls(
            calibration.mechanism,
            calibration.epsilon,
            window or (1, sum(calibration.query.lengths)),
            calibration.entry_privacy if known else None,
            calibration.evidence.quilt,
        )


@dataclass(frozen=True)
class Considered:
    """One rule: what it gives, or why it does not apply."""

    rule: str
    micro: int | None
    why: str


@dataclass(frozen=True)
class Composition:
    """The joint guarantee by the tightest rule, and what the others said."""

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
        The class Theta for the whole series, the same for all releases: chains, networks or joint
        laws.
    lengths
        Length of the series, or of its independent segments, in the order of the entries; for
        networks and joint laws the number of entries.
    dependence
        E of [C] Theorem 3.6, if you know it: a bound, both ways, on the max-divergence between the
        joint law of two outputs and the product of their laws, given any secret.

    Raises
    ------
    NoTheorem
        If no rule applies; the message says why for each.
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
    rules: dict[str, Callable[[], float | int]] = {
        "single": lambda: _single(history, theta, sizes),
        "entry_profile": lambda: entry_profile(history, theta, sizes),
        "quilt_max": lambda: _anchored(quilt_max(history), history, theta, sizes),
        "group_sum": lambda: group_sum(history),
        "dependence": lambda: _anchored(
            bounded_dependence(history, dependence), history, theta, sizes
        ),
    }
    if isinstance(theta, ChainClass):
        rules["quilt_sum"] = lambda: _anchored(quilt_sum(history), history, theta, sizes)
        rules["parallel"] = lambda: parallel(history, theta, sizes)
        rules["far_apart"] = lambda: far_apart(history, theta, sizes)
    else:
        _whole_record(history, theta, sizes)
    considered = []
    for name, rule in rules.items():
        try:
            found = rule()
        except NoTheorem as reason:
            considered.append(Considered(name, None, str(reason)))
        else:
            micro = found if isinstance(found, int) else spent_micro(found)
            considered.append(Considered(name, micro, ""))
    usable = [row for row in considered if row.micro is not None]
    if not usable:
        reasons = "; ".join(f"{row.rule}: {row.why}" for row in considered)
        raise NoTheorem(f"no theorem covers this combination of releases ({reasons})")
    best = min(usable, key=lambda row: row.micro or 0)
    return Composition(best.micro or 0, best.rule, tuple(considered))


def entry_profile(history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]) -> float:
    """Loss of the whole history on the influence curve.

    Entry privacies add up where windows overlap and do not where they are disjoint, so the joint
    release is b_t-entry-private at entry t; the theorem of the influence curve does the rest.
    """
    unknown = sorted({s.mechanism for s in history if s.entry_privacy is None})
    if unknown:
        raise NoTheorem(f"{', '.join(unknown)} does not vouch for single entries")
    theta, sizes = as_beliefs(beliefs), checks.segment_lengths(lengths)
    if not isinstance(theta, ChainClass):
        return _record_profile(sum(s.entry_privacy or 0.0 for s in history), theta)
    worst, start = 0.0, 0
    seen: set[tuple[Run, ...]] = set()
    for size in sizes:
        runs = tuple(_runs(history, start + 1, start + size))
        start += size
        if runs not in seen:
            seen.add(runs)
            worst = max(worst, _curve(theta, size).epsilon(runs))
    return worst


def _record_profile(b: float, theta: NetworkClass | JointClass) -> float:
    """Every entry spends ``b``: the loss on the tree, or that of changing all that hangs together.

    Parts of a network without an edge between them are independent.
    """
    if isinstance(theta, JointClass):
        return round_up(b * len(theta.joints[0].names))
    first = theta.networks[0]
    largest = max(len(part) for part in first.components)
    whole = round_up(b * largest)
    return min(whole, TreeCurve(theta).loss(b).value) if first.is_tree else whole


def _whole_record(
    history: Sequence[Spending], theta: NetworkClass | JointClass, sizes: tuple[int, ...]
) -> None:
    entries = len(entries_of(theta) or ())
    if sizes != (entries,):
        raise ValueError(f"lengths: the beliefs have {entries} entries, got {list(sizes)}")
    for spending in history:
        if spending.window != (1, entries):
            raise NoTheorem("releases about networks and joint laws use all entries, no window")


def quilt_sum(history: Sequence[Spending]) -> int:
    """[C] Theorem 3.7: the epsilons of Markov quilt releases over one chain add up."""
    _all_by(history, QUILTS, "Markov quilt releases")
    if len({s.window for s in history}) > 1:
        raise NoTheorem("[C] 3.7 needs releases over the same entries")
    return sum(spent_micro(s.epsilon) for s in history)


def quilt_max(history: Sequence[Spending]) -> int:
    """[Q] Theorem 4.4: K times the largest epsilon, for the same quilt sets."""
    _all_by(history, {"markov_quilt"}, "markov_quilt releases")
    if len({s.window for s in history}) > 1:
        raise NoTheorem("[Q] 4.4 needs releases over the same entries")
    if len({s.quilt_sets for s in history}) > 1:
        raise NoTheorem("[Q] 4.4 needs the same quilt sets in all releases")
    return len(history) * max(spent_micro(s.epsilon) for s in history)


def group_sum(history: Sequence[Spending]) -> int:
    """Group DP is differential privacy for segments, so its epsilons add up."""
    _all_by(history, {"group_dp"}, "group DP releases")
    return sum(spent_micro(s.epsilon) for s in history)


def parallel(history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]) -> float:
    """[C] Theorem 3.1 with the pairing of its proof, for any number of disjoint windows.

    For a secret in window j, what lies to the right is seen through X at the window's last entry,
    so it adds at most

        right_j = min( e(first entry of window j+1 | last entry of window j),
                       epsilon_{j+1} + right_{j+1} ),

    and likewise to the left. The total is the largest epsilon_j + left_j + right_j. With two
    windows this is the theorem: epsilon_A goes with e(X_T3 | X_T2). The statement printed in the
    paper pairs them the other way round, which can be too small.
    """
    theta, sizes = as_chain_class(beliefs), checks.segment_lengths(lengths)
    ordered = _disjoint(history, sizes)
    _shift_invariant(theta)
    _all_by(history, PRIVATE, "Pufferfish private releases")
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
    return max(s.epsilon + left[j] + right[j] for j, s in enumerate(ordered))


def far_apart(history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]) -> float:
    """[C] Theorem 3.3: two far windows released with markov_quilt_approx cost the larger epsilon.

    Both conditions are tested: some entry of each window has an active quilt with both endpoints,
    and the gap is at least as long as either window (last minus first entry).
    """
    theta, sizes = as_chain_class(beliefs), checks.segment_lengths(lengths)
    if len(history) != 2:
        raise NoTheorem("[C] 3.3 is about two releases")
    _all_by(history, {"markov_quilt_approx"}, "markov_quilt_approx releases")
    first, second = _disjoint(history, sizes)
    _shift_invariant(theta)
    for spending in (first, second):
        if spending.quilt is None or len(spending.quilt) != 2:
            raise NoTheorem(
                "[C] 3.3 needs an active quilt with two endpoints in each window; the window "
                f"{spending.window[0]} to {spending.window[1]} is too short for that"
            )
    gap = second.window[0] - first.window[1]
    longer = max(s.window[1] - s.window[0] for s in (first, second))
    if gap < longer:
        raise NoTheorem(f"[C] 3.3 needs a gap of at least {longer} entries, there are {gap}")
    return max(first.epsilon, second.epsilon)


def bounded_dependence(history: Sequence[Spending], dependence: float | None) -> float:
    """[C] Theorem 3.6: epsilon_A + epsilon_B + 2 E, for any two Pufferfish private releases."""
    if dependence is None:
        raise NoTheorem("[C] 3.6 needs the bound E, which was not given")
    bound = checks.real("dependence", dependence)
    if bound < 0:
        raise ValueError(f"dependence: E is at least 0, got {bound:g}")
    if len(history) != 2:
        raise NoTheorem("[C] 3.6 is about two releases")
    _all_by(history, PRIVATE, "Pufferfish private releases")
    return history[0].epsilon + history[1].epsilon + 2 * bound


def _single(history: Sequence[Spending], theta: Beliefs, sizes: tuple[int, ...]) -> float:
    if len(history) != 1:
        raise NoTheorem("there are several releases")
    _all_by(history, PRIVATE, "Pufferfish private releases")
    return _anchored(history[0].epsilon, history, theta, sizes)


def _anchored(
    found: float, history: Sequence[Spending], theta: Beliefs, sizes: tuple[int, ...]
) -> float:
    """What a rule found, if the promises of the releases hold for the windows they were used on.

    A promise is made for a series that starts as the beliefs say; see `check_start`.
    """
    for spending in history:
        if spending.mechanism not in ANY_START:
            check_start(spending.window, theta, sizes)
    return found


def check_start(window: tuple[int, int], theta: Beliefs, sizes: Sequence[int]) -> None:
    """Refuse a window that starts within a segment if the beliefs say how segments start."""
    start = 1
    for size in sizes:
        if window[0] == start:
            return
        start += size
    if isinstance(theta, ChainClass):
        _shift_invariant(theta)


def _all_by(history: Sequence[Spending], mechanisms: frozenset[str] | set[str], what: str) -> None:
    others = sorted({s.mechanism for s in history} - mechanisms)
    if others:
        raise NoTheorem(f"it is about {what}; the history has {', '.join(others)}")


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


def fixed_start(theta: ChainClass) -> str | None:
    """The first chain of a class that says where a series starts; ``None`` if none does."""
    if isinstance(theta, (MixingClass, RegionClass)):
        return None
    fixed = (m.name for m in theta.members() if not m.any_start and not m.chain.is_stationary)
    return next(fixed, None)


def _shift_invariant(theta: ChainClass) -> None:
    """A window is a chain of the class itself only if the class does not fix where it starts."""
    fixed = fixed_start(theta)
    if fixed is not None:
        raise NoTheorem(
            f"windows need beliefs that hold from any time on; {fixed} has a start of its own; "
            "use ChainClass.any_start, or MarkovChain.steady"
        )


def _influence(
    theta: ChainClass, node: int, left: int | None = None, right: int | None = None
) -> float:
    if isinstance(theta, MixingClass):
        (mixing,) = theta.mixing_bounds()
        bound = MixingInfluence.tight(mixing)
        return 2 * bound.bound(left) if left is not None else bound.bound(right or 1)
    if isinstance(theta, RegionClass):
        source = region_influence(theta)
        found = source.diameter(left) if left is not None else source.ratio(right or 1)
        return float(found.max())
    return max_influence(theta, node, left, right)


def _runs(history: Sequence[Spending], first: int, last: int) -> list[Run]:
    """Summed entry privacy of entries ``first`` ... ``last``, as runs."""
    marks = {first, last + 1}
    for spending in history:
        for mark in (spending.window[0], spending.window[1] + 1):
            if first < mark <= last:
                marks.add(mark)
    ordered = sorted(marks)
    runs = []
    for start, after in pairwise(ordered):
        total = sum(s.entry_privacy or 0.0 for s in history if s.window[0] <= start <= s.window[1])
        runs.append(Run(after - start, total))
    return runs


@lru_cache(maxsize=32)
def _curve(theta: ChainClass, length: int) -> InfluenceCurve:
    return InfluenceCurve(theta, length)
