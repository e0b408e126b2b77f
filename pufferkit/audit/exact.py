"""The true loss of a small release, by the definition.

The loss is the largest |log p(w | X_i = a) - log p(w | X_i = a')| over outputs w, entries i,
possible values a, a' and beliefs. Given a secret the answer has a law with finitely many centres,
so the output has a mixture of Laplace densities.

**Where the ratio is largest.** Fix all coordinates of w but one, and let that one move between two
neighbouring centres c < c' of its own coordinate. Every mixture is there A u + B / u with
u = e^{w_j / s} and A, B >= 0, so the ratio of two of them is (A u^2 + B) / (A' u^2 + B'), which is
monotone in u^2: one end of the interval is at least as good. Below the least and above the largest
centre the ratio does not change at all. Moving one coordinate after the other, the supremum over
all outputs is reached on the grid of the coordinates' centres. Nothing is integrated or searched,
and on the line the grid is just the set of possible answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.audit.any_start import largest_ratio
from pufferkit.audit.conditioned import conditioned
from pufferkit.audit.mechanisms import LocalMechanism, belief_of, local_beliefs
from pufferkit.audit.members import believed
from pufferkit.audit.worlds import Law, chain_table, world
from pufferkit.beliefs.chain_class import AnyStartClass
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.protocol import as_beliefs
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration, check_states

MOST_ENTRIES = 10
"""Longest data that are audited exactly."""

MOST_POINTS = 200_000
"""Most outputs that are compared for each secret."""

_LEAST_STEP, _LEAST_ROW = 1e-25, 1e-290


@dataclass(frozen=True)
class WorstCase:
    """The output that tells most about a secret.

    Attributes
    ----------
    loss
        Log of the odds it moves.
    belief, entry
        Where: the law, and the entry, counted from 1 or by name.
    likelier, other
        The two values: the output is e^loss times likelier under the first.
    output
        The output itself: numbers for a release, symbols for a sanitised series.
    complete
        Whether every belief of the class was tried. If not, the class may do worse.
    """

    loss: float
    belief: str
    entry: Hashable
    likelier: Hashable
    other: Hashable
    output: tuple[Any, ...]
    complete: bool = True


def exact_loss(
    mechanism: Calibration | LocalMechanism,
    beliefs: Any = None,
    *,
    length: int | None = None,
    known: Mapping[int, Hashable] | None = None,
) -> float:
    """The epsilon a release really has, for at most ten entries; see `worst_case`.

    Where a class leaves the start open and has more than two states or a range of matrices, the
    largest over the laws that are tried.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(chain, pk.count(1, 5), epsilon=1)
    >>> round(exact_loss(noise), 6)
    1.0
    """
    return worst_case(mechanism, beliefs, length=length, known=known).loss


def worst_case(
    mechanism: Calibration | LocalMechanism,
    beliefs: Any = None,
    *,
    length: int | None = None,
    known: Mapping[int, Hashable] | None = None,
) -> WorstCase:
    """The output, entry and pair of values with the largest loss.

    Parameters
    ----------
    mechanism
        A calibration, or a local mechanism (an emission matrix with a promise).
    beliefs
        Against whom. Left out: those of the mechanism.
    length, known
        For local mechanisms: entries in the series, and what the adversary knows of them, {entry
        counted from 1: state}.

    Raises
    ------
    NotApplicable
        For more than `MOST_ENTRIES` entries, or too many possible outputs.
    """
    if not isinstance(mechanism, Calibration):
        return _local(mechanism, beliefs, length, known or {})
    if length is not None or known:
        raise ValueError("length, known: only for local mechanisms; a query has its own lengths")
    entries = sum(mechanism.query.lengths)
    if entries > MOST_ENTRIES:
        raise NotApplicable(
            f"the exact loss is for at most {MOST_ENTRIES} entries, here are {entries}; "
            "audit() measures longer series"
        )
    theta = belief_of(mechanism, beliefs)
    check_states(as_beliefs(theta), mechanism.query)
    opened = as_beliefs(theta)
    one_segment = len(mechanism.query.lengths) == 1
    if isinstance(opened, AnyStartClass) and len(opened.states) == 2 and one_segment:
        return _over_starts(opened, mechanism)
    best: WorstCase | None = None
    complete = True
    for own in believed(theta):
        check_floats(own.law)
        complete = complete and own.complete
        table = world(own.law, mechanism.query, listed=True)
        for entry, name in enumerate(table.entries):
            found = _at_entry(table, entry, mechanism.scale)
            if found is not None and (best is None or found[0] > best.loss):
                best = WorstCase(found[0], own.name, name, *found[1:])
    return _checked(best, complete)


def check_floats(law: MarkovChain | FiniteJoint) -> None:
    """Refuse laws whose possible data could have probability 0 as a float: no secret is lost."""
    if isinstance(law, MarkovChain):
        tables = (law.initial, law.transition)
        least = min(float(table[table > 0].min()) for table in tables)
        safe = least >= _LEAST_STEP
    else:
        safe = all(float(p) >= _LEAST_ROW for p in law.table.values() if p > 0)
    if not safe:
        raise NotApplicable("some probabilities are too small to multiply exactly; merge states")


def _checked(best: WorstCase | None, complete: bool) -> WorstCase:
    if best is None:
        raise NotApplicable("no entry can take two values, so there is no secret to tell")
    return WorstCase(**{**best.__dict__, "complete": complete})


def _at_entry(
    table: Any, entry: int, scale: float
) -> tuple[float, Hashable, Hashable, tuple[float, ...]] | None:
    values = table.values(entry)
    if len(values) < 2:
        return None
    laws = [table.law(entry, code) for code, _ in values]
    axes = [np.unique(column) for column in laws[0].points.T]
    logs = np.stack([_log_densities(law, axes, scale).ravel() for law in laws])
    spread = logs.max(axis=0) - logs.min(axis=0)
    place = int(spread.argmax())
    where = np.unravel_index(place, tuple(len(axis) for axis in axes))
    return (
        float(spread[place]),
        values[int(logs[:, place].argmax())][1],
        values[int(logs[:, place].argmin())][1],
        tuple(float(axis[j]) for axis, j in zip(axes, where, strict=True)),
    )


def _over_starts(theta: AnyStartClass, mechanism: Calibration) -> WorstCase:
    """Every start of every matrix, for two states; see `pufferkit.audit.any_start`."""
    best: WorstCase | None = None
    for number, transition in enumerate(theta.transitions, 1):
        sure = [MarkovChain(np.eye(2)[x], transition, theta.states) for x in (0, 1)]
        check_floats(sure[0])
        tables = [chain_table(chain, mechanism.query) for chain in sure]
        points = [set(map(tuple, table.answers.points)) for table in tables]
        grid = np.array(sorted(points[0] | points[1]))
        axes = [np.unique(column) for column in grid.T]
        for entry in range(sum(mechanism.query.lengths)):
            # Rows: start; columns: value of the entry.
            mass = np.array([[t.mass(entry, code) for code in (0, 1)] for t in tables])
            logs = np.full((2, 2, int(np.prod([len(axis) for axis in axes]))), -np.inf)
            for x, code in np.argwhere(mass > 0):
                law = tables[x].law(entry, int(code))
                found = _log_densities(law, axes, mechanism.scale).ravel()
                logs[x, code] = found + np.log(mass[x, code])
            for place in range(logs.shape[2]):
                here = logs[:, :, place]
                for a, b in ((0, 1), (1, 0)):
                    loss, odds = largest_ratio(here[:, a], here[:, b], mass[:, a], mass[:, b])
                    if best is None or loss > best.loss:
                        where = np.unravel_index(place, tuple(len(axis) for axis in axes))
                        output = tuple(float(c[j]) for c, j in zip(axes, where, strict=True))
                        name = f"matrix {number}, start at odds 1 : {odds:.6g}"
                        labels = theta.states[a], theta.states[b]
                        best = WorstCase(loss, name, entry + 1, *labels, output)
    return _checked(best if best is not None and np.isfinite(best.loss) else None, True)


def _log_densities(law: Law, axes: list[Floats], scale: float) -> Floats:
    """Log of the mixture on the grid of centres, up to one constant; one axis after another."""
    shape = tuple(len(axis) for axis in axes)
    if np.prod(np.array(shape, dtype=float)) * max(shape) > 50 * MOST_POINTS:
        raise NotApplicable(
            f"the answer has {len(shape)} coordinates with {', '.join(map(str, shape))} values, "
            "too many outputs to compare; use fewer states or a shorter series"
        )
    places = tuple(
        np.searchsorted(axis, column) for axis, column in zip(axes, law.points.T, strict=True)
    )
    mass = np.zeros(shape)
    np.add.at(mass, places, law.weights)
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(mass)
    for j, axis in enumerate(axes):
        lines = np.moveaxis(logs, j, -1)
        moved = np.empty_like(lines)
        for g, centre in enumerate(axis):
            moved[..., g] = np.logaddexp.reduce(lines - np.abs(axis - centre) / scale, axis=-1)
        logs = np.moveaxis(moved, -1, j)
    return logs


def _local(
    mechanism: LocalMechanism, beliefs: Any, length: int | None, known: Mapping[int, Hashable]
) -> WorstCase:
    """Every sanitised series, by the forward recursion from each secret."""
    if length is None:
        raise ValueError("length: how many entries the sanitised series has; at most 10")
    length = checks.whole("length", length, 1)
    best: WorstCase | None = None
    complete = True
    for name, chain, whole in local_beliefs(mechanism, beliefs):
        complete = complete and whole
        symbols = mechanism.matrix.shape[1]
        if length > MOST_ENTRIES or symbols**length > MOST_POINTS:
            raise NotApplicable(
                f"{symbols} symbols and {length} entries make too many sanitised series to "
                f"compare; at most {MOST_ENTRIES} entries and {MOST_POINTS:,} series"
            )
        check_floats(chain)
        fixed = known_codes(chain, length, known)
        for entry in range(length):
            if entry in fixed:
                continue
            found = _local_entry(chain, mechanism.matrix, length, entry, fixed)
            if found is not None and (best is None or found[0] > best.loss):
                best = WorstCase(found[0], name, entry + 1, *found[1:])
    return _checked(best, complete)


def _local_entry(
    chain: MarkovChain, matrix: Floats, length: int, entry: int, fixed: Mapping[int, int]
) -> tuple[float, Hashable, Hashable, tuple[int, ...]] | None:
    logs, labels = [], []
    for code, label in enumerate(chain.states):
        try:
            path = conditioned(chain, length, {**fixed, entry: code})
        except ValueError:
            continue  # a value that cannot happen is no secret
        table = path.initial[None, :] * matrix.T  # outputs so far, state now
        for own in path.which:
            moved = table @ path.matrices[own]
            table = (moved[:, None, :] * matrix.T[None, :, :]).reshape(-1, len(chain))
        with np.errstate(divide="ignore"):
            logs.append(np.log(table.sum(axis=1)))
        labels.append(label)
    if len(logs) < 2:
        return None
    stacked = np.stack(logs)
    top = stacked.max(axis=0)
    possible = np.isfinite(top)
    spread = np.full(top.shape, -np.inf)
    spread[possible] = top[possible] - stacked.min(axis=0)[possible]
    place = int(spread.argmax())
    output = np.unravel_index(place, (matrix.shape[1],) * length)
    return (
        float(spread[place]),
        labels[int(stacked[:, place].argmax())],
        labels[int(stacked[:, place].argmin())],
        tuple(int(z) for z in output),
    )


def known_codes(chain: MarkovChain, length: int, known: Mapping[int, Hashable]) -> dict[int, int]:
    """{entry counted from 1: state} as {place from 0: code}."""
    found = {}
    for entry, state in known.items():
        place = checks.whole("known", entry, 1) - 1
        if place >= length:
            raise ValueError(f"known: entry {entry} is beyond the {length} entries of the series")
        if state not in chain.states:
            raise ValueError(f"known: {state!r} is not a state; there are {list(chain.states)}")
        found[place] = chain.states.index(state)
    return found
