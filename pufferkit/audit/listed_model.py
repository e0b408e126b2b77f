"""Every data set with its probability and its answer, so that distributions are exact."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pufferkit.audit.answer_distributions import (
    AnswerDistribution,
    Answers,
    answer,
    answers_of,
    distinct_answers,
)
from pufferkit.audit.conditioned_chain import split
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable

MOST_ROWS = 2_000_000
"""Most data sets that are listed one by one."""

MOST_EVALUATED = 100_000
"""Most data sets on which a query that is not a sum is evaluated."""


@dataclass(frozen=True, eq=False)
class ListedModel:
    """Every data set with its probability and its answer."""

    entries: tuple[Hashable, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    codes: NDArray[np.uint16]
    probability: Floats
    answers: Answers

    def values(self, entry: int) -> list[tuple[int, Hashable]]:
        labels = self.labels[entry]
        mass = np.bincount(self.codes[:, entry], self.probability, minlength=len(labels))
        return [(code, label) for code, label in enumerate(labels) if mass[code] > 0]

    def mass(self, entry: int, code: int) -> float:
        """Probability of a secret."""
        return float(self.probability[self.codes[:, entry] == code].sum())

    def distribution(self, entry: int, code: int) -> AnswerDistribution:
        rows = self.codes[:, entry] == code
        mass = np.bincount(
            self.answers.which[rows], self.probability[rows], len(self.answers.distinct)
        )
        return AnswerDistribution(self.answers.points, mass / mass.sum())

    def draw(self, entry: int, code: int, trials: int, rng: np.random.Generator) -> Answers:
        distribution = self.distribution(entry, code)
        return Answers(
            self.answers.distinct,
            rng.choice(len(distribution.weights), size=trials, p=distribution.weights),
        )


def chain_table(chain: MarkovChain, query: Query) -> ListedModel:
    """Every path of a chain over the segments of a query."""
    length, size = sum(query.lengths), len(chain)
    most = MOST_ROWS if query.weights is not None else MOST_EVALUATED
    if length * np.log(size) > np.log(most) + 1e-9:
        raise NotApplicable(
            f"{size} states and {length} entries make {size}^{length} data sets, more than "
            f"{most:,}; shorten the series or merge states"
        )
    grid = np.indices((size,) * length, dtype=np.uint16).reshape(length, -1)
    probability = np.ones(grid.shape[1])
    for begin, end in split(query.lengths):
        probability *= chain.initial[grid[begin]]
        for t in range(begin + 1, end):
            probability *= chain.transition[grid[t - 1], grid[t]]
    possible = probability > 0
    codes = grid[:, possible].T
    return ListedModel(
        tuple(range(1, length + 1)),
        (chain.states,) * length,
        codes,
        probability[possible],
        answers_of(codes, chain.states, query),
    )


def joint_table(joint: FiniteJoint, query: Query) -> ListedModel:
    """Every row of a joint distribution."""
    rows = [(row, float(p)) for row, p in joint.table.items() if p > 0]
    labels = tuple(joint.values(name) for name in joint.names)
    codes = np.array(
        [[labels[j].index(value) for j, value in enumerate(row)] for row, _ in rows],
        dtype=np.uint16,
    )
    return ListedModel(
        joint.names,
        labels,
        codes,
        np.array([p for _, p in rows]),
        distinct_answers([answer(query, row) for row, _ in rows]),
    )


def network_table(network: BayesianNetwork, query: Query) -> ListedModel:
    """Every assignment of values to the nodes of a network."""
    sizes = tuple(len(network.values[node]) for node in network.nodes)
    most = MOST_ROWS if query.weights is not None else MOST_EVALUATED
    if np.sum(np.log(sizes)) > np.log(most) + 1e-9:
        raise NotApplicable(
            f"{len(sizes)} nodes make {np.prod(np.array(sizes, dtype=float)):.2g} data sets, more "
            f"than {most:,}; audit a part of the network"
        )
    joint = network.table(network.nodes)
    possible = joint.possible.ravel()
    states = tuple(dict.fromkeys(v for node in network.nodes for v in network.values[node]))
    place = {state: code for code, state in enumerate(states)}
    grid = np.indices(sizes, dtype=np.uint16).reshape(len(sizes), -1)[:, possible]
    codes = np.empty(grid.shape[::-1], dtype=np.uint16)
    for j, node in enumerate(network.nodes):
        codes[:, j] = np.array([place[v] for v in network.values[node]], dtype=np.uint16)[grid[j]]
    return ListedModel(
        network.nodes,
        (states,) * len(sizes),
        codes,
        joint.values.ravel()[possible],
        answers_of(codes, states, query),
    )


def listed_model(
    distribution: MarkovChain | FiniteJoint | BayesianNetwork, query: Query
) -> ListedModel:
    """Every data set of a distribution."""
    match distribution:
        case FiniteJoint():
            return joint_table(distribution, query)
        case BayesianNetwork():
            return network_table(distribution, query)
        case _:
            return chain_table(distribution, query)
