"""The chain of a ledger: its entries, the keys that it names, and the anchor of its head.

**Entries.** There is one way to append: a list of drafts gets its places in the chain, and a single
entry is a list of one. An entry states the balance after it, so the balance of an account is its
last entry, whose digest is checked before it is charged. A charge and the noisy value that it pays
for are one entry, as are the first charge of an account and the terms on which it opens it. A
*state* accumulates the charges of an account, so that the next charge need not read them all; it is
kept in a table of its own, and the last charge holds its digest.

**Keys.** A ledger knows two sorts of keys: one by which data are recognised, and one for each
signed anchor. The first entry of every chain names those that were in use when the ledger was
created, by a digest that reveals nothing about them; later ones are named by entries of their own.
So a key file that was removed or replaced is noticed, and the entry that names it cannot be removed
unnoticed.

**The anchor** is a copy of the head kept elsewhere, which reveals a ledger that was set back: a
small file with the number and the digest of the last entry. Before every charge the
ledger must still hold that entry. The anchor advances after the commit and before anything is
handed over, so it is never ahead of an intact ledger: if it is ahead, the ledger was set back (to
an old copy, by deleting its log or by removing its tail). It may lag behind: after a crash between
commit and anchor, by entries of which nothing was handed over, and by charges made without the
anchor.

With a key the file also carries a keyed digest, so that only holders of the key can write one, and
the chain names the key: by its first entry, or by one that `Ledger.make_anchor` appends. A key that
is missing, or not named there, is an error. Neither helps if an old ledger and the anchor of that
time are put back together: both are genuine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pufferkit.account.store import GENESIS, Connection
from pufferkit.errors import LedgerError
from pufferkit.records import canonical, digest, name_once, private_file, read_whole

# -- entries -------------------------------------------------------------------------------------


OPENS = "opens"
"""Key in the body of the first charge of an account for the terms on which it is opened."""
STATE = "state"
"""Key in the body of an entry for the digest of the state that the entry leads to."""
LEDGER = ""
"""The account of entries about the ledger itself."""
BELIEFS = "beliefs"
"""The kind of its entries that hold the beliefs under which accounts pay, each once."""
TERMS = "terms"
"""The kind of entries that change the terms of an account, as a change of beliefs does."""
LONGEST_KEY = 64
_LONGEST_NAME = 200
_AT_ONCE = 2000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""What no database keeps: the end of a text in C, and halves of characters."""


class Draft(NamedTuple):
    """An entry before it has a place in the chain; amounts are millionths of epsilon.

    ``kind`` is ``open`` (an account begins, with its budget), ``budget`` (the budget is changed),
    ``charge`` (privacy is spent) or ``rows`` (a keyed digest of the rows of a window, in ``key``)
    or ``terms`` (other terms from now on). A charge may hold the noisy ``value`` that it pays for,
    and ``marks`` of the data. ``opens`` are budget and rule of an account that it opens. Entries
    without an account belong to the ledger itself: ``key`` names its keys, ``beliefs`` holds a
    class of beliefs under which accounts pay.
    """

    account: str
    kind: str
    key: str
    epsilon: int
    total: int
    body: Mapping[str, Any]
    marks: Mapping[str, Any] | None = None
    value: Mapping[str, Any] | None = None


class Entry(NamedTuple):
    """One entry of the ledger: a draft in its place in the chain.

    ``rule``, ``budget`` and ``total`` are those of the account after it, which has ``number``
    entries then.
    """

    seq: int
    account: str
    kind: str
    key: str
    epsilon: int
    total: int
    rule: str
    budget: int
    number: int
    body: Mapping[str, Any]
    marks: Mapping[str, Any] | None
    value: Mapping[str, Any] | None
    made_at: str
    made_by: str
    previous: str
    digest: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return self._asdict()

    def own_digest(self) -> str:
        """The digest that the contents of the entry require."""
        fields = {k: v for k, v in self.to_dict().items() if k != "digest"}
        return digest(fields)


