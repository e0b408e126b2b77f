"""Pictures of experiments."""

import pytest

from papers import Chart, Result
from pufferkit import plots

ROWS = [
    {"x": x, "kind": kind, "group": group, "y": 1.0 + x, "other": 3.0 * x, "told": 7.0}
    for x in (0, 1, 2)
    for kind in ("a", "b")
    for group in ("left", "right")
]


def figure(chart: Chart, rows=ROWS):
    made = Result("name", "a title", rows, "a note", chart).plot()
    assert plots.picture(made, "x.png")
    return made


def legend(made) -> list[str]:
    return [text.get_text() for text in made.legends[0].get_texts()]


def test_a_line_for_each_column_and_kind():
    made = figure(Chart("lines", "x", ("y", "other"), "kind", "group", labels={"y": "height"}))
    left, _ = made.axes
    assert legend(made) == ["a, height", "a, other", "b, height", "b, other"]
    assert [list(line.get_ydata()) for line in left.lines[:2]] == [[1, 2, 3], [0, 3, 6]]
    assert left.get_title() == "group left"


def test_marks_levels_and_logarithms():
    chart = Chart("lines", "x", ("y",), "kind", log="xy", marks={"here": 1}, levels={"most": 2})
    rows = [row for row in ROWS if row["group"] == "left" and row["x"] > 0]
    made = figure(chart, rows)
    assert legend(made) == ["a", "b", "here", "most"]
    assert (made.axes[0].get_xscale(), made.axes[0].get_yscale()) == ("log", "log")


def test_part_of_a_line_and_missing_numbers():
    rows = [{"x": x, "y": None if x == 3 else x} for x in range(6)]
    made = figure(Chart("lines", "x", ("y",), x_range=(2, 4)), rows)
    assert list(made.axes[0].lines[0].get_xdata()) == [2, 4]


def test_bars_and_what_is_drawn_once():
    made = figure(Chart("bars", "kind", ("y",), "x", "group", once=("told",)))
    assert legend(made) == ["0", "1", "2", "told"]
    assert [bar.get_height() for bar in made.axes[0].patches] == pytest.approx(
        [1, 1, 2, 2, 3, 3, 7, 7]
    )


def test_a_broken_axis():
    """What lies far above is drawn in a strip of its own, and the rest fills the panel below."""
    rows = [
        {"x": x, "kind": kind, "group": group, "y": y * (1 + x)}
        for x in (0, 1)
        for kind, y in (("a", 1.0), ("b", 2.0), ("far", 900.0))
        for group in ("left", "right")
    ]
    made = figure(Chart("lines", "x", ("y",), "kind", "group", above=("far",)), rows)
    lower, upper = made.axes[0], made.axes[2]
    assert lower.get_ylim() == pytest.approx((0, 4.2))
    assert upper.get_ylim() == pytest.approx((720, 2160))
    assert legend(made) == ["a", "b", "far"]
    assert [axes.get_title() for axes in made.axes] == ["", "", "group left", "group right"]


def test_words_are_not_formulas():
    rows = [{"x": "$d_$", "kind": "$\\a$", "group": "$b_$", "y": 1.0}]
    made = figure(Chart("bars", "x", ("y",), "kind", "group", y_label="$c_$"), rows)
    assert legend(made) == ["$\\a$"]
