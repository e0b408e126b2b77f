"""Checks of a recorded query: how far one entry moves it, and what its values must be.

The record says which question was asked, with its arguments; the question is asked again
(`pufferkit.data.query.remade`), and all that follows from it, its labels, its unit, its total and
how far an entry moves it, must be what the record says, whatever the file claims. For a function of
the user's own the bound is declared by its author.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product
from typing import Any

from pufferkit.beliefs.base import Beliefs, step_assumed
from pufferkit.data.joint import Several
from pufferkit.data.query import Query, remade
from pufferkit.mechanisms.release import Release
from pufferkit.noise import SAMPLER_NAMES
from pufferkit.records import canonical

_PRECISION = 1e-9
_NO_CHOICE = ("gk16", "wasserstein", "exact_sum")
_CLAIMED = ("weights", "apart")


def asked_of(record: Release) -> Query | None:
    """The query that was recorded, made again; ``None`` for several and for the user's own."""
    if record.asks is None or record.kind == Several.kind:
        return None
    return remade(record.kind, record.question, record.lengths, record.observed)


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


def rows_of(
    record: Release, states: Sequence[Hashable] | None = None
) -> list[tuple[Fraction, ...]] | None:
    """Rows for these states whose distances are, or bound, how far an entry moves the answer.

    ``None`` if all that is known is the Lipschitz constant.
    """
    query = asked_of(record)
    if query is None:
        claimed = [_claimed(record, name) for name in _CLAIMED]
        return next((rows for rows in claimed if rows is not None), None)
    if query.rows is None:
        return None
    zero = (Fraction(0),) * len(next(iter(query.rows.values())))
    named = states or query.states
    if named is None:
        return [*query.rows.values(), zero]
    return [query.rows.get(state, zero) for state in named]


def weights_of(record: Release, states: Sequence[Hashable] | None = None) -> list[Fraction] | None:
    """What each state adds to a sum that is a number; ``None`` if it is not such a sum."""
    query = asked_of(record)
    if query is None:
        rows = _claimed(record, "weights") if record.kind == "own" else None
    else:
        rows = None if query.weights is None else rows_of(record, states)
    return None if rows is None or len(record.labels) != 1 else [row[0] for row in rows]


def moves_of(record: Release, states: Sequence[Hashable]) -> tuple[Any, Any] | None:
    """What a first entry and each move add to a sum over moves; ``None`` for other questions."""
    query = asked_of(record)
    return None if query is None or query.asks is None else query.asks.additive(states)


def days_of(record: Release, states: Sequence[Hashable]) -> tuple[Any, int, Any] | None:
    """For a number of days: what counts, how many entries a day needs, the sizes of the days."""
    query = asked_of(record)
    over = None if query is None else getattr(query.evaluate, "over", None)
    if query is None or query.asks is None or over is None:
        return None
    return query.asks.counted_days(over, states)


def vectors_of(
    record: Release, states: Sequence[Hashable] | None = None
) -> list[tuple[Fraction, ...]] | None:
    """What each state adds to each coordinate of a sum; ``None`` if it is not such a sum."""
    query = asked_of(record)
    if query is None:
        return _claimed(record, "weights")
    if query.weights is None:
        return None
    nothing = (Fraction(0),) * query.size
    return [query.weights.get(state, nothing) for state in states or query.weights]


def _claimed(record: Release, name: str) -> list[tuple[Fraction, ...]] | None:
    """For the user's own query: what each state adds, or the distances that its author claims."""
    data = record.verification_data
    if record.kind != "own" or not isinstance(data, Mapping) or name not in data:
        return None
    try:
        rows = [
            tuple(Fraction(number) for number in (row if isinstance(row, list) else [row]))
            for row in data[name]
        ]
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"release: {name} holds no numbers ({error})") from None
    return rows if rows and len({len(row) for row in rows}) == 1 else None


def furthest_of(rows: Sequence[Sequence[Fraction]]) -> Fraction:
    """The largest L1 distance between two rows."""
    none = Fraction(0)
    pairs = product(rows, rows)
    return max(sum((abs(a - b) for a, b in zip(*two, strict=True)), none) for two in pairs)


def moved_by_one_entry(record: Release) -> float | None:
    """The Lipschitz constant, if the question determines it; for several queries, the sum."""
    if record.kind == Several.kind:
        parts = parts_of(record)
        each = [moved_by_one_entry(part) or part.lipschitz for part in parts]
        return float(sum(map(Fraction, each), Fraction(0)))
    query = asked_of(record)
    if query is not None:
        return query.lipschitz
    rows = _claimed(record, "weights")
    return None if rows is None else float(furthest_of(rows))


def entries_in(record: Release) -> int:
    """Number of entries of the answer: those that were observed."""
    return sum(record.observed or record.lengths)


def not_such_a_query(record: Release, states: Sequence[Hashable] | None) -> Iterator[str]:
    """Contradictions between the fields of the query and what was asked."""
    query = asked_of(record)
    if query is not None:
        yield from _not_asked(record, query, states)
    elif record.kind == "own":
        rows = rows_of(record)
        if rows is not None and states is not None and len(rows) != len(states):
            yield f"weights: there are {len(rows)}, for {len(states)} states"
        if rows is not None and furthest_of(rows) > Fraction(record.lipschitz) * (1 + _TINY):
            yield (
                f"lipschitz: {record.lipschitz:g} is less than the distances claimed for its states"
            )
    for part in parts_of(record) if record.kind == Several.kind else ():
        yield from (f"{part.query}: {problem}" for problem in not_such_a_query(part, states))


