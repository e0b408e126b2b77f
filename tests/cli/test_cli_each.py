"""``pufferkit release --subject``: many subjects on the command line."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.cli import terminal
from tests.strategies.command_line import MODEL, folder, good, refusal, refusals, run  # noqa: F401

EACH = (
    "release", "table.csv", "--model", "model.json", "--epsilon", "1", "--state", "what",
    "--time", "when", "--subject", "who",
)  # fmt: skip


@pytest.fixture
def table(folder: Path) -> Path:  # noqa: F811
    chain = pk.MarkovChain.steady(MODEL["transition"])
    rows = [
        f"{who},2024-01-{1 + n // 24:02}T{n % 24:02}:00,{MODEL['states'][code]}"
        for number, who in enumerate(["ann", "bob"])
        for n, code in enumerate(chain.sample(24 * 14, seed=number))
    ]
    (folder / "table.csv").write_text("\n".join(["who,when,what", *rows, ""]))
    return folder


def test_one_row_for_each_subject_to_parquet(table: Path):
    result = run(*EACH, "--out", "out.parquet")
    assert result.exit_code == 0, result.output
    rows = pl.read_parquet("out.parquet")
    assert rows.columns == ["subject", "entries", "scale", "rest", "run"]
    assert rows["subject"].to_list() == ["ann", "bob"]
    assert rows["entries"].to_list() == [336, 336]
    assert "2 subjects, 672 entries" in result.stderr
    assert "Pufferfish" in result.stdout


def test_weeks_to_csv_on_stdout(table: Path):
    out = good(*EACH, "--window", "7d", "--query", "frequencies", "--independent-after", "1h")
    lines = out.splitlines()
    assert lines[0] == "subject,window_start,entries,scale,rest,run"
    assert len(lines) == 5
    assert lines[1].startswith("ann,2024-01-01T00:00:00")
    for line in lines[1:]:
        assert sum(float(cell) for cell in line.split(",")[-2:]) == pytest.approx(1)


def test_a_ledger_gives_the_same_again(table: Path):
    pay = ("--ledger", "l.db", "--budget", "1.2", "--label", "may", "--account", "study/")
    good(*EACH, *pay, "--out", "one.csv")
    good(*EACH, *pay, "--out", "two.csv")
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    shown = good("ledger", "show", "l.db")
    assert "study/ann" in shown
    again = run(*EACH, *pay[:-4], "--label", "june", "--account", "study/", "--out", "three.csv")
    assert again.exit_code == 2
    assert "short by" in again.stderr
    assert not Path("three.csv").exists()
    good("ledger", "verify", "l.db")


def test_numbers_cut_into_states(table: Path):
    numbers = pl.DataFrame(
        {"who": ["a"] * 9, "when": range(9), "watts": [50.0 * n for n in range(9)]}
    )
    numbers.write_parquet("watts.parquet")
    out = good(
        "release", "watts.parquet", "--model", "model.json", "--epsilon", "1",
        "--state", "watts", "--time", "when", "--subject", "who", "--cuts", "200", "--window", "5",
    )  # fmt: skip
    assert [line.split(",")[:3] for line in out.splitlines()[1:]] == [
        ["a", "0", "5"],
        ["a", "5", "4"],
    ]


@refusals(
    {
        "--window soon": "not a duration",
        "--window 7": "timestamps",
        "--out x.json": ".csv or .parquet",
        "--query count": "--state-value: needed for --query count",
        "--query mean": "--values: a number for each state",
        "--segment who": "--segment",
        "--ledger l.db": "must be given together",
        "--account x": "--ledger",
        "--mechanism entry-dp": "entry_dp",
        "--cuts a": "not a number",
        "--subject nobody": "no column 'nobody'",
        "--out table.csv": "already uses this file",
    }
)
def test_refusals(table: Path, options, words):
    assert words in refusal(*EACH, *options)


def test_refusals_without_each_or_time(table: Path):
    assert "--time" in refusal(*EACH[:8], "--subject", "who")
    start = ("release", *EACH[1:-2])
    assert "--subject" in refusal(*start, "--window", "7d")
    assert "--every 1m" in refusal(*start[:8], "--window", "7d")
    windowed = ("--window", "7d", "--segment", "day")
    assert "--segment: cannot be combined with --window" in refusal(*start, *windowed)


@pytest.fixture
def meter(folder: Path) -> Path:  # noqa: F811
    """One household's readings every hour for a week, with a gap and a missing one."""
    codes = pk.MarkovChain.steady(MODEL["transition"]).sample(24 * 7, seed=3)
    rows = [
        f"2024-01-{1 + n // 24:02}T{n % 24:02}:00,{'' if n == 30 else 100 + 500 * code}"
        for n, code in enumerate(codes)
        if not 60 <= n < 65
    ]
    (folder / "meter.csv").write_text("\n".join(["when,watts", *rows, ""]))
    return folder


