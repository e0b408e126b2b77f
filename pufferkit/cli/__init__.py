"""The command line: parse, call, print.

Nothing heavy is imported at the top of these modules, so that ``pufferkit --help`` answers at once;
names of the package are loaded by `pufferkit` itself when a command first uses them. A command
loads its own module only; ``app`` is the whole command line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

import pufferkit
from pufferkit.cli import terminal
from pufferkit.cli.terminal import Commands, help_if_alone

_COMMANDS = {
    "init": "job",
    "plan": "plan_command",
    "release": "release_command",
    "verify": "verify_command",
    "audit": "audit_command",
    "synthetic": "synthetic_command",
    "sanitize": "sanitize_command",
    "explore": "explore_command",
}
_WITH_JOB = ("plan", "release", "verify", "audit", "synthetic")
_GROUPS = {"beliefs": "beliefs_command", "ledger": "ledger_command"}

_SPOKEN = ("-q", "--quiet", "-v", "--verbose")
"""What may stand before a command without asking for the whole, as ``--help`` does."""


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The command line; if ``words`` begin with a command, this one alone, which is sooner made."""
    app = Commands(
        "Pufferfish privacy for correlated data: compute the noise needed, and add it safely.",
        name="pufferkit",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(root)
    first = next((word for word in words if word not in _SPOKEN), None)
    known = first in _COMMANDS or first in _GROUPS
    for name, module in _COMMANDS.items():
        if name == first or not known:
            kind = {"cls": _loaded("job").JobCommand} if name in _WITH_JOB else {}
            app.command(**kind)(getattr(_loaded(module), name))
    for name, module in _GROUPS.items():
        if name == first or not known:
            app.add_typer(_loaded(module).app, name=name)
    return app


def _loaded(module: str) -> Any:
    return import_module(f"pufferkit.cli.{module}")


@cache
def _whole() -> typer.Typer:
    return application()


def __getattr__(name: str) -> Any:
    if name == "app":
        return _whole()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(pufferkit.__version__)
        raise typer.Exit


def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no notes and no progress, only warnings.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log each step and its duration on stderr.")
    ] = False,
) -> None:
    """Pufferfish privacy for correlated data: compute the noise needed, and add it safely."""
    if quiet and verbose:
        raise ValueError("--quiet and --verbose: give only one of them")
    terminal.speak(quiet=quiet, verbose=verbose)
    help_if_alone(context)


def main() -> None:
    """Entry point of the ``pufferkit`` command."""
    application(sys.argv[1:])()
