"""How commands behave: help, completion, JSON, standard streams, silence, interruption."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import pufferkit as pk
from pufferkit.cli import app, outputs
from tests.strategies.command_line import PLAN, RELEASE, folder, good, refusal, run, snapshot

__all__ = ["folder"]


def test_run_as_a_module_and_complete(folder):
    root = Path(pk.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-m", "pufferkit", "--version"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == pk.__version__
    asked = {
        "_PUFFERKIT_COMPLETE": "complete_bash",
        "COMP_WORDS": "pufferkit rel",
        "COMP_CWORD": "1",
    }
    done = CliRunner().invoke(app, [], env=asked, prog_name="pufferkit")
    assert "release" in done.stdout


def test_json_wherever_there_is_print(folder):
    good(*RELEASE, "--out", "r.json", "--ledger", "l.db", "--budget", "3", "--account", "a")
    assert json.loads(good("verify", "r.json", "--json"))["ok"] is True
    assert json.loads(good("beliefs", "show", "model.json", "--json"))["chains"][0]["states"] == [
        "rest",
        "run",
    ]
    data = ("--data", "data.csv", "--state", "state")
    checked = json.loads(good("beliefs", "check", "model.json", *data, "--json"))
    assert checked["mechanisms"]["influence_curve"] == "applies"
    assert checked["report"]["passed"] in (True, False)
    assert json.loads(good("beliefs", "check", "model.json", "--json"))["report"] is None
    (account,) = json.loads(good("ledger", "show", "l.db", "--json"))
    assert (account["account"], account["total"]) == ("a", 1.0)
    entries = json.loads(good("ledger", "show", "l.db", "--account", "a", "--json"))
    assert max(entry["epsilon"] for entry in entries) == 1.0
    planned = json.loads(good(*PLAN, "--json", "--target", "1%"))
    assert planned["useful"]["drowned"] is False
    assert planned["target"] == pytest.approx(2.4)  # of 240 expected
    assert any("epsilon" in way["text"] for way in planned["remedies"])


def test_dashes_are_standard_streams(folder):
    assert json.loads(good(*RELEASE, "--out", "-"))["epsilon"] == 1
    assert json.loads(good("beliefs", "fit", "data.csv", "--state", "state", "--out", "-"))
    done = run("sanitize", "data.csv", *RELEASE[2:], "--out", "-")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "state"
    assert "-" not in {path.name for path in Path().iterdir()}


def test_quiet_and_verbose(folder):
    Path("semi.csv").write_text(Path("data.csv").read_text().replace(",", ";"))
    ask = ("release", "semi.csv", *RELEASE[2:], "--out", "r.json")
    loud = run(*ask).stderr
    assert "read as: separator ;" in loud
    assert "written: r.json" in loud
    assert run("--quiet", *ask).stderr == ""
    assert "influence_curve: 0." in run("--verbose", *PLAN).stderr
    assert "influence_curve:" not in run(*PLAN).stderr
    assert "give only one of them" in refusal("--quiet", "--verbose", *PLAN)


def test_an_interruption_leaves_nothing_half_done(folder, monkeypatch):
    def interrupted(contents):
        raise KeyboardInterrupt

    before = snapshot()
    monkeypatch.setattr(outputs, "write_all", interrupted)
    done = run(*RELEASE, "--out", "r.json")
    assert done.exit_code == 130
    assert snapshot() == before


def test_a_drowned_answer_is_refused(folder):
    ask = ("release", "data.csv", "--model", "model.json", "--epsilon", "0.02", "--state", "state")
    line = refusal(*ask, "--out", "r.json", anyway=False)
    assert "the noise drowns the answer" in line
    assert "--anyway" in line
    assert "entries in place of 300" in line
    done = run(*ask, "--anyway", "--out", "r.json")
    assert done.exit_code == 0
    assert "warning: the noise drowns the answer" in done.stderr
    planned = good("plan", *ask[2:6], "--length", "300")
    assert "drowns the answer" in planned
    assert "any one of these would reach it:" in planned
    windows = ("--time", "when", "--window", "100")
    assert "a row of 100 entries" in refusal(*ask, *windows, "--out", "w.csv", anyway=False)


def test_drowned_answers_of_many_are_refused_and_charged_to_nobody(folder):
    rows = [f"{who},{'ns'[who % 2]},2026-11-16 {n:02d}:00,{('rest', 'run')[n * who % 2]}"
            for who in range(3) for n in range(24)]  # fmt: skip
    Path("people.csv").write_text("\n".join(["who,region,t,s", *rows, ""]))
    ask = ("people.csv", "--model", "model.json", "--epsilon", "0.05", "--state", "s",
           "--subject", "who", "--time", "t", "--ledger", "l.db")  # fmt: skip
    groups = ("--per", "region", "--keys", "n,s", "--budget", "1")
    day = ("--budget", "1", "--window", "2026-11-16")
    for more in (("release", *ask, "--budget", "1"), ("release", *ask, *groups),
                 ("release", *ask, *day)):  # fmt: skip
        line = refusal(*more, anyway=False)
        assert "the noise drowns the answer" in line
        assert "Remedies" in line
        assert "--anyway" in line
        assert not Path("l.db").exists()
    done = run(*more, "--anyway")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("warning: the noise drowns the answer") == 1


@pytest.mark.slow
def test_targets_and_pictures(folder):
    said = good(*PLAN, "--target", "3", "--figure", "errors", "--plot", "e.png")
    assert "NOT reached" in said
    assert "in place of 1: 95% within" in said
    good(*PLAN, "--figure", "simulated", "--plot", "s.svg")
    assert {"e.png", "s.svg"} <= {path.name for path in Path().iterdir()}
    assert "reached" in good(*PLAN, "--target", "90%")
    assert "--target" in refusal(*PLAN, "--target", "soon") or "target" in refusal(
        *PLAN, "--target", "soon"
    )
    assert "0.1 to 3 are usual" in run(*RELEASE[:5], "12", *RELEASE[6:]).stderr


def _leaves(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, (*path, name))
        else:
            yield (*path, name), command


def test_every_command_that_prints_knows_json():
    lacking = [
        " ".join(path)
        for path, command in _leaves(get_command(app))
        if not any("--json" in option.opts for option in command.params)
    ]
    assert set(lacking) <= {"explore", "ledger anchor"}  # which print nothing


def test_json_of_the_commands_that_write_files(folder):
    account = ("--ledger", "l.db", "--budget", "3", "--account", "a")
    out = json.loads(good(*RELEASE, *account, "--out", "r.json", "--json"))
    assert out == json.loads(Path("r.json").read_text())
    windows = ("--time", "when", "--window", "100")
    rows = json.loads(good(*RELEASE, *windows, "--json"))
    assert json.loads(good(*RELEASE, *windows, "--out", "w.csv", "--json"))["mechanism"]
    assert len(rows["rows"]["raw"]) == 3
    fitted = good("beliefs", "fit", "data.csv", "--state", "state", "--out", "m.json", "--json")
    assert json.loads(fitted) == json.loads(Path("m.json").read_text())
    answers = ("sanitize", "data.csv", *RELEASE[2:])
    assert json.loads(good(*answers, "--out", "s.csv", "--json"))["mechanism"]
    assert "--json" in refusal(*answers, "--out", "-", "--json")
    seen = json.loads(good("ledger", "verify", "l.db", "--json"))
    assert (seen["ok"], seen["problems"]) == (True, [])
    changed = json.loads(good("ledger", "budget", "a", "4", "--ledger", "l.db", "--json"))
    assert (changed["budget"], changed["was"]) == (4, 3)
    every = json.loads(good("ledger", "export", "l.db", "--json"))
    assert every == [json.loads(line) for line in good("ledger", "export", "l.db").splitlines()]
    done = run("ledger", "verify", "l.db", "--anchor", "f" * 64, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["ok"] is False


def test_help_of_every_command_is_whole_and_fits():
    groups = [("beliefs",), ("ledger",), ()]
    for path in [*groups, *(path for path, _ in _leaves(get_command(app)))]:
        text = good(*path, "--help")
        assert text == good(*path, "-h")
        assert text.startswith("Usage: ")
        assert all(len(line) <= 80 for line in text.splitlines())
        _, _, listed = text.partition("Commands:")
        assert "..." not in listed


def test_dashes_for_models_releases_and_answers(folder):
    model, record = Path("model.json").read_text(), good(*RELEASE)
    assert piped(model, "beliefs", "show", "-", "--json")["chains"]
    assert piped(model, "beliefs", "check", "-", "--json")["valid"]
    assert piped(model, *RELEASE[:3], "-", *RELEASE[4:])["epsilon"] == 1
    assert piped(model, "plan", "--model", "-", *PLAN[3:], "--json")["rows"]
    assert piped(record, "verify", "-", "--json")["ok"] is True
    assert good("sanitize", "data.csv", *RELEASE[2:], "--out", "-").startswith("state\n")
    assert "-" not in {path.name for path in Path().iterdir()}
    assert "read only once" in refusal("release", "-", "--model", "-", *RELEASE[4:])
    told = CliRunner().invoke(app, ["verify", "-"], input="no")
    assert told.exit_code == 1
    assert "not a record as JSON" in told.output


def piped(text, *args):
    """The JSON that a command prints when text is its standard input."""
    done = CliRunner().invoke(app, [*args, *["--anyway"] * (args[0] == "release")], input=text)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
