"""Hidden regimes from sequences of levels, by expectation-maximisation (Baum and Welch).

Two models of entries X_t in {0, ..., k-1} with regimes Z_t that move by a matrix A (h rows):

independent
    X_t given Z_t has distribution E(Z_t, .), independent of the rest; ``emission`` is h x k.
chain
    X_{t+1} given Z_{t+1} and X_t has distribution P_z(X_t, .), z = Z_{t+1}; ``emission`` is
    h x k x k. Symbols are then the pairs (X_t, X_{t+1}), and everything is conditional on the first
    entry of a segment.

An entry that was not observed (-1) has likelihood 1, and so has a pair with such an entry; for the
chain this ignores the dependence between the entries on both sides of a gap.

Expected counts of moves C(w, z) and of symbols N(z, s) under the present parameters come from the
forward-backward recursion; new parameters are the shares of counts and pseudo-counts,

    A(w, z) = (C(w, z) + a) / sum_z' (C(w, z') + a),    E(z, x) = (N(z, x) + a k m(x)) / (...),
    P_z(x, y) = (N(z, x, y) + kappa P(x, y)) / (...),

m the marginal of the levels and P the matrix of one chain for all data, each with 1/2 added to
every count. This is the maximum of a posterior density: the log-likelihood plus
sum a log A + sum a k m log E (or sum kappa P log P_z) never decreases from one round to the next.

The start of the recursion is free while fitting (one distribution for the first regime of every
segment), because a stationary start has no maximum in closed form. The fit that is returned is
the stationary model of A and the emissions, with the log-likelihood of that model.

**The recursion**, scaled and compiled. Regimes Z_1, Z_2, ... move by a matrix A; step t shows a
symbol s_t with probability l(s_t, Z_t). With a_t(z) = P(Z_t = z | s_1..s_t) and c_t = P(s_t |
s_1..s_{t-1}),

    c_t a_t(z) = l(s_t, z) sum_w a_{t-1}(w) A(w, z),        log-likelihood = sum_t log c_t,
    q_t(z) = l(s_t, z) b_t(z) / c_t,    b_{t-1}(w) = sum_z A(w, z) q_t(z),    b_T = 1,
    P(Z_t = z | all) = a_t(z) b_t(z),
    P(Z_{t-1} = w, Z_t = z | all) = a_{t-1}(w) A(w, z) q_t(z).

Inner loops run along rows, so that the compiler can vectorise them without reordering
sums: results do not depend on the machine.

**A class of regimes** holds other models that an adversary may believe in, and the uncertainty of
the fit:

`believed_models`
    all of them for one class.
`people_models`
    the regime transitions of each person, with everybody's emissions.
`refits`
    the fit repeated on data simulated from it.
`beyond`
    somebody with more influence than those seen, where people differ.

The *states of the curve* are the regimes if entries are independent within a regime, and pairs
(regime, level), with index z k + x, if they are a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.hidden_model import HiddenModel, Within, shares
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats, Ints
from pufferkit.compiling import compiled_loop
from pufferkit.data.series import UNOBSERVED
from pufferkit.fitting.people import checked_levels

# ruff: noqa: PLR0912  (compiled loops are long)


@compiled_loop
def forward_backward(
    initial: Any,
    transition: Any,
    likelihood: Any,
    symbols: Any,
    ends: Any,
    counted: bool,
    scales: Any,
    moves: Any,
    visits: Any,
    firsts: Any,
) -> bool:
    """Scales c_t, and expected counts if ``counted``; False if the symbols are impossible.

    Parameters
    ----------
    initial
        Row j is the distribution of the first regime of segment j.
    transition
        The matrix A.
    likelihood
        Row s is l(s, .).
    symbols, ends
        Symbols of all segments, one after another, and where each segment ends.
    counted
        Whether to compute expected counts.
    scales
        Output: c_t.
    moves, visits, firsts
        Output, added to: expected counts of transitions, *divided by A*; of symbols by regime; and
        of the first regime.
    """
    size = len(transition)
    # b_{t-1} is a weighted sum of columns of A.
    upright = np.ascontiguousarray(transition.T)
    alpha = np.empty((len(symbols), size))
    ahead = np.empty(size)
    weighted = np.empty(size)
    begin = 0
    for j in range(len(ends)):
        end = ends[j]
        for t in range(begin, end):
            here = alpha[t]
            if t == begin:
                for z in range(size):
                    here[z] = initial[j, z]
            else:
                for z in range(size):
                    here[z] = 0.0
                for w in range(size):
                    mass = alpha[t - 1, w]
                    for z in range(size):
                        here[z] += mass * transition[w, z]
            total = 0.0
            for z in range(size):
                here[z] *= likelihood[symbols[t], z]
                total += here[z]
            if not total > 0.0:
                return False
            for z in range(size):
                here[z] /= total
            scales[t] = total
        if counted:
            for z in range(size):
                ahead[z] = 1.0
            for t in range(end - 1, begin - 1, -1):
                seen = visits[symbols[t]]
                for z in range(size):
                    seen[z] += alpha[t, z] * ahead[z]
                    weighted[z] = likelihood[symbols[t], z] * ahead[z] / scales[t]
                if t == begin:
                    for z in range(size):
                        firsts[z] += alpha[t, z] * ahead[z]
                    break
                for w in range(size):
                    mass = alpha[t - 1, w]
                    for z in range(size):
                        moves[w, z] += mass * weighted[z]
                    ahead[w] = 0.0
                for z in range(size):
                    mass = weighted[z]
                    for w in range(size):
                        ahead[w] += upright[z, w] * mass
        begin = end
    return True


SMOOTHING = 0.02
"""Pseudo-count of every move between regimes."""

SHRINKAGE = 2.0
"""Pseudo-entries by which each row of a regime's chain is shrunk towards the chain of all data."""

