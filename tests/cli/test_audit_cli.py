"""``pufferkit audit``."""

import json
from pathlib import Path

import pytest

from tests.strategies.command_line import folder, good, refusal, refusals, run  # noqa: F401

AUDIT = ("audit", "--model", "model.json", "--epsilon", "1", "--length", "4", "--trials", "2000")
COUNT = ("--query", "count", "--state-value", "run")


@pytest.mark.usefixtures("folder")
def test_promise_attack_verdict():
    shown = good(*AUDIT, *COUNT)
    assert "influence_curve: promises epsilon 1" in shown
    assert "best attack" in shown
    assert "verdict      passed" in shown
    assert "exact loss   1.000000" in shown


@pytest.mark.usefixtures("folder")
def test_a_broken_promise_has_exit_code_1():
    result = run(*AUDIT, *COUNT, "--mechanism", "entry-dp")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert result.stderr == ""


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_json_and_picture():
    record = json.loads(good(*AUDIT, "--json", "--plot", "curve.svg"))
    assert record["verdict"] == "passed"
    assert record["exact_loss"] <= 1
    assert record["trials"] == 2000
    assert Path("curve.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.usefixtures("folder")
@refusals(
    {
        "--trials 3": "trials: must be at least 100",
        "--confidence 2": "confidence",
        "--mechanism magic": "'magic' is unknown",
        "--plot curve.txt": "figures are written to",
        "--plot model.json": "already uses this file",
        "--epsilon 0": "epsilon: must be above 0",
        "--length 0": "at least 1",
    }
)
def test_refusals(options, words):
    assert words in refusal(*AUDIT, *options)


@pytest.mark.usefixtures("folder")
def test_a_length_is_needed():
    assert "--length" in refusal("audit", "--model", "model.json", "--epsilon", "1")


@pytest.mark.usefixtures("folder")
def test_randomised_response():
    pytest.importorskip("pufferkit.local")
    shown = good(*AUDIT[:6], "9", *AUDIT[7:], "--mechanism", "randomized-response")
    assert "9 sanitised entries" in shown
    assert "passed" in shown


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_correlated_response():
    shown = good(*AUDIT[:6], "9", *AUDIT[7:], "--mechanism", "correlated-response")
    assert "CorrelatedResponse" in shown
    assert "passed" in shown


@pytest.mark.usefixtures("folder")
def test_randomised_response_needs_one_chain():
    pytest.importorskip("pufferkit.local")
    Path("open.json").write_text(json.dumps({"kind": "binary", "low": 0.2, "high": 0.8}))
    said = refusal(
        "audit", "--model", "open.json", *AUDIT[3:], "--mechanism", "randomized_response"
    )
    assert "one chain" in said
