"""The loss of randomised response: reference cases, the papers' numbers, and the definitions."""

import pickle
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, product
from math import exp, inf, isfinite, isinf, log, tanh

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.local import loss, losses, sides, tanh_bound
from pufferkit.local.losses import (
    entry_bound,
    largest_entry_epsilon,
    own_pair,
    projective_diameter,
    side_bound,
    tanh_pair,
)
from pufferkit.local.sides import Binary, Interval, answers, spread
from tests.oracles.brute_local import brute_loss, emission, joint, losses_of_set, theorem_1
from tests.strategies.generators import chains

REFERENCE = [
    # q, r, rho, (loss_0, loss_1) in the limit, at length 8; the ignorant adversary
    (0.283, 0.32, (0.397, 0.414), (0.8423613596797963, 0.8882909535018373),
     (0.8269459985532268, 0.8697749096357186)),
    (0.284, 0.157, (0.308, 0.454), (1.5125882852871697, 1.6649829376252887),
     (1.3690108015377154, 1.6076658863395545)),
    (0.156, 0.369, (0.311, 0.428), (1.1648808150785444, 1.799029654211541),
     (1.1413951261638198, 1.6996365654382546)),
    (0.159, 0.217, (0.212, 0.262), (3.134514232864334, 3.762342441080171),
     (3.087947670458351, 3.698305377093155)),
    (0.216, 0.118, (0.33, 0.359), (2.8006414349262108, 2.360101177527766),
     (2.4594459335953007, 2.2365883584325372)),
]  # fmt: skip


def binary(q, r, initial=None):
    matrix = [[1 - q, q], [r, 1 - r]]
    return pk.MarkovChain.steady(matrix) if initial is None else pk.MarkovChain(initial, matrix)


@pytest.mark.parametrize(("q", "r", "rho", "limit", "eight"), REFERENCE)
def test_reference_cases(q, r, rho, limit, eight):
    long = loss(binary(q, r), *rho, adversary="ignorant")
    assert long.directions == pytest.approx(limit, abs=1e-9)
    assert long == max(long.directions)
    assert long.method == "closed form"
    assert long.exact
    short = loss(binary(q, r), *rho, length=8, adversary="ignorant")
    assert short.directions == pytest.approx(eight, abs=1e-9)
    assert short.method == "exact recursion"


@pytest.mark.parametrize(("q", "r", "rho", "limit", "eight"), REFERENCE)
def test_theorem_1_as_printed(q, r, rho, limit, eight):
    assert theorem_1(q, r, *rho) == pytest.approx(limit[0], abs=1e-9)
    assert theorem_1(r, q, *rho[::-1]) == pytest.approx(limit[1], abs=1e-9)


@pytest.mark.parametrize(
    ("theta", "rho", "ignorant", "ends_known"),
    [(0.2, 0.082913, 5.0, 5.7096), (0.35, 0.123188, 3.0, 3.0761)],
)
def test_theorem_2_is_false_for_large_epsilon(theta, rho, ignorant, ends_known):
    chain = binary(theta, theta)
    assert loss(chain, rho, rho, adversary="ignorant") == pytest.approx(ignorant, abs=1e-4)
    both = loss(chain, rho, rho, length=7, known={1: 0, 7: 0}, target=4)
    assert both == pytest.approx(ends_known, abs=1e-4)
    assert loss(chain, rho, rho, 7, known={1: None, 7: None}, target=4) == pytest.approx(both)
    assert loss(chain, rho, rho, 7) >= both > loss(chain, rho, rho, 7, "ignorant")
    # The output that does it, by hand.
    table = joint(chain, emission(rho, rho), 7)
    losses = losses_of_set(table, 2, 7, 3, (0, 6))
    assert losses[(0, 0), 1, 0] == pytest.approx(ends_known, abs=1e-4)


