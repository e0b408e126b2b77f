"""Classes of chains given by their kernels, forward and backward in time.

All of them have one form, and one theorem bounds them (`pufferkit.influence.curve.engine`). A chain
W of hidden states moves by a kernel in the hull of ``forward`` and, read backwards, by one in the
hull of ``backward``; the kernels may differ from step to step. Given its hidden state an entry is
drawn from a row of ``emission``. Without hidden states, W is the chain of the entries itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Distribution, Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.chain_parts import MOST_BYTES
from pufferkit.beliefs.hidden_model import HiddenChain, posterior_of
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import Part, Parts, Seasons, Side, Sojourns
from pufferkit.influence.curve.secret_losses import LabelLosses, PinnedSide, Secret
from pufferkit.influence.curve.steps import Contaminated, Steps, Transport
from pufferkit.influence.curve.transport_plans import plans_bytes
from pufferkit.rounding import EPS

SecretKind = Literal["entry", "regime"]
"""The secret: the value of an entry, or its hidden regime."""


@dataclass(frozen=True, eq=False)
class Paths:
    """The chain of an entry and the state of an automaton, through a window of entries."""

    entries: tuple[NDArray[np.intp], ...]
    """For every entry of the window: its value in each case that can occur."""
    kernels: tuple[Floats, ...]
    """Kernels from the cases of each entry but the first to those of the previous entry."""
    posterior: Floats
    """Distribution of the last case given each label."""
    labels: tuple[str, ...]
    """The events to be kept indistinguishable."""
    error: float
    """Bound on the relative error of the entries of the kernels and of the posterior."""


@dataclass(frozen=True, eq=False)
class Kernels:
    """The input of the pairwise curve for a class, or for one of finitely many parts of it.

    Attributes
    ----------
    name
        Name of the part.
    forward, backward
        For every slot of the period the vertices of a hull of kernels between hidden states: from
        an entry at that slot to the next entry, and to the previous one. One slot: no seasons.
    emission
        Vertices of the distribution of an entry given its hidden state; rows are distributions over
        the states; ``None`` if the hidden state is the entry.
    posterior
        For every slot, vertices of the distribution of the hidden state given the entry, a row for
        each state; empty if it may be any distribution.
    possible
        For every slot, the states that an entry can have.
    contamination
        At every time, any distribution may be mixed into a row of ``emission`` (of ``forward`` and
        ``backward`` without hidden states) with this weight.
    secret
        The entry, or the hidden state.
    start
        The slot of the first entry of a series; ``None`` if it can be any slot.
    window
        Number of consecutive entries that the secrets are about; there are then no hidden states,
        and a secret is any value of all of them, or the label that ``paths`` gives.
    paths
        How the label of a window arises, if labels are the secrets.
    sets
        Number of entries, wherever they lie, that the secrets are about; above 1 the class is one
        known chain without impossible transitions.
    sojourns
        In place of both kernels, which are then those in the middle of a long sojourn, the sides of
        sojourns between regimes that are known.
    parts
        Weight of the loss of each pair of values, if pairs have different epsilons.
    """

    name: str
    forward: tuple[tuple[Floats, ...], ...]
    backward: tuple[tuple[Floats, ...], ...]
    possible: tuple[Bools, ...]
    emission: tuple[Floats, ...] | None = None
    posterior: tuple[tuple[Floats, ...], ...] = ()
    contamination: float = 0.0
    secret: SecretKind = "entry"
    start: int | None = None
    window: int = 1
    paths: Paths | None = None
    sets: int = 1
    sojourns: Sojourns | None = None
    parts: Floats | None = None
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of_hidden(cls, name: str, hidden: HiddenChain) -> Kernels:
        """A stationary chain whose entries are a function of its states."""
        return cls.of_chain(name, hidden.chain, np.eye(len(hidden.states))[list(hidden.shown)])

    @classmethod
    def of_chain(
        cls, name: str, chain: MarkovChain, emission: Floats, spread: float = 0.0
    ) -> Kernels:
        """A stationary chain that emits entries, with rows contaminated by this weight."""
        return cls(
            name,
            ((chain.transition,),),
            ((chain.reversal.transition,),),
            (np.asarray((emission > 0).any(axis=0) | (spread > 0)),),
            emission=(emission,),
            posterior=() if spread else ((posterior_of(chain.stationary[:, None] * emission),),),
            contamination=spread,
        )

    @property
    def period(self) -> int:
        """Number of slots in a period."""
        return len(self.forward)

    @property
    def hidden(self) -> int:
        """How many hidden states there are."""
        return len(self.forward[0][0])

    @property
    def rounding(self) -> float:
        """Bound on the relative error of the entries of the backward kernels and posteriors.

        Stationary distributions by state reduction have a relative error of some n^2 roundings; a
        longer period makes the matrix a product, with n roundings for each factor, and a
        stationary distribution moves by at most 2n times the relative error of its matrix.
        """
        return 32 * self.hidden**2 * self.period * EPS


class KernelClass(ChainClass):
    """A class that is bounded as a whole, through its `Kernels`."""

    kind = "kernels"
    lists_matrices = False
    fixed_start = None

    @abstractmethod
    def kernels(self) -> tuple[Kernels, ...]:
        """The parts of the class: every distribution of it belongs to one of them."""

    @abstractmethod
    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        """Some distributions of the class by name, from which data can be drawn."""

    @property
    @abstractmethod
    def promise(self) -> str:
        """Against which adversaries the guarantee holds, in one sentence."""

    @property
    def hides_states(self) -> bool:
        return any(part.emission is not None for part in self.kernels())

    @property
    def caveats(self) -> tuple[str, ...]:
        return (*super().caveats, self.promise)

    def corners(self) -> tuple[Member, ...] | None:
        return None

    def parts(self, length: int) -> Sequence[Part]:
        return Parts([partial(part_of_kernels, own, length) for own in self.kernels()])

    def members(self) -> tuple[Member, ...]:
        raise NotApplicable(
            f"{self.description}: this mechanism has a theorem for known chains only; use "
            "influence_curve"
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        raise NotApplicable(
            f"{self.description}: its chains are not homogeneous Markov chains with an eigengap; "
            "use influence_curve"
        )

    def any_start_members(self) -> tuple[Member, ...]:
        return ()

    def distributions(self) -> list[Distribution]:
        return [Distribution(name, own, complete=False) for name, own in self.representatives()]


def reversed_kernel(transition: Floats, before: Floats, after: Floats) -> Floats:
    """P(X_{t-1} = u | X_t = x) for X_{t-1} distributed as ``before`` and X_t as ``after``.

    Values that X_t cannot take get the row of one that it can, so they do not add to any bound.
    """
    joint = (before[:, None] * transition).T
    impossible = after <= 0
    joint[impossible] = joint[int(np.flatnonzero(~impossible)[0])]
    kernel: Floats = joint / joint.sum(axis=1, keepdims=True)
    return kernel


def part_of_kernels(kernels: Kernels, length: int) -> Part:
    """What the engine needs to know of these kernels, for series of this length."""
    _check_memory(kernels)
    plain, emission = kernels.emission is None, kernels.emission
    left = [_steps(kernels, own, kernels.rounding, plain) for own in kernels.backward]
    right = [_steps(kernels, own, 0.0, plain) for own in kernels.forward]
    seasons = kernels.period > 1
    if seasons and not plain:
        raise NotApplicable(f"{kernels.name}: hidden states with seasons have no theorem here")
    sides = not seasons and kernels.sojourns is None
    windows = kernels.window > 1 and kernels.paths is None and not kernels.contamination
    return Part(
        kernels.name,
        Side.of(left[0]) if sides else None,
        Side.of(right[0]) if sides else None,
        kernels.possible,
        clock=Seasons(left, right, kernels.start) if seasons else None,
        sojourns=kernels.sojourns,
        emission=None if emission is None else _steps(kernels, emission, 0.0, True),
        posterior=[Transport(vertices, kernels.rounding) for vertices in kernels.posterior],
        follows=[np.any(np.array(v) > 0, axis=0) for v in kernels.forward] if windows else (),
        secret=_secret(kernels),
        notes=kernels.notes,
    )


def _check_memory(kernels: Kernels) -> None:
    needed = sum(
        plans_bytes(kernel)
        for side in (kernels.forward, kernels.backward)
        for vertices in side
        for kernel in vertices
    )
    if needed > MOST_BYTES:
        raise NotApplicable(
            f"the influence curve of {kernels.hidden:,} states needs about {needed / 1e9:.3g} "
            f"GB of memory, more than {MOST_BYTES / 1e9:.3g}; merge states, or give fewer "
            "matrices or a shorter memory"
        )


def _steps(kernels: Kernels, vertices: Sequence[Floats], error: float, spoiled: bool) -> Steps:
    """The step between two rows, into which any distribution may be mixed if it is spoiled."""
    if spoiled and kernels.contamination:
        return Contaminated(vertices, kernels.contamination, error)
    return Transport(vertices, error)


def _secret(kernels: Kernels) -> Secret:
    paths, sets, labels = kernels.paths, None, None
    if kernels.sets > 1:
        left = PinnedSide(kernels.backward[0][0], kernels.rounding)
        sets = left, PinnedSide(kernels.forward[0][0], 0.0)
    if paths is not None:
        error = kernels.rounding + paths.error
        labels = LabelLosses(paths.entries, paths.kernels, paths.posterior, error)
    regime = kernels.secret == "regime"
    return Secret(kernels.window, labels, sets, kernels.sets, kernels.parts, regime)
