"""The ledger: a persistent, append-only account of what has been spent.

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
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pufferkit import checks
from pufferkit.accounting.amounts import allowed_micro, in_epsilon, show, spent_micro
from pufferkit.accounting.anchor import Anchor
from pufferkit.accounting.charges import (
    Charge,
    Terms,
    checked_charges,
    drafts_of,
    on_terms,
    over_budget,
    required,
)
from pufferkit.accounting.entries import (
    BELIEFS,
    DATA_MARKS,
    LEDGER,
    STATE,
    TERMS,
    Balance,
    Draft,
    Entry,
    Spelled,
    accounts_named,
    accounts_of,
    after_entry,
    append,
    asked_before,
    body_of,
    checked_name,
    entries_named,
    entry_of,
    keys_named,
    marks_named,
    rows,
    rows_after,
    states_named,
    states_of,
)
from pufferkit.accounting.fingerprints import Data
from pufferkit.accounting.following import LastWritten
from pufferkit.accounting.ledger_places import place_of
from pufferkit.accounting.ledger_tables import Connection
from pufferkit.accounting.recognition import Recognition
from pufferkit.accounting.replay import Examination, examine
from pufferkit.accounting.table_accounts import TableAccounts
from pufferkit.accounting.transactions import Transactions
from pufferkit.errors import LedgerError
from pufferkit.records import canonical
from pufferkit.shown import Shown


@dataclass(frozen=True)
class Read:
    """What a payment has to know.

    Of each account that exists its balance, what it was opened with and its state; and values and
    charges, by account and key.
    """

    balances: Mapping[str, Balance]
    opened: Mapping[str, Mapping[str, Any]]
    states: Mapping[str, Mapping[str, Any]]
    values: Mapping[tuple[str, str], Mapping[str, Any]]
    charged: Set[tuple[str, str]]


class Ledger(Shown):
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
    >>> list(book.balances(["alice", "bob"]))
    ['alice']
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
        self.by = checked_name("by", by or f"{_user()}@{socket.gethostname()}"[:200])
        self._place = place_of(url)
        self._recognition = Recognition(Path(key) if key is not None else self._place.key_path)
        self._anchor = None if anchor is None else Anchor(anchor, anchor_key)
        self._transactions = Transactions(self._place, self._recognition, self._anchor, self.by)
        self._last = LastWritten()
        self._read, self._write = self._transactions.read, self._transactions.write
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
    def exists(self) -> bool:
        """Whether the ledger exists; its first entry creates it."""
        return self._transactions.exists()

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
        return self.open_accounts([account], budget, rule=rule, about=about)[account]

    def open_accounts(
        self,
        accounts: Sequence[str],
        budget: float,
        *,
        rule: str = "sum",
        about: Mapping[str, Any] | None = None,
    ) -> dict[str, Balance]:
        """Open many accounts with one budget for each, in one transaction; all of them or none."""
        names = [checked_name("account", account) for account in dict.fromkeys(accounts)]
        terms = Terms(allowed_micro(budget), rule, about or {})

        def act(connection: Connection) -> dict[str, Balance]:
            known = on_terms(connection, dict.fromkeys(names, terms))
            body = terms.body
            drafts = [Draft(n, "open", "", 0, 0, body) for n in names if n not in known]
            append(connection, drafts, self.by, known)
            return accounts_named(connection, names)

        return self._write(act)

    def check_terms(
        self, accounts: Mapping[str, tuple[Terms | None, Data | None]], *, data_meant: bool = False
    ) -> None:
        """Raise now the error that a charge on these terms and about these data would raise."""

        def act(connection: Connection) -> None:
            terms = {name: terms for name, (terms, _) in accounts.items() if terms is not None}
            if terms:
                on_terms(connection, terms)
            data = {name: data for name, (_, data) in accounts.items() if data is not None}
            self._recognition.check(connection, data, data_meant)

        self._read(act)

    def change_budget(self, account: str, budget: float, *, why: str = "") -> Balance:
        """Change a budget; the chain records who changed it, when and why.

        A budget cannot fall below what is spent.
        """
        cap, key = allowed_micro(budget), secrets.token_hex(16)

        def act(connection: Connection) -> Balance:
            known = required(connection, account, charged=True)
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
            known = required(connection, account, charged=True)
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
        data_meant: bool = False,
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
        data_meant
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
        return TableAccounts(self, prefix, budget, data_meant, longest)

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
        if own := sorted({DATA_MARKS, STATE} & details.keys()):
            raise ValueError(
                f"{own[0]}: is a name that the ledger uses itself; give this detail another"
            )

        stood = self._last.account(account)
        if stood is not None and amount <= stood.remaining:
            draft = Draft(account, "charge", fresh, amount, stood.total + amount, body)
            head, after = self._last.head, after_entry(stood, draft)
            row = Spelled(self.by).row(draft, after, head)
            if self._transactions.follow(head, row):
                entry = entry_of(row)
                self._last.wrote(entry, after)
                return entry

        def act(connection: Connection) -> tuple[Entry, Balance | None]:
            # Both are requested before either is read: one round trip to a server.
            charged = entries_named(connection, [account], "charge", [fresh])
            known = required(connection, account, charged=True)
            if known.rule != "sum":
                raise ValueError(
                    f"account: {account!r} adds up by composition theorems; spend through "
                    "release(..., account=)"
                )
            earlier = next(charged, None)
            if earlier is not None:
                if earlier.epsilon != amount or earlier.body.get("what") != what:
                    raise ValueError(
                        f"key: {fresh!r} was charged to {account!r} for something else "
                        f"(ledger entry {earlier.seq}); use a new key for each charge"
                    )
                return earlier, None
            if amount > known.remaining:
                raise over_budget(amount, known.remaining)
            draft = Draft(account, "charge", fresh, amount, known.total + amount, body)
            row = append(connection, [draft], self.by, {account: known})[0]
            return entry_of(row), after_entry(known, draft)

        entry, now = self._write(act)
        if now is not None:
            self._last.wrote(entry, now)
        return entry

    def charge_many(self, charges: Sequence[Charge], *, data_meant: bool = False) -> bool:
        """Charge many accounts in one transaction: all or none, each key once.

        Accounts that do not exist are opened on the terms of their charge, and values are stored
        with their charges. Returns ``False`` and changes nothing if an account no longer has
        ``after`` entries or a value is stored already; read again then. Charges without a value
        whose key was charged before are left out.

        Raises
        ------
        OverBudget
            If one account cannot pay; then none does.
        """
        names, keys = checked_charges(charges)
        terms = {charge.account: charge.terms for charge in charges if charge.terms is not None}
        data = {charge.account: charge.data for charge in charges if charge.data is not None}

        def act(connection: Connection) -> bool:
            known = accounts_named(connection, names, charged=True)
            if terms:
                on_terms(connection, terms, known)
            there = [name for name in names if name in known]
            charged = keys_named(connection, there, "charge", keys)
            valued = keys_named(connection, there, "value", keys)
            marks = self._recognition.marks(connection, data, data_meant)
            made = drafts_of(charges, known, charged, valued, marks)
            if made is not None:
                before, drafts = connection.head, made[0]
                if drafts:
                    drafts = [*_named_beliefs(connection, charges, known), *drafts]
                    drafts += self._recognition.rows(connection, charges, data_meant)
                    known = {**known, **accounts_named(connection, [LEDGER])}
                append(connection, drafts, self.by, known, made[1])
                self._recognition.wrote(before, connection.head, names)
            return made is not None

        return self._write(act)

    # -- reading -------------------------------------------------------------------------------

    def find(self, account: str, key: str, kind: str = "value") -> Entry | None:
        """The charge or value with this key; ``None`` if there is none."""
        return self.find_many([account], [key], kind).get((account, key))

    def find_many(
        self, accounts: Iterable[str], keys: Sequence[str], kind: str = "value"
    ) -> dict[tuple[str, str], Entry]:
        """The existing charges or values of many accounts with these keys."""
        names = list(accounts)
        entries = self._read(lambda c: list(entries_named(c, names, kind, keys)), settle=True)
        return {(entry.account, entry.key): entry for entry in entries}

    def look(self, accounts: Sequence[str], keys: Sequence[str] = ()) -> Read:
        """What a payment has to know of these accounts, and of what has these keys, at one moment.

        Values may be handed over, so the anchor catches up.
        """

        def act(connection: Connection) -> Read:
            asked = asked_before(connection, accounts, keys)
            balances = accounts_named(connection, accounts, charged=True)
            states = states_named(connection, accounts)
            opened: dict[str, Mapping[str, Any]] = {}
            values: dict[tuple[str, str], Mapping[str, Any]] = {}
            charged: set[tuple[str, str]] = set()
            for seq, name, kind, key, text in asked:
                if kind in ("open", TERMS):
                    opened[name] = body_of(seq, text)
                elif kind == "value":
                    values[name, key] = body_of(seq, text)
                else:
                    charged.add((name, key))
            return Read(balances, opened, states, values, charged)

        return self._read(act, settle=bool(keys))

    def beliefs(self, digest: str) -> Mapping[str, Any] | None:
        """The beliefs with this digest, as their record; ``None`` if no account pays under them."""
        entries = self._read(lambda c: list(entries_named(c, [LEDGER], BELIEFS, [digest])))
        return entries[0].body["record"] if entries else None

    def balances(self, accounts: Iterable[str]) -> dict[str, Balance]:
        """The balances of these accounts; accounts that do not exist are left out."""
        return self._read(lambda connection: accounts_named(connection, accounts))

    def charges_of(self, accounts: Sequence[str]) -> tuple[dict[str, Balance], list[Entry]]:
        """Balances and charges of many accounts at one moment."""

        def act(connection: Connection) -> tuple[dict[str, Balance], list[Entry]]:
            known = accounts_named(connection, accounts)  # others have no entries
            return known, list(entries_named(connection, known, "charge")) if known else []

        return self._read(act)

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
            marks, states = marks_named(connection), states_of(connection)
            return examine(rows(connection), connection.stored_head, marks, states, head)

        return self._read(act)

    def export(self) -> Iterator[str]:
        """Every entry as a line of JSON, read in batches: entries are only ever added."""
        some = self._read(lambda connection: rows_after(connection, 0))
        while some:
            for row in some:
                yield canonical(entry_of(row).to_dict())
            last = some[-1][0]
            some = self._read(lambda connection: rows_after(connection, last))  # noqa: B023

    def make_anchor(self) -> None:
        """Create the anchor's file for a ledger that already has entries."""
        if self._anchor is None:
            raise ValueError("anchor: no file was named; give one: Ledger(..., anchor=FILE)")
        self._transactions.make_anchor()


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
