"""A Markov chain X_1 -> X_2 -> ... on finitely many states: one belief about a series.

The chain starts from ``initial`` and moves by ``transition``; row x of the matrix is the
distribution of the next state after x. Quantities that follow from these two are properties,
computed once.

Accuracy. The stationary distribution comes from the elimination of Grassmann, Taksar and Heyman,
which only adds, multiplies and divides positive numbers. Its entries keep full relative accuracy
even when the chain is nearly decomposable, where a linear solve or a high power of the matrix loses
all digits.

# States

The graph of a transition matrix: which states reach which, closed classes, periods.

Only the pattern of zeros matters here, so everything is exact.

Glossary
--------
closed class
    a set of states that reach one another and no others; the chain ends up in one of these sets.
transient state
    a state in no closed class.
cyclic classes
    a closed class of period d splits into d parts visited in turn.

# Paths

Paths of chains, drawn without a loop over their entries.

A uniform draw u turns a state into the next one, so each step is a map of states to states, and
maps compose. The steps are cut into about sqrt(T) stretches. All stretches are followed together,
from every state each, then only their ends one after another. The path is the one that single steps
give, in k T operations on arrays. With many states single steps are quicker, and are taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import gcd, isqrt, lcm
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.provenance import KINDS, Provenance
from pufferkit.checks import Bools, Floats
from pufferkit.data.durations import of_seconds, seconds
from pufferkit.influence.kernels import TINY
from pufferkit.records import JsonRecord
from pufferkit.shown import Matrix, Shown


@dataclass(frozen=True, eq=False)
class ClosedClass:
    """One closed class: its states, its period, and the cyclic part each state belongs to."""

    members: NDArray[np.intp]
    period: int
    part: NDArray[np.intp]


def reachable(transition: Floats) -> Bools:
    """Entry (x, y) says whether y can be reached from x in zero or more steps."""
    reach: Bools = (transition > 0) | np.eye(len(transition), dtype=bool)
    while True:
        further = boolean_product(reach, reach)
        if (further == reach).all():
            return reach
        reach = further


def boolean_product(first: Bools, second: Bools) -> Bools:
    """The pattern of non-zeros of a product of non-negative matrices with these patterns."""
    if first.all() and second.all():
        return np.ones((len(first), second.shape[1]), dtype=bool)
    product = first.astype(np.float32) @ second.astype(np.float32)
    return np.asarray(product > 0.5, dtype=bool)


def closed_classes(transition: Floats) -> tuple[ClosedClass, ...]:
    """Every closed class, in order of its first state."""
    reach = reachable(transition)
    both = reach & reach.T
    classes = []
    seen = np.zeros(len(transition), dtype=bool)
    for x in range(len(transition)):
        if not seen[x]:
            seen |= both[x]
            if (reach[x] == both[x]).all():
                classes.append(_with_period(transition, np.flatnonzero(both[x])))
    return tuple(classes)


def _with_period(transition: Floats, members: NDArray[np.intp]) -> ClosedClass:
    """Breadth-first levels from one state; the period divides every level mismatch on an edge."""
    edges = transition[np.ix_(members, members)] > 0
    level = np.full(len(members), -1, dtype=np.intp)
    level[0] = 0
    front = np.array([0])
    while front.size:
        fresh = np.flatnonzero(edges[front].any(axis=0) & (level < 0))
        level[fresh] = level[front[0]] + 1
        front = fresh
    starts, ends = np.nonzero(edges)
    period = 0
    for mismatch in np.unique(np.abs(level[starts] + 1 - level[ends])):
        period = gcd(period, int(mismatch))
    return ClosedClass(members, period, level % period)


def common_period(classes: tuple[ClosedClass, ...]) -> int:
    """After this many steps the long-run behaviour repeats itself."""
    return lcm(*(c.period for c in classes))


_FEW = 16
_SHORT = 200

PathMoves = NDArray[np.int16]


def cumulative(probabilities: Floats) -> Floats:
    """Cumulative sums, without the last: a draw above them all means the last possible value."""
    sums: Floats = np.cumsum(probabilities)[: np.flatnonzero(probabilities)[-1]]
    return sums


def drawn_path(start: int, rows: Sequence[Floats], draws: Floats) -> NDArray[np.intp]:
    """The states after ``start``: from x by a draw, in the row of the probabilities from x."""
    tables = [cumulative(row) for row in rows]
    if len(rows) > _FEW or len(draws) < _SHORT:
        return single_steps(start, [table.tolist() for table in tables], draws)
    return composed(start, np.stack([moves_of(table, draws) for table in tables], axis=1))


def single_steps(start: int, tables: Sequence[list[float]], draws: Floats) -> NDArray[np.intp]:
    """The same, one step after another. Lists: for single numbers far quicker than arrays."""
    path, x = [], start
    for u in draws.tolist():
        x = bisect_right(tables[x], u)
        path.append(x)
    return np.array(path, dtype=np.intp)


def moves_of(table: Floats, draws: Floats) -> PathMoves:
    """Where each draw leads by one row of cumulative sums: how many of them are not above it."""
    moves = np.zeros(len(draws), dtype=np.int16)
    for bound in table:
        moves += draws >= bound
    return moves


def composed(start: int, moves: PathMoves) -> NDArray[np.intp]:
    """The path from ``start`` where step t leads from x to ``moves[t, x]``."""
    steps, states = moves.shape
    width = max(1, isqrt(steps))
    stretches = -(-steps // width)
    padded = np.zeros((stretches * width, states), dtype=np.int16)
    padded[:steps] = moves
    # Of every stretch, where each of its first states is after each of its steps.
    flat, places = padded.ravel(), np.arange(stretches)[:, None] * (width * states)
    now = np.broadcast_to(np.arange(states, dtype=np.intp), (stretches, states))
    after = np.empty((width, stretches, states), dtype=np.int16)
    for step in range(width):
        after[step] = flat[places + step * states + now]
        now = after[step].astype(np.intp)
    firsts, x = [], start
    for ends in now.tolist():
        firsts.append(x)
        x = ends[x]
    chosen = np.array(firsts, dtype=np.intp)
    path = after[:, np.arange(stretches), chosen].T.ravel()[:steps]
    return path.astype(np.intp)


STATIONARY_TOLERANCE = 1e-12
"""Largest spread of the log-ratio to the stationary distribution of a start that counts as such."""


RAREST = TINY
"""Possible states below this probability have lost their relative accuracy to underflow."""

_LARGE = 1e150


@dataclass(frozen=True, eq=False, repr=False)
class MarkovChain(Shown, checks.Frozen, JsonRecord):
    """A chain over ``states``, started from ``initial``.

    Parameters
    ----------
    initial
        Distribution of X_1: one probability for each state.
    transition
        Square matrix; row x is the distribution of the next state after x.
    states
        Labels of the states in the order of the rows; 0, 1, ... if left out.
    fitted_on
        The data the chain was fitted on, if any; see `pufferkit.beliefs.provenance`.
    step
        Time from one entry to the next: seconds, or text such as ``"5m"``. Data with another step
        are refused. ``None``: unknown.

    Examples
    --------
    >>> chain = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    >>> chain.stationary.round(3).tolist()
    [0.8, 0.2]
    >>> chain.marginal(2).round(3).tolist(), chain.power(2).round(2).tolist()
    ([0.9, 0.1], [[0.85, 0.15], [0.6, 0.4]])
    >>> MarkovChain.steady(chain.transition).sample(5, seed=1).tolist()
    [0, 1, 0, 1, 0]
    """

    initial: Floats
    transition: Floats
    states: tuple[Hashable, ...]
    fitted_on: Provenance | None
    step: float | None

    def __init__(
        self,
        initial: ArrayLike,
        transition: ArrayLike,
        states: Iterable[Hashable] | None = None,
        fitted_on: Provenance | None = None,
        *,
        step: Any = None,
    ) -> None:
        matrix = checks.stochastic_matrix("transition", transition)
        distribution = checks.probability_vector("initial", initial)
        if len(distribution) != len(matrix):
            raise ValueError(
                f"initial: has {len(distribution)} entries but transition has {len(matrix)} rows; "
                "both must follow the same states"
            )
        checks.assign(
            self,
            initial=distribution,
            transition=matrix,
            states=state_labels(states, len(matrix)),
            fitted_on=fitted_on,
            step=seconds("step", step),
        )

    @classmethod
    def steady(
        cls,
        transition: ArrayLike,
        states: Iterable[Hashable] | None = None,
        fitted_on: Provenance | None = None,
        *,
        step: Any = None,
    ) -> MarkovChain:
        """The chain that starts in its stationary distribution.

        Raises
        ------
        ValueError
            If the matrix has several stationary distributions; then give ``initial``.
        """
        matrix = checks.stochastic_matrix("transition", transition)
        state_labels(states, len(matrix))
        classes = closed_classes(matrix)
        start = _only_stationary_distribution(matrix, classes)
        chain = cls(start, matrix, states, fitted_on, step=step)
        # Already known, so it is not computed again.
        chain.__dict__.update(closed_classes=classes, stationary=chain.initial, is_stationary=True)
        chain.__dict__["is_steady"] = True
        return chain

    def __len__(self) -> int:
        return len(self.states)

    def table_rows(self) -> list[dict[str, Any]]:
        """The transition matrix, a row for each state."""
        return Matrix.of("transition", self.states, self.transition).table_rows()

    def __str__(self) -> str:
        start = "stationary start" if self.is_stationary else "fixed initial distribution"
        return f"MarkovChain({len(self)} states, {start})"

    @cached_property
    def closed_classes(self) -> tuple[ClosedClass, ...]:
        """The classes of states that the chain cannot leave."""
        return closed_classes(self.transition)

    @cached_property
    def stationary(self) -> Floats:
        """The distribution pi with pi P = pi; an error if there are several."""
        return _only_stationary_distribution(self.transition, self.closed_classes)

    @cached_property
    def is_irreducible(self) -> bool:
        """Whether every state can be reached from every other."""
        return len(self.closed_classes[0].members) == len(self)

    @cached_property
    def period(self) -> int:
        """Largest common divisor of the return times; over several closed classes, their lcm."""
        return common_period(self.closed_classes)

    @cached_property
    def is_reversible(self) -> bool:
        """Whether pi(x) P(x, y) = pi(y) P(y, x), to rounding."""
        if not self.is_irreducible:
            return False
        flow = self.stationary[:, None] * self.transition
        return bool(np.allclose(flow, flow.T, rtol=1e-9, atol=1e-300))

    @cached_property
    def is_stationary(self) -> bool:
        """Whether ``initial`` is a stationary distribution of ``transition``, to rounding."""
        return self.limit_distance(self.initial, 1) <= STATIONARY_TOLERANCE and (
            self.limit_distance(self.initial, 2) <= STATIONARY_TOLERANCE
        )

    @cached_property
    def is_steady(self) -> bool:
        """Whether ``initial`` is what `steady` makes of ``transition``, bit by bit."""
        return len(self.closed_classes) == 1 and np.array_equal(self.initial, self.stationary)

    @cached_property
    def possible_start(self) -> NDArray[np.bool_]:
        """States X_1 can be in; a stationary probability may be positive and 0 as a float."""
        possible: NDArray[np.bool_] = self.initial > 0
        if self.is_stationary:
            for closed in self.closed_classes:
                if possible[closed.members].any():
                    possible[closed.members] = True
        return possible

    @cached_property
    def has_underflow(self) -> bool:
        """Whether the stationary probability of some possible state underflows."""
        return bool((self.possible_start & (self.initial < RAREST)).any()) and self.is_stationary

    def limit_distribution(self, node: int) -> Floats:
        """The limit of the distribution of X_node along times congruent to it modulo the period.

        Mass that starts in a cyclic part of a closed class stays in phase with it. Mass that starts
        in transient states is left out, so the distribution then sums to less than one.
        """
        distribution = np.zeros(len(self))
        for closed, pi in zip(self.closed_classes, self._class_distributions, strict=True):
            mass = np.bincount(
                closed.part, weights=self.initial[closed.members], minlength=closed.period
            )
            origin = (closed.part - (node - 1)) % closed.period
            distribution[closed.members] = mass[origin] * closed.period * pi
        return distribution

    def limit_distance(self, distribution: Floats, node: int) -> float:
        """Spread of the log-ratio to ``limit_distribution(node)``; infinite if supports differ.

        Both distributions move by the same matrix, so this never grows with time (data processing).
        """
        limit = self.limit_distribution(node)
        support = distribution > 0
        if (support != (limit > 0)).any():
            return float("inf")
        ratio = np.log(distribution[support] / limit[support])
        return float(ratio.max() - ratio.min())

    @cached_property
    def _class_distributions(self) -> tuple[Floats, ...]:
        return tuple(
            gth(self.transition[np.ix_(c.members, c.members)]) for c in self.closed_classes
        )

    def marginal(self, node: int) -> Floats:
        """Distribution of X_node; nodes count from 1."""
        steps = checks.whole("node", node, 1) - 1
        if self.is_stationary:
            return self.initial
        distribution: Floats = self.initial @ np.linalg.matrix_power(self.transition, steps)
        return distribution

    def power(self, steps: int) -> Floats:
        """The matrix of ``steps`` moves: entry (x, y) is P(X_{i+steps} = y | X_i = x)."""
        power: Floats = np.linalg.matrix_power(self.transition, checks.whole("steps", steps, 0))
        return power

    @cached_property
    def reversal(self) -> MarkovChain:
        """The stationary chain run backwards, [Q] Definition 4.7."""
        pi = self.stationary
        if (pi == 0).any():
            missing = [self.states[x] for x in np.flatnonzero(pi == 0)]
            raise ValueError(
                f"transition: states {missing} have stationary probability 0, so the time "
                "reversal is not defined; drop those states"
            )
        backwards = (self.transition.T * pi) / pi[:, None]
        return MarkovChain(pi, backwards, self.states, self.fitted_on, step=self.step)

    def with_secrets(self, *secrets: Any, entries: bool | None = None) -> Any:
        """A class of this chain alone, with other secrets: see `ChainClass.with_secrets`.

        Examples
        --------
        >>> from pufferkit import Secrets
        >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
        >>> chain.with_secrets(Secrets.pairs([("rest", "active")])).promise
        'hidden is of any entry: rest or active, and nothing else'
        """
        return KINDS["finite"].of(self).with_secrets(*secrets, entries=entries)

    def with_step(self, step: Any) -> MarkovChain:
        """The same chain, of entries this far apart: seconds, or text such as ``"5m"``.

        A chain whose step is known keeps it: at another step it would be another chain.

        Examples
        --------
        >>> MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]).with_step("5m").step
        300.0
        """
        return at_step(self, step)

    @cached_property
    def contraction(self) -> float:
        """Norm of P on functions of stationary mean 0: second singular value of D^½ P D^-½.

        Its square is the second eigenvalue of P P*, counted with multiplicity; for reversible
        chains it is the second largest |eigenvalue| of P. Rounded up.
        """
        if not self.is_irreducible:
            raise ValueError(
                "transition: the chain is reducible, so it has no eigengap; "
                "some states are never reached from others"
            )
        if len(self) == 1:
            return 0.0
        if self.pi_min < RAREST:
            raise ValueError(
                "transition: the probability of some states underflows, so the eigengap is "
                "unknown; "
                "drop or merge them"
            )
        root = np.sqrt(self.stationary)
        values = np.linalg.svd(self.transition * root[:, None] / root, compute_uv=False)
        return float(min(1.0, values[1] + 4 * len(self) * np.finfo(float).eps))

    @property
    def eigengap(self) -> float:
        """1 - lambda_2(P P*), [Q] (7). Eigenvalues count with multiplicity, so 0 means no mixing.

        As printed, (7) skips every eigenvalue of modulus 1. If P P* has several, the printed gap is
        positive though Lemma 4.8 is false; this one is 0.
        """
        return 1 - self.contraction**2

    @property
    def reversible_eigengap(self) -> float:
        """2 (1 - |lambda_2(P)|) for reversible chains, [Q] (14)."""
        if not self.is_reversible:
            raise ValueError(
                "transition: the chain is not reversible; use eigengap, [Q] (7), instead"
            )
        return 2 * (1 - self.contraction)

    @property
    def pi_min(self) -> float:
        """Smallest stationary probability, [Q] (6)."""
        return float(self.stationary.min())

    def sample(
        self, length: int, seed: int | np.random.Generator | None = None
    ) -> NDArray[np.intp]:
        """One path of the chain, as indices into ``states``. For simulation, never for noise."""
        length = checks.whole("length", length, 1)
        draws = np.random.default_rng(seed).random(length)
        first = int(cumulative(self.initial).searchsorted(draws[0], side="right"))
        path = drawn_path(first, list(self.transition), draws[1:])
        return np.concatenate(([first], path))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; without the start of `steady`, which the matrix gives."""
        record: dict[str, Any] = {
            "kind": "markov_chain",
            "states": list(self.states),
            "initial": self.initial.tolist(),
            "transition": self.transition.tolist(),
        }
        if self.step is not None:
            record["step"] = self.step
        if self.is_steady:
            del record["initial"]
        if self.fitted_on is not None:
            record["fitted_on"] = self.fitted_on.to_dict()
        return record

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MarkovChain:
        """The chain that ``to_dict`` described. Without ``initial`` it starts stationary."""
        if "transition" not in data:
            raise ValueError("model: must have 'transition', the transition matrix of the chain")
        states, source = (
            labels(data.get("states")),
            Provenance.from_dict(data.get("fitted_on")),
        )
        step = data.get("step")
        if data.get("initial") is None:
            return cls.steady(data["transition"], states, source, step=step)
        return cls(data["initial"], data["transition"], states, source, step=step)


