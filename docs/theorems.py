"""Where the theorems are: every ``Theorem: NAME`` in the docstrings of the package.

Such a line belongs to the function, class or module that is this theorem. The site has a page of
them all, made of these docstrings when it is built; a test holds that each has one place only.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pufferkit

ROOT = Path(pufferkit.__file__).parent

NAME = re.compile(
    r"^ *Theorem: (?!`)"
    r"((?:\[[QCB]\]|PAIRS|CLASSES|ENGINE|FIXES|SHAPE)"
    r"(?: (?:Theorem|Lemma|Definition|Algorithm|Corollary|Proposition))?"
    r" \(?[A-Z]?(?:\.?\d+)*(?:[a-z]\b)?\)?(?:, (?:Lemma|Theorem)(?: [A-Z\d]\b)?)?"
    r"|[^.,:(\n]+)",
    re.MULTILINE,
)
"""Of a paper with its number, or of our own up to the first stop."""


ENDS = re.compile(r"\n\n(?=\*?Proof|Theorem:|[A-Z]\w+\n---|# )")
"""A statement ends where its proof, another theorem or a section begins."""


class Theorem(NamedTuple):
    """A theorem, and the function, class or module that is it."""

    name: str
    file: str
    line: int
    place: str
    statement: str

    @property
    def where(self) -> str:
        """File below ``pufferkit/``, and the name in it if it is not the whole file."""
        return f"{self.file}: {self.place}" if self.place else self.file


def theorems() -> list[Theorem]:
    """All theorems of the package, file by file."""
    return [
        theorem
        for path in sorted(ROOT.rglob("*.py"))
        for theorem in stated(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]


def stated(source: str, file: str) -> Iterator[Theorem]:
    """The theorems of a file."""
    yield from _of(ast.parse(source), source.split("\n"), file, "")


def _of(node: ast.AST, lines: list[str], file: str, place: str) -> Iterator[Theorem]:
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
        text = inspect.cleandoc(ast.get_docstring(node) or "")
        for found in NAME.finditer(text):
            name, (statement, *_) = found[1].strip(), ENDS.split(text[found.start() :].strip())
            start = max(getattr(node, "lineno", 1) - 1, 0)
            line = next(n for n in range(start, len(lines)) if f"Theorem: {name}" in lines[n])
            yield Theorem(name, file, line + 1, place, statement.rstrip())
    for inner in ast.iter_child_nodes(node):
        own = getattr(inner, "name", "")
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
            yield from _of(inner, lines, file, f"{place}.{own}" if place else own)


def page() -> str:
    """The page of the site: name, place and statement of each."""
    parts = [
        "# Theorems\n\n[Q], [C] and [B] are [the papers](../papers.md); the others are this "
        "project's own, explained [here](../theory.md). Each is stated in the docstring of the "
        "code that is it, from which this page is made."
    ]
    for one in sorted(theorems()):
        parts.append(
            f"## {one.name}\n\n`pufferkit/{one.file}`, line {one.line}"
            + (f": `{one.place}`" if one.place else "")
            + f"\n\n```text\n{one.statement}\n```"
        )
    return "\n\n".join(parts) + "\n"
