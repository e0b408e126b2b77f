"""The lines of a ledger: what they are, and how they are read and appended.

There is one way to append: a list of drafts gets its places in the chain, and one entry is a list
of one. Balances, marks and states are kept in tables of their own, and always follow from the
entries. A *state* is what the charges of an account add up to, so that the next charge need not
read them all; the last charge holds its digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from pufferkit.accounting.amounts import show
from pufferkit.accounting.database import ACCOUNTS, ENTRIES, HEAD, MARKS, META, STATES
from pufferkit.errors import LedgerError
from pufferkit.records import canonical, digest

if TYPE_CHECKING:
    from pufferkit.accounting.fingerprints import Data

RULES = ("sum", "composed")
DATA_MARKS = "data marks"
STATE = "state"
"""Under which the body of an entry has the digest of the state that it leads to."""
_AT_ONCE = 5000
_LONGEST_NAME, _LONGEST_KEY = 200, 64


@dataclass(frozen=True)
class Draft:
    """An entry before it has a place in the chain; amounts are millionths of epsilon.

    ``kind`` is ``open`` (an account begins, with its budget), ``budget`` (the budget is changed),
    ``charge`` (privacy is spent) or ``value`` (the noisy answer of a charge). ``key`` ties a value
    to its charge.
    """

    account: str
    kind: str
    key: str
    epsilon: int
    total: int
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Entry(Draft):
    """One line of the ledger, in its place."""

    seq: int
    made_at: str
    made_by: str
    previous: str
    digest: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"seq": self.seq, **fields}

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


@dataclass(frozen=True)
class Terms:
    """What an account is opened with, by its first charge; later charges must bring the same.

    ``budget`` is in millionths. ``about`` are facts to record: which beliefs, which lengths.
    """

    budget: int
    rule: str
    about: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule: must be 'sum' or 'composed', got {self.rule!r}")
        object.__setattr__(self, "about", json.loads(canonical(dict(self.about))))

    def check(self, known: Account, opened: Entry) -> None:
        """Refuse an account that was opened on other terms."""
        if known.rule != self.rule:
            raise ValueError(
                f"account: {known.account!r} adds up by {known.rule!r}, not by {self.rule!r}; it "
                "is not shared between the two"
            )
        there = opened.body["about"]
        if there != self.about:
            different = sorted(
                k for k in {*self.about, *there} if self.about.get(k) != there.get(k)
            )
            raise ValueError(
                f"account: {known.account!r} was opened for other data or beliefs "
                f"({', '.join(different)} differ); release what it was opened for"
            )
        if known.budget != self.budget:
            raise ValueError(
                f"budget: the account {known.account!r} has {show(known.budget)}, not "
                f"{show(self.budget)}; give the budget it has. To change it is an act of its own: "
                "Ledger.change_budget, or pufferkit ledger budget"
            )

    @property
    def body(self) -> dict[str, Any]:
        """As the entry that opens the account has it."""
        return {"budget": self.budget, "rule": self.rule, "about": self.about}


@dataclass(frozen=True)
class Charge:
    """One charge among many; ``total`` is the joint total after it, in millionths.

    ``after`` is the number of entries the account had when the total was worked out, 0 for an
    account that is not there yet; several charges to one account in the same call count on from
    there. ``terms`` open an account with its first charge. ``value`` is the noisy answer, stored in
    the same transaction. ``data`` is what the account is about, to be recognised by. ``state`` is
    what all charges add up to after this one.
    """

    account: str
    key: str
    epsilon: int
    total: int
    body: Mapping[str, Any]
    after: int
    terms: Terms | None = None
    value: Mapping[str, Any] | None = None
    data: Data | None = None
    state: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        checked_name("account", self.account, _LONGEST_NAME)
        checked_name("key", self.key, _LONGEST_KEY)
        for name in ("epsilon", "total", "after"):
            amount = getattr(self, name)
            if not isinstance(amount, int) or isinstance(amount, bool) or amount < 0:
                raise ValueError(f"{name}: must be a whole number from 0 on, got {amount!r}")


def checked_name(argument: str, text: Any, longest: int = _LONGEST_NAME) -> str:
    """A name that every database keeps as it is: text, not empty, not too long."""
    if not isinstance(text, str) or not 1 <= len(text) <= longest or "\0" in text:
        raise ValueError(
            f"{argument}: needs a name, a text of 1 to {longest} characters, got {text!r:.60}"
        )
    return text


def append(
    connection: sa.Connection,
    drafts: Sequence[Draft],
    by: str,
    known: Mapping[str, Account],
    states: Mapping[str, Mapping[str, Any] | None] | None = None,
) -> list[Entry]:
    """Append entries to the chain, in order, and bring the balances to where they lead.

    ``known`` are the accounts as they stood before, ``states`` those that the drafts lead to, with
    ``None`` where that is not known any more; the caller holds the write lock.
    """
    if not drafts:
        return []
    seq, previous = head_of(connection)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    entries: list[Entry] = []
    rows: list[dict[str, Any]] = []
    bodies: dict[int, str] = {}
    who, when = canonical(by), canonical(now)
    state = dict(known)
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
        own = hashlib.sha256(text.encode()).hexdigest()
        entry = Entry(
            draft.account, draft.kind, draft.key, draft.epsilon, draft.total, draft.body,
            seq, now, by, previous, own,
        )  # fmt: skip
        entries.append(entry)
        rows.append({**entry.to_dict(), "body": body})
        state[draft.account] = after_entry(state.get(draft.account), entry)
        previous = own
    connection.execute(ENTRIES.insert(), rows)
    connection.execute(HEAD.update().values(seq=seq, digest=previous))
    changed = {draft.account for draft in drafts}
    _save(connection, [state[name] for name in changed if name not in known], new=True)
    _save(connection, [state[name] for name in changed if name in known], new=False)
    marks = {e.account: canonical(e.body[DATA_MARKS]) for e in entries if DATA_MARKS in e.body}
    for part in _parts(marks):
        connection.execute(MARKS.delete().where(MARKS.c.account.in_(part)))
        connection.execute(MARKS.insert(), [{"account": a, "marks": marks[a]} for a in part])
    if states:
        at = {entry.account: entry.seq for entry in entries if STATE in entry.body}
        for part in _parts(states):
            connection.execute(STATES.delete().where(STATES.c.account.in_(part)))
            new = [
                {"account": a, "seq": at[a], "state": canonical(states[a])}
                for a in part
                if states[a] is not None
            ]
            if new:
                connection.execute(STATES.insert(), new)
    return entries


def leading_to(body: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an entry that leads to this state."""
    return {**body, STATE: digest(state)}


