"""Randomised response as a mechanism: its emission matrix and its promise.

The promise is for the probabilities that are drawn (`pufferkit.noise.flip_threshold`): multiples of
2^-64, equal to the floats given here if those are at least 2^-11, and otherwise larger by less than
2^-64. With flip probabilities of at most 1/2, a larger one brings the two rows of the emission
matrix closer: log((1 - rho_0) / rho_1) and log((1 - rho_1) / rho_0) both fall as either rho grows,
and the loss rises with both. So the loss of the floats bounds the loss of what is drawn.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil, inf, log
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks, noise
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local.correlated import XorChain, check_bits, noise_move
from pufferkit.local.kary import event_level, matrix_loss
from pufferkit.local.losses import Loss, loss
from pufferkit.local.sanitizing import Sanitizer
from pufferkit.noise import WORD, local_answers
from pufferkit.records import JsonRecord, written
from pufferkit.rounding import round_up

FORMAT = "pufferkit-response/1"


class BaseResponse(JsonRecord, Sanitizer):
    """The part shared by all local mechanisms."""

    _called = "mechanism"

    kind: ClassVar[str]
    """As in files."""
    parameters: ClassVar[tuple[str, ...]]
    """The fields of the kind itself, beside the promise."""

    adversary: str
    expected_noise: float
    """Share of entries that are answered wrongly."""

    @property
    @abstractmethod
    def matrix(self) -> Floats:
        """P(answer z | state x), row x."""

    @property
    def memory(self) -> float:
        """Correlation of neighbouring flips; 0 if each entry has a coin of its own."""
        return 0.0

    @property
    def pair_matrix(self) -> Floats:
        """P(two neighbouring answers | the two states); rows and columns in order of pairs."""
        pairs: Floats = np.kron(self.matrix, self.matrix).astype(np.float64)
        return pairs

    @property
    def guarantee(self) -> str:
        """The promise as text."""
        who = (
            "who may know any other entries"
            if self.adversary == "every"
            else "who knows the chain and no entry; NOT against one who knows some"
        )
        size = "of any length" if self.length is None else f"of at most {self.length} entries"
        return f"Bayesian DP, epsilon {self.epsilon:g}, against an adversary {who}; series {size}"

    def _check_chain(self) -> int:
        """How many states there are; at least two."""
        if not isinstance(self.chain, MarkovChain):
            raise ValueError(f"chain: must be a MarkovChain, got {type(self.chain).__name__}")
        if len(self.chain) < 2:
            raise ValueError("chain: has one state, so there is nothing to hide")
        return len(self.chain)

    def _check_length(self) -> None:
        if self.length is not None:
            object.__setattr__(self, "length", checks.whole("length", self.length, 1))

    def _promise(self, actual: Loss, noise: float) -> None:
        """Set what follows. A promise may be 0 (answers say nothing) or infinite, as a loss can."""
        promised = actual if self.epsilon is None else self.epsilon
        if self.epsilon not in (None, 0, inf):
            promised = checks.privacy(promised)
        checks.assign(self, epsilon=float(promised), loss=actual, expected_noise=noise)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            **{name: written(getattr(self, name)) for name in self.parameters},
            "expected_noise": self.expected_noise,
            "epsilon": self.epsilon,
            "adversary": self.adversary,
            "length": self.length,
            "chain": self.chain.to_dict(),
            "loss": float(self.loss),
            "loss_method": self.loss.method,
            "guarantee": self.guarantee,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The mechanism that ``to_dict`` described; its loss is computed anew."""
        if data.get("format") != FORMAT or data.get("kind") != cls.kind:
            raise ValueError(
                f"mechanism: is {data.get('format')!r} of kind {data.get('kind')!r}, not "
                f"{FORMAT!r} of kind {cls.kind!r}; is this what to_json() wrote?"
            )
        wanted = ("chain", *cls.parameters, "epsilon", "adversary", "length")
        missing = [name for name in wanted if name not in data]
        if missing:
            raise ValueError(f"mechanism: the record lacks the fields {', '.join(missing)}")
        given = {name: data[name] for name in wanted}
        make: Any = cls
        mechanism: Self = make(**{**given, "chain": MarkovChain.from_dict(data["chain"])})
        return mechanism

    @property
    @abstractmethod
    def words(self) -> str:
        """What the mechanism does, in a few words."""

    def __str__(self) -> str:
        return (
            f"{self.words}, expected noise {self.expected_noise:.6g}\n  {self.guarantee}\n"
            f"  {self.loss}"
        )


