"""Held-out predictions of beliefs and of flexible predictors."""

import builtins

import numpy as np
import pytest

from pufferkit import MarkovChain, NotApplicable
from pufferkit.fitting.members import (
    boosted_predictor,
    chain_predictor,
    memory_predictor,
    prediction_gap,
)

CHAIN = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
SLOTS = np.zeros(10, dtype=np.intp)


def alternating(length, seed):
    """Of second order: an entry mostly repeats the one two steps before."""
    rng = np.random.default_rng(seed)
    entries = np.zeros(length, dtype=np.intp)
    for t in range(2, length):
        entries[t] = entries[t - 2] ^ (rng.random() < 0.1)
    return entries


def test_a_chain_scores_its_own_moves():
    scores = chain_predictor(CHAIN.transition)(np.array([0, 0, 1, -1, 1, 0]), SLOTS[:6])
    assert scores[[0, 1, 4]] == pytest.approx(np.log([0.8, 0.2, 0.3]))
    assert np.isnan(scores[[2, 3]]).all()
    parts = np.array([CHAIN.transition, np.eye(2)[::-1]])
    scores = chain_predictor(parts, day=4)(np.array([0, 1, 1, 0, 1]), np.arange(5) % 4)
    assert scores == pytest.approx(np.log([0.2, 0.7, 1.0, 1.0]))


def test_memory_is_counts_that_back_off():
    public = np.array([0, 1, 1, 0, 1, -1, 1, 1, 1])
    first = (np.array([2, 6]) + 0.5) / 9
    after_one = (np.array([1, 3]) + 5 * first) / (4 + 5)
    after_two = (np.array([1, 1]) + 5 * after_one) / (2 + 5)  # after 1, 1
    scores = memory_predictor([public], 2, order=2)(np.array([-1, 1, 1, 0]), SLOTS[:4])
    assert np.exp(scores) == pytest.approx([first[1], after_one[1], after_two[0]])


def test_longer_memory_shows_where_it_is_there():
    held_out = [alternating(4000, 2)]
    public = [alternating(8000, 1)]
    table = np.array([[1.0, 1.0], [1.0, 1.0]])
    np.add.at(table, (public[0][:-1], public[0][1:]), 1)
    one = chain_predictor(table / table.sum(axis=1, keepdims=True))
    flexible = {f"memory of {m}": memory_predictor(public, 2, m) for m in (2, 3)}
    gap = prediction_gap(one, flexible, held_out, 2, day=200)
    assert not gap.passed
    assert gap.gap == pytest.approx(gap.given - gap.flexible[gap.best])
    assert gap.flexible["memory of 2"] == pytest.approx(0.325, abs=0.03)  # entropy of 0.1
    same = prediction_gap(flexible["memory of 2"], flexible, held_out, 2, day=200)
    assert same.passed


def test_the_error_is_that_of_days():
    rng = np.random.default_rng(0)
    people = [rng.integers(0, 2, 400), rng.integers(0, 2, 300)]

    def by_day(person, slots):
        return np.where(np.arange(1, len(person)) // 100 % 2 == 0, -1.0, -3.0)

    def even(person, slots):
        return np.full(len(person) - 1, -1.5)

    gap = prediction_gap(by_day, {"even": even}, people, 2, day=100)
    difference = np.concatenate([-by_day(x, None) + even(x, None) for x in people])
    day = np.concatenate([np.arange(1, 400) // 100, 10 + np.arange(1, 300) // 100])
    sums = [np.sum((difference - difference.mean())[day == d]) for d in np.unique(day)]
    assert gap.error == pytest.approx(np.sqrt(7 / 6 * np.sum(np.square(sums))) / 698)
    assert gap.gap == pytest.approx(difference.mean())


def test_boosting_learns_the_clock():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(1)
    clock = np.tile(np.repeat([0, 1], 50), 40)
    people = [np.where(rng.random(4000) < 0.2, 1 - clock, clock) for _ in range(2)]
    boosted = boosted_predictor(people[:1], 2, day=100)
    flexible = {"boosting": boosted}
    table = np.array([[0.68, 0.32], [0.32, 0.68]])
    gap = prediction_gap(chain_predictor(table), flexible, people[1:], 2, day=100)
    assert gap.gap > 0.05
    gaps = people[1].copy()
    gaps[10:20] = -1
    scores = boosted(gaps, np.arange(4000) % 100)
    assert np.isnan(scores).sum() == 10
    assert np.exp(scores[~np.isnan(scores)]).max() < 1


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(NotApplicable, match=r"pip install 'pufferkit\[checks\]'"):
        boosted_predictor([np.arange(4) % 2], 2)


def test_nothing_to_predict():
    one = chain_predictor(CHAIN.transition)
    with pytest.raises(NotApplicable, match="nothing to predict"):
        prediction_gap(one, {"same": one}, [np.array([0, -1, 1])], 2)
