"""Classes of chains whose kernels may be hidden, may be mixed, or may follow a clock.

All of them have one form, and one theorem bounds them (`pufferkit.influence.curve.engine`). A chain
W of hidden states moves by a kernel in the hull of some and, read backwards, by one in the hull of
others; the kernels may differ from step to step. Given its hidden state an entry is drawn from a
row of an emission. Without hidden states, W is the chain of the entries itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from pufferkit.beliefs.base import Distribution, Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.chain_parts import MOST_BYTES
from pufferkit.beliefs.hidden_model import HiddenChain, posterior_of
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import Part, Side
from pufferkit.influence.curve.secret_losses import Secret
from pufferkit.influence.curve.steps import Contaminated, Steps, Transport
from pufferkit.influence.curve.transport_plans import plans_bytes
from pufferkit.rounding import EPS


class KernelClass(ChainClass):
    """A class that is bounded as a whole, by the kernels of its ``parts``."""

    kind = "kernels"
    homogeneous = False
    lists_matrices = False
    fixed_start = None

    @abstractmethod
    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        """Some distributions of the class by name, from which data can be drawn."""

    @abstractmethod
    def parts(self, length: int) -> Sequence[Part]:
        """Every distribution of the class belongs to one of these."""

    @property
    @abstractmethod
    def promise(self) -> str:
        """Against which adversaries the guarantee holds, in one sentence."""

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
            f"{self.description}: its chains are not homogeneous Markov chains with an eigengap; "
            "use influence_curve"
        )

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


def rounding(states: int, period: int = 1) -> float:
    """Bound on the relative error of the entries of backward kernels and posteriors.

    Stationary distributions by state reduction have a relative error of some n^2 roundings; a
    longer period makes the matrix a product, with n roundings for each factor, and a stationary
    distribution moves by at most 2n times the relative error of its matrix.
    """
    return 32 * states**2 * period * EPS


def check_memory(kernels: Sequence[Floats]) -> None:
    """Refuse kernels, of both directions, whose plans do not fit into memory."""
    needed = sum(map(plans_bytes, kernels))
    if needed > MOST_BYTES:
        raise NotApplicable(
            f"the influence curve of {len(kernels[0]):,} states needs about {needed / 1e9:.3g} "
            f"GB of memory, more than {MOST_BYTES / 1e9:.3g}; merge states, or give fewer "
            "matrices or a shorter memory"
        )


def hull_part(
    name: str,
    forward: Sequence[Floats],
    backward: Sequence[Floats],
    possible: Bools,
    weight: float = 0.0,
) -> Part:
    """Chains whose kernel is, at every step, a mixture of these; ``backward`` with a rounding.

    Any distribution may be mixed into each row with this weight, anew at every step.
    """
    check_memory([*forward, *backward])
    left = _steps(backward, rounding(len(forward[0])), weight)
    follows = [] if weight else [np.any(np.array(forward) > 0, axis=0)]
    right = _steps(forward, 0.0, weight)
    return Part(name, Side.of(left), Side.of(right), [possible], follows=follows)


def hidden_part(
    name: str,
    models: Sequence[tuple[MarkovChain, Floats]],
    spread: float = 0.0,
    *,
    state: bool = False,
) -> Part:
    """Stationary chains of hidden states with their emissions, mixed anew at every step.

    Any distribution may be mixed into each row of an emission with the weight ``spread``; what an
    entry says of its hidden state is then unknown. With ``state`` the hidden state is the secret.
    """
    forward = [chain.transition for chain, _ in models]
    backward = [chain.reversal.transition for chain, _ in models]
    check_memory([*forward, *backward])
    error = rounding(len(forward[0]))
    emissions = list({own.tobytes(): own for _, own in models}.values())
    each = [posterior_of(chain.stationary[:, None] * own) for chain, own in models]
    return Part(
        name,
        Side.of(Transport(backward, error)),
        Side.of(Transport(forward)),
        [np.any([(own > 0).any(axis=0) | (spread > 0) for own in emissions], axis=0)],
        emission=_steps(emissions, 0.0, spread),
        posterior=[] if spread else [Transport(each, error)],
        secret=Secret(state=state),
    )


def _steps(vertices: Sequence[Floats], error: float, weight: float) -> Steps:
    """The step between two rows, into which any distribution may be mixed with this weight."""
    return Contaminated(vertices, weight, error) if weight else Transport(vertices, error)