@dataclass(frozen=True, eq=False)
class BitResponse(BaseResponse):
    """A mechanism for bits with two probabilities."""

    parameters = ("rho_0", "rho_1")

    chain: MarkovChain
    rho_0: float
    rho_1: float
    epsilon: float = None  # type: ignore[assignment]
    adversary: str = "every"
    length: int | None = None

    def __iter__(self) -> Iterator[float]:
        return iter((self.rho_0, self.rho_1))


@dataclass(frozen=True, eq=False)
class RandomizedResponse(BitResponse):
    """A bit is answered wrongly with probability rho_0 if it is state 0, rho_1 if it is state 1.

    Parameters
    ----------
    chain
        The belief; two states.
    rho_0, rho_1
        P(answer 1 | state 0) and P(answer 0 | state 1), at most 1/2 each.
    epsilon
        The promise; by default the loss itself. A mechanism whose loss exceeds its promise can be
        inspected, but it refuses to sanitise.
    adversary
        ``"every"`` or ``"ignorant"``, as in `loss`.
    length
        Longest series covered; ``None``: any length.

    Attributes
    ----------
    loss
        The certified loss.
    expected_noise
        Share of entries that are answered wrongly, in the long run.
    """

    kind = "randomized_response"

    def __post_init__(self) -> None:
        for name in ("rho_0", "rho_1"):
            rho = checks.real(name, getattr(self, name))
            if not 0 <= rho <= 0.5:
                raise ValueError(
                    f"{name}: must lie between 0 and 1/2, got {rho:g}; above 1/2 the answer would "
                    "be wrong more often than right"
                )
            object.__setattr__(self, name, rho)
        self._check_length()
        actual = loss(self.chain, self.rho_0, self.rho_1, self.length, self.adversary)
        weights = state_weights(self.chain, self.length)
        self._promise(actual, float(weights @ np.array([self.rho_0, self.rho_1])))

    @cached_property
    def matrix(self) -> Floats:
        """P(answer z | state x), row x."""
        return checks.frozen(np.array([[1 - self.rho_0, self.rho_0], [self.rho_1, 1 - self.rho_1]]))

    @property
    def entry_epsilon(self) -> float:
        """Largest log-ratio of an answer under the two states: event-level epsilon."""
        if min(self) == 0:
            return inf
        pairs = ((1 - self.rho_0, self.rho_1), (1 - self.rho_1, self.rho_0))
        return round_up(max(log(kept / moved) for kept, moved in pairs))

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Words of `pufferkit.noise` that flip each state."""
        return tuple(noise.flip_threshold(rho, 2) for rho in self)

    @property
    def words(self) -> str:
        return f"randomised response: rho_0 = {self.rho_0:.6g}, rho_1 = {self.rho_1:.6g}"


@dataclass(frozen=True, eq=False)
class KaryResponse(BaseResponse):
    """A state of k is kept, or answered as each of the other states with probability rho.

    Certified for any number of states and any chain that forgets: pair by pair of states and answer
    by answer (`pufferkit.local.kary`), or by the event-level epsilon where the states are
    many or the chain forgets slowly (`pufferkit.local.losses`).

    Parameters
    ----------
    chain
        The belief.
    rho
        Probability of each single wrong state, at most 1/k.
    epsilon, adversary, length
        As for `RandomizedResponse`.

    Attributes
    ----------
    loss
        A bound on the loss; ``loss.exact`` says whether it is reached.
    expected_noise
        Share of entries that are answered wrongly: (k - 1) rho.
    """

    kind = "kary_response"
    parameters = ("rho",)

    chain: MarkovChain
    rho: float
    epsilon: float = None  # type: ignore[assignment]
    adversary: str = "every"
    length: int | None = None

    def __post_init__(self) -> None:
        size, rho = self._check_chain(), checks.real("rho", self.rho)
        if not 0 <= rho <= 1 / size:
            raise ValueError(f"rho: must lie between 0 and 1/{size}, got {rho:g}")
        object.__setattr__(self, "rho", rho)
        self._check_length()
        actual = matrix_loss(self.chain, self.drawn_matrix, self.length, self.adversary)
        self._promise(actual, (size - 1) * rho)

    @cached_property
    def matrix(self) -> Floats:
        """P(answer z | state x), row x."""
        size = len(self.chain)
        matrix = np.full((size, size), self.rho)
        np.fill_diagonal(matrix, 1 - (size - 1) * self.rho)
        return checks.frozen(matrix)

    @property
    def drawn_matrix(self) -> Floats:
        """P(answer z | state x) with the probabilities that are drawn."""
        size, moved = len(self.chain), self.thresholds[0]
        matrix = np.full((size, size), moved / noise.WORD)
        np.fill_diagonal(matrix, (noise.WORD - (size - 1) * moved) / noise.WORD)
        return matrix

    @property
    def entry_epsilon(self) -> float:
        """The log of (1 - (k - 1) rho) / rho for the probabilities that are drawn, rounded up."""
        moved = self.thresholds[0]
        kept = noise.WORD - (len(self.chain) - 1) * moved
        if moved == 0:
            return inf
        return 0.0 if kept == moved else round_up(log(kept / moved))

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Words of `pufferkit.noise` that move each state to each other one."""
        return (noise.flip_threshold(self.rho, len(self.chain)),) * len(self.chain)

    @property
    def words(self) -> str:
        return f"{len(self.chain)}-ary randomised response: rho = {self.rho:.6g}"


