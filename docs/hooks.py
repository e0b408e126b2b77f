"""What the pages take from the package itself when the site is built.

Every page that computes is run (`running`), and what its blocks print and draw stands below them;
``<!-- picture: name -->`` becomes a picture of `pictures`. ``<!-- names: beliefs -->`` becomes the
reference of that room's public names, and ``<!-- commands -->`` the help of every command, so none
of it can be forgotten or go stale. ``<!-- contributing -->`` becomes CONTRIBUTING.md, which stands
at the root, ``<!-- rooms -->`` the rooms with their lines and imports, ``<!-- notebook: name -->``
a notebook with outputs. Formulas are set by MathJax, which goes along with the site.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import building  # noqa: E402

ROOMS = {
    "beliefs": ("pufferkit.beliefs",),
    "data": ("pufferkit.data", "pufferkit.frames"),
    "mechanisms": ("pufferkit.mechanisms", "pufferkit.influence", "pufferkit.fitting"),
    "accounting": ("pufferkit.accounting", "pufferkit.fleet"),
    "local": ("pufferkit.local",),
    "audit": ("pufferkit.audit",),
}
"""Page to the modules whose public names it shows; the rest is on the page "more"."""

DOORS = ("pufferkit", "pufferkit.local", "pufferkit.audit")
"""Modules whose ``__all__`` is public."""


def public_names() -> dict[str, str]:
    """Full path of every public name, and the page that shows it."""
    found = {}
    for door in DOORS:
        if find_spec(door) is None:
            continue
        module = import_module(door)
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, str):  # the version
                continue
            home = getattr(thing, "__module__", None) or door
            if getattr(thing, "__name__", None) != name:
                home = door  # a constant
            found[f"{home}.{name}"] = next(
                (
                    page
                    for page, rooms in ROOMS.items()
                    if any(home == room or home.startswith(f"{room}.") for room in rooms)
                ),
                "more",
            )
    return found


def reference(page: str) -> str:
    """A block for each name of a page, in the order of the alphabet."""
    names = [path for path, where in public_names().items() if where == page]
    names.sort(key=lambda path: path.rpartition(".")[2].lower())
    return "\n\n".join(f"::: {path}" for path in names)


def commands() -> str:
    """The help of every command, as the terminal shows it."""
    from typer.main import get_command  # noqa: PLC0415

    from pufferkit.cli import app  # noqa: PLC0415

    parts = []
    for name, command, context in _walk("pufferkit", get_command(app), None):
        parts.append(f"## {name}\n\n```text\n{command.get_help(context)}\n```")
    return "\n\n".join(parts)


def _walk(name: str, command: Any, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    context = command.make_context(
        name.rpartition(" ")[2], [], parent=parent, resilient_parsing=True
    )
    yield name, command, context
    for child in getattr(command, "commands", {}):
        yield from _walk(f"{name} {child}", command.commands[child], context)


def contributing() -> str:
    """CONTRIBUTING.md with links as seen from here; files outside docs/ are named, not linked."""
    text = (HERE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")

    def link(match: re.Match[str]) -> str:
        words, path = match.groups()
        inside = path.removeprefix("docs/")
        return f"`{words}`" if inside == path else f"[{words}]({inside})"

    return re.sub(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)", link, text)


def rooms() -> str:
    """The rooms in their order, from the top: lines of code, and the rooms each imports from.

    Imports for types alone do not count; ``errors`` and ``checks``, which all may use, stay out.
    """
    root = HERE.parent
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    order = [name for name in contracts["contracts"][0]["layers"][::-1] if name != "__main__"]
    rows = []
    for room in order:
        place = root / "pufferkit" / room
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        texts = [file.read_text(encoding="utf-8") for file in files]
        used = {name for text in texts for name in _imported(ast.parse(text))} - {room}
        shown = " ".join(name for name in order if name in used - {"errors", "checks"})
        lines = sum(text.count("\n") for text in texts)
        rows.append(f"{room:13} {lines:6,} lines  <- {shown}".rstrip(" <-"))
    return "```text\n" + "\n".join(rows) + "\n```"


def _imported(tree: ast.AST) -> Iterator[str]:
    """The rooms that a module imports from, at the top or in a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "pufferkit":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pufferkit."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("pufferkit."))
        else:
            yield from _imported(node)


def notebook(name: str) -> str:
    """A notebook as a page, and the file itself to take along."""
    folder = HERE / "notebooks"
    spec = spec_from_file_location("docs_notebooks", folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    runner = module_from_spec(spec)
    spec.loader.exec_module(runner)
    page: str = runner.page(folder / f"{name}.ipynb")
    return f"{page}\n[This page as a notebook]({name}.ipynb)\n"


def on_pre_build(**_: Any) -> None:
    """Called by mkdocs before anything else: run all pages whose outputs are not kept yet."""
    building.run_all()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    markdown = building.with_outputs(markdown, page.file.src_uri.removesuffix(".md"))
    markdown = re.sub(r"<!-- names: (\w+) -->", lambda found: reference(found[1]), markdown)
    markdown = re.sub("<!-- contributing -->", lambda _: contributing(), markdown)
    markdown = re.sub(r"<!-- notebook: ([\w-]+) -->", lambda found: notebook(found[1]), markdown)
    markdown = re.sub("<!-- rooms -->", lambda _: rooms(), markdown)
    return re.sub("<!-- commands -->", lambda _: commands(), markdown)


MATHJAX = "assets/mathjax/tex-svg.js"
"""One file: the letters are curves in it, so that no fonts go along."""


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page, as HTML: MathJax where there are formulas."""
    if 'class="arithmatex"' not in output:
        return output
    up = "../" * page.url.count("/")
    # Only what arithmatex marked is a formula; a dollar in a printed output is none.
    set_up = (
        'MathJax = {options: {ignoreHtmlClass: ".*", processHtmlClass: "arithmatex", '
        'enableMenu: false}, svg: {fontCache: "local"}};'
    )
    scripts = f'<script>{set_up}</script><script defer src="{up}{MATHJAX}"></script>'
    return output.replace("</head>", f"{scripts}</head>", 1)


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs at the end: MathJax and its licence, which is that of this project too."""
    place = Path(config["site_dir"]) / MATHJAX
    place.parent.mkdir(parents=True, exist_ok=True)
    package = distribution("sphinx-mathjax-offline")
    source = package.locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg.js")
    shutil.copyfile(str(source), place)
    notice = "MathJax 3, copyright The MathJax Consortium, under the Apache License 2.0:\n\n"
    licence = (HERE.parent / "LICENSE").read_text(encoding="utf-8")
    (place.parent / "LICENSE").write_text(notice + licence, encoding="utf-8")
