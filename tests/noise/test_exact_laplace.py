"""The exact sampler for many numbers: its digits, its tosses, its tree of decisions, its draws.

Exactness is shown in three steps, none of them statistical: the digits of every probability against
`decimal`; a toss, by every first byte and the words around the limit; and a draw, by listing every
outcome of its tosses with a rational number in the place of e^{-1 / scale}. Draws with bytes of a
seeded generator then see whether the steps fit together.
"""

from collections import defaultdict
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pufferkit import noise
from pufferkit.noise import exact_laplace
from pufferkit.noise.digits import digits, enclosed, first_words
from pufferkit.noise.exact_laplace import Coin, DiscreteLaplace, saturated_sum, tosses

MOST, LEAST = 2**63 - 1, -(2**63)
ALARM = 1e-6  # bytes are seeded, so a test that passes once passes always


def seeded(seed=1):
    return np.random.default_rng(seed).bytes


def scripted(*pieces):
    """Bytes in this order, each piece for one request of its length."""
    supply = iter(pieces)

    def source(count):
        if count == 0:
            return b""
        piece = next(supply)
        assert len(piece) == count
        return piece

    source.rest = supply
    return source


# --- digits ---------------------------------------------------------------------------------------

XS = [
    Fraction(1, 2**56),
    Fraction(1, 3 * 10**9),
    Fraction(1, 10),
    Fraction(1, 2),
    Fraction(1),
    Fraction(7, 3),
    Fraction(0.1),
    Fraction(4499, 100),
    Fraction(1000),
]


def by_decimal(shape, x, number):
    """floor(p 2^number), by an exponential function that is not ours."""
    with localcontext() as context:
        context.prec = 700
        a = (-Decimal(x.numerator) / Decimal(x.denominator)).exp()
        p = {"power": a, "odds": a / (1 + a), "nonzero": 2 * a / (1 + a)}[shape]
        return int((p * 2**number).to_integral_value(rounding=ROUND_FLOOR))


@pytest.mark.parametrize("x", XS)
@pytest.mark.parametrize("shape", ["power", "odds", "nonzero"])
def test_digits_are_those_of_the_probability(shape, x):
    for number in (1, 8, 64, 128, 1500):
        assert digits(shape, x, number) == by_decimal(shape, x, number)


@pytest.mark.parametrize("x", [*XS, Fraction(10**300), Fraction(1, 10**300)])
@pytest.mark.parametrize("bits", [1, 64, 200])
def test_the_exponential_is_enclosed(x, bits):
    low, high = enclosed(x, bits)
    true = 0 if x > 10**6 else by_decimal("power", x, bits)
    assert 0 <= low <= true <= high
    assert high > true
    assert high - low <= 4


def test_nothing_but_a_decay_is_asked_for():
    with pytest.raises(ValueError, match=r"^x: must be above 0"):
        enclosed(Fraction(0), 64)


@pytest.mark.parametrize("x", [*XS, Fraction(10**300)])
def test_words_by_squaring_are_words_one_by_one(x):
    wanted = [("nonzero", 0), *(("odds", i) for i in range(62)), ("power", 62)]
    alone = [digits(shape, x * 2**i, 64) for shape, i in wanted]
    assert list(first_words(wanted, x)) == alone


# --- a toss ---------------------------------------------------------------------------------------


def coin(x, shape="odds"):
    return Coin(shape, 0, (1 / x,), np.array([digits(shape, x, 64)], dtype=np.uint64))


def word(number):
    return np.array([number], dtype=np.uint64).tobytes()