TOLERANCE = 1e-6
"""Nats per entry: the iteration stops after a round that gains less."""

_SHORT, _ROUNDS = 50_000, 200
"""Steps times regimes squared, in so many rounds, up to which plain Python beats compiled code."""

_TRIALS = (25, 50)
"""Rounds for every start, then for the better half; after these only the best continues."""

_AROUND = (3, 10, 30, 100)
"""Half-lengths of the windows whose levels may initialise a regime."""


@dataclass(frozen=True, eq=False)
class Symbols:
    """Segments in the form of the recursion: concatenated symbols, and where segments end."""

    codes: Ints
    ends: Ints
    levels: int
    within: Within
    firsts: Ints

    @classmethod
    def of(
        cls, segments: Iterable[ArrayLike], levels: int, within: Within = "independent"
    ) -> Symbols:
        """Checked symbols of segments of levels."""
        if within not in get_args(Within):
            raise ValueError(f"within: must be 'independent' or 'chain', got {within!r}")
        size = checks.whole("levels", levels, 1)
        pieces = [checked_levels(segment, size) for segment in segments]
        firsts = [piece[0] for piece in pieces if len(piece) > (within == "chain")]
        if within == "chain":
            pieces = [_pairs(piece, size) for piece in pieces]
        else:
            pieces = [np.where(piece < 0, size, piece) for piece in pieces]
        kept = [piece for piece in pieces if len(piece)]
        if not kept:
            least = "a segment of two entries" if within == "chain" else "one entry"
            raise ValueError(f"segments: regimes need at least {least}, got none")
        ends = np.cumsum([len(piece) for piece in kept])
        return cls(np.concatenate(kept), ends, size, within, np.array(firsts, dtype=np.int64))

    @property
    def missing(self) -> int:
        """The symbol of an unobserved entry; the others count from 0."""
        return self.levels ** (2 if self.within == "chain" else 1)

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Which symbols were observed."""
        return self.codes < self.missing

    @property
    def counts(self) -> Floats:
        """How often each level (independent) or each pair of levels (chain) was observed."""
        counts = np.bincount(self.codes, minlength=self.missing + 1)[:-1].astype(np.float64)
        return counts.reshape((self.levels,) * (2 if self.within == "chain" else 1))


def _pairs(codes: Ints, levels: int) -> Ints:
    seen = (codes[:-1] >= 0) & (codes[1:] >= 0)
    return np.where(seen, codes[:-1] * levels + codes[1:], levels * levels)


@dataclass(frozen=True, eq=False)
class Expected:
    """Log-likelihood and expected counts of the data under given parameters."""

    log_likelihood: float
    moves: Floats
    visits: Floats
    firsts: Floats


def expectation(
    initial: Floats,
    transition: Floats,
    emission: Floats,
    data: Symbols,
    *,
    counted: bool = True,
    rounds: int = 1,
) -> Expected:
    """Log-likelihood and expected counts (h x h, h x ..., h) under these parameters.

    ``initial`` is one distribution for all segments or one row for each. With ``counted=False``
    only the log-likelihood is computed. ``rounds`` says how many times the same
    work will be done, which decides whether compiling pays.
    """
    size = len(transition)
    likelihood = np.ones((data.missing + 1, size))
    likelihood[:-1] = emission.reshape(size, -1).T
    moves, visits, firsts = np.zeros((size, size)), np.zeros_like(likelihood), np.zeros(size)
    scales = np.zeros(len(data.codes))
    rows = np.ascontiguousarray(np.broadcast_to(initial, (len(data.ends), size)), dtype=np.float64)
    step = forward_backward
    run: Any = step.plain if len(data.codes) * size * size * rounds < _SHORT else step.compiled
    possible = run(
        np.array(rows),
        np.array(transition),
        likelihood,
        data.codes,
        data.ends,
        counted,
        scales,
        moves,
        visits,
        firsts,
    )
    if counted and not possible:
        raise ValueError(
            "segments: contain entries that are impossible under the model, so no counts are "
            "defined"
            "; fit the model with smoothing above 0, or to these data too"
        )
    total = float(np.log(scales).sum()) if possible else -inf
    expected_visits = visits[:-1].T.reshape(emission.shape)
    return Expected(total, moves * transition, expected_visits, firsts)


def fit(
    segments: Iterable[ArrayLike],
    levels: int,
    regimes: int,
    *,
    within: Within = "independent",
    smoothing: float = SMOOTHING,
    shrinkage: float = SHRINKAGE,
    restarts: int = 6,
    seed: int = 0,
    iterations: int = 200,
    tolerance: float = TOLERANCE,
) -> HiddenModel:
    """The model with this many regimes that fits segments of levels best.

    Every restart runs for a few rounds from a random start, the better half for some more; the best
    continues until a round gains less than ``tolerance`` nats per entry. Nothing guarantees that it
    is the global maximum. Regimes are sorted by their stationary probability, largest first.

    Parameters
    ----------
    segments
        Rows of levels 0, ..., levels - 1, each a stretch without a break; -1 is an entry that was
        not observed.
    levels, regimes
        Number of levels, and of regimes to fit.
    within
        ``"independent"`` or ``"chain"``; see above.
    smoothing
        Pseudo-count a of every move between regimes; k times as much for each row of emissions.
    shrinkage
        Pseudo-count kappa of each row of the regimes' chains (``within="chain"`` only).
    restarts, seed
        Number of random starts, and their seed: the same numbers give the same fit.
    iterations, tolerance
        Largest number of rounds, and the gain in nats per entry below which they stop.
    """
    data = Symbols.of(segments, levels, within)
    size = checks.whole("regimes", regimes, 1)
    prior = _prior(data, size, smoothing, shrinkage)
    starts = checks.whole("restarts", restarts, 1) if size > 1 else 1
    most = checks.whole("iterations", iterations, 1)
    least = checks.positive("tolerance", tolerance)
    key = checks.whole("seed", seed, 0)
    runs = [
        _start(data, size, np.random.default_rng([key, number]), windows=number % 2 == 1)
        for number in range(starts)
    ]
    for rounds in _TRIALS if starts > 1 else ():
        runs = [_run(run, data, prior, min(rounds, most), least) for run in runs]
        runs.sort(key=lambda run: -run.reached[-1])
        del runs[(len(runs) + 1) // 2 :]
    best = _run(runs[0], data, prior, most, least)
    order = np.argsort(-MarkovChain.steady(best.transition).stationary, kind="stable")
    transition = best.transition[np.ix_(order, order)]
    best = replace(best, transition=transition, emission=best.emission[order])
    return _stationary(best, data)


def refine(model: HiddenModel, segments: Iterable[ArrayLike], iterations: int = 200) -> HiddenModel:
    """The model fitted to these segments, starting from ``model`` instead of at random.

    Regimes keep their order. Everything else is as in `fit` with its defaults.
    """
    data = Symbols.of(segments, model.levels, model.within)
    prior = _prior(data, model.regimes, SMOOTHING, SHRINKAGE)
    start = _Fitted(model.regime_distribution, model.transition, model.emission)
    return _stationary(_run(start, data, prior, iterations, TOLERANCE), data)


@dataclass(frozen=True, eq=False)
class _Prior:
    """Pseudo-counts of moves, of symbols (``None`` where emissions are given), and of starts."""

    moves: Floats | float
    visits: Floats | None
    firsts: float = 0.1

    def density(self, run: _Fitted) -> float:
        """Log-density of the parameters, up to a constant; -inf where a zero has pseudo-counts."""
        from scipy.special import xlogy  # noqa: PLC0415  (slow to load)

        pairs: Any = [(self.moves, run.transition), (self.firsts, run.initial)]
        if self.visits is not None:
            pairs.append((self.visits, run.emission))
        return float(sum(xlogy(counts, chances).sum() for counts, chances in pairs))


@dataclass(frozen=True, eq=False)
class _Fitted:
    initial: Floats
    transition: Floats
    emission: Floats
    reached: tuple[float, ...] = ()


def _prior(data: Symbols, regimes: int, smoothing: float, shrinkage: float) -> _Prior:
    added = checks.positive("smoothing", smoothing)
    common = shares(data.counts + 0.5)
    if data.within == "chain":
        weight = checks.positive("shrinkage", shrinkage)
    else:
        weight = added * data.levels
    return _Prior(added, np.broadcast_to(weight * common, (regimes, *common.shape)))


def _run(
    start: _Fitted, data: Symbols, prior: _Prior, iterations: int, tolerance: float
) -> _Fitted:
    """Rounds of expectation-maximisation until one gains too little."""
    run = start
    least = tolerance * max(1, int(data.observed.sum()))
    for _ in range(iterations):
        expected = expectation(run.initial, run.transition, run.emission, data, rounds=_ROUNDS)
        value = expected.log_likelihood + prior.density(run)
        if run.reached and value - run.reached[-1] < least:
            return run
        run = _Fitted(
            shares(expected.firsts + prior.firsts),
            shares(expected.moves + prior.moves),
            run.emission if prior.visits is None else shares(expected.visits + prior.visits),
            (*run.reached, value),
        )
    return run


def _start(data: Symbols, regimes: int, rng: np.random.Generator, *, windows: bool) -> _Fitted:
    """Persistent regimes, with emissions scattered around those of all data.

    With ``windows`` a regime starts from the levels around a random step, otherwise at random.
    """
    common = shares(data.counts + 0.5)
    if windows and data.within == "independent":
        spread = np.array([_levels_about(data, rng) for _ in range(regimes)])
    else:
        spread = rng.dirichlet(np.ones(data.levels), (regimes, *common.shape[:-1]))
    transition = np.full((regimes, regimes), 0.1 / max(1, regimes - 1))
    np.fill_diagonal(transition, 0.9)
    transition *= rng.uniform(0.5, 1.5, transition.shape)
    emission = 0.5 * common + 0.5 * spread
    return _Fitted(np.full(regimes, 1 / regimes), shares(transition), emission)


def _levels_about(data: Symbols, rng: np.random.Generator) -> Floats:
    """Shares of the levels in a window around a random step."""
    step, half = int(rng.integers(len(data.codes))), int(rng.choice(_AROUND))
    window = data.codes[max(0, step - half) : step + half]
    return shares(np.bincount(window, minlength=data.levels + 1)[:-1] + shares(data.counts + 0.5))


def _stationary(run: _Fitted, data: Symbols) -> HiddenModel:
    """The stationary model of a run, with its log-likelihood."""
    model = HiddenModel(run.transition, run.emission)
    return replace(model, log_likelihood=_log_likelihood(model, data), rounds=run.reached)


def _log_likelihood(model: HiddenModel, data: Symbols) -> float:
    """Log-likelihood under the stationary model."""
    initial = model.regime_distribution
    if model.within == "chain":
        # The regime of the second entry, given the first.
        known = np.vstack([model.posterior, initial])[data.firsts]
        initial = known @ model.transition
    expected = expectation(initial, model.transition, model.emission, data, counted=False)
    return expected.log_likelihood


def log_likelihood(model: HiddenModel, segments: Iterable[ArrayLike]) -> float:
    """Log-likelihood of segments under a stationary model, in nats.

    With a chain within regimes it is conditional on the first entry of each segment. It is -inf if
    the segments are impossible under the model.
    """
    data = Symbols.of(segments, model.levels, model.within)
    return _log_likelihood(model, data)


PeopleLevels = Sequence[Sequence[ArrayLike]]
"""For each person the segments of levels; -1 is an entry that was not observed."""

TOWARDS_POOLED = 20.0
"""Pseudo-counts by which each row of a person is shrunk towards everybody's."""

