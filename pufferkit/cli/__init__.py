"""The command line: parse, call, print.

Nothing heavy is imported at the top of these modules, so that ``pufferkit --help`` answers at once;
names of the package are loaded by `pufferkit` itself when a command first uses them.
"""

from __future__ import annotations

from typing import Annotated

import typer

import pufferkit
from pufferkit.cli import (
    audit,
    beliefs,
    dashboard,
    explore,
    hide,
    ledger,
    model,
    plan,
    release,
    release_each,
    reproduce,
    sanitize,
    stream,
    synthetic,
    terminal,
    verify,
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
    plan.plan,
    release.release,
    release_each.release_each,
    dashboard.dashboard,
    synthetic.synthetic,
    sanitize.sanitize,
    model.fit,
    beliefs.beliefs,
    model.check,
    verify.verify,
    audit.audit,
    explore.explore,
    reproduce.reproduce,
):
    app.command()(command)
model.app.command()(hide.hide)
app.add_typer(model.app, name="model")
app.add_typer(ledger.app, name="ledger")
app.add_typer(stream.app, name="stream")


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