class Balance(NamedTuple):
    """The balance of an account; amounts are millionths of epsilon."""

    account: str
    rule: str
    budget: int
    total: int
    entries: int

    @property
    def remaining(self) -> int:
        """The part of the budget that is left."""
        return self.budget - self.total


def checked_name(argument: str, text: Any, longest: int = _LONGEST_NAME) -> str:
    """A name that every database stores unchanged: text that is not empty and not too long."""
    if not isinstance(text, str) or not 1 <= len(text) <= longest or _UNSTORABLE.search(text):
        raise ValueError(
            f"{argument}: must be a name of 1 to {longest} characters, got {text!r:.60}"
        )
    return text


def append(
    connection: Connection,
    drafts: Sequence[Draft],
    by: str,
    known: Mapping[str, Balance],
    states: Mapping[str, Mapping[str, Any] | None] | None = None,
) -> list[tuple[Any, ...]]:
    """Append entries to the chain in order.

    ``known`` are the accounts before, ``states`` the states that the drafts lead to, with ``None``
    where a state is no longer known. The caller holds the write lock. Returns the rows.
    """
    if not drafts:
        return []
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    made = _made(at, by)
    rows: list[tuple[Any, ...]] = []
    texts: dict[int, str] = {}  # entries of one run share many bodies
    places, balances = dict[str, int](), dict(known)
    seq, previous = connection.head
    for draft in drafts:
        name, kind, key, epsilon, _, content, marks, value = draft
        balances[name] = _, rule, budget, total, number = after_entry(balances.get(name), draft)
        body = texts.get(id(content)) or texts.setdefault(id(content), canonical(content))
        marked = "" if marks is None else canonical(marks)
        answer = "" if value is None else canonical(value)
        seq += 1
        own = _digest(
            name, body, budget, epsilon, key, kind, made, marked, number, previous, rule, seq,
            total, answer,
        )  # fmt: skip
        rows.append(
            (seq, name, kind, key, epsilon, total, rule, budget, number, body, marked, answer, at,
             by, previous, own)
        )  # fmt: skip
        previous = own
        if STATE in content:
            places[name] = seq
    connection.put("entries", rows)
    connection.head = (seq, previous)
    if states:
        _keep(connection, states, places)
    return rows


def _made(at: str, by: str) -> str:
    """When and by whom an entry was made, as part of the text of its digest."""
    return f'"made_at":"{at}","made_by":{canonical(by)}'


def _digest(
    account: str, body: str, budget: int, epsilon: int, key: str, kind: str, made: str, marks: str,
    number: int, previous: str, rule: str, seq: int, total: int, value: str,
) -> str:  # fmt: skip
    """SHA-256 of the text `canonical` would give for the whole entry: its keys in order."""
    text = (
        f'{{"account":{_quoted(account)},"body":{body},"budget":{budget},"epsilon":{epsilon},'
        f'"key":{_quoted(key)},"kind":"{kind}",{made},"marks":{marks or "null"},'
        f'"number":{number},"previous":"{previous}","rule":"{rule}","seq":{seq},"total":{total},'
        f'"value":{value or "null"}}}'
    )
    return hashlib.sha256(text.encode()).hexdigest()


_quoted = lru_cache(1024)(canonical)
"""Of entries that follow one another many have the same account or the same key."""


def _keep(
    connection: Connection,
    states: Mapping[str, Mapping[str, Any] | None],
    places: Mapping[str, int],
) -> None:
    """Store these states, which the entries with these numbers lead to."""
    same = {id(state): state for state in states.values()}  # of many accounts
    texts = {number: canonical(state) for number, state in same.items()}
    connection.put(
        "states",
        [(name, places[name], texts[id(new)]) for name, new in states.items() if new is not None],
    )
    old = [name for name, new in states.items() if new is None]
    if old:
        where, value = connection.among("account", old)
        connection.execute(f"DELETE FROM pufferkit_states WHERE {where}", (value,))


