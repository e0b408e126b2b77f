"""Windows of an account by the calendar, day by day and by a rule; and a change of beliefs."""

from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from tests.asking import for_each
from tests.oracles.events import listed

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
SLOWER = pk.MarkovChain.steady([[0.95, 0.05], [0.2, 0.8]])


def hours(days, begins="2026-11-16", seed=1):
    codes = CHAIN.sample(24 * days, seed=seed)
    return pk.Series(codes, (0, 1), (24 * days,), calendar=pk.Calendar(begins, "1h"))


def account(tmp_path, budget=2.0, **more):
    return pk.Account(str(tmp_path / "l.db"), "anna", budget, **more)


def test_a_day_every_day_costs_one_epsilon_and_each_day_may_come_alone(tmp_path):
    anna, whole = account(tmp_path, 1.0), hours(4)
    first = pk.release(whole, CHAIN, pk.count(1), 1, account=anna, window="2026-11-16", anyway=True)
    for day in (1, 2, 3):
        alone = whole.window(24 * day + 1, 24 * day + 24)
        name = f"2026-11-{16 + day}"
        release = pk.release(alone, CHAIN, pk.count(1), 1, account=anna, window=name, anyway=True)
        assert release.scale == first.scale
    assert [row["window"] for row in anna.history] == [(1, 24), (25, 48), (49, 72), (73, 96)]
    assert anna.spent <= 1
    again = pk.release(whole, CHAIN, pk.count(1), 1, account=anna, window="2026-11-16")
    assert again.raw == first.raw
    assert anna.ledger.verify() == []


def test_a_rule_gives_a_release_for_each_whole_window(tmp_path):
    anna, data = account(tmp_path), hours(20, "2026-11-18 12:00")
    days = pk.release(data, CHAIN, pk.count(1), 1, account=anna, window="day", anyway=True)
    assert len(days) == 19
    assert days.left_out == ("2026-11-18", "2026-12-08")
    weeks = pk.release(data, CHAIN, pk.count(1), 0.1, account=anna, window="week", anyway=True)
    assert list(weeks) == ["2026-W48", "2026-W49"]
    assert weeks.left_out == ("2026-W47", "2026-W50")
    entries = len(anna.ledger.entries())
    grown = hours(20, "2026-11-18 12:00")
    again = pk.release(grown, CHAIN, pk.count(1), 1, account=anna, window="day", anyway=True)
    assert [one.raw for one in again.values()] == [one.raw for one in days.values()]
    assert len(anna.ledger.entries()) == entries


@pytest.mark.parametrize("rule", ["month", "year", "60d"])
def test_a_rule_without_a_whole_window_is_refused(tmp_path, rule):
    with pytest.raises(ValueError, match=f"no window of {rule} whole"):
        pk.release(hours(20), CHAIN, pk.count(1), 1, account=account(tmp_path), window=rule)


def test_late_rows_on_a_grid_are_on_the_grid(tmp_path):
    day, before = datetime(2026, 11, 16), datetime(2026, 11, 15, 23)
    late = [before + timedelta(minutes=n) for n in range(30)]
    times = [*(day + timedelta(minutes=n) for n in range(1440)), *late]
    rows = pl.DataFrame({"when": times, "x": CHAIN.sample(1470, seed=2)})
    data = pk.read(rows, state="x", time="when", states=(0, 1), every="5m")
    paid = {"account": account(tmp_path), "window": "2026-11-16", "anyway": True}
    release = pk.release(data, CHAIN, pk.count(1), 1, **paid)
    assert (release.lengths, release.step) == ((288,), 300.0)
    assert pk.verify(release).ok


@pytest.mark.parametrize(
    ("window", "match"),
    [("2026-12-24", "no entry"), ("tomorrow", "period"), (("2026-11-17", "2026-11-16"), "before")],
)
def test_windows_that_are_none_are_refused(tmp_path, window, match):
    with pytest.raises(ValueError, match=match):
        pk.release(hours(2), CHAIN, pk.count(1), 1, account=account(tmp_path), window=window)
    listed = hours(2).labels
    with pytest.raises(ValueError, match="times of the entries are not known"):
        pk.release(listed, CHAIN, pk.count(1), 1, account=account(tmp_path), window="2026-11-16")