@pytest.mark.parametrize("x", [Fraction(1, 10), Fraction(1), Fraction(5), Fraction(60)])
def test_a_toss_is_heads_for_exactly_the_words_below_the_digits(x):
    """Heads for top of 256 bytes; in one more, for low of 2^56 words; in one more, and so on."""
    own = coin(x)
    whole = digits("odds", x, 192)
    top, low = whole >> 184, whole >> 128 & 2**56 - 1
    second, third = whole >> 64 & 2**64 - 1, whole & 2**64 - 1
    for byte in range(256):
        last = [word(2**64 - 1)] if byte == top else []
        assert bool(tosses(own, 1, None, scripted(bytes([byte]), *last))[0]) == (byte < top)
    for rest, heads in [(low - 1, True), (low + 1, False), (2**56 - 1, False)]:
        if rest >= 0:
            source = scripted(bytes([top]), word(rest << 8 | 255))
            assert bool(tosses(own, 1, None, source)[0]) == heads
    begun = bytes([top]), word(low << 8)
    for last, heads in [(second - 1, True), (second + 1, False)]:
        source = scripted(*begun, last.to_bytes(8, "big"))
        assert bool(tosses(own, 1, None, source)[0]) == heads
    for last, heads in [(third - 1, True), (third + 1, False)]:
        source = scripted(*begun, second.to_bytes(8, "big"), last.to_bytes(8, "big"))
        assert bool(tosses(own, 1, None, source)[0]) == heads


def test_each_number_is_tossed_for_with_the_chance_of_its_scale():
    scales = Fraction(1, 10), Fraction(10**6)
    words = np.array([digits("power", 1 / scale, 64) for scale in scales], dtype=np.uint64)
    own = Coin("power", 0, scales, words)
    which = np.array([1, 0, 1, 0])
    heads = tosses(own, 4, which, scripted(bytes([1, 1, 200, 0]), word(0)))
    assert heads.tolist() == [True, False, True, True]
    near = digits("power", 1 / scales[1], 128)
    for slip, side in ((-1, True), (1, False)):
        last = ((near & 2**64 - 1) + slip).to_bytes(8, "big")
        tied = bytes([near >> 120]), word((near >> 64 & 2**56 - 1) << 8)
        assert bool(tosses(own, 1, which[:1], scripted(*tied, last))[0]) == side


# --- a draw ---------------------------------------------------------------------------------------


def listed(monkeypatch, law, a, values, which=None, most_blocks=3):
    """Every outcome of one draw with its probability, a rational number being given for e^{-x}."""
    outcomes, waiting = defaultdict(Fraction), [()]
    number = 0 if which is None else int(which[0])
    while waiting:
        decided = waiting.pop()
        state = {"step": 0, "weight": Fraction(1), "more": 0}

        def decide(chance, state=state, decided=decided):
            step = state["step"]
            state["step"] += 1
            if step == len(decided):
                raise LookupError
            state["weight"] *= chance if decided[step] else 1 - chance
            return decided[step]

        def tossed(coin, count, *_, decide=decide, state=state):
            assert count == 1
            power = a[number] ** (2**coin.i)
            made = {"power": power, "odds": power / (1 + power), "nonzero": 2 * power / (1 + power)}
            state["more"] += coin.shape == "power"
            if state["more"] > most_blocks:
                return np.array([False])  # the rest of the tail, all in one place
            return np.array([decide(made[coin.shape])])

        monkeypatch.setattr(exact_laplace, "tosses", tossed)

        def sign(count, decide=decide):
            assert count == 1
            return bytes([128 * decide(Fraction(1, 2))])

        try:
            drawn = law.on(values, which, sign)
        except LookupError:
            waiting += [(*decided, False), (*decided, True)]
        else:
            outcomes[int(drawn[0])] += state["weight"]
    return outcomes


@pytest.mark.parametrize("a", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 50)])
@pytest.mark.parametrize("bits", [0, 1, 3])
def test_the_tree_of_decisions_is_the_distribution(monkeypatch, a, bits):
    nothing = (Fraction(1),), np.zeros(1, dtype=np.uint64)
    law = DiscreteLaplace(
        Coin("nonzero", 0, *nothing),
        tuple(Coin("odds", i, *nothing) for i in range(bits)),
        Coin("power", bits, *nothing),
    )
    outcomes = listed(monkeypatch, law, [a], np.array([5]))
    sure = 3 * 2**bits  # beyond, the tail was put together
    for n in range(-sure, sure + 1):
        assert outcomes[5 + n] == (1 - a) / (1 + a) * a ** abs(n)
    assert sum(outcomes.values()) == 1


