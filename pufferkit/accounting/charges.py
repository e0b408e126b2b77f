"""Charges: the terms that open an account, what is refused, and the entries that are made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from pufferkit.accounting.amounts import show
from pufferkit.accounting.entries import (
    LONGEST_KEY,
    STATE,
    Balance,
    Draft,
    Extended,
    accounts_named,
    body_of,
    checked_name,
    terms_named,
)
from pufferkit.accounting.fingerprints import Data
from pufferkit.accounting.ledger_tables import Connection
from pufferkit.errors import OverBudget
from pufferkit.records import canonical, digest

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
            raise ValueError(
                f"account: {known.account!r} was opened for other data or beliefs "
                f"({', '.join(different)} differ); use it for those, or choose another name"
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
    there. ``terms`` open an account with its first charge. ``value`` is the noisy answer, stored in
    the same transaction. ``data`` are the data of the account, by which they are recognised later.
    ``state`` is the accumulated state after this charge. ``rows`` are those of its window alone,
    where an account is charged window by window; ``body["use"]`` says which.
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
        for amount in map(attrgetter(name), charges):
            if type(amount) is not int or amount < 0:
                raise ValueError(f"{name}: must be an integer of at least 0, got {amount!r}")
    return names, keys


States = dict[str, Mapping[str, Any] | None]
"""The accumulated states of accounts; ``None`` where the stored one is out of date."""


def drafts_of(
    charges: Sequence[Charge],
    before: Mapping[str, Balance],
    charged: set[tuple[str, str]],
    valued: set[tuple[str, str]],
    marks: Mapping[str, Mapping[str, Any]],
) -> tuple[list[Draft], States] | None:
    """Openings, charges and values in order, and the states that they lead to.

    ``None`` if an account has newer entries or a value is stored already. ``before`` are the
    accounts that exist, ``charged`` and ``valued`` the keys that were used, ``marks`` what the
    first charge to an account records about its data.
    """
    drafts: list[Draft] = []
    states: States = {}
    totals = {name: account.total for name, account in before.items()}
    marked, charged, valued = dict(marks), set(charged), set(valued)
    digests: dict[int, str] = {}  # many accounts have the same state
    for charge in charges:
        name, terms, known = charge.account, charge.terms, before.get(charge.account)
        place = (name, charge.key)
        if charge.value is not None and place in valued:
            return None
        if place in charged and charge.value is None:
            continue
        if known is None and terms is None:
            raise ValueError(f"account: {name!r} is not in this ledger; open it first")
        if charge.after != (0 if known is None else known.entries):
            return None
        if place not in charged:
            if name not in totals and terms is not None:
                drafts.append(Draft(name, "open", "", 0, 0, terms.body))
            budget, total = (known or terms).budget, totals.get(name, 0)  # type: ignore[union-attr]
            if charge.total > budget:
                raise OverBudget(f"{name}: {over_budget(charge.total - total, budget - total)}")
            totals[name] = max(charge.total, total)
            body, added = charge.body, marked.pop(name, {})
            if charge.state is not None:
                added = {**added, STATE: _digest_of(charge.state, digests)}
            elif STATE in body:  # copied from another entry
                body = {key: value for key, value in body.items() if key != STATE}
            body = Extended(body, added) if added else body
            if charge.state is not None or known is not None:
                states[name] = charge.state
            drafts.append(Draft(name, "charge", charge.key, charge.epsilon, totals[name], body))
            charged.add(place)
        if charge.value is not None:
            drafts.append(Draft(name, "value", charge.key, 0, totals[name], charge.value))
            valued.add(place)
    return drafts, states


def _digest_of(state: Mapping[str, Any], known: dict[int, str]) -> str:
    if id(state) not in known:
        known[id(state)] = digest(state)
    return known[id(state)]


def required(connection: Connection, account: str, *, charged: bool = False) -> Balance:
    """The balance of an account, which may be about to be charged; raises if there is none."""
    known = accounts_named(connection, [account], charged=charged).get(account)
    if known is None:
        raise ValueError(f"account: {account!r} is not in this ledger; open it first")
    return known


def on_terms(
    connection: Connection, terms: Mapping[str, Terms], known: Mapping[str, Balance] | None = None
) -> Mapping[str, Balance]:
    """Those of these accounts that exist; raises if their terms differ."""
    known = accounts_named(connection, terms) if known is None else known
    opened = [name for name in terms if name in known]
    agreed = set()
    for seq, name, text in terms_named(connection, opened):
        account = known[name]
        same = (text, id(terms[name]), account.rule, account.budget)
        if same not in agreed:  # which many accounts have in common
            terms[name].check(account, body_of(seq, text))
            agreed.add(same)
    return known


def over_budget(requested: int, remaining: int, fits: str = "") -> OverBudget:
    """The error for a charge that exceeds the budget."""
    return OverBudget(
        f"requested {show(requested)}, remaining {show(max(0, remaining))}, "
        f"short by {show(requested - max(0, remaining))}" + (f"; {fits}" if fits else "")
    )
