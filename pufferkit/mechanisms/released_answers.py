"""Answers to questions by name that are read from a release: post-processing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from pufferkit.data.questions import Question
from pufferkit.mechanisms.post_processing import (
    Derived,
    cumulative,
    load_duration,
    mean_stay,
    peak,
    quantile,
    top_states,
    transition_rates,
    variance,
)
from pufferkit.mechanisms.release import Release

Reader = Callable[[Release, float], Derived]


def reader_of(question: Question) -> Reader | None:
    """The function that reads the answer from a release; ``None`` if it is the release itself.

    For transitions these are the rates, for stays the mean length: both beside the release.
    """
    return _READERS[question.name](question) if question.name in _READERS else None


def _by_name(values: Mapping[Hashable, Any]) -> dict[str, float]:
    """Values by the names of states in releases."""
    return {str(state): float(value) for state, value in values.items()}


def _variance(question: Question) -> Reader:
    low, high = question.clip or (0.0, 0.0)
    return lambda release, level: variance(release, low, high, level)


def _quantile(question: Question) -> Reader:
    values, share = _by_name(question.numbers), question.share or 0.0
    return lambda release, level: quantile(release, share, values, level)


def _peak(question: Question) -> Reader:
    values = _by_name(question.numbers)
    return lambda release, level: peak(release, values, level)


def _load_duration(question: Question) -> Reader:
    values = _by_name(question.numbers)
    return lambda release, level: load_duration(release, values, level)


def _top_states(question: Question) -> Reader:
    count = question.top or 0
    return lambda release, level: top_states(release, count, level)


_READERS: dict[str, Callable[[Question], Reader]] = {
    "variance": _variance,
    "quantile": _quantile,
    "cumulative": lambda _: cumulative,
    "peak": _peak,
    "load-duration": _load_duration,
    "top-states": _top_states,
    "transitions": lambda _: transition_rates,
    "stays": lambda _: mean_stay,
}
