"""Beliefs know the time between the entries they are about, and keep it."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import pufferkit as pk

FIVE = [[0.9, 0.1], [0.4, 0.6]]
OTHER = [[0.8, 0.2], [0.3, 0.7]]
EMISSION = [[0.8, 0.2], [0.3, 0.7]]


def _series(every: str = "5m", length: int = 300, seed: int = 1) -> pk.Series:
    codes = pk.MarkovChain.steady(FIVE).sample(length, seed=seed)
    return pk.Series(codes, (0, 1), (length,), calendar=pk.Calendar("2024-03-04", every))


def _table(minutes: int, people: int = 3, length: int = 300) -> pk.Table:
    first, rows = datetime(2024, 3, 4), []
    for person in range(people):
        codes = pk.MarkovChain.steady(FIVE).sample(length, seed=person)
        rows += [
            (f"p{person}", first + timedelta(minutes=minutes * n), int(code))
            for n, code in enumerate(codes)
        ]
    frame = pl.DataFrame(rows, schema=["who", "when", "x"], orient="row")
    return pk.read(frame, subject="who", time="when", state="x", states=[0, 1])


CLASSES = {
    "of": lambda step: pk.ChainClass.of(pk.MarkovChain.steady(FIVE), step=step),
    "of chains": lambda step: pk.ChainClass.of(
        pk.MarkovChain.steady(FIVE, step=step), pk.MarkovChain([1, 0], OTHER, step=step)
    ),
    "any_start": lambda step: pk.ChainClass.any_start(FIVE, OTHER, step=step),
    "binary": lambda step: pk.ChainClass.binary(0.1, 0.9, step=step),
    "mixing": lambda step: pk.ChainClass.mixing(2, 0.2, 0.3, step=step),
    "around": lambda step: pk.ChainClass.around([[900, 100], [80, 120]], 0.95, step=step),
    "seasonal": lambda step: pk.ChainClass.seasonal([FIVE, OTHER], period=4, step=step),
    "hull": lambda step: pk.ChainClass.hull(
        pk.MarkovChain.steady(FIVE), pk.MarkovChain.steady(OTHER), step=step
    ),
    "order": lambda step: pk.ChainClass.order(
        2, [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]], step=step
    ),
    "regimes": lambda step: pk.RegimeClass(FIVE, EMISSION, step=step),
    "regimes of": lambda step: pk.RegimeClass.of(
        pk.RegimeClass(FIVE, EMISSION, step=step), pk.RegimeClass(OTHER, EMISSION, step=step)
    ),
    "regimes hull": lambda step: pk.RegimeClass.hull_of(
        pk.RegimeClass(FIVE, EMISSION, step=step), pk.RegimeClass(OTHER, EMISSION, step=step)
    ),
    "secrets": lambda step: pk.ChainClass.of(pk.MarkovChain.steady(FIVE, step=step)).with_secrets(
        pk.Secrets.runs(2)
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_a_step_and_json_keeps_it(name):
    timed, plain = CLASSES[name]("5m"), CLASSES[name](None)
    assert (timed.step, plain.step) == (300.0, None)
    assert type(timed).from_json(timed.to_json()).step == 300.0
    assert type(plain).from_json(plain.to_json()).step is None
    assert timed.to_dict() != plain.to_dict()
    assert plain.with_step(300).to_dict() == timed.to_dict()
    with pytest.raises(ValueError, match="step"):
        timed.with_step("1m")


def test_a_step_is_seconds_or_text():
    for step in (60, 60.0, "1m", "60s", timedelta(minutes=1)):
        assert pk.MarkovChain.steady(FIVE, step=step).step == 60.0
    for wrong in ("soon", 0, -1, "0m", float("nan"), True):
        with pytest.raises(ValueError, match="step"):
            pk.MarkovChain.steady(FIVE, step=wrong)
    chain = pk.MarkovChain.steady(FIVE, step="5m")
    assert pk.MarkovChain.from_json(chain.to_json()).step == chain.reversal.step == 300.0
    assert pk.MarkovChain.from_dict({**pk.MarkovChain.steady(FIVE).to_dict(), "step": "5m"}).step


def test_members_of_one_class_have_one_step():
    chains = [pk.MarkovChain.steady(FIVE, step=step) for step in ("5m", "1m", None)]
    regimes = [pk.RegimeClass(FIVE, EMISSION, step=step) for step in ("5m", "1m", None)]
    for other in (1, 2):
        for made in (pk.ChainClass.of, pk.ChainClass.hull):
            with pytest.raises(ValueError, match="same time between entries"):
                made(chains[0], chains[other])
        with pytest.raises(ValueError, match="same time between entries"):
            pk.RegimeClass.of(regimes[0], regimes[other])
    assert pk.ChainClass.of(chains[0], chains[2], step="5m").step == 300.0
    with pytest.raises(ValueError, match="same time between entries"):
        pk.ChainClass.of(chains[0], step="1m")


def test_graphs_have_no_step():
    from pufferkit.beliefs.base import as_beliefs

    assert as_beliefs(pk.FiniteJoint({(0, 0): 0.5, (1, 1): 0.5})).step is None


def test_series_and_tables_know_their_step():
    assert _series().step == _series().window(3, 9).step == 300.0
    assert pk.Series.of(_series(), (1, 0)).step == 300.0
    table = _table(5)
    assert table.step == table.series("p0").step == table.all_series.step == 300.0
    numbers = pl.DataFrame({"who": ["a"] * 3, "t": [1, 2, 3], "x": [0, 1, 0]})
    read = pk.read(numbers, subject="who", time="t", state="x", states=[0, 1])
    assert pk.Series.of([0, 1]).step is read.step is None


def test_fits_write_the_step_of_their_data():
    data, table = _series(), _table(5)
    made = [
        pk.fit(data),
        pk.fit(table),
        pk.fit(data, start="first"),
        pk.fit([0, 1, 1, 0, 0], step="5m"),
        pk.ChainClass.around(data, 0.95),
        pk.ChainClass.around(table, 0.95),
        pk.fit(data, "order"),
        pk.fit(table, "order"),
        pk.fit(table, "seasonal"),
        pk.fit(table, "hull"),
        pk.fit(table, "regimes", regimes=2, refitted=0, restarts=1),
        pk.fit([_series(seed=2), _series(seed=3)], "regimes", regimes=2, refitted=0, restarts=1),
        pk.private_transitions(data, 1.0, pk.ChainClass.binary(0.1, 0.9)).region,
    ]
    assert {theta.step for theta in made} == {300.0}
    assert pk.fit([0, 1, 1, 0, 0]).step is None
    with pytest.raises(ValueError, match="step"):
        pk.fit(data, step="1m")
    with pytest.raises(ValueError, match="step"):
        pk.fit([_series("1m"), _series("5m")], "regimes", regimes=2)


@pytest.mark.parametrize("people", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_chosen_beliefs_have_the_step_of_their_people(people):
    days = _table(60, people, 24 * 6)
    choice = pk.choose_beliefs(days, pk.count(1, 48), regimes=(), repetitions=2)
    built = [row.beliefs for row in choice.rows if row.beliefs is not None]
    assert built
    assert {theta.step for theta in built} == {3600.0}


def test_the_claim_by_brute_force():
    """A chain of 5 minutes is not the chain of one minute: the noise of one fails the other."""
    minute = np.array([[0.98, 0.02], [0.02, 0.98]])
    five = np.linalg.matrix_power(minute, 5)
    length, epsilon = 12, 1.0
    query = pk.count(1, length)
    believed = pk.influence_curve(pk.MarkovChain.steady(five), query, epsilon).scale
    needed = pk.influence_curve(pk.MarkovChain.steady(minute), query, epsilon).scale
    assert _loss(five, length, believed) <= epsilon
    assert _loss(minute, length, needed) <= epsilon
    assert _loss(minute, length, believed) > 1.5 * epsilon


def _loss(transition: np.ndarray, length: int, scale: float) -> float:
    """The largest log-ratio of the density of count + Laplace noise, given each entry's value."""
    paths = np.array(np.meshgrid(*[[0, 1]] * length)).reshape(length, -1).T
    weight = 0.5 * np.prod(transition[paths[:, :-1], paths[:, 1:]], axis=1)
    outputs = np.arange(-40 * length, 41 * length) / 2
    noise = np.exp(-np.abs(outputs[:, None] - np.arange(length + 1)) / scale)
    worst = 0.0
    for entry in range(length):
        densities = []
        for value in (0, 1):
            held = paths[:, entry] == value
            sums = np.bincount(paths[held].sum(axis=1), weights=weight[held], minlength=length + 1)
            densities.append(noise @ (sums / sums.sum()))
        inside = (densities[0] > 1e-250) & (densities[1] > 1e-250)
        ratio = np.log(densities[0][inside] / densities[1][inside])
        worst = max(worst, float(np.abs(ratio).max()))
    return worst
