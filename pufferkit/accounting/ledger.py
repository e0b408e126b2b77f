"""The ledger: a persistent, append-only account of what has been spent.

Every entry names its account, what was done, and the account's total after it, and carries a digest
over itself and the digest before it. So an entry that was changed, removed or inserted later breaks
the chain, and `verify` says where. Whoever can write the database can also rewrite all of it from
some point on; keep the last digest elsewhere (``head``) and compare.

Spending takes the database's write lock first, then reads, checks and appends in one transaction:
``BEGIN IMMEDIATE`` with full synchronisation on SQLite, a row lock on PostgreSQL. Two processes
cannot both take the last of a budget.

A release is two entries. The *charge* is committed before any noise is drawn. The *value* is stored
before it is handed over, and only once for each charge. A crash in between leaves a charge without
a value; asking again for the same release then draws under the same charge.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from pufferkit.accounting import bulk
from pufferkit.accounting.amounts import allowed_micro, in_epsilon, show, spent_micro
from pufferkit.accounting.bulk import Charge, Draft
from pufferkit.accounting.database import (
    ACCOUNTS,
    ENTRIES,
    HEAD,
    Account,
    Entry,
    account_of,
    append,
    canonical,
    database_url,
    engine_of,
    entry_of,
    find,
    prepare,
    required,
    update_account,
    writing,
)
from pufferkit.accounting.replay import problems
from pufferkit.errors import OverBudget


class Ledger:
    """An account book in a SQLite file or a PostgreSQL database.

    Parameters
    ----------
    url
        A path (``"ledger.db"``), or a database URL: ``sqlite:///ledger.db``,
        ``postgresql://user:password@host/name``.
    by
        Who is spending; the operating system's user and host if left out.

    Examples
    --------
    >>> import tempfile, os
    >>> book = Ledger(os.path.join(tempfile.mkdtemp(), "ledger.db"))
    >>> _ = book.open_account("alice", budget=0.3)
    >>> for _ in range(3):
    ...     _ = book.spend("alice", 0.1, what="weekly count")
    >>> book.remaining("alice")
    0.0
    """

    def __init__(self, url: str | os.PathLike[str], *, by: str | None = None) -> None:
        self.url = database_url(url)
        self.by = by or f"{_user()}@{socket.gethostname()}"
        self._engine = engine_of(self.url)
        try:
            prepare(self._engine)
        except Exception:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Ledger({self._engine.url.render_as_string(hide_password=True)!r})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of database connections."""
        self._engine.dispose()

    # -- accounts ------------------------------------------------------------------------------

    def open_account(
        self,
        account: str,
        budget: float,
        *,
        rule: str = "sum",
        about: Mapping[str, Any] | None = None,
    ) -> Account:
        """Open an account with a budget; the same call again changes nothing.

        Parameters
        ----------
        account
            Its name: which data it is about.
        budget
            Most epsilon that may be spent, ever.
        rule
            ``"sum"``: amounts add up. ``"composed"``: each charge brings the joint total, worked
            out by a theorem.
        about
            Facts to record with the account; a later call must bring the same.
        """
        return self.open_accounts([account], budget, rule=rule, about=about)[account]

    def open_accounts(
        self,
        accounts: Sequence[str],
        budget: float,
        *,
        rule: str = "sum",
        about: Mapping[str, Any] | None = None,
    ) -> dict[str, Account]:
        """Open many accounts with one budget for each, in one transaction; all of them or none."""
        for account in accounts:
            if not account or len(account) > 200:
                raise ValueError(f"account: needs a name of 1 to 200 characters, got {account!r}")
        if rule not in ("sum", "composed"):
            raise ValueError(f"rule: must be 'sum' or 'composed', got {rule!r}")
        cap, facts = allowed_micro(budget), json.loads(canonical(dict(about or {})))
        with writing(self._engine) as connection:
            known = bulk.accounts_named(connection, accounts)
            for found in known.values():
                _same_terms(found, cap, rule)
            for opened in bulk.entries_named(connection, known, "open"):
                _same_facts(opened, facts)
            fresh = [name for name in dict.fromkeys(accounts) if name not in known]
            body = {"budget": cap, "rule": rule, "about": facts}
            drafts = [Draft(name, "open", "", 0, 0, body) for name in fresh]
            bulk.append_many(connection, drafts, self.by)
            made = {name: Account(name, rule, cap, 0, 1) for name in fresh}
            bulk.open_rows(connection, list(made.values()))
            return {**known, **made}

    def account(self, account: str) -> Account:
        """Where an account stands."""
        with self._engine.connect() as connection:
            found = account_of(connection, account)
        if found is None:
            raise ValueError(f"account: {account!r} is not in this ledger; open it first")
        return found

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        with self._engine.connect() as connection:
            rows = connection.execute(ACCOUNTS.select().order_by(ACCOUNTS.c.account))
            return [Account(**row._mapping) for row in rows]

    def remaining(self, account: str) -> float:
        """Epsilon that is left."""
        return in_epsilon(self.account(account).remaining)

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
        """Spend epsilon from an account whose amounts add up. Once for each ``key``, if given.

        Raises
        ------
        OverBudget
            If it does not fit; nothing is spent then.
        """
        amount = spent_micro(epsilon)
        if amount <= 0:
            raise ValueError(f"epsilon: must be above 0, got {epsilon!r}")
        with writing(self._engine) as connection:
            known = required(connection, account)
            if known.rule != "sum":
                raise ValueError(
                    f"account: {account!r} is kept by composition theorems; spend through a Session"
                )
            if key is not None and (earlier := find(connection, account, "charge", key)):
                return earlier
            if amount > known.remaining:
                raise over_budget(amount, known.remaining)
            fresh = key or f"{known.entries}"
            return self._charge(
                connection, known, fresh, amount, known.total + amount, {"what": what, **details}
            )

    def charge(
        self,
        account: str,
        key: str,
        epsilon: float,
        total: int,
        body: Mapping[str, Any],
        *,
        after: int,
    ) -> Entry | None:
        """Charge a release whose joint ``total`` (millionths) was worked out from the history.

        Returns ``None``, and changes nothing, if the account has moved on from ``after`` entries;
        read the history again then. The same ``key`` is charged once.
        """
        with writing(self._engine) as connection:
            known = required(connection, account)
            if earlier := find(connection, account, "charge", key):
                return earlier
            if known.entries != after:
                return None
            if total > known.budget:
                raise over_budget(total - known.total, known.remaining)
            total = max(total, known.total)
            return self._charge(connection, known, key, spent_micro(epsilon), total, body)

    def store(self, account: str, key: str, body: Mapping[str, Any]) -> Entry:
        """Store the noisy value of a charge, once. What is stored is what may be handed over."""
        with writing(self._engine) as connection:
            known = required(connection, account)
            charge = find(connection, account, "charge", key)
            if charge is None:
                raise ValueError(f"key: {key!r} was never charged to {account!r}")
            earlier = find(connection, account, "value", key)
            if earlier is not None:
                return earlier
            entry = append(connection, account, "value", key, 0, known.total, dict(body), self.by)
            update_account(connection, known, known.total)
            return entry

    def charge_many(self, charges: Sequence[Charge]) -> bool:
        """Charge many accounts in one transaction: all or none, each key once.

        Returns ``False``, and changes nothing, if an account has moved on from ``after`` entries;
        read its history again then. Charges whose key was charged before are left out.

        Raises
        ------
        OverBudget
            If one account cannot pay; then none does.
        """
        names = [charge.account for charge in charges]
        with writing(self._engine) as connection:
            known = bulk.accounts_named(connection, names)
            keys = list({charge.key for charge in charges})
            earlier = bulk.keys_named(connection, names, "charge", keys)
            before = {name: account.entries for name, account in known.items()}
            drafts: list[Draft] = []
            for charge in charges:
                if (charge.account, charge.key) in earlier:
                    continue
                if charge.account not in known:
                    raise ValueError(f"account: {charge.account!r} is not in this ledger")
                account = known[charge.account]
                if before[charge.account] != charge.after:
                    return False
                if charge.total > account.budget:
                    refusal = over_budget(charge.total - account.total, account.remaining)
                    raise OverBudget(f"{charge.account}: {refusal}")
                total = max(charge.total, account.total)
                known[charge.account] = replace(account, total=total, entries=account.entries + 1)
                drafts.append(
                    Draft(charge.account, "charge", charge.key, charge.epsilon, total, charge.body)
                )
                earlier.add((charge.account, charge.key))
            bulk.append_many(connection, drafts, self.by)
            changed = {draft.account for draft in drafts}
            bulk.update_rows(connection, (known[name] for name in changed))
            return True

    def store_many(
        self, values: Sequence[tuple[str, str, Mapping[str, Any]]]
    ) -> dict[tuple[str, str], Mapping[str, Any]]:
        """Store many values (account, key, body) in one transaction, each once.

        Returns what is stored, which is what may be handed over: where a value was there before,
        that one.
        """
        names = [account for account, _, _ in values]
        keys = list({key for _, key, _ in values})
        with writing(self._engine) as connection:
            charged = bulk.keys_named(connection, names, "charge", keys)
            there = {
                (entry.account, entry.key): entry.body
                for entry in bulk.entries_named(connection, names, "value", keys)
            }
            known = bulk.accounts_named(connection, names)
            drafts: list[Draft] = []
            for account, key, body in values:
                if (account, key) not in charged:
                    raise ValueError(f"key: {key!r} was never charged to {account!r}")
                if (account, key) in there:
                    continue
                drafts.append(Draft(account, "value", key, 0, known[account].total, body))
                there[account, key] = json.loads(canonical(body))
                known[account] = replace(known[account], entries=known[account].entries + 1)
            bulk.append_many(connection, drafts, self.by)
            bulk.update_rows(connection, (known[name] for name in {d.account for d in drafts}))
        return there

    def find_many(
        self, accounts: Iterable[str], keys: Sequence[str], kind: str = "value"
    ) -> dict[tuple[str, str], Entry]:
        """The charges or values of many accounts with these keys, where there are any."""
        with self._engine.connect() as connection:
            found = bulk.entries_named(connection, accounts, kind, keys)
            return {(entry.account, entry.key): entry for entry in found}

    def charges_of(self, accounts: Sequence[str]) -> tuple[dict[str, Account], list[Entry]]:
        """Where many accounts stand, and all their charges, as of one moment."""
        with self._engine.connect() as connection:
            known = bulk.accounts_named(connection, accounts)
            return known, list(bulk.entries_named(connection, accounts, "charge"))

    def find(self, account: str, key: str, kind: str = "value") -> Entry | None:
        """The charge or value with this key, if there is one."""
        with self._engine.connect() as connection:
            return find(connection, account, kind, key)

    def _charge(
        self,
        connection: sa.Connection,
        known: Account,
        key: str,
        amount: int,
        total: int,
        body: Mapping[str, Any],
    ) -> Entry:
        entry = append(connection, known.account, "charge", key, amount, total, dict(body), self.by)
        update_account(connection, known, total)
        return entry

    # -- reading -------------------------------------------------------------------------------

    def entries(self, account: str | None = None) -> list[Entry]:
        """All entries in order, or those of one account."""
        return list(self._entries(account))

    def _entries(self, account: str | None) -> Generator[Entry, None, None]:
        query = ENTRIES.select().order_by(ENTRIES.c.seq)
        if account is not None:
            query = query.where(ENTRIES.c.account == account)
        with (
            self._engine.connect() as connection,
            connection.execution_options(yield_per=1000).execute(query) as rows,
        ):
            for row in rows:
                yield entry_of(row)

    @property
    def head(self) -> str:
        """Digest of the last entry. Keep it elsewhere to notice a rewritten ledger."""
        with self._engine.connect() as connection:
            return str(connection.execute(sa.select(HEAD.c.digest)).scalar_one())

    def verify(self, head: str | None = None) -> list[str]:
        """What is wrong with the ledger, in words; empty if nothing is.

        Parameters
        ----------
        head
            A digest noted down earlier; it must still be in the chain.
        """
        with self._engine.connect() as connection:
            stored = connection.execute(HEAD.select()).one()
            accounts = {
                row.account: Account(**row._mapping)
                for row in connection.execute(ACCOUNTS.select())
            }
        with closing(self._entries(None)) as entries:
            return problems(entries, stored.seq, stored.digest, accounts, head)

    def export(self) -> Iterator[str]:
        """Every entry as a line of JSON."""
        for entry in self._entries(None):
            yield canonical(entry.to_dict())


def over_budget(requested: int, remaining: int, fits: str = "") -> OverBudget:
    """The refusal, in the words people look for."""
    return OverBudget(
        f"requested {show(requested)}, remaining {show(max(0, remaining))}, "
        f"short by {show(requested - max(0, remaining))}" + (f"; {fits}" if fits else "")
    )


def _same_terms(known: Account, budget: int, rule: str) -> None:
    if (known.budget, known.rule) != (budget, rule):
        raise ValueError(
            f"account: {known.account!r} is open with budget {show(known.budget)} "
            f"({known.rule}), not {show(budget)} ({rule}); a budget does not change, "
            "use another account name"
        )


def _same_facts(opened: Entry, facts: Mapping[str, Any]) -> None:
    there = opened.body["about"]
    if there != facts:
        different = sorted(k for k in {*facts, *there} if facts.get(k) != there.get(k))
        raise ValueError(
            f"account: {opened.account!r} was opened for other data or beliefs "
            f"({', '.join(different)} differ); use another account name"
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
