"""Secrets about several entries: never below what a release really loses, by enumeration."""

import numpy as np
import pytest

from pufferkit import (
    ChainClass,
    InfluenceCurve,
    MarkovChain,
    NotApplicable,
    Secrets,
    count,
    explain,
    gk16,
    histogram,
    influence_curve,
    markov_quilt,
    total,
    verify,
)
from tests.oracles.events import (
    attacked_loss,
    labels_of_windows,
    listed,
    sum_loss,
    values_of_sets,
    values_of_windows,
)
from tests.oracles.kernel_losses import extreme_functions

LENGTH = 5


def random_chain(rng, size, zeros=True):
    while True:
        matrix = rng.dirichlet(np.full(size, 0.7), size=size)
        if zeros and size > 2:
            matrix[rng.random((size, size)) < 0.2] = 0.0
        if (matrix.sum(axis=1) == 0).any():
            continue
        matrix /= matrix.sum(axis=1, keepdims=True)
        try:
            chain = MarkovChain.steady(matrix)
        except ValueError:
            continue
        return chain


def metric_of(rng, size):
    if rng.random() < 0.5:
        return 1 - np.eye(size)
    values = np.sort(rng.random(size))
    return np.abs(values[:, None] - values[None, :]) / (values[-1] - values[0])


def secrets_and_labels(rng, size, window):
    """Secrets, and the same by a function of the values of a window."""
    state = int(rng.integers(size))
    yield Secrets.at_least(state, window), lambda v: int(state in v)
    if window > 1:
        yield Secrets.at_least(state, window, 2), lambda v: int(sum(x == state for x in v) >= 2)
    yield Secrets.throughout(state, window), lambda v: int(all(x == state for x in v))
    if size**window <= 81:
        table = rng.integers(3, size=(size,) * window)
        if len(np.unique(table)) > 1:
            yield Secrets.patterns(window, lambda v: table[v]), lambda v: int(table[v])


def bound_and_attack(chain, length, metric, b, secrets, rng):
    """The promised loss of secrets, and the largest that an attack on all labels reaches."""
    hidden, labels_of = secrets
    theta = ChainClass.of(chain).with_secrets(hidden)
    series, chance = listed(chain.initial, [chain.transition] * (length - 1))
    functions = extreme_functions(metric, b)
    reached = max(
        attacked_loss(series, chance, labels, functions, rng, starts=1)
        for labels in labels_of(series)
    )
    return InfluenceCurve(theta, length, metric).epsilon(b), reached


@pytest.mark.parametrize("seed", range(12))
def test_values_of_windows(seed):
    rng = np.random.default_rng(seed)
    size, window = int(rng.integers(2, 4)), int(rng.integers(1, 5))
    chain, metric, b = random_chain(rng, size), metric_of(rng, size), float(rng.uniform(0.1, 2))
    secrets = Secrets.runs(window), lambda series: values_of_windows(series, window)
    bound, reached = bound_and_attack(chain, LENGTH, metric, b, secrets, rng)
    assert reached <= bound * (1 + 1e-9)
    assert reached >= 0.9 * bound or size > 2


