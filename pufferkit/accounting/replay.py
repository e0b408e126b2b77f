"""Checking a ledger: all entries are replayed and must lead to the stored balances."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pufferkit.accounting.entries import (
    BELIEFS,
    DATA_MARKS,
    LEDGER,
    STATE,
    TERMS,
    Balance,
    Entry,
    after_entry,
    entry_of,
)
from pufferkit.accounting.ledger_tables import GENESIS
from pufferkit.accounting.standing import Standing
from pufferkit.errors import LedgerError
from pufferkit.records import canonical, digest


@dataclass(frozen=True)
class Examination:
    """The outcome of a check: problems as sentences, and the entries and head at that moment."""

    problems: tuple[str, ...]
    entries: int
    head: str


@dataclass
class _Replayed:
    """The balances, marks and states that the entries so far lead to."""

    accounts: dict[str, Balance]
    marks: dict[str, Any]
    charges: set[tuple[str, str]]
    states: dict[str, tuple[int, Any]]
    added: dict[str, Standing]


def examine(
    rows: Iterable[Any],
    head: tuple[int, str] | None,
    marks: Mapping[str, Any],
    states: Mapping[str, tuple[int, Any]],
    noted: str | None,
) -> Examination:
    """Check that a chain of entries is intact and leads to these marks and states."""
    problems: list[str] = []
    previous, count = GENESIS, 0
    state = _Replayed({}, {}, set(), {}, {})
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
    if not problems and state.marks != marks:
        wrong = _different(state.marks, marks)
        problems.append(f"the marks of the data of {wrong} do not follow from the entries")
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
    elif entry.kind != "open" and known is None:
        yield f"{entry.account!r} was never opened"
        return
    now = state.accounts[entry.account] = after_entry(known, entry)
    if DATA_MARKS in entry.body:
        state.marks[entry.account] = entry.body[DATA_MARKS]
    yield from _leads_to(entry, state)
    yield from _balance(entry, known, now, state)


def _balance(entry: Entry, known: Balance | None, now: Balance, state: _Replayed) -> Iterator[str]:
    """The problems of the balance that an entry states."""
    if entry[5:9] != (now.total, now.rule, now.budget, now.entries):
        yield "the balance does not follow from the entries before"
    if known is None or entry.kind == "open":
        return
    if entry.kind == "charge":
        state.charges.add((entry.account, entry.key))
        if known.rule == "sum" and entry.total != known.total + entry.epsilon:
            yield "the total does not add up"
    elif entry.kind == "value" and (entry.account, entry.key) not in state.charges:
        yield "its value was never charged"
    elif entry.kind not in ("value", "budget", "rows", TERMS):
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
