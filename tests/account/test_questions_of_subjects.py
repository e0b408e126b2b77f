"""Questions of many subjects: the same answers however they are counted, charged once, verified."""

from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.data.exact_rows import exact_rows
from pufferkit.data.query import NAMES, question
from pufferkit.data.read import groups_of
from tests.asking import for_all, for_each

STATES = ("rest", "walk")
CHAIN = pk.MarkovChain.steady([[0.8, 0.2], [0.4, 0.6]], states=STATES)
THETA = pk.ChainClass.of(CHAIN)


def frame():
    """Three people, some hours missing, over ten days around a change of clocks."""
    rng, rows = np.random.default_rng(3), []
    for who, hours in (("ann", 240), ("bob", 200), ("cem", 31)):
        for hour in range(hours):
            if rng.random() < 0.9:
                time = datetime(2024, 3, 27, 3) + timedelta(hours=hour)
                rows.append((who, time, STATES[int(rng.random() < 0.3)]))
    return pl.DataFrame(rows, schema=["who", "time", "state"], orient="row")


def read(**more):
    return pk.read(frame(), subject="who", time="time", state="state", states=STATES, **more)


def answers(table, asked):
    return exact_rows(table, asked, STATES)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("name", ["by-hour", "by-weekday-hour"])
def test_slots_are_the_same_entry_by_entry_and_folded(name, zone):
    clock = {} if zone is None else {"timezone": zone, "times_in": "UTC"}
    one, about = answers(read(**clock), question(name))
    cuts = ["hour of week"] + ["1h"] * (zone is None) + ["hour of day"] * (name == "by-hour")
    for cut in cuts:
        other, again = answers(read(window=cut, **clock), question(name))
        assert about.labels == again.labels
        assert about.question["slots"] == again.question["slots"]
        for part in ("counts", "observed", "first", "last", "owner", "entries"):
            assert np.array_equal(getattr(one, part), getattr(other, part)), part


@pytest.mark.parametrize(
    "asked",
    [
        question("transitions"),
        question("episodes", of="walk"),
        question("stays", of="walk"),
        question("time-in", of="walk", between="22:00-06:00"),
        question("days-with", of="walk", at_least="3h"),
        question("by-hour"),
    ],
    ids=str,
)
def test_each_subject_is_answered_charged_and_verified(asked, tmp_path):
    table, book = read(), str(tmp_path / "book.db")
    each = for_each(table, CHAIN, 1, query=asked, ledger=book, budget=2)
    again = for_each(table, CHAIN, 1, query=asked, ledger=book, budget=2)
    assert np.array_equal(each.raw, again.raw)  # stored, and free
    with pk.Ledger(book) as ledger:
        assert ledger.account("ann").remaining == pytest.approx(1_000_000, abs=1000)
    verdict = pk.verify(each)
    assert verdict.ok, str(verdict)
    lie = each.to_dict()
    lie["rows"]["scale"] = [scale / 2 for scale in lie["rows"]["scale"]]
    assert not pk.verify(lie).ok
    for number, who in enumerate(table.subjects):
        series = table.series(who)
        exact = [float(v) for v in asked.bind(STATES, series).exact(series)]
        assert np.abs(each.raw[number] - exact).max() < 60 * each.scale[number]
    whole = for_all(table, CHAIN, 1, query=asked)
    assert whole.raw.shape == (1, each.raw.shape[1])
    assert pk.verify(whole).ok


VALUES = {"rest": 3, "walk": 0.25}
NUMBERS = [
    question("count", of="walk"),
    question("total", values=VALUES, clip=(0, 2)),
    question("mean", values=VALUES),
    question("variance", values=VALUES, clip=(0, 4)),
    question("linear", weights={"walk": [1, 3.5]}, labelled=["active", "energy"]),
    question("cumulative", values=VALUES),
    question("quantile", values=VALUES, share=0.5),
    question("peak", values=VALUES),
    question("load-duration", values=VALUES),
    question("top-states", top=1),
    question("share-of-days", of="walk", at_least="3h"),
]


ENTRIES = [
    question("histogram"),
    question("frequencies"),
    question("transitions"),
    question("episodes", of="walk"),
    question("stays", of="walk"),
    question("time-in", of="walk", between="22:00-06:00"),
    question("days-with", of="walk", at_least="3h"),
    question("by-hour"),
    question("by-weekday-hour"),
]