_TINY = Fraction(1, 10**12)


def _not_asked(record: Release, query: Query, states: Sequence[Hashable] | None) -> Iterator[str]:
    """Contradictions between a record and the same question, asked again."""
    kind, labels = record.kind, (query.name,) if query.chooses else query.labels
    if record.labels != labels:
        shown = ", ".join(labels[:8]) + (", ..." if len(labels) > 8 else "")
        yield f"labels: those of a {kind} are {shown}, not {list(record.labels)[:8]}"
    if record.lipschitz < query.lipschitz * (1 - 1e-12):
        moved = f"{query.lipschitz:g}, not {record.lipschitz:g}"
        yield f"lipschitz: one entry moves the answer by {moved} ({kind})"
    total = None if query.chooses else query.total
    if record.total != total:
        entries = entries_in(record)
        yield f"total: the {kind} of {entries} entries sum to {total}, not {record.total}"
    told, made = record.question or {}, query.question or {}
    for name in made:
        if name != "derive" and _plain(told.get(name)) != _plain(made[name]):
            yield f"question: its {name} do not follow from what was asked"
    if states is not None:
        strange = {*(query.states or ()), *(query.rows or ())} - set(states)
        if strange or (query.states is not None and set(query.states) != set(states)):
            named = sorted(map(str, strange or query.states or ()))
            yield f"question: {named} are not the states of the beliefs"
    if query.chooses:
        if set(record.raw) - set(made["levels"]):
            yield "raw: is not one of the levels"
        if record.mechanism in _NO_CHOICE or record.scales is not None:
            yield f"mechanism: {record.mechanism} is for numbers with noise, not for a choice"


def _plain(value: Any) -> str:
    return canonical(list(value) if isinstance(value, tuple) else value)


def not_from_raw(record: Release) -> Iterator[str]:
    """Differences between the value and the presentation of the raw answer."""
    if record.presentation == "as drawn":
        if record.value != record.raw:
            yield "value: differs from raw, but is said to be the answer as drawn"
        return
    if record.presentation == "within range":
        bounds = record.bounds
        if bounds is None or any(
            value != min(max(raw, bounds[0]), bounds[1])
            for value, raw in zip(record.value, record.raw, strict=True)
        ):
            yield "value: is not raw, cut to what is possible"
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


def not_such_noise(record: Release) -> Iterator[str]:
    """Contradictions between the recorded noise and the answer.

    Discrete noise hides answers on the multiples of its unit and no others: two answers that are
    not a whole number of units apart have no output in common.
    """
    if record.kind == Several.kind:
        for part in parts_of(record):
            yield from not_such_noise(part)
        return
    unit, query = record.unit, asked_of(record)
    if (query is not None and query.chooses) != (record.noise == "noisy choice"):
        yield f"noise: a {record.kind} is not released by {record.noise}"
    if (unit is not None) != (record.noise == "discrete laplace"):
        yield f"unit: discrete noise has one and Laplace noise has none, not {unit}"
    if unit is None:
        return
    if not all(is_multiple(value, unit) for value in record.raw):
        yield f"raw: discrete noise leaves whole multiples of {unit}"
    rows = [] if query is not None else _claimed(record, "weights") or []
    steps = [weight for row in rows for weight in row]
    if query is not None and query.unit is not None:
        steps = [query.unit]
    if any((step / unit).denominator != 1 for step in steps):
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
    if record.noise == "noisy choice":
        yield "that the states have the values that the levels give them, in this order"
    if record.beliefs is not None:
        yield "that the beliefs hold for the data, and for every adversary that matters"
        told = record.beliefs.get("fitted_on") or []
        sources = [told] if isinstance(told, Mapping) else told
        if any((own.get("bought") or {}).get("for_others") for own in sources):
            yield "that the data are other than those the beliefs were bought from, as declared"
    if (record.evidence.bought or 0.0) > (record.evidence.beside or 0.0):
        yield "that the account of these data holds what the beliefs were bought for"
    yield from _taken_as_apart(record, theta)
    if record.guarantee.code != "entry":
        yield "that the segments are as long as recorded, and independent of one another"
    if record.observed is not None:
        yield "that the entries were observed, or not, as recorded; which they are may itself tell"
    several = parts_of(record) if record.kind == Several.kind else [record]
    for part in several:
        if moved_by_one_entry(part) is None:
            yield (
                f"that one entry moves {part.query!r} by at most {part.lipschitz:g}, as the "
                "author of the query states"
            )
            if part.unit is not None:
                yield f"that its answers are whole multiples of {part.unit}, as the author states"
    if record.noise != "noisy choice" and any(map(_valued, several)):
        yield "that the states have the values that the weights give them"
    if any(part.asks is not None and part.asks.clocked for part in several):
        yield "that the entries were at the times that the question says"
    yield "what else was released about the same data; that is in the ledger"


def _valued(record: Release) -> bool:
    """Whether the answer depends on numbers that the author gave to states."""
    if record.asks is None:
        return _claimed(record, "weights") is not None
    forms = {own.metadata.get("form") for own in fields(record.asks)}
    return bool(forms & {"values", "weights"})
