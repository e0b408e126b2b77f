"""What a person meets at a prompt or in a notebook: words, tables, pictures, frames."""

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.audit import audit

CHAIN = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "<walk>"])
CODES = CHAIN.sample(200, seed=1)
DATA = pk.Series.of([CHAIN.states[code] for code in CODES], CHAIN.states)


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """One of everything, and whether it has rows and a picture."""
    query = pk.histogram(CHAIN.states, DATA)
    count = pk.count("rest", 20)
    frame = pl.DataFrame({"t": range(200), "x": DATA.labels})
    table = pk.read_table(frame, time="t", state="x", states=CHAIN.states, window=50)
    ledger = pk.Ledger(tmp_path_factory.mktemp("book") / "l.db")
    session = pk.Session(DATA, CHAIN, 3, ledger, name="home")
    release = session.release(query, 1)
    noise = pk.influence_curve(CHAIN, query, 1)
    short = pk.influence_curve(CHAIN, count, 1)
    yield {
        "plan": (pk.plan(CHAIN, count, 1), True, True),
        "session plan": (session.plan(query, 0.5), False, True),
        "release": (release, True, True),
        "releases": (pk.release_each(table, CHAIN, 1), True, True),
        "session": (session, True, True),
        "ledger": (ledger, True, False),
        "check": (pk.check_model(DATA, CHAIN), True, False),
        "audit": (audit(short, trials=100, seed=1), True, True),
        "pairs": (pk.explain(noise), True, True),
        "verdict": (pk.verify(release), False, False),
        "calibration": (noise, False, False),
        "usefulness": (pk.Usefulness.of(noise), False, False),
        "spent": (session.spent, False, False),
        "series": (DATA, False, False),
        "table": (table, True, False),
        "chain": (CHAIN, True, False),
    }
    ledger.close()


NAMES = ["plan", "session plan", "release", "releases", "session", "ledger", "check", "audit"]
NAMES += ["pairs", "verdict", "calibration", "usefulness", "spent", "series", "table", "chain"]


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
        assert thing.plot().axes
    else:
        with pytest.raises(ValueError, match="no picture"):
            thing.plot()


def test_classes_show_themselves():
    for beliefs in (pk.ChainClass.of(CHAIN), pk.ChainClass.binary(0.4, 0.6)):
        assert beliefs.description in beliefs._repr_html_()


def test_names_are_found_by_tab():
    assert {"verify", "plots", "transition_counts", "audit", "frames"} <= set(dir(pk))
    assert set(dir(pk)) >= set(pk.__all__)
    assert pk.plots.figure_of
    assert pk.transition_counts(["a", "b"], 3).size == 4


def test_near_misses_get_the_sentence_that_helps(things):
    session = things["session"][0]
    for ask in (session.release, session.plan):
        for wrong in ("histogram", pk.histogram, 1):
            with pytest.raises(ValueError, match=r"histogram\(session.data.states, session.data\)"):
                ask(wrong, 1)
