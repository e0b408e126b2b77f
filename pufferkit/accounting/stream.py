"""A stream: releases about data that keep coming, at one epsilon for ever.

**Theorem.** *Secrets*: any two values of any entry, used or not. *Beliefs*: any class of chains,
hidden states included; any start, gaps, and segments that are independent. *Releases*: any number,
each about a window of entries and each chosen after looking at all earlier outputs, such that for
every sequence of outputs the releases that use entry t together change the log-likelihood by at
most b d(x, x') when its value x is replaced by x'. If the loss on the influence curve under the
constant profile b d is at most epsilon over N entries, then everything released about the first N
entries is epsilon-Pufferfish private for each of them.

*Proof.* The density of all outputs is the product of the densities of each given the earlier ones.
Fix the outputs. Each factor is then a likelihood of the data, entry t changes the logarithm of the
product by at most b d, and entries that were not used do not change it. So the theorem of the
influence curve applies to the product with a profile of at most b d at each entry, and the loss
does not fall when the profile rises. QED

The loss converges: for beliefs that mix, the loss over N entries has a bound that is the same for
all N (a power of the kernel with positive entries contracts). It is computed for N = 10^12 entries,
one per second for 31,000 years. Beliefs that do not mix are refused.

*Another epsilon from some entry on.* With b before it and b' from it on, no entry spends more than
the larger of the two, so everything together is max(epsilon, epsilon')-Pufferfish private for each
entry. Raising epsilon weakens the guarantee for earlier entries too, because later entries are
correlated with them. Lowering it protects entries long after the change better, and leaves the
guarantee for the stream as a whole unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.accounting.amounts import PICO, allowed_micro, in_epsilon, show
from pufferkit.accounting.charges import Charge, Terms
from pufferkit.accounting.entries import Balance
from pufferkit.accounting.fingerprints import IDENTIFYING, SeriesData
from pufferkit.accounting.frontier import Frontier, Use
from pufferkit.accounting.ledger import Ledger
from pufferkit.accounting.spending import asked_query
from pufferkit.accounting.stream_windows import (
    Window,
    check_inside,
    located,
    on_clock,
    places_of,
)
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.beliefs.meeting import check_step
from pufferkit.beliefs.provenance import check_paid
from pufferkit.checks import Floats
from pufferkit.data.query import Query, Question
from pufferkit.data.series import Series
from pufferkit.errors import LedgerError, NoTheorem
from pufferkit.influence.curve.profile import as_metric
from pufferkit.mechanisms.calibration import Calibration, check_states
from pufferkit.mechanisms.influence_curve import (
    HORIZON,
    for_ever,
    metric_of,
)
from pufferkit.mechanisms.release import Release
from pufferkit.mechanisms.usefulness import warn_if_drowned
from pufferkit.records import digest, plain
from pufferkit.rounding import EPS, round_up
from pufferkit.shown import Shown


class Stream(Shown):
    """Releases about data that keep coming, at one epsilon for everything, ever.

    Any query may be asked about each window, also after looking at earlier releases. The noise does
    not grow over the years, and the account holds one number: the event-level epsilon of an entry.
    Windows come in the order of their beginnings; on entries that windows share, spending adds up.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass`, for all data the stream will ever have.
    epsilon
        Pufferfish epsilon of each entry for everything that is ever released.
    ledger
        A `Ledger`, or a path or URL to open one.
    name
        The account, named after the data. The first release creates it.
    question
        If every window will be asked the same sum, that query (of any length): its own distances
        between states need less noise than the largest distance everywhere.
    data_meant
        The data of the first window under a second name are refused, because two names would give
        them two budgets, and so are the rows of one window as those of another; ``True`` confirms
        that this is intended.

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
                "distributions have a fixed number of them: use release(..., account=)"
            )
        check_paid(self.beliefs.sources)
        self.name, micro = name, allowed_micro(checks.privacy(epsilon))
        if micro == 0:
            raise ValueError(f"epsilon: must be at least a millionth, got {epsilon!r}")
        self.epsilon = in_epsilon(micro)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._metric = self._distances(question)
        self._apart = as_metric(self._metric, len(self.beliefs.states))
        about = {
            "kept by": "stream",
            "beliefs": self.beliefs.digest,
            "distances": "all" if self._metric is None else digest(self._apart.tolist()),
        }
        self._terms = Terms(micro, "composed", about)
        self._solve()
        self._standing()

    @property
    def entry_epsilon(self) -> float:
        """The event-level epsilon of all releases about an entry together."""
        return self._rate / PICO

    def __str__(self) -> str:
        return (
            f"Stream({self.name!r}, {self.beliefs.description}, epsilon {self.epsilon:g} for ever, "
            f"event-level epsilon {self.entry_epsilon:.6g} a window)"
        )

    def calibrate(self, query: Query, share: float = 1.0) -> Calibration:
        """The calibration for one window, at this share of the event-level epsilon.

        The scale is the largest |q(x) - q(x')| / (share b d(x, x')) over pairs of states, with
        |q(x) - q(x')| the most by which the answer changes when a value x is replaced by x'.
        """
        return self._noise(query, share)

    def release(
        self,
        query: Query,
        data: Any,
        window: Window,
        *,
        share: float = 1.0,
        label: str = "",
        every: Any = None,
        anyway: bool = False,
    ) -> Release:
        """Answer a query about a window with noise, once: asking again returns the stored value.

        This also holds after a crash, and if rows of the window arrive late: they are ignored,
        because the window has already been released.

        Parameters
        ----------
        query
            Made for the data of the window: ``histogram(states, data)``.
        data
            The entries of the window: a `Series`, a sequence of states or of segments of states.
            ``None`` where nothing was observed. For a window of time the times of the entries must
            be known, and all must lie within the window: a list that also holds rows of other
            windows would be charged for this window only. So read the series with its times
            (`part` cuts it), or give ``every``.
        window
            First and last entry, counted from 1 from the beginning of the stream; or start and end,
            the end excluded, as dates or times (``("2026-11-16 08:00", "2026-11-16 09:00")``); or
            a day (``"2026-11-16"``). All windows of a stream have the same kind; times with a zone
            and times without one are different kinds.
        share
            Fraction of the event-level epsilon to spend on the window, so that it can have several
            answers, or windows can overlap: 1/24 for windows of a day that start every hour.
        label
            Something to tell otherwise equal releases apart.
        every
            For a list and a window of time: the time between entries, such as ``"1m"``; the first
            entry is at the beginning of the window.
        anyway
            Noise that drowns the answer gives a warning, `DrownedAnswer`, before anything is
            charged, unless this is true.

        Raises
        ------
        OverBudget
            If entries of the window have too little left to spend; nothing is spent then.
        """
        states, how = self.beliefs.states, "the data of the window, like histogram(states, data)"
        over = Series.of(data, states) if isinstance(query, Question) else None
        query = asked_query(query, states, over, how)
        axis, begin, end, shown = located(window)
        use = Use(axis, begin, end, self._amount(share))
        key = digest(
            {
                **query.stated(),
                "window": [axis, begin, end],
                "epsilon": self.epsilon,
                "share": plain(Fraction(share)),
                "label": label,
            }
        )
        calibration: Calibration | None = None
        while True:
            account, frontier = self._standing()
            stored = self.ledger.find(self.name, key)
            if stored is not None:
                return Release.from_dict(stored.body)
            if calibration is None:
                calibration = self._noise(query, share)
                part = calibration.checked(data)
                if every is not None:
                    part = on_clock(part, use, every)
                check_inside(part, window, use)
                warn_if_drowned(calibration, anyway=anyway)
                check_step(self.beliefs.step, part.step)
                use = replace(use, step=part.step)
            after = frontier.after(use)
            body = {
                "query": query.name,
                "labels": list(query.labels),
                "window": shown,
                "beliefs": self._terms.about["beliefs"],
                "calibration": calibration.digest,
                "mechanism": calibration.mechanism,
                "scale": calibration.scale,
                "label": label,
                "stream": {"epsilon": after.micro, "rate": after.rate},
                "use": [axis, begin, end, use.pico, use.step],
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
                value=calibration.release(part, anyway=True).to_dict(),
                state=after.to_dict(),
                data=None if account.entries else _recognisable(part),
                rows=SeriesData(part.codes, part.states, part.lengths, thinned=False),
            )
            # What counts is what is stored, if two processes ask at once.
            self.ledger.charge_many([charge], data_meant=self._meant)

    @staticmethod
    def part(data: Series, window: Window) -> Series:
        """The entries of a series that lie in a window of time; the series must know its times.

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
        """The stream with another epsilon from the first unused entry on.

        The ledger records who changed it, when and why. Everything that was and will be released
        is private at the larger of the two epsilons: a larger one weakens the guarantee for
        earlier entries too. The windows so far are closed, including what they have left.
        """
        account, frontier = self._standing()
        if not account.entries:
            raise ValueError(
                "epsilon: nothing has been released yet; open the stream with the other epsilon"
            )
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
        """The event-level epsilon for this epsilon, with its evidence."""
        apart = None if self._metric is None else self._apart
        b, self._evidence, self._verification_data = for_ever(self.beliefs, self.epsilon, apart)
        self._rate = _rate(b)

    def _standing(self) -> tuple[Balance, Frontier]:
        """Balance of the account and state of the stream; raises if it is another stream's."""
        read = self.ledger.look([self.name])
        account, state = read.balances.get(self.name), read.states.get(self.name)
        micro = self._terms.budget
        if account is None:
            unopened = Balance(self.name, self._terms.rule, micro, 0, 0)
            return unopened, Frontier(micro, self._rate)
        known = replace(self._terms, budget=account.budget)
        self.ledger.check_terms({self.name: (known, None)})
        if state is None or "stream" not in state:
            raise LedgerError(
                f"account: {self.name!r} is not the account of a stream; choose another name"
            )
        frontier = Frontier.from_dict(state)
        if frontier.micro != micro:
            raise ValueError(
                f"epsilon: the stream {self.name!r} has {show(frontier.micro)}, not {show(micro)}; "
                f"give {show(frontier.micro)}. To change it from now on, call "
                "Stream.change_epsilon or run pufferkit stream change"
            )
        return account, frontier

    def _amount(self, share: float) -> int:
        part = checks.real("share", share)
        if not 0 < part <= 1:
            raise ValueError(f"share: must be above 0 and at most 1, got {share!r}")
        if part < 1 and self._metric is not None:
            raise NoTheorem(
                "share: a stream for one question gives one answer per window; leave share out"
            )
        amount = int(self._rate * Fraction(part))
        if amount < 1:
            raise ValueError(
                f"share: {share:g} of event-level epsilon {self.entry_epsilon:g} is below the "
                "smallest amount an account holds; give a larger share"
            )
        return amount

    def _noise(self, query: Query, share: float) -> Calibration:
        check_states(self.beliefs, query)
        pico = self._amount(share)
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
            options={"share": Fraction(share), "distances": self._terms.about["distances"]},
        )

    def _moved(self, query: Query) -> float:
        """The most by which an entry changes the answer, in units of the distance of the states."""
        if self._metric is None:
            return query.lipschitz
        rows = query.rows
        if rows is None:
            raise NoTheorem(
                f"{query.name} has one bound for all states, and this stream was opened for one "
                "question; open a stream without question= for other queries"
            )
        nothing = (Fraction(0),) * len(next(iter(rows.values())))
        added = np.array(
            [[float(w) for w in rows.get(state, nothing)] for state in self.beliefs.states]
        )
        moved = np.abs(added[:, None, :] - added[None, :, :]).sum(axis=2)
        if (moved[self._apart == 0] > 0).any():
            raise NoTheorem(
                f"{query.name} distinguishes states that the question of this stream does not; "
                "open a stream without question= for other queries"
            )
        far = self._apart > 0
        return round_up(float((moved[far] / self._apart[far]).max()) * (1 + added.size * EPS))

    def _distances(self, question: Query | None) -> Floats | None:
        if question is None:
            return None
        states = self.beliefs.states
        question = asked_query(question, states, 1, "any number of entries, like count(state, 1)")
        check_states(self.beliefs, question)
        if question.rows is None:
            raise NoTheorem(
                f"question: {question.name} has one bound for all states; leave question out"
            )
        return metric_of(self.beliefs, question)


def part_of(data: Series, window: Window) -> Series | None:
    """The entries of a series that lie in a window; ``None`` if none of them was observed."""
    axis, begin, end, _ = located(window)
    places = np.arange(1, len(data) + 1) if axis == "entries" else places_of(data, axis)
    if places is None:
        raise ValueError("data: the times of the entries are not known; read them with their times")
    inside = np.flatnonzero((places >= begin) & (places < end))
    if not inside.size or not data.observed[inside].any():
        return None
    return data.window(int(inside[0]) + 1, int(inside[-1]) + 1)


def _rate(b: float) -> int:
    """Event-level epsilon in units of 10^-12, rounded down."""
    rate = int(Fraction(b) * PICO)
    if rate < 1:
        raise NoTheorem("the event-level epsilon is below 10^-12, the least an account holds")
    return rate


def _recognisable(data: Series) -> SeriesData | None:
    """The first window, if it is long enough to be recognised: short ones coincide by chance."""
    seen = SeriesData(data.codes, data.states, data.lengths)
    return seen if seen.information(seen.length) >= IDENTIFYING else None
