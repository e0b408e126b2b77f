"""Terminal output: one-line errors, warnings, and tables that fit the terminal."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pufferkit.errors import printable
from pufferkit.shown import Shown, Statement, wrapped

if TYPE_CHECKING:
    from pufferkit.influence.progress import NamedProgress, TextProgress

BAD_INPUT = 2
_INTERRUPTED = 130
_PASSWORD = re.compile(r"(:/{1,2}[^:/@\s]*:)[^@\s]*@")  # a path has one slash


class _OneLine:
    """Every error is one line on stderr, with exit code 2."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command without a traceback for bad input."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)  # type: ignore[misc]
            sys.stdout.flush()
        except typer.Abort:
            sys.exit(_INTERRUPTED)
        except BrokenPipeError:
            # The reader of our output has gone, so nothing more is written, not even at shutdown.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except BaseException as error:
            message = _explained(error)
            if message is None:
                raise
            say(f"error: {message}", err=True, colour="red")
            sys.exit(BAD_INPUT)
        sys.exit(code or 0)


class OneLineErrors(_OneLine, TyperGroup):
    """A group of commands that reports every error as one line, and whose help ends no sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The first paragraph of each command, whole."""
        rows = [
            (name, " ".join((command.help or "").partition("\n\n")[0].split()))
            for name, command in self.commands.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Command(TyperCommand):
    """A command whose help has a section for each topic, the command's own options first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options by their sections; names and words only, without types."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for own in self.get_params(ctx):
            if own.param_type_name == "argument":
                sections["Arguments"].append((_name(own), str(getattr(own, "help", ""))))
            elif (line := own.get_help_record(ctx)) is not None:
                section = getattr(own, "rich_help_panel", None) or "Options"
                sections.setdefault(section, []).append(line)
        for section, lines in sections.items():
            if lines:
                with formatter.section(section):
                    formatter.write_dl(lines)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """How the command is called."""
        arguments = (own for own in self.params if own.param_type_name == "argument")
        names = [_name(own) if own.required else f"[{_name(own)}]" for own in arguments]
        return ["[OPTIONS]", *names]


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


class OneLineCommand(_OneLine, Command):
    """A command on its own that reports every error as one line."""


class Commands(typer.Typer):
    """A group of commands."""

    def __init__(self, words: str, **options: Any) -> None:
        super().__init__(cls=OneLineErrors, help=words, rich_markup_mode=None, **options)

    def command(  # type: ignore[override]
        self, name: str | None = None, *, cls: Any = Command, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A command of the group."""
        return super().command(name, cls=cls, **options)


def _explained(error: BaseException) -> str | None:
    """The error in one line, if bad input can cause it."""
    if hasattr(error, "format_message"):  # the parser's own: an unknown option, a missing value
        text = error.format_message()
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, OverflowError):
        text = f"a number is too large ({error})"
    elif isinstance(error, (ValueError, OSError, ImportError)):
        text = str(error)
    elif type(error).__module__.startswith(("polars", "pyo3_runtime")):  # errors, panics
        text = f"a table cannot be read; is the file damaged? ({error})"
    else:
        return None
    return _PASSWORD.sub(r"\1***@", " ".join(str(text).split()))


Said = Shown | Sequence[Statement]
"""What is printed as a list of statements."""


def _statements(said: Said) -> Sequence[Statement]:
    return said.statements() if isinstance(said, Shown) else said


def say(text: Said | str = "", *, err: bool = False, colour: str | None = None) -> None:
    """Lines on stdout or stderr; control characters in names are escaped.

    A terminal gets them wrapped at words, warnings in colour; JSON as it is. Of an object it is the
    list of its statements that is said.
    """
    if not isinstance(text, str):
        for said in _statements(text):
            of_kind = "yellow" if said.kind == "warning" else colour
            say("\n".join(said.lines()) if not _wide(err) else said.text, err=err, colour=of_kind)
        return
    lines = [printable(line) for line in text.split("\n")]
    wide = _wide(err)
    if wide is None:
        typer.echo("\n".join(lines), err=err)
        return
    if not lines[0].startswith(("{", "[")):
        lines = [part for line in lines for part in _fitted(line, wide)]
    typer.secho("\n".join(lines), err=err, fg=colour)


def answer(said: Said, record: Mapping[str, Any] | None, *more: Said) -> None:
    """The statements of a command; as JSON its record with those that are no table."""
    if record is None:
        for one in (said, *more):
            say(one)
    else:
        listed = [{own.kind: own.text} for own in _statements(said) if own.kind != "table"]
        as_json({**record, "statements": listed})


