"""Checking a ledger: every entry is carried out again, and must lead to what is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pufferkit.accounting.database import GENESIS, Account, Entry


def problems(
    entries: Iterator[Entry],
    seq: int,
    digest: str,
    accounts: dict[str, Account],
    noted: str | None,
) -> list[str]:
    """What is wrong with a chain of entries that should end in this head and these balances."""
    found: list[str] = []
    previous, count = GENESIS, 0
    state: dict[str, Account] = {}
    charges: set[tuple[str, str]] = set()
    seen_note = noted in (None, GENESIS)
    for count, entry in enumerate(entries, 1):
        if entry.seq != count:
            found.append(f"entry {count} is missing; the next one is {entry.seq}")
            break
        if entry.previous != previous:
            found.append(f"entry {entry.seq} does not follow the entry before it")
        if entry.own_digest() != entry.digest:
            found.append(f"entry {entry.seq} was changed: its digest does not match")
        previous = entry.digest
        seen_note = seen_note or entry.digest == noted
        found += [f"entry {entry.seq}: {wrong}" for wrong in _replay(entry, state, charges)]
    if not found and (count, previous) != (seq, digest):
        found.append(f"the ledger ends at entry {count}, but its head is entry {seq}")
    if not seen_note:
        found.append("the digest noted earlier is not in the ledger; it was rewritten")
    if not found and state != accounts:
        wrong = sorted(k for k in {*state, *accounts} if state.get(k) != accounts.get(k))
        found.append(f"the balance of {', '.join(wrong)} does not follow from the entries")
    return found


def _replay(
    entry: Entry, state: dict[str, Account], charges: set[tuple[str, str]]
) -> Iterator[str]:
    """Carry one entry out on ``state``, and say what is wrong with it."""
    known = state.get(entry.account)
    if entry.kind == "open":
        if known is not None:
            yield f"{entry.account!r} was open already"
        rule, budget = entry.body.get("rule", ""), entry.body.get("budget", 0)
        state[entry.account] = Account(entry.account, rule, budget, 0, 1)
        return
    if known is None:
        yield f"{entry.account!r} was never opened"
        return
    if entry.kind == "charge":
        charges.add((entry.account, entry.key))
        if known.rule == "sum" and entry.total != known.total + entry.epsilon:
            yield "the total does not add up"
    elif (entry.account, entry.key) not in charges:
        yield "a value that was never charged"
    if entry.total < known.total:
        yield "the total went down"
    if entry.total > known.budget:
        yield "the total is over the budget"
    state[entry.account] = replace(known, total=entry.total, entries=known.entries + 1)
