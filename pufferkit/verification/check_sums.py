"""W-infinity and exact sums, recomputed for `pufferkit.verification.verify`.

Nothing shorter than the distribution of a sum proves how far a secret moves it, so it is computed
again, once for both mechanisms: every class of beliefs gives *tables* (`_tables`), the joint
distributions of the values of a secret with the sum. Only numbers above zero are added and
multiplied, in extended precision, so each is right up to a known factor.

**W** ([Q] Definition 3.1) is the least w such that for any two secrets, with F and G the
distribution functions of the answer given either, F(t) <= G(t + w) and G(t) <= F(t + w) for all t.
A tail counts as larger only if it is so by more than rounding, one part in 10^11. Of vectors, all
mass must be able to move within w: a plan is made and looked at, in whole numbers.

**The loss of a noisy sum** is the largest log-ratio, over outputs w and secrets x, x', of

    D_x(w) = sum over c of P(sum = c | x) e^(-|w - c| / scale),

and w need only run over the values of the sum: between two of them D_x is A e^(-w/scale) + C
e^(w/scale), so a ratio of two is monotone. For an entry of a long chain it is at most that of
publishing, besides the noisy sum over a window, the entries at both ends of it, whatever lies
beyond; a side that reaches to the end of the segment has no end to publish. Any reach of the window
proves its bound; the recorded one is tried first.

**Chains.** A walk over cases, each with a state, adds a whole number with every move: the value of
the state that it leads to, an episode that begins, a day that counts now. What came before an entry
is convolved with what follows it; to read the label of a window, the cases in between also have the
memory of an automaton.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import singledispatch
from itertools import combinations, product
from math import inf, lcm, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Beliefs, Member
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.finite_joint import JointClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.secrets import Counted, Events, Listed, Runs, Secrets
from pufferkit.rounding import as_fraction
from pufferkit.verification.claims import (
    TOLERANCE,
    Allowance,
    BadBeliefs,
    Claim,
    NotChecked,
    largest,
)

Numbers = Any  # arrays of np.longdouble

_NO_WEIGHTS = "the file does not hold what each state adds to the answer"
_ROUNDING = 1e-11
_LEAST = float(np.finfo(np.longdouble).minexp) + 200  # powers of 2 that extended precision holds
_MOST_BYTES = 2e9
_MOST_CELLS = 4e7
_MOST_VALUES = 256  # of a window whose values are all hidden
_SETTLED = 1e-13
_REACH, _TRIES = 8, 3


class _SecretSums(NamedTuple):
    """The values of a secret with what is published: their joint distribution, of some entries.

    ``rows`` has axes [value, left end, right end, sum]. Of entries that are alike but for what
    comes before them it is given the left end, and ``entries`` has for each which left ends are
    possible, and the probabilities of its values.
    """

    rows: Numbers
    entries: Sequence[tuple[NDArray[np.bool_], Numbers]] | None = None


@dataclass(frozen=True)
class RecordedSum:
    """What each state or move adds to the answer, if the file holds it, over which lengths."""

    weights: Sequence[Any] | None
    lengths: Sequence[int]
    work: Allowance
    data: Mapping[str, Any] = field(default_factory=dict)
    moves: tuple[Any, Any] | None = None
    days: tuple[Any, int, Any] | None = None
    reach: int | None = None
    """Of the windows around an entry of a long chain; all of a segment if there is none."""

    @property
    def secrets(self) -> Any:
        """Pairs of events that were to be hidden, if any were named."""
        return self.data.get("secrets") or None

    @property
    def values(self) -> tuple[list[int], Fraction]:
        """The weights as whole multiples of a unit above the least of them, and the unit."""
        if self.weights is None:
            raise NotChecked(_NO_WEIGHTS)
        denominator, least = lcm(*(w.denominator for w in self.weights)), min(self.weights)
        steps = [int((weight - least) * denominator) for weight in self.weights]
        unit = int(np.gcd.reduce(np.array(steps, dtype=object))) or 1
        return [step // unit for step in steps], Fraction(unit, denominator)

    def added(self, states: Sequence[Hashable]) -> dict[Hashable, int]:
        """What each state adds, in units."""
        return dict(zip(states, self.values[0], strict=True))


def by_distance(claim: Claim) -> float:
    """The scale W over epsilon."""
    record, theta = claim.record, claim.beliefs
    asked = _asked(claim)
    if claim.query.size > 1:
        most = Fraction(record.scale) * Fraction(record.epsilon) * (1 + Fraction(TOLERANCE))
        distance = _vectors_within(most, theta, asked)
    else:
        distance = distance_of(theta, asked)
    named = theta.names_secrets or asked.secrets is not None
    claim.checks.append(
        f"wasserstein: distributions of the answer given two "
        f"{'of the secrets' if named else 'values of an entry'} are at most "
        f"{float(distance):.9g} apart, over {theta.description}"
    )
    return float(distance) / record.epsilon


def by_loss(claim: Claim) -> float:
    """The recorded scale if the loss at it is small enough, of every belief and length."""
    record, theta, query, states = claim.record, claim.beliefs, claim.query, claim.beliefs.states
    asks, over = query.asks, getattr(query.evaluate, "over", None)
    asked = _asked(claim)
    if asks is not None and over is not None:
        asked = replace(asked, moves=asks.additive(states), days=asks.counted_days(over, states))
    if (asked.weights or asked.moves or asked.days) is None or query.size > 1 or not query.unit:
        raise NotChecked(_NO_WEIGHTS)
    unit = query.unit if asked.weights is None else asked.values[1]
    scale = record.scale * (1 + TOLERANCE) / float(unit)
    tried = [n for n in record.evidence.blocks or () if n is not None]
    enough = record.epsilon * (1 + TOLERANCE)
    worst = _loss_of(theta, asked, scale, enough, max(tried, default=None))
    claim.checks.append(
        f"exact_sum: the largest loss of a secret is {worst:.9g}, by the distribution of the sum "
        f"given its value, over {theta.description}"
    )
    return claim.scale_for(worst / (1 + TOLERANCE))


def _asked(claim: Claim) -> RecordedSum:
    """What each state adds, if the record says it; entries that were not observed are refused."""
    record, query = claim.record, claim.query
    if record.observed is not None:
        raise BadBeliefs(
            f"have no theorem by {record.mechanism} for entries that were not observed"
        )
    rows = None
    if query.weights is not None:
        nothing = (Fraction(0),) * query.size
        rows = [query.weights.get(state, nothing) for state in claim.beliefs.states]
    weights = rows if rows is None or query.size > 1 else [row[0] for row in rows]
    return RecordedSum(weights, record.lengths, claim.work, claim.proof)


@singledispatch
def distance_of(theta: Beliefs, asked: RecordedSum) -> Fraction:
    """W between any two secrets; of several segments distances add up."""
    if asked.secrets is not None and not networks_of(theta)[0]:
        pairs = product(_known_chains(theta, asked), asked.secrets)
        worst = max(_between_events(chain, pair, asked) for chain, pair in pairs)
    else:
        worst = max((int(_apart(own.rows[:, 0, 0])) for own in _tables(theta, asked)), default=0)
    return worst * asked.values[1]


@distance_of.register
def _(theta: JointClass, asked: RecordedSum) -> Fraction:
    """Its answers need not be whole multiples of a unit."""
    worst = Fraction(0)
    for given in _given(theta, asked):
        places = sorted({answer for own in given for answer in own})
        rows = [[float(own.get(place, 0)) for place in places] for own in given]
        worst = max(worst, _apart(np.array(rows, dtype=np.longdouble), places))
    return worst


def _loss_of(
    theta: Beliefs, asked: RecordedSum, scale: float, enough: float, reach: int | None
) -> float:
    """An upper bound on the loss: the first below ``enough``, or the least tried.

    Of windows around an entry of a chain, which reach further and further.
    """
    networks, rounding = networks_of(theta)
    if networks:
        return largest(_loss(table, scale) for table in _tables(theta, asked)) + rounding
    best, tried = inf, max(1, reach or _REACH)
    for _ in range(_TRIES if reach else 4 * _TRIES):
        own = asked if asked.days is not None else replace(asked, reach=tried)
        best = min(best, largest(_loss(table, scale) for table in _tables(theta, own)))
        if best <= enough or own.reach is None or 2 * tried >= max(asked.lengths):
            break
        tried += tried // 2 + 1
    return best


# --- what two distributions say -------------------------------------------------------------------


def _apart(given: Iterable[Numbers], places: Sequence[Any] | None = None) -> Any:
    """The largest W between two distributions, those without mass left out.

    Masses stand at 0, 1, 2, ... or at ``places``. Lower tails are compared below the middle and
    upper tails above it, each summed from its own end: by subtraction they would lose the rarest
    outcomes, and these decide.
    """
    rows = [masses / masses.sum() for masses in given if masses.any()]
    axis = np.arange(len(rows[0]) if rows else 1)
    if places is not None:
        axis = np.array([*places, 0], dtype=object)[:-1]
    worst = 0 * axis[0]
    for f, g in combinations(rows, 2):
        for a, b in ((f, g), (g, f)):
            for first, second, along in ((a, b, axis), (a[::-1], b[::-1], -axis[::-1])):
                lower = np.cumsum(first)
                low = np.flatnonzero((first > 0) & (lower - first < 0.5))
                heights = np.minimum(lower[low], 0.5)
                reached = np.searchsorted(np.cumsum(second) * (1 + _ROUNDING), heights)
                worst = max(worst, (along[reached] - along[low]).max())
    return worst


def _loss(table: _SecretSums, scale: float) -> float:
    """The largest loss between values of the secret, at noise of this scale."""
    rows, entries = table
    if entries is None:
        chances = rows.sum(axis=(1, 2, 3))
        rows, entries = rows[chances > 0], [(np.ones(rows.shape[1], bool), chances[chances > 0])]
    if len(rows) < 2:
        return 0.0  # nothing to hide
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(_smoothed(rows, scale))
        # Where neither is possible there is no such output.
        both = (np.where(np.isneginf(own) & np.isneginf(logs), own, own - logs) for own in logs)
        apart = np.array([own.max(axis=(2, 3)) for own in both])  # [x, x', left end]
        worst = []
        for lefts, chances in entries:
            here, of_values = chances > 0, np.log(chances[chances > 0])
            pairs = apart[:, :, lefts].max(axis=2)[np.ix_(here, here)]
            worst.append(float((pairs + of_values[None, :] - of_values[:, None]).max()))
    return largest(worst)


def _smoothed(sums: Numbers, scale: float) -> Numbers:
    """The sum over c of P(c) e^(-|w - c| / scale), along the last axis.

    From either side: of the nearest 1, 2, 4, ... values.
    """
    rate, span = 1 / np.longdouble(scale), sums.shape[-1]
    below, above = sums.copy(), np.zeros_like(sums)
    above[..., :-1] = sums[..., 1:] * np.exp(-rate)
    step = 1
    while step < span:
        fall = np.exp(-step * rate)
        below[..., step:] += fall * below[..., :-step]
        above[..., :-step] += fall * above[..., step:]
        step *= 2
    return below + above


# --- tables, for each class of beliefs ------------------------------------------------------------


@singledispatch
def networks_of(theta: Beliefs) -> tuple[Sequence[BayesianNetwork], float]:
    """The networks that beliefs are, and how far they are from them; none of chains and tables."""
    return (), 0.0


@networks_of.register
def _(theta: NetworkClass) -> tuple[Sequence[BayesianNetwork], float]:
    return theta.networks, 0.0


@networks_of.register
def _(theta: FieldClass) -> tuple[Sequence[BayesianNetwork], float]:
    classes, rounding = theta.networks()
    return [network for own in classes for network in own.networks], rounding


def _tables(theta: Any, asked: RecordedSum) -> Iterator[_SecretSums]:
    """The tables of every secret."""
    networks, _ = networks_of(theta)
    for network in networks:
        sums = NetworkSums(network, asked.work, asked.added(theta.states))
        for node in network.nodes if asked.secrets is None else ():
            yield _SecretSums(sums.joint((node,))[:, None, None])
        for pair in asked.secrets or ():
            events = [{_hashable(n): set(allowed) for n, allowed in event} for event in pair]
            yield _SecretSums(np.array([sums.joint((), event) for event in events])[:, None, None])
    chains = () if networks else _known_chains(theta, asked)
    for chain, length in product(chains, sorted(set(asked.lengths))):
        for secret in theta.every_secret():
            yield from _of_secret(chain, secret, length, asked)


def _hashable(node: Any) -> Hashable:
    """A name as read from JSON."""
    return tuple(node) if isinstance(node, list) else node


# --- chains ---------------------------------------------------------------------------------------


@singledispatch
def _members(theta: Beliefs) -> Sequence[Member]:
    raise BadBeliefs(f"have no recomputation of sums: a {theta.description}")


@_members.register
def _(theta: ChainClass) -> Sequence[Member]:
    return theta.known_members("a sum")


@_members.register
def _(theta: EventClass) -> Sequence[Member]:
    return theta.known_chains()


def _known_chains(theta: Any, asked: RecordedSum) -> list[MarkovChain]:
    """The chains of a class that names them with their starts."""
    members = _members(theta)
    theta.check_length(max(asked.lengths))
    return [member.chain for member in members]


def _between_events(chain: MarkovChain, pair: Any, asked: RecordedSum) -> int:
    """W between two events about named entries: the sum over the segments that they name."""
    events = [{int(entry): set(allowed) for entry, allowed in event} for event in pair]
    total, begin = 0, 0
    for length in asked.lengths:
        own = [
            {n - begin: states for n, states in event.items() if begin < n <= begin + length}
            for event in events
        ]
        if any(own):
            walk = _walk(chain, length, asked, length)
            total += int(_apart([walk.whole(event) for event in own]))
        begin += length
    return total


def _of_secret(
    chain: MarkovChain, hidden: Secrets, length: int, asked: RecordedSum
) -> Iterator[_SecretSums]:
    """The tables of one secret of a segment, at every place."""
    of_states, window = asked.moves is None and asked.days is None, min(hidden.window, length)
    if window == 1 and not isinstance(hidden, Events):
        tried = asked.reach or length
        reach = tried if 2 * tried < length else length
        yield from _walk(chain, length, asked, reach).entries(reach)
        return
    if not of_states or not isinstance(hidden, (Events, Runs)):
        raise BadBeliefs(f"have no theorem for sums, and {hidden.description}")
    if isinstance(hidden, Events) and hidden.window > length:
        return
    walk, values = _walk(chain, length, asked, length), asked.values[0]
    if isinstance(hidden, Counted) and window == length:
        counted = [int(state in hidden.states) for state in chain.states]
        if values in (counted, [1 - one for one in counted]):  # the sum tells the label
            whole = walk.whole({})
            times = np.arange(len(whole))
            times = times if values == counted else length - times
            often = times >= (length if hidden.times is None else hidden.times)
            yield _SecretSums(
                np.array([np.where(often, whole, 0), np.where(often, 0, whole)])[:, None, None]
            )
            return
    if not isinstance(hidden, Events):
        count = len(chain.states) ** window
        if count > _MOST_VALUES:
            raise NotChecked(f"the entries of a window have {count} values")
        hidden = Listed(window, tuple(map(str, range(count))))
    automaton = hidden.automaton(chain.states)
    reads = [np.array(own, dtype=np.intp) for own in automaton.moves]
    yield from walk.windows(reads, automaton.ends)


SumMoves = list[tuple[int, Any]]
"""What moves add, and their probabilities, by the case that they lead to and where they begin."""


def _moves(matrix: Numbers, reads: NDArray[np.intp], memories: int, adds: Any) -> SumMoves:
    """The moves of cases, each a memory q and a state x, as q times the states plus x.

    A move from x to y has the probability matrix[x, y], leads to the memory reads[q, y], of so many
    memories, and adds adds[q, x, y].
    """
    from scipy.sparse import csr_array  # noqa: PLC0415  (slow to load)

    size, shape = len(matrix), (len(reads), *matrix.shape)
    q, x, y = np.nonzero(np.broadcast_to(matrix > 0, shape))
    to, source, added = reads[q, y] * size + y, q * size + x, np.broadcast_to(adds, shape)[q, x, y]
    cases = memories * size, len(reads) * size
    return [
        (int(add), csr_array((matrix[x, y][own], (to[own], source[own])), shape=cases))
        for add in np.unique(added)
        for own in [added == add]
    ]


@dataclass(frozen=True)
class _Walk:
    """A chain whose moves add something: the ``first`` entry's cases with what they add.

    ``into(n)`` are the moves into entry n + 1, which read and add as ``adds`` says; sums are below
    ``room``.
    """

    matrix: Numbers
    first: Numbers
    into: Callable[[int], SumMoves]
    adds: Any
    length: int
    room: int
    work: Allowance

    @property
    def states(self) -> NDArray[np.intp]:
        """The state of every case."""
        return np.arange(len(self.first)) % len(self.matrix)

    def moved(self, table: Numbers, moves: SumMoves) -> Numbers:
        """What is added with one more move, by case; any axes between."""
        cases, width = moves[0][1].shape[0], table.shape[-1]
        room = min(width + max(add for add, _ in moves), self.room)
        entries = sum(matrix.nnz for _, matrix in moves) + cases * len(moves)
        self.work.spend(2e4 + 8.0 * entries * (table.size / len(table)))
        moved = np.zeros((cases, *table.shape[1:-1], room), dtype=np.longdouble)
        for add, matrix in moves:
            more = (matrix @ table.reshape(len(table), -1)).reshape(cases, *table.shape[1:])
            moved[..., add : add + width] += more[..., : room - add]
        return moved

    def before(self, count: int) -> Iterator[Numbers]:
        """For the first entries: the case, with what it and those before add."""
        table = self.first
        for n in range(1, count + 1):
            yield table
            if n < count:
                table = self.moved(table, self.into(n))

    def after(self, count: int) -> list[Numbers]:
        """What the last 0, 1, ... entries add, given the case before them."""
        tables = [np.ones((len(self.states), 1), dtype=np.longdouble)]
        for n in range(1, count):
            moves = [(add, matrix.T.tocsr()) for add, matrix in self.into(self.length - n)]
            tables.append(self.moved(tables[-1], moves))
        return tables

    def joined(self, before: Numbers, after: Numbers, labels: Any, cases: Any) -> Numbers:
        """By the label of each case before: what it adds, with what follows its case after."""
        shape = before.shape[1], after.shape[1], before.shape[2] + after.shape[2] - 1
        self.work.spend(1.5 * len(before) * prod(shape[:2]) * before.shape[2] * after.shape[2])
        self.work.spend(60.0 * (max(labels) + 1) ** 2 * prod(map(float, shape)))
        rows = np.zeros((max(labels) + 1, *shape), dtype=np.longdouble)
        for n, u, y in product(range(len(before)), range(shape[0]), range(shape[1])):
            if before[n, u].any():
                rows[labels[n], u, y] += np.convolve(before[n, u], after[cases[n], y])
        return rows

    def whole(self, allowed: Mapping[int, set[int]]) -> Numbers:
        """The sum over the segment together with an event: which states entries may have."""
        table = self.first
        for n in range(1, self.length + 1):
            table = table if n == 1 else self.moved(table, self.into(n - 1))
            if n in allowed:
                table = np.where(np.isin(self.states, list(allowed[n]))[:, None], table, 0)
        return table.sum(axis=0)

    def entries(self, reach: int) -> Iterator[_SecretSums]:
        """The state of every entry, with the sum over as many entries to either side of it."""
        inside, cases = 2 * reach < self.length, range(len(self.states))
        near = reach if inside else self.length
        ends = [table[:, None] for table in self.after(near)]
        across = self._across(reach, ends[-1].shape[-1]) if inside else None
        for n, start in enumerate(self.before(near), 1):
            right = ends[self.length - n] if across is None else across
            yield _SecretSums(self.joined(start[:, None], right, self.states, cases))
        if across is None:
            return
        left, chances = across.swapaxes(0, 1), self._chances()

        def at(entry: int) -> tuple[NDArray[np.bool_], Numbers]:
            here, begun = (chances[min(n, len(chances)) - 1] for n in (entry, entry - reach))
            return begun > 0, here

        inner = range(reach + 1, min(self.length - reach, len(chances) + reach) + 1)
        rows = self.joined(left, across, self.states, cases)
        yield _SecretSums(rows, [at(entry) for entry in inner])
        for n, end in enumerate(ends):
            rows = self.joined(left, end, self.states, cases)
            yield _SecretSums(rows, [at(self.length - n)])

    def _across(self, reach: int, width: int) -> Numbers:
        """[x, y, a]: so many moves lead from x to y and add a."""
        size = len(self.states)
        if 2 * size**3 * float(width) > _MOST_CELLS:
            raise NotChecked("the sums over a window take too many values")
        self.work.spend(3.0 * size**3 * float(width) ** 2)
        table = np.eye(size, dtype=np.longdouble)[:, :, None]  # [y, x, a] until the end
        for _ in range(reach):
            table = self.moved(table, self.into(1))
        return table.swapaxes(0, 1)

    def _chances(self) -> list[Numbers]:
        """The distributions of X_1, X_2, ... until they are constant, or to the end."""
        matrix = sum(own for _, own in self.into(1))
        chances = [self.first.sum(axis=1)]
        while len(chances) < self.length:
            self.work.spend(4000.0)
            before, following = chances[-1], matrix @ chances[-1]
            here = following > 0
            moved = np.abs(following - before)[here]
            if np.array_equal(here, before > 0) and (moved <= _SETTLED * following[here]).all():
                break
            chances.append(following)
        return chances

    def windows(
        self, reads: Sequence[NDArray[np.intp]], ends: Sequence[int]
    ) -> Iterator[_SecretSums]:
        """The label of every window, with the sum over the segment.

        Cases within a window are pairs of a memory of the automaton and a state.
        """
        size, last = len(self.matrix), self.length - len(reads) + 1
        into = [_moves(self.matrix, own, int(own.max()) + 1, self.adds) for own in reads]
        after = self.after(last)
        for begun in self.before(last):
            table = np.zeros(((int(reads[0].max()) + 1) * size, begun.shape[1]), np.longdouble)
            table[reads[0][0] * size + np.arange(size)] = begun
            for moves in into[1:]:
                table = self.moved(table, moves)
            labels = [ends[case // size] for case in range(len(table))]
            cases = [case % size for case in range(len(table))]
            yield _SecretSums(self.joined(table[:, None], after.pop()[:, None], labels, cases))


def _walk(chain: MarkovChain, length: int, asked: RecordedSum, reach: int) -> _Walk:
    """The walk of a sum over a segment of a chain, to be followed so far to either side.

    Of days with enough entries the memory is how many count so far, up to ``needed``; a day is
    added where that number is reached.
    """
    matrix, start = (own.astype(np.longdouble) for own in (chain.transition, chain.initial))
    matrix /= matrix.sum(axis=1, keepdims=True)
    positive, size = np.concatenate([matrix.ravel(), start]), len(matrix)
    entries = min(length, 2 * reach + 2)
    if entries * float(np.log2(positive[positive > 0].min())) < _LEAST:
        raise NotChecked("the probabilities of its tails underflow")
    if asked.days is not None:
        inside, needed, lengths = asked.days
        so_far = np.arange(needed + 1)[:, None]
        ordinary = np.minimum(so_far + inside, needed)
        morning = np.broadcast_to(np.minimum(1 * inside, needed), ordinary.shape)
        new, done = morning == needed, (ordinary == needed) & (so_far < needed)
        begun = np.zeros(((needed + 1) * size, 2), dtype=np.longdouble)
        begun[morning[0] * size + np.arange(size), 1 * new[0]] = start
        asked.work.spend(60.0 * size**2 * (needed + 1) * length)
        each = [_moves(matrix, ordinary, needed + 1, 1 * done[:, None])]
        each += [_moves(matrix, morning, needed + 1, 1 * new[:, None])]
        begins = {int(n) for n in np.cumsum(lengths)}
        room = len(lengths) + 1
        return _Walk(matrix, begun, lambda n: each[n in begins], 0, length, room, asked.work)
    first, added = asked.moves or (np.array(asked.values[0], dtype=object), None)
    added = np.tile(first, (size, 1)) if added is None else added
    top = int(max(np.max(first), np.max(added)))
    gigabytes = 16e-9 * entries * size * (float(entries) * top + 1) / 2
    if gigabytes > _MOST_BYTES / 1e9:
        raise NotChecked(f"distributions of the sum need about {gigabytes:,.0f} GB of memory")
    moves = _moves(matrix, np.zeros((1, size), dtype=np.intp), 1, added.astype(np.int64))
    begun = np.zeros((size, int(max(first)) + 1), dtype=np.longdouble)
    begun[np.arange(size), first.astype(int)] = start
    room = length * top + 1
    return _Walk(matrix, begun, lambda _: moves, added.astype(np.int64), length, room, asked.work)


# --- networks -------------------------------------------------------------------------------------


NodeTable = tuple[tuple[Hashable, ...], Numbers]
"""Nodes, and a table with an axis for each of them and one for the sum."""


class NetworkSums:
    """Joint distributions of nodes of a network and of a sum over all nodes.

    Nodes are summed out one by one, those first that leave the smallest tables. What a node leaves
    is kept: the tables of other nodes need the same, but for those on the way to them. Without
    ``added`` there is no sum, and nodes are left out that no node asked for descends from.
    """

    def __init__(
        self, network: BayesianNetwork, work: Allowance, added: Mapping[Hashable, int] | None = None
    ) -> None:
        self.network, self.work, self.summed = network, work, added is not None
        self.left: dict[tuple[Hashable, ...], NodeTable] = {}
        least = sum(float(np.log2(own[own > 0].min())) for own in network.arrays.values())
        if least < _LEAST:
            raise NotChecked("the probability of some sums underflows")
        self.factors: dict[Hashable, NodeTable] = {}
        for node in network.nodes:
            table = network.arrays[node].astype(np.longdouble)
            steps = [(added or {}).get(value, 0) for value in network.values[node]]
            adds = np.zeros((len(steps), max(steps) + 1), dtype=np.longdouble)
            adds[range(len(steps)), steps] = 1
            table = (table / table.sum(axis=-1, keepdims=True))[..., None] * adds
            self.factors[node] = (*network.parents[node], node), table
        self.order = self._order()

    def _order(self) -> list[Hashable]:
        near = {node: {node} for node in self.network.nodes}
        for scope, _ in self.factors.values():
            for node in scope:
                near[node] |= set(scope)
        order = []
        while near:
            node = min(near, key=lambda n: prod(len(self.network.values[m]) for m in near[n]))
            around = near.pop(node) - {node}
            for other in around:
                near[other] = (near[other] | around) - {node}
            order.append(node)
        return order

    def joint(
        self, keep: Sequence[Hashable], allowed: Mapping[Hashable, set[Any]] | None = None
    ) -> Numbers:
        """Axes of ``keep``, then the sum; with ``allowed`` other values are impossible."""
        needed = set(self.network.nodes if self.summed else self.network.ancestors(keep))
        factors = [self.factors[node] for node in self.network.nodes if node in needed]
        for node, values in (allowed or {}).items():
            possible = [[float(value in values)] for value in self.network.values[node]]
            factors.append(((node,), np.array(possible, dtype=np.longdouble)))
        for node in (n for n in self.order if n in needed and n not in keep):
            inside = [factor for factor in factors if node in factor[0]]
            factors = [factor for factor in factors if node not in factor[0]]
            key = node, *(id(table) for _, table in inside)
            if key not in self.left:
                scope, table = self._product(inside)
                axis = scope.index(node)
                rest = (*scope[:axis], *scope[axis + 1 :])
                left = rest, table.sum(axis=axis)
                if allowed:
                    factors.append(left)
                    continue
                self.left[key] = left
            factors.append(self.left[key])
        scope, table = self._product(factors)
        return np.transpose(table, [*(scope.index(node) for node in keep), len(keep)])

    def _product(self, factors: Sequence[NodeTable]) -> NodeTable:
        """The product of tables, with their sums added up."""
        scope = tuple(dict.fromkeys(node for nodes, _ in factors for node in nodes))
        product_: Numbers = np.ones((1,) * (len(scope) + 1), dtype=np.longdouble)
        sizes = [len(self.network.values[node]) for node in scope]
        for nodes, table in factors:
            order = sorted(range(len(nodes)), key=lambda axis: scope.index(nodes[axis]))
            index = tuple(slice(None) if node in nodes else None for node in scope)
            own = np.transpose(table, [*order, len(nodes)])[index]
            wide, narrow = (
                (product_, own) if product_.shape[-1] > own.shape[-1] else (own, product_)
            )
            room = wide.shape[-1] + narrow.shape[-1] - 1
            entries = float(prod(sizes)) * room
            if 16.0 * entries > _MOST_BYTES / 4:
                raise NotChecked("the network is too wide for the distribution of a sum")
            self.work.spend(5e4 + 3.0 * entries * narrow.shape[-1])
            shape = np.broadcast_shapes(wide.shape[:-1], narrow.shape[:-1])
            joined = np.zeros((*shape, room), dtype=np.longdouble)
            for more in range(narrow.shape[-1]):
                joined[..., more : more + wide.shape[-1]] += wide * narrow[..., more, None]
            product_ = joined
        return scope, product_


# --- tables of data sets, and vectors -------------------------------------------------------------

DataRows = Sequence[Sequence[Hashable]]


@singledispatch
def _listed(theta: Beliefs, asked: RecordedSum) -> Iterator[tuple[DataRows, list[Any], Any, Any]]:
    """Of every distribution: all data sets, their probabilities, recorded answers and secrets.

    A secret is a list of events, an event a list of data sets; by default the values of a variable.
    """
    networks, _ = networks_of(theta)
    if not networks:
        raise NotChecked(f"there is no recomputation of W for vectors over a {theta.description}")
    for own in networks:
        rows, masses = _data_sets(own, asked.work)
        events = asked.secrets and [
            [[n for n, row in enumerate(rows) if _within(row, own, e)] for e in pair]
            for pair in asked.secrets
        ]
        yield rows, masses, None, events


@_listed.register
def _(theta: JointClass, asked: RecordedSum) -> Iterator[tuple[DataRows, list[Any], Any, Any]]:
    joints, none = theta.joints, [None] * len(theta.joints)
    every = zip(joints, asked.data.get("answers") or none, asked.secrets or none, strict=True)
    for joint, recorded, events in every:
        yield list(joint.table), list(joint.table.values()), recorded, events


def _given(theta: Any, asked: RecordedSum) -> Iterator[list[dict[Any, Fraction]]]:
    """For every secret the masses of the answers given each of its events, where it can happen."""
    for rows, probabilities, recorded, secrets in _listed(theta, asked):
        answers = _answers(theta, rows, asked, recorded)
        masses = [as_fraction("table", p) for p in probabilities]
        for events in secrets or _values_of(rows):
            given: list[dict[Any, Fraction]] = []
            for event in events:
                asked.work.spend(2000.0 * len(event))
                own: dict[Any, Fraction] = {}
                for n in (n for n in event if masses[n] > 0):
                    own[answers[n]] = own.get(answers[n], Fraction(0)) + masses[n]
                given += [own] if own else []
            yield given


def _answers(theta: Any, rows: DataRows, asked: RecordedSum, recorded: Any) -> list[Any]:
    """The answer to each data set; those to a sum are computed, not read from the file."""
    if asked.weights is not None:
        added: dict[Hashable, Any] = dict(zip(theta.states, asked.weights, strict=True))
        if not isinstance(asked.weights[0], tuple):
            return [sum(added[value] for value in row) for row in rows]
        return [tuple(map(sum, zip(*(added[v] for v in row), strict=True))) for row in rows]
    if recorded is None or len(recorded) != len(rows):
        raise NotChecked("the file does not hold one answer for each row of the distribution")
    read: dict[type, Callable[[Any], Any]] = {
        list: lambda own: tuple(map(Fraction, own)),
        type(None): lambda _: None,
    }
    return [read.get(type(own), Fraction)(own) for own in recorded]


def _values_of(rows: DataRows) -> Iterator[list[list[int]]]:
    """The values of each variable."""
    for column in zip(*rows, strict=True):
        events: dict[Hashable, list[int]] = {}
        for place, value in enumerate(column):
            events.setdefault(value, []).append(place)
        yield list(events.values())


def _within(row: Sequence[Hashable], network: BayesianNetwork, event: Any) -> bool:
    return all(row[network.nodes.index(_hashable(node))] in allowed for node, allowed in event)


def _data_sets(
    network: BayesianNetwork, work: Allowance
) -> tuple[list[tuple[Hashable, ...]], list[Fraction]]:
    """Every data set of a network and its probability, in fractions."""
    rows, masses = list(product(*(network.values[node] for node in network.nodes))), []
    work.spend(2e4 * len(rows) * len(network.nodes))
    for row in rows:
        named, mass = dict(zip(network.nodes, row, strict=True)), Fraction(1)
        for node in network.nodes:
            table = network.tables[node][tuple(named[p] for p in network.parents[node])]
            exact = [as_fraction("tables", p) for p in table]
            mass *= exact[network.values[node].index(named[node])] / sum(exact)
        masses.append(mass)
    return rows, masses


def _vectors_within(most: Fraction, theta: Beliefs, asked: RecordedSum) -> Fraction:
    """How far mass moves between vectors given two secrets, in L1; above ``most`` if it must."""
    pairs = (pair for given in _given(theta, asked) for pair in combinations(given, 2))
    return max((_moved_within(most, *pair, asked.work) for pair in pairs), default=Fraction(0))


def _moved_within(
    most: Fraction, first: Mapping[Any, Fraction], second: Mapping[Any, Fraction], work: Allowance
) -> Fraction:
    """The farthest that a plan moves mass which may move this far; more, if no plan does.

    Whoever makes the plan, it is looked at: it must take all mass from the first and bring all of
    the second.
    """
    import networkx as nx  # noqa: PLC0415  (slow to load)

    work.spend(2e4 * len(first) * len(second))
    whole = sum(first.values()), sum(second.values())
    unit = lcm(*(mass.denominator for mass in (*first.values(), *second.values(), *whole)))
    ours = {("from", x): int(mass * unit) * int(whole[1] * unit) for x, mass in first.items()}
    theirs = {("to", y): int(mass * unit) * int(whole[0] * unit) for y, mass in second.items()}
    apart = {}
    graph = nx.DiGraph()
    graph.add_edges_from(("all", x, {"capacity": mass}) for x, mass in ours.items())
    graph.add_edges_from((y, "gone", {"capacity": mass}) for y, mass in theirs.items())
    for (x, mass), y in product(ours.items(), theirs):
        far = sum((abs(a - b) for a, b in zip(x[1], y[1], strict=True)), Fraction(0))
        if far <= most:
            apart[x, y] = far
            graph.add_edge(x, y, capacity=mass)
    _, plan = nx.maximum_flow(graph, "all", "gone")
    moved = {pair: plan[pair[0]][pair[1]] for pair in apart}
    for (x, y), mass in moved.items():
        ours[x] -= mass
        theirs[y] -= mass
    if any(ours.values()) or any(theirs.values()) or min(moved.values(), default=0) < 0:
        return most * (1 + 2 * Fraction(TOLERANCE))
    return max((apart[pair] for pair, mass in moved.items() if mass), default=Fraction(0))
