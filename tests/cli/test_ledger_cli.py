"""Accounts at the command line: what is refused writes nothing, budgets change on purpose."""

import json
import os
import stat
from pathlib import Path

import pytest

import pufferkit as pk
from tests.strategies.command_line import folder, good, refusal, run  # noqa: F401

RELEASE = (
    "release",
    "data.csv",
    "--model",
    "model.json",
    "--state",
    "state",
    "--mechanism",
    "influence_curve",
)


def paid(account="anna", epsilon="0.5", budget="1", *more):
    return (*RELEASE, "--epsilon", epsilon, "--ledger", "l.db", "--budget", budget,
            "--account", account, *more)  # fmt: skip


def test_a_refused_release_leaves_no_account(folder):  # noqa: F811
    before = sorted(os.listdir())
    assert "short by 0.500" in refusal(*paid("anna", "1", "0.5"))
    assert sorted(os.listdir()) == before
    assert "there is no such ledger" in refusal("ledger", "show", "l.db")
    good(*paid("anna", "1", "1.5"))
    assert "anna     1.500   1.000  0.500" in good("ledger", "show", "l.db")


def test_a_budget_is_changed_by_a_command_of_its_own(folder):  # noqa: F811
    good(*paid())
    message = refusal(*paid("anna", "0.4", "2"))
    assert "has 1.000, not 2.000" in message
    assert "pufferkit ledger budget" in message
    assert "another" not in message
    command = ("ledger", "budget", "anna", "2", "--ledger", "l.db", "--why", "board")
    assert "budget 1.000 is now 2.000; 0.500 spent, 1.500 remain" in good(*command)
    shown = good("ledger", "show", "l.db", "--account", "anna")
    assert "budget changed (board)" in shown
    good(*paid("anna", "0.4", "2"))
    assert "is spent already" in refusal("ledger", "budget", "anna", "0.1", "--ledger", "l.db")
    assert "nobody" in refusal("ledger", "budget", "nobody", "1", "--ledger", "l.db")
    assert "no such ledger" in refusal("ledger", "budget", "anna", "1", "--ledger", "m.db")
    assert "no problems" in good("ledger", "verify", "l.db")


def test_the_ledger_is_named_in_one_of_three_ways(folder):  # noqa: F811
    good(*paid())
    for command in ("show", "verify", "export"):
        assert good("ledger", command, "l.db") == good("ledger", command, "--ledger", "l.db")
    good("ledger", "anchor", "--ledger", "l.db", "head")
    assert "named already" in refusal("ledger", "show", "l.db", "--ledger", "l.db")
    assert "--ledger" in refusal("ledger", "show")
    Path("job.toml").write_text('[account]\nledger = "l.db"\n')
    assert "anna" in good("ledger", "show")
    good("ledger", "budget", "anna", "2")


def test_a_second_name_is_noticed(folder):  # noqa: F811
    good(*paid())
    message = refusal(*paid("bob"))
    assert "those of 'anna'" in message
    assert "--confirm-data" in message
    assert "bob" not in good("ledger", "show", "l.db")
    good(*paid("bob", "0.5", "1", "--confirm-data"))
    assert "--ledger" in refusal(*RELEASE, "--epsilon", "1", "--confirm-data")
    assert "--ledger" in refusal(*RELEASE, "--epsilon", "1", "--anchor", "head")


def test_an_anchor_at_the_command_line(folder):  # noqa: F811
    good(*paid("anna", "0.1", "1", "--anchor", "head"))
    copy = Path("l.db").read_bytes()
    good(*paid("anna", "0.2", "1", "--anchor", "head"))
    assert "no problems" in good("ledger", "verify", "l.db", "--anchor", "head")
    Path("l.db").write_bytes(copy)
    for left in ("l.db-wal", "l.db-shm"):
        Path(left).unlink(missing_ok=True)
    assert "no problems" in good("ledger", "verify", "l.db")
    result = run("ledger", "verify", "l.db", "--anchor", "head")
    assert result.exit_code == 1
    assert "set back or rewritten" in result.output
    assert "set back" in refusal(*paid("anna", "0.2", "1", "--anchor", "head"))
    good("ledger", "anchor", "l.db", "new", "--anchor-key", "new.key")
    good(*paid("anna", "0.3", "1", "--anchor", "new", "--anchor-key", "new.key"))
    assert json.loads(Path("new").read_text())["mac"]


@pytest.mark.parametrize("command", [("show",), ("verify",), ("export",)])
def test_looking_never_makes_or_harms_a_ledger(folder, command):  # noqa: F811
    assert "there is no such ledger" in refusal("ledger", *command, "l.db")
    Path("l.db").write_bytes(b"")
    result = run("ledger", *command, "l.db")
    assert result.exit_code in (1, 2)
    assert "is empty" in result.output
    assert Path("l.db").read_bytes() == b""
    assert "is empty" in refusal(*paid())


def test_outputs_are_for_their_owner_alone(folder):  # noqa: F811
    before = os.umask(0)
    try:
        good(*paid("anna", "0.5", "1", "--out", "out.json"))
        good("ledger", "export", "l.db", "--out", "lines.json")
    finally:
        os.umask(before)
    for name in ("out.json", "lines.json", "l.db", "l.db.key"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600


def test_no_advice_of_another_name():
    root = Path(pk.__file__).parents[1]
    for file in [*root.glob("pufferkit/**/*.py"), *root.glob("docs/**/*.md"), root / "README.md"]:
        text = " ".join(file.read_text().split()).lower()
        for advice in ("use another account", "another account name", "another name for the acc"):
            assert advice not in text, file
