"""The interface of every class of beliefs, so that callers need not know which class it is.

A class of chains builds the parts of the influence curve (``parts``); the engine that takes them
knows no class. A class says of which models it is made (``member``) and what its records are called
(``kind``), so a new class of beliefs is one module here.

# Adversaries who are unsure

The guarantee over a class holds against adversaries who know the distribution in force. Let each
type z (a person, a path of regimes) have its distribution in the class, with loss epsilon, and let
an entry be informative about the type through P(z | X_i = x). Against an adversary who is unsure of
the type the loss is at most

    epsilon + max over z, x, x' of log P(z | X_i = x) / P(z | X_i = x'),

because P(o | x) = sum_z P(z | x) P(o | x, z) <= e^epsilon sum_z P(z | x) P(o | x', z). The second
term does not depend on the noise: it bounds the loss that noise for the class does not control.

# Data and beliefs

Data that the beliefs are not about are refused, before any noise. Beliefs are about entries some
time apart. A chain of five minutes says nothing about entries of one minute, which predict one
another far better: under it the noise would be too small. So data with another step are refused,
and where either has no clock the author of a release answers for it. The same holds for the phase
of a clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.graph import Node
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import (
    KINDS,
    PRIVATE_NOTE,
    Provenance,
    check_not_counted_from,
    check_not_fitted_on,
)
from pufferkit.data.durations import of_seconds
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.records import Asked, JsonRecord, plain, unsourced
from pufferkit.shown import Matrix, Shown, Statement

if TYPE_CHECKING:
    from pufferkit.beliefs.bayesian_network import BayesianNetwork
    from pufferkit.beliefs.finite_joint import FiniteJoint
    from pufferkit.beliefs.hidden_model import HiddenChain
    from pufferkit.beliefs.secrets import Secrets
    from pufferkit.data.calendar import Calendar


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

    def corners(self) -> tuple[Member, ...] | None:
        """As ``members``; ``None`` if only bounds over the whole class are known."""
        return None

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        """Bounds on the mixing of each chain; ``NotApplicable`` if some chain does not mix."""
        raise NotApplicable(f"a {self.description} contains no Markov chains")

    @property
    def named_members(self) -> tuple[Member, ...]:
        """The same; empty if none are known."""
        try:
            return self.members()
        except NotApplicable:
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
        (`pufferkit.beliefs.base`). ``None`` if the class has no members to choose from.
        """
        return None

    names_secrets: ClassVar[bool] = False
    """Whether the secrets differ from the values of single entries."""

    hides_states: ClassVar[bool] = False
    """Whether an entry fails to separate past and future as far as the secrets are concerned.

    Entries may depend on hidden states, or secrets may be about several entries.
    """

    def matrices_shown(self) -> tuple[Matrix, ...]:
        """The matrices of the class by name, for `table_rows` and figures; may be empty."""
        return ()

    def table_rows(self) -> list[dict[str, Any]]:
        """The rows of the matrices, with their names if there are several."""
        every = self.matrices_shown()
        if len(every) == 1:
            return every[0].table_rows()
        return [{"of": one.name, **row} for one in every for row in one.table_rows()]

    def statements(self) -> list[Statement]:
        """What the beliefs are, their chains, matrices or nodes, and their caveats."""
        from pufferkit.beliefs.words import statements  # noqa: PLC0415

        return statements(self)

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


def transfer_cap(joint: Any) -> float:
    """The most that an entry reveals about the type: max log P(z | x) / P(z | x').

    Parameters
    ----------
    joint
        P(z, x) up to a factor: a row for each type, a column for each state. States that cannot
        occur are left out. The result is infinite if one state rules out a type and another does
        not.

    Examples
    --------
    >>> round(transfer_cap([[0.45, 0.05], [0.25, 0.25]]), 4)  # log 0.833 / 0.357, log 0.643 / 0.167
    1.3499
    """
    table = checks.numbers("joint", joint)
    if table.ndim != 2 or (table < 0).any():
        raise ValueError(
            "joint: must be probabilities, a row for each type, a column for each state"
        )
    table = table[:, table.sum(axis=0) > 0]
    if not table.size:
        raise ValueError("joint: must have at least one state of positive probability")
    shares = table / table.sum(axis=0)
    largest, least = shares.max(axis=1), shares.min(axis=1)
    if ((least == 0) & (largest > 0)).any():
        return inf
    possible = largest > 0
    return float(np.log(largest[possible] / least[possible]).max())


def loss_if_unsure(beliefs: Beliefs | None, epsilon: float) -> float | None:
    """The most that an adversary loses who is unsure which member of the class is in force.

    ``None`` without beliefs, or if the class has no members to choose from.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> hull = pk.ChainClass.hull(week, pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]]))
    >>> loss_if_unsure(hull, 1.0) == 1 + hull.loss_of_type
    True
    """
    more = None if beliefs is None else beliefs.loss_of_type
    return None if more is None else epsilon + more


