"""One name for one thing: modules, classes and types."""

import ast
from collections import defaultdict
from pathlib import Path

import pufferkit

_ROOT = Path(pufferkit.__file__).parent
_MODULES = [
    path.relative_to(_ROOT) for path in sorted(_ROOT.rglob("*.py")) if "__" not in path.name
]


def test_no_two_modules_or_rooms_have_one_name():
    places = defaultdict(list)
    rooms = {room for path in _MODULES for room in path.parents}
    for path in [*_MODULES, *rooms]:
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