def state_weights(chain: MarkovChain, length: int | None) -> Floats:
    """Share of each state: over a series of this length, or in the long run."""
    if chain.is_stationary:
        return chain.initial
    if length is None:
        return chain.stationary if len(chain.closed_classes) == 1 else chain.marginal(1 << 20)
    distribution, total = chain.initial, np.zeros(len(chain))
    steps = min(length, 10_000)
    for _ in range(steps):
        total += distribution
        distribution = distribution @ chain.transition
    shares: Floats = (total + (length - steps) * distribution) / length
    return shares


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
    def drawn(self) -> tuple[tuple[int, ...], ...]:
        """Of the 2^64 words, how many answer each state (row) by each (column)."""
        return tuple(_words(row) for row in self.rows)

    @cached_property
    def matrix(self) -> Floats:
        """P(answer z | state x), row x, as drawn."""
        drawn = [[float(Fraction(own, WORD)) for own in row] for row in self.drawn]
        return checks.frozen(np.array(drawn))

    @property
    def entry_epsilon(self) -> float:
        """Largest log-ratio of an answer under two states: event-level epsilon."""
        return event_level(self.matrix)

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Words that move each state at all."""
        return tuple(WORD - row[x] for x, row in enumerate(self.drawn))

    def answered(self, codes: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Answers to series, each entry on its own."""
        del lengths
        return local_answers.row_answers(codes, self.drawn)

    def answer_stream(self, codes: Iterator[int]) -> Iterator[int]:
        """The answer to each entry of one series, before the next is asked for."""
        return local_answers.row_answer_stream(codes, self.drawn)

    @property
    def words(self) -> str:
        return "response by a matrix"

    def __str__(self) -> str:
        rows = (
            f"  {label!s}: " + " ".join(f"{p:.4f}" for p in row)
            for label, row in zip(self.states, self.matrix, strict=True)
        )
        return "\n".join([super().__str__(), *rows])


def _words(row: Floats) -> tuple[int, ...]:
    """Whole words for each answer; the likeliest takes what rounding leaves."""
    words = [round(Fraction(float(p)) * WORD) for p in row]
    words[int(np.argmax(row))] += WORD - sum(words)
    return tuple(words)


