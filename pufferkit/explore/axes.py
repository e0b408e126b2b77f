"""Shared by the charts of the page: frame, axes, horizontal bars, a legend that wraps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from pufferkit.plots.canvas import BLUE, ORANGE, SKY


def frame(what: str, **options: Any) -> dict[str, Any]:
    """A chart with a text description."""
    return {
        "animation": False,
        "aria": {"enabled": True, "label": {"description": what}},
        "textStyle": {"fontFamily": "Roboto, sans-serif"},
        "grid": {"left": 12, "right": 24, "top": 40, "bottom": 36, "containLabel": True},
        "tooltip": {"trigger": "item", "confine": True},
        **options,
    }


def axis(name: str, kind: str = "value", **options: Any) -> dict[str, Any]:
    """A named axis."""
    return {
        "type": kind,
        "name": name,
        "nameLocation": "middle",
        "nameGap": 28,
        "axisLabel": {"hideOverlap": True},
        "splitLine": {"lineStyle": {"color": "rgba(128, 128, 128, 0.3)"}},
        **options,
    }


def upright(name: str, **options: Any) -> dict[str, Any]:
    """A vertical axis with its name above, where there is room at any width."""
    place = {"nameLocation": "end", "nameGap": 12, "nameTextStyle": {"align": "left"}}
    return {**axis(name, **options), **place}


def log_from(values: Sequence[float]) -> dict[str, float]:
    """Start of bars on a log scale: a power of ten below the shortest."""
    least = 10.0 ** (math.floor(math.log10(min(values, default=1.0))) - 1)
    return {"min": least, "startValue": least}


def legend_above(count: int) -> list[dict[str, Any]]:
    """A legend with as many lines as the width requires, and the chart below it."""

    def lines(each: int) -> dict[str, Any]:
        high = 24 * -(-count // each)
        return {"legend": {"top": 0, "itemGap": 12}, "grid": {"top": high + 34}}

    return [
        {"query": {"maxWidth": 500}, "option": lines(2)},
        {"query": {"minWidth": 500}, "option": lines(4)},
    ]


def bar(value: float, good: bool, words: str, strong: bool = True) -> dict[str, Any]:
    """A bar with a label after it; dashed and empty for classes or mechanisms that fail."""
    full = BLUE if strong else SKY
    return {
        "value": value,
        "label": {"formatter": words},
        "itemStyle": {
            "color": full if good else "transparent",
            "borderColor": full if good else ORANGE,
            "borderWidth": 2,
            "borderType": "solid" if good else "dashed",
        },
    }


def lying(
    what: str, names: Sequence[str], bars: Sequence[Mapping[str, Any]], measured: str, **more: Any
) -> dict[str, Any]:
    """Horizontal bars on a log scale, with room for their labels."""
    values = [bar["value"] for bar in bars]
    series = {
        "type": "bar",
        "barMaxWidth": 22,
        "data": list(bars),
        "label": {"show": True, "position": "right"},
        **more,
    }
    return frame(
        what,
        grid={"left": 12, "right": 84, "top": 28, "bottom": 36, "containLabel": True},
        xAxis=axis(f"{measured} (log scale)", "log", **log_from(values)),
        yAxis={
            "type": "category",
            "inverse": True,
            "data": ["\n".join(wrap(name, 26)) for name in names],
            "axisLabel": {"lineHeight": 14},
        },
        series=[series],
    )
