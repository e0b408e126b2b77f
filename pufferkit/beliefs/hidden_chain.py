"""Series whose entries are a function of a Markov chain that nobody sees.

Hidden regimes, chains of longer memory and chains whose kernels change with the clock are all of
this form: regimes with their levels, the last entries together, the hour with the level.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats


@dataclass(frozen=True, eq=False)
class HiddenChain:
    """One distribution of a series: entry t shows ``states[shown[W_t]]``, W a Markov chain.

    Attributes
    ----------
    chain
        The chain W that is not seen.
    shown
        For each state of W, the place of the value that is seen.
    states
        The values that are seen.
    """

    chain: MarkovChain
    shown: tuple[int, ...]
    states: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.states)

    @classmethod
    def of_regimes(
        cls, transition: Floats, emission: Floats, states: Sequence[Hashable]
    ) -> HiddenChain:
        """Regimes that move by ``transition``, and levels drawn anew by rows of ``emission``.

        The hidden state is the regime with its level; it starts stationary.
        """
        size, levels = emission.shape
        rows = (transition[:, :, None] * emission[None, :, :]).reshape(size, size * levels)
        whole = np.repeat(rows, levels, axis=0)
        kept = np.flatnonzero(emission.ravel() > 0)
        matrix = whole[np.ix_(kept, kept)]
        matrix /= matrix.sum(axis=1, keepdims=True)
        chain = MarkovChain.steady(matrix, [divmod(int(n), levels) for n in kept])
        return cls(chain, tuple(int(n) % levels for n in kept), tuple(states))

    def sample(
        self, length: int, seed: int | np.random.Generator | None = None
    ) -> NDArray[np.intp]:
        """One path, as indices into ``states``. For simulation, never for noise."""
        path: NDArray[np.intp] = np.asarray(self.shown)[self.chain.sample(length, seed)]
        return path
