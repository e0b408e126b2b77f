"""The parts of the search for quilts: powers, splits, made-up influences against a scan."""

from math import exp, inf, log

import numpy as np
import pytest

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import Mixing
from pufferkit.beliefs.chain_tables import CONVERGED, GivenStartTables
from pufferkit.beliefs.graph import Graph
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.errors import NotApplicable
from pufferkit.influence.kernels import TINY, Kernel, log_ratio, row_log_ratios
from pufferkit.influence.quilts import networks
from pufferkit.influence.quilts.chains import (
    MixingInfluence,
    hardest,
)
from pufferkit.influence.quilts.search import NOTHING, Quilt, best_quilt, hardest_node

# --- powers ---------------------------------------------------------------------------------------

CHAIN = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])


def test_ratios_of_rows():
    """Terms that are both 0 are skipped, c/0 is infinite; underflow counts as 0 below only."""
    rows = np.array([[0.5, 0.5, 0.0], [0.25, 0.0, 0.75], [TINY / 2, 1.0, 0.0]])
    kernel = Kernel(rows, rows > 0)
    ratios = row_log_ratios(kernel)
    assert ratios[0, 1] == inf
    assert ratios[1, 0] == inf
    assert (np.diag(ratios) == 0).all()
    assert ratios[0, 2] == inf  # 0.5 over a number that underflowed
    assert ratios[2, 0] == pytest.approx(log(2))
    apart = np.eye(2)
    assert log_ratio(Kernel(apart, apart > 0), 0, 1) == inf
    column = np.array([[0.0], [2.0], [3.0]])
    never, twice, thrice = range(3)
    assert log_ratio(Kernel(column, column > 0), never, twice) == -inf
    assert log_ratio(Kernel(column, column > 0), thrice, twice) == pytest.approx(log(1.5))
    assert log_ratio(Kernel(column, column > 0), thrice, thrice) == 0


# --- the search over quilts -----------------------------------------------------------------------


class MadeUp:
    """A node whose parts fall at random, with as many pairs of secrets as asked for."""

    def __init__(self, seed, left, right, pairs=1, infinite=0):
        rng = np.random.default_rng(seed)
        self.left, self.right, self.asked = left, right, 0
        self.parts = {}
        for p in range(pairs):
            for side, size in ((0, left), (1, right)):
                fall = np.cumsum(rng.exponential(rng.uniform(0.01, 1), size + 1))[::-1]
                fall[: rng.integers(0, infinite + 1)] = inf
                self.parts[side, (p, p + 1)] = fall
        self.pairs = [(p, p + 1) for p in range(pairs)]

    def of_pair(self, side, node, n, pair):
        assert 1 <= n < (self.left, self.right)[side]
        return float(self.parts[side, pair][n])

    def slack(self, side, node, n):
        return 0.0

    def between(self, node, left, right):
        return self.whole(left or self.left, right or self.right)

    def best(self, epsilon, *given, **more):
        return best_quilt(self, self.left, self.left + self.right - 1, epsilon, *given, **more)

    def whole(self, a, b):
        self.asked += 1
        sums = {
            p: (self.parts[0, p][a] if a < self.left else 0.0)
            + (self.parts[1, p][b] if b < self.right else 0.0)
            for p in self.pairs
        }
        worst = max(sums, key=sums.get)
        return float(sums[worst]), worst

    def scores(self, epsilon):
        scores = {}
        for a in range(1, self.left + 1):
            for b in range(1, self.right + 1):
                value, _ = self.whole(a, b)
                scores[a, b] = (a + b - 1) / (epsilon - value) if value < epsilon else inf
        return scores


