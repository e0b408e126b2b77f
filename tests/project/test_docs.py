"""What the pages show runs: blocks of Python and of the shell, page by page, in order.

How, says ``docs/running.py``, which runs them when the site is built, too.
"""

import importlib.util
import re
from pathlib import Path

import pytest

import pufferkit as pk

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 27_000
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "CONTRIBUTING.md"]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_page(page):
    """As the site does when it is built: every block runs, and Python shows what it did."""
    text, building = page.read_text(encoding="utf-8"), hooks().building
    if page.parent == DOCS and building.kept(page.stem, text):
        return  # `make docs` ran it, with this very package
    shown = "".join(building.running.ran(text, page.stem))
    assert "```python" not in shown or ".output" in shown or "<img" in shown


def hooks():
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_outputs_stand_below_their_blocks():
    running = hooks().building.running
    page = (
        "```python\nx = 2\nassert x == 2\nprint(x + 1)\nx\n```\n\n```sh\npufferkit --version\n```\n"
    )
    python, console = running.ran(page, "page")
    assert python.startswith("```python\nx = 2\nprint(x + 1)\nx\n```")
    assert [line for line in python.splitlines()[6:] if line.isdigit()] == ["3", "2"]
    assert pk.__version__ in console
    with pytest.raises(RuntimeError, match="exit code 2"):
        running.ran("```sh\npufferkit plan\n```\n", "page")


def test_every_public_name_has_a_place_in_the_reference():
    pages, names = hooks().reference(), hooks().public_names()
    assert sum(text.count(":::") for text in pages.values()) == len(names)
    for path, page in names.items():
        assert f"::: {path}\n" in pages[page]
    listed = [name for _, _, one in hooks().REFERENCE.values() for name in one]
    assert len(listed) == len(set(listed))


def test_every_public_name_has_a_docstring():
    for path in hooks().public_names():
        home, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(home), name)
        assert not callable(thing) or (thing.__doc__ or "").strip(), path


def test_the_page_of_commands_shows_their_help():
    shown = "\n".join(hooks().command_pages().values())
    for command in ("init", "plan", "release", "sanitize", "beliefs fit", "verify", "audit"):
        assert f"## pufferkit {command}\n" in shown
    assert "--epsilon" in shown


def test_what_is_off_the_site_lies_beside_it():
    page = (ROOT / "notes" / "architecture.md").read_text()
    for place in (ROOT / "pufferkit").iterdir():
        if place.stem.startswith("_") or place.name == "py.typed":
            continue
        assert f"`{place.stem}" in page
    assert not (DOCS / "architecture.md").exists()


def test_pages_are_few_and_speak_plainly():
    """About twenty pages and 27,000 words beside the reference, which is generated."""
    texts = {path.stem: path.read_text() for path in DOCS.glob("*.md")}
    assert len(texts) <= 22
    assert sum(len(text.split()) for text in texts.values()) < MOST_WORDS
    for name, text in texts.items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
        assert not re.search(r"\b(rooms?|doors?)\b(?! to improve)", prose.lower()), name


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("notes/*.md")), *PAGES],
    ids=lambda path: path.stem,
)
def test_links_to_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    made = {f"reference/{name}.md" for name in (*hooks().reference(), *hooks().command_pages())}
    dead = [
        link
        for link in links
        if not link.startswith(("http:", "https:", "mailto:"))
        and not (page.parent / link).exists()
        and not (page.parent == DOCS and link in made)
    ]
    assert not dead
