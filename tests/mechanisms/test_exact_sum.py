"""The least Laplace noise for one sum, against the definition of Pufferfish privacy."""

import pickle
from dataclasses import replace
from math import inf

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.influence.sums import least_scale
from pufferkit.mechanisms.plan import MECHANISMS, calibrate
from tests.asking import Asking
from tests.oracles.pairs import sum_losses

ALTERNATING = pk.MarkovChain.steady([[0.1, 0.9], [0.9, 0.1]])
STICKY = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


def random_chain(seed, size, zeros):
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.ones(size), size)
    if zeros:
        kernel[rng.random((size, size)) < 0.3] = 0
        kernel[kernel.sum(axis=1) == 0] = 1
    kernel /= kernel.sum(axis=1, keepdims=True)
    start = rng.dirichlet(np.ones(size))
    if seed % 4 == 1:
        start = np.eye(size)[seed % size]
    return pk.MarkovChain(start, kernel)


def true_loss(chain, values, lengths, scale):
    """By listing every path, for every segment and entry; its range as the difference from 0."""
    column = np.array(values, dtype=float)[:, None]
    return max(
        sum_losses(chain.initial, [chain.transition] * (n - 1), column, scale, entry).max()
        for n in set(lengths)
        for entry in range(n)
    )


@pytest.mark.parametrize("seed", range(36))
def test_the_least_scale_by_the_definition(seed):
    rng = np.random.default_rng(1000 + seed)
    size, length = 2 + seed % 2, 1 + seed % 6
    chain = random_chain(seed, size, zeros=seed % 3 == 0)
    values = (
        [0, 1, 3][:size] if seed % 2 else rng.choice([-0.5, 0, 0.25, 1.5], size, False).tolist()
    )
    lengths = (length,) if seed % 5 else (length, 1 + length // 2)
    epsilon = float([0.2, 1, 3][seed % 3])
    made = pk.exact_sum(chain, pk.total(values, lengths), epsilon)
    assert true_loss(chain, values, lengths, made.scale) <= epsilon
    lower = made.scale * 0.999
    tiny = lower < 1e-3 * np.ptp(values) / epsilon
    assert tiny or true_loss(chain, values, lengths, lower) > epsilon
    assert pk.verify(made.release(_data(chain, lengths))).ok


def _data(chain, lengths):
    likely = chain.sample(max(lengths), seed=1)
    return [list(likely[:n]) for n in lengths]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_hardest_ends_decide_as_all_do(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(10, 0.5), size=10)
    if seed == 1:  # ties
        transition = np.full((10, 10), 0.05) + 0.5 * np.eye(10)
    if seed == 2:  # zeros
        transition = (
            0.5 * np.eye(10) + 0.3 * np.roll(np.eye(10), 1, 0) + 0.2 * np.full((10, 10), 0.1)
        )
        transition[:5, 7:] = 0.0
    chain = pk.MarkovChain.steady(transition / transition.sum(axis=1, keepdims=True))
    screened = pk.exact_sum(chain, pk.count(0, 60), 1).scale
    monkeypatch.setattr(least_scale, "_FEW_ENDS", 10**9)
    assert screened == pytest.approx(pk.exact_sum(chain, pk.count(0, 60), 1).scale, rel=2e-6)


def test_never_more_than_the_other_mechanisms():
    for seed in range(6):
        chain = pk.MarkovChain.steady(random_chain(seed, 3, False).transition * 0.9 + 0.1 / 3)
        query = pk.total([0, 1, 2], 40)
        scale = pk.exact_sum(chain, query, 1).scale
        assert scale <= pk.wasserstein(chain, query, 1).scale * 1.001
        assert scale <= pk.influence_curve(chain, query, 1).scale * 1.001


@pytest.mark.parametrize("lengths", [(20,), (1, 20), (3, 20, 20)])
def test_the_hardest_length_decides(lengths):
    flip = pk.MarkovChain.steady([[0.01, 0.99], [0.99, 0.01]])
    apart = max(pk.exact_sum(flip, pk.count(1, n), 1).scale for n in set(lengths))
    made = pk.exact_sum(flip, pk.count(1, lengths), 1)
    assert made.scale == apart
    assert made.evidence.length == min(lengths) if len(lengths) > 1 else 20


def test_a_periodic_chain_with_a_start_of_its_own():
    """Its distribution never settles: every remainder modulo the period counts."""
    chain = pk.MarkovChain([0.9, 0.05, 0.05], [[0, 0.3, 0.7], [1, 0, 0], [1, 0, 0]])
    for length in (5, 6, 7):
        made = pk.exact_sum(chain, pk.total([0, 1, 2], length), 1)
        assert true_loss(chain, [0, 1, 2], (length,), made.scale) <= 1
    even, odd = (pk.exact_sum(chain, pk.total([0, 1, 2], [n]), 1).scale for n in (60, 61))
    both = pk.exact_sum(chain, pk.total([0, 1, 2], [60, 61]), 1).scale
    assert both == max(even, odd)


def test_a_class_needs_what_its_hardest_chain_needs():
    one, other = (pk.exact_sum(c, pk.count(1, 50), 1).scale for c in (STICKY, ALTERNATING))
    both = pk.exact_sum(pk.ChainClass.of(ALTERNATING, STICKY), pk.count(1, 50), 1)
    assert both.scale == max(one, other)
    assert both.evidence.belief == "chain 2 of 2"


@pytest.mark.parametrize(
    ("beliefs", "query", "why"),
    [
        (STICKY, pk.histogram([0, 1], 9), "coordinates"),
        (STICKY, pk.Query("own", lambda row: row.max(), 1, 9), "not a sum"),
        (STICKY, pk.count(1, pk.Series.of([0, None, 1], [0, 1])), "observed"),
        (pk.ChainClass.any_start([[0.9, 0.1], [0.4, 0.6]]), pk.count(1, 9), "any start"),
        (pk.ChainClass.binary(0.3, 0.7), pk.count(1, 9), "any start"),
        (pk.ChainClass.mixing(2, 0.3, 0.5), pk.count(1, 9), "by pi_min"),
        (pk.ChainClass.around([[90, 10], [8, 12]], 0.9), pk.count(1, 9), "region of matrices"),
        (pk.FiniteJoint({(0, 0): 0.5, (1, 1): 0.5}), pk.count(1, 2), "Markov chains"),
        (pk.MarkovChain.steady([[0.8, 0.1, 0.1]] * 3), pk.total([0, 1, 1e-6], 99), "GB of memory"),
    ],
)
def test_where_it_does_not_apply(beliefs, query, why):
    with pytest.raises(pk.NotApplicable, match=why):
        pk.exact_sum(beliefs, query, 1)
    assert not pk.plan(beliefs, query, 1).rows[-1]["applicable"]


def test_in_a_plan():
    table = pk.plan(ALTERNATING, pk.count(1, 40), 1)
    assert table.best.mechanism == "exact_sum"
    row = table.rows[0]
    joint = pk.compose([pk.Spending.of(table.best)] * 2, ALTERNATING, 40)
    assert row["alone"]
    assert row["together"] == pytest.approx(joint.epsilon, rel=1e-4)
    assert row["together"] > 2
    assert "for this release only (two such: epsilon" in str(table)
    assert not next(r for r in table.rows if r["mechanism"] == "influence_curve")["alone"]
    assert calibrate("exact_sum", ALTERNATING, pk.count(1, 40), 1).scale == table.best.scale
    assert "exact_sum" in MECHANISMS


def test_how_tight_each_row_of_a_plan_is():
    table = pk.plan(STICKY, pk.count(1, 300), 1, most_work=inf)  # a compiler may be waited for
    rows = {row["mechanism"]: row for row in table.rows}
    assert 0.99 < rows["exact_sum"]["tightness"] <= 1
    assert rows["wasserstein"]["tightness"] == pytest.approx(0.825, abs=0.01)
    assert rows["entry_dp"]["tightness"] is None
    assert rows["gk16"]["tightness"] is None
    vector = pk.plan(STICKY, pk.histogram([0, 1], 300), 1)
    assert all(row["tightness"] <= 1 for row in vector.rows if row["tightness"] is not None)
    assert "99%" in str(vector)
    anywhere = pk.ChainClass.any_start(STICKY.transition)
    assert all(row["tightness"] is None for row in pk.plan(anywhere, pk.count(1, 30), 1).rows)


def test_a_session_charges_the_second_by_entries(tmp_path):
    session = Asking([0, 1] * 20, ALTERNATING, 20.0, str(tmp_path / "book.db"))
    first = session.release(pk.count(1, 40), 1, mechanism="exact_sum")
    assert session.remaining == pytest.approx(19)
    session.release(pk.count(1, 40), 1, mechanism="exact_sum", label="again")
    b = 2 * pk.exact_sum(ALTERNATING, pk.count(1, 40), 1).entry_epsilon
    assert session.history[-1]["rule"] == "entry_profile"
    assert session.spent == pytest.approx(pk.InfluenceCurve(ALTERNATING, 40).epsilon(b), rel=1e-4)
    assert session.release(pk.count(1, 40), 1).mechanism == "influence_curve"
    assert first.mechanism == "exact_sum"


def test_pickle_and_json():
    made = pk.exact_sum(STICKY, pk.mean([0, 0.3], [30, 7]), 0.5)
    again = pickle.loads(pickle.dumps(made))
    assert (again.scale, again.evidence) == (made.scale, made.evidence)
    release = made.release([[0, 1] * 15, [1] * 7])
    read = pk.Release.from_json(release.to_json())
    assert read == replace(release, verification_data=read.verification_data, beliefs=read.beliefs)
    assert read.evidence.blocks == made.evidence.blocks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beliefs", "query"),
    [
        (STICKY, pk.count(1, 3000)),
        (ALTERNATING, pk.count(1, 500)),
        (pk.MarkovChain([1, 0], STICKY.transition), pk.count(1, 400)),
        (pk.ChainClass.of(STICKY, ALTERNATING), pk.mean([0, 0.25], [90, 12, 1])),
        (random_chain(4, 3, False), pk.total([0, 1, 0.5], 200)),
        (pk.MarkovChain([0.9, 0.05, 0.05], [[0, 0.3, 0.7], [1, 0, 0], [1, 0, 0]]),
         pk.total([0, 1, 2], 101)),
    ],
)  # fmt: skip
def test_verify_accepts_it_and_catches_one_per_cent(beliefs, query):
    made = pk.exact_sum(beliefs, query, 1)
    states = made.beliefs.states
    data = [[states[0]] * n for n in query.lengths]
    release = made.release(data)
    assert pk.verify(release).ok
    lowered = pk.verify(replace(release, scale=0.99 * release.scale))
    assert lowered.checked
    assert not lowered.ok


def test_verify_reads_the_bound():
    release = pk.exact_sum(STICKY, pk.count(1, 30), 1).release([0] * 30)
    assert not pk.verify(replace(release, evidence=replace(release.evidence, bound="curve"))).ok
    # A scale of this kind is no scale of another mechanism.
    assert not pk.verify(replace(release, mechanism="wasserstein")).ok


def test_a_known_first_entry_does_not_widen_the_windows():
    matrix, query = [[0.9, 0.1], [0.4, 0.6]], pk.count(1, 10**12)
    known = pk.exact_sum(pk.MarkovChain([1.0, 0.0], matrix), query, 1)
    assert max(known.evidence.blocks) < 100
    assert known.scale == pytest.approx(
        pk.exact_sum(pk.MarkovChain.steady(matrix), query, 1).scale, rel=1e-3
    )


def test_an_epsilon_below_the_rounding_error_is_refused():
    matrix = np.random.default_rng(0).dirichlet(np.ones(8), size=8)
    with pytest.raises(pk.NotApplicable, match="rounding"):
        pk.exact_sum(pk.MarkovChain.steady(matrix), pk.count(1, 10**12), 1e-13)
