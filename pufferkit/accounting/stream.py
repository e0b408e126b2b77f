"""A stream: releases about data that keep coming, at one epsilon for ever.

**Theorem.** *Secrets*: any two values of any entry, used or not. *Beliefs*: any class of chains,
hidden states included; any start, gaps, and segments that are independent. *Releases*: any number,
each about a window of entries and each chosen after looking at all earlier outputs, such that on
every course of events the releases that use entry t together move the log-likelihood by at most
b d(x, x') when its value x is replaced by x'. If the influence curve at the constant profile b d
loses at most epsilon over N entries, then everything that is released about the first N entries is
epsilon-Pufferfish private for each of them.

*Proof.* The density of all outputs is the product of the densities of each given the earlier ones.
Fix the outputs. Each factor then is a likelihood of the data, entry t moves the logarithm of the
product by at most b d, and entries that were not used do not move it. So the product is a function
of the data to which the theorem of the influence curve applies with a profile of at most b d at
each entry, and the curve does not fall when a profile rises. QED

The curve settles: for beliefs that forget, the loss over N entries has a bound that is the same for
all N (a power of the kernel with positive entries contracts). It is computed for N = 10^12 entries,
every second for 31,000 years. Beliefs that do not forget are refused.

*Another epsilon from some entry on.* With b before it and b' from it on, no entry spends more than
the larger of the two, so everything together is max(epsilon, epsilon')-Pufferfish private for each
entry. Raising epsilon weakens the promise for earlier entries too, as later ones tell of them; to
lower it helps entries far behind the change, and leaves the promise for all of them where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.accounting.amounts import PICO, allowed_micro, in_epsilon, show
from pufferkit.accounting.entries import Account, Charge, Terms
from pufferkit.accounting.fingerprints import IDENTIFYING, SeriesData
from pufferkit.accounting.frontier import Frontier, Use
from pufferkit.accounting.ledger import Ledger
from pufferkit.accounting.spending import asked, check_query
from pufferkit.accounting.stream_windows import (
    HORIZON,
    Window,
    check_inside,
    located,
    on_clock,
    places_of,
)
from pufferkit.beliefs.protocol import Beliefs, as_beliefs
from pufferkit.data.queries import Query
from pufferkit.data.series import Series
from pufferkit.errors import LedgerError, NoTheorem
from pufferkit.influence.curve.metric import Metric, as_metric
from pufferkit.mechanisms.calibration import Calibration, check_states
from pufferkit.mechanisms.influence_curve import (
    Solved,
    entry_epsilon_for,
    metric_of,
)
from pufferkit.mechanisms.release import Release
from pufferkit.records import digest
from pufferkit.rounding import EPS, round_up
from pufferkit.shown import Shown

_SCREEN = 10**6
"""Beliefs whose loss still grows over so many entries are taken not to forget."""

_FORGETS = 10


class Stream(Shown):
    """Releases about data that keep coming, at one epsilon for everything, ever.

    Every window may be asked anything, also after looking at what was released before. Noise does
    not grow with the years, and the account holds one number: the event-level epsilon that an entry
    has. Windows come in the order of their beginnings, and what they share of entries adds up.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass`, for all data that will ever come.
    epsilon
        Pufferfish privacy of each entry against everything that is ever released.
    ledger
        A `Ledger`, or a path or URL to open one.
    name
        The account: whose data these are. It comes into being with its first release.
    question
        If every window will be asked the same sum, that query (of any length): its distances
        between states ask less noise than the largest of them everywhere.
    data_meant
        The data of the first window under a second name are refused, as two names are two budgets;
        this says that they are meant.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from pufferkit import MarkovChain, Stream, count
    >>> chain, book = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), mkdtemp() + "/ledger.db"
    >>> stream = Stream(chain, 1.0, book, name="alice")
    >>> for day in range(3):
    ...     entries = (1440 * day + 1, 1440 * (day + 1))
    ...     release = stream.release(count(1, 1440), [0, 0, 1] * 480, entries)
    >>> round(release.scale, 2), stream.ledger.remaining("alice")
    (3.34, 0.0)
    """

    def __init__(
        self,
        beliefs: Any,
        epsilon: float,
        ledger: Ledger | str,
        *,
        name: str = "data",
        question: Query | None = None,
        data_meant: bool = False,
    ) -> None:
        self._meant = checks.flag("data_meant", data_meant)
        self.beliefs: Beliefs = as_beliefs(beliefs)
        if self.beliefs.entries is not None:
            raise NoTheorem(
                "a stream is about entries that follow one another in time; networks and joint "
                "distributions have a fixed number of them: use Session"
            )
        self.name, micro = name, allowed_micro(checks.privacy(epsilon))
        if micro == 0:
            raise ValueError(f"epsilon: must be at least a millionth, got {epsilon!r}")
        self.epsilon = in_epsilon(micro)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._metric = self._distances(question)
        self._apart = as_metric(self._metric, len(self.beliefs.states)).distance
        about = {
            "kept by": "stream",
            "beliefs": digest(self.beliefs.to_dict()),
            "distances": "all" if self._metric is None else digest(self._apart.tolist()),
        }
        self._terms = Terms(micro, "composed", about)
        self._solve()
        self._standing()

    @property
    def entry_epsilon(self) -> float:
        """The one number: event-level epsilon that the releases about an entry have together."""
        return self._rate / PICO

    def __str__(self) -> str:
        return (
            f"Stream({self.name!r}, {self.beliefs.description}, epsilon {self.epsilon:g} for ever, "
            f"event-level epsilon {self.entry_epsilon:.6g} a window)"
        )

    def calibrate(self, query: Query, share: float = 1.0) -> Calibration:
        """The noise of one window, at this share of the event-level epsilon.

        The scale is the largest |q(x) - q(x')| / (share b d(x, x')) over pairs of states, with
        |q(x) - q(x')| by how much the answer moves when a value x is replaced by x'.
        """
        return self._noise(query, self._amount(share))

    def release(
        self,
        query: Query,
        data: Any,
        window: Window,
        *,
        share: float = 1.0,
        label: str = "",
        every: Any = None,
    ) -> Release:
        """Answer a query about a window with noise. Once: asking again gives the stored value.

        That holds also after a crash, and if rows of the window came late: they are left out then,
        as the window is what it was when it was released.

        Parameters
        ----------
        query
            Made for the data of the window: ``histogram(states, data)``.
        data
            The entries of the window: a `Series`, a sequence of states or of segments of states.
            ``None`` where nothing was observed. For a window of time it must be known when the
            entries are, and that all lie within: a list that holds rows of other windows too would
            be charged for this one alone, day after day. So read the series with its times (`part`
            cuts it), or say ``every``.
        window
            First and last entry, counted from the beginning of the stream; or from when on and
            until before when, as dates or times (``("2026-11-16 08:00", "2026-11-16 09:00")``); or
            a day (``"2026-11-16"``). The same kind throughout; times with a zone are another kind.
        share
            Part of the event-level epsilon of the window, so that several answers fit into one, or
            windows may overlap: with windows of a day, each hour, 1/24.
        label
            Something to tell otherwise equal releases apart.
        every
            For a list and a window of time: the time from one entry to the next, such as ``"1m"``;
            the first is at the beginning of the window.

        Raises
        ------
        OverBudget
            If entries of the window have spent too much for it; nothing is spent then.
        """
        check_query(query, "the data of the window, like histogram(states, data)")
        axis, begin, end, shown = located(window)
        use = Use(axis, begin, end, self._amount(share))
        key = digest({**asked(query), "stream": [axis, begin, end, use.pico], "label": label})
        calibration: Calibration | None = None
        while True:
            account, frontier = self._standing()
            stored = self.ledger.find(self.name, key)
            if stored is not None:
                return Release.from_dict(stored.body)
            if calibration is None:
                calibration = self._noise(query, use.pico)
                part = calibration.checked(data)
                if every is not None:
                    part = on_clock(part, use, every)
                check_inside(part, window, use)
            after = frontier.after(use)
            body = {
                "query": query.name,
                "labels": list(query.labels),
                "window": shown,
                "beliefs": self._terms.about["beliefs"],
                "mechanism": calibration.mechanism,
                "scale": calibration.scale,
                "label": label,
                "stream": {"epsilon": after.micro, "rate": after.rate},
                "use": [axis, begin, end, use.pico],
                "rule": "for ever",
            }
            charge = Charge(
                self.name,
                key,
                after.micro,
                max(after.micro, account.total),
                body,
                after=account.entries,
                terms=replace(self._terms, budget=account.budget),
                value=calibration.release(part).to_dict(),
                state=after.to_dict(),
                data=None if account.entries else _recognisable(part),
            )
            # What counts is what is stored, if two processes ask at once.
            self.ledger.charge_many([charge], data_meant=self._meant)

    @staticmethod
    def part(data: Series, window: Window) -> Series:
        """The entries of a series that lie in a window; of time, if it knows when they are.

        Examples
        --------
        >>> from pufferkit import Calendar, Series, Stream
        >>> hours = Series([0, 1] * 24, (0, 1), (48,), calendar=Calendar("2026-11-15", "1h"))
        >>> len(Stream.part(hours, "2026-11-16"))
        24
        """
        inside = part_of(data, window)
        if inside is None:
            raise ValueError(f"data: no entry lies in the window {window!r}")
        return inside

    def change_epsilon(self, epsilon: float, *, why: str = "") -> Stream:
        """The stream with another epsilon, from the first entry on that was not used yet.

        An act of its own, recorded in the ledger with who, when and why. Everything that was and
        will be released is private at the larger of the two: a larger one is a weaker promise, for
        earlier entries too. What remains of the windows so far is closed.
        """
        account, frontier = self._standing()
        if not account.entries:
            raise ValueError("epsilon: nothing was released yet; open the stream with another one")
        other = object.__new__(Stream)
        other.__dict__ |= self.__dict__
        micro = allowed_micro(checks.privacy(epsilon))
        other.epsilon = in_epsilon(micro)
        other._solve()
        other._terms = replace(self._terms, budget=micro)
        state = frontier.changed(micro, other._rate).to_dict()
        budget = in_epsilon(max(micro, account.total))
        self.ledger.change_budget(self.name, budget, why=why, state=state, after=account.entries)
        return other

    def _solve(self) -> None:
        """The one number of this epsilon, and what shows it."""
        apart = None if self._metric is None else self._apart.tobytes()
        known = _ByDigest(self._terms.about["beliefs"], self.beliefs)
        b, self._evidence, self._verification_data = _for_ever(known, self.epsilon, apart)
        self._rate = _rate(b)

    def _standing(self) -> tuple[Account, Frontier]:
        """Where the account and the stream stand; an error if it is another stream's."""
        account, state = self.ledger.standing(self.name)
        micro = self._terms.budget
        if account is None:
            unopened = Account(self.name, self._terms.rule, micro, 0, 0)
            return unopened, Frontier(micro, self._rate)
        known = replace(self._terms, budget=account.budget)
        self.ledger.check_terms({self.name: (known, None)})
        if state is None or "stream" not in state:
            raise LedgerError(
                f"account: {self.name!r} has no state of a stream; it was charged by other means"
            )
        frontier = Frontier.from_dict(state)
        if frontier.micro != micro:
            raise ValueError(
                f"epsilon: the stream {self.name!r} has {show(frontier.micro)}, not {show(micro)}; "
                "give that. To change it from now on is an act of its own: Stream.change_epsilon, "
                "or pufferkit stream change"
            )
        return account, frontier

    def _amount(self, share: float) -> int:
        part = checks.real("share", share)
        if not 0 < part <= 1:
            raise ValueError(f"share: must be above 0 and at most 1, got {share!r}")
        if part < 1 and self._metric is not None:
            raise NoTheorem("share: of one question there is one answer a window; leave it out")
        amount = int(self._rate * Fraction(part))
        if amount < 1:
            raise ValueError(f"share: {share:g} of {self.entry_epsilon:g} is too little to account")
        return amount

    def _noise(self, query: Query, pico: int) -> Calibration:
        check_states(self.beliefs, query)
        left = self._rate - pico
        evidence = replace(
            self._evidence, horizon=HORIZON, beside=round_up(left / PICO) if left else None
        )
        return Calibration(
            "influence_curve",
            self.epsilon,
            round_up(self._moved(query) * PICO / pico, 8),
            query,
            self.beliefs,
            evidence,
            verification_data=self._verification_data,
        )

    def _moved(self, query: Query) -> float:
        """By how much an entry moves the answer, in units of the distance of the two states."""
        if self._metric is None:
            return query.lipschitz
        rows = query.moved
        if rows is None:
            raise NoTheorem(
                f"{query.name} has one bound for all states, and this stream was opened for one "
                "question; open it without question= to ask anything"
            )
        nothing = (Fraction(0),) * len(next(iter(rows.values())))
        added = np.array(
            [[float(w) for w in rows.get(state, nothing)] for state in self.beliefs.states]
        )
        moved = np.abs(added[:, None, :] - added[None, :, :]).sum(axis=2)
        if (moved[self._apart == 0] > 0).any():
            raise NoTheorem(
                f"{query.name} tells states apart that the question of this stream does not; open "
                "it without question= to ask anything"
            )
        far = self._apart > 0
        return round_up(float((moved[far] / self._apart[far]).max()) * (1 + added.size * EPS))

    def _distances(self, question: Query | None) -> Metric | None:
        if question is None:
            return None
        check_query(question, "any number of entries, like count(state, 1)")
        check_states(self.beliefs, question)
        if question.moved is None:
            raise NoTheorem(
                f"question: {question.name} has one bound for all states; leave question out"
            )
        return metric_of(self.beliefs, question)


def part_of(data: Series, window: Window) -> Series | None:
    """The entries of a series that lie in a window; ``None`` if none of them was observed."""
    axis, begin, end, _ = located(window)
    places = np.arange(1, len(data) + 1) if axis == "entries" else places_of(data, axis)
    if places is None:
        raise ValueError("data: when the entries are is not known; read them with their times")
    inside = np.flatnonzero((places >= begin) & (places < end))
    if not inside.size or not data.observed[inside].any():
        return None
    return data.window(int(inside[0]) + 1, int(inside[-1]) + 1)


@dataclass(frozen=True)
class _ByDigest:
    """Beliefs that are the same if their digests are."""

    digest: str
    beliefs: Beliefs = field(compare=False)


@lru_cache(maxsize=32)
def _for_ever(known: _ByDigest, epsilon: float, distances: bytes | None) -> Solved:
    """The event-level epsilon at which everything ever released about entries hides them."""
    theta = known.beliefs
    size = len(theta.states)
    apart = None if distances is None else np.frombuffer(distances).reshape(size, size)
    b, _, _ = entry_epsilon_for(theta, _SCREEN, epsilon, apart)
    if b * _SCREEN < _FORGETS * epsilon:
        raise NoTheorem(
            f"releases for ever need beliefs that forget: under {theta.description} an entry is "
            f"told by entries {_SCREEN:,} away. Name chains that mix, or declare independent "
            "segments and use Session"
        )
    return entry_epsilon_for(theta, HORIZON, epsilon, apart)


def _rate(b: float) -> int:
    """Event-level epsilon in units of 10^-12, rounded down."""
    rate = int(Fraction(b) * PICO)
    if rate < 1:
        raise NoTheorem("the event-level epsilon is below 10^-12, the least an account holds")
    return rate


def _recognisable(data: Series) -> SeriesData | None:
    """The first window, if it is long enough to be known again: short ones are equal by chance."""
    seen = SeriesData(data)
    return seen if seen.information(seen.length) >= IDENTIFYING else None
