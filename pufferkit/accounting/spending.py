"""The facts about one release that an account needs: its window and its event-level epsilon."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.accounting.amounts import PICO, in_epsilon
from pufferkit.accounting.entries import Entry
from pufferkit.accounting.windows import QUILTS
from pufferkit.checks import Floats
from pufferkit.data.query import Query, Question, bound
from pufferkit.data.series import Pattern, observed_places, runs_of
from pufferkit.errors import NoTheorem
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.profile import metric_of_sum
from pufferkit.mechanisms.calibration import OF_SUMS, Calibration
from pufferkit.mechanisms.evidence import Guarantee
from pufferkit.mechanisms.influence_curve import Contribution, contributions_of

ENTRYWISE = QUILTS | OF_SUMS | {"influence_curve", "gk16", "group_dp", "entry_dp"}
"""Mechanisms that give a per-entry bound, whatever else they promise. The mechanisms for sums do
so for sums only: their theorem does not involve the Lipschitz constant of another query."""
_NEAR = 1e-9


@dataclass(frozen=True)
class Spending:
    """The facts about one release that an account needs.

    Attributes
    ----------
    mechanism, epsilon
        The mechanism and the epsilon it promised.
    window
        First and last entry used, counted from 1.
    entry_epsilon
        The most by which one entry changes the log-likelihood of the output; ``None`` if there is
        no bound.
    quilt
        Nodes of the binding quilt, for mechanisms that have one.
    quilt_sets
        Name of the family of quilts that was searched, for networks.
    contributions
        For sums: every state of the chain with its contribution, from 0 to 1, or a row of such
        numbers. The release hardly distinguishes states with similar contributions. ``None``: all
        states are equally far apart.
    gaps
        Lengths of the runs of entries in the window, alternately observed and unobserved, beginning
        with an observed run; unobserved entries spend nothing. ``None``: every entry was observed.
    made_for
        Lengths of the independent segments that the noise was calibrated for, in increasing order;
        ``None`` if they are those of the series.
    beliefs
        Digest of the beliefs that the noise was calibrated for; ``None`` if it needs none. The
        promise of the release holds under these. Under others only its event-level epsilon does.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(week, pk.histogram(week.states, 100), 0.5)
    >>> first = pk.Spending.of(noise)
    >>> first.window
    (1, 100)
    >>> pk.compose([first, first], week, 100).epsilon
    1.05105
    """

    mechanism: str
    epsilon: float
    window: tuple[int, int]
    entry_epsilon: float | None = None
    quilt: tuple[int, ...] | None = None
    quilt_sets: str | None = None
    contributions: tuple[tuple[Hashable, Contribution], ...] | None = None
    gaps: tuple[int, ...] | None = None
    made_for: tuple[int, ...] | None = field(default=None, compare=False)
    beliefs: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        # A float: `_tightest` reads an int as micro-epsilon.
        object.__setattr__(self, "epsilon", checks.privacy(self.epsilon))
        first, last = self.window
        if not 1 <= first <= last:
            raise ValueError(f"window: must satisfy 1 <= first <= last, got {first} to {last}")
        if self.entry_epsilon is not None:
            checks.positive("entry_epsilon", self.entry_epsilon)
        if self.gaps is not None and sum(self.gaps) != last - first + 1:
            raise ValueError(
                f"gaps: they cover {sum(self.gaps)} entries, the window {first} to {last} does not"
            )
        if self.contributions is not None:
            rows = [
                np.atleast_1d(checks.numbers("contributions", v)) for _, v in self.contributions
            ]
            apart = [float(np.abs(one - other).sum()) for one, other in combinations(rows, 2)]
            least = np.min(rows, axis=0) if rows else np.ones(1)
            if least.any() or not abs(max(apart, default=0.0) - 1) < _NEAR:
                raise ValueError(
                    "contributions: must have one for each state, the least 0 and the largest 1 "
                    f"(for rows: two at L1 distance 1), got {self.contributions}"
                )

    @classmethod
    def of(cls, calibration: Calibration, window: tuple[int, int] | None = None) -> Spending:
        """The spending of a release by this calibration; by default over the whole series."""
        if calibration.guarantee == Guarantee.SECRETS:
            raise NoTheorem(
                "an account covers every entry, and this release hides only the pairs of secrets "
                "it was calibrated for; calibrate it without secrets="
            )
        known, made_for = calibration.mechanism in ENTRYWISE, sum(calibration.query.lengths)
        if calibration.mechanism in OF_SUMS:
            known = calibration.query.weights is not None
            if window is not None and window[1] - window[0] + 1 < made_for:
                raise ValueError(
                    f"window: {window[0]} to {window[1]} is shorter than the {made_for} entries "
                    f"that {calibration.mechanism} was calibrated for, and a shorter sum may need "
                    "more noise; calibrate it for the window"
                )
        if window is not None and window[1] - window[0] >= made_for:
            raise ValueError(
                f"window: {window[0]} to {window[1]} has {window[1] - window[0] + 1} entries, but "
                f"the noise was calibrated for {made_for}"
            )
        gaps = None if calibration.query.pattern is None else joined(calibration.query.pattern)
        if window is not None and gaps is not None and sum(gaps) != window[1] - window[0] + 1:
            if "pattern" in (calibration.verification_data or {}):
                raise ValueError(
                    f"window: {window[0]} to {window[1]} is shorter than the {sum(gaps)} entries "
                    "whose gaps the noise is calibrated for; make the query with the series of the "
                    "window"
                )
            gaps = None
        theta = calibration.beliefs
        added = contributions_of(theta, calibration.query, calibration.scales)
        return cls(
            calibration.mechanism,
            calibration.epsilon,
            window or (1, made_for),
            calibration.entry_epsilon if known else None,
            calibration.evidence.quilt,
            contributions=None
            if added is None or theta is None
            else tuple(zip(theta.states, added, strict=True)),
            gaps=gaps,
            made_for=tuple(sorted(calibration.query.lengths)),
            beliefs=None if theta is None else theta.digest,
        )

    @property
    def used(self) -> list[tuple[int, int]]:
        """First and last entry of each run that spends something."""
        runs, place = [], self.window[0]
        for n, count in enumerate(self.gaps or (self.window[1] - place + 1,)):
            if n % 2 == 0 and count:
                runs.append((place, place + count - 1))
            place += count
        return runs

    def cost(self, states: Sequence[Hashable]) -> Floats:
        """The most by which replacing one state by another changes the output's log-likelihood."""
        added = self.ordered(states).contributions
        kind = None if added is None else tuple(value for _, value in added)
        return (self.entry_epsilon or 0.0) * distance_of(states, kind)

    def ordered(self, states: Sequence[Hashable]) -> Spending:
        """The spending with contributions in the order of the states."""
        if self.contributions is None:
            return self
        added = dict(self.contributions)
        if set(added) != set(states):
            raise ValueError(
                f"contributions: are for the states {list(added)}, the beliefs have {list(states)}"
            )
        return replace(self, contributions=tuple((state, added[state]) for state in states))


