"""Classes given by their kernels: the curve against outputs that are searched for."""

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import ChainClass, InfluenceCurve, MarkovChain, RegimeClass
from pufferkit.beliefs import kernel_class
from pufferkit.influence.curve.engine import PartCurve
from pufferkit.influence.curve.steps import Contaminated, HiddenCost, Transport
from pufferkit.records import unpacked_matrix
from pufferkit.verification.check_curves import loss_of_part
from pufferkit.verification.claims import Allowance
from tests.oracles.kernel_losses import attacked_loss


class Case:
    """One random class, and the distribution around one entry under one of its members."""

    def __init__(self, kind, seed):
        self.rng = np.random.default_rng([seed, *kind.encode()])
        self.size = int(self.rng.integers(2, 4))
        self.length = int(self.rng.integers(2, 6))
        self.entry = int(self.rng.integers(self.length))
        self.cost = float(self.rng.choice([0.1, 0.5, 1.5]))
        self.sharp = float(self.rng.choice([0.3, 1, 3]))
        self.secret = "entry"
        self.metric = self._metric()
        getattr(self, kind)()

    def _metric(self):
        if self.rng.random() < 0.5:
            return 1 - np.eye(self.size)
        values = self.rng.permutation(np.arange(self.size)).astype(float)
        values[int(values.argmax())] += self.rng.integers(0, 3)
        distance = np.abs(values[:, None] - values[None, :])
        return distance / distance.max()

    def rows(self, count, size, zeros=False):
        table = self.rng.dirichlet(np.full(size, self.sharp), size=count) + 1e-9
        if zeros:
            gone = self.rng.random((count, size)) < 0.25
            gone[np.arange(count), self.rng.integers(size, size=count)] = False
            table = np.where(gone, 0.0, table)
        return table / table.sum(axis=1, keepdims=True)

    def mixed(self, vertices):
        if self.rng.random() < 0.5:
            return vertices[self.rng.integers(len(vertices))]
        weights = self.rng.dirichlet(np.full(len(vertices), 0.3))
        return sum(w * v for w, v in zip(weights, vertices, strict=True))

    def around(self, backward, forward, shown):
        """Kernels outwards from the entry, drawn anew for every step."""
        self.left = [(backward(), shown()) for _ in range(self.entry)]
        self.right = [(forward(), shown()) for _ in range(self.length - 1 - self.entry)]
        self.shown = shown()

    def hull(self, eta=0.0):
        vertices = [self.rows(self.size, self.size) for _ in range(self.rng.integers(1, 4))]
        chains = [MarkovChain.steady(v) for v in vertices]
        self.theta = ChainClass.hull(*chains, inflate=eta)
        eye = np.eye(self.size)

        def kernel(of):
            anything = eye[self.rng.integers(self.size, size=self.size)]
            return (1 - eta) * self.mixed(of) + eta * anything

        back = [chain.reversal.transition for chain in chains]
        self.around(lambda: kernel(back), lambda: kernel(vertices), lambda: eye)
        self.given = eye

    def inflated(self):
        self.hull(float(self.rng.choice([0.05, 0.3])))

    def seasonal(self):
        period = int(self.rng.integers(2, 4))
        matrices = [self.rows(self.size, self.size) for _ in range(period)]
        start = int(self.rng.integers(period))
        known = start if self.rng.random() < 0.5 else None
        self.theta = ChainClass.seasonal(matrices, start=known)
        whole = np.linalg.multi_dot([np.eye(self.size), *matrices])
        marginals = [MarkovChain.steady(whole / whole.sum(axis=1, keepdims=True)).stationary]
        for matrix in matrices:
            marginals.append(marginals[-1] @ matrix)
        eye = np.eye(self.size)
        self.left = []
        for n in range(self.entry, 0, -1):
            slot = (start + n - 1) % period
            joint = (marginals[slot][:, None] * matrices[slot]).T
            self.left.append((joint / joint.sum(axis=1, keepdims=True), eye))
        self.right = [
            (matrices[(start + n) % period], eye) for n in range(self.entry, self.length - 1)
        ]
        self.shown = self.given = eye

    def steps(self):
        """Kernels step by step, from an initial distribution that may have zeros."""
        matrices = [self.rows(self.size, self.size) for _ in range(self.length - 1)]
        initial = np.r_[0.0, self.rows(1, self.size - 1)[0]]
        if self.rng.random() < 0.5:
            initial = self.rows(1, self.size)[0]
        self.theta = ChainClass.seasonal(matrices, initial=initial)
        marginals = [initial]
        for matrix in matrices:
            marginals.append(marginals[-1] @ matrix)
        eye = np.eye(self.size)
        self.left = []
        for n in range(self.entry, 0, -1):
            joint = (marginals[n - 1][:, None] * matrices[n - 1]).T
            possible = joint.sum(axis=1) > 0
            joint[~possible] = joint[np.flatnonzero(possible)[0]]
            self.left.append((joint / joint.sum(axis=1, keepdims=True), eye))
        self.right = [(matrix, eye) for matrix in matrices[self.entry :]]
        self.shown = self.given = eye
        if not marginals[self.entry].all():  # its secrets are the values that can occur
            self.entry = self.length - 1
            self.steps()

    def _function(self):
        """The stationary distribution of a function of a chain."""
        ((_, hidden), *_) = self.theta.representatives()
        matrix, pi = hidden.chain.transition, hidden.chain.stationary
        shown = np.zeros((len(matrix), self.size))
        shown[np.arange(len(matrix)), hidden.shown] = 1.0
        back = (pi[:, None] * matrix).T
        back /= back.sum(axis=1, keepdims=True)
        self.around(lambda: back, lambda: matrix, lambda: shown)
        joint = (pi[:, None] * shown).T
        self.given = joint / joint.sum(axis=1, keepdims=True)

    def order(self):
        table = np.array([self.rows(self.size, self.size) for _ in range(self.size)])
        self.theta = ChainClass.order(2, table)
        self._function()

    def switching(self):
        chains = np.array([self.rows(self.size, self.size) for _ in range(2)])
        self.theta = RegimeClass(self.rows(2, 2), chains)
        self._function()

    def regimes(self, models=1, eta=0.0, secret="entry"):
        hidden = int(self.rng.integers(2, 4))
        transitions = [self.rows(hidden, hidden) for _ in range(models)]
        emissions = [self.rows(hidden, self.size, zeros=True) for _ in range(models)]
        for emission in emissions:
            emission[0] = 0.5 * emission[0] + 0.5 / self.size  # every value can occur
        members = [
            RegimeClass(a, e, emissions=eta, secret=secret)
            for a, e in zip(transitions, emissions, strict=True)
        ]
        self.theta = RegimeClass.hull_of(*members) if models > 1 else members[0]
        self.secret = secret
        back, given = [], []
        for a, e in zip(transitions, emissions, strict=True):
            pi = MarkovChain.steady(a).stationary
            joint = (pi[:, None] * a).T
            back.append(joint / joint.sum(axis=1, keepdims=True))
            joint = (pi[:, None] * e).T
            given.append(joint / joint.sum(axis=1, keepdims=True))

        def shown():
            anything = np.eye(self.size)[self.rng.integers(self.size, size=hidden)]
            return (1 - eta) * self.mixed(emissions) + eta * anything

        self.around(lambda: self.mixed(back), lambda: self.mixed(transitions), shown)
        self.given = self.mixed(given)
        if eta:
            self.given = np.eye(hidden)[self.rng.integers(hidden, size=self.size)]
        if secret == "regime":
            self.given = np.eye(hidden)

    def regime_hull(self):
        self.regimes(models=2)

    def contaminated(self):
        self.regimes(eta=0.2)

    def regime_secret(self):
        self.regimes(secret="regime")

    def ratio(self, window=False):
        """Loss of the worst output that was found, over the bound.

        With a window only some entries are used, and the entry may be one of the others.
        """
        profile = [self.cost] * self.length
        if window:
            first, last = sorted(self.rng.integers(self.length, size=2))
            profile = [self.cost * (first <= n <= last) for n in range(self.length)]
        curve = InfluenceCurve(self.theta, self.length, self.metric)
        return self.lost(profile) / curve.epsilon(profile)

    def lost(self, profile):
        """Loss of the worst output that was found, from what each entry costs."""
        here = self.entry
        costs = profile[here], profile[:here][::-1], profile[here + 1 :]
        return attacked_loss(
            self.left,
            self.right,
            self.shown,
            self.given,
            self.metric,
            self.cost,
            self.rng,
            starts=1,
            secret=self.secret,
            costs=costs,
        )

    def charged_ratio(self):
        """Worst loss of a history of releases over windows, over what an account charges."""
        history, profile = [], np.zeros(self.length)
        for _ in range(self.rng.integers(1, 4)):
            first, last = sorted(self.rng.integers(self.length, size=2))
            query = pk.histogram(range(self.size), int(last - first + 1))
            release = pk.influence_curve(self.theta, query, float(self.rng.choice([0.2, 1, 3])))
            history.append(pk.Spending.of(release, window=(int(first) + 1, int(last) + 1)))
            profile[first : last + 1] += release.entry_epsilon
        self.metric = 1 - np.eye(self.size)
        charged = pk.compose(history, self.theta, self.length).epsilon
        return self.lost(profile.tolist()) / charged