@pytest.mark.parametrize("rates", [(0.125, 0.3125), (0.75, 0.9375), (2.0**-30, 2.0**-28)])
@pytest.mark.parametrize("rho", [(0.25, 0.375), (2.0**-40, 0.5 - 2.0**-20), (0.4375, 0.125)])
def test_rounding_is_on_the_private_side(rates, rho):
    """Exact fractions, three entries, middle one, nothing known: the float is never below."""
    (q, r), chain = map(Fraction, rates), binary(*rates)
    p = [[1 - q, q], [r, 1 - r]]
    emit = [[1 - Fraction(rho[0]), Fraction(rho[0])], [Fraction(rho[1]), 1 - Fraction(rho[1])]]
    worst = Fraction(0)
    for z in product((0, 1), repeat=3):
        # A stationary binary chain is reversible: both sides move by p.
        given = [
            emit[x][z[1]]
            * sum(p[x][y] * emit[y][z[0]] for y in (0, 1))
            * sum(p[x][y] * emit[y][z[2]] for y in (0, 1))
            for x in (0, 1)
        ]
        worst = max(worst, given[0] / given[1], given[1] / given[0])
    with localcontext() as context:
        context.prec = 40
        truth = (Decimal(worst.numerator) / Decimal(worst.denominator)).ln()
        for adversary in ("every", "ignorant"):
            assert Decimal(float(loss(chain, *rho, 3, adversary))) >= truth
            assert Decimal(float(loss(chain, *rho, None, adversary))) >= truth
        middle = Decimal(float(loss(chain, *rho, 3, known={}, target=2)))
        assert 0 <= middle - truth < Decimal("1e-11")


def test_for_small_epsilon_every_adversary_costs_next_to_nothing_more():
    chain = binary(0.35, 0.35)
    assert loss(chain, 0.4, 0.4) == pytest.approx(loss(chain, 0.4, 0.4, None, "ignorant"), abs=1e-3)


probabilities = st.sampled_from([0.0, 0.05, 0.2, 0.35, 0.5, 0.6, 1.0])


@settings(max_examples=80)
@given(chains(2, 2), probabilities, probabilities, st.integers(1, 5))
def test_recursion_is_the_definition(drawn, rho_0, rho_1, length):
    chain = drawn.believed
    matrix = emission(rho_0, rho_1)
    for adversary in ("every", "ignorant"):
        truth, directions = brute_loss(chain, matrix, length, adversary)
        computed = loss(chain, rho_0, rho_1, length, adversary)
        assert computed == pytest.approx(truth, abs=1e-9)
        assert computed >= truth - 1e-13
        assert computed.exact
        if truth < inf and directions:
            both = directions[0, 1], directions[1, 0]
            assert computed.directions == pytest.approx(both, abs=1e-9)


@settings(max_examples=40)
@given(chains(2, 2), probabilities, probabilities, st.integers(1, 4))
def test_one_target_is_the_definition(drawn, rho_0, rho_1, length):
    chain = drawn.believed
    table = joint(chain, emission(rho_0, rho_1), length)
    for target in range(1, length + 1):
        others = [n for n in range(length) if n != target - 1]
        truth = max(
            value
            for size in range(length)
            for known in combinations(others, size)
            for value in [0.0, *losses_of_set(table, 2, length, target - 1, known).values()]
        )
        computed = loss(chain, rho_0, rho_1, length, target=target)
        assert computed == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("q", [0.3, 0.9])
def test_seven_entries(q):
    chain = pk.MarkovChain([0.9, 0.1], [[1 - q, q], [0.2, 0.8]])
    truth, _ = brute_loss(chain, emission(0.1, 0.3), 7, "every")
    assert loss(chain, 0.1, 0.3, 7) == pytest.approx(truth, abs=1e-10)


