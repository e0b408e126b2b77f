"""Chains of order m: the next entry depends on the last m entries.

On m-tuples the chain has one step of memory: (x_1..x_m) moves to (x_2..x_m, y). Tuples are numbered
with the oldest entry in front, sum_j x_j k^(m-j); the newest entry is the number modulo k.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import not_data, plural
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.kernel_class import KernelClass, hidden_part
from pufferkit.beliefs.markov_chain import RAREST, MarkovChain, state_labels
from pufferkit.beliefs.provenance import Provenance
from pufferkit.checks import Floats
from pufferkit.influence.curve.engine import Part
from pufferkit.shown import Matrix

MOST_TUPLES = 400
"""Most tuples of last entries for which the curve is computed."""


@dataclass(frozen=True, eq=False, repr=False)
class OrderClass(KernelClass):
    """See `ChainClass.order`."""

    kind = "order"
    recorded = ("states", "table")
    hides_states = True

    table: Floats
    """Distribution of the next entry given the last ones, the oldest first: an axis for each."""
    states: Any = None
    fitted_on: Provenance | None = None
    """The data the table was counted from."""

    def __post_init__(self) -> None:
        array = checks.numbers("table", self.table)
        size = array.shape[-1] if array.ndim else 0
        if array.ndim < 2 or set(array.shape) != {size}:
            raise ValueError(
                "table: must have an axis for each of the last entries and one for the next, all "
                f"of the same length; got shape {array.shape}"
            )
        if size ** (array.ndim - 1) > MOST_TUPLES:
            raise ValueError(
                f"table: {size} states and a memory of {array.ndim - 1} make "
                f"{size ** (array.ndim - 1):,} tuples of last entries, more than {MOST_TUPLES}; "
                "merge states or shorten the memory"
            )
        rows = [checks.probability_vector("table", row) for row in array.reshape(-1, size)]
        table = checks.frozen(np.array(rows).reshape(array.shape))
        checks.assign(self, table=table, states=state_labels(self.states, size))
        self.hidden_chain  # noqa: B018  (refuses tables without a unique steady state)

    @classmethod
    def built(cls, memory: int, table: Any, states: Iterable[Hashable] | None) -> OrderClass:
        """See `ChainClass.order`."""
        not_data("table", table, "order")
        theta = cls(table, states)
        if theta.memory != checks.whole("memory", memory, 1):
            raise ValueError(f"table: must have {memory + 1} axes for a memory of {memory}")
        return theta

    @property
    def memory(self) -> int:
        """How many entries the next one depends on."""
        return self.table.ndim - 1

    @cached_property
    def hidden_chain(self) -> HiddenChain:
        """The chain of tuples of the last entries; the entry is the newest of them."""
        size, memory = len(self.states), self.memory
        runs = list(product(range(size), repeat=memory))
        matrix = tuple_kernel(self.table)
        try:
            steady = MarkovChain.steady(matrix).stationary
        except ValueError as error:
            raise ValueError(f"table: must have a unique steady state ({error})") from None
        kept = np.flatnonzero(steady > 0)
        if steady[kept].min() < RAREST:
            raise ValueError(
                "table: the probability of some tuples underflows; smooth it, or merge states"
            )
        chain = MarkovChain.steady(matrix[np.ix_(kept, kept)], [runs[n] for n in kept])
        return HiddenChain(chain, tuple(runs[n][-1] for n in kept), self.states)

    @property
    def description(self) -> str:
        return (
            f"1 chain, {plural(len(self.states))}, memory of {self.memory} entries, stationary "
            f"start{self.private_mark}"
        )

    @property
    def promise(self) -> str:
        return f"holds against adversaries who know the chain, its memory of {self.memory} entries"

    def matrices_shown(self) -> tuple[Matrix, ...]:
        labels = tuple(str(state) for state in self.states)
        runs = tuple(", ".join(run) for run in product(labels, repeat=self.memory))
        return (Matrix("next", runs, labels, self.table.reshape(len(runs), len(labels))),)

    @property
    def lists_models(self) -> bool:
        return True

    def parts(self, length: int) -> Sequence[Part]:
        return [hidden_part("the chain", [self.hidden_chain.emitting])]

    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        return [("the chain", self.hidden_chain)]


def tuple_kernel(table: Floats) -> Floats:
    """The matrix K of the chain on m-tuples: (x_1..x_m) to (x_2..x_m, y) with P_m(y | x_1..x_m)."""
    size = table.shape[-1]
    count = table.size // size
    kernel = np.zeros((count, count))
    rows = np.arange(count)[:, None]
    kernel[rows, rows * size % count + np.arange(size)] = table.reshape(count, size)
    return checks.frozen(kernel)