Timed = TypeVar("Timed")


def at_step(model: Timed, step: Any) -> Timed:
    """The same beliefs, with this step if theirs is unknown."""
    if step is None:
        return model
    timed: Any = copy(model)
    timed.__dict__.pop("digest", None)  # the step is part of it
    checks.assign(timed, step=common_step("step", [timed.step], step))
    return cast(Timed, timed)


def common_step(name: str, steps: Iterable[float | None], said: Any = None) -> float | None:
    """The one step of all these models or data; ``said`` is that of those which have none.

    A chain of 5 minutes is no chain of one minute, so different steps have no class in common.
    """
    default = seconds(name, said)
    each = [default if step is None else step for step in steps]
    known = list(dict.fromkeys(each if default is None else [*each, default]))
    if len(known) > 1:
        raise ValueError(
            f"{name}: all must have the same time between entries, got "
            f"{' and '.join(map(of_seconds, known))}; fit them at one step, or say the unknown one "
            "with step="
        )
    return known[0]


def labels(values: Any) -> Any:
    """Labels as read from JSON, where tuples have become lists; anything else as it is."""
    return tuple(map(labels, values)) if isinstance(values, (list, tuple)) else values


def state_labels(states: Iterable[Hashable] | None, count: int) -> tuple[Hashable, ...]:
    """Checked labels for ``count`` states; 0, 1, ... if none are given."""
    if states is None:
        return tuple(range(count))
    named = checks.distinct_states(states)
    if len(named) != count:
        raise ValueError(
            f"states: {len(named)} labels for {count} states; give one label for each row"
        )
    return named


def gth(transition: Floats) -> Floats:
    """Stationary distribution of an irreducible matrix, by state reduction."""
    work = np.array(transition, dtype=np.float64)
    size = len(work)
    for n in range(size - 1, 0, -1):
        work[:n, n] /= work[n, :n].sum()
        work[:n, :n] += np.outer(work[:n, n], work[n, :n])
    distribution = np.ones(size)
    for n in range(1, size):
        if distribution[:n].max() > _LARGE:
            distribution[:n] /= _LARGE  # states that are so much rarer than the rest may become 0
        distribution[n] = distribution[:n] @ work[:n, n]
    return checks.frozen(distribution / distribution.sum())


def _only_stationary_distribution(transition: Floats, classes: tuple[ClosedClass, ...]) -> Floats:
    if len(classes) > 1:
        listed = "; ".join(str(c.members.tolist()) for c in classes[:4])
        raise ValueError(
            f"transition: has {len(classes)} closed classes of states ({listed}), so the "
            "stationary distribution is not unique; give initial"
        )
    members = classes[0].members
    distribution = np.zeros(len(transition))
    distribution[members] = gth(transition[np.ix_(members, members)])
    return checks.frozen(distribution)
