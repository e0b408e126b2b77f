"""The ledger: a persistent, append-only account of what has been spent.

Reading a ledger that does not exist does not create it: until the first entry is written it reads
as an empty one. A file that exists must be a ledger. An empty or foreign file is refused, because
a truncated ledger would otherwise come back with its budgets unspent. Anchors are checked and
advanced here.

Error messages of a driver can quote the data being written. They never leave this module, which
raises a `LedgerError` with a message of its own instead.

Every entry names its account, what was done, and the account's total after it, and carries a digest
of itself and of the previous digest. So an entry that was changed, removed or inserted later breaks
the chain, and `verify` reports where. Anyone who can write the database can also rewrite all of it
from some point on, or replace it by an old copy: an `Anchor`, a head kept elsewhere, reveals that.

Spending takes the database's write lock first, then reads, checks and appends in one transaction:
``BEGIN IMMEDIATE`` with full synchronisation on SQLite, a row lock on PostgreSQL. Two processes
cannot both take the last of a budget.

A release is a charge and a value, written in one transaction. Nothing is handed over before the
commit, and what is handed over is what is stored: if the commit fails, the drawn value is dropped;
if its outcome is unknown, asking again returns the stored value, or charges and draws anew. An
account is created by its first charge, in the same transaction.
"""

from __future__ import annotations

import getpass
import json
import os
import random
import secrets
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pufferkit import checks
from pufferkit.account.amounts import allowed_micro, in_epsilon, show, spent_micro
from pufferkit.account.chain import (
    BELIEFS,
    LEDGER,
    LONGEST_KEY,
    OPENS,
    START,
    STATE,
    TERMS,
    Anchor,
    Balance,
    Draft,
    Entry,
    Head,
    accounts_named,
    accounts_of,
    after_entry,
    append,
    asked_before,
    body_of,
    charges_named,
    checked_name,
    entries_named,
    entry_of,
    keys_named,
    name_keys,
    named_keys,
    rows,
    rows_after,
    states_named,
    states_of,
)
from pufferkit.account.marks import Data, Recognition
from pufferkit.account.standing import Standing
from pufferkit.account.store import (
    GENESIS,
    Connection,
    DriverError,
    Place,
    Server,
    empty,
    place_of,
)
from pufferkit.errors import LedgerError, OverBudget
from pufferkit.records import canonical, digest
from pufferkit.shown import Shown

# -- charges -------------------------------------------------------------------------------------


RULES = ("sum", "composed")


