"""What the README shows runs as it stands."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import pufferkit as pk
from pufferkit.cli import app
from pufferkit.mechanisms.plan import MECHANISMS
from tests.strategies.command_line import good

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.M | re.S)


def commands() -> list[str]:
    joined = "\n".join(blocks("sh")).replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.startswith("pufferkit ")]


def test_there_is_one_python_example_and_a_few_commands():
    assert len(blocks("python")) == 1
    assert len(commands()) >= 3


def test_python_example_prints_what_stands_below_it(capsys: pytest.CaptureFixture[str]):
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = blocks("text")[0]
    # The noise differs from run to run, the words do not.
    assert re.findall(r"[a-z_]{3,}", printed) == re.findall(r"[a-z_]{3,}", shown)


@pytest.mark.slow
def test_command_line_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    for command in commands():
        assert good(*command.split()[1:])


def test_the_first_picture_is_the_three_panels():
    first = re.search(r"!\[.*?\]\((.*?)\)", README)
    assert first is not None
    assert first[1] == "docs/images/three-panels.png"
    picture = (ROOT / first[1]).read_bytes()
    assert picture[:4] == b"\x89PNG"
    assert len(picture) < 100_000


@pytest.mark.parametrize("command", sorted(typer.main.get_command(app).commands))
def test_every_command_is_in_the_table(command: str):
    assert f"\n| `{command}` |" in README or f"\n| `{command} " in README


def test_model_example():
    (text,) = blocks("json")
    assert pk.ChainClass.from_json(text).states == tuple(json.loads(text)["states"])


def test_make_targets_exist():
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.M)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"]
    assert all(f"\n{target}: " in makefile for target in targets)


@pytest.mark.parametrize("name", sorted({name.partition(" ")[0] for name in MECHANISMS}))
def test_every_mechanism_is_in_the_table(name: str):
    assert f"| `{name}` |" in README


@pytest.mark.slow
def test_demo_writes_what_it_says(tmp_path: Path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    tools = tmp_path / "bin"
    tools.mkdir()
    program = tools / "pufferkit"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pufferkit.cli "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["sh", "examples/demo.sh"],
        cwd=tmp_path,
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"plan.png", "release.png", "release.json"}
    assert all(f"out/{name}" in done.stdout for name in written)
    release = pk.Release.from_json((tmp_path / "out" / "release.json").read_text())
    assert release.mechanism not in ("entry_dp", "group_dp")


def test_demo_data_are_what_the_generator_makes(tmp_path: Path):
    script = [sys.executable, str(ROOT / "examples" / "make_week.py"), "--into", str(tmp_path)]
    subprocess.run(script, check=True)
    again, kept = tmp_path / "week.csv", ROOT / "examples" / "week.csv"
    assert again.read_text() == kept.read_text()
    models = [
        json.loads((place / "activity_model.json").read_text())
        for place in (tmp_path, ROOT / "examples")
    ]
    assert models[0]["states"] == models[1]["states"]
    assert models[0]["transition"] == [pytest.approx(row) for row in models[1]["transition"]]
