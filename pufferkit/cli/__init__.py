"""The command line: parse, call, print.

Nothing heavy is imported at the top of these modules, so that ``pufferkit --help`` answers at once;
names of the package are loaded by `pufferkit` itself when a command first uses them.
"""

from __future__ import annotations

from typing import Annotated

import typer

import pufferkit
from pufferkit.cli import (
    audit_command,
    beliefs_command,
    dashboard_command,
    explore_command,
    hide_command,
    ledger_command,
    model_command,
    plan_command,
    release_command,
    release_each_command,
    reproduce_command,
    sanitize_command,
    stream_command,
    synthetic_command,
    terminal,
    verify_command,
)
from pufferkit.cli.terminal import OneLineErrors, help_if_alone

app = typer.Typer(
    cls=OneLineErrors,
    name="pufferkit",
    help="Pufferfish privacy for correlated data: compute the noise needed, and add it safely.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
for command in (
    plan_command.plan,
    release_command.release,
    release_each_command.release_each,
    dashboard_command.dashboard,
    synthetic_command.synthetic,
    sanitize_command.sanitize,
    model_command.fit,
    beliefs_command.beliefs,
    model_command.check,
    verify_command.verify,
    audit_command.audit,
    explore_command.explore,
    reproduce_command.reproduce,
):
    app.command()(command)
model_command.app.command()(hide_command.hide)
app.add_typer(model_command.app, name="model")
app.add_typer(ledger_command.app, name="ledger")
app.add_typer(stream_command.app, name="stream")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(pufferkit.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
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
    app()
