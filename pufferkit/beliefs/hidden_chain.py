"""Series whose entries are a function of a hidden Markov chain.

Hidden regimes, chains of longer memory and seasonal chains are all of this form: the hidden state
is the regime with the level, the tuple of the last entries, or the hour with the level.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.markov_chain import MarkovChain


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

    def sample(
        self, length: int, seed: int | np.random.Generator | None = None
    ) -> NDArray[np.intp]:
        """One path, as indices into ``states``. For simulation, never for noise."""
        path: NDArray[np.intp] = np.asarray(self.shown)[self.chain.sample(length, seed)]
        return path