@settings(max_examples=60)
@given(
    chains(2, 2),
    probabilities,
    probabilities,
    st.integers(2, 5),
    st.data(),
)
def test_one_given_set_is_the_definition(drawn, rho_0, rho_1, length, data):
    chain = drawn.believed
    target = data.draw(st.integers(1, length))
    others = [n for n in range(1, length + 1) if n != target]
    places = data.draw(st.lists(st.sampled_from(others), unique=True).map(sorted))
    values = [data.draw(st.sampled_from([0, 1, None])) for _ in places]
    table = joint(chain, emission(rho_0, rho_1), length)
    losses = losses_of_set(table, 2, length, target - 1, [n - 1 for n in places])
    agreeing = [
        value
        for (seen, _, _), value in losses.items()
        if all(v in (None, s) for v, s in zip(values, seen, strict=True))
    ]
    known = dict(zip(places, values, strict=True))
    possible = any(all(v in (None, path[n - 1]) for n, v in known.items()) for path in table)
    if not possible:
        with pytest.raises(ValueError, match="probability zero"):
            loss(chain, rho_0, rho_1, length, known=known, target=target)
        return
    got = loss(chain, rho_0, rho_1, length, known=known, target=target)
    assert got == pytest.approx(max(agreeing, default=0.0), abs=1e-9)


def test_the_worst_given_set_is_every_adversary():
    chain = binary(0.15, 0.3)
    worst = max(
        loss(chain, 0.1, 0.2, 5, known=dict.fromkeys(places), target=target)
        for target in range(1, 6)
        for places in [(), (1,), (5,), (1, 5), (2,), (4,), (2, 4), (1, 4), (2, 5), (3,)]
        if target not in places
    )
    assert worst == pytest.approx(loss(chain, 0.1, 0.2, 5), abs=1e-12)


@settings(max_examples=60)
@given(
    st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.floats(0.01, 0.5), st.floats(0.01, 0.5),
    st.booleans(),
)  # fmt: skip
def test_longer_series_lose_more_up_to_the_limit_and_below_the_tanh_bound(q, r, a, b, steady):
    chain = binary(q, r)
    if not steady:
        chain = pk.MarkovChain([0.97, 0.03], chain.transition)
    for adversary in ("every", "ignorant"):
        losses = [float(loss(chain, a, b, n, adversary)) for n in (1, 2, 3, 8, 40)]
        limit = loss(chain, a, b, None, adversary)
        assert losses == sorted(losses) or max(np.diff(losses) * -1) < 1e-12
        assert losses[-1] <= limit + 1e-10
        assert limit <= tanh_bound(chain, a, b) + 1e-9
    assert loss(chain, a, b) >= loss(chain, a, b, None, "ignorant") - 1e-9


@settings(max_examples=60)
@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_the_limit_is_reached(q, r, a, b):
    assume(abs(1 - q - r) < 0.9)
    chain = binary(q, r)
    for adversary in ("every", "ignorant"):
        assert loss(chain, a, b, 600, adversary) == pytest.approx(
            loss(chain, a, b, None, adversary), abs=1e-8
        )


def test_the_tanh_bound_solves_its_equation():
    for diameter in (0.1, 1.0, 5.0, 40.0):
        for b in (1e-4, 0.3, 2.0, 9.0):
            s = side_bound(diameter, b)
            assert tanh(s / 4) == pytest.approx(tanh(diameter / 4) * tanh((b + s) / 4), abs=1e-12)
    assert side_bound(1e5, 3.0) == 1e5
    assert side_bound(inf, 3.0) == inf
    assert side_bound(0.0, 3.0) == side_bound(2.0, 0.0) == 0.0


@settings(max_examples=40)
@given(chains(3, 2), st.floats(0.05, 1.5), st.integers(1, 4))
def test_entry_bound_covers_every_adversary_on_more_states(drawn, b, length):
    chain = drawn.believed
    size = len(chain)
    rho = 1 / (exp(b) + size - 1)
    matrix = np.full((size, size), rho)
    np.fill_diagonal(matrix, 1 - (size - 1) * rho)
    truth, _ = brute_loss(chain, matrix, length, "every")
    assert entry_bound(chain, b) >= truth - 1e-12


