"""Names of questions by what they need and what they are; nothing heavy is loaded for them."""

from __future__ import annotations

BY = {
    "by-hour": "hour",
    "by-weekday-hour": "weekday and hour",
    "by-day": "day",
    "by-week": "week",
}
"""Questions that are a histogram for each slot of time."""

OF_STATES = ("count", "episodes", "stays", "time-in", "days-with", "share-of-days")
"""Questions about some states."""

OF_DAYS = ("days-with", "share-of-days")
"""Questions about days with enough of something."""

SUMS = ("count", "total", "mean", "variance", "linear")
"""Questions that add up what each entry gives."""

LEVELS = ("cumulative", "quantile", "peak", "load-duration")
"""Questions that are read from a histogram in the order of the values."""

OF_VALUES = ("total", "mean", "variance", "linear", *LEVELS)
"""Questions about states that stand for numbers."""

FOLLOWS = ("variance", *LEVELS, "top-states")
"""Questions whose answer follows from what is released; `pufferkit.mechanisms.reading` reads it."""