FEW_PEOPLE = 10
"""With fewer people the fit alone would be overconfident, and refits are added."""

REFITS = 20
"""How many refits are made."""

PeopleAs = Literal["each", "hull", "pooled"]
"""Whether each person has a model, for a whole series or mixed at every step, or all have one."""


def believed_models(
    people: Sequence[Sequence[NDArray[Any]]],
    levels: int,
    regimes: int,
    within: Within,
    people_as: PeopleAs,
    refitted: int | None,
    restarts: int,
    seed: int,
) -> tuple[HiddenModel, ...]:
    """The models of `RegimeClass.fit`: of everybody, of each person, and refits."""
    if people_as not in ("each", "hull", "pooled"):
        raise ValueError(f"people: must be 'each', 'hull' or 'pooled', got {people_as!r:.60}")
    pieces = [piece for segments in people for piece in segments]
    pooled = fit(pieces, levels, regimes, within=within, restarts=restarts, seed=seed)
    models = [pooled]
    if people_as != "pooled" and len(people) > 1:
        models += people_models(pooled, people)
    few = people_as == "each" and len(people) < FEW_PEOPLE
    count = (REFITS if few else 0) if refitted is None else refitted
    if checks.whole("refitted", count, 0):
        models += refits(pooled, pieces, count=count, seed=seed)
    return tuple(models)


