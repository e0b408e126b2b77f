"""Data with another step than the beliefs are refused wherever the two meet."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.beliefs.base import as_beliefs
from tests.asking import Asking, for_all, for_each
from tests.strategies.command_line import good, refusal

ROWS = [[0.9, 0.1], [0.4, 0.6]]
CHAIN = pk.MarkovChain.steady(ROWS, step="5m")
PLAIN = pk.MarkovChain.steady(ROWS)
LENGTH = 288
CODES = PLAIN.sample(LENGTH, seed=1)
ANOTHER = "5m apart"
"""In every refusal."""


def release(data, beliefs, query, epsilon) -> pk.Release:
    return pk.influence_curve(beliefs, query, epsilon).release(data)


def series(every: str | None) -> pk.Series:
    when = None if every is None else pk.Calendar("2026-11-16", every)
    return pk.Series(CODES, (0, 1), (LENGTH,), calendar=when)


def frame(minutes: float, subjects: int = 2) -> pl.DataFrame:
    first = datetime(2026, 11, 16)
    times = [first + timedelta(minutes=minutes * n) for n in range(LENGTH)]
    one = pl.DataFrame({"when": times, "x": CODES})
    return pl.concat([one.with_columns(who=pl.lit(f"s{n}")) for n in range(subjects)])


def table(minutes: float) -> pk.Table:
    return pk.read(frame(minutes), subject="who", time="when", state="x", states=[0, 1])


def _session(data, beliefs, path):
    query = pk.count(1, LENGTH)
    return Asking(data, beliefs, 1.0, str(path / "l.db")).release(query, 0.5)


WAYS = {
    "mechanism": lambda data, beliefs, _: pk.influence_curve(beliefs, pk.count(1, data), 1.0),
    "plan": lambda data, beliefs, _: pk.plan(beliefs, pk.count(1, data), 1.0),
    "release": lambda data, beliefs, _: release(data, beliefs, pk.count(1, LENGTH), 1.0),
    "session": _session,
    "dashboard": lambda data, beliefs, _: pk.plan(
        beliefs, {"time": (pk.count(1, LENGTH), 60)}
    ).release(data),
    "dashboard over data": lambda data, beliefs, _: pk.plan(
        beliefs, {"time": (pk.count(1, data), 60)}
    ),
    "check_model": lambda data, beliefs, _: pk.check_model(data, beliefs, repetitions=2),
    "sanitize": lambda data, beliefs, _: pk.local.sanitize(
        data, pk.local.cheapest_noise(beliefs, 8.0, length=LENGTH)
    ),
    "private_transitions": lambda data, beliefs, _: pk.private_transitions(data, 1.0, beliefs),
}


@pytest.mark.parametrize("way", WAYS)
def test_another_step_is_refused(way, tmp_path):
    act = WAYS[way]
    with pytest.raises(ValueError, match=ANOTHER):
        act(series("1m"), CHAIN, tmp_path)
    assert not any(tmp_path.glob("l.db*")) or not pk.Ledger(str(tmp_path / "l.db")).accounts()
    act(series("5m"), CHAIN, tmp_path)


@pytest.mark.parametrize("way", ["release", "session"])
def test_where_a_clock_is_unknown_it_is_said(way, tmp_path):
    for number, (every, beliefs) in enumerate(
        [(None, CHAIN), ("1m", PLAIN), (None, PLAIN), ("5m", CHAIN)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = WAYS[way](series(every), beliefs, folder)
        known = every is not None and beliefs.step is not None
        assert made.step == series(every).step == pk.Release.from_json(made.to_json()).step
        verdict = pk.verify(made)
        assert verdict.ok
        assert any("far apart" in matter for matter in verdict.assumptions) is not known


def test_a_plan_says_what_it_takes_on_trust():
    for data, beliefs, trusted in [
        (LENGTH, CHAIN, True),
        (series("1m"), PLAIN, True),
        (LENGTH, PLAIN, True),
        (series("5m"), CHAIN, False),
    ]:
        assert ("taken on trust" in str(pk.plan(beliefs, pk.count(1, data), 1.0))) is trusted


def test_verify_compares_the_steps_of_the_record():
    honest = release(series("5m"), CHAIN, pk.count(1, LENGTH), 1.0)
    assert pk.verify(honest).ok
    lied = pk.verify(replace(honest, step=60.0))
    assert not lied.ok
    assert any("step" in problem for problem in lied.problems)
    fleet = for_each(table(5), CHAIN, 1.0).to_dict()
    assert pk.verify(fleet).ok
    assert not pk.verify({**fleet, "step": 60.0}).ok
    assert any("far apart" in m for m in pk.verify({**fleet, "step": None}).assumptions)
    for wrong in (0, -1, "soon", [5]):
        for record in (honest.to_dict(), fleet):
            verdict = pk.verify({**record, "step": wrong})
            assert not verdict.ok
            assert "step" in verdict.problems[0]


@pytest.mark.parametrize("act", [for_each, for_all])
def test_tables_with_another_step_are_refused(act, tmp_path):
    for minutes in (1, 2.5):
        with pytest.raises(ValueError, match=ANOTHER):
            act(table(minutes), CHAIN, 1.0)
    book = str(tmp_path / "l.db")
    with pytest.raises(ValueError, match=ANOTHER):
        act(table(1), CHAIN, 1.0, ledger=book, budget=2.0)
    made = act(table(5), CHAIN, 1.0, ledger=book, budget=2.0)
    assert made.step == made.row(0).step == 300.0
    assert pk.verify(made).ok


def test_uneven_times_are_at_no_step(tmp_path):
    times = [datetime(2026, 11, 16) + timedelta(seconds=int(s)) for s in np.cumsum(CODES * 7 + 60)]
    rows = pl.DataFrame({"when": times, "x": CODES, "who": ["a"] * LENGTH})
    rows.write_csv(tmp_path / "d.csv")
    uneven = pk.read(tmp_path / "d.csv", state="x", time="when", states=[0, 1])
    assert uneven.step is None
    with pytest.raises(ValueError, match="unevenly"):
        release(uneven, CHAIN, pk.count(1, LENGTH), 1.0)
    whole = pk.read(rows, subject="who", time="when", state="x", states=[0, 1])
    with pytest.raises(ValueError, match="unevenly"):
        for_each(whole, CHAIN, 1.0)
    release(uneven, PLAIN, pk.count(1, LENGTH), 1.0)
    grid = pk.read(tmp_path / "d.csv", state="x", time="when", states=[0, 1], every="5m")
    release(grid, CHAIN, pk.count(1, grid), 1.0)


def test_the_step_is_among_the_terms_of_an_account(tmp_path):
    book = str(tmp_path / "l.db")
    Asking(series("1m"), PLAIN, 1.0, book).release(pk.count(1, LENGTH), 0.5)
    for other in ("5m", None):
        with pytest.raises(ValueError, match="step"):
            Asking(series(other), PLAIN, 1.0, book).release(pk.count(1), 0.5)
    Asking(series("1m"), PLAIN, 1.0, book).release(pk.count(1), 0.5)
    with pytest.raises(ValueError, match="beliefs"):
        Asking(series("1m"), PLAIN.with_step("1m"), 1.0, book).release(pk.count(1), 0.5)


def test_the_identity_of_beliefs_includes_their_step():
    digests = {as_beliefs(one).digest for one in (PLAIN, CHAIN, PLAIN.with_step("1m"))}
    assert len(digests) == 3
    assert as_beliefs(PLAIN.with_step("5m")).digest == as_beliefs(CHAIN).digest
    theta = pk.ChainClass.binary(0.1, 0.9)
    assert theta.digest != theta.with_step("5m").digest


def test_adversaries_of_another_step_are_not_close():
    pk.closeness(PLAIN, CHAIN, length=3)
    with pytest.raises(ValueError, match=ANOTHER):
        pk.closeness(PLAIN.with_step("1m"), CHAIN, length=3)


def test_a_synthetic_series_has_the_step_of_its_release():
    query = pk.transition_counts([0, 1], series("5m"))
    moves = pk.influence_curve(CHAIN, query, 1.0).release(series("5m"))
    pk.synthetic(moves, 10, calendar=pk.Calendar("2026-01-01", "5m"), seed=1)
    with pytest.raises(ValueError, match="5m"):
        pk.synthetic(moves, 10, calendar=pk.Calendar("2026-01-01", "1m"), seed=1)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A model of 5 minutes fitted on the command line, and data of one minute."""
    monkeypatch.chdir(tmp_path)
    chain = pk.MarkovChain.steady([[0.97, 0.03], [0.03, 0.97]], states=["a", "b"])
    for name, seed in (("public", 1), ("private", 2)):
        codes = chain.sample(1440, seed=seed)
        times = [datetime(2026, 11, 16) + timedelta(minutes=n) for n in range(1440)]
        rows = {"when": times, "x": [chain.states[c] for c in codes], "who": ["s"] * 1440}
        pl.DataFrame(rows).write_csv(tmp_path / f"{name}.csv")
    model = str(tmp_path / "m.json")
    read = ["--state", "x", "--time", "when"]
    good("beliefs", "fit", str(tmp_path / "public.csv"), *read, "--every", "5m", "--out", model)
    assert json.loads((tmp_path / "m.json").read_text())["step"] == 300
    return tmp_path, [str(tmp_path / "private.csv"), "--model", model, *read]


