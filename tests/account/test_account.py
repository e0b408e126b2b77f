"""An account that goes on: growth, later parts by the clock, restarts, and what it has promised."""

import json
import multiprocessing
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pufferkit as pk
from pufferkit.mechanisms.influence_curve import HORIZON, endless
from tests.account.test_going_on import CASES

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
SLOW = pk.MarkovChain.steady([[0.999, 0.001], [0.001, 0.999]])


@pytest.fixture
def account(tmp_path):
    return pk.Account(str(tmp_path / "ledger.db"), "anna", 1.0)


def hourly(days, first="2026-11-15", chain=CHAIN, zone=None, seed=0):
    codes = chain.sample(24 * days, seed=seed)
    when = pk.Calendar(first, "1h", zone)
    return pk.Series(codes, chain.states, (24 * days,), calendar=when)


def day(series, number, length=24):
    return series.window(length * number + 1, length * (number + 1))


def test_a_question_a_day_costs_its_epsilon_once(account):
    whole = hourly(60)
    scales, spent = set(), []
    for n in range(60):
        release = pk.release(day(whole, n), CHAIN, pk.histogram(), 1.0, account=account)
        scales.add(release.scale)
        spent.append(account.spent)
    assert len(scales) == 1
    assert spent[0] <= spent[-1] == 1.0
    assert release.evidence.horizon == HORIZON
    assert pk.verify(json.loads(release.to_json())).ok
    assert account.history[-1]["window"] == (24 * 59 + 1, 24 * 60)
    with pytest.raises(pk.OverBudget):
        pk.release(day(whole, 3), CHAIN, pk.count(1), 0.2, account=account)
    assert account.ledger.verify() == []


@pytest.mark.slow
def test_priced_day_by_day_a_slow_chain_would_cost_far_more(tmp_path):
    account = pk.Account(str(tmp_path / "l.db"), "slow", 9.0)
    data = SLOW.sample(24 * 40, seed=1).tolist()
    for n in range(40):
        window = (24 * n + 1, 24 * n + 24)
        pk.release(data, SLOW, pk.count(1), 1.0, account=account, window=window, anyway=True)
    assert account.spent <= 1.0
    noise = pk.influence_curve(SLOW, pk.count(1, 24), 1.0)
    days = [pk.Spending.of(noise, (24 * n + 1, 24 * n + 24)) for n in range(40)]
    assert pk.compose(days, SLOW, 24 * 40).epsilon > 1.5


def test_later_parts_are_placed_by_the_clock(account):
    whole = hourly(9)
    for n in (0, 4, 2, 8):  # in any order, with days between that were never asked
        pk.release(day(whole, n), CHAIN, pk.histogram(), 0.3, account=account)
    assert [row["window"] for row in account.history] == [(1, 24), (97, 120), (49, 72), (193, 216)]
    assert {row["last"]: row["event_epsilon"] > 0 for row in account.profile}[48] is False
    again = pk.release(day(whole, 4), CHAIN, pk.histogram(), 0.3, account=account)
    assert len(account.history) == 4
    # The whole series from its beginning on is the same account, and the same day the same answer.
    window = (97, 120)
    same = pk.release(whole, CHAIN, pk.histogram(), 0.3, account=account, window=window)
    assert same.raw == again.raw
    pk.release(whole, CHAIN, pk.count(0), 0.3, account=account)
    assert account.ledger.verify() == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: hourly(1, "2026-11-16 00:30"), "between its entries"),
        (lambda: hourly(1, "2026-11-14"), "before its first entry"),
        (lambda: hourly(1, "2026-11-16", zone="Europe/Paris"), "zone"),
        (lambda: pk.Series.of([0, 1] * 12, [0, 1]), "origin"),
        (lambda: pk.Series([0, 1], (0, 1), (2,), calendar=pk.Calendar("2026-11-17", "2h")), "step"),
        (
            lambda: pk.Series(
                [0, 1], (0, 1), (1, 1), calendar=pk.Calendar(["2026-11-17", "2026-11-19"], "1h")
            ),
            "several segments",
        ),
    ],
)
def test_data_on_another_clock_are_refused(account, other, words):
    pk.release(hourly(1), CHAIN, pk.histogram(), 0.3, account=account)
    before = account.ledger.entries()
    with pytest.raises(ValueError, match=words):
        pk.release(other(), CHAIN, pk.histogram(), 0.3, account=account)
    assert account.ledger.entries() == before


