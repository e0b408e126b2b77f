"""Sanitising: the right probabilities, in every form of input, and estimates that cover.

Draws cannot be seeded. Statistical tests accept the truth with a false-alarm rate under 1e-9.
"""

import tracemalloc
from fractions import Fraction
from itertools import count, islice, repeat
from math import inf, log

import numpy as np
import pytest
from scipy import stats

import pufferkit as pk
from pufferkit import noise
from pufferkit.local import KaryResponse, RandomizedResponse, cheapest_noise, estimate, sanitize
from pufferkit.noise import randomised_response

FALSE_ALARM = 1e-10
HOME = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]], states=["home", "out"])
BITS = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]])
THREE = pk.MarkovChain.steady([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.4, 0.5]])


def plausible(hits: int, draws: int, probability: float) -> bool:
    return stats.binomtest(hits, draws, probability).pvalue > FALSE_ALARM


@pytest.mark.parametrize("rho", [(0.25, 0.4), (0.01, 0.5), (0.0, 0.3), (0.0003, 0.2)])
def test_bits_flip_with_their_own_probability(rho):
    made = RandomizedResponse(BITS, *rho)
    draws = 400_000
    for state in (0, 1):
        flips = int((sanitize(np.full(draws, state), made) != state).sum())
        assert plausible(flips, draws, rho[state])
        if rho[state] > 0.001:
            assert not plausible(flips, draws, 0.8 * rho[state])
            assert not plausible(flips, draws, 1.25 * rho[state])
        if rho[state] == 0:
            assert flips == 0


def test_states_move_to_every_other_alike():
    made = KaryResponse(THREE, 0.15)
    draws = 200_000
    for state in range(3):
        seen = np.bincount(sanitize(np.full(draws, state), made), minlength=3)
        expected = draws * made.matrix[state]
        assert stats.chisquare(seen, expected).pvalue > FALSE_ALARM
        wrong = draws * KaryResponse(THREE, 0.16).matrix[state]
        assert stats.chisquare(seen, wrong).pvalue < FALSE_ALARM


def test_answers_are_independent():
    made = RandomizedResponse(BITS, 0.4, 0.4)
    flips = sanitize(np.zeros(400_000, dtype=int), made)
    both = int((flips[:-1] & flips[1:])[::2].sum())
    assert plausible(both, 200_000, 0.16)
    assert not np.array_equal(flips, sanitize(np.zeros(400_000, dtype=int), made))


@pytest.mark.parametrize("rho", [0.5, 0.25, 0.1, 0.3333333333333333, 2**-11, 0.000488281250000001])
def test_floats_of_at_least_two_to_minus_11_are_drawn_exactly(rho):
    assert Fraction(noise.flip_threshold(rho, 2), noise.WORD) == Fraction(rho)


@pytest.mark.parametrize("rho", [1e-5, 1e-19, 1e-30, 2**-65])
def test_smaller_ones_are_rounded_up(rho):
    drawn = Fraction(noise.flip_threshold(rho, 2), noise.WORD)
    assert Fraction(rho) <= drawn < Fraction(rho) + Fraction(1, noise.WORD)


@pytest.mark.parametrize("states", [2, 3, 5, 7, 50])
def test_even_answers_never_favour_another_state(states):
    drawn = noise.flip_threshold(1 / states, states)
    assert drawn * states <= noise.WORD
    chain = pk.MarkovChain.steady(np.full((states, states), 1 / states))
    b = KaryResponse(chain, 1 / states).entry_epsilon
    assert 0 <= b < 1e-14


