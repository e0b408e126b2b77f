"""Estimates for a class of hidden regimes: models of people, refits.

`pufferkit.fitting.baum_welch` fits one model to everybody. Here are the other models that an
adversary may believe in, and the uncertainty of the fit:

`believed_models`
    all of them for one class.
`people_models`
    the regime transitions of each person, with everybody's emissions.
`refits`
    the fit repeated on data simulated from it.

The *states of the curve* are the regimes if entries are independent within a regime, and pairs
(regime, level), with index z k + x, if they are a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.hidden_model import HiddenModel, Within, shares
from pufferkit.checks import Floats
from pufferkit.data.series import UNOBSERVED
from pufferkit.fitting.baum_welch import TOLERANCE, Symbols, expectation, fit, refine

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


def _log(values: Floats) -> Floats:
    """Logarithms, with log 0 = 0: only probabilities that stay 0 are 0."""
    return np.log(np.where(values > 0, values, 1.0))
