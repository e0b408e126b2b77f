"""Every chain between given ones, whose kernel may change at every step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import transfer_cap
from pufferkit.beliefs.chain_class import plural
from pufferkit.beliefs.finite_class import check_chains
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.kernel_class import KernelClass, hull_part
from pufferkit.beliefs.markov_chain import RAREST, MarkovChain
from pufferkit.checks import Floats
from pufferkit.influence.curve.engine import Part
from pufferkit.shown import Matrix


@dataclass(frozen=True, eq=False, repr=False)
class HullClass(KernelClass):
    """See `ChainClass.hull`."""

    kind = "hull"
    recorded, if_known = ("chains", "inflate", "backward"), ("calibrated",)

    chains: tuple[MarkovChain, ...]
    """The vertices."""
    inflate: float = 0.0
    """Weight of an arbitrary distribution in each row, chosen anew at every time."""
    backward: tuple[Floats, ...] | None = None
    """Vertices of the backward kernels, if they were counted; by default the time reversals of the
    chains."""
    calibrated: str | None = None
    """How the weight was chosen, in words; ``None`` if it was given."""
    states: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        step = check_chains(self.chains)
        for n, chain in enumerate(self.chains, 1):
            reversible = chain.is_irreducible and chain.pi_min >= RAREST
            if self.backward is None and not reversible:
                raise ValueError(
                    f"chains: chain {n} never returns to some states (or their probability "
                    "underflows), "
                    "so it cannot be read backwards in time; smooth its counts, or merge or drop "
                    "those states"
                )
        weight = checks.real("inflate", self.inflate)
        if not 0 <= weight < 1:
            raise ValueError(f"inflate: must be at least 0 and below 1, got {weight:g}")
        object.__setattr__(self, "inflate", weight)
        if self.backward is not None:
            counted = tuple(checks.stochastic_matrix("backward", b) for b in self.backward)
            if not counted or {len(b) for b in counted} != {len(self.chains[0])}:
                raise ValueError("backward: must be matrices over the states of the chains")
            object.__setattr__(self, "backward", counted)
        checks.assign(self, states=self.chains[0].states, step=step)

    def with_step(self, step: Any) -> HullClass:
        if step is None:
            return self
        return replace(self, chains=tuple(chain.with_step(step) for chain in self.chains))

    @property
    def description(self) -> str:
        chosen = f" ({self.calibrated})" if self.calibrated else ""
        inflated = f", rows inflated by {self.inflate:.3g}{chosen}" if self.inflate else ""
        vertices = plural(len(self.chains), "chain")
        words = f"hull of {vertices}, {plural(len(self.states))}, mixed at each time"
        return f"{words}{inflated}{self.private_mark}"

    @property
    def promise(self) -> str:
        return (
            "holds against adversaries who know which mixture of the given chains leads to the "
            "next entry, and which of the backward ones to the entry before, at each time; NOT for "
            "every schedule of the chains, and one unsure of the schedule may learn more"
        )

    @property
    def loss_of_type(self) -> float | None:
        each = [chain for chain in self.chains if len(chain.closed_classes) == 1]
        return transfer_cap([chain.stationary for chain in each]) if len(each) > 1 else None

    def matrices_shown(self) -> tuple[Matrix, ...]:
        return tuple(
            Matrix.of(f"vertex {n}", self.states, chain.transition)
            for n, chain in enumerate(self.chains, 1)
        )

    @property
    def contamination(self) -> float:
        return self.inflate

    @property
    def lists_models(self) -> bool:
        return len(self.chains) == 1

    def parts(self, length: int) -> Sequence[Part]:
        forward = [chain.transition for chain in self.chains]
        backward = self.backward or [
            MarkovChain.steady(chain.transition).reversal.transition for chain in self.chains
        ]
        every = np.ones(len(self.states), dtype=bool)
        return [hull_part("all chains of the hull", forward, backward, every, self.inflate)]

    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        count = len(self.chains)
        return [
            (f"vertex {n} of {count}", MarkovChain.steady(chain.transition, self.states))
            for n, chain in enumerate(self.chains, 1)
            if len(chain.closed_classes) == 1
        ]
