"""Classes of chains given by their kernels, forward and backward in time.

All of them have one form, and one theorem bounds them (`pufferkit.influence.curve.pairs`). A chain
W of hidden states moves by a kernel in the hull of ``forward`` and, read backwards, by one in the
hull of ``backward``; at every time another one, if it likes. Given its hidden state an entry is
drawn from a row of ``emission``. Where nothing is hidden, the hidden state is the entry itself.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Distribution, Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_chain import HiddenChain
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.rounding import EPS

Secret = Literal["entry", "regime"]
"""What is hidden from an adversary: the value of an entry, or the regime behind it."""


@dataclass(frozen=True, eq=False)
class Paths:
    """The chain of an entry and of what an event remembers, through a window of entries."""

    entries: tuple[NDArray[np.intp], ...]
    """For every entry of the window: its value in each of the cases that can be there."""
    kernels: tuple[Floats, ...]
    """From the cases of each entry but the first to those of the one before, as distributions."""
    posterior: Floats
    """Distribution of the last case given each label."""
    labels: tuple[str, ...]
    """The events that are told apart."""
    error: float
    """Bound on the relative error of the entries of the kernels and of the posterior."""


@dataclass(frozen=True, eq=False)
class Kernels:
    """What the pairwise curve needs to know of a class, or of one of finitely many parts of it.

    Attributes
    ----------
    name
        What the part is called.
    forward, backward
        For every slot of the clock the vertices of a hull of kernels between hidden states: from an
        entry at that slot to the next entry, and to the one before. One slot: no clock.
    emission
        Vertices of what an entry shows given its hidden state, rows are distributions over the
        states; ``None`` where the hidden state is the entry.
    posterior
        For every slot, vertices of the distribution of the hidden state given the entry, a row for
        each state; empty for any distribution whatever.
    possible
        For every slot, the states that an entry can show.
    contamination
        A row of ``emission`` (of ``forward`` and ``backward`` if nothing is hidden) may be replaced
        by anything with this weight, at every time anew.
    secret
        The entry, or the hidden state.
    start
        The slot of the first entry of a series; ``None`` if it can be any.
    window
        How many entries in a row the secrets are about; nothing is hidden then, and a secret is any
        value of all of them, or what ``paths`` says.
    paths
        How the label of a window comes about, where labels are the secrets.
    sets
        How many entries, wherever they lie, the secrets are about; above 1 the class is one known
        chain in which every move is possible.
    parts
        By what the loss of each pair of values counts, where pairs are promised different epsilons.
    """

    name: str
    forward: tuple[tuple[Floats, ...], ...]
    backward: tuple[tuple[Floats, ...], ...]
    possible: tuple[Bools, ...]
    emission: tuple[Floats, ...] | None = None
    posterior: tuple[tuple[Floats, ...], ...] = ()
    contamination: float = 0.0
    secret: Secret = "entry"
    start: int | None = None
    window: int = 1
    paths: Paths | None = None
    sets: int = 1
    parts: Floats | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def period(self) -> int:
        """How many slots the clock has."""
        return len(self.forward)

    @property
    def hidden(self) -> int:
        """How many hidden states there are."""
        return len(self.forward[0][0])

    @property
    def rounding(self) -> float:
        """Bound on the relative error of the entries of the backward kernels and posteriors.

        Stationary distributions by state reduction have a relative error of some n^2 roundings; a
        period of the clock makes the matrix a product, with n roundings for each factor, and a
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
        """Some distributions of the class by name, to draw data from."""

    @property
    @abstractmethod
    def promise(self) -> str:
        """To whom the promise is made, in one sentence."""

    @property
    def hides_states(self) -> bool:
        return any(part.emission is not None for part in self.kernels())

    @property
    def caveats(self) -> tuple[str, ...]:
        return (*super().caveats, self.promise)

    def corners(self) -> tuple[Member, ...] | None:
        return None

    def members(self) -> tuple[Member, ...]:
        raise NotApplicable(
            f"{self.description}: this mechanism has a theorem for known chains only; use "
            "influence_curve"
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        raise NotApplicable(
            f"{self.description}: its chains are no homogeneous Markov chains with an eigengap; "
            "use influence_curve"
        )

    def any_start_members(self) -> tuple[Member, ...]:
        return ()

    def distributions(self) -> list[Distribution]:
        return [Distribution(name, own, complete=False) for name, own in self.representatives()]


def reversed_kernel(transition: Floats, before: Floats, after: Floats) -> Floats:
    """P(X_{t-1} = u | X_t = x) for X_{t-1} distributed as ``before`` and X_t as ``after``.

    Values that X_t cannot take get the row of one that it can: nothing is told about them.
    """
    joint = (before[:, None] * transition).T
    impossible = after <= 0
    joint[impossible] = joint[int(np.flatnonzero(~impossible)[0])]
    kernel: Floats = joint / joint.sum(axis=1, keepdims=True)
    return kernel
