"""Columns by their names and first cells."""

import pytest

from pufferkit.data.roles import guess

TIMES = ["2024-03-04T00:00", "2024-03-04T00:05"]


@pytest.mark.parametrize(
    ("cells", "state", "time", "subject", "numbers"),
    [
        ({"time": TIMES, "activity": ["rest", "walk"]}, "activity", "time", "", ()),
        (
            {"person": ["a", "a"], "when": TIMES, "activity": ["rest", "walk"]},
            *("activity", "when", "person", ()),
        ),
        (
            {"Date": ["16/12/2006", "16/12/2006"], "power": ["4,216", "5.36"]},
            *("power", "Date", "", ("power",)),
        ),
        (
            {
                "Date": ["16/12/2006"] * 2,
                "Time": ["17:24:00", "17:25:00"],
                "Sub_metering_1": [0, 1],
            },
            *("Sub_metering_1", "Date,Time", "", ("Sub_metering_1",)),
        ),
        (
            {"seqn": [21005, 21005], "paxday": [1, 1], "paxinten": [0, 22]},
            *("paxinten", "", "seqn", ("seqn", "paxday", "paxinten")),
        ),
        (
            {"1": [57363.0 + n for n in range(30)], "2": [61.4] * 30},
            *("2", "1", "", ("1", "2")),
        ),
        (  # a column for each home: decimals are no names
            {"hour": TIMES, "home 1": ["0.25", "1.1"], "home 2": ["0.5", "0.7"]},
            *("home 1", "hour", "", ("home 1", "home 2")),
        ),
        (  # row names are no states, and few values come before many
            {
                "index": list(range(1, 61)),
                "date": [f"2024-03-04 00:{n:02}" for n in range(60)],
                "warm": [20 + n / 9 for n in range(60)],
                "inside": [0] * 60,
            },
            *("inside", "date", "", ("index", "warm", "inside")),
        ),
        (
            {
                "index": list(range(60)),
                "ts": [1709510400000 + 60000 * n for n in range(60)],
                "litres": ["2.42", "0"] * 30,
            },
            *("litres", "ts", "", ("index", "ts", "litres")),
        ),
        ({"time": ["1", "2", "3"], "steps": [4, 0, 9]}, "steps", "time", "", ("time", "steps")),
        ({"note": ["x", "y"], "state": [0, 1]}, "state", "", "", ("state",)),
        ({"a": ["x", "y"]}, "a", "", "", ()),
        ({"t": TIMES}, "", "t", "", ()),
    ],
)
def test_roles_of_columns(cells, state, time, subject, numbers):
    found = guess(cells)
    assert (found.state, found.time, found.subject, found.numbers) == (
        *(state, time, subject, numbers),
    )
