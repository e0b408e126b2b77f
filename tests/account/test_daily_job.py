"""The daily job of ``examples/daily_stream.py``: exactly once a window, whatever happens."""

import importlib.util
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import pufferkit as pk

ROOT = Path(__file__).parents[2]
CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "walk"])
START = datetime(2026, 11, 16)


@pytest.fixture
def job():
    spec = importlib.util.spec_from_file_location("daily", ROOT / "examples" / "daily_stream.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "anna").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "model.json").write_text(pk.ChainClass.of(CHAIN).to_json())
    for n in range(3):
        write(tmp_path, n)
    return tmp_path


def rows(day, count=144, offset=0):
    begin = START + timedelta(days=day)
    codes = CHAIN.sample(count, seed=day)
    times = (begin + timedelta(minutes=10 * k + offset) for k in range(count))
    return [(when, CHAIN.states[code]) for when, code in zip(times, codes, strict=True)]


def write(folder, day, more=()):
    lines = [f"{when.isoformat()},{state}" for when, state in [*more, *rows(day)]]
    name = (START + timedelta(days=day)).date().isoformat()
    (folder / "anna" / f"{name}.csv").write_text("\n".join(["time,state", *lines, ""]))


def run(job, folder, **options):
    names = [str(folder / part) for part in ("anna", "model.json", "l.db", "out")]
    return {p.stem: json.loads(p.read_text())["raw"] for p in job(*names, **options)}


def test_a_day_is_drawn_once_however_often_the_job_runs(job, folder):
    first = run(job, folder)
    assert sorted(first) == ["2026-11-16", "2026-11-17", "2026-11-18"]
    write(folder, 3)
    (folder / "out" / "2026-11-17.json").unlink()  # lost after the commit: given as it is
    again = run(job, folder)
    assert {day: again[day] for day in first} == first
    with pk.Ledger(folder / "l.db") as ledger:
        assert ledger.verify() == []
        assert ledger.account("anna").total <= 10**6
        assert sum(entry.kind == "charge" for entry in ledger.entries("anna")) == 4
    for path in (folder / "out").glob("*.json"):
        assert pk.verify(path).ok


def test_a_crash_between_commit_and_file_loses_nothing(job, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", crash)
        with pytest.raises(KeyboardInterrupt):
            run(job, folder)
    first = run(job, folder)
    with pk.Ledger(folder / "l.db") as ledger:
        stored = [entry.value["raw"] for entry in ledger.entries("anna")]
    assert stored == list(first.values())


def crash(*_arguments, **_options):
    raise KeyboardInterrupt


def test_late_rows_are_left_out_of_the_day(job, folder):
    first = run(job, folder)
    write(folder, 3, more=rows(2)[-5:])
    again = run(job, folder)
    assert len(again) == 4
    assert {day: again[day] for day in first} == first
