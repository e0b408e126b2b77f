"""The tables of a ledger, their versions, and the connection that sends every statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

from pufferkit.errors import LedgerError

SCHEMA_VERSION = 1
GENESIS = "0" * 64

_TABLES = {
    "meta": "name VARCHAR(40) NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "head": "id INTEGER NOT NULL PRIMARY KEY, seq BIGINT NOT NULL, digest VARCHAR(64) NOT NULL",
    "entries": "seq INTEGER NOT NULL PRIMARY KEY, account VARCHAR(200) NOT NULL, "
    "kind VARCHAR(10) NOT NULL, key VARCHAR(64) NOT NULL, epsilon BIGINT NOT NULL, "
    "total BIGINT NOT NULL, rule VARCHAR(20) NOT NULL, budget BIGINT NOT NULL, "
    "number BIGINT NOT NULL, body TEXT NOT NULL, made_at VARCHAR(40) NOT NULL, "
    "made_by VARCHAR(200) NOT NULL, previous VARCHAR(64) NOT NULL, "
    "digest VARCHAR(64) NOT NULL, UNIQUE (account, kind, key), UNIQUE (account, seq)",
    "marks": "account VARCHAR(200) NOT NULL PRIMARY KEY, marks TEXT NOT NULL",
    "states": "account VARCHAR(200) NOT NULL PRIMARY KEY, seq BIGINT NOT NULL, state TEXT NOT NULL",
}
_COLUMNS = {
    name: tuple(part.split()[0] for part in text.split(", UNIQUE")[0].split(", "))
    for name, text in _TABLES.items()
}

_COPIED = 50
"""Entries from which COPY is worth the round trips it takes."""
_ESCAPED = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


class Connection:
    """One transaction; statements have a question mark for each value.

    On a server they are sent without waiting until a result is read. So all queries sent before the
    first result is read take one round trip, and all writes take one together with the commit; an
    error in a statement may surface only there. There a ``single`` statement is a transaction of
    its own.
    """

    def __init__(
        self, driver: Any, *, server: bool = False, trial: bool = False, single: bool = False
    ) -> None:
        self.driver, self.server, self.trial = driver, server, trial
        self._head: Any = None
        self._single = single and server
        self._cursors: list[Any] = []
        self._batch: ExitStack | None = None
        if server and not single:
            from psycopg import Pipeline  # noqa: PLC0415

            if Pipeline.is_supported():
                self._batch = ExitStack()
                self._batch.enter_context(driver.pipeline())

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Send one statement; its rows are read from the object returned."""
        if not self.server:
            self._cursors.append(self.driver.execute(statement, values))
            return self._cursors[-1]
        return self.driver.execute(_for_server(statement), values or None)

    def put(self, table: str, rows: Sequence[Sequence[Any]], *, new: bool = False) -> None:
        """Put rows into a table, all at once; rows with the same key are replaced.

        Entries are always ``new``: a row with the same key is an error.
        """
        new = new or table == "entries"
        if self.server and new and len(rows) > _COPIED:
            self._copy(table, rows)
        elif self.server and len(rows) > 1:
            objects = [dict(zip(_COLUMNS[table], row, strict=True)) for row in rows]
            self.execute(_put_many(table), (json.dumps(objects, ensure_ascii=False),))
        elif len(rows) > 1:
            self.driver.executemany(_put(table), rows)
        elif rows:
            self.execute(_put(table), rows[0])

    def _copy(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Put many new rows into a table, in the text format of COPY."""
        self.wait()  # COPY takes no statements that were sent ahead
        text = f"COPY pufferkit_{table} FROM STDIN"
        with self.driver.cursor() as cursor, cursor.copy(text) as copy:
            copy.write(_copied(rows))

    def among(self, column: str, names: Sequence[str]) -> tuple[str, Any]:
        """The condition that a column has one of these values, and its parameter."""
        if len(names) == 1:
            return f"{column} = ?", names[0]
        if self.server:
            return f"{column} IN (SELECT json_array_elements_text(?))", json.dumps(names)
        return f"{column} IN (SELECT value FROM json_each(?))", json.dumps(names)

    def begin(self, *, writes: bool) -> None:
        """Begin a transaction: to write under the lock, or to read one snapshot."""
        if self._single:
            return
        if self.server:
            self.execute(
                f"BEGIN ISOLATION LEVEL {'READ COMMITTED' if writes else 'REPEATABLE READ'}"
            )
        else:
            self.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    def lock(self) -> None:
        """Take the write lock of a ledger on a server; later queries see current data."""
        if self.server:
            self._head = self.execute("SELECT seq, digest FROM pufferkit_head FOR UPDATE")

    @property
    def stored_head(self) -> tuple[int, str] | None:
        """Number and digest of the last entry, queried once; ``None`` if the head is missing."""
        if not isinstance(self._head, tuple):
            answer = self._head or self.execute("SELECT seq, digest FROM pufferkit_head")
            row = answer.fetchone()
            if row is None:
                return None
            self._head = (int(row[0]), str(row[1]))
        return self._head

    @property
    def head(self) -> tuple[int, str]:
        """The same; raises if the head is missing."""
        last = self.stored_head
        if last is None:
            raise LedgerError("ledger: its head is missing, so it was damaged; restore a backup")
        return last

    @head.setter
    def head(self, last: tuple[int, str]) -> None:
        self.execute("UPDATE pufferkit_head SET seq = ?, digest = ?", last)
        self._head = last

    def commit(self) -> None:
        """Commit; raises if the outcome is not known."""
        if self._single:
            return
        end = self.execute("COMMIT")
        self.wait()
        if self.server and end.statusmessage != "COMMIT":
            raise LedgerError("ledger: the server rolled a transaction back; try again")

    def roll_back(self) -> None:
        """Roll back what was not committed."""
        self.wait()
        if not self._single:
            self.execute("ROLLBACK")

    def drop(self) -> None:
        """End the transaction and close the connection in whatever state it is.

        A cursor of SQLite that was not read to its end would keep the lock, also after a rollback.
        """
        for cursor in self._cursors:
            cursor.close()
        if not self.server:
            self.driver.rollback()
        self.driver.close()

    def wait(self) -> None:
        """Wait for what was sent; from now on every statement is waited for."""
        if self._batch is not None:
            self._batch.close()

    def tables(self) -> set[str]:
        """The tables of a ledger that exist."""
        names = [f"pufferkit_{name}" for name in _TABLES]
        listed, where = "sqlite_master", "type = 'table'"
        if self.server:
            listed, where = "pg_class", "relkind = 'r' AND pg_table_is_visible(oid)"
        text, value = self.among("relname" if self.server else "name", names)
        column = text.split()[0]
        rows = self.execute(f"SELECT {column} FROM {listed} WHERE {where} AND {text}", (value,))
        return {name.removeprefix("pufferkit_") for (name,) in rows}

    def noted(self, name: str) -> str | None:
        """A value the ledger has noted about itself under a name."""
        return self.ask(name)()

    def ask(self, name: str) -> Callable[[], str | None]:
        """The same, asked now and looked at later."""
        asked = self.execute("SELECT value FROM pufferkit_meta WHERE name = ?", (name,))
        # SQLite answers at once, and a query that is not read to its end keeps the file open.
        rows = None if self.server else asked.fetchall()

        def answer() -> str | None:
            answers = asked.fetchall() if rows is None else rows
            return str(answers[0][0]) if answers else None

        return answer


@cache
def _for_server(statement: str) -> str:
    return statement.replace("?", "%s")


def _copied(rows: Sequence[Sequence[Any]]) -> str:
    """Rows in the text format of COPY: tabs between columns, the rest escaped."""
    pattern = "\t".join(["%s"] * len(rows[0])) + "\n"
    text = "".join([pattern % tuple(row) for row in rows])
    tabs, ends = len(rows) * (len(rows[0]) - 1), len(rows)
    plain = text.count("\t") == tabs and text.count("\n") == ends
    if not plain or "\\" in text or "\r" in text:
        escaped = ([str(value).translate(_ESCAPED) for value in row] for row in rows)
        text = "".join([pattern % tuple(row) for row in escaped])
    return text


@cache
def _put(table: str) -> str:
    marks = ", ".join("?" * len(_COLUMNS[table]))
    return f"INSERT INTO pufferkit_{table} VALUES ({marks}){_replacing(table)}"


@cache
def _put_many(table: str) -> str:
    name = f"pufferkit_{table}"
    rows = f"json_populate_recordset(NULL::{name}, ?)"
    return f"INSERT INTO {name} SELECT * FROM {rows}{_replacing(table)}"


def _replacing(table: str) -> str:
    """An entry is never replaced."""
    if table == "entries":
        return ""
    key, *rest = _COLUMNS[table]
    new = ", ".join(f"{column} = excluded.{column}" for column in rest)
    return f" ON CONFLICT ({key}) DO UPDATE SET {new}"


# -- creation -------------------------------------------------------------------------------------


def fill(connection: Connection) -> None:
    """Create the tables and the head of a new ledger."""
    for name, columns in _TABLES.items():
        if connection.server:  # where INTEGER means 32 bits
            columns = columns.replace("seq INTEGER", "seq BIGINT")  # noqa: PLW2901
        connection.execute(f"CREATE TABLE pufferkit_{name} ({columns})")
    connection.put("meta", [("schema", str(SCHEMA_VERSION))])
    connection.put("head", [(SCHEMA_VERSION, 0, GENESIS)])


def is_ledger(connection: Connection) -> bool:
    """Whether these are the tables of a ledger; raises if they are of another version."""
    if not {"meta", "head", "entries"} <= connection.tables():
        return False
    stored = connection.noted("schema")
    if stored is None or not stored.isdigit():
        return False
    if int(stored) != SCHEMA_VERSION:
        raise ValueError(
            f"ledger: it was written by another version of pufferkit (schema {stored}, this one "
            f"knows {SCHEMA_VERSION}); use that version"
        )
    return True
