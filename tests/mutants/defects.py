"""Known defects, put back one by one: ``python -m tests.mutants.defects [word ...]``.

Package and tests are copied, the lines of `defects.toml` replaced, and the test that is named there
must fail. With words, only defects whose names hold one of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEFECTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("defects.toml").read_text(encoding="utf-8")
)["defect"]


def changed(defect: dict[str, Any], package: Path) -> dict[Path, str]:
    """The changed files of a package; each replaced text must stand in its file exactly once."""
    texts: dict[Path, str] = {}
    for change in defect["change"]:
        path = package / change["file"]
        text = texts.get(path) or path.read_text(encoding="utf-8")
        if text.count(change["from"]) != 1:
            raise ValueError(f"{defect['name']}: {change['file']} has other lines; write it anew")
        texts[path] = text.replace(change["from"], change["to"])
    return texts


def fails(place: Path, test: str) -> bool:
    """Whether a test fails on the copy, or ends the process."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        f"tests/{test}",
    ]
    done = subprocess.run(
        command,
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode in (2, 3, 4, 5):  # nothing was tested
        raise SystemExit(f"{test}: could not be run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode != 0


def main() -> int:
    """A line for each defect; 1 if one is not noticed, or if its test fails without it."""
    words = sys.argv[1:]
    chosen = [d for d in DEFECTS if not words or any(word in d["name"] for word in words)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        skip = shutil.ignore_patterns("__pycache__")
        for name in ("pufferkit", "tests", "examples"):
            shutil.copytree(ROOT / name, place / name, ignore=skip)
        shutil.copy(ROOT / "pyproject.toml", place)
        for defect in chosen:
            sound = not fails(place, defect["test"])
            texts = changed(defect, place / "pufferkit")
            before = {path: path.read_text(encoding="utf-8") for path in texts}
            for path, text in texts.items():
                path.write_text(text, encoding="utf-8")
            killed = fails(place, defect["test"])
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")
            word = "killed" if sound and killed else "SURVIVES" if sound else "FAILS ANYWAY"
            wrong += word != "killed"
            print(f"{word:12} {defect['name']} ({defect['test']})", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
