"""The record of a table of releases: every row is checked."""

import json

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.data.query import question
from tests.asking import for_all, for_each

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "run"])


def table(lengths=(40, 7, 40, 12), **options):
    rows = [
        (f"p{who}", t, CHAIN.states[code])
        for who, length in enumerate(lengths)
        for t, code in enumerate(CHAIN.sample(length, seed=who))
    ]
    frame = pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")
    return pk.read(
        frame,
        subject="who",
        time="when",
        state="what",
        states=CHAIN.states,
        independent_after=1,
        **options,
    )


CASES = {
    "each": lambda: for_each(table(), CHAIN, 1),
    "windows": lambda: for_each(table(window=10), CHAIN, 1),
    "shares": lambda: for_each(table(window=10), CHAIN, 1, query="frequencies"),
    "as drawn": lambda: for_each(table(), CHAIN, 1).as_drawn(),
    "shares as drawn": lambda: for_each(table(), CHAIN, 1, query="frequencies").as_drawn(),
    "quilt": lambda: for_each(table(), CHAIN, 1, mechanism="markov_quilt"),
    "tight": lambda: for_each(table(), CHAIN, 1, mechanism="markov_quilt_approx_tight"),
    "group": lambda: for_each(table(), CHAIN, 1, mechanism="group_dp"),
    "class": lambda: for_each(
        table(), pk.ChainClass.any_start(CHAIN.transition, states=CHAIN.states), 1
    ),
    "read from a histogram": lambda: for_each(
        table((90, 40)), CHAIN, 20, query=pk.quantile(0.5, {"rest": 0, "run": 1})
    ),
    "top states": lambda: for_each(table(), CHAIN, 1, query=question("top-states", top=1)),
    "all": lambda: for_all(table(), CHAIN, 1),
    "all windows": lambda: for_all(table(window=10), CHAIN, 1),
}


@pytest.fixture(params=CASES, scope="module")
def record(request):
    return json.loads(CASES[request.param]().to_json())


def test_an_honest_record_passes(record):
    verdict = pk.verify(record)
    assert verdict.ok, str(verdict)
    assert verdict.rows == len(record["rows"]["scale"])
    shares = record["kind"] == "relative frequencies"  # noise is divided by what a row is of
    assert ("that each row is of as many entries as recorded" in verdict.assumptions) == shares


def test_rows_are_whole_counts_with_whole_noise(record):
    assert record["noise"] == "discrete laplace"
    raw = [list(row) for row in record["rows"]["raw"]]
    raw[0][0] += 0.3 / record["rows"]["entries"][0]
    value = None if record["presentation"] == "as drawn" else record["rows"]["value"]
    verdict = pk.verify({**record, "rows": {**record["rows"], "raw": raw, "value": value}})
    assert any("discrete noise leaves whole multiples" in problem for problem in verdict.problems)
    assert "noise must be one of" in str(pk.verify({**record, "noise": "none"}))


def test_each_row_is_checked(record):
    """One percent less noise in any one row is caught, and the row is named."""
    for number in range(len(record["rows"]["scale"])):
        scales = list(record["rows"]["scale"])
        scales[number] *= 0.99
        verdict = pk.verify({**record, "rows": {**record["rows"], "scale": scales}})
        assert not verdict.ok
        assert f"row {number + 1}" in str(verdict)


def test_values_belong_to_raw(record):
    raw = [list(row) for row in record["rows"]["raw"]]
    shown = record["rows"]["value"] or raw
    wrong = [[value + 1 for value in row] for row in shown]
    verdict = pk.verify({**record, "rows": {**record["rows"], "value": wrong}})
    assert not verdict.ok
    assert "value does not follow from raw" in str(verdict)


