"""Random small chains for hypothesis: rational, with zeros, ties, cycles and closed classes."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import pufferkit as pk


class Chain(NamedTuple):
    """A chain in fractions."""

    initial: list[Fraction]
    transition: list[list[Fraction]]

    @property
    def believed(self) -> pk.MarkovChain:
        return pk.MarkovChain(self.initial, self.transition)

    @property
    def size(self) -> int:
        return len(self.initial)


def distributions(size: int, least: int = 0) -> st.SearchStrategy[list[Fraction]]:
    """Distributions with small numerators, so that zeros and equal entries are common."""
    weights = st.lists(st.integers(least, 5), min_size=size, max_size=size)
    return weights.filter(any).map(lambda w: [Fraction(n, sum(w)) for n in w])


def sure(size: int, x: int) -> list[Fraction]:
    return [Fraction(x == y) for y in range(size)]


def matrices(size: int) -> st.SearchStrategy[list[list[Fraction]]]:
    """Any pattern of zeros; one case in a few is of a special kind."""
    rows = st.lists(distributions(size), min_size=size, max_size=size)
    maps = st.lists(st.integers(0, size - 1), min_size=size, max_size=size)
    cycles = st.permutations(range(size))
    return st.one_of(
        rows,
        rows,
        positive_matrices(size),
        distributions(size).map(lambda row: [row] * size),  # independent entries
        maps.map(lambda to: [sure(size, x) for x in to]),  # deterministic
        st.tuples(cycles, cycles).map(lambda two: _doubly_stochastic(*two)),
    )


def positive_matrices(size: int) -> st.SearchStrategy[list[list[Fraction]]]:
    return st.lists(distributions(size, least=1), min_size=size, max_size=size)


def _doubly_stochastic(one: list[int], two: list[int]) -> list[list[Fraction]]:
    half = Fraction(1, 2)
    return [
        [half * (y == one[x]) + half * (y == two[x]) for y in range(len(one))]
        for x in range(len(one))
    ]


def chains(most: int = 3, least: int = 1) -> st.SearchStrategy[Chain]:
    return st.integers(least, most).flatmap(
        lambda size: st.builds(Chain, distributions(size), matrices(size))
    )


def positive_chains(most: int = 3) -> st.SearchStrategy[Chain]:
    return st.integers(2, most).flatmap(
        lambda size: st.builds(Chain, distributions(size), positive_matrices(size))
    )


epsilons = st.sampled_from([0.05, 0.3, 1.0, 2.5, 6.0, 20.0])


def walk_with_drift(size, up):
    """A random walk on a line: one step up with this probability, else one step down."""
    walk = np.zeros((size, size))
    for x in range(size):
        walk[x, min(x + 1, size - 1)] += up
        walk[x, max(x - 1, 0)] += 1 - up
    return walk
