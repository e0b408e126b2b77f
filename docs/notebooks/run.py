"""Runs notebooks without a notebook server, and keeps what they print, show and draw.

``python docs/notebooks/run.py`` runs every notebook of this folder and writes its outputs into it;
with names, only those. Cells run one after another in one namespace, as they would in Jupyter, in
an empty folder.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

Cell = dict[str, Any]


def notebooks() -> list[Path]:
    """Every notebook, by name."""
    return sorted(HERE.glob("*.ipynb"))


def ran(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """The notebook with the outputs of a new run; an error of a cell is raised."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with _empty_folder(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = _outputs("".join(cell["source"]), f"{name}, cell {count}", names, count)
                cells.append({**cell, "execution_count": count, "outputs": outputs})
            else:
                cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, name: str, names: dict[str, Any], count: int) -> list[Cell]:
    """What a cell prints, and its last expression as a notebook shows it."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    outputs: list[Cell] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        shown = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        outputs.append({**shown, "data": _data(value)})
    return outputs


def _data(value: Any) -> dict[str, Any]:
    """A value by the kinds in which it can be shown."""
    data: dict[str, Any] = {}
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    page = value._repr_html_() if hasattr(value, "_repr_html_") else None
    if page is not None:
        data["text/html"] = page.splitlines(keepends=True)
    data["text/plain"] = repr(value).splitlines(keepends=True)
    return data


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


def page(path: Path) -> str:
    """A notebook as a page of Markdown, outputs and pictures included."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _shown(output: Cell) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = output["data"]
    if "image/png" in data:
        return f'<p><img alt="" src="data:image/png;base64,{data["image/png"]}"></p>'
    if "text/html" in data and "<table" in "".join(data["text/html"]):
        body = "".join(line for line in "".join(data["text/html"]).splitlines() if line.strip())
        return f'<div class="output">{body}</div>'
    return f"```text\n{''.join(data['text/plain'])}\n```"


def main(chosen: list[str]) -> None:
    """Run notebooks and keep their outputs."""
    for path in notebooks():
        if chosen and path.stem not in chosen:
            continue
        notebook = ran(json.loads(path.read_text(encoding="utf-8")), path.stem)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
