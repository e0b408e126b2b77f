"""Predictions, simulated series and influence of a class of beliefs.

A class is represented by its `distributions`: chains, or functions of a hidden chain. Where it
lists all of them, the one that predicts people best represents it. Where it contains more (a hull,
a region), its vertices are mixed in every part of the day, by weights chosen in hindsight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from math import inf

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenChain, HiddenModel
from pufferkit.beliefs.markov_chain import MarkovChain, composed, moves_of
from pufferkit.beliefs.regime_class import RegimeClass
from pufferkit.beliefs.seasonal_class import SeasonalClass
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.fitting.baum_welch import log_likelihood
from pufferkit.fitting.prediction import Predictor, chain_predictor
from pufferkit.fitting.row_coverage import closest_in_box
from pufferkit.fitting.sequences import Codes
from pufferkit.influence.curve.profile import InfluenceCurve

SMALL = 1e-4
"""The event-level epsilon at which budgets are compared: a floor by influence holds as it goes to
0, where the loss is linear in it."""

_FIRST = 2_000
_MANY = 12
_ROUNDS = 40
_LEAST = 1e-300


def budgeted_influence(theta: ChainClass, window: int) -> float:
    """The influence, in entries, that the noise of a class allows: epsilon / b at a small b.

    Over a series of 2 ``window`` + period entries, the period that of the clock of the class: in
    every slot there is an entry with whole windows on either side, the same window in which
    influence is measured.
    """
    period = max((part.period for part in theta.kernels()), default=1)
    length = 2 * checks.whole("window", window, 1) + period
    return InfluenceCurve(theta, length).epsilon(SMALL) / SMALL


def filtered(member: MarkovChain | HiddenChain, person: Codes) -> Floats:
    """Distribution of each entry after the first given those before it, a row for each.

    The forward recursion over the hidden states that emit what was observed. A row is NaN once the
    data have probability zero under the member.
    """
    hidden = member.chain if isinstance(member, HiddenChain) else member
    shown = np.asarray(member.shown if isinstance(member, HiddenChain) else range(len(member)))
    showing = [np.flatnonzero(shown == state) for state in range(len(member.states))]
    everywhere = np.arange(len(shown))
    spread = np.zeros((len(shown), len(showing)))
    spread[everywhere, shown] = 1.0
    rows = np.full((len(person) - 1, len(showing)), np.nan)
    ahead = np.asarray(hidden.initial)
    for t, code in enumerate(person[:-1]):
        places = everywhere if code < 0 else showing[code]
        here = ahead[places]
        total = here.sum()
        if not total > 0:
            break
        ahead = (here / total) @ hidden.transition[places]
        rows[t] = ahead @ spread
    return rows


def member_predictor(member: MarkovChain | HiddenChain) -> Predictor:
    """The predictor of one distribution; entries of probability zero are not scored."""

    def predict(person: Codes, slots: Codes) -> Floats:
        rows = filtered(member, person)
        chances = rows[np.arange(len(rows)), person[1:]]
        with np.errstate(divide="ignore"):
            scores = np.log(chances)
        scores[np.isnan(chances)] = -np.inf
        return np.where(person[1:] >= 0, scores, np.nan)

    return predict


def schedule_predictor(kernels: Sequence[Floats], block: int) -> Predictor:
    """Mixtures of kernels whose weights are chosen in hindsight for every ``block`` of entries."""
    matrices = np.array(kernels)

    def predict(person: Codes, slots: Codes) -> Floats:
        scores = np.full(len(person) - 1, np.nan)
        for at in _observed_moves(person, block):
            if not at.size:
                continue
            chances = matrices[:, person[at], person[at + 1]].T
            weights = np.full(len(matrices), 1 / len(matrices))
            for _ in range(_ROUNDS):
                shares = chances * weights
                shares /= np.maximum(shares.sum(axis=1, keepdims=True), _LEAST)
                weights = shares.mean(axis=0)
            with np.errstate(divide="ignore"):
                scores[at] = np.log(chances @ weights)
        return scores

    return predict


def _observed_moves(person: Codes, block: int) -> Iterator[Codes]:
    """Where both ends of a transition were observed, for every ``block`` of entries."""
    seen = (person[:-1] >= 0) & (person[1:] >= 0)
    for first in range(0, len(seen), block):
        yield first + np.flatnonzero(seen[first : first + block])


@dataclass(frozen=True, eq=False)
class Speaker:
    """One distribution of a class: how it predicts, and how series are drawn from it."""

    name: str
    predict: Predictor
    sample: Callable[[int, np.random.Generator], Codes]
    nats: Callable[[Codes], float] | None = None
    """The negative log-likelihood of a person, where there is a quicker way to it."""


def region_predictor(low: Floats, high: Floats, block: int) -> Predictor:
    """Chains within bounds, the nearest in hindsight for every ``block`` of entries."""
    size = len(low)

    def predict(person: Codes, slots: Codes) -> Floats:
        scores = np.full(len(person) - 1, np.nan)
        for at in _observed_moves(person, block):
            counts = np.zeros((size, size))
            np.add.at(counts, (person[at], person[at + 1]), 1)
            rows = zip(counts, low, high, strict=True)
            nearest = np.array([closest_in_box(*row) for row in rows])
            with np.errstate(divide="ignore"):
                scores[at] = np.log(nearest[person[at], person[at + 1]])
        return scores

    return predict


def best_member(theta: ChainClass, people: Sequence[Codes]) -> Speaker:
    """The distribution with the largest likelihood; of many, judged by the first entries."""
    bounds = region_bounds(theta)
    if bounds is not None:
        return _nearest(people, theta, *bounds)
    speakers = _speakers(theta)
    if len(speakers) == 1:
        return speakers[0]
    length = _FIRST if len(speakers) > _MANY else max(len(person) for person in people)

    def nats(one: Speaker) -> float:
        parts = [person[:length] for person in people if len(person) > 1]
        if one.nats is not None:
            return sum(one.nats(part) for part in parts)
        return -float(sum(np.nansum(one.predict(part, np.zeros_like(part))) for part in parts))

    return min(speakers, key=nats)


def _nearest(people: Sequence[Codes], theta: ChainClass, low: Floats, high: Floats) -> Speaker:
    """The chain within bounds with the largest likelihood."""
    counts = np.zeros(low.shape)
    for person in people:
        seen = (person[:-1] >= 0) & (person[1:] >= 0)
        np.add.at(counts, (person[:-1][seen], person[1:][seen]), 1)
    middle = (low + high) / 2
    rows = zip(
        np.where(counts.sum(axis=1, keepdims=True) > 0, counts, middle), low, high, strict=True
    )
    matrix = np.array([closest_in_box(*row) for row in rows])
    try:
        chain = MarkovChain.steady(matrix / matrix.sum(axis=1, keepdims=True), theta.states)
    except ValueError as error:
        raise NotApplicable(f"nearest chain of the region: {error}") from None
    return Speaker("nearest chain of the region", member_predictor(chain), chain.sample)


@singledispatch
def _speakers(theta: ChainClass) -> list[Speaker]:
    """The distributions of a class that can represent it."""
    speakers = []
    for one in theta.distributions():
        member = one.distribution
        if not isinstance(member, (MarkovChain, HiddenChain)):
            raise NotApplicable(f"{one.name}: is no series of entries")
        quick = partial(_moves_nats, member) if isinstance(member, MarkovChain) else None
        speakers.append(Speaker(one.name, member_predictor(member), member.sample, quick))
    return speakers


def _moves_nats(chain: MarkovChain, person: Codes) -> float:
    """The negative log-likelihood of the transitions with both ends observed."""
    seen = (person[:-1] >= 0) & (person[1:] >= 0)
    chances = chain.transition[person[:-1][seen], person[1:][seen]]
    return inf if (chances == 0).any() else -float(np.log(chances).sum())


@_speakers.register
def _(theta: RegimeClass) -> list[Speaker]:
    """Each model, with its likelihood by the compiled recursion."""
    return [
        Speaker(
            one.name,
            member_predictor(one.distribution),
            one.distribution.sample,
            partial(_regime_nats, model),
        )
        for one, model in zip(theta.distributions(), theta.models, strict=True)
        if isinstance(one.distribution, (MarkovChain, HiddenChain))
    ]


def _regime_nats(model: HiddenModel, person: Codes) -> float:
    return -log_likelihood(model, [person])


@_speakers.register
def _(theta: SeasonalClass) -> list[Speaker]:
    """The chain of the clock from each slot; one chain of slots and states would be too large."""
    period = len(theta.matrices)
    slots = range(period) if theta.start is None else (theta.start,)
    matrices, sums = np.array(theta.matrices), np.cumsum(theta.matrices, axis=2)

    def speaker(first: int) -> Speaker:
        def predict(person: Codes, slots: Codes) -> Floats:
            clock = (first + np.arange(len(person))) % period
            return chain_predictor(matrices, period)(person, clock)

        def sample(length: int, rng: np.random.Generator) -> Codes:
            draws = rng.random(length)
            start = np.cumsum(theta.marginals[first])[:-1].searchsorted(draws[0], side="right")
            moves = np.empty((length - 1, len(theta.states)), dtype=np.int16)
            for t in range(min(period, length - 1)):
                for x, row in enumerate(sums[(first + t) % period, :, :-1]):
                    moves[t::period, x] = moves_of(row, draws[1 + t :: period])
            return np.concatenate(([start], composed(int(start), moves)))

        return Speaker(f"first entry at slot {first}", predict, sample)

    return [speaker(first) for first in slots]


def class_predictor(theta: ChainClass, people: Sequence[Codes], block: int) -> Predictor:
    """The best predictor of a class."""
    bounds = region_bounds(theta)
    if bounds is not None:
        return region_predictor(*bounds, block)
    kernels = None if lists_all(theta) else forward_kernels(theta)
    if kernels is None:
        return best_member(theta, people).predict
    return schedule_predictor(kernels, block)


def region_bounds(theta: ChainClass) -> tuple[Floats, Floats] | None:
    """Bounds on the matrix that are the class; ``None`` for other classes."""
    if theta.kernels() or theta.lists_matrices or not theta.names_matrices:
        return None
    boxes = theta.boxes()
    return (boxes[0][1], boxes[0][2]) if len(boxes) == 1 else None


def allowed_contamination(theta: ChainClass) -> float:
    """The contamination weight that a class allows in a row of its kernels."""
    return min((part.contamination for part in theta.kernels()), default=0.0)


def lists_models(theta: ChainClass) -> bool:
    """Whether a class is given by models one by one, each known up to contamination at most."""
    if theta.kernels():
        return all(all(len(own) == 1 for own in part.forward) for part in theta.kernels())
    return theta.lists_matrices


def lists_all(theta: ChainClass) -> bool:
    """Whether a class holds no more than the distributions it lists, but for their start."""
    return lists_models(theta) and all(part.contamination == 0 for part in theta.kernels())


def forward_kernels(theta: ChainClass) -> list[Floats] | None:
    """The matrices of the chains a class lists; ``None`` where entries are no such chain."""
    if any(part.period > 1 for part in theta.kernels()):
        return None
    members = [one.distribution for one in theta.distributions()]
    if not all(isinstance(member, MarkovChain) for member in members):
        return None
    return [member.transition for member in members if isinstance(member, MarkovChain)]


@singledispatch
def schedule_of(theta: ChainClass, *, from_start: bool) -> Floats | None:
    """The matrix for each slot, where a class is one chain of the clock; ``None`` for others.

    ``from_start`` counts slots from the first entry of a series, if the class knows that slot.
    """
    return None


@schedule_of.register
def _(theta: SeasonalClass, *, from_start: bool) -> Floats | None:
    turned = (theta.start or 0) if from_start else 0
    return np.roll(theta.matrices, -turned, axis=0)
