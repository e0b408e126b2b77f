"""Many accounts in one transaction: the same rules as for one, checked for each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from pufferkit.accounting.database import (
    ACCOUNTS,
    ENTRIES,
    HEAD,
    Account,
    Entry,
    canonical,
    entry_of,
)

_AT_ONCE = 5000


@dataclass(frozen=True)
class Charge:
    """One charge among many; ``total`` is the joint total after it, in millionths.

    ``after`` is the number of entries the account had when the total was worked out; several
    charges to one account in the same call count on from there.
    """

    account: str
    key: str
    epsilon: int
    total: int
    body: Mapping[str, Any]
    after: int


@dataclass(frozen=True)
class Draft:
    """An entry before it has a place in the chain."""

    account: str
    kind: str
    key: str
    epsilon: int
    total: int
    body: Mapping[str, Any]


def append_many(connection: sa.Connection, drafts: Sequence[Draft], by: str) -> None:
    """Append entries to the chain, in order; the caller holds the write lock."""
    head = connection.execute(HEAD.select()).one()
    seq, previous = head.seq, head.digest
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    rows: list[dict[str, Any]] = []
    bodies: dict[int, str] = {}
    who, when = canonical(by), canonical(now)
    for draft in drafts:
        seq += 1
        # Releases of one run share most of their bodies; equal ones are spelled out once.
        body = bodies.get(id(draft.body))
        if body is None:
            body = bodies[id(draft.body)] = canonical(draft.body)
        # What `canonical` would make of the whole entry: its keys in order.
        text = (
            f'{{"account":{canonical(draft.account)},"body":{body},"epsilon":{draft.epsilon},'
            f'"key":{canonical(draft.key)},"kind":"{draft.kind}","made_at":{when},'
            f'"made_by":{who},"previous":"{previous}","seq":{seq},"total":{draft.total}}}'
        )
        digest = hashlib.sha256(text.encode()).hexdigest()
        rows.append(
            {
                "seq": seq,
                "account": draft.account,
                "kind": draft.kind,
                "key": draft.key,
                "epsilon": draft.epsilon,
                "total": draft.total,
                "body": body,
                "made_at": now,
                "made_by": by,
                "previous": previous,
                "digest": digest,
            }
        )
        previous = digest
    if rows:
        connection.execute(ENTRIES.insert(), rows)
        connection.execute(HEAD.update().values(seq=seq, digest=previous))


def keys_named(
    connection: sa.Connection, names: Iterable[str], kind: str, keys: Sequence[str]
) -> set[tuple[str, str]]:
    """Account and key of the entries of one kind that are there."""
    found: set[tuple[str, str]] = set()
    for part in _parts(names):
        query = sa.select(ENTRIES.c.account, ENTRIES.c.key).where(
            ENTRIES.c.account.in_(part), ENTRIES.c.kind == kind, ENTRIES.c.key.in_(list(keys))
        )
        found.update((account, key) for account, key in connection.execute(query))
    return found


def accounts_named(connection: sa.Connection, names: Iterable[str]) -> dict[str, Account]:
    """Where these accounts stand; those that are not open are left out."""
    found = {}
    for part in _parts(names):
        for row in connection.execute(ACCOUNTS.select().where(ACCOUNTS.c.account.in_(part))):
            found[row[0]] = Account(*row)
    return found


def entries_named(
    connection: sa.Connection, names: Iterable[str], kind: str, keys: Sequence[str] | None = None
) -> Iterator[Entry]:
    """Entries of one kind of these accounts, in order for each account; with these keys only."""
    for part in _parts(names):
        query = ENTRIES.select().where(ENTRIES.c.account.in_(part), ENTRIES.c.kind == kind)
        if keys is not None:
            query = query.where(ENTRIES.c.key.in_(list(keys)))
        for row in connection.execute(query.order_by(ENTRIES.c.seq)):
            yield entry_of(row)


def open_rows(connection: sa.Connection, accounts: Sequence[Account]) -> None:
    """Insert new accounts."""
    if accounts:
        columns = ("account", "rule", "budget", "total", "entries")
        rows = [{name: getattr(account, name) for name in columns} for account in accounts]
        connection.execute(ACCOUNTS.insert(), rows)


def update_rows(connection: sa.Connection, accounts: Iterable[Account]) -> None:
    """Set the balances of accounts."""
    rows = [{"_name": a.account, "total": a.total, "entries": a.entries} for a in accounts]
    if rows:
        connection.execute(
            ACCOUNTS.update()
            .where(ACCOUNTS.c.account == sa.bindparam("_name"))
            .values(total=sa.bindparam("total"), entries=sa.bindparam("entries")),
            rows,
        )


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    listed = list(dict.fromkeys(names))
    for start in range(0, len(listed), _AT_ONCE):
        yield listed[start : start + _AT_ONCE]
