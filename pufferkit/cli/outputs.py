"""Output files: checked before any noise is drawn, written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

STREAM = "-"
"""Stands for standard input among the inputs and standard output among the outputs."""


def check_outputs(
    targets: Iterable[Path | None],
    inputs: Iterable[Path | None] = (),
    picture: Path | None = None,
) -> None:
    """Raise unless every target and the figure can be written and is not an input."""
    inputs = list(inputs)
    if [str(path) for path in inputs].count(STREAM) > 1:
        raise ValueError("-: standard input can be read only once; name a file for one of them")
    taken = {path.resolve() for path in inputs if path is not None}
    for target in (*targets, picture):
        if target is None or str(target) == STREAM:
            continue
        real = target.resolve()
        if real in taken:
            raise ValueError(f"{target}: the command already uses this file; name another one")
        if real.is_dir():
            raise ValueError(f"{target}: this is a directory; name a file")
        if real.exists() and not real.is_file():
            raise ValueError(f"{target}: this is not a regular file; name another file")
        if not real.parent.is_dir():
            raise ValueError(f"{target}: there is no directory {target.parent}; create it first")
        if not os.access(real.parent, os.W_OK):
            raise ValueError(f"{target}: the directory {target.parent} cannot be written to")
        taken.add(real)
    if picture is not None:
        from pufferkit import plots  # noqa: PLC0415

        plots.check_picture(picture)


def on_disk(out: Path | None) -> Path | None:
    """The file to write; ``None`` for standard output."""
    return None if str(out) == STREAM else out


def figure(path: Path | None, shown: Any) -> dict[Path, bytes]:
    """The figure of an object as a file; none if no figure was asked for."""
    if path is None:
        return {}
    from pufferkit import plots  # noqa: PLC0415

    return {path: plots.picture(plots.figure_of(shown), path)}


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Write all files or, if one fails, none: each under a temporary name, then renamed.

    Only their owner can read them, who decides about sharing. Output for standard output is written
    after the files.
    """
    from pufferkit.cli import terminal  # noqa: PLC0415
    from pufferkit.records import private_file  # noqa: PLC0415  (loads numpy)

    parts: dict[Path, Path] = {}
    try:
        for target, content in contents.items():
            if str(target) == STREAM:
                continue
            real = target.resolve()
            part = real.with_name(f".{real.name}.{os.getpid()}.part")
            parts[part] = real
            private_file(part, content)
        for part, real in parts.items():
            part.replace(real)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    for target, content in contents.items():
        if str(target) == STREAM:
            terminal.give(content.decode())
