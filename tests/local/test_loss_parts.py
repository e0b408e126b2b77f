"""The parts of the loss of randomised response, each against its formula or the plain recursion."""

from math import exp, inf, isfinite, log, tanh

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.local import loss, losses, sides, tanh_bound
from pufferkit.local.losses import (
    LossPair,
    _described,
    _fixed,
    entry_bound,
    largest_entry_epsilon,
    own_pair,
    padded,
    projective_diameter,
    side_bound,
    tanh_pair,
)
from pufferkit.local.sides import (
    Binary,
    Interval,
    answers,
    follow,
    moebius,
    spread,
    successors,
    supports,
)
from pufferkit.rounding import EPS

CLOSE = {"abs": 1e-12}


def binary(q, r, initial=None):
    matrix = [[1 - q, q], [r, 1 - r]]
    return pk.MarkovChain.steady(matrix) if initial is None else pk.MarkovChain(initial, matrix)


# --- one side -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "ratios"),
    [
        ((0.25, 0.25), (log(3), -log(3))),
        ((0.2, 0.4), (log(2), log(1 / 3))),
        ((0.0, 0.5), (log(2), -inf)),
        ((0.5, 0.0), (inf, log(0.5))),
        ((0.0, 0.0), (inf, -inf)),
        ((1.0, 0.0), (0.0,)),
        ((0.0, 1.0), (0.0,)),
        ((1.0, 1.0), (-inf, inf)),
    ],
)
def test_answers_that_can_occur(rho, ratios):
    assert answers(*rho) == pytest.approx(ratios)


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


@pytest.mark.parametrize("matrix", [[[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.9], [0.6, 0.4]]])
def test_the_image_of_a_log_ratio(matrix):
    (a, b), (c, d) = matrix
    image = moebius(np.array(matrix))
    for g in (-700.0, -3.0, 0.0, 1e-9, 2.0, 700.0):
        wanted = log((a * exp(g) + b) / (c * exp(g) + d))
        assert image(g) == pytest.approx(wanted, **CLOSE)
    assert image(inf) == pytest.approx(log(a / c))
    assert image(-inf) == pytest.approx(log(b / d))
    assert image(800.0) == pytest.approx(log(a / c))
    assert image(-800.0) == pytest.approx(log(b / d))


def test_images_where_moves_never_happen():
    image = moebius(np.array([[1.0, 0.0], [0.3, 0.7]]))
    assert image(-inf) == -inf
    assert image(inf) == pytest.approx(log(1 / 0.3))
    assert image(0.0) == pytest.approx(0.0)
    assert moebius(np.array([[0.0, 1.0], [0.0, 1.0]]))(inf) == 0.0
    swap = moebius(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert [swap(g) for g in (-inf, -2.0, inf)] == [inf, 2.0, -inf]


def test_rising_and_start():
    assert Binary.of(binary(0.2, 0.3)).rising
    assert Binary.of(binary(0.5, 0.5)).rising
    assert not Binary.of(binary(0.6, 0.5)).rising
    assert Binary.of(binary(0.2, 0.3)).start == pytest.approx(log(0.3 / 0.2))
    assert Binary.of(binary(0.2, 0.3, [0.9, 0.1])).start == pytest.approx(log(9))
    assert Binary.of(binary(0.2, 0.3, [1.0, 0.0])).start == inf
    assert Binary.of(binary(0.2, 0.3, [0.0, 1.0])).start == -inf


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
                assert trace.low[m] == pytest.approx(low - reference, **CLOSE)
                assert trace.high[m] == pytest.approx(high - reference, **CLOSE)
            else:
                assert (trace.low[m], trace.high[m]) == (inf, -inf)
            silent = m == 0 and not isfinite(start)
            ends = [
                image(low + (0 if silent else min(own))),
                image(high + (0 if silent else max(own))),
            ]
            low, high = sorted(ends)
            reference = image(reference)


def test_a_value_that_never_follows_is_never_known():
    trace = Binary.of(pk.MarkovChain([0.0, 1.0], [[1.0, 0.0], [1.0, 0.0]])).known(
        "right", 1, (1.0, -1.0), 3
    )
    assert trace.low.tolist() == [inf] * 4
    assert trace.high.tolist() == [-inf] * 4


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


def test_the_tail_of_a_chain_that_never_forgets():
    stuck = Binary.of(pk.MarkovChain([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]]))
    assert stuck.tail("right", (1.0, -1.0), 5) == (inf, inf)


@pytest.mark.parametrize("rising", [True, False])
def test_the_compiled_steps(rising):
    matrix = np.array([[0.7, 0.3], [0.2, 0.8]] if rising else [[0.2, 0.8], [0.7, 0.3]])
    image = moebius(matrix)
    logs = tuple(float(x) for x in np.log(matrix).ravel())
    lows, highs = np.full(6, -9.0), np.full(6, -9.0)
    low, high, reference = -0.5, 0.75, 0.25
    end = follow(logs, rising, (-1.0, 0.5), (low, high, reference), lows, highs, 2)
    assert lows[:2].tolist() == highs[:2].tolist() == [-9.0, -9.0]
    for m in range(2, 6):
        assert lows[m] == pytest.approx(low - reference, **CLOSE)
        assert highs[m] == pytest.approx(high - reference, **CLOSE)
        low, high = sorted((image(low - 1.0), image(high + 0.5)))
        reference = image(reference)
    assert end == pytest.approx((low, high, reference))
    for g, wanted in (
        (inf, log(matrix[0, 0] / matrix[1, 0])),
        (-inf, log(matrix[0, 1] / matrix[1, 1])),
    ):
        last = follow(logs, rising, (0.0, 0.0), (g, g, g), np.zeros(1), np.zeros(1), 0)
        assert last == pytest.approx((wanted,) * 3)


