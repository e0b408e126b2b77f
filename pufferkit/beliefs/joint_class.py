"""Classes Theta of joint distributions: finitely many distributions of the same variables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pufferkit.beliefs.base import Beliefs, Distribution, listed_records
from pufferkit.beliefs.finite_joint import FiniteJoint


@dataclass(frozen=True, eq=False, repr=False)
class JointClass(Beliefs):
    """Several joint distributions of the same variables."""

    joints: tuple[FiniteJoint, ...]
    states: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.joints:
            raise ValueError("joints: a class needs at least one joint distribution, got none")
        for joint in self.joints:
            if not isinstance(joint, FiniteJoint):
                raise ValueError(f"joints: must be FiniteJoint objects, got {type(joint).__name__}")
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

    def distributions(self) -> list[Distribution]:
        count = len(self.joints)
        return [
            Distribution(f"distribution {n} of {count}", joint)
            for n, joint in enumerate(self.joints, 1)
        ]

    @property
    def description(self) -> str:
        count, first = len(self.joints), self.joints[0].description
        return first if count == 1 else f"{count} distributions, the first a {first}"

    def table_rows(self) -> list[dict[str, Any]]:
        if len(self.joints) == 1:
            return self.joints[0].table_rows()
        return [
            {"of": f"joint {n}", **row}
            for n, joint in enumerate(self.joints, 1)
            for row in joint.table_rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "joints", "joints": [joint.to_dict() for joint in self.joints]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JointClass:
        """The class that ``to_dict`` described; a single distribution is a class of one."""
        records = listed_records(data, "joints", "joint distributions")
        return cls(tuple(FiniteJoint.from_dict(own) for own in records))
