"""`verify` knows what a query is, says what does not belong together, and what it cannot know."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.data.asking import transition_counts
from tests.asking import Asking

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "run"])
STATES = ["rest", "run"]
DATA = STATES * 15
QUERIES = {
    "count": (pk.count("run", 30), 1.0),
    "histogram": (pk.histogram(STATES, 30), 2.0),
    "relative frequencies": (pk.relative_frequencies(STATES, 30), 2 / 30),
    "total": (pk.total({"rest": 1, "run": 6}, 30), 5.0),
    "mean": (pk.mean({"rest": 1, "run": 6}, 30), 5 / 30),
    "transition counts": (transition_counts(STATES, 30), 4.0),
}
WALKS = pk.MarkovChain.steady(
    [[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]], states=["rest", "walk", "run"]
)
GAITS = list(WALKS.states)
WHEN = pk.Calendar("2024-03-04 00:00", every="1h")
STEPS = (["rest"] * 8 + ["walk", "run", "walk", "rest"]) * 4
TIMED = {
    "by time": (pk.by_time("hour", GAITS, 48, WHEN), 2.0),
    "time in states": (pk.time_in("walk", 48, calendar=WHEN), 1.0),
    "episodes": (pk.episodes(["walk", "run"], 48), 1.0),
    "stays": (pk.stays("run", 48), 2.0),
    "days with": (pk.days_with("run", "2h", 48, calendar=WHEN), 1.0),
}
MECHANISMS = {
    "curve": lambda query, chain=CHAIN: pk.influence_curve(chain, query, 1),
    "quilt": lambda query, chain=CHAIN: pk.markov_quilt(chain, query, 1),
    "group": lambda query, chain=CHAIN: pk.group_dp(query, 1),
    "entry": lambda query, chain=CHAIN: pk.entry_dp(query, 1),
}


@pytest.fixture(params=MECHANISMS)
def mechanism(request):
    return MECHANISMS[request.param]


@pytest.mark.parametrize("kind", [*QUERIES, *TIMED])
def test_the_constant_follows_from_the_question(kind, mechanism):
    query, moved = (QUERIES | TIMED)[kind]
    chain, data = (WALKS, STEPS) if kind in TIMED else (CHAIN, DATA)
    release = mechanism(query, chain).release(data)
    assert release.kind == kind
    again = pk.Release.from_json(release.to_json())
    assert again.question == release.question
    verdict = pk.verify(again)
    assert verdict.ok, str(verdict)
    assert f"moves the answer by {moved:.9g} ({kind})" in str(verdict)
    # Half the constant with half the noise.
    half = replace(release, lipschitz=moved / 2, scale=release.scale / 2)
    assert "lipschitz" in " ".join(pk.verify(half).problems)
    assert not pk.verify(replace(release, scale=release.scale / 2)).ok


def test_weights_cannot_make_a_count_move_by_a_half(mechanism):
    record = json.loads(mechanism(pk.count("run", 30)).release(DATA).to_json())
    lie = {
        **record,
        "scale": record["scale"] / 2,
        "lipschitz": 0.5,
        "verification_data": {"weights": ["0", "1/2"]},
    }
    verdict = pk.verify(lie)
    assert not verdict.ok
    assert "one entry moves the answer by 1, not 0.5" in str(verdict)


def test_weights_cannot_bring_the_distance_of_a_count_down():
    record = pk.wasserstein(CHAIN, pk.count("run", 20), 1).release(DATA[:20]).to_dict()
    assert pk.verify(record).ok
    lie = {**record, "scale": record["scale"] / 2, "verification_data": {"weights": ["0", "1/2"]}}
    assert not pk.verify(lie).ok


@pytest.mark.parametrize(
    ("kind", "field", "wrong", "said"),
    [
        ("count", "labels", ["rest"], "labels"),
        ("histogram", "labels", ["rest", "swim"], "labels"),
        ("histogram", "total", 29.0, "30"),
        ("relative frequencies", "total", 2.0, "total"),
        ("transition counts", "total", 30.0, "29"),
        ("transition counts", "labels", ["a", "b", "c", "d"], "labels"),
    ],
)
def test_fields_that_contradict_the_kind(kind, field, wrong, said):
    record = pk.influence_curve(CHAIN, QUERIES[kind][0], 1).release(DATA).to_dict()
    assert said in str(pk.verify({**record, field: wrong}))


def test_value_and_raw_belong_together():
    drawn = pk.influence_curve(CHAIN, pk.histogram(STATES, 30), 100).release(DATA).as_drawn()
    release = replace(drawn, raw=(18, 14), value=(18, 14))
    proper = release.as_histogram()
    assert pk.verify(proper).ok
    moved = tuple(value + 1 for value in release.raw)
    for other in (
        replace(release, value=moved),
        replace(release, raw=moved),
        replace(proper, value=(10.0, 20.0)),
        replace(proper, raw=(release.raw[0] + 3, release.raw[1])),
        replace(proper, presentation="as drawn"),
    ):
        verdict = pk.verify(other)
        assert not verdict.ok
        assert "value" in " ".join(verdict.problems)
    count = pk.influence_curve(CHAIN, pk.count("run", 30), 1).release(DATA)
    named = replace(count, presentation="nearest histogram")
    assert "does not follow from raw" in str(pk.verify(named))


def test_it_lists_what_it_assumes():
    one = pk.verify(pk.influence_curve(CHAIN, pk.count("run", 30), 1).release(DATA))
    listed = " ".join(one.assumptions)
    for matter in ("noise", "beliefs", "segments", "ledger"):
        assert matter in listed
    assert "assumed: that noise" in str(one)
    assert "author of the query" not in listed
    own = pk.Query("runs", lambda x: int(np.sum(x[1:] != x[:-1])), 2, 30)
    verdict = pk.verify(pk.influence_curve(CHAIN, own, 1).release(DATA))
    assert verdict.ok
    said = " ".join(str(verdict).split())
    assert "moves 'runs' by at most 2, as the author of the query states" in said
    total = pk.verify(pk.influence_curve(CHAIN, QUERIES["total"][0], 1).release(DATA))
    assert "values" in " ".join(total.assumptions)
    assert not any("beliefs" in m for m in pk.verify(pk.group_dp(own, 1).release(DATA)).checks)


def test_a_query_of_ones_own_is_not_known_by_its_name():
    """Only the library's own `count` is a count."""
    half = pk.Query("count", lambda x: float(np.sum(x == "run")) / 2, 0.5, 30)
    verdict = pk.verify(pk.markov_quilt(CHAIN, half, 1).release(DATA))
    assert verdict.ok
    assert "author of the query" in str(verdict)


