"""The ledger's database: tables and versions, where it lives, transactions and what goes wrong.

A ledger that does not exist is not made by looking at it: until the first entry is written it reads
as an empty one. A file that exists must be a ledger. An empty or a foreign one is refused, because
a truncated ledger would otherwise come back with its budgets whole.

Errors of a driver can quote what was being written. None of them leaves this file; what does is a
`LedgerError` in words of our own.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa

from pufferkit.errors import LedgerError
from pufferkit.records import name_once, private_file

SCHEMA_VERSION = 3

TABLES = sa.MetaData()


def _table(name: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> sa.Table:
    return sa.Table(f"pufferkit_{name}", TABLES, *columns)


def _text(name: str, most: int | None = None, **options: Any) -> sa.Column[Any]:
    kind = sa.Text() if most is None else sa.String(most)
    return sa.Column(name, kind, nullable=False, **options)


def _whole(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False, **options)


META = _table("meta", _text("name", 40, primary_key=True), _text("value"))
HEAD = _table(
    "head", sa.Column("id", sa.Integer, primary_key=True), _whole("seq"), _text("digest", 64)
)
ACCOUNTS = _table(
    "accounts",
    _text("account", 200, primary_key=True),
    _text("rule", 20),
    *map(_whole, ("budget", "total", "entries")),
)
ENTRIES = _table(
    "entries",
    _whole("seq", primary_key=True, autoincrement=False),
    _text("account", 200, index=True),
    _text("kind", 10),
    _text("key", 64),
    _whole("epsilon"),
    _whole("total"),
    _text("body"),
    _text("made_at", 40),
    _text("made_by", 200),
    _text("previous", 64),
    _text("digest", 64),
    sa.UniqueConstraint("account", "kind", "key"),
)
MARKS = _table("marks", _text("account", 200, primary_key=True), _text("marks"))
STATES = _table("states", _text("account", 200, primary_key=True), _whole("seq"), _text("state"))
GENESIS = "0" * 64

# Steps from schema version n to n + 1, by n. Version 2 has the table of marks, 3 that of states.
_MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {1: MARKS.create, 2: STATES.create}

_LEFT_ALONE: list[Any] = []
"""Connections that a process has from its parent: closing them would be felt there."""

_TRIES = 6
_AGAIN = frozenset({"40001", "40P01"})  # serialisation failure, deadlock
_SQLITE = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_CORRUPT": "the file is damaged; restore a backup and compare it with a noted head",
    "SQLITE_NOTADB": "the file is not an SQLite database",
    "SQLITE_READONLY": "the file or its folder is read-only",
    "SQLITE_BUSY": "another process holds the lock for too long",
    "SQLITE_LOCKED": "another process holds the lock for too long",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_IOERR": "the disk does not read or write",
}

Result = TypeVar("Result")


# -- places ---------------------------------------------------------------------------------------


class SQLiteFile:
    """A ledger in a file."""

    current = False  # whether its tables are known to be of this version

    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir():
            raise ValueError(f"ledger: the folder {self.path.parent} does not exist")
        if self.path.is_dir():
            raise ValueError(f"ledger: {path} is a folder, not a file")
        self.name = str(path)
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self.engine = _sqlite_engine(self._connect)

    def hold(self) -> None:
        """Keep the file open until it is closed: a commit then is one write to the log.

        Before every use it must still be the same file, in the process that opened it. A fork gets
        connections of its own, and those of its parent are left alone.
        """
        self.engine.dispose()
        self.engine = engine = _sqlite_engine(self._connect, sa.pool.QueuePool)

        @sa.event.listens_for(engine, "connect")
        def _note(_: Any, record: Any) -> None:
            record.info["file"] = self._mark()

        @sa.event.listens_for(engine, "checkout")
        def _same(connection: Any, record: Any, proxy: Any) -> None:
            if record.info["file"] != self._mark():
                if record.info["file"][0] != os.getpid():
                    _LEFT_ALONE.append(connection)
                    record.dbapi_connection = proxy.dbapi_connection = None
                raise sa.exc.DisconnectionError

    def _mark(self) -> tuple[Any, ...]:
        """Which file it is, how it can be opened, and in which process; never the same if empty."""
        try:
            there = self.path.stat()
        except OSError:
            return os.getpid(), object()
        if not there.st_size:
            return os.getpid(), object()
        return os.getpid(), there.st_dev, there.st_ino, self._writable

    @property
    def key_path(self) -> Path | None:
        """Where its key lives: beside it."""
        return self.path.with_name(self.path.name + ".key")

    def exists(self) -> bool:
        """Whether there is a file; then it must be a ledger."""
        return self.path.exists()

    def make(self) -> None:
        """A new ledger, complete before it has its name; another process may be first."""
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            private_file(part, b"")
            _fill(_sqlite_engine(lambda: sqlite3.connect(part)))
            name_once(part, self.path)
        finally:
            for left in (part, Path(f"{part}-wal"), Path(f"{part}-shm")):
                left.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of everything."""
        self.engine.dispose()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    @property
    def _writable(self) -> bool:
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def _connect(self) -> sqlite3.Connection:
        path, mode = self.path, "mode=rw"  # never make a file by opening it
        if path.exists() and not self._writable:
            path, mode = self._readable(), "immutable=1"
        if path.exists() and path.stat().st_size == 0:
            raise LedgerError(
                f"ledger: {self.name} is empty; it was cut off, or is no ledger. Restore a backup; "
                "if it never was one, remove the file and it is made anew"
            )
        # One thread at a time has a connection from the pool, whichever opened it.
        name = f"file:{quote(str(path))}?{mode}"
        return sqlite3.connect(name, uri=True, timeout=120, check_same_thread=False)

    def _readable(self) -> Path:
        """Where a file that cannot be written is read; with its log, from a copy of both."""
        log = self.path.with_name(self.path.name + "-wal")
        if not log.exists() or log.stat().st_size == 0:
            return self.path
        if self._copy is None:
            self._copy = tempfile.TemporaryDirectory(prefix="pufferkit-")
            copy = Path(self._copy.name) / "ledger.db"
            shutil.copyfile(self.path, copy)
            shutil.copyfile(log, f"{copy}-wal")
            sqlite3.connect(copy).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        return Path(self._copy.name) / "ledger.db"


