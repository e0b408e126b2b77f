"""A short, repeatable slice of the attacks; ``python -m tests.attacks`` goes on for longer."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest

import pufferkit as pk
from tests.attacks.accounts import (
    FLEET,
    GOES_ON,
    GROWING,
    SESSION,
    by_fleet,
    by_going_on,
    by_growth,
    by_session,
)
from tests.attacks.cases import TARGETS, Case, Target
from tests.attacks.charges import (
    MECHANISMS,
    beliefs_of,
    by_compose_of_others,
    by_rule,
    losses_of,
    query_of,
    told,
)
from tests.attacks.climb import TOLERANCE, climb
from tests.attacks.models import GRAPHS, SERIES, alone, at_outer_outputs, of_account, of_table
from tests.attacks.refusals import REFUSED, not_refused
from tests.attacks.shapes import worst_cost
from tests.oracles.joint_loss import NoisySum, any_start_losses, losses
from tests.oracles.outer import outer_loss

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def old_parallel(case: Case) -> tuple[np.ndarray, float]:
    """Losses, and [C] Theorem 3.1 as it stands: the largest over entries *in* the windows."""
    theta, history = beliefs_of(case), []
    (chain,) = theta.chains
    ordered = sorted(case.asked, key=lambda asked: asked.first)
    if any(other.first <= one.last for one, other in pairwise(ordered)):
        raise ValueError("windows overlap")
    for asked in case.asked:
        made = MECHANISMS[asked.mechanism](theta, query_of(case, asked), asked.epsilon)
        history += told(case, asked, made.scale)
    count, epsilons = len(ordered), [asked.epsilon for asked in ordered]
    right, left = [0.0] * count, [0.0] * count
    for j in range(count - 2, -1, -1):
        gap = ordered[j + 1].first - ordered[j].last
        right[j] = min(influence(chain, gap), epsilons[j + 1] + right[j + 1])
    for j in range(1, count):
        gap = ordered[j].first - ordered[j - 1].last
        left[j] = min(influence(chain, -gap), epsilons[j - 1] + left[j - 1])
    charge = max(e + before + after for e, before, after in zip(epsilons, left, right, strict=True))
    return losses_of(case, theta, history), charge


def influence(chain: pk.MarkovChain, steps: int) -> float:
    """e(X_{t+steps} | X_t) of a stationary chain, by definition."""
    can = chain.initial > 0
    rows = np.linalg.matrix_power(chain.transition, abs(steps))[np.ix_(can, can)]
    if steps < 0:
        rows = (chain.initial[can, None] * rows / chain.initial[can]).T
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(rows)[:, None, :] - np.log(rows)[None, :, :]
    return float(np.nan_to_num(logs, nan=0.0, posinf=np.inf).max())


def test_the_climber_breaks_the_theorem_that_forgets_entries_between_windows():
    """So that its silence elsewhere means something."""
    target = replace(TARGETS["parallel"], kinds=("steady",))
    for seed in (2, 5, 0, 1, 3, 4):
        summit = climb(target, old_parallel, np.random.default_rng(seed), 600, enough=1.01)
        if summit.ratio > 1.01:
            break
    assert summit.ratio > 1.01
    assert not any(a.first <= summit.entry <= a.last for a in summit.case.asked)
    # The same history is charged enough by the rule in use.
    largest, charge = by_rule(summit.case, "parallel")
    assert largest.max() <= charge * (1 + TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("rule", TARGETS)
def test_no_rule_charges_less_than_any_entry_loses(rule):
    charge = partial(by_rule, rule=rule)
    for seed in (1, 2):
        summit = climb(TARGETS[rule], charge, np.random.default_rng(seed), 30)
        assert summit.charge > 0
        assert summit.ratio <= 1 + TOLERANCE, summit


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("steady", marks=pytest.mark.slow),
        "fixed start",
        pytest.param("several", marks=pytest.mark.slow),
    ],
)
def test_no_history_of_sums_is_charged_less_than_it_tells_of_a_pair(kind):
    """Sums with distances of their own over any windows: chains whose starts are known."""
    target = Target("entry_profile", ("influence_curve", "entry_dp"), (1, 2, 3), (kind,))
    charge = partial(by_rule, rule=target.rule)
    summit = climb(target, charge, np.random.default_rng(7), 40)
    assert summit.charge > 0
    assert summit.ratio <= 1 + TOLERANCE, summit


@pytest.mark.parametrize(
    ("target", "charge"),
    [
        (SESSION, by_session),
        (FLEET, by_fleet),
        (GROWING, by_growth),
        (GOES_ON, by_going_on),
    ],
)
def test_no_account_charges_less_than_any_entry_loses(target, charge):
    # Random cases may be refused (a class that never mixes, many outputs): take one that is not.
    summits = (climb(target, charge, np.random.default_rng(seed), 8) for seed in range(3, 20))
    summit = next(summit for summit in summits if summit.charge > 0)
    assert summit.ratio <= 1 + TOLERANCE, summit


def test_noise_for_other_beliefs_is_charged_for_what_it_loses():
    target = Target("other beliefs", ("influence_curve", "group_dp"), (1, 2), ("several",))

    def by_promise(case: Case) -> tuple[np.ndarray, float]:
        """As if the noise had been made for the chain that is true."""
        with mock.patch.object(pk.Spending, "of", lambda *of: replace(made(*of), beliefs=None)):
            return by_compose_of_others(case)

    made = pk.Spending.of
    summit = climb(target, by_promise, np.random.default_rng(1), 200, enough=1.05)
    assert summit.ratio > 1.05  # the climber sees it
    largest, charge = by_compose_of_others(summit.case)
    assert largest.max() <= charge * (1 + TOLERANCE)
    summit = climb(target, by_compose_of_others, np.random.default_rng(2), 40)
    assert summit.charge > 0
    assert summit.ratio <= 1 + TOLERANCE, summit


@pytest.mark.parametrize("kind", [*SERIES, *GRAPHS])
def test_no_release_about_a_random_model_tells_more_than_epsilon(kind):
    seen = [own for seed in range(4) for own in alone(kind, np.random.default_rng([1, seed]))]
    assert all(share <= 1 + TOLERANCE for share, _ in seen), max(seen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERIES)
@pytest.mark.parametrize("attack", [of_account, of_table])
def test_no_history_about_a_random_model_tells_more_than_is_charged(kind, attack):
    seen = [attack(kind, np.random.default_rng([2, seed])) for seed in range(3)]
    assert all(share <= 1 + TOLERANCE for share, _ in filter(None, seen)), seen


def test_no_output_tells_regimes_apart_by_more_than_their_cost():
    seen = [worst_cost(np.random.default_rng([4, seed])) for seed in range(60)]
    assert all(share <= 1 + TOLERANCE for share, _ in seen), max(seen)
    assert max(share for share, m in seen if m < 4) > 0.99
    assert max(share for share, m in seen if m > 9) > 0.15


def test_a_long_series_tells_as_much_as_promised_at_outer_outputs():
    moves, shown = (
        np.array([[0.95, 0.05], [0.1, 0.9]]),
        np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
    )
    made = pk.shaped(pk.RegimeClass(moves, shown), pk.histogram(range(3), 2000), 1)
    shape = made.rotated.shape
    scales = np.array([float(scale) for scale in shape.scales])
    chain = ([2 / 3, 1 / 3], [moves] * 1999, [shown] * 2000)
    assert 0.9 < outer_loss(*chain, shape.directions, scales) <= 1 + TOLERANCE
    assert outer_loss(*chain, shape.directions, 0.9 * scales) > 1  # no scale is to spare


@pytest.mark.slow
def test_no_long_series_tells_more_at_outer_outputs():
    seen = [own for seed in range(6) for own in at_outer_outputs(np.random.default_rng([3, seed]))]
    assert {"shaped", "influence_curve"} <= {words.split(",")[0] for _, words in seen}
    assert 0.9 < max(seen)[0] <= 1 + TOLERANCE, max(seen)


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_theorem_covers_is_refused(name):
    seen = [not_refused(name, np.random.default_rng(seed)) for seed in range(3)]
    assert sum(tried for tried, _ in seen) >= 12
    assert not any(wrong for _, wrong in seen)


# -- the oracle --------------------------------------------------------------------------------


def test_the_loss_of_one_entry_by_hand():
    """X_2 = (X_1, X_3) of fair coins: two noisy coins tell both halves of it."""
    pairs = [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]] * 2  # (u, v) to (v, a fair coin)
    history = [NoisySum(1, 1, (0, 1, 0, 1), 1.0), NoisySum(3, 3, (0, 0, 1, 1), 1.0)]
    assert losses([0.25] * 4, pairs, history, [3]) == pytest.approx([1, 2, 1])


def test_the_grid_of_outputs_has_the_worst_one():
    rng = np.random.default_rng(4)
    chain, start = rng.dirichlet([1, 1, 1], 3), rng.dirichlet([1, 1, 1])
    history = [NoisySum(1, 2, (0, 1, 3), 0.7), NoisySum(2, 4, (1, 0, -1), 1.3)]
    worst = losses(start, chain, history, [4])
    paths = np.indices((3,) * 4).reshape(4, -1)
    chance = start[paths[0]] * np.prod([chain[paths[t], paths[t + 1]] for t in range(3)], axis=0)
    outputs = rng.uniform(-6, 10, size=(2000, 2))
    shifts = np.zeros((2000, paths.shape[1]))
    for axis, told_ in enumerate(history):
        sums = np.array(told_.values)[paths[told_.first - 1 : told_.last]].sum(axis=0)
        shifts += np.abs(outputs[:, [axis]] - sums) / told_.scale
    density = np.exp(-shifts) * chance
    for i in range(4):
        given = [density[:, paths[i] == x].sum(1) / chance[paths[i] == x].sum() for x in range(3)]
        spread = np.log(np.max(given, axis=0) / np.min(given, axis=0)).max()
        assert 0.8 * worst[i] <= spread <= worst[i] + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_any_start_is_the_largest_over_starts(seed):
    rng = np.random.default_rng(seed)
    chain = rng.dirichlet([0.7] * 3, 3)
    history = [NoisySum(1, 2, tuple(rng.normal(size=3)), 1.0), NoisySum(4, 4, (0, 1, 2), 0.5)]
    worst = any_start_losses(chain, history, 4)
    starts = rng.dirichlet([0.3] * 3, 300)
    seen = np.max([losses(start, chain, history, [4]) for start in starts], axis=0)
    assert (seen <= worst + 1e-9).all()
    assert (seen >= 0.9 * worst).all()
