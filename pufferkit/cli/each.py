"""``pufferkit release --each COL``: a table in, a table of noisy histograms out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal

if TYPE_CHECKING:
    from pufferkit import Releases

Each = Annotated[
    str | None,
    typer.Option("--each", metavar="COL", help="One release for each subject in this column."),
]
Window = Annotated[
    str | None,
    typer.Option("--window", metavar="7d", help="With --each: one release for each window too."),
]
MaxGap = Annotated[
    str | None,
    typer.Option("--max-gap", metavar="10m", help="With --each: longer gaps split a series."),
]
Every = Annotated[
    str | None,
    typer.Option("--every", metavar="5m", help="With --each: put the entries on a grid."),
]
Cuts = Annotated[
    str | None,
    typer.Option("--cuts", metavar="100,760", help="With --each: numbers as states, cut here."),
]


@dataclass(frozen=True)
class TableOptions:
    """How a table is read; ``each`` is the column of subjects."""

    each: str | None
    window: str | None
    max_gap: str | None
    every: str | None
    cuts: str | None

    def alone(self) -> None:
        """Without ``--each`` there must be none of the others."""
        for name in ("window", "max_gap", "every", "cuts"):
            if getattr(self, name) is not None:
                option = name.replace("_", "-")
                raise ValueError(f"--{option}: goes with --each, which names the subjects")


def refuse_others(given: Mapping[str, Any]) -> None:
    """Options that are about one series."""
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{option}: does not go with --each")


@dataclass(frozen=True)
class Asked:
    """What is released, and where it goes."""

    epsilon: float
    state: str
    time: str | None
    query: inputs.QueryName
    mechanism: str | None
    proper: bool
    out: Path | None
    ledger: str | None
    budget: float | None
    account: str | None
    label: str


def release_table(file: Path, model: Path, table: TableOptions, asked: Asked) -> None:
    """Release one histogram for each subject, or for each subject and window."""
    from pufferkit.frames import read_table, write_columns  # noqa: PLC0415

    if asked.time is None:
        raise ValueError("--time: with --each, name the column that holds the times")
    if asked.query not in (inputs.QueryName.HISTOGRAM, inputs.QueryName.FREQUENCIES):
        raise ValueError("--query: with --each it is histogram or frequencies")
    if (asked.ledger is None) != (asked.budget is None):
        raise ValueError("--ledger and --budget: go together; give both or none")
    if asked.account is not None and asked.ledger is None:
        raise ValueError("--account: goes before each subject's name in a ledger; give --ledger")
    if asked.mechanism == "entry_dp":
        raise ValueError("--mechanism: entry_dp does not hide entries that others predict")
    if asked.out is not None and asked.out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--out: {asked.out} must end in .csv or .parquet")
    outputs.check_outputs([asked.out], [file, model])
    beliefs = inputs.chains(model)
    cuts = None if table.cuts is None else [_number(cut) for cut in table.cuts.split(",")]
    data: Any = read_table(
        file,
        subject=table.each,
        time=asked.time,
        state=asked.state,
        states=beliefs.states,
        bins=cuts,
        max_gap=_duration(table.max_gap),
        every=_duration(table.every),
        window=_duration(table.window),
    )
    typer.echo(data.report(), err=True)
    with terminal.bar("releasing") as progress:
        found: Releases = pk.release_each(
            data,
            beliefs,
            asked.epsilon,
            query=asked.query.value,
            mechanism=asked.mechanism or "influence_curve",
            ledger=asked.ledger,
            budget=asked.budget,
            label=asked.label,
            prefix=asked.account or "",
            progress=progress,
        )
    found = found.as_histogram() if asked.proper else found
    content = write_columns(asked.out or Path("stdout.csv"), found.columns())
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    if asked.out is None:
        typer.echo(content.decode(), nl=False)
        return
    outputs.write_all({asked.out: content})
    typer.echo(f"{found.guarantee}: epsilon {found.epsilon:g} for all rows of a subject")
    typer.echo(f"written: {asked.out}", err=True)


def _duration(text: str | None) -> Any:
    """A duration as text, or a number for tables whose times are numbers."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--cuts: {text!r} is not a number") from None
