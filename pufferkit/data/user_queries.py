"""User-defined queries, with a per-entry bound that is tested.

`per_entry` takes any function and the bound that you claim; `refuted` searches for data that
violate it. A bound that survives the search is not proven: the record states that it was declared
by the user.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.data.queries import is_row
from pufferkit.data.query import Lengths, Query, distances
from pufferkit.data.series import Series, in_memory
from pufferkit.rounding import as_fraction, at_least

TRIALS = 2000
"""Number of data sets on which a bound is tested, each with one entry changed."""

_SLACK = 1e-9


def per_entry(
    function: Callable[[NDArray[Any]], Any],
    bound: float | Mapping[Hashable, Any],
    states: Iterable[Hashable],
    lengths: Lengths,
    *,
    labels: Iterable[str] = ("value",),
    name: str | None = None,
    unit: Fraction | float | None = None,
    trials: int = TRIALS,
    seed: int = 0,
) -> Query:
    """Any function of the entries, with a per-entry bound that you claim; it is tested first.

    *Theorem* (`docs/theory.md`). If replacing x by x' at one entry moves the answer by at most
    d(x, x') in L1 norm, whatever the other entries are, then with Laplace noise of scale s the
    log-likelihood of every output moves by at most d(x, x') / s, and the influence curve holds with
    these event-level epsilons. No other property of the function is used.

    Parameters
    ----------
    function
        Takes the entries (labels, segments one after another, ``None`` where not observed), and
        returns a number or a vector. It must depend on nothing else.
    bound
        The largest L1 change when one entry changes; or a row of numbers for each state, whose L1
        distances bound the change from one to another. The bound is not proved.
    states, lengths
        All states, and the `Series`, the length or the lengths of segments.
    name
        Required: by it an account tells your functions apart.
    labels, unit
        As for `Query`; with ``unit=1`` the answers are whole and get discrete noise.
    trials, seed
        Number of random data sets, each with one entry changed, on which the bound is tested.

    Raises
    ------
    ValueError
        If a data set violates the bound. The message shows it.

    Examples
    --------
    >>> def longest(entries):
    ...     runs = "".join("x" if e == "run" else " " for e in entries).split()
    ...     return max((len(run) for run in runs), default=0)
    >>> try:
    ...     per_entry(longest, 1, ["rest", "run"], 9, name="longest run")
    ... except ValueError as error:
    ...     print(str(error)[:53])
    bound: an entry moves the answer by 5, more than 1: a
    """
    if name is None:
        raise ValueError(
            "name: is required, such as name='longest run'; an account knows your function by it"
        )
    known = checks.distinct_states(states)
    apart: dict[Hashable, tuple[Fraction, ...]] | None = None
    if isinstance(bound, Mapping):
        apart = {
            state: tuple(as_fraction("bound", w) for w in (row if is_row(row) else [row]))
            for state, row in bound.items()
        }
        width = len(next(iter(apart.values()), ()))
        rows = [apart.get(state, (Fraction(0),) * width) for state in known]
        claimed = at_least(max(distances(rows), default=Fraction(0)))
    else:
        claimed = checks.positive("bound", bound)
    query = Query(
        name, function, claimed, lengths, labels=labels, states=known, unit=unit, apart=apart
    )
    broken = refuted(query, trials=trials, seed=seed, pattern=in_memory(lengths))
    if broken is not None:
        raise ValueError(f"bound: {broken}")
    return query


@dataclass(frozen=True)
class Refutation:
    """Data in which one entry moves the answer further than claimed."""

    moved: float
    claimed: float
    entry: int
    before: Hashable
    after: Hashable
    data: tuple[Hashable, ...]

    def __str__(self) -> str:
        shown = ", ".join(str(label) for label in self.data[:20])
        more = ", ..." if len(self.data) > 20 else ""
        return (
            f"an entry moves the answer by {self.moved:g}, more than {self.claimed:g}: at entry "
            f"{self.entry} {self.before!r} for {self.after!r}, in {shown}{more}"
        )


def refuted(
    query: Query, *, trials: int = TRIALS, seed: int = 0, pattern: Any = None
) -> Refutation | None:
    """Data that violate the per-entry bound of a query; ``None`` if the search has no result.

    Random data of several kinds are tested (all entries independent, long runs, one state with few
    others), each with one entry changed; the data that exceed the bound most are improved by
    changing further entries. A search without a result proves nothing.

    Parameters
    ----------
    query
        A query with its ``states``.
    trials, seed
        Number of data sets, and their seed.
    pattern
        A series; the test data have the same gaps.
    """
    if query.states is None:
        raise ValueError("states: must be named, so that test data can be drawn")
    rng, states, total = np.random.default_rng(seed), query.states, sum(query.lengths)
    gaps = ~pattern.observed if isinstance(pattern, Series) else np.zeros(total, dtype=bool)
    seen = np.flatnonzero(~gaps)
    allowed = query.cost(states)
    worst, at = 0.0, None

    def answer(codes: NDArray[np.intp]) -> NDArray[Any]:
        labels = [None if gap else states[code] for code, gap in zip(codes, gaps, strict=True)]
        entries = np.fromiter(labels, dtype=object, count=total) if gaps.any() else np.array(labels)
        return np.atleast_1d(checks.numbers("answer", query.evaluate(entries))).ravel()

    for trial in range(checks.whole("trials", trials, 1)):
        if at is not None and trial % 4 == 3:  # close to the worst data so far
            codes = at[0].copy()
            codes[rng.choice(seen)] = rng.integers(len(states))
            entry = at[1]
        else:
            codes, entry = _drawn(rng, total, len(states), trial), int(rng.choice(seen))
        other = codes.copy()
        other[entry] = (codes[entry] + rng.integers(1, len(states))) % len(states)
        moved = float(np.abs(answer(codes) - answer(other)).sum())
        excess = moved - allowed[codes[entry], other[entry]]
        if at is None or excess > worst:
            worst, at = excess, (codes, entry, other, moved)
    if at is None or worst <= _SLACK * max(1.0, query.lipschitz):
        return None
    codes, entry, other, moved = at
    return Refutation(
        moved,
        float(allowed[codes[entry], other[entry]]),
        entry + 1,
        states[codes[entry]],
        states[other[entry]],
        tuple(states[code] for code in codes),
    )


def _drawn(rng: np.random.Generator, total: int, size: int, trial: int) -> NDArray[np.intp]:
    """Random states: independent, in long runs, or one state with few others."""
    codes = rng.integers(size, size=total)
    if trial % 3 == 1:
        stay = rng.random(total) < rng.uniform(0.5, 1.0)
        keep = np.maximum.accumulate(np.where(stay, 0, np.arange(total)))
        codes = codes[keep]
    elif trial % 3 == 2:
        codes = np.where(rng.random(total) < 0.9, rng.integers(size), codes)
    return np.asarray(codes, dtype=np.intp)
