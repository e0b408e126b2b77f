"""Classes Theta of Markov chains: everything an adversary may believe about a series.

Five shapes, each with the constructor that users call:

====================  ==========================================================================
``ChainClass.of``         finitely many chains, each with its initial distribution
``ChainClass.any_start``  finitely many matrices, every initial law ([Q] C.4)
``ChainClass.binary``     every two-state chain with staying probabilities in an interval, any start
``ChainClass.mixing``     every chain that mixes at least this well ([Q] 4.4.2)
``ChainClass.around``     every chain in a confidence region of counted transitions, any start
====================  ==========================================================================

A mechanism asks a class for its ``members``: finitely many chains (or matrices with any start)
whose worst case is the worst case of the class.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.markov_chain import RAREST, MarkovChain, plain_labels, state_labels
from pufferkit.beliefs.provenance import PRIVATE_NOTE, Provenance
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable


@dataclass(frozen=True, eq=False)
class Member:
    """One chain to check: a known law, or a matrix with every initial law (``any_start``)."""

    name: str
    chain: MarkovChain
    any_start: bool


@dataclass(frozen=True)
class Mixing:
    """What [Q] Lemma 4.8 knows about chains.

    Attributes
    ----------
    pi_min
        Least stationary probability, [Q] (6).
    gap
        Eigengap as in [Q] (14).
    contraction
        Norm of P on functions of stationary mean zero; sqrt(1 - gap), or 1 - gap/2 if reversible.
    stationary
        Whether every chain starts in its stationary law.
    """

    pi_min: float
    gap: float
    contraction: float
    stationary: bool


class ChainClass(checks.Frozen, ABC):
    """A class Theta of Markov chains over the same states."""

    states: tuple[Hashable, ...]
    """Labels of the states, in the order of the rows of a matrix."""

    @staticmethod
    def of(*chains: MarkovChain) -> ChainClass:
        """A finite class: exactly these chains, each of them for the whole series.

        A series that moves by one matrix for a while and then by another (weekdays and weekends,
        day and night) is in no such class, though both matrices are: noise for a promise of 1 over
        8 entries can lose 1.19 then. Of the mechanisms only `group_dp` covers a chain that
        switches.
        """
        return FiniteClass(tuple(chains))

    @staticmethod
    def any_start(*transitions: ArrayLike, states: Iterable[Hashable] | None = None) -> ChainClass:
        """These transition matrices with every initial law, [Q] C.4."""
        return AnyStartClass(tuple(transitions), states)

    @staticmethod
    def binary(low: float, high: float, states: Iterable[Hashable] = (0, 1)) -> ChainClass:
        """Every two-state chain with both staying probabilities in [low, high], any start."""
        return BinaryClass(low, high, states)

    @staticmethod
    def mixing(
        states: int | Iterable[Hashable], pi_min: float, gap: float, reversible: bool = False
    ) -> ChainClass:
        """Every irreducible, aperiodic chain that mixes at least this well, any start.

        Parameters
        ----------
        states
            How many states, or their labels.
        pi_min
            Lower bound on every stationary probability, [Q] (6).
        gap
            Lower bound on the eigengap of [Q] (14): ``1 - lambda_2(P P*)``; for a class of
            reversible chains ``2 (1 - |lambda_2(P)|)``.
        reversible
            Whether every chain is reversible; says which of the two gaps was given.
        """
        return MixingClass(states, pi_min, gap, reversible)

    @staticmethod
    def around(
        counts: Any,
        confidence: float,
        states: Iterable[Hashable] | None = None,
        *,
        theta_from_private_data: bool = False,
    ) -> ChainClass:
        """Every chain in a confidence region of *public* transition counts, any start.

        With probability at least ``confidence`` over the draw of the data, the chain behind them
        lies in the region: simultaneous time-uniform intervals for all entries of the matrix
        (`pufferkit.beliefs.region_class`). Moves never seen stay possible, up to an upper bound.

        Parameters
        ----------
        counts
            A table of counts, row x how often x is followed by each state; or a `Series`, or the
            `Table` of `read_table`. Public or historical data, never the series to be released.
        confidence
            At least 0.5 and below 1.
        states
            Labels in the order of the rows; a `Series` and a `Table` have their own.
        theta_from_private_data
            Fit to private data all the same. Every artefact will say so.

        Examples
        --------
        >>> theta = ChainClass.around([[900, 100], [80, 120]], confidence=0.95)
        >>> theta.low.round(3).tolist()
        [[0.86, 0.068], [0.281, 0.472]]
        """
        from pufferkit.beliefs.estimation import around  # noqa: PLC0415  (it imports this module)

        return around(counts, confidence, states, theta_from_private_data)

    @property
    def sources(self) -> tuple[Provenance, ...]:
        """What the class was fitted on, where that is known."""
        return ()

    @property
    def is_private(self) -> bool:
        """Whether it was knowingly fitted to private data."""
        return any(source.private for source in self.sources)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of any result under these beliefs must know."""
        return (PRIVATE_NOTE,) if self.is_private else ()

    @property
    @abstractmethod
    def description(self) -> str:
        """One line for tables and reports."""

    @abstractmethod
    def members(self) -> tuple[Member, ...]:
        """Chains whose worst case is that of the class; ``NotApplicable`` if there are none."""

    @abstractmethod
    def mixing_bounds(self) -> tuple[Mixing, ...]:
        """What is known of the mixing of each chain; ``NotApplicable`` if some do not mix."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""

    def to_json(self) -> str:
        """One JSON object; floats keep every digit."""
        return json.dumps(self.to_dict())

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> ChainClass:
        """The class that ``to_dict`` described; a single chain is a class of one."""
        kind = data.get("kind", "markov_chain")
        if "states" in data:
            data = {**data, "states": plain_labels(data["states"])}
        builders: dict[str, Callable[[], ChainClass]] = {
            "markov_chain": lambda: FiniteClass((MarkovChain.from_dict(data),)),
            "finite": lambda: FiniteClass(tuple(MarkovChain.from_dict(c) for c in data["chains"])),
            "any_start": lambda: AnyStartClass(tuple(data["transitions"]), data.get("states")),
            "binary": lambda: BinaryClass(data["low"], data["high"], data.get("states", (0, 1))),
            "mixing": lambda: MixingClass(
                data["states"], data["pi_min"], data["gap"], data.get("reversible", False)
            ),
            "region": lambda: _region(data),
        }
        if not isinstance(kind, str) or kind not in builders:
            raise ValueError(f"model: kind {kind!r} is unknown; known are {', '.join(builders)}")
        try:
            return builders[kind]()
        except KeyError as missing:
            raise ValueError(f"model: a {kind} needs {missing}, which is not there") from None
        except TypeError as error:
            raise ValueError(f"model: this {kind} is malformed ({error})") from None

    @staticmethod
    def from_json(text: str) -> ChainClass:
        """The class that ``to_json`` wrote."""
        return ChainClass.from_dict(checks.json_object("model", text))

    def __repr__(self) -> str:
        return f"ChainClass({self.description})"


def as_chain_class(beliefs: object) -> ChainClass:
    """A class as it is; a single chain as a class of one."""
    if isinstance(beliefs, ChainClass):
        return beliefs
    if isinstance(beliefs, MarkovChain):
        return FiniteClass((beliefs,))
    raise ValueError(
        f"beliefs: must be a MarkovChain or a ChainClass, got {type(beliefs).__name__}; "
        "for example ChainClass.of(MarkovChain.steady(matrix))"
    )


@dataclass(frozen=True, eq=False, repr=False)
class FiniteClass(ChainClass):
    """See `ChainClass.of`."""

    chains: tuple[MarkovChain, ...]
    states: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.chains:
            raise ValueError("chains: a class needs at least one chain, got none")
        for chain in self.chains:
            if not isinstance(chain, MarkovChain):
                raise ValueError(f"chains: must be MarkovChain objects, got {type(chain).__name__}")
            if chain.states != self.chains[0].states:
                raise ValueError(
                    f"chains: all must have the same states in the same order; "
                    f"got {self.chains[0].states} and {chain.states}"
                )

        object.__setattr__(self, "states", self.chains[0].states)

    @property
    def description(self) -> str:
        count = len(self.chains)
        stationary = sum(chain.is_stationary for chain in self.chains)
        start = {
            count: "stationary start",
            0: "fixed initial distributions" if count > 1 else "fixed initial distribution",
        }.get(stationary, "mixed starts")
        noun = "1 chain" if count == 1 else f"{count} chains"
        private = ", FITTED TO PRIVATE DATA" if self.is_private else ""
        return f"{noun}, {_plural(len(self.states))}, {start}{private}"

    @property
    def sources(self) -> tuple[Provenance, ...]:
        found = [chain.fitted_on for chain in self.chains if chain.fitted_on is not None]
        return tuple(dict.fromkeys(found))

    def members(self) -> tuple[Member, ...]:
        count = len(self.chains)
        return tuple(
            Member(f"chain {n} of {count}", chain, any_start=False)
            for n, chain in enumerate(self.chains, 1)
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        return tuple(_mixing(m.name, m.chain, m.chain.is_stationary) for m in self.members())

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "finite", "chains": [chain.to_dict() for chain in self.chains]}


@dataclass(frozen=True, eq=False, repr=False)
class AnyStartClass(ChainClass):
    """See `ChainClass.any_start`."""

    transitions: tuple[Floats, ...]
    states: tuple[Hashable, ...]

    def __init__(
        self, transitions: Iterable[ArrayLike], states: Iterable[Hashable] | None = None
    ) -> None:
        matrices = tuple(
            checks.stochastic_matrix(f"transition {n}", t) for n, t in enumerate(transitions, 1)
        )
        if not matrices:
            raise ValueError("transitions: a class needs at least one matrix, got none")
        sizes = {len(t) for t in matrices}
        if len(sizes) > 1:
            raise ValueError(
                f"transitions: all must have the same states; got matrices of sizes {sorted(sizes)}"
            )
        object.__setattr__(self, "transitions", matrices)
        object.__setattr__(self, "states", state_labels(states, sizes.pop()))

    @property
    def description(self) -> str:
        count = len(self.transitions)
        noun = "1 matrix" if count == 1 else f"{count} matrices"
        return f"{noun}, {_plural(len(self.states))}, any start"

    def members(self) -> tuple[Member, ...]:
        count, law = len(self.transitions), np.full(len(self.states), 1 / len(self.states))
        return tuple(
            Member(f"matrix {n} of {count}, any start", MarkovChain(law, t, self.states), True)
            for n, t in enumerate(self.transitions, 1)
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        return tuple(_mixing(m.name, m.chain, stationary=False) for m in self.members())

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "any_start",
            "states": list(self.states),
            "transitions": [t.tolist() for t in self.transitions],
        }


@dataclass(frozen=True, eq=False, repr=False)
class BinaryClass(ChainClass):
    """See `ChainClass.binary`.

    The worst chain is at a corner. Write s = 1 - P(1|1), t = 1 - P(0|0), lambda = 1 - s - t, and
    R_n(x, x') for the largest log-ratio of rows x and x' of P^n. With any start, the max-influence
    of X_i on {X_{i-a}, X_{i+b}} is the larger, over the two orders of the states, of

        R_a(x, x') + R_b(x, x') + R_{i-1}(x', x),

    because the prior ratio turns columns of P^a into rows. Let m = |lambda|^n.

    - lambda >= 0: R_n(0, 1) = log (s + t m) / (s (1 - m)). It falls in s at sight; its derivative
      in t has the sign of 1 - m - n (1 - lambda) / lambda < 0. So it grows with both staying
      probabilities, and the corner (high, high) is the worst of this part.
    - lambda < 0: for odd n, R_n(0, 1) = log t (1 + m) / (t - s m), for even n as above with
      m = |lambda|^n. Both grow with s and t, because |lambda| = s + t - 1 is at most s and at most
      t. So the corner (low, low) is the worst of this part.

    Hence every quilt of every node has its supremum over the class at one of two matrices: the
    bound is certified by the formula, no grid is laid, and its distance to the supremum is 0.
    """

    low: float
    high: float
    states: tuple[Hashable, ...]

    def __init__(self, low: float, high: float, states: Iterable[Hashable] = (0, 1)) -> None:
        object.__setattr__(self, "low", checks.real("low", low))
        object.__setattr__(self, "high", checks.real("high", high))
        object.__setattr__(self, "states", state_labels(states, 2))
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(
                f"low, high: staying probabilities need 0 <= low <= high <= 1, "
                f"got low = {self.low:g}, high = {self.high:g}"
            )

    @property
    def description(self) -> str:
        return f"every two-state chain staying with probability {self.low:g} to {self.high:g}"

    def members(self) -> tuple[Member, ...]:
        return tuple(
            Member(
                f"staying probabilities ({stay:g}, {stay:g}), any start",
                MarkovChain([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], self.states),
                any_start=True,
            )
            for stay in dict.fromkeys((self.high, self.low))
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        slowest = max(abs(2 * self.high - 1), abs(2 * self.low - 1))
        if slowest >= 1:
            raise NotApplicable(
                f"the class holds chains that never mix (low = {self.low:g}, "
                f"high = {self.high:g}); keep 0 < low and high < 1"
            )
        # 1 - p is exact near 1, 2 - p - q is not; and what is known must not be too good.
        leave, other = 1 - self.high, 1 - self.low
        rarest = min(0.5, leave / (leave + other) * (1 - 1e-15))
        gap = 2 * (1 - slowest) * (1 - 1e-15)
        return (Mixing(rarest, gap, slowest, stationary=False),)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "binary",
            "low": self.low,
            "high": self.high,
            "states": list(self.states),
        }


@dataclass(frozen=True, eq=False, repr=False)
class MixingClass(ChainClass):
    """See `ChainClass.mixing`."""

    states: tuple[Hashable, ...]
    pi_min: float
    gap: float
    reversible: bool

    def __init__(
        self,
        states: int | Iterable[Hashable],
        pi_min: float,
        gap: float,
        reversible: bool = False,
    ) -> None:
        labels = (
            checks.distinct_states(states)
            if isinstance(states, Iterable)
            else tuple(range(checks.whole("states", states, 1)))
        )
        object.__setattr__(self, "states", labels)
        object.__setattr__(self, "pi_min", checks.positive("pi_min", pi_min))
        object.__setattr__(self, "gap", checks.positive("gap", gap))
        object.__setattr__(self, "reversible", checks.flag("reversible", reversible))
        if self.pi_min * len(labels) > 1 + 1e-12:
            raise ValueError(
                f"pi_min: {len(labels)} states cannot all have at least {self.pi_min:g}; "
                f"the most possible is {1 / len(labels):g}"
            )
        most = 2 if self.reversible else 1
        if self.gap > most:
            kind = "reversible" if self.reversible else "general"
            raise ValueError(
                f"gap: is at most {most} for {kind} chains by [Q] (14), got {self.gap:g}"
            )

    @property
    def description(self) -> str:
        kind = "reversible " if self.reversible else ""
        return (
            f"every {kind}chain on {_plural(len(self.states))} with pi_min >= {self.pi_min:g} "
            f"and gap >= {self.gap:g}"
        )

    def members(self) -> tuple[Member, ...]:
        raise NotApplicable(
            "the class is known only by pi_min and gap, so there is no matrix to compute with; "
            "use markov_quilt_approx, or name the matrices with ChainClass.any_start"
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        contraction = 1 - self.gap / 2 if self.reversible else math.sqrt(1 - self.gap)
        return (Mixing(self.pi_min, self.gap, contraction, stationary=False),)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "mixing",
            "states": list(self.states),
            "pi_min": self.pi_min,
            "gap": self.gap,
            "reversible": self.reversible,
        }


def _region(data: Mapping[str, Any]) -> ChainClass:
    from pufferkit.beliefs.region_class import RegionClass  # noqa: PLC0415  (it imports this module)

    return RegionClass.from_plain(data)


def _plural(count: int) -> str:
    return "1 state" if count == 1 else f"{count} states"


def _mixing(name: str, chain: MarkovChain, stationary: bool) -> Mixing:
    if not chain.is_irreducible:
        raise NotApplicable(
            f"{name}: the chain is reducible (some states never reach others), so [Q] Lemma 4.8 "
            "does not hold; use markov_quilt"
        )
    if chain.period > 1:
        raise NotApplicable(
            f"{name}: the chain is periodic (period {chain.period}), so [Q] Lemma 4.8 does not "
            "hold; use markov_quilt"
        )
    if chain.pi_min < RAREST:
        raise NotApplicable(
            f"{name}: some states are too rare for a float, so their mixing is not known; drop or "
            "merge them, or use markov_quilt"
        )
    gap = chain.reversible_eigengap if chain.is_reversible else chain.eigengap
    if gap <= 0:
        raise NotApplicable(
            f"{name}: the eigengap of P P* is 0, so [Q] Lemma 4.8 says nothing although the chain "
            "mixes; use markov_quilt"
        )
    return Mixing(chain.pi_min, gap, chain.contraction, stationary)
