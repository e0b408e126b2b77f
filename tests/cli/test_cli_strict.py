"""Loose types are refused, names cannot command a terminal or a spreadsheet, files are private."""

import csv
import inspect
import io
import json
import stat
from pathlib import Path
from typing import get_args

import polars
import pytest

import pufferkit as pk
from pufferkit.cli import app, terminal
from pufferkit.data.write import csv_bytes, harmless
from pufferkit.errors import printable
from tests.strategies.command_line import MODEL, PLAN, RELEASE, folder, good, refusal, run

__all__ = ["folder"]

NUMBERS = ["１", "٣", "1_0", " 1", "1 ", "0x1", "nan", "inf", "true", "", "1e", "1,5", "½"]


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_plain_digits(folder: Path, text: str):
    assert "--epsilon" in refusal(*PLAN, "--epsilon", text)
    assert "--length" in refusal(*PLAN, "--length", text)


def commands(group):
    yield from (command.callback for command in group.registered_commands)
    for inner in group.registered_groups:
        yield from commands(inner.typer_instance)


def test_every_number_of_every_command_is_read_so():
    for command in commands(app):
        for own in inspect.signature(command, eval_str=True).parameters.values():
            kind, words = get_args(own.annotation)
            if {int, float} & {kind, *get_args(kind)}:
                assert words.parser in (terminal.number, terminal.integer), own


@pytest.mark.parametrize("text", ["１", "1_0", "nan", "0x1", "1e999"])
def test_values_and_cuts_are_plain_digits(folder: Path, text: str):
    assert "values" in refusal(*RELEASE, "--query", "mean", "--values", f"rest=0,run={text}")
    fit = ("beliefs", "fit", "data.csv", "--state", "when", "--time", "when")
    assert "cuts" in refusal(*fit, "--cuts", f"10,{text}")


def test_other_ways_to_write_a_number_still_work(folder: Path):
    for text in ("1", "+1", "1.", ".5", "1e-1", "0.5E+0"):
        good(*PLAN, "--epsilon", text)


MIXING = (
    '{"kind": "mixing", "states": ["rest", "run"], "pi_min": 0.2, "gap": 0.5, "reversible": %s}'
)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MIXING % '"false"', "must be true or false"),
        (MIXING % "0", "must be true or false"),
        (MIXING % "null", "must be true or false"),
        (MIXING.replace("0.5", '"0.5"') % "false", "gap: must be a number"),
        (MIXING.replace("0.5", "true") % "false", "gap: must be a number"),
        (MIXING.replace("0.5", "NaN") % "false", "NaN is not a number"),
        (MIXING.replace("0.5", "Infinity") % "false", "Infinity is not a number"),
        (MIXING.replace("0.5", "1e999") % "false", "too large for a float"),
        (MIXING.replace('"gap": 0.5', '"gap": 0.5, "gap": 0.9') % "false", "'gap' is given twice"),
        ('{"transition": [["0.9", 0.1], [0.4, 0.6]]}', "must be numbers, got '0.9'"),
        ('{"transition": [["０.９", 0.1], [0.4, 0.6]]}', "transition: must be numbers"),
        ('{"transition": [[true, false], [0.4, 0.6]]}', "must be numbers, got True"),
        ('{"transition": [[0.9, 0.1], [0.4, 0.6]], "initial": [true, 0]}', "got True"),
        ('{"kind": "binary", "low": false, "high": 0.5}', "low: must be a number, got False"),
        (
            '{"transition": [[0.9, 0.1], [0.4, 0.6]], '
            '"fitted_on": {"theta_from_private_data": "false"}}',
            "must be true or false",
        ),
        (
            '{"kind": "finite_joint", "names": ["a"], "rows": [[[0], "１/2"], [[1], "1/2"]]}',
            "not a fraction",
        ),
        (
            '{"kind": "finite_joint", "names": ["a"], "rows": [[[0], true], [[1], 0]]}',
            "not a number",
        ),
    ],
)
def test_models_say_what_they_mean(folder: Path, model: str, words: str):
    Path("model.json").write_text(model, encoding="utf-8")
    assert words in refusal(*PLAN)


