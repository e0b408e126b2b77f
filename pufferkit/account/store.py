"""Where a ledger lives: its tables, a file or a server, and the connections that are kept open."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pufferkit.errors import LedgerError
from pufferkit.records import name_once, private_file

# -- ledger tables -------------------------------------------------------------------------------


SCHEMA_VERSION = 1
GENESIS = "0" * 64

_TABLES = {
    "head": "id INTEGER NOT NULL PRIMARY KEY, seq BIGINT NOT NULL, digest VARCHAR(64) NOT NULL",
    "entries": "seq INTEGER NOT NULL PRIMARY KEY, account VARCHAR(200) NOT NULL, "
    "kind VARCHAR(10) NOT NULL, key VARCHAR(64) NOT NULL, epsilon BIGINT NOT NULL, "
    "total BIGINT NOT NULL, rule VARCHAR(20) NOT NULL, budget BIGINT NOT NULL, "
    "number BIGINT NOT NULL, body TEXT NOT NULL, marks TEXT NOT NULL, value TEXT NOT NULL, "
    "made_at VARCHAR(40) NOT NULL, made_by VARCHAR(200) NOT NULL, previous VARCHAR(64) NOT NULL, "
    "digest VARCHAR(64) NOT NULL, UNIQUE (account, kind, key), UNIQUE (account, seq)",
    "states": "account VARCHAR(200) NOT NULL PRIMARY KEY, seq BIGINT NOT NULL, state TEXT NOT NULL",
}

_HEAD = "SELECT id, seq, digest FROM pufferkit_head"
"""The version of the tables, and the end of the chain."""


def _columns_of(table: str) -> list[str]:
    """The columns of a table, each a name, a type and what it must be."""
    return _TABLES[table].split(", UNIQUE")[0].split(", ")


class Connection:
    """One transaction; statements have a question mark for each value.

    On a server they are sent without waiting until a result is read. So all queries sent before the
    first result is read take one round trip, and all writes take one together with the commit; an
    error in a statement may surface only there.
    """

    def __init__(self, driver: Any, *, server: bool = False, trial: bool = False) -> None:
        self.driver, self.server, self.trial = driver, server, trial
        self._head: Any = None
        self._cursors: list[Any] = []
        self._batch: ExitStack | None = None
        if server:
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

    def put(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a table, all at once; rows with the same key are replaced.

        Of entries a row with the same key is an error.
        """
        if self.server and len(rows) > 1:
            self.execute(_put_many(table), [list(column) for column in zip(*rows, strict=True)])
        elif len(rows) > 1:
            self.driver.executemany(_put(table), rows)
        elif rows:
            self.execute(_put(table), rows[0])

    def among(self, column: str, names: Sequence[str]) -> tuple[str, Any]:
        """The condition that a column has one of these values, and its parameter."""
        if len(names) == 1:
            return f"{column} = ?", names[0]
        return f"{column} IN (SELECT name FROM {self.listed('name')})", json.dumps(names)

    def listed(self, column: str) -> str:
        """A table of one column, from a list in JSON that is its parameter."""
        if self.server:
            return f"json_array_elements_text(?) AS listed({column})"
        return f"(SELECT value AS {column} FROM json_each(?))"

    def begin(self, *, writes: bool) -> None:
        """Begin a transaction: to write under the lock, or to read one snapshot."""
        if self.server:
            self.execute(
                f"BEGIN ISOLATION LEVEL {'READ COMMITTED' if writes else 'REPEATABLE READ'}"
            )
        else:
            self.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    def lock(self) -> None:
        """Take the write lock of a ledger on a server; later queries see current data."""
        if self.server:
            self._head = self.execute(f"{_HEAD} FOR UPDATE")

    @property
    def stored_head(self) -> tuple[int, str] | None:
        """Number and digest of the last entry, queried once; ``None`` if the head is missing.

        Raises if the tables are those of another version.
        """
        if not isinstance(self._head, tuple):
            row = (self._head or self.execute(_HEAD)).fetchone()
            if row is None:
                return None
            if row[0] != SCHEMA_VERSION:
                raise LedgerError(
                    "ledger: it was replaced, or changed by another version of pufferkit; nothing "
                    "was written"
                )
            self._head = (int(row[1]), str(row[2]))
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
        end = self.execute("COMMIT")
        self.wait()
        if self.server and end.statusmessage != "COMMIT":
            raise LedgerError("ledger: the server rolled a transaction back; try again")

    def roll_back(self) -> None:
        """Roll back what was not committed."""
        self.wait()
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


@cache
def _for_server(statement: str) -> str:
    return statement.replace("?", "%s")