@dataclass(frozen=True)
class Terms:
    """The terms on which the first charge opens an account; later charges must state the same.

    ``budget`` is in millionths. ``about`` holds facts to record, such as the digest of the beliefs,
    whose record is ``beliefs``.
    """

    budget: int
    rule: str
    about: Mapping[str, Any]
    beliefs: Mapping[str, Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule: must be 'sum' or 'composed', got {self.rule!r}")
        object.__setattr__(self, "about", json.loads(canonical(dict(self.about))))

    def check(self, known: Balance, opened: Mapping[str, Any]) -> None:
        """Refuse an account that was opened on other terms, by an entry with this body."""
        if known.rule != self.rule:
            raise ValueError(
                f"account: {known.account!r} adds up by the rule {known.rule!r}, not by "
                f"{self.rule!r}; use a different account for the other rule"
            )
        there = opened["about"]
        if there != self.about:
            different = sorted(
                k for k in {*self.about, *there} if self.about.get(k) != there.get(k)
            )
            why = "use it for those, or choose another name"
            if ("every" in self.about) != ("every" in there):  # times that are numbers
                why = (
                    "a table counts entries by its times, also where these are numbers, and a "
                    "series without a calendar from its first entry on: read both in one way, with "
                    "subject= or without; or give timestamps, by which both are placed"
                )
            raise ValueError(
                f"account: {known.account!r} was opened for other data or beliefs "
                f"({', '.join(different)} differ); {why}"
            )
        if known.budget != self.budget:
            raise ValueError(
                f"budget: the account {known.account!r} has {show(known.budget)}, not "
                f"{show(self.budget)}; give the budget it has. To change it, call "
                "Ledger.change_budget or run pufferkit ledger budget"
            )

    @cached_property
    def body(self) -> dict[str, Any]:
        """The body of an entry that opens an account; one object for all accounts it opens."""
        return {"budget": self.budget, "rule": self.rule, "about": self.about}


class Charge(NamedTuple):
    """One charge among many; ``total`` is the joint total after it, in millionths.

    ``after`` is the number of entries the account had when the total was computed, 0 for an account
    that does not exist yet; several charges to one account in the same call are counted on from
    there. Both are ``None`` for an account whose amounts add up. ``terms`` open an account with its
    first charge. ``value`` is the noisy answer, stored in the same transaction. ``state`` is the
    accumulated state after this charge. ``rows`` are those of its window alone, where an account is
    charged window by window; ``body["use"]`` says which.
    """

    account: str
    key: str
    epsilon: int
    total: int | None
    body: Mapping[str, Any]
    after: int | None
    terms: Terms | None = None
    value: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    rows: Data | None = None


def checked_charges(charges: Sequence[Charge]) -> tuple[list[str], list[str]]:
    """Accounts and keys of these charges; raises if a name or an amount cannot be stored."""
    names = list(dict.fromkeys([charge.account for charge in charges]))
    keys = list(dict.fromkeys([charge.key for charge in charges]))
    for name in names:
        checked_name("account", name)
    for key in keys:
        checked_name("key", key, LONGEST_KEY)
    for name in ("epsilon", "total", "after"):
        for amount in set(map(attrgetter(name), charges)) - _ADDED[name]:
            if type(amount) is not int or amount < 0:
                raise ValueError(f"{name}: must be an integer of at least 0, got {amount!r}")
    return names, keys


_ADDED: Mapping[str, frozenset[None]] = {
    "epsilon": frozenset(),
    "total": frozenset({None}),
    "after": frozenset({None}),
}


@dataclass(frozen=True)
class Read:
    """What a payment has to know.

    Of each account that exists its balance, what it was opened with and its state; and values and
    charges, by account and key. ``head`` is the end of the chain at that moment: as long as it is
    the same, so is all of this.
    """

    balances: Mapping[str, Balance]
    opened: Mapping[str, Mapping[str, Any]]
    states: Mapping[str, Mapping[str, Any]]
    values: Mapping[tuple[str, str], Mapping[str, Any]]
    charged: Set[tuple[str, str]]
    head: tuple[int, str]

    @classmethod
    def of(cls, connection: Connection, accounts: Sequence[str], keys: Sequence[str] = ()) -> Read:
        """What is stored at this moment; entries that were changed raise."""
        if not accounts:
            return cls({}, {}, {}, {}, set(), connection.head)
        asked = asked_before(connection, accounts, keys)  # sent before the first is read
        balances = accounts_named(connection, accounts)
        kept = states_named(connection, accounts)
        opened: dict[str, Mapping[str, Any]] = {}
        values: dict[tuple[str, str], Mapping[str, Any]] = {}
        charged: set[tuple[str, str]] = set()
        alike: dict[str, Mapping[str, Any]] = {}  # many accounts have the same terms
        for seq, name, kind, key, text, value in sorted(asked, key=lambda row: abs(row[0])):
            if seq > 0:
                charged.add((name, key))
                if value:
                    values[name, key] = body_of(seq, value)
                continue
            if text not in alike:
                alike[text] = _terms_in(-seq, name, kind, body_of(-seq, text))
            opened[name] = alike[text]
        return cls(balances, opened, kept, values, charged, connection.head)


def _terms_in(seq: int, name: str, kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The terms that an entry states: one of its own, or the first charge of an account."""
    terms = body if kind != "charge" else body.get(OPENS)
    if name != LEDGER and (not isinstance(terms, dict) or "about" not in terms):
        raise LedgerError(
            f"ledger: entry {seq}, the first of {name!r}, does not open it, so entries were "
            "removed. Restore a backup and run pufferkit ledger verify"
        )
    return terms or {}


States = dict[str, Mapping[str, Any] | None]
"""The accumulated states of accounts; ``None`` where the stored one is out of date."""


def drafts_of(
    charges: Sequence[Charge],
    before: Mapping[str, Balance],
    paid: Set[tuple[str, str]],
    marks: Mapping[str, Mapping[str, Any]],
) -> tuple[list[Draft], States] | None:
    """Charges with their values in order, and the states that they lead to.

    ``None`` if an account has newer entries or a value is stored already. ``before`` are the
    balances and ``paid`` the charges that are stored, ``marks`` what the first charge to an account
    records about its data.
    """
    drafts: list[Draft] = []
    states: States = {}
    marked, charged = dict(marks), set(paid)
    totals = {name: account.total for name, account in before.items()}
    digests: dict[int, str] = {}  # many accounts have the same state
    bodies: dict[tuple[int, int, int], Mapping[str, Any]] = {}  # and the same terms and facts
    for charge in charges:
        name, terms, known = charge.account, charge.terms, before.get(charge.account)
        place = (name, charge.key)
        if place in charged:
            if charge.value is not None:
                return None
            continue
        if known is None and terms is None:
            raise ValueError(f"account: {name!r} is not in this ledger; open it first")
        if charge.after is not None and charge.after != (0 if known is None else known.entries):
            return None
        rule, budget = (known or terms).rule, (known or terms).budget  # type: ignore[union-attr]
        total = totals.get(name, 0)
        if charge.total is None and rule != "sum":
            raise ValueError(
                f"account: {name!r} adds up by composition theorems; spend through "
                "release(..., account=)"
            )
        after = total + charge.epsilon if charge.total is None else charge.total
        if after > budget:
            raise OverBudget(f"{name}: {over_budget(after - total, budget - total)}")
        opens = terms if name not in totals else None
        totals[name] = max(after, total)
        alike = (id(charge.body), id(opens), id(charge.state))
        if alike not in bodies:
            body = {key: charge.body[key] for key in charge.body if key not in _TAKEN}
            if opens is not None:
                body[OPENS] = opens.body
            if charge.state is not None:
                body[STATE] = _digest_of(charge.state, digests)
            bodies[alike] = body
        if charge.state is not None or (known is not None and rule != "sum"):
            states[name] = charge.state
        drafts.append(
            Draft(
                name,
                "charge",
                charge.key,
                charge.epsilon,
                totals[name],
                bodies[alike],
                marked.pop(name, None),
                charge.value,
            )
        )
        charged.add(place)
    return drafts, states


_TAKEN = frozenset({OPENS, STATE})
"""Names that the ledger uses itself in the body of a charge."""


def _digest_of(state: Mapping[str, Any], known: dict[int, str]) -> str:
    if id(state) not in known:
        known[id(state)] = digest(state)
    return known[id(state)]


def required(connection: Connection, account: str) -> Balance:
    """The balance of an account; raises if there is none."""
    known = accounts_named(connection, [account]).get(account)
    if known is None:
        raise ValueError(f"account: {account!r} is not in this ledger; open it first")
    return known


def over_budget(requested: int, remaining: int, fits: str = "") -> OverBudget:
    """The error for a charge that exceeds the budget."""
    return OverBudget(
        f"requested {show(requested)}, remaining {show(max(0, remaining))}, "
        f"short by {show(requested - max(0, remaining))}" + (f"; {fits}" if fits else "")
    )


# -- transactions --------------------------------------------------------------------------------


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
    "SQLITE_IOERR": "the disk cannot be read or written",
}

Answered = TypeVar("Answered")


class Transactions:
    """The transactions of one ledger."""

    def __init__(
        self, place: Place, recognition: Recognition, anchor: Anchor | None, by: str
    ) -> None:
        self._place, self._recognition, self._anchor, self.by = place, recognition, anchor, by
        self._made = False

    def _read(self, act: Callable[[Connection], Answered], *, settle: bool = False) -> Answered:
        """``act`` on one snapshot, which must hold the head in the anchor.

        With ``settle``, used for values that will be handed over, the anchor catches up after a
        crash between commit and anchor.
        """
        anchor = self._anchor
        held = None if anchor is None else anchor.read()  # before the snapshot: never ahead of it
        there = self.exists

        def looked() -> tuple[Answered, Head | None]:
            with self._place.transaction() if there else empty() as connection:
                if anchor is None:
                    return act(connection), None
                if held is not None or settle:
                    anchor.check(connection, held)
                return act(connection), Head(*connection.head)

        result, head = self._guarded(looked, "read")
        if settle and anchor is not None and head is not None and head != START:
            anchor.advance(head)
        return result

    def _write(self, act: Callable[[Connection], Answered]) -> Answered:
        """``act`` in a transaction that holds the write lock from its start.

        The transaction is repeated after a serialisation failure, a deadlock or a lost connection.
        The earlier commit may have taken effect, so ``act`` must first look for what it is about to
        write. The anchor advances after the commit.
        """
        place, anchor = self._place, self._anchor

        def checked(connection: Connection) -> tuple[Answered, Head]:
            if anchor is not None:
                anchor.check(connection, anchor.read())
            return act(connection), Head(*connection.head)

        def locked() -> tuple[Answered, Head]:
            named, place.named = place.named, False  # known again if all goes well
            with place.transaction(writes=True) as connection:
                connection.lock()
                if not named:
                    self._name_keys(connection)
                result = checked(connection)
            place.named = True
            return result

        if not self.exists:
            # What an empty ledger would refuse is refused before a ledger is created.
            with empty(trial=True) as connection:
                checked(connection)
            if anchor is not None and anchor.read() is None:
                anchor.make(START)
            self._guarded(place.make, "create", "no ledger was created")
        result, head = self._guarded(
            locked,
            "write",
            "nothing was handed over. Asking again is safe: a stored answer is returned unchanged",
        )
        self._made = True
        if anchor is not None and head != START:
            anchor.advance(head)
        return result

    def make_anchor(self) -> None:
        """Create the anchor of a ledger that has entries; the chain names its key."""
        anchor = self._anchor
        if anchor is None:
            raise ValueError("anchor: no file was named; give one: Ledger(..., anchor=FILE)")
        if anchor.read() is not None:
            raise ValueError(f"anchor: {anchor.path} already exists and was not changed")
        anchor.make_key()
        head = START
        if self.exists:

            def named() -> Head:
                with self._place.transaction(writes=True) as connection:
                    connection.lock()
                    self._name_keys(connection, deliberately=True)
                    return Head(*connection.head)

            head = self._guarded(named, "write", "no anchor was created")
        anchor.make(head)

    def _name_keys(self, connection: Connection, *, deliberately: bool = False) -> None:
        """Name in the chain the keys it does not know yet; the caller holds the write lock.

        The key of an anchor is named by the first entry, or deliberately.
        """
        known = named_keys(connection)
        data = self._recognition.new_key(connection, known)
        signed = None if self._anchor is None else self._anchor.key_name
        anchor = signed if deliberately or not known.entries else None
        if anchor in known.anchors:
            anchor = None
        if not known.entries or data is not None or anchor is not None:
            name_keys(connection, self.by, known, data, anchor)

    @property
    def exists(self) -> bool:
        """Whether the ledger exists; its first entry creates it. Anything else there raises."""
        if not self._made:
            ledger = self._guarded(self._place.is_ledger, "open")
            if ledger is False:
                raise LedgerError(
                    f"ledger: cannot open {self._place.name}: this database is not a ledger of "
                    "pufferkit, or its tables were removed; it was not changed. To create a "
                    "ledger, name a new file"
                )
            self._made = ledger is True
        return self._made

    def _guarded(self, act: Callable[[], Answered], doing: str, assurance: str = "") -> Answered:
        """``act``, repeated where that helps; errors of the driver become a `LedgerError`.

        It is raised outside the handler, so that it carries no reference to the driver's error.
        """
        words = ""
        for turn in range(_TRIES):
            try:
                return act()
            except DriverError as error:
                words = _words(self._place, error.origin, unopened=error.unopened)
                again = error.lost or getattr(error.origin, "sqlstate", None) in _AGAIN
            if not again:
                break
            time.sleep(random.uniform(0.01, 0.05) * 2**turn)
        assurance = f"; {assurance}" if assurance else ""
        raise LedgerError(f"ledger: cannot {doing} {self._place.name}: {words}{assurance}")


def _words(place: Place, origin: Exception, *, unopened: bool) -> str:
    """The reason, without the data that were being written and without a password."""
    name = getattr(origin, "sqlite_errorname", None)
    if name is not None:
        known = next((words for code, words in _SQLITE.items() if name.startswith(code)), None)
        return f"{known} ({name})" if known else name
    state = getattr(origin, "sqlstate", None)
    if state is not None:
        return f"the database server reports {type(origin).__name__} ({state})"
    if isinstance(origin, sqlite3.Error):
        return f"SQLite reports {type(origin).__name__}"
    if isinstance(place, Server) and isinstance(origin, place.unreachable):
        if not unopened:
            return "the connection to the server was lost"
        # Nothing has been sent yet, so the text names only the host and the reason.
        text = " ".join(str(origin).split())[:200]
        return text.replace(place.password, "***") if place.password else text
    return f"{type(origin).__name__}"


# -- replay --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Examination:
    """The outcome of a check: problems as sentences, and the entries and head at that moment."""

    problems: tuple[str, ...]
    entries: int
    head: str


@dataclass
class _Replayed:
    """The balances and states that the entries so far lead to."""

    accounts: dict[str, Balance]
    states: dict[str, tuple[int, Any]]
    added: dict[str, Standing]


def examine(
    rows: Iterable[Any],
    head: tuple[int, str] | None,
    states: Mapping[str, tuple[int, Any]],
    noted: str | None,
) -> Examination:
    """Check that a chain of entries is intact and leads to these states."""
    problems: list[str] = []
    previous, count = GENESIS, 0
    state = _Replayed({}, {}, {})
    seen_note = noted in (None, GENESIS)
    for count, row in enumerate(rows, 1):
        if row[0] != count:
            problems.append(f"entry {count} is missing; the next one is {row[0]}")
            break
        try:
            entry = entry_of(row)
        except LedgerError:
            problems.append(f"entry {count} was changed: it cannot be read")
            break
        if entry.previous != previous:
            problems.append(f"entry {entry.seq} does not follow the entry before it")
        if entry.own_digest() != entry.digest:
            problems.append(f"entry {entry.seq} was changed: its digest does not match")
        previous = entry.digest
        seen_note = seen_note or entry.digest == noted
        problems += [f"entry {entry.seq}: {wrong}" for wrong in _replay(entry, state)]
    if head is None:
        problems.append("the head is missing; the ledger was damaged")
    elif not problems and (count, previous) != head:
        problems.append(f"the ledger ends at entry {count}, but its head is entry {head[0]}")
    if not seen_note:
        problems.append("the digest recorded earlier is not in the ledger; it was rewritten")
    if not problems and state.states != states:
        wrong = _different(state.states, states)
        problems.append(f"the state of {wrong} does not follow from the entries")
    return Examination(tuple(problems), count, previous)


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    return ", ".join(sorted(k for k in {*one, *other} if one.get(k) != other.get(k)))


def _replay(entry: Entry, state: _Replayed) -> Iterator[str]:
    """Apply one entry to ``state``, and yield its problems."""
    known = state.accounts.get(entry.account)
    if entry.seq == 1 or entry.kind == "key" or entry.account == LEDGER:
        yield from _names_keys(entry, state)
    if entry.account == LEDGER or entry.kind == "key":
        return
    if entry.kind == "open" and known is not None:
        yield f"{entry.account!r} was already open"
    elif known is None and entry.kind != "open" and not _opens(entry):
        yield f"{entry.account!r} was never opened"
        return
    now = state.accounts[entry.account] = after_entry(known, entry)
    yield from _leads_to(entry, state)
    yield from _balance(entry, known, now)


def _opens(entry: Entry) -> bool:
    """Whether a charge opens its account."""
    return entry.kind == "charge" and isinstance(entry.body.get(OPENS), dict)


def _balance(entry: Entry, known: Balance | None, now: Balance) -> Iterator[str]:
    """The problems of the balance that an entry states."""
    if entry[5:9] != (now.total, now.rule, now.budget, now.entries):
        yield "the balance does not follow from the entries before"
    if entry.kind != "charge" and entry.value is not None:
        yield "its value was never charged"
    if entry.kind == "open":
        return
    if known is None:
        known = now._replace(total=0)
    elif _opens(entry):
        yield f"{entry.account!r} was already open"
    if entry.kind == "charge":
        if known.rule == "sum" and entry.total != known.total + entry.epsilon:
            yield "the total does not add up"
    elif entry.kind not in ("budget", "rows", TERMS):
        yield f"{entry.kind!r} is not a kind of entry"
    if entry.kind not in ("charge", TERMS) and entry.total != known.total:
        yield "the total changed without a charge"
    if entry.total < known.total:
        yield "the total went down"
    if entry.total > now.budget:
        yield "the total is over the budget"


def _names_keys(entry: Entry, state: _Replayed) -> Iterator[str]:
    """The problems of an entry that names the keys of the ledger, or should."""
    kinds = ("key",) if entry.seq == 1 else ("key", BELIEFS)
    if entry.account != LEDGER or entry.kind not in kinds:
        yield "the first entry, and only entries of the ledger itself, name its keys"
        return
    now = state.accounts[LEDGER] = after_entry(state.accounts.get(LEDGER), entry)
    if entry[4:9] != (0, 0, "", 0, now.entries):
        yield "an entry of the ledger itself has no balance"


def _leads_to(entry: Entry, state: _Replayed) -> Iterator[str]:
    """Compute the state that an entry leads to and compare it with the digest in the entry."""
    if entry.kind != "charge":
        return
    after = None
    with suppress(KeyError, TypeError, ValueError):
        after = state.added.get(entry.account, Standing()).after_entry(entry)
        state.added[entry.account] = after
    if STATE not in entry.body:
        state.states.pop(entry.account, None)
        return
    plain = None if after is None else json.loads(canonical(after.to_dict()))
    if digest(plain) != entry.body[STATE]:
        yield "the state that it leads to does not follow from the entries before"
    else:
        state.states[entry.account] = (entry.seq, plain)


# -- table accounts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableAccounts:
    """The accounts of the subjects of a table, from `Ledger.accounts_for`."""

    ledger: Ledger
    prefix: str
    budget: float
    confirm_data: bool = False
    horizon: int | None = None


# -- ledger --------------------------------------------------------------------------------------


class Ledger(Transactions, Shown):
    """A ledger of privacy budgets in an SQLite file or a PostgreSQL database.

    The first entry creates it. Opening a ledger that does not exist writes nothing; a file that
    exists and is not a ledger is refused. A file stays open within a ``with`` block, and otherwise
    while one charge follows another, until half a second after the last. Before it is closed the
    last entries may be in ``ledger.db-wal``: copy both files, or use the backup command of SQLite.

    Parameters
    ----------
    url
        A path (``"ledger.db"``), or ``postgresql://user:password@host/name``.
    by
        Name of the person or job that spends; by default the operating system's user and host.
    key
        File with the key by which data are recognised; created if it does not exist. By default
        beside the ledger (``ledger.db.key``); for a server the environment variable
        ``PUFFERKIT_LEDGER_KEY`` may name it. Without a key nothing about the data is stored, and a
        second name for the same data is not detected.
    anchor
        File that holds the head outside the ledger. It is checked and advanced by each charge.
    anchor_key
        File with a key for the anchor, created if it does not exist.

    Examples
    --------
    >>> import tempfile, os
    >>> book = Ledger(os.path.join(tempfile.mkdtemp(), "ledger.db"))
    >>> _ = book.open_account("alice", budget=0.3)
    >>> for _ in range(3):
    ...     _ = book.spend("alice", 0.1, what="weekly count")
    >>> book.remaining("alice")
    0.0
    >>> book.account("alice").entries, [one.account for one in book.accounts()]
    (4, ['alice'])
    >>> [entry.kind for entry in book.entries("alice")][:2]
    ['open', 'charge']
    >>> book.verify()
    []
    >>> book.examine().entries == len(list(book.export()))
    True
    >>> _ = book.change_budget("alice", 1.0, why="a second year")
    >>> book.close()
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        by: str | None = None,
        key: str | os.PathLike[str] | None = None,
        anchor: str | os.PathLike[str] | None = None,
        anchor_key: str | os.PathLike[str] | None = None,
    ) -> None:
        if anchor is None and anchor_key is not None:
            raise ValueError("anchor_key: needs an anchor; name the anchor's file with anchor=")
        place = place_of(url)
        super().__init__(
            place,
            Recognition(Path(key) if key is not None else place.key_path),
            None if anchor is None else Anchor(anchor, anchor_key),
            checked_name("by", by or f"{_user()}@{socket.gethostname()}"[:200]),
        )
        try:
            self._read(lambda _: None)
        except Exception:
            self.close()
            raise

    def __str__(self) -> str:
        return f"Ledger({self._place.name!r})"

    def table_rows(self) -> list[dict[str, Any]]:
        """One row for each account: budget, total and what remains."""
        return [
            {
                "account": account.account,
                "rule": account.rule,
                "budget": in_epsilon(account.budget),
                "total": in_epsilon(account.total),
                "remaining": in_epsilon(account.remaining),
                "entries": account.entries,
            }
            for account in self.accounts()
        ]

    def __enter__(self) -> Ledger:
        self._place.held = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def recognises_data(self) -> bool:
        """Whether a second name for the same data is detected, which needs a key."""
        return self._recognition.path is not None

    def close(self) -> None:
        """Close the database connections."""
        self._place.close()

    # -- accounts ------------------------------------------------------------------------------

    def open_account(
        self,
        account: str,
        budget: float,
        *,
        rule: str = "sum",
        about: Mapping[str, Any] | None = None,
    ) -> Balance:
        """Open an account with a budget before its first charge; repeating it changes nothing.

        Parameters
        ----------
        account
            Its name, which says whose data it covers.
        budget
            The most epsilon that may ever be spent; `change_budget` changes it.
        rule
            ``"sum"``: amounts add up. ``"composed"``: each charge states the joint total,
            computed by a theorem.
        about
            Facts to record with the account; later calls must give the same.
        """
        name = checked_name("account", account)
        terms = Terms(allowed_micro(budget), rule, about or {})

        def act(connection: Connection) -> Balance:
            read = Read.of(connection, [name])
            if name in read.balances:
                terms.check(read.balances[name], read.opened[name])
            else:
                append(connection, [Draft(name, "open", "", 0, 0, terms.body)], self.by, {})
            return required(connection, name)

        return self._write(act)

    def check_data(self, data: Mapping[str, Data], *, confirm_data: bool = False) -> None:
        """Raise now the error that a charge about these data would raise."""
        if data:
            self._read(lambda connection: self._recognition.check(connection, data, confirm_data))

    def change_budget(self, account: str, budget: float, *, why: str = "") -> Balance:
        """Change a budget; the chain records who changed it, when and why.

        A budget cannot fall below what is spent.
        """
        cap, key = allowed_micro(budget), secrets.token_hex(16)

        def act(connection: Connection) -> Balance:
            known = required(connection, account)
            if (account, key) in keys_named(connection, [account], "budget", [key]):
                return known
            if cap < known.total:
                raise ValueError(
                    f"budget: {show(known.total)} of {account!r} is spent already; it cannot be "
                    f"{show(cap)}"
                )
            body = {"budget": cap, "was": known.budget, "why": str(why)}
            append(
                connection,
                [Draft(account, "budget", key, 0, known.total, body)],
                self.by,
                {account: known},
            )
            return required(connection, account)

        return self._write(act)

    def change_terms(
        self, account: str, terms: Terms, total: int, *, after: int, why: str = ""
    ) -> Balance:
        """Other terms for an account from now on, and the total under them; the chain records it.

        It was computed when there were ``after`` entries. `Account.change_beliefs` calls this.
        """
        key = secrets.token_hex(16)

        def act(connection: Connection) -> Balance:
            known = required(connection, account)
            if (account, key) in keys_named(connection, [account], TERMS, [key]):
                return known
            if after != known.entries:
                raise LedgerError(f"account: {account!r} was charged at the same time; try again")
            if total > known.budget:
                raise over_budget(total - known.total, known.remaining)
            body = {"about": terms.about, "why": str(why)}
            named = str(terms.about["beliefs"])
            there = keys_named(connection, [LEDGER], BELIEFS, [named])
            drafts = [Draft(account, TERMS, key, 0, max(total, known.total), body)]
            if terms.beliefs is not None and (LEDGER, named) not in there:
                drafts.insert(0, Draft(LEDGER, BELIEFS, named, 0, 0, {"record": terms.beliefs}))
            balances = {account: known, **accounts_named(connection, [LEDGER])}
            append(connection, drafts, self.by, balances)
            return required(connection, account)

        return self._write(act)

    def account(self, account: str) -> Balance:
        """The balance of an account."""
        return self._read(lambda connection: required(connection, account))

    def accounts(self) -> list[Balance]:
        """All accounts, by name."""
        return sorted(self._read(accounts_of).values(), key=lambda one: one.account)

    def remaining(self, account: str) -> float:
        """Epsilon that is left."""
        return in_epsilon(self.account(account).remaining)

    def accounts_for(
        self,
        table: Any,
        prefix: str,
        budget: float,
        *,
        horizon: int | None = None,
        confirm_data: bool = False,
    ) -> TableAccounts:
        """The accounts of the subjects of a table, each with this budget; `release` takes them.

        Each is named after its subject, with ``prefix`` before it, and created by its first charge.

        Parameters
        ----------
        table
            From `read`; its subjects must print differently.
        prefix
            Put before each subject's label to name its account; may be empty.
        budget
            Pufferfish epsilon of each subject, for everything that is ever released about it.
        horizon
            The most entries that one segment may ever have, as for `Account`.
        confirm_data
            A table that is known under other names, and data that changed since an earlier release,
            are refused where their counts show it; ``True`` confirms that this is intended.

        Examples
        --------
        >>> from tempfile import mkdtemp
        >>> import polars as pl
        >>> import pufferkit as pk
        >>> rows = pl.DataFrame({"who": ["ann", "bob"], "t": [1, 1], "x": [0, 1]})
        >>> table = pk.read(rows, subject="who", time="t", state="x", states=[0, 1])
        >>> pk.Ledger(mkdtemp() + "/ledger.db").accounts_for(table, "home of ", budget=2).prefix
        'home of '
        """
        allowed_micro(budget)
        subjects = getattr(table, "subjects", ())
        if len({f"{prefix}{subject}" for subject in subjects}) < len(subjects):
            raise ValueError("subject: two subjects print alike; give them different names")
        longest = None if horizon is None else checks.whole("horizon", horizon, 1)
        return TableAccounts(self, prefix, budget, confirm_data, longest)

    # -- spending ------------------------------------------------------------------------------

    def spend(
        self,
        account: str,
        epsilon: float,
        *,
        what: str = "",
        key: str | None = None,
        **details: Any,
    ) -> Entry:
        """Spend epsilon from an account whose amounts add up; each ``key`` is charged once.

        Raises
        ------
        OverBudget
            If it does not fit in the budget; nothing is spent then.
        """
        amount = spent_micro(epsilon)
        if amount <= 0:
            raise ValueError(f"epsilon: must be above 0, got {epsilon!r}")
        # A charge without a key is also made once only if its commit has to be repeated.
        fresh = secrets.token_hex(32) if key is None else checked_name("key", key, 64)
        body = {"what": what, **details}
        if own := sorted(_TAKEN & details.keys()):
            raise ValueError(
                f"{own[0]}: is a name that the ledger uses itself; give this detail another"
            )

        charge = Charge(account, fresh, amount, None, body, None)
        rows = self._charged([charge])
        if rows:
            return entry_of(rows[-1])
        earlier = self._read(lambda c: next(entries_named(c, [account], "charge", [fresh])))
        if earlier.epsilon != amount or earlier.body.get("what") != what:
            raise ValueError(
                f"key: {fresh!r} was charged to {account!r} for something else "
                f"(ledger entry {earlier.seq}); use a new key for each charge"
            )
        return earlier

    def charge_many(
        self,
        charges: Sequence[Charge],
        *,
        read: Read | None = None,
        data: Mapping[str, Data] | None = None,
        confirm_data: bool = False,
    ) -> bool:
        """Charge many accounts in one transaction: all or none, each key once.

        Accounts that do not exist are opened on the terms of their charge, and values are stored
        with their charges. Returns ``False`` and changes nothing if an account no longer has
        ``after`` entries or a value is stored already; read again then. Charges without a value
        whose key was charged before are left out. ``read`` is what `look` gave for these accounts
        and keys; it is read again only if something was written since. ``data`` are those of
        accounts, by which they are recognised: data that changed are refused.

        Raises
        ------
        OverBudget
            If one account cannot pay; then none does.
        """
        return self._charged(charges, read, data or {}, confirm_data) is not None

    def _charged(
        self,
        charges: Sequence[Charge],
        known: Read | None = None,
        data: Mapping[str, Data] = MappingProxyType({}),
        confirm_data: bool = False,
    ) -> list[tuple[Any, ...]] | None:
        """The rows that were written: the only function that writes charges and values."""
        names, keys = checked_charges(charges)

        def act(connection: Connection) -> list[tuple[Any, ...]] | None:
            same = known is not None and known.head == connection.head
            if same and known is not None:
                balances, paid = dict(known.balances), known.charged
            else:
                asked = charges_named(connection, names, keys)  # sent before the first is read
                balances = accounts_named(connection, names)
                paid = {(name, key) for name, key in asked}
            marks = self._recognition.marks(connection, data, confirm_data)
            made = drafts_of(charges, balances, paid, marks)
            if made is None:
                return None
            before, drafts = connection.head, made[0]
            if drafts:
                beliefs = _named_beliefs(connection, charges, balances)
                if beliefs:  # entries of the ledger itself
                    balances |= accounts_named(connection, [LEDGER])
                drafts = [*beliefs, *drafts]
                drafts += self._recognition.rows(connection, charges, confirm_data)
            rows = append(connection, drafts, self.by, balances, made[1])
            self._recognition.wrote(before, connection.head, names)
            return rows

        return self._write(act)

    # -- reading -------------------------------------------------------------------------------

    def look(self, accounts: Sequence[str], keys: Sequence[str] = ()) -> Read:
        """What a payment has to know of these accounts, and of what has these keys, at one moment.

        Values may be handed over, so the anchor catches up.
        """
        return self._read(lambda c: Read.of(c, accounts, keys), settle=bool(keys))

    def beliefs(self, digest: str) -> Mapping[str, Any] | None:
        """The beliefs with this digest, as their record; ``None`` if no account pays under them."""
        entries = self._read(lambda c: list(entries_named(c, [LEDGER], BELIEFS, [digest])))
        return entries[0].body["record"] if entries else None

    def entries(self, account: str | None = None) -> list[Entry]:
        """All entries in order, or those of one account."""
        return self._read(lambda connection: list(map(entry_of, rows(connection, account))))

    @property
    def head(self) -> str:
        """Digest of the last entry. Keep a copy elsewhere to detect a rewritten ledger."""
        return self._read(lambda connection: connection.head[1])

    def verify(self, head: str | None = None) -> list[str]:
        """The problems of the ledger, as sentences; empty if there are none.

        Parameters
        ----------
        head
            A digest recorded earlier; it must still be in the chain.
        """
        return list(self.examine(head).problems)

    def examine(self, head: str | None = None) -> Examination:
        """Problems, number of entries and last digest, all of one moment."""

        def act(connection: Connection) -> Examination:
            return examine(rows(connection), connection.stored_head, states_of(connection), head)

        return self._read(act)

    def export(self) -> Iterator[str]:
        """Every entry as a line of JSON, read in batches: entries are only ever added."""
        some = self._read(lambda connection: rows_after(connection, 0))
        while some:
            for row in some:
                yield canonical(entry_of(row).to_dict())
            last = some[-1][0]
            some = self._read(lambda connection: rows_after(connection, last))  # noqa: B023


def _named_beliefs(
    connection: Connection, charges: Sequence[Charge], known: Mapping[str, Balance]
) -> list[Draft]:
    """Entries for the beliefs of accounts that are opened now, where the ledger lacks them."""
    records = {
        str(charge.terms.about["beliefs"]): charge.terms.beliefs
        for charge in charges
        if charge.terms is not None and charge.account not in known and charge.terms.beliefs
    }
    there = keys_named(connection, [LEDGER], BELIEFS, list(records)) if records else set()
    return [
        Draft(LEDGER, BELIEFS, key, 0, 0, {"record": record})
        for key, record in records.items()
        if (LEDGER, key) not in there and record is not None
    ]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
