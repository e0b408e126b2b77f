"""Options about the ledger that pays for a release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

import pufferkit as pk
from pufferkit.cli import terminal

Anchor = Annotated[
    str | None,
    typer.Option(
        "--anchor", metavar="FILE", help="With --ledger: its head, kept outside; checked and moved."
    ),
]
AnchorKey = Annotated[
    str | None, typer.Option("--anchor-key", metavar="FILE", help="Key of the anchor, if any.")
]
LedgerKey = Annotated[
    str | None,
    typer.Option(
        "--ledger-key", metavar="FILE", help="Key to recognise data; default: beside the ledger."
    ),
]
DataMeant = Annotated[
    bool,
    typer.Option(
        "--data-meant", help="Data known under another account, or changed, are meant so."
    ),
]


@dataclass(frozen=True)
class Book:
    """A ledger as options describe it; ``ledger`` is ``None`` if nothing is kept."""

    ledger: str | None
    budget: float | None
    anchor: str | None
    anchor_key: str | None
    key: str | None
    data_meant: bool

    @contextmanager
    def opened(self) -> Iterator[pk.Ledger | None]:
        """The ledger, closed afterwards."""
        if self.ledger is None:
            for option, value in {
                "--anchor": self.anchor,
                "--anchor-key": self.anchor_key,
                "--ledger-key": self.key,
                "--data-meant": self.data_meant or None,
            }.items():
                if value is not None:
                    raise ValueError(f"{option}: goes with a ledger; give --ledger")
            yield None
            return
        with pk.Ledger(
            self.ledger, key=self.key, anchor=self.anchor, anchor_key=self.anchor_key
        ) as found:
            if not found.recognises_data:
                terminal.say(
                    "note: without a key (--ledger-key, or PUFFERKIT_LEDGER_KEY) the same data "
                    "under two names are not noticed",
                    err=True,
                )
            yield found