@pytest.mark.parametrize("asked", [*NUMBERS, *ENTRIES], ids=str)
def test_one_call_gives_the_exact_answers_of_series_and_tables(asked):
    """Each row of a table, and of its windows, is the answer about the entries of that row."""
    table = read()
    assert asked.exact(table) == [asked.exact(table.series(who)) for who in table.subjects]
    backwards = asked.exact(table, STATES[::-1])
    assert backwards == [asked.exact(table.series(who), STATES[::-1]) for who in table.subjects]
    if asked.counting:
        parts = frame().group_by("who", pl.col("time").dt.date(), maintain_order=True)
        days = {key: list(part["state"]) for key, part in parts}
        each = [asked.exact(days[key], STATES) for key in sorted(days)]
        assert asked.exact(read(window="1d")) == each


def test_every_named_question_has_its_exact_answer_tested():
    """Days and weeks are windows of a table, and what is derived is tested with what it is from."""
    assert set(NAMES) - {own.name for own in (*NUMBERS, *ENTRIES)} == {"by-day", "by-week"}


@pytest.mark.parametrize("asked", NUMBERS, ids=str)
def test_numbers_of_each_subject_and_of_all_are_those_of_their_entries(asked, monkeypatch):
    """Without noise, the answers of a fleet are those of the definition, in the same units."""
    monkeypatch.setattr("pufferkit.noise.discrete_laplace_rows", lambda counts, _: counts)
    table = read()
    each = for_each(table, CHAIN, 1, query=asked)
    for number, who in enumerate(table.subjects):
        series = table.series(who)
        exact = [float(v) for v in asked.bind(STATES, series).exact(series)]
        assert each.raw[number].tolist() == pytest.approx(exact)
    whole, entries = for_all(table, CHAIN, 1, query=asked), table.all_series
    if asked.per != "days":
        exact = [float(v) for v in asked.bind(STATES, entries).exact(entries)]
        assert whole.raw[0].tolist() == pytest.approx(exact)


@pytest.mark.parametrize("asked", NUMBERS[::3], ids=str)
def test_numbers_are_charged_once_and_verified(asked, tmp_path):
    table, book = read(window=None if asked.per == "days" else "2d"), str(tmp_path / "book.db")
    each = for_each(table, CHAIN, 1, query=asked, ledger=book, budget=2)
    again = for_each(table, CHAIN, 1, query=asked, ledger=book, budget=2)
    assert np.array_equal(each.raw, again.raw)
    with pk.Ledger(book) as ledger:
        assert ledger.account("ann").remaining == pytest.approx(1_000_000, abs=1000)
    groups = {"ann": "north", "bob": "south", "cem": "north"}
    some = for_all(read(), CHAIN, 1, query=asked, groups=groups, keys=["north", "south"])
    for releases in (each, some):
        verdict = pk.verify(releases)
        assert verdict.ok, str(verdict)
        lie = releases.to_dict()
        lie["rows"]["scale"] = [scale * 0.9 for scale in lie["rows"]["scale"]]
        assert not pk.verify(lie).ok
    assert len(each.half_width()) == len(each)
    if asked.replaced and each.noise != "noisy choice":
        assert len(each.follows()) == len(each)
        assert len(each.columns()) > 3 + len(each.labels)
    else:
        with pytest.raises(ValueError, match="was released directly"):
            each.follows()


def test_what_follows_from_each_row_is_what_follows_from_one_release():
    table = read()
    each = for_each(table, CHAIN, 1)
    (first, *_) = each.follows(
        lambda row, level: row.derive("quantile", share=0.5, values=[3, 0.25][::-1], level=level)
    )
    assert first.epsilon == each.epsilon
    stays = for_each(table, CHAIN, 1, query=question("stays", of="walk"))
    assert stays.follows()[0].what == "mean length of a stay"
    own = pk.influence_curve(CHAIN, pk.histogram(STATES, 240), 1)
    assert each.row(0).interval(0.9)[0][1] > each.row(0).raw[0]
    assert each.row(0).scale == pytest.approx(own.scale, rel=1e-6)