def test_the_tree_of_one_scale_of_two(monkeypatch):
    law = DiscreteLaplace.of(Fraction(1, 40), Fraction(1, 12))
    assert len(law.bits) == 2
    a = [Fraction(1, 3), Fraction(2, 3)]
    for number in (0, 1):
        outcomes = listed(monkeypatch, law, a, np.array([0]), np.array([number]))
        for n in range(-12, 13):
            one = a[number]
            assert outcomes[n] == (1 - one) / (1 + one) * one ** abs(n)


@pytest.mark.parametrize(
    ("scale", "bits"),
    [(Fraction(1, 45), 0), (Fraction(1, 44), 1), (Fraction(1), 6), (Fraction(2**56), 62)],
)
def test_bits_reach_45_scales(scale, bits):
    law = DiscreteLaplace.of(scale)
    assert len(law.bits) == bits
    assert law.more.words[0] == 0  # so that more bits are a matter of 2^-64
    assert [one.i for one in law.bits] == list(range(bits))
    assert (law.nonzero.shape, law.more.shape, law.more.i) == ("nonzero", "power", bits)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**56) + 1])
def test_scales_that_do_not_fit_are_refused(scale):
    with pytest.raises(ValueError, match=r"^scale: must be above 0 and at most 2\^56"):
        DiscreteLaplace.of(scale)


def with_decisions(monkeypatch, blocks, negative):
    """Every toss is heads, and so many blocks of more bits are given; then no more."""
    left = [blocks]

    def tossed(coin, count, *_):
        if coin.shape == "power":
            left[0] -= 1
            return np.full(count, left[0] >= 0)
        return np.ones(count, dtype=bool)

    monkeypatch.setattr(exact_laplace, "tosses", tossed)
    return lambda count: bytes([255 * negative] * count)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("blocks", [0, 1, 9])
