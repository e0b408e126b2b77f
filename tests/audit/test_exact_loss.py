"""The exact auditor against the definition, and every mechanism against it."""

from dataclasses import replace
from itertools import pairwise, product
from math import log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.audit import exact_loss, worst_case
from pufferkit.mechanisms.plan import MECHANISMS
from tests.strategies.generators import chains, epsilons
from tests.strategies.stand_ins import Response, symmetric

LAZY = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


def density(chain, query, scale, entry, state, output):
    """p(output | X_entry = state), path by path."""
    length, total, mass = sum(query.lengths), 0.0, 0.0
    for path in product(range(len(chain)), repeat=length):
        if path[entry - 1] != state:
            continue
        weight, place = 1.0, 0
        for segment in query.lengths:
            own = path[place : place + segment]
            weight *= chain.initial[own[0]]
            for x, y in pairwise(own):
                weight *= chain.transition[x, y]
            place += segment
        answer = np.atleast_1d(query.evaluate(np.array(path)))
        total += weight * np.exp(-np.abs(answer - output).sum() / scale)
        mass += weight
    return total / mass if mass > 0 else None


def losses(chain, query, scale, outputs):
    """The largest loss over entries and values at each output."""
    largest = []
    for output in outputs:
        for entry in range(1, sum(query.lengths) + 1):
            values = [density(chain, query, scale, entry, x, output) for x in range(len(chain))]
            logs = [log(value) for value in values if value is not None]
            largest.append(max(logs) - min(logs))
    return max(largest)


