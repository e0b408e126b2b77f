"""What a person meets at a prompt or in a notebook: words, tables, pictures, frames."""

from functools import partial
from html import escape

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.audit import audit
from pufferkit.beliefs.base import as_beliefs
from tests.asking import Asking, for_each

CHAIN = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "<walk>"])
CODES = CHAIN.sample(200, seed=1)
DATA = pk.Series.of([CHAIN.states[code] for code in CODES], CHAIN.states)


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """One of everything, and whether it has rows and a picture."""
    query = pk.histogram(CHAIN.states, DATA)
    count = pk.count("rest", 20)
    frame = pl.DataFrame({"t": range(200), "x": DATA.labels})
    table = pk.read(frame, time="t", state="x", states=CHAIN.states, window=50)
    ledger = pk.Ledger(tmp_path_factory.mktemp("book") / "l.db")
    session = Asking(DATA, CHAIN, 3, ledger, name="home")
    release = session.release(query, 1)
    noise = pk.influence_curve(CHAIN, query, 1)
    short = pk.influence_curve(CHAIN, count, 1)
    yield {
        "plan": (pk.plan(CHAIN, count, 1), True, True),
        "account plan": (session.plan(query, 0.5), False, True),
        "release": (release, True, True),
        "releases": (for_each(table, CHAIN, 1), True, True),
        "account": (session.account, True, True),
        "ledger": (ledger, True, False),
        "check": (pk.check_model(DATA, CHAIN), True, False),
        "audit": (audit(short, trials=100, seed=1), True, True),
        "pairs": (pk.explain(noise), True, True),
        "active quilts": (pk.active_quilts(CHAIN, count, 1), True, True),
        "verdict": (pk.verify(release), False, False),
        "calibration": (noise, False, False),
        "usefulness": (pk.Usefulness.of(noise), False, False),
        "series": (DATA, False, False),
        "table": (table, True, False),
        "chain": (CHAIN, True, True),
        **beliefs(),
    }
    ledger.close()


def beliefs():
    """A class of every kind."""
    other = pk.MarkovChain.steady([[0.6, 0.4], [0.4, 0.6]], states=CHAIN.states)
    of = pk.ChainClass
    network = pk.BayesianNetwork(
        {"first": (), "second": ("first",)},
        {"first": {(): [0.5, 0.5]}, "second": {("a",): [0.9, 0.1], ("b",): [0.2, 0.8]}},
        {"first": ("a", "b"), "second": ("a", "b")},
    )
    table = [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.2, 0.8]]]
    switching = [CHAIN.transition, other.transition]
    return {
        "of": (of.of(CHAIN, other), True, True),
        "any start": (of.any_start(CHAIN.transition, states=CHAIN.states), True, True),
        "binary": (of.binary(0.4, 0.6), True, True),
        "mixing": (of.mixing(3, 0.1, 0.5), False, False),
        "around": (of.around(DATA, 0.95), True, True),
        "seasonal": (of.seasonal([CHAIN.transition, other.transition]), True, True),
        "hull": (of.hull(CHAIN, other), True, True),
        "order": (of.order(2, table, CHAIN.states), True, True),
        "regimes": (pk.RegimeClass(CHAIN.transition, [[0.8, 0.2], [0.3, 0.7]]), True, True),
        "switching": (pk.RegimeClass(CHAIN.transition, switching), True, True),
        "network": (network, True, True),
        "networks": (as_beliefs(network), True, True),
        "joint": (pk.FiniteJoint({(0, 0): 0.4, (0, 1): 0.2, (1, 1): 0.4}), True, False),
    }


NAMES = ["plan", "account plan", "release", "releases", "account", "ledger", "check", "audit"]
NAMES += [
    "pairs",
    "active quilts",
    "verdict",
    "calibration",
    "usefulness",
    "series",
    "table",
    "chain",
]
NAMES += ["of", "any start", "binary", "mixing", "around", "seasonal", "hull", "order", "regimes"]
NAMES += ["switching", "network", "networks", "joint"]


