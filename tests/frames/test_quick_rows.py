"""Columns read as arrays give the series that rows read one by one give, errors included."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from pufferkit.frames import read_series, series_files
from pufferkit.frames.quick_rows import quick_series

START = datetime(2024, 2, 28, 23, 50)
FORMS = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y%m%dT%H%M", "number"]


def written(tmp_path, rows):
    path = tmp_path / "rows.csv"
    path.write_text("when,what\n" + "".join(f"{when},{what}\n" for when, what in rows))
    return path


def outcome(path, **options):
    try:
        series = read_series(path, "what", **options)
    except ValueError as error:
        return str(error)
    calendar = None if series.calendar is None else series.calendar.to_dict()
    return series.codes.tolist(), series.states, series.lengths, series.read_as, calendar


def both(path, monkeypatch, **options):
    """What arrays give, if they serve, and what rows give."""
    calls = []
    monkeypatch.setattr(
        series_files, "quick_series", lambda *a: calls.append(quick_series(*a)) or calls[-1]
    )
    quick = outcome(path, **options)
    monkeypatch.setattr(series_files, "quick_series", lambda *_: None)
    assert quick == outcome(path, **options)
    return calls[-1] is not None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("states", [None, range(3), ["0", "1", "2"]])
def test_series_on_a_clock(form, states, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    minutes = np.flatnonzero(rng.random(300) < 0.9)  # gaps, none of them at the start of the year
    cells = rng.choice(["0", "1", "2", ""], len(minutes))
    times = [
        str(minute) if form == "number" else f"{START + timedelta(minutes=int(minute)):{form}}"
        for minute in minutes
    ]
    path = written(tmp_path, zip(times, cells, strict=True))
    assert both(path, monkeypatch, time="when", states=states) == (form != "%Y%m%dT%H%M")
    both(path, monkeypatch, states=states)


SPOILED = {
    "leap second": ["2024-03-04T08:15:00", "2024-03-04T08:15:60"],
    "no such day": ["2024-02-29T08:15:00", "2024-02-30T08:15:00"],
    "not padded": ["2024-03-04T08:15:00", "2024-03-04T8:16:000"],
    "zone": ["2024-03-04T08:15:00", "2024-03-04T08:16:00+01:00"],
    "backwards": ["2024-03-04T08:15:00", "2024-03-04T08:14:00"],
    "twice": ["7", "7"],
    "nothing": ["7", ""],
    "full width": ["7", "８"],
    "uneven": ["1", "2", "3", "5", "6", "7", "8", "11"],
    "no clock": ["1", "3", "8", "20"],
    "long": ["0", "1", "2", "3", "99999999"],
    "one row": ["7"],
}


@pytest.mark.filterwarnings("ignore:.*almost|.*times go in steps")
@pytest.mark.parametrize("name", SPOILED)
def test_times_that_need_a_look(name, tmp_path, monkeypatch):
    path = written(tmp_path, [(time, n % 2) for n, time in enumerate(SPOILED[name])])
    both(path, monkeypatch, time="when")


@pytest.mark.parametrize("cells", [["a", "b", "1"], ["1.0", "2", "01"], ["", "", ""], [" a", "a"]])
@pytest.mark.parametrize("states", [None, ["a", "b"], [1, 2]])
def test_states_that_need_a_look(cells, states, tmp_path, monkeypatch):
    path = written(tmp_path, enumerate(cells))
    both(path, monkeypatch, states=states)
    both(path, monkeypatch, time="when", states=states)
