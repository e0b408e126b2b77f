"""Checks of a recorded query: how far one entry moves it, and what its values must be.

For the kinds that pufferkit knows, the Lipschitz constant follows from the kind, the states and the
lengths, whatever the file claims:

    count                 1                        one state adds 1, the others nothing
    histogram             2                        one bin loses, another gains
    relative frequencies  2 / entries
    total, mean           largest less least of what a state adds
    transition counts     4, or 2 in segments of at most two entries
    by time               2                        an entry is in one slot of time
    time in states        1, between states that count and others
    episodes              1, between states that count and others
    stays                 2, between states that count and others
    days with             1, or 1 / days, between states that count and others
    quantile              2                        the histogram that a level is chosen by

For a user-defined query it is declared by its author.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from pufferkit.beliefs.base import Beliefs, beliefs_from_dict
from pufferkit.beliefs.meeting import step_assumed
from pufferkit.mechanisms.release import Release
from pufferkit.noise import SAMPLER_NAMES

_PRECISION = 1e-9
_SIZES = {
    "count": 1,
    "total": 1,
    "mean": 1,
    "time in states": 1,
    "episodes": 1,
    "stays": 2,
    "days with": 1,
    "quantile": 1,
}
_NO_CHOICE = ("gk16", "wasserstein", "exact_sum")
OF_STATES = ("time in states", "episodes", "stays", "days with")
"""Kinds that distinguish some states from all others, and nothing else."""


def parts_of(record: Release) -> list[Release]:
    """The queries of a joint release as separate records, each with its scale."""
    parts, at = [], 0
    scales = record.scales or (record.scale,) * len(record.labels)
    for part in (record.question or {})["parts"]:
        size = len(part["labels"])
        weights = part.get("weights")
        parts.append(
            replace(
                record,
                value=record.raw[at : at + size],
                raw=record.raw[at : at + size],
                scale=min(scales[at : at + size]),
                scales=None,
                query=part["query"],
                kind=part["kind"],
                labels=tuple(part["labels"]),
                lipschitz=float(part["lipschitz"]),
                total=part["total"],
                question=part["question"],
                presentation="as drawn",
                verification_data=None if weights is None else {"weights": weights},
            )
        )
        at += size
    return parts


def weights_of(record: Release) -> list[Fraction] | None:
    """What each state adds to a sum, as recorded; ``None`` if it is not a sum over entries."""
    if record.kind in OF_STATES or record.kind == "several" or len(record.labels) != 1:
        return None
    rows = contributions_of_states(record)
    return None if rows is None else [row[0] for row in rows]


def contributions_of_states(record: Release) -> list[list[Fraction]] | None:
    """What each state adds to each coordinate of a sum, as recorded or by the kind of query."""
    size = len(record.labels)
    if record.kind in ("histogram", "relative frequencies"):
        zero, unit = (
            Fraction(0),
            Fraction(1, 1 if record.kind == "histogram" else entries_in(record)),
        )
        return [[unit if j == own else zero for j in range(size)] for own in range(size)]
    if record.kind in OF_STATES:
        return _told_apart(record)
    if record.kind == "several":
        return None
    if (
        not isinstance(record.verification_data, Mapping)
        or "weights" not in record.verification_data
    ):
        return None
    if record.kind in ("by time", "transition counts", "quantile"):
        return None
    try:
        rows = [
            [Fraction(weight) for weight in (row if isinstance(row, list) else [row])]
            for row in record.verification_data["weights"]
        ]
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"release: weights are not numbers ({error})") from None
    return rows if rows and all(len(row) == size for row in rows) else None


def _told_apart(record: Release) -> list[list[Fraction]] | None:
    """A row for each state of the beliefs: how far the named states are from all others.

    It is computed from the kind and the states in the question, not from other fields.
    """
    moved = _moved_between(record)
    try:
        states = beliefs_from_dict(record.beliefs or {}).states
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    names = [str(state) for state in states]
    if len(set(names)) < len(names):  # states with the same text cannot be distinguished by name
        return None
    named = set((record.question or {})["of"])
    size = len(record.labels)
    return [[moved if name in named else Fraction(0)] * size for name in names]


def _moved_between(record: Release) -> Fraction:
    """How far one coordinate moves when an entry enters or leaves the named states."""
    question = record.question or {}
    if record.kind == "days with" and question["share"]:
        return Fraction(1, question["days"])
    return Fraction(1)


def claimed_rows(record: Release) -> list[list[Fraction]] | None:
    """For a user-defined query that is not a sum: rows with the distances its author claims."""
    data = record.verification_data
    if record.kind != "own" or not isinstance(data, Mapping) or "apart" not in data:
        return None
    try:
        rows = [[Fraction(number) for number in row] for row in data["apart"]]
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"release: apart holds no numbers ({error})") from None
    return rows if rows and len({len(row) for row in rows}) == 1 else None


def furthest_of(rows: Sequence[Sequence[Fraction]]) -> Fraction:
    """The largest L1 distance between two rows."""
    none = Fraction(0)
    pairs = product(rows, rows)
    return max(sum((abs(a - b) for a, b in zip(*two, strict=True)), none) for two in pairs)


def moved_by_one_entry(record: Release) -> float | None:
    """The Lipschitz constant, if the kind determines it; for several queries, the sum."""
    if record.kind == "several":
        parts = parts_of(record)
        each = [moved_by_one_entry(part) or part.lipschitz for part in parts]
        return float(sum(map(Fraction, each), Fraction(0)))
    weights = weights_of(record)
    if record.kind in ("total", "mean"):
        return None if weights is None else float(max(weights) - min(weights))
    if record.kind == "own":
        rows = contributions_of_states(record)
        return None if rows is None else float(furthest_of(rows))
    return {
        "count": 1.0,
        "histogram": 2.0,
        "relative frequencies": 2 / entries_in(record),
        "transition counts": 4.0 if max(record.lengths) > 2 else 2.0,
        "by time": 2.0,
        "quantile": 2.0,
        **{kind: float(_SIZES[kind] * _moved_between(record)) for kind in _of_states(record)},
    }.get(record.kind)


def _of_states(record: Release) -> tuple[str, ...]:
    return (record.kind,) if record.kind in OF_STATES else ()


def entries_in(record: Release) -> int:
    """Number of entries of the answer: those that were observed."""
    return sum(record.observed or record.lengths)


def not_such_a_query(record: Release, states: Sequence[Hashable] | None) -> Iterator[str]:
    """Contradictions between the fields of the query and its kind."""
    weights, kind, size = weights_of(record), record.kind, len(record.labels)
    if kind in _SIZES and size != _SIZES[kind]:
        many = "one number" if _SIZES[kind] == 1 else f"{_SIZES[kind]} numbers"
        yield f"labels: a {kind} is {many}, not {size}"
    yield from _not_such_a_question(record, states)
    if (
        kind == "count"
        and weights is not None
        and sorted(weights) != [0] * (len(weights) - 1) + [1]
    ):
        shown = ", ".join(str(weight) for weight in weights)
        yield f"weights: one state adds 1 to a count and the others 0, not {shown}"
    if states is not None and weights is not None and len(weights) != len(states):
        yield f"weights: there are {len(weights)}, for {len(states)} states"
    names = None if states is None else [str(state) for state in states]
    strange = size < 2 or (names is not None and sorted(names) != sorted(record.labels))
    if strange and kind in ("histogram", "relative frequencies"):
        yield f"labels: {list(record.labels)} are not the states of the beliefs"
    if kind == "transition counts":
        moves = None if names is None else [f"{one} to {two}" for one in names for two in names]
        if moves is not None and sorted(moves) != sorted(record.labels):
            yield f"labels: {size} of them are not the moves between {len(names or ())} states"
    moved = moved_by_one_entry(record)
    if moved is not None and record.lipschitz < moved * (1 - 1e-12):
        yield f"lipschitz: one entry moves a {kind} by {moved:g}, not {record.lipschitz:g}"
    entries = entries_in(record)
    total = {
        "histogram": entries,
        "relative frequencies": 1,
        "by time": entries,
        # Transitions across unobserved entries are not counted, and a file does not locate them.
        "transition counts": None if record.observed else entries - len(record.lengths),
    }.get(kind)
    if total is not None and record.total != total:
        yield f"total: the {kind} of {entries} entries sum to {total}, not {record.total}"


def not_from_raw(record: Release) -> Iterator[str]:
    """Differences between the value and the presentation of the raw answer."""
    if record.presentation == "as drawn":
        if record.value != record.raw:
            yield "value: differs from raw, but is said to be the answer as drawn"
        return
    totals = record.totals
    if totals is None or len(record.raw) % len(totals):
        yield f"value: is said to be a histogram, but a {record.kind} has no known total"
        return
    size = len(record.raw) // len(totals)
    made = [
        value
        for n, total in enumerate(totals)
        for value in nearest_histogram(record.raw[n * size : (n + 1) * size], total)
    ]
    if not near(record.value, made, record.total or 0.0):
        yield "value: is not the nearest histogram to raw"


def _not_such_a_question(record: Release, states: Sequence[Hashable] | None) -> Iterator[str]:
    """Contradictions between the record of a query and the beliefs, or within its parts."""
    claimed = claimed_rows(record)
    if claimed is not None and furthest_of(claimed) > Fraction(record.lipschitz):
        yield f"lipschitz: {record.lipschitz:g} is less than the distances claimed for its states"
    if record.kind in OF_STATES and states is not None:
        strange = set((record.question or {})["of"]) - {str(state) for state in states}
        if strange:
            yield f"question: {sorted(strange)} are not states of the beliefs"
    if record.kind == "by time":
        yield from _not_by_time(record, states)
    if record.kind == "quantile":
        levels = (record.question or {})["levels"]
        named = sorted((record.question or {})["states"])
        if states is not None and named != sorted(str(state) for state in states):
            yield f"question: {named} are not the states of the beliefs"
        if set(record.raw) - set(levels):
            yield "raw: is not one of the levels"
        if record.mechanism in _NO_CHOICE or record.scales is not None:
            yield f"mechanism: {record.mechanism} is for numbers with noise, not for a choice"
    for part in parts_of(record) if record.kind == "several" else ():
        yield from (f"{part.query}: {problem}" for problem in not_such_a_query(part, states))


def _not_by_time(record: Release, states: Sequence[Hashable] | None) -> Iterator[str]:
    """Contradictions between slots, states and entries of a query by time."""
    question = record.question or {}
    slots, seen = question["slots"], question["observed"]
    if len(set(slots)) < len(slots):
        yield "question: two slots have the same name"
    if sum(seen) != entries_in(record):
        yield f"question: {sum(seen)} entries in its slots, {entries_in(record)} in the series"
    if states is not None:
        cells = sorted(f"{slot}, {state}" for slot in slots for state in states)
        if cells != sorted(record.labels):
            yield f"labels: are not those of {len(slots)} slots and {len(states)} states"


def not_such_noise(record: Release) -> Iterator[str]:
    """Contradictions between the recorded noise and the answer.

    Discrete noise hides answers on the multiples of its unit and no others: two answers that are
    not a whole number of units apart have no output in common.
    """
    if record.kind == "several":
        for part in parts_of(record):
            yield from not_such_noise(part)
        return
    unit = record.unit
    if (record.kind == "quantile") != (record.noise == "noisy choice"):
        yield f"noise: a {record.kind} is not released by {record.noise}"
    if (unit is not None) != (record.noise == "discrete laplace"):
        yield f"unit: discrete noise has one and Laplace noise has none, not {unit}"
    if unit is None:
        return
    if not all(is_multiple(value, unit) for value in record.raw):
        yield f"raw: discrete noise leaves whole multiples of {unit}"
    known = {
        "count": [Fraction(1)],
        "histogram": [Fraction(1)],
        "transition counts": [Fraction(1)],
        "by time": [Fraction(1)],
        **{kind: [_moved_between(record)] for kind in _of_states(record)},
        "relative frequencies": [Fraction(1, entries_in(record))],
    }
    rows = [known[record.kind]] if record.kind in known else contributions_of_states(record) or []
    if any((weight / unit).denominator != 1 for row in rows for weight in row):
        yield f"unit: entries do not add whole multiples of {unit}"


def is_multiple(value: float, unit: Fraction) -> bool:
    """Whether this is a whole multiple of the unit, rounded to a float."""
    return float(round(Fraction(value) / unit) * unit) == value


def near(one: Sequence[float], other: Sequence[float], size: float) -> bool:
    """Whether these are the same numbers, up to rounding relative to ``size``."""
    if len(one) != len(other):
        return False
    most = max(1.0, size, *(abs(value) for value in one))
    return all(abs(a - b) <= _PRECISION * most for a, b in zip(one, other, strict=True))


def nearest_histogram(raw: Sequence[float], total: float) -> list[float]:
    """Lower all bins alike until they sum to ``total``, leaving out those that fall below 0."""
    kept = list(raw)
    while True:
        excess = (sum(kept) - total) / len(kept)
        above = [value for value in kept if value > excess]
        if len(above) == len(kept) or not above:
            return [max(value - excess, 0.0) for value in raw]
        kept = above


def _taken_as_apart(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """That data and beliefs have one step, where the record does not show it."""
    if theta is None or theta.entries is not None:
        return
    unknown = step_assumed(theta.step, record.step)
    if unknown is not None:
        yield f"that entries are as far apart as the beliefs take them to be: {unknown}"
    if theta.fixed_start is not None:
        yield "that every segment begins as the beliefs say: with the given start"


def assumptions(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """Assumptions that no recomputation from a file can check."""
    drawn = "that noise of this scale was drawn, afresh and once"
    yield drawn if record.sampler is None else f"{drawn}, by {SAMPLER_NAMES[record.sampler]}"
    if record.kind == "quantile":
        yield "that the states have the values that the levels give them, in this order"
    if record.beliefs is not None:
        yield "that the beliefs hold for the data, and for every adversary that matters"
        bought = (record.beliefs.get("fitted_on") or {}).get("bought") or {}
        if bought.get("for_others"):
            yield "that the data are other than those the beliefs were bought from, as declared"
    if (record.evidence.bought or 0.0) > (record.evidence.beside or 0.0):
        yield "that the account of these data holds what the beliefs were bought for"
    yield from _taken_as_apart(record, theta)
    if record.guarantee.code != "entry":
        yield "that the segments are as long as recorded, and independent of one another"
    if record.observed is not None:
        yield "that the entries were observed, or not, as recorded; which they are may itself tell"
    if moved_by_one_entry(record) is None:
        yield (
            f"that one entry moves {record.query!r} by at most {record.lipschitz:g}, as the "
            "author of the query states"
        )
        if record.unit is not None:
            yield f"that its answers are whole multiples of {record.unit}, as the author states"
    elif record.kind in ("total", "mean", "own"):
        yield "that the states have the values that the weights give them"
    for part in parts_of(record) if record.kind == "several" else ():
        if moved_by_one_entry(part) is None:
            yield (
                f"that one entry moves {part.query!r} by at most {part.lipschitz:g}, as the "
                "author of the query states"
            )
    if record.kind in ("by time", "time in states", "days with", "several"):
        yield "that the entries were at the times that the question says"
    yield "what else was released about the same data; that is in the ledger"
