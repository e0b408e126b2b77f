"""Estimates for a class of hidden regimes: models of people, slow regimes, refits.

`pufferkit.beliefs.baum_welch` fits one model to everybody. Here are the other models that an
adversary may believe in, and the uncertainty of the fit:

`believed_models`
    all of them for one class.
`people_models`
    the regime transitions of each person, with everybody's emissions.
`known_slow`
    the model of the other regimes, given that regimes that last for days are known.
`refits`
    the fit repeated on data simulated from it.

The *states of the curve* are the regimes if entries are independent within a regime, and pairs
(regime, level), with index z k + x, if they are a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.baum_welch import TOLERANCE, Symbols, expectation, fit, refine
from pufferkit.beliefs.hidden_model import HiddenModel, Within
from pufferkit.beliefs.step_kernels import StepKernels, posterior_of, shares
from pufferkit.checks import Floats
from pufferkit.data.series import UNOBSERVED

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

_ROUNDS = 200
_NEAR = 0.05


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
    `pufferkit.beliefs.baum_welch.fit`.

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
    return tuple(
        HiddenModel(_own_moves(model, segments, weight, most), model.emission)
        for segments in people
    )


def _own_moves(
    model: HiddenModel, segments: Sequence[ArrayLike], weight: float, iterations: int
) -> Floats:
    data = Symbols.of(segments, model.levels, model.within)
    prior = weight * model.transition
    transition, initial = np.array(model.transition), np.array(model.regime_distribution)
    reached = -np.inf
    for _ in range(iterations):
        expected = expectation(initial, transition, model.emission, data, rounds=_ROUNDS)
        value = expected.log_likelihood + float((prior * _log(transition)).sum())
        if value - reached < TOLERANCE * len(data.codes):
            break
        reached = value
        transition = shares(expected.moves + prior)
        initial = expected.firsts / expected.firsts.sum()
    return transition


def mean_stays(transition: ArrayLike) -> Floats:
    """1 / (1 - A_zz): how many steps a regime lasts on average; infinite if it is never left."""
    stay = np.diag(checks.stochastic_matrix("transition", transition))
    with np.errstate(divide="ignore"):
        stays: Floats = 1 / (1 - stay)
    return stays


@dataclass(frozen=True, eq=False)
class KnownSlow(checks.Frozen):
    """The model of the other regimes, given which regimes are slow and when they are in force."""

    slow: NDArray[np.bool_]
    """Which regimes are slow."""
    model: HiddenModel
    """The stationary model of the others: A restricted to them, rows rescaled."""
    after_return: tuple[StepKernels, ...]
    """The first steps after a return from each slow regime, not yet in equilibrium: their backward
    kernels and posteriors are further vertices. The first is the return itself; it has a posterior
    of its own, and the kernels of ``model``."""
    before_departure: tuple[StepKernels, ...]
    """The last steps before each slow regime, the last one first: their forward kernels and
    posteriors are further vertices for adversaries who know when the slow regime begins."""
    left: float
    """Largest total variation distance from equilibrium at the end of these lists."""


def known_slow(
    model: HiddenModel,
    day: float,
    *,
    steps: int = 6,
    slow: Sequence[int] | None = None,
) -> KnownSlow:
    """The model with regimes of mean stay above ``day`` steps taken as known.

    Given when the slow regimes are in force, the others are taken to move by B, A restricted to
    them with rows rescaled to sum to one. After a return from slow regime s they start from m_0 =
    A(s, .) restricted; m_{j+1} = m_j B, and backward(w', w) = m_j(w) B(w, w') / m_{j+1}(w'). Before
    a departure to s, v_0 = A(., s), v_{j+1} = B v_j, and forward(w, w') = B(w, w') v_j(w') /
    v_{j+1}(w), the chain B given that it departs then. Without these vertices the class is that of
    adversaries whose kernels are B and its reversal.

    Parameters
    ----------
    model
        The fit with all regimes.
    day
        Regimes that last longer on average, in steps, are slow; for example the steps in a day.
    steps
        Transients are listed until they are within 0.05 of equilibrium in total variation, at most
        ``steps`` for each slow regime.
    slow
        Which regimes are slow, if that is known already.
    """
    lasting = mean_stays(model.transition) > checks.positive("day", day)
    if slow is not None:
        lasting = np.isin(np.arange(model.regimes), slow)
    if lasting.all():
        raise ValueError(
            f"day: all {model.regimes} regimes last longer than {day:g} steps on average, so none "
            "remains to be hidden; give a longer time"
        )
    most = checks.whole("steps", steps, 1)
    fast = ~lasting
    inside, leaves = model.transition[np.ix_(fast, fast)], model.transition[fast]
    if not inside.any(axis=1).all():
        raise ValueError(
            "model: a regime of one step leads to slow regimes only, so its transitions "
            "given the slow regimes are undefined; use smoothing above 0, or fewer regimes"
        )
    rest = HiddenModel(shares(inside), model.emission[fast])
    ahead = rest.steps
    returns: list[StepKernels] = []
    departures: list[StepKernels] = []
    left = 0.0
    for s in np.flatnonzero(lasting):
        arrival = model.transition[s, fast]
        exits = np.repeat(leaves[:, s], len(ahead.distribution) // rest.regimes)
        if model.within == "chain":
            # The level at the end of the slow regime is taken from its stationary distribution.
            arrival = (arrival[:, None] * (shares(model.joint[s]) @ rest.emission)).ravel()
        for start, step, steps_of in (
            (arrival, ahead, returns),
            (ahead.distribution * exits, _reversed(ahead), departures),
        ):
            if start.any():
                transients = _transients(shares(start), step, rest.shown, most)
                distance = np.abs(transients[-1].distribution - ahead.distribution).sum() / 2
                left = max(left, float(distance))
                steps_of.extend(transients)
    return KnownSlow(lasting, rest, tuple(returns), tuple(map(_reversed, departures)), left)


def _reversed(step: StepKernels) -> StepKernels:
    """The time-reversed step; its distribution is that of the earlier state."""
    return replace(step, forward=step.backward, backward=step.forward)


def _transients(
    start: Floats, stationary: StepKernels, shown: Floats, most: int
) -> list[StepKernels]:
    """The start and the steps after it, until close to equilibrium."""
    posterior = posterior_of(start[:, None] * shown)
    steps = [replace(stationary, distribution=start, posterior=posterior)]
    for _ in range(most):
        steps.append(StepKernels.after(steps[-1].distribution, stationary.forward, shown))
        if np.abs(steps[-1].distribution - stationary.distribution).sum() / 2 < _NEAR:
            break
    return steps


def refits(
    model: HiddenModel,
    segments: Iterable[ArrayLike],
    *,
    count: int = 20,
    seed: int = 0,
) -> tuple[HiddenModel, ...]:
    """The model refitted to ``count`` data sets simulated from it: a parametric bootstrap.

    Every data set has segments of the same lengths, with the same entries not observed; every refit
    starts from ``model``, so regimes keep their meaning and order. The refits vary by the sampling
    error of the data, if the model is right and the fit is its global optimum.
    """
    pieces = [np.array(segment) for segment in segments]
    source = checks.whole("seed", seed, 0)
    models = []
    for number in range(checks.whole("count", count, 1)):
        rng = np.random.default_rng([source, number])
        simulated = [
            np.where(piece < 0, UNOBSERVED, model.sample(len(piece), rng))
            for piece in pieces
            if len(piece)
        ]
        models.append(refine(model, simulated, iterations=25))
    return tuple(models)


def _log(values: Floats) -> Floats:
    """Logarithms, with log 0 = 0: only probabilities that stay 0 are 0."""
    return np.log(np.where(values > 0, values, 1.0))
