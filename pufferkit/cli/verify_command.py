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
    file: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE", help="A release as JSON, - is stdin; or a table of release-each."
        ),
    ],
    as_json: inputs.AsJson = False,
) -> None:
    """Check, by recomputation from the recorded beliefs, that the reported scale is enough.

    For a table, every row is checked against the record beside it. Facts that cannot be recomputed
    are listed as assumed.

    Exit code 0: it is enough. 1: it is not, or it could not be checked.
    """
    source: object = file
    if str(file) == outputs.STREAM:
        try:
            source = json.loads(inputs.text_of(file))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"standard input: this is not JSON ({error})") from None
    verdict = pk.verify(source)
    if as_json:
        terminal.as_json(asdict(verdict))
    else:
        terminal.say(str(verdict))
    if not verdict.ok:
        raise typer.Exit(1)
