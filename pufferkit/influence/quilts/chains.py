"""Max-influence on Markov chains, and the node and quilt that decide the noise.

For X_i with a left endpoint X_{i-a} and a right endpoint X_{i+b}, [Q] Definition 4.1 becomes

    e = max over x, x' of  prior_i(x, x') + left_a(x, x') + right_b(x, x')

with the tables of `pufferkit.beliefs.chain_tables`. Without a left endpoint the prior goes too.
[Q] (5) as printed lets u of left_a run over all states, possible or not; that is
``influence="formula"``.

Bounds on influence come from a matrix (`ChainInfluence`), from the speed of mixing
(`MixingInfluence`), from a region of matrices (`pufferkit.influence.curve.regions`), and for
several entries in a row from any of these (`AroundBlock`). One search serves them all, with the
entries that were not observed left out of the count (`hardest_observed`), and each result says
which quilts serve which nodes (`QuiltRuns`), so that it can be checked without a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, log1p
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Mixing
from pufferkit.beliefs.chain_tables import ChainTables, GivenStartTables, check_memory
from pufferkit.checks import Bools, Floats
from pufferkit.data.series import observed_places
from pufferkit.influence.kernels import log_ratio
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.search import (
    NOTHING,
    Binding,
    Influence,
    Pair,
    Quilt,
    QuiltRuns,
    Solve,
    as_runs,
    best_quilt,
    hardest_node,
)
from pufferkit.threads import one_thread

InfluenceReading = Literal["definition", "formula"]

_CHUNK = 1 << 22  # numbers of a table worked on at once: 32 MB


class ChainInfluence:
    """Max-influence for one transition matrix and one kind of start."""

    def __init__(self, tables: ChainTables, reading: InfluenceReading = "definition") -> None:
        self.tables, self.reading, self.powers = tables, reading, tables.powers
        self._parts: dict[tuple[int, int, int, Pair], float] = {}

    def between(self, node: int, left: int | None, right: int | None) -> tuple[float, Pair]:
        """Upper bound on the max-influence of X_node, and the pair of states that attains it.

        Theorem: [Q] (5), the max-influence of [Q] Definition 4.1 on a Markov chain.
        """
        states = np.flatnonzero(self.tables.support(node))
        first = int(states[0])
        if len(states) == 1 or (left is None and right is None):
            return 0.0, (first, first)
        pairs = np.ix_(states, states)
        total, slack = np.zeros((len(states), len(states))), 0.0
        if left is not None:
            left = self.powers.reach(left)
            prior = self.tables.prior(node)[pairs]
            total = prior + self.tables.left(left, self.sources(node - left))[pairs]
            slack += self.tables.prior_error(node) + self.powers.rounding(left)
        if right is not None:
            right = self.powers.reach(right)
            total = total + self.tables.right(right)[pairs]
            slack += self.powers.rounding(right)
        x, other = divmod(int(total.argmax()), len(states))
        return float(total[x, other]) + slack, (int(states[x]), int(states[other]))

    def sources(self, node: int) -> Bools:
        """Values of a left endpoint that count."""
        possible = self.tables.support(node)
        return np.ones_like(possible) if self.reading == "formula" else possible

    def of_pair(self, side: int, node: int, steps: int, pair: Pair) -> float:
        """prior_i + left_a (side 0) or right_b (side 1) of one pair of states."""
        key = side, node if side == 0 else 0, steps, pair
        if key not in self._parts:
            far = self.powers.reach(steps)
            kernel = self.powers[far]
            if side == 1:
                value = log_ratio(kernel, *pair)
            else:
                columns = kernel.rows(self.sources(node - far)).transposed
                value = float(self.tables.prior(node)[pair]) + log_ratio(columns, *pair)
            if len(self._parts) > 1 << 16:
                self._parts.clear()
            self._parts[key] = value
        return self._parts[key]

    def slack(self, side: int, node: int, steps: int) -> float:
        """What `between` adds for rounding; nothing where a value is sure."""
        if np.count_nonzero(self.tables.support(node)) < 2:
            return 0.0
        own = self.powers.rounding(self.powers.reach(steps))
        return own + (self.tables.prior_error(node) if side == 0 else 0.0)

    @property
    def steady(self) -> bool:
        """Whether the prior is the same at every entry."""
        return self.tables.steady

    def stretches(self, length: int) -> list[tuple[int, int]]:
        """Stretches on which influence never grows; empty if entries differ by more than that."""
        return self.tables.stretches(length)


def solver(
    influence: Influence, length: int, epsilon: float, until: NDArray[np.intp] | None = None
) -> Solve:
    """The best quilt of any one node of a segment, which may have unobserved entries."""
    return lambda node, enough, hint: best_quilt(
        influence, node, length, epsilon, enough, hint, until
    )


class _GivenStart:
    """Nodes of a chain with a fixed initial distribution, which differ until it is forgotten.

    Nodes are solved one by one, the one with the largest bound first; its quilt is then offered to
    all others, and most are never solved. Once the start is forgotten all nodes are equal, and a
    bisection over them is enough, so that neither time nor memory grows with the length.
    """

    def __init__(
        self, influence: ChainInfluence, tables: GivenStartTables, length: int, epsilon: float
    ) -> None:
        self.influence, self.tables, self.length, self.epsilon = influence, tables, length, epsilon
        self.solve = solver(influence, length, epsilon)

    def hardest(self, enough: float, hint: Quilt | None) -> Binding:
        """Solve the node with the largest bound, offer its quilt to all others, repeat.

        Every node keeps an upper bound on its least score. A node whose bound is at most the
        largest exact score so far cannot matter.

        Let the quilt of the middle node keep n nodes, and let neither the distribution nor the
        possible states of a node change from node p on. A later node, more than p + n from the
        start, has that quilt too, or a shorter one at its right end. So none of its better quilts
        keeps more than n nodes, all of them end beyond p, and their influence is the same at all
        such nodes.
        """
        tail = self._tail(enough, hint)
        if tail is None:
            return self._among(self.length, enough, hint)
        before, binding = tail
        first = self._among(before, max(enough, binding.quilt.score), binding.quilt)
        worst = first if first.quilt.score > binding.quilt.score else binding
        return worst._replace(runs=first.runs + binding.runs)

    def _tail(self, enough: float, hint: Quilt | None) -> tuple[int, Binding] | None:
        """The number of nodes before the ones that are equal, and the hardest of the latter.

        ``None`` if there are few such nodes.
        """
        tables, length = self.tables, self.length
        if tables.cycle > 1 or length <= 2 * tables.burn_in:
            return None
        quilt = self.solve((length + 1) // 2, 0.0, hint)
        settled = int(np.flatnonzero(tables.which != tables.which[-1]).max(initial=-1)) + 2
        before = tables.burn_in + settled + int(quilt.score * self.epsilon) + 1
        if not (quilt.ends_left and quilt.ends_right) or 2 * before >= length:
            return None
        binding = hardest_node(self.solve, before + 1, length, enough, quilt, same_everywhere=True)
        return before, binding

    def _among(self, nodes: int, enough: float, hint: Quilt | None) -> Binding:
        """The hardest of the first ``nodes`` nodes."""
        check_memory(nodes, len(self.tables.chain), self.length)
        # Entries with one possible value at the start hide nothing and end every quilt.
        support, all_nodes = self.tables.support, range(1, nodes + 1)
        sure = next((n for n in all_nodes if support(n).sum() > 1), nodes + 1) - 1
        bounds = np.full(nodes, max(1, self.length - sure) / self.epsilon)
        bounds[:sure] = 1 / self.epsilon
        chosen, quilts = np.zeros(nodes, dtype=np.intp), [(-sure, 0)]
        # Bounds carry the rounding slack, so differences below it do not count.
        tie = 1 + 1e-12 + 8 * self.tables.prior_error(1) / self.epsilon
        node, worst, candidate = 0, NOTHING, (nodes + 1) // 2
        while True:
            quilt = self.solve(candidate, max(enough, worst.score), hint)
            hint = quilt
            if quilt.score > worst.score:
                node, worst = candidate, quilt
            if quilt.score < bounds[candidate - 1]:
                bounds[candidate - 1], chosen[candidate - 1] = quilt.score, len(quilts)
                quilts.append(quilt.ends)
            self._offer(quilt, bounds, chosen, quilts)
            candidate = int(bounds.argmax()) + 1
            if bounds[candidate - 1] <= max(enough, worst.score) * tie:
                # The largest bound covers every node, so it is what is reported.
                score = max(worst.score, float(bounds[candidate - 1]))
                runs = as_runs(quilts[n] for n in chosen.tolist())
                return Binding(node, replace(worst, score=score), runs)

    def _offer(
        self, quilt: Quilt, bounds: Floats, chosen: NDArray[np.intp], quilts: list[tuple[int, int]]
    ) -> None:
        """Lower ``bounds`` by the scores of this quilt's endpoints at every other node."""
        length, (a, b) = self.length, quilt.ends
        nodes = np.arange(1, len(bounds) + 1)
        for left, right in {(a, b), (a, 0), (0, b)} - {(0, 0)}:
            first, last = left + 1, min(len(bounds), length - right)
            if first > last:
                continue
            inside, here = nodes[left:last], slice(left, last)
            kept = (left or inside) + (right or length - inside + 1)
            room = self.epsilon - self._at_nodes(inside, left, right)
            with np.errstate(divide="ignore"):
                scores = np.where(room > 0, (kept - 1) / np.maximum(room, 1e-300), inf)
            chosen[here][scores < bounds[here]] = len(quilts)
            quilts.append((left, right))
            np.minimum(bounds[here], scores, out=bounds[here])

    def _at_nodes(self, nodes: NDArray[np.intp], left: int, right: int) -> Floats:
        """Upper bounds on the influence at consecutive ``nodes``, for endpoints that all have."""
        tables, powers = self.tables, self.tables.powers
        left, right = powers.reach(left), powers.reach(right)
        far = tables.burn_in + left + tables.cycle
        near = nodes[nodes <= far + tables.cycle]
        rows = tables.rows(near)
        sources = tables.which[tables.rows(near - left)] if left else np.zeros_like(rows)
        values = np.empty(len(near))
        slack = powers.rounding(right) if right else 0.0
        slack += tables.prior_error(1) + powers.rounding(left) if left else 0.0
        targets = tables.which[rows]
        for source, target in set(zip(sources.tolist(), targets.tolist(), strict=True)):
            here = np.flatnonzero((sources == source) & (targets == target))
            states = np.flatnonzero(tables.patterns[target])
            pairs = np.ix_(states, states)
            total = tables.right(right)[pairs] if right else np.zeros((len(states),) * 2)
            if not left:
                values[here] = total.max()
                continue
            possible = tables.patterns[source]
            if self.influence.reading == "formula":
                possible = np.ones_like(possible)
            total = total + tables.left(left, possible)[pairs]
            values[here] = self._with_priors(rows[here], states, total)
        values = np.where(values > 0, values + slack, slack)
        # Beyond the table everything repeats with the period.
        beyond = len(nodes) - len(near)
        if beyond:
            repeats = np.tile(values[-tables.cycle :], -(-beyond // tables.cycle))
            values = np.concatenate([values, repeats[:beyond]])
        return values

    def _with_priors(
        self, rows: NDArray[np.intp], states: NDArray[np.intp], total: Floats
    ) -> Floats:
        """Largest ``total + prior`` over pairs of states, for many distributions at once."""
        tables, values = self.tables, np.full(len(rows), -inf)
        stride = max(1, _CHUNK // max(1, len(states)))
        for start in range(0, len(rows), stride):
            part = rows[start : start + stride]
            logs = np.ascontiguousarray(tables.logs[np.ix_(part, states)])
            here = values[start : start + stride]
            for x in range(len(states)):
                np.maximum(here, (logs + total[x]).max(axis=1) - logs[:, x], out=here)
            here[tables.underflowed[np.ix_(part, states)].any(axis=1)] = inf
        return values


@dataclass(frozen=True)
class MixingInfluence:
    """Influence from how fast a chain mixes: h(t) = log (1 + Delta_t) / (1 - Delta_t).

    Theorem: [Q] Lemma C.1 (with 4.8). If |P^t(x, y) / pi(y) - 1| <= Delta_t < 1 for all states, the
    max-influence of X_i on {X_{i-a}, X_{i+b}} is at most 2 h(a) + h(b), on {X_{i-a}} at most
    2 h(a), on {X_{i+b}} at most h(b), for every initial distribution.

    The paper takes Delta_t = exp(-gap t / 2) / pi_min. The operator norm c of P on functions of
    stationary mean zero gives more: P^t(x, y) / pi(y) - 1 is the inner product of two such
    functions (the centred point masses at x and y) with P^t between them, so

        Delta_t = c^t (1 / pi_min - 1),

    which is smaller, because c <= exp(-gap / 2). In a stationary chain the prior ratio is exact,
    the time-reversed kernel has the same norm, and the 2 in 2 h(a) becomes 1.
    """

    rate: float
    factor: float
    left_weight: int

    @classmethod
    def paper(cls, mixing: Mixing) -> MixingInfluence:
        """As in [Q] Lemma C.1."""
        return cls(mixing.gap / 2, 1 / mixing.pi_min, 2)

    @classmethod
    def tight(cls, mixing: Mixing) -> MixingInfluence:
        """From the operator norm of P."""
        rate = -log(mixing.contraction) * (1 - 1e-15) if mixing.contraction > 0 else inf
        return cls(rate, 1 / mixing.pi_min - 1, 1 if mixing.stationary else 2)

    def bound(self, steps: int) -> float:
        """h(steps); infinite while Delta is not below 1."""
        delta = self.factor * exp(-self.rate * steps) * (1 + 1e-12) if self.factor > 0 else 0.0
        if delta >= 1:
            return inf
        return (log1p(delta) - log1p(-delta)) * (1 + 1e-14)

    def between(self, node: int, left: int | None, right: int | None) -> tuple[float, Pair]:
        """The bound on a quilt with these endpoints, the same at every node."""
        total = self.left_weight * self.bound(left) if left is not None else 0.0
        return total + (self.bound(right) if right is not None else 0.0), (0, 1)

    def of_pair(self, side: int, node: int, steps: int, pair: Pair) -> float:
        """The bound of one endpoint."""
        return (self.left_weight if side == 0 else 1) * self.bound(steps)

    def slack(self, side: int, node: int, steps: int) -> float:
        """Nothing: bounds are rounded up."""
        return 0.0

    steady: ClassVar[bool] = True

    def stretches(self, length: int) -> list[tuple[int, int]]:
        """Every node has the same influence."""
        return [(1, length)]


class AroundBlock:
    """Influence of several consecutive entries, from that of single ones on a stationary chain.

    Theorem: quilts around a block, [Q] Theorem 4.3 with a block as one node. Let the secret be the
    values of X_i, ..., X_j, j = i + w - 1. Given them, the left of the block depends on X_i only
    and the right on X_j only. So the quilt {X_{i-a}, X_{j+b}} separates the block from what lies
    beyond it, and its max-influence is at most

        max over x, x' of [prior_i + left_a](x, x')  +  max over y, y' of right_b(y, y');

    the two pairs are the first and the last entries of the two values. The proof of the theorem
    holds for a block in place of a node: with a + b + w - 2 nearby entries the block loses
    (a + b + w - 2) L / scale + influence. Any event about the block is a mixture of its values, and
    loses no more.

    Distances on the right count from X_i here, b + w - 1 of them, so that the search for single
    nodes applies: closer endpoints would lie within the block and reveal everything.
    """

    def __init__(self, entry: Influence, window: int) -> None:
        self._entry, self._window = entry, window

    def between(self, node: int, left: int | None, right: int | None) -> tuple[float, Pair]:
        """The sum of the largest influences to either side."""
        total = 0.0 if left is None else self.of_pair(0, node, left, (0, 0))
        return total + (0.0 if right is None else self.of_pair(1, node, right, (0, 0))), (0, 0)

    def of_pair(self, side: int, node: int, steps: int, pair: Pair) -> float:
        """The largest influence to one side."""
        if side == 0:
            return self._entry.between(node, steps, None)[0]
        beyond = steps - self._window + 1
        return self._entry.between(node, None, beyond)[0] if beyond > 0 else inf

    def slack(self, side: int, node: int, steps: int) -> float:
        """Already included in the parts."""
        return 0.0

    steady: ClassVar[bool] = True

    def stretches(self, length: int) -> list[tuple[int, int]]:
        """All blocks are alike; each is known by its first entry."""
        return [(1, length - self._window + 1)]


Named = Sequence[tuple[str, Influence]]
"""Bounds, named by the chains they hold for; together they cover a class."""

Find = Callable[[Influence, float, Quilt | None], Binding]
"""The hardest node of a segment by one bound; exact unless it is at most a score that is enough."""


class HardestChain(NamedTuple):
    """The belief and the node that decide, and for every belief the quilts that serve its nodes."""

    name: str
    binding: Binding
    proofs: tuple[QuiltRuns, ...]


@one_thread()
def hardest_of(named: Iterable[tuple[str, Influence]], find: Find) -> HardestChain:
    """The hardest node over several bounds, each solved only as far as needed.

    Theorem: [Q] Algorithm 3 (MQMExact), over all quilts of [Q] Lemma 4.6, where ``find`` is
    `hardest`.

    The longest segment is always the hardest: with the same start, node i of a longer segment has
    the quilts it had in the shorter one, except that those without a right endpoint keep more.
    Once some chain is known to need a score s, another matters only if it needs more: most are done
    with the quilt that is best for the worst chain so far.
    """
    name, worst, proofs = "", Binding(0, NOTHING), list[QuiltRuns]()
    for own, influence in named:
        hint = worst.quilt if worst.node else None
        here = find(influence, max(0.0, worst.quilt.score), hint)
        proofs.append(here.runs)
        if here.quilt.score > worst.quilt.score:
            name, worst = own, here
    return HardestChain(name, worst, tuple(proofs))


def hardest(length: int, epsilon: float) -> Find:
    """Finds the node with the largest least score in a segment."""

    def find(influence: Influence, enough: float, hint: Quilt | None) -> Binding:
        if isinstance(influence, ChainInfluence) and isinstance(influence.tables, GivenStartTables):
            return _GivenStart(influence, influence.tables, length, epsilon).hardest(enough, hint)
        worst, runs = Binding(0, NOTHING), list[QuiltRuns]()
        solve = solver(influence, length, epsilon)
        for first, last in reversed(influence.stretches(length)):
            floor = max(enough, worst.quilt.score)
            here = hardest_node(solve, first, last, floor, hint, same_everywhere=influence.steady)
            worst = max(worst, here, key=lambda binding: binding.quilt.score)
            hint = worst.quilt
            runs.insert(0, here.runs)
        return worst._replace(runs=sum(runs, ()))

    return find


def listed(length: int, epsilon: float, longest: int) -> Find:
    """Finds the hardest node by evaluating every quilt of at most ``longest`` entries.

    [Q] Algorithms 3 and 4 as printed bound the size of quilts by l to save time; the search needs
    no such bound, and this reproduces their noise and their cost. The index sets printed for the
    three forms of quilts differ by one or two entries; here all are held to card(nearby) <= l, as
    the text says, and the trivial quilt belongs to them. Fewer quilts never need less noise. Where
    influence is the same at all nodes few are visited ([Q] Lemma C.4), else every node.
    """

    def find(influence: Influence, enough: float, hint: Quilt | None) -> Binding:
        def solve(node: int, enough: float, hint: Quilt | None) -> Quilt:
            left, right = node, length - node + 1
            best = Quilt(length / epsilon, 0.0, left, right, False, False)
            for a in range(1, min(left, longest) + 1):
                for b in range(1, min(right, longest - a + 1) + 1):
                    ends = a if a < left else None, b if b < right else None
                    value, nearby = influence.between(node, *ends)[0], a + b - 1
                    if value < epsilon and nearby / (epsilon - value) < best.score:
                        score = nearby / (epsilon - value)
                        best = Quilt(score, value, a, b, a < left, b < right)
            return best

        if influence.steady:
            return hardest_node(solve, 1, length, 0.0, same_everywhere=True)
        return _one_by_one(solve, range(1, length + 1), 0.0)

    return find


def _one_by_one(solve: Solve, nodes: Sequence[int], enough: float, whole: float = inf) -> Binding:
    """The hardest of all nodes, solved in this order; ends where one needs as much as ``whole``."""
    worst, hint, chosen = Binding(0, NOTHING), None, dict[int, tuple[int, int]]()
    for node in nodes:
        hint = quilt = solve(node, max(enough, worst.quilt.score), hint)
        chosen[node] = quilt.ends
        worst = max(worst, Binding(node, quilt), key=lambda binding: binding.quilt.score)
        if worst.quilt.score >= whole:
            break
    return worst._replace(runs=as_runs(chosen[node] for node in sorted(chosen)))


def hardest_observed(
    named: Named, runs: Sequence[int], epsilon: float, whole: float
) -> HardestChain | None:
    """The hardest node of a segment given as runs; ``None`` if counting every entry is as good.

    Theorem: quilts over gaps. An entry that was not observed cannot move the answer. In the proof
    of [Q] Theorem 4.3 the nearby entries of a quilt are exchanged at L / scale each, and such an
    entry at nothing. So

        score_i = min over quilts of  (observed entries nearby) / (epsilon - max-influence)

    is enough for entry i, and the largest score over *all* entries of the segment, observed or not,
    is enough for the release: an entry in a gap is a secret like any other, and the chain runs on
    through it. No entry may be skipped in favour of its neighbours, because the number of observed
    entries differs from place to place; but a quilt that scores no more than the worst entry so far
    ends its search.

    Parameters
    ----------
    named
        Bounds that together cover the class.
    runs
        Lengths of the runs of entries, alternately observed and not observed.
    whole
        The score for the unbroken segment, which no node exceeds.
    """
    seen = observed_places(runs)
    until = np.concatenate([[0], np.cumsum(seen)])
    length = len(seen)
    # The middle of the longest observed run first: often it needs as much as an unbroken segment.
    widest = 2 * int(np.argmax(runs[::2]))
    middle = max(1, int(np.cumsum(runs)[widest]) - runs[widest] // 2)

    def find(influence: Influence, enough: float, hint: Quilt | None) -> Binding:
        solve = solver(influence, length, epsilon, until)
        return _one_by_one(solve, (middle, *range(1, length + 1)), enough, whole * (1 - 1e-9))

    found = hardest_of(named, find)
    return None if found.binding.quilt.score >= whole * (1 - 1e-9) else found


def active_of(
    named: Named,
    nodes: Sequence[int],
    length: int,
    epsilon: float,
    progress: Progress | None = None,
) -> list[tuple[str, Binding]]:
    """The active quilt of each of these nodes, by the bound that needs most there.

    Each chain of a class has its own best quilt, and the chain that needs most decides.
    """
    worst = {node: ("", Binding(node, NOTHING)) for node in nodes}
    for name, influence in named:
        solve, hint = solver(influence, length, epsilon), None
        for done, node in enumerate(worst, 1):
            # A chain that needs no more than another at this node does not decide.
            hint = quilt = solve(node, max(0.0, worst[node][1].quilt.score), hint)
            if quilt.score > worst[node][1].quilt.score:
                worst[node] = name, Binding(node, quilt)
            if progress is not None:
                progress(done, len(worst))
    return list(worst.values())
