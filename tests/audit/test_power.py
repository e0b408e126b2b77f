"""The audit has the power it claims: halved noise fails wherever the loss is then far too large."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import noise
from pufferkit.audit import audit, exact_loss, worst_case
from pufferkit.audit.limits import detectable_epsilon, proven_epsilon
from pufferkit.audit.noise_drawn import measured
from pufferkit.mechanisms.plan import MECHANISMS, OPTIONS
from tests.oracles.brute_loss import loss_of_sum
from tests.oracles.joint_loss import NoisySum, any_start_losses, losses
from tests.strategies.command_line import folder, good, run  # noqa: F401
from tests.strategies.stand_ins import Response, symmetric

LAZY = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


def halved(calibration):
    each = calibration.scales
    halves = None if each is None else tuple(scale / 2 for scale in each)
    return replace(calibration, scale=calibration.scale / 2, scales=halves)


def random_case(number):
    """A chain, a sum over it, a promise and a mechanism; length up to twenty."""
    rng = np.random.default_rng(number)
    size = int(rng.integers(2, 4))
    matrix = rng.dirichlet([0.7] * size, size) * 0.98 + 0.02 / size
    names = [name for name in MECHANISMS if name not in OPTIONS | {"entry_dp", "shaped"}]
    name = names[number % len(names)]
    if name == "gk16":  # applies where entries hardly matter to one another
        matrix = 0.1 * matrix + 0.9 / size
    values, length = [0, 1, 3][:size], int(rng.integers(2, 21))
    return pk.MarkovChain.steady(matrix), values, length, float(rng.choice([0.2, 1, 4])), name


@pytest.mark.slow
@pytest.mark.parametrize("number", range(14))
def test_halved_noise_fails_wherever_brute_force_says_that_it_is_too_little(number):
    chain, values, length, epsilon, name = random_case(number)
    query = pk.total(values, length)
    real = MECHANISMS[name](chain, query, epsilon)

    def by_hand(scale):
        return loss_of_sum(chain.initial, chain.transition, values, length, scale)

    assert by_hand(real.scale) <= epsilon * (1 + 1e-9)
    assert exact_loss(real, chain) == pytest.approx(by_hand(real.scale), rel=1e-9)
    assert audit(real, chain, trials=300, seed=1).passed
    loss = by_hand(real.scale / 2)
    broken = audit(halved(real), chain, trials=300, seed=1)
    assert broken.exact.loss == pytest.approx(loss, rel=1e-9)
    assert broken.passed == (loss <= epsilon * (1 + 1e-7))
    assert loss <= 1.3 * epsilon or not broken.passed


LENGTHS = {2: 12, 3: 8, 4: 6, 5: 5}
"""So that the oracle can list all data of so many states."""


def any_case(number):
    """Two to five states, every start and mechanism, sums and histograms."""
    rng = np.random.default_rng(number)
    size, start = 2 + number % 4, ("steady", "fixed", "any")[number // 4 % 3]
    names = [name for name in MECHANISMS if name != "entry_dp"]
    name = names[number // 12 % len(names)]
    matrix = rng.dirichlet([rng.choice([0.3, 0.7, 2])] * size, size) * 0.97 + 0.03 / size
    if name == "gk16":
        matrix = 0.1 * matrix + 0.9 / size
    beliefs = {
        "steady": pk.MarkovChain.steady(matrix),
        "fixed": pk.MarkovChain(rng.dirichlet(np.ones(size)), matrix),
        "any": pk.ChainClass.any_start(matrix),
    }[start]
    length = LENGTHS[size] - int(rng.integers(0, 3))
    bins = name not in ("wasserstein", "exact_sum") and rng.random() < 0.7
    rows = np.eye(size).tolist() if bins else [rng.permutation(size).astype(float).tolist()]
    query = pk.histogram(range(size), length) if bins else pk.total(rows[0], length)
    real = MECHANISMS[name](beliefs, query, float(rng.choice([0.2, 1, 4])))
    each = real.scales or [real.scale] * len(rows)
    told = [NoisySum(1, length, tuple(r), s / 2) for r, s in zip(rows, each, strict=True)]
    if start == "any":
        return real, beliefs, any_start_losses(matrix, told, length).max()
    return real, beliefs, losses(beliefs.initial, matrix, told, [length]).max()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "number", [3, 7, 10, 31, *(pytest.param(n, marks=pytest.mark.slow) for n in range(32, 80, 3))]
)
def test_halved_noise_is_found_for_every_start_and_many_states(number):
    """Brute force lists all data and outputs; the audit must find what is far above the promise."""
    try:
        real, beliefs, loss = any_case(number)
    except pk.NotApplicable:
        pytest.skip("this mechanism has no theorem here")
    worst = worst_case(halved(real), beliefs)
    assert worst.loss <= loss * (1 + 1e-9)
    assert not worst.complete or worst.loss == pytest.approx(loss, rel=1e-9)
    assert loss <= 1.3 * real.epsilon or worst.loss > real.epsilon


def test_outputs_too_rare_to_be_drawn_do_not_hide_the_loss():
    """A state that is hardly ever seen: sampling proves little, the computation finds it all."""
    rare = pk.MarkovChain.steady([[1 - 1e-5, 1e-5], [0.2, 0.8]])
    real = pk.influence_curve(rare, pk.count(1, 20), 3)
    broken = audit(halved(real), trials=2000, seed=1)
    assert broken.exact.loss > 1.3 * 3
    assert broken.proven < broken.exact.loss
    assert not broken.passed
    assert "by computation" in str(broken)


@pytest.mark.slow
def test_histograms_networks_and_every_start():
    three = pk.MarkovChain.steady([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    step = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    nodes = range(12)
    tree = pk.BayesianNetwork(
        {n: ((n - 1) // 2,) if n else () for n in nodes},
        {n: step if n else {(): [0.8, 0.2]} for n in nodes},
    )
    for real in (
        pk.influence_curve(three, pk.histogram(range(3), 12), 1),
        pk.influence_curve(LAZY, pk.histogram([0, 1], 20), 1),
        pk.influence_curve(tree, pk.count(1, 12), 1),
        pk.influence_curve(pk.ChainClass.any_start([[0.7, 0.3], [0.4, 0.6]]), pk.count(1, 20), 1),
        pk.influence_curve(LAZY, pk.relative_frequencies([0, 1], [7, 8]), 1),
    ):
        sound = audit(real, trials=300, seed=1)
        assert sound.passed, str(sound)
        broken = audit(halved(real), trials=300, seed=1)
        assert broken.exact.loss > 1.3
        assert not broken.passed


def test_networks_agree_with_their_joint_distribution():
    step = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    tree = pk.BayesianNetwork(
        {"a": (), "b": ("a",), "c": ("a",)}, {"a": {(): [0.8, 0.2]}, "b": step, "c": step}
    )
    real = pk.entry_dp(pk.count(1, 3), 1)
    assert exact_loss(real, tree) == pytest.approx(exact_loss(real, tree.joint()), rel=1e-12)


def test_many_states_give_a_lower_bound_by_pairs_of_bins():
    six = pk.MarkovChain.steady(np.full((6, 6), 0.08) + 0.52 * np.eye(6))
    real = pk.entry_dp(pk.histogram(range(6), 12), 1)
    worst = worst_case(real, six)
    assert not worst.complete
    assert worst.loss > 1.3


# -- a sampler that does not draw what it claims ----------------------------------------------

REAL = pk.influence_curve(LAZY, pk.histogram([0, 1], 6), 1)


def spoiled(monkeypatch, change):
    """Releases with other noise: ``change`` takes the true noise, a row for each release."""
    honest = noise.discrete_laplace

    def drawn(answers, which, *more):
        exact = np.array([[float(v) for v in answers[n]] for n in which])
        rows = np.array(honest(answers, which, *more)).reshape(exact.shape)
        return (exact + change(rows - exact)).ravel().tolist()

    monkeypatch.setattr(noise, "discrete_laplace", drawn)


def test_a_sampler_that_draws_as_claimed_passes(monkeypatch):
    spoiled(monkeypatch, lambda rows: rows)
    assert audit(REAL, trials=4000, seed=1).passed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows / 2, "its scale is at most"),
        (lambda rows: 0.9 * rows, "its scale is at most"),
        (lambda rows: 1.25 * rows, "its scale is at least"),
        (lambda rows: np.sign(rows) * np.abs(rows).mean(), "not Laplace noise"),
        (np.abs, "not Laplace noise"),
        (lambda rows: rows[:, [0, 0]], "not independent"),
        (lambda rows: np.repeat(rows[::2], 2, axis=0), "not independent"),
    ],
)
def test_a_sampler_that_does_not_fails(monkeypatch, change, said):
    spoiled(monkeypatch, change)
    report = audit(REAL, trials=4000, seed=1)
    assert not report.passed
    assert said in report.noise.problem
    assert "FAILED" in str(report)


def test_halved_draws_prove_the_loss_that_they_have(monkeypatch):
    spoiled(monkeypatch, lambda rows: rows / 2)
    report = audit(REAL, trials=4000, seed=1)
    assert report.exact.loss <= 1 + 1e-7
    assert 1.3 < report.proven <= exact_loss(halved(REAL))


# -- what it could have detected --------------------------------------------------------------


@pytest.mark.parametrize("draws", [400, 8000])
def test_the_share_of_the_scale_that_is_called_detectable_is_detected(draws):
    rng = np.random.default_rng(5)
    share = measured(rng.laplace(size=(draws, 1)), 1.0, 1e-6).detectable
    problems = [
        measured(rng.laplace(scale=share, size=(draws, 1)), 1.0, 1e-6).problem for _ in range(300)
    ]
    # 95% of 300 is 285; fewer than 265 has probability below 1e-5.
    assert sum(bool(problem) for problem in problems) >= 265
    assert not any(measured(rng.laplace(size=(draws, 1)), 1.0, 1e-6).problem for _ in range(300))


def test_the_epsilon_that_is_called_detectable_is_detected():
    rng = np.random.default_rng(6)
    trials, rate, promise = 20_000, 0.3, 1.0
    least = detectable_epsilon(int(rate * trials), trials, 0.999999, promise)
    assert promise < least < 1.3
    hits = rng.binomial(trials, rate, 100), rng.binomial(trials, rate * np.exp(-least), 100)
    proven = [proven_epsilon(int(a), int(b), trials, 0.999999) for a, b in zip(*hits, strict=True)]
    assert np.mean(np.array(proven) > promise) > 0.85
    assert detectable_epsilon(3, 100, 0.999999, promise) == np.inf


def test_it_says_what_it_would_have_found():
    few, many = (audit(REAL, trials=trials, seed=1) for trials in (200, 3000))
    assert 1 < many.detectable < 1.15
    assert many.detectable < few.detectable
    assert f"any loss of {many.detectable:.4g} or more" in str(many)
    # A fault of exactly that size: the exact loss at the share of the scale that is detectable.
    scale = many.noise.claimed * many.noise.detectable
    assert exact_loss(replace(REAL, scale=scale)) == pytest.approx(many.detectable, rel=1e-6)


def test_long_series_are_computed_at_a_few_entries():
    real = pk.influence_curve(LAZY, pk.count(1, 200), 1)
    assert audit(real, trials=300, seed=1).passed
    broken = audit(halved(real), trials=300, seed=1)
    assert not broken.exact.complete
    assert not broken.passed


def test_local_mechanisms_are_computed_too():
    wrong = Response(symmetric(0.1), 0.05, 1)  # far too little randomness for epsilon 1
    report = audit(wrong, trials=200, length=6, seed=1)
    assert report.exact.loss > 1.3
    assert not report.passed


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_at_the_command_line(monkeypatch):
    model = ("audit", "--model", "model.json", "--epsilon", "1", "--length", "20")
    asked = (*model, "--query", "count", "--state-value", "run")
    said = good(*asked)
    assert "exact loss" in said
    assert "noise drawn" in said
    assert "would find   any loss of 1.0" in said
    shown = good(*asked, "--json", "--trials", "500")
    assert 1 < json.loads(shown)["detectable"] < 1.5
    spoiled(monkeypatch, lambda rows: rows / 2)
    result = run(*asked, "--trials", "1000")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