def test_the_rows_of_one_day_are_refused_as_those_of_another(tmp_path):
    account = pk.Account(str(tmp_path / "l.db"), "anna", 9.0)
    june = hourly(30, "2026-06-01")
    pk.release(june, CHAIN, pk.histogram(), 0.3, account=account)
    july = pk.Series(june.codes, (0, 1), june.lengths, calendar=pk.Calendar("2026-07-01", "1h"))
    with pytest.raises(ValueError, match="another window of 'anna'"):
        pk.release(july, CHAIN, pk.histogram(), 0.3, account=account)
    meant = pk.Account(account.ledger, "anna", 9.0, confirm_data=True)
    pk.release(july, CHAIN, pk.histogram(), 0.3, account=meant)


def test_a_series_that_grew_pays_for_its_new_entries(account):
    data = CHAIN.sample(600, seed=3).tolist()
    first = pk.release(data[:300], CHAIN, pk.histogram(), 0.5, account=account)
    spent = account.spent
    window = (301, 600)
    pk.release(data, CHAIN, pk.histogram(), 0.5, account=account, window=window)
    assert account.spent <= 0.5 == pytest.approx(spent, abs=1e-5)
    # Still there, and still the same: the window tells, not the length of the series.
    again = pk.release(data, CHAIN, pk.histogram(), 0.5, account=account, window=(1, 300))
    assert again.raw == first.raw
    for wrong in (data[:299], [1 - data[0], *data[1:]], [data[:200], data[200:]]):
        with pytest.raises(ValueError, match="grow"):
            pk.release(wrong, CHAIN, pk.count(1), 0.1, account=account)
    assert account.ledger.verify() == []


def test_marks_of_longer_data_stay(account):
    data = CHAIN.sample(600, seed=3).tolist()
    pk.release(data, CHAIN, pk.histogram(), 0.2, account=account, window=(1, 300))
    pk.release(data[:400], CHAIN, pk.count(1), 0.2, account=account, window=(1, 300))
    changed = [*data[:500], 1 - data[500], *data[501:]]
    with pytest.raises(ValueError, match="entries 1 to 600 of 'anna' differ"):
        pk.release(changed, CHAIN, pk.count(1), 0.2, account=account, window=(1, 299))


def test_segments_restart_and_the_last_one_grows(account):
    a, b = [0, 1, 1, 0] * 10, [1, 0, 0, 1] * 10
    pk.release([a, b], CHAIN, pk.histogram(), 0.3, account=account)
    pk.release([a, b + b, a], CHAIN, pk.histogram(), 0.3, account=account, window=(81, 160))
    with pytest.raises(ValueError, match="other segments"):
        pk.release([a + b, b], CHAIN, pk.histogram(), 0.1, account=account)
    assert account.spent <= 0.3
    assert account.ledger.verify() == []


def test_beliefs_that_do_not_mix_have_a_horizon(tmp_path):
    stay = pk.ChainClass.any_start(np.eye(2))
    account = pk.Account(str(tmp_path / "l.db"), "fixed", 2.0)
    data = [0, 1] * 6
    release = pk.release(data, stay, pk.count(1), 1.0, account=account, anyway=True)
    assert release.evidence.horizon == 12
    assert pk.verify(release).ok
    with pytest.raises(ValueError, match="horizon"):
        pk.release([*data, 0], stay, pk.count(1), 1.0, account=account)
    declared = pk.Account(account.ledger, "declared", 2.0, horizon=24, confirm_data=True)
    pk.release(data, stay, pk.count(1), 1.0, account=declared, anyway=True)
    later = pk.release(
        data * 2, stay, pk.count(1), 1.0, account=declared, window=(13, 24), anyway=True
    )
    assert later.scale > 1.9 * release.scale
    assert declared.spent <= 1.0
    with pytest.raises(ValueError, match="horizon"):  # what goes on for ever covers no more
        declared.charge(0.01, window=(25, 26))
    with pytest.raises(ValueError, match="at least 1"):
        pk.Account(account.ledger, "none", 2.0, horizon=0)


