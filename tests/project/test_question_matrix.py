"""Every kind of question has all that a question must have; a new one cannot be forgotten.

For each name: the answer and the bound for one entry by listing all data, the loss by the
definition, and a proof in the docstring. The command line, with audits, pictures and tables of many
subjects: `tests/cli/test_question_commands.py`; gaps and secrets: `tests/guards`.
"""

from importlib import import_module
from itertools import pairwise, product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.data.query import KINDS, NAMES, question
from tests.oracles import asked as oracle
from tests.oracles import choice

STATES = (0, 1, 2)
MATRIX = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
CHAIN = pk.MarkovChain.steady(MATRIX)
WHEN = pk.Calendar("2024-03-05 22:00", every="1h")  # a Tuesday night; midnight after two entries
LENGTH = 4
DAYS = [0, 0, 1, 1]
VALUES = {0: 7, 1: 2.5, 2: 1}


def counted(data, order=STATES):
    return [sum(x == state for x in data) for state in order]


def clipped(x, low=0, high=4):
    return min(max(VALUES[x], low), high)


def moments(data):
    u = [(clipped(x) - 2) / 2 for x in data]
    return [sum(u) / len(u), sum(v * v for v in u) / len(u)]


def in_slots(size, places):
    """Counts by slot among all slots that there are."""

    def answer(data):
        table = [0] * (3 * size)
        for x, place in zip(data, places, strict=False):
            table[3 * place + x] += 1
        return table

    return answer


LEVELS = [2, 1, 0]  # states in the order of their values
CASES = {
    "histogram": (question("histogram"), counted),
    "frequencies": (question("frequencies"), lambda d: [n / len(d) for n in counted(d)]),
    "top-states": (question("top-states", top=1), counted),
    "count": (question("count", of=1), lambda d: [counted(d)[1]]),
    "total": (
        question("total", values=VALUES, clip=(0, 4)),
        lambda d: [sum(map(clipped, d))],
    ),
    "mean": (
        question("mean", values=VALUES, clip=(0, 4)),
        lambda d: [sum(map(clipped, d)) / len(d)],
    ),
    "variance": (question("variance", values=VALUES, clip=(0, 4)), moments),
    "linear": (
        question("linear", weights={1: [1, 3.5], 2: [1, 9]}),
        lambda d: [sum(x > 0 for x in d), sum((0, 3.5, 9)[x] for x in d)],
    ),
    "cumulative": (question("cumulative", values=VALUES), lambda d: counted(d, LEVELS)),
    "quantile": (
        question("quantile", values=VALUES, share=0.5),
        lambda d: counted(d, LEVELS),
    ),
    "peak": (question("peak", values=VALUES), lambda d: counted(d, LEVELS)),
    "load-duration": (question("load-duration", values=VALUES), lambda d: counted(d, LEVELS)),
    "transitions": (
        question("transitions"),
        lambda d: oracle.transitions(d, [len(d)], 3),
    ),
    "by-hour": (question("by-hour"), in_slots(24, [22, 23, 0, 1])),
    "by-weekday-hour": (question("by-weekday-hour"), in_slots(168, [46, 47, 48, 49])),
    "by-day": (question("by-day"), in_slots(2, DAYS)),
    "by-week": (question("by-week"), in_slots(1, [0] * LENGTH)),
    "episodes": (
        question("episodes", of=1),
        lambda d: [oracle.episodes(d, [len(d)], {1})],
    ),
    "stays": (
        question("stays", of=2),
        lambda d: [counted(d)[2], oracle.episodes(d, [len(d)], {2})],
    ),
    "time-in": (
        question("time-in", of=1, between="23:00-01:00"),
        lambda d: [sum(x == 1 for x in d[1:3])],
    ),
    "days-with": (
        question("days-with", of=[1, 2], at_least="2h"),
        lambda d: [oracle.days_with(d, DAYS[: len(d)], {1, 2}, 2)],
    ),
    "share-of-days": (
        question("share-of-days", of=[1, 2], at_least="2h"),
        lambda d: [oracle.days_with(d, DAYS[: len(d)], {1, 2}, 2) / 2],
    ),
}
PROVEN = {
    "frequencies": pk.relative_frequencies,
    "count": pk.count,
    "total": pk.total,
    "mean": pk.mean,
    "variance": pk.variance,
    "linear": pk.linear,
    "quantile": pk.quantile,
    "transitions": pk.transition_counts,
    "episodes": pk.episodes,
    "stays": pk.stays,
    "time-in": pk.time_in,
    "days-with": pk.days_with,
    "share-of-days": pk.days_with,
    **{name: pk.by_time for name in NAMES if name.startswith("by-")},
}
BESIDE = {
    "several": "several questions, tests/mechanisms/test_joint_plan.py",
    "whole": "noise for many series, tests/account/test_many_subjects.py",
}


