"""``pufferkit explore``: the page in the browser, served on this machine only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pufferkit.cli import inputs, terminal


def explore(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for the ledger, models and files.")
    ] = Path("pufferkit-explorer"),
    port: Annotated[
        int,
        typer.Option("--port", parser=terminal.integer, metavar="N", help="Port; 0: any free one."),
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    as_json: inputs.AsJson = False,
) -> None:
    """Work in the browser, from a file to a release: data, beliefs, epsilon, release, account.

    The page is served on 127.0.0.1 only, behind a random token in its address. Nothing leaves this
    machine. Ctrl-C stops the server; the ledger stays in FOLDER.
    """
    from pufferkit.explore import serve  # noqa: PLC0415

    def opened(address: str) -> None:
        if as_json:
            terminal.as_json({"address": address, "folder": str(folder.resolve())})
        else:
            terminal.say(address)
        terminal.note("Ctrl-C stops the server. Anyone with this address can spend the budget.")
        if browser:
            _show(address, folder)

    serve(folder, port=port, opened=opened)


def _show(address: str, folder: Path) -> None:
    """Open the page in a browser through a file that only its owner can read.

    Other users of the machine can see command lines, so the token must not appear in one.
    """
    import os  # noqa: PLC0415
    import webbrowser  # noqa: PLC0415

    door = folder.resolve() / "open.html"
    door.unlink(missing_ok=True)
    with os.fdopen(os.open(door, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f'<meta http-equiv="refresh" content="0; url={address}">\n')
    webbrowser.open(door.as_uri())