def people_models(
    model: HiddenModel,
    people: PeopleLevels,
    *,
    shrinkage: float = TOWARDS_POOLED,
    iterations: int = 50,
) -> tuple[HiddenModel, ...]:
    """For each person the model with the person's regime transitions and everybody's emissions.

    The matrix A_j of person j maximises the log-likelihood of j plus kappa sum A log A_j, A that of
    ``model``: each round takes

        A_j(w, z) = (C_j(w, z) + kappa A(w, z)) / (sum_z' C_j(w, z') + kappa),

    C_j the expected transitions in j's data under the present A_j, until a round gains less than
    1e-6 nats per entry. The start is stationary in the first round and free later, as in
    `pufferkit.fitting.baum_welch.fit`.

    Parameters
    ----------
    model
        The fit to everybody.
    people
        For each person the segments of levels.
    shrinkage
        kappa, in transitions out of each regime.
    iterations
        Most rounds; one is a cheap approximation.
    """
    weight = checks.positive("shrinkage", shrinkage)
    most = checks.whole("iterations", iterations, 1)
    start = _Fitted(model.regime_distribution, model.transition, model.emission)
    prior = _Prior(weight * model.transition, None, 0.0)
    each = (Symbols.of(segments, model.levels, model.within) for segments in people)
    runs = (_run(start, data, prior, most, TOLERANCE) for data in each)
    return tuple(HiddenModel(run.transition, model.emission) for run in runs)