def _wide(err: bool) -> int | None:
    """The columns of the terminal; ``None`` if there is none."""
    is_terminal = (sys.stderr if err else sys.stdout).isatty()
    return shutil.get_terminal_size().columns if is_terminal else None


def _fitted(line: str, wide: int) -> list[str]:
    """A line in as many as the terminal needs, with the indent that it has."""
    if len(line) <= wide or not line.strip("-"):
        return [line[:wide]]
    indent = line[: min(len(line) - len(line.lstrip()), wide // 3)]
    return [indent + part for part in wrapped(line.lstrip(), max(wide - len(indent), 20))]


def give(content: str) -> None:
    """Data on stdout: unchanged for a file or a program, escaped for a terminal."""
    if sys.stdout.isatty():
        say(content.removesuffix("\n"))
    else:
        typer.echo(content, nl=False)


def number(text: str) -> float:
    """A number in plain digits; other notations are too easily misread."""
    form = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    return float(_in_digits(text, form, "a number", "0.5 or 1e-3"))


def integer(text: str) -> int:
    """An integer in plain digits."""
    return int(_in_digits(text, r"[+-]?[0-9]{1,18}", "a whole number below 10^18", "2016"))


def _in_digits(text: str, form: str, what: str, example: str) -> str:
    if isinstance(text, str) and re.fullmatch(form, text) is None:
        raise typer.BadParameter(f"{text!r} is not {what}; write it in digits, like {example}")
    return text


def help_if_alone(context: typer.Context) -> None:
    """Print the help of a group that was called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


_SPEECH = {"quiet": False}


def speak(*, quiet: bool, verbose: bool) -> None:
    """Verbosity on stderr, for one run of a command."""
    import logging  # noqa: PLC0415

    _SPEECH["quiet"] = quiet
    log = logging.getLogger("pufferkit")
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log.setLevel(logging.INFO if verbose else logging.WARNING)
    if verbose:
        lines = logging.StreamHandler(sys.stderr)
        lines.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(lines)


def note(message: str) -> None:
    """One line on stderr about what was done; suppressed by --quiet."""
    if not _SPEECH["quiet"]:
        say(f"note: {' '.join(message.split())}", err=True)


def summary(text: Said | str) -> None:
    """Lines on stderr about what was read or spent; suppressed by --quiet."""
    if not _SPEECH["quiet"] and text:
        say(text, err=True)


def remaining(account: str, left: float, budget: float) -> None:
    """What is left of a budget, on stderr; suppressed by --quiet."""
    rounded = math.floor(left * 1000 + 1e-6) / 1000
    summary(f"{printable(account)}: {rounded:g} of {budget:g} remaining")


def doing(what: str) -> None:
    """A step of a long computation, on stderr; suppressed by --quiet."""
    summary(f"{what} ...")


def written(paths: Iterable[object]) -> None:
    """Name the files that were written, on stderr; suppressed by --quiet."""
    for path in paths:
        if not _SPEECH["quiet"] and str(path) != "-":
            say(f"written: {printable(path)}", err=True)


def as_json(record: Any) -> None:
    """Plain data on stdout."""
    import json  # noqa: PLC0415

    say(json.dumps(record, indent=2, default=str))


def _silent() -> bool:
    """Whether progress cannot be shown or is not wanted."""
    return _SPEECH["quiet"] or not sys.stderr.isatty()


def warn(message: str) -> None:
    """One line on stderr."""
    say(f"warning: {' '.join(message.split())}", err=True, colour="yellow")


@contextmanager
def progress(*begun: str) -> Iterator[NamedProgress | None]:
    """A progress bar for each slow mechanism on stderr; nothing without a terminal.

    Those of ``begun`` are shown before their work is known.
    """
    if _silent():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks = {what: bars.add_task(what, total=None) for what in begun}

        def report(what: str, done: int, whole: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=whole)
            bars.update(tasks[what], completed=done, total=whole)

        yield report


@contextmanager
def steps() -> Iterator[TextProgress]:
    """The steps of a long computation, in words: the first stays, the others follow one another.

    On a terminal they share a line with the time that has passed; elsewhere each has its own.
    """
    if _silent():
        yield doing
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task("", total=None)
        begun = False

        def report(words: str) -> None:
            nonlocal begun
            if not begun:
                line.console.print(words, markup=False, highlight=False)
            begun = True
            line.update(task, description=words)

        yield report


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr, as a function of done and total; none without a terminal."""
    with progress(what) as report:
        yield None if report is None else partial(report, what)