def after_entry(known: Balance | None, entry: Draft | Entry) -> Balance:
    """The balance of an account after one more entry."""
    if known is None or entry.kind == "open":
        opens = entry.body if entry.kind == "open" else entry.body.get(OPENS, {})
        total = entry.total if entry.kind == "charge" else 0
        return Balance(entry.account, opens.get("rule", ""), opens.get("budget", 0), total, 1)
    name, rule, budget, _, entries = known
    if entry.kind == "budget":
        budget = entry.body.get("budget", 0)
    return Balance._make((name, rule, budget, entry.total, entries + 1))


# -- reading --------------------------------------------------------------------------------------


def accounts_named(connection: Connection, names: Iterable[str]) -> dict[str, Balance]:
    """The balances of these accounts; accounts that do not exist are left out."""
    listed = list(dict.fromkeys(names))
    last = "SELECT max(seq) FROM pufferkit_entries WHERE account = "
    if len(listed) == 1:
        return _balances(connection, f"seq = ({last}?)", listed[0])
    among = f"seq IN (SELECT ({last}name) FROM {connection.listed('name')})"
    return _balances(connection, among, json.dumps(listed))


def accounts_of(connection: Connection) -> dict[str, Balance]:
    """The balances of all accounts."""
    last = "SELECT max(seq) FROM pufferkit_entries WHERE account <> ? GROUP BY account"
    return _balances(connection, f"seq IN ({last})", LEDGER)


def _balances(connection: Connection, last: str, value: str) -> dict[str, Balance]:
    """Balances by the last entries, which this condition holds for; those that changed raise."""
    balances = dict[str, Balance]()
    for row in connection.execute(f"SELECT * FROM pufferkit_entries WHERE {last}", (value,)):
        (seq, name, kind, key, epsilon, total, rule, budget, number, body, marks, value, at, by,
         before, own) = row  # fmt: skip
        made = _made(at, by)
        if own != _digest(
            name, body, budget, epsilon, key, kind, made, marks, number, before, rule, seq, total,
            value,
        ):  # fmt: skip
            raise LedgerError(
                f"ledger: entry {seq}, the last of {name!r}, was changed: its digest does not "
                "match. Restore a backup and run pufferkit ledger verify"
            )
        balances[name] = Balance(name, rule, budget, total, number)
    return balances


def entries_named(
    connection: Connection, names: Iterable[str], kind: str, keys: Sequence[str] | None = None
) -> Iterator[Entry]:
    """Entries of one kind of these accounts, in order; only those with these keys, if given."""
    return map(entry_of, _named(connection, "*", names, kind, keys, " ORDER BY seq"))


def keys_named(
    connection: Connection, names: Iterable[str], kind: str, keys: Sequence[str]
) -> set[tuple[str, str]]:
    """Account and key of the existing entries of one kind."""
    return {(name, key) for name, key in _named(connection, "account, key", names, kind, keys)}


def charges_named(connection: Connection, names: Sequence[str], keys: Sequence[str]) -> Any:
    """Account and key of the charges with these keys: asked now, and read later."""
    return _named(connection, "account, key", names, "charge", keys)


def _named(
    connection: Connection,
    columns: str,
    names: Iterable[str],
    kind: str,
    keys: Sequence[str] | None,
    order: str = "",
) -> Any:
    where, value = connection.among("account", list(dict.fromkeys(names)))
    values = [value, kind]
    text = f"SELECT {columns} FROM pufferkit_entries WHERE {where} AND kind = ?"
    if keys is not None:
        where, value = connection.among("key", list(dict.fromkeys(keys)))
        text, values = f"{text} AND {where}", [*values, value]
    return connection.execute(text + order, values)


def rows(connection: Connection, account: str | None = None) -> Iterator[Sequence[Any]]:
    """The rows of all entries in order, or of one account's, read in batches."""
    some = rows_after(connection, 0, account)
    while some:
        yield from some
        some = rows_after(connection, some[-1][0], account)