def test_a_row_is_not_given_twice():
    record = CASES["each"]().to_dict()
    rows = {k: None if v is None else [*v, v[0]] for k, v in record["rows"].items()}
    verdict = pk.verify({**record, "rows": rows})
    assert not verdict.ok
    assert "twice" in str(verdict)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "count"}, "question"),
        ({"kind": "mode"}, "kind"),
        ({"labels": [1, 2]}, "labels"),
        ({"calibrations": []}, "no calibration for segments of"),
        ({"calibrations": 5}, "calibrations"),
        ({"rows": []}, "rows"),
        ({"rows": {}}, "rows"),
        ({"guarantee": "most"}, "guarantee"),
    ],
)
def test_records_that_are_not_well_formed_fail_by_name(change, said):
    verdict = pk.verify({**CASES["each"]().to_dict(), **change})
    assert not verdict.ok
    assert not verdict.checked
    assert said in verdict.problems[0]
    assert "not well formed" in str(verdict)


@pytest.mark.parametrize(("written", "said"), [(2, "format 2"), (None, "pufferkit wrote")])
def test_tables_of_other_formats_are_none(written, said):
    verdict = pk.verify({**CASES["each"]().to_dict(), "format": written})
    assert not verdict.ok
    assert said in verdict.problems[0]


def test_a_row_points_to_the_calibration_of_its_length_by_its_digest(record):
    """Each digest is that of what was asked for, and of the length that the row names."""
    if record["mechanism"].startswith("markov_quilt"):
        return  # whose options no record holds
    for own in record["calibrations"]:
        own["calibration"] = own["calibration"][::-1]
    verdict = pk.verify(record)
    assert not verdict.ok
    assert "digest" in str(verdict)
    assert "row 1" in str(verdict)


@pytest.mark.parametrize("mechanism", ["influence_curve", "markov_quilt", "group_dp"])
def test_a_row_that_points_to_another_calibration_is_noticed(mechanism):
    record = json.loads(for_each(table(), CHAIN, 1, mechanism=mechanism).to_json())
    rows, noise = record["rows"], {own["length"]: own for own in record["calibrations"]}
    assert len(noise) > 1
    other = noise[7 if rows["length"][0] != 7 else 12]
    pointing = [other["calibration"][:16], *rows["calibration"][1:]]
    verdict = pk.verify({**record, "rows": {**rows, "calibration": pointing}})
    assert not verdict.ok
    assert "row 1 p0: points to another calibration" in str(verdict)
    both = [other["length"], *rows["length"][1:]]  # with the length of the other, as a lie
    swap = {40: 7, 7: 40}
    changed = [{**own, "length": swap.get(n, n)} for n, own in noise.items()]
    if mechanism != "markov_quilt":
        assert not pk.verify({**record, "calibrations": changed}).ok
    lied = {**rows, "length": both, "calibration": pointing}
    assert pk.verify(
        {**record, "rows": lied}
    ).ok  # that segments are as long as recorded is assumed


@pytest.mark.parametrize(
    ("column", "wrong"),
    [("scale", 0.0), ("scale", True), ("entries", 1.5), ("length", 0), ("raw", 3), ("raw", ["x"])],
)
def test_columns_of_the_wrong_type(column, wrong):
    record = CASES["each"]().to_dict()
    values = [wrong, *record["rows"][column][1:]]
    verdict = pk.verify({**record, "rows": {**record["rows"], column: values}})
    assert not verdict.ok
    assert column in verdict.problems[0]


def test_the_object_itself():
    assert pk.verify(CASES["each"]()).ok


def test_tables_decided_by_pairs_of_values_are_checked_too():
    chain = pk.MarkovChain.steady([[0.9, 0.08, 0.02], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
    rows = pl.DataFrame({"t": range(60), "x": chain.sample(60, seed=1)})
    table = pk.read(rows, time="t", state="x", states=[0, 1, 2], window=20)
    releases = for_each(table, chain, 1)
    (noise,) = releases.calibrations.values()
    assert noise.evidence.bound == "curve"
    assert pk.verify(releases).ok
    assert pk.verify(json.loads(releases.to_json())).ok
