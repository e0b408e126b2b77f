"""A terminal and a pipe get the same statements, from every command."""

import re
import shutil
from collections import Counter

import pytest
from typer.core import TyperGroup

from tests.fuzz import seeds
from tests.fuzz.run import COMMAND
from tests.strategies.terminals import on_a_terminal, through_a_pipe, words

PLAN = ["plan", "--model", "finite.json", "--epsilon", "20", "--length", "12"]
SERVER = ["explore"]


def named(group=COMMAND, before=()):
    """Every command, as the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from named(command, (*before, name))
        else:
            yield [*before, name]


def of_each_command():
    """One good call of each command, the first with files and the first without."""
    calls = {}
    for args in [PLAN, *seeds.commands()]:
        name = next((name for name in named() if args[: len(name)] == name), args)
        calls.setdefault((*name, any("out" in arg for arg in args)), args)
    return [pytest.param(args, id="-".join(args[:2])) for args in calls.values()]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    seeds.write(folder)
    return folder


@pytest.fixture
def fresh(good, tmp_path, monkeypatch):
    def make(name):
        shutil.copytree(good, tmp_path / name)
        monkeypatch.chdir(tmp_path / name)

    return make


def test_each_command_has_a_good_call():
    calls = seeds.commands()
    for name in named():
        assert name == SERVER or any(args[: len(name)] == name for args in calls), name


def without_steps(text):
    """The text without the steps of a computation, which pass by on one line of a terminal."""
    return "\n".join(line for line in text.splitlines() if not line.endswith(" ..."))


@pytest.mark.parametrize("args", of_each_command())
def test_a_terminal_is_told_what_a_pipe_is_told(fresh, args):
    fresh("pipe")
    piped = words(without_steps(through_a_pipe(args)))
    fresh("terminal")
    shown = words(on_a_terminal(args))
    assert "error:" not in piped
    if args[0] == "audit":  # which of two states an attack distinguishes best, noise decides
        piped = Counter({word: n for word, n in piped.items() if not re.search("rest|run", word)})
    assert not piped - shown, args


def test_a_plan_says_the_same_to_both_and_no_more(fresh):
    fresh("plan")
    piped, shown = through_a_pipe(["-q", *PLAN]), on_a_terminal(["-q", *PLAN])
    flat = " ".join(shown.split())
    for said in ("95% of counts are within", "0.1 to 3 are usual", "odds", "drawn by"):
        assert said in " ".join(piped.split())
        assert said in flat
    assert set(words(shown)) == set(words(piped))
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_lines_fit_the_terminal_and_break_at_words(fresh, columns):
    fresh(f"fit {columns}")
    for args in (PLAN, ["verify", "release.json"], ["beliefs", "check", "chain.json"],
                 ["beliefs", "fit", "data.csv", "--state", "state"]):  # fmt: skip
        shown = on_a_terminal(args, columns)
        long = [line for line in shown.splitlines() if len(line) > columns and " " in line.strip()]
        tables = [line for line in long if "---" in line or "  " in line.strip()]
        assert [line for line in long if line not in tables] == [], args
        assert not words(through_a_pipe(args)) - words(shown), args
