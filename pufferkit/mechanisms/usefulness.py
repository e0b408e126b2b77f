"""Whether a release is useful: its noise beside the answer that the beliefs expect, before any.

*One yardstick.* Every number of an answer is compared with its value expected under the beliefs,
which are public: level by level, over the entries that were observed. Of n entries, with weights
w_j(x) of a sum and the share p(x) of the entries that is expected in x,

    E f_j  =  n  sum over x of p(x) w_j(x),    p = (1 / T) sum over t of P(X_t = .),

the mean over the chains of a class; where the answer is not such a sum, data drawn from the beliefs
are asked. Beliefs without a computable distribution count as ones under which all values are
equally likely. Numbers are measured from their least possible value: 20 in a range from 10 to 30
are 10.

A level *drowns* if half of its 95% interval is more than half of what is expected of it, and an
answer if levels that drown hold half of all that is expected. So the rare levels of a histogram may
drown, which is said, while the others are released. The *typical* level is the one at that half. A
quantile by a noisy choice is judged by its rank, a number of entries.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import singledispatch
from itertools import accumulate, islice
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Beliefs, GraphClass, beliefs_from_dict
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import MarkovRandomField
from pufferkit.checks import Floats
from pufferkit.data.query import Query, Whole, remade
from pufferkit.data.series import Series
from pufferkit.errors import DrownedAnswer, NotApplicable, printable
from pufferkit.rounding import LARGEST_EXPONENT
from pufferkit.shown import Shown, at_most, three_digits

if TYPE_CHECKING:
    from pufferkit.mechanisms.calibration import Calibration
    from pufferkit.mechanisms.release import Release

DROWNED = 0.5
"""Half-widths above this share of the expected answer drown it."""

LARGE_EPSILON = 10.0
"""A larger epsilon gives a warning."""

_MOST_MODELS = 20  # of a class; their mean is a yardstick, no promise
_MOST_DRAWN = 1 << 17  # entries; a day of seconds
_NAMED = 3  # levels


# --- the answer that the beliefs expect -----------------------------------------------------------


def expected_answer(query: Query, beliefs: Beliefs | None) -> Floats | None:
    """What is expected of each number, above its least possible value; ``None`` if that is unknown.

    Examples
    --------
    >>> import pufferkit as pk
    >>> from pufferkit.beliefs.base import as_beliefs
    >>> week = as_beliefs(pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], ["rest", "active"]))
    >>> expected_answer(pk.histogram(week.states, 1000), week).round(6).tolist()
    [800.0, 200.0]
    """
    seen = query.observed or query.lengths
    if query.chooses:
        return np.array([sum(seen) / 2])
    states = query.states if beliefs is None else beliefs.states
    slots = (query.question or {}).get("slots")
    if query.binned and query.total is not None and not slots and query.states and states:
        shares = expected_shares(beliefs, len(states), query.longest)
        share = dict(zip(states, shares.tolist(), strict=True))
        return np.array([query.total * share[state] for state in query.states])
    if query.weights is not None and states is not None:
        added = np.array([[float(number) for number in row] for row in query.added(states)])
        shares = expected_shares(beliefs, len(states), query.longest)
        return np.asarray(sum(seen) * (shares @ (added - added.min(axis=0))))
    if query.binned and slots and states is not None:
        each = np.array((query.question or {})["observed"], dtype=float)
        shares = expected_shares(beliefs, len(states), query.longest)
        return np.asarray(np.outer(each, shares).ravel())
    named = beliefs is None or beliefs.entries is not None
    answer = None if named or beliefs is None else _drawn_answer(query, beliefs)
    if answer is not None or query.bounds is None:
        return answer
    low, high = query.bounds
    whole = query.total is not None
    return np.full(query.size, (query.total or 0) / query.size if whole else (high - low) / 2)


def drowned_numbers(record: Release) -> NDArray[np.bool_]:
    """Which numbers of a release the noise drowns, by what its record says; none if unknown."""
    none = np.zeros(len(record.raw), dtype=bool)
    if record.asks is None or record.question is None or record.noise == "noisy choice":
        return none
    try:
        theta = None if record.beliefs is None else beliefs_from_dict(record.beliefs)
        query = remade(record.kind, record.question, record.lengths, record.observed)
        expected = expected_answer(query, theta)
    except ValueError:
        return none
    reach = np.array([high - low for low, high in record.as_drawn().interval()]) / 2
    return none if expected is None else np.asarray(reach > DROWNED * expected)


def typical_answer(query: Query, beliefs: Beliefs | None) -> float | None:
    """What is expected of the typical number, under equal noise on all; ``None`` if unknown."""
    expected = expected_answer(query, beliefs)
    if expected is None:
        return None
    ordered = np.sort(np.maximum(expected, 0.0))[::-1]
    held = np.cumsum(ordered)
    return float(ordered[np.searchsorted(held, held[-1] / 2 * (1 - 1e-9))])


def expected_shares(beliefs: Beliefs | None, states: int, length: int) -> Floats:
    """The expected share of each state among so many entries; equal ones where nothing is known."""
    equal = np.full(states, 1 / states)
    if beliefs is None:
        return equal
    try:
        models = list(islice(_models(beliefs), _MOST_MODELS))
        rows = [_shares(model, beliefs.states, length) for model in models]
    except (NotApplicable, ValueError, MemoryError):
        return equal
    return np.mean(rows, axis=0) if rows else equal


@singledispatch
def _models(beliefs: Beliefs) -> Iterator[Any]:
    """Models of a class; chains with any start begin as they go on in the long run."""
    for own in beliefs.named_members:
        yield _settled(own.chain) if own.any_start else own.chain
    if not beliefs.named_members:
        yield from (own.distribution for own in beliefs.distributions())


@_models.register
def _(beliefs: GraphClass) -> Iterator[Any]:
    yield from beliefs.listed


def _settled(chain: MarkovChain) -> MarkovChain:
    try:
        return MarkovChain(chain.stationary, chain.transition, chain.states)
    except ValueError:  # several closed classes
        return MarkovChain(np.full(len(chain), 1 / len(chain)), chain.transition, chain.states)


@singledispatch
def _shares(model: Any, states: Sequence[Any], length: int) -> Floats:
    raise NotApplicable(f"the shares of a {type(model).__name__} are not known")


@_shares.register
def _(model: MarkovChain, states: Sequence[Any], length: int) -> Floats:
    if model.is_stationary:
        return np.asarray(model.initial)
    total, power = np.zeros(len(model)), np.eye(len(model))  # over the first entries, and their P^m
    for bit in f"{length:b}":
        total, power = total + total @ power, power @ power
        if bit == "1":
            total, power = total @ model.transition + model.initial, power @ model.transition
    return np.asarray(total / total.sum())


@_shares.register
def _(model: HiddenChain, states: Sequence[Any], length: int) -> Floats:
    hidden = _shares(model.chain, model.chain.states, length)
    shares = np.zeros(len(states))
    np.add.at(shares, np.asarray(model.shown), hidden)
    return shares


@_shares.register(BayesianNetwork)
@_shares.register(MarkovRandomField)
def _(model: Any, states: Sequence[Any], length: int) -> Floats:
    nodes = model.nodes[:: -(-len(model.nodes) // _MOST_MODELS)]
    shares = np.zeros(len(states))
    for node in nodes:
        for value, share in zip(model.values[node], model.distribution(node), strict=True):
            shares[states.index(value)] += share / len(nodes)
    return shares


@_shares.register
def _(model: FiniteJoint, states: Sequence[Any], length: int) -> Floats:
    shares = np.zeros(len(states))
    for row, chance in model.table.items():
        for value in row:
            shares[states.index(value)] += float(chance) / len(row)
    return shares


def _drawn_answer(query: Query, beliefs: Beliefs) -> Floats | None:
    """The answer to data drawn from each model; of a long series, that of a part of it."""
    asks = query.asks.asked_for if isinstance(query.asks, Whole) else query.asks
    if asks is None or asks.kind == "several":
        return None
    lengths, factor = query.lengths, 1.0
    if sum(lengths) > _MOST_DRAWN:
        within = sum(total <= _MOST_DRAWN for total in accumulate(lengths))
        lengths = lengths[:within] or (_MOST_DRAWN,)
        factor = 1.0 if asks.per is not None else sum(query.lengths) / sum(lengths)
    answers = []
    try:
        over = getattr(query.evaluate, "over", None)
        asked = asks.bind(beliefs.states, lengths, over.calendar if over else None)
        for number, model in enumerate(islice(_models(beliefs), _MOST_MODELS)):
            data = drawn(model, beliefs.states, lengths, number)
            answers.append([float(value) for value in asked.exact(data)])
    except (NotApplicable, ValueError, AttributeError):
        return None
    share = sum(query.observed or query.lengths) / sum(query.lengths)
    factor *= 1.0 if asks.per is not None else share
    return np.asarray(factor * np.mean(answers, axis=0))


def first_model(beliefs: Beliefs) -> Any:
    """The first model of a class that data can be drawn from; ``None`` if there is none."""
    with suppress(NotApplicable, ValueError):
        return next((own for own in _models(beliefs) if hasattr(own, "sample")), None)
    return None


def drawn(model: Any, states: Sequence[Any], lengths: Sequence[int], seed: int) -> Series:
    """Data drawn from a model, as a series over the states of its class."""
    rng = np.random.default_rng(seed)
    own = np.array([states.index(state) for state in model.states])
    codes = np.concatenate([own[model.sample(length, rng)] for length in lengths])
    return Series(codes, tuple(states), tuple(lengths))


# --- the noise beside it --------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Usefulness(Shown):
    """How large the noise is compared with the answer that the beliefs expect.

    Attributes
    ----------
    what
        The noun for the numbers: shares, counts, totals, means.
    labels
        Their names.
    half_widths, level
        With this probability a number is off by no more than this.
    expected
        What is expected of each, above its least possible value; ``None`` if that is unknown.
    bounds
        Least and largest answer, if known.
    mechanism, epsilon
        The mechanism and its epsilon.

    Examples
    --------
    >>> from pufferkit import MarkovChain, influence_curve, relative_frequencies
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> Usefulness.of(influence_curve(chain, relative_frequencies([0, 1], 1000), 1)).drowned
    False
    >>> small = Usefulness.of(influence_curve(chain, relative_frequencies([0, 1], 50), 1))
    >>> small.drowned, small.lost
    (False, ('1',))
    """

    what: str
    labels: tuple[str, ...]
    half_widths: Floats
    level: float
    expected: Floats | None
    bounds: tuple[float, float] | None
    mechanism: str
    epsilon: float

    @classmethod
    def of(
        cls, calibration: Calibration, level: float = 0.95, beliefs: Beliefs | None = None
    ) -> Usefulness:
        """The noise of a calibration compared with the answer of its query.

        ``beliefs`` say what to expect where the mechanism needs none.
        """
        query = calibration.query
        noun = "answers" if query.asks is None else query.asks.noun
        return cls(
            "ranks" if query.chooses else noun,
            (query.name,) if query.chooses else tuple(query.labels),
            calibration.half_widths(level),
            level,
            expected_answer(query, calibration.beliefs or beliefs),
            (0.0, float(sum(query.observed or query.lengths))) if query.chooses else query.bounds,
            calibration.mechanism,
            calibration.epsilon,
        )

    @property
    def half_width(self) -> float:
        """The largest of the half-widths."""
        return float(self.half_widths.max())

    @property
    def relatives(self) -> Floats | None:
        """Each half-width as a share of what is expected; infinite where nothing is, but 0 of 0."""
        if self.expected is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = self.half_widths / np.maximum(self.expected, 0.0)
        return np.where(np.equal(self.half_widths, 0), 0.0, shares)

    @property
    def _typical(self) -> int | None:
        """The place of the typical number: those no worse hold half of all that is expected."""
        if self.expected is None or self.relatives is None:
            return None
        order = np.argsort(self.relatives, kind="stable")
        held = np.cumsum(np.maximum(self.expected, 0.0)[order])
        return int(order[np.searchsorted(held, held[-1] / 2 * (1 - 1e-9))])

    @property
    def typical(self) -> float | None:
        """What is expected of the typical number."""
        return None if self.expected is None else float(self.expected[self._typical or 0])

    @property
    def relative(self) -> float | None:
        """The half-width of the typical number as a share of what is expected of it."""
        return None if self.relatives is None else float(self.relatives[self._typical or 0])

    @property
    def drowned(self) -> bool:
        """Whether the noise drowns the answer; false if nothing is known of it."""
        return self.relative is not None and self.relative > DROWNED

    @property
    def lost(self) -> tuple[str, ...]:
        """The numbers that drown, by their labels."""
        if self.relatives is None:
            return ()
        return tuple(self.labels[n] for n in np.flatnonzero(self.relatives > DROWNED))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        relative = self.relative
        return {
            "mechanism": self.mechanism,
            "half_width": self.half_width,
            "level": self.level,
            "expected": None if self.expected is None else self.expected.tolist(),
            "typical": self.typical,
            "answer_range": None if self.bounds is None else list(self.bounds),
            "relative_error": None if relative == inf else relative,
            "drowned": self.drowned,
            "lost": list(self.lost),
        }

    def warnings(self) -> list[str]:
        """That the noise drowns the answer, or some of its numbers."""
        if self.drowned:
            return [self.warning]
        lost = self.lost
        if not lost:
            return []
        named = ", ".join(printable(name) for name in lost[:_NAMED])
        named += f" and {len(lost) - _NAMED:,} more" if len(lost) > _NAMED else ""
        return [f"the noise drowns {len(lost):,} of {len(self.labels):,} {self.what}: {named}"]

    def remarks(self) -> list[str]:
        """The noise, the range of the answer, and the share of what is expected."""
        sure = f"{100 * self.level:g}%"
        text = f"{self.mechanism}: {sure} of {self.what} are within {at_most(self.half_width)}"
        if self.relative is None or self.typical is None:
            return [text + "; the range of the answer is not known, so judge it yourself"]
        if self.bounds is not None:
            low, high = self.bounds
            text += f" of the truth, which lies between {low:,g} and {high:,g}"
        return [f"{text}; that is {self._part}"]

    @property
    def warning(self) -> str:
        """The warning about noise that drowns the answer."""
        return (
            f"the noise drowns the answer: {100 * self.level:g}% of {self.what} are off by up "
            f"to {at_most(self.half_width)}, {self._part}"
        )

    @property
    def _part(self) -> str:
        typical, relative = self.typical or 0.0, self.relative or 0.0
        if relative == inf:
            return "and 0 is expected"
        return f"{times(relative)} a typical answer, {three_digits(typical)} as the beliefs expect"


def warn_if_drowned(
    calibration: Calibration,
    beliefs: Beliefs | None = None,
    *,
    anyway: bool,
    rows: str = "",
    stacklevel: int = 3,
) -> None:
    """Warn that noise drowns an answer, before anything is charged or drawn.

    Parameters
    ----------
    calibration, beliefs
        The noise to be judged, and what to expect where it was made without beliefs.
    anyway
        Whether the release is meant all the same; then there is no warning.
    rows
        Which of many rows was judged, in words.
    stacklevel
        Frames from here to the call that the warning is about.
    """
    if anyway:
        return
    useful = Usefulness.of(calibration, beliefs=beliefs)
    if useful.drowned:
        message = f"{useful.warning}{rows}; anyway=True releases it without this warning"
        warnings.warn(DrownedAnswer(message, calibration), stacklevel=stacklevel)


def questioned(epsilon: float) -> str | None:
    """A warning about an epsilon that guarantees hardly anything; ``None`` for others."""
    if epsilon <= LARGE_EPSILON:
        return None
    factor = f"{math.exp(epsilon):,.3g}" if epsilon < LARGEST_EXPONENT else "more than 1e304"
    return (
        f"epsilon {epsilon:g} lets a release multiply the odds of any two values of an entry by "
        f"{factor}; 0.1 to 3 are usual"
    )


def times(part: float) -> str:
    """A share in per cent, without an exponent; in times where it is large.

    >>> times(0.089), times(0.01234), times(1164.34)
    ('8.9% of', '1.2% of', '1,160 times')
    """
    if part > 2:
        return f"{three_digits(part)} times"
    return f"{100 * part:.0f}% of" if part >= 0.1 else f"{100 * part:.2g}% of"
