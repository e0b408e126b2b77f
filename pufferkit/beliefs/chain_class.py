"""Classes Theta of Markov chains: everything an adversary may believe about a series.

Each kind of class has a constructor that users call:

====================  ==========================================================================
``ChainClass.of``         finitely many chains, each with its initial distribution
``ChainClass.any_start``  finitely many matrices, every initial distribution ([Q] C.4)
``ChainClass.binary``     every two-state chain with staying probabilities in an interval, any start
``ChainClass.mixing``     every chain that mixes at least this well ([Q] 4.4.2)
``ChainClass.around``     every chain in a confidence region of counted transitions
``ChainClass.seasonal``   one chain whose kernel depends on the clock
``ChainClass.hull``       every chain, possibly changing over time, between given ones
``ChainClass.order``      one chain with a memory of several entries
``RegimeClass``           entries emitted by hidden regimes
``with_secrets``          any of these, with events about several entries as the secrets
====================  ==========================================================================

A mechanism asks a class for its ``members``: finitely many chains (or matrices with any start)
whose worst case is the worst case of the class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, Distribution, Member, Mixing
from pufferkit.beliefs.chain_parts import chain_parts
from pufferkit.beliefs.markov_chain import MarkovChain, at_step, labels
from pufferkit.beliefs.provenance import KINDS, Provenance
from pufferkit.beliefs.secrets import Runs, Secrets
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import Part
from pufferkit.records import written
from pufferkit.shown import Matrix

__all__ = [
    "ChainClass",
    "KernelBounds",
    "Member",
    "Mixing",
    "as_chain_class",
    "chain_kinds",
    "not_data",
    "plural",
]

_START_ODDS = (1e-3, 1e-2, 0.1, 1 / 3, 1.0, 3.0, 10.0, 1e2, 1e3)
_ONE = "markov_chain"

_READ: dict[str, Callable[[Any], Any]] = {
    "chains": lambda records: tuple(map(MarkovChain.from_dict, records)),
    "fitted_on": Provenance.from_dict,
}
"""How fields of records are read that are objects."""

KernelBounds = tuple[str, Floats, Floats, Floats | None]
"""Name, lower and upper bounds on a matrix, and the initial distribution or ``None`` for any."""


class ChainClass(checks.Frozen, Beliefs):
    """A class Theta of Markov chains over the same states.

    ``states`` are in the order of the rows of a matrix.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> weekday = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    >>> weekend = MarkovChain.steady([[0.95, 0.05], [0.4, 0.6]], states=["rest", "active"])
    >>> ChainClass.of(weekday, weekend)
    ChainClass(2 chains, 2 states, stationary start)
    >>> ChainClass.any_start(weekday.transition)
    ChainClass(1 matrix, 2 states, any start)
    >>> ChainClass.binary(0.4, 0.9)
    ChainClass(every two-state chain staying with probability 0.4 to 0.9)
    >>> ChainClass.mixing(5, pi_min=0.05, gap=0.3)
    ChainClass(every chain on 5 states with pi_min >= 0.05 and gap >= 0.3)
    >>> ChainClass.from_json(ChainClass.binary(0.4, 0.9).to_json())
    ChainClass(every two-state chain staying with probability 0.4 to 0.9)
    """

    names_matrices: ClassVar[bool] = True
    """Whether more is known of the matrices than how fast they mix."""

    homogeneous: ClassVar[bool] = True
    """Whether every member is a chain of entries that moves by one matrix throughout."""

    @property
    def where_worst(self) -> str | None:
        """Where the worst chain is, for classes that contain more chains than ``corners``."""
        return None

    @staticmethod
    def of(*chains: MarkovChain, step: Any = None) -> ChainClass:
        """A finite class: exactly these chains, each for the whole series.

        ``step``, here and below, is the time from one entry to the next: seconds, or text such as
        ``"5m"``. Chains and data that know theirs need none; data with another step are refused.

        A series that moves by one matrix for a while and then by another (weekdays and weekends,
        day and night) is in no such class, though both matrices are: noise calibrated to epsilon 1
        over 8 entries can then lose 1.19. `hull` covers a chain that switches between them.
        """
        return _made("finite", tuple(_timed(chain, step) for chain in chains))

    @staticmethod
    def any_start(
        *transitions: ArrayLike, states: Iterable[Hashable] | None = None, step: Any = None
    ) -> ChainClass:
        """These transition matrices with every initial distribution, [Q] C.4."""
        return _made("any_start", tuple(transitions), states).with_step(step)

    @staticmethod
    def binary(
        low: float, high: float, states: Iterable[Hashable] = (0, 1), *, step: Any = None
    ) -> ChainClass:
        """Every two-state chain with both staying probabilities in [low, high], any start."""
        return _made("binary", low, high, states).with_step(step)

    @staticmethod
    def mixing(
        states: int | Iterable[Hashable],
        pi_min: float,
        gap: float,
        reversible: bool = False,
        *,
        step: Any = None,
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
            Whether every chain is reversible; this decides which of the two gaps is meant.
        """
        return _made("mixing", states, pi_min, gap, reversible).with_step(step)

    @staticmethod
    def around(
        counts: Any,
        confidence: float,
        states: Iterable[Hashable] | None = None,
        *,
        sides: str = "both",
        step: Any = None,
        theta_from_private_data: bool = False,
    ) -> ChainClass:
        """Every chain in a confidence region of *public* transition counts.

        With probability at least ``confidence`` over the draw of the data, the chain that generated
        them lies in the region: simultaneous time-uniform intervals for all entries of the matrix
        (`pufferkit.beliefs.region_class`). Unseen transitions stay possible, up to an upper bound.
        The matrix may change within the region from entry to entry.

        Parameters
        ----------
        counts
            A table of counts, whose row x holds how often x is followed by each state; or a
            `Series`, or the `Table` of `read`. Public or historical data, never the series to
            be released.
        confidence
            At least 0.5 and below 1.
        states
            Labels in the order of the rows; a `Series` and a `Table` have their own.
        sides
            ``"both"``: the backward kernels lie in a region too, counted from the transitions read
            backwards; that needs data that can be taken as stationary, and the guarantee holds
            against adversaries who know the distribution in force. ``"any start"``: any initial
            distribution, and also adversaries who know single entries; several times the noise.
        theta_from_private_data
            Fit to private data nevertheless. Every result will be marked accordingly.

        Examples
        --------
        >>> theta = ChainClass.around([[900, 100], [80, 120]], confidence=0.95)
        >>> theta.low.round(3).tolist()
        [[0.858, 0.066], [0.275, 0.466]]
        """
        theta = _built("region", counts, confidence, states, theta_from_private_data, sides)
        return theta.with_step(step)

    @staticmethod
    def seasonal(
        kernels: Any,
        states: Iterable[Hashable] | None = None,
        period: Any = None,
        *,
        start: int | None = None,
        initial: ArrayLike | None = None,
        step: Any = None,
        origin: Any = None,
    ) -> ChainClass:
        """One known chain whose kernel depends on the clock, in its periodic steady state.

        Parameters
        ----------
        kernels
            A matrix for each slot (hour of the day, of the week), in order: an entry
            at slot s moves to the next one by kernel s, and after the last slot comes the first.
            `fit` counts them from public data.
        states
            Labels in the order of the rows.
        period
            Length of a period, in entries. If there are fewer matrices than entries, they are
            spread evenly.
        start
            Slot of the first entry of every series, counted from 0. By default it can be any slot,
            and the noise suffices for all of them.
        initial
            Initial distribution, for kernels given step by step: n kernels serve series of up to
            n + 1 entries. Longer series would start again, independently.
        origin
            With ``step``: a local time at which slot 0 begins, such as ``"2024-01-01 00:00"``. Data
            whose clock says another ``start`` are then refused. Fitted to tables with times it is
            a Monday at midnight.

        Examples
        --------
        >>> day, night = [[0.5, 0.5], [0.4, 0.6]], [[0.9, 0.1], [0.7, 0.3]]
        >>> ChainClass.seasonal([day, day, night], period=24).description
        '1 chain, 2 states, 24 slots of the clock, any first slot'
        """
        theta = _built("seasonal", kernels, states, period, start, initial, origin)
        theta = theta.with_step(step)
        if origin is not None and theta.step is None:
            raise ValueError("origin: needs the time between entries; give step=, such as '1h'")
        return theta

    @staticmethod
    def hull(
        *chains: Any,
        inflate: float = 0.0,
        backward: Iterable[ArrayLike] | None = None,
        step: Any = None,
    ) -> ChainClass:
        """Every chain between these, whose kernel may change at every step.

        At every time the kernel to the next entry is a mixture of the given matrices, and the
        kernel to the entry before a mixture of their time reversals; the weights are the same for
        all rows of a kernel and arbitrary at every time. So the guarantee holds for each of these
        chains, and for a schedule of them where both hold: a turn from one chain to another has
        other kernels backwards, and may lose more (1.11 at a promise of 1). The chain of a whole
        day is not such a mixture of its parts: add each person's pooled chain, and that of
        everybody.

        Parameters
        ----------
        chains
            The vertices; only their matrices are used. `fit` takes those of each part of each
            person's day, of each person and of everybody.
        inflate
            At every time each row may also contain any distribution with this weight. `fit`
            calibrates it on people held out.
        backward
            The backward kernels, if they were counted from data that are not stationary; by default
            the time reversals of the chains.

        Examples
        --------
        >>> one = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
        >>> other = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
        >>> ChainClass.hull(one, other).description
        'hull of 2 chains, 2 states, mixed at each time'
        """
        not_data("chains", chains, "hull")
        timed = tuple(_timed(chain, step) for chain in chains)
        counted = None if backward is None else tuple(backward)
        return _made("hull", timed, inflate, counted).with_step(step)

    @staticmethod
    def order(
        memory: int,
        table: Any,
        states: Iterable[Hashable] | None = None,
        *,
        step: Any = None,
    ) -> ChainClass:
        """One known chain whose next entry depends on the last ``memory`` entries, stationary.

        Parameters
        ----------
        memory
            Number of entries on which the next one depends.
        table
            Distribution of the next entry given the last ones: an axis for each of them, the oldest
            first, and one for the next. `fit` counts it from public data.
        states
            Labels in the order of the axes.

        Examples
        --------
        >>> table = [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]]
        >>> ChainClass.order(2, table).description
        '1 chain, 2 states, memory of 2 entries, stationary start'
        """
        return _built("order", memory, table, states).with_step(step)

    def with_secrets(self, *secrets: Any, entries: bool | None = None) -> ChainClass:
        """The same beliefs, with events about several entries as the secrets.

        Every function that takes beliefs takes the result: plans, releases, accounts, `verify`.

        Parameters
        ----------
        secrets
            One or more `Secrets`.
        entries
            Whether the value of every single entry is a secret as well. By default it is, unless
            named pairs of values are among the secrets.

        Examples
        --------
        >>> from pufferkit import MarkovChain, Secrets
        >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
        >>> ChainClass.of(chain).with_secrets(Secrets.throughout("rest", 6)).promise
        'hidden is any two values of any entry; and whether any 6 entries in a row are all rest \
within one segment, and nothing else'
        """
        theta: ChainClass = KINDS["events"].hiding(self, secrets, entries)
        return theta

    def with_step(self, step: Any) -> ChainClass:
        """The same beliefs, about entries this far apart: seconds, or text such as ``"5m"``.

        Beliefs whose step is known keep it: at another step they would be other beliefs.

        Examples
        --------
        >>> ChainClass.binary(0.1, 0.9).with_step("5m").step
        300.0
        """
        return at_step(self, step)

    @property
    def period(self) -> int:
        """After how many entries kernels repeat."""
        return 1

    @property
    def contamination(self) -> float:
        """With which weight any distribution may be mixed into a row of a kernel, at every step."""
        return 0.0

    @property
    def lists_models(self) -> bool:
        """Whether the class is given by models one by one, known up to contamination at most."""
        return self.lists_matrices

    @abstractmethod
    def members(self) -> tuple[Member, ...]:
        """Chains whose worst case is that of the class; ``NotApplicable`` if none are known."""

    @abstractmethod
    def mixing_bounds(self) -> tuple[Mixing, ...]:
        """Bounds on the mixing of each chain; ``NotApplicable`` if some chain does not mix."""

    recorded: ClassVar[tuple[str, ...]]
    """The fields of a record, which the constructor takes by the same names."""
    if_known: ClassVar[tuple[str, ...]] = ("step", "fitted_on")
    """Fields that a record leaves out where they are not known."""

    def to_dict(self) -> dict[str, Any]:
        known = [name for name in self.if_known if getattr(self, name, None) not in (None, ())]
        fields = {name: written(getattr(self, name)) for name in (*self.recorded, *known)}
        return {"kind": self.kind, **fields}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> ChainClass:
        """The class that ``to_dict`` described; labels are those of states already."""
        given = {
            name: _READ[name](data[name]) if name in _READ else data[name]
            for name, parameter in signature(cls).parameters.items()
            if name in data or parameter.default is parameter.empty
        }
        return cls(**given)

    @property
    def sources(self) -> tuple[Provenance, ...]:
        made_of = (self, *getattr(self, "chains", ()))
        fitted = [getattr(one, "fitted_on", None) for one in made_of]
        return tuple(dict.fromkeys(source for source in fitted if source is not None))

    def every_secret(self) -> tuple[Secrets, ...]:
        """All secrets: the value of any entry, unless other secrets are named."""
        return (Runs(1),)

    def check_length(self, longest: int) -> None:
        """Refuse series that are too short to contain a secret."""

    def corners(self) -> tuple[Member, ...] | None:
        return self.members()

    @property
    def influence(self) -> Any:
        """One bound on the max-influence of entries that holds for all chains of the class."""
        self.members()
        raise NotApplicable(f"no bound over all of {self.description} is known")

    def parts(self, length: int) -> Sequence[Part]:
        """What each member says about series of this length, for the influence curve."""
        return chain_parts(self.corners() or (), length)

    @property
    def fixed_start(self) -> str | None:
        fixed = (m.name for m in self.members() if not m.any_start and not m.chain.is_stationary)
        return next(fixed, None)

    def known_members(self, mechanism: str) -> tuple[Member, ...]:
        """The chains, for a mechanism that needs their distributions."""
        members = self.members()
        if any(member.any_start for member in members):
            raise NotApplicable(
                f"{mechanism} needs known distributions, and this class allows any start; name "
                "the starts with ChainClass.of, or use influence_curve"
            )
        if any(member.chain.has_underflow for member in members):
            raise NotApplicable("the probability of some states underflows; drop or merge them")
        return members

    def nearest(self, chain: MarkovChain, length: int) -> list[Member]:
        """Chains of the class close to this one, for series of ``length`` entries.

        In a class with any start they have the initial distribution of this chain.
        """
        raise NotApplicable(
            f"closeness: {self.description} is no list of chains; give a chain of it that is near "
            "the adversary's, in a class of its own"
        )

    def boxes(self) -> list[KernelBounds]:
        """Bounds on the entries of a matrix that together contain the class."""
        return [
            (
                m.name,
                m.chain.transition,
                m.chain.transition,
                None if m.any_start else m.chain.initial,
            )
            for m in self.members()
        ]

    def distributions(self) -> list[Distribution]:
        """The chains, one by one.

        In a class with any start, the start is one state, stationary, or split between two states
        at odds from 1 : 1000 to 1000 : 1.
        """
        try:
            members = self.members()
        except NotApplicable:
            raise NotApplicable(
                f"beliefs: {self.description} has no single chain to draw data from; pass one of "
                "its "
                "chains as beliefs, for example the one counted from the same public data (fit)"
            ) from None
        drawn = []
        for member in members:
            if not member.any_start:
                whole = not member.chain.has_underflow
                drawn.append(Distribution(member.name, member.chain, complete=whole))
                continue
            for words, start in _starts(member.chain):
                chain = MarkovChain(start, member.chain.transition, self.states)
                drawn.append(Distribution(f"{member.name}: {words}", chain, complete=False))
        return drawn

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> ChainClass:
        """The class that ``to_dict`` described; a single chain is a class of one."""
        kind = data.get("kind", _ONE)
        if "states" in data:
            data = {**data, "states": labels(data["states"])}
        if not isinstance(kind, str) or kind not in chain_kinds():
            known = ", ".join(chain_kinds())
            raise ValueError(f"model: kind {kind!r} is unknown; it must be one of {known}")
        try:
            if kind == _ONE:
                return ChainClass.of(MarkovChain.from_dict(data))
            theta: ChainClass = KINDS[kind].from_plain(data).with_step(data.get("step"))
        except KeyError as missing:
            raise ValueError(f"model: a {kind} needs {missing}, which is missing") from None
        except TypeError as error:
            raise ValueError(f"model: this {kind} is malformed ({error})") from None
        return theta

    def matrices_shown(self) -> tuple[Matrix, ...]:
        try:
            members = self.members()
        except NotApplicable:
            return ()
        return tuple(Matrix.of(m.name, self.states, m.chain.transition) for m in members)

    def __str__(self) -> str:
        return f"ChainClass({self.description})"


