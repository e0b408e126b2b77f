"""Long vectors, running sums, least shifts and both ways around a node, against exact fractions."""

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import inf, log2

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import compiling
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums import chain_sums, entry_windows
from pufferkit.influence.sums.chain_sums import EntryDistance, check_memory, largest_distance
from pufferkit.influence.sums.long_vectors import (
    BLOCK,
    NOTHING,
    Blocks,
    _compare,
    convolved,
    least_shift,
    running_sums,
    within,
)
from pufferkit.influence.sums.outer_losses import outer_loss
from pufferkit.influence.sums.short_sums import farthest, fits_floats
from pufferkit.influence.sums.sum_work import (
    by_halving,
    halving_cost,
    sides_cost,
    sum_bytes,
    sum_work,
)

RELATIVE = Fraction(1, 10**12)


def exactly(blocks: Blocks, n: int = 0) -> list[Fraction]:
    """The numbers that blocks stand for."""
    return [
        Fraction(float(m)) * Fraction(2) ** int(blocks.exponents[n, j // BLOCK])
        if m
        else Fraction(0)
        for j, m in enumerate(blocks.mantissas[n])
    ]


def tails_of(made: Blocks, backwards: bool) -> tuple:
    return running_sums(made.mantissas[0], made.exponents[0], backwards)


def near(computed, wanted):
    """Equal to a relative accuracy, number by number; zeros exactly."""
    wanted = [*wanted, *[Fraction(0)] * (len(computed) - len(wanted))]
    return len(computed) == len(wanted) and all(
        abs(x - y) <= RELATIVE * y for x, y in zip(computed, wanted, strict=True)
    )


def blocks_of(*vectors) -> Blocks:
    """Blocks from fractions of any size, exponents chosen block by block."""
    made = Blocks.zeros(len(vectors), max(map(len, vectors)))
    for n, vector in enumerate(vectors):
        for start in range(0, len(vector), BLOCK):
            part = vector[start : start + BLOCK]
            if not any(part):
                continue
            top = max(x.numerator.bit_length() - x.denominator.bit_length() for x in part if x)
            made.exponents[n, start // BLOCK] = top
            for j, x in enumerate(part):
                made.mantissas[n, start + j] = float(x / Fraction(2) ** top)
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


# --- long vectors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "blocks"), [(0, 1), (1, 1), (32, 1), (33, 2), (64, 2), (65, 3)])
def test_room_is_in_whole_blocks(length, blocks):
    room = Blocks.zeros(3, length)
    assert room.mantissas.shape == (3, blocks * BLOCK)
    assert room.exponents.shape == (3, blocks)
    assert (room.exponents == NOTHING).all()
    assert room.length == blocks * BLOCK


def test_units_stand_at_their_places_with_a_mantissa_from_1_to_2():
    made = Blocks.units(np.array([0.75, 1e-300, 0.0, 3.0]), np.array([0, 40, 5, 63]))
    assert made.length == 64
    for n, (weight, place) in enumerate([(0.75, 0), (1e-300, 40), (0.0, 5), (3.0, 63)]):
        assert exactly(made, n) == [Fraction(weight) if j == place else 0 for j in range(64)]
        if weight:
            assert 1 <= made.mantissas[n, place] < 2
    assert made.exponents[0].tolist() == [-1, NOTHING]
    assert (made.exponents[2] == NOTHING).all()
    assert Blocks.units(np.ones(1), np.array([31])).length == 32
    assert Blocks.units(np.ones(1), np.array([32])).length == 64


@pytest.mark.parametrize("wide", [0, 40, 450])
def test_mixing_is_the_weighted_sum(wide):
    vectors = [spread(seed, 70, wide) for seed in (1, 2, 3)]
    vectors[1][:32] = [Fraction(0)] * 32
    weights = np.array([[0.5, 0.25, 2.0], [0.0, 1e-300, 0.0], [0.0, 0.0, 0.0]])
    mixed = blocks_of(*vectors).mixed(weights)
    for m, row in enumerate(weights):
        wanted = [
            sum(Fraction(w) * v[j] for w, v in zip(row, vectors, strict=True)) for j in range(70)
        ]
        assert near(exactly(mixed, m), wanted)
        used = mixed.exponents[m] > NOTHING
        tops = mixed.mantissas[m].reshape(-1, BLOCK).max(axis=1)
        assert ((tops[used] >= 1) & (tops[used] < 2)).all()
        assert (tops[~used] == 0).all()


@pytest.mark.parametrize("wide", [0, 30, 200])
@pytest.mark.parametrize("sizes", [(1, 1), (20, 45), (40, 33), (64, 64), (70, 5)])
def test_convolution_keeps_relative_accuracy(wide, sizes):
    first = [spread(seed, sizes[0], wide) for seed in (4, 5)]
    second = [spread(seed, sizes[1], wide) for seed in (6, 7)]
    pairs = np.array([[[0, 0], [1, 1]], [[1, 0], [1, 0]]])
    computed = convolved(blocks_of(*first), blocks_of(*second), pairs, sum(sizes) - 1)
    for m, chosen in enumerate(pairs.tolist()):
        parts = [convolution(first[a], second[b]) for a, b in chosen]
        wanted = [sum(column) for column in zip(*parts, strict=True)]
        assert near(exactly(computed, m), wanted)


@pytest.mark.parametrize("wide", [0, 40, 2000])
def test_running_sums_from_either_side(wide):
    vector = spread(8, 64, wide)
    vector[:3], vector[60:] = [Fraction(0)] * 3, [Fraction(0)] * 4
    made = blocks_of(vector)
    below = list(accumulate(vector))
    above = [sum(vector) - x for x in below]
    for backwards, wanted in ((False, below), (True, above)):
        sums, exponents = tails_of(made, backwards)
        computed = [
            Fraction(float(s)) * Fraction(2) ** int(e) for s, e in zip(sums, exponents, strict=True)
        ]
        assert near(computed, wanted)
        assert all(s == 0 or 1 <= s < 2 for s in sums)


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((0.0, 0), (0.0, 0), 1),
        ((0.0, 0), (1.0, 0), 1),
        ((1.0, 0), (0.0, 0), -1),
        ((1.0, 0), (1.0, 0), 0),
        ((1.0, 0), (1.0 + 1e-9, 0), 0),
        ((1.0, 0), (1.0 + 1e-7, 0), 1),
        ((1.0 + 1e-7, 0), (1.0, 0), -1),
        ((1.5, 0), (1.5, 1), 1),
        ((1.5, 1), (1.5, 0), -1),
        ((1.0, 100), (1.9, 91), -1),
        ((1.9, 91), (1.0, 100), 1),
        ((1.9, -500), (1.0, 500), 1),
        ((1.0, 500), (1.9, -500), -1),
        ((1.0, 3), (1.0, -5), -1),
        ((1.0, -5), (1.0, 3), 1),
    ],
)
def test_comparison_says_when_rounding_leaves_it_open(a, b, verdict):
    assert _compare(*a, *b, 1e-8) == verdict


@pytest.mark.parametrize("seed", range(30))
def test_the_least_shift_is_that_of_the_definition(seed):
    """Least d >= start with F_a(t) <= F_b(t + d) for all t, ties and gaps included."""
    rng = np.random.default_rng(seed)
    masses = [rng.integers(0, 3, 12) * (rng.random(12) < 0.7) for _ in range(2)]
    masses = [[Fraction(int(x), 1) for x in m] if m.any() else [Fraction(1)] * 12 for m in masses]
    masses = [[x / sum(m) for x in m] for m in masses]
    lower = [list(accumulate(m)) for m in masses]
    start = int(rng.integers(0, 3))
    wanted = start
    while not all(
        lower[0][t] == 0 or t + wanted >= 12 or lower[0][t] <= lower[1][t + wanted]
        for t in range(12)
    ):
        wanted += 1
    tails = []
    for m in masses:
        made = blocks_of(m)
        tails += [*tails_of(made, False)]
        tails += [*tails_of(made, True)]
    shift, unsure = least_shift(*tails, start, 1e-13)
    # Ties are open to rounding; then the shift may only be larger, and says so.
    assert shift >= wanted
    assert shift == wanted or unsure


@pytest.mark.parametrize("seed", range(40))
def test_a_quick_look_at_single_probabilities_never_says_too_much(seed):
    """It says yes only if F_a(t) <= F_b(t + d) for all t, and mostly where that is so."""
    rng = np.random.default_rng(seed)
    shape = rng.dirichlet(np.ones(40))
    other = np.convolve(shape, rng.dirichlet(np.ones(5)))[:40] if seed % 2 else rng.random(40)
    masses = [[Fraction(float(x)) for x in m] for m in (shape, other / other.sum())]
    masses = [[x * Fraction(2) ** (-seed * j) for j, x in enumerate(m)] for m in masses]
    masses = [[x / sum(m) for x in m] for m in masses]
    made = [blocks_of(m) for m in masses]
    tails = [list(accumulate(m)) for m in masses]
    for shift in range(-2, 7):
        said = within(
            *(array[0] for each in made for array in (each.mantissas, each.exponents)),
            1.0,
            shift,
            1e-12,
        )
        true = all(
            tails[0][t] <= (tails[1][min(t + shift, 39)] if t + shift >= 0 else 0)
            for t in range(40)
        )
        assert true or not said
        if shift == 6 and seed in (1, 3, 5):
            assert said


def test_a_far_tail_decides_from_above():
    """Both distribution functions round to 1; only the sums from above tell them apart."""
    tiny = Fraction(1, 2**200)
    a = [1 - tiny, Fraction(0), Fraction(0), tiny]
    b = [1 - tiny, Fraction(0), tiny, Fraction(0)]
    tails = []
    for m in (b, a):
        made = blocks_of(m)
        tails += [*tails_of(made, False)]
        tails += [*tails_of(made, True)]
    shift, _ = least_shift(*tails, 0, 1e-13)
    assert shift >= 1


# --- chains ---------------------------------------------------------------------------------------

CHAIN = np.array([[0.47, 0.28, 0.25], [0.13, 0.76, 0.11], [0.0, 0.52, 0.48]])
START = np.array([0.27, 0.5, 0.23])
VALUES = np.array([0, 1, 3])


def paths_of(length):
    """Every path with its probability, exactly."""
    for path in product(range(3), repeat=length):
        p = Fraction(START[path[0]])
        for x, y in pairwise(path):
            p *= Fraction(CHAIN[x, y])
        yield path, p


def distance_by_definition(length):
    """The largest W-infinity over nodes and pairs of values, and the first node that has it."""
    best = (0, 1)
    for node in range(length):
        sums = [dict.fromkeys(range(3 * length + 1), Fraction(0)) for _ in range(3)]
        for path, p in paths_of(length):
            sums[path[node]][sum(int(VALUES[x]) for x in path)] += p
        below = [list(accumulate(table.values())) for table in sums]
        below = [[x / lower[-1] for x in lower] for lower in below if lower[-1]]
        for one, other in product(below, repeat=2):
            shift = 0
            while not all(h <= (other[t + shift :] or [1])[0] for t, h in enumerate(one)):
                shift += 1
            best = max(best, (shift, node + 1), key=lambda pair: pair[0])
    return best


def distributions_of(length):
    distributions = [START]
    for _ in range(length - 1):
        distributions.append(distributions[-1] @ CHAIN)
    return distributions


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("way", ["_halving", "_by_sides"])
def test_what_stands_around_a_node_is_the_joint_distribution(length, way):
    """P(X_i = x, sum of the other values = s) by listing all paths."""
    around = list(getattr(chain_sums, way)(START, CHAIN, VALUES, length, length))
    assert [node for node, _ in around] == list(range(1, length + 1))
    for node, table in around:
        wanted = np.zeros((3, table.length))
        for path, p in paths_of(length):
            others = sum(int(VALUES[x]) for x in path) - int(VALUES[path[node - 1]])
            wanted[path[node - 1], others] += p
        for x in range(3):
            assert np.array([float(q) for q in exactly(table, x)]) == pytest.approx(
                wanted[x], rel=1e-12
            )


@pytest.mark.parametrize("way", [True, False])
@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_both_ways_give_the_distance_of_the_definition(length, way, monkeypatch):
    monkeypatch.setattr(chain_sums, "by_halving", lambda *_: way)
    distance = largest_distance(distributions_of(length), CHAIN, VALUES)
    assert (distance.value, distance.node) == distance_by_definition(length)
    assert not distance.unsure


def test_progress_counts_nodes_and_half_suffice_where_they_mirror():
    calls = []
    steady = [np.array([0.5, 0.5])] * 5
    swap = np.array([[0.75, 0.25], [0.25, 0.75]])
    whole = largest_distance(steady, swap, np.array([0, 1]))
    half = largest_distance(
        steady, swap, np.array([0, 1]), mirrored=True, progress=lambda *at: calls.append(at)
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert half == whole
    assert isinstance(half, EntryDistance)


# --- costs ----------------------------------------------------------------------------------------


def test_costs_are_what_the_pages_say():
    assert halving_cost(7, 3) == 27 * 3 * 2
    assert sides_cost(12, 3) == 6
    assert sum_work(7, 3, 2) == 14**2 * min(162, 3.5) / 2 + 5e4 * 21
    assert sum_work(7, 3, 0) == 7**2 * 3.5 / 2 + 5e4 * 21
    assert sum_work(1000, 2, 1) == 1000**2 * min(16 * log2(1001), 2000 / 6) / 2 + 1e8


def test_memory_is_refused_before_it_is_asked_for(monkeypatch):
    assert by_halving(2, 50)
    assert not by_halving(3, 2)
    assert by_halving(1000, 2)
    for length, size, largest in [(100, 2, 7), (1000, 2, 7)]:
        needed = sum_bytes(length, size, largest)
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
        largest_distance([chain.initial] * 40, transition, values)
    tracemalloc.start()
    largest_distance([chain.initial] * length, transition, values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / 2 <= sum_bytes(length, size, largest) <= 2 * peak


# --- numbers that floats do not hold --------------------------------------------------------------


def test_numbers_too_small_beside_their_neighbours_are_told():
    tiny = [Fraction(1), Fraction(0), Fraction(1, 2**600)]
    one, other = blocks_of(tiny), blocks_of([Fraction(1), Fraction(1, 2**600)])
    pair = np.array([[[0, 0]]])
    assert convolved(one, one, pair, 5).lost  # 2^-1200 beside 1
    assert convolved(one, other, pair, 4).lost
    assert not convolved(one, blocks_of([Fraction(0), Fraction(1)]), pair, 4).lost
    far = blocks_of([Fraction(1)], [Fraction(0), Fraction(1, 2**1100)])
    assert far.mixed(np.array([[1.0, 1.0]])).lost
    assert not far.mixed(np.array([[1.0, 0.0], [0.0, 1.0]])).lost
    assert far.mixed(np.array([[1.0, 1.0]])).mixed(np.eye(1)).lost
    several = blocks_of([Fraction(1), Fraction(1, 2**600)], [Fraction(0), Fraction(1)])
    for order in ([[0, 0]], [[1, 1]]), ([[1, 1]], [[0, 0]]):  # lost in one of them, whichever
        assert convolved(several, several, np.array(order), 4).lost
    assert convolved(replace(one, lost=True), other, pair, 1).lost
    assert convolved(other, replace(one, lost=True), pair, 1).lost


@pytest.mark.parametrize("way", [True, False])
def test_a_distance_decided_by_such_numbers_is_not_believed(way, monkeypatch):
    """Three entries; what X_1 = 2 does to the sum is decided by probabilities below 1e-400."""
    initial = np.array([0.7267517006964225, 0.2732482993035775, 2.0422624146926525e-151])
    transition = np.array(
        [
            [0.8697819293794399, 0.1302180706205601, 2.365295713577676e-251],
            [2.572612226324171e-151, 2.2782217580602797e-151, 1.0],
            [1.0, 2.7081041121008875e-151, 2.037042101618316e-151],
        ]
    )
    distributions = [initial, initial @ transition, initial @ transition @ transition]
    monkeypatch.setattr(chain_sums, "by_halving", lambda *_: way)
    distance = largest_distance(distributions, transition, np.array([0, 1, 4]))
    assert distance.lost or distance.value == 7
    query = pk.total([0, 1, 4], 3)
    assert pk.wasserstein(pk.MarkovChain(initial, transition), query, 1.0).scale >= 7


def test_a_state_that_only_rounding_makes_impossible_is_told():
    rare = np.array([[1.0, 0.0], [1e-200, 1.0]])
    distributions = [np.array([1e-200, 1.0]), np.array([2e-200, 1.0])]
    assert not chain_sums._underflow(distributions, rare)
    assert chain_sums._underflow([np.array([1e-300, 1.0]), distributions[1]], rare)
    assert chain_sums._underflow([np.array([0.0, 1.0]), np.array([0.0, 1.0])], rare)
    assert not chain_sums._underflow([np.array([0.0, 1.0])], rare)


def test_rare_states_are_refused_not_guessed(monkeypatch):
    """Six visits to a state of probability 1e-100 are possible, and no float says how rarely."""
    chain = pk.MarkovChain([1.0, 1e-100], [[1.0, 1e-100], [1.0, 2e-100]])
    assert pk.wasserstein(chain, pk.total([0, 1], 6), 1.0).scale >= 1
    monkeypatch.setattr("pufferkit.mechanisms.chain_distances._EXACT_WORK", 0)
    with pytest.raises(pk.NotApplicable, match="the probability of some sums underflows"):
        pk.wasserstein(chain, pk.total([0, 1], 6), 1.0)


def test_sums_closer_than_rounding_are_left_open():
    for b in (1.0, 1 + 1.5e-9, 1 - 1.5e-9):
        assert _compare(1.0, 0, b, 0, 1e-9) == 0
        assert _compare(b, 0, 1.0, 0, 1e-9) == 0
    assert _compare(1.0, 0, 1 + 3e-9, 0, 1e-9) == 1
    assert _compare(1 + 3e-9, 0, 1.0, 0, 1e-9) == -1


def test_ratios_of_what_cannot_be_or_cannot_be_told_are_infinite():
    """Two values of an entry, one pair of ends, two sums."""
    parts, yes = np.array([[[0.3, 0.2]], [[0.1, 0.4]]]), np.ones((2, 1, 1), dtype=bool)
    table = entry_windows._ratio_tables(parts, yes, 1, 0.5, 1e-12)[0]
    # Likelihoods at the sums: 0.3 + 0.1, 0.2 + 0.15 against 0.1 + 0.2, 0.4 + 0.05.
    assert table == pytest.approx(np.array([[0, 0.4 / 0.3], [0.45 / 0.35, 0]]))
    only = yes.copy()
    only[1] = False
    assert entry_windows._ratio_tables(parts, only, 1, 0.5, 1e-12)[0].tolist() == [[0, inf], [0, 0]]
    assert np.isinf(entry_windows._ratio_tables(parts, yes, 1, 0.5, 0.35)[0]).any()


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
    at_middle = outer_loss(chain, np.eye(size), 2.0, 5)
    assert at_middle <= best * (1 + 1e-9) or size <= 6  # of few coordinates other entries count too
    assert at_middle >= 0.9 * best


# --- short series ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_plain_floats_and_long_vectors_give_the_same_distance(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    size, length = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    transition = rng.dirichlet(np.full(size, 0.5), size)
    transition[rng.random(transition.shape) < 0.25] = 0
    transition[transition.sum(axis=1) == 0, 0] = 1
    transition /= transition.sum(axis=1, keepdims=True)
    if seed % 7 == 0:
        transition = np.roll(np.eye(size), 1, axis=1)
    distributions = [np.eye(size)[0] if seed % 3 == 0 else rng.dirichlet(np.ones(size))]
    for _ in range(length - 1):
        distributions.append(distributions[-1] @ transition)
    values = rng.integers(0, 4, size)
    values[0], values[-1] = 0, 3
    short = largest_distance(distributions, transition, values)
    monkeypatch.setattr(chain_sums, "fits_floats", lambda *_: False)
    assert short == largest_distance(distributions, transition, values)


def test_what_fits_plain_floats():
    start, move = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.4, 0.6]])
    assert fits_floats(start, move, 289, 1)
    assert not fits_floats(start, move, 290, 1)  # 0.1^289 / 2 is below 2^-960
    assert not fits_floats(np.array([1 - 1e-290, 1e-290]), move, 2, 1)
    assert fits_floats(np.array([1.0, 0.0]), np.eye(2), 500, 1)
    assert not fits_floats(start, move, 200, 10**6)
    assert not fits_floats(start, move, 10**400, 1)


def test_a_tie_of_plain_floats_is_open_and_counts_as_the_larger_distance():
    one, other = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])
    assert farthest([one, other], 0, 1e-12) == (1, False)
    assert farthest([one, one], 0, 1e-12) == (1, True)
    assert farthest([one, other], 2, 1e-12) == (2, False)
    assert farthest([one], 0, 1e-12) == (0, False)
