"""One name for one thing: modules, classes and types."""

import ast
from collections import defaultdict
from pathlib import Path

import pufferkit
from pufferkit.data import queries  # noqa: F401  (which fills the two lists)
from pufferkit.data.query import KINDS, NAMES

_ROOT = Path(pufferkit.__file__).parent
_MODULES = [
    path.relative_to(_ROOT) for path in sorted(_ROOT.rglob("*.py")) if "__" not in path.name
]


def test_no_two_modules_or_packages_have_one_name():
    places = defaultdict(list)
    packages = {package for path in _MODULES for package in path.parents}
    for path in [*_MODULES, *packages]:
        places[path.stem].append(str(path))
    assert not [held for held in places.values() if len(held) > 1]


def test_no_two_classes_or_types_have_one_name():
    """Options of commands and steps of the page may share the name of what they stand for."""
    places = defaultdict(set)
    for path in _MODULES:
        if path.parts[0] in ("cli", "explore"):
            continue
        for node in ast.walk(ast.parse((_ROOT / path).read_text(encoding="utf-8"))):
            for name in _named(node):
                places[name.lstrip("_")].add(str(path))
    assert not {name: held for name, held in places.items() if len(held) > 1}


def _named(node):
    """The name of a class, or of a type such as ``Floats = NDArray[...]``."""
    if isinstance(node, ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
        return [
            target.id
            for target in node.targets
            if isinstance(target, ast.Name)
            and target.id.lstrip("_")[:1].isupper()
            and not target.id.isupper()
        ]
    return []


def _question_names(path):
    """Names of questions among the texts of a module, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    }
    return texts & ({*NAMES, *KINDS} - {"count", "total", "mean", "whole", "several"})


def test_no_other_module_lists_questions():
    """A list elsewhere falls behind: the questions are in one module, and all others ask them."""
    derived = "mechanisms/post_processing.py"  # what is derived from releases, by name
    records = "local/estimates.py"  # names of its own numbers
    listing = {
        path.as_posix(): names
        for path in _MODULES
        if len(names := _question_names(_ROOT / path)) > 1
    }
    assert set(listing) == {"data/queries.py", derived, records}