def as_chain_class(beliefs: object) -> ChainClass:
    """A class unchanged; a single chain as a class of one."""
    if isinstance(beliefs, ChainClass):
        return beliefs
    if isinstance(beliefs, MarkovChain):
        return ChainClass.of(beliefs)
    raise ValueError(
        f"beliefs: must be a MarkovChain or a ChainClass, got {type(beliefs).__name__}; "
        "for example ChainClass.of(MarkovChain.steady(matrix))"
    )


def chain_kinds() -> tuple[str, ...]:
    """The names of classes of chains in a file; a single chain is one of them."""
    return tuple(kind for kind, own in KINDS.items() if issubclass(own, ChainClass))


def plural(count: int, noun: str = "state") -> str:
    """A number of states, or of something else, in words."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def not_data(name: str, given: Any, kind: str) -> None:
    """Refuse data where matrices are asked for."""
    several = isinstance(given, (list, tuple)) and len(given) > 0
    if hasattr(given[0] if several else given, "transitions"):
        raise ValueError(
            f"{name}: are data, not matrices; fit(data, {kind!r}) counts beliefs from data"
        )


def _made(kind: str, *given: Any) -> ChainClass:
    theta: ChainClass = KINDS[kind](*given)
    return theta


def _built(kind: str, *given: Any) -> ChainClass:
    theta: ChainClass = KINDS[kind].built(*given)
    return theta


def _timed(given: Any, step: Any) -> Any:
    """A chain with this step; what is no chain is refused, or has its own step, elsewhere."""
    return given.with_step(step) if isinstance(given, MarkovChain) else given


def _starts(chain: MarkovChain) -> Iterator[tuple[str, Floats]]:
    size, names = len(chain), chain.states
    if len(chain.closed_classes) == 1:
        yield "stationary start", chain.stationary
    for x in range(size):
        yield f"starts in {names[x]}", np.eye(size)[x]
    pairs = list(combinations(range(size), 2))
    for x, y in pairs[:50]:
        for odds in _START_ODDS:
            distribution = np.zeros(size)
            distribution[x], distribution[y] = 1 / (1 + odds), odds / (1 + odds)
            yield f"starts in {names[x]} or {names[y]}, odds 1 : {odds:g}", distribution
