"""Classes Theta of joint distributions: finitely many distributions of the same variables."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.listed_class import ListedClass


@dataclass(frozen=True, eq=False, repr=False)
class JointClass(ListedClass):
    """Several joint distributions of the same variables."""

    kind = "joints"
    member = FiniteJoint
    called = "distribution"

    joints: tuple[FiniteJoint, ...]
    states: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.check_listed()
        for joint in self.joints:
            if joint.names != self.joints[0].names:
                raise ValueError(
                    f"joints: all must be about the same variables; got "
                    f"{list(self.joints[0].names)} and {list(joint.names)}"
                )

        columns = [joint.values(name) for joint in self.joints for name in joint.names]
        own = dict.fromkeys(value for column in columns for value in column)
        object.__setattr__(self, "states", tuple(own))

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self.joints[0].names

    def values(self, entry: Hashable) -> tuple[Hashable, ...]:
        return tuple(value for joint in self.joints for value in joint.values(entry))

    @property
    def description(self) -> str:
        count, first = len(self.joints), self.joints[0].description
        return first if count == 1 else f"{count} distributions, the first a {first}"
