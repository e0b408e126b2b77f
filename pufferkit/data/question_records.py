"""The fields that the record of a query must have, so that it can be recomputed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import inf
from typing import Any


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= least


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(_text, value))


def _numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_whole(0), value))


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _parts(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(
            isinstance(part, Mapping)
            and all(map(_text, (part.get("name"), part.get("query"), part.get("kind"))))
            and _texts(part.get("labels"))
            and part.get("kind") not in ("several", "quantile")
            and {"question", "total"} <= set(part)
            and isinstance(part.get("lipschitz"), (int, float))
            and 0 < part["lipschitz"] < inf
            for part in value
        )
    )


def _share(value: Any) -> bool:
    if not _text(value) or not value.replace("/", "", 1).isdigit():
        return False
    top, _, bottom = value.partition("/")
    return bool(top and bottom) and 0 < int(top) < int(bottom)


def _rising(value: Any) -> bool:
    numbers = isinstance(value, (list, tuple)) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) and -inf < v < inf for v in value
    )
    return numbers and len(value) > 1 and all(a < b for a, b in pairwise(value))


QUESTIONS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "by time": {"by": _text, "slots": _texts, "observed": _numbers},
    "time in states": {"of": _texts, "start": _text, "end": _text},
    "episodes": {"of": _texts},
    "quantile": {"share": _share, "levels": _rising, "states": _texts},
    "several": {"parts": _parts},
    "stays": {"of": _texts},
    "days with": {"of": _texts, "at_least": _whole(1), "days": _whole(1), "share": _flag},
}
"""Fields of the record of a query, for each kind, and the check of each."""


def check_question(kind: str, question: Any, size: int) -> None:
    """Refuse a record of a query that lacks a field of its kind or has an invalid one."""
    rules = QUESTIONS.get(kind)
    if rules is None:
        if question is not None and not isinstance(question, Mapping):
            raise ValueError(f"release: question must be an object, got {question!r:.60}")
        return
    if not isinstance(question, Mapping):
        raise ValueError(
            f"release: a {kind} needs a question, an object with the arguments of the query"
        )
    wrong = [name for name, fits in rules.items() if not fits(question.get(name))]
    if wrong:
        raise ValueError(
            f"release: in the question of a {kind}, invalid fields: {', '.join(wrong)}"
        )
    if kind == "several":
        parts = question["parts"]
        for part in parts:
            check_question(part["kind"], part.get("question"), len(part["labels"]))
        if sum(len(part["labels"]) for part in parts) != size:
            raise ValueError(f"release: the joined queries do not have {size} numbers in all")
    if kind == "quantile" and len(question["levels"]) != len(question["states"]):
        raise ValueError("release: a quantile needs a level for each of its states")
    if kind == "by time":
        slots = len(question["slots"])
        if slots != len(question["observed"]) or size % slots:
            raise ValueError(
                f"release: {slots} slots do not match the {size} numbers of the answer"
            )