def test_a_reversible_class_is_still_read(folder: Path):
    Path("model.json").write_text(MIXING % "true")
    good(*PLAN)


# --- terminals ------------------------------------------------------------------------------------

ESCAPES = ["a\x1b[31mred", "b\x1b]0;title\x07", "c\u202ereversed", "d\nerror: forged", "e\x9b2J"]


def shows_nothing_strange(result) -> None:
    for text in (result.stdout, result.stderr):
        assert all(line.isprintable() for line in text.split("\n")), text
        assert not any(line.startswith("error: forged") for line in text.split("\n"))


@pytest.mark.slow
def test_names_are_shown_and_not_obeyed(folder: Path):
    name = "".join(ESCAPES)
    states = [name, "run"]
    chain = pk.MarkovChain.steady(MODEL["transition"], states)
    Path("model.json").write_text(chain.to_json())
    Path("region.json").write_text(pk.ChainClass.around([[9, 1], [4, 6]], 0.9, states).to_json())
    data = polars.DataFrame({"when": range(20), "state": states * 10})
    data.write_parquet("data.parquet")
    release = ("release", "data.parquet", "--model", "model.json", "--epsilon", "1")
    ledger = ("--ledger", "book.db", "--budget", "9")
    for args in (
        PLAN,
        (*PLAN, "--query", "count", "--state-value", name),
        (*PLAN, "--query", "count", "--state-value", f"{name}!"),
        (*PLAN, "--query", "mean", "--values", f"{name}=1"),
        (*release, "--state", "state", "--out", "out.json"),
        (*release, "--state", "state", *ledger, "--account", name),
        (*release, "--state", name),
        ("ledger", "show", "book.db"),
        ("ledger", "show", "book.db", "--account", name),
        ("ledger", "show", "book.db", "--account", f"{name}?"),
        ("ledger", "show", name),
        ("beliefs", "show", "model.json"),
        ("beliefs", "show", "region.json"),
        ("beliefs", "check", "model.json", "--data", "data.parquet", "--state", "state"),
        ("beliefs", "fit", "data.parquet", "--state", "state", "--smoothing", "0.1"),
        ("beliefs", "fit", name, "--state", "state"),
        ("verify", "out.json"),
        (name,),
        ("plan", f"--{name}"),
    ):
        shows_nothing_strange(run(*args))
    assert printable(name) in run("beliefs", "show", "model.json").stdout


def test_printable():
    assert printable("home é 東京") == "home é 東京"
    assert printable("a\x1b[31m\n'\t") == "a\\x1b[31m\\n'\\t"
    assert printable("\ud800") == "\\ud800"
    assert printable(5) == "5"


# --- spreadsheets ---------------------------------------------------------------------------------

FORMULAS = ["=1+2", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "'=x", "''-y"]


def undone(cell: str) -> str:
    rest = cell.lstrip("'")
    return cell[1:] if cell.startswith("'") and rest[:1] in tuple("=+-@\t\r") else cell


@pytest.mark.parametrize("cell", FORMULAS)
def test_formulas_are_text_and_can_be_had_back(cell: str):
    assert harmless(cell) == f"'{cell}"
    assert undone(harmless(cell)) == cell


@pytest.mark.parametrize("cell", ["-1", "+1.5", "-1e-3", "home", "", "'", "it's", "a=b", "1-2"])
def test_numbers_and_plain_words_stay(cell: str):
    assert harmless(cell) == cell
    assert undone(harmless(cell)) == cell


def test_whole_tables():
    table = polars.DataFrame({"=n": [-1.5, 2.0, None], "who": ["=1+2", "-3", None]})
    rows = list(csv.reader(io.StringIO(csv_bytes(table).decode())))
    assert rows == [["'=n", "who"], ["-1.5", "'=1+2"], ["2.0", "-3"], ["", ""]]