@pytest.mark.parametrize("name", NAMES)
def test_everything_shows_itself(things, name):
    thing, has_rows, has_picture = things[name]
    assert repr(thing) == str(thing)
    assert "object at" not in repr(thing)
    assert len(repr(thing)) < 4000
    page = thing._repr_html_()
    assert "<walk>" not in page
    assert ("<table>" in page) == has_rows
    if has_rows:
        rows = len(thing.table_rows())
        assert len(thing.to_frame()) == rows
        assert type(thing.to_frame("pandas")).__module__.startswith("pandas")
        with pytest.raises(ValueError, match="backend"):
            thing.to_frame("excel")
    else:
        with pytest.raises(ValueError, match="no rows"):
            thing.to_frame()
    if has_picture:
        for axes in thing.plot().axes:
            words = axes.get_xlabel() + axes.get_ylabel()
            assert not axes.axison or ("histogram" not in words and len(words) > 5)
    else:
        with pytest.raises(ValueError, match="no picture"):
            thing.plot()


def test_classes_show_themselves(things):
    for name in ("of", "binary", "mixing", "hull", "regimes"):
        theta = things[name][0]
        page = theta._repr_html_()
        assert escape(theta.description) in page
        assert all(escape(caveat) in page for caveat in theta.caveats)
        assert theta.description in repr(theta)


def test_rows_of_beliefs(things):
    (row, _) = pk.ChainClass.of(CHAIN).table_rows()
    assert row == {"after": "rest", "rest": 0.8, "<walk>": pytest.approx(0.2)}
    assert [row["of"] for row in things["hull"][0].table_rows()] == ["vertex 1"] * 2 + [
        "vertex 2"
    ] * 2
    assert things["order"][0].table_rows()[1]["after"] == "rest, <walk>"
    assert things["regimes"][0].table_rows()[-1]["in"] == "regime 2"
    assert things["network"][0].table_rows()[-1]["given"] == "first=b"
    assert things["joint"][0].table_rows()[0] == {"1": "0", "2": "0", "probability": 0.4}


def test_pictures_of_many_subjects():
    rows = [
        {"who": who, "t": t, "x": DATA.labels[t + 100 * n]}
        for n, who in enumerate(("ann", "bob"))
        for t in range(100)
    ]
    options = {"subject": "who", "time": "t", "state": "x", "states": CHAIN.states}
    whole = for_each(pk.read(pl.DataFrame(rows), **options), CHAIN, 1)
    cut = for_each(pk.read(pl.DataFrame(rows), **options, window=25), CHAIN, 1)
    assert whole.plot().axes[0].get_xlabel() == "subject"
    assert [axes.get_title("left") for axes in cut.plot().axes] == list(CHAIN.states)


def test_names_are_found_by_tab():
    assert {"verify", "plots", "transition_counts", "audit"} <= set(dir(pk))
    assert set(dir(pk)) >= set(pk.__all__)
    assert pk.plots.figure_of
    assert pk.transition_counts(["a", "b"], 3).size == 4


def test_a_large_epsilon_is_questioned(tmp_path):
    session = Asking(DATA, CHAIN, 20, tmp_path / "l.db", name="home")
    with pytest.warns(UserWarning, match="are usual"):
        session.release(pk.count("rest", DATA), 12)
    assert "are usual" in str(pk.plan(CHAIN, pk.count("rest", 20), 12))


def test_a_notebook_says_openly_that_noise_drowns_the_answer():
    slow = pk.MarkovChain.steady([[0.999, 0.001], [0.001, 0.999]])
    page = pk.plan(slow, pk.histogram([0, 1], 100), 1)._repr_html_()
    assert "the noise drowns the answer" in page.partition("<details>")[0]
    assert "room to improve" in page


def test_figures_show_themselves_without_pyplot():
    assert CHAIN.plot()._repr_png_().startswith(b"\x89PNG")


def test_near_misses_get_the_sentence_that_helps(things):
    account = things["account"][0]
    for ask in (partial(pk.release, account=account), account.plan):
        for wrong in ("histogram", pk.histogram, 1):
            with pytest.raises(ValueError, match=r"such as histogram\(\)"):
                ask(DATA, CHAIN, wrong, 1)
