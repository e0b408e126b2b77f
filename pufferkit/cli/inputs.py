"""Every option, declared once: a command takes the ones it needs, with the same words everywhere.

Groups of options are frozen dataclasses with a field for each; `with_options` spells them out.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_type_hints

import typer

import pufferkit as pk
from pufferkit.cli import outputs, terminal
from pufferkit.cli.flags import File, Text, option, real, refuse_given, whole
from pufferkit.records import read_stream, read_whole

if TYPE_CHECKING:
    from pufferkit import Bins, Calibration, ChainClass, Query, Series, Table, TextFormat
    from pufferkit.beliefs.base import Beliefs

Dates = Literal["day-first", "month-first"]
Header = Literal["yes", "no"]
RepeatedHour = Literal["refuse", "shift", "keep-first"]

_MODEL = option("Beliefs: a JSON file, see 'beliefs'; - is stdin.", "FILE", "--model")
Model = Annotated[Path, _MODEL]
MaybeModel = Annotated[File, _MODEL]
_EPSILON = real("Privacy loss; smaller is more private.", "X", "--epsilon")
Epsilon = Annotated[float, _EPSILON]
MaybeEpsilon = Annotated[float | None, _EPSILON]
Mechanism = Annotated[
    Text,
    option(
        "A name from the plan; default: least Pufferfish noise. sanitize, audit: "
        "randomized_response, a coin for each entry; matrix_response, least wrong answers for "
        "three or more states; correlated_response, flips in runs, two states.",
        "NAME",
        "--mechanism",
    ),
]
Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Text or Parquet; - is stdin. Several files: one subject each.",
        show_default=False,
    ),
]
Job = Annotated[
    File, option("Options from this file. Default: job.toml, if there is one.", "FILE", "--job")
]
_STATE = option(
    "Column with the states; A,B or 'house *' if each subject has one.", "COL", "--state"
)
State = Annotated[str, _STATE]
MaybeState = Annotated[Text, _STATE]
Time = Annotated[Text, option("Column with times; or DATE,TIME for two columns.", "COL", "--time")]
Subject = Annotated[Text, option("Column with the subject of each row.", "COL", "--subject")]
Segment = Annotated[Text, option("Column that names independent segments.", "COL", "--segment")]
Entry = Annotated[Text, option("For networks: column that names the entry.", "COL", "--entry")]
_LENGTH = whole("Number of entries; repeat for each segment.", "N", "--length")
Length = Annotated[list[int] | None, _LENGTH]
OneLength = Annotated[int | None, _LENGTH]
Data = Annotated[
    File, option("Data whose lengths are taken, or that the model is tested on.", "FILE", "--data")
]
Every = Annotated[
    Text, option("Put entries on a grid; without --time, the time between rows.", "5m", "--every")
]
Begins = Annotated[Text, option("Without --time: time of the first entry.", "TIME", "--begins")]
Out = Annotated[File, option("Write the result here; - is stdout.", "FILE", "--out")]
Plot = Annotated[File, option("Draw to a .png, .svg or .pdf file.", "FILE", "--plot")]
Report = Annotated[File, option("Write an HTML report with figures.", "FILE", "--report")]
AsJson = Annotated[bool, option("Print JSON.", None, "--json")]
Anyway = Annotated[bool, option("Release even if noise drowns the answer.", None, "--anyway")]
Thorough = Annotated[bool, option("Take minutes, not seconds, for less noise.", None, "--thorough")]
Seed = Annotated[int | None, whole("Seed; the same seed gives the same draws.", "N", "--seed")]
Adversary = Annotated[
    Text,
    option(
        "audit: beliefs outside the model, or trained: boosting on --public people. sanitize: "
        "every, who may know any other entries, or ignorant.",
        "NAME|FILE",
        "--adversary",
    ),
]
Confidence = Annotated[
    float | None, real("Confidence of what is proven or fitted.", "X", "--confidence")
]
Account = Annotated[
    Text,
    option(
        "Account of these data in the ledger; of many subjects, the prefix of each account.",
        "NAME",
        "--account",
    ),
]
Anchor = Annotated[
    Text,
    option("Head kept outside the ledger; must match. verify: also a digest.", "FILE", "--anchor"),
]
AnchorKey = Annotated[Text, option("Key of the anchor, if any.", "FILE", "--anchor-key")]
MaybeLedger = Annotated[Text, option("The ledger with the accounts.", "FILE|URL", "--ledger")]


# -- groups -------------------------------------------------------------------------------------


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer sees it: an argument that is a dataclass becomes its fields."""

    @wraps(command)
    def spelled_out(**given: Any) -> None:
        command(**_grouped(command, given))

    spelled_out.__signature__ = inspect.Signature(list(_options_of(command)))  # type: ignore[attr-defined]
    return spelled_out