@cache
def _put(table: str) -> str:
    marks = ", ".join("?" * len(_columns_of(table)))
    return f"INSERT INTO pufferkit_{table} VALUES ({marks}){_replacing(table)}"


@cache
def _put_many(table: str) -> str:
    """On a server: one array for each column, sent as binary, which costs it half."""
    kinds = (part.split()[1] for part in _columns_of(table))
    arrays = ", ".join("%b::bigint[]" if "INT" in kind else "%b::text[]" for kind in kinds)
    return f"INSERT INTO pufferkit_{table} SELECT * FROM unnest({arrays}){_replacing(table)}"


def _replacing(table: str) -> str:
    """An entry is never replaced."""
    if table == "entries":
        return ""
    key, *rest = (part.split()[0] for part in _columns_of(table))
    new = ", ".join(f"{column} = excluded.{column}" for column in rest)
    return f" ON CONFLICT ({key}) DO UPDATE SET {new}"


# -- creation -------------------------------------------------------------------------------------


def fill(connection: Connection) -> None:
    """Create the tables and the head of a new ledger."""
    for name, columns in _TABLES.items():
        if connection.server:  # where INTEGER means 32 bits
            columns = columns.replace("seq INTEGER", "seq BIGINT")  # noqa: PLW2901
        connection.execute(f"CREATE TABLE pufferkit_{name} ({columns})")
    connection.execute(
        "CREATE INDEX pufferkit_marked ON pufferkit_entries (account, seq) WHERE marks <> ''"
    )
    connection.put("head", [(SCHEMA_VERSION, 0, GENESIS)])


def is_ledger(connection: Connection) -> bool:
    """Whether these are the tables of a ledger; raises if they are of another version."""
    if not {"head", "entries"} <= connection.tables():
        return False
    row = connection.execute(_HEAD).fetchone()
    if row is not None and row[0] != SCHEMA_VERSION:
        raise ValueError(
            f"ledger: it was written by another version of pufferkit (schema {row[0]}, this one "
            f"knows {SCHEMA_VERSION}); use that version"
        )
    return True


# -- ledger places -------------------------------------------------------------------------------


