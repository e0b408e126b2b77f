"""Several questions about a table at once: their joint loss, by definition, and one payment."""

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from tests.oracles.joint_loss import NoisySum, any_start_losses, losses

VALUES = {"a": 0, "b": 1, "c": 3}
START, STEPS = [0.5, 0.2, 0.3], [[0.7, 0.3, 0.0], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]]
CHAIN = pk.MarkovChain.steady(STEPS, states=list(VALUES))
ASKED = {
    "b": (pk.count("b"), 3),
    "sum": (pk.total(VALUES), 20),
    "mean": (pk.mean({"a": 1, "b": 0, "c": 0}), 0.5),
}
SUMS = {"b": (0, 1, 0), "sum": (0, 1, 3), "mean": (1, 0, 0)}


def table(lengths=(4, 3), **more):
    rows = [
        (f"p{n}", t, code) for n, size in enumerate(lengths) for t, code in enumerate("abc" * size)
        if t < size
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=["who", "t", "x"], orient="row")
    roles = {"subject": "who", "time": "t", "state": "x", "states": CHAIN.states}
    return pk.read(frame, **roles, **more)


def history(releases, first, last, row=0):
    """The noisy sums of one row of each question, in the unit of the sum."""
    per = {"mean": releases["mean"].entries[row]}
    return [
        NoisySum(first, last, SUMS[name], float(own.scale[row]) * per.get(name, 1))
        for name, own in releases.items()
    ]


@pytest.mark.parametrize("epsilon", [None, 0.3, 1.0, 4.0])
def test_all_together_lose_no_more_than_is_stated(epsilon):
    each = pk.release(table(), CHAIN, ASKED, epsilon, per="subject", anyway=True)
    worst = max(np.max(losses(CHAIN.initial, STEPS, history(each, 1, 4), [4])), 0)
    assert 0.6 * each.epsilon <= worst <= each.epsilon * (1 + 1e-9)
    short = losses(CHAIN.initial, STEPS, history(each, 1, 3, row=1), [3])
    assert np.max(short) <= each.epsilon * (1 + 1e-9)
    assert all(pk.verify(own).ok for own in each.values())
    assert all(any("one of 3 questions" in note for note in own.notes) for own in each.values())
    if epsilon is None:  # the errors are met, in the row of median size
        for name, (_, error) in ASKED.items():
            assert each[name].half_width()[0] <= error * (1 + 1e-9)
    else:
        assert 0.99 * epsilon <= each.epsilon <= epsilon


def lost(steps, values, start, errors, epsilon):
    """Share of what is stated that an entry loses at most, of six entries in two states."""
    steps = np.clip(np.array(steps), 0.02, 0.98)
    matrix = np.array([[1 - steps[0], steps[0]], [steps[1], 1 - steps[1]]])
    chain = pk.MarkovChain.steady(matrix, states=["a", "b"])
    theta = chain if start == "steady" else pk.ChainClass.any_start(matrix, states=["a", "b"])
    frame = pl.DataFrame({"who": ["p"] * 6, "t": range(6), "x": list("abbaab")})
    data = pk.read(frame, subject="who", time="t", state="x", states=["a", "b"])
    numbers = dict(zip("ab", values, strict=True))
    asked = {"count": (pk.count("b"), errors[0]), "sum": (pk.total(numbers), errors[1])}
    made = pk.release(data, theta, asked, epsilon, per="subject", anyway=True)
    sums = [
        NoisySum(1, 6, own, float(made[name].scale[0]))
        for name, own in (("count", (0, 1)), ("sum", values))
    ]
    if start == "steady":
        worst = losses(chain.initial, matrix, sums, [6])
    else:
        worst = any_start_losses(matrix, sums, 6)
    return float(np.max(worst)) / made.epsilon


