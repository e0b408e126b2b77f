"""Stationary models with hidden regimes, as arrays: what can be computed from A and the emissions.

Regimes Z_t move by ``transition`` (A, h x h). Entries X_t in {0, ..., k-1} are

independent
    given the regimes: X_t has distribution E(Z_t, .); ``emission`` is E, h x k.
a chain
    within a regime: X_{t+1} has distribution P_z(X_t, .), z = Z_{t+1}; ``emission`` is h x k x k.

Both are functions of a chain W_t = (Z_t, X_t), whose matrix is

    K((z, x), (z', x')) = A(z, z') E(z', x')    or    A(z, z') P_{z'}(x, x').

Series whose entries are a function of a hidden Markov chain.

Hidden regimes, chains of longer memory and seasonal chains are all of this form: the hidden state
is the regime with the level, the tuple of the last entries, or the hour with the level.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats


def shares(weights: Floats, otherwise: Floats | None = None) -> Floats:
    """Rows (along the last axis) scaled to sum to one; rows of zeros become ``otherwise``."""
    totals = weights.sum(axis=-1, keepdims=True)
    if otherwise is not None and (totals == 0).any():
        return shares(np.where(totals > 0, weights, otherwise))
    scaled: Floats = weights / totals
    return scaled


def posterior_of(joint: Floats) -> Floats:
    """Pi(x, w) = P(W = w | X = x) of a joint table with a row for each w.

    A level that cannot occur has no posterior; it gets the distribution of W.
    """
    return checks.frozen(shares(joint.T, joint.sum(axis=1)))


Within = Literal["independent", "chain"]


@dataclass(frozen=True, eq=False)
class HiddenModel(checks.Frozen):
    """A stationary model with hidden regimes.

    Attributes
    ----------
    transition
        The matrix A of the regimes.
    emission
        Distributions of the entries: h x k (independent) or h x k x k (a chain within).
    log_likelihood
        If fitted: log-likelihood of the data it was fitted on, with a stationary start, in nats.
    rounds
        If fitted: the value after each round, log-likelihood with a free start plus the log-density
        of the parameters. It never decreases.

    Examples
    --------
    >>> model = HiddenModel([[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.4, 0.6]])
    >>> model.regime_distribution.round(3).tolist()
    [0.75, 0.25]
    >>> model.posterior.round(3).tolist()
    [[0.857, 0.143], [0.5, 0.5]]
    """

    transition: Floats
    emission: Floats
    log_likelihood: float = -inf
    rounds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        transition = checks.stochastic_matrix("transition", self.transition)
        object.__setattr__(self, "transition", transition)
        object.__setattr__(self, "emission", checked_emission(self.emission, len(transition)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: both matrices."""
        return {"transition": self.transition.tolist(), "emission": self.emission.tolist()}

    @property
    def within(self) -> Within:
        """Whether entries within a regime are ``"independent"`` or a ``"chain"``."""
        return "chain" if self.emission.ndim == 3 else "independent"

    @property
    def regimes(self) -> int:
        """Number h of regimes."""
        return len(self.transition)

    @property
    def levels(self) -> int:
        """Number k of levels an entry can have."""
        return int(self.emission.shape[-1])

    @cached_property
    def regime_distribution(self) -> Floats:
        """Stationary distribution mu of the regimes, mu A = mu."""
        return MarkovChain.steady(self.transition).stationary

    @cached_property
    def kernel(self) -> Floats:
        """The matrix K of W = (Z, X), hk x hk; state (z, x) has index z k + x."""
        size = self.regimes * self.levels
        rows = self.emission if self.emission.ndim == 3 else self.emission[:, None, :]
        rows = np.broadcast_to(rows, (self.regimes, self.levels, self.levels))
        kernel: Floats = np.einsum("zw,wxy->zxwy", self.transition, rows).reshape(size, size)
        return checks.frozen(kernel)

    @cached_property
    def joint(self) -> Floats:
        """Stationary distribution of (Z, X), h x k."""
        if self.within == "independent":
            return checks.frozen(self.regime_distribution[:, None] * self.emission)
        flat = MarkovChain.steady(self.kernel).stationary
        return checks.frozen(np.array(flat).reshape(self.regimes, self.levels))

    @cached_property
    def posterior(self) -> Floats:
        """Pi(x, z) = P(Z_t = z | X_t = x) in the stationary distribution, k x h."""
        return posterior_of(self.joint)

    def sample(
        self, length: int, seed: int | np.random.Generator | None = None
    ) -> NDArray[np.intp]:
        """Entries X_1, ..., X_T of one stationary path. For simulation, never for noise."""
        return HiddenChain.of_model(self, tuple(range(self.levels))).sample(length, seed)


def checked_emission(emission: ArrayLike, regimes: int) -> Floats:
    """Distributions of entries for this many regimes, h x k or h x k x k, read-only."""
    array = checks.numbers("emission", emission)
    square = array.ndim == 3 and array.shape[1] == array.shape[2]
    if not (array.ndim == 2 or square) or array.size == 0 or len(array) != regimes:
        raise ValueError(
            f"emission: must be {regimes} rows of probabilities, or {regimes} square matrices, one "
            f"for each regime; got shape {array.shape}"
        )
    rows = [
        checks.probability_vector("emission", row) for row in array.reshape(-1, array.shape[-1])
    ]
    return checks.frozen(np.array(rows).reshape(array.shape))


@dataclass(frozen=True, eq=False)
class HiddenChain:
    """One distribution of a series: entry t is ``states[shown[W_t]]``, W a Markov chain."""

    chain: MarkovChain
    """The hidden chain W."""
    shown: tuple[int, ...]
    """For each state of W, the index of the observed value."""
    states: tuple[Hashable, ...]
    """The observed values."""

    @classmethod
    def of_model(cls, model: HiddenModel, states: tuple[Hashable, ...]) -> HiddenChain:
        """The chain of pairs of regime and level, without pairs that never occur."""
        kept = np.flatnonzero(model.joint.ravel() > 0)
        labels = [divmod(int(n), model.levels) for n in kept]
        matrix = model.kernel[np.ix_(kept, kept)]
        chain = MarkovChain.steady(matrix / matrix.sum(axis=1, keepdims=True), labels)
        return cls(chain, tuple(x for _, x in labels), states)

    def __len__(self) -> int:
        return len(self.states)

    @property
    def emitting(self) -> tuple[MarkovChain, Floats]:
        """The hidden chain, and for each of its states the distribution of what is observed."""
        return self.chain, np.eye(len(self.states))[list(self.shown)]

    def sample(
        self, length: int, seed: int | np.random.Generator | None = None
    ) -> NDArray[np.intp]:
        """One path, as indices into ``states``. For simulation, never for noise."""
        path: NDArray[np.intp] = np.asarray(self.shown)[self.chain.sample(length, seed)]
        return path
