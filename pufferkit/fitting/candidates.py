"""Classes of beliefs from a table of public people, from the plainest to the widest.

====================  =========================================================================
single chain          everybody's moves together, taken as known
seasonal chain        the same for each hour of the day
two-sided region      every chain that the counts leave plausible, forward and backward
hull of people        mixtures of each person's chain, of each quarter of each person's day, and
                      of everybody's, changing as they like
calibrated hull       the same, with as much of anything else as people left out have shown
hidden regimes        entries drawn by regimes nobody sees, one model for everybody
regimes of people     each person's own moves between these regimes
====================  =========================================================================

Rows of a person or of a part of the day are drawn to everybody's by 20 pseudo-moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs import baum_welch
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import Provenance
from pufferkit.beliefs.regime_class import RegimeClass
from pufferkit.beliefs.regime_estimation import people_models, refits
from pufferkit.beliefs.seasonal_class import SeasonalClass
from pufferkit.beliefs.transfer import transfer_cap
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.errors import NotApplicable
from pufferkit.fitting.row_coverage import conformal_contamination, row_coverage

PARTS = 4
"""Parts of the day that a hull tells apart."""

_HOURS = 24
_SMOOTHING = 0.5
_TOWARDS_POOLED = 20.0
_FEW_PEOPLE = 10
_REFITS = 20
_DAYS_AWAY = 3
_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class People:
    """Public people as counts of moves, and where they come from.

    Attributes
    ----------
    series
        One for each person.
    day
        Entries in a day; ``None`` if there is no clock.
    firsts
        Slot of the first entry of each person; later segments begin at slot 0.
    """

    series: tuple[Series, ...]
    day: int | None
    firsts: tuple[int, ...]

    @property
    def states(self) -> tuple[Any, ...]:
        """Labels of the states."""
        return self.series[0].states

    @cached_property
    def pooled(self) -> Series:
        """Everybody's segments, one after another."""
        lengths = tuple(length for one in self.series for length in one.lengths)
        return Series(np.concatenate([one.codes for one in self.series]), self.states, lengths)

    @cached_property
    def source(self) -> Provenance:
        """What beliefs remember of these people."""
        return Provenance.of_series(self.pooled, _SMOOTHING)

    def moves(self, parts: int) -> Floats:
        """Counts of moves: people x parts of the day x states x states."""
        size = len(self.states)
        tables = np.zeros((len(self.series), parts, size, size))
        for number, one in enumerate(self.series):
            for segment, slots in zip(one.segments, self.slots(number), strict=True):
                seen = (segment[:-1] >= 0) & (segment[1:] >= 0)
                part = slots[:-1] * parts // self.day if self.day else np.zeros_like(slots[:-1])
                at = (part[seen], segment[:-1][seen], segment[1:][seen])
                np.add.at(tables[number], at, 1)
        return tables

    def slots(self, number: int) -> list[Any]:
        """Time of day of the entries of each segment of a person."""
        firsts = [self.firsts[number], *[0] * (len(self.series[number].lengths) - 1)]
        lengths = self.series[number].lengths
        return [
            (first + np.arange(length)) % (self.day or 1)
            for first, length in zip(firsts, lengths, strict=True)
        ]

    def without(self, number: int) -> People:
        """Everybody but one."""
        rest = [n for n in range(len(self.series)) if n != number]
        return self.only(rest)

    def only(self, numbers: Sequence[int]) -> People:
        """Some of them."""
        return People(
            tuple(self.series[n] for n in numbers),
            self.day,
            tuple(self.firsts[n] for n in numbers),
        )


def single_chain(people: People) -> ChainClass:
    """Everybody's moves together as one known chain."""
    return ChainClass.of(MarkovChain.fit(people.pooled, _SMOOTHING))


