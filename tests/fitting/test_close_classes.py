"""Adversaries near regions, mixing classes and beliefs with secrets of their own."""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from pufferkit import ChainClass, MarkovChain, NotApplicable, Secrets, closeness


def table(chain, length):
    """Every series and its probability."""
    probabilities = {}
    for path in product(range(len(chain)), repeat=length):
        p = chain.initial[path[0]]
        for x, y in pairwise(path):
            p *= chain.transition[x, y]
        probabilities[path] = p
    return probabilities


def listed_delta(theirs, ours, length, secrets):
    """By definition: ``secrets`` are functions of a series; a value of ``None`` is no secret."""
    first, second = table(theirs, length), table(ours, length)
    delta = 0.0
    for secret in secrets:
        groups = {}
        for path in first:
            groups.setdefault(secret(path), []).append(path)
        for value, paths in groups.items():
            one, other = (sum(t[path] for path in paths) for t in (first, second))
            if value is None or one == 0:
                continue
            if any((first[path] > 0) != (second[path] > 0) for path in paths):
                return math.inf
            for path in paths:
                if first[path] > 0:
                    ratio = first[path] / one / (second[path] / other)
                    delta = max(delta, abs(math.log(ratio)))
    return delta


def entries_of(sets):
    return [lambda path, own=own: tuple(path[i] for i in own) for own in sets]


def windows(length, window, label):
    return [
        lambda path, i=i: label(path[i : i + window]) for i in range(max(length - window + 1, 1))
    ]


# --- secrets of their own -------------------------------------------------------------------------


def random_pair(seed, size, zeros):
    """An adversary and a stationary belief; with zeros in some, mostly the same ones."""
    rng = np.random.default_rng(seed)
    mask = rng.random((size, size)) < (0.7 if zeros else 2)
    mask |= np.eye(size, dtype=bool) | np.roll(np.eye(size, dtype=bool), 1, axis=1)
    one, other = (rng.dirichlet([2.0] * size, size) * mask for _ in range(2))
    if seed % 4 == 3:
        one[0, 1:] = 0
    one, other = (m / m.sum(axis=1, keepdims=True) for m in (one, other))
    start = rng.dirichlet([2.0] * size)
    if seed % 3 == 2:
        start[0] = 0
    return MarkovChain(start / start.sum(), one), MarkovChain.steady(other)


def cases(length):
    return {
        "runs": (Secrets.runs(2), windows(length, 2, tuple)),
        "long runs": (Secrets.runs(3), windows(length, 3, tuple)),
        "all": (Secrets.runs(99), windows(length, length, tuple)),
        "pairs": (
            Secrets.pairs([(0, 1)]),
            [lambda path, i=i: path[i] if path[i] < 2 else None for i in range(length)],
        ),
    }


@pytest.mark.parametrize("name", cases(4))
@pytest.mark.parametrize("zeros", [False, True])
def test_given_own_secrets_equals_listing_all_series(name, zeros):
    infinite = 0
    for seed in range(12):
        size, length = 2 + seed % 2, 3 + seed % 3
        theirs, ours = random_pair(seed, size, zeros)
        secrets, events = cases(length)[name]
        theta = ChainClass.of(ours).with_secrets(secrets, entries=False)
        wanted = listed_delta(theirs, ours, length, events)
        delta = closeness(theirs, theta, length).delta
        assert delta == wanted or delta == pytest.approx(wanted, abs=1e-9)
        infinite += wanted == math.inf
    assert infinite < 12


def test_all_secrets_count_and_single_entries_are_among_them():
    theirs, ours = random_pair(1, 3, zeros=False)
    theta = ChainClass.of(ours)
    event = Secrets.pairs([(0, 1)])
    alone = closeness(theirs, theta.with_secrets(event, entries=False), 4).delta
    entry = closeness(theirs, theta, 4).delta
    assert closeness(theirs, theta.with_secrets(event), 4).delta == max(alone, entry)
    assert closeness(ours, theta.with_secrets(event), 4).delta == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("secrets", [Secrets.sets(2), Secrets.throughout(0, 3)])
def test_secrets_that_are_no_entries_in_a_row_are_refused(secrets):
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    with pytest.raises(NotApplicable, match=r"Secrets\.runs"):
        closeness(chain, ChainClass.of(chain).with_secrets(secrets), 9)


@pytest.mark.parametrize(
    "theta",
    [
        ChainClass.around([[900, 100], [80, 120]], 0.95),
        ChainClass.mixing(2, 0.2, 0.75),
        ChainClass.hull(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])),
    ],
)
def test_a_class_that_is_no_list_asks_for_a_chain_of_it(theta):
    with pytest.raises(NotApplicable, match="give a chain of it"):
        closeness(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), theta, 9)
