"""Bad input on the command line: one line, exit code 2, nothing written, no noise drawn."""

import json
import sys
from pathlib import Path

import pytest

from pufferkit.plots import canvas
from tests.strategies.command_line import PLAN, RELEASE, folder, good, refusal, refusals, run

__all__ = ["folder"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"transition": [[0.9, 0.2], [0.4, 0.6]]}', "row 0 sums to 1.1"),
        ('{"transition": [[NaN, 0.1], [0.4, 0.6]]}', "not a number"),
        ('{"transition": [[1.1, -0.1], [0.4, 0.6]]}', "below 0"),
        ('{"transition": [[0.9, 0.1], [0.4]]}', "transition"),
        ('{"transition": [[0.9, 0.1]]}', "square"),
        ('{"transition": "abc"}', "transition"),
        ('{"transition": [[1]]}', "at least two states"),
        ('{"transition": [[1, 0], [0, 1]]}', "stationary distribution is not unique"),
        ('{"transition": [[0, 1], [1, 0]], "states": 5}', "model.json"),
        ('{"transition": [[0, 1], [1, 0]], "states": ["a", "a"]}', "listed twice"),
        ('{"transition": [[0, 1], [1, 0]], "states": ["a"]}', "1 labels for 2 states"),
        ('{"kind": "finite", "chains": 5}', "model.json"),
        ('{"kind": "finite", "chains": []}', "at least one chain"),
        ('{"kind": "other"}', "'other' is unknown"),
        ('{"kind": ["finite"]}', "model.json"),
        ('{"kind": "binary", "low": 0.9, "high": 0.1}', "low <= high"),
        ("{}", "must have 'transition'"),
        ("[1, 2]", "JSON object"),
        ("[" * 100_000, "model.json"),
        ("", "not JSON"),
        ("when,state", "not JSON"),
        (b"\x89PNG\r\n\x1a\n\xff", "not a JSON file"),
    ],
)
def test_bad_models(folder: Path, content: str | bytes, words: str):
    Path("model.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in refusal(*PLAN)


def test_missing_model(folder: Path):
    words = refusal(*PLAN, "--model", "none.json")
    assert words.startswith("error: none.json: no such file; make it")


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "-inf", "abc"])
def test_bad_epsilon(folder: Path, epsilon: str):
    for command in (PLAN, (*RELEASE, "--out", "r.json")):
        assert "epsilon" in refusal(*command, "--epsilon", epsilon)


@pytest.mark.parametrize("length", ["0", "-3", "1.5", "many"])
def test_bad_length(folder: Path, length: str):
    assert "length" in refusal(*PLAN[:-1], length)


def test_length_one(folder: Path):
    assert "markov_quilt" in good(*PLAN[:-1], "1")
    Path("one.csv").write_text("state\nrest\n")
    assert json.loads(good("release", "one.csv", *RELEASE[2:]))["lengths"] == [1]


@refusals(
    {
        "--data data.csv": "either --length N or --data FILE",
        "--query median": "'median'",
        "--query count": "--state-value: needed",
        "--query count --state-value fly": "'fly' is not a state of the model",
        "--state-value run": "--state-value: only for",
        "--query total": "--values: a number for each state",
        "--values rest=1,run=2": "--values: only for",
        "--query mean --values rest=1": "no value for run",
        "--query mean --values rest=1,run": "must have the form state=number, got 'run'",
        "--query mean --values rest=1,run=x": "'x' is not a number",
        "--query mean --values rest=1,rest=2": "'rest' is given twice",
        "--query mean --values rest=1,fly=2": "'fly' is not a state",
        "--query mean --values rest=1,run=1": "at least two different values",
        "--query mean --values rest=nan,run=1": "not a number",
        "--query total --values rest=-1e308,run=1e308": "too large",
        "--plot plan.gif": ".png, .svg, .pdf",
        "--plot nowhere/plan.png": "no directory nowhere",
        "--nonsense": "--nonsense",
        "extra": "extra",
    }
)
def test_bad_options_of_plan(folder: Path, options: list[str], words: str):
    assert words in refusal(*PLAN, *options)