@pytest.mark.parametrize("seed", range(8))
def test_values_of_sets_of_entries(seed):
    """Wherever they lie: side by side, at the ends, far apart."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    chain, metric = random_chain(rng, size, zeros=False), metric_of(rng, size)
    b, length = float(rng.uniform(0.1, 2)), 7 if size == 2 else LENGTH
    secrets = Secrets.sets(count), lambda series: values_of_sets(series, count)
    bound, reached = bound_and_attack(chain, length, metric, b, secrets, rng)
    assert 0.3 * bound <= reached <= bound * (1 + 1e-9)


def test_one_of_a_set_is_an_entry_and_more_are_never_less_than_a_run():
    chain = MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]])
    query = histogram(chain.states, lengths=300)

    def scale(secrets):
        return influence_curve(ChainClass.of(chain), query, 1, secrets=secrets).scale

    assert scale(Secrets.sets(1)) == pytest.approx(scale(Secrets.runs(1)), rel=1e-9)
    assert scale(Secrets.runs(3)) < scale(Secrets.sets(3)) <= 3.01 * scale(Secrets.runs(1))


def test_sets_need_moves_that_are_all_possible():
    chain = MarkovChain.steady([[0.5, 0.5], [1.0, 0.0]])
    with pytest.raises(NotApplicable, match="without impossible transitions"):
        ChainClass.of(chain).with_secrets(Secrets.sets(2))
    with pytest.raises(NotApplicable, match="known chains"):
        ChainClass.hull(chain, chain).with_secrets(Secrets.sets(2))
    slow = MarkovChain.steady([[1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]])
    theta = ChainClass.of(slow).with_secrets(Secrets.sets(2))
    with pytest.raises(NotApplicable, match="mixes too slowly"):
        influence_curve(theta, histogram([0, 1], lengths=100), 1)


@pytest.mark.parametrize("seed", range(12))
def test_labels_of_windows(seed):
    rng = np.random.default_rng(seed)
    size, window = int(rng.integers(2, 4)), int(rng.integers(1, 5))
    chain, metric, b = random_chain(rng, size), metric_of(rng, size), float(rng.uniform(0.1, 2))
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    functions = extreme_functions(metric, b)
    for secrets, label in secrets_and_labels(rng, size, window):
        theta = ChainClass.of(chain).with_secrets(secrets, entries=False)
        bound = InfluenceCurve(theta, LENGTH, metric).epsilon(b)
        reached = max(
            attacked_loss(series, chance, labels, functions, rng, starts=1)
            for labels in labels_of_windows(series, window, label)
        )
        assert reached <= bound * (1 + 1e-9), secrets


@pytest.mark.parametrize("seed", range(6))
def test_sums_with_noise_keep_the_promise(seed):
    rng = np.random.default_rng(seed)
    size, window = 3, int(rng.integers(1, 5))
    chain = random_chain(rng, size)
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    query = total([0, 1, 2], LENGTH)
    ways = [(Secrets.runs(window), None), *secrets_and_labels(rng, size, window)]
    for secrets, label in ways:
        noise = influence_curve(
            ChainClass.of(chain).with_secrets(secrets, entries=False), query, epsilon=0.8
        )
        windows = (
            values_of_windows(series, window)
            if label is None
            else labels_of_windows(series, window, label)
        )
        losses = [sum_loss(series, chance, own, range(size), noise.scale) for own in windows]
        assert max(losses) <= 0.8 * (1 + 1e-9), secrets


@pytest.mark.parametrize("seed", range(6))
def test_quilts_around_several_entries_keep_the_promise(seed):
    rng = np.random.default_rng(seed)
    stay, back = rng.uniform(0.45, 0.65, 2)
    chain = MarkovChain.steady([[stay, 1 - stay], [1 - back, back]])
    length, window, epsilon = 10, int(rng.integers(2, 4)), float(rng.uniform(2, 5))
    series, chance = listed(chain.initial, [chain.transition] * (length - 1))
    theta = ChainClass.of(chain).with_secrets(Secrets.runs(window))
    noise = markov_quilt(theta, count(1, length), epsilon)
    assert noise.evidence.quilt, "a quilt that is not trivial"
    for labels in values_of_windows(series, window):
        assert sum_loss(series, chance, labels, range(2), noise.scale) <= epsilon
    assert noise.scale <= influence_curve(theta, count(1, length), epsilon).scale * 4
    release = noise.release([0, 1] * (length // 2)).to_dict()
    assert verify(release).ok
    assert not verify({**release, "scale": 0.98 * noise.scale}).ok


@pytest.mark.parametrize("seed", range(6))
def test_schedules_between_two_chains(seed):
    """Runs under a hull: kernels mixed at each time, with the start that goes with it."""
    rng = np.random.default_rng(seed)
    first = random_chain(rng, 2, zeros=False)
    # Two chains of one stationary distribution: every schedule of them is read backwards by
    # mixtures of their reversals.
    second = MarkovChain.steady(0.5 * first.transition + 0.5 * first.transition @ first.transition)
    window, b = int(rng.integers(1, 4)), float(rng.uniform(0.2, 1.5))
    metric = 1 - np.eye(2)
    theta = ChainClass.hull(first, second).with_secrets(Secrets.runs(window))
    bound = InfluenceCurve(theta, LENGTH, metric).epsilon(b)
    for _ in range(3):
        kernels = [(first, second)[n].transition for n in rng.integers(2, size=LENGTH - 1)]
        series, chance = listed(first.stationary, kernels)
        for labels in values_of_windows(series, window):
            reached = attacked_loss(series, chance, labels, extreme_functions(metric, b), rng, 1)
            assert reached <= bound * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_windows_whatever_the_start(seed):
    """Any start and a given one, moves that never happen, profiles as accounts have them."""
    rng = np.random.default_rng(seed)
    size, window = int(rng.integers(2, 4)), int(rng.integers(1, LENGTH + 1))
    matrix, start = rng.dirichlet(np.full(size, 0.8), size=size), rng.dirichlet(np.ones(size))
    if seed % 3 == 0:
        matrix[0] = np.eye(size)[seed % size]
    if seed % 4 == 0:
        start = np.eye(size)[seed % size]
    theta = ChainClass.any_start(matrix) if seed % 2 else ChainClass.of(MarkovChain(start, matrix))
    spent = rng.uniform(0, 1.5, LENGTH) if seed % 5 else np.full(LENGTH, 0.7)
    bound = InfluenceCurve(theta.with_secrets(Secrets.runs(window)), LENGTH).epsilon(spent)
    series, chance = listed(start, [matrix] * (LENGTH - 1))
    each = [extreme_functions(1 - np.eye(size), b) for b in spent]
    for labels in values_of_windows(series, window):
        assert attacked_loss(series, chance, labels, each, rng, 1) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("length", [7, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("window", [2, 5])
def test_windows_of_classes_that_know_no_start(window, length):
    """Every class: more than for an entry, no more than for its entries one by one, and checked."""
    counts = [[800, 150, 50], [200, 600, 200], [100, 300, 600]]
    for theta in (
        ChainClass.binary(0.3, 0.7),
        ChainClass.any_start([[0.8, 0.2], [0.4, 0.6]], [[0.7, 0.3], [0.2, 0.8]]),
        ChainClass.mixing([0, 1, 2], 0.2, 0.8),
        ChainClass.around(counts, 0.95),
        ChainClass.around(counts, 0.95, sides="any start"),
        ChainClass.of(MarkovChain([1, 0], [[0.8, 0.2], [0.4, 0.6]])),
    ):
        query = count(theta.states[1], length)
        one = influence_curve(theta, query, 1).scale
        noise = influence_curve(theta, query, 1, secrets=Secrets.runs(window))
        assert one < noise.scale <= min(window * one, length) * (1 + 1e-6)
        release = noise.release([theta.states[n % 2] for n in range(length)]).to_dict()
        assert verify(release).ok
        assert not verify({**release, "scale": 0.99 * noise.scale}).ok
    pairs = ChainClass.binary(0.3, 0.7).with_secrets(Secrets.pairs({(0, 1): 2.0}))
    twice = influence_curve(ChainClass.binary(0.3, 0.7), count(1, length), 2)
    scale = influence_curve(pairs, count(1, length), 1).scale
    assert scale == pytest.approx(twice.scale, rel=1e-6)


@pytest.mark.parametrize("start", [None, 1])
@pytest.mark.parametrize("period", [3, 200])
def test_windows_under_a_clock(start, period):
    """Short clocks are followed entry by entry, long ones round and round."""
    rng = np.random.default_rng(3)
    kernels = [rng.dirichlet(np.ones(2), size=2) for _ in range(3)]
    theta = ChainClass.seasonal(kernels, period=period, start=start)
    bound = InfluenceCurve(theta.with_secrets(Secrets.runs(2)), LENGTH).epsilon(0.7)
    functions = extreme_functions(1 - np.eye(2), 0.7)
    for slot in range(0, period, 40 if period > 3 else 1) if start is None else [start]:
        steps = [theta.matrices[(slot + n) % period] for n in range(LENGTH - 1)]
        series, chance = listed(theta.marginals[slot], steps)
        for labels in values_of_windows(series, 2):
            assert attacked_loss(series, chance, labels, functions, rng, 1) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_named_pairs_lose_their_own_epsilons(seed):
    rng = np.random.default_rng(seed)
    chain, b = random_chain(rng, 3), 0.6
    secrets = Secrets.pairs({(0, 1): 1.0, (1, 2): 2.5})
    theta = ChainClass.of(chain).with_secrets(secrets)
    bound = InfluenceCurve(theta, LENGTH).epsilon(b)
    weights = np.array([[0, 1, 0], [1, 0, 0.4], [0, 0.4, 0]])
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    functions = extreme_functions(1 - np.eye(3), b)
    for labels in values_of_windows(series, 1):
        reached = attacked_loss(series, chance, labels, functions, rng, 1, weights)
        assert reached <= bound * (1 + 1e-9)


def test_entries_that_are_not_used_cost_nothing_and_the_others_their_own():
    """A profile, as accounts have it: some entries spend more, some nothing."""
    rng = np.random.default_rng(5)
    chain = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    spent = [0.0, 0.9, 0.9, 0.2, 0.0]
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    each = [extreme_functions(1 - np.eye(2), b) for b in spent]
    for secrets, windows in (
        (Secrets.runs(2), list(values_of_windows(series, 2))),
        (
            Secrets.at_least(1, 3),
            list(labels_of_windows(series, 3, lambda v: int(1 in v))),
        ),
    ):
        theta = ChainClass.of(chain).with_secrets(secrets, entries=False)
        bound = InfluenceCurve(theta, LENGTH).epsilon(spent)
        for labels in windows:
            assert attacked_loss(series, chance, labels, each, rng, 2) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    "matrix", [[[0, 1.0], [1, 0]], [[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]], [[1.0]]]
)
def test_periodic_chains_and_one_state(matrix):
    chain = MarkovChain.steady(matrix)
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    rng = np.random.default_rng(0)
    size = len(matrix)
    theta = ChainClass.of(chain).with_secrets(Secrets.runs(3))
    bound = InfluenceCurve(theta, LENGTH).epsilon(0.4)
    functions = extreme_functions(1 - np.eye(size), 0.4)
    for labels in values_of_windows(series, 3):
        assert attacked_loss(series, chance, labels, functions, rng, 1) <= bound + 1e-9


def test_what_has_no_theorem_is_refused():
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    event = Secrets.at_least(1, 3)
    with pytest.raises(NotApplicable, match="known chains"):
        ChainClass.hull(chain, chain).with_secrets(event)
    with pytest.raises(NotApplicable, match="stationary start"):
        ChainClass.any_start(chain.transition).with_secrets(event)
    with pytest.raises(NotApplicable, match="stationary start"):
        ChainClass.of(MarkovChain([1, 0], chain.transition)).with_secrets(Secrets.sets(2))
    with pytest.raises(NotApplicable, match="for known chains"):
        markov_quilt(ChainClass.binary(0.3, 0.7).with_secrets(Secrets.runs(2)), count(1, 9), 1)
    with pytest.raises(NotApplicable, match="hidden states"):
        ChainClass.order(2, [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]]).with_secrets(
            Secrets.runs(2)
        )
    theta = ChainClass.of(chain).with_secrets(event)
    with pytest.raises(NotApplicable, match="covers single entries"):
        gk16(theta, count(1, 100), 1)
    with pytest.raises(NotApplicable, match="sets of entries"):
        markov_quilt(ChainClass.of(chain).with_secrets(Secrets.sets(2)), count(1, 100), 1)
    hull = ChainClass.hull(chain, chain).with_secrets(Secrets.runs(2))
    with pytest.raises(NotApplicable, match="for known chains"):
        markov_quilt(hull, count(1, 100), 1)
    with pytest.raises(NotApplicable, match="single entries"):
        explain(influence_curve(theta, count(1, 100), 1))
    with pytest.raises(ValueError, match="already have secrets"):
        theta.with_secrets(event)
    with pytest.raises(ValueError, match="name at least one"):
        ChainClass.of(chain).with_secrets()
    with pytest.raises(ValueError, match="not a state"):
        ChainClass.of(chain).with_secrets(Secrets.at_least("smoking", 3))
    with pytest.raises(ValueError, match="must be at most 3"):
        Secrets.at_least(1, 3, times=4)
    with pytest.raises(ValueError, match="more than"):
        ChainClass.of(chain).with_secrets(Secrets.patterns(20, sum))
    with pytest.raises(ValueError, match="same label"):
        ChainClass.of(chain).with_secrets(Secrets.patterns(2, lambda v: 0))


def test_a_pair_never_loses_more_than_its_own_epsilon():
    """A multiple below 1 slipped through where everything together was the better bound."""
    with pytest.raises(ValueError, match="multiples must be at least 1"):
        Secrets.pairs({(0, 1): 0.5})
    sticky = MarkovChain.steady([[0.99, 0.01], [0.01, 0.99]])
    for length in (1, 3, 6):
        theta = ChainClass.of(sticky).with_secrets(Secrets.pairs({(0, 1): 2.0}))
        noise = influence_curve(theta, count(1, length), 0.5)
        assert InfluenceCurve(sticky, length).epsilon(1 / noise.scale) <= 1 + 1e-6


def test_a_window_longer_than_every_series_is_refused():
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    theta = ChainClass.of(chain).with_secrets(Secrets.at_least(1, 2016), entries=False)
    with pytest.raises(NotApplicable, match="needs 2016 entries"):
        influence_curve(theta, count(1, 2000), 1)
    with pytest.raises(ValueError, match="have the same text"):
        ChainClass.of(chain).with_secrets(Secrets.patterns(1, lambda v: "1" if v[0] else 1))


@pytest.mark.parametrize("length", [3, 4, 5])
def test_a_run_that_begins_with_the_only_possible_value(length):
    free, back = np.full((2, 2), 0.5), np.array([[1.0, 0.0], [1.0, 0.0]])
    theta = ChainClass.seasonal([free, free, free, back], start=0)
    query = count(1, length)
    noise = influence_curve(theta, query, 1, secrets=Secrets.runs(4))
    series, chance = listed([1.0, 0.0], [free, free, free, back][: length - 1])
    windows = values_of_windows(series, min(4, length))
    worst = max(sum_loss(series, chance, own, [0, 1], noise.scale) for own in windows)
    assert worst <= 1 + 1e-9
    assert verify(noise.release([0] * length, anyway=True)).ok
