"""`verify` knows what a query is, says what does not belong together, and what it cannot know."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.data.asking import transition_counts

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
MECHANISMS = {
    "curve": lambda query: pk.influence_curve(CHAIN, query, 1),
    "quilt": lambda query: pk.markov_quilt(CHAIN, query, 1),
    "group": lambda query: pk.group_dp(query, 1),
    "entry": lambda query: pk.entry_dp(query, 1),
}


@pytest.fixture(params=MECHANISMS)
def mechanism(request):
    return MECHANISMS[request.param]


@pytest.mark.parametrize("kind", QUERIES)
def test_the_constant_follows_from_the_kind(kind, mechanism):
    query, moved = QUERIES[kind]
    release = mechanism(query).release(DATA)
    assert release.kind == kind
    verdict = pk.verify(release)
    assert verdict.ok, str(verdict)
    assert f"moves the answer by {moved:.9g} ({kind})" in str(verdict)
    # Half the constant with half the noise.
    half = replace(release, lipschitz=moved / 2, scale=release.scale / 2)
    assert "lipschitz" in " ".join(pk.verify(half).problems)


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
    assert "no known total" in str(pk.verify(named))


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
    with pytest.raises(ValueError, match="not well formed"):
        pk.verify(7)


def test_weights_of_a_total_without_beliefs_are_recorded():
    release = pk.group_dp(pk.total({"rest": 1, "run": 6}, 30), 1).release(DATA)
    assert [Fraction(w) for w in release.verification_data["weights"]] == [1, 6]
    low = replace(release, lipschitz=1.0, scale=release.scale / 5)
    assert not pk.verify(low).ok
