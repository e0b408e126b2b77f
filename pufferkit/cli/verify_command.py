"""``pufferkit verify``: whether the noise of a release is enough for what it promises."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal


def verify(
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE", help="A release as JSON, - is stdin; or a table of releases."
        ),
    ],
    as_json: inputs.AsJson = False,
    job: inputs.Job = None,
) -> None:
    """Check, with the proof in the record, that the reported noise is enough for the promise.

    For a table, every row is checked against the record beside it. Facts that cannot be recomputed
    are listed as assumed.

    Exit code 0: it is enough. 1: it is not, or it could not be checked.
    """
    source: object = release
    if str(release) == outputs.STREAM:
        try:
            source = json.loads(inputs.text_of(release))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"standard input: this is not JSON ({error})") from None
    verdict = pk.verify(source)
    terminal.answer(verdict, asdict(verdict) if as_json else None)
    if not verdict.ok:
        raise typer.Exit(1)
