"""Paying for many releases: every subject has an account of its own.

A run over windows is one release as far as noise goes: no entry is in two windows, so all windows
together are one query with the Lipschitz constant of one, and epsilon is for all of them. What an
account had paid for before is added entry by entry (the entry-profile rule of `composition`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pufferkit.accounting.amounts import MICRO, PICO, spent_micro, spent_pico
from pufferkit.accounting.bulk import Charge
from pufferkit.accounting.composition import Spending, entry_profile
from pufferkit.accounting.database import Account, Entry
from pufferkit.accounting.ledger import Ledger, over_budget
from pufferkit.errors import OverBudget
from pufferkit.fleet.plan import LIPSCHITZ, Run, digest
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import InfluenceCurve

_LISTED = 8
_MOST_PROFILES = 200


@dataclass(frozen=True)
class Due:
    """One release to pay for: entries ``first`` to ``last`` of a subject, counted from 1.

    Places count entries that were not observed too, by the clock. ``begins`` is the time of entry 1
    and ``step`` that from one entry to the next, so that the account notices if entries are counted
    anew. ``entries`` of the places were observed. A row that arrives late, for a place that was not
    observed when an earlier run was charged, may be part of a later run: the earlier one did not
    use it, the account has it down as if it had, and the later one pays for it again.
    """

    account: str
    lengths: tuple[int, ...]
    window: int
    first: int
    last: int
    calibration: Calibration
    begins: int | float | None = None
    entries: int | None = None
    step: int | float | None = None
    independent_after: str | None = None

    @property
    def used(self) -> list[int]:
        """The places, and how many were observed if some were not."""
        gaps = self.entries not in (None, self.last - self.first + 1)
        return [self.first, self.last, *([self.entries or 0] if gaps else [])]


@dataclass(frozen=True)
class Paid:
    """What was paid for.

    Attributes
    ----------
    together
        Millionths of epsilon that all rows cost the subject who pays most: the epsilon of the run,
        or more if some were released when the series was shorter, and with less noise.
    scales
        The noise that was charged for, by account and key. To draw with less is not paid for.
    """

    together: int
    scales: Mapping[tuple[str, str], float]


class Accounts:
    """The accounts of one run.

    Parameters
    ----------
    ledger, budget
        Where they are kept, and what each may spend.
    run
        What is released.
    """

    def __init__(self, ledger: Ledger, budget: float, run: Run) -> None:
        self.ledger, self.budget, self.run = ledger, budget, run
        self._profiles: dict[Any, int] = {}
        self._privacies: dict[int, int] = {}
        self._bodies: dict[Any, dict[str, Any]] = {}

    def open(self, names: Sequence[str]) -> None:
        """Open the accounts that are not open yet; others must be for the same beliefs."""
        about = {"beliefs": self.run.beliefs_digest, "kept by": "fleet"}
        self.ledger.open_accounts(names, self.budget, rule="composed", about=about)

    def check(self, dues: Sequence[Due]) -> None:
        """Whether every account can pay; nothing is spent. Refuses before anything is."""
        names = list(dict.fromkeys(due.account for due in dues))
        known, entries = self.ledger.charges_of(names)
        charges = self._charges(dues, known, entries)
        short = [c for c in charges if c.total > known[c.account].budget]
        if short:
            first = known[short[0].account]
            fits = "ask for less; the label of an earlier run gives its values again at no cost"
            refusal = over_budget(short[0].total - first.total, first.remaining, fits)
            others = len({charge.account for charge in short}) - 1
            more = f" (and {others:,} more like it)" if others else ""
            raise OverBudget(f"{first.account}{more}: {refusal}")

    def pay(self, dues: Sequence[Due]) -> Paid:
        """Charge all of them in one transaction, each once, however often this is called."""
        names = list(dict.fromkeys(due.account for due in dues))
        while True:
            # Read again after charging: what counts is what the ledger says, whoever wrote it.
            known, entries = self.ledger.charges_of(names)
            charges = self._charges(dues, known, entries)
            if not charges:
                break
            self.ledger.charge_many(charges)
        run = self.run.identity
        scales = {(e.account, e.key): e.body["scale"] for e in entries if e.body["run"] == run}
        return Paid(self._together(dues, entries), scales)

    def pay_together(self, dues: Sequence[Due], record: str, body: Mapping[str, Any]) -> str:
        """Charge a release whose values are kept in one place, the account ``record``.

        That account is charged in the same transaction, with the largest total. A run is drawn as a
        whole, so its label is for exactly these entries. Returns the key of the values.
        """
        used = digest([[due.account, due.window, *due.used] for due in dues])
        key = digest({"run": self.run.identity, "record": True})
        facts = {**body, "label": self.run.label, "run": self.run.identity, "entries used": used}
        facts |= self._notes
        names = list(dict.fromkeys(due.account for due in dues))
        self._same_entries(record, key, used)
        while True:
            known, entries = self.ledger.charges_of([*names, record])
            charges = self._charges(dues, known, entries)
            account = known[record]
            total = max([account.total, *(charge.total for charge in charges)])
            amount = spent_micro(self.run.epsilon)
            charges.append(Charge(record, key, amount, total, facts, account.entries))
            if self.ledger.charge_many(charges):
                break
        # Another process may have charged the same label for other entries in the meantime.
        self._same_entries(record, key, used)
        return key

    def _same_entries(self, record: str, key: str, used: str) -> None:
        charged = self.ledger.find(record, key, "charge")
        if charged is not None and charged.body["entries used"] != used:
            raise ValueError(
                f"label: the run {self.run.label!r} was made for other data; give this one "
                "another label"
            )

    def _charges(
        self, dues: Sequence[Due], known: dict[str, Account], entries: Sequence[Entry]
    ) -> list[Charge]:
        """What is still to be charged, with the joint total of each account."""
        history: dict[str, list[Entry]] = {}
        for entry in entries:
            history.setdefault(entry.account, []).append(entry)
        by_account: dict[str, list[Due]] = {}
        for due in dues:
            by_account.setdefault(due.account, []).append(due)
        keys = {window: self.run.key(window) for window in {due.window for due in dues}}
        amount = spent_micro(self.run.epsilon)
        charges = []
        for name, wanted in by_account.items():
            earlier = history.get(name, [])
            _unchanged(name, earlier, wanted[0])
            paid = {entry.key: entry for entry in earlier}
            for due in wanted:
                before = paid.get(keys[due.window])
                if before is not None and before.body["window"] != [due.first, due.last]:
                    raise ValueError(
                        f"label: the run {self.run.label!r} was made for other data of {name!r} "
                        f"(entries {before.body['window']}, now {[due.first, due.last]}); "
                        "give this one another label"
                    )
                if before is not None and before.body.get("entries", due.entries) != due.entries:
                    raise ValueError(
                        f"label: the run {self.run.label!r} used {before.body['entries']} entries "
                        f"of {name!r} in this window, and now there are {due.entries}: rows "
                        "arrived late; leave them out, or give this run another label, which "
                        "pays for the whole window again"
                    )
            new = [due for due in wanted if keys[due.window] not in paid]
            if not new:
                continue
            total, rule = self._joint(earlier, new)
            total = max(total, known[name].total)
            for due in new:
                body = self._body(due, rule)
                charges.append(
                    Charge(name, keys[due.window], amount, total, body, known[name].entries)
                )
        return charges

    def _joint(self, earlier: Sequence[Entry], new: Sequence[Due]) -> tuple[int, str]:
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
        spans += [(due.first, due.last, b) for due in new]
        return self._loss(spans, new[0])

    def _together(self, dues: Sequence[Due], entries: Sequence[Entry]) -> int:
        """Millionths of epsilon for these rows of one run, for the subject who pays most."""
        paid = {(e.account, e.key): e.body["entry_privacy_pico"] for e in entries}
        keys = {window: self.run.key(window) for window in {due.window for due in dues}}
        rows: dict[str, list[tuple[int, int, int]]] = {}
        raised: dict[str, Due] = {}
        for due in dues:
            now = self._pico(due.calibration)
            pico = paid[due.account, keys[due.window]]
            rows.setdefault(due.account, []).append((due.first, due.last, pico))
            if pico > now:
                raised[due.account] = due
        most = spent_micro(self.run.epsilon)
        for name, due in raised.items():
            if self.run.mechanism == "group_dp":  # its promise is for every belief
                most = max(most, _whole(rows[name], due.lengths))
            else:
                most = max(most, self._loss(rows[name], due)[0])
        return most

    def _loss(self, spans: Sequence[tuple[int, int, int]], due: Due) -> tuple[int, str]:
        """Millionths of epsilon when these entries of a subject have spent this much, and why."""
        lengths = due.lengths
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
                flat = ("flat", _most(spans), due.calibration.query.longest)
                if flat not in self._profiles:
                    loss = InfluenceCurve(theta, flat[2]).epsilon(flat[1] / PICO)
                    self._profiles[flat] = spent_micro(loss)
                return self._profiles[flat], "entry_profile, raised to its largest"
        return self._profiles[signature], "entry_profile"

    def _pico(self, calibration: Calibration) -> int:
        length = calibration.query.longest
        if length not in self._privacies:
            self._privacies[length] = spent_pico(calibration.entry_privacy)
        return self._privacies[length]

    @property
    def _notes(self) -> dict[str, Any]:
        notes = self.run.beliefs.caveats
        return {"notes": list(notes)} if notes else {}

    def _body(self, due: Due, rule: str) -> dict[str, Any]:
        """What the ledger keeps; the same object for subjects of equal lengths."""
        same = (due.lengths, due.first, due.last, due.begins, due.entries, due.step, rule)
        if same not in self._bodies:
            self._bodies[same] = {
                "query": self.run.query,
                "label": self.run.label,
                "run": self.run.identity,
                "window": [due.first, due.last],
                "begins": due.begins,
                "step": due.step,
                "entries": due.entries,
                "independent_after": due.independent_after,
                "segments": _segments(due.lengths, due.last),
                "beliefs": self.run.beliefs_digest,
                "mechanism": self.run.mechanism,
                "scale": LIPSCHITZ * due.calibration.scale,
                "entry_privacy_pico": self._pico(due.calibration),
                "rule": rule,
                **self._notes,
            }
        return self._bodies[same]


def _unchanged(name: str, earlier: Sequence[Entry], due: Due) -> None:
    """Data may grow at the end; what was released must still be where it was."""
    seen: set[Any] = set()
    lengths = due.lengths
    for entry in earlier:
        last, recorded = entry.body["window"][1], entry.body["segments"]
        begins = entry.body.get("begins")
        if None not in (begins, due.begins) and begins != due.begins:
            moved = "earlier" if due.begins < begins else "later"  # type: ignore[operator]
            raise ValueError(
                f"table: the entries of {name!r} begin {moved} than when they were released "
                f"(ledger entry {entry.seq}), so they would be counted anew; give the whole "
                "series from the same beginning on, or use another account"
            )
        if last > 1 and "step" in entry.body and entry.body["step"] != due.step:
            raise ValueError(
                f"table: entries of {name!r} were {_apart(entry.body['step'])} when they were "
                f"released (ledger entry {entry.seq}) and are {_apart(due.step)} now, so they "
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
    found, left = [], last
    for length in lengths:
        found.append(min(length, left))
        left -= found[-1]
        if not left:
            break
    return found if len(found) <= _LISTED else digest(found)


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