def query(name, length=LENGTH):
    return CASES[name][0].bind(
        STATES, length, WHEN if "day" in name or "time" in name or "by-" in name else None
    )


def test_every_question_is_in_this_matrix_and_on_the_command_line():
    assert set(CASES) == set(NAMES)
    kinds = {query(name).kind for name in CASES}
    assert kinds | set(BESIDE) == set(KINDS)


@pytest.mark.parametrize("name", CASES)
def test_the_answer_and_the_bound_by_listing_all_data(name):
    own, answer = query(name), CASES[name][1]
    rng = np.random.default_rng(1)
    for _ in range(5):
        data = rng.integers(3, size=LENGTH).tolist()
        exact = own.exact(pk.Series.of([data], STATES))
        assert [float(v) for v in exact] == pytest.approx(list(answer(data)))
    moved = oracle.furthest(answer, LENGTH, 3)
    assert moved.max() == pytest.approx(own.lipschitz)
    (run,) = own.moved(STATES)
    assert run.entries == LENGTH
    assert (moved <= run.cost + 1e-12).all()


@pytest.mark.parametrize("name", CASES)
def test_the_loss_by_the_definition(name):
    length = 3 if name == "transitions" else LENGTH
    calibration = pk.influence_curve(CHAIN, query(name, length), 1.0)
    answer = CASES[name][1]
    if name == "quantile":
        assert 0.1 < loss_of_choice(calibration.scale, length) <= 1
        return
    scales = np.full(calibration.query.size, calibration.scale)
    assert 0.05 < oracle.loss(CHAIN.initial, MATRIX, answer, [length], scales) <= 1 + 1e-9


def loss_of_choice(scale, length):
    """The largest log-ratio of the probabilities of a level, over entries and their values."""
    paths = list(product(STATES, repeat=length))
    chances, levels = [], []
    for path in paths:
        chance = CHAIN.initial[path[0]]
        for one, other in pairwise(path):
            chance *= MATRIX[one][other]
        chances.append(chance)
        misses = choice.misses(counted(path, LEVELS), 0.5)
        levels.append(choice.chosen([-miss for miss in misses], scale))
    paths, chances, levels = np.array(paths), np.array(chances), np.array(levels)
    worst = 0.0
    for t in range(length):
        each = [paths[:, t] == x for x in STATES]
        logs = np.log([(chances[own] @ levels[own]) / chances[own].sum() for own in each])
        worst = max(worst, float((logs.max(axis=0) - logs.min(axis=0)).max()))
    return worst


@pytest.mark.parametrize("name", CASES)
def test_the_bound_of_one_entry_is_proven_in_words(name):
    words = (PROVEN.get(name, pk.histogram).__doc__ or "").lower()
    assert "lipschitz" in words or "moves it by" in words or "moves the answer" in words
    if name.startswith("by-"):
        assert "*Theorem*" in (import_module("pufferkit.data.queries").__doc__ or "")
