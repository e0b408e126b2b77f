"""Distributions of sums over chains and W-infinity between them, against exact fractions."""

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import comb, inf

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import compiling
from pufferkit.beliefs.secrets import Listed
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums import chain_sums, lattice, least_scale
from pufferkit.influence.sums.chain_sums import (
    SummedChain,
    WindowLabels,
    check_memory,
    value_bytes,
)
from pufferkit.influence.sums.lattice import BLOCK, Masses, convolved, farthest
from pufferkit.influence.sums.least_scale import outer_loss

RELATIVE = Fraction(1, 10**12)
FORMS = [True, False]  # plain floats, or blocks with exponents


def exactly(rows: Masses, n: int = 0) -> list[Fraction]:
    """The numbers that a row stands for."""
    if rows.exponents is None:
        return [Fraction(float(number)) for number in rows.numbers[n]]
    return [
        Fraction(float(m)) * Fraction(2) ** int(rows.exponents[n, j // BLOCK]) if m else Fraction(0)
        for j, m in enumerate(rows.numbers[n])
    ]


def near(computed, wanted):
    """Equal to a relative accuracy, number by number; zeros exactly."""
    wanted = [*wanted, *[Fraction(0)] * (len(computed) - len(wanted))]
    return all(abs(x - y) <= RELATIVE * y for x, y in zip(computed, wanted, strict=True))


def rows_of(*vectors, plain=False) -> Masses:
    """Rows from fractions of any size, exponents chosen block by block."""
    size = max(map(len, vectors))
    if plain:
        return Masses(np.array([[float(x) for x in v] + [0.0] * (size - len(v)) for v in vectors]))
    made = Masses._zeros(len(vectors), size)
    for n, vector in enumerate(vectors):
        for start in range(0, len(vector), BLOCK):
            part = vector[start : start + BLOCK]
            if not any(part):
                continue
            top = max(x.numerator.bit_length() - x.denominator.bit_length() for x in part if x)
            made.exponents[n, start // BLOCK] = top
            for j, x in enumerate(part):
                made.numbers[n, start + j] = float(x / Fraction(2) ** top)
    return made


def spread(seed: int, size: int, wide: int) -> list[Fraction]:
    """Numbers over many orders of magnitude, from block to block and within one; some are 0."""
    rng = np.random.default_rng(seed)
    tops = rng.integers(-wide, wide + 1, size // BLOCK + 1)
    return [
        Fraction(int(m), 1 << 20) * Fraction(2) ** int(tops[j // BLOCK] - e)
        for j, (m, e) in enumerate(
            zip(rng.integers(0, 1 << 20, size), rng.integers(0, 40, size), strict=True)
        )
    ]


def convolution(a, b):
    out = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[i + j] += x * y
    return out


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wide", "plain"), [(0, True), (30, True), (30, False), (200, False)])
@pytest.mark.parametrize("sizes", [(1, 1), (20, 45), (40, 33), (64, 64), (70, 5)])
def test_convolution_keeps_relative_accuracy(wide, plain, sizes):
    first = [spread(seed, sizes[0], wide) for seed in (4, 5)]
    second = [spread(seed, sizes[1], wide) for seed in (6, 7)]
    pairs = [[(0, 0), (1, 1)], [(1, 0)]]
    one, other = rows_of(*first, plain=plain), rows_of(*second, plain=plain)
    computed = convolved(one, other, pairs, sum(sizes) - 1)
    for m, chosen in enumerate(pairs):
        parts = [convolution(first[a], second[b]) for a, b in chosen]
        wanted = [sum(column) for column in zip(*parts, strict=True)]
        assert near(exactly(computed, m), wanted)


def test_numbers_too_small_beside_their_neighbours_are_told():
    tiny = [Fraction(1), Fraction(0), Fraction(1, 2**600)]
    one, other = rows_of(tiny), rows_of([Fraction(1), Fraction(1, 2**600)])
    pair = [[(0, 0)]]
    assert convolved(one, one, pair, 5).lost  # 2^-1200 beside 1
    assert convolved(one, other, pair, 4).lost
    assert not convolved(one, rows_of([Fraction(0), Fraction(1)]), pair, 4).lost
    far = rows_of([Fraction(1)], [Fraction(0), Fraction(1, 2**1100)])
    assert far.mixed(np.array([[1.0, 1.0]])).lost
    assert not far.mixed(np.array([[1.0, 0.0], [0.0, 1.0]])).lost
    assert far.mixed(np.array([[1.0, 1.0]])).mixed(np.eye(1)).lost
    several = rows_of([Fraction(1), Fraction(1, 2**600)], [Fraction(0), Fraction(1)])
    for order in ([[(0, 0)], [(1, 1)]], [[(1, 1)], [(0, 0)]]):  # lost in one of them, whichever
        assert convolved(several, several, order, 4).lost
    lost = replace(one, lost=True)
    assert convolved(lost, other, pair, 1).lost
    assert convolved(other, lost, pair, 1).lost
    assert lost.joined(other.shifted(np.zeros(1, dtype=np.int64), one.room)).lost
    assert lost.chosen([0]).lost


def test_tails_of_lost_numbers_do_not_overflow():
    row = Masses(np.zeros((1, BLOCK)), np.zeros((1, 1), dtype=np.int64), True)
    row.numbers[0, [0, 3, 5]] = 5e-324, 1e-310, 1.0
    lower, _ = row.log_tails()
    assert lower[0, -1] == 0
    assert (lower[0, 5:] == 0).all()
    assert (lower[0, :5] < -700).all()


# --- W-infinity -----------------------------------------------------------------------------------


def apart_at(rows, places, least, error):
    """The largest distance between rows that are counted from some places."""
    moved = rows.shifted(np.array(places), rows.room + int(max(places)))
    return farthest(replace(moved, error=error), least)


def exact_farthest(masses, places):
    placed = [
        {t + int(at): x for t, x in enumerate(m) if x} for m, at in zip(masses, places, strict=True)
    ]
    return int(max((pk.w_infinity(*pair) for pair in combinations(placed, 2)), default=0))


@pytest.mark.parametrize("plain", FORMS)
@pytest.mark.parametrize("seed", range(24))
def test_distances_are_those_of_fractions(seed, plain):
    """Ties and gaps included; where rounding leaves a tie open the distance may be larger."""
    rng = np.random.default_rng(seed)
    count, size = int(rng.integers(1, 5)), 12 if seed % 2 else 50
    masses = [rng.integers(0, 3, size) * (rng.random(size) < 0.7) for _ in range(count)]
    masses = [[Fraction(int(x)) for x in m] if m.any() else [Fraction(1)] * size for m in masses]
    if seed % 3 == 0:  # tails of every size
        masses = [[x / 2 ** (seed * t // 2) for t, x in enumerate(m)] for m in masses]
    masses = [[x / sum(m) for x in m] for m in masses]
    places = rng.integers(0, 4, count)
    wanted = exact_farthest(masses, places)
    factors = [Fraction(int(n)) for n in rng.integers(1, 9, count)]
    rows = rows_of(*[[f * x for x in m] for f, m in zip(factors, masses, strict=True)], plain=plain)
    for least in (0, 1, wanted, wanted + 3):
        value, unsure = apart_at(rows, places, least, 1e-13)
        assert value >= max(least, wanted)
        assert value == max(least, wanted) or unsure


def test_a_quick_look_at_single_probabilities_decides_and_never_says_too_much(monkeypatch):
    looks = []
    whole = lattice.within
    monkeypatch.setattr(lattice, "within", lambda *given: looks.append(whole(*given)) or looks[-1])
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shape = rng.dirichlet(np.ones(40))
        other = np.convolve(shape, rng.dirichlet(np.ones(5)))[:40] if seed % 2 else rng.random(40)
        masses = [[Fraction(float(x)) for x in m] for m in (shape, other)]
        masses = [[x / 2 ** (seed % 25 * j) for j, x in enumerate(m)] for m in masses]
        masses = [[x / sum(m) for x in m] for m in masses]
        wanted = exact_farthest(masses, [0, 0])
        for least in range(1, 8):
            value, unsure = apart_at(rows_of(*masses), [0, 0], least, 1e-12)
            assert value == max(least, wanted) or unsure
            assert value >= wanted
    assert 20 < sum(looks) < len(looks) - 20


@pytest.mark.parametrize("plain", FORMS)
def test_a_tie_is_open_and_counts_as_the_larger_distance(plain):
    def of(*vectors):
        return rows_of(*[[Fraction(x) for x in v] for v in vectors], plain=plain)

    one, other, nowhere = [0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0, 0]
    assert apart_at(of(one, other), nowhere, 0, 1e-12) == (1, False)
    assert apart_at(of(one, one), nowhere, 0, 1e-12) == (1, True)
    assert apart_at(of(one, other), nowhere, 2, 1e-12) == (2, False)
    assert apart_at(of(one, one), [0, 5], 0, 1e-12) == (6, True)
    assert apart_at(of(one), nowhere[:1], 0, 1e-12) == (0, False)


def test_a_far_tail_decides_from_above():
    """Both distribution functions round to 1; only the sums from above tell them apart."""
    tiny = Fraction(1, 2**200)
    a = [1 - tiny, Fraction(0), Fraction(0), tiny]
    b = [1 - tiny, Fraction(0), tiny, Fraction(0)]
    for plain in FORMS:
        assert apart_at(rows_of(a, b, plain=plain), [0, 0], 0, 1e-13)[0] >= 1
    whole = [Fraction(1), Fraction(0), Fraction(0), Fraction(0)]
    for plain in FORMS:
        far = apart_at(rows_of(a, whole, plain=plain), [0, 0], 0, 1e-13)
        assert far == (3, False)


# --- chains ---------------------------------------------------------------------------------------


def random_summed(seed, longest=6):
    """A chain with zeros, ties, a fixed start or a permutation, and values."""
    rng = np.random.default_rng(seed)
    size, length = int(rng.integers(1, 4)), int(rng.integers(1, longest))
    rows = rng.integers(0, 5, (size, size)) * (rng.random((size, size)) < 0.8)
    rows[rows.sum(axis=1) == 0, 0] = 1
    transition = rows / rows.sum(axis=1, keepdims=True)
    if seed % 7 == 0:
        transition = np.roll(np.eye(size), 1, axis=1)
    start = np.eye(size)[0] if seed % 3 == 0 else rng.dirichlet(np.ones(size))
    values = rng.integers(0, 4, size)
    values[0], values[-1] = 0, 3
    return SummedChain(start, transition, values, length)


def listed(summed):
    """Every path with its probability, exactly."""
    for path in product(range(len(summed.values)), repeat=summed.length):
        p = Fraction(float(summed.initial[path[0]]))
        for x, y in pairwise(path):
            p *= Fraction(float(summed.transition[x, y]))
        if p:
            yield path, p


def sums_by(summed, secret):
    """{secret: distribution of the sum}, by listing."""
    given = {}
    for path, p in listed(summed):
        if (name := secret(path)) is not None:
            total = sum(int(summed.values[x]) for x in path)
            own = given.setdefault(name, {})
            own[total] = own.get(total, Fraction(0)) + p
    return [{s: p / sum(own.values()) for s, p in own.items()} for own in given.values()]


def apart(distributions):
    pairs = combinations(distributions, 2)
    return int(max((pk.w_infinity(*pair) for pair in pairs), default=0))


def agrees(distance, wanted):
    assert distance.value >= wanted
    assert distance.value == wanted or distance.unsure
    assert not distance.lost


@pytest.fixture(params=["plain", "blocks"])
def form(request, monkeypatch):
    if request.param == "blocks":
        monkeypatch.setattr(chain_sums, "fits_floats", lambda *_: False)


@pytest.fixture(params=["sides", "halving"])
def way(request, monkeypatch):
    monkeypatch.setattr(
        chain_sums, "_by_halving", lambda n, _: n > 1 and request.param == "halving"
    )


@pytest.mark.parametrize("seed", range(15))
def test_values_of_entries_by_listing(seed, form, way):
    summed = random_summed(seed)
    wanted = [apart(sums_by(summed, lambda p, i=i: p[i])) for i in range(summed.length)]
    distance = summed.of_values().in_floats()
    agrees(distance, max(wanted))
    if not distance.unsure and distance.value:
        assert distance.place == 1 + wanted.index(max(wanted))


@pytest.mark.parametrize("seed", range(15))
def test_labels_of_windows_by_listing(seed, form):
    rng, summed = np.random.default_rng(seed), random_summed(seed)
    size, width = len(summed.values), int(rng.integers(1, summed.length + 1))
    table = rng.integers(3, size=(size,) * width)
    if table.size == 1 or len(set(table.flat)) == 1:
        table.flat[0] = 3
    if len(set(table.flat)) == 1:
        return  # one state: one label
    automaton = Listed(width, tuple(map(str, table.flat))).automaton(tuple(range(size)))
    wanted = max(
        apart(sums_by(summed, lambda p, i=i: int(table[p[i : i + width]])))
        for i in range(summed.length - width + 1)
    )
    agrees(summed.of_labels(WindowLabels(automaton.moves, automaton.ends)).in_floats(), wanted)


@pytest.mark.parametrize("seed", range(15))
def test_conditions_by_listing(seed, form):
    rng, summed = np.random.default_rng(seed), random_summed(seed)
    size = len(summed.values)
    conditions = [
        {int(i): rng.random(size) < 0.7 for i in rng.integers(1, summed.length + 1, 2)}
        for _ in range(2)
    ]
    given = [
        sums_by(summed, lambda p, c=c: True if all(own[p[i - 1]] for i, own in c.items()) else None)
        for c in conditions
    ]
    wanted = apart([*given[0], *given[1]]) if all(given) else 0
    agrees(summed.of_conditions(*conditions).in_floats(), wanted)


@pytest.mark.parametrize("length", [33, 40])
def test_both_ways_and_both_forms_give_the_same_distance(length, monkeypatch):
    rng = np.random.default_rng(length)
    given = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3), np.array([0, 1, 3]), length
    distances = []
    for plain, halving in product(FORMS, (True, False)):
        monkeypatch.setattr(chain_sums, "fits_floats", lambda *_, plain=plain: plain)
        monkeypatch.setattr(chain_sums, "_by_halving", lambda *_, halving=halving: halving)
        distances.append(SummedChain(*given).of_values().in_floats())
    assert distances == distances[:1] * 4
    assert not distances[0].unsure


def test_relative_accuracy_of_the_rarest_outcomes_of_2000_entries():
    """A fair coin: P(no heads) is 2^-2000, far below the smallest float."""
    summed = SummedChain(np.full(2, 0.5), np.full((2, 2), 0.5), np.array([0, 1]), 2000)
    numbers = exactly(next(summed._halving(1)))
    for s in (0, 1, 37, 1000, 1999):
        assert abs(numbers[s] / Fraction(comb(1999, s), 2**2000) - 1) < Fraction(1, 10**11)


def test_what_fits_plain_floats():
    start, move = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.4, 0.6]])
    assert lattice.fits_floats(start, move, 289, 1)
    assert not lattice.fits_floats(start, move, 290, 1)  # 0.1^289 / 2 is below 2^-960
    assert not lattice.fits_floats(np.array([1 - 1e-290, 1e-290]), move, 2, 1)
    assert lattice.fits_floats(np.array([1.0, 0.0]), np.eye(2), 500, 1)
    assert not lattice.fits_floats(start, move, 200, 10**6)
    assert not lattice.fits_floats(start, move, 10**400, 1)


def test_a_distance_decided_by_lost_numbers_is_not_believed(way):
    """Three entries; what X_1 = 2 does to the sum is decided by probabilities below 1e-400."""
    initial = np.array([0.7267517006964225, 0.2732482993035775, 2.0422624146926525e-151])
    transition = np.array(
        [
            [0.8697819293794399, 0.1302180706205601, 2.365295713577676e-251],
            [2.572612226324171e-151, 2.2782217580602797e-151, 1.0],
            [1.0, 2.7081041121008875e-151, 2.037042101618316e-151],
        ]
    )
    distance = SummedChain(initial, transition, np.array([0, 1, 4]), 3).of_values().in_floats()
    assert distance.lost or distance.value == 7
    query = pk.total([0, 1, 4], 3)
    assert pk.wasserstein(pk.MarkovChain(initial, transition), query, 1.0).scale >= 7


def test_rare_states_are_refused_not_guessed(monkeypatch):
    """Six visits to a state of probability 1e-100 are possible, and no float says how rarely."""
    chain = pk.MarkovChain([1.0, 1e-100], [[1.0, 1e-100], [1.0, 2e-100]])
    assert pk.wasserstein(chain, pk.total([0, 1], 6), 1.0).scale >= 1
    monkeypatch.setattr("pufferkit.influence.sums.network_sums.MOST_EXACT", 0)
    with pytest.raises(pk.NotApplicable, match="the probability of some sums underflows"):
        pk.wasserstein(chain, pk.total([0, 1], 6), 1.0)


# --- costs ----------------------------------------------------------------------------------------


def test_memory_is_refused_before_it_is_asked_for(monkeypatch):
    for length, size, largest in [(100, 2, 7), (1000, 2, 7)]:
        needed = value_bytes(length, size, largest)
        monkeypatch.setattr(chain_sums, "MOST_BYTES", needed)
        check_memory(length, size, largest)
        monkeypatch.setattr(chain_sums, "MOST_BYTES", needed - 1)
        with pytest.raises(NotApplicable, match=f"GB for {length:,} entries"):
            check_memory(length, size, largest)


@pytest.mark.parametrize(("length", "size", "largest"), [(300, 2, 1), (200, 3, 2), (900, 2, 1)])
def test_memory_is_what_was_estimated(length, size, largest, monkeypatch):
    """Within two times, and not below what is used by more than that."""
    monkeypatch.setattr(compiling, "LITTLE", 0)  # a compiler's memory does not count
    transition = np.random.default_rng(size).dirichlet(np.ones(size), size)
    chain = pk.MarkovChain.steady(transition)
    values = np.minimum(np.arange(size), largest)
    with monkeypatch.context() as patch:  # compiled, loaded
        patch.setattr(chain_sums, "fits_floats", lambda *_: False)
        SummedChain(chain.initial, transition, values, 40).of_values().in_floats()
    tracemalloc.start()
    SummedChain(chain.initial, transition, values, length).of_values().in_floats()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / 2 <= value_bytes(length, size, largest) <= 2 * peak


# --- outputs --------------------------------------------------------------------------------------


def test_ratios_of_what_cannot_be_or_cannot_be_told_are_infinite():
    """Two values of an entry, one pair of ends, two sums."""
    parts, yes = np.array([[[0.3, 0.2]], [[0.1, 0.4]]]), np.ones((2, 1, 1), dtype=bool)
    table = least_scale._ratio_tables(parts, yes, 1, 0.5, 1e-12)[0]
    # Likelihoods at the sums: 0.3 + 0.1, 0.2 + 0.15 against 0.1 + 0.2, 0.4 + 0.05.
    assert table == pytest.approx(np.array([[0, 0.4 / 0.3], [0.45 / 0.35, 0]]))
    only = yes.copy()
    only[1] = False
    assert least_scale._ratio_tables(parts, only, 1, 0.5, 1e-12)[0].tolist() == [[0, inf], [0, 0]]
    assert np.isinf(least_scale._ratio_tables(parts, yes, 1, 0.5, 0.35)[0]).any()


@pytest.mark.parametrize("size", [4, 7])
def test_outer_outputs_are_those_of_some_signs(size):
    """Signs are +1 or -1: what is found is the loss at an output, by plain products."""
    rng = np.random.default_rng(size)
    chain = pk.MarkovChain.steady(rng.dirichlet(np.ones(size), size))
    best = 0.0
    for signs in product((1.0, -1.0), repeat=size):
        weights = np.exp(np.array(signs) / 2)
        before, after = [chain.initial * weights], [np.ones(size)]
        for _ in range(4):
            before.append((before[-1] @ chain.transition) * weights)
            after.append(chain.transition @ (weights * after[-1]))
        logs = np.log(np.array(before) * np.array(after[::-1]) / chain.initial)
        best = max(best, float(np.ptp(logs[2])))
    at_middle = outer_loss(chain.initial, chain.transition, np.eye(size), 2.0, 5)
    assert at_middle <= best * (1 + 1e-9) or size <= 6  # of few coordinates other entries count too
    assert at_middle >= 0.9 * best
