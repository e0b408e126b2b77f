"""What tells one question from another, for the keys of an account."""

from __future__ import annotations

from typing import Any

from pufferkit.data.queries import Query


def asked(query: Query) -> dict[str, Any]:
    """A query as plain data; one's own are told apart by their names."""
    weights = None
    if query.weights is not None:
        weights = sorted(
            (repr(state), [str(w) for w in row]) for state, row in query.weights.items()
        )
    # Left out where there is none, so that keys of earlier releases stay as they are.
    own = {} if query.question is None else {"question": query.question}
    return {
        **own,
        "query": query.name,
        "labels": list(query.labels),
        "weights": weights,
        "lipschitz": query.lipschitz,
    }


def check_query(query: Any, over: str) -> None:
    """A name, a state or a number in place of a query gets the sentence that helps."""
    if not isinstance(query, Query):
        raise ValueError(f"query: expected a Query, got {query!r:.60}; make it over {over}")
