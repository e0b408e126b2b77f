"""Every chain between given ones, whose kernel may change at every step."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.chain_class import plural
from pufferkit.beliefs.finite_class import check_chains
from pufferkit.beliefs.hidden_chain import HiddenChain
from pufferkit.beliefs.kernel_class import KernelClass, Kernels
from pufferkit.beliefs.markov_chain import RAREST, MarkovChain
from pufferkit.beliefs.people_counts import PARTS, People, are_people, calibrated_contamination
from pufferkit.beliefs.provenance import Provenance
from pufferkit.beliefs.type_uncertainty import transfer_cap
from pufferkit.checks import Floats
from pufferkit.shown import Matrix

_MOST = 0.99


@dataclass(frozen=True, eq=False, repr=False)
class HullClass(KernelClass):
    """See `ChainClass.hull`."""

    kind = "hull"

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

    @classmethod
    def built(
        cls,
        chains: tuple[Any, ...],
        inflate: float | str,
        backward: Iterable[ArrayLike] | None,
        parts: int,
        period: Any,
    ) -> HullClass:
        """See `ChainClass.hull`."""
        given = chains[0] if len(chains) == 1 and not isinstance(chains[0], MarkovChain) else chains
        if are_people(given):
            if backward is not None:
                raise ValueError("backward: is counted from the data of people; leave it out")
            return cls.of_people(People.of(given, period), inflate, parts)
        if isinstance(inflate, str):
            raise ValueError(
                f"inflate: {inflate!r} needs data of people to calibrate on, not chains; give a "
                "number"
            )
        counted: Any = None if backward is None else tuple(backward)
        return cls(chains, inflate, counted)

    @classmethod
    def of_people(
        cls, people: People, inflate: float | str = 0.0, parts: int = PARTS, alpha: float = 0.1
    ) -> HullClass:
        """Mixtures of the kernels of people and parts of the day, which may change at every step.

        Backward kernels are counted, since parts of the day are not stationary; the time reversals
        of each person's chain and of everybody's are among them, so that these chains are members.
        """
        words = None
        if isinstance(inflate, str):
            if inflate != "calibrated":
                raise ValueError(f"inflate: must be a weight or 'calibrated', got {inflate!r}")
            calibrated = calibrated_contamination(people, alpha, parts)
            inflate, words = min(calibrated.eta, _MOST), calibrated.words
        forward, backward = people.hull_kernels(parts)
        known: Any = (people.states, people.source)
        chains = [MarkovChain.steady(kernel, *known, step=people.step) for kernel in forward]
        reversals = [chain.reversal.transition for chain in chains[: 1 + len(people.series)]]
        return cls(tuple(chains), inflate, (*backward, *reversals), words)

    @property
    def description(self) -> str:
        count = len(self.chains)
        noun = "1 chain" if count == 1 else f"{count} chains"
        chosen = f" ({self.calibrated})" if self.calibrated else ""
        inflated = f", rows inflated by {self.inflate:.3g}{chosen}" if self.inflate else ""
        return (
            f"hull of {noun}, {plural(len(self.states))}, any schedule{inflated}{self.private_mark}"
        )

    @property
    def promise(self) -> str:
        return (
            "holds against adversaries who know which mixture of the given chains is in force at "
            "each time, whatever the schedule; one unsure of the schedule may learn more"
        )

    @property
    def sources(self) -> tuple[Provenance, ...]:
        fitted = [chain.fitted_on for chain in self.chains if chain.fitted_on is not None]
        return tuple(dict.fromkeys(fitted))

    @property
    def loss_of_type(self) -> float | None:
        each = [chain for chain in self.chains if len(chain.closed_classes) == 1]
        return transfer_cap([chain.stationary for chain in each]) if len(each) > 1 else None

    def matrices_shown(self) -> tuple[Matrix, ...]:
        return tuple(
            Matrix.of(f"vertex {n}", self.states, chain.transition)
            for n, chain in enumerate(self.chains, 1)
        )

    def kernels(self) -> tuple[Kernels, ...]:
        forward = tuple(chain.transition for chain in self.chains)
        backward = self.backward or tuple(
            MarkovChain.steady(chain.transition).reversal.transition for chain in self.chains
        )
        possible = np.ones(len(self.states), dtype=bool)
        return (
            Kernels(
                "all chains of the hull",
                (forward,),
                (backward,),
                (possible,),
                contamination=self.inflate,
            ),
        )

    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        count = len(self.chains)
        return [
            (f"vertex {n} of {count}", MarkovChain.steady(chain.transition, self.states))
            for n, chain in enumerate(self.chains, 1)
            if len(chain.closed_classes) == 1
        ]

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> HullClass:
        chains = tuple(MarkovChain.from_dict(chain) for chain in data["chains"])
        counted = data.get("backward")
        backward = None if counted is None else tuple(counted)
        words = data.get("calibrated")
        return cls(
            chains, data.get("inflate", 0.0), backward, None if words is None else str(words)
        )

    def to_dict(self) -> dict[str, Any]:
        plain = {} if self.calibrated is None else {"calibrated": self.calibrated}
        return {
            "kind": "hull",
            "chains": [chain.to_dict() for chain in self.chains],
            "inflate": self.inflate,
            "backward": None if self.backward is None else [b.tolist() for b in self.backward],
            **plain,
        }
