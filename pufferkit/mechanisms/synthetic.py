"""Synthetic series whose statistics are close to those released: post-processing, at no cost.

A series is drawn from released numbers only (transition counts, and a histogram for each hour of
the day), so its use costs no more privacy than those releases. It is only as close to the data as
these noisy numbers: a report states how close.

Let P be the released transition rates and pi_h the released distribution of hour h. The series is a
chain that moves at hour h by

    K_h(x, y)  proportional to  P(x, y) r_h(y),

with weights r_h computed by iterative scaling, so that the shares of the states at hour h in the
periodic steady state of the chain are pi_h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import same_step
from pufferkit.checks import Floats
from pufferkit.data.calendar import HOUR, Calendar
from pufferkit.data.durations import SECOND, duration, of_seconds
from pufferkit.data.joint import Several
from pufferkit.data.queries import TransitionCounts
from pufferkit.data.series import Series
from pufferkit.mechanisms.joint_plan import split
from pufferkit.mechanisms.release import Release
from pufferkit.shown import Shown

_ROUNDS = 300  # of fitting; it ends earlier where nothing moves
_LEAST = 1e-4
"""Shares and rates are at least this, so that noise does not make a state unreachable."""


@dataclass(frozen=True, repr=False)
class Synthetic(Shown):
    """A synthetic series, and how close it is to the released numbers it was made from."""

    series: Series
    """The entries."""
    epsilon: float
    """Epsilon of the joint release it was made from; for two releases, the sum of their epsilons.
    Their joint cost, which may be a little more, is in the account."""
    rows: tuple[dict[str, Any], ...]
    """For each statistic the released value and that of the series."""

    def table_rows(self) -> list[dict[str, Any]]:
        """The report."""
        return list(self.rows)

    @property
    def furthest(self) -> float:
        """The largest difference between a released share and that of the series."""
        return float(max(abs(row["released"] - row["synthetic"]) for row in self.rows))

    def caption(self) -> str:
        """How many entries, and what they cost."""
        return f"{len(self.series):,} synthetic entries; epsilon {self.epsilon:g}, of the releases"

    def remarks(self) -> list[str]:
        """How far each statistic is from the released one."""
        off: dict[str, list[float]] = {}
        for row in self.rows:
            off.setdefault(row["statistic"], []).append(abs(row["released"] - row["synthetic"]))
        return [
            f"{kind}: {len(own)} numbers, off by {np.mean(own):.3g} on average and "
            f"{max(own):.3g} at most"
            for kind, own in off.items()
        ]


def synthetic(
    moves: Release,
    length: int,
    *,
    hours: Release | None = None,
    calendar: Calendar | None = None,
    seed: int | np.random.Generator | None = None,
) -> Synthetic:
    """A synthetic series of any length from released transition counts, and hours of the day.

    Parameters
    ----------
    moves
        A release of `transition_counts`; or a joint release that contains one, and perhaps hours
        too.
    length
        Number of synthetic entries.
    hours
        A release of ``by_time("hour", ...)`` over the same states. If left out, all hours are
        equal.
    calendar
        Times of the synthetic entries; required with ``hours``. Its step must be that of the
        data.
    seed
        Seed of the synthetic entries; the same seed gives the same series.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "walk"])
    >>> data = [chain.states[code] for code in chain.sample(5000, seed=1)]
    >>> query = pk.transition_counts(chain.states, 5000)
    >>> made = pk.synthetic(pk.influence_curve(chain, query, 1).release(data), 100, seed=1)
    >>> len(made.series), made.epsilon
    (100, 1.0)
    """
    together = moves.epsilon if moves.kind == Several.kind else None
    if moves.kind == Several.kind:
        moves, hours = _parts(moves, hours)
    if moves.kind != TransitionCounts.kind:
        raise ValueError(f"moves: must be a release of transition counts, got {moves.query}")
    length = checks.whole("length", length, 2)
    if calendar is not None and not same_step(moves.step, calendar.every / SECOND):
        raise ValueError(
            f"calendar: its entries are {duration(calendar.every)} apart, but the transitions were "
            f"counted over {of_seconds(moves.step)}; give every={of_seconds(moves.step)!r}"
        )
    size = round(len(moves.labels) ** 0.5)
    for name, own in {"moves": moves, "hours": hours}.items():
        if own is not None and not len(own.labels) == len(own.raw) == len(own.value):
            raise ValueError(f"{name}: its labels and its numbers are not equally many")
    if size**2 != len(moves.labels):
        raise ValueError(f"moves: {len(moves.labels)} numbers are no square of states")
    names = [moves.labels[n * size + n] for n in range(size)]
    states = tuple(name[: (len(name) - len(" to ")) // 2] for name in names)
    rates = _rows(np.array(moves.raw).reshape(size, size))
    slots = np.zeros(length, dtype=np.int64)
    targets = _stationary(rates)[None, :]
    epsilon = moves.epsilon
    if hours is not None:
        if (hours.question or {}).get("by") != "hour":
            raise ValueError(f"hours: must be a release by hour, got {hours.query}")
        if calendar is None or len(calendar.starts) != 1:
            raise ValueError(
                "calendar: must give the times of the synthetic entries, as one segment"
            )
        shown = tuple(label.removeprefix("00:00, ") for label in hours.labels[:size])
        if shown != states:
            raise ValueError(
                f"hours: has states {list(shown)}, moves {list(states)}; use the same in both"
            )
        targets = _rows(np.array(hours.as_histogram().value).reshape(24, size))
        slots = calendar.hours([length])
        epsilon += hours.epsilon
    epsilon = epsilon if together is None else together
    steps = 1 if calendar is None else max(1, HOUR // calendar.every)
    kernels = _kernels(rates, targets, int(min(steps, 60)))
    rng = np.random.default_rng(seed)
    codes = _walk(kernels, targets, slots, rng)
    series = Series(codes, states, (length,), calendar=calendar)
    return Synthetic(series, epsilon, tuple(_report(series, slots, rates, targets, moves, hours)))


def _parts(joint: Release, hours: Release | None) -> tuple[Release, Release | None]:
    """The transition counts of a joint release, and its hours if it has them."""
    parts = list(split(joint).values())
    moves = [part for part in parts if part.kind == TransitionCounts.kind]
    by_hour = [part for part in parts if (part.question or {}).get("by") == "hour"]
    if not moves:
        raise ValueError("moves: the joint release must contain transition counts")
    if hours is not None:
        raise ValueError("hours: are in the joint release; leave them out")
    return moves[0], by_hour[0] if by_hour else None


def _rows(counts: Floats) -> Floats:
    """Rows as distributions: negative numbers set to 0, and all raised slightly above 0."""
    kept = np.maximum(counts, 0.0)
    sums = kept.sum(axis=1, keepdims=True)
    shares = np.where(sums > 0, kept / np.where(sums > 0, sums, 1.0), 1.0 / counts.shape[1])
    shares = np.maximum(shares, _LEAST)
    rows: Floats = shares / shares.sum(axis=1, keepdims=True)
    return rows


def _stationary(matrix: Floats) -> Floats:
    power = np.linalg.matrix_power(matrix, 4096)
    row: Floats = power[0] / power[0].sum()
    return row


def _kernels(rates: Floats, targets: Floats, steps: int) -> Floats:
    """A matrix for each slot, with the targets as steady shares; ``steps`` steps in each slot."""
    weights = np.ones_like(targets)
    kernels = np.repeat(rates[None], len(targets), axis=0)
    if len(targets) == 1:
        return kernels
    shares = targets[-1].copy()
    for _ in range(_ROUNDS):
        for slot, target in enumerate(targets):
            mean = np.zeros_like(target)
            for _ in range(steps):
                shares = shares @ kernels[slot]
                mean += shares / steps
            weights[slot] *= np.sqrt(target / mean)
            own = rates * weights[slot]
            kernels[slot] = own / own.sum(axis=1, keepdims=True)
    return kernels


def _walk(kernels: Floats, targets: Floats, slots: Any, rng: np.random.Generator) -> Any:
    edges = np.cumsum(kernels, axis=2)
    draws = rng.random(len(slots))
    last = kernels.shape[1] - 1
    codes = np.empty(len(slots), dtype=np.intp)
    codes[0] = min(int(np.searchsorted(np.cumsum(targets[slots[0]]), draws[0])), last)
    for t in range(1, len(slots)):
        row = edges[slots[t], codes[t - 1]]
        codes[t] = min(int(np.searchsorted(row, draws[t])), last)
    return codes


def _report(
    series: Series,
    slots: Any,
    rates: Floats,
    targets: Floats,
    moves: Release,
    hours: Release | None,
) -> Any:
    own = _shares(series.transitions)
    for (x, y), rate in np.ndenumerate(rates):
        yield {
            "statistic": "transition rates",
            "label": moves.labels[x * len(rates) + y],
            "released": float(rate),
            "synthetic": float(own[x, y]),
        }
    if hours is None:
        return
    cells = slots * len(rates) + series.codes
    counted = np.bincount(cells, minlength=targets.size).reshape(targets.shape)
    shares = _shares(counted)
    for (slot, x), share in np.ndenumerate(targets):
        if counted[slot].sum():
            yield {
                "statistic": "shares by hour",
                "label": hours.labels[slot * len(rates) + x],
                "released": float(share),
                "synthetic": float(shares[slot, x]),
            }


def _shares(counts: Any) -> Floats:
    sums = counts.sum(axis=1, keepdims=True)
    shares: Floats = counts / np.maximum(sums, 1)
    return shares