def test_a_day_of_each_subject_whole_or_alone(tmp_path):
    frame = pl.concat(
        pl.DataFrame(
            {
                "who": [name] * 72,
                "when": [datetime(2026, 11, 16 + n // 24, n % 24) for n in range(72)],
                "x": CHAIN.sample(72, seed=seed).tolist(),
            }
        )
        for seed, name in enumerate(["ann", "bob"])
    )

    def read(rows, **more):
        return pk.read(rows, subject="who", time="when", state="x", states=CHAIN.states, **more)

    book = pk.Ledger(str(tmp_path / "l.db"))
    paid = {"ledger": book, "budget": 1, "anyway": True}
    counts = []
    for day in (16, 17, 18):
        name = f"2026-11-{day}"
        rows = frame if day != 17 else frame.filter(pl.col("when").dt.date() == date(2026, 11, day))
        counts.append(for_each(read(rows), CHAIN, 1, window=name, **paid))
    windows = [e.body["window"] for e in book.entries("ann") if e.kind == "charge"]
    assert windows == [[1, 24], [25, 48], [49, 72]]
    assert book.account("ann").total <= 1_000_000
    again = for_each(read(frame), CHAIN, 1, window="2026-11-17", **paid)
    assert (again.raw == counts[1].raw).all()
    assert pk.verify(again).ok
    assert book.verify() == []
    cut = read(frame, window="1d")
    chosen = for_each(cut, CHAIN, 1, window="2026-11-17", anyway=True)
    assert len(chosen) == 2
    assert chosen.entries.tolist() == [24, 24]


STARTS = pk.MarkovChain([1, 0], [[0.5, 0.5], [0, 1]])
LINKED = pk.ChainClass.order(2, [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.3, 0.7]]], states=[0, 1])


@pytest.mark.parametrize("theta", [STARTS, LINKED], ids=["fixed start", "memory of two"])
def test_a_later_part_of_each_subject_is_no_series_of_its_own_where_beliefs_are_about_the_whole(
    theta, tmp_path
):
    days = [date(2026, 11, day) for day in range(16, 22)]
    rows = pl.DataFrame({"who": ["ann"] * 6, "when": days, "x": [0, 1] * 3})

    def read(rows, **more):
        columns = {"subject": "who", "time": "when", "state": "x", "states": [0, 1]}
        return pk.read(rows, **columns, every="1d", **more)

    # Under a fixed start the noise for two days alone, of scale 1, tells log 3.97 of the first.
    for paid in (False, True):
        book = pk.Ledger(str(tmp_path / "l.db"))
        more = {"account": book.accounts_for(read(rows), "", 9)} if paid else {}
        asked = {"per": "subject", "anyway": True, **more}
        with pytest.raises(pk.NoTheorem):
            pk.release(
                read(rows), theta, pk.count(1), 1, window=("2026-11-18", "2026-11-20"), **asked
            )
        whole = ("2026-11-16", "2026-11-22")
        assert pk.release(read(rows), theta, pk.count(1), 1, window=whole, **asked).entries == 6
        chosen = pk.release(
            read(rows, window="2d"),
            theta,
            pk.count(1),
            1,
            window=("2026-11-17", "2026-11-21"),
            **asked,
        )
        assert chosen.entries.tolist() == [2, 2]
    with pytest.raises(pk.NoTheorem):  # the account has begun two days before
        pk.release(
            read(rows[2:]), STARTS, pk.count(1), 1, mechanism="markov_quilt", label="b", **asked
        )


def test_beliefs_are_changed_by_a_recorded_act(tmp_path):
    anna, data = account(tmp_path, 9.0), hours(10)
    first = pk.release(data, CHAIN, pk.count(1), 1, account=anna, anyway=True)
    before = anna.spent
    with pytest.raises(ValueError, match="beliefs"):
        pk.release(data, SLOWER, pk.histogram(), 1, account=anna, anyway=True)
    grown = anna.change_beliefs(SLOWER, why="measured anew")
    under_both = [pk.InfluenceCurve(own, 240).epsilon(1 / first.scale) for own in (CHAIN, SLOWER)]
    assert anna.spent == pytest.approx(before + grown)
    assert max(under_both) - 1e-5 <= anna.spent
    pk.release(data, SLOWER, pk.histogram(), 0.5, account=anna, anyway=True)
    again = pk.release(data, SLOWER, pk.count(1), 1, account=anna, anyway=True)
    assert again.raw == first.raw  # a replay is a replay
    with pytest.raises(ValueError, match="beliefs"):
        pk.release(data, CHAIN, pk.count(0), 1, account=anna, anyway=True)
    assert anna.ledger.verify() == []
    assert anna.change_beliefs(CHAIN) == 0