@pytest.mark.parametrize("q", [0.004, 0.999])
def test_the_compiled_recursion_is_the_plain_one(q, monkeypatch):
    chain = pk.MarkovChain([0.2, 0.8], [[1 - q, q], [0.99 * q, 1 - 0.99 * q]])
    fast = [loss(chain, 0.3, 0.45, n, a) for n in (2000, None) for a in ("every", "ignorant")]
    monkeypatch.setattr("pufferkit.local.sides.SHORT", 10**9)
    slow = [loss(chain, 0.3, 0.45, n, a) for n in (2000, None) for a in ("every", "ignorant")]
    assert fast == pytest.approx(slow, abs=1e-12)


def test_chains_that_do_not_forget():
    stuck = pk.MarkovChain([0.5, 0.5], [[1, 0], [0, 1]])
    with pytest.raises(pk.NotApplicable, match="give a length"):
        loss(stuck, 0.2, 0.2)
    # Every entry is the same bit, asked n times.
    assert loss(stuck, 0.2, 0.2, 1000, "ignorant") == pytest.approx(1000 * log(4))
    swapping = pk.MarkovChain([0.5, 0.5], [[0, 1], [1, 0]])
    assert loss(swapping, 0.2, 0.2, 10, "ignorant") == pytest.approx(10 * log(4))
    # Known neighbours make the entry sure, so there is nothing left to tell.
    assert loss(stuck, 0.2, 0.2, 3, known={1: 0}) == 0
    # A chain that starts and stays in one state has no secrets.
    assert loss(pk.MarkovChain.steady([[1, 0], [0.3, 0.7]]), 0.2, 0.2) == 0


def test_independent_entries_lose_their_own_bit_only():
    chain = pk.MarkovChain([0.9, 0.1], [[0.3, 0.7], [0.3, 0.7]])
    for adversary in ("every", "ignorant"):
        assert loss(chain, 0.2, 0.3, None, adversary) == pytest.approx(log(0.7 / 0.2))
        assert loss(chain, 0.2, 0.3, 50, adversary) == pytest.approx(log(0.7 / 0.2))
    assert tanh_bound(chain, 0.2, 0.3) == pytest.approx(log(0.7 / 0.2), abs=1e-12)


def test_no_noise_and_all_noise():
    chain = binary(0.2, 0.3)
    assert isinf(loss(chain, 0, 0.3))
    assert isinf(loss(chain, 0.3, 0, 5, known={1: 0}, target=3))
    assert loss(chain, 0.5, 0.5) == 0
    assert loss(chain, 0.3, 0.7) == pytest.approx(0, abs=1e-12)


def test_extremes():
    slow = binary(1e-9, 1e-9)
    assert loss(slow, 0.3, 0.3, 10**6) >= loss(slow, 0.3, 0.3, 1000) - 1e-9
    assert loss(slow, 0.3, 0.3, 10**6) <= tanh_bound(slow, 0.3, 0.3) + 1e-9
    tiny = loss(binary(0.2, 0.3), 1e-200, 1e-200)
    assert tiny.exact
    assert tiny > 2 * 200 * log(10) - 200 * log(10)


def test_a_loss_says_how_it_was_got_and_survives_pickling():
    nine = loss(binary(0.2, 0.3), 0.2, 0.3, 9)
    again = pickle.loads(pickle.dumps(nine))
    assert again == nine
    assert (again.method, again.length, again.adversary, again.exact) == (
        "exact recursion", 9, "every", True,
    )  # fmt: skip
    assert str(nine).startswith("loss = ")
    assert str(tanh_bound(binary(0.2, 0.3), 0.2, 0.3)).startswith("loss <= ")


