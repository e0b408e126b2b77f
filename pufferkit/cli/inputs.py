"""Options shared by several commands, and the objects they stand for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import pufferkit as pk
from pufferkit.cli import outputs, terminal
from pufferkit.cli.flags import File, Text, option, real, refuse_given, whole
from pufferkit.cli.format_options import Form, duration, time_of
from pufferkit.records import read_stream, read_whole

if TYPE_CHECKING:
    from pufferkit import ChainClass, Series
    from pufferkit.beliefs.base import Beliefs


Model = Annotated[Path, option("Beliefs: a JSON file, see 'model'; - is stdin.", None, "--model")]
Epsilon = Annotated[float, real("Privacy loss; smaller is more private.", "X", "--epsilon")]
PublicFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Public data: text or Parquet. Several files: one subject each."
    ),
]
State = Annotated[str, option("Column with the states.", "COL", "--state")]
MaybeState = Annotated[Text, option("Column with the states.", "COL", "--state")]
Time = Annotated[Text, option("Column with times; or DATE,TIME for two columns.", "COL", "--time")]
Segment = Annotated[Text, option("Column that names independent segments.", "COL", "--segment")]
IndependentAfter = Annotated[
    Text,
    option(
        "Declare rows further apart than this independent; recorded in the release.",
        "3h",
        "--independent-after",
    ),
]
Length = Annotated[
    list[int] | None, whole("Entries in the series; repeat for each segment.", "N", "--length")
]
Data = Annotated[File, option("Take the lengths from this file.", "FILE", "--data")]
AsJson = Annotated[bool, option("Print JSON.", None, "--json")]
Plot = Annotated[File, option("Draw to a .png, .svg or .pdf file.", "FILE", "--plot")]


def text_of(path: Path) -> str:
    """The text in a file, or on standard input for ``-``."""
    if str(path) == outputs.STREAM:
        typed: str = read_stream(sys.stdin, "standard input")
        return typed
    return read_whole(path).decode("utf-8")


def read_model(path: Path) -> Beliefs:
    """The beliefs in a JSON file: chains, networks or joint distributions; networks also as BIF."""
    from pufferkit.beliefs.base import as_beliefs, beliefs_from_json  # noqa: PLC0415

    try:
        if path.suffix.lower() == ".bif":
            return as_beliefs(pk.BayesianNetwork.from_bif(path))
        model = beliefs_from_json(text_of(path))
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is not a JSON file") from None
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: model: has a field of the wrong type ({error})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if model.is_private:
        terminal.warn(f"{path} was fitted to private data; the model itself reveals them")
    return model


def lengths_of(beliefs: Beliefs) -> list[int]:
    """The number of entries of beliefs about named entries; ``None`` for chains."""
    return [] if beliefs.entries is None else [len(beliefs.entries)]


def chains(path: Path) -> ChainClass:
    """The beliefs in a file, which must be chains."""
    beliefs = read_model(path)
    if not isinstance(beliefs, pk.ChainClass):
        raise ValueError(f"{path}: this command needs Markov chains, not {beliefs.description}")
    return beliefs


@dataclass(frozen=True)
class Rows:
    """The order of the rows of a series, and where it is cut."""

    time: Time = None
    segment: Segment = None
    independent_after: IndependentAfter = None


def read_data(
    path: Path,
    state: str | None,
    rows: Rows,
    form: Form,
    states: Sequence[Hashable] | None,
    beliefs: Beliefs | None = None,
    entry: str | None = None,
) -> Series:
    """The series in a file; with named entries, in the order of the beliefs."""
    from pufferkit.data.files import check_parquet  # noqa: PLC0415

    if state is None:
        raise ValueError("--state: name the column of the file that holds the states")
    check_parquet(path)
    if beliefs is not None and lengths_of(beliefs):
        refuse_given([rows, form], "applies to chains; named entries have no times")
        if entry is None:
            raise ValueError("--entry: give the column that names the entry of each row")
        named: Series = pk.read(
            path, state=state, entry=entry, names=beliefs.entries or (), states=states
        )
        return named
    if entry is not None:
        raise ValueError(
            "--entry: applies to networks and joint distributions; chains follow the order of rows"
        )
    if rows.time is not None and form.begins is not None:
        raise ValueError("--begins: applies to rows without times; leave out --time or --begins")
    if form.begins is not None and form.every is None:
        raise ValueError("--begins: needs the time between rows; give --every too")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        series: Series = pk.read(
            path,
            state=state,
            time=time_of(rows.time),
            segment=rows.segment,
            states=states,
            independent_after=duration(rows.independent_after),
            bins=form.bins(path, state, states),
            every=duration(form.every),
            start=form.begins,
            text=form.text,
            **form.clock,
        )
    for warning in caught:
        terminal.warn(str(warning.message))
    read_as(series.read_as)
    if series.missing:
        terminal.note(
            f"{series.missing:,} of {len(series):,} entries were not observed; the series "
            "continues across them"
        )
    return series


def files_of(files: Sequence[Path]) -> list[Path]:
    """The files that paths and patterns name."""
    from pufferkit.data.files import files_of as named  # noqa: PLC0415

    return named(list(files))


def read_as(notes: Sequence[str]) -> None:
    """Report what was detected or assumed about a file."""
    if notes:
        terminal.note(f"read as: {'; '.join(notes)}")


NO_SIZE = "give the size of the series: either --length N or --data FILE --state COL"


@dataclass(frozen=True)
class Size:
    """The number of entries: given, or counted in a file."""

    length: Length = None
    data: Data = None
    state: MaybeState = None
    rows: Rows = Rows()

    def of(self, beliefs: Beliefs, form: Form) -> Sequence[int] | Series:
        """The lengths given, those of the beliefs, or the series in the file."""
        if self.length and self.data is not None:
            raise ValueError(NO_SIZE)
        if self.data is not None:
            return read_data(self.data, self.state, self.rows, form, beliefs.states)
        refuse_given([replace(self, length=None), form], "applies to a file; give --data")
        lengths = self.length or lengths_of(beliefs)
        if not lengths:
            raise ValueError(NO_SIZE)
        return lengths