def test_an_answer_beyond_64_bits_is_the_last_number_of_them(monkeypatch, negative, blocks):
    law, edge = DiscreteLaplace.of(Fraction(2**56)), LEAST if negative else MOST
    values = np.array([edge, edge // 2 + 1])
    source = with_decisions(monkeypatch, 0, negative)
    assert law.on(values[:1], source=source).tolist() == [edge]
    size = 2**62 * (blocks + 1)
    source = with_decisions(monkeypatch, blocks, negative)
    near = int(values[1]) + (-size if negative else size)
    assert law.on(values[1:], source=source).tolist() == [min(max(near, LEAST), MOST)]


def test_sums_saturate_and_never_wrap():
    values = np.array([MOST, MOST, LEAST, LEAST, 5, -5, 0])
    added = np.array([1, -1, -1, 1, MOST, LEAST, LEAST])
    wanted = [min(max(int(v) + int(z), LEAST), MOST) for v, z in zip(values, added, strict=True)]
    assert saturated_sum(values, added).tolist() == wanted


# --- draws ----------------------------------------------------------------------------------------


def chi_square(seen, expected):
    many = expected > 20
    surplus = ((seen - expected)[many] ** 2 / expected[many]).sum()
    return stats.chi2(many.sum()).sf(surplus)


def looks_right(draws, scale):
    """A chi-square test of the numbers that are expected often; the others in one cell."""
    b, reach = 1 / scale, int(8 * scale) + 3
    cells = np.arange(-reach, reach + 1)
    expected = len(draws) * np.tanh(b / 2) * np.exp(-b * np.abs(cells))
    seen = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    kept = expected > 20
    expected, seen = expected[kept], seen[1:-1][kept]
    expected = np.append(expected, len(draws) - expected.sum())
    return chi_square(np.append(seen, len(draws) - seen.sum()), expected) > ALARM


@pytest.mark.parametrize("scale", [0.15, 0.4, 1.0, 9.37, 300.0])
def test_draws_follow_the_distribution(scale):
    values = np.full(300_000, -4)
    draws = DiscreteLaplace.of(Fraction(scale)).on(values, source=seeded()) + 4
    assert looks_right(draws, scale)
    assert not looks_right(draws, 0.9 * scale)
    assert not looks_right(draws, 1.1 * scale)


@pytest.mark.parametrize("scale", [2.0**33 + 1, 3e12, 2.0**56])
def test_draws_of_large_scales_are_laplace(scale):
    draws = DiscreteLaplace.of(Fraction(scale)).on(np.zeros(50_000, np.int64), source=seeded(2))
    tested = [stats.kstest(draws / scale, stats.laplace(scale=s).cdf).pvalue for s in (0.9, 1, 1.1)]
    assert [p > ALARM for p in tested] == [False, True, False]
    low_bits = np.bincount(np.abs(draws) & 255, minlength=256)
    assert chi_square(low_bits, np.full(256, len(draws) / 256)) > ALARM


def test_draws_of_several_scales_are_those_of_each():
    scales = [0.4, 3.0, 60.0]
    which = np.arange(300_000) % 3
    law = DiscreteLaplace.of(*map(Fraction, scales))
    draws = law.on(np.zeros(len(which), np.int64), which, seeded(3))
    for number, scale in enumerate(scales):
        assert looks_right(draws[which == number], scale)
    together = draws.reshape(-1, 3)
    assert np.abs(np.corrcoef(np.sign(together).T)[np.triu_indices(3, 1)]).max() < 0.015


def alike(ours, theirs, scale):
    """Whether two samples have one distribution, by cells with at least 40 draws in all."""
    width = max(1, round(scale / 8))
    cells = [np.floor_divide(own + width // 2, width) for own in (ours, theirs)]
    reach = int(max(np.abs(own).max() for own in cells))
    counts = np.array([np.bincount(own + reach, minlength=2 * reach + 1) for own in cells])
    kept = counts.sum(axis=0) >= 40
    counts = np.column_stack([counts[:, kept], counts[:, ~kept].sum(axis=1)])
    counts = counts[:, counts.sum(axis=0) > 0]
    # OpenDP's draws are not seeded: all these tests together fail by chance once in 10^10 runs.
    enough = 1e-10 / (2 * len(OF_BOTH))
    return counts.shape[1] == 1 or stats.chi2_contingency(counts).pvalue > enough


OF_BOTH = [0.02, 0.3, 1.0, 2.6, 1 / 3, 20 / 7, 250.3, 2.0**20, 1e9 + 0.1]
"""Scales that both samplers draw: tiny, 1, large, and most of them no dyadic fraction in short."""


def of_both(scale, size, seed):
    zeros = np.zeros((1, size), dtype=np.int64)
    theirs = noise.discrete_laplace_rows(zeros, np.full((1, 1), scale), "opendp").ravel()
    return DiscreteLaplace.of(Fraction(scale)).on(zeros.ravel(), source=seeded(seed)), theirs


@pytest.mark.parametrize(
    ("scale", "size", "seed", "least", "factor"),
    [
        *((scale, 10_000, 4, 1, 1.4) for scale in OF_BOTH),
        *(pytest.param(s, 300_000, 5, 0.3, 1.1, marks=pytest.mark.slow) for s in OF_BOTH[1::2]),
    ],
)
def test_draws_are_alike_with_those_of_opendp(scale, size, seed, least, factor):
    """Two samples, one of each sampler, by the same cells; OpenDP's cannot be seeded."""
    ours, theirs = of_both(scale, size, seed)
    assert alike(ours, theirs, scale)
    if scale >= least:
        wider = DiscreteLaplace.of(Fraction(factor * scale)).on(0 * ours, source=seeded(seed + 2))
        assert not alike(wider, theirs, scale)


def test_no_random_byte_is_asked_for_twice_or_kept(monkeypatch):
    """Each toss asks anew, as many bytes as it has numbers; chunks share nothing."""
    asked = []

    def source(count):
        asked.append(count)
        return b"\xff" * count

    law = DiscreteLaplace.of(Fraction(1))
    monkeypatch.setattr(exact_laplace, "_AT_ONCE", 10)
    drawn = law.on(np.zeros(25, dtype=np.int64), source=source)
    assert drawn.tolist() == [0] * 25
    tossed = len(law.bits) + 2
    assert [count for count in asked if count] == [
        *([10, 2] + [10] * (tossed - 1)) * 2,
        *([5, 1] + [5] * (tossed - 1)),
    ]
