"""Several questions at once: joint loss by the definition, errors met, one charge, verified."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.mechanisms.joint_plan import split
from tests.asking import Asking
from tests.oracles import asked as oracle

STATES = (0, 1, 2)
MATRIX = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
CHAIN = pk.MarkovChain.steady(MATRIX)


def questions(length):
    return {
        "runs": (pk.episodes(2, length), 9.0),
        "time": (pk.count(1, length), 6.0),
        "states": (pk.histogram(STATES, length), 30.0),
    }


def test_the_joint_loss_by_the_definition():
    plan = pk.plan(CHAIN, {k: v for k, v in questions(4).items() if k != "states"})
    scales = np.array(plan.calibration.scales)

    def answer(data):
        return [oracle.episodes(data, [4], {2}), sum(x == 1 for x in data)]

    largest = oracle.loss(CHAIN.initial, MATRIX, answer, [4], scales)
    assert 0.3 * plan.epsilon < largest <= plan.epsilon


@pytest.mark.slow
def test_errors_are_met_at_no_more_than_one_by_one():
    asked = questions(300)
    plan = pk.plan(CHAIN, asked)
    scales = [row["scale"] for row in plan.table_rows()]
    history = [
        pk.Spending.of(replace(pk.influence_curve(CHAIN, query, 1), scale=scale))
        for (query, _), scale in zip(asked.values(), scales, strict=True)
    ]
    assert plan.epsilon <= pk.compose(history, CHAIN, 300).epsilon * 1.001
    for error, (_, wanted) in zip(plan.errors, asked.values(), strict=True):
        assert wanted - 1.01 <= error <= wanted  # whole noise: the largest whole half-width
    # Questions that tell different states apart cost less together than they add up to.
    apart = pk.plan(CHAIN, {"a": (pk.count(1, 300), 9.0), "b": (pk.episodes(2, 300), 9.0)})
    assert apart.epsilon < 0.95 * sum(apart.alone)


def test_a_given_epsilon_stretches_all_errors_alike():
    asked = questions(300)
    plan, half = pk.plan(CHAIN, asked), pk.plan(CHAIN, asked, epsilon=0.1)
    assert half.epsilon == 0.1
    ratios = np.array(half.calibration.scales) / np.array(plan.calibration.scales)
    assert ratios == pytest.approx(ratios[0])
    assert ratios[0] > 1


def test_one_record_that_verifies_and_cannot_be_faked():
    data = list(CHAIN.sample(300, seed=1))
    plan = pk.plan(CHAIN, questions(300))
    release = plan.calibration.release(data)
    verdict = pk.verify(pk.Release.from_json(release.to_json()))
    assert verdict.ok, str(verdict)
    record = json.loads(release.to_json())
    less = {**record, "scale": record["scale"] / 1.2, "scales": [s / 1.2 for s in record["scales"]]}
    assert not pk.verify(less).ok
    one = {**record, "scales": [record["scales"][0] / 3, *record["scales"][1:]]}
    assert not pk.verify(one).ok
    for change in ({"question": {"of": ["0"]}}, {"lipschitz": 0.01}):
        parts = [{**record["question"]["parts"][0], **change}, *record["question"]["parts"][1:]]
        assert not pk.verify({**record, "question": {"parts": parts}}).ok


def test_parts_are_releases_of_their_own():
    data = list(CHAIN.sample(300, seed=1))
    plan = pk.plan(CHAIN, questions(300))
    parts = plan.release(data)
    assert list(parts) == ["runs", "time", "states"]
    assert sum(parts["states"].value) == pytest.approx(300)
    assert parts["states"].derive("top states", count=1).labels[0] in {"0", "1", "2"}
    assert {part.epsilon for part in parts.values()} == {plan.epsilon}  # of all together


def test_a_session_pays_once(tmp_path):
    data = list(CHAIN.sample(300, seed=1))
    session = Asking(data, CHAIN, 3.0, str(tmp_path / "book.db"))
    plan = pk.plan(CHAIN, questions(300))
    joint = session.release(questions(300), None)
    assert pk.verify(joint).ok
    parts = split(joint)
    assert len(session.history) == 1
    assert 3 - session.remaining == pytest.approx(plan.epsilon, rel=1e-3)
    again = split(session.release(questions(300), None))
    assert [p.raw for p in parts.values()] == [p.raw for p in again.values()]
    assert len(session.history) == 1


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="other lengths"):
        pk.plan(CHAIN, {"a": (pk.count(1, 30), 5.0), "b": (pk.count(2, 31), 5.0)})
    own = pk.Query("own", lambda e: 0.5, 1, 30)
    with pytest.raises(ValueError, match="no unit"):
        pk.plan(CHAIN, {"a": (own, 5.0)})
    with pytest.raises(ValueError, match="error"):
        pk.plan(CHAIN, {"a": (pk.count(1, 30), -1.0)})


@pytest.mark.parametrize(
    "several", [[pk.count(1, 30), pk.count(0, 30)], {"a": 1}, ((pk.count(1, 30), 5.0),)]
)
def test_one_mechanism_points_to_plan(several):
    with pytest.raises(ValueError, match=r"plan\(beliefs"):
        pk.plan(CHAIN, several, 1)


def test_beliefs_with_nothing_to_hide_cost_what_is_spent():
    """Every entry is known beforehand: no loss, so that no epsilon follows from the errors."""
    known = pk.MarkovChain([1, 0], [[1, 0], [0, 1]])
    asked = {"a": (pk.count(1, 30), 10), "b": (pk.episodes(1, 30), 10)}
    plan = pk.plan(known, asked)
    assert 0 < plan.epsilon < 1
    assert max(plan.errors) <= 10
    assert pk.verify(plan.calibration.release([0] * 30)).ok
