"""Beliefs of any kind: chains, networks, joint laws."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from pufferkit import checks
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.joint_class import JointClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.network_class import NetworkClass

Beliefs = ChainClass | NetworkClass | JointClass


def as_beliefs(beliefs: Any) -> Beliefs:
    """A class as it is; a single chain, network or joint law, or a list of them, as a class."""
    if isinstance(beliefs, (ChainClass, NetworkClass, JointClass)):
        return beliefs
    if isinstance(beliefs, MarkovChain):
        return as_chain_class(beliefs)
    several = list(beliefs) if isinstance(beliefs, (list, tuple)) else [beliefs]
    if several and all(isinstance(one, BayesianNetwork) for one in several):
        return NetworkClass(tuple(several))
    if several and all(isinstance(one, FiniteJoint) for one in several):
        return JointClass(tuple(several))
    if several and all(isinstance(one, MarkovChain) for one in several):
        return ChainClass.of(*several)
    raise ValueError(
        f"beliefs: must be a MarkovChain, a ChainClass, a BayesianNetwork or a FiniteJoint, got "
        f"{type(beliefs).__name__}; for example ChainClass.of(MarkovChain.steady(matrix))"
    )


def beliefs_from_dict(data: Mapping[str, Any]) -> Beliefs:
    """The beliefs that ``to_dict`` described, whatever their kind."""
    kind = data.get("kind")
    if kind in ("bayesian_network", "networks"):
        return NetworkClass.from_dict(data)
    if kind in ("finite_joint", "joints"):
        return JointClass.from_dict(data)
    return ChainClass.from_dict(data)


def beliefs_from_json(text: str) -> Beliefs:
    """The beliefs that ``to_json`` wrote, whatever their kind."""
    return beliefs_from_dict(checks.json_object("model", text))


def states_of(beliefs: Beliefs) -> tuple[Hashable, ...]:
    """Every value an entry can take."""
    if isinstance(beliefs, ChainClass):
        return beliefs.states
    columns: Iterable[tuple[Hashable, ...]]
    if isinstance(beliefs, NetworkClass):
        first = beliefs.networks[0]
        columns = [first.values[node] for node in first.nodes]
    else:
        columns = [joint.values(name) for joint in beliefs.joints for name in joint.names]
    return tuple(dict.fromkeys(value for column in columns for value in column))


def entries_of(beliefs: Beliefs) -> tuple[Hashable, ...] | None:
    """Names of the entries, in the order data are given in; ``None`` for chains of any length."""
    if isinstance(beliefs, NetworkClass):
        return beliefs.nodes
    if isinstance(beliefs, JointClass):
        return beliefs.joints[0].names
    return None
