"""Conversion of arguments and files to classes of beliefs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.field_class import FieldClass
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.joint_class import JointClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import MarkovRandomField
from pufferkit.beliefs.network_class import NetworkClass

__all__ = ["Beliefs", "as_beliefs", "beliefs_from_dict", "beliefs_from_json"]


def as_beliefs(beliefs: Any) -> Beliefs:
    """A class unchanged; a chain, network or joint distribution, or a list of them, as a class."""
    if isinstance(beliefs, Beliefs):
        return beliefs
    if isinstance(beliefs, MarkovChain):
        return as_chain_class(beliefs)
    several = list(beliefs) if isinstance(beliefs, (list, tuple)) else [beliefs]
    if several and all(isinstance(one, BayesianNetwork) for one in several):
        return NetworkClass(tuple(several))
    if several and all(isinstance(one, MarkovRandomField) for one in several):
        return FieldClass(tuple(several))
    if several and all(isinstance(one, FiniteJoint) for one in several):
        return JointClass(tuple(several))
    if several and all(isinstance(one, MarkovChain) for one in several):
        return ChainClass.of(*several)
    raise ValueError(
        f"beliefs: must be a MarkovChain, a ChainClass, a BayesianNetwork, a MarkovRandomField or "
        "a FiniteJoint, got "
        f"{type(beliefs).__name__}; for example ChainClass.of(MarkovChain.steady(matrix))"
    )


def beliefs_from_dict(data: Mapping[str, Any]) -> Beliefs:
    """The beliefs that ``to_dict`` described, whatever their kind."""
    kind = data.get("kind")
    if kind in ("bayesian_network", "networks"):
        return NetworkClass.from_dict(data)
    if kind in ("markov_random_field", "fields"):
        return FieldClass.from_dict(data)
    if kind in ("finite_joint", "joints"):
        return JointClass.from_dict(data)
    return ChainClass.from_dict(data)


def beliefs_from_json(text: str) -> Beliefs:
    """The beliefs that ``to_json`` wrote, whatever their kind."""
    return beliefs_from_dict(checks.json_object("model", text))
