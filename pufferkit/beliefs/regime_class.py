"""Entries emitted by hidden regimes: asleep, at rest, busy; away, at home.

Regimes Z_t move by a transition matrix, an entry X_t is drawn from the row of its regime in the
emission matrix, and the regimes are not observed. One entry reveals the regime to an adversary who
is unsure of it, and the regime reveals the hour around the entry: this dependence is missing in a
single chain, and this class accounts for it. Within a regime entries are independent, or a chain
(*switching*: the emission is a matrix for each regime, and X_t is drawn from row X_{t-1} of the
matrix of Z_t).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.chain_class import plural
from pufferkit.beliefs.hidden_model import HiddenChain, HiddenModel
from pufferkit.beliefs.kernel_class import KernelClass, hidden_part
from pufferkit.beliefs.markov_chain import RAREST, MarkovChain, common_step, state_labels
from pufferkit.beliefs.provenance import Provenance
from pufferkit.beliefs.sojourns import lasting, middle_of, sojourns_of
from pufferkit.checks import Bools, Floats
from pufferkit.data.durations import seconds
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.curve.engine import Part, Parts
from pufferkit.shown import Matrix

MANY_LEVELS = 10
"""With more states than this, rows of the emission are not taken as known by default."""

CONTAMINATION = 0.1
"""Default contamination of the rows of the emission with many states."""

MOST_HIDDEN = 400
"""Most hidden states for which the curve is computed."""

Together = Literal["finite", "hull"]

SecretKind = Literal["entry", "regime"]
"""The secret: the value of an entry, or its hidden regime."""


@dataclass(frozen=True, eq=False, repr=False)
class RegimeClass(KernelClass):
    """Series whose entries are emitted by hidden regimes.

    Parameters
    ----------
    transition
        Matrix of the regimes, h by h. The regimes start stationary.
    emission
        Row z is the distribution of an entry in regime z: h by k. Or for each regime a matrix, h by
        k by k: then entries are a chain within a regime.
    states
        Labels of the k values of an entry.
    emissions
        Contamination of the rows of ``emission``: at every time any distribution may be mixed into
        each of them with this weight, and P(regime | entry) may be anything. By default 0, or 0.1
        with more than 10 states.
    secret
        The secret: the ``"entry"``, or its hidden ``"regime"``.
    slow
        Regimes whose mean stay is above this many entries are taken as known to the adversary,
        before, during and after the series or only during it: one who is unsure whether somebody is
        away for days learns it from any entry, whatever the noise (`pufferkit.beliefs.sojourns`).
    step
        Time from one entry to the next: seconds, or text such as ``"5m"``.

    Examples
    --------
    >>> from pufferkit import RegimeClass, influence_curve, histogram
    >>> theta = RegimeClass([[0.95, 0.05], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]])
    >>> theta.description
    '2 hidden regimes, 2 states, independent within a regime'
    >>> other = RegimeClass([[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]])
    >>> RegimeClass.of(theta, other).description
    '2 hidden regimes, 2 states, independent within a regime, each of 2'
    >>> RegimeClass.hull_of(theta, other).description
    '2 hidden regimes, 2 states, independent within a regime, hull of 2'
    >>> RegimeClass([[0.99, 0.01], [0.2, 0.8]], [[0.8, 0.2], [0.3, 0.7]], slow=50).description
    '2 hidden regimes, 2 states, independent within a regime, those above 50 entries known'
    """

    kind = "regimes"
    hides_states = True
    recorded = ("states", "models", "together", "emissions", "secret")
    if_known = ("step", "slow", "fitted_on")

    models: tuple[HiddenModel, ...]
    states: tuple[Hashable, ...]
    together: Together
    emissions: float
    secret: SecretKind
    slow: float | None
    fitted_on: tuple[Provenance, ...]

    def __init__(
        self,
        transition: ArrayLike,
        emission: ArrayLike,
        states: Iterable[Hashable] | None = None,
        *,
        emissions: float | None = None,
        secret: SecretKind = "entry",
        slow: float | None = None,
        fitted_on: Provenance | None = None,
        step: Any = None,
    ) -> None:
        model = _checked(transition, emission)
        self._set(
            (model,),
            emissions,
            slow,
            states=state_labels(states, model.levels),
            together="finite",
            secret=secret,
            fitted_on=() if fitted_on is None else (fitted_on,),
            step=seconds("step", step),
        )

    def _set(
        self,
        models: tuple[HiddenModel, ...],
        emissions: float | None,
        slow: float | None,
        **fields: Any,
    ) -> None:
        chained = models[0].within == "chain"
        if emissions is None:
            many = len(fields["states"]) > MANY_LEVELS and not chained
            emissions = CONTAMINATION if many else 0.0
        weight = checks.real("emissions", emissions)
        if not 0 <= weight < 1:
            raise ValueError(f"emissions: must be at least 0 and below 1, got {weight:g}")
        if weight and chained:
            raise ValueError(
                "emissions: a chain within the regimes is taken as known; leave emissions out"
            )
        if fields["secret"] not in ("entry", "regime"):
            raise ValueError(f"secret: must be 'entry' or 'regime', got {fields['secret']!r:.60}")
        if slow is not None:
            slow = checks.positive("slow", slow)
            _check_slow(models, slow, fields["together"], fields["secret"])
        checks.assign(self, models=models, emissions=weight, slow=slow, **fields)

    @classmethod
    def _made(cls, *given: Any, **fields: Any) -> RegimeClass:
        theta = object.__new__(cls)
        theta._set(*given, **fields)
        return theta

    @classmethod
    def of(cls, *members: RegimeClass) -> RegimeClass:  # type: ignore[override]
        """A finite class: each of these models, for the whole series."""
        return cls._several(members, "finite")

    @classmethod
    def hull_of(cls, *members: RegimeClass) -> RegimeClass:
        """Models between these, which may change at every step, with the same regimes in each.

        At every time the forward kernel of the regimes is a mixture of the given ones, the backward
        kernel of their reversals, the emission and P(regime | entry) likewise.
        """
        return cls._several(members, "hull")

    @classmethod
    def _several(cls, members: tuple[RegimeClass, ...], together: Together) -> RegimeClass:
        if not members:
            raise ValueError("members: a class needs at least one model, got none")
        for member in members:
            if not hasattr(member, "models"):
                raise ValueError(
                    f"members: must be RegimeClass objects, got {type(member).__name__}"
                )
        first = members[0]
        for name in ("states", "emissions", "secret", "slow"):
            values = [getattr(member, name) for member in members]
            if any(value != values[0] for value in values):
                raise ValueError(f"members: all must have the same {name}, got {values}")
        if any(len(member.models) > 1 and member.together != together for member in members):
            raise ValueError(
                "members: a finite class and a hull cannot be combined; name the models"
            )
        models = tuple(model for member in members for model in member.models)
        shapes = {model.emission.shape for model in models}
        if together == "hull" and len(shapes) > 1:
            raise ValueError(
                f"members: a hull needs the same regimes in each, got shapes {sorted(shapes)}"
            )
        sources = dict.fromkeys(source for member in members for source in member.fitted_on)
        return cls._made(
            models,
            first.emissions,
            first.slow,
            states=first.states,
            together=together,
            secret=first.secret,
            fitted_on=tuple(sources),
            step=common_step("members", [member.step for member in members]),
        )

    def replace(self, **changes: Any) -> RegimeClass:
        """The same models with another ``emissions``, ``secret`` or ``slow``."""
        known = {"emissions", "secret", "slow", "together", "fitted_on"}
        if not set(changes) <= known:
            raise ValueError(f"changes: can be {', '.join(sorted(known))}, got {sorted(changes)}")
        given = {name: changes.get(name, getattr(self, name)) for name in known}
        return self._made(self.models, states=self.states, step=self.step, **given)

    @property
    def switching(self) -> bool:
        """Whether entries are a Markov chain within a regime."""
        return self.models[0].within == "chain"

    @property
    def regimes(self) -> int:
        """Number of hidden regimes of the first model."""
        return len(self.models[0].transition)

    @property
    def description(self) -> str:
        within = "a chain" if self.switching else "independent"
        words = [f"{self.regimes} hidden regimes", plural(len(self.states))]
        words.append(f"{within} within a regime")
        if len(self.models) > 1:
            words.append(f"{'hull' if self.together == 'hull' else 'each'} of {len(self.models)}")
        if self.emissions:
            words.append(f"emissions known up to {self.emissions:g}")
        if self.secret == "regime":
            words.append("the regime is the secret")
        if self.slow is not None:
            words.append(f"those above {self.slow:g} entries known")
        return ", ".join(words) + self.private_mark

    @property
    def promise(self) -> str:
        what = "the regime behind each entry" if self.secret == "regime" else "each entry"
        if self.slow is not None:
            return (
                f"holds for {what}, against adversaries who know exactly when the slow regimes "
                f"(those that last longer than {self.slow:g} entries on average) are in force, "
                "before, during and after the series or only during it, and are unsure of the "
                "others"
            )
        return f"holds for {what}, also against adversaries who are unsure of the regime"

    @property
    def sources(self) -> tuple[Provenance, ...]:
        return self.fitted_on

    def matrices_shown(self) -> tuple[Matrix, ...]:
        labels = tuple(str(state) for state in self.states)
        shown = []
        for n, model in enumerate(self.models, 1):
            which = f" of model {n}" if len(self.models) > 1 else ""
            regimes = tuple(f"regime {z}" for z in range(1, model.regimes + 1))
            shown.append(Matrix(f"regimes{which}", regimes, regimes, model.transition))
            if model.within == "independent":
                entries = Matrix(f"entries{which}", regimes, labels, model.emission, "in", "entry")
                shown.append(entries)
                continue
            for z, own in zip(regimes, model.emission, strict=True):
                shown.append(Matrix.of(f"entries in {z}{which}", labels, own))
        return tuple(shown)

    @property
    def lists_models(self) -> bool:
        return self.together == "finite" or len(self.models) == 1

    @property
    def contamination(self) -> float:
        return self.emissions

    def parts(self, length: int) -> Sequence[Part]:
        """One for each model; of a hull, one for all of them, between the same hidden states."""
        if self.switching and self.secret == "regime":
            raise NotApplicable(
                "the regime can be the secret only if entries are independent within a regime"
            )
        if self.lists_models:
            makes = [partial(self._part, n) for n in range(len(self.models))]
            return Parts(makes)
        emitting = [self._emitting(model) for model in self.models]
        if self.switching and len({chain.states for chain, _ in emitting}) > 1:
            raise NotApplicable("models with different zeros have no common hidden states")
        state = self.secret == "regime"
        return [hidden_part("all models of the hull", emitting, self.emissions, state=state)]

    def _part(self, place: int) -> Part:
        model, name = self.models[place], f"model {place + 1} of {len(self.models)}"
        state, slow = self.secret == "regime", self._slow(model)
        part = hidden_part(name, [self._emitting(model)], self.emissions, state=state)
        if not slow.any():
            return part
        # Given when the slow regimes are in force only the fast ones are unknown, but all emit.
        whole = np.asarray((model.emission > 0).any(axis=0) | (self.emissions > 0))
        known = sojourns_of(model.transition, slow)
        return replace(part, left=None, right=None, possible=[whole], posterior=(), sojourns=known)

    def _emitting(self, model: HiddenModel) -> tuple[MarkovChain, Floats]:
        """The hidden chain of what an adversary is unsure of, and what its states emit."""
        if model.within == "chain":
            return HiddenChain.of_model(model, self.states).emitting
        unsure = self._unsure(model)
        return MarkovChain.steady(unsure.transition), unsure.emission

    def _slow(self, model: HiddenModel) -> Bools:
        """Which regimes of a model are known."""
        return lasting(model.transition, inf if self.slow is None else self.slow)

    def _unsure(self, model: HiddenModel) -> HiddenModel:
        """What an adversary is unsure of: with slow regimes, the middle of a long sojourn."""
        slow = self._slow(model)
        if not slow.any():
            return model
        return HiddenModel(middle_of(model.transition, slow), model.emission[~slow])

    def representatives(self) -> list[tuple[str, MarkovChain | HiddenChain]]:
        count = len(self.models)
        return [
            (f"model {n} of {count}", HiddenChain.of_model(self._unsure(model), self.states))
            for n, model in enumerate(self.models, 1)
        ]

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> RegimeClass:
        models = tuple(_checked(m["transition"], m["emission"]) for m in data["models"])
        if not models:
            raise ValueError("model: regimes need at least one model")
        if len({model.levels for model in models}) > 1:
            raise ValueError("model: all models of a class need the same states")
        if data["together"] not in ("finite", "hull"):
            raise ValueError(f"model: together is finite or hull, not {data['together']!r:.40}")
        sources = map(Provenance.from_dict, data.get("fitted_on", ()))
        return cls._made(
            models,
            data["emissions"],
            data.get("slow"),
            states=state_labels(data.get("states"), models[0].levels),
            together=data["together"],
            secret=data["secret"],
            fitted_on=tuple(source for source in sources if source is not None),
            step=seconds("step", data.get("step")),
        )


def _checked(transition: ArrayLike, emission: ArrayLike) -> HiddenModel:
    model = HiddenModel(np.array(transition), np.array(emission))
    if model.within == "chain" and model.regimes * model.levels > MOST_HIDDEN:
        raise ValueError(
            f"emission: {model.regimes} regimes and {model.levels} states make more than "
            f"{MOST_HIDDEN} hidden states; merge states, or take entries as independent within a "
            "regime"
        )
    chain = MarkovChain.steady(model.transition)
    if not chain.is_irreducible or chain.pi_min < RAREST:
        raise ValueError(
            "transition: the stationary probability of some regimes is zero or underflows; drop "
            "these regimes"
        )
    return model


def _check_slow(
    models: Sequence[HiddenModel], slow: float, together: Together, secret: SecretKind
) -> None:
    """Refuse what the theorem of sojourns does not cover."""
    if any(model.within == "chain" for model in models):
        raise NoTheorem("slow: is for entries that are independent within a regime; leave it out")
    if together == "hull":
        raise NoTheorem(
            "slow: given when the slow regimes are in force, kernels between these models are not "
            "between their kernels; use RegimeClass.of, or leave slow out"
        )
    if secret == "regime":
        raise NoTheorem("slow: is for secrets about entries; leave it out, or secret='regime'")
    for model in models:
        if lasting(model.transition, slow).all():
            raise ValueError(
                f"slow: every regime lasts longer than {slow:g} entries; raise it or leave it out"
            )