@pytest.mark.parametrize("steps", [1, 2, 40, 300])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tail_covers_all_that_is_further(steps, side):
    chain, own = binary(0.05, 0.03), answers(0.3, 0.2)
    two = Binary.of(chain)
    low, high = two.tail(side, own, steps)
    unknown = two.unknown_left if side == "left" else two.unknown_right
    for trace in (unknown(own, 500), *(two.known(side, v, own, 500) for v in (0, 1))):
        assert (-trace.low[steps:]).max() <= low + 1e-12
        assert trace.high[steps:].max() <= high + 1e-12
    if steps == 300:
        assert low == pytest.approx(-two.known(side, 0, own, 500).low[500], abs=1e-6)
        assert high == pytest.approx(two.known(side, 0, own, 500).high[500], abs=1e-6)


def test_each_way_says_what_it_is(monkeypatch):
    chain = binary(0.2, 0.3)
    ways = {
        "nothing": loss(chain, 0.5, 0.5, 7),
        "sure": loss(chain, 0.0, 0.3, 7, "ignorant"),
        "short": loss(chain, 0.2, 0.3, 7, "ignorant"),
        "closed": loss(chain, 0.2, 0.3, adversary="ignorant"),
        "limit": loss(chain, 0.2, 0.3),
        "one": loss(pk.MarkovChain([1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]]), 0.2, 0.3, 3),
    }
    described = {
        name: (value.adversary, value.length, value.method, value.exact)
        for name, value in ways.items()
    }
    assert described == {
        "nothing": ("every", 7, "answers carry no information", True),
        "sure": ("ignorant", 7, "an output is possible under one state only", True),
        "short": ("ignorant", 7, "exact recursion", True),
        "closed": ("ignorant", None, "closed form", True),
        "limit": ("every", None, "recursion to the limit", True),
        "one": ("every", 3, "no entry has two possible values", True),
    }
    assert ways["nothing"].directions == ways["one"].directions == (0.0, 0.0)
    assert ways["sure"].directions == (inf, inf)
    # Longer than what is followed to the end: a bound over all lengths.
    monkeypatch.setattr(losses, "LONGEST", 50)
    assert loss(chain, 0.2, 0.3, 50).method == "exact recursion"
    for adversary, method in (("ignorant", "closed form"), ("every", "recursion to the limit")):
        long = loss(chain, 0.2, 0.3, 51, adversary)
        assert (long.method, long.exact, long.length) == (method, False, 51)
    assert loss(chain, 0.2, 0.3, 50, target=50).method == "exact recursion"
    with pytest.raises(ValueError, match="target: must be an entry of a series of at most 50"):
        loss(chain, 0.2, 0.3, 51, target=3)
    with pytest.raises(pk.NotApplicable, match="of 51 entries"):
        loss(pk.MarkovChain([0.5, 0.5], [[1, 0], [0.5, 0.5]]), 0.2, 0.3, 51)
    with pytest.raises(pk.NotApplicable, match="of any length"):
        loss(pk.MarkovChain([0.5, 0.5], [[1, 0], [0.5, 0.5]]), 0.2, 0.3)


def test_one_move_that_never_happens_is_no_obstacle_after_two_steps():
    chain = pk.MarkovChain.steady([[0.0, 1.0], [0.5, 0.5]])
    assert loss(chain, 0.2, 0.3) == pytest.approx(loss(chain, 0.2, 0.3, 400), abs=1e-9)


def test_what_is_not_followed_is_bounded(monkeypatch):
    """A slow chain, followed for 64 steps only: far distances by a bound, never below the truth."""
    chain, rho = binary(0.002, 0.003), (0.48, 0.49)
    start = binary(0.002, 0.003, [0.3, 0.7])
    every, late = loss(chain, *rho), loss(start, *rho, None, "ignorant")
    assert every.exact
    monkeypatch.setattr(losses, "FAR", 64)
    bound = loss(chain, *rho)
    assert not bound.exact
    assert every - 1e-12 <= bound <= tanh_bound(chain, *rho) * (1 + 1e-12)
    assert late - 1e-12 <= loss(start, *rho, None, "ignorant")


