"""Options in a line each. Those without a flag are named after their argument: ``--times-in``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from pufferkit.cli import terminal

Text = str | None
File = Path | None


def option(words: str, metavar: str | None = None, *flags: str) -> Any:
    """An option with the words of its help."""
    return typer.Option(*flags, metavar=metavar, help=words)


def whole(words: str, metavar: str = "N", *flags: str) -> Any:
    """An option that is a whole number, in plain digits."""
    return typer.Option(*flags, parser=terminal.integer, metavar=metavar, help=words)


def real(words: str, metavar: str = "X", *flags: str) -> Any:
    """An option that is a number, in plain digits."""
    return typer.Option(*flags, parser=terminal.number, metavar=metavar, help=words)
