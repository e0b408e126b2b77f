"""Runs the pages of the site side by side, and keeps their outputs until something changes.

Outputs lie in ``out/docs``, by a digest of the page, of the package and of what runs it, so a page
is run again whenever its outputs could be others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import running

HERE = Path(__file__).parent
KEPT = HERE.parent / "out" / "docs"
PICTURE = re.compile(r"<!-- picture: (\w+) -->")


def pages() -> dict[str, str]:
    """Name and text of every page with something to run."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.md"))}
    return {name: text for name, text in texts.items() if computes(text)}


def computes(text: str) -> bool:
    """Whether there is a block to run, or a picture to draw."""
    runs = any(match[1] in ("python", "figure", "sh") for match in running.FENCE.finditer(text))
    return runs or PICTURE.search(text) is not None


@cache
def _surroundings() -> bytes:
    """A digest of everything that outputs depend on but for the page."""
    digest = hashlib.sha256()
    root = HERE.parent
    look_alikes = root / "tests" / "strategies" / "look_alikes.py"
    examples = sorted(path for path in (root / "examples").iterdir() if path.is_file())
    package = [
        path for part in ("pufferkit", "papers") for path in sorted((root / part).rglob("*.py"))
    ]
    for path in [*package, *examples, look_alikes, HERE / "running.py"]:
        digest.update(path.read_bytes())
    return digest.digest()


def _place(name: str, text: str) -> Path:
    digest = hashlib.sha256(_surroundings() + text.encode())
    if PICTURE.search(text):
        digest.update((HERE / "pictures.py").read_bytes())
    return KEPT / f"{name}-{digest.hexdigest()[:20]}.json"


def kept(name: str, text: str) -> bool:
    """Whether this very text was run with this very package."""
    return _place(name, text).exists()


def run_all() -> None:
    """Run every page whose outputs are not kept, as many at once as there are cores."""
    KEPT.mkdir(parents=True, exist_ok=True)
    every = {_place(name, text): (name, text) for name, text in pages().items()}
    for old in set(KEPT.glob("*.json")) - set(every):
        old.unlink()
    missing = [what for place, what in every.items() if not place.exists()]
    if missing:
        # One thread for each process: they would only wait for one another.
        os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
        missing.sort(key=lambda what: -len(running.FENCE.findall(what[1])))
        # mkdocs has forgotten by now where its hooks lie; new processes must find this file.
        sys.path.insert(0, str(HERE))
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            for name in pool.map(_keep, missing):
                print(f"ran docs/{name}.md", flush=True)


def _keep(what: tuple[str, str]) -> str:
    """Run one page and write down what comes out."""
    name, text = what
    try:
        blocks = running.ran(text, name)
        pictures = {match[1]: _drawn(match[1]) for match in PICTURE.finditer(text)}
    except BaseException as error:
        raise RuntimeError(f"docs/{name}.md does not run: {error}") from error
    place = _place(name, text)
    rough = place.with_suffix(f".{os.getpid()}")
    rough.write_text(json.dumps({"blocks": blocks, "pictures": pictures}), encoding="utf-8")
    rough.replace(place)
    return name


def _drawn(name: str) -> str:
    import pictures  # noqa: PLC0415

    figure = getattr(pictures, name)()
    png = base64.b64encode(figure._repr_png_()).decode()
    return running.image(png, getattr(pictures, name).__doc__)


def with_outputs(text: str, name: str) -> str:
    """A page with what its blocks print and draw."""
    source = pages().get(name)
    if source is None:
        return text
    if not kept(name, source):  # changed while the others ran
        _keep((name, source))
    outputs = json.loads(_place(name, source).read_text(encoding="utf-8"))
    blocks = iter(outputs["blocks"])
    text = running.FENCE.sub(lambda _: next(blocks), text)
    return PICTURE.sub(lambda match: outputs["pictures"][match[1]], text)