def test_the_two_directions_of_the_tanh_bound():
    own = answers(0.1, 0.4)
    zero, one = own_pair(own)
    lazy, swinging = Binary.of(binary(0.2, 0.3)), Binary.of(binary(0.7, 0.9))
    d = projective_diameter(lazy.chain.transition)
    assert tanh_pair(lazy, own) == (zero + 2 * side_bound(d, zero), one + 2 * side_bound(d, one))
    d = projective_diameter(swinging.chain.transition)
    assert tanh_pair(swinging, own) == (max(own_pair(own)) + 2 * side_bound(d, max(zero, one)),) * 2
    bound = tanh_bound(binary(0.2, 0.3), 0.1, 0.4)
    assert (bound.adversary, bound.length, bound.method, bound.exact) == (
        "every",
        None,
        "tanh bound",
        False,
    )


def test_diameters_are_rounded_up_and_impossible_columns_left_out():
    kernel = np.array([[0.8, 0.2, 0.0], [0.35, 0.65, 0.0]])
    truth = log(0.8 * 0.65 / (0.2 * 0.35))
    diameter = projective_diameter(kernel)
    assert truth < diameter < truth * (1 + 1e-13) + 1e-14
    assert projective_diameter(np.array([[0.5, 0.5], [0.5, 0.5]])) == 0.0
    assert projective_diameter(np.array([[0.5, 0.5], [1.0, 0.0]])) == inf
    three = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
    pairs = [
        log(three[x, u] * three[y, v] / (three[x, v] * three[y, u]))
        for x in range(3) for y in range(3) for u in range(3) for v in range(3)
    ]  # fmt: skip
    assert projective_diameter(three) == pytest.approx(max(pairs))


def test_side_bounds_at_their_ends():
    assert side_bound(1400.0, 1.0) < 1400
    assert side_bound(1401.0, 1.0) == 1401.0
    assert side_bound(3.0, 1401.0) == 3.0
    assert side_bound(3.0, 1400.0) == pytest.approx(3.0)
    assert side_bound(inf, 1401.0) == inf
    for d, b in ((0.1, 0.2), (4.0, 1.5)):
        k, w, y = exp(d / 2), exp(b / 2), exp(side_bound(d, b) / 2)
        assert w * y * y - k * (w - 1) * y - 1 == pytest.approx(0.0, abs=1e-10)
        assert w * y * y - k * (w - 1) * y - 1 >= 0  # rounded up


