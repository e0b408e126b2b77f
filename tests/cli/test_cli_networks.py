"""The command line on networks and joint distributions, the ledger and verify."""

import json
from pathlib import Path

import pytest

import pufferkit as pk
from tests.strategies.command_line import RELEASE, folder, good, refusal, run

__all__ = ["folder"]

NAMES = ["Ada", "Ben", "Cem", "Dia"]
SICK = {("well",): [0.9, 0.1], ("sick",): [0.4, 0.6]}
FLU = pk.BayesianNetwork(
    {"Ada": (), "Ben": ("Ada",), "Cem": ("Ada",), "Dia": ("Cem",)},
    {"Ada": {(): [0.8, 0.2]}, "Ben": SICK, "Cem": SICK, "Dia": SICK},
    dict.fromkeys(NAMES, ("well", "sick")),
)
ASK = ("--model", "flu.json", "--epsilon", "1", "--query", "count", "--state-value", "sick")
ROWS = ["who,status", "Dia,well", "Ben,sick", "Ada,sick", "Cem,well"]
FLU_RELEASE = ("release", "flu.csv", *ASK, "--state", "status", "--entry", "who")


@pytest.fixture
def flu(folder: Path) -> Path:
    Path("flu.json").write_text(FLU.to_json())
    Path("flu.csv").write_text("\n".join(ROWS))
    return folder


def test_plan_of_a_network(flu: Path):
    rows = {row["mechanism"]: row for row in json.loads(good("plan", *ASK, "--json"))["rows"]}
    for mechanism in ("influence_curve", "wasserstein", "markov_quilt", "group_dp"):
        assert rows[mechanism]["applicable"], rows[mechanism]["why"]
    assert rows["influence_curve"]["scale"] <= rows["markov_quilt"]["scale"]
    assert rows["wasserstein"]["scale"] <= rows["group_dp"]["scale"]
    assert not rows["gk16"]["applicable"]


@pytest.mark.parametrize("mechanism", ["influence_curve", "wasserstein", "markov-quilt"])
def test_release_and_verify_of_a_network(flu: Path, mechanism: str):
    good(*FLU_RELEASE, "--mechanism", mechanism, "--out", "release.json")
    assert good("verify", "release.json").startswith("ok")
    record = json.loads(Path("release.json").read_text())
    Path("low.json").write_text(json.dumps({**record, "scale": 0.99 * record["scale"]}))
    result = run("verify", "low.json")
    assert result.exit_code == 1
    assert "could not be shown to suffice" in result.stdout


def test_release_of_a_joint_distribution(flu: Path):
    Path("flu.json").write_text(FLU.joint().to_json())
    good(*FLU_RELEASE, "--mechanism", "wasserstein", "--out", "release.json")
    assert good("verify", "release.json").startswith("ok")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[:-1], "Cem"),
        ([*ROWS, "Eve,sick"], "Eve"),
        ([*ROWS, "Ada,well"], "Ada"),
        ([*ROWS[:-1], "Cem,dizzy"], "dizzy"),
        ([*ROWS[:-1], "Cem,"], "row 4"),
    ],
)
def test_records_that_do_not_fit(flu: Path, rows: list[str], words: str):
    Path("flu.csv").write_text("\n".join(rows))
    assert words in refusal(*FLU_RELEASE, "--out", "release.json")


def test_entries_need_their_column(flu: Path):
    assert "--entry" in refusal(*FLU_RELEASE[:-2])
    assert "--entry" in refusal(*RELEASE, "--entry", "when")


def test_a_vector_has_the_wasserstein_mechanism_on_a_small_network(flu: Path):
    made = good(
        "release", "flu.csv", "--model", "flu.json", "--epsilon", "1", "--state", "status",
        "--entry", "who", "--mechanism", "wasserstein", "--json",
    )  # fmt: skip
    assert '"mechanism": "wasserstein"' in made
    Path("release.json").write_text(made)
    good("verify", "release.json")


def test_work_that_needs_too_much_memory_is_refused_before_it_starts(folder: Path):
    model = {"states": ["a", "b", "c"], "transition": [[0.8, 0.1, 0.1]] * 2 + [[0.1, 0.1, 0.8]]}
    Path("model.json").write_text(json.dumps(model))
    Path("data.csv").write_text("state\n" + "a\nb\nc\n" * 100)
    line = refusal(
        *RELEASE, "--query", "total", "--values", "a=0,b=1,c=98765432.1",
        "--mechanism", "wasserstein",
    )  # fmt: skip
    assert "GB" in line


def test_show_and_check(flu: Path):
    printed = good("beliefs", "show", "flu.json")
    assert "Ben given Ada: well 0.8, sick 0.2" in printed
    assert "influence_curve            applies" in good("beliefs", "check", "flu.json")
    assert "--data" in refusal(
        "beliefs", "check", "flu.json", "--data", "flu.csv", "--state", "status"
    )
    Path("flu.json").write_text(FLU.joint().to_json())
    assert "Ben: well 0.8, sick 0.2" in good("beliefs", "show", "flu.json")


# --- ledger ---------------------------------------------------------------------------------------

PAID = (*RELEASE, "--ledger", "book.db", "--budget", "3", "--account", "ada")


def test_a_paid_release_is_drawn_once(folder: Path):
    first = json.loads(good(*PAID))
    again = json.loads(good(*PAID))
    assert again["value"] == first["value"]
    good(*PAID, "--label", "second")
    with pk.Ledger("book.db") as book:  # drawn anew, and paid for
        assert sum(entry.kind == "charge" for entry in book.entries("ada")) == 2
    assert "ada" in good("ledger", "show", "book.db")
    assert "no problems" in good("ledger", "verify", "book.db")


def test_over_budget_nothing_is_written(folder: Path):
    good(*PAID)
    command = [*PAID, "--label", "more", "--out", "out.json"]
    command[command.index("--epsilon") + 1] = "3"
    result = run(*command)
    assert result.exit_code == 2
    assert "remaining" in result.stderr.lower() or "remain" in result.stderr.lower()
    assert not Path("out.json").exists()


def test_ledger_options_go_together(folder: Path):
    assert "--budget" in refusal(*RELEASE, "--ledger", "book.db")
    assert not Path("book.db").exists()


def test_a_random_field_from_plan_to_verify(flu: Path):
    pairs = [("Ada", "Ben"), ("Ben", "Cem"), ("Ada", "Cem"), ("Cem", "Dia")]
    field = pk.MarkovRandomField.ising(pairs, 0.4, -1, values=("well", "sick"))
    Path("flu.json").write_text(field.to_json())
    rows = json.loads(good("plan", *ASK, "--json", "--plot", "who.svg", "--figure", "graph"))[
        "rows"
    ]
    by_name = {row["mechanism"]: row for row in rows}
    assert "Cem" in by_name["influence_curve"]["why"]
    assert by_name["exact_sum"]["scale"] <= by_name["influence_curve"]["scale"]
    assert "who sets the noise" in Path("who.svg").read_text()
    good(*FLU_RELEASE, "--mechanism", "influence_curve", "--out", "release.json")
    assert good("verify", "release.json").startswith("ok")
    shown = good("beliefs", "show", "flu.json")
    assert "1 independent parts, the largest of 4 nodes" in shown
    assert "Ada: well" in shown