@dataclass(frozen=True, eq=False)
class CorrelatedResponse(BitResponse):
    """Bits are answered wrongly in runs: the flips are a chain of their own ([B] 3.3).

    Parameters
    ----------
    chain
        The belief; two states, every move possible, any start.
    rho_0, rho_1
        P(a flip follows none) and P(none follows a flip), between 0 and 1. They are rounded up to
        multiples of 2^-64, which are drawn exactly; the promise is for these.
    epsilon, adversary, length
        As for `RandomizedResponse`.

    Attributes
    ----------
    loss
        The loss, against that adversary.
    expected_noise
        Share of entries that are answered wrongly: rho_0 / (rho_0 + rho_1).

    Examples
    --------
    >>> bits = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> made = CorrelatedResponse(bits, 0.0416, 0.4598)
    >>> print(f"{made.loss:.4f} with {made.expected_noise:.4f} of the answers wrong")
    4.9992 with 0.0830 of the answers wrong
    """

    kind = "correlated_response"

    def __post_init__(self) -> None:
        check_bits(self.chain)
        for name in ("rho_0", "rho_1"):
            rho = noise_move(name, getattr(self, name))
            object.__setattr__(self, name, float(Fraction(ceil(Fraction(rho) * WORD), WORD)))
        self._check_length()
        noise = XorChain(self.chain, self.rho_0, self.rho_1)
        self._promise(noise.loss(self.length, self.adversary), noise.expected_noise)

    @cached_property
    def matrix(self) -> Floats:
        """P(answer z | state x), row x: of one answer on its own."""
        flipped = self.expected_noise
        return checks.frozen(np.array([[1 - flipped, flipped], [flipped, 1 - flipped]]))

    @property
    def memory(self) -> float:
        """Correlation of neighbouring flips, 1 - rho_0 - rho_1."""
        return 1 - self.rho_0 - self.rho_1

    @cached_property
    def noise_states(self) -> tuple[Floats, Floats, Floats]:
        """Start and moves of the flips, and P(answer | state, flip) in rows (0, 0), (0, 1), ..."""
        flipped = self.expected_noise
        moves = np.array([[1 - self.rho_0, self.rho_0], [self.rho_1, 1 - self.rho_1]])
        return np.array([1 - flipped, flipped]), moves, np.eye(2)[[0, 1, 1, 0]]

    @cached_property
    def pair_matrix(self) -> Floats:
        """P(two neighbouring answers | the two states); rows and columns 00, 01, 10, 11."""
        start, moves, _ = self.noise_states
        pairs = start[:, None] * moves
        matrix = np.empty((4, 4))
        for (a, b), (c, d) in product(product((0, 1), repeat=2), repeat=2):
            matrix[2 * a + b, 2 * c + d] = pairs[a ^ c, b ^ d]
        return checks.frozen(matrix)

    @property
    def thresholds(self) -> tuple[int, int]:
        """Words of `pufferkit.noise.local_answers` that start and that end a run of flips."""
        return int(Fraction(self.rho_0) * WORD), int(Fraction(self.rho_1) * WORD)

    def answered(self, codes: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Answers to series of these lengths, each with noise of its own."""
        flips = local_answers.chain_flips(lengths, self.thresholds)
        answers: NDArray[Any] = codes ^ flips.astype(codes.dtype)
        return answers

    def answer_stream(self, codes: Iterator[int]) -> Iterator[int]:
        """The answer to each entry of one series, before the next is asked for."""
        flips = local_answers.flip_stream(self.thresholds)
        return (code ^ next(flips) for code in codes)

    @property
    def words(self) -> str:
        return f"correlated response: flips start with {self.rho_0:.6g}, end with {self.rho_1:.6g}"


Response = RandomizedResponse | KaryResponse | MatrixResponse | CorrelatedResponse

_KINDS: dict[str, type[Response]] = {own.kind: own for own in get_args(Response)}


def mechanism_from_json(text: str) -> Response:
    """A mechanism of any kind, from what its ``to_json`` wrote."""
    data = checks.json_object("mechanism", text)
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        raise ValueError(f"mechanism: kind is {data.get('kind')!r}; known are {', '.join(_KINDS)}")
    return kind.from_dict(data)
