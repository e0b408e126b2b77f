"""Classes Theta of joint distributions: finitely many distributions of the same variables."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.listed_class import ListedClass


@dataclass(frozen=True, eq=False, repr=False)
class JointClass(ListedClass):
    """Several joint distributions of the same variables."""

    kind = "joints"
    member, member_kind = FiniteJoint, "finite_joint"
    called = "distribution"

    joints: tuple[FiniteJoint, ...]

    def check_alike(self) -> None:
        for joint in self.joints:
            if joint.names != self.joints[0].names:
                raise ValueError(
                    f"joints: all must be about the same variables; got "
                    f"{list(self.joints[0].names)} and {list(joint.names)}"
                )

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self.joints[0].names

    @staticmethod
    def values_in(model: FiniteJoint, entry: Hashable) -> tuple[Hashable, ...]:
        return model.values(entry)

    def values(self, entry: Hashable) -> tuple[Hashable, ...]:
        return tuple(value for joint in self.joints for value in joint.values(entry))

    @property
    def description(self) -> str:
        count, first = len(self.joints), self.joints[0].description
        return first if count == 1 else f"{count} distributions, the first a {first}"