def refits(
    model: HiddenModel,
    segments: Iterable[ArrayLike],
    *,
    count: int = 20,
    numbers: Sequence[int] | None = None,
    seed: int = 0,
    iterations: int = 25,
) -> tuple[HiddenModel, ...]:
    """The model refitted to ``count`` data sets simulated from it: a parametric bootstrap.

    ``numbers`` are some of these data sets, from 0, instead of all; ``iterations`` bounds rounds.

    Every data set has segments of the same lengths, with the same entries not observed; every refit
    starts from ``model``, so regimes keep their meaning and order. The refits vary by the sampling
    error of the data, if the model is right and the fit is its global optimum.
    """
    pieces = [np.array(segment) for segment in segments]
    source = checks.whole("seed", seed, 0)
    models = []
    for number in range(checks.whole("count", count, 1)) if numbers is None else numbers:
        rng = np.random.default_rng([source, number])
        simulated = [
            np.where(piece < 0, UNOBSERVED, model.sample(len(piece), rng))
            for piece in pieces
            if len(piece)
        ]
        models.append(refine(model, simulated, iterations=iterations))
    return tuple(models)


MISSED = 0.01
"""The chance that a new person has more influence than anybody of a class of people."""

_SLOWEST, _FINE = 2.0, 1.01
"""How many times longer the regimes of somebody beyond people last at most."""