def test_bounds_for_chains_with_zeros_pay_for_blocks():
    """D of P is infinite, so blocks of two entries are paid for, then steps by P^2."""
    chain = pk.MarkovChain.steady([[0.0, 1.0], [0.5, 0.5]])
    b = 0.3
    wanted = inf
    for m in range(2, 12):
        diameter = projective_diameter(np.linalg.matrix_power(chain.transition, m))
        wanted = min(wanted, 2 * (m * b + side_bound(diameter, m * b)) - b)
    assert entry_bound(chain, b) == pytest.approx(wanted, rel=1e-9)
    assert entry_bound(chain, b) >= wanted
    assert entry_bound(chain, 0.0) == 0.0
    assert entry_bound(pk.MarkovChain([1.0], [[1.0]]), 3.0) == 0.0
    stuck = pk.MarkovChain([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    assert entry_bound(stuck, 0.3) == inf
    assert largest_entry_epsilon(stuck, 1.0) == 0.0


def test_the_largest_entry_epsilon_is_private_and_the_last_that_is():
    for chain in (binary(0.2, 0.3), pk.MarkovChain.steady([[0.0, 1.0], [0.5, 0.5]])):
        for epsilon in (0.1, 1.0, 4.0):
            b = largest_entry_epsilon(chain, epsilon)
            assert entry_bound(chain, b) <= epsilon
            assert entry_bound(chain, b * (1 + 1e-9)) > epsilon
    assert largest_entry_epsilon(
        pk.MarkovChain.steady([[0.5, 0.5], [0.5, 0.5]]), 0.7
    ) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("side", "own", "wanted"),
    [
        ((-1.0, 2.0), (0.5, -0.25), (-1.25, 2.5)),
        ((-1.0, 2.0), (inf, -0.25), (-1.25, inf)),
        ((-1.0, 2.0), (0.5, -inf), (-inf, 2.5)),
        ((-1.0, 2.0), (inf, -inf), (-inf, inf)),
        ((-inf, -inf), (inf, -0.25), (-inf, -inf)),
        ((inf, inf), (-inf, 0.5), (inf, inf)),
        ((-inf, 3.0), (inf, 1.0), (-inf, inf)),
        ((inf, inf), (inf, 0.0), (inf, inf)),
        ((-1.0, inf), (-inf, 0.5), (-inf, inf)),
    ],
)
def test_an_answer_widens_a_side_by_what_can_occur_with_it(side, own, wanted):
    assert spread(Interval(*side), own) == wanted


@pytest.mark.parametrize("q", [0.01, 0.2, 0.9])
@pytest.mark.parametrize("short", [0, 3, 10**6])
def test_long_traces_are_short_steps_one_after_the_other(q, short, monkeypatch):
    """Plain, compiled from some step on, or at a limit: the same numbers."""
    chain = binary(q, 0.3, [0.9, 0.1])
    own = answers(0.2, 0.3)
    two = Binary.of(chain)
    monkeypatch.setattr(sides, "SHORT", short)
    for image, start, trace in [
        (two.right, 0.0, two.unknown_right(own, 60)),
        (two.left, log(9), two.unknown_left(own, 60)),
        (two.left, inf, two.known("left", 0, own, 60)),
        (two.right, -inf, two.known("right", 1, own, 60)),
    ]:
        low = high = reference = start
        for m in range(61):
            if isfinite(reference):
                assert trace.low[m] == pytest.approx(low - reference, abs=1e-12)
                assert trace.high[m] == pytest.approx(high - reference, abs=1e-12)
            else:
                assert (trace.low[m], trace.high[m]) == (inf, -inf)
            silent = m == 0 and not isfinite(start)
            ends = [
                image(low + (0 if silent else min(own))),
                image(high + (0 if silent else max(own))),
            ]
            low, high = sorted(ends)
            reference = image(reference)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rho_0": 1.5}, "rho_0: must be a probability"),
        ({"rho_1": float("nan")}, "rho_1: must be finite"),
        ({"length": 0}, "length: must be at least 1"),
        ({"adversary": "clever"}, "adversary: must be 'every'"),
        ({"chain": pk.MarkovChain.steady(np.full((3, 3), 1 / 3))}, "3 states"),
        ({"chain": pk.MarkovChain([1], [[1]])}, "1 states"),
        ({"chain": "chain"}, "must be a MarkovChain"),
        ({"known": {1: 0}}, "length: give it"),
        ({"length": 5, "target": 6}, "target: must be an entry"),
        ({"target": 3}, "length: give it"),
        ({"length": 5, "known": {9: 0}, "target": 3}, "beyond the length"),
        ({"length": 5, "known": {3: 0}, "target": 3}, "itself known"),
        ({"length": 5, "known": {2: "x"}, "target": 3}, "not a state"),
    ],
)
def test_bad_input(change, message):
    arguments = {"chain": binary(0.2, 0.3), "rho_0": 0.2, "rho_1": 0.3} | change
    with pytest.raises(ValueError, match=message):
        loss(**arguments)


@pytest.mark.parametrize("adversary", ["every", "ignorant"])
def test_two_answers_together_tell_more_than_the_sum_and_what_their_event_levels_allow(adversary):
    chain, rho = binary(0.1, 0.4), 1 / (1 + exp(0.2))
    once = emission(rho, rho)
    twice = np.array([np.outer(row, row).ravel() for row in once])
    both, _ = brute_loss(chain, twice, 5, adversary)
    assert both > 2 * brute_loss(chain, once, 5, adversary)[0] * 1.02
    together = 1 / (1 + exp(0.4))
    assert both == pytest.approx(loss(chain, together, together, 5, adversary), rel=1e-9)