def test_paths(tmp_path):
    release = pk.influence_curve(CHAIN, pk.count("run", 30), 1).release(DATA)
    path = tmp_path / "release.json"
    path.write_text(release.to_json())
    assert pk.verify(path).ok
    assert pk.verify(str(path)).ok
    assert pk.verify(release.to_dict()).ok
    with pytest.raises(FileNotFoundError):
        pk.verify(tmp_path / "no.json")
    with pytest.raises(ValueError, match="not a release"):
        pk.verify(7)


def test_weights_of_a_total_without_beliefs_are_recorded():
    release = pk.group_dp(pk.total({"rest": 1, "run": 6}, 30), 1).release(DATA)
    assert [Fraction(w) for w in release.verification_data["weights"]] == [1, 6]
    low = replace(release, lipschitz=1.0, scale=release.scale / 5)
    assert not pk.verify(low).ok


def test_weights_in_the_file_count_for_nothing():
    record = json.loads(pk.influence_curve(WALKS, TIMED["by time"][0], 1).release(STEPS).to_json())
    small = {"weights": [["0"] * 72, ["1/100", *["0"] * 71], ["0"] * 72]}
    lie = {
        **record,
        "scale": record["scale"] / 3,
        "verification_data": {**record["verification_data"], **small},
    }
    assert not pk.verify(lie).ok
    record = json.loads(pk.influence_curve(WALKS, TIMED["stays"][0], 1).release(STEPS).to_json())
    lie = {
        **record,
        "scale": record["scale"] / 3,
        "verification_data": {"weights": [["0", "0"]] * 3},
    }
    assert not pk.verify(lie).ok


def test_other_states_in_the_question_need_other_noise():
    """Noise for episodes of the rare state is not enough for those of all that are not rest."""
    record = json.loads(
        pk.influence_curve(WALKS, pk.episodes("run", 48), 1).release(STEPS).to_json()
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
    record = pk.exact_sum(WALKS, pk.count("run", 48), 1).release(STEPS)
    query = TIMED["days with"][0]
    lie = replace(record, kind="days with", question=query.question, query=query.name)
    assert not pk.verify(lie).ok


def test_records_that_do_not_say_what_was_asked_are_refused():
    record = pk.influence_curve(WALKS, TIMED["by time"][0], 1).release(STEPS).to_dict()
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
    count = pk.influence_curve(WALKS, pk.count("run", 48), 1).release(STEPS).to_dict()
    del count["question"]
    assert "question must be given" in pk.verify(count).problems[0]


def test_times_are_taken_on_trust():
    release = pk.influence_curve(WALKS, TIMED["days with"][0], 1).release(STEPS)
    assert "that the entries were at the times" in str(pk.verify(release))


def test_a_session_charges_by_the_distances_of_the_question(tmp_path):
    session = Asking(STEPS, WALKS, 5.0, str(tmp_path / "book.db"))
    first = session.release(pk.episodes("run", 48), 1)
    assert pk.verify(first).ok
    assert session.spent == pytest.approx(1, abs=1e-4)
    hours = session.release(TIMED["by time"][0], 0.5)
    assert hours.value == session.release(TIMED["by time"][0], 0.5).value  # stored, and free
    tokyo = pk.Calendar("2024-03-04 00:00", every="1h", timezone="Asia/Tokyo")
    session.release(pk.by_time("hour", GAITS, 48, tokyo), 0.5)
    assert len(session.history) == 3  # other hours, so another question
