"""Streams: one epsilon for ever, one draw a window, an account that does not grow."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pufferkit as pk
from pufferkit.accounting.charges import Charge
from pufferkit.accounting.frontier import Frontier, Use
from pufferkit.accounting.stream_windows import located
from tests.asking import Asking

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DAY = [0, 0, 1, 0, 1, 1]
HOW = pk.histogram([0, 1], 6)


@pytest.fixture
def book(tmp_path):
    return str(tmp_path / "ledger.db")


@pytest.fixture
def stream(book):
    return pk.Stream(CHAIN, 1.0, book, name="anna")


def days(count, month=1):
    return [f"2026-{month:02d}-{n:02d}" for n in range(1, count + 1)]


def test_epsilon_is_paid_once_and_holds_for_ever(stream):
    releases = [stream.release(HOW, DAY, day, every="4h") for day in days(20)]
    account = stream.ledger.account("anna")
    assert (account.total, account.budget) == (10**6, 10**6)
    assert len({release.scale for release in releases}) == 1
    alone = pk.influence_curve(CHAIN, pk.histogram([0, 1], 1440), 1.0).scale
    assert releases[0].scale == pytest.approx(alone, rel=1e-6)
    assert stream.ledger.verify() == []


def test_the_account_holds_one_number_however_long_it_runs(stream, book):
    sizes = set()
    for day in days(12):
        stream.release(HOW, DAY, day, every="4h")
        with sqlite3.connect(book) as connection:
            [[state]] = connection.execute("SELECT state FROM pufferkit_states").fetchall()
        sizes.add(len(state))
        runs = json.loads(state)["open"]["runs"]
        assert len(runs) == 1
        assert runs[0][1] == json.loads(state)["stream"]["rate"]
    assert len(sizes) == 1


def test_a_window_again_is_the_same_value_also_after_a_restart(stream, book):
    values = [stream.release(HOW, DAY, day, every="4h").raw for day in days(5)]
    stream.ledger.close()
    again = pk.Stream(CHAIN, 1.0, book, name="anna")
    # Rows that came late change nothing: the window is what it was.
    late = [1, 1, 1, 1, 1, 1]
    assert [again.release(HOW, late, day).raw for day in days(5)] == values
    assert len(again.ledger.entries("anna")) == 11


def test_two_processes_that_ask_at_once_draw_once(book):
    def ask(_):
        with pk.Ledger(book) as ledger:
            mine = pk.Stream(CHAIN, 1.0, ledger, name="anna")
            return [mine.release(HOW, DAY, day, every="4h").raw for day in days(4)]

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(ask, range(4)))
    assert all(values == seen[0] for values in seen)
    with pk.Ledger(book) as ledger:
        assert ledger.verify() == []
        assert len(ledger.entries("anna")) == 9


def test_windows_come_in_order_and_pay_once(stream):
    stream.release(HOW, DAY, "2026-01-05", every="4h")
    with pytest.raises(ValueError, match="release windows in order"):
        stream.release(HOW, DAY, "2026-01-04", every="4h")
    with pytest.raises(pk.OverBudget, match="requested 1 of the window, remaining 0"):
        stream.release(pk.count(1, 6), DAY, "2026-01-05", every="4h")
    with pytest.raises(pk.OverBudget):
        stream.release(HOW, DAY, ("2026-01-05 23:00", "2026-01-06 23:00"), every="4h")
    with pytest.raises(ValueError, match="windows of time, got one of entries"):
        stream.release(HOW, DAY, (7, 12))
    assert len(stream.ledger.entries("anna")) == 3


def test_several_answers_share_a_window(stream):
    half = stream.release(HOW, DAY, "2026-01-05", every="4h", share=0.5)
    stream.release(pk.count(1, 6), DAY, "2026-01-05", every="4h", share=0.5)
    assert half.scale == pytest.approx(2 * stream.calibrate(HOW).scale, rel=1e-9)
    with pytest.raises(pk.OverBudget):
        stream.release(pk.count(0, 6), DAY, "2026-01-05", every="4h", share=0.01)
    assert pk.verify(half).ok
    stream.release(HOW, DAY, "2026-01-06", every="4h")
    assert stream.ledger.verify() == []


def test_windows_that_overlap_add_up(stream):
    """A sliding window of three, each time one further: a third each, for ever."""
    for n in range(1, 30):
        stream.release(pk.count(1, 3), DAY[:3], (n, n + 2), share=1 / 3)
    with pytest.raises(pk.OverBudget):
        stream.release(pk.count(1, 3), DAY[:3], (30, 32), share=0.34)
    assert stream.ledger.verify() == []


def test_gaps_and_segments(stream):
    gaps = pk.Series.of([0, None, 1, None, None, 1], [0, 1])
    assert stream.release(pk.histogram([0, 1], gaps), gaps, (1, 6)).observed == (3,)
    broken = pk.Series.of([[0, 1, 1], [0, 0, 1]], [0, 1])
    assert pk.verify(stream.release(pk.histogram([0, 1], broken), broken, (7, 12))).ok
    with pytest.raises(ValueError, match="has 6 entries, but the window"):
        stream.release(HOW, DAY, (13, 20))


def test_a_change_of_epsilon_is_an_act_of_its_own(stream, book):
    stream.release(HOW, DAY, "2026-01-01", every="4h", share=0.5)
    with pytest.raises(ValueError, match=r"has 1\.000, not 0\.500"):
        pk.Stream(CHAIN, 0.5, book, name="anna")
    less = stream.change_epsilon(0.5, why="a complaint")
    with pytest.raises(ValueError, match="in order"):  # what was left of that day is closed
        less.release(HOW, DAY, "2026-01-01", every="4h", share=0.25)
    assert less.release(HOW, DAY, "2026-01-02", every="4h").epsilon == 0.5
    with pytest.raises(ValueError, match=r"has 0\.500"):
        stream.release(HOW, DAY, "2026-01-03", every="4h")
    account = less.ledger.account("anna")
    assert (account.budget, account.total) == (10**6, 10**6)  # what was promised before stays
    more = pk.Stream(CHAIN, 0.5, book, name="anna").change_epsilon(2.0, why="agreed")
    more.release(HOW, DAY, "2026-01-03", every="4h")
    account = more.ledger.account("anna")
    assert (account.budget, account.total) == (2 * 10**6, 2 * 10**6)
    assert [e.body["why"] for e in more.ledger.entries("anna") if e.kind == "budget"] == [
        "a complaint",
        "agreed",
    ]
    assert more.ledger.verify() == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE pufferkit_states SET state = replace(state, '\"begin\":', '\"begin\":1')",
        "UPDATE pufferkit_states SET seq = seq - 2",
        "DELETE FROM pufferkit_states",
    ],
)
def test_a_changed_state_is_noticed_at_once_and_by_verify(stream, book, change):
    stream.release(HOW, DAY, "2026-01-01", every="4h")
    stream.release(HOW, DAY, "2026-01-02", every="4h")
    with sqlite3.connect(book) as connection:
        connection.execute(change)
    with pytest.raises(pk.LedgerError):
        stream.release(HOW, DAY, "2026-01-03", every="4h")
    assert any("state" in problem for problem in stream.ledger.verify())


def test_a_charge_by_other_means_is_noticed(stream):
    stream.release(HOW, DAY, "2026-01-01", every="4h")
    entries = stream.ledger.account("anna").entries
    by_hand = Charge("anna", "k", 100_000, 10**6, {"what": "by hand"}, after=entries)
    assert stream.ledger.charge_many([by_hand])
    with pytest.raises(pk.LedgerError, match="not the account of a stream"):
        stream.release(HOW, DAY, "2026-01-02", every="4h")


def test_a_failed_commit_hands_nothing_over(stream, monkeypatch):
    stream.release(HOW, DAY, "2026-01-01", every="4h")

    def fail(*_args, **_options):
        raise pk.LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(stream.ledger, "charge_many", fail)
        with pytest.raises(pk.LedgerError):
            stream.release(HOW, DAY, "2026-01-02", every="4h")
    assert len(stream.ledger.entries("anna")) == 3
    stream.release(HOW, DAY, "2026-01-02", every="4h")


def test_what_a_release_says_can_be_verified(stream):
    release = stream.release(HOW, DAY, "2026-01-01", every="4h")
    assert release.evidence.horizon == 10**12
    assert "all other releases of the stream" in str(release)
    assert pk.verify(json.loads(release.to_json())).ok
    less = json.loads(release.to_json())
    less["scale"] *= 0.999
    assert not pk.verify(less).ok
    short = json.loads(release.to_json())
    short["evidence"]["horizon"] = 3
    assert not pk.verify(short).ok


@pytest.mark.parametrize(
    ("beliefs", "words"),
    [
        (pk.MarkovChain.steady([[0.0, 1.0], [1.0, 0.0]]), "beliefs that mix"),
        (pk.MarkovChain([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]]), "beliefs that mix"),
        (pk.FiniteJoint({(0, 0): 0.5, (1, 1): 0.5}), "fixed number"),
    ],
)
def test_beliefs_without_a_theorem_are_refused(beliefs, words, book):
    with pytest.raises(pk.NoTheorem, match=words):
        pk.Stream(beliefs, 1.0, book)


def test_bad_arguments_are_refused_in_words(stream, book):
    for window, words in [
        ((6, 1), "1 <= first <= last"),
        ("yesterday", "not a date"),
        ("2026-01-01 08:00", "is a single moment"),
        (("2026-01-02", "2026-01-01"), "not before"),
        (("2026-01-02", "2026-01-03T00:00+00:00"), "time zone"),
        (5, "a beginning and an end"),
    ]:
        with pytest.raises(ValueError, match=words):
            stream.release(HOW, DAY, window)
    with pytest.raises(ValueError, match="share"):
        stream.release(HOW, DAY, (1, 6), share=0)
    with pytest.raises(ValueError, match="expected a Query"):
        stream.release("histogram", DAY, (1, 6))
    stream.release(HOW, DAY, (1, 6))
    with pytest.raises(ValueError, match="other data or beliefs"):
        pk.Stream(pk.MarkovChain.steady([[0.8, 0.2], [0.4, 0.6]]), 1.0, book, name="anna")
    with pytest.raises(pk.NoTheorem, match="one bound"):
        pk.Stream(CHAIN, 1.0, book, question=pk.transition_counts([0, 1], 5))


def test_days_and_times_are_places_on_one_axis():
    assert located("2026-11-16") == located(date(2026, 11, 16))
    day = located("2026-11-16")[1:3]
    assert located(("2026-11-16 00:00", "2026-11-17"))[1:3] == day
    aware = datetime(2026, 11, 16, tzinfo=UTC)
    assert located((aware, datetime(2026, 11, 17, tzinfo=UTC)))[1:3] == day


def test_times_with_and_without_a_zone_are_not_mixed(stream):
    """Midnight in Paris is before midnight as clocks there show it, read as if it were UTC."""
    stream.release(HOW, DAY, "2026-11-16", every="4h")
    paris = ("2026-11-17T00:00+01:00", "2026-11-18T00:00+01:00")
    with pytest.raises(ValueError, match="windows of time, got one of instants"):
        stream.release(HOW, DAY, paris, every="4h")


def test_a_list_without_times_is_not_taken_for_a_window_of_time(stream):
    """A file of the last days, given as the list of today, would be charged as today alone."""
    with pytest.raises(ValueError, match="the times of the entries are not known"):
        stream.release(HOW, DAY, "2026-01-01")
    with pytest.raises(ValueError, match="6 of 12 entries are not in the window"):
        stream.release(pk.histogram([0, 1], 12), [*DAY, *DAY], "2026-01-01", every="4h")
    with pytest.raises(ValueError, match="every: applies to windows of time"):
        stream.release(HOW, DAY, (1, 6), every="4h")
    with pytest.raises(ValueError, match="not to segments"):
        stream.release(pk.histogram([0, 1], [3, 3]), [DAY[:3], DAY[3:]], "2026-01-01", every="4h")
    known = hourly(1, "2026-01-01")
    with pytest.raises(ValueError, match="already have times"):
        stream.release(pk.histogram([0, 1], known), known, "2026-01-01", every="1h")
    assert stream.ledger.entries("anna") == []
    stream.release(HOW, DAY, "2026-01-01", every="4h")


def hourly(days, first="2026-11-15", timezone=None):
    codes = np.random.default_rng(days).integers(0, 2, 24 * days)
    when = pk.Calendar(first, "1h", timezone)
    return pk.Series(codes, (0, 1), (24 * days,), calendar=when)


def test_a_window_pays_for_its_own_entries_alone(stream):
    both = hourly(2)
    with pytest.raises(ValueError, match="24 of 48 entries are not in the window"):
        stream.release(pk.histogram([0, 1], both), both, "2026-11-16")
    assert stream.ledger.accounts() == []
    part = pk.Stream.part(both, "2026-11-16")
    assert part.codes.tolist() == both.codes[24:].tolist()
    stream.release(pk.histogram([0, 1], part), part, "2026-11-16")
    with pytest.raises(ValueError, match="no entry lies in the window"):
        pk.Stream.part(both, "2026-11-20")
    with pytest.raises(ValueError, match="are not known"):
        pk.Stream.part(pk.Series.of(DAY), "2026-11-20")


def test_days_are_those_of_the_clocks_of_a_zone():
    paris = hourly(
        3, "2026-10-23 22:00", "Europe/Paris"
    )  # midnight there; a day of 25 hours follows
    assert len(pk.Stream.part(paris, "2026-10-24")) == 24
    assert len(pk.Stream.part(paris, "2026-10-25")) == 25
    utc = ("2026-10-24T00:00+00:00", "2026-10-25T00:00+00:00")
    assert pk.Stream.part(paris, utc).calendar.starts == (
        paris.calendar.starts[0] + 2 * 3_600_000_000,
    )


def test_a_second_name_for_the_same_data_is_refused(stream, book):
    first = hourly(30)
    query = pk.histogram([0, 1], first)
    month = ("2026-11-15", "2026-12-15")
    stream.release(query, first, month)
    with pytest.raises(ValueError, match="two names"):
        pk.Stream(CHAIN, 1.0, book, name="nora").release(query, first, month)
    with pytest.raises(ValueError, match="two names"):
        Asking(first, CHAIN, 1.0, book, name="bob").release(query, 0.1)
    pk.Stream(CHAIN, 1.0, book, name="nora", data_meant=True).release(query, first, month)
    short = pk.Stream(CHAIN, 1.0, book, name="carl")
    short.release(HOW, DAY, days(1)[0], every="4h")
    pk.Stream(CHAIN, 1.0, book, name="dora").release(
        HOW, DAY, days(1)[0], every="4h"
    )  # equal by chance
    assert stream.ledger.verify() == []


windows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(1, 100)), min_size=1, max_size=12
)


@settings(max_examples=200, deadline=None)
@given(windows)
def test_the_frontier_never_lets_an_entry_spend_more_than_the_rate(moves):
    frontier, begin, spent = Frontier(10**6, 100), 1, np.zeros(100, dtype=int)
    for step, length, amount in moves:
        first = begin + step
        allowed = spent[first : first + length].max() + amount <= 100
        try:
            frontier = frontier.after(Use("entries", first, first + length, amount))
        except pk.OverBudget:
            assert not allowed
            continue
        assert allowed
        spent[first : first + length] += amount
        begin = first
        ends = [first, *(end for end, _ in frontier.runs)]
        for (_, own), start, end in zip(frontier.runs, ends, ends[1:], strict=False):
            assert set(spent[start:end]) == {own}
        assert not spent[ends[-1] :].any()


# -- the same rows as another window --------------------------------------------------------------

LONG = CHAIN.sample(600, seed=5).tolist()
OF_LONG = pk.histogram([0, 1], 600)


def test_the_rows_of_one_window_are_refused_as_those_of_another(stream):
    stream.release(OF_LONG, LONG, (1, 600))
    stream.release(OF_LONG, CHAIN.sample(600, seed=6).tolist(), (601, 1200))
    before = stream.ledger.entries()
    with pytest.raises(ValueError, match="another window of 'anna'"):
        stream.release(OF_LONG, LONG, (1201, 1800))
    assert stream.ledger.entries() == before
    meant = pk.Stream(CHAIN, 1.0, stream.ledger, name="anna", data_meant=True)
    meant.release(OF_LONG, LONG, (1201, 1800))
    stream.release(OF_LONG, CHAIN.sample(600, seed=7).tolist(), (1801, 2400))
    assert stream.ledger.verify() == []


def test_several_answers_about_one_window_and_overlapping_windows_are_no_second_window(stream):
    for label in "ab":
        stream.release(OF_LONG, LONG, (1, 600), share=0.25, label=label)
    stream.release(OF_LONG, LONG, (2, 601), share=0.25)
    with pytest.raises(ValueError, match="another window"):
        stream.release(OF_LONG, LONG, (700, 1299), share=0.25)
    assert stream.ledger.verify() == []


def test_windows_that_are_equal_by_chance_or_habit_are_taken(stream):
    habit = ([0] * 9 + [1] * 8 + [0] * 7) * 60
    many = pk.histogram([0, 1], len(habit))
    for n in range(3):
        stream.release(HOW, DAY, (6 * n + 1, 6 * n + 6))
    for n in range(1, 4):
        stream.release(many, habit, (2000 * n, 2000 * n + len(habit) - 1))
    assert not [e for e in stream.ledger.entries() if e.kind == "rows"]
