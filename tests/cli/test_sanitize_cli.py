"""``pufferkit sanitize``: answers in a file, the mechanism in a record, refusals in one line."""

import json
from pathlib import Path

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.local import RandomizedResponse, estimate
from tests.strategies.command_line import folder, good, refusal, refusals, run

__all__ = ["folder"]

SANITIZE = ("sanitize", "data.csv", "--model", "model.json", "--epsilon", "2", "--state", "state")

pytestmark = pytest.mark.usefixtures("folder")


def test_answers_keep_times_and_order():
    printed = good(*SANITIZE, "--time", "when", "--out", "answers.csv")
    assert "rho_0" in printed
    assert "300 answers" in printed
    table, before = pl.read_csv("answers.csv"), pl.read_csv("data.csv")
    assert table.columns == ["when", "state"]
    assert table["when"].to_list() == before["when"].to_list()
    assert set(table["state"]) <= {"rest", "run"}
    assert table["state"].to_list() != before["state"].to_list()
    record = json.loads(Path("answers.json").read_text())
    made = RandomizedResponse.from_dict(record["mechanism"])
    assert made.loss <= made.epsilon == 2
    again = estimate(table["state"].to_list(), made)
    assert record["estimates"]["frequencies"] == pytest.approx(again.frequencies.tolist())


def test_flips_in_runs():
    printed = good(
        *SANITIZE, "--out", "answers.csv", "--mechanism", "correlated_response", "--json"
    )
    told = json.loads(printed)["mechanism"]
    assert told["kind"] == "correlated_response"
    assert told["loss"] <= 2
    assert "matrix_response" in refusal(*SANITIZE, "--out", "other.csv", "--mechanism", "gk16")
    assert not Path("other.csv").exists()


def test_parquet_out_and_only_named_columns():
    pl.read_csv("data.csv").with_columns(
        name=pl.lit("Anna"), day=pl.col("when") // 100
    ).write_parquet("data.parquet")
    good(
        "sanitize", "data.parquet", "--model", "model.json", "--epsilon", "2", "--state", "state",
        "--segment", "day", "--out", "answers.parquet",
    )  # fmt: skip
    table = pl.read_parquet("answers.parquet")
    assert table.columns == ["day", "state"]
    assert table["day"].to_list() == [n // 100 for n in range(300)]


@pytest.mark.slow
def test_more_states_and_whole_numbers():
    matrix = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    Path("three.json").write_text(json.dumps({"states": [0, 1, 2], "transition": matrix}))
    Path("three.csv").write_text("level\n" + "0\n1\n2\n" * 50)
    printed = good(
        "sanitize", "three.csv", "--model", "three.json", "--epsilon", "3", "--state", "level",
        "--out", "answers.csv",
    )  # fmt: skip
    assert "3-ary" in printed
    assert set(pl.read_csv("answers.csv")["level"]) <= {0, 1, 2}


def test_the_ignorant_adversary_comes_with_a_warning():
    result = run(*SANITIZE, "--adversary", "ignorant", "--out", "answers.csv")
    assert result.exit_code == 0
    assert "may learn more" in result.stderr
    assert "NOT against one who knows some" in result.stdout


@refusals(
    {
        "--out data.csv": "already uses this file",
        "--out answers.txt": "written to .csv or .parquet",
        "--out there/answers.csv": "no directory",
        "--out a.csv --adversary clever": "adversary: must be",
        "--out a.csv --epsilon 0": "epsilon: must be above 0",
        "--out a.csv --epsilon nan": "is not a number; write it in digits",
        "--out a.csv --time hour": "no column 'hour'",
        "--out a.csv --length 299": "longer than the 299 entries",
        "--out a.csv --length 0": "length: must be at least 1",
        "--out a.csv --model nowhere.json": "nowhere.json",
        "": "--out",
    }
)
def test_refusals(options, words):
    assert words in refusal(*SANITIZE, *options)


def test_unknown_states_and_other_beliefs_are_refused():
    Path("odd.csv").write_text("state\nrest\nfly\n")
    assert "'fly'" in refusal("sanitize", "odd.csv", *SANITIZE[2:], "--out", "a.csv")
    wide = pk.ChainClass.binary(0.6, 0.9)
    Path("class.json").write_text(wide.to_json())
    assert "one Markov chain" in refusal(*SANITIZE, "--out", "a.csv", "--model", "class.json")
    mixing = pk.ChainClass.mixing(["rest", "run"], 0.2, 0.5)
    Path("mixing.json").write_text(mixing.to_json())
    assert "one Markov chain" in refusal(*SANITIZE, "--out", "a.csv", "--model", "mixing.json")
    stuck = {"states": ["rest", "run"], "initial": [0.5, 0.5], "transition": [[1, 0], [0, 1]]}
    Path("stuck.json").write_text(json.dumps(stuck))
    assert "may not mix" in refusal(*SANITIZE, "--out", "a.csv", "--model", "stuck.json")
    good(*SANITIZE, "--out", "a.csv", "--model", "stuck.json", "--length", "300")


BOOK = ("--ledger", "book.db", "--budget", "40", "--account", "anna")


def test_answers_are_charged_to_an_account():
    for _ in range(2):
        good(*SANITIZE, "--out", "answers.csv", *BOOK)
    with pk.Ledger("book.db") as ledger:
        first, second = [e for e in ledger.entries("anna") if e.kind == "charge"]
        assert 0 < first.total < second.total  # every run draws anew
        assert ledger.verify() == []
    before = Path("answers.csv").read_text()
    said = refusal(*SANITIZE, "--out", "answers.csv", *BOOK, "--epsilon", "40")
    assert "remaining" in said
    assert Path("answers.csv").read_text() == before
    assert "--label" in refusal(*SANITIZE, "--out", "answers.csv", *BOOK, "--label", "x")
    assert "--account" in refusal(*SANITIZE, "--out", "answers.csv", *BOOK[:4])
    said = refusal(*SANITIZE, "--out", "a.csv", *BOOK, "--mechanism", "correlated_response")
    assert "independent" in said
    assert not Path("a.csv").exists()
