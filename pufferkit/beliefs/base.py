"""The interface of every class of beliefs, so that callers need not know which class it is.

A class of chains builds the parts of the influence curve (``parts``); the engine that takes them
knows no class. A class says of which models it is made (``member``) and what its records are called
(``kind``), so a new class of beliefs is one module here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import PRIVATE_NOTE, Provenance
from pufferkit.errors import NotApplicable
from pufferkit.records import Asked, JsonRecord, plain, unsourced
from pufferkit.shown import Matrix, Shown

if TYPE_CHECKING:
    from pufferkit.beliefs.bayesian_network import BayesianNetwork
    from pufferkit.beliefs.finite_joint import FiniteJoint
    from pufferkit.beliefs.hidden_chain import HiddenChain
    from pufferkit.beliefs.secrets import Secrets
    from pufferkit.data.calendar import Calendar

KINDS: dict[str, Any] = {}
"""The class that reads each kind of record, filled as the classes are defined."""

_MADE_OF: dict[type, Any] = {}
"""The class that is made of models of each type."""


@dataclass(frozen=True, eq=False)
class Member:
    """One chain to check: a known distribution, or a matrix with any start (``any_start``)."""

    name: str
    chain: MarkovChain
    any_start: bool


@dataclass(frozen=True)
class Mixing:
    """The numbers of a chain that [Q] Lemma 4.8 uses.

    Attributes
    ----------
    pi_min
        Smallest stationary probability, [Q] (6).
    gap
        Eigengap as in [Q] (14).
    contraction
        Norm of P on functions of stationary mean zero; sqrt(1 - gap), or 1 - gap/2 if reversible.
    stationary
        Whether every chain starts in its stationary distribution.
    """

    pi_min: float
    gap: float
    contraction: float
    stationary: bool


@dataclass(frozen=True, eq=False)
class Distribution:
    """One distribution of a class that data can be drawn from.

    ``complete`` is false if the class contains more distributions than it lists. ``hidden`` are the
    secrets, if they are not the values of single entries.
    """

    name: str
    distribution: MarkovChain | HiddenChain | FiniteJoint | BayesianNetwork
    complete: bool = True
    hidden: Secrets | None = None

    @property
    def of_entries(self) -> bool:
        """Whether the secrets are the values of single entries."""
        return self.hidden is None


class Beliefs(Shown, JsonRecord, Asked, ABC):
    """A class Theta of distributions of the data: everything an adversary may believe."""

    states: tuple[Hashable, ...]
    """Every value an entry can take."""

    step: float | None = None
    """Seconds from one entry to the next; ``None`` without a clock, and for named entries."""

    kind: ClassVar[str]
    """The name of the class in a file."""
    member: ClassVar[Any]
    """The type of the models that make a class, where `as_beliefs` takes them instead of it."""
    member_kind: ClassVar[str]
    """The name of one such model in a file."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls)
        KINDS.update({own[name]: cls for name in ("kind", "member_kind") if name in own})
        if "member" in own:
            _MADE_OF[cls.member] = cls

    @property
    @abstractmethod
    def description(self) -> str:
        """One line for tables and reports."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""

    def asked(self) -> Any:
        """What the promise depends on, as plain data: the record of the class without provenance.

        Numbers that were fitted are what is asked, not the data or counts they were fitted on,
        which a file of beliefs need not hold.
        """
        return plain(unsourced(self.to_dict()))

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Beliefs:
        """The class that ``to_dict`` described; the record of one model is a class of one."""

    @abstractmethod
    def distributions(self) -> list[Distribution]:
        """The distributions of the class, one by one; for any start, many examples."""

    @property
    def entries(self) -> tuple[Hashable, ...] | None:
        """Names of the entries, in the order of the data; ``None`` for series of any length.

        Series have windows and segments; named entries are always released together.
        """
        return None

    def values(self, entry: Hashable) -> tuple[Hashable, ...]:
        """The values that one entry can take."""
        return self.states

    @property
    def largest_part(self) -> int | None:
        """Size of the largest set of dependent entries; these sets are independent in every belief.

        ``None`` for series, whose segments are these sets.
        """
        return None if self.entries is None else len(self.entries)

    def check_clock(self, calendar: Calendar | None, lengths: Sequence[int]) -> None:
        """Refuse data that are at another phase of the clock than the beliefs say."""

    @property
    def edges(self) -> tuple[tuple[Hashable, Hashable], ...] | None:
        """Pairs of directly dependent entries; ``None`` if the beliefs have no graph."""
        return None

    @property
    def sources(self) -> tuple[Provenance, ...]:
        """The data the class was fitted on, if known."""
        return ()

    @property
    def is_private(self) -> bool:
        """Whether the class was knowingly fitted to private data."""
        return any(source.private for source in self.sources)

    @property
    def private_mark(self) -> str:
        """The end of a description: a warning if the class was fitted to private data."""
        return ", FITTED TO PRIVATE DATA" if self.is_private else ""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the reader of any result under these beliefs must know."""
        return (PRIVATE_NOTE,) if self.is_private else ()

    @property
    def fixed_start(self) -> str | None:
        """The first belief with a fixed initial distribution; ``None`` if there is none."""
        return None

    def members(self) -> tuple[Member, ...]:
        """Chains whose worst case is that of the class; ``NotApplicable`` if none are known."""
        raise NotApplicable(f"a {self.description} contains no Markov chains")

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        """Bounds on the mixing of each chain; ``NotApplicable`` if some chain does not mix."""
        raise NotApplicable(f"a {self.description} contains no Markov chains")

    def any_start_members(self) -> tuple[Member, ...]:
        """The members with any start; empty if there are no chains."""
        return ()

    lists_matrices: ClassVar[bool] = True
    """Whether the matrices of ``members`` are all the matrices of the class."""

    @property
    def promise(self) -> str | None:
        """Against which adversaries the guarantee holds, in one sentence, where that is needed."""
        return None

    @property
    def loss_of_type(self) -> float | None:
        """The most that an entry reveals about which member of the class is in force.

        The guarantee against adversaries who know the member extends to adversaries who do not, for
        whom all members are equally likely, with this much more loss
        (`pufferkit.beliefs.type_uncertainty`). ``None`` if the class has no members to choose from.
        """
        return None

    @property
    def names_secrets(self) -> bool:
        """Whether the secrets differ from the values of single entries."""
        return False

    @property
    def hides_states(self) -> bool:
        """Whether an entry fails to separate past and future as far as the secrets are concerned.

        Entries may depend on hidden states, or secrets may be about several entries.
        """
        return False

    def matrices_shown(self) -> tuple[Matrix, ...]:
        """The matrices of the class by name, for `table_rows` and figures; may be empty."""
        return ()

    def table_rows(self) -> list[dict[str, Any]]:
        """The rows of the matrices, with their names if there are several."""
        every = self.matrices_shown()
        if len(every) == 1:
            return every[0].table_rows()
        return [{"of": one.name, **row} for one in every for row in one.table_rows()]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.description})"