@pytest.mark.parametrize("start", ["steady", "any"])
def test_a_climb_finds_no_more_than_is_stated(start):
    rng = np.random.default_rng(5)
    case = [[0.1, 0.4], [0, 3], [4.0, 30.0], 1.0]
    best = lost(case[0], case[1], start, case[2], case[3])
    for _ in range(8):
        steps = [step * rng.uniform(0.5, 1.6) for step in case[0]]
        values = [int(rng.integers(-2, 5)), int(rng.integers(5, 9))]
        errors = [float(error * rng.uniform(0.5, 2)) for error in case[2]]
        epsilon = None if rng.random() < 0.3 else float(rng.uniform(0.2, 3))
        share = lost(steps, values, start, errors, epsilon)
        if share > best:
            best, case = share, [steps, values, errors, epsilon]
    assert 0.7 < best <= 1 + 1e-9


def test_together_and_by_windows():
    whole = pk.release(table(), CHAIN, ASKED, 1, per="all", anyway=True)
    both = losses(CHAIN.initial, STEPS, history(whole, 1, 7), [4, 3])
    assert 0.6 <= np.max(both) <= whole.epsilon * (1 + 1e-9) <= 1 + 1e-9
    halves = pk.release(table((4, 4), window=2), CHAIN, ASKED, 1, per="subject", anyway=True)
    parts = [*history(halves, 1, 2, row=0), *history(halves, 3, 4, row=1)]
    assert 0.5 <= np.max(losses(CHAIN.initial, STEPS, parts, [4])) <= 1 + 1e-9


@pytest.mark.parametrize("per", ["subject", "all"])
def test_one_payment_for_all_or_none(tmp_path, per):
    book, asked = pk.Ledger(str(tmp_path / "ledger.db")), table()

    def ask(budget=0.8, epsilon=1.0, label="may", **more):
        accounts = book.accounts_for(asked, "", budget)
        options = {"account": accounts, "per": per, "label": label, "anyway": True}
        return pk.release(asked, CHAIN, ASKED, epsilon, **options, **more)

    first = ask()
    total = book.account("p0").total
    assert 500_000 < total <= 1_000_000
    before, again = book.entries(), ask()
    assert all(np.array_equal(again[name].raw, first[name].raw) for name in ASKED)
    assert max(a.total for a in book.accounts()) == total
    with pytest.raises(pk.OverBudget):
        ask(label="june")
    assert book.entries() == before
    with pytest.raises(pk.OverBudget):
        ask(epsilon=None, label="by error")
    assert book.entries() == before
    assert book.verify() == []


def test_batches_are_checked_before_the_first_is_charged(tmp_path, monkeypatch):
    monkeypatch.setattr("pufferkit.account.subjects.CHUNK", 1)
    book, asked = pk.Ledger(str(tmp_path / "ledger.db")), table((4, 3, 4))
    one = table((4, 3, 4))
    accounts = book.accounts_for(one, "", 1.2)
    pk.release(table((4,)), CHAIN, "histogram", 1, per="subject", account=accounts, anyway=True)
    before = book.entries()
    for per in ("subject", "all"):
        with pytest.raises((pk.OverBudget, ValueError)):
            pk.release(asked, CHAIN, ASKED, 1, per=per, account=accounts, anyway=True)
    assert book.entries() == before
    other = book.accounts_for(asked, "other ", 1.2, confirm_data=True)
    for per in ("subject", "all"):
        made = pk.release(asked, CHAIN, ASKED, 0.5, per=per, account=other, label=per, anyway=True)
        assert len(made["b"]) == (3 if per == "subject" else 1)
    assert book.verify() == []


def test_what_cannot_be_asked_at_once_is_refused():
    levels = {"a": 0, "b": 1, "c": 3}
    for asked, error in (
        ({"top": (pk.quantile(0.9, levels), 1)}, "noisy choice"),
        ({"b": pk.count("b")}, "the error it may have"),
        ({"b": (pk.count("b"), -1)}, "error"),
    ):
        with pytest.raises(ValueError, match=error):
            pk.release(table(), CHAIN, asked, 1, per="subject", anyway=True)
    with pytest.raises(pk.NotApplicable, match="influence curve"):
        pk.release(table(), CHAIN, ASKED, 1, per="subject", mechanism="group_dp")
