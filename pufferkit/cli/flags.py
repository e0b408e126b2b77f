"""Options in one line each; without a flag they are named after their argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
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


def given_in(group: Any) -> list[str]:
    """The options of a group that were given: those that differ from their defaults."""
    names = []
    for own in fields(group):
        value = getattr(group, own.name)
        if is_dataclass(value):
            names += given_in(value)
        elif value != own.default:
            names.append(f"--{own.name.replace('_', '-')}")
    return names


def refuse_given(groups: Sequence[Any], why: str, *allowed: str) -> None:
    """Refuse options that would be ignored: all that were given but these."""
    for option in (name for group in groups for name in given_in(group)):
        if option not in allowed:
            raise ValueError(f"{option}: {why}")