def test_plan_needs_a_size(folder: Path):
    assert "--length N" in refusal(*PLAN[:-2])
    assert "--state" in refusal(*PLAN[:-2], "--data", "data.csv")


@refusals(
    {
        "--state nowhere": "it has 'when', 'state'",
        "--time state": "a different column",
        "--mechanism magic": "'magic' is unknown; known are ",
        "--mechanism gk16": "spectral norm",
        "--keys a,b": "--keys",
        "--out nowhere/r.json": "no directory nowhere",
        "--out .": "is a directory",
        "--out /dev/null": "not a regular file",
        "--out data.csv": "already uses this file",
        "--plot model.json": "already uses this file",
        "--out r.png --plot r.png": "already uses this file",
        "--plot r.bmp": ".png, .svg, .pdf",
    }
)
def test_bad_options_of_release(folder: Path, options: list[str], words: str):
    written = [] if "--out" in options else ["--out", "r.json"]
    assert words in refusal(*RELEASE, *written, *options)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bad.csv", b"", "is empty"),
        ("bad.csv", b"state\nrest\nfly\n", "not declared: 'fly'"),
        ("bad.csv", b"state,x\n,1\n,2\n", "no row has a state"),
        ("bad.parquet", b"state\nrest\n", "not a Parquet file"),
    ],
)
def test_bad_data(folder: Path, name: str, content: bytes, words: str):
    Path(name).write_bytes(content)
    assert words in refusal("release", name, *RELEASE[2:], "--out", "r.json", "--plot", "r.png")
    assert words in refusal("beliefs", "check", "model.json", "--data", name, "--state", "state")


def test_data_that_is_not_there(folder: Path):
    Path("folder.csv").mkdir()
    assert "directory" in refusal("release", "folder.csv", *RELEASE[2:])
    assert "No such file" in refusal("release", "none.csv", *RELEASE[2:])


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("state\na\nb\n", [], "never leaves 'b'"),
        ("state\na\n", ["--states", "a,b"], "smoothing above 0"),
        ("state\na\nb\na\n", ["--smoothing", "-1"], "smoothing"),
        ("state\na\nb\na\n", ["--smoothing", "nan"], "smoothing"),
        ("state\na\nb\na\n", ["--start", "end"], "--start"),
        ("state\na\nb\na\n", ["--states", "a"], "not declared: 'b'"),
        ("", [], "is empty"),
    ],
)
def test_bad_fits(folder: Path, content: str, options: list[str], words: str):
    Path("p.csv").write_text(content)
    fit = ("beliefs", "fit", "p.csv", "--state", "state", "--out", "m.json")
    assert words in refusal(*fit, *options)


@pytest.mark.parametrize("command", [["nonsense"], ["model", "nonsense"], ["release"], ["plan"]])
def test_bad_commands(folder: Path, command: list[str]):
    refusal(*command)


def test_without_matplotlib_nothing_is_released(folder: Path, monkeypatch: pytest.MonkeyPatch):
    canvas._figure.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    drawn = []
    monkeypatch.setattr("pufferkit.noise.discrete_laplace", lambda *a: drawn.append(a))
    assert "pufferkit[plots]" in refusal(*RELEASE, "--out", "r.json", "--plot", "r.png")
    assert drawn == []


def test_no_noise_is_drawn_for_a_command_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = []
    monkeypatch.setattr("pufferkit.noise.discrete_laplace", lambda *a: drawn.append(a))
    for options in (["--out", "nowhere/r.json"], ["--plot", "r.gif"], ["--mechanism", "gk16"]):
        refusal(*RELEASE, *options)
    refusal(*RELEASE, "--query", "count", "--state-value", "run", "--keys", "a")
    assert drawn == []


def test_a_bug_is_not_dressed_up_as_bad_input(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("pufferkit.noise.discrete_laplace", broken)
    result = run(*RELEASE, "--out", "r.json")
    assert isinstance(result.exception, RuntimeError)
    assert not Path("r.json").exists()
