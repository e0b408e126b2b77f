"""Releases under chains are verified from what they record; lowered scales and limits are not."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.checks import json_value
from pufferkit.cli.asked_questions import record
from pufferkit.verification.verify import verify

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
START = pk.MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
QUERY = pk.count(1, 60)
REGION = pk.ChainClass.around(
    [[14e3, 4e3, 2e3], [4e3, 12e3, 4e3], [2e3, 6e3, 12e3]], 0.95, sides="any start"
)
RECTANGLE = pk.ChainClass.around([[800, 200], [300, 700]], 0.95, sides="any start")

MATRIX = [[0.9, 0.1], [0.4, 0.6]]
OTHER = [[0.8, 0.2], [0.2, 0.8]]
EMISSION = [[0.8, 0.2], [0.3, 0.7]]
ONE, TWO = pk.MarkovChain.steady(MATRIX), pk.MarkovChain.steady(OTHER)
CLASSES = {
    "hull": pk.ChainClass.hull(ONE, TWO),
    "inflated": pk.ChainClass.hull(ONE, TWO, inflate=0.05),
    "clock": pk.ChainClass.seasonal([MATRIX] * 3 + [OTHER] * 3),
    "order": pk.ChainClass.order(2, [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]]),
    "regimes": pk.RegimeClass(MATRIX, EMISSION),
    "contaminated": pk.RegimeClass(MATRIX, EMISSION, emissions=0.1),
    "regime secret": pk.RegimeClass(MATRIX, EMISSION, secret="regime"),
    "each": pk.RegimeClass.of(pk.RegimeClass(MATRIX, EMISSION), pk.RegimeClass(OTHER, EMISSION)),
    "beside slow": pk.RegimeClass(
        [[0.98, 0.01, 0.01], [0.02, 0.8, 0.18], [0.1, 0.3, 0.6]], [[0.5, 0.5], *EMISSION], slow=40
    ),
    "two-sided": pk.ChainClass.around([[900, 100], [80, 220]], 0.95),
}

CASES = {
    "quilt": lambda: pk.markov_quilt(CHAIN, QUERY, 1),
    "quilt of a start": lambda: pk.markov_quilt(START, QUERY, 1),
    "quilt as printed": lambda: pk.markov_quilt(START, QUERY, 1, influence="formula"),
    "quilt any start": lambda: pk.markov_quilt(pk.ChainClass.any_start(CHAIN.transition), QUERY, 1),
    "quilt binary": lambda: pk.markov_quilt(pk.ChainClass.binary(0.3, 0.8), QUERY, 1),
    "approx": lambda: pk.markov_quilt_approx(CHAIN, QUERY, 1),
    "approx tight": lambda: pk.markov_quilt_approx(CHAIN, QUERY, 1, bound="tight"),
    "approx mixing": lambda: pk.markov_quilt_approx(pk.ChainClass.mixing(2, 0.2, 0.75), QUERY, 1),
    "curve": lambda: pk.influence_curve(CHAIN, QUERY, 1),
    "curve histogram": lambda: pk.influence_curve(CHAIN, pk.histogram([0, 1], 60), 1),
    "curve binary": lambda: pk.influence_curve(pk.ChainClass.binary(0.3, 0.8), QUERY, 1),
    "curve of a region": lambda: pk.influence_curve(REGION, pk.count(2, 60), 1),
    "quilt of a region": lambda: pk.markov_quilt(REGION, pk.count(2, 60), 1),
    "curve of a rectangle": lambda: pk.influence_curve(RECTANGLE, QUERY, 1),
    "approx of a rectangle": lambda: pk.markov_quilt_approx(RECTANGLE, QUERY, 1),
    "gk16": lambda: pk.gk16(pk.MarkovChain.steady([[0.6, 0.4], [0.4, 0.6]]), QUERY, 1),
    "group": lambda: pk.group_dp(QUERY, 1),
    "entry": lambda: pk.entry_dp(QUERY, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_a_release_passes_and_one_percent_less_does_not(name):
    record = CASES[name]().release([0, 1] * 30).to_dict()
    verdict = verify(record)
    assert verdict.ok, str(verdict)
    for lowered in ("scale", "epsilon"):
        assert not verify({**record, lowered: record[lowered] * 0.99}).ok


@pytest.mark.parametrize("name", CLASSES)
def test_less_noise_and_lowered_limits_are_caught(name):
    data = np.random.default_rng(0).integers(0, 2, 90).tolist()
    noise = pk.influence_curve(CLASSES[name], pk.histogram([0, 1], 90), 1)
    record = json.loads(noise.release(data).to_json())
    verdict = verify(record)
    assert verdict.ok, str(verdict)
    assert not verify({**record, "scale": record["scale"] * 0.97}).ok
    (parts,) = (record.get("verification_data") or {}).get("curve") or [[]]
    lowered = 0
    for part in parts:
        for side in ("left", "right"):
            sides = part[side] if isinstance(part[side], list) else [part[side]]
            for one in (limit for own in sides for limit in own.get("limits", [own])):
                if one["limit"] is not None:
                    one["limit"][0] *= 0.9
                    lowered += 1
    if not lowered and parts:
        record["verification_data"] = None
    assert not parts or not verify(record).ok


def test_files(tmp_path):
    path = tmp_path / "release.json"
    path.write_text(pk.markov_quilt(CHAIN, QUERY, 1).release([0, 1] * 30).to_json())
    assert verify(path).ok
    data = json.loads(path.read_text())
    data["scale"] *= 0.99
    path.write_text(json.dumps(data))
    assert not verify(path).ok
    for text in ("[]", "no", "7", "null", '{"format": 1}', '{"format": 2}', "{}", "[" * 100_000):
        path.write_text(text)
        verdict = verify(path)
        assert not verdict.ok
        assert "not well formed" in str(verdict)
    path.write_bytes(bytes(range(256)))
    assert "is not JSON" in verify(path).problems[0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('"epsilon": 0.1', "'epsilon' is given twice"),
        ('"read_from": {"file": "a", "file": "b"}', "'file' is given twice"),
        ('"read_from": {"rows": NaN}', "NaN is not a number"),
    ],
)
def test_a_file_that_readers_may_take_in_two_ways_is_not_well_formed(more, words, tmp_path):
    path = tmp_path / "release.json"
    text = pk.markov_quilt(CHAIN, QUERY, 1).release([0, 1] * 30).to_json()
    path.write_text(f"{{{more}, {text[1:]}")
    verdict = verify(path)
    assert not verdict.ok
    assert words in verdict.problems[0]


def test_the_record_of_a_stay_without_an_upper_end_is_json_that_every_reader_takes(tmp_path):
    noise = pk.influence_curve(CHAIN, pk.stays(1, 60), 0.01)
    release = replace(noise.release([0, 1] * 30), raw=(20.0, 0.0), value=(20.0, 0.0))
    reading = release.derive("mean stay")
    assert reading.high == (np.inf,)
    path = tmp_path / "release.json"
    path.write_text(record(release, reading))
    assert json_value("record", path.read_text())["derived"]["rows"][0]["high"] == "unbounded"
    assert "is not JSON" not in "".join(verify(path).problems)


def test_long_stationary_chains_are_checked_by_certificate():
    chain = pk.MarkovChain.steady([[0.99, 0.01], [0.02, 0.98]])
    for mechanism in (pk.markov_quilt, pk.influence_curve):
        data = mechanism(chain, pk.count(1, 100_000), 1).release([0] * 100_000).to_dict()
        assert verify(data).ok
        assert not verify({**data, "scale": data["scale"] * 0.99}).ok


def test_files_that_are_no_release_say_what_checks_them(tmp_path):
    table = tmp_path / "days.csv"
    table.write_text("subject,entries\nhome,24\n")
    with pytest.raises(ValueError, match=r"its record days\.json is not beside it"):
        verify(table)
    record = tmp_path / "coin.json"
    record.write_text('{"mechanism": {}, "estimates": {}}')
    assert "audit --mechanism randomized_response" in verify(record).problems[0]
    record.rename(tmp_path / "days.json")
    table.with_suffix(".json").write_text('{"format": 1}')
    assert "not the record of a table" in verify(table).problems[0]