_ENDED = frozenset({"57P01", "57P02", "57P05", "25P03"})
"""The server is shutting down, stops after a crash, or ends idle connections."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_SOON, _REST = 0.25, 0.5
"""Seconds between two uses of a burst, and seconds after which a file at rest is closed."""
_LEFT_ALONE: list[Any] = []
"""Connections inherited from the parent process: closing them would break them there."""


class DriverError(Exception):
    """An error of a driver: whether a connection was lost with it or could not be made."""

    def __init__(self, origin: Exception, *, lost: bool = False, unopened: bool = False) -> None:
        super().__init__()
        self.origin, self.lost, self.unopened = origin, lost, unopened


def _part(mark: Any, driver: Any) -> None:
    """Close a connection, if this process opened it."""
    if mark[0] == os.getpid():
        driver.close()
    else:
        _LEFT_ALONE.append(driver)


def _let_go(idle: list[tuple[Any, Any]]) -> None:
    """Part with all connections that are not in use."""
    while idle:
        with suppress(IndexError):  # another thread took it first
            _part(*idle.pop())


class Place:
    """Where a ledger lives, and the open connections that are not in use.

    Opening and closing a file takes several times as long as a transaction. So a connection that is
    used again at once is kept, until it has been at rest for half a second.
    """

    name: str
    server = False
    held = False
    """Whether connections are kept until the place is closed."""
    named = False
    """Whether the chain is known to name the keys that are used."""

    def __init__(self) -> None:
        self._idle: list[tuple[Any, Any]] = []
        self._last_use = -math.inf
        self._rest: threading.Timer | None = None
        weakref.finalize(self, _let_go, self._idle)  # at the latest when the process ends

    @contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        """A transaction that is committed at the end, or rolled back after an error.

        After any other end, Ctrl-C included, it is rolled back and its connection closed at once:
        cursors in the frames of the exception would keep the lock for as long as it lives.
        A connection is reused only in the process that opened it, and only while the place is the
        one it was opened for. A child process leaves the connections of its parent alone.
        """
        mark, soon = self._mark(), time.monotonic() < self._last_use + _SOON
        try:
            driver = self._taken(mark)
            if driver is None:
                driver = self._open()
                mark = mark if self._writable else (*mark, object())
        except self._errors as error:
            raise DriverError(error, unopened=True) from None
        kept, connection = False, None
        try:
            connection = Connection(driver, server=self.server)
            connection.begin(writes=writes)
            yield connection
            connection.commit()
            kept = True
        except self._errors as error:
            # The server may announce the end of a connection before the driver sees it closed.
            ended = getattr(error, "sqlstate", None) in _ENDED
            lost = self.server and (ended or bool(driver.closed))
            if lost:
                _let_go(self._idle)  # those of the same server are likely lost as well
            raise DriverError(error, lost=lost) from None
        except Exception:
            with suppress(*self._errors):
                if connection is not None:
                    connection.roll_back()
                    kept = True
            raise
        finally:
            self._last_use = time.monotonic()
            if kept and (self.held or soon):
                self._idle.append((mark, driver))
                self._watch()
            else:
                self._drop(driver, connection)

    def _drop(self, driver: Any, connection: Connection | None) -> None:
        """Roll back and close a connection in whatever state it is."""
        with suppress(*self._errors):
            if connection is not None:
                connection.drop()
        with suppress(*self._errors):
            driver.close()
        with suppress(*self._errors):
            if connection is not None:
                connection.wait()

    def _taken(self, mark: Any) -> Any:
        while self._idle:
            try:
                known, driver = self._idle.pop()
            except IndexError:  # another thread took it first
                break
            if known == mark:
                return driver
            _part(known, driver)
        return None

    def _watch(self) -> None:
        """Close connections that are not held once they have been at rest for a while."""
        if not self.held and (self._rest is None or not self._rest.is_alive()):
            self._rest = threading.Timer(_REST, self._look)
            self._rest.daemon = True
            self._rest.start()

    def _look(self) -> None:
        self._rest = None
        if self._idle and time.monotonic() < self._last_use + _REST:
            self._watch()
        elif not self.held:
            _let_go(self._idle)

    def close(self) -> None:
        """Close all connections."""
        _let_go(self._idle)

    def is_ledger(self) -> bool | None:
        """Whether a ledger lives here; ``None`` if nothing does."""
        raise NotImplementedError

    def make(self) -> None:
        """Create a ledger; another process may do so first."""
        raise NotImplementedError

    @property
    def key_path(self) -> Path | None:
        """Place of the key by which data are recognised."""
        raise NotImplementedError

    _errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    @property
    def _writable(self) -> bool:
        """What is opened to be read alone does not see what others write, and is not used again."""
        return True

    def _mark(self) -> tuple[Any, ...]:
        """The process, and whatever else must be unchanged for a connection to be reused."""
        return (os.getpid(),)

    def _open(self) -> Any:
        raise NotImplementedError


class SQLiteFile(Place):
    """A ledger in a file.

    While the file is open, a commit is one write to the log. Before every use it must still be the
    same file.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir():
            raise ValueError(f"ledger: the folder {self.path.parent} does not exist")
        if self.path.is_dir():
            raise ValueError(f"ledger: {path} is a folder, not a file")
        self.name, self._text, self._folder = str(path), str(self.path), str(self.path.parent)
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._copied: list[tuple[int, int, int]] = []

    def _mark(self) -> tuple[Any, ...]:
        """The process, the file and who may write it; never equal if the file is empty."""
        try:
            there = os.stat(self._text)
        except OSError:
            return os.getpid(), object()
        if not there.st_size:
            return os.getpid(), object()
        return os.getpid(), there.st_dev, there.st_ino, there.st_mode, there.st_uid

    @property
    def key_path(self) -> Path | None:
        """Beside the file."""
        return self.path.with_name(self.path.name + ".key")

    def is_ledger(self) -> bool | None:
        """Whether the file is a ledger; ``None`` if there is no file."""
        if not self.path.exists():
            return None
        with self.transaction() as connection:
            return is_ledger(connection)

    def make(self) -> None:
        """Create a ledger, complete before it gets its name; another process may do so first."""
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            private_file(part, b"")
            driver = sqlite3.connect(part, isolation_level=None)
            try:
                driver.execute("PRAGMA journal_mode=WAL")
                driver.execute("PRAGMA synchronous=FULL")
                connection = Connection(driver)
                connection.begin(writes=True)
                fill(connection)
                connection.commit()
            finally:
                driver.close()
            name_once(part, self.path)
        except (sqlite3.Error, OSError) as error:
            raise DriverError(error) from None
        finally:
            for left in (part, Path(f"{part}-wal"), Path(f"{part}-shm")):
                left.unlink(missing_ok=True)

    def close(self) -> None:
        """Close all connections."""
        super().close()
        self.held = False
        self._forget_copy()

    def _forget_copy(self) -> None:
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    @property
    def _writable(self) -> bool:
        return os.access(self._text, os.W_OK) and os.access(self._folder, os.W_OK)

    def _open(self) -> sqlite3.Connection:
        path, mode = self.path, "mode=rw"  # opening must never create a file
        if path.exists() and not self._writable:
            path, mode = self._readable(), "immutable=1"
        if path.exists() and path.stat().st_size == 0:
            raise LedgerError(
                f"ledger: {self.name} is empty: it was truncated, or is not a ledger. Restore a "
                "backup; if it never was a ledger, remove the file, and a new one is created"
            )
        # A connection is used by one thread at a time, whichever opened it. The driver runs in
        # autocommit, so that our own BEGIN decides when the write lock is taken.
        name = f"file:{quote(os.fsencode(path))}?{mode}"
        driver = sqlite3.connect(
            name, uri=True, timeout=120, check_same_thread=False, isolation_level=None
        )
        driver.execute("PRAGMA synchronous=FULL")
        return driver

    def _readable(self) -> Path:
        """Place from which a read-only file is read: a copy, if it has a log."""
        log = self.path.with_name(self.path.name + "-wal")
        if not log.exists() or log.stat().st_size == 0:
            return self.path
        now = [(one.st_ino, one.st_size, one.st_mtime_ns) for one in map(os.stat, (self.path, log))]
        if self._copy is None or self._copied != now:  # others may write it
            self._forget_copy()
            self._copy, self._copied = tempfile.TemporaryDirectory(prefix="pufferkit-"), now
            copy = Path(self._copy.name) / "ledger.db"
            shutil.copyfile(self.path, copy)
            shutil.copyfile(log, f"{copy}-wal")
            sqlite3.connect(copy).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        return Path(self._copy.name) / "ledger.db"


