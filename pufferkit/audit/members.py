"""Each belief of a class as one law that data can be drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.protocol import as_beliefs
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

_START_ODDS = (1e-3, 1e-2, 0.1, 1 / 3, 1.0, 3.0, 10.0, 1e2, 1e3)


@dataclass(frozen=True)
class Candidate:
    """One law of a class. ``complete`` is false where the class holds more than those listed."""

    name: str
    law: MarkovChain | FiniteJoint | BayesianNetwork
    complete: bool = True


def candidates(beliefs: Any) -> list[Candidate]:
    """The laws of a class, one by one; with any start, many of them.

    A start may then be sure, stationary, or split between two states at odds from 1 : 1000 to
    1000 : 1.
    """
    theta = as_beliefs(beliefs)
    if isinstance(theta, NetworkClass):
        count = len(theta.networks)
        return [
            Candidate(f"network {n} of {count}", network)
            for n, network in enumerate(theta.networks, 1)
        ]
    if not isinstance(theta, ChainClass):
        count = len(theta.joints)
        return [Candidate(f"law {n} of {count}", j) for n, j in enumerate(theta.joints, 1)]
    try:
        members = theta.members()
    except NotApplicable:
        raise NotApplicable(
            f"beliefs: {theta.description} names no chain to draw data from; pass one of its "
            "chains as beliefs, for example the one counted from the same public data (fit)"
        ) from None
    found = []
    for member in members:
        if not member.any_start:
            whole = not member.chain.has_lost_states
            found.append(Candidate(member.name, member.chain, complete=whole))
            continue
        for words, start in _starts(member.chain):
            chain = MarkovChain(start, member.chain.transition, theta.states)
            found.append(Candidate(f"{member.name}: {words}", chain, complete=False))
    return found


def _starts(chain: MarkovChain) -> Iterator[tuple[str, Floats]]:
    size, names = len(chain), chain.states
    if len(chain.closed_classes) == 1:
        yield "stationary start", chain.stationary
    for x in range(size):
        yield f"starts in {names[x]}", np.eye(size)[x]
    pairs = list(combinations(range(size), 2))
    for x, y in pairs[:50]:
        for odds in _START_ODDS:
            law = np.zeros(size)
            law[x], law[y] = 1 / (1 + odds), odds / (1 + odds)
            yield f"starts in {names[x]} or {names[y]}, odds 1 : {odds:g}", law
