"""Options in one line each; without a flag they are named after their argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from pufferkit.cli import terminal

Text = str | None
File = Path | None


def option(words: str, metavar: str | None = None, *flags: str) -> Any:
    """An option with its help text."""
    return typer.Option(*flags, metavar=metavar, help=words)


def whole(words: str, metavar: str = "N", *flags: str) -> Any:
    """An option that is an integer, in plain digits."""
    return typer.Option(*flags, parser=terminal.integer, metavar=metavar, help=words)


def real(words: str, metavar: str = "X", *flags: str) -> Any:
    """An option that is a number, in plain digits."""
    return typer.Option(*flags, parser=terminal.number, metavar=metavar, help=words)
