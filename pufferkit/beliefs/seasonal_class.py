"""One known chain whose kernel depends on the time: hour of the day, day of the week."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.base import transfer_cap
from pufferkit.beliefs.chain_class import not_data, plural
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.kernel_class import (
    KernelClass,
    check_memory,
    hull_part,
    reversed_kernel,
    rounding,
)
from pufferkit.beliefs.markov_chain import RAREST, MarkovChain, state_labels
from pufferkit.beliefs.provenance import Provenance
from pufferkit.checks import Floats
from pufferkit.data.calendar import Calendar
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.curve.engine import Part, Seasons
from pufferkit.influence.curve.steps import Transport
from pufferkit.records import written
from pufferkit.shown import Matrix

_MOST_HIDDEN = 2_000


@dataclass(frozen=True, eq=False, repr=False)
class SeasonalClass(KernelClass):
    """See `ChainClass.seasonal`."""

    kind = "seasonal"
    recorded, if_known = ("states", "start"), ("step", "origin", "fitted_on")

    matrices: tuple[Floats, ...]
    """Transition matrix from an entry at each slot of the period to the next entry."""
    states: tuple[Hashable, ...]
    start: int | None
    """Slot of the first entry of a series, counted from 0; ``None`` if it can be any slot."""
    fitted_on: Provenance | None
    """The data the matrices were counted from."""
    origin: int | None
    """Local time at slot 0, in microseconds since 1970; ``None`` if slots have no time."""

    def __init__(
        self,
        kernels: Iterable[ArrayLike],
        states: Iterable[Hashable] | None = None,
        start: int | None = None,
        fitted_on: Provenance | None = None,
        origin: Any = None,
    ) -> None:
        named = ((f"kernel {n}", kernel) for n, kernel in enumerate(kernels))
        matrices = checks.stochastic_matrices("kernels", named)
        slot = None if start is None else checks.whole("start", start, 0)
        if slot is not None and slot >= len(matrices):
            raise ValueError(f"start: must be a slot from 0 to {len(matrices) - 1}, got {slot}")
        labels = state_labels(states, len(matrices[0]))
        zero = None if origin is None else Calendar(origin, 1).starts[0]
        checks.assign(self, matrices=matrices, states=labels, start=slot, fitted_on=fitted_on)
        checks.assign(self, origin=zero)
        if any(((marginal > 0) & (marginal < RAREST)).any() for marginal in self.marginals):
            raise ValueError(
                "kernels: the probability of some states underflows; drop or merge them"
            )

    @classmethod
    def built(
        cls,
        kernels: Any,
        states: Iterable[Hashable] | None,
        period: Any,
        start: int | None,
        initial: ArrayLike | None,
        origin: Any = None,
    ) -> SeasonalClass:
        """See `ChainClass.seasonal`."""
        not_data("kernels", kernels, "seasonal")
        matrices = [np.asarray(kernel) for kernel in kernels]
        if initial is not None:
            if period is not None or start not in (None, 0) or origin is not None:
                raise ValueError(
                    "initial: is for kernels given step by step, from slot 0 on; leave start and "
                    "origin out"
                )
            first = checks.probability_vector("initial", initial)
            matrices, start = [*matrices, np.tile(first, (len(first), 1))], 0
        if period is not None:
            length = checks.whole("period", period, max(len(matrices), 1))
            matrices = [matrices[slot * len(matrices) // length] for slot in range(length)]
        return cls(matrices, states, start, None, origin)

    @cached_property
    def marginals(self) -> tuple[Floats, ...]:
        """Distribution of an entry at each slot, in the periodic steady state."""
        whole = self.matrices[0]
        for matrix in self.matrices[1:]:
            whole = whole @ matrix
        try:
            here = MarkovChain.steady(whole / whole.sum(axis=1, keepdims=True)).stationary
        except ValueError as error:
            raise ValueError(
                f"kernels: must have a unique steady state over one period ({error})"
            ) from None
        marginals = [here]
        for matrix in self.matrices[:-1]:
            here = here @ matrix
            marginals.append(here / here.sum())
        return tuple(marginals)

    @property
    def description(self) -> str:
        first = "any first slot" if self.start is None else f"first entry at slot {self.start}"
        return (
            f"1 chain, {plural(len(self.states))}, {len(self.matrices)} slots of the clock, "
            f"{first}{self.private_mark}"
        )

    @property
    def promise(self) -> str:
        return (
            "holds against adversaries who know the schedule: the chain of each slot of the "
            "period, "
            "and the time; one unsure of the schedule may learn more"
        )

    @property
    def fixed_start(self) -> str | None:  # type: ignore[override]
        return None if self.start is None else "the chain of the clock, with its first slot,"

    def check_clock(self, calendar: Calendar | None, lengths: Sequence[int]) -> None:
        """Refuse data whose phase jumps, or is not that of ``start`` by their clock.

        The phase of an entry is (local time - origin) / step modulo the period. Where clocks
        change it jumps, and what the slots then say about one another no theorem covers, for a
        known phase or for any.
        """
        period = len(self.matrices)
        if calendar is None or period == 1:
            return
        slots = calendar.times(lengths) // calendar.every
        firsts = np.cumsum([0, *lengths[:-1]])
        since = np.arange(len(slots)) - np.repeat(firsts, lengths)
        if ((slots - np.repeat(slots[firsts], lengths) - since) % period).any():
            raise NoTheorem(
                f"data: clocks change within them, so their phase in a period of {period} slots "
                "jumps, and no theorem covers that; read the times in UTC and fit the beliefs so "
                "too, or take ChainClass.hull of their chains, mixed at each time"
            )
        if self.start is None or self.origin is None or self.step is None:
            return
        begins = (calendar.times(lengths)[firsts] - self.origin) // calendar.every % period
        off = np.flatnonzero(begins != self.start)
        if off.size:
            raise ValueError(
                f"data: segment {off[0] + 1} begins at slot {begins[off[0]]} by its clock, but the "
                f"beliefs say start={self.start}; leave start out, and the noise suffices for "
                "every phase"
            )

    @property
    def loss_of_type(self) -> float | None:
        return transfer_cap(self.marginals) if len(self.matrices) > 1 else None

    def matrices_shown(self) -> tuple[Matrix, ...]:
        return tuple(
            Matrix.of(f"slot {n}", self.states, matrix) for n, matrix in enumerate(self.matrices)
        )

    @property
    def period(self) -> int:
        return len(self.matrices)

    @property
    def lists_models(self) -> bool:
        return True

    def parts(self, length: int) -> Sequence[Part]:
        forward, marginals, name = self.matrices, self.marginals, "the chain of the clock"
        backward = [
            reversed_kernel(forward[slot - 1], marginals[slot - 1], marginals[slot])
            for slot in range(self.period)
        ]
        possible = [marginal > 0 for marginal in marginals]
        if self.period == 1:
            return [hull_part(name, forward, backward, possible[0])]
        check_memory([*forward, *backward])
        error = rounding(len(self.states), self.period)
        left = [Transport([own], error) for own in backward]
        clock = Seasons(left, [Transport([own]) for own in forward], self.start)
        follows = [own > 0 for own in forward]
        return [Part(name, None, None, possible, clock=clock, follows=follows)]

    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        count, size = len(self.matrices), len(self.states)
        if count * size > _MOST_HIDDEN:
            raise NotApplicable(
                f"beliefs: {count} slots and {size} states are too many to draw data from"
            )
        matrix = np.zeros((count * size, count * size))
        for slot, own in enumerate(self.matrices):
            after = (slot + 1) % count
            matrix[slot * size : (slot + 1) * size, after * size : (after + 1) * size] = own
        labels = [(slot, x) for slot in range(count) for x in range(size)]
        shown = tuple(x for _, x in labels)
        slots = range(count) if self.start is None else (self.start,)
        drawn: list[tuple[str, MarkovChain | HiddenChain]] = []
        for slot in slots:
            initial = np.zeros(count * size)
            initial[slot * size : (slot + 1) * size] = self.marginals[slot]
            chain = MarkovChain(initial, matrix, labels)
            drawn.append((f"first entry at slot {slot}", HiddenChain(chain, shown, self.states)))
        return drawn

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "kernels": written(self.matrices)}