def test_every_csv_of_the_command_line_is_harmless(folder: Path):
    rows = ["who,when,state"] + [
        f"=p{n // 10},{n % 10},{MODEL['states'][n % 2]}" for n in range(20)
    ]
    Path("people.csv").write_text("\n".join([*rows, ""]))
    each = (
        "release",
        "people.csv",
        "--model",
        "model.json",
        "--epsilon",
        "1",
        "--state",
        "state",
    )
    each = (*each, "--time", "when", "--subject", "who")
    good(*each, "--out", "out.csv")
    for text in (Path("out.csv").read_text(), good(*each)):
        subjects = [row[0] for row in csv.reader(io.StringIO(text))][1:]
        assert subjects == ["'=p0", "'=p1"]
    sanitize = ("sanitize", "people.csv", "--model", "model.json", "--epsilon", "3")
    good(*sanitize, "--state", "state", "--segment", "who", "--out", "answers.csv")
    cells = {row["who"] for row in csv.DictReader(io.StringIO(Path("answers.csv").read_text()))}
    assert cells == {"'=p0", "'=p1"}


# --- files ----------------------------------------------------------------------------------------


def test_only_the_owner_reads_what_is_written(folder: Path):
    good(*RELEASE, "--out", "r.json", "--plot", "r.png")
    good("beliefs", "fit", "data.csv", "--state", "state", "--out", "m.json")
    good("sanitize", "data.csv", "--model", "model.json", "--epsilon", "2", "--state", "state",
         "--out", "a.csv")  # fmt: skip
    for name in ("r.json", "r.png", "m.json", "a.csv", "a.json"):
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600


def test_a_file_that_others_could_read_is_closed_to_them(folder: Path):
    Path("r.json").write_text("old")
    Path("r.json").chmod(0o644)
    good(*RELEASE, "--out", "r.json")
    assert stat.S_IMODE(Path("r.json").stat().st_mode) == 0o600
    assert json.loads(Path("r.json").read_text())["query"] == "histogram"


def test_the_model_fitted_on_the_data_is_noticed_by_every_command(folder: Path):
    good("beliefs", "fit", "data.csv", "--state", "state", "--out", "own.json")
    lines = Path("data.csv").read_text().splitlines()
    Path("part.csv").write_text("\n".join([*lines[:-40], ""]))
    own = ("--model", "own.json", "--epsilon", "1", "--state", "state")
    for file in ("data.csv", "part.csv"):
        for command in (
            ("release", file, *own, "--out", "r.json"),
            ("sanitize", file, *own, "--out", "a.csv"),
        ):
            assert "very series being released" in refusal(*command)


def test_states_of_several_types_are_written_as_text(folder: Path):
    model = {"states": ["rest", 0.5], "transition": MODEL["transition"]}
    Path("model.json").write_text(json.dumps(model))
    Path("data.csv").write_text("state\n" + "rest\n" * 30)
    good("sanitize", "data.csv", "--model", "model.json", "--epsilon", "2", "--state", "state",
         "--out", "a.csv")  # fmt: skip
    assert set(Path("a.csv").read_text().split()[1:]) <= {"rest", "0.5"}


def test_a_password_is_not_repeated(folder: Path):
    address = "postgresql://u:secret@127.0.0.1:1/x"
    for args in ((address,), (*RELEASE, "--out", address), ("fit", address, "--state", "state")):
        assert "secret" not in refusal(*args)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xe2\x82"])
def test_bytes_that_are_no_text_near_the_end_of_a_file_are_named(folder, bad):
    rows = [f"{n % 3},{n},{('rest', 'run')[n % 2]}" for n in range(60_000)]
    content = "\n".join(["who,t,state", *rows, ""]).encode()
    Path("late.csv").write_bytes(content[:-3] + bad + content[-3:])
    model = ("--model", "model.json", "--epsilon", "1", "--state", "state")
    for ask in (
        ("release", "late.csv", *model),
        ("release", "late.csv", *model, "--every", "5m", "--window", "100"),
        ("release", "late.csv", *model, "--subject", "who", "--every", "1m"),
        ("release", "late.csv", *model, "--subject", "who", "--time", "t",
         "--per", "who", "--keys", "0,1,2"),
        ("beliefs", "fit", "late.csv", "--state", "state"),
    ):  # fmt: skip
        assert "late.csv" in refusal(*ask), ask
    with pytest.raises(ValueError, match="late"):
        pk.read("late.csv", subject="who", state="state", every="1m")
