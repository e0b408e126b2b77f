"""``pufferkit explore``: the page in the browser, on this machine only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pufferkit.cli import inputs, terminal


def explore(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where ledger, models and files are kept.")
    ] = Path("pufferkit-explorer"),
    port: Annotated[
        int,
        typer.Option("--port", parser=terminal.integer, metavar="N", help="0: any that is free."),
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    as_json: inputs.AsJson = False,
) -> None:
    """Go from a file to a decision in the browser: data, beliefs, epsilon, release, account.

    The page is served on 127.0.0.1 only, behind a random token in its address. Nothing leaves this
    machine. Ctrl-C ends it; the ledger stays in FOLDER.
    """
    from pufferkit.explore import serve  # noqa: PLC0415

    def opened(address: str) -> None:
        if as_json:
            terminal.as_json({"address": address, "folder": str(folder.resolve())})
        else:
            terminal.say(address)
        terminal.note("Ctrl-C ends it. Whoever has this address can spend the budget.")
        if browser:
            import webbrowser  # noqa: PLC0415

            webbrowser.open(address)

    serve(folder, port=port, opened=opened)