def regime_influence(model: HiddenModel, window: int | None = None) -> float:
    """N of a model with independent entries within regimes, ``window`` entries on either side.

    Without a window over an endless series, by the fundamental matrix Z = (I - A + 1 mu)^-1 of the
    regimes: the sum of A^k - 1 mu over k > 0 is Z - I, and what is common to all values cancels.
    """
    mu = model.regime_distribution
    backward = model.transition.T * mu / mu[:, None]
    left = right = np.asarray(model.posterior)
    if window is None:
        one = np.eye(len(mu))
        ahead, behind = (np.linalg.inv(one - a + mu) - one for a in (model.transition, backward))
        means = np.eye(model.levels) + left @ (ahead + behind) @ model.emission
    else:
        means = np.eye(model.levels)
        for _ in range(window):
            left, right = left @ backward, right @ model.transition
            means = means + (left + right) @ model.emission
    return float(np.abs(means[:, None] - means[None]).sum(axis=2).max() / 2)


def beyond(models: Sequence[HiddenModel], level: float = MISSED) -> list[HiddenModel]:
    """A person beyond those seen: the most influential one, whose regimes last longer.

    Of n people whose influence over an endless series has logarithms with mean m and standard
    deviation s, a new one exceeds exp(m + t s sqrt(1 + 1/n)) with probability ``level``, t that
    quantile of Student's distribution with n - 1 degrees of freedom, if these logarithms are
    normal. Nobody is added where somebody has that much already, or for one person.
    """
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to load)

    if len(models) < 2:
        return []
    seen = [regime_influence(model) for model in models]
    logs, place = np.log(seen), int(np.argmax(seen))
    quantile = float(stdtrit(len(models) - 1, 1 - level)) * np.sqrt(1 + 1 / len(models))
    limit = float(np.exp(logs.mean() + quantile * logs.std(ddof=1)))
    most = models[place]
    still = np.eye(most.regimes)

    def slower(times: float) -> HiddenModel:
        return HiddenModel(still + (most.transition - still) / times, most.emission)

    if limit <= _FINE * seen[place]:
        return []
    low, high = 1.0, _SLOWEST
    while high / low > _FINE:
        middle = np.sqrt(low * high)
        if regime_influence(slower(middle)) < limit:
            low = middle
        else:
            high = middle
    return [slower(high)]
