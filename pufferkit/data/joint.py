"""Several queries about one series as one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, inf, lcm
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pufferkit.data.query import KINDS, Query, Question
from pufferkit.data.series import Series
from pufferkit.rounding import at_least

StateRows = dict[Any, tuple[Fraction, ...]]


@dataclass(frozen=True, eq=False)
class AllQueries:
    """The answers of all queries, one after another; an object, so that it can be pickled."""

    parts: tuple[Query, ...]

    def __call__(self, entries: NDArray[Any]) -> NDArray[Any]:
        answers = [np.ravel(np.atleast_1d(part.evaluate(entries))) for part in self.parts]
        joined: NDArray[Any] = np.concatenate(answers)
        return joined

    def exact(self, series: Series) -> list[Fraction]:
        """The exact answers."""
        return [value for part in self.parts for value in part.exact(series)]

    @property
    def largest(self) -> float | None:
        """Public bound on the size of an answer; ``None`` if there is none."""
        each = [part.largest for part in self.parts]
        return None if None in each else max(each)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Several(Question):
    """Several questions about one series, by name; the answers of all, one after another."""

    kind: ClassVar[str] = "several"
    parts: tuple[tuple[str, Query], ...]


def joint_query(asked: Mapping[str, Query], states: tuple[Any, ...]) -> Query:
    """One query that joins all of them; the rows of its `Query.apart` are theirs side by side.

    Replacing one entry moves each answer by at most the distance of that query's rows, so it moves
    all answers together by at most the distance of the joined rows.
    """
    queries = list(asked.values())
    if not queries:
        raise ValueError("asked: must name at least one query")
    first = queries[0]
    for name, query in asked.items():
        if not isinstance(query, Query):
            raise ValueError(f"asked: {name} must be a Query, got {type(query).__name__}")
        if query.lengths != first.lengths or query.pattern != first.pattern:
            raise ValueError(
                f"asked: {name} is made for other lengths or gaps than the first query; make "
                "all of them with the same series"
            )
        if query.chooses:
            raise ValueError(
                f"asked: {name} is a noisy choice of a level, not a number with noise; use a "
                "histogram in its place, and read the quantile with release.derive"
            )
        if query.unit is None:
            raise ValueError(
                f"asked: {name} has no unit; queries that are joined must have whole answers, "
                "or multiples of a unit"
            )
    rows = [rows_of(query, states) for query in queries]
    joined = {state: tuple(w for own in rows for w in own[state]) for state in states}
    offsets = np.cumsum([0, *(query.size for query in queries)]).tolist()
    columns = [
        offset + (n if len(next(iter(own.values()))) == query.size else 0)
        for offset, own, query in zip(offsets, rows, queries, strict=False)
        for n in range(len(next(iter(own.values()))))
    ]
    units = [query.unit for query in queries if query.unit is not None]
    return Query(
        " and ".join(query.name for query in queries),
        AllQueries(tuple(queries)),
        at_least(sum((Fraction(query.lipschitz) for query in queries), Fraction(0))),
        first.lengths,
        labels=[f"{name}: {label}" for name, query in asked.items() for label in query.labels],
        states=states,
        kind="several",
        observed=next((q.observed for q in queries if q.observed is not None), None),
        unit=Fraction(gcd(*(u.numerator for u in units)), lcm(*(u.denominator for u in units))),
        apart=joined,
        columns=columns,
        pattern=first.pattern,
        step=next((query.step for query in queries if query.step is not None), None),
        asks=Several(tuple(asked.items())),
        question={"parts": [part_record(name, query, states) for name, query in asked.items()]},
    )


def rows_of(query: Query, states: tuple[Any, ...]) -> StateRows:
    """A row for each state; their L1 distances are, or bound, how far an entry moves the answer."""
    moved = query.rows
    if moved is None:
        half = Fraction(query.lipschitz) / 2
        return {x: tuple(half if x == y else Fraction(0) for y in states) for x in states}
    nothing = (Fraction(0),) * len(next(iter(moved.values())))
    return {state: moved.get(state, nothing) for state in states}


def check_parts(record: Any, size: int) -> None:
    """Refuse the record of joined queries whose parts are incomplete."""
    parts = record.get("parts") if isinstance(record, Mapping) else None
    if not isinstance(parts, (list, tuple)) or not parts or not all(map(_is_part, parts)):
        raise ValueError("release: joined queries need their parts, each with what was asked")
    if sum(len(part["labels"]) for part in parts) != size:
        raise ValueError(f"release: the joined queries do not have {size} numbers in all")


def _is_part(part: Any) -> bool:
    if not isinstance(part, Mapping):
        return False
    labels, bound = part.get("labels"), part.get("lipschitz")
    if not isinstance(labels, (list, tuple)) or not labels or isinstance(bound, bool):
        return False
    texts = [part.get("name"), part.get("query"), part.get("kind"), *labels]
    return (
        all(isinstance(text, str) for text in texts)
        and part["kind"] in ("own", *KINDS)
        and part["kind"] != Several.kind
        and not (part["kind"] in KINDS and KINDS[part["kind"]].chooses)
        and {"question", "total"} <= set(part)
        and isinstance(bound, (int, float))
        and 0 < bound < inf
    )


def part_record(name: str, query: Query, states: tuple[Any, ...]) -> dict[str, Any]:
    """One of several joined queries, as plain data."""
    record = {
        "name": name,
        "query": query.name,
        "kind": query.kind,
        "labels": list(query.labels),
        "lipschitz": query.lipschitz,
        "total": query.total,
        "unit": str(query.unit),
        "question": None if query.question is None else dict(query.question),
    }
    if query.weights is not None and not query.uniform:
        nothing = (Fraction(0),) * query.size
        rows = [query.weights.get(state, nothing) for state in states]
        record["weights"] = [[str(w) for w in row] for row in rows]
    if query.apart is not None and query.asks is None:
        rows = list(rows_of(query, states).values())
        record["apart"] = [[str(w) for w in row] for row in rows]
    return record
