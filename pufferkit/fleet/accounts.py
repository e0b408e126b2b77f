"""Paying for many releases: every subject has an account of its own.

A run over windows is one release as far as noise goes: no entry is in two windows, so all windows
together are one query with the Lipschitz constant of one, and epsilon is for all of them. What an
account had paid for before is added entry by entry (the entry-profile rule of `composition`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit.accounting.amounts import MICRO, PICO, allowed_micro, spent_micro, spent_pico
from pufferkit.accounting.composition import entry_profile
from pufferkit.accounting.entries import Account, Charge, Entry, Terms
from pufferkit.accounting.fingerprints import Data
from pufferkit.accounting.ledger import Ledger
from pufferkit.accounting.spending import Spending
from pufferkit.accounting.transactions import over_budget
from pufferkit.checks import Floats
from pufferkit.data.table import Counts
from pufferkit.errors import OverBudget
from pufferkit.fleet.run import FleetRun, PendingRelease
from pufferkit.influence.curve.profile import InfluenceCurve
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.records import digest

_LISTED = 8
_MOST_PROFILES = 200

Draw = Callable[[Counts, Floats], tuple[Floats, Floats]]
"""Noisy counts and their scales, for releases of these numbers, with at least these scales."""

DrawRecord = Callable[[float], Mapping[str, Any]]
"""The noisy values of a run that are kept in one place, with at least this scale."""


@dataclass(frozen=True)
class Receipt:
    """What a batch of releases cost, and the values that were paid for."""

    joint_micro: int
    """Millionths of epsilon that all rows cost the subject who pays most: the epsilon of the run,
    or more if some were released when the series was shorter, and with less noise."""
    values: Sequence[Mapping[str, Any]]
    """The stored value of each release, in order."""


class Accounts:
    """The accounts of one run.

    Parameters
    ----------
    ledger, budget
        Where they are kept, and what each may spend.
    run
        What is released.
    data
        What each account is about, where its data can be recognised.
    data_meant
        Data that changed, or that are known under another name, are meant.
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
        self._profiles: dict[Any, int] = {}
        self._privacies: dict[int, int] = {}
        self._bodies: dict[Any, dict[str, Any]] = {}

    def check(self, pending: Sequence[PendingRelease]) -> list[Charge] | None:
        """Whether every account can pay; nothing is written. Refuses before anything is spent.

        Returns the charges if none of them was made before, for `pay`.
        """
        names = list(dict.fromkeys(release.account for release in pending))
        self.ledger.check_terms(dict.fromkeys(names, (self.terms, None)))
        known, entries = self._standing(names)
        charges = self._charges(pending, known, entries)
        terms = {name: (self.terms, self.data.get(name)) for name in names}
        self.ledger.check_terms(terms, data_meant=self._meant)
        short = [c for c in charges if c.total > known[c.account].budget]
        if short:
            first = known[short[0].account]
            fits = "ask for less; the label of an earlier run gives its values again at no cost"
            refusal = over_budget(short[0].total - first.total, first.remaining, fits)
            others = len({charge.account for charge in short}) - 1
            more = f" (and {others:,} more like it)" if others else ""
            raise OverBudget(f"{first.account}{more}: {refusal}")
        return charges if len(charges) == len(pending) else None

    def pay(
        self, pending: Sequence[PendingRelease], draw: Draw, new: Sequence[Charge] | None = None
    ) -> Receipt:
        """Charges and values of all of them in one transaction, each once.

        What is stored is what counts, whoever wrote it: values that are there are given as they
        are, and what was drawn is dropped if another process was first. ``new`` are the charges if
        none was made before; they are worked out again if an account has moved on since.
        """
        names = list(dict.fromkeys(release.account for release in pending))
        keys = self.run.keys(release.window for release in pending)
        places = [(release.account, keys[release.window]) for release in pending]
        known: dict[str, Account] = {}
        values: dict[tuple[str, str], Mapping[str, Any]] = {}
        charged: dict[tuple[str, str], Entry] = {}
        while True:
            if new is None:
                stored = self.ledger.find_many(names, list(keys.values()))
                values = {place: entry.body for place, entry in stored.items()}
                known, entries = self._standing(names)
                new = self._charges(pending, known, entries)
                run = self.run.identity
                charged = {(e.account, e.key): e for e in entries if e.body["run"] == run}
            charges = {(c.account, c.key): c for c in new}
            missing = np.array([n for n, at in enumerate(places) if at not in values], dtype=int)
            if len(missing):
                # A run that was killed may have charged for more noise, among subjects of more
                # lengths.
                least = [charged[p].body["scale"] if p in charged else 0.0 for p in places]
                noisy, scales = draw(missing, np.array(least)[missing])
                batch = []
                for n, value, scale in zip(
                    missing.tolist(), noisy.tolist(), scales.tolist(), strict=True
                ):
                    charge = charges.get(places[n]) or self._again(charged[places[n]], known)
                    batch.append(charge.with_value({"value": value, "scale": scale}))
                if not self.ledger.charge_many(batch, data_meant=self._meant):
                    new = None
                    continue
                values |= {(c.account, c.key): c.value for c in batch if c.value is not None}
            bodies = {place: entry.body for place, entry in charged.items()}
            bodies |= {place: charge.body for place, charge in charges.items()}
            return Receipt(self._joint_micro(pending, bodies), [values[p] for p in places])

    def _again(self, entry: Entry, known: Mapping[str, Account]) -> Charge:
        """A charge that was made before, to store its value with."""
        after = known[entry.account].entries
        return Charge(entry.account, entry.key, entry.epsilon, entry.total, entry.body, after)

    def pay_jointly(
        self,
        pending: Sequence[PendingRelease],
        record: str,
        body: Mapping[str, Any],
        draw: DrawRecord,
    ) -> str:
        """Charge a release whose values are kept in one place, the account ``record``.

        That account is charged in the same transaction, with the largest total. A run is drawn as a
        whole, so its label is for exactly these entries. The values are stored in the same
        transaction. Returns their key.
        """
        used = digest([[release.account, release.window, *release.used] for release in pending])
        return self._pay_record(record, used, body, draw, pending)

    def charge(self, pending: Sequence[PendingRelease]) -> tuple[int, float]:
        """Charge some releases of a run whose value is kept in one place, each once.

        Nothing is drawn before `pay_record`, after all of them. Returns the largest total, and the
        largest scale that was charged for: a run that was killed, among subjects of which some had
        longer series, may have charged for more noise.
        """
        names = list(dict.fromkeys(release.account for release in pending))
        while True:
            known, entries = self._standing(names)
            charges = self._charges(pending, known, entries)
            if not charges:
                return max(account.total for account in known.values()), self._charged(entries)
            self.ledger.charge_many(charges, data_meant=self._meant)

    def pay_record(
        self,
        record: str,
        used: str,
        total: int,
        body: Mapping[str, Any],
        draw: DrawRecord,
    ) -> str:
        """Draw and store what all subjects were charged for, with `charge`, before.

        ``used`` is a digest of the entries, ``total`` the largest total. Returns the key.
        """
        return self._pay_record(record, used, body, draw, (), total)

    def refuse_other_entries(self, record: str, used: str) -> None:
        """Refuse a label that stands for other entries than these."""
        self._same_entries(record, self._record_key, used)

    def forget(self) -> None:
        """Let go of what was kept for speed; it grows with the number of subjects."""
        self._bodies.clear()

    @property
    def _record_key(self) -> str:
        return digest({"run": self.run.identity, "record": True})

    def _pay_record(
        self,
        record: str,
        used: str,
        body: Mapping[str, Any],
        draw: DrawRecord,
        pending: Sequence[PendingRelease],
        least: int = 0,
    ) -> str:
        key = self._record_key
        facts = {**body, "label": self.run.label, "run": self.run.identity, "entries used": used}
        facts |= self._notes
        names = list(dict.fromkeys(release.account for release in pending))
        amount = spent_micro(self.run.epsilon)
        self.ledger.check_terms(dict.fromkeys([*names, record], (self.terms, None)))
        while True:
            self._same_entries(record, key, used)
            known, entries = self._standing([*names, record])
            charges = self._charges(pending, known, entries)
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

    def _standing(self, names: Sequence[str]) -> tuple[dict[str, Account], list[Entry]]:
        """Where accounts stand, those included that are not there yet, and all their charges."""
        known, entries = self.ledger.charges_of(names)
        rule, budget = self.terms.rule, self.terms.budget
        return {n: known.get(n) or Account(n, rule, budget, 0, 0) for n in names}, entries

    def _same_entries(self, record: str, key: str, used: str) -> None:
        charged = self.ledger.find(record, key, "charge")
        if charged is not None and charged.body["entries used"] != used:
            raise ValueError(
                f"label: the run {self.run.label!r} was made for other data; give this one "
                "another label"
            )

    def _charges(
        self, pending: Sequence[PendingRelease], known: dict[str, Account], entries: Sequence[Entry]
    ) -> list[Charge]:
        """What is still to be charged, with the joint total of each account."""
        history: dict[str, list[Entry]] = {}
        for entry in entries:
            history.setdefault(entry.account, []).append(entry)
        by_account: dict[str, list[PendingRelease]] = {}
        for release in pending:
            by_account.setdefault(release.account, []).append(release)
        keys = self.run.keys(release.window for release in pending)
        amount = spent_micro(self.run.epsilon)
        charges = []
        for name, wanted in by_account.items():
            earlier = history.get(name, [])
            _unchanged(name, earlier, wanted[0])
            paid = {entry.key: entry for entry in earlier}
            for release in wanted:
                before = paid.get(keys[release.window])
                if before is not None:
                    self._check_same(release, before)
            new = [release for release in wanted if keys[release.window] not in paid]
            if not new:
                continue
            total, rule = self._joint(earlier, new)
            total = max(total, known[name].total)
            after, data = known[name].entries, self.data.get(name)
            for release in new:
                key, body = keys[release.window], self._body(release, rule)
                charges.append(Charge(name, key, amount, total, body, after, self.terms, data=data))
        return charges

    def _check_same(self, release: PendingRelease, before: Entry) -> None:
        """A label stands for one set of entries."""
        name, label, charged = release.account, self.run.label, before.body
        if charged["window"] != [release.first, release.last]:
            raise ValueError(
                f"label: the run {label!r} was made for other data of {name!r} "
                f"(entries {charged['window']}, now {[release.first, release.last]}); "
                "give this one another label"
            )
        if charged.get("entries", release.entries) != release.entries:
            raise ValueError(
                f"label: the run {label!r} used {charged['entries']} entries of {name!r} in this "
                f"window, and now there are {release.entries}: rows arrived late; leave them out, "
                "or give this run another label, which pays for the whole window again"
            )

    def _joint(self, earlier: Sequence[Entry], new: Sequence[PendingRelease]) -> tuple[int, str]:
        """Millionths of epsilon for everything ever released about this subject."""
        b = self._pico(new[0].calibration)
        other = [
            entry
            for entry in earlier
            if (entry.body["run"], entry.body["entry_privacy_pico"]) != (self.run.identity, b)
        ]
        if not other:
            return spent_micro(self.run.epsilon), "one release"
        spans = [(*entry.body["window"], entry.body["entry_privacy_pico"]) for entry in earlier]
        spans += [(release.first, release.last, b) for release in new]
        return self._loss(spans, new[0])

    def _joint_micro(
        self,
        pending: Sequence[PendingRelease],
        charged: Mapping[tuple[str, str], Mapping[str, Any]],
    ) -> int:
        """Millionths of epsilon for these rows of one run, for the subject who pays most."""
        keys = self.run.keys(release.window for release in pending)
        rows: dict[str, list[tuple[int, int, int]]] = {}
        raised: dict[str, PendingRelease] = {}
        for release in pending:
            now = self._pico(release.calibration)
            pico = charged[release.account, keys[release.window]]["entry_privacy_pico"]
            rows.setdefault(release.account, []).append((release.first, release.last, pico))
            if pico > now:
                raised[release.account] = release
        most = spent_micro(self.run.epsilon)
        for name, release in raised.items():
            if self.run.mechanism == "group_dp":  # its promise is for every belief
                most = max(most, _whole(rows[name], release.lengths))
            else:
                most = max(most, self._loss(rows[name], release)[0])
        return most

    def _loss(
        self, spans: Sequence[tuple[int, int, int]], release: PendingRelease
    ) -> tuple[int, str]:
        """Millionths of epsilon when these entries of a subject have spent this much, and why."""
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
                # As if every entry had spent what the dearest one has: more, and shared by many.
                flat = ("flat", _most(spans), release.calibration.query.longest)
                if flat not in self._profiles:
                    loss = InfluenceCurve(theta, flat[2]).epsilon(flat[1] / PICO)
                    self._profiles[flat] = spent_micro(loss)
                return self._profiles[flat], "entry_profile, raised to its largest"
        return self._profiles[signature], "entry_profile"

    def _pico(self, calibration: Calibration) -> int:
        length = calibration.query.longest
        if length not in self._privacies:
            self._privacies[length] = spent_pico(calibration.entry_epsilon)
        return self._privacies[length]

    @property
    def _notes(self) -> dict[str, Any]:
        notes = self.run.beliefs.caveats
        return {"notes": list(notes)} if notes else {}

    def _body(self, release: PendingRelease, rule: str) -> dict[str, Any]:
        """What the ledger keeps; the same object for subjects of equal lengths."""
        same = (
            release.lengths,
            release.first,
            release.last,
            release.begins,
            release.entries,
            release.step,
            rule,
        )
        if same not in self._bodies:
            self._bodies[same] = {
                "query": self.run.query,
                "label": self.run.label,
                "run": self.run.identity,
                "window": [release.first, release.last],
                "begins": release.begins,
                "step": release.step,
                "entries": release.entries,
                "independent_after": release.independent_after,
                "segments": _segments(release.lengths, release.last),
                "beliefs": self.run.beliefs_digest,
                "mechanism": self.run.mechanism,
                "scale": release.calibration.scale,
                "entry_privacy_pico": self._pico(release.calibration),
                "rule": rule,
                **self._notes,
            }
        return self._bodies[same]


