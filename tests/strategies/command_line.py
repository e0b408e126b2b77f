"""Runs the command line in a small working directory."""

import json
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

import pufferkit as pk
from pufferkit.cli import app

# Typer makes all commands anew at every call, which takes longer than most of them do.
typer.testing._get_command = cache(get_command)

MODEL = {"states": ["rest", "run"], "transition": [[0.9, 0.1], [0.4, 0.6]]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a model and a series that fits it."""
    monkeypatch.chdir(tmp_path)
    Path("model.json").write_text(json.dumps(MODEL))
    codes = pk.MarkovChain.steady(MODEL["transition"]).sample(300, seed=5)
    rows = [f"{n},{MODEL['states'][code]}" for n, code in enumerate(codes)]
    Path("data.csv").write_text("\n".join(["when,state", *rows, ""]))
    return tmp_path


def run(*args: str, anyway: bool = True, command=app) -> Result:
    """The result of a command; releases of a few entries, which noise drowns, are meant."""
    texts = [str(arg) for arg in args]
    if anyway and texts[:1] == ["release"] and len(texts) > 4:
        texts.append("--anyway")
    return CliRunner().invoke(command, texts)


def good(*args: str, command=app) -> str:
    result = run(*args, command=command)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refusal(*args: str, anyway: bool = True, command=app) -> str:
    """The one error on stderr of a command that fails, writing nothing anywhere.

    How a file was read may stand before it.
    """
    before = snapshot()
    result = run(*args, anyway=anyway, command=command)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    assert snapshot() == before
    lines = result.stderr.splitlines()
    while len(lines) > 1 and lines[0].startswith(("note: read as", "note: from ")):
        del lines[0]
    (line,) = [line for line in lines if "the noise drowns" not in line or not anyway]
    assert line.startswith("error: ")
    return line


def refusals(cases: dict[str, str]) -> pytest.MarkDecorator:
    """Cases of a test: options as on a command line, and words of the refusal."""
    listed = [(shlex.split(options), words) for options, words in cases.items()]
    return pytest.mark.parametrize(("options", "words"), listed)


def snapshot() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path().rglob("*") if p.is_file()}


PLAN = ("plan", "--model", "model.json", "--epsilon", "1", "--length", "300")
RELEASE = ("release", "data.csv", "--model", "model.json", "--epsilon", "1", "--state", "state")
