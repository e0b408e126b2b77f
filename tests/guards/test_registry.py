"""One walk through every class of beliefs, question, secret and gap.

Classes, questions and secrets are listed from the package: a new one without a cell fails.
"""

from itertools import product

import numpy as np
import pytest

import pufferkit as pk
from tests.guards.asked import QUESTIONS, SECRETS
from tests.guards.beliefs import BELIEFS, THREE, TWO
from tests.guards.registry import (
    ACCOUNTS,
    CLASSES,
    GAPS,
    QUESTION_OF,
    REFUSED,
    broken,
    cells,
    enumerated,
    public_accounts,
    public_classes,
    public_questions,
    public_secrets,
    quick,
    ratio,
    refused,
    stated,
    walk,
)
from tests.oracles.answers import ANSWERS
from tests.oracles.hidden import all_data

pytestmark = pytest.mark.filterwarnings("ignore")

PARTS = 8
QUICK = quick(cells())


def test_every_class_of_the_package_has_a_row():
    assert public_classes() == set(CLASSES)
    listed = [belief for own in CLASSES.values() for belief in own]
    assert {BELIEFS[belief].kind for belief in listed} == {own.kind for own in BELIEFS.values()}


def test_every_question_of_the_package_has_a_column():
    listed = {name.partition(",")[0] for name in QUESTIONS}
    named = {QUESTION_OF.get(name, name) for name in public_questions()}
    assert {name.partition(",")[0] for name in named} <= listed
    assert set(QUESTIONS) == set(ANSWERS)


def test_every_account_of_the_package_has_a_layer():
    assert public_accounts() == set(ACCOUNTS) - {"none"}
    every = cells()
    for account in ACCOUNTS:
        here = [cell for cell in every if cell.account == account]
        kinds = {BELIEFS[cell.belief].kind for cell in here}
        assert kinds == {own.kind for own in BELIEFS.values()}
        assert {cell.question for cell in here} == set(QUESTIONS)
        assert {cell.secret for cell in here} == set(SECRETS)
        assert {cell.gap for cell in here} == set(GAPS)
        met = {(cell.question, cell.secret) for cell in here}
        assert met == set(product(QUESTIONS, SECRETS))


def test_every_secret_of_the_package_has_a_cell():
    assert public_secrets() <= {name.replace(",", "").split()[0] for name in SECRETS}


@pytest.mark.parametrize(("question", "gap"), list(product(QUESTIONS, GAPS)))
def test_a_question_says_how_far_an_entry_moves_its_answer(question, gap):
    """By listing all data: the answer, and what every change of an entry does to it."""
    for states in (TWO, THREE):
        over = GAPS[gap]
        query = QUESTIONS[question](states, over)
        moved = enumerated(question, states, over)
        assert (moved <= stated(query, states, over) + 1e-12).all()
        for data in all_data(states, over.total)[:: 7 if states is THREE else 1]:
            shown = tuple(None if t in over.missing else x for t, x in enumerate(data))
            first, pieces = 0, []
            for length in over.lengths:
                pieces.append(list(shown[first : first + length]))
                first += length
            if all(x is None for x in shown):
                continue
            series = pk.Series.of(pieces if len(pieces) > 1 else pieces[0], states)
            own = [float(number) for number in query.exact(series)]
            assert own == pytest.approx(ANSWERS[question](shown, over.lengths, states))


@pytest.mark.parametrize("part", range(PARTS))
def test_no_cell_loses_more_than_epsilon_quickly(part):
    wrong = broken(walk(QUICK[part::PARTS], 4))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("belief", [own for each in CLASSES.values() for own in each])
def test_no_cell_loses_more_than_epsilon(belief):
    walked = walk(cells(belief), 12)
    wrong = broken(walked)
    assert not wrong, "\n".join(wrong)
    highest = sorted((own for own in walked if own.ratio), key=lambda own: own.ratio)[-3:]
    for own in highest:
        assert ratio(own.cell, own.scale, 300, own.times, own.epsilon) <= 1 + 1e-9, own


def test_noise_that_is_too_little_is_found():
    """With 1% less noise the same walk fails in every class whose bound is attained."""
    for belief in ("calm", "two chains", "any start of two", "binary", "seasonal", "hull", "tree"):
        found = [
            ratio(own.cell, own.scale * 0.99, 60)
            for own in walk(
                [c for c in cells(belief) if c[1:] == ("count", "entries", "none", "none")], 1
            )
        ]
        assert max(found) > 1, belief


def test_members_are_laws():
    """Every table of an oracle sums to one, whatever the numbers that choose it."""
    from tests.oracles.laws import members

    rng = np.random.default_rng(1)
    for own in BELIEFS.values():
        length = own.entries or 3
        size, law = members(own.kind, own.given, length, len(own.states))
        for place in range(length):
            table = law(rng.random(size), place)
            assert table is None or (
                table.sum() == pytest.approx(1)
                and (table >= 0).all()
                and table.shape[1:] == (len(own.states),) * length
            ), own.name


def test_members_that_must_mix_do():
    """At the limit: the gap is the least that is promised, or what the matrix has."""
    from tests.oracles.laws import gap_of, members, stationary

    rng, met = np.random.default_rng(2), 0
    for name in ("mixing", "mixing reversible"):
        own = BELIEFS[name]
        size, law = members(own.kind, own.given, 2, len(own.states))
        for _ in range(200):
            table = law(rng.random(size), 0)
            if table is not None and table[0].sum(axis=1).min() > 1e-9:
                matrix = table[0] / table[0].sum(axis=1, keepdims=True)
                assert stationary(matrix).min() >= own.given["pi_min"] - 1e-9
                gap = gap_of(matrix, own.given["reversible"])
                assert gap >= own.given["gap"] - 1e-9
                met += gap < own.given["gap"] + 1e-6
    assert met > 10


def test_refused_cells_have_a_reason():
    assert {refused(cell) for cell in cells()} == {*REFUSED, None}
