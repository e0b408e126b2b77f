"""Beliefs whose secrets are not the values of single entries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.base import Distribution, Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.kernel_class import KernelClass, Kernels, Paths, reversed_kernel
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import Provenance
from pufferkit.beliefs.secrets import Automaton, Events, Pairs, Runs, Secrets, Sets
from pufferkit.checks import Floats
from pufferkit.data.calendar import Calendar
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.curve.engine import Part, Parts
from pufferkit.influence.curve.secret_losses import Secret
from pufferkit.rounding import EPS
from pufferkit.shown import Matrix

_RAREST = 1e-250
_MOST_WORK = 4_000_000


@dataclass(frozen=True, eq=False, repr=False)
class EventClass(KernelClass):
    """See `ChainClass.with_secrets`."""

    kind = "events"

    beliefs: ChainClass
    """The joint distributions of the entries."""
    hidden: tuple[Secrets, ...]
    """All secrets."""
    states: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.beliefs.names_secrets:
            raise ValueError(
                "secrets: these beliefs already have secrets; name all of them in one call"
            )
        for given in self.hidden:
            if not isinstance(given, Secrets):
                raise ValueError(
                    f"secrets: must be Secrets, such as Secrets.runs(6), got {type(given).__name__}"
                )
        if not self.hidden:
            raise ValueError("secrets: name at least one, such as Secrets.runs(6)")
        states = self.beliefs.states
        checks.assign(self, states=states, step=self.beliefs.step)
        object.__setattr__(self, "hidden", tuple(s.attached(states) for s in self.hidden))
        self._check_theorem()

    @property
    def secrets(self) -> Secrets | tuple[Secrets, ...]:
        """The secrets."""
        return self.hidden[0] if len(self.hidden) == 1 else self.hidden

    def with_step(self, step: Any) -> EventClass:
        return self if step is None else replace(self, beliefs=self.beliefs.with_step(step))

    def check_clock(self, calendar: Calendar | None, lengths: Sequence[int]) -> None:
        self.beliefs.check_clock(calendar, lengths)

    @property
    def description(self) -> str:
        return f"{self.beliefs.description}; hidden: {self._what}"

    @property
    def promise(self) -> str:
        within = " within one segment" if max(s.window for s in self.hidden) > 1 else ""
        base = self.beliefs.promise
        return f"hidden is {self._what}{within}, and nothing else" + (
            "" if base is None else f"; {base}"
        )

    @property
    def names_secrets(self) -> bool:
        return True

    @property
    def hides_states(self) -> bool:
        """Always true: events may extend over the ends of a window."""
        return True

    @property
    def fixed_start(self) -> str | None:  # type: ignore[override]
        return self.beliefs.fixed_start

    @property
    def sources(self) -> tuple[Provenance, ...]:
        return self.beliefs.sources

    @property
    def loss_of_type(self) -> float | None:
        return None

    def matrices_shown(self) -> tuple[Matrix, ...]:
        return self.beliefs.matrices_shown()

    def distributions(self) -> list[Distribution]:
        return [
            replace(own, name=f"{own.name}: {secrets.description}", hidden=secrets)
            for own in self.beliefs.distributions()
            for secrets in self.hidden
        ]

    def members(self) -> tuple[Member, ...]:
        raise NotApplicable(
            f"this mechanism covers single entries, not {self._what}; use influence_curve"
        )

    def known_chains(self) -> tuple[Member, ...]:
        """The chains of the beliefs, with stationary starts; ``NotApplicable`` if unknown."""
        if self.beliefs.kernels() or not _base_parts(self.beliefs):
            raise NotApplicable(
                "this mechanism covers secrets about several entries for known chains, not for "
                f"{self.beliefs.description}; use influence_curve"
            )
        return self.beliefs.corners() or ()

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        self.members()
        return ()

    @property
    def _what(self) -> str:
        return "; and ".join(s.description for s in self.hidden)

    def every_secret(self) -> tuple[Secrets, ...]:
        return self.hidden

    def nearest(self, chain: MarkovChain, length: int) -> list[Member]:
        return self.beliefs.nearest(chain, length)

    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        raise NotApplicable(
            "the distributions are those of the beliefs without these secrets; use those"
        )

    def check_length(self, longest: int) -> None:
        for one in self.hidden:
            if isinstance(one, Events) and one.window > longest:
                raise NotApplicable(
                    f"secrets: {one.description!r} needs {one.window} entries, but the longest "
                    f"series has {longest}, so nothing would be hidden; shorten the window"
                )

    def kernels(self) -> tuple[Kernels, ...]:
        return self._parts

    def corners(self) -> tuple[Member, ...] | None:
        return None if self.kernels() else self.beliefs.corners()

    def parts(self, length: int) -> Sequence[Part]:
        """The parts of the beliefs, once for each of the secrets."""
        if self.kernels():
            return super().parts(length)
        known, several = self.beliefs.parts(length), len(self.hidden) > 1

        def hiding(place: int, one: Secrets) -> Part:
            part = known[place]
            weights = one.parts(self.states) if isinstance(one, Pairs) else None
            name = f"{part.name}: {one.description}" if several else part.name
            return replace(part, name=name, secret=Secret(one.window, weights=weights))

        return Parts([partial(hiding, n, one) for n in range(len(known)) for one in self.hidden])

    def _check_theorem(self) -> None:
        """Refuse beliefs without a theorem; windows too long for the curve are left to it."""
        try:
            self.kernels()
        except TakesLong:
            self.known_chains()

    @cached_property
    def _parts(self) -> tuple[Kernels, ...]:
        """Empty where the sides of the curve bound values of windows, whatever the start."""
        several, known = len(self.hidden) > 1, _base_parts(self.beliefs)
        if not known and not all(isinstance(one, (Runs, Pairs)) for one in self.hidden):
            raise NotApplicable(
                "secrets: events and sets of entries need known chains with a stationary start; "
                f"here is {self.beliefs.description}. Secrets.runs hides every event about so many "
                "entries in a row, and MarkovChain.steady has a stationary start"
            )
        return tuple(
            self._part(part, initial, secrets, several)
            for part, initial in known
            for secrets in self.hidden
        )

    def _part(
        self, part: Kernels, initial: Floats | None, secrets: Secrets, several: bool
    ) -> Kernels:
        if part.emission is not None:
            raise NotApplicable(
                "secrets: events have a theorem only for entries that are a Markov chain; "
                f"here entries depend on hidden states ({self.beliefs.description})"
            )
        name = f"{part.name}: {secrets.description}" if several else part.name
        if isinstance(secrets, Runs):
            return replace(part, name=name, window=secrets.window)
        if isinstance(secrets, Pairs):
            return replace(part, name=name, parts=secrets.parts(self.states))
        if isinstance(secrets, Sets):
            if initial is None or not (part.forward[0][0] > 0).all():
                raise NotApplicable(
                    "secrets: sets of entries have a theorem for known chains without impossible "
                    f"transitions, not for {self.beliefs.description}; Secrets.runs hides entries "
                    "in a row"
                )
            return replace(part, name=name, sets=secrets.window)
        assert isinstance(secrets, Events)
        if initial is None:
            raise NotApplicable(
                f"secrets: the probability of an event is known for known chains only, not for "
                f"{self.beliefs.description}; Secrets.runs hides every event about that many "
                "entries"
            )
        automaton = secrets.automaton(self.states)
        paths = _paths(part.forward[0][0], initial, automaton)
        return replace(part, name=name, window=secrets.window, paths=paths)

    @classmethod
    def hiding(
        cls, theta: ChainClass, secrets: Sequence[Secrets], entries: bool | None
    ) -> EventClass:
        """See `ChainClass.with_secrets`."""
        named = any(isinstance(one, Pairs) for one in secrets)
        whole = any(isinstance(one, (Runs, Sets)) for one in secrets)
        if secrets and not whole and (not named if entries is None else entries):
            secrets = [Runs(1), *secrets]
        return cls(theta, tuple(secrets))

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> EventClass:
        given = data["secrets"]
        if not isinstance(given, list):
            raise TypeError("secrets must be a list")
        return cls(
            ChainClass.from_dict(data["beliefs"]), tuple(Secrets.from_dict(one) for one in given)
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "events",
            "beliefs": self.beliefs.to_dict(),
            "secrets": [one.to_dict() for one in self.hidden],
        }


def _base_parts(theta: ChainClass) -> list[tuple[Kernels, Floats | None]]:
    """The parts of the class, each with the distribution of an entry if that is known.

    Empty unless the start is known to be stationary.
    """
    parts = theta.kernels()
    if parts:
        return [(part, None) for part in parts]
    known: list[tuple[Kernels, Floats | None]] = []
    try:
        members = theta.corners() or ()
    except NotApplicable:
        return []
    for member in members:
        chain = member.chain
        if member.any_start or not chain.is_stationary or chain.has_underflow:
            return []
        initial = chain.initial
        backward = reversed_kernel(chain.transition, initial, initial)
        kernels = Kernels(member.name, ((chain.transition,),), ((backward,),), (initial > 0,))
        known.append((kernels, initial))
    return known if theta.lists_matrices else []


def _paths(transition: Floats, initial: Floats, automaton: Automaton) -> Paths:
    """The chain of entry and automaton through a window, read backwards.

    alpha_t(x, q) = P(X_t = x, automaton in q) for the t-th entry of the window, and
    P(x', q' | x, q) = alpha_{t-1}(x', q') P(x', x) [q' reads x and is in q] / alpha_t(x, q).
    """
    size = len(transition)
    entries: list[NDArray[np.intp]] = []
    kernels: list[Floats] = []
    alpha = np.zeros((int(automaton.moves[0].max()) + 1, size))
    alpha[automaton.moves[0][0], np.arange(size)] = initial
    rows = _reached(alpha)
    work = 0
    for moves in automaton.moves[1:]:
        entries.append(rows[1])
        before, alpha_before = rows, alpha
        alpha = np.zeros((int(moves.max()) + 1, size))
        joint = alpha_before[rows][:, None] * transition[rows[1]]
        ahead = moves[rows[0]]
        np.add.at(alpha, (ahead, np.arange(size)[None, :].repeat(len(ahead), axis=0)), joint)
        rows = _reached(alpha)
        place = np.full(alpha.shape, -1, dtype=np.intp)
        place[rows] = np.arange(len(rows[0]))
        kernel = np.zeros((len(rows[0]), len(before[0])))
        to = place[ahead, np.arange(size)[None, :]]
        source, x = np.nonzero(joint > 0)
        kernel[to[source, x], source] = joint[source, x]
        kernels.append(kernel / kernel.sum(axis=1, keepdims=True))
        work += kernel.size * len(kernel)
        if work > _MOST_WORK:
            raise TakesLong(
                f"secrets: a window of {len(automaton.moves)} entries has too many cases to "
                "compute "
                "in reasonable time; shorten the window or merge states, or ask for one sum with "
                "exact_sum or wasserstein"
            )
    entries.append(rows[1])
    ends = np.array(automaton.ends)[rows[0]]
    labels = [n for n in range(len(automaton.labels)) if (ends == n).any()]
    posterior = np.array([np.where(ends == n, alpha[rows], 0.0) for n in labels])
    posterior /= posterior.sum(axis=1, keepdims=True)
    error = 8 * (len(automaton.moves) + 1) * (alpha.size + 2) * EPS
    names = tuple(automaton.labels[n] for n in labels)
    return Paths(tuple(entries), tuple(kernels), posterior, names, error)


def _reached(alpha: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    rare = alpha[alpha > 0].min()
    if rare < _RAREST:
        raise TakesLong(
            "secrets: the probability of some case of the window underflows; shorten the window, "
            "or "
            "merge or drop rare states"
        )
    rows = np.nonzero(alpha > 0)
    return rows[0], rows[1]
