"""``pufferkit verify``: whether the noise of a release is enough for what it promises."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.shown import Statement


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

    For a table, every row is checked against the record beside it; for windows, each record. Facts
    that cannot be recomputed are listed as assumed.

    Exit code 0: it is enough. 1: it is not, or it could not be checked.
    """
    from pufferkit.verification.verify import not_well_formed  # noqa: PLC0415  (slow to load)

    source: object = release
    if str(release) == outputs.STREAM or release.suffix == ".json":
        try:
            source = json.loads(inputs.text_of(release))
        except (ValueError, RecursionError) as error:
            source = error
    windows = _windows(source)
    if windows is None:
        verdict = (
            pk.verify(source)
            if isinstance(source, (dict, Path))
            else not_well_formed(f"{release}: is not a record as JSON ({source!s:.60})")
        )
        terminal.answer(verdict, asdict(verdict) if as_json else None)
        verdicts = {"": verdict}
    else:
        verdicts = {name: pk.verify(record) for name, record in windows.items()}
        if as_json:
            terminal.as_json({name: asdict(verdict) for name, verdict in verdicts.items()})
        for name, verdict in () if as_json else verdicts.items():
            terminal.say([Statement("head", name), *verdict.statements()])
    if not all(verdict.ok for verdict in verdicts.values()):
        raise typer.Exit(1)


def _windows(source: object) -> dict[str, object] | None:
    """The records of a release for each window, by their names; ``None`` for one record."""
    if not isinstance(source, dict) or not source or "format" in source:
        return None
    each = all(isinstance(own, dict) and "format" in own for own in source.values())
    return source if each else None
