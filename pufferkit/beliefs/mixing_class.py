"""Every chain that mixes at least this well ([Q] 4.4.2)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pufferkit import checks
from pufferkit.beliefs.base import Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass, plural
from pufferkit.errors import NotApplicable


@dataclass(frozen=True, eq=False, repr=False)
class MixingClass(ChainClass):
    """See `ChainClass.mixing`."""

    kind = "mixing"
    lists_matrices = False
    names_matrices = False
    fixed_start = None

    states: tuple[Hashable, ...]
    pi_min: float
    gap: float
    reversible: bool

    def __init__(
        self,
        states: int | Iterable[Hashable],
        pi_min: float,
        gap: float,
        reversible: bool = False,
    ) -> None:
        labels = (
            checks.distinct_states(states)
            if isinstance(states, Iterable)
            else tuple(range(checks.whole("states", states, 1)))
        )
        checks.assign(
            self,
            states=labels,
            pi_min=checks.positive("pi_min", pi_min),
            gap=checks.positive("gap", gap),
            reversible=checks.flag("reversible", reversible),
        )
        if self.pi_min * len(labels) > 1 + 1e-12:
            raise ValueError(
                f"pi_min: {len(labels)} states cannot all have at least {self.pi_min:g}; "
                f"the most possible is {1 / len(labels):g}"
            )
        most = 2 if self.reversible else 1
        if self.gap > most:
            kind = "reversible" if self.reversible else "general"
            raise ValueError(
                f"gap: is at most {most} for {kind} chains by [Q] (14), got {self.gap:g}"
            )

    @property
    def description(self) -> str:
        kind = "reversible " if self.reversible else ""
        return (
            f"every {kind}chain on {plural(len(self.states))} with pi_min >= {self.pi_min:g} "
            f"and gap >= {self.gap:g}"
        )

    def members(self) -> tuple[Member, ...]:
        raise NotApplicable(
            "the class is known only by pi_min and gap, so there is no matrix to compute with; "
            "use markov_quilt_approx, or name the matrices with ChainClass.any_start"
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        contraction = 1 - self.gap / 2 if self.reversible else math.sqrt(1 - self.gap)
        return (Mixing(self.pi_min, self.gap, contraction, stationary=False),)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> MixingClass:
        return cls(data["states"], data["pi_min"], data["gap"], data.get("reversible", False))

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "mixing",
            "states": list(self.states),
            "pi_min": self.pi_min,
            "gap": self.gap,
            "reversible": self.reversible,
        }