def test_a_quantile_of_many_levels_is_chosen_and_verified(monkeypatch):
    """By the exponential mechanism, where that errs less; without noise it is the quantile."""
    levels = [f"{k} W" for k in range(12)]
    matrix = 0.5 * np.eye(12) + 0.5 / 12
    chain = pk.MarkovChain.steady(matrix, states=levels)
    rows = [
        (who, t, levels[code])
        for n, who in enumerate(("ann", "bob"))
        for t, code in enumerate(chain.sample(120, seed=n))
    ]
    frame = pl.DataFrame(rows, schema=["who", "t", "x"], orient="row")
    table = pk.read(frame, subject="who", time="t", state="x", states=levels)
    asked = question("quantile", values={s: k for k, s in enumerate(levels)}, share=0.9)
    each = for_each(table, chain, 1, query=asked)
    assert (each.kind, each.noise, each.labels) == ("quantile", "noisy choice", ("quantile 0.9",))
    assert set(each.raw.ravel()) <= set(range(12))
    assert pk.verify(each).ok
    for change in ({"raw": [[0.5]] * 2, "value": None}, {"scale": [s * 0.9 for s in each.scale]}):
        lie = each.to_dict()
        lie["rows"] |= change
        assert not pk.verify(lie).ok
    lie = each.to_dict() | {"noise": "laplace"}
    assert not pk.verify(lie).ok
    monkeypatch.setattr("pufferkit.noise.noisy_choice", lambda scores, *_: int(np.argmax(scores)))
    exact = for_each(table, chain, 1, query=asked)
    for number, who in enumerate(table.subjects):
        values = np.sort(table.series(who).codes)
        below, upto = (values < exact.raw[number, 0]).sum(), (values <= exact.raw[number, 0]).sum()
        assert below <= 0.9 * len(values) <= upto


def test_sums_that_a_float_cannot_hold_are_refused():
    asked = question("total", values={"rest": 1e-14, "walk": 1e3})
    with pytest.raises(ValueError, match="too many digits to add up exactly"):
        for_each(read(), CHAIN, 1, query=asked)


def test_an_empty_group_has_no_mean():
    groups, keys = dict.fromkeys(("ann", "bob", "cem"), "north"), ["north", "south"]
    asked = question("mean", values=VALUES)
    with pytest.raises(ValueError, match="no shares and no mean"):
        for_all(read(), CHAIN, 1, query=asked, groups=groups, keys=keys)


def test_slots_of_each_subject_sum_to_what_was_observed():
    each = for_each(read(window="hour of week"), CHAIN, 1, query="by-weekday-hour")
    slots = each.value.reshape(3, 168, 2)
    assert np.allclose(slots.sum(axis=2), each.observed)
    assert each.entries.tolist() == each.observed.sum(axis=1).tolist()
    # The noise of one histogram over everything.
    alone = for_each(read(), CHAIN, 1)
    assert each.scale.tolist() == alone.scale.tolist()


