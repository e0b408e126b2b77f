"""Many subjects: the noise each needs, accounts that are charged once, runs that can be killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit import noise
from pufferkit.account import subjects as fleet_run
from pufferkit.account.ledger import TableAccounts
from pufferkit.account.subjects import (
    Accounts,
    AskedRows,
    FleetRun,
    Row,
    Used,
)
from pufferkit.beliefs.base import as_beliefs
from pufferkit.beliefs.provenance import PRIVATE_NOTE
from pufferkit.data.exact_rows import Rows, aligned
from pufferkit.fitting.fit import fit
from pufferkit.mechanisms.influence_curve import loss_at
from tests.asking import for_all, for_each

STATES = ("rest", "walk", "run")
BELIEF = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=STATES)


def people(lengths, seed=1):
    """Rows of subjects p0, p1, ... whose segments have these lengths."""
    series = []
    for number, segments in enumerate(lengths):
        now = 0
        for piece, length in enumerate(segments):
            for code in BELIEF.sample(length, seed=seed + 100 * number + piece):
                series.append((f"p{number}", now, STATES[code]))
                now += 1
            now += 10
    return pl.DataFrame(series, schema=["who", "when", "what"], orient="row")


def table_of(frame, **options):
    return pk.read(
        frame,
        subject="who",
        time="when",
        state="what",
        states=STATES,
        independent_after=1,
        **options,
    )


@pytest.fixture
def book(tmp_path):
    with pk.Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger


# -- noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", ["influence_curve", "markov_quilt", "markov_quilt_approx", "gk16", "group_dp"]
)
def test_each_subject_gets_the_noise_of_its_longest_segment(mechanism):
    mild = pk.MarkovChain.steady([[0.55, 0.45], [0.4, 0.6]], states=["a", "b"])
    lengths = [(40,), (3, 7), (1,), (40, 2)]
    rows = [
        (f"p{n}", 100 * k + t, "ab"[t % 2])
        for n, segments in enumerate(lengths)
        for k, length in enumerate(segments)
        for t in range(length)
    ]
    frame = pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")
    table = pk.read(
        frame, subject="who", time="when", state="what", states=["a", "b"], independent_after=1
    )
    histograms = for_each(table, mild, 1, mechanism=mechanism)
    shares = for_each(table, mild, 1, mechanism=mechanism, query="frequencies")
    assert histograms.subjects == ("p0", "p1", "p2", "p3")
    calibrate = getattr(pk, mechanism)
    for number, segments in enumerate(lengths):
        for query, releases in [
            (pk.histogram(["a", "b"], segments), histograms),
            (pk.relative_frequencies(["a", "b"], segments), shares),
        ]:
            alone = calibrate(query, 1) if mechanism == "group_dp" else calibrate(mild, query, 1)
            assert releases.scale[number] == pytest.approx(alone.scale, rel=1e-12)
            assert releases.scale[number] >= alone.scale


@pytest.mark.parametrize("top", [1, 2, 3, 40, 5000, 10**6])
def test_many_lengths_share_few_calibrations_on_the_safe_side(top):
    run = FleetRun.of("each", BELIEF, 1.0, "histogram", "group_dp", "", None)  # noise like lengths
    longest = np.random.default_rng(top).permutation(np.arange(1, min(top, 20_000) + 1))
    longest[0] = top
    used, calibrations = run.calibrations(longest)
    assert len(calibrations) <= 96
    assert set(used.tolist()) == set(calibrations) <= set(longest.tolist())
    assert (used >= longest).all()
    assert (used <= longest * 1.25).all()
    exact, _ = run.calibrations(np.array([7, 100, 2016]))
    assert exact.tolist() == [7, 100, 2016]


CHAINS = [
    BELIEF,
    pk.MarkovChain.steady([[0.99, 0.01], [0.02, 0.98]]),
    pk.MarkovChain([1, 0], [[0.9, 0.1], [0.3, 0.7]]),
    pk.MarkovChain([1, 0, 0], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]),  # periodic
    pk.MarkovChain([0.5, 0.5], [[0.9, 0.1], [0, 1]]),  # absorbing
    pk.ChainClass.any_start([[0.9, 0.1], [0.2, 0.8]]),
    pk.ChainClass.of(BELIEF, pk.MarkovChain.steady(np.full((3, 3), 1 / 3), states=STATES)),
]


def check_shared_noise(chain, mechanism, epsilon, longest):
    """Enough and hardly more, against a calibration for each length.

    A search ends where the loss is below epsilon by no more than 1e-7 of it, so of two lengths with
    the same loss the shorter may have got the larger scale, by as much.
    """
    run = FleetRun.of("each", chain, epsilon, "histogram", mechanism, "", None)
    used, calibrations = run.calibrations(longest)
    # A search ends where the loss, not the scale, is within 1e-7; the loss is what is checked then.
    near = 1e-6 if mechanism == "influence_curve" else 1e-7
    for length, taken in zip(longest.tolist(), used.tolist(), strict=True):
        least, scale = run.calibration(length).scale, calibrations[taken].scale
        assert least * (1 - near) <= scale <= least * 1.02
        if mechanism == "influence_curve":
            query = pk.histogram(chain.states, length)
            assert loss_at(as_beliefs(chain), query, query.lipschitz / scale) <= epsilon


@pytest.mark.parametrize("chain", CHAINS)
def test_shared_noise_is_enough_and_hardly_more(chain):
    check_shared_noise(chain, "markov_quilt", 1, np.unique(np.geomspace(1, 3000, 60).astype(int)))
    check_shared_noise(chain, "influence_curve", 1, np.array([1, 2, 5, 30, 60, 90, 120]))


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("epsilon", [0.01, 10])
def test_shared_noise_is_enough_and_hardly_more_for_many_lengths(chain, epsilon):
    longest = np.unique(np.geomspace(1, 1000, 30).astype(int))
    for mechanism in ("influence_curve", "markov_quilt_approx", "gk16"):
        with suppress(pk.NotApplicable):
            check_shared_noise(chain, mechanism, epsilon, longest)


def test_batched_noise_has_the_promised_scale():
    counts = np.zeros((6000, 2), dtype=np.int64)
    scales = np.where(np.arange(6000) % 2 == 0, 0.7, 30.0)
    noisy = noise.discrete_laplace_rows(counts, scales[:, None])
    for scale in (0.7, 30.0):
        draws = np.abs(noisy[scales == scale]).ravel()
        mean, a = 1 / np.sinh(1 / scale), np.exp(-1 / scale)
        spread = np.sqrt(2 * a / (1 - a) ** 2 - mean**2)  # E Z^2 less the square of the mean
        assert abs(draws.mean() - mean) < 7 * spread / np.sqrt(draws.size)
    assert abs(np.sign(noisy).mean()) < 7 / np.sqrt(noisy.size)
    for wrong in (np.zeros((0, 2), int), np.zeros(3, int), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="rows"):
            noise.discrete_laplace_rows(wrong, np.ones((len(wrong), 1)))
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="scale"):
            noise.discrete_laplace_rows(counts[:2], np.full((2, 1), bad))


def test_one_answer_over_all_subjects():
    frame = people([(200,), (100, 50), (30,)])
    table = table_of(frame)
    release = for_all(table, BELIEF, 30)
    assert len(release) == 1
    assert np.abs(release.value[0] - table.counts.sum(axis=0)).max() < 60 * release.scale[0]
    alone = pk.influence_curve(BELIEF, pk.histogram(STATES, [200, 100, 50, 30]), 30)
    assert release.scale[0] == pytest.approx(alone.scale, rel=1e-7)
    shares = for_all(table, BELIEF, 30, query="frequencies")
    assert shares.scale[0] == pytest.approx(release.scale[0] / 380)
    assert shares.as_histogram().value.sum() == pytest.approx(1)
    weekly = for_all(table_of(frame, window=50), BELIEF, 30)
    assert weekly.entries.sum() == 380
    assert weekly.starts == sorted(weekly.starts)


def test_every_pair_of_states_is_hidden():
    """Two states that swap places: a count of the third would not see them, a histogram does."""
    belief = pk.MarkovChain.steady([[0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], STATES)
    frame = people([(50,), (20,)])
    alone = {n: pk.influence_curve(belief, pk.histogram(STATES, n), 1).scale for n in (50, 20)}
    table = table_of(frame)
    assert for_each(table, belief, 1).scale.tolist() == pytest.approx(
        [alone[50], alone[20]], rel=1e-7
    )
    assert for_all(table, belief, 1).scale[0] == pytest.approx(alone[50], rel=1e-7)


def test_rows_and_histograms():
    releases = for_each(table_of(people([(50,), (20,)]), window=20), BELIEF, 1)
    rows = list(releases.table_rows())
    assert [(r["subject"], r["window_start"], r["entries"]) for r in rows] == [
        ("p0", 0, 20),
        ("p0", 20, 20),
        ("p0", 40, 10),
        ("p1", 0, 20),
    ]
    proper = releases.as_histogram()
    assert proper.value.sum(axis=1) == pytest.approx(releases.entries)
    assert (proper.value >= 0).all()
    assert (proper.raw == releases.raw).all()
    assert releases.half_width().shape == (4,)


# -- accounts ----------------------------------------------------------------------------------


def test_every_subject_pays_once_and_asking_again_is_free(book):
    table = table_of(people([(50,), (20, 30), (5,)]))
    options = {"ledger": book, "budget": 1.5, "label": "may"}
    releases = for_each(table, BELIEF, 1, **options)
    entries = len(book.entries())
    again = for_each(table, BELIEF, 1, **options)
    assert (again.value == releases.value).all()
    assert (again.scale == releases.scale).all()
    assert len(book.entries()) == entries
    # A short series loses less than one without an end, for which the noise is made.
    totals = {a.account: a.total for a in book.accounts()}
    assert 990_000 < totals["p1"] < totals["p0"] <= 1_000_000
    assert totals["p2"] < 700_000
    with pytest.raises(pk.OverBudget, match="short by"):
        for_each(table, BELIEF, 1, **{**options, "label": "june"})
    assert len(book.entries()) == entries
    assert book.verify() == []


def test_one_subject_that_cannot_pay_stops_the_run_before_anything_is_spent(book, monkeypatch):
    monkeypatch.setattr(fleet_run, "CHUNK", 1)
    frame = people([(50,), (20,), (30,)])
    last = table_of(frame.filter(pl.col("who") == "p2"))
    for_each(last, BELIEF, 1, ledger=book, budget=1.5, label="alone")
    charges = [e.account for e in book.entries() if e.kind == "charge"]
    with pytest.raises(pk.OverBudget, match=r"^p2: requested"):
        for_each(table_of(frame), BELIEF, 1, ledger=book, budget=1.5, label="all")
    assert [e.account for e in book.entries() if e.kind == "charge"] == charges == ["p2"]


def test_one_new_account_stands_for_all_that_are_asked_alike(book, monkeypatch):
    """Checked before anything is charged: accounts that exist, and of new ones one of a kind."""
    frame = people([(8,), (8, 3), (5,), (8,)])
    for_each(table_of(frame.filter(pl.col("who") == "p1")), BELIEF, 1, ledger=book, budget=1)
    run = FleetRun.of("each", BELIEF, 1, "histogram", "influence_curve", "new", None)
    table = table_of(frame)
    asked = AskedRows(
        run, table, Rows.of(table, aligned(table, STATES)), *run.calibrations(table.longest)
    )

    def batches(*parts):
        return [[(asked, np.array(part))] for part in parts]

    def accounts(prefix, budget=1):
        return Accounts(TableAccounts(book, prefix, budget), run)

    priced, owing = [], fleet_run.Payer.owing

    def noted(payer, read, asked):
        priced.append([one.account for one in asked])
        return owing(payer, read, asked)

    monkeypatch.setattr(fleet_run.Payer, "owing", noted)
    with pytest.raises(pk.OverBudget, match=r"^p1: "):
        accounts("").check_all(batches(range(4)))
    accounts("x").check_all(batches([0, 1], [2, 3]))
    assert priced == [["p0", "p1", "p2"], ["xp0", "xp1"], ["xp2"]]  # p3 is asked like p0
    with pytest.raises(pk.OverBudget, match=r"^xp0: "):
        accounts("x", 0.5).check_all(batches(range(4)))
    with pytest.raises(ValueError, match="account: must be a name"):
        accounts("x" * 200).check_all(batches(range(4)))


def test_a_payer_keeps_nothing_that_grows_with_the_number_of_subjects(book):
    """Nor do accounts that begin at different times, each with terms of its own."""
    frame = people([(8,), (9,), (5,), (8,)]).with_columns(
        when=pl.from_epoch(60 * pl.col("when") + 3600 * pl.col("who").str.tail(1).cast(int)),
    )
    table = pk.read(frame, subject="who", time="when", state="what", states=STATES)
    run = FleetRun.of("each", BELIEF, 1, "histogram", "influence_curve", "", None)
    asked = AskedRows(
        run, table, Rows.of(table, aligned(table, STATES)), *run.calibrations(table.longest)
    )
    accounts = Accounts(TableAccounts(book, "", 1), run)
    batches = [[(asked, np.array([n]))] for n in range(4)]
    accounts.check_all(batches)
    for batch in batches:
        accounts.pay(batch)
    opened = {str(book.entries(name)[0].body["opens"]) for name in table.subjects}
    assert len(opened) == len(table.subjects) == 4
    payer = accounts._payer
    assert len(payer._terms) == len(payer._priced) == 1  # of the last batch
    assert len(accounts._spendings) == 2  # for one entry, and for the window


def test_a_year_of_weeks_costs_one_epsilon_and_a_second_year_what_the_profile_says(book):
    table = table_of(people([(520,), (260, 100)]), window=10)
    for_each(table, BELIEF, 1, ledger=book, budget=3, label="first")
    assert {a.total for a in book.accounts()} == {1_000_000}
    for_each(table, BELIEF, 1, ledger=book, budget=3, label="second")
    b = pk.entry_epsilon(BELIEF, 520, 1)
    history = [pk.Spending("influence_curve", 1, (1, 520), b)] * 2
    expected = pk.compose(history, BELIEF, 520)
    rules = {row.rule: row.micro for row in expected.considered}
    assert book.account("p0").total == pytest.approx(rules["entry_profile"], abs=5)
    assert book.verify() == []


@pytest.mark.slow
def test_weeks_that_arrive_one_by_one(book):
    """Every week has the noise of a series without an end, so all of them together cost 1.

    That is no more than they tell: at an output beyond all counts the loss, by plain products of
    matrices, is the charge itself.
    """
    frame = people([(100,)])
    options = {"ledger": book, "budget": 1, "label": "weekly"}
    earlier = None
    for weeks in range(1, 6):
        table = table_of(frame.filter(pl.col("when") < 20 * weeks), window=20)
        releases = for_each(table, BELIEF, 1, **options)
        if earlier is not None:
            assert (releases.value[: weeks - 1] == earlier).all()
        earlier = releases.value
    assert len([e for e in book.entries("p0") if e.kind == "charge"]) == 5
    assert book.verify() == []
    # Far above in the first bin and far below in the others, every week: entries in the first
    # state weigh e^(1 / scale), others e^(-1 / scale).
    weights = np.exp(np.outer(np.repeat(1 / releases.scale, 20), [1, -1, -1]))
    before, after = [BELIEF.initial * weights[0]], [np.ones(3)]
    for here in weights[1:]:
        before.append((before[-1] @ BELIEF.transition) * here)
    for here in weights[:0:-1]:
        after.append(BELIEF.transition @ (here * after[-1]))
    logs = np.log(np.array(before) * np.array(after[::-1]) / BELIEF.initial)
    loss = float(np.ptp(logs, axis=1).max())
    charged = book.account("p0").total / 1e6
    assert charged - 3e-6 <= loss <= charged <= 1


@pytest.mark.parametrize("mechanism", ["influence_curve", "markov_quilt", "group_dp"])
def test_a_table_that_grows_pays_for_its_new_weeks(book, mechanism):
    frame = people([(21,), (4,)])
    options = {"ledger": book, "budget": 9, "label": "weekly", "mechanism": mechanism}
    first = for_each(table_of(frame.filter(pl.col("when") < 7), window=7), BELIEF, 1, **options)
    whole = table_of(frame, window=7)
    grown = for_each(whole, BELIEF, 1, **options)
    assert first.epsilon == 1
    assert (first.value[:1] == grown.value[:1]).all()
    assert len([e for e in book.entries("p0") if e.kind == "charge"]) == 3
    assert for_each(whole, BELIEF, 1, **options).epsilon == grown.epsilon
    total = book.account("p0").total / 1e6
    if mechanism == "influence_curve":  # the same noise, whatever the length
        assert first.scale[0] == grown.scale[1]
        assert grown.epsilon == 1 >= total
    else:  # noise for a shorter series was less, and the result says what that costs
        assert first.scale[0] < grown.scale[1]
        assert grown.epsilon >= max(1, total)
        history = [
            pk.Spending("influence_curve", 1, (7 * n + 1, 7 * n + 7), 2 / scale)
            for n, scale in enumerate(grown.scale[:3])
        ]
        rules = {row.rule: row.micro for row in pk.compose(history, BELIEF, 21).considered}
        assert total >= rules["entry_profile"] / 1e6 - 1e-5
    if mechanism == "group_dp":  # which holds under every belief
        assert grown.epsilon >= 1 + 14 / 21
    assert pk.verify(grown).ok or mechanism == "markov_quilt"
    # Another run about the same subjects says what it costs itself.
    assert for_each(whole, BELIEF, 1, **{**options, "label": "other"}).epsilon == 1


def test_a_charge_without_its_value_is_not_drawn_again(book, monkeypatch):
    """Both are written together, so somebody removed the value, which may have been seen."""
    charge_many = book.charge_many

    def without_values(charges, **options):
        return charge_many([charge._replace(value=None) for charge in charges], **options)

    table, options = table_of(people([(40,), (50,)])), {"ledger": book, "budget": 9, "label": "run"}
    with monkeypatch.context() as patch:
        patch.setattr(book, "charge_many", without_values)
        for_each(table, BELIEF, 1, anyway=True, **options)
    before = book.entries()
    with pytest.raises(pk.LedgerError, match="value is missing"):
        for_each(table, BELIEF, 1, anyway=True, **options)
    assert book.entries() == before


def test_a_sum_taken_up_again_with_other_noise_is_paid_for_again(book):
    """Killed among its charges, and taken up again without the subject of the longest series."""
    run = FleetRun.of("all", BELIEF, 1, "histogram", "group_dp", "run", None)
    accounts, totals = Accounts(TableAccounts(book, "", 9), run), []
    for lengths in ([(40,), (100,)], [(40,)], [(40,)]):
        table, longest = table_of(people(lengths)), max(lengths)[0]
        rows = Rows.of(table, aligned(table, STATES))
        used, made = np.full(len(lengths), longest), {longest: run.calibration(longest)}
        asked = AskedRows(run, table, rows, used, made, together=True)
        totals.append(accounts.pay([(asked, np.arange(1))])[1])
    charges = [entry.body["scale"] for entry in book.entries("p0") if entry.kind == "charge"]
    assert charges == [run.calibration(100).scale, run.calibration(40).scale]
    assert totals[0] < totals[1] == totals[2]


def test_a_label_is_for_one_set_of_data(book):
    frame = people([(100,)])
    options = {"ledger": book, "budget": 5, "label": "once"}
    for_each(table_of(frame.filter(pl.col("when") < 50)), BELIEF, 1, **options)
    with pytest.raises(ValueError, match="another label"):
        for_each(table_of(frame), BELIEF, 1, **options)
    # Data that changed in the middle are not the data the account is about.
    holed = frame.filter(pl.col("when") != 20)
    with pytest.raises(ValueError, match="only grow at the end"):
        for_each(table_of(holed), BELIEF, 1, **{**options, "label": "twice"})
    grown = for_each(table_of(frame), BELIEF, 1, **{**options, "label": "twice"})
    assert grown.entries.tolist() == [100]


@pytest.mark.parametrize("window", [None, 10])
def test_an_account_knows_where_a_series_begins(book, window):
    frame = people([(40,)])
    options = {"ledger": book, "budget": 9}
    late = table_of(frame.filter(pl.col("when") >= 20), window=window)
    for_each(late, BELIEF, 1, label="late", **options)
    charged = book.account("p0").total
    # Counted from another beginning, what was released would be put in the wrong place.
    whole = table_of(frame, window=window)
    later = table_of(frame.filter(pl.col("when") >= 30), window=window)
    for release in (for_each, for_all):
        with pytest.raises(ValueError, match="begin earlier than when they were released"):
            release(whole, BELIEF, 1, label="whole", **options)
        with pytest.raises(ValueError, match="begin later"):
            release(later, BELIEF, 1, label="later", **options)
    assert book.account("p0").total == charged


def test_other_beliefs_need_other_accounts(book):
    table = table_of(people([(30,)]))
    for_each(table, BELIEF, 1, ledger=book, budget=5)
    other = pk.ChainClass.any_start(BELIEF.transition, states=STATES)
    with pytest.raises(ValueError, match="other data or beliefs"):
        for_each(table, other, 1, ledger=book, budget=5)
    for_each(table, other, 1, ledger=book, budget=5, prefix="any start/", confirm_data=True)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr("pufferkit.account.subjects.CHUNK", 1)


@pytest.mark.parametrize("batches", [False, True])
def test_an_aggregate_is_paid_by_everybody(book, batches, request):
    if batches:
        request.getfixturevalue("small_batches")
    table = table_of(people([(50,), (20,), (9,)]))
    options = {"ledger": book, "budget": 1.5, "label": "sum"}
    release = for_all(table, BELIEF, 1, **options)
    totals = {a.account: a.total for a in book.accounts()}
    assert totals["(all subjects)"] == totals["p0"] == pytest.approx(1_000_000, rel=1e-4)
    assert totals["p2"] < totals["p1"] < totals["p0"]
    entries = len(book.entries())
    assert (for_all(table, BELIEF, 1, **options).value == release.value).all()
    assert len(book.entries()) == entries
    with pytest.raises(pk.OverBudget):
        for_all(table, BELIEF, 1, **{**options, "label": "more"})
    with pytest.raises(ValueError, match="another label"):
        for_all(table_of(people([(50,), (20,)])), BELIEF, 1, **options)
    assert len(book.entries()) == entries
    # What was spent on the aggregate counts for the subject's own releases.
    with pytest.raises(pk.OverBudget):
        for_each(table, BELIEF, 1, ledger=book, budget=1.5)
    assert book.verify() == []


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("release", [for_each, for_all])
def test_a_stored_answer_is_not_handed_over_for_rows_that_changed(book, batches, release, request):
    if batches:
        request.getfixturevalue("small_batches")
    frame = people([(50,), (20,)])
    options = {"ledger": book, "budget": 2, "label": "once"}
    once = release(table_of(frame), BELIEF, 1, **options)
    changed = pl.when(pl.col("when") == 3).then(pl.lit("run")).otherwise(pl.lit("walk"))
    other = frame.with_columns(what=pl.when(pl.col("when") < 9).then(changed).otherwise("what"))
    entries = len(book.entries())
    with pytest.raises(ValueError, match="only grow at the end"):
        release(table_of(other), BELIEF, 1, **options)
    meant = release(table_of(other), BELIEF, 1, confirm_data=True, **options)
    assert (meant.value == once.value).all()
    assert len(book.entries()) == entries


@pytest.mark.usefixtures("small_batches")
def test_an_aggregate_that_was_killed_between_batches_goes_on(book, monkeypatch):
    table = table_of(people([(50,), (20,), (9,)]))
    options = {"ledger": book, "budget": 1.5, "label": "sum"}
    real, calls = pk.Ledger.charge_many, []

    def charge_many(self, *args, **rest):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *args, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(pk.Ledger, "charge_many", charge_many)
        with pytest.raises(KeyboardInterrupt):
            for_all(table, BELIEF, 1, **options)
    assert {a.account for a in book.accounts()} == {"p0", "p1"}
    assert not any(entry.value is not None for entry in book.entries())
    release = for_all(table, BELIEF, 1, **options)
    assert book.account("(all subjects)").total == book.account("p0").total <= 1_000_000
    assert [entry.account for entry in book.entries() if entry.value is not None] == [
        "(all subjects)"
    ]
    # The batches make no difference to what is asked for.
    monkeypatch.setattr("pufferkit.account.subjects.CHUNK", 100)
    assert (for_all(table, BELIEF, 1, **options).value == release.value).all()
    assert book.verify() == []


def test_batches_do_not_change_the_digest_of_the_entries_used():
    rows = [
        Row(None, name, "", 0, (9,), 0, 1, 9, entries, None)
        for name, entries in (("é", 9), ("b", 7), ("c", 9))
    ]
    whole = Used().add(rows)
    assert whole.entries == 25
    assert Used().add(rows[1:]).add(rows[:1]).digest == whole.digest
    fewer = [rows[0]._replace(entries=8), *rows[1:]]
    for other in (rows[:2], [*rows, rows[0]], fewer):
        assert Used().add(other).digest != whole.digest


@pytest.mark.usefixtures("small_batches")
def test_an_aggregate_in_batches_checks_everybody_before_anyone_pays(book):
    table = table_of(people([(50,), (20,), (9,)]))
    book.open_account("p2", 1.5, rule="composed", about={"beliefs": "others", "kept by": "fleet"})
    before = book.entries()
    with pytest.raises(ValueError, match="other data or beliefs"):
        for_all(table, BELIEF, 1, ledger=book, budget=1.5)
    assert book.entries() == before


def test_flat_profiles_are_on_the_safe_side(book, monkeypatch):
    table = table_of(people([(60,), (30, 20)]), window=10)
    whole = table_of(people([(60,), (30, 20)]))
    for_each(whole, BELIEF, 0.5, ledger=book, budget=9, prefix="exact/")
    for_each(table, BELIEF, 0.5, ledger=book, budget=9, prefix="exact/")
    monkeypatch.setattr("pufferkit.account.pay._EXACT", 0)
    options = {"ledger": book, "budget": 9, "prefix": "flat/", "confirm_data": True}
    for_each(whole, BELIEF, 0.5, **options)
    for_each(table, BELIEF, 0.5, **options)
    for name in ("p0", "p1"):
        exact, flat = book.account(f"exact/{name}").total, book.account(f"flat/{name}").total
        assert exact <= flat <= exact * 1.2


def test_names_of_accounts_that_keep_records_are_taken(book):
    table = table_of(people([(5,)]).with_columns(who=pl.lit("(all subjects)")))
    with pytest.raises(ValueError, match="another account"):
        for_each(table, BELIEF, 1, ledger=book, budget=1)
    assert book.accounts() == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"query": "mean"}, "values: is required"),
        ({"query": "mode"}, "query"),
        ({"mechanism": "entry_dp"}, "mechanism"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_refusals(options, match):
    table = table_of(people([(5,)]))
    with pytest.raises(ValueError, match=match):
        for_each(table, BELIEF, **{"epsilon": 1, **options})


def test_states_that_the_beliefs_do_not_know():
    frame = people([(30,)]).with_columns(what=pl.lit("swim"))
    table = pk.read(frame, subject="who", time="when", state="what")
    with pytest.raises(ValueError, match="swim"):
        for_each(table, BELIEF, 1)


# -- killed in the middle -----------------------------------------------------------------------

KILLED = """
import sys, time
import polars as pl
import pufferkit as pk
from pufferkit.account import subjects as subject_run
from tests.asking import for_each
subject_run.CHUNK = 25
belief = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
frame = pl.DataFrame({
    "who": [n // 20 for n in range(6_000)],
    "when": [n % 20 for n in range(6_000)],
    "what": [n * n % 7 % 2 for n in range(6_000)],
})
table = pk.read(frame, subject="who", time="when", state="what", states=[0, 1], window=10)
print("ready", flush=True)
slow = lambda *_: time.sleep(0.03)
releases = for_each(
    table, belief, 1, ledger=sys.argv[1], budget=1, label="run", progress=slow
)
print(releases.raw.tolist(), flush=True)
"""


def values_in(path):
    with pk.Ledger(path) as book:
        return {(e.account, e.key): e.value for e in book.entries() if e.value is not None}


@pytest.mark.slow
def test_a_killed_run_goes_on_and_never_charges_or_draws_twice(tmp_path):
    path = str(tmp_path / "ledger.db")
    root = str(Path(pk.__file__).parents[1])
    command = [sys.executable, "-c", KILLED, path]
    environment = {**os.environ, "PYTHONPATH": root}
    seen = {}
    for least in (1, 200):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.readline()
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if os.path.exists(path) and len(values_in(path)) >= least:
                break
            time.sleep(0.02)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = values_in(path)
        assert seen.items() <= now.items()
        assert len(now) < 600
        seen = now
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    values = values_in(path)
    assert seen.items() <= values.items()
    assert len(values) == 600
    printed = eval(done.stdout.splitlines()[1])
    assert sorted(printed) == sorted(body["value"] for body in values.values())
    with pk.Ledger(path) as book:
        charges = [(e.account, e.key) for e in book.entries() if e.kind == "charge"]
        assert len(charges) == len(set(charges)) == 600
        assert max(a.total for a in book.accounts()) <= 1_000_000
        assert book.verify() == []


def test_beliefs_counted_from_the_table_are_refused():
    table = table_of(people([(60,), (80, 20)]))
    fitted = pk.ChainClass.around(table.transitions, 0.9, states=STATES)
    for release in (for_each, for_all):
        with pytest.raises(ValueError, match="fitted to the very series"):
            release(table, fitted, 1)
    other = table_of(people([(60,), (80, 20)], seed=7))
    assert for_all(other, fitted, 1).value.shape == (1, 3)


def test_everything_says_if_theta_comes_from_private_data(book):
    table = table_of(people([(60,), (20,)]))
    options = {"ledger": book, "budget": 9}
    belief = pk.ChainClass.around(
        table.transitions, 0.9, states=STATES, theta_from_private_data=True
    )
    for release in (for_each, for_all):
        released = release(table, belief, 1, **options)
        assert PRIVATE_NOTE in released.notes
        assert PRIVATE_NOTE in repr(released)
        assert PRIVATE_NOTE in repr(released.as_histogram())
        assert set(released.columns()["note"]) == {PRIVATE_NOTE}
    charges = [entry for entry in book.entries() if entry.kind == "charge"]
    assert all(PRIVATE_NOTE in entry.body["notes"] for entry in charges)
    assert "note" not in for_each(table, BELIEF, 1).columns()


def test_a_start_of_its_own_is_told_where_segments_follow_a_gap():
    start = pk.MarkovChain([1, 0, 0], BELIEF.transition, states=STATES)
    split, whole = table_of(people([(30, 20)])), table_of(people([(30,), (20,)]))
    for release in (for_each, for_all):
        assert "fixed initial distribution" in release(split, start, 1).notes[0]
        assert release(whole, start, 1).notes == ()
        declared = ("pieces more than 1 apart were declared independent",)
        assert release(split, BELIEF, 1).notes == declared
        assert set(release(split, BELIEF, 1).columns()["note"]) == set(declared)
        free = pk.ChainClass.any_start(BELIEF.transition, states=STATES)
        assert release(split, free, 1).notes == declared


@pytest.mark.slow
def test_from_a_table_to_beliefs_to_releases():
    history, today = table_of(people([(600,)] * 5)), table_of(people([(40,), (30,)], seed=5000))
    fitted = pk.fit(history, smoothing=0.5)
    counts = history.transitions + 0.5
    assert np.allclose(fitted.transition, counts / counts.sum(axis=1, keepdims=True))
    assert fitted.states == STATES
    region = pk.ChainClass.around(history, 0.95)
    same = pk.ChainClass.around(history.transitions, 0.95, states=STATES)
    assert region.to_json() == same.to_json()
    for beliefs in (fitted, region):
        assert pk.check_model(history, beliefs).checks[2].passed
        assert for_each(today, beliefs, 1).value.shape == (2, 3)
        with pytest.raises(ValueError, match="fitted to the very series"):
            for_each(history, beliefs, 1)
    # By label, not by place.
    turned = [2, 0, 1]
    other = pk.MarkovChain.steady(
        BELIEF.transition[np.ix_(turned, turned)], states=[STATES[n] for n in turned]
    )
    assert pk.check_model(history, other).checks[2].passed
    assert "private" in pk.fit(history, theta_from_private_data=True).to_json()
    with pytest.raises(ValueError, match="first states"):
        fit(history, start="first")
    with pytest.raises(ValueError, match="leave states out"):
        pk.ChainClass.around(history, 0.95, states=["a", "b", "c"])
    with pytest.raises(ValueError, match="that the beliefs do not know"):
        pk.check_model(history, pk.MarkovChain.steady([[0.5, 0.5], [0.5, 0.5]]))
    for release in (for_each, for_all):
        with pytest.raises(ValueError, match="read"):
            release(people([(4,)]), BELIEF, 1)


@pytest.mark.parametrize("release", [for_each, for_all])
def test_rows_that_were_not_read_are_refused(release):
    with pytest.raises(ValueError, match=r"table: must come from read, got DataFrame"):
        release(people([[5]]), pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), 1)


def test_a_refusal_names_one_account_and_counts_the_others(book):
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    table = pk.read(
        pl.DataFrame({"who": ["a", "a", "b", "b"], "when": [1, 2, 1, 2], "what": [0, 1, 1, 0]}),
        subject="who",
        time="when",
        state="what",
    )
    paid = {"ledger": book, "budget": 1}
    assert repr(for_each(table, chain, 1, **paid)).count(" to ") == 0
    with pytest.raises(
        pk.OverBudget, match=r"a: requested .*; ask for less.* \(and 1 more like it\)"
    ):
        for_each(table, chain, 5, label="again", **paid)


# -- gaps --------------------------------------------------------------------------------------


def with_clock(frame, **options):
    return pk.read(frame, subject="who", time="when", state="what", states=STATES, **options)


def test_noise_is_that_of_the_span_and_shares_are_of_what_was_observed():
    frame = people([(60,), (60,)]).filter(
        ~((pl.col("who") == "p1") & pl.col("when").is_between(20, 39))
    )
    table = with_clock(frame)
    assert list(table.lengths) == [(60,), (60,)]
    releases = for_each(table, BELIEF, 1, query="frequencies")
    counts = for_each(table, BELIEF, 1)
    assert counts.scale[0] == counts.scale[1]
    assert releases.entries.tolist() == [60, 40]
    assert releases.scale[1] == pytest.approx(1.5 * releases.scale[0])
    apart = with_clock(frame, independent_after=5)
    parts = for_each(apart, BELIEF, 1, mechanism="group_dp")
    assert parts.scale[1] < parts.scale[0]
    assert parts.independent_after == "5"


def test_places_are_those_of_the_clock_and_late_rows_pay_again(book):
    """A row for a place that was not observed when a run was charged."""
    whole = people([(40,)])
    late = pl.col("when").is_in([13, 14])
    options = {"ledger": book, "budget": 9.0, "label": "weekly"}
    first = for_each(with_clock(whole.filter(~late), window=10), BELIEF, 1, **options)
    charges = [entry for entry in book.entries("p0") if entry.kind == "charge"]
    assert [entry.body["window"] for entry in charges] == [[1, 10], [11, 20], [21, 30], [31, 40]]
    assert [entry.body["entries"] for entry in charges] == [10, 8, 10, 10]
    # The same label is for what was there; the new rows are not slipped in.
    with pytest.raises(ValueError, match=r"used 8 entries of 'p0' in this window, and now .* 10"):
        for_each(with_clock(whole, window=10), BELIEF, 1, **options)
    again = for_each(with_clock(whole.filter(~late), window=10), BELIEF, 1, **options)
    assert again.value.tolist() == first.value.tolist()
    # Another label pays for every place of the window again, as for any second release.
    for_each(with_clock(whole, window=10), BELIEF, 1, **{**options, "label": "late"})
    scale = next(entry.body["scale"] for entry in charges)
    profile = pk.InfluenceCurve(BELIEF, 40).epsilon(2 * 2 / scale)
    assert book.account("p0").total / 1e6 == pytest.approx(profile, rel=1e-3)


def test_series_with_gaps_grow_at_the_end_and_keep_their_clock(book):
    rows = people([(60,)]).filter(~pl.col("when").is_in([5, 6, 22]))
    options = {"ledger": book, "budget": 9.0, "label": "weekly"}
    begun = rows.filter(pl.col("when") < 30)
    first = for_each(with_clock(begun, window=10), BELIEF, 1, **options)
    grown = for_each(with_clock(rows, window=10), BELIEF, 1, **options)
    assert grown.value[:3].tolist() == first.value.tolist()
    assert len(grown) == 6
    with pytest.raises(ValueError, match="counted anew; every= puts them on the grid"):
        for_each(with_clock(rows.filter(pl.col("when") % 2 == 0), window=10), BELIEF, 1, **options)
    apart = with_clock(rows, window=10, independent_after=1)
    with pytest.raises(ValueError, match="another label"):
        for_each(apart, BELIEF, 1, **options)
    with pytest.raises(ValueError, match="had other segments"):
        for_each(apart, BELIEF, 1, **{**options, "label": "apart"})
