"""`verify` knows the questions about time and moves, and what their records must hold."""

import json
from dataclasses import replace

import pytest

import pufferkit as pk
from tests.asking import Asking

CHAIN = pk.MarkovChain.steady(
    [[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]], states=["rest", "walk", "run"]
)
STATES = list(CHAIN.states)
WHEN = pk.Calendar("2024-03-04 00:00", every="1h")
DATA = (["rest"] * 8 + ["walk", "run", "walk", "rest"]) * 4
QUERIES = {
    "by time": (pk.by_time("hour", STATES, 48, WHEN), 2.0),
    "time in states": (pk.time_in("walk", 48, calendar=WHEN), 1.0),
    "episodes": (pk.episodes(["walk", "run"], 48), 1.0),
    "stays": (pk.stays("run", 48), 2.0),
    "days with": (pk.days_with("run", "2h", 48, calendar=WHEN), 1.0),
}
MECHANISMS = {
    "curve": lambda query: pk.influence_curve(CHAIN, query, 1),
    "quilt": lambda query: pk.markov_quilt(CHAIN, query, 1),
    "group": lambda query: pk.group_dp(query, 1),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("kind", QUERIES)
def test_the_constant_follows_from_the_question(kind, mechanism):
    query, moved = QUERIES[kind]
    release = MECHANISMS[mechanism](query).release(DATA)
    assert release.kind == kind
    again = pk.Release.from_json(release.to_json())
    assert again.question == release.question
    verdict = pk.verify(again)
    assert verdict.ok, str(verdict)
    assert f"moves the answer by {moved:.9g} ({kind})" in str(verdict)
    half = replace(release, lipschitz=moved / 2, scale=release.scale / 2)
    assert "lipschitz" in " ".join(pk.verify(half).problems)
    assert not pk.verify(replace(release, scale=release.scale / 2)).ok


def test_weights_in_the_file_count_for_nothing():
    record = json.loads(pk.influence_curve(CHAIN, QUERIES["by time"][0], 1).release(DATA).to_json())
    small = {"weights": [["0"] * 72, ["1/100", *["0"] * 71], ["0"] * 72]}
    lie = {
        **record,
        "scale": record["scale"] / 3,
        "verification_data": {**record["verification_data"], **small},
    }
    assert not pk.verify(lie).ok
    record = json.loads(pk.influence_curve(CHAIN, QUERIES["stays"][0], 1).release(DATA).to_json())
    lie = {
        **record,
        "scale": record["scale"] / 3,
        "verification_data": {"weights": [["0", "0"]] * 3},
    }
    assert not pk.verify(lie).ok


def test_other_states_in_the_question_need_other_noise():
    """Noise for episodes of the rare state is not enough for those of all that are not rest."""
    record = json.loads(
        pk.influence_curve(CHAIN, pk.episodes("run", 48), 1).release(DATA).to_json()
    )
    assert pk.verify(record).ok
    more = pk.episodes(["walk", "run"], 48).question
    assert not pk.verify({**record, "question": more}).ok
    assert "not the states" in str(
        pk.verify({**record, "question": pk.episodes("fly", 48).question})
    )
    assert not pk.verify({**record, "question": {**record["question"], "of": ["walk"]}}).ok


def test_nothing_that_is_no_sum_passes_as_one():
    """A record by exact_sum about days: its theorem is for sums over entries and moves."""
    record = pk.exact_sum(CHAIN, pk.count("run", 48), 1).release(DATA)
    query = QUERIES["days with"][0]
    lie = replace(record, kind="days with", question=query.question, query=query.name)
    assert not pk.verify(lie).ok


def test_records_that_do_not_say_what_was_asked_are_refused():
    record = pk.influence_curve(CHAIN, QUERIES["by time"][0], 1).release(DATA).to_dict()
    asked = record["question"]
    for question in (
        None,
        {"by": "hour"},
        {**asked, "arguments": {**asked["arguments"], "by": "minute"}},
        {**asked, "arguments": {**asked["arguments"], "of": ["run"]}},
        {**asked, "calendar": None},
        {**asked, "calendar": {"starts": [0]}},
    ):
        with pytest.raises(ValueError, match="release: "):
            pk.Release.from_dict({**record, "question": question})
    for name, other in (("observed", [1] * 24), ("slots", ["a"])):
        told = pk.verify({**record, "question": {**asked, name: other}})
        assert not told.ok
        assert name in " ".join(told.problems)
    count = pk.influence_curve(CHAIN, pk.count("run", 48), 1).release(DATA).to_dict()
    del count["question"]
    with pytest.raises(ValueError, match="question"):
        pk.verify(count)


def test_times_are_taken_on_trust():
    release = pk.influence_curve(CHAIN, QUERIES["days with"][0], 1).release(DATA)
    assert "that the entries were at the times" in str(pk.verify(release))


def test_a_session_charges_by_the_distances_of_the_question(tmp_path):
    session = Asking(DATA, CHAIN, 5.0, str(tmp_path / "book.db"))
    first = session.release(pk.episodes("run", 48), 1)
    assert pk.verify(first).ok
    assert session.spent == pytest.approx(1, abs=1e-4)
    hours = session.release(QUERIES["by time"][0], 0.5)
    assert hours.value == session.release(QUERIES["by time"][0], 0.5).value  # stored, and free
    tokyo = pk.Calendar("2024-03-04 00:00", every="1h", timezone="Asia/Tokyo")
    session.release(pk.by_time("hour", STATES, 48, tokyo), 0.5)
    assert len(session.history) == 3  # other hours, so another question
