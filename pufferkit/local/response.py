"""Randomised response as a mechanism: its emission matrix and its promise.

The promise is for the probabilities that are drawn (`pufferkit.noise.flip_threshold`): multiples of
2^-64, equal to the floats given here if those are at least 2^-11, and otherwise larger by less than
2^-64. With flip probabilities of at most 1/2, a larger one brings the two rows of the emission
matrix closer: log((1 - rho_0) / rho_1) and log((1 - rho_1) / rho_0) both fall as either rho grows,
and the loss rises with both. So the loss of the floats bounds the loss of what is drawn.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from typing import Any, ClassVar, Self

import numpy as np

from pufferkit import checks, noise
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local.bayesian_loss import loss
from pufferkit.local.kary_loss import matrix_loss
from pufferkit.local.losses import Loss
from pufferkit.local.sanitizing import Sanitizer
from pufferkit.records import JsonRecord
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
        own = {name: getattr(self, name) for name in self.parameters}
        return {
            "format": FORMAT,
            "kind": self.kind,
            **{name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in own.items()},
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
        make: Any = cls
        mechanism: Self = make(**recorded_fields(data, cls.kind, cls.parameters))
        return mechanism


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

    def __str__(self) -> str:
        return (
            f"randomised response: rho_0 = {self.rho_0:.6g}, rho_1 = {self.rho_1:.6g}, expected "
            f"noise {self.expected_noise:.6g}\n  {self.guarantee}\n  {self.loss}"
        )


@dataclass(frozen=True, eq=False)
class KaryResponse(BaseResponse):
    """A state of k is kept, or answered as each of the other states with probability rho.

    Certified for any number of states and any chain that forgets: pair by pair of states and answer
    by answer (`pufferkit.local.kary_sides`), or by the event-level epsilon where the states are
    many or the chain forgets slowly (`pufferkit.local.diameter_bounds`).

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

    def __str__(self) -> str:
        return (
            f"{len(self.chain)}-ary randomised response: rho = {self.rho:.6g}, expected noise "
            f"{self.expected_noise:.6g}\n  {self.guarantee}\n  {self.loss}"
        )


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


def recorded_fields(data: Mapping[str, Any], kind: str, own: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a mechanism of this kind, from its record."""
    if data.get("format") != FORMAT or data.get("kind") != kind:
        raise ValueError(
            f"mechanism: is {data.get('format')!r} of kind {data.get('kind')!r}, not {FORMAT!r} of "
            f"kind {kind!r}; is this what to_json() wrote?"
        )
    wanted = ("chain", *own, "epsilon", "adversary", "length")
    missing = [name for name in wanted if name not in data]
    if missing:
        raise ValueError(f"mechanism: the record lacks the fields {', '.join(missing)}")
    fields = {name: data[name] for name in wanted}
    fields["chain"] = MarkovChain.from_dict(data["chain"])
    return fields