def check_series(beliefs: Beliefs, series: Series) -> None:
    """Refuse a series with another step or phase than the beliefs, and one they were fitted on."""
    check_step(beliefs.step, series.step, uneven=series.between is not None)
    beliefs.check_clock(series.calendar, series.lengths)
    check_not_fitted_on(beliefs.sources, series)


def check_table(beliefs: Beliefs, table: Table) -> None:
    """Refuse a table with another step or phase than the beliefs, and one they were fitted on."""
    check_step(beliefs.step, table.step, uneven=table.of_time and not table.is_regular)
    beliefs.check_clock(table.calendar, table.segment_lengths.tolist())
    check_not_counted_from(beliefs.sources, table.transitions, table.states)


def same_step(believed: float | None, step: float | None) -> bool:
    """Whether these steps can be one, in seconds; an unknown one can be any."""
    return believed is None or step is None or isclose(believed, step, rel_tol=1e-9)


def check_step(believed: float | None, step: float | None, *, uneven: bool = False) -> None:
    """Refuse data whose entries are not as far apart as those of the beliefs."""
    if believed is None or (same_step(believed, step) and not uneven):
        return
    grid = of_seconds(believed)
    apart = "unevenly spaced" if step is None else f"{of_seconds(step)} apart"
    again = "an even step" if step is None else of_seconds(step)
    raise ValueError(
        f"data: entries are {apart}, but the beliefs are about entries {grid} apart, so their "
        f"noise is not for these data; fit the beliefs at {again}, or put the data on the grid of "
        f"the beliefs (every={grid!r}, --every {grid})"
    )


def step_assumed(believed: float | None, step: float | None) -> str | None:
    """What is taken on trust about the time between entries; ``None`` if both are known."""
    if believed is not None and step is not None:
        return None
    if believed is None and step is None:
        return "neither beliefs nor data say how far apart entries are"
    if believed is None:
        return f"entries are {of_seconds(step)} apart, but the beliefs do not say theirs"
    return f"the beliefs are about entries {of_seconds(believed)} apart, but the data have no clock"


class ListedClass(Beliefs):
    """Finitely many models of the same entries, each an instance of ``member``.

    They are listed in the attribute that ``kind`` names.
    """

    called: ClassVar[str]
    """The word for one model."""

    @property
    def listed(self) -> tuple[Any, ...]:
        """The models."""
        models: tuple[Any, ...] = getattr(self, self.kind)
        return models

    def __post_init__(self) -> None:
        if not self.listed:
            raise ValueError(f"{self.kind}: a class needs at least one {self.called}, got none")
        for model in self.listed:
            if not isinstance(model, self.member):
                raise ValueError(
                    f"{self.kind}: must be {self.member.__name__} objects, "
                    f"got {type(model).__name__}"
                )
        self.check_alike()
        columns = [self.values_in(model, entry) for model in self.listed for entry in self.entries]
        every = dict.fromkeys(value for column in columns for value in column)
        checks.assign(self, states=tuple(every))

    @property
    @abstractmethod
    def entries(self) -> tuple[Hashable, ...]:
        """Names of the entries that all models are about."""

    @staticmethod
    @abstractmethod
    def values_in(model: Any, entry: Hashable) -> tuple[Hashable, ...]:
        """The values that an entry can take in one of the models."""

    @abstractmethod
    def check_alike(self) -> None:
        """Refuse models that are not about the same entries."""

    def distributions(self) -> list[Distribution]:
        return [
            Distribution(f"{self.called} {n} of {len(self.listed)}", model)
            for n, model in enumerate(self.listed, 1)
        ]

    def table_rows(self) -> list[dict[str, Any]]:
        if len(self.listed) == 1:
            rows: list[dict[str, Any]] = self.listed[0].table_rows()
            return rows
        return [
            {"of": f"{self.called} {n}", **row}
            for n, model in enumerate(self.listed, 1)
            for row in model.table_rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, self.kind: [model.to_dict() for model in self.listed]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The class that ``to_dict`` described; the record of one model is a class of one."""
        if data.get("kind") != cls.kind:
            records = [data]
        elif isinstance(data.get(cls.kind), list):
            records = data[cls.kind]
        else:
            raise ValueError(f"model: a class of {cls.called}s needs a list {cls.kind!r}")
        make: Any = cls
        made: Self = make(tuple(cls.member.from_dict(own) for own in records))
        return made


class GraphClass(ListedClass):
    """Models of the same nodes of a graph, each with the same values."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in the order of the data; those of networks have parents before children."""
        nodes: tuple[Node, ...] = self.listed[0].nodes
        return nodes

    @property
    def entries(self) -> tuple[Node, ...]:
        return self.nodes

    @staticmethod
    def values_in(model: Any, entry: Hashable) -> tuple[Hashable, ...]:
        values: tuple[Hashable, ...] = model.values[entry]
        return values

    def values(self, entry: Hashable) -> tuple[Hashable, ...]:
        return self.values_in(self.listed[0], entry)

    @property
    def description(self) -> str:
        count, first = len(self.listed), self.listed[0].description
        return str(first) if count == 1 else f"{count} sets of parameters of a {first}"
