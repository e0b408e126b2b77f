"""Classes Theta of joint laws: finitely many laws of the same variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pufferkit.beliefs.finite_joint import FiniteJoint


@dataclass(frozen=True, eq=False, repr=False)
class JointClass:
    """Several joint laws of the same variables."""

    joints: tuple[FiniteJoint, ...]

    def __post_init__(self) -> None:
        if not self.joints:
            raise ValueError("joints: a class needs at least one joint law, got none")
        for joint in self.joints:
            if not isinstance(joint, FiniteJoint):
                raise ValueError(f"joints: must be FiniteJoint objects, got {type(joint).__name__}")
            if joint.names != self.joints[0].names:
                raise ValueError(
                    f"joints: all must be about the same variables; got "
                    f"{list(self.joints[0].names)} and {list(joint.names)}"
                )

    @property
    def description(self) -> str:
        """One line for tables and reports."""
        count, first = len(self.joints), self.joints[0].description
        return first if count == 1 else f"{count} laws, the first a {first}"

    def __repr__(self) -> str:
        return f"JointClass({self.description})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"kind": "joints", "joints": [joint.to_dict() for joint in self.joints]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JointClass:
        """The class that ``to_dict`` described; a single law is a class of one."""
        if data.get("kind") != "joints":
            return cls((FiniteJoint.from_dict(data),))
        if not isinstance(data.get("joints"), list):
            raise ValueError("model: a class of joint laws needs a list 'joints'")
        return cls(tuple(FiniteJoint.from_dict(own) for own in data["joints"]))

    def to_json(self) -> str:
        """One JSON object; floats keep every digit."""
        return json.dumps(self.to_dict())