def test_values_that_can_occur():
    leaving = pk.MarkovChain([1.0, 0.0], [[0.0, 1.0], [0.5, 0.5]])
    assert supports(leaving, 4) == [{0}, {1}, {0, 1}, {0, 1}]
    assert supports(leaving, 1) == [{0}]
    assert successors(leaving, frozenset((0, 1))) == {0, 1}


# --- what is reported -----------------------------------------------------------------------------


def test_padding_is_by_the_steps_that_are_still_felt():
    chain = binary(0.2, 0.3)
    kept = tanh(projective_diameter(chain.transition) / 4)
    one, two = padded(chain, LossPair(1.0, inf), 10**6)
    assert one == pytest.approx(1 + 16 * EPS * 2 * (1 + 1 / (1 - kept)), rel=1e-15)
    assert one > 1
    assert two == inf
    few, _ = padded(chain, LossPair(1.0, 1.0), 1)
    assert few == 1 + 16 * EPS * 2 * 2
    stuck = pk.MarkovChain([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    assert padded(stuck, LossPair(3.0, 0.0), 7) == (3 + 16 * EPS * 4 * 8, 16 * EPS * 8)


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


def test_sure_answers_tell_about_entries_that_have_two_values_only():
    stays = pk.MarkovChain([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]])
    assert loss(stays, 0.0, 0.3, 3, target=1) == 0
    assert loss(stays, 0.0, 0.3, 3, target=2) == inf
    one_target = loss(stays, 0.0, 0.3, 3, target=1)
    assert (one_target.method, one_target.length, one_target.adversary) == (
        "exact recursion",
        3,
        "every",
    )
    assert loss(stays, 0.0, 0.3, 3, known={}, target=1) == 0
    known = loss(stays, 0.0, 0.3, 3, known={1: 0}, target=2)
    assert (known, known.adversary, known.length) == (inf, "knows 1", 3)


def test_known_entries_are_described():
    assert _described({}) == "ignorant"
    assert _described({3: 0, 1: 0}) == "knows 1, 3"
    assert _described(dict.fromkeys(range(1, 7))) == "knows 1, 2, 3, 4, 5, 6"
    assert _described(dict.fromkeys(range(1, 8))) == "knows 1, 2, 3, 4, 5, 6, ..."


def test_a_target_and_the_worst_of_them():
    chain = binary(0.15, 0.4, [0.8, 0.2])
    each = [loss(chain, 0.1, 0.3, 6, target=n) for n in range(1, 7)]
    assert loss(chain, 0.1, 0.3, 6) == max(each)
    sets = [loss(chain, 0.1, 0.3, 6, known={2: 1}, target=n) for n in (1, 3, 4, 5, 6)]
    assert loss(chain, 0.1, 0.3, 6, known={2: 1}) == max(sets)


# --- closed bounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [(0.2, 0.3), (0.001, 0.002), (0.7, 0.9), (0.5, 0.5)])
@pytest.mark.parametrize("rho", [(0.2, 0.3), (0.01, 0.45), (0.499, 0.5)])
def test_the_closed_form_is_where_the_recursion_ends(rates, rho):
    chain = binary(*rates)
    two = Binary.of(chain)
    own = answers(*rho)
    side = Interval(0.0, 0.0)
    for _ in range(30_000 if min(rates) < 0.01 else 400):
        side = two.step(two.right, side, own)
    zero, one = own_pair(own)
    wanted = (max(0.0, zero + 2 * side.high), max(0.0, one - 2 * side.low))
    closed = losses._closed_form(two, own)
    assert tuple(closed) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "c", "d"), [(3.0, 1.0, 0.5, 1.0), (1.0, 0.5, 2.0, 4.0), (1, 1, 1, 1)]
)
def test_fixed_points(a, b, c, d):
    x = exp(_fixed(a - d, b, c))
    assert x == pytest.approx((a * x + b) / (c * x + d))


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


def test_diameters_of_powers_until_all_is_forgotten():
    diameters = losses._diameters(binary(0.2, 0.3))
    for m, d in enumerate(diameters, 1):
        truth = projective_diameter(np.linalg.matrix_power(binary(0.2, 0.3).transition, m))
        assert d == pytest.approx(truth, abs=1e-11)
        assert d >= truth
    assert diameters[-1] < 1e-3 <= diameters[-2]
    stuck = pk.MarkovChain([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    assert losses._diameters(stuck) == (inf,) * 64


def test_losses_say_whose_they_are_and_of_which_length():
    chain = binary(0.2, 0.3)
    given = loss(chain, 0.1, 0.2, 7, known={1: 0, 7: 1}, target=4)
    assert (given.adversary, given.length) == ("knows 1, 7", 7)
    sure = loss(chain, 0.3, 0.0, 6, target=3)
    assert (float(sure), sure.adversary, sure.length) == (inf, "every", 6)


def test_what_hardly_tells_anything_adds_hardly_anything():
    assert 0 <= side_bound(1e-17, 1e-17) <= 1e-13


@pytest.mark.parametrize("q", [0.5, 0.3])
def test_a_trace_at_its_limit_goes_on_as_it_is(q):
    """Independent entries: nothing beyond the first one matters, at any distance."""
    own = answers(0.2, 0.3)
    trace = Binary.of(binary(q, 1 - q)).known("right", 0, own, 9)
    assert np.isfinite(trace.low[2:]).all()
    assert trace.low[2:] == pytest.approx(trace.low[2], abs=1e-12)
    assert trace.high[2:] == pytest.approx(trace.high[2], abs=1e-12)