ASKED = ["--query", "histogram", "--epsilon", "1"]
PAID = ["--ledger", "LEDGER", "--account", "s"]
COMMANDS = {
    "release": ["release", *ASKED],
    "day": ["release", *ASKED, *PAID, "--budget", "1", "--window", "2026-11-16"],
    "each": ["release", *ASKED, "--subject", "who"],
    "session": ["release", *ASKED, *PAID, "--budget", "1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_refuses_another_step(name, files):
    folder, data = files
    words = [str(folder / "l.db") if word == "LEDGER" else word for word in COMMANDS[name]]
    call = [words[0], *data, *words[1:]]
    before = sorted(folder.iterdir())
    assert ANOTHER in refusal(*call)
    assert sorted(p for p in folder.iterdir() if "l.db" not in p.name) == before
    good(*call, "--every", "5m")


def test_a_list_can_say_its_step(tmp_path):
    rows = CODES.tolist()
    release(pk.Series.of(rows, [0, 1], step="5m"), CHAIN, pk.count(1, LENGTH), 1.0)
    minute = pk.Series.of(rows, [0, 1], step=60)
    assert minute.step == minute.window(2, 9).step == pk.Series.of(minute, (1, 0)).step == 60.0
    assert pk.fit(minute).step == 60.0
    with pytest.raises(ValueError, match=ANOTHER):
        release(minute, CHAIN, pk.count(1, LENGTH), 1.0)
    with pytest.raises(ValueError, match="step"):
        pk.Series.of(series("5m"), (0, 1), step="1m")


def test_rows_without_times_say_their_step_by_every(files):
    _, data = files
    call = ["release", *data[:3], "--state", "x", *ASKED]
    assert ANOTHER in refusal(*call, "--every", "1m")
    assert ANOTHER in refusal(*call, "--every", "1m", "--begins", "2026-11-16")
    assert json.loads(good(*call, "--every", "5m"))["step"] == 300.0
    assert json.loads(good(*call))["step"] is None