KINDS = [
    "hull",
    "inflated",
    "seasonal",
    "steps",
    "order",
    "switching",
    "regimes",
    "regime_hull",
    "contaminated",
    "regime_secret",
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_output_loses_more_than_the_bound(kind):
    ratios = [Case(kind, seed).ratio() for seed in range(6)]
    assert max(ratios) <= 1 + 1e-9
    assert max(ratios) > 0.7  # the attack is worth its name


@pytest.mark.parametrize("kind", KINDS)
def test_entries_outside_a_window_lose_no_more_than_the_profile_says(kind):
    assert max(Case(kind, seed).ratio(window=True) for seed in range(20, 25)) <= 1 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_no_entry_loses_more_than_an_account_charges(kind):
    assert max(Case(kind, seed).charged_ratio() for seed in range(30, 34)) <= 1 + 1e-9


MATRIX = np.array([[0.9, 0.1], [0.4, 0.6]])
OTHER = np.array([[0.8, 0.2], [0.2, 0.8]])


@pytest.mark.parametrize(
    "theta",
    [
        ChainClass.hull(MarkovChain.steady(MATRIX)),
        ChainClass.seasonal([MATRIX, MATRIX, MATRIX]),
        ChainClass.order(1, MATRIX),
        RegimeClass(MATRIX, np.eye(2)),
    ],
    ids=["hull", "seasonal", "order", "regimes"],
)
@pytest.mark.parametrize("length", [1, 2, 7, 500])
def test_one_known_chain_in_every_guise(theta, length):
    known = InfluenceCurve(MarkovChain.steady(MATRIX), length).entry_epsilon(1.0)
    assert InfluenceCurve(theta, length).entry_epsilon(1.0) == pytest.approx(known, rel=2e-5)


def test_a_hull_is_at_least_each_of_its_vertices():
    curve = InfluenceCurve(
        ChainClass.hull(MarkovChain.steady(MATRIX), MarkovChain.steady(OTHER)), 50
    )
    for matrix in (MATRIX, OTHER):
        own = InfluenceCurve(MarkovChain.steady(matrix), 50).epsilon(0.2)
        assert curve.epsilon(0.2) >= own * (1 - 1e-9)


def test_more_is_never_less():
    def epsilon(theta):
        return InfluenceCurve(theta, 40).epsilon(0.1)

    emission = [[0.8, 0.2], [0.3, 0.7]]
    one, two = RegimeClass(MATRIX, emission), RegimeClass(OTHER, emission)
    each, hull = RegimeClass.of(one, two), RegimeClass.hull_of(one, two)
    assert epsilon(each) == max(epsilon(one), epsilon(two)) <= epsilon(hull)
    assert (
        epsilon(one) <= epsilon(one.replace(emissions=0.05)) <= epsilon(one.replace(emissions=0.3))
    )
    chain = MarkovChain.steady(MATRIX)
    assert epsilon(ChainClass.hull(chain)) <= epsilon(ChainClass.hull(chain, inflate=0.05))


def test_any_first_slot_is_the_worst_of_all():
    theta = [ChainClass.seasonal([MATRIX, OTHER, OTHER], start=s) for s in (None, 0, 1, 2)]
    worst, *each = (InfluenceCurve(t, 4).epsilon(0.3) for t in theta)
    assert worst == max(each)
    assert len(set(each)) == 3


def test_long_series_with_a_clock_are_bounded_by_their_limit():
    theta = ChainClass.seasonal([MATRIX] * 3 + [OTHER] * 3)
    short, long = (InfluenceCurve(theta, n).epsilon(0.2) for n in (60, 10**6))
    assert short <= long <= short * (1 + 1e-4)


def test_contaminated_rows_against_all_places_of_the_weight():
    rng = np.random.default_rng(3)
    for size, eta in ((2, 0.1), (3, 0.3), (4, 0.02)):
        kernel = rng.dirichlet(np.ones(size), size=size)
        limit = rng.uniform(0.1, 2.0, (size, size)) * (1 - np.eye(size))
        for y in range(size):
            limit = np.minimum(limit, limit[:, y, None] + limit[None, y, :])
        mixed = (1 - eta) * kernel[:, None, :] + eta * np.eye(size)[None, :, :]
        every = Transport([mixed.reshape(-1, size)])(limit)
        exact = every.reshape(size, size, size, size).max(axis=(1, 3)) * (1 - np.eye(size))
        bound = Contaminated([kernel], eta)(limit)
        assert (bound >= exact - 1e-12).all()
        assert bound.max() <= exact.max() * 1.25


def contaminated_by_sets(emission, eta, cost):
    """All states equally far apart: the worst function has two values, so all sets are tried."""
    size, levels = emission.shape
    masks = (np.arange(1 << levels)[:, None] >> np.arange(levels) & 1).astype(float)
    share = (1 - eta) * emission @ masks.T
    rise = np.expm1(cost)
    logs = np.log1p(rise * (share[:, None] + eta)) - np.log1p(rise * share[None])
    return logs.max(axis=2) * (1 - np.eye(size))


def test_contaminated_rows_by_all_sets():
    emission = np.random.default_rng(4).dirichlet(np.ones(5), size=3)
    for cost in (0.01, 0.7, 3.0):
        every = contaminated_by_sets(emission, 0.1, cost)
        solved = Contaminated([emission], 0.1)(cost * (1 - np.eye(5)))
        assert every == pytest.approx(solved, rel=1e-6, abs=1e-9)


def test_a_chain_that_tells_nothing():
    theta = RegimeClass([[0.5, 0.5], [0.5, 0.5]], [[0.3, 0.7], [0.3, 0.7]])
    assert InfluenceCurve(theta, 1000).epsilon(0.4) == pytest.approx(0.4, rel=1e-9)
    alone = RegimeClass([[1.0]], [[0.3, 0.7]])
    assert InfluenceCurve(alone, 1000).epsilon(0.4) == pytest.approx(0.4, rel=1e-9)


def test_tiny_and_huge_epsilon():
    theta = RegimeClass(MATRIX, [[0.8, 0.2], [0.3, 0.7]])
    curve = InfluenceCurve(theta, 30)
    for epsilon in (1e-6, 0.01, 3.0, 50.0):
        b = curve.entry_epsilon(epsilon)
        assert epsilon / 30 * (1 - 1e-9) <= b <= epsilon
        assert curve.epsilon(b) <= epsilon * (1 + 1e-12)


def test_profiles_with_windows():
    theta = ChainClass.hull(MarkovChain.steady(MATRIX), MarkovChain.steady(OTHER))
    curve = InfluenceCurve(theta, 9)
    nothing, some = curve.epsilon([0.0] * 9), curve.epsilon([0.0] * 4 + [0.3] + [0.0] * 4)
    assert nothing == 0
    assert 0.3 <= some <= curve.epsilon(0.3)
    assert curve.entry_losses([0.3] * 9)["all chains of the hull"].max() <= curve.epsilon(0.3)


def test_a_part_of_a_class_has_its_record():
    (part,) = RegimeClass(MATRIX, [[0.8, 0.2], [0.3, 0.7]]).parts(10_000)
    curve = PartCurve(part, 10_000)
    record = curve.record([(10_000, 0.1 * (1 - np.eye(2)))])
    assert set(record) == {"left", "right", "emission", "last"}
    (limit,) = record["right"]["limits"]
    assert unpacked_matrix(limit["limit"], 2)[0, 1] > 0


def seen_through(channel, model, length):
    """The largest log-ratio of an answer given an entry, over all regimes, entries and answers."""
    transition, emission = model
    start = MarkovChain.steady(transition).initial
    joint = {}
    for path in product(range(len(transition)), repeat=length):
        weight = start[path[0]] * np.prod([transition[a, b] for a, b in pairwise(path)])
        for series in product(range(emission.shape[1]), repeat=length):
            mass = weight * np.prod([emission[z, x] for z, x in zip(path, series, strict=True)])
            joint[series] = joint.get(series, 0.0) + mass
    worst = 0.0
    for answer in product(range(channel.shape[1]), repeat=length):
        for i in range(length):
            given = np.zeros((2, emission.shape[1]))
            for series, mass in joint.items():
                chance = np.prod([channel[x, y] for x, y in zip(series, answer, strict=True)])
                given[:, series[i]] += mass * np.array([chance, 1.0])
            logs = np.log(given[0] / given[1])
            worst = max(worst, float(logs.max() - logs.min()))
    return worst


def test_a_hidden_cost_that_is_known_otherwise():
    rng = np.random.default_rng(37)
    for _ in range(6):
        transition, emission = rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(3), 2)
        channel = rng.dirichlet(np.full(2, 3.0), 3)  # from an entry to an answer about it

        def largest(rows):
            logs = np.log(rows)
            return (logs[:, None] - logs[None]).max(axis=2)

        cost = largest(channel)
        hidden = largest(emission @ channel)
        (part,), runs = RegimeClass(transition, emission).parts(4), [(4, cost)]
        known = replace(part, emission=HiddenCost(lambda _, hidden=hidden: hidden))
        exact = seen_through(channel, (transition, emission), 4)
        curve = PartCurve(known, 4)
        loss = curve.loss(runs).value
        assert exact <= loss * (1 + 1e-12)
        assert loss <= PartCurve(part, 4).loss(runs).value * (1 + 1e-12)
        proof = json.loads(json.dumps(curve.record(runs)))
        checked = loss_of_part(known, runs, proof, Allowance(1e9))
        assert loss == pytest.approx(checked, rel=1e-6)


def test_classes_whose_plans_do_not_fit_are_refused_with_the_number(monkeypatch):
    chains = [
        pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]),
        pk.MarkovChain.steady(np.full((2, 2), 0.5)),
    ]
    theta, query = pk.ChainClass.hull(*chains), pk.count(1, 100)
    pk.influence_curve(theta, query, 1)
    # Two matrices to either side: trees of 4 * 2^3 bytes and 2^3 arcs of 20 bytes.
    monkeypatch.setattr(kernel_class, "MOST_BYTES", 4 * (32 + 160) - 1)
    with pytest.raises(pk.NotApplicable, match=r"2 states needs about 7\.68e-07 GB"):
        pk.influence_curve(theta, query, 1)
    monkeypatch.setattr(kernel_class, "MOST_BYTES", 4 * (32 + 160))
    pk.influence_curve(theta, query, 1)
