"""What a record says is typed: notes are for people, old files are read, later ones refused."""

import json
from dataclasses import replace

import pytest

import pufferkit as pk
from tests.verification.test_verify_files import CASES, CHAIN


@pytest.mark.parametrize("name", CASES)
def test_notes_are_not_read(name):
    """Whatever they say: the verdict is the same without them and with those of another theorem."""
    calibration = CASES[name]()
    record = calibration.release([0, 1] * 30).to_dict()
    for notes in ([], ["influence by [Q] (5) as printed", "operator norm", "quilt bound was the"]):
        changed = {**record, "evidence": {**record["evidence"], "notes": notes}}
        assert pk.verify(changed).ok
        assert not pk.verify({**changed, "scale": 0.99 * record["scale"]}).ok


def test_the_reading_is_a_field():
    query = pk.count(1, 60)
    start = pk.MarkovChain([1, 0], CHAIN.transition)
    assert pk.markov_quilt(start, query, 1).variant == "definition"
    assert pk.markov_quilt(start, query, 1, influence="formula").variant == "formula"
    assert pk.markov_quilt_approx(CHAIN, query, 1).variant == "paper"
    tight = pk.markov_quilt_approx(CHAIN, query, 1, bound="tight")
    assert tight.variant == "tight"
    assert tight.evidence.bound == "quilts"
    # Less noise under the name of the other reading is not enough for it.
    record = tight.release([0, 1] * 30).to_dict()
    evidence = {**record["evidence"], "variant": "paper"}
    assert not pk.verify({**record, "evidence": evidence}).ok
    for field, wrong in (("variant", "formula"), ("bound", "curve")):
        evidence = {**record["evidence"], field: wrong}
        assert field in " ".join(pk.verify({**record, "evidence": evidence}).problems)


def test_the_guarantee_is_one_of_four():
    record = pk.entry_dp(pk.count(1, 4), 1).release([0, 1, 0, 1])
    assert record.guarantee is pk.Guarantee.ENTRY
    assert "does not hide" in record.guarantee
    data = json.loads(record.to_json())
    assert data["guarantee"] == "entry"
    assert data["promise"] == str(pk.Guarantee.ENTRY)
    assert not pk.verify({**data, "guarantee": "pufferfish"}).ok
    verdict = pk.verify({**data, "guarantee": "Pufferfish for everybody"})
    assert not verdict.ok
    assert "guarantee must be one of pufferfish, group" in str(verdict)


@pytest.mark.parametrize("written", [2, 17])
def test_a_later_format_is_refused_in_words(written):
    data = pk.group_dp(pk.count(1, 4), 1).release([0, 1, 0, 1]).to_dict()
    verdict = pk.verify({**data, "format": written})
    assert f"format {written}, and this pufferkit reads format 1" in verdict.problems[0]
    with pytest.raises(ValueError, match=f"format {written}"):
        pk.Release.from_dict({**data, "format": written})


@pytest.mark.parametrize("written", [None, True, 1.0, "1", 0, -1, "pufferkit-release/1", []])
def test_no_format_of_ours(written):
    data = pk.group_dp(pk.count(1, 4), 1).release([0, 1, 0, 1]).to_dict()
    verdict = pk.verify({**data, "format": written})
    assert not verdict.ok
    assert "is this a file that pufferkit wrote" in verdict.problems[0]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("variant", "best"),
        ("bound", 7),
        ("blocks", [1]),
        ("blocks", ["a", 2]),
        ("blocks", [1.5, 2]),
        ("quilt", 3),
        ("influence", "high"),
        ("length", 0),
        ("beside", -1),
        ("notes", "text"),
        ("colour", "red"),
    ],
)
def test_evidence_of_the_wrong_type_is_refused(field, wrong):
    data = pk.influence_curve(CHAIN, pk.count(1, 4), 1).release([0, 1, 0, 1]).to_dict()
    verdict = pk.verify({**data, "evidence": {**data["evidence"], field: wrong}})
    assert not verdict.ok
    assert field in verdict.problems[0]


def test_a_promise_shared_with_bought_transitions_is_checked_as_such():
    path = CHAIN.sample(40_000, seed=1).tolist()
    counts = pk.private_transitions(path, 1, pk.ChainClass.binary(0.35, 0.95))
    release = counts.calibrate(pk.count(1, 40_000), 3).release(path)
    assert pk.verify(release).ok
    assert not pk.verify(replace(release, scale=0.99 * release.scale)).ok
    # Taken alone it would need less, and pass with less.
    alone = replace(release, evidence=replace(release.evidence, beside=None), calibration=None)
    assert pk.verify(replace(alone, scale=0.99 * release.scale)).ok


def test_the_digest_is_that_of_beliefs_question_and_epsilon():
    release = pk.influence_curve(CHAIN, pk.count(1, 4), 1).release([0, 1, 0, 1], anyway=True)
    assert pk.verify(release).ok
    other = pk.influence_curve(CHAIN, pk.count(1, 5), 1).digest
    for wrong in (other, "", "0" * 64):
        verdict = pk.verify(replace(release, calibration=wrong))
        assert not verdict.ok
        assert "digest" in str(verdict)


@pytest.mark.parametrize("wrong", ["", "12", True, [12], float("nan")])
def test_a_total_that_is_no_number_is_refused(wrong):
    query = pk.histogram([0, 1], 60)
    record = pk.influence_curve(CHAIN, query, 1).release([0, 1] * 30).to_dict()
    verdict = pk.verify({**record, "total": wrong})
    assert not verdict.ok
    assert "total must be a number" in str(verdict)


@pytest.mark.parametrize("name", [*CASES, "exact sum"])
def test_pairs_of_secrets_are_hidden_by_w_alone(name):
    """Of other mechanisms a proof is about entries: it says nothing about pairs that were given."""
    make = CASES.get(name, lambda: pk.exact_sum(CHAIN, pk.count(1, 60), 1))
    record = make().release([0, 1] * 30).to_dict()
    pair = [[[n, [value]] for n in range(1, 61)] for value in (0, 1)]
    data = {**(record["verification_data"] or {}), "secrets": [pair]}
    verdict = pk.verify({**record, "verification_data": data, "guarantee": "secrets"})
    assert not verdict.ok
    assert any(problem.startswith("secrets: ") for problem in verdict.problems)


@pytest.mark.parametrize("name", ["quilt", "curve histogram"])
def test_a_verdict_says_how_near_the_numbers_are(name):
    release = CASES[name]().release([0, 1] * 30)
    ((low, high), *_) = release.as_drawn().interval()
    (said,) = (words for words in pk.verify(release).checks if words.startswith("usefulness: "))
    assert f"within {(high - low) / 2:.6g} of the exact answer" in said
    less = replace(release, scale=release.scale / 2)
    assert not any(words.startswith("usefulness") for words in pk.verify(less).checks)


def test_a_release_that_cannot_be_written_ends_in_a_verdict():
    release = CASES["curve"]().release([0, 1] * 30)
    for change in ({"guarantee": "most"}, {"raw": (1e308,), "value": (1e308,)}, {"lengths": 5}):
        assert not pk.verify(replace(release, **change)).ok
