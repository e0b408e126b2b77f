"""How much a release of a small series tells, by definition, against members that are searched.

Nothing of the package is called here: the oracles know the classes, questions and secrets by name.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from tests.guards.asked import Over
from tests.guards.beliefs import BELIEFS, Belief
from tests.guards.scales import Row, over_of
from tests.oracles.answers import ANSWERS
from tests.oracles.choice import chosen, misses
from tests.oracles.hidden import all_data, coded, hidden
from tests.oracles.laws import members
from tests.oracles.released import MANY, Answers, Choice, Laplace, Pipelines

MOST_SERIES = 3000
"""More data than this are not listed."""

EVALUATIONS = 60
"""Members tried, where a class has many."""

LOOSE = {"mixing", "ising", "field", "grid", "potts", "joints"}
"""Classes whose bounds are not attained by any member."""


def listable(states: tuple[str, ...], over: Over) -> bool:
    """Whether all data are few enough to be listed."""
    return len(states) ** over.total <= MOST_SERIES


@cache
def answers(question: str, states: tuple[str, ...], over: Over, times: int = 1) -> Answers:
    """The answer for every series, gaps included, so many times; "the data" is all of it."""
    if question == "the data":
        return Answers([[states.index(x) for x in data] for data in all_data(states, over.total)])
    answer = ANSWERS[question]
    shown = [
        tuple(None if t in over.missing else x for t, x in enumerate(data))
        for data in all_data(states, over.total)
    ]
    return Answers([[*answer(data, over.lengths, states)] * times for data in shown])


@cache
def secrets(secret: str, states: tuple[str, ...], over: Over) -> list[Any]:
    """Place, labels as numbers, their number, and the weights of their pairs."""
    out = []
    for place, labels, weights in hidden(secret, over.lengths, states):
        codes, names = coded(labels)
        table = None
        if weights is not None:
            table = np.array([[weights.get((x, y), 0.0) for y in names] for x in names])
        out.append((place, codes, len(names), table))
    return out


class Attack:
    """Members of a class against one release: `loss` of one of them, `climb` to a high one.

    Or against several: ``told`` are then all answers, each in units of its noise.
    """

    def __init__(
        self,
        belief: str | Belief,
        question: str,
        secret: str,
        over: Over,
        scale: float,
        times: int = 1,
        told: Answers | None = None,
    ) -> None:
        own = belief if isinstance(belief, Belief) else BELIEFS[belief]
        self.over, self.states = over, own.states
        self.answers = told or answers(question, own.states, over, times)
        self.noise: Laplace | Choice | Pipelines
        if told is not None:
            self.noise = Laplace(told, 1.0)
        elif question == "the data":
            self.noise = Pipelines(self.answers, 1 / scale)
        elif question == "quantile":
            self.noise = Choice(self.answers, scale, chosen, misses)
        else:
            self.noise = Laplace(self.answers, scale)
        self.hidden = secrets(secret, own.states, over)
        self.regime = own.given.get("secret") == "regime"
        self.laws = [members(own.kind, own.given, n, len(own.states)) for n in over.lengths]
        self.size = max(size for size, _ in self.laws)

    def chances(self, genes: np.ndarray, place: int) -> np.ndarray | None:
        """P(hidden state at the place, series), segments independent."""
        table, first = np.ones((1, 1)), 0
        for length, (size, law) in zip(self.over.lengths, self.laws, strict=True):
            here = first <= place < first + length
            own = law(genes[:size], place - first if here else 0)
            if own is None:
                return None
            own = own.reshape(len(own), -1)
            if not here:
                own = own.sum(axis=0, keepdims=True)
            table = (table[:, None, :, None] * own[None, :, None, :]).reshape(
                len(table) * len(own), -1
            )
            first += length
        return table

    def loss(self, genes: np.ndarray) -> float:
        """The largest loss of any secret against this member; 0 if it is none."""
        worst, kept = 0.0, {}
        for place, labels, count, multiples in self.hidden:
            if place not in kept:
                kept[place] = self.chances(genes, place)
            chances = kept[place]
            if chances is None:
                return 0.0
            weights = None
            if self.regime:
                possible = chances[chances.sum(axis=1) > 0]
                given = np.array(
                    [self.answers.given(row, np.zeros(len(row), int), 1)[0][0] for row in possible]
                )
            else:
                given, which = self.answers.given(chances.sum(axis=0), labels, count)
                if multiples is not None:
                    weights = multiples[np.ix_(which, which)]
            worst = max(worst, self.noise.loss(given, weights))
        return worst

    def climb(self, rng: np.random.Generator, evaluations: int) -> tuple[float, np.ndarray]:
        """The highest loss found: extreme and random members, then one number at a time."""
        starts = [rng.random(self.size), *(rng.integers(0, 2, (2, self.size)).astype(float))]
        if self.size <= 1:  # one law, or a few of them
            starts = [np.full(self.size, x) for x in np.linspace(0, 1, 13 if self.size else 1)]
        scored = [(self.loss(genes), tuple(genes)) for genes in starts]
        best, at = max(scored)
        if self.size <= 1:
            return best, np.array(at)
        genes, left, still = np.array(at), evaluations - len(starts), 0
        order = list(product(range(self.size), (0.0, 1.0, None)))
        while left > 0 and still < len(order):
            column, value = order[rng.integers(len(order))]
            trial = genes.copy()
            trial[column] = rng.random() if value is None else value
            if trial[column] == genes[column]:
                still += 1
                continue
            now, left = self.loss(trial), left - 1
            if now > best:
                best, genes, still = now, trial, 0
            else:
                still += 1
        return best, genes


def attacked(row: Row, scale: float, evaluations: int = EVALUATIONS) -> float:
    """The largest loss found of the noise of a row, if all data can be listed; else 0."""
    over, question = over_of(row), row.question
    if row.mechanism == "entry_epsilon":  # for any pipeline, over one segment, whatever is asked
        over, question = Over((max(over.lengths),)), "the data"
    states = BELIEFS[row.belief].states
    few = len(states) ** over.total * (2 ** len(states) - 2) ** over.total < MANY
    if row.mechanism == "entry_dp" or not listable(states, over):
        return 0.0
    if question == "the data" and not few:
        return 0.0
    attack = Attack(row.belief, question, row.secret, over, scale)
    return attack.climb(np.random.default_rng(row.chosen), evaluations)[0]
