"""A table that grows each quarter: new windows pay, old ones come back, rows may be late."""

from datetime import datetime, timedelta

import polars as pl
import pytest

import pufferkit as pk

CHAIN = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "walk"])
START = datetime(2026, 1, 5)  # a Monday
COLUMNS = {"subject": "who", "time": "when", "state": "what", "states": CHAIN.states}
QUARTER = 91


def days(quarters, without=()):
    """Daily rows of two subjects, and from the second quarter on of a third."""
    records = []
    for who, begins in (("anna", 0), ("bob", 0), ("cleo", QUARTER)):
        codes = CHAIN.sample(4 * QUARTER, seed=len(who) + begins)
        records += [
            (who, START + timedelta(days=day), CHAIN.states[codes[day]])
            for day in range(begins, quarters * QUARTER)
            if (who, day) not in without
        ]
    return pl.DataFrame(records, schema=["who", "when", "what"], orient="row")


def ask(book, frame, epsilon=1, label="weekly", budget=3, per="subject", query="histogram", **more):
    reading = {key: more.pop(key) for key in ("window", "independent_after") if key in more}
    asked = more.pop("asked", None)
    table = pk.read(frame, **COLUMNS, **reading)
    accounts = book.accounts_for(table, "", budget)
    options = {"account": accounts, "per": per, "label": label, "anyway": True, "window": asked}
    return pk.release(table, CHAIN, query, epsilon, **options, **more)


def totals(book, *names):
    return [book.account(name).total for name in names]


@pytest.fixture
def book(tmp_path):
    with pk.Ledger(str(tmp_path / "ledger.db")) as ledger:
        yield ledger
        assert ledger.verify() == []


def rows_of(releases):
    starts = [start.date() for start in releases.starts]
    rows = zip(releases.subjects, starts, releases.raw.tolist(), strict=True)
    return {(who, start): tuple(value) for who, start, value in rows}


def test_each_quarter_pays_for_its_own_weeks(book, tmp_path):
    known, entries = {}, 0
    for quarter in range(1, 5):
        rows = rows_of(ask(book, days(quarter), window="7d"))
        assert known.items() <= rows.items()  # what was released comes back
        assert len(rows) == 13 * quarter * 2 + 13 * (quarter - 1)  # cleo appears later
        assert len(book.entries()) > entries
        known, entries = rows, len(book.entries())
    # Every entry is asked once, like all the others: a year costs one epsilon.
    assert max(totals(book, "anna", "bob", "cleo")) <= 1_000_000
    again = rows_of(
        ask(pk.Ledger(book.url) if hasattr(book, "url") else book, days(4), window="7d")
    )
    assert again == known
    assert len(book.entries()) == entries


def test_rows_that_arrive_late_are_refused_under_the_label_and_paid_for_under_another(book):
    late = {("anna", 9), ("anna", 10)}
    first = rows_of(ask(book, days(1, late), window="7d"))
    entries, before = len(book.entries()), totals(book, "anna", "bob")
    with pytest.raises(ValueError, match="late"):
        ask(book, days(2), window="7d")
    assert len(book.entries()) == entries
    # Left out again they change nothing, and the quarter goes on.
    assert first.items() <= rows_of(ask(book, days(2, late), window="7d")).items()
    assert totals(book, "anna", "bob") == before
    second = rows_of(ask(book, days(2), label="with late rows", window="7d"))
    assert second["anna", first_monday(1)] != first["anna", first_monday(1)]
    assert min(totals(book, "anna", "bob")) > 1_000_000  # the whole window once more


def first_monday(week):
    return (START + timedelta(days=7 * week)).date()


def test_windows_that_overlap_cost_what_their_profile_loses(book):
    frame = days(1)
    ask(book, frame, asked="2026-02", label="")
    (month, _), entries = totals(book, "anna", "bob"), len(book.entries())
    ask(book, frame, asked="2026-W07", label="")  # a week of that month
    both = totals(book, "anna")[0]
    assert month < both <= 2_300_000
    ask(book, frame, asked="2026-03", label="")  # and a month that has no entry of either
    assert both <= totals(book, "anna")[0] <= 1.001 * both
    both = totals(book, "anna")[0]
    assert len(book.entries()) > entries
    with pytest.raises(pk.OverBudget):
        ask(book, frame, asked="2026-W07", label="again", epsilon=2)
    assert totals(book, "anna")[0] == both


def test_a_gap_begins_a_segment_and_the_series_goes_on_behind_it(book):
    away = {("bob", day) for day in range(20, 40)}
    for quarter in (1, 2):
        made = ask(book, days(quarter, away), independent_after="3d", window="7d")
        assert pk.verify(made).ok
    assert max(totals(book, "anna", "bob")) <= 1_000_000
    entries = len(book.entries())
    with pytest.raises(ValueError, match=r"segments|late|other data"):
        ask(book, days(2), independent_after="3d", window="7d")  # bob was there after all
    assert len(book.entries()) == entries


def test_groups_have_declared_keys_and_charge_every_member(book):
    groups = {"anna": "north", "bob": "south", "cleo": "south"}
    keys = ["north", "south", "west"]
    first = ask(book, days(1), per=groups, keys=keys, label="groups")
    assert first.groups == ("north", "south", "west")
    assert first.entries.tolist() == [QUARTER, QUARTER, 0]
    assert totals(book, "anna", "bob") == [1_000_000, 1_000_000]
    with pytest.raises(ValueError, match="declared"):
        ask(book, days(1), per={**groups, "anna": "east"}, keys=keys, label="groups")
    without = days(2).filter(pl.col("who") != "cleo")
    with pytest.raises(ValueError, match="label"):  # the value was drawn of other entries
        ask(book, without, per=groups, keys=keys, label="groups")
    assert totals(book, "anna", "bob") == [1_000_000, 1_000_000]
    ask(book, days(2), per=groups, keys=keys, label="groups, second quarter")
    assert min(totals(book, "anna", "bob")) > 1_000_000
    assert totals(book, "cleo") == [1_000_000]
    # What members were charged for groups counts for their own releases.
    with pytest.raises(pk.OverBudget):
        ask(book, days(2), epsilon=2, label="own")
