"""``pufferkit synthetic``: a synthetic series from releases, and how close its statistics are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, option


def synthetic(
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE", help="JSON of --query transitions, or of several questions with it."
        ),
    ],
    length: inputs.OneLength,
    hours: Annotated[File, option("JSON of --query by-hour, of the same series.", "FILE")] = None,
    begins: inputs.Begins = None,
    every: inputs.Every = None,
    seed: inputs.Seed = None,
    out: inputs.Out = None,
    plot: inputs.Plot = None,
    as_json: inputs.AsJson = False,
    job: inputs.Job = None,
) -> None:
    """Draw a synthetic series from released transition counts and hours; costs nothing.

    The series is drawn from the releases alone, so it reveals no more than they did. The report
    compares its statistics with the released ones. Without --out the series goes to standard output
    and the report to standard error.
    """
    if length is None:
        raise ValueError("--length: the number of entries to draw must be given")
    from pufferkit.data.write import check_table, write_columns  # noqa: PLC0415

    if out is not None:
        check_table(out)
    if (begins is None) != (every is None):
        raise ValueError("--begins and --every: must be given together")
    outputs.check_outputs([out], [release, hours], plot)
    calendar = None if begins is None else pk.Calendar(begins, every)
    moves, others = _released(release), None if hours is None else _released(hours)
    with terminal.progress("drawing entries"):
        made = pk.synthetic(moves, length, hours=others, calendar=calendar, seed=seed)
    content = write_columns(out or Path("stdout.csv"), _columns(made.series))
    written = {**({} if out is None else {out: content}), **outputs.figure(plot, made)}
    outputs.write_all(written)
    report = {"epsilon": made.epsilon, "furthest": made.furthest, "rows": made.table_rows()}
    if as_json or out is not None:
        terminal.answer(made, report if as_json else None)
    else:
        terminal.give(content.decode())
        terminal.summary(made)
    terminal.written(written)


def _released(path: Path) -> pk.Release:
    try:
        return pk.Release.from_json(inputs.text_of(path))
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is not a JSON file") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _columns(series: pk.Series) -> dict[str, list[Any]]:
    """The entries with their times, or their numbers from 1."""
    from datetime import datetime, timedelta  # noqa: PLC0415

    if series.calendar is None:
        return {"entry": list(range(1, len(series) + 1)), "state": series.labels}
    epoch = datetime(1970, 1, 1)
    ticks = series.calendar.times(series.lengths).tolist()
    return {"time": [epoch + timedelta(microseconds=t) for t in ticks], "state": series.labels}