def after_entry(known: Account | None, entry: Entry) -> Account:
    """Where an account stands after one more entry."""
    if entry.kind == "open" or known is None:
        rule, budget = entry.body.get("rule", ""), entry.body.get("budget", 0)
        return Account(entry.account, rule, budget, 0, 1)
    budget = entry.body.get("budget", 0) if entry.kind == "budget" else known.budget
    return replace(known, budget=budget, total=entry.total, entries=known.entries + 1)


def _save(connection: sa.Connection, accounts: Sequence[Account], *, new: bool) -> None:
    if not accounts:
        return
    columns = ("rule", "budget", "total", "entries")
    rows = [{c: getattr(a, c) for c in columns} | {"_name": a.account} for a in accounts]
    values: dict[str, Any] = {c: sa.bindparam(c) for c in columns}
    if new:
        statement: Any = ACCOUNTS.insert().values(account=sa.bindparam("_name"), **values)
    else:
        statement = ACCOUNTS.update().where(ACCOUNTS.c.account == sa.bindparam("_name"))
        statement = statement.values(values)
    connection.execute(statement, rows)


# -- reading --------------------------------------------------------------------------------------


def head_of(connection: sa.Connection) -> tuple[int, str]:
    """Number and digest of the last entry."""
    row = connection.execute(sa.select(HEAD.c.seq, HEAD.c.digest)).first()
    if row is None:
        raise LedgerError("ledger: its head is missing; it was damaged. Restore a backup")
    return int(row.seq), str(row.digest)


def accounts_named(connection: sa.Connection, names: Iterable[str]) -> dict[str, Account]:
    """Where these accounts stand; those that are not there are left out."""
    accounts = {}
    for part in _parts(names):
        for row in connection.execute(ACCOUNTS.select().where(ACCOUNTS.c.account.in_(part))):
            accounts[row[0]] = Account(*row)
    return accounts


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


def keys_named(
    connection: sa.Connection, names: Iterable[str], kind: str, keys: Sequence[str]
) -> set[tuple[str, str]]:
    """Account and key of the entries of one kind that are there."""
    charged: set[tuple[str, str]] = set()
    for part in _parts(names):
        query = sa.select(ENTRIES.c.account, ENTRIES.c.key).where(
            ENTRIES.c.account.in_(part), ENTRIES.c.kind == kind, ENTRIES.c.key.in_(list(keys))
        )
        charged.update((account, key) for account, key in connection.execute(query))
    return charged


def marks_named(connection: sa.Connection, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The marks of these accounts, or of all."""
    query = sa.select(MARKS.c.account, MARKS.c.marks)
    if names is None:
        return {account: json.loads(text) for account, text in connection.execute(query)}
    return {
        account: json.loads(text)
        for part in _parts(names)
        for account, text in connection.execute(query.where(MARKS.c.account.in_(part)))
    }


def state_of(connection: sa.Connection, account: str) -> dict[str, Any] | None:
    """The state of an account; ``None`` if it has none. It must be the one the chain speaks of."""
    version = connection.execute(sa.select(META.c.value).where(META.c.name == "schema")).scalar()
    if version is None or int(version) < 3:  # made by an earlier pufferkit, and only read so far
        return None
    query = sa.select(STATES.c.state, ENTRIES.c.account, ENTRIES.c.body).join_from(
        STATES, ENTRIES, STATES.c.seq == ENTRIES.c.seq, isouter=True
    )
    row = connection.execute(query.where(STATES.c.account == account)).first()
    if row is None:
        return None
    try:
        state: dict[str, Any] = json.loads(row[0])
        whole = row[1] == account and json.loads(row[2]).get(STATE) == digest(state)
    except (TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise LedgerError(
            f"ledger: the state of {account!r} is not the one that its last charge leads to; it "
            "was changed. Restore a backup, and see pufferkit ledger verify"
        )
    return state


def states_of(connection: sa.Connection) -> dict[str, tuple[int, Any]]:
    """The states of all accounts, each with the number of the entry that leads to it."""
    query = sa.select(STATES.c.account, STATES.c.seq, STATES.c.state)
    return {account: (seq, json.loads(text)) for account, seq, text in connection.execute(query)}


def entry_of(row: Any) -> Entry:
    """An entry from a row."""
    values = dict(row._mapping)
    try:
        values["body"] = json.loads(values["body"])
    except (TypeError, ValueError):
        raise LedgerError(f"ledger: entry {values['seq']} was changed: it cannot be read") from None
    return Entry(**values)


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    listed = list(dict.fromkeys(names))
    for start in range(0, len(listed), _AT_ONCE):
        yield listed[start : start + _AT_ONCE]