def _unchanged(name: str, earlier: Sequence[Entry], release: PendingRelease) -> None:
    """Data may grow at the end; what was released must still be where it was."""
    seen: set[Any] = set()
    lengths = release.lengths
    for entry in earlier:
        last, recorded = entry.body["window"][1], entry.body["segments"]
        begins = entry.body.get("begins")
        if None not in (begins, release.begins) and begins != release.begins:
            moved = "earlier" if release.begins < begins else "later"  # type: ignore[operator]
            raise ValueError(
                f"table: the entries of {name!r} begin {moved} than when they were released "
                f"(ledger entry {entry.seq}), so they would be counted anew; give the whole "
                "series from the same beginning on"
            )
        if last > 1 and "step" in entry.body and entry.body["step"] != release.step:
            raise ValueError(
                f"table: entries of {name!r} were {_apart(entry.body['step'])} when they were "
                f"released (ledger entry {entry.seq}) and are {_apart(release.step)} now, so they "
                "would be counted anew; every= puts them on the grid they were on"
            )
        mark = (last, str(recorded))
        if mark in seen:
            continue
        seen.add(mark)
        if last > sum(lengths) or _segments(lengths, last) != recorded:
            raise ValueError(
                f"table: {name!r} had other segments when entries up to {last} were released "
                f"(ledger entry {entry.seq}); the account is for data that only grow at the end"
            )


def _apart(step: int | float | None) -> str:
    return "rows without a clock" if step is None else f"{step} apart"


def _segments(lengths: tuple[int, ...], last: int) -> list[int] | str:
    """Lengths of the segments up to entry ``last``; a digest if there are many."""
    segments, left = [], last
    for length in lengths:
        segments.append(min(length, left))
        left -= segments[-1]
        if not left:
            break
    return segments if len(segments) <= _LISTED else digest(segments)


def _most(spans: Sequence[tuple[int, int, int]]) -> int:
    """The largest sum of entry privacies on one entry."""
    steps = [(first, pico) for first, _, pico in spans]
    steps += [(last + 1, -pico) for _, last, pico in spans]
    most = now = 0
    for _, change in sorted(steps):
        now += change
        most = max(most, now)
    return most


def _whole(spans: Sequence[tuple[int, int, int]], lengths: tuple[int, ...]) -> int:
    """Millionths of epsilon if all entries of a segment may change at once."""
    worst, start = 0, 1
    for length in lengths:
        end = start + length - 1
        inside = (
            max(0, min(last, end) - max(first, start) + 1) * pico for first, last, pico in spans
        )
        worst, start = max(worst, sum(inside)), end + 1
    return -(-worst * MICRO // PICO)