def test_a_change_of_beliefs_is_refused_after_a_promise_of_its_own_or_over_budget(tmp_path):
    data = hours(10)
    alone = account(tmp_path, 9.0)
    pk.release(data, CHAIN, pk.count(1), 1, account=alone, mechanism="group_dp", anyway=True)
    promised = alone.history[0]["rule"] == "single"
    if promised:
        with pytest.raises(pk.NoTheorem, match="promise"):
            alone.change_beliefs(SLOWER)
    ben = pk.Account(alone.ledger, "ben", 1.0, confirm_data=True)
    pk.release(data, CHAIN, pk.count(1), 1, account=ben, anyway=True)
    entries = len(ben.ledger.entries())
    with pytest.raises(pk.OverBudget):
        ben.change_beliefs(SLOWER)
    assert len(ben.ledger.entries()) == entries
    with pytest.raises(ValueError, match="states"):
        ben.change_beliefs(pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["a", "b"]))


@pytest.mark.parametrize("mechanism", ["group_dp", "exact_sum", "wasserstein", "markov_quilt"])
def test_every_window_of_a_rule_is_paid_for(tmp_path, mechanism):
    sticky = pk.MarkovChain.steady([[0.9, 0.1], [0.1, 0.9]])
    data = pk.Series([0, 1] * 3, (0, 1), (6,), calendar=pk.Calendar("2026-11-16", "12h"))
    paid = {"account": account(tmp_path, 5), "mechanism": mechanism, "anyway": True}
    days = pk.release(data, sticky, pk.count(1), 1, window="day", **paid)
    series, chance = listed(sticky.initial, [sticky.transition] * 5)
    spent = [-np.abs(series[:, 2 * n : 2 * n + 2].sum(axis=1) - 2) for n in range(3)]
    scales = [one.scale for one in days.values()]
    given = chance * np.exp(sum(own / s for own, s in zip(spent, scales, strict=True)))
    high, low = (given[series[:, 2] == x].sum() for x in (1, 0))
    assert np.log(high / low) > 1  # the three of them reveal more than one does
    assert np.log(high / low) <= paid["account"].spent


def test_a_window_in_an_hour_that_comes_twice_is_refused(tmp_path):
    clock = pk.Calendar("2026-10-24T22:00", "10m", "Europe/Paris")  # clocks go back at 01:00 UTC
    data = pk.Series(CHAIN.sample(48, seed=1), (0, 1), (48,), calendar=clock)
    anna = account(tmp_path)
    with pytest.raises(ValueError, match="clocks were set back"):
        pk.release(data, CHAIN, pk.count(1), 1, account=anna, window="30m", anyway=True)
    assert anna.spent == 0
    ends = ("2026-10-25T02:00+02:00", "2026-10-25T02:30+02:00")
    pk.release(data, CHAIN, pk.count(1), 1, account=anna, window=ends, anyway=True)
    assert anna.history[-1]["window"][1] - anna.history[-1]["window"][0] == 2


def test_beliefs_with_a_first_slot_are_refused_where_later_segments_may_begin_at_another(tmp_path):
    anna = account(tmp_path, 9.0)
    hours_of = (0, 1, 101, 102)
    rows = pl.DataFrame(
        {"t": [datetime(2026, 1, 1) + timedelta(hours=h) for h in hours_of], "x": [0, 1, 0, 1]}
    )
    read = {"time": "t", "state": "x", "states": [0, 1], "every": "1h", "independent_after": "5h"}
    first = pk.release(pk.read(rows, **read), CHAIN, pk.count(1), 1, account=anna, anyway=True)
    kernels = [[0.5, 0.5], [0.5, 0.5]], [[0.99, 0.01], [0.01, 0.99]]
    told = {"step": "1h", "origin": "2026-01-01 00:00"}
    with pytest.raises(pk.NoTheorem, match="any first slot"):
        anna.change_beliefs(pk.ChainClass.seasonal(kernels, [0, 1], start=0, **told))
    anna.change_beliefs(pk.ChainClass.seasonal(kernels, [0, 1], **told))
    second = pk.ChainClass.seasonal(kernels, [0, 1], start=1)  # in which the second begins
    assert anna.spent >= pk.InfluenceCurve(second, 2).epsilon(1 / first.scale) - 1e-6
