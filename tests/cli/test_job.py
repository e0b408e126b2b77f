"""``pufferkit init`` and job.toml; and that every option is explained once."""

import json
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import pufferkit as pk
from pufferkit.cli import app
from tests.strategies.command_line import MODEL, folder, good, refusal, run

__all__ = ["folder"]

INIT = ("init", "data.csv", "--model", "model.json", "--query", "frequencies")


def job() -> dict:
    return tomllib.loads(Path("job.toml").read_text())


def test_from_a_raw_file_to_a_release_that_is_verified(folder: Path):
    said = good(*INIT, "--ledger", "l.db")
    assert "state: state" in said
    assert "300 entries" in said
    assert job()["data"] == {"file": "data.csv", "state": "state", "time": "when"}
    assert "influence_curve" in good("plan")
    good("release")
    record = json.loads(Path("release.json").read_text())
    assert (record["epsilon"], record["query"]) == (1, "relative frequencies")
    assert record["read_from"] == {"file": "data.csv", "state": "state", "time": "when"}
    assert good("verify").startswith("ok")
    with pk.Ledger("l.db") as book:
        assert book.account("data").total == 1_000_000
    assert "promises epsilon 1" in good("audit", "--trials", "500")


def test_the_entries_of_a_network(folder: Path):
    Path("flu.csv").write_text("who,state\nann,well\nbob,ill\ncal,well\n")
    Path("met.csv").write_text("a,b\nann,bob\nbob,cal\n")
    assert "--entry who" in good("init", "flu.csv", "--out", "other.toml")
    good("init", "flu.csv", "--entry", "who", "--query", "count", "--state-value", "ill")
    assert job()["data"] == {"file": "flu.csv", "state": "state", "entry": "who"}
    states = ("--states", "well,ill", "--out", "beliefs.json")
    good(
        "beliefs",
        "fit",
        "met.csv",
        "--kind",
        "contacts",
        "--odds",
        "2",
        "--subject",
        "a,b",
        *states,
    )
    assert "over 3 entries" in good("plan")
    good("release", "--anyway")
    assert good("verify").startswith("ok")
    Path("twice.csv").write_text("who,state\nann,well\nann,ill\n")
    assert "two rows" in refusal("init", "twice.csv", "--entry", "who", "--out", "x.toml")
    assert "--time" in refusal("init", "flu.csv", "--entry", "who", "--time", "state", "--out", "x")


def test_options_beat_the_job(folder: Path):
    good(*INIT)
    counted = json.loads(good("release", "--query", "count", "--state-value", "run", "--out", "-"))
    assert counted["query"].startswith("count")
    assert json.loads(good("plan", "--epsilon", "3", "--json"))["epsilon"] == 3
    assert json.loads(good("plan", "--length", "50", "--json"))["lengths"] == [50]
    asked = json.loads(good("plan", "--ask", "histogram=30", "--json"))
    assert asked["questions"][0]["half_width"] == pytest.approx(30)


def test_a_job_in_another_folder(folder: Path):
    good(*INIT)
    Path("there").mkdir()
    for name in ("job.toml", "model.json", "data.csv"):
        Path(name).rename(Path("there") / name)
    assert "influence_curve" in good("plan", "--job", "there/job.toml")
    good("release", "--job", "there/job.toml", "--out", "here.json")
    assert Path("here.json").is_file()
    assert "--model" in refusal("plan", "--epsilon", "1")


def test_what_came_from_the_job_is_said(folder: Path):
    good(*INIT)
    told = run("plan").stderr
    assert "note: from job.toml: " in told
    assert "epsilon" in told


def test_levels_are_never_taken_from_the_data(folder: Path):
    rows = "".join(f"{n},{n * 37 % 1013}\n" for n in range(300))
    Path("watts.csv").write_text("minute,watts\n" + rows)
    said = good("init", "watts.csv", "--state", "watts", "--time", "minute")
    assert "public cut points" in said
    assert "levels" not in job()["data"]
    Path("job.toml").unlink()
    good("init", "watts.csv", "--state", "watts", "--time", "minute", "--levels", "200:1000")
    assert job()["data"]["levels"] == "200:1000"