METER = (
    "release", "meter.csv", "--model", "model.json", "--epsilon", "1", "--state", "watts",
    "--time", "when", "--cuts", "300", "--independent-after", "1h", "--window", "1d",
)  # fmt: skip


def test_one_subject_needs_no_column_of_subjects(meter: Path):
    paid = ("--ledger", "l.db", "--budget", "2", "--account", "home", "--label", "spring")
    first = run(*METER, "--query", "frequencies", *paid, "--out", "days.csv")
    assert first.exit_code == 0, first.output
    assert "1 subject, 162 entries, 2 segments of 60 to 103, 1 not observed" in first.stderr
    assert "note: pieces more than 1h apart were declared independent" in first.stderr
    days = pl.read_csv("days.csv")
    assert days["subject"].to_list() == ["home"] * 7
    assert days["entries"].to_list() == [24, 23, 19, 24, 24, 24, 24]
    before = Path("days.csv").read_bytes()
    assert run(*METER, "--query", "frequencies", *paid, "--out", "days.csv").exit_code == 0
    assert Path("days.csv").read_bytes() == before
    assert "home     2.000   1.000  1.000" in good("ledger", "show", "l.db")
    shown = good("ledger", "show", "l.db", "--account", "home")
    assert "frequencies influence_curve entries 25 to 48 (spring)" in " ".join(shown.split())


def test_a_file_with_gaps_is_one_chain_unless_declared_otherwise(meter: Path):
    lines = Path("meter.csv").read_text().replace(",100", ",rest").replace(",600", ",run")
    Path("gaps.csv").write_text(lines.replace("when,watts", "when,state"))
    start = ("gaps.csv", "--model", "model.json", "--epsilon", "1", "--state", "state")
    whole = run("release", *start, "--time", "when", "--query", "frequencies")
    assert whole.exit_code == 0, whole.output
    assert "note: 6 of 168 entries were not observed" in whole.stderr
    record = json.loads(whole.stdout)
    assert (record["lengths"], record["observed"]) == ([168], [162])
    Path("whole.json").write_text(whole.stdout)
    assert "ok" in good("verify", "whole.json").lower()
    # Without a column of times rows are the entries, and the missing state is one of them.
    rows = json.loads(good("release", *start))
    assert (rows["lengths"], rows["observed"]) == ([163], [162])
    declared = json.loads(good("release", *start, "--time", "when", "--independent-after", "3h"))
    assert (declared["lengths"], declared["observed"]) == ([60, 103], [59, 103])
    assert "pieces more than 3h apart were declared independent" in declared["evidence"]["notes"]
    data = ("--data", "gaps.csv", "--state", "state", "--time", "when")
    shown = good("plan", "--model", "model.json", "--epsilon", "1", *data)
    assert "168 entries, 6 not observed" in shown
    assert "declared" not in shown
    shown = good("plan", *start[1:5], *data, "--independent-after", "3h")
    assert "declared independent" in " ".join(shown.split())
    assert "--independent-after" in refusal(
        "plan", *start[1:5], "--length", "9", "--independent-after", "3h"
    )
    assert "needs times" in refusal("release", *start, "--independent-after", "3h")
    good("sanitize", *start, "--time", "when", "--out", "answers.csv")
    answers = pl.read_csv("answers.csv")["state"]
    assert (len(answers), answers.null_count()) == (163, 1)


def test_one_subject_is_paid_from_a_named_account(meter: Path):
    assert "--account" in refusal(*METER, "--ledger", "l.db", "--budget", "2")


def test_an_account_of_single_releases_is_not_shared_with_windows(meter: Path):
    paid = ("--ledger", "l.db", "--budget", "2", "--account", "home")
    good(
        "release", "data.csv", "--model", "model.json", "--epsilon", "1", "--state", "state", *paid
    )
    spent = good("ledger", "show", "l.db")
    assert run(*METER, *paid).exit_code == 2
    assert good("ledger", "show", "l.db") == spent