def as_beliefs(beliefs: Any) -> Beliefs:
    """A class unchanged; a chain, network or joint distribution, or a list of them, as a class."""
    if isinstance(beliefs, Beliefs):
        return beliefs
    several = tuple(beliefs) if isinstance(beliefs, (list, tuple)) else (beliefs,)
    for member, made_of in _MADE_OF.items():
        if several and all(isinstance(one, member) for one in several):
            theta: Beliefs = made_of(several)
            return theta
    raise ValueError(
        f"beliefs: must be a MarkovChain, a ChainClass, a BayesianNetwork, a MarkovRandomField or "
        "a FiniteJoint, got "
        f"{type(beliefs).__name__}; for example ChainClass.of(MarkovChain.steady(matrix))"
    )


def beliefs_from_dict(data: Mapping[str, Any]) -> Beliefs:
    """The beliefs that ``to_dict`` described, whatever their kind; by default a chain."""
    kind = data.get("kind", "markov_chain")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"model: kind {kind!r} is unknown; it must be one of {', '.join(KINDS)}")
    theta: Beliefs = KINDS[kind].from_dict(data)
    return theta


def beliefs_from_json(text: str) -> Beliefs:
    """The beliefs that ``to_json`` wrote, whatever their kind."""
    return beliefs_from_dict(checks.json_object("model", text))