def rows_after(connection: Connection, seq: int, account: str | None = None) -> list[Sequence[Any]]:
    """The rows of the next entries, a batch of them."""
    where, of = ("", ()) if account is None else (" AND account = ?", (account,))
    text = f"SELECT * FROM pufferkit_entries WHERE seq > ?{where} ORDER BY seq LIMIT {_AT_ONCE}"
    batch: list[Sequence[Any]] = connection.execute(text, (seq, *of)).fetchall()
    return batch


def marks_named(connection: Connection, names: Iterable[str]) -> dict[str, Any]:
    """The latest marks of these accounts."""
    where, value = connection.among("account", list(names))
    text = f"SELECT account, marks FROM pufferkit_entries WHERE {where} AND marks <> ''"
    latest = dict(connection.execute(f"{text} ORDER BY account, seq", (value,)).fetchall())
    return {name: json.loads(marks) for name, marks in latest.items()}


def mark_texts(connection: Connection, after: int = 0) -> Iterator[tuple[str, str]]:
    """The marks in the entries after this one, as they are stored; those of an account in order."""
    text, values = "SELECT account, marks FROM pufferkit_entries WHERE marks <> ''", [after]
    if not after:  # few entries have marks, and an index lists them
        return iter(connection.execute(f"{text} ORDER BY account, seq"))
    return iter(connection.execute(f"{text} AND seq > ? ORDER BY seq", values))


def digest_at(connection: Connection, seq: int) -> str | None:
    """The digest of an entry; ``None`` if there is none with this number."""
    digests = connection.execute("SELECT digest FROM pufferkit_entries WHERE seq = ?", (seq,))
    return next((str(digest) for (digest,) in digests.fetchall()), None)


def asked_before(connection: Connection, names: Sequence[str], keys: Sequence[str]) -> Any:
    """The terms of these accounts, and the charges with these keys.

    Of each entry its number, account, kind, key, body and value; the number of one that states
    terms is negative.
    """
    among, value = connection.among("account", list(names))
    keyed, listed = connection.among("key", list(keys))
    columns = "SELECT seq, account, kind, key, body, value FROM pufferkit_entries WHERE"
    stated = columns.replace("seq", "-seq").replace(" value ", " '' ")
    first = "seq = (SELECT min(seq) FROM pufferkit_entries WHERE account = ?)"
    if len(names) != 1:
        least = "SELECT min(seq) FROM pufferkit_entries WHERE account = name"
        first = f"seq IN (SELECT ({least}) FROM {connection.listed('name')})"
    text = f"{stated} {first} UNION ALL {stated} {among} AND kind = '{TERMS}'"
    values = [value, value]
    if keys:
        paid = f"{columns} {among} AND kind = 'charge' AND {keyed}"
        text, values = f"{text} UNION ALL {paid}", [*values, value, listed]
    # Sorted where it is read: asked to sort, a database may walk through all entries of an account.
    return connection.execute(text, values)