def test_an_account_tells_and_charges_without_its_beliefs(account):
    pk.release(hourly(2), CHAIN, pk.histogram(), 0.3, account=account)
    known = pk.Account(account.ledger, "anna", 1.0)
    assert known.beliefs.digest == pk.ChainClass.of(CHAIN).digest
    assert known.profile == account.profile
    assert known.charge(0.05, window=(49, 60), label="library") == 0  # nowhere above what was
    assert known.charge(0.05, window=(1, 12), label="library") > 0.05
    assert known.profile[-1]["last"] == 60
    with pytest.raises(ValueError, match="paid for nothing"):
        pk.Account(account.ledger, "new", 1.0).charge(0.1, window=(1, 2))
    with pytest.raises(ValueError, match="window"):
        known.charge(0.1)
    assert account.ledger.verify() == []


@pytest.mark.parametrize(
    "beliefs",
    [beliefs for beliefs, _, _ in CASES.values()]
    + [pk.ChainClass.around([[90, 10], [20, 80]], 0.9)],
    ids=str,
)
def test_the_ledger_keeps_beliefs_of_every_class(beliefs, tmp_path):
    theta = pk.ChainClass.of(beliefs) if isinstance(beliefs, pk.MarkovChain) else beliefs
    account = pk.Account(str(tmp_path / "l.db"), "anna", 9.0)
    account.charge(0.01, window=(1, 4), beliefs=theta)
    assert pk.Account(account.ledger, "anna", 9.0).beliefs.digest == theta.digest


def _ask(place):
    warnings.simplefilter("ignore")
    account = pk.Account(place, "anna", 1.0)
    data = hourly(6)
    return [
        pk.release(day(data, n), CHAIN, pk.histogram(), 0.4, account=account).raw for n in range(6)
    ]


@pytest.mark.slow
def test_processes_that_go_on_at_once_draw_each_day_once(tmp_path):
    place = str(tmp_path / "ledger.db")
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        seen = pool.map(_ask, [place] * 4)
    assert all(values == seen[0] for values in seen)
    with pk.Ledger(place) as ledger:
        assert ledger.verify() == []
        assert sum(entry.kind == "charge" for entry in ledger.entries("anna")) == 6
        assert ledger.account("anna").total <= 400_000


@pytest.mark.parametrize(
    "case", [n if n == "steady" else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_no_entry_loses_more_than_an_account_has_charged(case, tmp_path):
    """Twenty windows, each asked the question that hurts most, with outputs that do."""
    beliefs, told, states = CASES[case]
    length, count = 2, 20
    theta = pk.ChainClass.of(beliefs) if isinstance(beliefs, pk.MarkovChain) else beliefs
    asked = [pk.count(x, length) for x in range(states)] + [pk.total(list(range(states)), length)]
    sums = [tuple(int(y == x) for y in range(states)) for x in range(states)]
    sums.append(tuple(range(states)))
    noise = [endless(theta, query, 1.0).scale for query in asked]
    chain = told()
    _, worst = chain.climb(count, length, count, list(zip(sums, noise, strict=True)))
    account = pk.Account(str(tmp_path / "l.db"), "anna", 99.0)
    data = [0] * (count * length)
    late = theta.fixed_start is None
    for n, window in enumerate(worst if late else worst[:1]):
        bounds, query = (length * n + 1, length * (n + 1)), asked[sums.index(window.values)]
        pk.release(data, beliefs, query, 1.0, account=account, window=bounds, anyway=True)
    assert account.spent * (1 + 1e-9) >= chain.losses(worst if late else worst[:1]).max()


windows = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 6), st.sampled_from(["a", "b"]), st.booleans()),
    min_size=1,
    max_size=6,
)


@settings(max_examples=10, deadline=None)
@given(windows)
def test_any_order_of_windows_is_charged_at_least_its_profile(tmp_path_factory, moves):
    account = pk.Account(str(tmp_path_factory.mktemp("l") / "l.db"), "anna", 99.0)
    data, history = [0, 1, None, 1, 0, 0] * 3, set()
    for first, size, label, whole in moves:
        window = (first, min(18, first + size))
        query = pk.histogram() if whole else pk.count(1)
        cost = account.cost(data, CHAIN, query, 0.5, window=window, label=label)
        before = account.spent
        pk.release(
            data, CHAIN, query, 0.5, account=account, window=window, label=label, anyway=True
        )
        assert account.spent == pytest.approx(before + cost, abs=1e-9)
        history.add((window, label, whole))
    assert len(account.history) == len(history)
    assert account.spent >= max(row["epsilon"] for row in account.profile) - 2e-6
    assert account.ledger.verify() == []