class Server:
    """A ledger in a PostgreSQL database."""

    current = False

    def hold(self) -> None:
        """Connections to a server are kept as they are."""

    def __init__(self, url: str) -> None:
        try:
            address = sa.make_url(url.replace("postgresql://", "postgresql+psycopg://", 1))
            self.engine = sa.create_engine(address, pool_pre_ping=True, hide_parameters=True)
        except (sa.exc.ArgumentError, ValueError):
            raise ValueError(
                "ledger: this is not a database URL; like postgresql://user:password@host/name"
            ) from None
        except ModuleNotFoundError as error:
            raise ValueError(
                f"ledger: {error.name} is not installed; pip install 'pufferkit[postgres]'"
            ) from None
        self.name = address.render_as_string(hide_password=True)
        self.password = None if address.password is None else str(address.password)

    @property
    def key_path(self) -> Path | None:
        """A server has no place beside it; the environment may name one."""
        named = os.environ.get("PUFFERKIT_LEDGER_KEY")
        return Path(named) if named else None

    def exists(self) -> bool:
        """Whether the database has a ledger."""
        with self.engine.connect() as connection:
            return sa.inspect(connection).has_table(META.name)

    def make(self) -> None:
        """A new ledger in the database; another process may be first."""
        _fill(self.engine)

    def close(self) -> None:
        """Let go of connections."""
        self.engine.dispose()


Place = SQLiteFile | Server


def place_of(url: str | os.PathLike[str]) -> Place:
    """Where a ledger lives. A path is a path, whatever characters it has."""
    text = os.fspath(url)
    scheme, separator, rest = text.partition("://")
    if not separator or not scheme.replace("+", "").isalnum():
        return SQLiteFile(text)
    if scheme in ("postgresql", "postgresql+psycopg"):
        return Server(text)
    if scheme == "sqlite" and rest.startswith("/"):
        return SQLiteFile(rest[1:])
    raise ValueError(
        f"ledger: {scheme}:// is not a path or a database URL; give a path, or "
        "postgresql://user:password@host/name"
    )


def empty_engine() -> sa.Engine:
    """A ledger without entries, in memory: what one that was not made yet says."""
    engine = _sqlite_engine(lambda: sqlite3.connect(":memory:"), sa.pool.StaticPool)
    _fill(engine)
    return engine


