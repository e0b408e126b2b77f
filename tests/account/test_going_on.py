"""The promise of an account that goes on against the exact loss over long histories."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.base import as_beliefs
from pufferkit.mechanisms.influence_curve import endless
from tests.oracles.stream_loss import Asked, Told

SLOW = [[0.9, 0.1], [0.4, 0.6]]
FAST = [[0.3, 0.7], [0.7, 0.3]]
THREE = [[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]
STICKY = [[0.8, 0.2], [0.2, 0.8]]
SWITCH, EMITS = [[0.9, 0.1], [0.2, 0.8]], [[0.85, 0.15], [0.25, 0.75]]


def steady(matrix):
    values, vectors = np.linalg.eig(np.asarray(matrix).T)
    one = np.real(vectors[:, np.argmax(values.real)])
    return one / one.sum()


def hidden(matrix, emission):
    """The chain of (regime, entry)."""
    matrix, emission = np.asarray(matrix), np.asarray(emission)
    size, shown = emission.shape
    kernel = np.einsum("zw,wx->zwx", matrix, emission).reshape(size, size * shown)
    pairs = np.repeat(kernel, shown, axis=0)
    start = (steady(matrix)[:, None] * emission).ravel()
    return start, pairs, [x for _ in range(size) for x in range(shown)]


def told_by(initial, matrix):
    return Told(initial, matrix, range(len(initial)))


CASES = {
    "steady": (pk.MarkovChain.steady(SLOW), lambda: told_by(steady(SLOW), SLOW), 2),
    "anticorrelated": (pk.MarkovChain.steady(FAST), lambda: told_by(steady(FAST), FAST), 2),
    "three states": (pk.MarkovChain.steady(THREE), lambda: told_by(steady(THREE), THREE), 3),
    "given start": (pk.MarkovChain([1.0, 0.0], SLOW), lambda: told_by([1.0, 0.0], SLOW), 2),
    "any start": (pk.ChainClass.any_start(SLOW), lambda: told_by([0.02, 0.98], SLOW), 2),
    "binary": (
        pk.ChainClass.binary(0.3, 0.8),
        lambda: told_by([0.5, 0.5], STICKY),
        2,
    ),
    "hull": (
        pk.ChainClass.hull(pk.MarkovChain.steady(SLOW), pk.MarkovChain.steady(FAST)),
        lambda: told_by(steady(SLOW), SLOW),
        2,
    ),
    "clock": (
        pk.ChainClass.seasonal([SLOW, FAST], start=0),
        lambda: Told(steady(np.array(SLOW) @ FAST), [SLOW, FAST], (0, 1)),
        2,
    ),
    "hidden states": (
        pk.RegimeClass(SWITCH, EMITS),
        lambda: Told(*hidden(SWITCH, EMITS)),
        2,
    ),
}


def choices_of(beliefs, epsilon, states, length):
    """Counts of each state, and a total, with the noise that an account gives them."""
    asked = [pk.count(x, length) for x in range(states)]
    sums = [tuple(int(y == x) for y in range(states)) for x in range(states)]
    asked.append(pk.total(list(range(states)), length))
    sums.append(tuple(range(states)))
    theta = as_beliefs(beliefs)
    return [(v, endless(theta, q, epsilon).scale) for v, q in zip(sums, asked, strict=True)]


RUNS = [(case, 1.0, 2) for case in CASES] + [
    (case, 3.0, 1) for case in ("steady", "three states", "hidden states")
]


@pytest.mark.parametrize(
    ("case", "epsilon", "length"),
    [pytest.param(*run, marks=pytest.mark.slow if n % 3 else ()) for n, run in enumerate(RUNS)],
)
def test_no_entry_of_a_long_series_loses_more_than_epsilon(case, epsilon, length):
    beliefs, told, states = CASES[case]
    chain, count, tops = told(), 40, []
    for choice in choices_of(beliefs, epsilon, states, length):
        best, worst = chain.climb(count, length, count * length // 2, [choice])
        assert chain.losses(worst).max() <= epsilon  # every entry, not only the one that is driven
        tops.append(best)
    assert max(tops) > (0.95 if case in ("steady", "given start") else 0.4) * epsilon


def test_a_fifth_less_noise_is_found_out():
    choices = choices_of(pk.MarkovChain.steady(SLOW), 1.0, 2, 2)
    chain = told_by(steady(SLOW), SLOW)
    best = max(chain.climb(40, 2, 40, [(v, 0.8 * scale)])[0] for v, scale in choices)
    assert best > 1.1


def test_after_questions_of_two_epsilons_the_account_covers_both(tmp_path):
    chain, data = told_by(steady(SLOW), SLOW), [0, 1] * 40
    account, scales = pk.Account(str(tmp_path / "l.db"), "a", 9.0), []
    for n in range(40):
        epsilon = 0.5 if n < 20 else 1.5
        window = (2 * n + 1, 2 * n + 2)
        belief = pk.MarkovChain.steady(SLOW)
        release = pk.release(
            data, belief, pk.count(0), epsilon, account=account, window=window, anyway=True
        )
        scales.append(release.scale)
    quiet, loud = scales[0], scales[-1]
    sums, tops = (1, 0), []
    for outputs in ((0, 0), (0, 2), (2, 0), (2, 2)):
        course = [Asked(2, sums, quiet, outputs[0])] * 20 + [Asked(2, sums, loud, outputs[1])] * 20
        tops.append(chain.losses(course))
    assert np.max(tops) <= account.spent <= 1.5
    # Entries far from the change keep the smaller epsilon; those beside it do not.
    assert np.max(tops, axis=0)[:15].max() <= 0.5 < np.max(tops, axis=0)[39]
