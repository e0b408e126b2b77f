"""``pufferkit beliefs hide``: beliefs with other secrets, for every other command."""

import json
from pathlib import Path

import pytest

import pufferkit as pk
from tests.strategies.command_line import refusal, refusals, run

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "run"])


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.json").write_text(CHAIN.to_json())
    lines = "".join(f"{n},{('rest', 'run')[n % 3 == 0]}\n" for n in range(300))
    (tmp_path / "day.csv").write_text("t,s\n" + lines)


def test_from_a_model_to_a_release_that_is_verified():
    asked = ["--secret", "runs:3", "--secret", "at-least:run:12"]
    asked += ["--secret", "throughout:rest:6", "--out", "h.json"]
    done = run("beliefs", "hide", "m.json", *asked)
    assert done.exit_code == 0, done.stderr
    assert "any two values of any 3 entries in a row" in done.stderr
    theta = pk.ChainClass.from_json(Path("h.json").read_text())
    assert len(theta.secrets) == 3
    assert "hidden: any two values" in run("beliefs", "show", "h.json").stdout
    done = run(
        "release", "day.csv", "--state", "s", "--model", "h.json", "--query", "count",
        "--state-value", "run", "--epsilon", "1", "--out", "r.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "secrets that the beliefs name" in done.stdout + done.stderr
    assert run("verify", "r.json").exit_code == 0
    assert json.loads(Path("r.json").read_text())["guarantee"] == "events"


def test_named_pairs_only():
    done = run("beliefs", "hide", "m.json", "--secret", "pair:rest:run")
    assert json.loads(done.stdout)["secrets"] == [{"kind": "pairs", "pairs": [["rest", "run", 1]]}]
    done = run("beliefs", "hide", "m.json", "--secret", "pair:rest:run:2.5")
    assert json.loads(done.stdout)["secrets"][0]["pairs"] == [["rest", "run", 2.5]]
    done = run("beliefs", "hide", "m.json", "--secret", "sets:3")
    assert json.loads(done.stdout)["secrets"] == [{"kind": "sets", "count": 3}]
    done = run("beliefs", "hide", "m.json", "--secret", "at-least:run:12:4", "--only")
    (one,) = json.loads(done.stdout)["secrets"]
    assert (one["window"], one["times"], one["states"]) == (12, 4, ["run"])


@refusals(
    {
        "": "--secret",
        "--secret at-least:run": "at-least:STATE:N",
        "--secret at-least:walk:12": "not a state of the model; it has rest, run",
        "--secret at-least:run:3:4": "must be at most 3",
        "--secret throughout:run:x": "whole number",
        "--secret runs:0": "must be at least 1",
        "--secret pair:rest:run:0.5": "multiples must be at least 1",
    }
)
def test_refusals(options, words, tmp_path):
    assert words in refusal("beliefs", "hide", "m.json", *options, "--out", "h.json")
    assert not (tmp_path / "h.json").exists()
