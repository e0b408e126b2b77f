"""Pictures: what is drawn, and what never is."""

import subprocess
import sys

import pytest
from matplotlib.figure import Figure

import pufferkit as pk
from pufferkit import plots
from pufferkit.plots import canvas

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "run"])
PLAN = pk.plan(CHAIN, pk.histogram(CHAIN.states, 200), 1)
RELEASE = PLAN.best.release([CHAIN.states[x] for x in CHAIN.sample(200, seed=3)])


def words(figure: Figure) -> list[str]:
    plots.picture(figure, "x.png")  # lays the text out
    texts = [child.get_text() for child in figure.findobj(lambda a: hasattr(a, "get_text"))]
    return [text for text in texts if text]


def heights(figure: Figure) -> list[float]:
    return [patch.get_height() for patch in figure.axes[0].patches]


def test_plan_dots_are_the_error_of_each_mechanism():
    figure = plots.plan_figure(PLAN.rows, "a title")
    applicable = [row for row in PLAN.rows if row["applicable"]]
    dots = figure.axes[0].lines
    assert [dot.get_xdata()[0] for dot in dots] == [row["half_width_95"] for row in applicable]
    assert not figure.axes[0].patches  # a bar has no beginning on a logarithmic axis
    assert figure.axes[0].get_xscale() == "log"
    shown = words(figure)
    assert all(row["mechanism"] in shown for row in applicable)
    assert "a title" in shown


def test_plan_marks_what_does_not_protect():
    figure = plots.plan_figure(PLAN.rows)
    rows = [row for row in PLAN.rows if row["applicable"]]
    hollow = [dot.get_markerfacecolor() == "white" for dot in figure.axes[0].lines]
    assert hollow == [not row["pufferfish"] for row in rows]
    assert hollow.count(True) == 1
    assert sum("hides too little" in text for text in words(figure)) == 1


def test_plan_names_what_does_not_apply():
    missing = [row["mechanism"] for row in PLAN.rows if not row["applicable"]]
    assert missing
    (note,) = [text for text in words(plots.plan_figure(PLAN.rows)) if "Not applicable" in text]
    assert all(name in note for name in missing)


def test_plan_without_any_mechanism():
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.plan_figure([row for row in PLAN.rows if not row["applicable"]])


def test_bars_and_intervals_share_a_centre_and_a_mark_is_the_value():
    figure = plots.release_figure(RELEASE)
    assert heights(figure) == pytest.approx(RELEASE.raw)
    (intervals,) = figure.axes[0].collections
    ends = [tuple(line[:, 1]) for line in intervals.get_segments()]
    assert [(low + high) / 2 for low, high in ends] == pytest.approx(heights(figure))
    assert ends == [pytest.approx(pair) for pair in RELEASE.as_drawn().interval()]
    (marks,) = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert list(marks.get_ydata()) == pytest.approx(RELEASE.value)


def test_the_title_says_what_is_hidden_and_no_more():
    named = pk.Secrets.pairs({("rest", "run"): 2})
    noise = pk.influence_curve(CHAIN, pk.count("run", 200), 1, secrets=named)
    release = noise.release([CHAIN.states[x] for x in CHAIN.sample(200, seed=3)])
    assert release.guarantee is pk.Guarantee.EVENTS
    plan = pk.plan(CHAIN, pk.count("run", 200), 1, secrets=named)
    for shown in (release, plan):
        said = " ".join(" ".join(words(shown.plot())).split())
        assert "hides the secrets that were named" in said
        assert "hides every entry" not in said


def test_numbers_that_noise_drowns_are_faded_and_said():
    drowned = pk.group_dp(pk.relative_frequencies(CHAIN.states, 200), 1)
    figure = plots.release_figure(drowned.release(["rest", "run"] * 100, anyway=True))
    assert all(bar.get_alpha() == canvas.FADED for bar in figure.axes[0].patches)
    assert any("faded" in text for text in words(figure))
    assert figure.axes[0].get_ylim() == (0, 1)
    assert not any("faded" in text for text in words(plots.release_figure(RELEASE)))


def test_an_answer_as_drawn_has_the_intervals_of_the_raw_answer():
    drawn = RELEASE.as_drawn()
    figure = plots.release_figure(drawn)
    assert heights(figure) == pytest.approx(drawn.raw)
    (intervals,) = figure.axes[0].collections
    assert intervals.get_segments()[0][:, 1] == pytest.approx(drawn.interval()[0])


def test_exact_is_drawn_only_if_given():
    without = plots.release_figure(RELEASE)
    assert not any("exact" in text for text in words(without))
    drawn = RELEASE.as_drawn()
    assert not [
        line for line in plots.release_figure(drawn).axes[0].lines if line.get_marker() == "D"
    ]
    figure = plots.release_figure(drawn, exact=[150, 50])
    (points,) = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert list(points.get_ydata()) == [150, 50]
    assert any("not private" in text for text in words(figure))


def test_exact_must_fit():
    with pytest.raises(ValueError, match="3 numbers for 2 labels"):
        plots.release_figure(RELEASE, exact=[1, 2, 3])


@pytest.mark.parametrize("count", [1, 2, 30, 60])
def test_any_number_of_coordinates(count: int):
    states = [f"state number {n}" for n in range(max(2, count))]
    lengths = 500
    query = pk.histogram(states, lengths) if count > 1 else pk.count(states[0], lengths)
    release = pk.group_dp(query, 1).release(states[:1] * lengths)
    assert len(heights(plots.release_figure(release))) == count
    assert plots.picture(plots.release_figure(release), "x.png")


def test_labels_are_not_formulas():
    states = ["$x_", "$\\bad{$"]
    release = pk.group_dp(pk.histogram(states, 3), 1).release([*states, states[0]])
    assert set(states) <= set(words(plots.release_figure(release)))


@pytest.mark.parametrize(
    ("name", "magic"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")]
)
def test_formats(name: str, magic: bytes):
    assert plots.picture(plots.plan_figure(PLAN.rows), name).startswith(magic)


@pytest.mark.parametrize("name", ["a.gif", "a", "png"])
def test_other_formats(name: str):
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf"):
        plots.check_picture(name)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    canvas._figure.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'pufferkit\[plots\]'"):
        plots.check_picture("a.png")


@pytest.mark.slow
def test_pyplot_is_left_alone():
    code = (
        "import sys, pufferkit as pk; from pufferkit import plots;"
        "c = pk.MarkovChain.steady([[.9, .1], [.4, .6]]);"
        "plots.picture(plots.plan_figure(pk.plan(c, pk.count(1, 50), 1).rows), 'a.png');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_days_have_hours_below_them_and_spending_has_dates():
    figure = plots.days_figure([0, 1, -1, 0] * 24, ["rest", "walk"], 48, "Days", clock=True)
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()][1] == "6:00"
    rows = [{"first": 1, "last": 48, "epsilon": 1.0, "event_epsilon": 0.1}]
    monday = 1_709_510_400_000_000
    dated = plots.profile_figure(rows, [monday + n * 1_800_000_000 for n in range(48)])
    dated.draw_without_rendering()
    assert dated.axes[0].get_xlabel() == "time"
    assert any(
        ":" in t.get_text() or "Mar" in t.get_text() for t in dated.axes[0].get_xticklabels()
    )
    assert plots.profile_figure(rows).axes[0].get_xlabel() == "entry"