def seasonal_chain(people: People) -> ChainClass:
    """One known chain for each hour of the day."""
    if people.day is None or people.day < 2:
        raise NotApplicable("a seasonal chain needs a clock: say how many entries a day has")
    hours = min(_HOURS, people.day)
    tables = people.moves(hours).sum(axis=0)
    forward = _towards(tables, _smoothed(tables.sum(axis=0)))
    kernels = [forward[slot * hours // people.day] for slot in range(people.day)]
    return SeasonalClass(kernels, people.states, fitted_on=people.source)


def two_sided_region(people: People) -> ChainClass:
    """Every chain that the counts leave plausible at 95%."""
    return ChainClass.around(people.pooled, _CONFIDENCE, sides="both")


def people_hull(people: People, inflate: float = 0.0) -> ChainClass:
    """Mixtures of people and parts of the day, changing as they like.

    Backward kernels are counted, since parts of the day are not stationary; the time reversals of
    each person's chain and of everybody's are among them, so that these chains are members.
    """
    forward, backward = hull_kernels(people)
    chains = [MarkovChain.steady(kernel, people.states, people.source) for kernel in forward]
    whole = chains[: 1 + len(people.series)]
    reversals = [chain.reversal.transition for chain in whole]
    return ChainClass.hull(*chains, inflate=inflate, backward=[*backward, *reversals])


def unsure_of_person(people: People) -> float:
    """How much more those lose who do not know which of these people it is, each as likely."""
    forward, _ = hull_kernels(people)
    own = forward[1 : 1 + len(people.series)]
    return transfer_cap([MarkovChain.steady(kernel).stationary for kernel in own])


def hull_kernels(people: People) -> tuple[list[Floats], list[Floats]]:
    """Kernels of everybody, of each person and of each part of each person's day, both ways."""
    tables = people.moves(PARTS if people.day else 1)
    own = tables.sum(axis=1)
    each = [own.sum(axis=0), *own]
    if tables.shape[1] > 1:
        each += [table for person in tables for table in person if table.sum() > 0]
    forward, backward = _smoothed(each[0]), _smoothed(each[0].T)
    return (
        [forward, *(_towards(table, forward) for table in each[1:])],
        [backward, *(_towards(table.T, backward) for table in each[1:])],
    )


@dataclass(frozen=True)
class Calibrated:
    """Contamination that covers people left out, and with which confidence."""

    eta: float
    words: str


def calibrated_contamination(people: People, alpha: float) -> Calibrated:
    """Contamination of the hull of people, calibrated on people.

    With enough of them half build the hull and half calibrate it, which covers a new exchangeable
    person with probability 1 - alpha. With fewer, each in turn is left out and the largest is
    taken; no theorem says how often that covers.
    """
    count = len(people.series)
    if count < 2:
        raise NotApplicable("a calibrated hull needs two people or stretches at least")
    half = count // 2
    if floor((half + 1) * alpha) >= 1:
        built = people.only(range(half))
        etas = [_needed(built, people, number) for number in range(half, count)]
        eta = conformal_contamination(etas, alpha)
        return Calibrated(eta, f"covers {1 - alpha:.0%} of people by {len(etas)} left out")
    etas = [_needed(people.without(number), people, number) for number in range(count)]
    return Calibrated(max(etas), f"the most that one of {count} needed when left out")


def _needed(built: People, people: People, number: int) -> float:
    """The least contamination of a hull that makes one person plausible, both ways."""
    one, slots = people.series[number], people.slots(number)
    day, parts = (people.day or 1), PARTS if people.day else 1
    etas = [0.0]
    for kernels, turn in zip(hull_kernels(built), (1, -1), strict=True):
        segments = [np.asarray(segment)[::turn] for segment in one.segments]
        times = [row[::turn] for row in slots]
        covered = row_coverage(segments, kernels, day=day, parts=parts, slots=times)
        etas.append(covered.contamination)
    return max(etas)


def hidden_regimes(people: People, regimes: int, seed: int = 0) -> tuple[RegimeClass, HiddenModel]:
    """One model of hidden regimes for everybody; regimes that last days are taken as known."""
    segments = [np.asarray(segment) for segment in people.pooled.segments]
    model = baum_welch.fit(segments, len(people.states), regimes, restarts=4, seed=seed)
    return _regime_class(model, people, _known_after(model, people.day)), model


def regimes_of_people(
    people: People, model: HiddenModel, window: int, seed: int = 0
) -> RegimeClass:
    """Each person's own moves between the regimes of everybody's model.

    With fewer than ten people also the refit to data simulated from the model, of twenty, that
    shows most influence: the fit alone would be too sure of itself. A regime that lasts for days
    for somebody (a holiday) is taken as known for all.
    """
    each = [[np.asarray(segment) for segment in one.segments] for one in people.series]
    models = [model, *people_models(model, each)]
    if len(each) < _FEW_PEOPLE:
        segments = [segment for person in each for segment in person]
        again = refits(model, segments, count=_REFITS, seed=seed)
        models.append(max(again, key=lambda one: regime_influence(one, window)))
    models.sort(key=lambda one: -_slow(one, people.day).sum())  # the first says which are slow
    days = _known_after(models[0], people.day)
    return RegimeClass.of(*(_regime_class(one, people, days) for one in models))


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


def _slow(model: HiddenModel, day: int | None) -> NDArray[np.bool_]:
    """Which regimes last longer than some days on average: a holiday, no long night."""
    stays = np.diag(model.transition)
    return np.asarray((1 - stays) * (_DAYS_AWAY * (day or np.inf)) < 1)


def _known_after(model: HiddenModel, day: int | None) -> float | None:
    """Some days in entries, if regimes that last longer are to be known: some do, and not all."""
    slow = _slow(model, day)
    return float(_DAYS_AWAY * day) if day is not None and slow.any() and not slow.all() else None


def _regime_class(model: HiddenModel, people: People, slow: float | None) -> RegimeClass:
    return RegimeClass(
        model.transition, model.emission, people.states, slow=slow, fitted_on=people.source
    )


def _smoothed(counts: Floats) -> Floats:
    rows = counts + _SMOOTHING
    smooth: Floats = rows / rows.sum(axis=-1, keepdims=True)
    return smooth


def _towards(counts: Floats, pooled: Floats) -> Floats:
    """Shares of counts, each row drawn to everybody's."""
    rows = counts + _TOWARDS_POOLED * pooled
    shrunk: Floats = rows / rows.sum(axis=-1, keepdims=True)
    return shrunk
