"""What every class of beliefs answers, so that nobody has to ask what it is.

The data behind the answers live here and in the modules of the classes. Answers that need the
mathematics of influence are functions there which dispatch on the class
(`pufferkit.influence.answers`). A new class of beliefs is one module here and its registrations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import PRIVATE_NOTE, Provenance
from pufferkit.errors import NotApplicable
from pufferkit.records import JsonRecord
from pufferkit.shown import Matrix, Shown

if TYPE_CHECKING:
    from pufferkit.beliefs.bayesian_network import BayesianNetwork
    from pufferkit.beliefs.finite_joint import FiniteJoint
    from pufferkit.beliefs.hidden_chain import HiddenChain
    from pufferkit.beliefs.secrets import Secrets


@dataclass(frozen=True, eq=False)
class Member:
    """One chain to check: a known distribution, or a matrix with any start (``any_start``)."""

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
        Whether every chain starts in its stationary distribution.
    """

    pi_min: float
    gap: float
    contraction: float
    stationary: bool


@dataclass(frozen=True, eq=False)
class Distribution:
    """One distribution of a class that data can be drawn from.

    ``complete`` is false where the class holds more than the distributions it lists. ``hidden`` are
    the secrets, where they are not the values of single entries.
    """

    name: str
    distribution: MarkovChain | HiddenChain | FiniteJoint | BayesianNetwork
    complete: bool = True
    hidden: Secrets | None = None

    @property
    def of_entries(self) -> bool:
        """Whether the secrets are the values of single entries."""
        return self.hidden is None


class Beliefs(Shown, JsonRecord, ABC):
    """A class Theta of distributions of the data: everything an adversary may believe."""

    states: tuple[Hashable, ...]
    """Every value an entry can take."""

    @property
    @abstractmethod
    def description(self) -> str:
        """One line for tables and reports."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""

    @abstractmethod
    def distributions(self) -> list[Distribution]:
        """The distributions of the class, one by one; with any start, many of them."""

    @property
    def entries(self) -> tuple[Hashable, ...] | None:
        """Names of the entries, in the order data are given in; ``None`` for series of any length.

        Series have windows and segments; named entries are released all together.
        """
        return None

    def values(self, entry: Hashable) -> tuple[Hashable, ...]:
        """The values that one entry can take."""
        return self.states

    @property
    def largest_part(self) -> int | None:
        """Most entries that hang together; all others are independent of them, whatever is true.

        ``None`` for series, whose segments are the parts.
        """
        return None if self.entries is None else len(self.entries)

    @property
    def edges(self) -> tuple[tuple[Hashable, Hashable], ...] | None:
        """Entries that sway one another directly; ``None`` where the beliefs are no graph."""
        return None

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
    def fixed_start(self) -> str | None:
        """The first belief that says where a series starts; ``None`` if none does."""
        return None

    def members(self) -> tuple[Member, ...]:
        """Chains whose worst case is that of the class; ``NotApplicable`` if there are none."""
        raise NotApplicable(f"there are no Markov chains in a {self.description}")

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        """What is known of the mixing of each chain; ``NotApplicable`` if some do not mix."""
        raise NotApplicable(f"there are no Markov chains in a {self.description}")

    def any_start_members(self) -> tuple[Member, ...]:
        """The members that may start anywhere; none where there are no chains."""
        return ()

    lists_matrices: ClassVar[bool] = True
    """Whether the matrices of ``members`` are all the matrices of the class."""

    @property
    def promise(self) -> str | None:
        """To whom the promise is made, in one sentence, where that has to be said."""
        return None

    @property
    def loss_of_type(self) -> float | None:
        """The most that an entry tells about which part of the class is in force.

        What is promised to those who know it holds for those who are unsure of it with so much more
        loss (`pufferkit.beliefs.transfer`), all parts being equally likely. ``None`` if the class
        has no parts.
        """
        return None

    @property
    def names_secrets(self) -> bool:
        """Whether something else is hidden than the values of single entries."""
        return False

    @property
    def hides_states(self) -> bool:
        """Whether entries do not separate past and future for what is hidden.

        Entries may depend on hidden states, or secrets may be about several entries.
        """
        return False

    def matrices_shown(self) -> tuple[Matrix, ...]:
        """Its probabilities by name, for `table_rows` and pictures; none where it names none."""
        return ()

    def table_rows(self) -> list[dict[str, Any]]:
        """The rows of its matrices, with the names of these if there are several."""
        every = self.matrices_shown()
        if len(every) == 1:
            return every[0].table_rows()
        return [{"of": one.name, **row} for one in every for row in one.table_rows()]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.description})"
