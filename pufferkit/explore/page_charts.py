"""Rows in, charts out: options of the charts that the browser draws.

Colours are those of `pufferkit.plots`; the page's style sheet colours text and lines for light and
dark. Every chart has named axes and a text description (`aria`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from pufferkit.explore.axes import axis, bar, frame, legend_above, lying, upright
from pufferkit.plots.canvas import BLUE, GREEN, ORANGE, PINK, SKY, YELLOW

_LINES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, "#8C6BB1", "#7F7F7F")
_SYMBOLS = ("circle", "rect", "triangle", "diamond", "roundRect", "emptyCircle", "emptyRect")
_STATES = ("#440154", "#31688E", "#35B779", "#FDE725", "#90D743", "#21918C", "#443983", "#B5DE2B")

_BARS = "#7A7A7A"
_MOST_NUMBERS = 36

_ERROR_BAR = """(params, api) => {
  const low = api.coord([api.value(0), api.value(1)]);
  const high = api.coord([api.value(0), api.value(2)]);
  const wide = Math.min(12, api.size([1, 0])[0] * 0.15);
  const line = (x1, y1, x2, y2) => ({type: 'line', shape: {x1, y1, x2, y2},
    style: {stroke: '#7A7A7A', lineWidth: 2}});
  return {type: 'group', children: [line(low[0], low[1], high[0], high[1]),
    line(low[0] - wide, low[1], low[0] + wide, low[1]),
    line(high[0] - wide, high[1], high[0] + wide, high[1])]};
}"""


def shares(states: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    """Share of public time in each state."""
    return frame(
        "Share of public entries in each state",
        xAxis=axis("", "category", data=list(states)),
        yAxis=upright("share of public entries", min=0),
        series=[{"type": "bar", "data": list(values), "itemStyle": {"color": BLUE}}],
    )


def days(
    codes: Sequence[int], states: Sequence[str], day: int, *, has_clock: bool
) -> dict[str, Any]:
    """One public person's days below one another, a colour for each state."""
    lines = -(-len(codes) // day)
    cells = [[n % day, n // day, code] for n, code in enumerate(codes) if code >= 0]
    whole = "day" if has_clock else "line"
    return frame(
        "One public person's entries, a colour for each state",
        grid={"left": 12, "right": 24, "top": 56, "bottom": 36, "containLabel": True},
        xAxis=axis(f"entry of the {whole}", "category", data=list(range(1, day + 1))),
        yAxis=upright(whole, type="category", data=[str(n + 1) for n in range(lines)], inverse=True)
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
    """Entries that each class budgets, against the influence of held-out people."""
    bars = [bar(row["budget"], row["passes"], f"{row['budget']:.3g}") for row in rows]
    line = {}
    if point is not None:
        shown = [(point, "solid", f"people show {point:.3g}")]
        if lower:
            shown.append((lower, "dashed", ""))
        line["markLine"] = {
            "symbol": "none",
            "data": [
                {
                    "xAxis": place,
                    "lineStyle": {"color": ORANGE, "width": 2, "type": kind},
                    "label": {"formatter": words, "position": "start", "show": bool(words)},
                }
                for place, kind, words in shown
            ],
        }
    summary = ", ".join(f"{row['name']} {row['budget']:.3g}" for row in rows)
    return lying(
        f"Entries that one entry may give away, by class: {summary}",
        [row["name"] for row in rows],
        bars,
        "entries that one entry may give away",
        **line,
    )


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
        {
            "type": "bar",
            "name": name,
            "data": list(values),
            "barMaxWidth": 120,
            "itemStyle": {"color": SKY},
        },
        {
            "type": "custom",
            "name": "95% interval of the noise",
            ":renderItem": _ERROR_BAR,
            "encode": {"x": 0, "y": [1, 2]},
            "itemStyle": {"color": _BARS},
            "data": [
                [n, low, high]
                for n, (low, high) in enumerate(ranges)
                if math.isfinite(low) and math.isfinite(high)
            ],
            "z": 3,
        },
    ]
    for (called, places), colour in zip(points.items(), (ORANGE, GREEN), strict=False):
        series.append(
            {
                "type": "scatter",
                "name": called,
                "symbolSize": 7,
                "itemStyle": {"color": colour, "opacity": 0.85},
                "data": [list(place) for place in places],
                "z": 4,
            }
        )
    summary = ", ".join(f"{label} {value:.3g}" for label, value in zip(labels, values, strict=True))
    return frame(
        f"{name}, with intervals: {summary}",
        grid={"left": 12, "right": 24, "top": 84, "bottom": 24, "containLabel": True},
        legend={"top": 0, "type": "plain", "itemGap": 14},
        xAxis=axis("", "category", data=list(labels)),
        yAxis=upright(what, scale=False),
        series=series,
    )


_ROW, _HEAD, _FOOT = 26, 26, 52


def tables(
    grid: Mapping[str, Any], parts: Mapping[str, Sequence[float]], what: str
) -> tuple[dict[str, Any], str]:
    """Answers as heat maps, one below another, and the height they need."""
    rows, columns = grid["rows"], grid["columns"]
    few = len(rows) * len(columns) <= _MOST_NUMBERS
    each = _HEAD + _ROW * len(rows) + _FOOT
    drawn: dict[str, Any] = {"title": [], "grid": [], "xAxis": [], "yAxis": [], "series": []}
    for n, (name, values) in enumerate(parts.items()):
        top = n * each
        drawn["title"].append({"text": name, "top": top, "left": 0, "textStyle": {"fontSize": 13}})
        place = {"left": 24, "right": 12, "top": top + _HEAD, "height": _ROW * len(rows)}
        drawn["grid"].append({**place, "containLabel": False, "left": 96})
        drawn["xAxis"].append(axis(grid["across"], "category", data=list(columns), gridIndex=n))
        drawn["yAxis"].append(
            axis("", "category", data=list(rows), gridIndex=n, inverse=True)
            | {"axisLabel": {"width": 84, "overflow": "truncate"}}
        )
        first, second = (len(columns), 1) if grid["by_rows"] else (1, len(rows))
        cells = [
            [x, y, values[y * first + x * second]]
            for y in range(len(rows))
            for x in range(len(columns))
        ]
        drawn["series"].append(
            {
                "type": "heatmap",
                "name": name,
                "xAxisIndex": n,
                "yAxisIndex": n,
                "data": cells,
                "progressive": 0,
                "label": {"show": few, ":formatter": "(p) => Math.round(p.value[2])"},
            }
        )
    everything = [value for values in parts.values() for value in values]
    least, most = min(0.0, *everything), max(everything)
    colours = {
        "type": "continuous",
        "min": least,
        "max": most,
        "text": [f"{most:.3g}", f"{least:.3g}"],
        "orient": "horizontal",
        "left": "center",
        "bottom": 0,
        "itemWidth": 14,
        "inRange": {"color": list(_STATES[:4])},
    }
    summary = (
        f"{what}, {grid['down']} by {grid['across']}, as a table of colours: {', '.join(parts)}"
    )
    return frame(summary, **drawn, visualMap=colours), f"{each * len(parts) + 36}px"


def errors(rows: Sequence[Mapping[str, Any]], chosen: float, what: str) -> dict[str, Any]:
    """Half-width of every mechanism against epsilon, both on log scales."""
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    series: list[dict[str, Any]] = [
        {
            "type": "line",
            "name": name,
            "symbol": symbol,
            "symbolSize": 8,
            "lineStyle": {"color": colour, "type": "dashed" if name == "entry_dp" else "solid"},
            "itemStyle": {"color": colour},
            "data": [
                [row["epsilon"], row["half_width"]] for row in rows if row["mechanism"] == name
            ],
        }
        for name, colour, symbol in zip(names, cycle(_LINES), cycle(_SYMBOLS), strict=False)
    ]
    if series:
        series[0]["markLine"] = {
            "symbol": "none",
            "lineStyle": {"color": "#7F7F7F", "type": "dashed"},
            "label": {"formatter": f"epsilon {chosen:g}", "position": "insideStartTop"},
            "data": [{"xAxis": chosen}],
        }
    return frame(
        "Half-width at 95% of every mechanism, against epsilon",
        grid={"left": 12, "right": 24, "top": 40, "bottom": 36, "containLabel": True},
        media=legend_above(len(names)),
        tooltip={"trigger": "axis", "confine": True},
        xAxis=axis("epsilon (log scale)", "log", min=0.1, max=10),
        yAxis=upright(f"95% of {what} within (log scale)", kind="log"),
        series=series,
    )


def mechanisms(rows: Sequence[Mapping[str, Any]], what: str) -> dict[str, Any]:
    """Error of each mechanism that applies, and its tightness where known."""
    there = [row for row in rows if row["applicable"]]
    bars = [
        bar(
            row["half_width_95"],
            row["pufferfish"],
            f"{row['half_width_95']:.3g}"
            + ("" if row["tightness"] is None else f", {int(100 * row['tightness'])}% tight"),
        )
        for row in there
    ]
    summary = ", ".join(f"{row['mechanism']} {row['half_width_95']:.3g}" for row in there)
    names = [row["mechanism"] for row in there]
    return lying(f"Error of each mechanism: {summary}", names, bars, f"95% of {what} within")


def classes(rows: Sequence[Mapping[str, Any]], chosen: str, what: str) -> dict[str, Any]:
    """Error under each class of beliefs, the chosen one highlighted."""
    bars = [
        bar(row["half_width"], True, f"{row['half_width']:.3g}", row["model"] == chosen)
        for row in rows
    ]
    summary = ", ".join(f"{row['name']} {row['half_width']:.3g}" for row in rows)
    names = [row["name"] for row in rows]
    return lying(f"Error under each class: {summary}", names, bars, f"95% of {what} within")


def p_values(rows: Sequence[Mapping[str, Any]], level: float) -> dict[str, Any]:
    """p-values of the held-out people under the class, test by test."""
    there = [row for row in rows if row["p_value"] is not None]
    least = 1e-6
    bars = [
        bar(
            max(row["p_value"], least * 1.5),
            row["passed"] is not False,
            f"{row['p_value']:.2g}" if row["p_value"] >= least else f"below {least:g}",
        )
        for row in there
    ]
    line = {
        "symbol": "none",
        "lineStyle": {"color": ORANGE, "width": 2, "type": "solid"},
        "label": {"formatter": f"refuted below {level:g}", "position": "start"},
        "data": [{"xAxis": level}],
    }
    summary = ", ".join(f"{row['name']} {row['p_value']:.2g}" for row in there)
    names = [row["name"] for row in there]
    options = lying(
        f"p-values: {summary}", names, bars, "p-value of people held out", markLine=line
    )
    options["xAxis"].update(min=least, max=1, startValue=least)
    return options


def profile(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The spending on the entries, over time where times are known, else by place."""
    dated = bool(rows) and "from" in rows[0]
    first, last = ("from", "till") if dated else ("first", "last")
    unit = 1000 if dated else 1  # microseconds; the browser counts in milliseconds

    def line(called: str, name: str, colour: str, kind: str) -> dict[str, Any]:
        return {
            "type": "line",
            "name": called,
            "showSymbol": False,
            "lineStyle": {"color": colour, "width": 2, "type": kind},
            "itemStyle": {"color": colour},
            "data": [[row[end] // unit, row[name]] for row in rows for end in (first, last)],
        }

    across = axis("time" if dated else "entry", "time" if dated else "value")
    if dated:
        across["axisLabel"]["formatter"] = {
            "year": "{yyyy}",
            "month": "{MMM} {yyyy}",
            "day": "{d} {MMM}",
            "hour": "{HH}:{mm}",
            "minute": "{HH}:{mm}",
        }
    elif rows:
        across.update(min=1, max=rows[-1]["last"])
    return frame(
        "Pufferfish loss of each entry over time, and the event-level epsilon spent on it",
        useUTC=True,
        grid={"left": 12, "right": 24, "top": 84, "bottom": 36, "containLabel": True},
        legend={"top": 0},
        tooltip={"trigger": "axis", "confine": True},
        xAxis=across,
        yAxis=upright("epsilon", min=0),
        series=[
            line("Pufferfish loss of the entry", "epsilon", BLUE, "solid"),
            line("event-level epsilon spent on it", "event_epsilon", ORANGE, "dashed"),
        ],
    )
