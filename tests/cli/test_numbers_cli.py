"""Numbers as states, and raw files, in every command."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import pufferkit as pk
from tests.strategies.command_line import good, refusal, run

CHAIN = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
FILE = "meter.txt"
COLUMNS = ("--state", "kW", "--time", "Date,Time")


def write(path: str, seed: int, hours: int = 24 * 15) -> None:
    """Hours from noon on 20 October 2008 in Paris: day first, semicolons, commas, a question
    mark, and an hour that comes twice."""
    start = pl.datetime_range(
        pl.datetime(2008, 10, 20, 10, time_zone="UTC"),
        pl.datetime(2008, 11, 20, time_zone="UTC"),
        "1h",
        eager=True,
    ).head(hours)
    local = start.dt.convert_time_zone("Europe/Paris")
    rows = [
        f"{time:%d/%m/%Y;%H:%M};{'?' if n == 7 else ('0,35', '1,2')[code]}"
        for n, (time, code) in enumerate(zip(local, CHAIN.sample(hours, seed=seed), strict=True))
    ]
    Path(path).write_text("\n".join(["Date;Time;kW", *rows, ""]))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(FILE, 1)
    write("public.txt", 2)
    good("beliefs", "fit", "public.txt", *COLUMNS, *PARIS, "--cuts", "1", "--out", "model.json")
    return tmp_path


PARIS = ("--timezone", "Europe/Paris", "--repeated-hour", "shift")
MODEL = ("--model", "model.json", "--epsilon", "1")


def test_what_was_sniffed_is_said(house):
    said = run("beliefs", "fit", "public.txt", *COLUMNS, *PARIS, "--cuts", "1").stderr
    for part in (
        "separator ;",
        "day first",
        "decimal comma",
        "midnight in Europe/Paris",
        "kW is ?",
    ):
        assert part in said
    assert pk.ChainClass.from_json(Path("model.json").read_text()).states == (
        "below 1",
        "1 and more",
    )


def test_the_levels_of_the_model_are_those_of_the_numbers(house):
    done = run("release", FILE, *COLUMNS, *PARIS, *MODEL, "--out", "r.json", "--plot", "r.png")
    assert done.exit_code == 0, done.output
    assert "kW was cut at 1, like the states of the model" in done.stderr
    record = json.loads(Path("r.json").read_text())
    assert record["labels"] == ["below 1", "1 and more"]
    assert (record["lengths"], record["observed"]) == ([360], [359])
    assert Path("r.png").stat().st_size > 0
    good("verify", "r.json")
    same = ("--cuts", "1")
    assert "have cuts 2" in refusal("release", FILE, *COLUMNS, *PARIS, *MODEL, "--cuts", "2")
    assert run("release", FILE, *COLUMNS, *PARIS, *MODEL, *same).exit_code == 0


def test_every_command_takes_numbers(house):
    data = ("--data", FILE, *COLUMNS, *PARIS)
    assert "360 entries, 1 not observed" in good("plan", *MODEL, *data)
    assert "one step of memory is enough" in good("beliefs", "check", "model.json", *data)
    said = good("audit", *MODEL, *data, "--trials", "200", "--plot", "a.png")
    assert "verdict      passed" in said
    assert Path("a.png").stat().st_size > 0
    good("sanitize", FILE, *COLUMNS, *PARIS, *MODEL, "--out", "answers.csv")
    answers = pl.read_csv("answers.csv")
    assert (answers.columns, answers["kW"].null_count()) == (["Date", "Time", "kW"], 1)
    assert set(answers["kW"].drop_nulls()) <= {"below 1", "1 and more"}
    for query in ("mean", "total"):
        asked = (
            "--query",
            query,
            "--values",
            "below 1=0.35,1 and more=1.2",
            "--out",
            f"{query}.json",
        )
        good("release", FILE, *COLUMNS, *PARIS, *MODEL, *asked)
        good("verify", f"{query}.json")


def test_weeks_are_cut_at_local_midnight(house):
    paid = ("--ledger", "l.db", "--budget", "2", "--account", "home")
    good("release", FILE, *COLUMNS, *PARIS, *MODEL, "--window", "7d", *paid, "--out", "weeks.csv")
    weeks = pl.read_csv("weeks.csv")
    assert weeks["entries"].sum() == 359
    assert weeks["entries"].to_list() == [24 * 7 + 1 - 12 - 1, 24 * 7, 35]
    good("verify", "weeks.csv")
    line = run("release", FILE, *COLUMNS, *MODEL, "--timezone", "Europe/Paris").stderr
    assert "--repeated-hour" in line
    assert "--repeated-hour" in run("release", FILE, *COLUMNS, *MODEL).stderr


def test_widths_units_and_labels(house):
    fit = ("beliefs", "fit", "public.txt", *COLUMNS, *PARIS)
    levels = ("--levels", "500W:2kW", "--unit", "kW", "--smoothing", "0.5")
    named = pk.ChainClass.from_json(good(*fit, *levels))
    assert named.states == ("below 0.5 kW", "0.5 to 1 kW", "1 to 1.5 kW", "1.5 kW and more")
    Path("labels.csv").write_text("from,label\n,low\n1,high\n")
    told = pk.ChainClass.from_json(good(*fit, "--levels", "labels.csv"))
    assert told.states == ("low", "high")
    assert "--unit" in refusal(*fit, "--levels", "labels.csv", "--unit", "kW")
    assert "--unit" in refusal(*fit, "--levels", "500W:2kW") or "unit=" in refusal(
        *fit, "--levels", "500W:2kW"
    )
    assert "give only one" in refusal(*fit, "--cuts", "1", "--levels", "1:3")
    Path("four.json").write_text(named.to_json())
    asked = ("--query", "mean", "--values", "middles", "--length", "100")
    done = run("plan", "--model", "four.json", "--epsilon", "1", *asked)
    assert "values: below 0.5 kW=0.25" in done.stderr
    assert "levels of numbers" in refusal(
        "plan", "--model", "model.json", "--epsilon", "1", *asked
    ).replace("two levels have no midpoints", "levels of numbers")
    assert "cannot be converted" in refusal(*fit, "--levels", "5V:9V", "--unit", "kW")


def test_standard_input_gzip_and_patterns(house):
    packed = Path("meter.txt.gz")
    packed.write_bytes(gzip.compress(Path(FILE).read_bytes()))
    good("release", packed, *COLUMNS, *PARIS, *MODEL)
    from typer.testing import CliRunner

    from pufferkit.cli import app

    arguments = ["release", "-", *COLUMNS, *PARIS, *MODEL]
    done = CliRunner().invoke(app, arguments, input=Path(FILE).read_bytes())
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["lengths"] == [360]
    write("other.txt", 3)
    said = run("release", FILE, "other.txt", *COLUMNS, *PARIS, *MODEL)
    assert said.exit_code == 0, said.output
    assert [line.split(",")[0] for line in said.stdout.splitlines()[1:]] == ["meter", "other"]
    pattern = good("release", "*t*r.txt", *COLUMNS, *PARIS, *MODEL)
    assert len(pattern.splitlines()) == 3
