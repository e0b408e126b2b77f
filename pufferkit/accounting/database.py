"""The ledger's database: tables, versions, locks, and the reading and appending of entries."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

SCHEMA_VERSION = 1

TABLES = sa.MetaData()
META = sa.Table(
    "pufferkit_meta",
    TABLES,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
HEAD = sa.Table(
    "pufferkit_head",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)
ACCOUNTS = sa.Table(
    "pufferkit_accounts",
    TABLES,
    sa.Column("account", sa.String(200), primary_key=True),
    sa.Column("rule", sa.String(20), nullable=False),
    sa.Column("budget", sa.BigInteger, nullable=False),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("entries", sa.BigInteger, nullable=False),
)
ENTRIES = sa.Table(
    "pufferkit_entries",
    TABLES,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("account", sa.String(200), nullable=False, index=True),
    sa.Column("kind", sa.String(10), nullable=False),
    sa.Column("key", sa.String(64), nullable=False),
    sa.Column("epsilon", sa.BigInteger, nullable=False),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("made_at", sa.String(40), nullable=False),
    sa.Column("made_by", sa.String(200), nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.UniqueConstraint("account", "kind", "key"),
)
GENESIS = "0" * 64

# Steps from schema version n to n + 1, by n. There is only one version so far.
_MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {}


@dataclass(frozen=True)
class Entry:
    """One line of the ledger; amounts are millionths of epsilon.

    ``kind`` is ``open`` (a budget is set), ``charge`` (privacy is spent) or ``value`` (the noisy
    answer of a charge is stored). ``key`` ties a value to its charge.
    """

    seq: int
    account: str
    kind: str
    key: str
    epsilon: int
    total: int
    body: Mapping[str, Any]
    made_at: str
    made_by: str
    previous: str
    digest: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def own_digest(self) -> str:
        """What the digest should be."""
        fields = {k: v for k, v in self.to_dict().items() if k != "digest"}
        return hashlib.sha256(canonical(fields).encode()).hexdigest()


@dataclass(frozen=True)
class Account:
    """Where an account stands; amounts are millionths of epsilon."""

    account: str
    rule: str
    budget: int
    total: int
    entries: int

    @property
    def remaining(self) -> int:
        """What is left."""
        return self.budget - self.total


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that holds the write lock from its start."""
    with engine.execution_options(pufferkit_writes=True).begin() as connection:
        if connection.dialect.name != "sqlite":
            connection.execute(sa.select(HEAD.c.id).with_for_update()).one()
        yield connection


def prepare(engine: sa.Engine) -> None:
    """Create the tables, or bring them to this version. Many processes may start at once."""
    try:
        with engine.execution_options(pufferkit_writes=True).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7305520)"))
            TABLES.create_all(connection)
            stored = connection.execute(
                sa.select(META.c.value).where(META.c.name == "schema")
            ).scalar()
            if stored is None:
                connection.execute(META.insert().values(name="schema", value=str(SCHEMA_VERSION)))
                connection.execute(HEAD.insert().values(id=1, seq=0, digest=GENESIS))
            else:
                _migrate(connection, int(stored))
    except sa.exc.DatabaseError as error:
        reason = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
        place = engine.url.render_as_string(hide_password=True)
        raise ValueError(f"ledger: cannot open {place}: {reason}") from None


def canonical(data: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def append(
    connection: sa.Connection,
    account: str,
    kind: str,
    key: str,
    epsilon: int,
    total: int,
    body: Mapping[str, Any],
    by: str,
) -> Entry:
    """Append an entry to the chain; the caller holds the write lock."""
    head = connection.execute(HEAD.select()).one()
    draft = Entry(
        seq=head.seq + 1,
        account=account,
        kind=kind,
        key=key,
        epsilon=epsilon,
        total=total,
        body=json.loads(canonical(body)),
        made_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        made_by=by,
        previous=head.digest,
        digest="",
    )
    values = {**draft.to_dict(), "digest": draft.own_digest()}
    connection.execute(ENTRIES.insert().values({**values, "body": canonical(body)}))
    connection.execute(HEAD.update().values(seq=draft.seq, digest=values["digest"]))
    return Entry(**values)


def update_account(connection: sa.Connection, known: Account, total: int) -> None:
    """Set the balance of an account after one more entry."""
    connection.execute(
        ACCOUNTS.update()
        .where(ACCOUNTS.c.account == known.account)
        .values(total=total, entries=known.entries + 1)
    )


def account_of(connection: sa.Connection, account: str) -> Account | None:
    """Where an account stands, if it is open."""
    row = connection.execute(ACCOUNTS.select().where(ACCOUNTS.c.account == account)).first()
    return None if row is None else Account(**row._mapping)


def required(connection: sa.Connection, account: str) -> Account:
    """Where an account stands; an error if it is not open."""
    found = account_of(connection, account)
    if found is None:
        raise ValueError(f"account: {account!r} is not in this ledger; open it first")
    return found


def find(connection: sa.Connection, account: str, kind: str, key: str) -> Entry | None:
    """The entry of this kind and key, if there is one."""
    row = connection.execute(
        ENTRIES.select().where(
            ENTRIES.c.account == account, ENTRIES.c.kind == kind, ENTRIES.c.key == key
        )
    ).first()
    return None if row is None else entry_of(row)


def entry_of(row: Any) -> Entry:
    """An entry from a row."""
    values = dict(row._mapping)
    values["body"] = json.loads(values["body"])
    return Entry(**values)


def _migrate(connection: sa.Connection, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"ledger: was written by a newer pufferkit (schema {version}, this one knows "
            f"{SCHEMA_VERSION}); upgrade pufferkit"
        )
    while version < SCHEMA_VERSION:
        _MIGRATIONS[version](connection)
        version += 1
        connection.execute(META.update().where(META.c.name == "schema").values(value=str(version)))


def database_url(url: str | os.PathLike[str]) -> str:
    """A database URL from a path or a URL."""
    text = os.fspath(url)
    if text.startswith("postgresql://"):
        return text.replace("postgresql://", "postgresql+psycopg://", 1)
    if "://" in text:
        return text
    path = Path(text)
    if not path.parent.is_dir():
        raise ValueError(f"ledger: the folder {path.parent} does not exist")
    if path.is_dir():
        raise ValueError(f"ledger: {path} is a folder, not a file")
    return f"sqlite:///{path}"


def engine_of(url: str) -> sa.Engine:
    """An engine whose write transactions take the write lock first."""
    try:
        address = sa.make_url(url)
        if address.get_backend_name() != "sqlite":
            return sa.create_engine(address, pool_pre_ping=True)
        engine = sa.create_engine(
            address, poolclass=sa.pool.NullPool, connect_args={"timeout": 120}
        )
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        raise ValueError(f"ledger: {url!r} is not a path or a database URL ({error})") from None
    except ModuleNotFoundError as error:
        raise ValueError(
            f"ledger: {error.name} is not installed; pip install 'pufferkit[postgres]'"
        ) from None

    # Autocommit in the driver, so that our own BEGIN decides when the write lock is taken.
    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("pufferkit_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