@pytest.mark.parametrize("pairs", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 30.0])
def test_the_search_finds_the_least_score_of_all(seed, pairs, epsilon):
    rng = np.random.default_rng(100 + seed)
    left, right = (int(n) for n in rng.integers(1, 30, 2))
    node = MadeUp(seed, left, right, pairs, infinite=3)
    scores = node.scores(epsilon)
    least = min(scores.values())
    quilt = node.best(epsilon)
    assert quilt.score == pytest.approx(least, rel=1e-12)
    assert scores[quilt.keep_left, quilt.keep_right] == quilt.score
    assert quilt.ends_left == (quilt.keep_left < left)
    assert quilt.ends_right == (quilt.keep_right < right)
    assert quilt.influence == node.whole(quilt.keep_left, quilt.keep_right)[0]
    # A hint, good or bad, changes nothing; nor does one from a node with more on either side.
    for hint in (quilt, Quilt(1.0, 0.0, 1, 1, True, True), Quilt(1.0, 0.0, 99, 99, True, True)):
        assert node.best(epsilon, hint=hint).score == pytest.approx(least, rel=1e-12)
    # Enough is enough, but never more than that.
    loose = node.best(epsilon, enough=2 * least)
    assert loose.score <= 2 * least or loose.score == pytest.approx(least)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_the_hardest_node_by_bisection(seed, same):
    """Nodes of a made-up chain whose influence is the same everywhere: all nodes looked at."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 25))
    template = MadeUp(seed, length + 1, length + 1)

    def at(node):
        made = MadeUp(seed, length + 1, length + 1)
        made.parts, made.left, made.right = template.parts, node, length - node + 1
        return made

    def solve(node, enough, hint):
        return at(node).best(2.0, enough, hint)

    node, quilt, runs = hardest_node(solve, 1, length, 0.0, same_everywhere=same)
    scores = [at(n).best(2.0).score for n in range(1, length + 1)]
    assert quilt.score == pytest.approx(max(scores), rel=1e-12)
    assert scores[node - 1] == pytest.approx(max(scores), rel=1e-12)
    assert hardest_node(solve, 3, 2, 0.0, same_everywhere=same) == (0, NOTHING, ())
    # The quilts that are said to serve all nodes do.
    served = [ends for count, *ends in runs for _ in range(count)]
    assert len(served) == length
    for n, (left, right) in enumerate(served, 1):
        one = at(n)
        a, b = min(left or n, n), min(right or one.right, one.right)
        assert (a + b - 1) / (2.0 - one.whole(a, b)[0]) <= max(scores) * (1 + 1e-12)


# --- classes --------------------------------------------------------------------------------------


def test_a_probability_lost_to_underflow_has_no_known_ratio():
    chain = MarkovChain([0.5, 0.25, 0.25], [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    start = GivenStartTables(chain, 5)
    known, error = start.prior(1), start.prior_error(1)
    assert known[0, 1] == pytest.approx(log(0.5))
    assert error >= CONVERGED
    start.underflowed[0] = [False, True, False]
    prior = start.prior(1)
    assert (np.diag(prior) == 0).all()
    assert prior[0, 2] == known[0, 2]
    assert prior[2, 0] == known[2, 0]
    assert (prior[1, [0, 2]] == inf).all()
    assert (prior[[0, 2], 1] == inf).all()
    assert start.underflows_at(1)
    assert not start.underflows_at(2)


# --- mixing ---------------------------------------------------------------------------------------


def test_bounds_from_mixing_are_the_formulas():
    mixing = Mixing(pi_min=0.25, gap=0.8, contraction=0.5, stationary=False)
    paper, tight = MixingInfluence.paper(mixing), MixingInfluence.tight(mixing)
    for steps in (1, 5, 9):
        for bound, delta in ((paper, exp(-0.4 * steps) / 0.25), (tight, 0.5**steps * 3)):
            if delta >= 1:
                assert bound.bound(steps) == inf
                continue
            h = log((1 + delta) / (1 - delta))
            assert h <= bound.bound(steps) <= h * (1 + 1e-9)
    assert (paper.left_weight, tight.left_weight) == (2, 2)
    steady = MixingInfluence.tight(Mixing(0.25, 0.8, 0.5, True))
    assert steady.left_weight == 1
    assert MixingInfluence.tight(Mixing(0.25, 0.8, 0.0, True)).bound(1) == 0
    assert MixingInfluence.tight(Mixing(1.0, 0.8, 0.5, True)).bound(1) == 0
    node, quilt, _ = hardest(100, 1.0)(steady, 0.0, None)
    scores = [
        (a + b - 1) / (1 - steady.bound(a) - steady.bound(b))
        for a in range(1, 30)
        for b in range(1, 30)
        if steady.bound(a) + steady.bound(b) < 1
    ]
    assert quilt.score == pytest.approx(min(scores), rel=1e-12)
    assert quilt.keep_left < node <= 100 - quilt.keep_right
    both = paper, MixingInfluence(0.4, 4.0, 2)
    first, second = (hardest(100, 1.0)(own, 0.0, None).quilt for own in both)
    assert first == second


# --- networks -------------------------------------------------------------------------------------


def path_graph(size):
    return Graph({n: (n - 1,) if n else () for n in range(size)})


def test_quilts_of_a_path_by_hand():
    quilts = networks.quilts(path_graph(3), 1)
    assert quilts == [(0b101, 0b010), (0b001, 0b110), (0b100, 0b011), (0b000, 0b111)]


def test_a_long_path_has_the_family_of_its_ends():
    size, node = networks.EXHAUSTIVE + 4, 6
    quilts = networks.quilts(path_graph(size), node)
    wanted = set()
    for left in (None, *range(node)):
        for right in (None, *range(node + 1, size)):
            cut = sum(1 << n for n in (left, right) if n is not None)
            low = 0 if left is None else left + 1
            high = size - 1 if right is None else right - 1
            wanted.add((cut, sum(1 << n for n in range(low, high + 1))))
    assert set(quilts) == wanted
    sizes = [near.bit_count() for _, near in quilts]
    assert sizes == sorted(sizes)


def test_the_family_stops_at_its_limits(monkeypatch):
    size = networks.EXHAUSTIVE + 4
    monkeypatch.setattr(networks, "MOST_SETS", 3)
    few = networks.quilts(path_graph(size), 8)
    balls = {(1 << 8 - r) * (8 - r >= 0) | (1 << 8 + r) * (8 + r < size) for r in range(1, 9)}
    cuts = {cut for cut, _ in few}
    assert {c for c in balls if c} <= cuts
    assert len(few) < 20  # of 72
    monkeypatch.setattr(networks, "MOST_BORDER", 1)
    assert {cut for cut, _ in networks.quilts(path_graph(size), 8)} < cuts


def test_tables_that_are_too_large_are_refused_in_words(monkeypatch):
    step = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    chain = BayesianNetwork({1: (), 2: (1,), 3: (2,)}, {1: {(): [0.8, 0.2]}, 2: step, 3: step})
    monkeypatch.setattr(networks, "MOST_TABLE", 3)
    with pytest.raises(
        NotApplicable, match="too large; the joint distribution with its quilt has 4 ent"
    ):
        networks.hardest_node(chain, 10.0)