def kind_of(added: Any) -> Any:
    """The contributions of states, read from JSON, as tuples again."""
    if added is None:
        return None
    return tuple(tuple(row) if isinstance(row, list) else row for row in added)


def distance_of(states: Sequence[Hashable], kind: Any) -> Floats:
    """The distances between states under one kind of query."""
    return off_diagonal(len(states)) if kind is None else metric_of_sum(kind)


def spendings_of(charges: Iterable[Entry], states: Sequence[Hashable]) -> list[Spending]:
    """The spending of an account's charges, as the ledger stores it."""
    return [spending_of(entry, states) for entry in charges]


def spending_of(entry: Entry, states: Sequence[Hashable]) -> Spending:
    """The spending of one charge; ``states`` are those of its contributions."""
    body = entry.body
    pico, quilt = body["entry_privacy_pico"], body["quilt"]
    added, gaps = kind_of(body["contributions"]), body["gaps"]
    return Spending(
        body["mechanism"],
        in_epsilon(entry.epsilon),
        (body["window"][0], body["window"][1]),
        None if pico is None else pico / PICO,
        None if quilt is None else tuple(quilt),
        contributions=None if added is None else tuple(zip(states, added, strict=True)),
        gaps=None if gaps is None else tuple(gaps),
        beliefs=body.get("beliefs"),
    )


def joined(pattern: Pattern) -> tuple[int, ...]:
    """The runs of successive segments, joined into the runs of one stretch of entries."""
    places = np.concatenate([observed_places(runs) for runs in pattern])
    return runs_of(places)


def asked_query(query: Any, states: Sequence[Hashable], over: Any, how: str) -> Query:
    """A query as it is, a question about these data; a helpful error for anything else."""
    if not isinstance(query, (Query, Question)):
        raise ValueError(f"query: expected a Query, got {query!r:.60}; make it over {how}")
    return query if isinstance(query, Query) else bound(query, states, over)