def states_named(connection: Connection, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The states of these accounts, checked against the digests in the chain."""
    where, value = connection.among("s.account", list(names))
    rows = connection.execute(
        "SELECT s.account, state, e.account, body FROM pufferkit_states s "
        f"LEFT JOIN pufferkit_entries e ON s.seq = e.seq WHERE {where}",
        (value,),
    )
    known: dict[str, tuple[str, dict[str, Any]]] = {}  # many accounts have the same state
    states = dict[str, dict[str, Any]]()
    for name, text, of, body in rows:
        try:
            if text not in known:
                state = json.loads(text)
                known[text] = digest(state), state
            own, states[name] = known[text]
            whole = of == name and json.loads(body or "").get(STATE) == own
        except (TypeError, ValueError, AttributeError):
            whole = False
        if not whole:
            raise LedgerError(
                f"ledger: the state of {name!r} does not match the digest in its last charge, so "
                "it was changed. Restore a backup and run pufferkit ledger verify"
            )
    return states


def states_of(connection: Connection) -> dict[str, tuple[int, Any]]:
    """The states of all accounts, each with the number of the entry that leads to it."""
    rows = connection.execute("SELECT account, seq, state FROM pufferkit_states")
    return {account: (seq, json.loads(text)) for account, seq, text in rows}


def entry_of(row: Sequence[Any]) -> Entry:
    """An entry from a row."""
    seq, texts = row[0], row[9:12]
    body, marks, value = (body_of(seq, text) if text else None for text in texts)
    return Entry._make((*row[:9], body or {}, marks, value, *row[12:]))


def body_of(seq: int, text: str) -> dict[str, Any]:
    """The body of an entry from its text."""
    try:
        body: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError):
        raise LedgerError(f"ledger: entry {seq} was changed: it cannot be read") from None
    return body


# -- keys ----------------------------------------------------------------------------------------


KEY_SIZE = 32
_KIND = "key"


@dataclass(frozen=True)
class Keys:
    """The names of the keys that a chain knows."""

    data: str | None = None
    """Of the key by which data are recognised."""
    anchors: frozenset[str] = frozenset()
    """Of the keys of signed anchors."""
    entries: int = 0
    """Number of entries that name keys."""


def named_keys(connection: Connection) -> Keys:
    """The keys that the chain names; raises if its first entry is missing or was changed."""
    data, anchors, entries = None, list[str](), list(entries_named(connection, [LEDGER], _KIND))
    if not entries:
        if connection.head[0]:
            raise LedgerError(
                "ledger: its first entry, which names its keys, is missing, so it was damaged; "
                "restore a backup and run pufferkit ledger verify"
            )
        return Keys()
    for entry in entries:
        if entry.own_digest() != entry.digest or entries[0].seq != 1:
            raise LedgerError(
                f"ledger: entry {entry.seq}, which names a key, was changed; restore a backup and "
                "run pufferkit ledger verify"
            )
        data = data or entry.body["data"]
        anchors += [entry.body["anchor"]] if entry.body["anchor"] else []
    return Keys(data, frozenset(anchors), len(entries))


def name_keys(
    connection: Connection, by: str, known: Keys, data: str | None, anchor: str | None
) -> None:
    """Append the entry that names these keys."""
    body: dict[str, Any] = {"data": data, "anchor": anchor}
    draft = Draft(LEDGER, _KIND, f"{known.entries + 1}", 0, 0, body)
    append(connection, [draft], by, accounts_named(connection, [LEDGER]))


def read_key(path: Path) -> bytes | None:
    """The key in a file; ``None`` if there is no file."""
    try:
        text = read_whole(path, 1 << 12).decode("ascii").strip()
        key = bytes.fromhex(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LedgerError(f"key: {path} cannot be read ({type(error).__name__})") from None
    if len(key) != KEY_SIZE:
        raise LedgerError(f"key: {path} is not a key of a ledger; restore it from a backup")
    return key


def make_key(path: Path) -> bytes:
    """A new key, readable by its owner only; another process may create it first."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        private_file(part, f"{secrets.token_hex(KEY_SIZE)}\n".encode())
        name_once(part, path)
    finally:
        part.unlink(missing_ok=True)
    key = read_key(path)
    if key is None:
        raise LedgerError(f"key: {path} cannot be created")
    return key


def key_name(key: bytes) -> str:
    """A digest by which the ledger knows a key; it reveals nothing about the key."""
    return hashlib.blake2b(b"name of the key", key=key, digest_size=16).hexdigest()


# -- anchor --------------------------------------------------------------------------------------


FORMAT = "pufferkit-anchor/1"


@dataclass(frozen=True)
class Head:
    """Number and digest of an entry."""

    seq: int
    digest: str


START = Head(0, GENESIS)


class Anchor:
    """A file that holds the head of a ledger.

    Parameters
    ----------
    path
        The file. Keep it where people who can write the ledger have no write access.
    key
        A file with a key, created if it does not exist; ``None`` for an anchor without a key.
    """

    def __init__(self, path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> None:
        self.path = Path(path)
        self._key = None if key is None else Path(key)
        self._named: str | None = None  # the key that the chain was seen to name
        if not self.path.parent.is_dir():
            raise ValueError(f"anchor: the folder {self.path.parent} does not exist")

    def read(self) -> Head | None:
        """The head in the file; ``None`` if there is no file."""
        try:
            text = read_whole(self.path, 1 << 16).decode("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"anchor: {self.path} cannot be read ({type(error).__name__})"
            ) from None
        try:
            data = json.loads(text)
            head = Head(int(data["seq"]), str(data["digest"]))
            known = data["format"] == FORMAT
        except (KeyError, TypeError, ValueError):
            known = False
        if not known:
            raise LedgerError(f"anchor: {self.path} is not an anchor of a ledger; restore it")
        mac = data.get("mac")
        if (mac is None) != (self._key is None):
            reason = (
                "has no keyed digest" if mac is None else "was written with a key; give the key"
            )
            raise LedgerError(f"anchor: {self.path} {reason}")
        if mac is not None and not hmac.compare_digest(str(mac), _mac(self._secret, head)):
            raise LedgerError(f"anchor: {self.path} was not written with this key")
        return head

    @property
    def key_name(self) -> str | None:
        """The name of the key; ``None`` for an anchor without one."""
        return None if self._key is None else key_name(self._secret)

    @property
    def _secret(self) -> bytes:
        """The key; raises if its file is missing."""
        assert self._key is not None
        key = read_key(self._key)
        if key is None:
            raise LedgerError(f"anchor: its key {self._key} is missing; restore it from a backup")
        return key

    def check(self, connection: Connection, head: Head | None) -> None:
        """Raise an error if the ledger lacks this head: it was then set back or rewritten."""
        seq, _ = connection.head
        if seq and head is not None and (name := self.key_name) != self._named:
            if name not in named_keys(connection).anchors:
                raise LedgerError(
                    f"anchor: no entry of the ledger names the key {self._key}, so the key or the "
                    "ledger was replaced; restore it. For a new anchor with a key of its own run "
                    "pufferkit ledger anchor"
                )
            self._named = name
        if head is None:
            if seq:
                raise LedgerError(
                    f"anchor: {self.path} does not exist, but the ledger has {seq} entries; "
                    "restore it, or create one deliberately with pufferkit ledger anchor"
                )
            return
        known = digest_at(connection, head.seq) if head.seq else GENESIS
        if seq < head.seq or known != head.digest:
            ends = f"ends at entry {seq}" if seq < head.seq else "has a different one"
            raise LedgerError(
                f"anchor: the ledger was set back or rewritten: {self.path} holds entry "
                f"{head.seq}, the ledger {ends}. Nothing was done; find out who restored or "
                "changed it"
            )

    def make_key(self) -> None:
        """Create the key, if there is to be one and its file does not exist."""
        if self._key is not None and read_key(self._key) is None:
            make_key(self._key)

    def make(self, head: Head) -> None:
        """Create the file, with its key."""
        self.make_key()
        self.advance(head)

    def advance(self, head: Head) -> None:
        """Store this head, unless the file already holds a later one."""
        try:
            with self._locked():
                held = self.read()
                if held is None or held.seq < head.seq:
                    self._write(head)
        except OSError as error:
            raise LedgerError(
                f"anchor: {self.path} cannot be written ({type(error).__name__}); nothing was "
                "handed over. Asking again is safe: an answer that was stored is returned unchanged"
            ) from None

    def _write(self, head: Head) -> None:
        data = {"format": FORMAT, "seq": head.seq, "digest": head.digest}
        text = canonical(data if self._key is None else {**data, "mac": _mac(self._secret, head)})
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            private_file(part, f"{text}\n".encode())
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Admit one process at a time, on systems with file locks."""
        try:
            import fcntl  # noqa: PLC0415
        except ImportError:  # pragma: no cover
            yield
            return
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _mac(key: bytes, head: Head) -> str:
    return hmac.new(key, f"{head.seq}:{head.digest}".encode(), "sha256").hexdigest()
