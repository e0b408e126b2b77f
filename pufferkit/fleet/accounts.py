"""Charging many releases: every subject has its own account.

For its noise, a run over windows is one release: no entry is in two windows, so all windows
together are one query with the Lipschitz constant of one, and epsilon covers all of them. Earlier
charges to an account are added entry by entry (the rule ``entry_profile`` of `composition`).
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit.accounting.amounts import PICO, allowed_micro, spent_micro, spent_pico
from pufferkit.accounting.charges import Charge, Terms, over_budget
from pufferkit.accounting.composition import entry_profile
from pufferkit.accounting.entries import Balance, Entry, Extended, checked_name
from pufferkit.accounting.fingerprints import Data
from pufferkit.accounting.ledger import Ledger
from pufferkit.accounting.spending import Spending
from pufferkit.checks import Floats
from pufferkit.data.table import Counts
from pufferkit.errors import LedgerError, OverBudget
from pufferkit.fleet.released_entries import (
    Span,
    check_same,
    check_unchanged,
    recorded_segments,
    spent_on_entry,
    spent_on_segment,
)
from pufferkit.fleet.subject_run import FleetRun, PendingRelease
from pufferkit.influence.curve.profile import InfluenceCurve
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.records import canonical, digest

_MOST_PROFILES = 200

Draw = Callable[[Counts], tuple[Floats, Floats]]
"""Draws noisy counts for these releases; returns them and their scales."""

DrawRecord = Callable[[float], Mapping[str, Any]]
"""The noisy values of a run that are kept in one place, with at least this scale."""


@dataclass(frozen=True)
class Receipt:
    """The cost of a batch of releases, and their stored values."""

    joint_micro: int
    """The largest cost of all rows to one subject, in millionths of epsilon: the epsilon of the
    run, or more if some were released when the series was shorter, and with less noise."""
    values: Sequence[Mapping[str, Any]]
    """The stored value of each release, in order."""


_Unpaid = tuple[list[PendingRelease], int, str]
"""The releases that an account has still to pay for, the total after them, and its rule."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without searches for cycles of objects.

    A batch makes many objects, without cycles, and each search would walk through all of them.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Accounts:
    """The accounts of one run.

    Parameters
    ----------
    ledger, budget
        The ledger of the accounts, and the budget of each.
    run
        The run that is released.
    data
        The data of each account, where they can be recognised.
    data_meant
        Confirms data that changed, or that are known under another name.
    """

    def __init__(
        self,
        ledger: Ledger,
        budget: float,
        run: FleetRun,
        data: Mapping[str, Data] | None = None,
        data_meant: bool = False,
    ) -> None:
        self.ledger, self.run = ledger, run
        self.data, self._meant = data or {}, data_meant
        about = {"beliefs": run.beliefs_digest, "kept by": "fleet"}
        self.terms = Terms(allowed_micro(budget), "composed", about)
        self._amount = spent_micro(run.epsilon)
        self._profiles: dict[Any, int] = {}
        self._privacies: dict[str, int] = {}
        self._bodies: dict[Any, tuple[dict[str, Any], dict[Any, Extended]]] = {}

    @_uncollected()
    def check(self, pending: Sequence[PendingRelease]) -> int | None:
        """Raise unless every account can pay; nothing is written or spent.

        Returns the joint cost if all of them were charged before, for `repeated`.
        """
        names = [checked_name("account", n) for n in dict.fromkeys(r.account for r in pending)]
        self.ledger.check_terms(dict.fromkeys(names, (self.terms, None)))
        known, entries = self._standing(names)
        unpaid = self._unpaid(pending, known, entries)
        if self.data:
            data = {name: (None, self.data.get(name)) for name in names}
            self.ledger.check_terms(data, data_meant=self._meant)
        short = [name for name, (_, total, _) in unpaid.items() if total > known[name].budget]
        if short:
            first = known[short[0]]
            fits = "ask for less, or repeat an earlier run's label to get its values at no cost"
            refusal = over_budget(unpaid[short[0]][1] - first.total, first.remaining, fits)
            more = f" (and {len(short) - 1:,} more like it)" if len(short) > 1 else ""
            raise OverBudget(f"{first.account}{more}: {refusal}")
        return None if unpaid else self._joint_micro(pending, entries)

    def telling(self, names: Sequence[str]) -> set[str]:
        """The accounts that can be refused: those that exist, and one that is new.

        New accounts pay the same, so one of them stands for all; their names are checked here.
        """
        known = self.ledger.balances(names)
        new = [checked_name("account", name) for name in names if name not in known]
        return {*known, *new[:1]}

    @_uncollected()
    def repeated(
        self, pending: Sequence[PendingRelease], joint_micro: int | None
    ) -> Receipt | None:
        """The values of releases that cost this much before; ``None`` if one is not stored."""
        if joint_micro is None:
            return None
        keys = self.run.keys(release.window for release in pending)
        places = [(release.account, keys[release.window]) for release in pending]
        names = dict.fromkeys(release.account for release in pending)
        stored = _bodies(self.ledger.find_many(names, list(keys.values())))
        if not all(place in stored for place in places):
            return None
        return Receipt(joint_micro, [stored[place] for place in places])

    @_uncollected()
    def pay(self, pending: Sequence[PendingRelease], draw: Draw) -> Receipt:
        """Charges and values of all of them in one transaction, each once.

        The stored value counts, whoever wrote it: existing values are returned unchanged, and a
        draw is dropped if another process stored its value first.
        """
        names = list(dict.fromkeys(release.account for release in pending))
        keys = self.run.keys(release.window for release in pending)
        places = [(release.account, keys[release.window]) for release in pending]
        run = self.run.identity
        while True:
            known, entries, stored = self.ledger.paid(names, list(keys.values()))
            known, values = self._with_new(known, names), _bodies(stored)
            unpaid = self._unpaid(pending, known, entries)
            charged = {(e.account, e.key) for e in entries if e.body["run"] == run}
            missing = np.array([n for n, at in enumerate(places) if at not in values], dtype=int)
            if len(missing):
                lost = next((places[n][0] for n in missing if places[n] in charged), None)
                if lost is not None:  # a charge and its value are written together
                    raise LedgerError(
                        f"ledger: {lost!r} was charged for this run, and the value is missing: "
                        "entries were removed. Restore a backup and run pufferkit ledger verify"
                    )
                noisy, scales = draw(missing)
                new = {
                    places[n]: {"value": value, "scale": scale}
                    for n, value, scale in zip(
                        missing.tolist(), noisy.tolist(), scales.tolist(), strict=True
                    )
                }
                batch = self._charges(unpaid, known, new)
                if not self.ledger.charge_many(batch, data_meant=self._meant):
                    continue
                values |= new
            return Receipt(self._joint_micro(pending, entries), [values[p] for p in places])

    def pay_jointly(
        self,
        pending: Sequence[PendingRelease],
        record: str,
        body: Mapping[str, Any],
        draw: DrawRecord,
    ) -> str:
        """Charge a release whose values are stored in one place, the account ``record``.

        That account is charged in the same transaction, with the largest total. A run is drawn as a
        whole, so its label is for exactly these entries. The values are stored in the same
        transaction. Returns their key.
        """
        return self.pay_record(record, used_digest([pending]), body, draw, pending)

    def pay_in_batches(
        self,
        batches: Callable[[], Iterable[Sequence[PendingRelease]]],
        record: str,
        body: Mapping[str, Any],
        draw: DrawRecord,
    ) -> str:
        """The same for more releases than one transaction should hold, one for each batch.

        All accounts are checked before one is charged, and values are drawn when the last has paid.
        If another process spends in the meantime, or this one is killed, some have paid and nothing
        is drawn; the same call continues from there.
        """
        used, total, scale = used_digest(batches()), 0, 0.0
        self.refuse_other_entries(record, used)
        self.ledger.check_terms({record: (self.terms, None)})
        for pending in batches():
            self.check(pending)
            self.forget()
        for pending in batches():
            own, charged = self.charge(pending)
            total, scale = max(total, own), max(scale, charged)
            self.forget()
        return self.pay_record(
            record, used, body, lambda least: draw(max(least, scale)), least=total
        )

    @_uncollected()
    def charge(self, pending: Sequence[PendingRelease]) -> tuple[int, float]:
        """Charge some releases of a run whose value is stored in one place, each once.

        Nothing is drawn before `pay_record`, after all of them. Returns the largest total, and the
        largest scale that was charged for: a run that was killed, among subjects of which some had
        longer series, may have charged for more noise.
        """
        names = list(dict.fromkeys(release.account for release in pending))
        while True:
            known, entries = self._standing(names)
            charges = self._charges(self._unpaid(pending, known, entries), known)
            if not charges:
                return max(account.total for account in known.values()), self._charged(entries)
            self.ledger.charge_many(charges, data_meant=self._meant)

    def refuse_other_entries(self, record: str, used: str) -> None:
        """Refuse a label that stands for other entries than these."""
        self._same_entries(record, self._record_key, used)

    def forget(self) -> None:
        """Drop the caches, which grow with the number of subjects."""
        self._bodies.clear()

    @property
    def _record_key(self) -> str:
        return digest({"run": self.run.identity, "record": True})

    @_uncollected()
    def pay_record(
        self,
        record: str,
        used: str,
        body: Mapping[str, Any],
        draw: DrawRecord,
        pending: Sequence[PendingRelease] = (),
        least: int = 0,
    ) -> str:
        """Draw and store values, and charge those of ``pending`` that `charge` did not.

        ``used`` is a digest of the entries, ``least`` the largest total so far. Returns the key.
        """
        key = self._record_key
        facts = {**body, "label": self.run.label, "run": self.run.identity, "entries used": used}
        facts |= self._notes
        names = list(dict.fromkeys(release.account for release in pending))
        amount = self._amount
        self.ledger.check_terms(dict.fromkeys([*names, record], (self.terms, None)))
        while True:
            self._same_entries(record, key, used)
            known, entries = self._standing([*names, record])
            charges = self._charges(self._unpaid(pending, known, entries), known)
            account = known[record]
            total = max([account.total, least, *(charge.total for charge in charges)])
            drawn = self.ledger.find(record, key) is not None
            value = None if drawn else draw(self._charged(entries))
            charges.append(
                Charge(record, key, amount, total, facts, account.entries, self.terms, value)
            )
            if self.ledger.charge_many(charges, data_meant=self._meant):
                break
        # Another process may have charged the same label for other entries in the meantime.
        self._same_entries(record, key, used)
        return key

    def _charged(self, entries: Sequence[Entry]) -> float:
        """The largest scale that this run was charged for."""
        own = (e.body["scale"] for e in entries if e.body["run"] == self.run.identity)
        return max(own, default=0.0)

    def _standing(self, names: Sequence[str]) -> tuple[dict[str, Balance], list[Entry]]:
        """Balances of the accounts, also of those that do not exist yet, and their charges."""
        known, entries = self.ledger.charges_of(names)
        return self._with_new(known, names), entries

    def _with_new(self, known: Mapping[str, Balance], names: Sequence[str]) -> dict[str, Balance]:
        """The balances of all of these accounts; those that do not exist are empty."""
        rule, budget = self.terms.rule, self.terms.budget
        return {n: known.get(n) or Balance(n, rule, budget, 0, 0) for n in names}

    def _same_entries(self, record: str, key: str, used: str) -> None:
        charged = self.ledger.find(record, key, "charge")
        if charged is not None and charged.body["entries used"] != used:
            raise ValueError(
                f"label: the run {self.run.label!r} was made for other data; give this one "
                "another label"
            )

    def _charges(
        self,
        unpaid: Mapping[str, _Unpaid],
        known: Mapping[str, Balance],
        values: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
    ) -> list[Charge]:
        """The charges still to be made, with their values, and the joint total of each account."""
        keys = self.run.keys(release.window for new, _, _ in unpaid.values() for release in new)
        amount, terms, charges = self._amount, self.terms, list[Charge]()
        for name, (new, total, rule) in unpaid.items():
            after, data = known[name].entries, self.data.get(name)
            for release in new:
                key, body = keys[release.window], self._body(release, rule)
                value = None if values is None else values[name, key]
                charges.append(
                    Charge(name, key, amount, total, body, after, terms, value, data=data)
                )
        return charges

    def _unpaid(
        self, pending: Sequence[PendingRelease], known: dict[str, Balance], entries: Sequence[Entry]
    ) -> dict[str, _Unpaid]:
        """The releases that each account has still to pay for."""
        history: dict[str, list[Entry]] = {}
        for entry in entries:
            history.setdefault(entry.account, []).append(entry)
        by_account: dict[str, list[PendingRelease]] = {}
        for release in pending:
            by_account.setdefault(release.account, []).append(release)
        keys = self.run.keys(release.window for release in pending)
        unpaid: dict[str, _Unpaid] = {}
        for name, wanted in by_account.items():
            earlier, new = history.get(name, []), wanted
            if earlier:
                check_unchanged(name, earlier, wanted[0])
                paid = {entry.key: entry for entry in earlier}
                for release in wanted:
                    before = paid.get(keys[release.window])
                    if before is not None:
                        check_same(self.run.label, release, before)
                new = [release for release in wanted if keys[release.window] not in paid]
            if not new:
                continue
            total, rule = self._joint(earlier, new) if earlier else (self._amount, "one release")
            unpaid[name] = (new, max(total, known[name].total), rule)
        return unpaid

    def _joint(self, earlier: Sequence[Entry], new: Sequence[PendingRelease]) -> tuple[int, str]:
        """Millionths of epsilon for everything ever released about this subject."""
        b = self._pico(new[0].calibration)
        other = [
            entry
            for entry in earlier
            if (entry.body["run"], entry.body["entry_privacy_pico"]) != (self.run.identity, b)
        ]
        if not other:
            return self._amount, "one release"
        spans = [(*entry.body["window"], entry.body["entry_privacy_pico"]) for entry in earlier]
        spans += [(release.first, release.last, b) for release in new]
        return self._loss(spans, new[0])

    def _joint_micro(self, pending: Sequence[PendingRelease], earlier: Sequence[Entry]) -> int:
        """The largest cost of these rows of one run to one subject, in millionths of epsilon.

        Of those that were charged earlier, the event-level epsilon may have been a larger one.
        """
        run, charged = self.run.identity, dict[tuple[str, str], int]()
        for entry in earlier:
            if entry.body["run"] == run:
                charged[entry.account, entry.key] = entry.body["entry_privacy_pico"]
        most = self._amount
        if not charged:
            return most
        keys = self.run.keys(release.window for release in pending)
        rows: dict[str, list[Span]] = {}
        raised: dict[str, PendingRelease] = {}
        for release in pending:
            now = self._pico(release.calibration)
            pico = charged.get((release.account, keys[release.window]), now)
            rows.setdefault(release.account, []).append((release.first, release.last, pico))
            if pico > now:
                raised[release.account] = release
        for name, release in raised.items():
            if self.run.mechanism == "group_dp":  # it holds under every belief
                most = max(most, spent_on_segment(rows[name], release.lengths))
            else:
                most = max(most, self._loss(rows[name], release)[0])
        return most

    def _loss(self, spans: Sequence[Span], release: PendingRelease) -> tuple[int, str]:
        """Cost in millionths of epsilon of this spending on a subject's entries, and the rule."""
        lengths = release.lengths
        signature = (tuple(sorted(spans)), lengths)
        if signature not in self._profiles:
            theta = self.run.beliefs
            if len(self._profiles) < _MOST_PROFILES:
                spendings = [
                    Spending("influence_curve", 1.0, (first, last), pico / PICO)
                    for first, last, pico in spans
                ]
                loss = entry_profile(spendings, theta, lengths)
                self._profiles[signature] = spent_micro(loss)
            else:
                # As if every entry had spent as much as the largest: a bound that many share.
                flat = ("flat", spent_on_entry(spans), release.calibration.query.longest)
                if flat not in self._profiles:
                    loss = InfluenceCurve(theta, flat[2]).epsilon(flat[1] / PICO)
                    self._profiles[flat] = spent_micro(loss)
                return self._profiles[flat], "entry_profile, raised to its largest"
        return self._profiles[signature], "entry_profile"

    def _pico(self, calibration: Calibration) -> int:
        if calibration.digest not in self._privacies:
            self._privacies[calibration.digest] = spent_pico(calibration.entry_epsilon)
        return self._privacies[calibration.digest]

    @property
    def _notes(self) -> dict[str, Any]:
        notes = self.run.beliefs.caveats
        return {"notes": list(notes)} if notes else {}

    def _body(self, release: PendingRelease, rule: str) -> Extended:
        """The body for the ledger; the same object for subjects of equal lengths and beginnings."""
        made = release.calibration.digest
        places = (release.lengths, release.first, release.last, release.entries, release.step)
        same = (made, *places, rule)
        if same not in self._bodies:
            shared = {
                "query": self.run.query,
                "label": self.run.label,
                "run": self.run.identity,
                "window": [release.first, release.last],
                "step": release.step,
                "entries": release.entries,
                "independent_after": release.independent_after,
                "segments": recorded_segments(release.lengths, release.last),
                "beliefs": self.run.beliefs_digest,
                "calibration": made,
                "mechanism": self.run.mechanism,
                "scale": release.calibration.scale,
                "entry_privacy_pico": self._pico(release.calibration),
                "rule": rule,
                **self._notes,
            }
            self._bodies[same] = (shared, {})
        shared, bodies = self._bodies[same]
        if release.begins not in bodies:
            bodies[release.begins] = Extended(shared, {"begins": release.begins})
        return bodies[release.begins]


def used_digest(batches: Iterable[Iterable[PendingRelease]]) -> str:
    """Digest of the entries that releases use, in their order."""
    text, between = hashlib.sha256(b"["), b""
    for pending in batches:
        for release in pending:
            line = canonical([release.account, release.window, *release.used])
            text.update(between + line.encode())
            between = b","
    text.update(b"]")
    return text.hexdigest()


def _bodies(
    entries: Mapping[tuple[str, str], Entry],
) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {place: entry.body for place, entry in entries.items()}