def _arguments(made: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Any, bool]]:
    """The arguments of a command or of a group, with their types; whether each is a group."""
    hints = get_type_hints(made, include_extras=True)
    for name, parameter in inspect.signature(made).parameters.items():
        yield parameter, hints[name], is_dataclass(hints[name])


def _options_of(made: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The options of a command or of a group, in the section of help that the group names."""
    section = getattr(made, "section", None)
    for parameter, hint, group in _arguments(made):
        if group:
            yield from _options_of(hint)
            continue
        kind, words = get_args(hint)
        if section is not None:
            words = copy(words)
            words.rich_help_panel = section
        yield parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=Annotated[kind, words])


def _grouped(made: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a command or of a group, from the values of all options."""
    return {
        parameter.name: hint(**_grouped(hint, given)) if group else given[parameter.name]
        for parameter, hint, group in _arguments(made)
    }


@dataclass(frozen=True)
class Form:
    """Facts that a file does not state, or that must not be guessed."""

    section: ClassVar[str] = "How the file is read"

    cuts: Annotated[Text, option("Turn numbers into states, cut here.", "100,760")] = None
    levels: Annotated[
        Text,
        option(
            "Turn numbers into states: levels of this width up to a top, or a CSV with columns "
            "from,label.",
            "200W:2kW|FILE",
        ),
    ] = None
    unit: Annotated[Text, option("Unit of the numbers, for levels and labels.", "kW")] = None
    every: Every = None
    begins: Begins = None
    timezone: Annotated[Text, option("Days and weeks begin at midnight there.", "Europe/Paris")] = (
        None
    )
    times_in: Annotated[
        Text, option("Time zone of times without one. Default: --timezone.", "UTC")
    ] = None
    repeated_hour: Annotated[
        RepeatedHour, option("How to treat the hour that occurs twice when clocks go back.")
    ] = "refuse"
    separator: Annotated[Text, option("Cell separator. Default: detected.", ";")] = None
    header: Annotated[
        Header | None, option("Whether line 1 names the columns. Default: detected.")
    ] = None
    decimal: Annotated[Text, option("Decimal sign. Default: detected.", ",")] = None
    dates: Annotated[Dates | None, option("Order of dates like 03/04/2024. Default: detected.")] = (
        None
    )
    missing: Annotated[Text, option("Cell values that mean not observed.", "off,-1")] = None

    @property
    def text(self) -> TextFormat | None:
        """The format of the file, as far as it was given."""
        options: dict[str, Any] = {
            "separator": self.separator,
            "header": None if self.header is None else self.header == "yes",
            "decimal": self.decimal,
            "dates": None if self.dates is None else self.dates.replace("-", " "),
            "missing": () if self.missing is None else tuple(self.missing.split(",")),
        }
        if not any(value is not None and value != () for value in options.values()):
            return None
        try:
            return pk.TextFormat(**options)
        except ValueError as error:
            raise ValueError(f"--{error}") from None

    @property
    def clock(self) -> dict[str, Any]:
        """The clock of the times, for the reader."""
        return {
            "timezone": self.timezone,
            "times_in": self.times_in,
            "repeated_hour": self.repeated_hour.replace("-", " "),
        }

    def given_bins(self) -> Bins | None:
        """The levels given by options."""
        if self.cuts is not None and self.levels is not None:
            raise ValueError("--levels: --cuts already cuts the numbers; give only one")
        try:
            if self.cuts is not None:
                return pk.Bins(_cut_points(self.cuts), unit=self.unit or "")
            if self.levels is not None and Path(self.levels).suffix.lower() == ".csv":
                if self.unit is not None:
                    raise ValueError("unit: a file of labels has its own; leave it out")
                return pk.Bins.from_file(self.levels)
            if self.levels is not None:
                return pk.Bins.levels(self.levels, unit=self.unit or "")
        except ValueError as error:
            text = str(error)
            raise ValueError(text if text.startswith("--") else f"--{text}") from None
        if self.unit is not None:
            raise ValueError("--unit: needs --cuts or --levels")
        return None

    def bins(
        self, file: Path | Sequence[Path], state: Any, states: Sequence[Hashable] | None
    ) -> Bins | None:
        """The levels given by options; else those of the model, if the column holds numbers."""
        given = self.given_bins()
        implied = None if states is None or given is not None else pk.Bins.of_names(states)
        column = state if isinstance(state, str) else state[0]
        if implied is None or "*" in column:
            return given
        from pufferkit.data.files import first_cell  # noqa: PLC0415

        cell = first_cell(file, column, self.text)
        try:
            float(str(cell).strip().replace(",", "."))
        except ValueError:
            return None
        cuts = ", ".join(f"{cut:g}" for cut in implied.cuts)
        terminal.note(f"{column} was cut at {cuts}, like the states of the model")
        return implied


@dataclass(frozen=True)
class Rows:
    """The columns of a file, the order of its rows, and where a series is cut."""

    section: ClassVar[str] = "Columns"

    time: Time = None
    end: Annotated[
        Text, option("Column with the end of each row, if rows are intervals.", "COL", "--end")
    ] = None
    segment: Segment = None
    independent_after: Annotated[
        Text,
        option(
            "Declare rows further apart than this independent; recorded in the release.",
            "3h",
            "--independent-after",
        ),
    ] = None


@dataclass(frozen=True)
class Size:
    """The number of entries: given, or counted in a file."""

    section: ClassVar[str] = "Size"

    length: Length = None
    data: Data = None
    state: MaybeState = None
    rows: Rows = Rows()

    def of(self, beliefs: Beliefs, form: Form) -> Sequence[int] | Series:
        """The lengths given, those of the beliefs, or the series in the file."""
        if self.length and self.data is not None:
            raise ValueError(_NO_SIZE)
        if self.data is not None:
            return read_data(self.data, self.state, self.rows, form, beliefs.states)
        refuse_given([replace(self, length=None), form], "applies to a file; give --data")
        lengths = self.length or lengths_of(beliefs)
        if not lengths:
            raise ValueError(_NO_SIZE)
        return lengths


_NO_SIZE = "give the size of the series: either --length N or --data FILE --state COL"


@dataclass(frozen=True)
class Book:
    """The ledger to charge; ``ledger`` is ``None`` if there is none."""

    section: ClassVar[str] = "Account"

    ledger: MaybeLedger = None
    budget: Annotated[float | None, real("With --ledger: total epsilon of the account.")] = None
    account: Account = None
    label: Annotated[str, option("With --ledger: distinguishes equal releases.", "NAME")] = ""
    anchor: Anchor = None
    anchor_key: AnchorKey = None
    ledger_key: Annotated[
        Text, option("Key to recognise data. Default: beside the ledger.", "FILE")
    ] = None
    confirm_data: Annotated[
        bool,
        option("Confirm data known under another account, or changed.", None, "--confirm-data"),
    ] = False

    def check(self, *, needs_account: bool) -> None:
        """Raise unless a ledger comes with a budget, and with an account where one is needed."""
        kept = self.ledger is not None
        if needs_account and not kept == (self.budget is not None) == (self.account is not None):
            raise ValueError("--ledger, --budget and --account: must be given together")
        if kept != (self.budget is not None):
            raise ValueError("--ledger and --budget: must be given together")
        if self.account is not None and not kept:
            raise ValueError("--account: is a prefix of account names in a ledger; give --ledger")

    @contextmanager
    def opened(self) -> Iterator[pk.Ledger | None]:
        """The ledger, closed afterwards."""
        if self.ledger is None:
            refuse_given([self], "needs a ledger; give --ledger", "--budget", "--account")
            yield None
            return
        with pk.Ledger(
            self.ledger, key=self.ledger_key, anchor=self.anchor, anchor_key=self.anchor_key
        ) as ledger:
            if not ledger.recognises_data:
                terminal.note(
                    "without a key (--ledger-key, or PUFFERKIT_LEDGER_KEY) the same data "
                    "under two names are not detected"
                )
            yield ledger

    @contextmanager
    def payer(self) -> Iterator[pk.Account | None]:
        """The account of one series; what remains of it is printed afterwards."""
        with self.opened() as ledger:
            if ledger is None or self.budget is None or self.account is None:
                yield None
                return
            account = pk.Account(ledger, self.account, self.budget, confirm_data=self.confirm_data)
            yield account
            terminal.remaining(self.account, account.remaining, self.budget)


# -- what they stand for ------------------------------------------------------------------------


def duration(text: str | None) -> Any:
    """A duration as text, or a number for tables whose times are numbers."""
    from pufferkit.data.durations import number_or_text  # noqa: PLC0415

    return None if text is None else number_or_text(text)


def time_of(text: str | None) -> str | tuple[str, ...] | None:
    """The column of times, or the columns of dates and times, separated by a comma."""
    if text is None or "," not in text:
        return text
    return tuple(part.strip() for part in text.split(","))


def columns_of(text: str) -> Any:
    """The column of states, a pattern, or the columns of a wide table, separated by commas."""
    return [part.strip() for part in text.split(",")] if "," in text else text


def is_wide(text: str) -> bool:
    """Whether these are the columns of several subjects."""
    return "," in text or "*" in text


def _cut_points(text: str) -> list[float]:
    """Numbers separated by commas."""
    points = []
    for cut in text.split(","):
        try:
            points.append(terminal.number(cut.strip()))
        except typer.BadParameter:
            raise ValueError(f"--cuts: {cut!r} is not a number") from None
    return points


def text_of(path: Path) -> str:
    """The text in a file, or on standard input for ``-``."""
    if str(path) == outputs.STREAM:
        typed: str = read_stream(sys.stdin, "standard input")
        return typed
    return read_whole(path).decode("utf-8")


def read_model(path: Path) -> Beliefs:
    """The beliefs in a JSON file: chains, networks or joint distributions."""
    from pufferkit.beliefs.base import beliefs_from_json  # noqa: PLC0415

    try:
        model = beliefs_from_json(text_of(path))
    except FileNotFoundError:
        words = "no such file; make it from public files with pufferkit beliefs choose"
        raise ValueError(f"{path}: {words}") from None
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
    """The number of entries of beliefs about named entries; none for chains."""
    return [] if beliefs.entries is None else [len(beliefs.entries)]


def chains(path: Path) -> ChainClass:
    """The beliefs in a file, which must be chains."""
    beliefs = read_model(path)
    if not isinstance(beliefs, pk.ChainClass):
        raise ValueError(f"{path}: this command needs Markov chains, not {beliefs.description}")
    return beliefs


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
    if is_wide(state):
        raise ValueError("--state: several columns are several subjects; name one for one series")
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
        bins = form.bins(path, state, states)
        series: Series = read(
            path, state, rows, form, states=states, bins=bins, segment=rows.segment
        )
    for warning in caught:
        terminal.warn(str(warning.message))
    if series.read_as:
        terminal.note(f"read as: {'; '.join(series.read_as)}")
    if series.missing:
        terminal.note(
            f"{series.missing:,} of {len(series):,} entries were not observed; the series "
            "continues across them"
        )
    return series


def read_table(
    files: Sequence[Path],
    state: str,
    rows: Rows,
    form: Form,
    states: Sequence[Hashable] | None,
    subject: str | None = None,
    window: Any = None,
    *,
    of_model: bool = False,
    groups: str | None = None,
) -> Table:
    """The table in one or several files; with ``of_model`` numbers are cut like its states."""
    from pufferkit.data.files import check_parquet  # noqa: PLC0415

    for file in files:
        check_parquet(file)
    source = files[0] if len(files) == 1 else list(files)
    bins = form.bins(source, columns_of(state), states if of_model else None)
    more = {"states": states, "bins": bins, "subject": subject, "window": window, "groups": groups}
    table: Table = read(source, state, rows, form, **more)
    return table


def read(source: Any, state: str, rows: Rows, form: Form, **more: Any) -> Any:
    """The data in files, by the options of their columns and of how they are read."""
    return pk.read(
        source,
        state=columns_of(state),
        time=time_of(rows.time),
        end=rows.end,
        independent_after=duration(rows.independent_after),
        every=duration(form.every),
        start=form.begins,
        text=form.text,
        **form.clock,
        **more,
    )


def files_of(files: Sequence[Path]) -> list[Path]:
    """The files that paths and patterns name."""
    from pufferkit.data.files import files_of as named  # noqa: PLC0415

    return named(list(files))


def period_of(window: str | None) -> Any:
    """A window as `release` takes it, if it is a period or has two ends; else ``None``."""
    if window is None or not re.search(r"\d{4}-|,|^\d{4}$", window):
        return None
    ends = [part.strip() for part in window.split(",")]
    if len(ends) > 2:
        raise ValueError(f"--window: has two ends, FROM,TO, got {window!r}")
    if len(ends) == 2 and all(end.isdecimal() for end in ends):
        return int(ends[0]), int(ends[1])
    return ends[0] if len(ends) == 1 else (ends[0], ends[1])


RESPONSES = {
    "randomized_response": "independent",
    "matrix_response": "optimised",
    "correlated_response": "correlated",
}
"""Mechanisms of `pufferkit.local`, with their ``design`` in `cheapest_noise`."""


def response_named(mechanism: str | None) -> str | None:
    """The design of a randomised response by its name; ``None`` for other mechanisms."""
    return None if mechanism is None else RESPONSES.get(mechanism.replace("-", "_"))


def known_mechanism(mechanism: str | None) -> str | None:
    """A mechanism as spelled in the plan; hyphens are accepted."""
    if mechanism is None:
        return None
    from pufferkit.mechanisms.plan import MECHANISMS  # noqa: PLC0415

    name = mechanism.replace("-", "_")
    if name not in MECHANISMS:
        listed = ", ".join(MECHANISMS)
        raise ValueError(f"--mechanism: {mechanism!r} is unknown; known are {listed}")
    return name


def calibrated(
    mechanism: str | None, beliefs: Beliefs, query: Query, epsilon: float
) -> Calibration:
    """The mechanism of this name, or the one with the least noise that hides entries."""
    from pufferkit.mechanisms.plan import calibrate  # noqa: PLC0415

    with terminal.progress() as progress:
        if mechanism is None:
            return pk.plan(beliefs, query, epsilon, progress=progress).best
        return calibrate(mechanism, beliefs, query, epsilon, progress)
