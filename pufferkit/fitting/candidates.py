"""Classes of beliefs from a table of public people, from the simplest to the widest.

====================  =========================================================================
single chain          one chain for everybody, assumed known
seasonal chain        the same for each hour of the day
two-sided region      every chain that the counts leave plausible, forward and backward
hull of people        mixtures of each person's chain, of each quarter of each person's day, and
                      of the pooled chain, changing at any time
calibrated hull       the same, with the contamination that people left out have shown
hidden regimes        entries emitted by hidden regimes, one model for everybody
regimes of people     each person's own transitions between these regimes
====================  =========================================================================
"""

from __future__ import annotations

import numpy as np

from pufferkit.beliefs import baum_welch
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.hull_class import HullClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.people_counts import SMOOTHING, People
from pufferkit.beliefs.regime_class import RegimeClass
from pufferkit.beliefs.regime_estimation import FEW_PEOPLE, REFITS, people_models, refits
from pufferkit.beliefs.seasonal_class import SeasonalClass
from pufferkit.beliefs.type_uncertainty import transfer_cap

_CONFIDENCE = 0.95


def single_chain(people: People) -> ChainClass:
    """The pooled transitions of all people as one known chain."""
    return ChainClass.of(MarkovChain.fit(people.pooled, SMOOTHING))


def seasonal_chain(people: People) -> ChainClass:
    """One known chain for each hour of the day."""
    return SeasonalClass.of_people(people)


def two_sided_region(people: People) -> ChainClass:
    """Every chain that the counts leave plausible at 95%."""
    return ChainClass.around(people.pooled, _CONFIDENCE, sides="both")


def people_hull(people: People, inflate: float = 0.0) -> ChainClass:
    """Mixtures of people and parts of the day, changing at any time."""
    return HullClass.of_people(people, inflate)


def unsure_of_person(people: People) -> float:
    """The additional loss against adversaries unsure which of these people it is."""
    forward, _ = people.hull_kernels()
    own = forward[1 : 1 + len(people.series)]
    return transfer_cap([MarkovChain.steady(kernel).stationary for kernel in own])


def hidden_regimes(people: People, regimes: int, seed: int = 0) -> tuple[RegimeClass, HiddenModel]:
    """One model of hidden regimes for everybody."""
    segments = [np.asarray(segment) for segment in people.pooled.segments]
    model = baum_welch.fit(segments, len(people.states), regimes, restarts=4, seed=seed)
    return _regime_class(model, people), model


def regimes_of_people(
    people: People, model: HiddenModel, window: int, seed: int = 0
) -> RegimeClass:
    """Each person's own transitions between the regimes of the common model.

    With fewer than ten people also the refit to data simulated from the model, of twenty, that
    shows most influence: the fit alone would be overconfident.
    """
    each = [[np.asarray(segment) for segment in one.segments] for one in people.series]
    models = [model, *people_models(model, each)]
    if len(each) < FEW_PEOPLE:
        segments = [segment for person in each for segment in person]
        again = refits(model, segments, count=REFITS, seed=seed)
        models.append(max(again, key=lambda one: regime_influence(one, window)))
    return RegimeClass.of(*(_regime_class(one, people) for one in models))


def regime_influence(model: HiddenModel, window: int) -> float:
    """N of a model with independent entries within regimes, ``window`` entries on either side."""
    mu = model.regime_distribution
    backward = model.transition.T * mu / mu[:, None]
    left = right = np.asarray(model.posterior)
    means = np.eye(model.levels)
    for _ in range(window):
        left, right = left @ backward, right @ model.transition
        means = means + (left + right) @ model.emission
    return float(np.abs(means[:, None] - means[None]).sum(axis=2).max() / 2)


def _regime_class(model: HiddenModel, people: People) -> RegimeClass:
    return RegimeClass(
        model.transition,
        model.emission,
        people.states,
        fitted_on=people.source,
        step=people.step,
    )
