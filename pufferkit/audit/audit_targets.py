"""Objects that can be audited: calibrations of releases, and local mechanisms."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from pufferkit.audit.attackers import emission_matrix
from pufferkit.audit.conditioned_chain import Conditioned
from pufferkit.beliefs.base import as_beliefs
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration


@runtime_checkable
class LocalMechanism(Protocol):
    """A mechanism that turns every entry into a symbol.

    ``matrix`` has the distribution of the symbol for each state, ``epsilon`` is what it promises.
    It may also have a ``chain`` (the belief it was made for), a ``name``, an ``adversary``
    ("every"), a ``length`` (the longest series promised for), and ``sanitize``, which then draws
    the symbols. If its noise remembers, ``noise_states`` says how: the start and the moves of a
    chain of its own, and the distribution of the symbol for each pair of a state and a state of
    the noise.
    """

    @property
    def matrix(self) -> Floats:
        """Emission matrix, rows states."""
        ...

    @property
    def epsilon(self) -> float:
        """The promise."""
        ...


def belief_of(mechanism: Any, beliefs: Any) -> Any:
    """The beliefs given, or else those of the mechanism."""
    if beliefs is not None:
        return beliefs
    belief = getattr(mechanism, "beliefs", None)
    belief = getattr(mechanism, "chain", None) if belief is None else belief
    if belief is None:
        name = name_of(mechanism)
        raise ValueError(
            f"beliefs: {name} is calibrated without any; give those to audit it against"
        )
    return belief


def name_of(mechanism: Any) -> str:
    """The name of a mechanism."""
    if isinstance(mechanism, Calibration):
        return mechanism.mechanism
    return str(getattr(mechanism, "name", type(mechanism).__name__))


def checked_local(mechanism: Any) -> LocalMechanism:
    """The mechanism, if it has a matrix and an epsilon."""
    if not isinstance(mechanism, LocalMechanism):
        raise ValueError(
            f"mechanism: must be a Calibration or have a matrix and an epsilon, got "
            f"{type(mechanism).__name__}"
        )
    return mechanism


def local_beliefs(mechanism: Any, beliefs: Any) -> list[tuple[str, MarkovChain, bool]]:
    """The chains to audit a local mechanism against: name, chain, whether all are listed."""
    checked_local(mechanism)
    distributions = []
    for own in as_beliefs(belief_of(mechanism, beliefs)).distributions():
        if not isinstance(own.distribution, MarkovChain):
            raise NotApplicable("local mechanisms are audited against Markov chains")
        emission_matrix(own.distribution, np.asarray(mechanism.matrix))
        distributions.append((own.name, own.distribution, own.complete))
    return distributions


def seen_through(mechanism: Any, path: Conditioned) -> tuple[Conditioned, Floats]:
    """What moves behind the symbols, and the distribution of the symbol for each of its states."""
    if not hasattr(mechanism, "noise_states"):
        return path, np.asarray(mechanism.matrix, dtype=np.float64)
    start, moves, emission = mechanism.noise_states
    return path.beside(start, moves), np.asarray(emission, dtype=np.float64)
