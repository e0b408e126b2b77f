"""``pufferkit verify``: whether the noise of a release is enough for what it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pufferkit.cli import terminal


def verify(
    file: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release, as JSON.")],
) -> None:
    """Recompute, from the recorded beliefs, that the reported scale is enough.

    Exit code 0: it is. 1: it is not, or it could not be checked.
    """
    from pufferkit.verification.verify import verify_file  # noqa: PLC0415

    verdict = verify_file(file)
    terminal.say(str(verdict))
    if not verdict.ok:
        raise typer.Exit(1)
