"""Beliefs whose secrets are not the values of single entries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.base import Distribution, Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.kernel_class import KernelClass, hull_part, reversed_kernel, rounding
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import Provenance
from pufferkit.beliefs.secrets import Automaton, Events, Pairs, Runs, Secrets, Sets
from pufferkit.checks import Floats
from pufferkit.data.calendar import Calendar
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.curve.engine import Part, Parts
from pufferkit.influence.curve.secret_losses import LabelLosses, PinnedSide, Secret
from pufferkit.rounding import EPS
from pufferkit.shown import Matrix

_RAREST = 1e-250
_MOST_WORK = 4_000_000

Cases = tuple[Sequence[NDArray[np.intp]], Sequence[Floats], Floats, float]
"""The chain of entry and automaton through a window, as `LabelLosses` takes it."""


@dataclass(frozen=True, eq=False, repr=False)
class EventClass(KernelClass):
    """See `ChainClass.with_secrets`."""

    kind = "events"
    names_secrets, hides_states = True, True  # events may extend over the ends of a window

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

    @cached_property
    def _known(self) -> tuple[Member, ...]:
        """The chains of the beliefs, if they are listed and start stationary."""
        theta = self.beliefs
        if not (theta.homogeneous and theta.lists_matrices):
            return ()
        try:
            members = theta.corners() or ()
        except NotApplicable:
            return ()
        steady = (not m.any_start and m.chain.is_stationary for m in members)
        return members if all(steady) and not any(m.chain.has_underflow for m in members) else ()

    def known_chains(self) -> tuple[Member, ...]:
        """The chains of the beliefs, with stationary starts; ``NotApplicable`` if unknown."""
        if not self._known:
            raise NotApplicable(
                "this mechanism covers secrets about several entries for known chains, not for "
                f"{self.beliefs.description}; use influence_curve"
            )
        return self._known

    @property
    def period(self) -> int:
        return self.beliefs.period

    @property
    def contamination(self) -> float:
        return self.beliefs.contamination

    @property
    def lists_models(self) -> bool:
        return self.beliefs.lists_models

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

    def parts(self, length: int) -> Sequence[Part]:
        """The parts of the beliefs, once for each of the secrets."""
        known = self._known and Parts([partial(_part_of, member) for member in self._known])
        base = known or self.beliefs.parts(length)
        each = [(n, one) for n in range(len(base)) for one in range(len(self.hidden))]
        return Parts([partial(self._hiding, base, n, one) for n, one in each])

    def _hiding(self, base: Sequence[Part], place: int, which: int) -> Part:
        """A part of the beliefs, with one of the secrets."""
        part, one = base[place], self.hidden[which]
        follows, secret = part.follows, Secret(one.window)
        if isinstance(one, Pairs):
            secret = Secret(weights=one.parts(self.states))
        elif isinstance(one, Sets) and one.window > 1:
            matrix, backward = _both_ways(self._known[place])
            left = PinnedSide(backward, rounding(len(matrix)))
            secret = Secret(sets=(left, PinnedSide(matrix, 0.0)), count=one.window)
        elif isinstance(one, Events):
            entries, kernels, posterior, error = self._cases[place, which]
            error += rounding(len(self.states))
            labels = LabelLosses(entries, kernels, posterior, error)
            follows, secret = (), Secret(one.window, labels)
        name = f"{part.name}: {one.description}" if len(self.hidden) > 1 else part.name
        return replace(part, name=name, follows=follows, secret=secret)

    def _check_theorem(self) -> None:
        """Refuse beliefs without a theorem; windows too long for the curve are left to it."""
        theta, others = self.beliefs, {type(one) for one in self.hidden} - {Runs, Pairs}
        if not theta.homogeneous and theta.hides_states:
            raise NotApplicable(
                "secrets: events have a theorem only for entries that are a Markov chain; "
                f"here entries depend on hidden states ({theta.description})"
            )
        if others and not self._known:
            raise NotApplicable(
                "secrets: events and sets of entries need known chains with a stationary start; "
                f"here is {theta.description}. Secrets.runs hides every event about so many "
                "entries in a row, and MarkovChain.steady has a stationary start"
            )
        if Sets in others and not all((m.chain.transition > 0).all() for m in self._known):
            raise NotApplicable(
                "secrets: sets of entries have a theorem for known chains without impossible "
                f"transitions, not for {theta.description}; Secrets.runs hides entries in a row"
            )
        with suppress(TakesLong):
            self._cases  # noqa: B018

    @cached_property
    def _cases(self) -> dict[tuple[int, int], Cases]:
        """What reads the label of a window, by the places of a chain and of an event."""
        return {
            (n, which): _cases(m.chain.transition, m.chain.initial, one.automaton(self.states))
            for n, m in enumerate(self._known)
            for which, one in enumerate(self.hidden)
            if isinstance(one, Events)
        }

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


def _both_ways(member: Member) -> tuple[Floats, Floats]:
    """The matrix of a stationary chain, and that of the chain read backwards."""
    chain = member.chain
    return chain.transition, reversed_kernel(chain.transition, chain.initial, chain.initial)


def _part_of(member: Member) -> Part:
    """The part of a stationary chain, one entry at a time."""
    forward, backward = _both_ways(member)
    return hull_part(member.name, [forward], [backward], member.chain.initial > 0)


def _cases(transition: Floats, initial: Floats, automaton: Automaton) -> Cases:
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
    return entries, kernels, posterior, error


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
