"""A distribution of answers for each state, and the one with the fewest wrong answers.

The loss of an ordered pair of states is what its own answers say plus what both sides say. With
limits A(x, x') on the former,

    M(x, z) <= e^{A(x, x')} M(x', z)    for all answers z,

the fewest wrong answers are a linear programme in M. For two states A is the pair (A*, B*) of
`pufferkit.local.least_noise` and the programme is its polygon. For more states the limits are
searched: they are scaled until the loss of M, as certified by `pufferkit.local.kary_loss`, is
epsilon, then raised for pairs that lose less than others and lowered for the rest. No answer may be
likelier than the right one. Every M that is kept is private by its own certificate, so the search
can miss the best design, not the promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local.kary_loss import event_level, matrix_loss, pair_losses
from pufferkit.local.response import (
    BaseResponse,
    KaryResponse,
    state_weights,
)
from pufferkit.noise import WORD, local_answers
from pufferkit.rounding import last_passing

_MIXED = 1e-9
"""Share of answers that do not look at the state, so that no answer is impossible."""
_SHAPES = 12
_SCALED = 1e-5
_TEMPER = 0.7
_LEAST = 1e-3
_WIDER = 1.1


@dataclass(frozen=True, eq=False)
class MatrixResponse(checks.Frozen, BaseResponse):
    """A state is answered by a draw from its own row of a matrix.

    Parameters
    ----------
    chain
        The belief.
    rows
        P(answer z | state x), row x, answers in the order of the states.
    epsilon, adversary, length
        As for `RandomizedResponse`.

    Attributes
    ----------
    loss
        A bound on the loss; ``loss.exact`` says whether it is reached.
    expected_noise
        Share of entries that are answered wrongly, in the long run.
    matrix
        The rows rounded to multiples of 2^-64, which are drawn exactly; the promise is for these.

    Examples
    --------
    >>> steps = MarkovChain.steady([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    >>> near = [[0.6, 0.25, 0.15], [0.2, 0.6, 0.2], [0.15, 0.25, 0.6]]
    >>> print(MatrixResponse(steps, near, length=5).loss)
    loss = 3.4984 (adversary: every; length 5; all answers)
    """

    kind = "matrix_response"
    parameters = ("rows",)

    chain: MarkovChain
    rows: Floats
    epsilon: float = None  # type: ignore[assignment]
    adversary: str = "every"
    length: int | None = None

    def __post_init__(self) -> None:
        size, rows = self._check_chain(), checks.stochastic_matrix("rows", self.rows)
        if rows.shape != (size, size):
            raise ValueError(f"rows: must be {size} rows of {size} answers, as there are states")
        object.__setattr__(self, "rows", checks.frozen(rows))
        self._check_length()
        actual = matrix_loss(self.chain, self.matrix, self.length, self.adversary)
        shares = state_weights(self.chain, self.length)
        self._promise(actual, float(shares @ (1 - np.diagonal(self.matrix))))

    @cached_property
    def words(self) -> tuple[tuple[int, ...], ...]:
        """Of the 2^64 words, how many answer each state (row) by each (column)."""
        return tuple(_words(row) for row in self.rows)

    @cached_property
    def matrix(self) -> Floats:
        """P(answer z | state x), row x, as drawn."""
        drawn = [[float(Fraction(own, WORD)) for own in row] for row in self.words]
        return checks.frozen(np.array(drawn))

    @property
    def entry_epsilon(self) -> float:
        """Largest log-ratio of an answer under two states: event-level epsilon."""
        return event_level(self.matrix)

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Words that move each state at all."""
        return tuple(WORD - row[x] for x, row in enumerate(self.words))

    def answered(self, codes: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Answers to series, each entry on its own."""
        del lengths
        return local_answers.row_answers(codes, self.words)

    def answer_stream(self, codes: Iterator[int]) -> Iterator[int]:
        """The answer to each entry of one series, before the next is asked for."""
        return local_answers.row_answer_stream(codes, self.words)

    def __str__(self) -> str:
        rows = "\n".join(
            f"  {label!s}: " + " ".join(f"{p:.4f}" for p in row)
            for label, row in zip(self.states, self.matrix, strict=True)
        )
        return (
            f"response by a matrix, expected noise {self.expected_noise:.6g}\n{rows}\n"
            f"  {self.guarantee}\n  {self.loss}"
        )


def _words(row: Floats) -> tuple[int, ...]:
    """Whole words for each answer; the likeliest takes what rounding leaves."""
    words = [round(Fraction(float(p)) * WORD) for p in row]
    words[int(np.argmax(row))] += WORD - sum(words)
    return tuple(words)


def cheapest_matrix(symmetric: KaryResponse, epsilon: float) -> MatrixResponse:
    """The fewest wrong answers found, at most those of the symmetric response that is given.

    Shapes of the limits are tried against the ignorant adversary, who is quick to hide from; the
    best one is then scaled against the adversary of the promise.
    """
    chain, name, length = symmetric.chain, symmetric.adversary, symmetric.length
    sought, shares = symmetric.epsilon, state_weights(chain, length)

    def wrong(matrix: Floats) -> float:
        return float(shares @ (1 - np.diagonal(matrix)))

    def losses_of(matrix: Floats, every: bool) -> Floats | None:
        losses = pair_losses(chain, matrix, length, every, reach=False)
        return None if losses is None else losses[0]

    shape = np.full((len(chain), len(chain)), symmetric.entry_epsilon)
    best, fewest = shape, inf
    for _ in range(_SHAPES):
        losses = losses_of(fewest_wrong(shape, shares), every=False)
        if losses is None:
            break
        scaled = np.minimum(shape * sought / float(losses.max()), sought)
        share = wrong(fewest_wrong(scaled, shares))
        if share < fewest:
            best, fewest = scaled, share
        room = sought / np.maximum(losses, _LEAST * sought)
        np.fill_diagonal(room, 1.0)
        shape = np.minimum(shape * room**_TEMPER, sought)

    def margin(scale: float) -> float:
        losses = losses_of(fewest_wrong(best * scale, shares), name == "every")
        return -inf if losses is None else sought - float(losses.max())

    low, high = 1.0, _WIDER
    while margin(low) < 0 and low > _LEAST:
        low, high = low / _WIDER, low
    while margin(high) >= 0:
        low, high = high, high * _WIDER
    matrix = fewest_wrong(best * last_passing(margin, low, high, _SCALED), shares)
    if wrong(matrix) < symmetric.expected_noise:
        made = MatrixResponse(chain, matrix, epsilon, name, length)
        if made.loss <= sought:
            return made
    return MatrixResponse(chain, symmetric.drawn_matrix, epsilon, name, length)


def fewest_wrong(limits: ArrayLike, shares: Floats) -> Floats:
    """M with the fewest wrong answers, if M(x, z) <= e^limits(x, x') M(x', z) for all answers."""
    from scipy.optimize import linprog  # noqa: PLC0415  (slow to load)

    size = len(shares)
    limits = np.asarray(limits, dtype=float)
    rows = []
    for x, other in permutations(range(size), 2):
        for z in range(size):
            row = np.zeros((size, size))
            row[x, z], row[other, z] = 1.0, -np.exp(limits[x, other])
            rows.append(row.ravel())
        row = np.zeros((size, size))
        row[x, other], row[x, x] = 1.0, -1.0
        rows.append(row.ravel())
    solution = linprog(
        -np.diag(shares).ravel(),
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=np.kron(np.eye(size), np.ones(size)),
        b_eq=np.ones(size),
        bounds=(0, 1),
    )
    matrix: Floats = np.maximum(solution.x.reshape(size, size), 0.0)
    matrix = (1 - _MIXED) * matrix / matrix.sum(axis=1, keepdims=True) + _MIXED / size
    return matrix
