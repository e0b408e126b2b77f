"""What the pages show runs: blocks of Python and of the shell, page by page, in order.

A page runs in a directory of its own that has ``examples/``, as a clone has. Python blocks share
one namespace. Of shell blocks every line is run; a line that is meant to fail ends in
``# exit code N``. Blocks of JSON are models. Blocks marked ``py`` need what is not here, a cluster;
they only have to be Python. ``text`` is output.
"""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pufferkit as pk
from tests.strategies import look_alikes
from tests.strategies.command_line import run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "CONTRIBUTING.md"]
NOT_HERE = ("make ", "pip ", ".ci/run")
"""Commands that install, build or test everything: tried in CI, not here."""
THEIRS = "~/"
"""A command with this in it reads data that only the reader has."""
LONG = {
    "a-year-of-releases",
    "audit",
    "beliefs-from-data",
    "faq",
    "local-collection",
    "many-subjects",
    "questions",
    "raw-files",
    "reproduce",
    "smart-meter",
    "wearable",
}
"""Pages whose blocks take more than a few seconds."""
LANGUAGES = {"python", "sh", "json", "py", "text"}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.stem in LONG)) for page in PAGES],
    ids=lambda path: path.stem,
)
def test_page(page, capsys, tmp_path, monkeypatch):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    if not blocks:
        return
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    if page.stem == "many-subjects":
        table_of_subjects()
    if page.stem == "raw-files":
        look_alikes.all_of_them(tmp_path)
    names = {"__name__": "page"}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
        elif language == "sh":
            for line in block.replace("\\\n", " ").splitlines():
                shell(line.strip())
        elif language == "json":
            assert pk.ChainClass.from_json(block)
        elif language == "py":
            compile(block, str(page), "exec")
    languages = {language for language, _ in blocks}
    assert languages <= LANGUAGES
    assert "python" not in languages or capsys.readouterr().out


def shell(line: str) -> None:
    command, _, remark = line.partition("  # ")
    if not command or command.startswith(("#", *NOT_HERE)) or THEIRS in command:
        return
    wanted = int(remark.removeprefix("exit code ")[0]) if remark.startswith("exit code ") else 0
    program, *arguments = shlex.split(command)
    if program == "pufferkit":
        done = run(*arguments, anyway=False)
        assert done.exit_code == wanted, f"{line}\n{done.output}"
    elif program == "mkdir":
        Path(arguments[-1]).mkdir(parents=True, exist_ok=True)
    else:
        assert program == "python", f"the shell blocks of pages run pufferkit and python: {line}"
        done = subprocess.run(
            [sys.executable, *arguments],
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == wanted, f"{line}\n{done.stderr}"


def table_of_subjects() -> None:
    """The files that the page on many subjects takes as the reader's own."""
    chain = pk.MarkovChain.steady(
        [[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.35, 0.6]], ["resting", "sitting", "walking"]
    )
    Path("model.json").write_text(json.dumps(chain.to_dict()))
    codes = [chain.sample(2016, seed=n) for n in range(3)]
    rows = pl.DataFrame(
        {
            "person": [f"person {n}" for n, own in enumerate(codes) for _ in own],
            "minutes": [5 * t for own in codes for t in range(len(own))],
            "activity": [chain.states[code] for own in codes for code in own],
        }
    )
    start = pl.datetime(2024, 1, 1)
    rows.with_columns(time=start + pl.duration(minutes="minutes")).drop("minutes").write_parquet(
        "table.parquet"
    )


def hooks():
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_formula_is_typeset():
    """What the site makes of the pages: MathML, with no command of LaTeX left over."""
    pytest.importorskip("latex2mathml")
    markdown = pytest.importorskip("markdown")
    pytest.importorskip("pymdownx.arithmatex")
    options = {"pymdownx.arithmatex": {"generic": True}}
    formulas = 0
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        marked = markdown.markdown(text, extensions=["tables", *options], extension_configs=options)
        made = hooks().mathematics(marked)
        assert "arithmatex" not in made
        for formula in re.findall(r"<math.*?</math>", made, re.S):
            formulas += 1
            assert "\\" not in formula
            assert "&amp;" not in formula
    assert formulas > 100


def test_every_public_name_has_a_place_in_the_reference():
    for path, page in hooks().public_names().items():
        assert f"<!-- names: {page} -->" in (DOCS / "reference" / f"{page}.md").read_text()
        assert path.startswith("pufferkit.")


def test_every_public_name_has_a_docstring():
    for path in hooks().public_names():
        home, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(home), name)
        assert not callable(thing) or (thing.__doc__ or "").strip(), path


def test_the_page_of_commands_shows_their_help():
    shown = hooks().commands()
    for command in ("plan", "release", "sanitize", "fit", "check", "verify", "audit"):
        assert f"## pufferkit {command}\n" in shown
    assert "--epsilon" in shown
    assert "<!-- commands -->" in (DOCS / "command-line.md").read_text()


def test_the_page_of_the_architecture_shows_every_room():
    page, shown = (DOCS / "architecture.md").read_text(), hooks().rooms()
    assert "<!-- rooms -->" in page
    for place in (ROOT / "pufferkit").iterdir():
        if place.stem.startswith("_") or place.name == "py.typed":
            continue
        assert f"\n{place.stem} " in shown
        assert f"`{place.stem}" in page
    (row,) = [line for line in shown.splitlines() if line.startswith("verification ")]
    assert "mechanisms" in row
    assert "influence" not in row


@pytest.mark.slow
def test_the_plan_explained_is_the_plan_printed(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (DOCS / "reading-a-plan.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^pufferkit (plan .*)$", page, re.M)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", page, re.M | re.S)
    printed = run(*command.split()).stdout.splitlines()
    for line in shown.splitlines():
        cells = line.split("  ...")[0].rstrip(" .")
        if "not applicable" in cells:
            cells = cells.split()[0]
        assert any(other.startswith(cells.split(" ... ")[0]) for other in printed), line


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], ids=lambda path: path.stem)
def test_links_to_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    dead = [
        link
        for link in links
        if not link.startswith(("http:", "https:", "mailto:")) and not (page.parent / link).exists()
    ]
    assert not dead