class Words:
    """Chosen words in place of random ones."""

    def __init__(self, words):
        self.words = list(words)

    def __call__(self, size):
        taken, self.words = self.words[: size // 8], self.words[size // 8 :]
        return np.array(taken, dtype=np.uint64).tobytes()


def test_single_and_many_answers_use_words_alike(monkeypatch):
    limit = noise.flip_threshold(0.2, 4)
    words = [0, limit - 1, limit, 2 * limit, 3 * limit - 1, 3 * limit, noise.WORD - 1]
    for code in range(4):
        monkeypatch.setattr(randomised_response.os, "urandom", Words(words))
        many = noise.responses(np.full(len(words), code), [limit] * 4).tolist()
        monkeypatch.setattr(randomised_response.os, "urandom", Words(words))
        assert many == list(noise.response_stream(iter([code] * len(words)), [limit] * 4))
        assert many == [(code + s) % 4 for s in (1, 1, 2, 3, 3, 0, 0)]


def test_what_comes_in_goes_out_in_the_same_form():
    made = RandomizedResponse(HOME, 0.0, 0.0)  # nothing is changed, so forms can be compared
    words = ["home", "out", "out"]
    assert sanitize(words, made) == words
    assert sanitize([words, ["out"]], made) == [words, ["out"]]
    assert list(sanitize(iter(words), made)) == words
    array = np.array(words)
    assert sanitize(array, made).tolist() == words
    assert sanitize(array, made).dtype == array.dtype
    assert sanitize(array.astype(object), made).tolist() == words
    series = pk.Series.of([words, words], HOME.states)
    again = made.sanitize(series)
    assert again.as_segments() == series.as_segments()
    bits = RandomizedResponse(BITS, 0.0, 0.0)
    for kind in (bool, np.int8, np.int64, np.uint8):
        flags = np.array([0, 1, 1, 0], dtype=kind)
        assert sanitize(flags, bits).dtype == kind
        assert (sanitize(flags, bits) == flags).all()


def test_a_stream_has_no_end_and_reads_no_further_than_it_answers():
    read = []

    def entries():
        for t in count():
            read.append(t)
            yield "home"

    answers = sanitize(entries(), cheapest_noise(HOME, 2))
    assert read == []
    assert set(islice(answers, 100)) <= {"home", "out"}
    assert len(read) == 100


def test_a_stream_keeps_nothing():
    entries = repeat("home", 200_000)
    answers = sanitize(entries, cheapest_noise(HOME, 2))
    next(answers)
    tracemalloc.start()
    seen = sum(answer == "home" for answer in answers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 100_000 < seen < 200_000
    assert peak < 2_000_000


def test_streams_have_the_right_distribution():
    made = RandomizedResponse(BITS, 0.3, 0.1)
    draws = 100_000
    for state, rho in enumerate(made):
        flips = sum(z != state for z in sanitize(iter([state] * draws), made))
        assert plausible(flips, draws, rho)
        assert not plausible(flips, draws, 0.85 * rho)


def test_refusals():
    made = cheapest_noise(HOME, 2, length=3)
    assert len(sanitize(["home"] * 3, made)) == 3
    for series, message in [
        (["home", "moon"], "'moon'"),
        (np.array(["home", "moon"]), "'moon' at entry 2"),
        (["home"] * 4, "longer than the 3 entries"),
        (np.array(["home"] * 4), "longer than the 3 entries"),
        ([], "empty"),
        (np.array([]), "one row"),
        (pk.Series.of(["home", "out"], ["out", "home"]), "in its order"),
        ([None, None], "no entry was observed"),
        (np.array([["home"], ["out"]]), "one row"),
        ("home", "sequence of states"),
    ]:
        with pytest.raises(ValueError, match=message):
            sanitize(series, made)
    assert sanitize(np.array(["home", None]), made)[1] is None  # not observed, not answered
    with pytest.raises(ValueError, match="entry 2 is not among"):
        list(sanitize(iter(["home", "moon"]), made))
    with pytest.raises(ValueError, match="longer than"):
        list(sanitize(iter(["home"] * 4), made))
    with pytest.raises(ValueError, match="2 at entry 3"):
        sanitize(np.array([0, 1, 2]), cheapest_noise(BITS, 2))
    with pytest.raises(ValueError, match="mechanism: must be"):
        sanitize(["home"], "coin")
    weak = RandomizedResponse(HOME, 0.05, 0.05, 1.0)
    with pytest.raises(ValueError, match="promises 1 but loses"):
        sanitize(["home"], weak)


class TestEstimates:
    RUNS = 400

    def coverage(self, made, series, level, claimed=None, **options):
        """How often each interval holds the truth, over many sanitised copies."""
        hits_counts = np.zeros(len(made.states), dtype=int)
        hits_pairs = np.zeros((len(made.states),) * 2, dtype=int)
        for _ in range(self.RUNS):
            estimates = estimate(sanitize(series, made), claimed or made, level, **options)
            hits_counts += np.abs(estimates.counts - series.counts) <= estimates.counts_error
            hits_pairs += (
                np.abs(estimates.transitions - series.transitions) <= estimates.transitions_error
            )
        return hits_counts, hits_pairs

    @pytest.mark.parametrize(
        "made",
        [RandomizedResponse(BITS, 0.2, 0.35), KaryResponse(THREE, 0.12)],
        ids=["two", "three"],
    )
    def test_intervals_cover_and_are_not_too_wide(self, made):
        path = made.chain.sample(3000, seed=3)
        series = pk.Series(path, made.states, (1000, 500, 1500))
        counts, pairs = self.coverage(made, series, 0.8)
        for hits in [*counts.ravel(), *pairs.ravel()]:
            assert stats.binom.cdf(hits, self.RUNS, 0.78) > FALSE_ALARM
            assert stats.binom.sf(hits, self.RUNS, 0.82) > FALSE_ALARM

    def test_a_wrong_rho_is_rejected(self):
        made, wrong = RandomizedResponse(BITS, 0.2, 0.35), RandomizedResponse(BITS, 0.25, 0.35)
        series = pk.Series(made.chain.sample(20_000, seed=3), (0, 1), (20_000,))
        counts, pairs = self.coverage(made, series, 0.95, claimed=wrong)
        for hits in [*counts.ravel(), pairs[0, 0]]:
            assert stats.binom.cdf(hits, self.RUNS, 0.95) < FALSE_ALARM

    def test_guaranteed_intervals_cover_short_series(self):
        made = RandomizedResponse(BITS, 0.2, 0.35)
        series = pk.Series(made.chain.sample(12, seed=3), (0, 1), (5, 7))
        counts, pairs = self.coverage(made, series, 0.9, guaranteed=True)
        for hits in [*counts.ravel(), *pairs.ravel()]:
            assert stats.binom.cdf(hits, self.RUNS, 0.9) > FALSE_ALARM

    def test_no_bias_by_listing_all_answers(self):
        made = RandomizedResponse(BITS, 0.2, 0.35)
        truth = pk.Series.of([[0, 1, 1], [0, 0]], (0, 1))
        means = {"counts": 0.0, "transitions": 0.0}
        squares, variances = {"counts": 0.0, "transitions": 0.0}, dict.fromkeys(means, 0.0)
        signed = _raw_variances(made)
        for code in range(32):
            answers = [(code >> t) & 1 for t in range(5)]
            p = np.prod([made.matrix[x, z] for x, z in zip(truth.codes, answers, strict=True)])
            estimates = estimate([answers[:3], answers[3:]], made)
            raw = signed(answers, (3, 2))
            for name in ("counts", "transitions"):
                value = getattr(estimates, name)
                means[name] = means[name] + p * value
                squares[name] = squares[name] + p * value**2
                variances[name] = variances[name] + p * raw[name]
        assert means["counts"] == pytest.approx(truth.counts)
        assert means["transitions"] == pytest.approx(truth.transitions)
        for name in ("counts", "transitions"):
            assert squares[name] - means[name] ** 2 == pytest.approx(variances[name])

    def test_exact_answers_give_exact_counts(self):
        made = RandomizedResponse(BITS, 0.0, 0.0)
        estimates = estimate(np.array([0, 1, 1, 0, 0]), made)
        assert estimates.counts == pytest.approx([3, 2])
        assert estimates.transitions == pytest.approx(np.array([[1, 1], [1, 1]]))
        assert estimates.frequencies == pytest.approx([0.6, 0.4])
        assert estimates.counts_error == pytest.approx([0, 0], abs=1e-7)
        assert "5 answers" in str(estimates)
        assert estimates.to_dict()["length"] == 5

    def test_refusals(self):
        made = RandomizedResponse(BITS, 0.5, 0.5)
        with pytest.raises(ValueError, match="carry no information"):
            estimate([0, 1], made)
        made = RandomizedResponse(BITS, 0.2, 0.2)
        with pytest.raises(ValueError, match="level"):
            estimate([0, 1], made, 1.0)
        with pytest.raises(ValueError, match="not among"):
            estimate([0, 5], made)


def _raw_variances(made):
    """The unbiased variance estimates before they are cut at zero."""
    from pufferkit.local import estimates as rooms

    inverse = np.linalg.inv(made.matrix)

    def signed(answers, lengths):
        singles, pairs, triples = rooms._tables(np.array(answers), lengths, 2)
        transitions = inverse.T @ pairs @ inverse
        own = (inverse**2).T @ pairs @ inverse**2 - transitions
        shared = np.zeros((2, 2))
        for a in range(2):
            for b in range(2):
                for c in range(2):
                    for y in range(2):
                        for w in range(2):
                            middle = inverse[b, w] * inverse[b, y] - (y == w) * inverse[b, y]
                            shared[y, w] += (
                                triples[a, b, c] * inverse[a, y] * middle * inverse[c, w]
                            )
        cut = np.maximum(own + 2 * shared, 0)
        assert rooms._pair_variance(pairs, triples, inverse, transitions) == pytest.approx(cut)
        return {
            "counts": singles @ inverse**2 - singles @ inverse,
            "transitions": own + 2 * shared,
        }

    return signed


def test_entry_epsilon_of_no_noise_is_infinite():
    assert KaryResponse(THREE, 0.0).entry_epsilon == inf
    assert RandomizedResponse(BITS, 0.0, 0.2).entry_epsilon == inf
    assert RandomizedResponse(BITS, 0.2, 0.2).entry_epsilon == pytest.approx(log(4))


@pytest.mark.parametrize(
    ("states", "series"),
    [
        (("home", "out"), np.array(["out"] * 200)),
        ((0, 300), np.zeros(200, dtype=np.int8)),
        ((1, 2.5), np.ones(200, dtype=int)),
    ],
)
def test_answers_are_whole_labels_even_if_the_array_is_too_narrow_for_them(states, series):
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]], states=states)
    answers = sanitize(series, RandomizedResponse(chain, 0.5, 0.5))
    assert set(answers.tolist()) == set(states)


@pytest.mark.parametrize("states", [(True, False), (1, 0), (False, True)])
def test_true_and_false_keep_their_meaning_in_any_order(states):
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]], states=states)
    mechanism = RandomizedResponse(chain, 0.001, 0.001)
    answers = sanitize(np.array([True] * 2000), mechanism)
    assert answers.dtype == bool
    assert answers.mean() > 0.9


def test_more_states_than_the_array_has_numbers():
    size = 200
    chain = pk.MarkovChain.steady(np.full((size, size), 1 / size))
    answers = sanitize(np.arange(100, dtype=np.int8), KaryResponse(chain, 1 / size))
    assert 0 <= answers.min() <= answers.max() < size
