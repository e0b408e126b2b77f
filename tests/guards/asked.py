"""Every question, secret, stretch of entries and mechanism, by name.

Functions of the package are called here and nowhere else, so that a new spelling is one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pufferkit as pk
from pufferkit.mechanisms.plan import OPTIONS

VALUES = {"a": 0.0, "b": 1.0, "c": 3.0}
ROWS = {"a": [1, 0], "b": [0, 2.5], "c": [0.5, 0]}
MIDNIGHT = "2024-03-04 22:00"
"""The first entry of every segment; the third is on the next day."""


@dataclass(frozen=True)
class Over:
    """Stretches of entries, some of them not observed; counted from 0, one after another."""

    lengths: tuple[int, ...]
    missing: frozenset[int] = frozenset()

    @property
    def total(self) -> int:
        return sum(self.lengths)

    def told(self, states: tuple[str, ...]) -> Any:
        """What the package is given: lengths, or a series with these gaps."""
        if not self.missing:
            return self.lengths[0] if len(self.lengths) == 1 else list(self.lengths)
        labels = [None if t in self.missing else states[t % 2] for t in range(self.total)]
        starts = [sum(self.lengths[:n]) for n in range(len(self.lengths) + 1)]
        pieces = [labels[i:j] for i, j in pairwise(starts)]
        return pk.Series.of(pieces if len(pieces) > 1 else pieces[0], states)


OVERS = {
    "1": Over((1,)),
    "2": Over((2,)),
    "3": Over((3,)),
    "5": Over((5,)),
    "7": Over((7,)),
    "3+2": Over((3, 2)),
    "1+4": Over((1, 4)),
    "4+4+1": Over((4, 4, 1)),
    "5, 3rd missing": Over((5,), frozenset({2})),
    "6, ends missing": Over((6,), frozenset({0, 5})),
    "7, 3 missing": Over((7,), frozenset({2, 3, 4})),
    "3+4, 2 missing": Over((3, 4), frozenset({1, 5})),
    "40": Over((40,)),
    "300": Over((300,)),
    "1000": Over((1000,)),
    "100+30": Over((100, 30)),
    "60, every 4th missing": Over((60,), frozenset(range(3, 60, 4))),
    "200, 50 missing": Over((200,), frozenset(range(100, 150))),
}
"""The stretches of chains; graphs and joints have their own number of entries."""


def _calendar(over: Over) -> Any:
    starts = [MIDNIGHT] * len(over.lengths)
    return pk.Calendar(starts if len(starts) > 1 else MIDNIGHT, every="1h")


def _changes(entries: Any) -> int:
    """How often an entry differs from the one before, whatever the segment."""
    said = list(entries)
    return sum(x != y for x, y in pairwise(said))


def _some(entries: Any) -> int:
    return int(any(x == "b" for x in entries))


Ask = Callable[[tuple[str, ...], Over], Any]


def _values(states: tuple[str, ...]) -> dict[str, float]:
    return {x: VALUES[x] for x in states}


QUESTIONS: dict[str, Ask] = {
    "count": lambda s, o: pk.count("b", o.told(s)),
    "count of the last": lambda s, o: pk.count(s[-1], o.told(s)),
    "histogram": lambda s, o: pk.histogram(s, o.told(s)),
    "relative_frequencies": lambda s, o: pk.relative_frequencies(s, o.told(s)),
    "total": lambda s, o: pk.total(_values(s), o.told(s)),
    "total, clipped": lambda s, o: pk.total(_values(s), o.told(s), clip=(0.5, 2)),
    "mean": lambda s, o: pk.mean(_values(s), o.told(s)),
    "mean, clipped": lambda s, o: pk.mean(_values(s), o.told(s), clip=(0.5, 2)),
    "variance": lambda s, o: pk.variance(_values(s), o.told(s), clip=(0, 2)),
    "linear": lambda s, o: pk.linear({x: ROWS[x] for x in s}, o.told(s), states=s),
    "linear of some": lambda s, o: pk.linear({"b": 2}, o.told(s)),
    "transition_counts": lambda s, o: pk.transition_counts(s, o.told(s)),
    "episodes": lambda s, o: pk.episodes("b", o.told(s)),
    "stays": lambda s, o: pk.stays("b", o.told(s)),
    "by_time, hour": lambda s, o: pk.by_time("hour", s, o.told(s), _calendar(o)),
    "by_time, day": lambda s, o: pk.by_time("day", s, o.told(s), _calendar(o)),
    "by_time, slots": lambda s, o: pk.by_time(
        ["odd" if t % 2 else "even" for t in range(o.total)], s, o.told(s)
    ),
    "time_in": lambda s, o: pk.time_in(
        "b", o.told(s), start="22:00", end="01:00", calendar=_calendar(o)
    ),
    "days_with": lambda s, o: pk.days_with("b", 2, o.told(s), calendar=_calendar(o)),
    "days_with, share": lambda s, o: pk.days_with(
        "b", 1, o.told(s), calendar=_calendar(o), share=True
    ),
    "quantile": lambda s, o: pk.quantile(0.5, _values(s), o.told(s)),
    "per_entry": lambda s, o: pk.per_entry(_changes, 2, s, o.told(s), name="changes", trials=20),
    "per_entry, by state": lambda s, o: pk.per_entry(
        _some, {"b": 1}, s, o.told(s), name="some", trials=20
    ),
    "own": lambda s, o: pk.Query("changes", _changes, 2, o.told(s)),
}

SECRETS: dict[str, Callable[[tuple[str, ...]], Any]] = {
    "entries": lambda _: None,
    "runs of 2": lambda _: pk.Secrets.runs(2),
    "runs of 3": lambda _: pk.Secrets.runs(3),
    "sets of 2": lambda _: pk.Secrets.sets(2),
    "pairs": lambda _: pk.Secrets.pairs([("a", "b")]),
    "pairs, multiples": lambda s: pk.Secrets.pairs({("a", s[-1]): 2.5, (s[-2], s[-1]): 1.5}),
    "at_least": lambda _: pk.Secrets.at_least("b", within=3),
    "at_least twice": lambda _: pk.Secrets.at_least("b", within=4, times=2),
    "throughout": lambda s: pk.Secrets.throughout([x for x in s if x != "b"], within=3),
    "patterns": lambda _: pk.Secrets.patterns(2, lambda x: x[0] == x[1]),
    "throughout and patterns": lambda _: (
        pk.Secrets.throughout("a", within=2),
        pk.Secrets.patterns(2, lambda x: x[0] == x[1]),
    ),
}


def hiding(beliefs: Any, secret: str, states: tuple[str, ...]) -> Any:
    """The beliefs with these secrets."""
    named = SECRETS[secret](states)
    if named is None:
        return beliefs
    if isinstance(beliefs, pk.MarkovChain):
        beliefs = pk.ChainClass.of(beliefs)
    if not hasattr(beliefs, "with_secrets"):
        raise pk.NotApplicable("secrets: entries of graphs and joints only")
    return beliefs.with_secrets(*(named if isinstance(named, tuple) else (named,)))


MECHANISMS: dict[str, Callable[[Any, Any, float], float]] = {
    "influence_curve": lambda b, q, e: pk.influence_curve(b, q, e).scale,
    "markov_quilt": lambda b, q, e: pk.markov_quilt(b, q, e).scale,
    "markov_quilt, formula": lambda b, q, e: pk.markov_quilt(b, q, e, influence="formula").scale,
    "markov_quilt_approx": lambda b, q, e: pk.markov_quilt_approx(b, q, e).scale,
    "exact_sum": lambda b, q, e: pk.exact_sum(b, q, e).scale,
    "wasserstein": lambda b, q, e: pk.wasserstein(b, q, e).scale,
    "gk16": lambda b, q, e: pk.gk16(b, q, e).scale,
    "group_dp": lambda b, q, e: pk.group_dp(q, e, b).scale,
    "entry_dp": lambda _, q, e: pk.entry_dp(q, e).scale,
    "entry_epsilon": lambda b, q, e: 1 / pk.entry_epsilon(b, list(q.lengths), e),
    "best": lambda b, q, e: _least(pk.plan(b, q, e)),
}
"""The scale of the noise; for `entry_epsilon` one over it."""


def _least(table: pk.Plan) -> float:
    """Of noise of one scale: shaped noise has `tests/attacks/shapes.py`."""
    rows = (r for r in table.entries if r.pufferfish and r.mechanism not in {*OPTIONS, "shaped"})
    return min(row.calibration.scale for row in rows if row.calibration is not None)


EPSILONS = (0.2, 1.0, 5.0)
REFUSALS = (ValueError, NotImplementedError, OverflowError)


def refused(error: Exception) -> str:
    """How a refusal is recorded: the name of its class."""
    for known in (pk.NotApplicable, pk.NoTheorem):
        if isinstance(error, known):
            return known.__name__
    return "ValueError" if isinstance(error, ValueError) else type(error).__name__
