"""Questions about numbers by their command-line names."""

import json
from pathlib import Path

import pytest

import pufferkit as pk
from tests.strategies.command_line import folder, good, refusal, run

__all__ = ["folder"]

VALUES = ("--values", "rest=0,run=10")
RELEASE = ("release", "data.csv", "--model", "model.json", "--epsilon", "2", "--state", "state")
PLAN = ("plan", "--model", "model.json", "--epsilon", "2", "--length", "300")
QUESTIONS = {
    "total": (*VALUES, "--clip", "0,4"),
    "mean": (*VALUES, "--clip", "0,4"),
    "variance": (*VALUES, "--clip", "0,10"),
    "quantile": (*VALUES, "--at", "0.5"),
    "cumulative": (),
    "peak": VALUES,
    "load-duration": VALUES,
    "top-states": ("--top", "1"),
    "linear": ("--weights", "weights.csv"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_planned_released_and_verified(folder, name):
    Path("weights.csv").write_text("state,active,energy\nrun,1,3.5\n")
    planned = json.loads(good(*PLAN, "--query", name, *QUESTIONS[name], "--json"))
    assert planned["rows"][0]["applicable"]
    good(*RELEASE, "--query", name, *QUESTIONS[name], "--out", "release.json")
    record = json.loads(Path("release.json").read_text())
    verdict = pk.verify("release.json")
    assert verdict.ok
    follows = name not in ("total", "mean", "linear")
    assert ("derived" in record) == follows
    assert any("derived" in matter for matter in verdict.assumptions) == follows


def test_clipping_lowers_the_noise(folder):
    scales = [
        json.loads(good(*RELEASE, "--query", "total", *VALUES, *clip))["scale"]
        for clip in ((), ("--clip", "0,4"))
    ]
    assert scales[1] == pytest.approx(0.4 * scales[0])


def test_a_quantile_says_which_way_was_taken(folder):
    asked = (*RELEASE, "--query", "quantile", *VALUES, "--at", "0.5")
    result = run(*asked)
    assert "quantile 0.5 by noisy histogram inverted" in result.stderr
    derived = json.loads(result.stdout)["derived"]
    assert derived["how"] == "the noisy histogram inverted"
    assert derived["rows"][0]["value"] == 0
    planned = json.loads(good(*PLAN, "--query", "quantile", *VALUES, "--at", "0.5", "--json"))
    assert [way["taken"] for way in planned["ways"]] == [True, False]


def test_levels_are_put_in_the_order_of_their_values(folder):
    turned = ("--values", "rest=10,run=0")
    record = json.loads(good(*RELEASE, "--query", "load-duration", *turned))
    assert record["labels"] == ["run", "rest"]
    rows = record["derived"]["rows"]
    assert [row["label"] for row in rows] == ["at least 0", "at least 10"]
    assert rows[0]["value"] == 300


def test_a_ledger_pays_once(folder):
    book = ("--ledger", "ledger.db", "--budget", "3", "--account", "a")
    asked = (*RELEASE, "--query", "variance", *VALUES, "--clip", "0,10", *book)
    assert json.loads(good(*asked)) == json.loads(good(*asked))


def test_a_picture_of_the_curve(folder):
    asked = ("--query", "cumulative", "--plot", "curve.svg", "--out", "release.json")
    assert "cumulative distribution" in good(*RELEASE, *asked)
    assert Path("curve.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--query", "quantile", *VALUES), "--at: needed for --query quantile"),
        (("--query", "peak", *VALUES, "--at", "0.5"), "--at: only for --query quantile"),
        (("--query", "quantile", *VALUES, "--at", "1.5"), "--at: must lie between 0 and 1"),
        (("--query", "variance", *VALUES), "--clip: is required"),
        (
            ("--query", "variance", *VALUES, "--clip", "a,b"),
            "--clip: must be two numbers like 0,10, got 'a,b'",
        ),
        (("--query", "mean", *VALUES, "--clip", "4,0"), "--clip: low must be below high"),
        (("--query", "peak", *VALUES, "--clip", "0,1"), "--clip: only for"),
        (("--query", "peak"), "--values: are required"),
        (("--query", "peak", "--values", "rest=1,run=1"), "--values: need"),
        (("--query", "histogram", *VALUES), "--values: only for --query total, mean"),
    ],
)
def test_what_does_not_fit_is_refused(folder, options, words):
    assert words in refusal(*RELEASE, *options)


@pytest.mark.parametrize("name", ["variance", "quantile", "linear"])
def test_of_each_subject_with_a_picture(folder, name):
    Path("weights.csv").write_text("state,active,energy\nrun,1,3.5\n")
    lines = Path("data.csv").read_text().splitlines()[1:]
    rows = [f"{who},{line}" for who in ("ann", "bob") for line in lines]
    Path("people.csv").write_text("\n".join(["who,when,state", *rows, ""]))
    columns = ("--state", "state", "--subject", "who", "--time", "when", "--window", "100")
    asked = ("release", "people.csv", "--model", "model.json", "--epsilon", "2", *columns)
    good(*asked, "--query", name, *QUESTIONS[name], "--out", "each.csv", "--plot", "each.png")
    assert pk.verify("each.csv").ok
    assert Path("each.png").stat().st_size > 1000
    assert len(Path("each.csv").read_text().splitlines()) == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names of the numbers"),
        ("state,kcal\nfly,1\n", "'fly' is not a state of the model"),
        ("state,kcal\nrun,x\n", "not a number"),
        ("state,kcal\nrun,1,2\n", "its row is short"),
    ],
)
def test_weights_that_are_none_are_refused(folder, text, words):
    Path("weights.csv").write_text(text)
    assert words in refusal(*RELEASE, "--query", "linear", "--weights", "weights.csv")


def test_moves_and_stays_come_with_what_follows_from_them(folder):
    rates = json.loads(good(*RELEASE, "--query", "transitions"))["derived"]
    assert rates["what"] == "transition rates"
    stay = json.loads(good(*RELEASE, "--query", "stays", "--state-value", "run"))["derived"]
    assert stay["what"] == "mean length of a stay"


def test_a_table_of_stays_is_compared_with_its_record(folder):
    """One of its numbers is called entries, like the column of what was observed."""
    rows = [f"ann,{line}" for line in Path("data.csv").read_text().splitlines()[1:]]
    Path("people.csv").write_text("\n".join(["who,when,state", *rows, ""]))
    columns = ("--state", "state", "--subject", "who", "--time", "when")
    asked = ("release", "people.csv", "--model", "model.json", "--epsilon", "2", *columns)
    good(*asked, "--query", "stays", "--state-value", "run", "--out", "each.csv")
    assert pk.verify("each.csv").ok
    text = Path("each.csv").read_text().splitlines()
    Path("each.csv").write_text("\n".join([text[0], text[1] + "9", ""]))
    assert not pk.verify("each.csv").ok
    groups = ("--per", "who", "--keys", "ann")
    assert "is the column of subjects" in refusal(*asked, *groups)
