"""What the pages take from the package itself when the site is built.

Every page that computes is run (`running`), and what its blocks print and draw stands below them;
``<!-- picture: name -->`` becomes a picture of `pictures`. ``<!-- names: beliefs -->`` becomes the
reference of that package's public names, and ``<!-- commands -->`` the help of every command, so
none of it can be forgotten or go stale. Formulas are set by MathJax, which goes along.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import building  # noqa: E402

PACKAGES = {
    "beliefs": ("pufferkit.beliefs",),
    "data": ("pufferkit.data",),
    "mechanisms": ("pufferkit.mechanisms", "pufferkit.influence", "pufferkit.fitting"),
    "account": ("pufferkit.account",),
    "local": ("pufferkit.local",),
    "audit": ("pufferkit.audit",),
}
"""Page to the modules whose public names it shows; the rest is on the page "more"."""

PUBLIC = ("pufferkit", "pufferkit.local", "pufferkit.audit")
"""Modules whose ``__all__`` is public."""


def public_names() -> dict[str, str]:
    """Full path of every public name, and the page that shows it."""
    found = {}
    for public in PUBLIC:
        if find_spec(public) is None:
            continue
        module = import_module(public)
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, str):  # the version
                continue
            home = getattr(thing, "__module__", None) or public
            if getattr(thing, "__name__", None) != name:
                home = public  # a constant
            found[f"{home}.{name}"] = next(
                (
                    page
                    for page, packages in PACKAGES.items()
                    if any(home == name or home.startswith(f"{name}.") for name in packages)
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


def on_pre_build(**_: Any) -> None:
    """Called by mkdocs before anything else: run all pages whose outputs are not kept yet."""
    building.run_all()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    markdown = building.with_outputs(markdown, page.file.src_uri.removesuffix(".md"))
    markdown = re.sub(r"<!-- names: (\w+) -->", lambda found: reference(found[1]), markdown)
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
