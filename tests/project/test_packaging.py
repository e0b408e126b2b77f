"""What is published: one version, a README that works elsewhere, dated releases."""

import importlib.util
import re
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest

import pufferkit as pk

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HISTORY = ("CHANGELOG.md", "benchmarks/", "tests/")
"""Where past versions are named."""


def test_the_version_is_written_once():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "pufferkit/__init__.py"
    tracked = subprocess.run(
        ["git", "grep", "-lF", pk.__version__],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if tracked.returncode > 1:
        pytest.skip("not a clone")
    places = [path for path in tracked.stdout.split() if not path.startswith(HISTORY)]
    assert places == ["pufferkit/__init__.py"]


def test_the_papers_are_not_installed():
    """They lie beside the package, and nothing that is installed imports them."""
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["pufferkit"]}
    assert (ROOT / "papers" / "__main__.py").exists()
    for path in (ROOT / "pufferkit").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(>>> )?(from|import) papers\b", text, re.M), path


def test_releases_have_dates_newest_first():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *released = re.findall(r"^## (.*)$", text, re.M)
    assert first == "[Unreleased]"
    versions = [re.fullmatch(r"\[(.*)\] - (.*)", one).groups() for one in released]
    names, dates = zip(*versions, strict=True)
    assert names[0] == pk.__version__
    assert sorted(dates, key=date.fromisoformat, reverse=True) == list(dates)
    assert (ROOT / "benchmarks" / "results" / f"{pk.__version__}.md").exists()


def test_workflows_try_every_version_of_python_that_is_declared():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    for tried in re.findall(r"python: \[(.*)\]", text):
        assert re.findall(r"[\d.]+", tried) == declared


@pytest.fixture
def elsewhere():
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.elsewhere


TEXT = "![noise](docs/a.png) see [one](docs/b.md#part), [two](https://example.org/c), `x[0](1)`"


def test_links_without_an_address_become_words(elsewhere):
    assert elsewhere(TEXT, None, "v1") == " see one, [two](https://example.org/c), `x[0](1)`"


def test_links_with_an_address_lead_there(elsewhere):
    shown = elsewhere(TEXT, "https://example.org/pufferkit/", "v1")
    assert "![noise](https://example.org/pufferkit/raw/v1/docs/a.png)" in shown
    assert "[one](https://example.org/pufferkit/blob/v1/docs/b.md#part)" in shown
    assert "[two](https://example.org/c)" in shown


@pytest.mark.parametrize("source", [None, "https://example.org/pufferkit"])
def test_the_readme_has_no_dead_links_elsewhere(elsewhere, source):
    shown = elsewhere((ROOT / "README.md").read_text(encoding="utf-8"), source, "v1")
    assert not re.findall(r"\]\((?!https?:)", shown)
    assert "make demo" in shown


def test_what_is_built_has_that_version_and_that_readme(elsewhere):
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    metadata = ProjectMetadata(str(ROOT), PluginManager())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.version == pk.__version__
    source = PROJECT["project"].get("urls", {}).get("Source")
    assert metadata.core.readme == elsewhere(readme, source, f"v{pk.__version__}")


@pytest.mark.parametrize("name", ["SECURITY.md", "CITATION.cff", "CONTRIBUTING.md"])
def test_the_address_of_the_project_has_one_place(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"https?://|\w@\w", text)
