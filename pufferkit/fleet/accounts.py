"""The subjects of a table as payments: every subject has its own account.

For its noise, a run over windows is one release: no entry is in two windows, so all windows
together are one query with the Lipschitz constant of one, and epsilon covers all of them. What it
costs, and that nothing is charged or drawn twice, is the work of `pay`.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pufferkit.accounting.account import after_the_first, entries_after, kept
from pufferkit.accounting.amounts import allowed_micro, in_epsilon, spent_pico
from pufferkit.accounting.charges import Terms, over_budget
from pufferkit.accounting.entries import Balance, checked_name
from pufferkit.accounting.fingerprints import Data
from pufferkit.accounting.ledger import Ledger, Read
from pufferkit.accounting.pay import Payment, Prices, Value, owing, pay
from pufferkit.accounting.spending import Spending
from pufferkit.accounting.standing import Standing
from pufferkit.checks import Floats
from pufferkit.data.durations import SECOND
from pufferkit.data.table import Counts
from pufferkit.errors import OverBudget
from pufferkit.fleet.subject_run import FleetRun, PendingRelease
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import HORIZON
from pufferkit.records import canonical, digest

_FITS = "ask for less, or repeat an earlier run's label to get its values at no cost"

Draw = Callable[[Counts], tuple[Floats, Floats]]
"""Draws noisy counts for these releases; returns them and their scales."""

DrawRecord = Callable[[], Mapping[str, Any]]
"""The noisy values of a run that are kept in one place."""


@dataclass(frozen=True)
class Receipt:
    """The stored value of each release of a batch, in order, and the largest total so far."""

    values: Sequence[Value]
    total: float


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
        self._data, self._meant = data or {}, data_meant
        self._budget, self._beliefs = allowed_micro(budget), kept(run.beliefs)
        self._prices = Prices(run.beliefs, run.horizon)
        self._terms: dict[Any, Terms] = {}
        self._spendings: dict[Any, Spending] = {}
        self._facts: dict[Any, Mapping[str, Any]] = {}

    @_uncollected()
    def check(self, pending: Sequence[PendingRelease]) -> Read:
        """What the ledger holds of these; raises unless every account can pay, writes nothing."""
        names = [checked_name("account", n) for n in dict.fromkeys(r.account for r in pending)]
        keys = self.run.keys(release.window for release in pending)
        read = self.ledger.look(names, list(keys.values()))
        asked = [self._payment(release, keys[release.window], read) for release in pending]
        self._same(pending, asked, read)
        owing(read, self._prices, asked, _refused)
        self._recognise(asked)
        return read

    def telling(self, names: Sequence[str]) -> set[str]:
        """The accounts that can be refused: those that exist, and one that is new.

        New accounts pay the same, so one of them stands for all; their names are checked here.
        """
        known = self.ledger.balances(names)
        new = [checked_name("account", name) for name in names if name not in known]
        return {*known, *new[:1]}

    @_uncollected()
    def pay(
        self, pending: Sequence[PendingRelease], draw: Draw, read: Read | None = None
    ) -> Receipt:
        """Charges and values of all of them in one transaction, each once.

        The stored value counts, whoever wrote it: existing values are returned unchanged, and a
        draw is dropped if another process stored its value first. ``read`` is what `check` gave.
        """
        keys = self.run.keys(release.window for release in pending)
        names = list(dict.fromkeys(release.account for release in pending))
        if read is None:
            read = self.ledger.look(names, list(keys.values()))
        asked = [self._payment(release, keys[release.window], read) for release in pending]

        def drawn(numbers: Sequence[int]) -> list[Value]:
            noisy, scales = draw(np.array(numbers, dtype=int))
            rows = zip(numbers, noisy.tolist(), scales.tolist(), strict=True)
            return [
                {
                    "value": value,
                    "scale": scale,
                    "window": list(asked[number].spending.window),  # type: ignore[union-attr]
                    "entries": pending[number].entries,
                }
                for number, value, scale in rows
            ]

        paid = pay(
            self.ledger,
            self._prices,
            asked,
            drawn,
            read=read,
            data_meant=self._meant,
            refused=_refused,
        )
        values = [value for value in paid.values if value is not None]
        self._check_stored(pending, asked, values)
        return Receipt(values, in_epsilon(paid.total))

    def pay_in_batches(
        self,
        batches: Callable[[], Iterable[Sequence[PendingRelease]]],
        record: str,
        body: Mapping[str, Any],
        draw: DrawRecord,
    ) -> Value:
        """A release over all subjects, for more of them than one transaction should hold.

        All accounts are checked before one is charged, and values are drawn when the last has paid.
        If another process spends in the meantime, or this one is killed, some have paid and nothing
        is drawn; the same call continues from there.
        """
        used, total = used_digest(batches()), 0
        self.refuse_other_entries(record, used)
        for pending in batches():
            self.check_members(pending)
            self.forget()
        for pending in batches():
            total = max(total, self.charge(pending))
            self.forget()
        return self.pay_record(record, used, body, draw, least=total)

    @_uncollected()
    def check_members(self, pending: Sequence[PendingRelease]) -> None:
        """Raise unless every account can pay for its part of a release over all subjects."""
        for name in dict.fromkeys(release.account for release in pending):
            checked_name("account", name)
        read = self._look_at_members(pending)
        asked = self._members(pending, read)
        owing(read, self._prices, asked, _refused)
        self._recognise(asked)

    @_uncollected()
    def charge(self, pending: Sequence[PendingRelease]) -> int:
        """Charge some releases of a run whose value is stored in one place, each once.

        Nothing is drawn before `pay_record`, after all of them. Returns the largest total.
        """
        read = self._look_at_members(pending)
        return pay(
            self.ledger,
            self._prices,
            self._members(pending, read),
            _nothing,
            read=read,
            data_meant=self._meant,
            refused=_refused,
        ).total

    def refuse_other_entries(self, record: str, used: str) -> None:
        """Refuse a label that stands for other entries than these."""
        stored = self.ledger.look([record], [self._record_key])
        self._check_used(stored.values.get((record, self._record_key)), used)

    def forget(self) -> None:
        """Drop the caches, which grow with the number of subjects."""
        self._facts.clear()
        self._spendings.clear()
        self._prices.known.clear()

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
    ) -> Value:
        """Draw and store values, and charge those of ``pending`` that `charge` did not.

        The values are stored in the account ``record``, which is charged in the same transaction,
        with the largest total. A run is drawn as a whole, so its label is for exactly these
        entries. ``used`` is a digest of them, ``least`` the largest total so far.
        """
        key = self._record_key
        facts = {**body, "label": self.run.label, "epsilon": self.run.epsilon, **self._notes}
        terms = self._terms_of({"beliefs": self.run.beliefs_digest, "keeps": "all subjects"})
        read = self._look_at_members(pending, record, key)
        self._check_used(read.values.get((record, key)), used)
        asked = [
            *self._members(pending, read),
            Payment(record, key, terms, None, (), facts, least=least),
        ]
        stored = pay(
            self.ledger,
            self._prices,
            asked,
            lambda _: [{**draw(), "used": used}],
            read=read,
            data_meant=self._meant,
            refused=_refused,
        ).values[-1]
        assert stored is not None
        # Another process may have drawn the same label for other entries in the meantime.
        self._check_used(stored, used)
        return stored

    # -- payments ------------------------------------------------------------------------------

    def _payment(
        self, release: PendingRelease, key: str, read: Read, *, stores: bool = True
    ) -> Payment:
        """What a release asks of its account, in the numbering of the account."""
        opened = read.opened.get(release.account)
        terms, offset = self._place(release, None if opened is None else opened["about"])
        calibration = release.calibration
        data = None if offset else self._data.get(release.account)
        return Payment(
            release.account,
            key,
            terms,
            self._spending(calibration, (release.first + offset, release.last + offset)),
            after_the_first(release.lengths, offset),
            self._fact(release),
            stores=stores,
            endless=calibration.evidence.horizon is not None,
            clocked=release.clock.tells,
            data=data,
        )

    def _members(self, pending: Sequence[PendingRelease], read: Read) -> list[Payment]:
        """The payments for a release over all subjects, whose value others keep."""
        return [
            self._payment(release, self._member_key(release), read, stores=False)
            for release in pending
        ]

    def _member_key(self, release: PendingRelease) -> str:
        """The key of what one subject pays: for these entries, and for this noise.

        A run that was killed, and goes on when other subjects have longer series, has other noise,
        which all pay for.
        """
        b = spent_pico(release.calibration.entry_epsilon)
        return digest(
            {"run": self.run.identity, "used": [release.window, *release.used], "noise": b}
        )

    def _look_at_members(
        self, pending: Sequence[PendingRelease], record: str | None = None, key: str | None = None
    ) -> Read:
        names = list(dict.fromkeys(release.account for release in pending))
        keys = list(dict.fromkeys(self._member_key(release) for release in pending))
        more = () if record is None else (record,)
        return self.ledger.look([*names, *more], [*keys, *(() if key is None else (key,))])

    def _place(self, release: PendingRelease, known: Mapping[str, Any] | None) -> tuple[Terms, int]:
        """The terms of an account, and the entries that it had before those of the table."""
        clock, begins, offset = release.clock, release.begins, 0
        about: dict[str, Any] = {"beliefs": self.run.beliefs_digest}
        if self.run.horizon not in (None, HORIZON):
            about["horizon"] = self.run.horizon
        if clock.tells and clock.every is not None and begins is not None:
            origin = int(begins)
            if known is not None and known.get("origin") is not None:
                origin = int(known["origin"])
                offset = entries_after(origin, begins, clock.every)
            step = clock.every / SECOND
            about |= {"step": step, "origin": origin, "zone": clock.zone}
        else:
            about |= {"begins": begins, "every": clock.every}
            if known is not None:
                _check_rows(release, known)
        return self._terms_of(about), offset

    def _terms_of(self, about: dict[str, Any]) -> Terms:
        key = tuple(about.items())
        if key not in self._terms:
            self._terms[key] = Terms(self._budget, "composed", about, self._beliefs)
        return self._terms[key]

    def _spending(self, calibration: Calibration, window: tuple[int, int]) -> Spending:
        """What a release spends; the same object for the same noise and places."""
        same = (calibration.digest, window)
        if same not in self._spendings:
            whole = (calibration.digest, None)
            if whole not in self._spendings:
                self._spendings[whole] = Spending.of(calibration)
            self._spendings[same] = replace(self._spendings[whole], window=window, gaps=None)
        return self._spendings[same]

    def _fact(self, release: PendingRelease) -> Mapping[str, Any]:
        """What a charge records; the same object for releases that are alike."""
        calibration, clock = release.calibration, release.clock
        same = (calibration.digest, release.entries, clock)
        if same not in self._facts:
            self._facts[same] = {
                "query": self.run.query,
                "label": self.run.label,
                "run": self.run.identity,
                "entries": release.entries,
                "independent_after": clock.independent_after,
                "calibration": calibration.digest,
                "scale": calibration.scale,
                **self._notes,
            }
        return self._facts[same]

    @property
    def _notes(self) -> dict[str, Any]:
        notes = self.run.beliefs.caveats
        return {"notes": list(notes)} if notes else {}

    # -- refusals ------------------------------------------------------------------------------

    def _recognise(self, asked: Iterable[Payment]) -> None:
        """Refuse data that changed, or that are known under another name."""
        data = {one.account: (None, one.data) for one in asked if one.data is not None}
        if data:
            self.ledger.check_terms(data, data_meant=self._meant)

    def _same(
        self, pending: Sequence[PendingRelease], asked: Sequence[Payment], read: Read
    ) -> None:
        """Refuse a label that was used for other entries of a window."""
        stored = [read.values.get((one.account, one.key)) for one in asked]
        there = [number for number, value in enumerate(stored) if value is not None]
        self._check_stored(
            [pending[n] for n in there],
            [asked[n] for n in there],
            [value for value in stored if value is not None],
        )

    def _check_stored(
        self,
        pending: Sequence[PendingRelease],
        asked: Sequence[Payment],
        values: Sequence[Value],
    ) -> None:
        label = self.run.label
        for release, one, stored in zip(pending, asked, values, strict=True):
            assert one.spending is not None
            name, window = release.account, list(one.spending.window)
            if stored["window"] != window:
                raise ValueError(
                    f"label: the run {label!r} was made for other data of {name!r} (entries "
                    f"{stored['window']}, now {window}); give this one another label"
                )
            if stored["entries"] != release.entries:
                raise ValueError(
                    f"label: the run {label!r} used {stored['entries']} entries of {name!r} in "
                    f"this window, and now there are {release.entries}: rows arrived late; leave "
                    "them out, or give this run another label, which pays for the whole window "
                    "again"
                )

    def _check_used(self, stored: Value | None, used: str) -> None:
        if stored is not None and stored["used"] != used:
            raise ValueError(
                f"label: the run {self.run.label!r} was made for other data; give this one "
                "another label"
            )


def _refused(balance: Balance, before: Standing, total: int) -> OverBudget:
    del before
    refusal = over_budget(total - balance.total, balance.remaining, _FITS)
    return OverBudget(f"{balance.account}: {refusal}")


def _nothing(numbers: Sequence[int]) -> list[Value]:
    assert not numbers
    return []


def _check_rows(release: PendingRelease, known: Mapping[str, Any]) -> None:
    """Refuse entries that no clock tells and that are counted from another place than before."""
    name, clock, begins = release.account, release.clock, known.get("begins")
    if None not in (begins, release.begins) and begins != release.begins:
        moved = "earlier" if release.begins < begins else "later"  # type: ignore[operator]
        raise ValueError(
            f"table: the entries of {name!r} begin {moved} than when they were released, so they "
            "would be counted anew; give the whole series from the same beginning on"
        )
    if "every" in known and known["every"] != clock.every:
        raise ValueError(
            f"table: entries of {name!r} were {_apart(known['every'])} when they were released "
            f"and are {_apart(clock.every)} now, so they would be counted anew; every= puts them "
            "on the grid they were on"
        )


def _apart(step: int | float | None) -> str:
    return "rows without a clock" if step is None else f"{step} apart"


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
