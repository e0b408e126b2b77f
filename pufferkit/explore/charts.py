"""Rows in, pictures out: options of the charts that the browser draws.

Colours are those of `pufferkit.plots`; the page's style sheet colours text and lines for light and
dark. Every picture has its axes named and says in words what it shows (`aria`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pufferkit.plots.canvas import BLUE, GREEN, ORANGE, PINK, SKY, YELLOW

_LINES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, "#8C6BB1", "#7F7F7F")
_STATES = ("#440154", "#31688E", "#35B779", "#FDE725", "#90D743", "#21918C", "#443983", "#B5DE2B")

_ERROR_BAR = """(params, api) => {
  const low = api.coord([api.value(0), api.value(1)]);
  const high = api.coord([api.value(0), api.value(2)]);
  const wide = Math.min(12, api.size([1, 0])[0] * 0.15);
  const line = (x1, y1, x2, y2) => ({type: 'line', shape: {x1, y1, x2, y2},
    style: {stroke: '#6B6B6B', lineWidth: 2}});
  return {type: 'group', children: [line(low[0], low[1], high[0], high[1]),
    line(low[0] - wide, low[1], low[0] + wide, low[1]),
    line(high[0] - wide, high[1], high[0] + wide, high[1])]};
}"""


def _frame(what: str, **options: Any) -> dict[str, Any]:
    return {
        "animation": False,
        "aria": {"enabled": True, "label": {"description": what}},
        "textStyle": {"fontFamily": "inherit"},
        "grid": {"left": 12, "right": 24, "top": 40, "bottom": 36, "containLabel": True},
        "tooltip": {"trigger": "item", "confine": True},
        **options,
    }


def _axis(name: str, kind: str = "value", **options: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "nameLocation": "middle",
        "nameGap": 28,
        "axisLabel": {"hideOverlap": True},
        "splitLine": {"lineStyle": {"color": "rgba(128, 128, 128, 0.3)"}},
        **options,
    }


def _upright(name: str, **options: Any) -> dict[str, Any]:
    """A vertical axis with its name above, where there is room at any width."""
    place = {"nameLocation": "end", "nameGap": 12, "nameTextStyle": {"align": "left"}}
    return {**_axis(name, **options), **place}


def _from(values: Sequence[float]) -> dict[str, float]:
    """Where bars on a log scale begin: a power of ten below the shortest."""
    least = 10.0 ** (math.floor(math.log10(min(values, default=1.0))) - 1)
    return {"min": least, "startValue": least}


def shares(states: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    """Share of public time in each state."""
    return _frame(
        "Share of public entries in each state",
        xAxis=_axis("", "category", data=list(states)),
        yAxis=_upright("share of public entries", min=0),
        series=[{"type": "bar", "data": list(values), "itemStyle": {"color": BLUE}}],
    )


def days(
    codes: Sequence[int], states: Sequence[str], day: int, *, has_clock: bool
) -> dict[str, Any]:
    """One public person's days below one another, a colour for each state."""
    lines = -(-len(codes) // day)
    cells = [[n % day, n // day, code] for n, code in enumerate(codes) if code >= 0]
    whole = "day" if has_clock else "line"
    return _frame(
        "One public person's entries, a colour for each state",
        grid={"left": 12, "right": 24, "top": 56, "bottom": 36, "containLabel": True},
        xAxis=_axis(f"entry of the {whole}", "category", data=list(range(1, day + 1))),
        yAxis=_upright(
            whole, type="category", data=[str(n + 1) for n in range(lines)], inverse=True
        )
        | {"nameLocation": "start"},
        visualMap={
            "type": "piecewise",
            "orient": "horizontal",
            "top": 0,
            "left": "center",
            "itemSymbol": "rect",
            "pieces": [
                {"value": n, "label": str(name), "color": _STATES[n % len(_STATES)]}
                for n, name in enumerate(states)
            ],
        },
        series=[{"type": "heatmap", "data": cells, "progressive": 0}],
    )


def influence(
    rows: Sequence[Mapping[str, Any]], point: float | None, lower: float | None
) -> dict[str, Any]:
    """Entries that each class budgets, against what people held out show."""
    bars = [
        {
            "value": row["budget"],
            "itemStyle": {
                "color": BLUE if row["passes"] else "transparent",
                "borderColor": BLUE if row["passes"] else ORANGE,
                "borderWidth": 2,
                "borderType": "solid" if row["passes"] else "dashed",
            },
        }
        for row in rows
    ]
    series: dict[str, Any] = {
        "type": "bar",
        "data": bars,
        "label": {"show": True, "position": "right", ":formatter": _THREE_DIGITS},
    }
    if point is not None:
        series["markLine"] = {
            "symbol": "none",
            "lineStyle": {"color": ORANGE, "width": 2, "type": "solid"},
            "label": {"formatter": f"shown: {point:.3g}", "position": "start"},
            "data": [{"xAxis": point}],
        }
    return _frame(
        "Entries that one entry may give away: budgeted by each class, and shown by people",
        grid={"left": 12, "right": 56, "top": 32, "bottom": 36, "containLabel": True},
        xAxis=_axis(
            "entries that one entry may give away (log scale)",
            "log",
            **_from([row["budget"] for row in rows]),
        ),
        yAxis={
            "type": "category",
            "inverse": True,
            "data": [row["name"] for row in rows],
        },
        series=[series],
    )


_THREE_DIGITS = "(p) => Number(p.value).toPrecision(3)"


def bars_with_errors(
    labels: Sequence[str],
    values: Sequence[float],
    ranges: Sequence[Sequence[float]],
    points: Mapping[str, Sequence[Sequence[float]]],
    what: str,
    name: str,
) -> dict[str, Any]:
    """Bars with intervals, and points beside them: places of a label and heights, by name."""
    series: list[dict[str, Any]] = [
        {"type": "bar", "name": name, "data": list(values), "itemStyle": {"color": SKY}},
        {
            "type": "custom",
            "name": "95% interval of the noise",
            ":renderItem": _ERROR_BAR,
            "encode": {"x": 0, "y": [1, 2]},
            "itemStyle": {"color": "#6B6B6B"},
            "data": [[n, low, high] for n, (low, high) in enumerate(ranges)],
            "z": 3,
        },
    ]
    for (called, places), colour in zip(points.items(), (ORANGE, BLUE), strict=False):
        series.append(
            {
                "type": "scatter",
                "name": called,
                "symbolSize": 7,
                "itemStyle": {"color": colour},
                "data": [list(place) for place in places],
                "z": 4,
            }
        )
    return _frame(
        f"{name}, with intervals",
        grid={"left": 12, "right": 24, "top": 80, "bottom": 24, "containLabel": True},
        legend={"top": 0, "type": "plain", "itemGap": 14},
        xAxis=_axis("", "category", data=list(labels)),
        yAxis=_upright(what, scale=False),
        series=series,
    )


def errors(rows: Sequence[Mapping[str, Any]], chosen: float, what: str) -> dict[str, Any]:
    """Half-width of every mechanism against epsilon, both on log scales."""
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    series: list[dict[str, Any]] = [
        {
            "type": "line",
            "name": name,
            "symbolSize": 6,
            "lineStyle": {"color": colour, "type": "dashed" if name == "entry_dp" else "solid"},
            "itemStyle": {"color": colour},
            "data": [
                [row["epsilon"], row["half_width"]] for row in rows if row["mechanism"] == name
            ],
        }
        for name, colour in zip(names, _LINES, strict=False)
    ]
    if series:
        series[0]["markLine"] = {
            "symbol": "none",
            "lineStyle": {"color": "#7F7F7F", "type": "dashed"},
            "label": {"formatter": f"epsilon {chosen:g}", "position": "insideEndTop", "rotate": 0},
            "data": [{"xAxis": chosen}],
        }
    return _frame(
        "Half-width at 95% of every mechanism, against epsilon",
        grid={"left": 12, "right": 24, "top": 120, "bottom": 36, "containLabel": True},
        legend={"top": 0, "itemGap": 10},
        xAxis=_axis("epsilon (log scale)", "log", min=0.1, max=10),
        yAxis=_upright(f"half-width at 95% of the {what} (log scale)", kind="log"),
        series=series,
    )


def mechanisms(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Noise of each mechanism that applies."""
    there = [row for row in rows if row["applicable"]]
    bars = [
        {
            "value": row["scale"],
            "itemStyle": {
                "color": BLUE if row["pufferfish"] else "transparent",
                "borderColor": BLUE if row["pufferfish"] else ORANGE,
                "borderWidth": 2,
                "borderType": "solid" if row["pufferfish"] else "dashed",
            },
        }
        for row in there
    ]
    return _frame(
        "Noise scale of each mechanism",
        grid={"left": 12, "right": 64, "top": 12, "bottom": 36, "containLabel": True},
        xAxis=_axis(
            "scale of the noise (log scale; less is better)",
            "log",
            **_from([row["scale"] for row in there]),
        ),
        yAxis={"type": "category", "inverse": True, "data": [row["mechanism"] for row in there]},
        series=[
            {
                "type": "bar",
                "data": bars,
                "label": {"show": True, "position": "right", ":formatter": _THREE_DIGITS},
            }
        ],
    )


def profile(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was spent on the entries, over time."""

    def steps(name: str) -> list[list[float]]:
        return [
            place for row in rows for place in ([row["first"], row[name]], [row["last"], row[name]])
        ]

    def line(called: str, name: str, colour: str, kind: str) -> dict[str, Any]:
        return {
            "type": "line",
            "name": called,
            "showSymbol": False,
            "lineStyle": {"color": colour, "width": 2, "type": kind},
            "itemStyle": {"color": colour},
            "data": steps(name),
        }

    return _frame(
        "Loss of each entry over time, and what was spent on it",
        grid={"left": 12, "right": 24, "top": 64, "bottom": 36, "containLabel": True},
        legend={"top": 0},
        tooltip={"trigger": "axis", "confine": True},
        xAxis=_axis("entry", min=1, max=rows[-1]["last"] if rows else 1),
        yAxis=_upright("epsilon", min=0),
        series=[
            line("Pufferfish loss of the entry", "epsilon", BLUE, "solid"),
            line("event-level epsilon spent on it", "event_epsilon", ORANGE, "dashed"),
        ],
    )
