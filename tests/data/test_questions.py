"""Questions about time and moves: answers, bounds for one entry, and losses, by the definition."""

from datetime import datetime, timedelta

import numpy as np
import pytest

import pufferkit as pk
from tests.oracles import asked

WHEN = pk.Calendar("2024-03-04 21:00", every="1h")  # a Monday evening; midnight after 3 entries
STATES = (0, 1, 2)
CASES = {
    "by hour of week": (
        lambda over: pk.by_time("weekday and hour", STATES, over, WHEN),
        None,
    ),
    "by day": (
        lambda over: pk.by_time("day", STATES, over, WHEN),
        lambda data: asked.by_slot(data, [0, 0, 0, 1, 1][: len(data)], 3),
    ),
    "own slots": (
        lambda over: pk.by_time(list("ababa"), STATES, over),
        lambda data: asked.by_slot(data, list("ababa"), 3),
    ),
    "transitions": (
        lambda over: pk.transition_counts(STATES, over),
        lambda data: asked.transitions(data, [5], 3),
    ),
    "episodes": (
        lambda over: pk.episodes(1, over),
        lambda data: [asked.episodes(data, [5], {1})],
    ),
    "episodes of two": (
        lambda over: pk.episodes([0, 2], over),
        lambda data: [asked.episodes(data, [5], {0, 2})],
    ),
    "stays": (
        lambda over: pk.stays(2, over),
        lambda data: [sum(x == 2 for x in data), asked.episodes(data, [5], {2})],
    ),
    "time in": (
        lambda over: pk.time_in(1, over, start="22:00", end="01:00", calendar=WHEN),
        lambda data: [sum(x == 1 for x in data[1:4])],
    ),
    "days with": (
        lambda over: pk.days_with([1, 2], "2h", over, calendar=WHEN),
        lambda data: [asked.days_with(data, [0, 0, 0, 1, 1], {1, 2}, 2)],
    ),
    "share of days": (
        lambda over: pk.days_with([1, 2], 2, over, calendar=WHEN, share=True),
        lambda data: [asked.days_with(data, [0, 0, 0, 1, 1], {1, 2}, 2) / 2],
    ),
}


def over(missing=()):
    """A series of five entries with these gaps, to make questions with."""
    return pk.Series.of([[None if t in missing else t % 3 for t in range(5)]], STATES)


def test_the_loss_of_transition_counts_of_two_states():
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]])
    query = pk.transition_counts((0, 1), [3, 2])
    scale = pk.influence_curve(chain, query, 1).scale
    answer = lambda data: asked.transitions(data, [3, 2], 2)  # noqa: E731
    largest = asked.loss(chain.initial, chain.transition, answer, [3, 2], np.full(4, scale))
    assert 0.3 < largest <= 1
    assert asked.furthest(answer, 5, 2).max() == 4


def test_states_that_do_not_count_are_not_told_apart():
    """Per pair of states: noise for episodes of a rare state is less than for any 1-Lipschitz."""
    chain = pk.MarkovChain.steady(
        [[0.9, 0.09, 0.01], [0.1, 0.89, 0.01], [0.3, 0.3, 0.4]], states=["a", "b", "c"]
    )
    own = pk.Query("own", lambda entries: 0.0, 1, 200)
    assert (
        pk.influence_curve(chain, pk.episodes("c", 200), 1).scale
        < 0.5 * pk.influence_curve(chain, own, 1).scale
    )


def test_all_slots_cost_what_one_histogram_costs():
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]])
    when = pk.Calendar("2024-01-01", every="10m")
    length = 6 * 24 * 28
    scale = pk.influence_curve(chain, pk.histogram((0, 1), length), 1).scale
    for by in ("hour", "weekday and hour", "day", "week"):
        query = pk.by_time(by, (0, 1), length, when)
        assert pk.influence_curve(chain, query, 1).scale == scale
    assert query.question["slots"][0] == "week of 2024-01-01"
    assert query.question["observed"] == [6 * 24 * 7] * 4


@pytest.mark.parametrize("name", CASES)
def test_mechanisms_of_sums_say_that_they_do_not_apply(name):
    chain = pk.MarkovChain.steady([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    query = CASES[name][0](5)
    summed = query.asks.additive(chain.states) is not None or "days" in name
    for mechanism in (pk.wasserstein,) if summed else (pk.exact_sum, pk.wasserstein):
        with pytest.raises(pk.NotApplicable, match=r"sum|number|coordinates"):
            mechanism(chain, query, 1)


def test_hours_need_a_clock_and_say_so():
    for ask in (
        lambda: pk.by_time("hour", STATES, 5),
        lambda: pk.days_with(1, "30m", 5),
        lambda: pk.time_in(1, pk.Series.of([0, 1, 2])),
    ):
        with pytest.raises(ValueError, match=r"calendar: .* give calendar=Calendar"):
            ask()


def test_each_slot_is_shown_as_its_nearest_histogram():
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]])
    series = pk.Series.of([[0, 1, None, 0, 0, 1] * 8])
    when = pk.Calendar("2024-01-01", every="1h")
    release = pk.influence_curve(chain, pk.by_time("day", (0, 1), series, when), 1).release(series)
    assert np.reshape(release.value, (2, 2)).sum(axis=1) == pytest.approx([20, 20])
    assert all(0 <= low <= high <= 20 for low, high in release.interval())
    other = pk.Series.of([[0, 1, 1, 0, None, 1] * 8])
    with pytest.raises(ValueError, match="not observed"):
        pk.influence_curve(chain, pk.by_time("day", (0, 1), series, when), 1).release(other)


def test_clocks_of_a_zone_and_of_windows():
    """23 hours on the day when clocks are put forward, 25 when they are put back."""
    when = pk.Calendar("2024-03-30 23:00", every="1h", timezone="Europe/Berlin")
    assert when.hours([5]).tolist() == [0, 1, 3, 4, 5]
    assert np.bincount(when.days([47]) - when.days([47])[0]).tolist() == [23, 24]
    assert when.window([10], 3, 5).hours([3]).tolist() == [3, 4, 5]
    two = pk.Calendar([datetime(2024, 1, 1), datetime(2024, 1, 3, 12)], timedelta(hours=6))
    assert two.hours([2, 3]).tolist() == [0, 6, 12, 18, 0]
    assert two.window([2, 3], 2, 3).starts == (two.starts[0] + 6 * 3_600_000_000, two.starts[1])
    for bad in ("soon", 1.5, datetime.fromisoformat("2024-01-01T00:00+01:00")):
        with pytest.raises(ValueError, match="starts: "):
            pk.Calendar(bad, "1h")
    with pytest.raises(ValueError, match="timezone: 'Mars'"):
        pk.Calendar("2024-01-01", "1h", "Mars")


def test_a_series_knows_its_calendar_from_its_file(tmp_path):
    path = tmp_path / "walk.csv"
    rows = [f"2024-03-04 {8 + n // 2:02d}:{30 * (n % 2):02d},{'ab'[n % 2]}" for n in range(8)]
    path.write_text("\n".join(["time,state", *rows]) + "\n")
    for series in (
        pk.read(path, state="state", time="time"),
        pk.read(path, subject="file", state="state", time="time").series(),
    ):
        query = pk.by_time("hour", ["a", "b"], series)
        assert query.question["observed"][8:12] == [2, 2, 2, 2]
        assert series.window(3, 8).calendar.hours([6]).tolist() == [9, 9, 10, 10, 11, 11]
    numbers = pk.read(path, state="state", time=None, every=1)
    assert numbers.calendar is None
