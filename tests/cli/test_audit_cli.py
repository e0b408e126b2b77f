"""``pufferkit audit``."""

import json
from pathlib import Path

import pytest

import pufferkit as pk
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


@pytest.mark.usefixtures("folder")
def test_an_adversary_outside_the_model():
    model = json.loads(Path("model.json").read_text())
    sticky = [[0.99, 0.01], [0.01, 0.99]]
    Path("other.json").write_text(
        json.dumps({**model, "transition": sticky, "initial": [0.5, 0.5]})
    )
    result = run(*AUDIT, *COUNT, "--adversary", "other.json")
    assert result.exit_code == 1, result.stderr
    assert "outside      the beliefs of the release; may learn at most" in result.stdout
    assert "NOT COVERED" in result.stdout
    words = refusal(*AUDIT, "--adversary", "other.json", "--mechanism", "randomized-response")
    assert "--adversary" in words


@pytest.mark.usefixtures("folder")
def test_an_adversary_who_was_trained():
    pytest.importorskip("sklearn")
    chain = pk.MarkovChain.steady([[0.95, 0.05], [0.05, 0.95]], ["rest", "run"])
    Path("sticky.json").write_text(chain.to_json())
    rows = [f"p{n},{chain.states[x]}" for n in range(4) for x in chain.sample(3000, seed=n)]
    Path("public.csv").write_text("\n".join(["who,level", *rows]) + "\n")
    asked = ("audit", "--model", "sticky.json", "--epsilon", "0.5", "--length", "10", *COUNT)
    trained = ("--trials", "2000", "--adversary", "trained", "--state", "level")
    public = ("--public", "public.csv", "--subject", "who")
    shown = good(*asked, *trained, *public)
    assert "verdict      passed" in shown
    assert "trained attacker" in shown
    assert "within the promised 0.5" in shown.splitlines()[-1]
    broken = run(*asked, *trained, *public, "--mechanism", "entry-dp", "--json")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["trained"]["proven"] > 0.5
    assert "needs public people" in refusal(*asked, *trained)
    assert "are for --adversary trained" in refusal(*asked, *public)
    other = ("audit", "--model", "sticky.json", "--epsilon", "1", "--data", "public.csv")
    assert "give --length" in refusal(*other, *trained, *public)
    response = ("--mechanism", "randomized-response")
    assert "is for releases" in refusal(*asked, *trained, *public, *response)


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
