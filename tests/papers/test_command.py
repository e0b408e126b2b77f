"""``python -m papers``."""

import csv
import json
import sys
from functools import partial
from pathlib import Path

import pytest

import papers
from papers.__main__ import app
from pufferkit.plots import canvas
from tests.strategies import command_line
from tests.strategies.command_line import folder, refusals  # noqa: F401
from tests.strategies.measured import measured  # noqa: F401

run, good, refusal = (
    partial(getattr(command_line, name), command=app) for name in ("run", "good", "refusal")
)
pytestmark = pytest.mark.usefixtures("folder")


def test_alone_it_lists_the_names():
    listing = good().splitlines()
    assert [line.split()[0] for line in listing] == papers.names()
    assert "needs --data" in next(line for line in listing if line.startswith("quilt-table-1 "))


def test_table_csv_and_picture():
    result = run("composition-counterexample", "--quick")
    assert result.exit_code == 0, result.stderr
    assert "6.2672" in result.stdout
    assert result.stderr.splitlines() == [
        f"written: {Path('out') / name}"
        for name in ("composition-counterexample.csv", "composition-counterexample.png")
    ]
    with Path("out/composition-counterexample.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 41
    assert Path("out/composition-counterexample.png").read_bytes().startswith(b"\x89PNG")


def test_json():
    listed = json.loads(good("--json"))
    assert {"name", "shows", "data"} == set(listed[0])
    made = json.loads(good("local-figure-1", "--quick", "--json"))
    assert made["name"] == "local-figure-1"
    assert made["rows"]


@pytest.mark.slow
def test_data_seed_and_folder(measured):  # noqa: F811
    args = ("quilt-table-1", "--quick", "--data", measured, "--seed", "3")
    first = good(*args, "--out", "a/b")
    assert first == good(*args, "--out", "c")
    assert Path("a/b/quilt-table-1.csv").read_bytes() == Path("c/quilt-table-1.csv").read_bytes()


@pytest.mark.slow
def test_one_file_as_data(measured):  # noqa: F811
    path = measured / "household_power_consumption.txt"
    printed = good("quilt-table-3", "--quick", "--data", path)
    assert "household_power_consumption" in printed
    assert "10min" not in printed


@refusals(
    {
        "table-9": "is not an experiment; known are",
        "quilt-table-1": "accelerometry",
        "quilt-table-1 --data nowhere": "no file or folder nowhere",
        "quilt-table-1 --data data.csv": "no column seqn",
        "quilt-table-2 --quick --data data.csv": "must be a folder",
        "composition-year --seed -1": "seed",
        "composition-year --quick --out data.csv": "not a directory",
        "composition-year --quick --out data.csv/deeper": "not a directory",
    }
)
def test_refusals(options, words):
    assert words in refusal(*options)


def test_without_matplotlib_there_is_no_picture(monkeypatch):
    canvas._figure.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("composition-counterexample", "--quick")
    assert result.exit_code == 0
    assert "warning: no figure" in result.stderr
    assert [path.name for path in Path("out").iterdir()] == ["composition-counterexample.csv"]