def _sqlite_engine(creator: Any, pool: Any = sa.pool.NullPool) -> sa.Engine:
    """An engine whose write transactions take the write lock first."""
    engine = sa.create_engine("sqlite://", creator=creator, poolclass=pool, hide_parameters=True)

    # Autocommit in the driver, so that our own BEGIN decides when the write lock is taken.
    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous=FULL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("pufferkit_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _fill(engine: sa.Engine) -> None:
    """The tables and the head of a new ledger, in one transaction."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.connection.driver_connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[union-attr]
    with engine.execution_options(pufferkit_writes=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7305520)"))
            if sa.inspect(connection).has_table(META.name):
                return
        TABLES.create_all(connection)
        connection.execute(META.insert().values(name="schema", value=str(SCHEMA_VERSION)))
        connection.execute(HEAD.insert().values(id=1, seq=0, digest=GENESIS))


# -- transactions ---------------------------------------------------------------------------------


def write(place: Place, act: Callable[[sa.Connection], Result]) -> Result:
    """Carry out ``act`` in a transaction that holds the write lock from its start.

    It is done again after a serialisation failure, a deadlock or a lost connection. The commit may
    then have taken effect before, so ``act`` must look first for what it is about to write.
    """

    def locked() -> Result:
        with place.engine.execution_options(pufferkit_writes=True).begin() as connection:
            if connection.dialect.name != "sqlite":
                connection.execute(sa.select(HEAD.c.id).with_for_update())
            if not place.current:
                _migrate(connection)
            result = act(connection)
        place.current = True
        return result

    assurance = (
        "nothing was handed over, and asking again is safe: what was stored is given as it is"
    )
    return _guarded(place, locked, "write", assurance)


def read(place: Place, act: Callable[[sa.Connection], Result]) -> Result:
    """Carry out ``act`` on one snapshot."""

    def looked() -> Result:
        with snapshot(place) as connection:
            return act(connection)

    return _guarded(place, looked, "read")


@contextmanager
def snapshot(place: Place) -> Iterator[sa.Connection]:
    """A connection that sees the ledger as it is at one moment."""
    engine = place.engine
    if engine.dialect.name != "sqlite":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.begin() as connection:
        yield connection


def exists(place: Place) -> bool:
    """Whether there is a ledger; an error if there is something else, or one of a later version."""

    def looked() -> tuple[bool, int | None]:
        if not place.exists():
            return False, None
        with snapshot(place) as connection:
            return True, _version(connection)

    there, version = _guarded(place, looked, "open")
    if there and version is None:
        raise LedgerError(
            f"ledger: cannot open {place.name}: this database is not a ledger of pufferkit, or its "
            "tables were removed; it is left as it is. Name a file that does not exist to make one"
        )
    return there


def make(place: Place) -> None:
    """Make a ledger where there is none."""
    assurance = "no ledger was made"
    try:
        _guarded(place, place.make, "make", assurance)
    except OSError as error:
        raise LedgerError(
            f"ledger: cannot make {place.name} ({type(error).__name__}); {assurance}"
        ) from None


def _migrate(connection: sa.Connection) -> None:
    """Bring the tables to this version; the caller holds the write lock."""
    version = _version(connection)
    while version is not None and version < SCHEMA_VERSION:
        _MIGRATIONS[version](connection)
        version += 1
        connection.execute(META.update().where(META.c.name == "schema").values(value=str(version)))


def _version(connection: sa.Connection) -> int | None:
    tables = set(sa.inspect(connection).get_table_names())
    if not {META.name, HEAD.name, ACCOUNTS.name, ENTRIES.name} <= tables:
        return None
    stored = connection.execute(sa.select(META.c.value).where(META.c.name == "schema")).scalar()
    if stored is None or not str(stored).isdigit():
        return None
    if int(stored) > SCHEMA_VERSION:
        raise ValueError(
            f"ledger: was written by a newer pufferkit (schema {stored}, this one knows "
            f"{SCHEMA_VERSION}); upgrade pufferkit"
        )
    return int(stored)


def _guarded(place: Place, act: Callable[[], Result], doing: str, assurance: str = "") -> Result:
    """``act``, tried again where that helps; errors of the driver in words of our own.

    They are raised after their handler, so that nothing of the driver's hangs on to them.
    """
    words = ""
    for turn in range(_TRIES):
        try:
            return act()
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            words = _words(place, error, doing)
            again = _worth_another_try(error)
        if not again:
            break
        time.sleep(random.uniform(0.01, 0.05) * 2**turn)
    assurance = f"; {assurance}" if assurance else ""
    raise LedgerError(f"ledger: cannot {doing} {place.name}: {words}{assurance}")


def _worth_another_try(error: Exception) -> bool:
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _AGAIN


def _words(place: Place, error: Exception, doing: str) -> str:
    """What is wrong; never what was being written, nor a password."""
    origin = getattr(error, "orig", None) or error
    name = getattr(origin, "sqlite_errorname", None)
    if name is not None:
        known = next((words for code, words in _SQLITE.items() if name.startswith(code)), None)
        return f"{known} ({name})" if known else name
    state = getattr(origin, "sqlstate", None)
    if state is not None:
        return f"the database server answers {type(origin).__name__} ({state})"
    if isinstance(origin, sqlite3.Error):
        return f"SQLite answers {type(origin).__name__}"
    if isinstance(error, sa.exc.OperationalError) and isinstance(place, Server):
        if doing != "open":
            return "the connection to the server was lost"
        # Nothing was sent yet, and the text names host and reason only.
        text = " ".join(str(origin).split())[:200]
        return text.replace(place.password, "***") if place.password else text
    return f"{type(origin).__name__}"