def test_what_cannot_be_asked_says_what_can():
    for make, words in (
        (lambda: for_each(read(), CHAIN, 1, query="by-day"), "window='1d'"),
        (lambda: for_each(read(window="1d"), CHAIN, 1, query="by-hour"), "hour of week"),
        (
            lambda: for_each(read(window="hour of day"), CHAIN, 1, query="by-weekday-hour"),
            "of",
        ),
        (lambda: for_each(read(window="hour of day"), CHAIN, 1), "slots of one question"),
        (
            lambda: for_each(read(window="1h"), CHAIN, 1, query="transitions"),
            "without window",
        ),
        (lambda: for_each(read(), CHAIN, 1, query="episodes"), "of: is required"),
        (lambda: for_each(read(), CHAIN, 1, query="medians"), "must be one of histogram"),
        (lambda: question("days-with", of="walk"), "at_least: is required"),
        (lambda: question("mean"), "values: is required"),
        (lambda: question("mean", values={"rest": "a"}), "values"),
        (lambda: question("mean", values=VALUES, clip=(2, 0)), "clip: low must be below high"),
        (lambda: question("variance", values=VALUES), "clip: is required"),
        (lambda: question("quantile", values=VALUES), "share: is required"),
        (lambda: question("quantile", values=VALUES, share=2), "between 0 and 1"),
        (lambda: question("peak", values={"rest": 1, "walk": 1}), "different values"),
        (lambda: question("count", of=["rest", "walk"]), "count is about one state"),
        (lambda: question("histogram", values=VALUES), "values: histogram does not take it"),
        (
            lambda: for_each(read(), CHAIN, 1, query=question("mean", values={"a": 1})),
            "no value for rest, walk",
        ),
        (
            lambda: for_each(
                read(window="hour of day"), CHAIN, 1, query=question("mean", values=VALUES)
            ),
            "consecutive windows of time",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            make()


def test_groups_with_declared_keys_cost_what_one_release_costs(tmp_path):
    people = pl.DataFrame({"who": ["ann", "bob", "cem"], "region": ["north", "south", "north"]})
    groups = groups_of(people, subject="who", group="region")
    keys = ["north", "south", "west"]
    table, book = read(), str(tmp_path / "book.db")
    rows = for_all(table, CHAIN, 1, groups=groups, keys=keys, ledger=book, budget=2)
    assert rows.groups == ("north", "south", "west")
    counts = table.counts
    exact = np.array([counts[0] + counts[2], counts[1], [0, 0]])
    assert np.abs(rows.raw - exact).max() < 60 * rows.scale.max()
    assert rows.entries.tolist() == exact.sum(axis=1).tolist()
    assert rows.scale.max() == pytest.approx(for_all(table, CHAIN, 1).scale.max())
    with pk.Ledger(book) as ledger:
        assert ledger.account("bob").remaining == pytest.approx(1_000_000, abs=1000)
    assert pk.verify(rows).ok, str(pk.verify(rows))
    assert rows.columns()["group"] == keys
    days = for_all(read(window="1d"), CHAIN, 1, groups=groups, keys=keys)
    assert len(days) == 3 * len(set(days.windows.tolist()))
    episodes = question("episodes", of="walk")
    assert pk.verify(for_all(table, CHAIN, 1, query=episodes, groups=groups, keys=keys)).ok


@pytest.fixture
def streets(tmp_path):
    """Three people in two regions, by a file and by a frame; cem has no entry in April."""
    days = {"ann": range(40), "bob": range(40), "cem": range(20)}
    start = date(2026, 3, 12)
    region = {"ann": "north", "bob": "south", "cem": "north"}
    rows = [
        (who, start + timedelta(days=day), "walk" if who == "cem" or day % 3 else "rest", where)
        for who, where in region.items()
        for day in days[who]
    ]
    names = ["who", "when", "what", "region"]
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(floor=pl.lit(2))
    frame.write_csv(tmp_path / "streets.csv")
    roles = {"subject": "who", "time": "when", "state": "what", "states": CHAIN.states}
    sources = frame, frame.to_pandas(), tmp_path / "streets.csv"
    return [pk.read(source, **roles, groups=["region", "floor"]) for source in sources]


def test_a_column_of_groups_is_read_with_the_table(streets):
    keys = ["north", "south", "west"]
    for table in streets:
        rows = pk.release(table, CHAIN, "histogram", 1e6, per="region", keys=keys)
        assert rows.groups == tuple(keys)
        assert np.round(rows.raw).tolist() == [[14, 46], [14, 26], [0, 0]]
        assert pk.verify(rows).ok
        floors = pk.release(table, CHAIN, "histogram", 1e6, per="floor", keys=[1, 2])
        assert floors.entries.tolist() == [0, 100]  # text in a file is the key that prints like it


def test_groups_of_a_period_are_those_of_the_subjects_who_have_entries_in_it(streets):
    table, asked = streets[0], {"window": "2026-04", "per": "region", "keys": ["north", "south"]}
    rows = pk.release(table, CHAIN, "histogram", 1e6, **asked)
    assert rows.entries.tolist() == [20, 20]
    where = pk.release(table, CHAIN, "histogram", 1e6, **asked | {"keys": ["south", "north"]})
    assert np.allclose(np.round(where.raw), np.round(rows.raw)[::-1])


def test_columns_that_are_not_groups_are_refused(streets):
    for given, words in (
        ({"per": "street"}, "it has region, floor"),
        ({"per": "region"}, "must be given together"),
        ({"per": "all", "keys": ["north"]}, "with per="),
    ):
        with pytest.raises(ValueError, match=words):
            pk.release(streets[0], CHAIN, "histogram", 1, **given)
    rows = pl.DataFrame({"t": [1, 2], "x": ["rest", "walk"], "region": ["north", "north"]})
    with pytest.raises(ValueError, match="subject="):
        pk.read(rows, time="t", state="x", groups="region")


def test_groups_that_are_not_declared_are_refused():
    groups = {"ann": "north", "bob": "south", "cem": "north"}
    for given, words in (
        ({"groups": groups}, "must be given together"),
        ({"groups": groups, "keys": ["north"]}, "'south' not among the declared keys"),
        ({"groups": {"ann": "north"}, "keys": ["north"]}, "2 subjects have no group"),
    ):
        with pytest.raises(ValueError, match=words):
            for_all(read(), CHAIN, 1, **given)
    moved = pl.DataFrame({"who": ["ann", "ann"], "region": ["north", "south"]})
    with pytest.raises(ValueError, match="two groups"):
        groups_of(moved, subject="who", group="region")