def test_a_model_of_levels_is_counted_from_readings(meter: Path):
    fit = ("beliefs", "fit", "meter.csv", "--state", "watts", "--time", "when", "--cuts", "300")
    model = pk.ChainClass.from_json(
        good(*fit, "--independent-after", "1h", "--kind", "around", "--confidence", "0.9")
    )
    assert model.states == ("below 300", "300 and more")
    named = pk.ChainClass.from_json(good(*fit, "--states", "rest,run"))
    assert named.states == ("rest", "run")
    Path("own.json").write_text(named.to_json())
    own = [*METER[:3], "own.json", *METER[4:12]]
    assert "very series being released" in run(*own).stderr
    assert not Path("out.json").exists()
    rows = pk.ChainClass.from_json(
        good("beliefs", "fit", "meter.csv", "--state", "watts", "--cuts", "300")
    )
    assert rows.states == model.states
    longer = pk.ChainClass.from_json(good(*fit, "--kind", "order", "--memory", "2"))
    assert longer.states == model.states


def test_readings_are_not_taken_for_states(folder: Path):  # noqa: F811
    Path("many.csv").write_text("\n".join(["watts", *(str(n / 7) for n in range(1500)), ""]))
    assert "1,500 distinct values" in refusal("beliefs", "fit", "many.csv", "--state", "watts")


def test_duplicates_name_their_rows(table: Path):
    text = Path("table.csv").read_text().splitlines()
    Path("table.csv").write_text("\n".join([*text, text[1], ""]))
    assert "rows 1, 673 have the same time" in refusal(*EACH)


def test_no_bar_without_a_terminal(capsys):
    with terminal.bar("work") as step:
        assert step is None
    assert capsys.readouterr().err == ""


def test_verify_checks_every_row_and_that_the_table_says_the_same(table: Path):
    good(*EACH, "--window", "7d", "--out", "weeks.csv")
    said = good("verify", "weeks.csv")
    assert "4 releases" in said
    assert "assumed: " in said
    good("verify", "weeks.json")
    lines = Path("weeks.csv").read_text().splitlines()
    cells = lines[2].split(",")
    Path("weeks.csv").write_text(
        "\n".join([*lines[:2], ",".join([*cells[:-1], "3.5"]), *lines[3:]])
    )
    result = run("verify", "weeks.csv")
    assert result.exit_code == 1
    assert "weeks.csv: row 2 ann" in result.stdout
    record = json.loads(Path("weeks.json").read_text())
    record["rows"]["scale"][3] *= 0.9
    Path("weeks.json").write_text(json.dumps(record))
    result = run("verify", "weeks.json")
    assert result.exit_code == 1
    assert "row 4 bob" in result.stdout


def test_a_table_without_its_record_is_not_verified(table: Path):
    good(*EACH, "--out", "days.csv")
    Path("days.json").unlink()
    assert "record days.json is not beside it" in refusal("verify", "days.csv")
    assert "error: nights.csv: No such file" in refusal("verify", "nights.csv")
    good(*EACH, "--out", "days.parquet")
    assert "verify the record days.json" in refusal("verify", "days.parquet")
    good("verify", "days.json")


def test_a_release_for_each_month_is_drawn_and_verified(folder: Path):  # noqa: F811
    codes = pk.MarkovChain.steady(MODEL["transition"]).sample(24 * 70, seed=2)
    start = datetime(2026, 1, 1)
    rows = [
        f"{start + timedelta(hours=n):%Y-%m-%d %H:%M},{MODEL['states'][x]}"
        for n, x in enumerate(codes)
    ]
    Path("months.csv").write_text("\n".join(["when,state", *rows, ""]))
    asked = ("release", "months.csv", "--model", "model.json", "--epsilon", "1", "--state", "state",
             "--time", "when", "--window", "month")  # fmt: skip
    paid = ("--ledger", "l.db", "--account", "a", "--budget", "2")
    said = run(*asked, *paid, "--out", "months.json", "--plot", "months.svg")
    assert said.exit_code == 0, said.output
    assert "left out: 2026-03" in said.stderr
    assert Path("months.svg").stat().st_size > 1000
    record = json.loads(Path("months.json").read_text())
    assert list(record) == ["2026-01", "2026-02"]
    assert {own["read_from"]["file"] for own in record.values()} == {"months.csv"}
    assert good("verify", "months.json").count("ok: ") == 2
    record["2026-02"]["scale"] *= 0.9
    Path("months.json").write_text(json.dumps(record))
    assert run("verify", "months.json").exit_code == 1
    assert "--report" in refusal(*asked, *paid, "--report", "r.html")
