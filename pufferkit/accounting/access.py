"""Reading and writing a ledger: what does not exist reads as empty, and anchors are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from pufferkit.accounting import database
from pufferkit.accounting.anchor import START, Anchor, Head
from pufferkit.accounting.entries import head_of
from pufferkit.accounting.recognition import Recognition

Result = TypeVar("Result")


class Access:
    """The transactions of one ledger."""

    def __init__(
        self, place: database.Place, recognition: Recognition, anchor: Anchor | None
    ) -> None:
        self.place, self.recognition, self.anchor = place, recognition, anchor
        self._made = False
        self._empty: sa.Engine | None = None

    def close(self) -> None:
        """Let go of database connections."""
        self.place.close()
        if self._empty is not None:
            self._empty.dispose()

    def read(self, act: Callable[[sa.Connection], Result], *, settle: bool = False) -> Result:
        """``act`` on one snapshot, which must hold what the anchor does.

        With ``settle``, for what will be handed over, the anchor catches up after a crash between
        commit and anchor.
        """
        anchor = self.anchor
        held = None if anchor is None else anchor.read()  # before the snapshot: never ahead of it

        def checked(connection: sa.Connection) -> tuple[Result, Head | None]:
            if anchor is None:
                return act(connection), None
            if held is not None or settle:
                anchor.check(connection, held)
            return act(connection), Head(*head_of(connection))

        if self.exists():
            found, head = database.read(self.place, checked)
        else:
            if self._empty is None:
                self._empty = database.empty_engine()
            with self._empty.begin() as connection:
                found, head = checked(connection)
        if settle and anchor is not None and head is not None and head != START:
            anchor.advance(head)
        return found

    def write(self, act: Callable[[sa.Connection], Result]) -> Result:
        """``act`` under the write lock; the anchor moves on after the commit."""
        anchor = self.anchor

        def checked(connection: sa.Connection) -> tuple[Result, Head]:
            if anchor is not None:
                anchor.check(connection, anchor.read())
            return act(connection), Head(*head_of(connection))

        if not self.exists():
            # What an empty ledger refuses is refused before one is made.
            with self.recognition.trial():
                engine = database.empty_engine()
                with engine.begin() as connection:
                    checked(connection)
                engine.dispose()
            if anchor is not None and anchor.read() is None:
                anchor.advance(START)
            database.make(self.place)
        self.recognition.prepare(self.place)
        found, head = database.write(self.place, checked)
        if anchor is not None and head != START:
            anchor.advance(head)
        return found

    def exists(self) -> bool:
        """Whether the ledger was made."""
        self._made = self._made or database.exists(self.place)
        return self._made
