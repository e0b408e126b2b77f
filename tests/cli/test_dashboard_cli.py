"""Several questions at once on the command line."""

import json
from pathlib import Path

import pufferkit as pk
from tests.strategies.command_line import folder, good, refusal, refusals, run

__all__ = ["folder"]

FILES = ("release", "data.csv", "--model", "model.json", "--state", "state")
PLAN = ("plan", "--data", *FILES[1:])
ASKED = ("--ask", "histogram=30", "--ask", "episodes:run=25")


def test_planned_released_and_verified(folder):
    plan = json.loads(good(*PLAN, *ASKED, "--json"))
    assert [row["question"] for row in plan["questions"]] == ["histogram", "episodes:run"]
    assert [row["half_width"] for row in plan["questions"]] == [30, 25]
    assert "2 questions together" in good(*PLAN, *ASKED)
    assert good(*PLAN, *ASKED[:2]).startswith("1 question: ")
    told = run(*FILES, *ASKED, "--out", "joint.json").stderr.splitlines()
    assert told[0].startswith("2 questions together: epsilon ")
    assert [line.split()[0] for line in told[1:3]] == ["histogram", "episodes:run"]
    record = json.loads(Path("joint.json").read_text())
    assert record["epsilon"] == plan["epsilon"]
    assert pk.verify("joint.json").ok


def test_a_total_epsilon_stretches_the_errors(folder):
    plan = json.loads(good(*PLAN, *ASKED, "--json", "--epsilon", "0.5"))
    assert plan["epsilon"] == 0.5


def test_a_ledger_pays_once(folder):
    book = ("--ledger", "ledger.db", "--budget", "3", "--account", "a")
    first = good(*FILES, *ASKED, *book)
    assert good(*FILES, *ASKED, *book) == first
    assert (
        len(pk.Ledger("ledger.db").entries("a")) == 1
    )  # a charge, its value, and the terms it opens the account on


def test_questions_about_numbers_with_pictures(folder):
    more = ("--values", "rest=0,run=10", "--clip", "0,4", "--at", "0.5", "--top", "1")
    asked = [("--ask", f"{name}=40") for name in ("mean", "variance", "quantile", "top-states")]
    texts = [text for pair in asked for text in pair]
    good(*PLAN, *texts, *more, "--plot", "plan.svg")
    good(*FILES, *texts, *more, "--out", "joint.json", "--plot", "joint.svg")
    record = json.loads(Path("joint.json").read_text())
    assert sorted(record["derived"]) == ["quantile", "top-states", "variance"]
    assert pk.verify("joint.json").ok
    assert "epsilon of each question alone" in Path("plan.svg").read_text()
    assert Path("joint.svg").stat().st_size > 1000


@refusals(
    {
        "--ask histogram=9 --clip 0,1": "--clip: only for --query total, mean, variance",
        "--ask mean=9": "--values: a number for each state",
        "--ask histogram": "must have the form episodes:run=20",
        "--ask median=3": "questions are histogram",
        "--ask histogram=x": "'x' is not a number",
        "--ask histogram=-1": "error of histogram: must be above 0",
        "--ask episodes=3": "--state-value: needed",
        "--ask episodes:fly=3": "'fly' is not a state of the model",
        "--ask histogram=3 --ask histogram=3": "the same question is given twice",
        "--ask histogram=30 --ledger l.db": "must be given together",
    }
)
def test_what_does_not_fit_is_refused(folder, options, words):
    assert words in refusal(*FILES, *options)
