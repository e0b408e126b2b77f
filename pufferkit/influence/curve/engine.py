"""The engine of the influence curve: from the cost of entries to the loss of pairs of values.

A *cost* is a matrix over pairs of states: replacing an entry x by x' moves the log-likelihood of
every output by at most cost(x, x'). Laplace noise of scale s on a sum of contributions V costs
sum_j |V_j(x) - V_j(x')| / s; several releases add up, entry by entry. So all that was released is
a list of *runs*: numbers of consecutive entries, and their cost.

A belief says what it knows in *parts*. The part of one chain has two *sides*: for every entry, what
the entries before it, or after it, can reveal about its value. The side of entry n, counted from
the end that the side runs towards, adds for each pair of values

    adds_n = least over blocks m < n of  paid_{n-m+1} + ... + paid_{n-1} + step_{n,m}(B_{n-m}),
    B_n    = closure of  cost_n + adds_n,       B_1 = closure of cost_1,

with paid_j the largest cost of entry j and step_{n,m} the step of the kernel from entry n to entry
n - m (`pufferkit.influence.curve.steps`). All entries of a side may be paid for as well, without a
step. The loss of entry n is its cost plus what both sides add.

Theorem: PAIRS Theorem 2 with the blocks of PAIRS 1.3. For every output, entry and pair x, x' of its
values, log P(output | x) / P(output | x') is at most the loss.

Proof. For m = 1 this is the theorem *of single steps* below. For a block let f be the
likelihood, and h its least value over the m - 1 entries between. Then h <= f <= e^paid h, and as a
function of the other entries h costs what f does. So the mean of f given x is at most e^paid times
that of h, whose logarithm as a function of entry n - m varies by at most B_{n-m}; the mean given x'
is at least that of h. Pair by pair the least of several bounds is a bound. QED

Theorem: ENGINE Theorem A, *of single steps*. W_1 ... W_T is a Markov chain on finitely many states.
Its forward kernels lie in the hull of K^1 ... K^J at every time, its backward kernels in the hull
of L^1 ... L^J'. The likelihood f of an output is a function of the path, and replacing W_t = w by
w' moves log f by at most cost_t(w, w'). The secret S_i depends on the path through W_i only, with
Pi(s, .) the distribution of W_i given S_i = s, in the hull of Pi^1 ... Pi^L. With step* the largest
step over the vertices (`pufferkit.influence.curve.steps`) and cl the triangle closure, let

    B_T = cost_T,    B_t = cl(cost_t + step*(K; B_{t+1})),
    A_1 = cost_1,    A_t = cl(cost_t + step*(L; A_{t-1})),
    M_i = cl(step*(K; B_{i+1}) + step*(L; A_{i-1})).

For every output o, every pair of secrets and every such chain

    log P(o | S_i = s) / P(o | S_i = s')
        <=  max over l of step(Pi^l(s, .), Pi^l(s', .); cost_i + M_i).

Proof. Let U_t(w; past) = log E[f(past, w, W_{t+1}, ...) | W_t = w] for any past. Claim: its
variation from w to w' is at most B_t(w, w'). For t = T that is the assumption. For t < T replace w
by w' inside f, at the cost cost_t(w, w'). What remains is the mean of e^g, g(v) = U_{t+1}(v;
past, w'), under K_t(w, .) and under K_t(w', .); g varies by at most B_{t+1}, so their ratio is at
most e^{step(K_t(w, .), K_t(w', .); B_{t+1})}. A mixture of kernels has a ratio of sums, which is at
most the largest ratio of its terms, hence step*. The closure does not change which g are allowed.
The mirror image gives A. Now let G(w) = E[f | W_i = w]. Exchange entry i (cost_i), then for each
left part the right part (step*(K; B_{i+1})); the result, averaged over the right, is a function of
the left part whose entries still cost cost_t, so exchanging the left part costs step*(L; A_{i-1}).
One pair w, w' throughout, so log G varies by at most cost_i + M_i. The mean of G given S_i = s is
Pi(s, .) G: one more step. QED

Where the secret is the entry itself, Pi is the identity and the last step is cost_i + M_i.

Theorem: ENGINE Proposition B, *of hidden states*. Sides may be those of a chain W whose state at an
entry is not the entry itself. Given its hidden state w an entry is drawn from E(w, .),
independently of the rest, and replacing an entry x by x' costs c(x, x'). Then the theorem holds on
the hidden states with

    cost(w, w') = step(E(w, .), E(w', .); c),

and the loss of the entry is c(x, x') + max over l of step(Pi^l(x, .), Pi^l(x', .); M), M what both
sides add and Pi(x, .) the distribution of W given the entry, in the hull of the Pi^l. Proof: given
W_{t+1} the likelihood varies by at most c in X_t, whatever W_{t+1} is, so exchanging E(w, .) for
E(w', .) costs at most the step, and what remains is the mean of a function of W_{t+1} alone under
K(w, .), as before. Given (W_i, X_i) the rest of the series depends on W_i only: exchange x for x'
at the cost c(x, x'); the remaining mean is a function of W_i whose logarithm varies by M_i. QED
Where Pi may be any distribution, the loss is c(x, x') + max M: no two means of a function differ
by more than it varies. Where the hidden state is the secret, its entry is exchanged too: cost + M.

*Seasons.* With a kernel for each slot of a period, the variation at an entry is a function of its
slot. Where cost + step(K_s; C_{s+1}) <= C_s for all slots s, cyclically, C_s bounds the variation
at every entry of slot s, whatever the length of the series and its first slot.

Long series. If cost + adds(C) <= C for one matrix C, where adds(C) has C in place of every B, and
the entries just before are at most C, then so are all entries of the run, by induction: steps are
monotone, and a block that reaches beyond the end of the side costs less, all of it paid for. Such a
*limit* is what a record holds, with the plans that give the steps: `pufferkit.verification` checks
the inequality and searches nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.certificates import (
    SLACK,
    Followed,
    certificate,
    converges,
    followed,
    newton,
    rough_limit,
    rough_limits,
    slack_of,
)
from pufferkit.influence.curve.secret_losses import Pinned, Secret, value_losses
from pufferkit.influence.curve.steps import (
    LARGEST,
    Contaminated,
    HiddenCost,
    Open,
    Steps,
    StepsInRow,
    Tilted,
    Transport,
    closure,
    off_diagonal,
    plus,
)
from pufferkit.influence.curve.transport_plans import bases_in, bases_of, bipartite, packed
from pufferkit.influence.progress import Progress
from pufferkit.records import packed_matrix
from pufferkit.rounding import EPS, bounding, largest_within

CostRuns = Sequence[tuple[int, Floats]]
"""Numbers of consecutive entries, and the cost of each of them."""

EXPLICIT_WORK = 50_000
"""Entries are computed one by one while entries x states^2 stays below this."""

PRECISION = 1e-7
"""A search ends when the loss is below epsilon by no more than this share of it."""

FAR = 500.0
"""The variation between values that are never possible together; their steps count for nothing."""

FOREVER = 1 << 60
"""The entry for which steps are asked that serve all later ones."""

ENDLESS = 1 << 50
"""Entries of a sojourn of any length: floats count them exactly."""

_FIRST, _LOOK = (40, 6), 16
"""All blocks are tried at the first entries of the only run, or of one of several, and then at
every sixteenth."""

_CALM = 0.02
"""A limit is looked for where the variation changes by less than this share from entry to entry."""

_NEAR = 1e-5
"""A cheap run is bounded by its limit from the entry on that is within this share of it."""

_GAIN = PRECISION
"""Steps that gain less than a search resolves gain nothing."""

_WORTH = 2e-3
"""Blocks that lower a limit by no more than this share of it are not worth their programmes: the
noise is larger by at most as much."""

_REFINED = 4
"""Blocks are chosen anew at the limit that the last ones gave, so many times at most."""

_MOST_KNOWN = 8
"""Profiles stored for `PartCurve.record` and as starts: a search tries about seven."""

_WITHIN = 0.98
"""A start above what is of use would end a search at once."""

_TRIES, _ROOM = 8, 0.03
"""A limit is tried near a guess, then where a cost higher by this share leads from there."""

_ABOVE = 0.6
"""Of the loss that is left a guess of a limit takes this share, so that it is one at once."""

_MANY = 16
"""Fewer entries are sooner computed one by one than a compiled loop is set up."""

_FEW_LEFT, _FEW_UNPAID = 8, 256
"""Of a cheap run, and of one that pays nothing, so many entries are computed without a limit."""
_GROWTH, _MOST_SIZES, _ALL_SIZES = 1.25, 50, 16
"""Blocks: all up to sixteen (periods), then each a quarter longer, up to some 30,000 entries."""

_EXPLICIT_STEPS = 400, 2_000
"""Entries that are computed one by one with seasons, of one run of costs and of several."""

_ROUGH_ROUNDS = 2
"""Rounds of quick lower bounds before a search with seasons; each tells the cost more closely."""

_MOST_PERIODS = 400
"""Rounds of the clock after which no limit is expected: variations of slow chains grow on."""

_BEGIN = 1e-5
"""A search begins with so small a share of epsilon that the loss is about linear there."""


@dataclass(frozen=True)
class Side:
    """One side of every entry, entries counted from the end that the side runs towards.

    Attributes
    ----------
    steps
        From an entry and the size of a block to the steps of that block; ``None`` if it has none.
    sizes
        The blocks to try; the first is 1.
    settled
        From this entry on, 2 or later, steps to the next entry are the same; those of a block of m
        entries are from entry ``settled + m - 1`` on.
    own
        Kernels of the entries 2 ... ``settled - 1``, if they are programmes.
    together
        Pairs of values that are possible at the same entry; ``None`` for all.
    paid
        Whether all entries of the side may be paid for instead.
    """

    steps: Callable[[int, int], Steps | None]
    sizes: Sequence[int] = (1,)
    settled: int = 2
    own: StepsInRow | None = None
    together: Bools | None = None
    paid: bool = True

    def later(self, size: int) -> Steps | None:
        """The steps of a block that serve all entries from ``settled + size - 1`` on."""
        return self.steps(FOREVER, size)

    @classmethod
    def of(cls, steps: Steps) -> Side:
        """A side whose entries are all alike, one entry at a time, none of them paid for."""
        return cls(lambda entry, size: steps, paid=False)

    @classmethod
    def of_blocks(cls, steps: Callable[[int], Steps], length: int) -> Side:
        """A side whose entries are all alike, with the steps of a block of every size."""
        made = cache(steps)
        return cls(lambda entry, size: made(size), block_sizes(length))


@dataclass(frozen=True)
class Seasons:
    """Steps by the slot of an entry, to the entry before it and to the entry after it.

    ``start`` is the slot of the first entry of a series; ``None`` if it can be any slot.
    """

    left: Sequence[Steps]
    right: Sequence[Steps]
    start: int | None = None

    @property
    def phases(self) -> Sequence[int]:
        """The slots that the first entry can have."""
        return range(len(self.left)) if self.start is None else (self.start,)

    def sides(self, phase: int, length: int) -> tuple[Side, Side]:
        """Both sides of a series whose first entry is at slot ``phase``."""
        period = len(self.left)
        left = Side(
            lambda entry, size: self.left[(phase + entry - 1) % period],
            settled=length + 1,
            paid=False,
        )
        right = Side(
            lambda entry, size: self.right[(phase + length - entry) % period],
            settled=length + 1,
            paid=False,
        )
        return left, right


@dataclass(frozen=True)
class Sojourns:
    """Sides of a chain that lives for a known time, of which the series may overlap any part.

    Its kernels depend on what has passed since its start, or on what remains until its end
    (`pufferkit.beliefs.sojourns`). Entry n of a side is the one with n - 1 entries of the sojourn
    beyond: counted from there, variations are one sequence for every length.

    Theorem: FIXES 1, Theorem 1. In a sojourn of any length an entry loses at most what both sides
    add together at the places, and for the kinds of start and end, where they add most, pair by
    pair; nor more than what the other entries of the series cost, as for blocks.

    Proof. The likelihood averaged over other sojourns, which are independent given all that is
    known, is a function of this one that costs what it did, so the theorem of single steps applies.
    If the series ends while j entries of the sojourn are still to come, the variation is the cost
    at the j-th place, which is at most B there, and steps are monotone. How many entries precede
    the secret and how many follow are any two numbers, and the kinds of start and end any two: so
    the largest sum is that of the largest of either side, pair by pair. Costs that differ count as
    the largest of each pair, as the sojourn may lie anywhere. QED

    Attributes
    ----------
    starts, ends
        A side for each way in which a sojourn may start, and may end.
    """

    starts: Sequence[Side]
    ends: Sequence[Side]


@dataclass(frozen=True)
class Part:
    """What one member of a class says: both sides, and which values each entry can have.

    Attributes
    ----------
    name
        Name of the member, or of all members that this part stands for.
    left, right
        Both sides of every entry, between hidden states if there are any.
    possible
        The values of entries 1, 2, ...; the last one repeats, or with ``cycle`` the last so many.
    cycle
        How many of the possible values repeat in turn.
    clock
        In place of both sides, steps by the slot of an entry; ``possible`` is then by slot.
    sojourns
        In place of both sides, those of sojourns; other entries tell nothing of one another.
    emission
        From the cost of an entry to that of its hidden state: the step between the distributions of
        the entry given two hidden states, or a `HiddenCost`; ``None`` if the hidden state is the
        entry.
    posterior
        By slot, the step between the distributions of the hidden state given two values of the
        entry; empty if these may be any distributions.
    follows
        By slot, which values can follow which; empty if any can follow any.
    secret
        What is hidden.
    notes
        Remarks for readers of the curve.
    """

    name: str
    left: Side | None
    right: Side | None
    possible: Sequence[Bools]
    cycle: int = 1
    clock: Seasons | None = None
    sojourns: Sojourns | None = None
    emission: Steps | HiddenCost | None = None
    posterior: Sequence[Transport] = ()
    follows: Sequence[Bools] = ()
    secret: Secret = field(default_factory=Secret)
    notes: tuple[str, ...] = ()


class Parts(Sequence[Part]):
    """The parts of a class, each made when first used."""

    def __init__(self, make: Sequence[Callable[[], Part]]) -> None:
        self._make = make
        self._made: dict[int, Part] = {}

    def __len__(self) -> int:
        return len(self._make)

    def __getitem__(self, place: Any) -> Any:
        place = range(len(self))[place]
        if place not in self._made:
            self._made[place] = self._make[place]()
        return self._made[place]


@dataclass(frozen=True)
class EntryLoss:
    """The largest loss of an entry, where it is, and that of every pair of states there."""

    value: float
    node: int
    pairs: Floats | None = None


@dataclass(frozen=True)
class Stretch:
    """Entries ``first`` ... ``last`` to which a side adds at most ``steps``.

    ``limit`` is the variation of the entry before, or of all that follow; ``beyond`` has, for the
    size of every block in use, the variation from which it steps; ``trees`` are those of the plans
    for single entries, if they were stored.
    """

    first: int
    last: int
    steps: Floats
    limit: Floats | None
    beyond: Mapping[int, Floats] = field(default_factory=dict)
    trees: NDArray[np.int16] | None = None


def swept(
    side: Side,
    runs: CostRuns,
    most: float,
    near: Floats | None = None,
    *,
    alike: bool = True,
) -> list[Stretch] | None:
    """What a side adds to every entry, counted from its end; ``None`` if that is of no use.

    Entries are computed one by one while that is cheap or the variation has not converged; the rest
    of a run is bounded at once by a limit. Of a long series of one cost whose entries are alike,
    all but the first are: those in its middle are at the limit, and none loses more.

    Parameters
    ----------
    side
        The steps.
    runs
        Numbers of consecutive entries, and the cost of each pair of states there.
    most
        Bounds above this are of no use.
    near
        A guess of the limit of the variation of a long run, where the search begins.
    alike
        Whether no entry has steps of its own, on this side and on the other.
    """
    return _Sweep(side, runs, most, near, alike).stretches()


class _Sweep:
    """One pass over the entries of a side; see `swept`."""

    def __init__(
        self, side: Side, runs: CostRuns, most: float, near: Floats | None, alike: bool
    ) -> None:
        self.side, self.most, self.near = side, min(most, LARGEST), near
        self.size = len(runs[0][1])
        self.outside = off_diagonal(self.size)
        self.paid = [float(cost.max()) for _, cost in runs]
        self.slack = slack_of(max(self.paid))
        self.ends = list(accumulate(count for count, _ in runs))
        spent = accumulate(count * paid for (count, _), paid in zip(runs, self.paid, strict=True))
        self.totals = [0.0, *spent]
        together = side.together
        self.counted = self.outside > 0 if together is None else together
        self.costs = [
            cost if together is None else np.where(together, cost, FAR) * self.outside
            for _, cost in runs
        ]
        self.alike = alike and len(runs) == 1
        self.met: dict[int, Floats] = {}
        self.found: list[Stretch] = []
        self.walked = 0
        self.by_loop = True  # until blocks are better
        self.used = [1]  # blocks that were the least when all were last tried

    def stretches(self) -> list[Stretch] | None:
        """All stretches; ``None`` where a bound is of no use."""
        if max(self.paid) > self.most:
            return None
        for run in range(len(self.ends)):
            if not self._through(run):
                return None
        return self.found

    def _total(self, last: int) -> float:
        """What the entries 1 ... ``last`` pay together, rounded up."""
        run = bisect_left(self.ends, last)
        before = self.ends[run - 1] if run else 0
        own = (last - before) * self.paid[run] if last else 0.0
        return (self.totals[run] + own) * (1 + 8 * len(self.ends) * EPS)

    def _between(self, first: int, last: int) -> float:
        """What the entries ``first`` ... ``last`` pay together, rounded up."""
        if last < first:
            return 0.0
        total = self._total(last)
        return max(total - self._total(first - 1), 0.0) + 16 * len(self.ends) * EPS * total

    def _adds(
        self,
        entry: int,
        met: Callable[[int], Floats],
        paid: Callable[[int], float],
        whole: float,
        sizes: Sequence[int],
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The least over blocks of what is paid and a step, and the size that each pair takes.

        Blocks of ``sizes`` are tried. A bound that is not a finite number bounds nothing.
        """
        least = np.where(self.counted, whole, 0.0)
        taken = np.zeros(least.shape, dtype=np.int64)
        for size in sizes:
            if size >= entry or (spent := paid(size)) >= float(least.max()):
                break
            steps = self.side.steps(entry, size)
            variation = met(size)
            if steps is None or not float(variation.max()) <= LARGEST:
                continue
            if size > 1 and not _may_gain(steps, variation, spent, least):
                continue
            bound = steps(variation)
            if spent > 0:
                bound = (spent + bound) * (1 + 2 * EPS)
            better = bounding(bound) < least
            least, taken = np.where(better, bound, least), np.where(better, size, taken)
        return least, taken

    def _adds_of(
        self, entry: int, every: bool, follow: bool = True
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The same from the entries that were met: all blocks, or those in use.

        With ``follow`` blocks come into use, and go, from entry to entry.
        """
        adds, taken = self._adds(
            entry,
            lambda size: self.met[entry - size],
            lambda size: self._between(entry - size + 1, entry - 1),
            self._total(entry - 1) if self.side.paid else inf,
            self.side.sizes if every else self._likely(entry) if follow else self.used,
        )
        if follow and len(self.side.sizes) > 1:
            self.used = sorted({1, *np.unique(taken[taken > 0]).tolist()})
        return adds, taken

    def _likely(self, entry: int) -> Sequence[int]:
        """Blocks that were the least at the entry before, and those that end where they did.

        Between runs also blocks that end just where another run does.
        """
        sizes = self.side.sizes
        wanted = {1, *self.used}
        ends = [entry - end for end in self.ends if end < entry]
        for goal in (*(size + 1 for size in self.used), *ends):
            place = bisect_left(sizes, goal)
            wanted.update(sizes[max(place - 1, 0) : place + 1])
        return sorted(wanted)

    def _calm(self, entry: int) -> bool:
        """Whether the variation no longer changes much from entry to entry."""
        if entry < 2:
            return False
        last, before = self.met[entry], self.met[entry - 1]
        moved = np.abs(last - before)[self.counted].max(initial=0.0)
        return bool(moved <= _CALM * last[self.counted].max(initial=0.0))

    def adds_at(
        self, limit: Floats, paid: float, sizes: Sequence[int]
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The same where every entry beyond has the variation ``limit`` and pays the same."""
        return self._adds(
            FOREVER, lambda _: limit, lambda size: (size - 1) * paid * (1 + 4 * EPS), inf, sizes
        )

    def _through(self, run: int) -> bool:
        """Go through one run; whether the bounds are of use."""
        end, cost = self.ends[run], self.costs[run]
        done = self.found[-1].last if self.found else 0
        begun, looked, limit, soon = done, False, None, False
        ahead: tuple[Floats, list[int]] | None = None
        while done < end:
            here, left = done + 1, end - done
            if here == 1:
                self._add(Stretch(1, 1, np.zeros_like(cost), None), self._closed(cost))
                done = 1
                continue
            cheap = left * self.size**2 <= EXPLICIT_WORK
            few = 2 if not cheap else _FEW_LEFT if self.paid[run] else _FEW_UNPAID
            if here >= self.side.settled and left > few:
                if not looked and (self.alike or not cheap or self._calm(done)):
                    (limit, sizes), looked = self._limit(run), True
                    single = list(sizes) == [1]
                    soon = cheap and self.alike and single and self._converges(limit, left // 2)
                    if limit is not None:
                        ahead = self._in_use(*self.adds_at(limit, self.paid[run], sizes))
                        # Of a long run only the entries before the limit holds are left.
                        self.used = self.used if cheap else list(sizes)
                if limit is not None and ahead is not None:
                    near = cheap and not soon
                    if self._may_take(here, begun, limit, max(ahead[1], default=1), near):
                        beyond = dict.fromkeys(ahead[1], limit)
                        self._add(Stretch(here, end, ahead[0], limit, beyond), limit)
                        done = end
                        continue
            unpaid = looked and not cheap and not self.paid[run]
            if unpaid and here - begun > _FEW_UNPAID and self._stays(run, here):
                done = end
                continue
            endless = here >= self.side.settled and looked and limit is None
            endless = endless and (not cheap or self._forgets_nothing(done, left))
            if endless or self.walked * self.size**2 > 20 * EXPLICIT_WORK:
                if not self.side.paid:
                    return False
                self._pay_for_all(run, here)
                done = end
                continue
            if not self._along(run, here, limit):
                every = here - begun <= _FIRST[len(self.ends) > 1] or here % _LOOK == 0
                every = every and (cheap or limit is None)
                adds, sizes = self._in_use(*self._adds_of(here, every, cheap or limit is None))
                beyond = {size: self.met[here - size] for size in sizes}
                variation = self._closed(plus(cost, adds) * self.outside)
                self._add(Stretch(here, here, adds, self.met[done], beyond), variation)
            self.walked += self.found[-1].last - done
            done = self.found[-1].last
            if not float(self.met[done][self.counted].max(initial=0.0)) <= self.most:
                return False
        return True

    def _add(self, stretch: Stretch, variation: Floats) -> None:
        self.found.append(stretch)
        first = max(stretch.first, stretch.last - self.side.sizes[-1])
        self.met.update(dict.fromkeys(range(first, stretch.last + 1), variation))

    def _closed(self, variation: Floats) -> Floats:
        """The triangle closure; infinite where a way between values that never meet was shorter."""
        closed = closure(variation)
        return closed if self._near_enough(closed) else np.where(self.counted, inf, closed)

    def _near_enough(self, variation: Floats) -> bool:
        """Whether no way over values that are never possible together, FAR or longer, was taken."""
        if self.side.together is None:
            return True
        return bool(variation[self.counted].max(initial=0.0) <= FAR / 2)

    def _limit(self, run: int) -> tuple[Floats | None, Sequence[int]]:
        """A matrix C with cost + adds(C) <= C, for entries that pay alike, and its blocks.

        A limit for single entries, or for some blocks, is one for all blocks, whose least is no
        larger. Blocks have programmes for all pairs, one for each size, so only those are tried by
        which some pair gains there. Of two limits the least, pair by pair, is a limit.
        """
        every, few = self.side.sizes, [1]
        limit = self._certified(run, few)
        if limit is None:
            few = _doubling(every)
            limit = self._certified(run, few)
        if limit is None:
            return None, few
        paid = self.paid[run]
        for _ in range(_REFINED):
            alone, _ = self.adds_at(limit, paid, few)
            blocks, taken = self.adds_at(limit, paid, every)
            gain = float((alone - blocks)[self.counted].max(initial=0.0))
            if gain <= _GAIN * paid or self._worthless(run, limit, every):
                break
            # With the blocks that are the least there, what was a limit is one still.
            sizes = sorted({1, *self._in_use(blocks, taken)[1]})
            several = self._certified(run, sizes, limit)
            if several is None or np.all(several >= limit * (1 - _GAIN)):
                break
            limit, few = np.minimum(limit, several), sizes
        return limit, few

    def _worthless(self, run: int, limit: Floats, sizes: Sequence[int]) -> bool:
        """Whether blocks of these sizes lower the limit by next to nothing, by its tangent."""
        if self.side.together is not None:
            return False
        steps = _Alike(self, self.paid[run], sizes)
        update = closure(plus(self.costs[run], steps(limit)) * self.outside)
        lower = newton(steps, limit, update)
        return lower is not None and bool(np.all(limit - lower <= _WORTH * limit))

    def _certified(
        self, run: int, sizes: Sequence[int], near: Floats | None = None
    ) -> Floats | None:
        """A limit with blocks of these sizes, from ``near`` on; ``None`` if the search fails."""
        cost = self.costs[run]
        steps = _Alike(self, self.paid[run], sizes)
        start, near = self.met[max(self.met)], self.near if near is None else near
        start = np.maximum(start, steps.rough_limit(cost) if near is None else near)
        if self.side.together is not None:
            start = np.where(self.counted, start, FAR) * self.outside
        most = self.most if self.side.together is None else LARGEST
        if not cost.any():  # nothing is paid: the variation does not grow
            most = min(most, 2 * float(start.max()))
        limit = certificate(steps, cost, most, self.slack, start)
        return limit if limit is not None and self._near_enough(limit) else None

    def _converges(self, limit: Floats | None, entries: int) -> bool:
        return converges(_Alike(self, self.paid[0], [1]), limit, entries)

    def _in_use(self, adds: Floats, taken: NDArray[np.int64]) -> tuple[Floats, list[int]]:
        return adds, [int(size) for size in np.unique(taken[self.counted]) if size > 0]

    def _may_take(self, here: int, begun: int, limit: Floats, reach: int, near: bool) -> bool:
        """Whether the limit bounds the rest of a run: the entries just before are within it.

        With ``near`` only where the last one is close to it, so that nothing is lost.
        """
        side = self.side
        # A block that reaches beyond the end of the side costs less than others, if all is paid.
        early = here < side.settled + reach - 1 and (side.settled > 2 or not side.paid)
        if early or (begun and here - begun < reach):
            return False
        recent = (self.met[entry] for entry in range(max(1, here - reach), here))
        if not all(np.all((own <= limit) | ~self.counted) for own in recent):
            return False
        room = _NEAR * float(limit[self.counted].max(initial=0.0))
        return not near or bool(np.all((self.met[here - 1] >= limit - room) | ~self.counted))

    def _stays(self, run: int, here: int) -> bool:
        """Bound the rest of a run that pays nothing by the largest variation so far, if it does.

        No step exceeds the largest variation beyond it. Where the variation fades so slowly that no
        smaller limit is in reach, entries that follow lose no more than those just computed.
        """
        largest = float(self.met[here - 1][self.counted].max(initial=0.0))
        limit = np.where(self.counted, largest, FAR) * self.outside
        adds, _ = self.adds_at(limit, 0.0, [1])
        if not np.all((adds <= limit) | ~self.counted):
            return False
        self._add(Stretch(here, self.ends[run], adds, limit, {1: limit}), limit)
        return True

    def _forgets_nothing(self, done: int, left: int) -> bool:
        """Whether some pair of values still shows all that was paid, after many entries.

        Then the last entry of the series loses everything, whatever is computed for others.
        """
        if not self.side.paid or done < _MANY or left < _MANY or len(self.ends) > 1:
            return False
        adds = self.found[-1].steps[self.counted].max(initial=0.0)
        return bool(adds >= self._total(done - 1) * (1 - _GAIN))

    def _pay_for_all(self, run: int, here: int) -> None:
        """Nothing is forgotten: every entry of the side is paid for."""
        total = self._total(self.ends[run] - 1) * self.outside
        self._add(
            Stretch(here, self.ends[run], total, None), (total + self.costs[run]) * (1 + 2 * EPS)
        )

    def _along(self, run: int, here: int, limit: Floats | None) -> bool:
        """Entries from this one on, by one compiled loop; whether that pays and blocks do not."""
        side, left = self.side, self.ends[run] - here + 1
        if not self.by_loop:
            return False
        if here < side.settled:
            if side.own is None or not side.own.may_follow:
                return False
            kernels, error = side.own.kernels[here - 2 : here - 2 + left], side.own.error
            count = len(kernels)
        else:
            steps = side.steps(FOREVER, 1)
            if not (isinstance(steps, Transport) and steps.may_follow):
                return False
            if side.steps(here, 1) is not steps:  # entries have kernels in turn
                return False
            kernels, error, count = steps.kernels[0][None], steps.error, left - 2
        count = min(count, 20 * EXPLICIT_WORK // self.size**2 - self.walked)
        if count < _MANY:
            return False
        cheap = EXPLICIT_WORK // self.size**2 - (left - count)
        near = 0.0 if limit is None else _NEAR * float(limit.max())
        variation = self.met[here - 1]
        along = followed(
            kernels, error, count, self.costs[run], variation, LARGEST, limit, near, cheap
        )
        return self._kept(here, along)

    def _kept(self, here: int, along: Followed) -> bool:
        """Keep what the compiled loop found, unless blocks are better at its last entry."""
        last = here + len(along.steps) - 1
        if not all(self._near_enough(own) for own in (*along.met, along.after)):
            self.by_loop = False
            return False
        for place, met in enumerate(along.met):
            self.met[here - 1 + place] = met
        if len(self.side.sizes) > 1:
            _, taken = self._adds_of(last, every=True)
            if np.any(taken[self.counted] > 1):
                self.by_loop = False
                return False
        each = zip(along.steps, along.met, along.trees, strict=True)
        for entry, (steps, met, trees) in enumerate(each, here):
            if not np.isfinite(steps).all():
                return entry > here
            self.found.append(Stretch(entry, entry, steps, met, {1: met}, trees))
        self.met[last] = along.after
        return True


class _Alike:
    """The steps of entries that are alike and pay the same: the least over blocks."""

    def __init__(self, sweep: _Sweep, paid: float, sizes: Sequence[int]) -> None:
        self._sweep, self._paid, self._sizes = sweep, paid, sizes
        self._taken = np.zeros((sweep.size, sweep.size), dtype=np.int64)
        self.exact = any(isinstance(sweep.side.steps(FOREVER, size), Open) for size in sizes)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``."""
        adds, self._taken = self._sweep.adds_at(limit, self._paid, self._sizes)
        return adds

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        taken = self._taken.ravel()
        found: list[tuple[Any, Any, Any]] = [(np.zeros(0, int), np.zeros(0, int), np.zeros(0))]
        for size in np.unique(taken[taken > 0]).tolist():
            steps = self._sweep.side.steps(FOREVER, size)
            assert steps is not None
            rows, columns, values = steps.derivative()
            kept = taken[rows] == size
            found.append((rows[kept], columns[kept], values[kept]))
        rows, columns, values = (np.concatenate(each) for each in zip(*found, strict=True))
        return rows, columns, values

    def rough_limit(self, cost: Floats) -> Floats:
        """Where to begin the search of a limit."""
        first = self._sweep.side.later(1)
        if first is None or self._sweep.side.together is not None:
            return cost
        return rough_limit(first, cost)


def _doubling(sizes: Sequence[int]) -> list[int]:
    """Some of the sizes of blocks, each at least twice the one before."""
    chosen = [1]
    for size in sizes:
        if size >= 2 * chosen[-1]:
            chosen.append(size)
    return chosen


def _may_gain(steps: Steps, variation: Floats, spent: float, least: Floats) -> bool:
    """Whether a block may be below the least so far, by a quick lower bound on its steps."""
    low = getattr(steps, "least", None)
    return low is None or bool(np.any(spent + low(variation) < least * (1 - _GAIN)))


def stretches_of_both(
    left: Sequence[Stretch], right: Sequence[Stretch], runs: CostRuns, marks: Iterable[int] = ()
) -> Iterator[tuple[int, int, Floats, Floats, Floats]]:
    """First and last entry of every stretch, the cost of an entry there, and what each side adds.

    ``right`` counts entries from the right end; a new stretch begins at each of ``marks`` too.
    """
    ends = list(accumulate(count for count, _ in runs))
    length = ends[-1]
    firsts = {1, *(end + 1 for end in ends[:-1]), *(stretch.first for stretch in left)}
    firsts |= {length + 1 - stretch.last for stretch in right}
    firsts |= {mark for mark in marks if mark <= length}
    ours, theirs = 0, len(right) - 1
    for first, after in pairwise([*sorted(firsts), length + 1]):
        while left[ours].last < first:
            ours += 1
        while right[theirs].first > length + 1 - first:
            theirs -= 1
        cost = runs[bisect_left(ends, first)][1]
        yield first, after - 1, cost, left[ours].steps, right[theirs].steps


LossRow = tuple[int, int, Floats]
"""First and last entry of a stretch, and the loss of every pair of secrets there."""

Sides = tuple[list[Stretch], list[Stretch]]

Circle = tuple[list[Floats], list[Floats]]
"""What a side adds at every slot, and the limits that imply it."""


@dataclass
class PartCurve:
    """The curve of one part, for series of one length.

    What its sides add is stored for a few profiles: used again by `record`, and as starting points
    of the search for profiles close to these.
    """

    part: Part
    length: int
    _known: dict[tuple[int, bytes], list[Stretch]] = field(default_factory=dict)
    _enough: tuple[bytes, Sides | None] = (b"", None)
    _shown: tuple[Floats, Floats] | None = None
    _rounds: dict[bool, tuple[float, list[Floats]]] = field(default_factory=dict)
    _turned: dict[bool, tuple[bytes, Circle]] = field(default_factory=dict)
    _begun: dict[int, Floats] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the part."""
        return self.part.name

    @property
    def window(self) -> int:
        """Number of entries that a secret is about, at most the length of the series."""
        return min(self.part.secret.window, self.length)

    def losses(self, runs: CostRuns, most: float = LARGEST) -> list[LossRow] | None:
        """The loss of every pair of secrets at every stretch of entries; ``None`` if of no use.

        Pairs of values that an entry cannot have lose nothing. Stretches that lose no more than
        another one, for every pair, may be left out.
        """
        rows = self._all_rows(runs, most)
        return rows and [(first, last, bounding(pairs)) for first, last, pairs in rows]

    def _all_rows(self, runs: CostRuns, most: float) -> list[LossRow] | None:
        """The same, as the sides give it."""
        if self.part.sojourns is not None:
            return self._of_sojourns(runs, most)
        hidden = self._hidden(runs)
        if self.part.clock is None:
            sides = self._both(self._sides, runs=hidden, most=most)
            return None if sides is None else self._rows(sides, runs, hidden, 0, most)
        if not self._entry_by_entry(runs):
            return self._round_the_clock(runs, hidden, most)
        rows: list[LossRow] = []
        for phase in self.part.clock.phases:
            sides = self._both(self.part.clock.sides(phase, self.length), hidden, most, phase)
            further = None if sides is None else self._rows(sides, runs, hidden, phase, most)
            if further is None:
                return None
            rows += further
        return rows

    @property
    def _sides(self) -> tuple[Side, Side]:
        left, right = self.part.left, self.part.right
        assert left is not None
        assert right is not None
        return left, right

    def limits(self, runs: CostRuns) -> tuple[Floats, Floats] | None:
        """The largest variation of every pair beyond an entry, to its left and to its right."""
        return self.variations(runs) if self._alike else None

    def variations(self, runs: CostRuns) -> tuple[Floats, Floats] | None:
        """How far the likelihood varies with a state: by its entry and all on the left, or right.

        Where the state is hidden, what is beyond is as well.
        """
        hidden = self._hidden(runs)
        cost = np.max([own for _, own in hidden], axis=0)
        sides = self._both(self._sides, hidden, LARGEST)
        if sides is None:
            return None
        ours, theirs = (np.max([one.steps for one in side], axis=0) for side in sides)
        return closure(plus(cost, ours)), closure(plus(cost, theirs))

    def within(self, near: tuple[Floats, Floats] | None, runs: CostRuns, most: float) -> bool:
        """Whether limits close to those of another part show that no pair loses more than ``most``.

        Any matrix C with F(C) = cost + step(C) <= C bounds every entry, and then F(C) does too. So
        a few steps from above decide, where the search of the least C takes many. The proof that
        was found is kept for `record`, and begins the next one.
        """
        if near is None or not self._alike:
            return False
        cost = np.max([own for _, own in runs], axis=0)
        room, more = (r * float(cost.max()) * off_diagonal(len(cost)) for r in (0.1 * SLACK, _ROOM))
        steps = [side.later(1) for side in self._sides]
        limits = list(near if self._shown is None else self._shown)
        if self._shown is None and all(getattr(own, "rough", None) for own in steps):
            limits = [rough_limit(own, cost + more) for own in steps if own is not None]
            left = most - float(self._weighed(limits[0] + limits[1] - cost, self._together).max())
            limits = [limit + max(_ABOVE * left, 0) * (more > 0) for limit in limits]
        for _ in range(_TRIES if None not in steps else 0):
            adds = [own(c) for own, c in zip(steps, limits, strict=True) if own is not None]
            further = [closure(plus(cost, own)) for own in adds]
            # A record rounds a limit up, by less than this.
            holds = [bool(np.all(f + room <= c)) for f, c in zip(further, limits, strict=True)]
            if all(holds):
                loss = self._weighed(cost + adds[0] + adds[1], self._together)
                if float(loss.max()) * (1 + PRECISION) <= most:
                    self._enough = _digest(runs), self._bounded(limits, adds, runs)
                    self._shown = limits[0], limits[1]
                    return True
            limits = [f if held else f + more for f, held in zip(further, holds, strict=True)]
            if not max(float(limit.max()) for limit in limits) <= LARGEST:
                break
        return False

    def _bounded(self, limits: Sequence[Floats], adds: Sequence[Floats], runs: CostRuns) -> Sides:
        """The stretches of both sides where one limit to either bounds all entries."""
        sides: list[list[Stretch]] = []
        for limit, own, side in zip(limits, adds, (runs, runs[::-1]), strict=True):
            stretches, first = [Stretch(1, 1, np.zeros_like(own), None)], 2
            for last in accumulate(count for count, _ in side):
                if last >= first:
                    stretches.append(Stretch(first, last, own, limit, {1: limit}))
                    first = last + 1
            sides.append(stretches)
        return sides[0], sides[1]

    @property
    def _together(self) -> Bools:
        """Pairs of values that are possible at the same entry, of the last ones in turn."""
        last = self.part.possible[-self.part.cycle :]
        return np.asarray(np.any([np.outer(here, here) for here in last], axis=0))

    @property
    def _alike(self) -> bool:
        """Whether all entries are alike, single and seen."""
        part, sides = self.part, (self.part.left, self.part.right)
        single = part.secret.is_entry and not part.secret.state and len(part.possible) == 1
        if part.emission is not None or not single:
            return False
        settles = min(2, self.length)  # a single entry has no steps
        return all(s is not None and s.settled <= settles and s.together is None for s in sides)

    def _hidden(self, runs: CostRuns) -> CostRuns:
        """The cost of replacing hidden states, from that of replacing entries."""
        emission = self.part.emission
        return runs if emission is None else [(n, emission(closure(cost))) for n, cost in runs]

    def _both(
        self, sides: tuple[Side, Side], runs: CostRuns, most: float, phase: int = 0
    ) -> Sides | None:
        """What both sides add; ``None`` if that is of no use."""
        alike = all(side.settled <= 2 for side in sides) and len(self.part.possible) == 1
        ours = self._swept(2 * phase, sides[0], runs, most, alike)
        if ours is None or (sides[0] is sides[1] and len(runs) == 1):
            return None if ours is None else (ours, ours)
        theirs = self._swept(2 * phase + 1, sides[1], runs[::-1], most, alike)
        return None if theirs is None else (ours, theirs)

    def _swept(
        self, which: int, side: Side, runs: CostRuns, most: float, alike: bool
    ) -> list[Stretch] | None:
        """What a side adds, starting from the stored profiles."""
        if len(runs) > 1:
            return swept(side, runs, most)
        key = which, runs[0][1].tobytes()
        if key not in self._known:
            settles = side.settled <= runs[0][0]
            near = self._near(which, side, runs[0][1], most) if settles else None
            stretches = swept(side, runs, most, near, alike=alike)
            if stretches is None:
                return None
            room = max(_MOST_KNOWN, 2 * self._many_sides)
            if len(self._known) >= room:
                del self._known[next(iter(self._known))]
            self._known[key] = stretches
        return self._known[key]

    @property
    def _many_sides(self) -> int:
        """How many sides are swept for one profile."""
        if self.part.sojourns is not None:
            return len(self.part.sojourns.starts) + len(self.part.sojourns.ends)
        return 2 if self.part.clock is None else 2 * len(self.part.clock.phases)

    def _of_sojourns(self, runs: CostRuns, most: float) -> list[LossRow] | None:
        """The loss of an entry anywhere in a sojourn, at the largest cost of each pair."""
        cost = np.max([own for _, own in runs], axis=0)
        ((_, hidden),) = self._hidden([(1, cost)])
        sides = self._along_sojourns(hidden, most)
        if sides is None:
            return None
        adds = [
            np.max([one.steps for stretches in side for one in stretches], axis=0) for side in sides
        ]
        # All other entries of the series may be paid for instead.
        paid = self._hidden(runs)
        others = everything(paid) - min(float(own.max()) for _, own in paid)
        both = np.minimum((adds[0] + adds[1]) * (1 + 2 * EPS), max(others, 0.0))
        losses = self._secret_loss(cost, hidden, both * off_diagonal(len(hidden)))
        return [(1, self.length, losses)]

    def _along_sojourns(
        self, cost: Floats, most: float
    ) -> tuple[list[list[Stretch]], list[list[Stretch]]] | None:
        """What is added for every kind of start and of end; ``None`` if that is of no use."""
        assert self.part.sojourns is not None
        starts, ends = self.part.sojourns.starts, self.part.sojourns.ends
        found: list[list[Stretch]] = []
        for which, side in enumerate((*starts, *ends)):
            stretches = self._swept(which, side, [(ENDLESS, cost)], most, alike=False)
            if stretches is None:
                return None
            found.append(stretches)
        return found[: len(starts)], found[len(starts) :]

    def _rows(
        self, sides: Sides, runs: CostRuns, hidden: CostRuns, phase: int, most: float
    ) -> list[LossRow] | None:
        """The losses, from what both sides add; the first entry is at slot ``phase``."""
        secret = self.part.secret
        if secret.sets is not None:
            return self._of_sets(sides, runs, most)
        if secret.labels is not None:
            return self._of_labels(sides, runs)
        if self.window > 1:
            return self._of_windows(sides, runs, phase)
        if self.part.emission is not None:
            return self._of_hidden(sides, runs, hidden)
        return self._of_entries(sides, runs, phase)

    def _of_entries(self, sides: Sides, runs: CostRuns, phase: int) -> list[LossRow]:
        """The loss of every pair of values of an entry, which is the state itself."""
        possible, cycle, rows = self.part.possible, self.part.cycle, []
        marks = range(1, (self.length if self.part.clock else len(possible)) + 1)
        for first, last, cost, before, after in stretches_of_both(*sides, runs, marks):
            if self.part.clock is not None:
                here = possible[(phase + first - 1) % len(possible)]
                both = np.outer(here, here)
            elif first > len(possible) - cycle:
                both = self._together
            else:
                here = possible[first - 1]
                both = np.outer(here, here)
            rows.append((first, last, self._weighed(cost + before + after, both)))
        return rows

    def _weighed(self, loss: Floats, both: Bools | None = None) -> Floats:
        """Losses rounded up, those of secrets only."""
        loss = loss * (1 + 8 * EPS)
        if self.part.secret.weights is not None:
            loss = loss * self.part.secret.weights * (1 + 4 * EPS)
        return loss if both is None else np.where(both, loss, 0.0)

    def _of_hidden(self, sides: Sides, runs: CostRuns, hidden: CostRuns) -> list[LossRow]:
        """The same where entries depend on hidden states."""
        return [
            (first, last, self._secret_loss(cost, own, steps))
            for first, last, cost, own, steps in self._undominated(sides, runs, hidden)
        ]

    def _undominated(
        self, sides: Sides, runs: CostRuns, hidden: CostRuns
    ) -> list[tuple[int, int, Floats, Floats, Floats]]:
        """Stretches whose costs and steps are not below those of another.

        First and last entry, the cost of an entry and of its hidden state, what both sides add.
        """
        ends = list(accumulate(count for count, _ in runs))
        stretches = [
            (first, last, runs[bisect_left(ends, first)][1], own, before + after)
            for first, last, own, before, after in stretches_of_both(*sides, hidden)
        ]
        kept: list[tuple[int, int, Floats, Floats, Floats]] = []
        for stretch in sorted(stretches, key=lambda one: -one[4].max()):
            _, _, cost, _, steps = stretch
            if not any(np.all(cost <= c) and np.all(steps <= s) for _, _, c, _, s in kept):
                kept.append(stretch)
        return kept

    def _secret_loss(self, cost: Floats, hidden: Floats, steps: Floats) -> Floats:
        """The loss of every pair of secrets, from what both sides add to the hidden states."""
        if self.part.secret.state:
            return self._weighed(hidden + steps)
        if self.part.posterior:
            loss = cost + self.part.posterior[0](closure(steps))
        else:
            loss = cost + float(steps.max()) * off_diagonal(len(cost))
        here = self.part.possible[0]
        return self._weighed(loss, np.outer(here, here))

    def _of_sets(self, sides: Sides, runs: CostRuns, most: float) -> list[LossRow] | None:
        """The loss of one entry when others are given, times the number of entries of a set."""
        cost = np.max([own for _, own in runs], axis=0)
        pinned = self._pinned(cost, most)
        if pinned is None:
            return None
        adds = [
            np.max([own.adds, *(stretch.steps for stretch in stretches)], axis=0)
            for own, stretches in zip(pinned, sides, strict=True)
        ]
        count = min(self.part.secret.count, self.length)
        return [(1, self.length, count * (cost + adds[0] + adds[1]) * (1 + 16 * EPS))]

    def _pinned(self, cost: Floats, most: float) -> tuple[Pinned, Pinned] | None:
        """What the left and the right side add when an entry beyond them is given."""
        assert self.part.secret.sets is not None
        left = self.part.secret.sets[0](cost, most)
        right = None if left is None else self.part.secret.sets[1](cost, most)
        return None if left is None or right is None else (left, right)

    def _of_labels(self, sides: Sides, runs: CostRuns) -> list[LossRow] | None:
        """The loss of every pair of labels of the windows of the series.

        Windows of the same cost are bounded together, by the largest step of a side.
        """
        assert self.part.secret.labels is not None
        if self.part.secret.window > self.length:  # no window, nothing to hide
            return [(1, self.length, np.zeros((1, 1)))]
        rows: list[LossRow] = []
        for first, last, *given in self._alike_windows(sides, runs):
            losses = self.part.secret.labels(*given)
            if losses is None:
                return None
            rows.append((first, last, losses))
        return rows

    def _alike_windows(
        self, sides: Sides, runs: CostRuns
    ) -> list[tuple[int, int, Floats, Floats, Floats]]:
        """Windows of one cost: the first and the last, the cost, the most that each side adds."""
        alike: dict[bytes, list[tuple[int, int, Floats, float, Floats, Floats]]] = {}
        for one in self._windows(sides, runs):
            alike.setdefault(one[2].tobytes(), []).append(one)
        return [
            (
                group[0][0],
                group[-1][1],
                group[0][2],
                np.max([before for *_, before, _ in group], axis=0),
                np.max([after for *_, after in group], axis=0),
            )
            for group in alike.values()
        ]

    def _of_windows(self, sides: Sides, runs: CostRuns, phase: int) -> list[LossRow]:
        """The loss between values of the windows of the series, by their first entries.

        Two events about a window are mixtures of its values, so they lose no more.
        """
        rows = []
        for first, last, cost, inside, before, after in self._windows(sides, runs):
            losses = self._value_losses(cost, before, after, phase + first - 1)
            if len(runs) > 1:
                # Entries exchanged one by one, whichever values they have.
                whole = inside + float(before.max()) + float(after.max())
                losses = np.minimum(losses, whole * (1 + 32 * len(runs) * EPS))
            rows.append((first, last, losses))
        return rows

    def _value_losses(self, cost: Floats, left: Floats, right: Floats, slot: int) -> Floats:
        """The loss between values of a window whose first entry is at ``slot``."""
        follows, possible = self.part.follows, self.part.possible
        ahead = (
            [follows[(slot + n) % len(follows)] for n in range(self.window - 1)]
            if follows
            else None
        )
        losses = value_losses(cost, left, right, self.window, ahead)
        if not follows:
            return losses
        here = possible[slot % len(possible)]
        return np.where(np.outer(here, here), losses, 0.0)

    def _windows(
        self, sides: Sides, runs: CostRuns
    ) -> Iterator[tuple[int, int, Floats, float, Floats, Floats]]:
        """Ranges of first entries of windows: from, to, cost, what all pay, what each side adds.

        The cost is the largest of the window, pair by pair.
        """
        (ours, theirs), window = sides, self.window
        ends = list(accumulate(count for count, _ in runs))
        last = self.length - window + 1
        marks = {1, *(stretch.first for stretch in ours)}
        marks |= {last + 1 - stretch.last for stretch in theirs}
        # Between such places what the entries of a window pay is linear: its ends pay most.
        marks |= {end + 1 for end in ends} | {end - window + n for end in ends for n in (1, 2)}
        paid = [float(cost.max()) for _, cost in runs]
        totals = [0.0, *accumulate(count * b for (count, _), b in zip(runs, paid, strict=True))]

        def total(entry: int) -> float:
            run = bisect_left(ends, entry)
            return totals[run] + (entry - (ends[run - 1] if run else 0)) * paid[run] if entry else 0

        def inside(first: int) -> float:
            return total(first + window - 1) - total(first - 1)

        ordered = sorted(mark for mark in marks if 1 <= mark <= last)
        for first, after in pairwise([*ordered, last + 1]):
            here = range(bisect_left(ends, first), bisect_left(ends, after + window - 2) + 1)
            cost = np.max([runs[run][1] for run in here], axis=0)
            a = ours[bisect_left(ours, first + 1, key=lambda s: s.first) - 1].steps
            z = theirs[bisect_left(theirs, last + 2 - first, key=lambda s: s.first) - 1].steps
            yield first, after - 1, cost, max(inside(first), inside(after - 1)), a, z

    def _entry_by_entry(self, runs: CostRuns) -> bool:
        """Whether series with seasons are computed entry by entry."""
        assert self.part.clock is not None
        most = _EXPLICIT_STEPS[len(runs) > 1]
        return len(self.part.clock.phases) * self.length <= most

    def _round_the_clock(
        self, runs: CostRuns, hidden: CostRuns, most: float
    ) -> list[LossRow] | None:
        """The same for long series with seasons: the largest cost of each pair at all entries."""
        cost = np.max([c for _, c in runs], axis=0)
        own = np.max([c for _, c in hidden], axis=0)
        left = self._circle(own, most, to_left=True)
        right = None if left is None else self._circle(own, most, to_left=False)
        if left is None or right is None:
            return None
        rows, possible = [], self.part.possible
        for slot, here in enumerate(possible):
            before, after = left[0][slot], right[0][(slot + self.window - 1) % len(possible)]
            if self.window > 1:
                losses = self._value_losses(cost, before, after, slot)
            else:
                losses = self._weighed(cost + before + after, np.outer(here, here))
            rows.append((1, self.length, losses))
        return rows

    def _circle(self, cost: Floats, most: float, *, to_left: bool) -> Circle | None:
        """What a side adds at every slot, and the limits C that imply it.

        Slots are visited against the direction in which the side runs, so that each step is taken
        at the limit of this round, except at the slot where the round begins: that one uses the
        limit of the previous round. Limits are for a cost raised by a slack. After the first round
        those of all later slots follow from that of the slot being visited. So as soon as its
        step leads back to it, up to half the slack, all limits less this half are bounds.
        """
        clock = self.part.clock
        assert clock is not None
        if to_left in self._turned and self._turned[to_left][0] == cost.tobytes():
            return self._turned[to_left][1]
        steps, ahead = (clock.left, -1) if to_left else (clock.right, 1)
        period, outside = len(steps), off_diagonal(len(cost))
        order = range(period) if to_left else range(period - 1, -1, -1)
        slack = slack_of(float(cost.max()))
        raised = cost + slack * outside
        limits = [closure(raised) for _ in range(period)]
        if to_left in self._rounds:
            before, warm = self._rounds[to_left]
            scale = float(cost.max()) / before
            limits = [closure(np.maximum(scale * limit, raised) * outside) for limit in warm]
        tables = [raised] * period
        for turn in range(_MOST_PERIODS):
            for slot in order:
                tables[slot] = steps[slot](limits[(slot + ahead) % period])
                update = closure((raised + tables[slot]) * outside * (1 + 4 * EPS))
                if not float(update.max()) <= min(most, LARGEST):
                    return None
                if turn and float(np.abs(update - limits[slot]).max()) <= 0.5 * slack:
                    self._rounds[to_left] = float(cost.max()), limits
                    found = tables, [limit - 0.5 * slack * outside for limit in limits]
                    self._turned[to_left] = cost.tobytes(), found
                    return found
                limits[slot] = update
        return None

    def _near(self, which: int, side: Side, cost: Floats, most: float) -> Floats | None:
        """A stored limit brought to this cost, where the search begins; within ``most``.

        Single entries follow the tangent at the closest one. With blocks there can be several
        limits, of which a search from below finds the least: they begin at the next smaller one.
        """
        largest, known = float(cost.max()), []
        for (stored, profile), stretches in self._known.items():
            own, last = float(np.frombuffer(profile).max()), stretches[-1]
            if stored == which and last.limit is not None and min(own, largest) > 0:
                single = set(last.beyond) <= {1}
                if single or own <= largest:
                    known.append((abs(log(largest / own)), own, last.limit, single))
        if not known:
            return self._begun.get(which)
        away, size, limit, single = min(known, key=lambda one: one[0])
        power = _power(side.later(1), limit, cost * (size / largest)) if single else 1.0
        more = (away if size <= largest else -away) * power
        grown: Floats = limit * np.exp(np.minimum(more, LARGEST))
        return grown * min(1.0, _WITHIN * most / float(grown.max()))

    def loss(self, runs: CostRuns, most: float = LARGEST) -> EntryLoss:
        """The largest loss, where it is, and the losses of all pairs there.

        Exchanging all entries bounds every loss.
        """
        weights = self.part.secret.weights
        whole = everything(runs) * (1.0 if weights is None else float(weights.max()))
        rows = self.losses(runs, most)
        if not rows:
            return EntryLoss(whole * (1 + 2 * EPS), 1)
        first, last, losses = max(rows, key=lambda row: float(row[2].max()))
        if float(losses.max()) > whole:
            return EntryLoss(whole * (1 + 2 * EPS), 1)
        return EntryLoss(float(losses.max()) * (1 + 2 * EPS), (first + last) // 2, losses)

    def entry_losses(self, runs: CostRuns) -> Floats:
        """The loss of every entry; the largest of all where an entry has none of its own."""
        largest = self.loss(runs).value
        losses = np.full(self.length, -inf)
        if self.part.secret.is_entry:
            for first, last, pairs in self.losses(runs) or []:
                own = min(float(pairs.max()), largest)
                losses[first - 1 : last] = np.maximum(losses[first - 1 : last], own)
        return np.where(losses > -inf, losses, largest)

    def pair_losses(self, runs: CostRuns) -> Floats:
        """The loss of every pair of secrets, the largest over the entries."""
        largest, rows = self.loss(runs).value, self.losses(runs)
        if not rows:
            return largest * off_diagonal(len(runs[0][1]))
        pairs: Floats = np.max([losses for _, _, losses in rows], axis=0)
        return np.minimum(pairs, largest)

    def solve(
        self,
        metric: Floats,
        epsilon: float,
        most: float = inf,
        progress: Progress | None = None,
    ) -> tuple[float, EntryLoss]:
        """The largest b reached for which the cost ``b metric`` per entry loses at most epsilon.

        The loss was computed for the b that is returned, and is at most epsilon. Nothing above
        ``most`` is tried.
        """

        def loss_at(b: float) -> tuple[float, EntryLoss]:
            loss = self.loss([(self.length, b * metric)], self.useful(epsilon))
            return loss.value, loss

        least = min(most, epsilon / self.length * (1 - 1e-12))
        start = self._beginning(metric, epsilon)
        found = largest_within(loss_at, epsilon, start, most, PRECISION, progress=progress)
        return (least, loss_at(least)[1]) if found is None or found[0] < least else found

    def _beginning(self, metric: Floats, epsilon: float) -> float:
        """Where to begin the search of a b: about where it ends, if rough bounds tell that."""
        part, start = self.part, epsilon * _BEGIN
        if part.clock is not None and not self._entry_by_entry([(self.length, metric)]):
            return self._beginning_round(part.clock, metric, epsilon) or start
        if part.left is None or part.right is None or not part.secret.is_entry:
            return start
        both = part.left, part.right
        if any(side.settled > self.length or side.together is not None for side in both):
            return start
        sides = [side.later(1) for side in both]
        if None in sides or not metric.any():
            return start
        cost = epsilon * metric
        ((_, hidden),) = self._hidden([(1, cost)])

        def loss_at(share: float, adds: Floats) -> float:
            if part.emission is None:
                loss = self._weighed(share * cost + adds, self._together)
            else:
                loss = self._secret_loss(share * cost, share * hidden, adds)
            return float(loss.max())

        rough = rough_limits([own for own in sides if own is not None], hidden, loss_at, epsilon)
        if rough is None:
            return start
        share, limits = rough
        self._begun = dict(enumerate(limits))
        return share * epsilon

    def _beginning_round(self, clock: Seasons, metric: Floats, epsilon: float) -> float | None:
        """The same with seasons, by rounds of rough bounds; ``None`` if there are none."""
        sides = clock.left, clock.right
        both: list[list[Callable[[Floats], Floats]]] = [
            [own.rough for own in side if getattr(own, "rough", None)]  # type: ignore[attr-defined]
            for side in sides
        ]
        if not self.part.secret.is_entry or self.part.emission is not None or not metric.any():
            return None
        if [len(side) for side in both] != [len(side) for side in sides]:
            return None
        share, limits = 1.0, [[epsilon * metric] * len(clock.left)] * 2
        for _ in range(_ROUGH_ROUNDS):
            cost = share * epsilon * metric
            limits = [
                _round_of(rough, cost, limit, ahead)
                for rough, limit, ahead in zip(both, limits, (-1, 1), strict=True)
            ]
            losses = [
                self._weighed(limits[0][slot] + limits[1][slot] - cost, np.outer(here, here))
                for slot, here in enumerate(self.part.possible)
            ]
            most = float(np.max(losses))
            if not 0 < most < LARGEST:
                return None
            more = epsilon / most
            share, limits = share * more, [[more * own for own in side] for side in limits]
        largest = share * epsilon * float(metric.max())
        self._rounds = {True: (largest, limits[0]), False: (largest, limits[1])}
        return share * epsilon

    def useful(self, epsilon: float) -> float:
        """The largest variation that can leave a loss of epsilon.

        Hidden states may be easier to distinguish than their entries, and so may values that are
        not secrets: no variation is too large for them.
        """
        return 4 * epsilon + 1 if self._all_secret and self.part.emission is None else LARGEST

    @property
    def _all_secret(self) -> bool:
        """Whether any two values of an entry are a secret, or part of one."""
        secret = self.part.secret
        return secret.labels is None and secret.weights is None and not secret.state

    def largest_cost(self, metric: Floats, epsilon: float) -> float:
        """The b above which some secret pair of values loses more than epsilon by its entry alone.

        Theorem: FIXES 2. The loss does not fall with b, and a secret pair of values loses at least
        b metric(x, x') times its weight. So the search ends where that is epsilon. Without a secret
        pair of positive cost (labels, regimes, pairs that move no answer) nothing ends it but the
        largest float, and any b whose loss was computed to be at most epsilon is valid.
        """
        weights = self.part.secret.weights
        if not metric.any():
            return epsilon  # nothing moves the answer, and no b matters
        if self._all_secret:
            return epsilon / float(metric.max())
        ends = LARGEST / float(metric.max())
        if weights is None:
            return ends
        together = np.any([np.outer(here, here) for here in self.part.possible], axis=0)
        share = np.where(together, weights * metric, 0.0).max()
        return min(ends, epsilon / float(share)) if share > 0 else ends

    def record(self, runs: CostRuns) -> dict[str, Any] | None:
        """Proof of the losses: limits, blocks and plans of each side; ``None`` without one.

        With hidden states also the plans of the ``emission`` and of the ``last`` step, with the
        entries where it was taken; with seasons both sides for each first slot, or one limit.
        """
        hidden, clock = self._hidden(runs), self.part.clock
        record: dict[str, Any] = {}
        largest = np.max([cost for _, cost in runs], axis=0)
        if self.part.sojourns is not None:
            return self._sojourns_record(largest)
        if clock is not None and not self._entry_by_entry(runs):
            circles = [self._circle_record(largest, to_left=left) for left in (True, False)]
            return None if None in circles else dict(zip(("left", "right"), circles, strict=True))
        if clock is not None:
            for phase in clock.phases:
                both = clock.sides(phase, self.length)
                sides = self._both(both, hidden, LARGEST, phase)
                if sides is None:
                    return None
                for name, side, stretches in zip(("left", "right"), both, sides, strict=True):
                    own = _side_record(side, hidden, stretches)
                    record.setdefault(name, []).append(own)
            return record
        digest, sides = self._enough
        if digest != _digest(runs):
            sides = self._both(self._sides, hidden, LARGEST)
        if sides is None:
            return None
        for name, side, stretches in zip(("left", "right"), self._sides, sides, strict=True):
            record[name] = _side_record(side, hidden, stretches)
        further = self._last_record(sides, runs, hidden)
        return None if further is None else {**record, **self._shown_record(runs), **further}

    def _sojourns_record(self, cost: Floats) -> dict[str, Any] | None:
        """The proof of every kind of start and of end, and the plans of the emission."""
        part, hidden = self.part, self._hidden([(ENDLESS, cost)])
        sides = self._along_sojourns(hidden[0][1], LARGEST)
        if sides is None or part.sojourns is None:
            return None
        kinds = part.sojourns.starts, part.sojourns.ends
        both = [
            [_side_record(own, hidden, found) for own, found in zip(kind, swept, strict=True)]
            for kind, swept in zip(kinds, sides, strict=True)
        ]
        return {"left": both[0], "right": both[1], **self._shown_record([(1, cost)])}

    def _shown_record(self, runs: CostRuns) -> dict[str, Any]:
        """The plans of what entries show of hidden states."""
        emission = self.part.emission
        if emission is None:
            return {}
        if isinstance(emission, HiddenCost):
            return {"emission": None}
        return {"emission": _plans_at((emission, closure(cost)) for _, cost in runs)}

    def _last_record(self, sides: Sides, runs: CostRuns, hidden: CostRuns) -> dict[str, Any] | None:
        """What a proof has beside its sides: the last step, or that of sets."""
        part, secret = self.part, self.part.secret
        if secret.sets is not None:
            pinned = self._pinned(np.max([cost for _, cost in runs], axis=0), LARGEST)
            if pinned is None:
                return None
            most = max(float(cost.max()) for _, cost in runs)
            both = [
                {"limit": _limit_record(one.limit, most), "plans": _plans_at(one.taken)}
                for one in pinned
            ]
            return {"pinned": both}
        if secret.labels is not None and secret.window <= self.length:
            windows = self._alike_windows(sides, runs)
            taken = [one for _, _, *given in windows for one in secret.labels.taken(*given)]
            return {"last": {"plans": _plans_at(taken)}}
        if part.posterior and not secret.state:
            places = self._undominated(sides, runs, hidden)
            taken = [(part.posterior[0], closure(steps)) for *_, steps in places]
            return {"last": {"entries": [first for first, *_ in places], "plans": _plans_at(taken)}}
        return {}

    def _circle_record(self, cost: Floats, *, to_left: bool) -> dict[str, Any] | None:
        """The limit at the slot after the last of a round: one round from there implies all."""
        circle, clock = self._circle(cost, LARGEST, to_left=to_left), self.part.clock
        if circle is None or clock is None:
            return None
        period = len(circle[1])
        slot = period - 1 if to_left else 0
        order = range(period) if to_left else range(period - 1, -1, -1)
        steps, variation, taken = clock.left if to_left else clock.right, circle[1][slot], []
        for place in order:
            taken.append((steps[place], variation))
            variation = closure((cost + steps[place](variation)) * off_diagonal(len(cost)))
        limit = _limit_record(circle[1][slot], float(cost.max()))
        return {"slot": slot, "limit": limit, "plans": _plans_at(taken)}


def block_sizes(length: int) -> list[int]:
    """Blocks to try: all up to sixteen, then they grow by a quarter."""
    sizes, size = [1], 1
    while len(sizes) < _MOST_SIZES and size + 1 < length:
        size = size + 1 if size < _ALL_SIZES else int(size * _GROWTH)
        sizes.append(min(size, length - 1))
    return sizes


def loss(part: Part, runs: CostRuns) -> EntryLoss:
    """The largest loss of an entry of a series of these costs."""
    return PartCurve(part, sum(count for count, _ in runs)).loss(runs)


def _round_of(
    rough: Sequence[Callable[[Floats], Floats]], cost: Floats, limits: list[Floats], ahead: int
) -> list[Floats]:
    """About the variation at every slot, once more round the clock."""
    limits, period = list(limits), len(rough)
    for slot in range(period) if ahead < 0 else range(period - 1, -1, -1):
        limits[slot] = closure(cost + rough[slot](limits[(slot + ahead) % period]))
    return limits


def _power(steps: Steps | None, limit: Floats, cost: Floats) -> Floats:
    """By which power of the cost each pair of a limit grows there, by its tangent."""
    power = np.ones_like(limit)
    if steps is None or not float(limit.max()) <= LARGEST:
        return power
    steps(limit)
    further = newton(steps, limit, limit + cost)
    if further is not None:
        np.divide(further - limit, limit, out=power, where=limit > 0)
    return np.clip(power, 0.5, 2.0)


def _digest(runs: CostRuns) -> bytes:
    return b"".join(count.to_bytes(8, "big") + cost.tobytes() for count, cost in runs)


def everything(runs: CostRuns) -> float:
    """What all entries cost together, rounded up: exchanging all of them costs no more."""
    total = sum(count * float(cost.max()) for count, cost in runs)
    return total * (1 + (len(runs) + 2) * 2 * EPS)


def _side_record(side: Side, runs: CostRuns, stretches: Sequence[Stretch]) -> dict[str, Any]:
    """Limits, the blocks of entries where they are not one entry long, and plans of one side."""
    cost = max(float(own.max()) for _, own in runs)
    return {
        "limits": [
            {
                "first": stretch.first,
                "last": stretch.last,
                "limit": _limit_record(stretch.limit, cost, side.together),
            }
            for stretch in stretches
            if stretch.last > stretch.first
        ],
        "blocks": [
            [stretch.first, list(stretch.beyond)]
            for stretch in stretches[1:]
            if list(stretch.beyond) != [1]
        ],
        "plans": packed(_bases(side, stretches)),
    }


def _limit_record(limit: Floats | None, cost: float, together: Bools | None = None) -> Any:
    """The text of a limit, rounded up: by less than the slack that its search left.

    Pairs of values that are never possible together count for nothing.
    """
    if limit is None:
        return None
    counted = limit if together is None else np.where(together, limit, 0.0)
    return packed_matrix(counted, 1e-2 * SLACK * cost)


def _bases(side: Side, stretches: Sequence[Stretch]) -> Iterator[bytes]:
    """The bases of the plans that give the steps of all entries but the first."""
    for stretch in stretches[1:]:
        entry = stretch.first if stretch.last == stretch.first else FOREVER
        for size, variation in stretch.beyond.items():
            steps = side.steps(entry, size)
            if stretch.trees is not None and isinstance(steps, Transport):
                yield from bases_in(steps.kernels, [bipartite(steps.kernels[0], stretch.trees)])
            elif isinstance(steps, (Transport, Contaminated, Tilted)):  # others are formulas
                steps(variation)
                yield from bases_of(steps)


def _plans_at(taken: Iterable[tuple[Any, Floats]]) -> str | None:
    """The text of the plans of programmes, each at its variation."""

    def bases() -> Iterator[bytes]:
        for steps, variation in taken:
            steps(variation)
            yield from bases_of(steps)

    return packed(bases())