def test_a_table_of_subjects(folder: Path):
    codes = pk.MarkovChain.steady(MODEL["transition"]).sample(600, seed=5)
    rows = (f"{n % 300},{MODEL['states'][c]},p{n // 300}\n" for n, c in enumerate(codes))
    Path("people.csv").write_text("minute,activity,person\n" + "".join(rows))
    said = good("init", "people.csv", "--model", "model.json", "--json")
    columns = {"state": "activity", "time": "minute", "subject": "person"}
    assert json.loads(said)["columns"] == columns
    assert "histogram over 600 entries in 2 segments" in " ".join(good("plan").split())
    assert "verdict" in good("audit", "--trials", "200")
    good("release", "--anyway")
    assert Path("releases.csv").read_text().count("\n") == 3
    assert good("verify").startswith("ok")
    Path("public.csv").write_text(Path("people.csv").read_text())
    said = run("beliefs", "choose", "public.csv", "--length", "0").stderr
    assert "lengths: must be" in said  # the columns are those of the job


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data]\nfile = ", "not TOML"),
        ("[nothing]\nstate = 'x'\n", "sections are"),
        ("[data]\nstates = 'x'\n", "no such option"),
        ("[data]\nfile = ['a', 'b']\n", "must be text"),
        ("[release]\nepsilon = 'much'\n", "epsilon"),
        ("[release]\nepsilon = true\n", "epsilon"),
    ],
)
def test_bad_jobs(folder: Path, text: str, words: str):
    Path("job.toml").write_text(text)
    assert words in refusal("plan", "--model", "model.json", "--length", "9")


def test_init_overwrites_nothing(folder: Path):
    good(*INIT)
    assert "is there already" in refusal(*INIT)
    assert "already uses this file" in refusal(*INIT, "--out", "data.csv")


# -- the whole -----------------------------------------------------------------------------------


def leaves(command=None, path=()):
    command = get_command(app) if command is None else command
    if isinstance(command, TyperGroup):
        for name, own in command.commands.items():
            yield from leaves(own, (*path, name))
    else:
        yield path, command


def test_eighteen_commands_and_every_option_explained_once():
    said: dict[str, set[str]] = {}
    for _, command in leaves():
        for own in command.params:
            if own.param_type_name == "option":
                said.setdefault(max(own.opts, key=len), set()).add(own.help)
    assert len(list(leaves())) == 18
    assert {name: words for name, words in said.items() if len(words) > 1} == {}
    assert len(said) <= 78


def test_a_missing_option_names_the_command_that_writes_a_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "pufferkit init FILE" in refusal("plan")
    assert "init" not in refusal("plan", "--epsilon", "x")


def test_a_clock_that_jitters_is_told_its_step(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    moments = (
        datetime(2024, 3, 4) + timedelta(minutes=5 * n, seconds=n * 7 % 40) for n in range(90)
    )
    rows = [f"{moment},{'rest' if n % 3 else 'run'}" for n, moment in enumerate(moments)]
    Path("jitter.csv").write_text("\n".join(["time,state", *rows, ""]))
    assert "around 5m, give --every 5m" in good("init", "jitter.csv")
    Path("job.toml").unlink()
    assert "step: 5m" in good("init", "jitter.csv", "--every", "300s")


def test_states_that_look_like_something_else_are_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("odd.csv").write_text("state\nrest\n REST \nNA\nrun\nrest\n")
    said = good("init", "odd.csv")
    assert "'NA': counted as states; if not observed is meant, give --missing" in said
    assert "' REST ', 'rest': states of their own" in said
    Path("job.toml").unlink()
    assert "'NA'" not in good("init", "odd.csv", "--missing", "NA")


def test_what_a_wide_table_and_several_files_are_taken_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"2026-11-16 {n:02d}:00,{n % 2},{n % 3},{n * 37.5}".replace(".", ",") for n in range(24)
    ]
    Path("wide.csv").write_text(
        "\n".join(["time;a 1;a 2;watts", *(r.replace(",", ";", 3) for r in rows), ""])
    )
    assert "give --state 'a *'" in good("init", "wide.csv", "--out", "one.toml")
    said = good("init", "wide.csv", "--state", "a *", "--out", "two.toml")
    assert "subject: each column" in said
    assert 'out = "releases.csv"' in Path("two.toml").read_text()
    said = good("init", "wide.csv", "--state", "watts", "--out", "three.toml")
    assert "decimal comma" in said  # what is known without cut points
    assert "step: 1h" in said
    for name in ("N1.csv", "N2.csv"):
        Path(name).write_text("time,state\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(9)))
    assert "subject: each file" in good("init", "N*.csv")
    assert 'out = "releases.csv"' in Path("job.toml").read_text()
