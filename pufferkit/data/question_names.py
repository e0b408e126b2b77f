"""Names of the questions, grouped by their arguments; importing this loads nothing heavy."""

from __future__ import annotations

BY = {
    "by-hour": "hour",
    "by-weekday-hour": "weekday and hour",
    "by-day": "day",
    "by-week": "week",
}
"""Questions for a histogram in each slot of time."""

OF_STATES = ("count", "episodes", "stays", "time-in", "days-with", "share-of-days")
"""Questions about some states."""

OF_DAYS = ("days-with", "share-of-days")
"""Questions about days with enough entries in some states."""

SUMS = ("count", "total", "mean", "variance", "linear")
"""Questions whose answer is a sum over entries."""

LEVELS = ("cumulative", "quantile", "peak", "load-duration")
"""Questions answered from a histogram whose states are ordered by value."""

OF_VALUES = ("total", "mean", "variance", "linear", *LEVELS)
"""Questions about states that stand for numbers."""

FOLLOWS = ("variance", *LEVELS, "top-states")
"""Questions answered by post-processing of a release (`pufferkit.mechanisms.released_answers`)."""

HISTOGRAMS = ("histogram", "frequencies", "top-states", *LEVELS, *BY)
"""Questions that an entry moves as far as a histogram."""
