"""Runs notebooks without a notebook server, and keeps what they print, show and draw.

``python docs/notebooks/run.py`` runs every notebook of this folder and writes its outputs into it;
with names, only those. Cells run one after another in one namespace, as they would in Jupyter, in
an empty folder.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from running import empty_folder, run_block, shown  # noqa: E402


def notebooks() -> list[Path]:
    """Every notebook, by name."""
    return sorted(HERE.glob("*.ipynb"))


def ran(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """The notebook with the outputs of a new run; an error of a cell is raised."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with empty_folder(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = run_block("".join(cell["source"]), f"{name}, cell {count}", names)
                for output in outputs:
                    if output["output_type"] == "execute_result":
                        output["execution_count"] = count
                cells.append({**cell, "execution_count": count, "outputs": outputs})
            else:
                cells.append(cell)
    return {**notebook, "cells": cells}


def page(path: Path) -> str:
    """A notebook as a page of Markdown, outputs and pictures included."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


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