@pytest.mark.parametrize("length", [1, 2, 5, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("matrix", [[[0.9, 0.1], [0.4, 0.6]], [[0.9, 0.1], [0.1, 0.9]]])
def test_the_influence_curve_is_tight_for_counts(matrix, epsilon, length):
    """stationary binary chains with q + r <= 1 reach the promise."""
    chain = pk.MarkovChain.steady(matrix)
    noise = pk.influence_curve(chain, pk.count(1, length), epsilon)
    assert exact_loss(noise) == pytest.approx(epsilon, rel=1e-6)
    assert exact_loss(noise) <= epsilon


@pytest.mark.parametrize(
    ("matrix", "b", "loss"),
    [
        ([[0.9, 0.1], [0.4, 0.6]], 1, 3.209),
        ([[0.9, 0.1], [0.1, 0.9]], 0.3, 1.7458),
    ],
)
def test_numbers_of_the_theory(matrix, b, loss):
    entry = pk.entry_dp(pk.count(1, 10), b)
    assert exact_loss(entry, pk.MarkovChain.steady(matrix)) == pytest.approx(loss, abs=5e-4)


@settings(max_examples=12)
@given(chains(most=3, least=2), st.integers(1, 3), epsilons, st.randoms(use_true_random=False))
def test_no_vector_does_worse(case, length, epsilon, random):
    chain = case.believed
    query = pk.histogram(range(len(chain)), length)
    noise = pk.entry_dp(query, epsilon)
    try:
        worst = worst_case(noise, chain)
    except pk.NotApplicable:
        assume(False)
    at = losses(chain, query, noise.scale, [np.array(worst.output)])
    assert at == pytest.approx(worst.loss, rel=1e-9, abs=1e-9)
    outputs = [
        np.array([random.uniform(-2, length + 2) for _ in range(len(chain))]) for _ in range(40)
    ]
    assert losses(chain, query, noise.scale, outputs) <= worst.loss + 1e-9


@settings(max_examples=30)
@given(chains(most=3, least=2), st.integers(1, 5), epsilons)
def test_no_mechanism_loses_more_than_it_promises(case, length, epsilon):
    chain = case.believed
    for query in (pk.count(0, length), pk.histogram(range(len(chain)), length)):
        for row in pk.plan(chain, query, epsilon).rows:
            if not row["applicable"] or not row["pufferfish"]:
                continue
            noise = MECHANISMS[row["mechanism"]](chain, query, epsilon)
            try:
                loss = exact_loss(noise, chain)
            except pk.NotApplicable:
                continue  # every entry is certain: no secret
            assert loss <= epsilon * (1 + 1e-9), row["mechanism"]


def test_half_the_noise_loses_more():
    noise = pk.influence_curve(LAZY, pk.count(1, 5), 1)
    assert exact_loss(replace(noise, scale=noise.scale / 2)) == pytest.approx(2.054342, abs=1e-5)
    assert exact_loss(replace(noise, scale=noise.scale * 0.99)) > 1


def test_where_it_is_worst():
    worst = worst_case(pk.influence_curve(LAZY, pk.count(1, 5), 1))
    assert (worst.entry, worst.likelier, worst.other, worst.output) == (3, 1, 0, (5.0,))
    assert worst.complete


def test_segments_are_independent():
    """A segment of its own tells nothing about the other, except through the shared answer."""
    one = pk.entry_dp(pk.count(1, [3]), 1)
    two = pk.entry_dp(pk.count(1, [3, 2]), 1)
    assert exact_loss(one, LAZY) > exact_loss(two, LAZY) - 1e-9
    query = pk.count(1, [2, 2])
    noise = pk.entry_dp(query, 1.3)
    assert exact_loss(noise, LAZY) == pytest.approx(
        losses(LAZY, query, noise.scale, range(5)), rel=1e-9
    )


def test_a_query_that_is_no_sum():
    longest = pk.Query("changes", lambda x: int(np.sum(x[1:] != x[:-1])), 2, 5)
    noise = pk.influence_curve(LAZY, longest, 1)
    loss = exact_loss(noise)
    assert loss == pytest.approx(losses(LAZY, longest, noise.scale, range(5)), rel=1e-9)
    assert loss <= 1


def test_joint_distributions_and_networks():
    table = {(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.1, (1, 1): 0.4}
    flu = pk.FiniteJoint(table, names=["ann", "bob"])
    noise = pk.wasserstein(flu, pk.count(1, 2), 1)
    worst = worst_case(noise)
    by_hand = log(
        (0.8 + 0.2 * np.exp(-1 / noise.scale))
        / (0.2 * np.exp(-1 / noise.scale) + 0.8 * np.exp(-2 / noise.scale))
    )
    assert worst.loss == pytest.approx(by_hand)
    assert worst.loss <= 1
    assert worst.entry in ("ann", "bob")
    pair = pk.BayesianNetwork(
        {"ann": (), "bob": ("ann",)},
        {"ann": {(): [0.5, 0.5]}, "bob": {(0,): [0.8, 0.2], (1,): [0.2, 0.8]}},
    )
    assert exact_loss(pk.wasserstein(pair, pk.count(1, 2), 1)) == pytest.approx(worst.loss)


def test_the_influence_curve_is_tight_over_all_starts():
    theta = pk.ChainClass.any_start([[0.7, 0.3], [0.4, 0.6]])
    assert exact_loss(pk.influence_curve(theta, pk.count(1, 2), 0.3)) == pytest.approx(
        0.3, abs=1e-6
    )


def test_classes_of_many_matrices_are_tried_and_every_start_is_complete():
    """No start needs more than two states, so three are no more open than two."""
    theta = pk.ChainClass.any_start(np.full((3, 3), 0.2) + 0.4 * np.eye(3))
    for beliefs, complete in ((pk.ChainClass.binary(0.3, 0.8), False), (theta, True)):
        worst = worst_case(pk.influence_curve(beliefs, pk.count(1, 4), 1))
        assert worst.complete == complete
        assert 0.3 < worst.loss <= 1


def test_a_class_takes_its_worst_chain():
    other = symmetric(0.1)
    noise = pk.entry_dp(pk.count(1, 4), 1)
    both = worst_case(noise, pk.ChainClass.of(LAZY, other))
    assert both.loss == max(exact_loss(noise, LAZY), exact_loss(noise, other))
    assert both.belief in ("chain 1 of 2", "chain 2 of 2")


def test_tiny_noise_does_not_underflow():
    noise = pk.entry_dp(pk.count(1, 8), 5000)
    assert exact_loss(noise, LAZY) > 5000
    assert np.isfinite(exact_loss(noise, LAZY))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: exact_loss(pk.influence_curve(LAZY, pk.count(1, 21), 1)), "at most 20 entries"),
        (lambda: exact_loss(pk.entry_dp(pk.count(1, 4), 1)), "give those to audit it against"),
        (lambda: exact_loss(pk.entry_dp(pk.count(1, 4), 1), LAZY, length=4), "only for local"),
        (lambda: exact_loss(Response(LAZY, 0.2, 1)), "length"),
        (lambda: exact_loss(Response(LAZY, 0.2, 1), length=11), "too many sanitised series"),
        (lambda: exact_loss(Response(LAZY, 0.2, 1), length=4, known={5: 0}), "beyond the 4"),
        (lambda: exact_loss(Response(LAZY, 0.2, 1), length=4, known={2: 7}), "not a state"),
        (lambda: exact_loss("noise", LAZY, length=3), "a matrix and an epsilon"),
        (
            lambda: exact_loss(pk.entry_dp(pk.count(1, 4), 1), pk.MarkovChain([1, 0], np.eye(2))),
            "no entry can take two values",
        ),
        (
            lambda: exact_loss(pk.entry_dp(pk.count(1, 4), 1), pk.ChainClass.mixing(2, 0.2, 0.5)),
            "has no single chain",
        ),
        (
            lambda: exact_loss(
                pk.entry_dp(pk.Query("last", lambda x: float(x[-1]), 1, 18), 1), LAZY
            ),
            "too many data sets",
        ),
        (
            lambda: exact_loss(
                pk.influence_curve(
                    LAZY,
                    pk.Query("thrice", lambda x: np.tile(x, 3), 3, 8, labels=map(str, range(24))),
                    1,
                )
            ),
            "too many outputs",
        ),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    ("theta", "rho", "loss"), [(0.2, 0.082913, 5.7096), (0.35, 0.123188, 3.0761)]
)
def test_knowing_both_ends_makes_it_worse(theta, rho, loss):
    """The errata of [B] Theorem 2: the adversary who knows nothing is not always the hardest."""
    response = Response(symmetric(theta), rho, round(loss))
    assert exact_loss(response, length=7, known={1: 0, 7: 0}) == pytest.approx(loss, abs=5e-5)
    assert exact_loss(response, length=7) < loss
    assert worst_case(response, length=7, known={1: 0, 7: 0}).entry == 4


def test_local_loss_path_by_path():
    chain = pk.MarkovChain([0.7, 0.3], [[0.6, 0.4], [0.1, 0.9]])
    response = Response(chain, 0.2, 1)
    largest = -np.inf
    for outputs in product(range(2), repeat=4):
        table = np.zeros((4, 2))
        prior = np.zeros((4, 2))
        for path in product(range(2), repeat=4):
            weight = chain.initial[path[0]]
            for x, y in pairwise(path):
                weight *= chain.transition[x, y]
            seen = np.prod([response.matrix[x, z] for x, z in zip(path, outputs, strict=True)])
            for t, x in enumerate(path):
                table[t, x] += weight * seen
                prior[t, x] += weight
        largest = max(largest, np.abs(np.diff(np.log(table / prior), axis=1)).max())
    assert exact_loss(response, length=4) == pytest.approx(largest, rel=1e-12)


def test_a_symbol_that_only_one_state_gives_tells_everything():
    chain = symmetric(0.3)
    assert exact_loss(Response(chain, 0.0, 1), length=3) == np.inf


def test_probabilities_that_floats_would_lose_are_refused():
    rare = pk.MarkovChain([0.5, 0.5], [[1 - 1e-99, 1e-99], [0.5, 0.5]])
    with pytest.raises(pk.NotApplicable, match="too small"):
        exact_loss(pk.entry_dp(pk.count(1, 4), 1), rare)
    with pytest.raises(pk.NotApplicable, match="too small"):
        exact_loss(Response(rare, 0.2, 1), length=3)
