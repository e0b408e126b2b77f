"""The notebooks of the documentation run, and what they show is kept in them."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"


def runner():
    spec = importlib.util.spec_from_file_location("docs_notebooks", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NOTEBOOKS = runner().notebooks()


def shape(notebook):
    """The kinds of output of every cell; numbers are noisy and differ from run to run."""
    return [
        [sorted(output.get("data", {"text": 0})) for output in cell["outputs"]]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def test_there_are_five():
    assert len(NOTEBOOKS) == 5
    page = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
    assert all(f"notebooks/{path.name}" in page for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    kinds = [kind for cell in shape(notebook) for output in cell for kind in output]
    assert "image/png" in kinds
    assert "text/html" in kinds
    page = runner().page(path)
    assert page.startswith("# ")
    assert "data:image/png;base64," in page
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    assert not re.search(r"/(home|work|root)/", code)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path):
    """Anew, with outputs of the same kinds as those that are kept."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert shape(runner().ran(kept, path.stem)) == shape(kept)