class Server(Place):
    """A ledger in a PostgreSQL database; connections are kept."""

    server = held = True

    def __init__(self, url: str) -> None:
        super().__init__()
        try:
            import psycopg  # noqa: PLC0415
            from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ValueError(
                f"ledger: {error.name} is not installed; pip install 'pufferkit[postgres]'"
            ) from None
        self._driver, self._errors = psycopg, (psycopg.Error,)
        self.unreachable = psycopg.OperationalError
        self._address = url.replace("postgresql+psycopg://", "postgresql://", 1)
        parts: dict[str, Any] | None = None
        with suppress(psycopg.Error):  # its text may contain the password
            parts = conninfo_to_dict(self._address)
        if parts is None or not str(parts.get("port", "1")).isdigit():
            raise ValueError(
                "ledger: this is not a database URL such as postgresql://user:password@host/name"
            )
        self.password = parts.get("password")
        user, host, port = (str(parts.get(part) or "") for part in ("user", "host", "port"))
        user += "" if self.password is None else ":***"
        where = host + (f":{port}" if port else "")
        self.name = f"postgresql://{user}{'@' if user else ''}{where}/{parts.get('dbname', '')}"

    @property
    def key_path(self) -> Path | None:
        """The file named by the environment: a server has no folder beside it."""
        named = os.environ.get("PUFFERKIT_LEDGER_KEY")
        return Path(named) if named else None

    def is_ledger(self) -> bool | None:
        """Whether the database has a ledger; ``None`` if it has none of its tables."""
        with self.transaction() as connection:
            if "head" not in connection.tables():
                return None
            return is_ledger(connection)

    def make(self) -> None:
        """Create a ledger in the database; another process may do so first."""
        with self.transaction(writes=True) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(7305520)")
            if "head" not in connection.tables():
                fill(connection)

    def _open(self) -> Any:
        driver = self._driver.connect(self._address, autocommit=True)
        # Where the server would answer before a commit is on its disk, it is told to wait.
        driver.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
        return driver


def place_of(url: str | os.PathLike[str]) -> Place:
    """The place of a ledger. A path may contain any characters."""
    text = os.fspath(url)
    scheme, separator, rest = text.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme.strip()):
        return SQLiteFile(text)
    if scheme in ("postgresql", "postgresql+psycopg"):
        return Server(text)
    if scheme == "sqlite" and rest.startswith("/"):
        return SQLiteFile(rest[1:])
    raise ValueError(
        f"ledger: {scheme}:// is not a path or a database URL; give a path, or "
        "postgresql://user:password@host/name"
    )


@contextmanager
def empty(*, trial: bool = False) -> Iterator[Connection]:
    """An empty ledger in memory, which stands for one that does not exist yet.

    With ``trial``, something is written to it that will then be written to a new ledger.
    """
    driver = sqlite3.connect(":memory:", isolation_level=None)
    try:
        fill(Connection(driver))
        yield Connection(driver, trial=trial)
    finally:
        driver.close()
