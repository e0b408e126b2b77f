"""The audit of a local mechanism: all sanitised series of a short one, and an attack on a long one.

The exact loss compares every sanitised series. The attack distinguishes two values of an entry by
the likelihood ratio of the series, by the forward recursion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.audit.answer_model import Conditioned, check_steps, conditioned, cumulative_rows
from pufferkit.audit.exact_loss import furthest_apart
from pufferkit.audit.limits import ScoreEvent, choose, detectable_epsilon, proven_epsilon
from pufferkit.audit.report import (
    Audit,
    LocalMechanism,
    WorstCase,
    checked_local,
    local_beliefs,
    name_of,
    seen_through,
)
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.errors import NotApplicable

MOST_ENTRIES = 10
"""Longest sanitised series of which all are compared."""

MOST_POINTS = 200_000
"""Most sanitised series that are compared for each secret."""


def worst_response(
    mechanism: LocalMechanism, beliefs: Any, length: int | None, known: Mapping[int, Hashable]
) -> WorstCase:
    """Every sanitised series, by the forward recursion from each secret."""
    if length is None:
        raise ValueError(
            "length: is needed for a local mechanism; give the number of entries, at most 10"
        )
    length = checks.whole("length", length, 1)
    best: WorstCase | None = None
    complete = True
    for name, chain, whole in local_beliefs(mechanism, beliefs):
        complete = complete and whole
        symbols = mechanism.matrix.shape[1]
        if length > MOST_ENTRIES or symbols**length > MOST_POINTS:
            raise NotApplicable(
                f"{symbols} symbols and {length} entries make too many sanitised series to "
                f"compare; at most {MOST_ENTRIES} entries and {MOST_POINTS:,} series"
            )
        check_steps(chain, length)
        fixed = known_codes(chain, length, known)
        for entry in range(length):
            if entry in fixed:
                continue
            worst = _local_entry(chain, mechanism, length, entry, fixed)
            if worst is not None and (best is None or worst[0] > best.loss):
                best = WorstCase(worst[0], name, entry + 1, *worst[1:])
    if best is None:
        raise NotApplicable("no entry can take two values, so there is no secret to distinguish")
    return replace(best, complete=complete)


def _local_entry(
    chain: MarkovChain,
    mechanism: LocalMechanism,
    length: int,
    entry: int,
    fixed: Mapping[int, int],
) -> tuple[float, Hashable, Hashable, tuple[int, ...]] | None:
    guesses = _guesses(mechanism, chain, length, entry, fixed)
    if len(guesses) < 2:
        return None
    logs = []
    for guess in guesses:
        seen = guess.matrix.T
        table = guess.hidden.initial[None, :] * seen  # outputs so far, state now
        for own in guess.hidden.which:
            moved = table @ guess.hidden.matrices[own]
            table = (moved[:, None, :] * seen[None, :, :]).reshape(-1, seen.shape[1])
        with np.errstate(divide="ignore"):
            logs.append(np.log(table.sum(axis=1)))
    stacked = np.stack(logs)
    possible = np.flatnonzero(np.isfinite(stacked.max(axis=0)))
    loss, at, one, other, _ = furthest_apart(stacked[:, possible])
    output = np.unravel_index(possible[at], (mechanism.matrix.shape[1],) * length)
    return loss, guesses[one].label, guesses[other].label, tuple(int(z) for z in output)


def known_codes(chain: MarkovChain, length: int, known: Mapping[int, Hashable]) -> dict[int, int]:
    """{entry counted from 1: state} as {place from 0: code}."""
    codes = {}
    for entry, state in known.items():
        place = checks.whole("known", entry, 1) - 1
        if place >= length:
            raise ValueError(f"known: entry {entry} is beyond the {length} entries of the series")
        if state not in chain.states:
            raise ValueError(f"known: {state!r} is not a state; there are {list(chain.states)}")
        codes[place] = chain.states.index(state)
    return codes


Emitted = NDArray[np.uint16]

KnownEntries = Mapping[int, Hashable]

_PILOT, _SHORT_PILOT = 20_000, 5_000
_DISTANCES = (1, 2, 3, 5)


def audit_response(
    mechanism: LocalMechanism,
    beliefs: Any,
    trials: int,
    confidence: float,
    entry: Hashable | None,
    length: int,
    known: Mapping[int, Hashable] | None,
    rng: np.random.Generator,
) -> Audit:
    """See `pufferkit.audit.audit`."""
    checked_local(mechanism)
    promised = getattr(mechanism, "length", None)
    if promised is not None and length > promised:
        raise ValueError(
            f"length: {name_of(mechanism)} promises for at most {promised} entries, got {length}"
        )
    at = (length - 1) // 2 if entry is None else checks.whole("entry", entry, 1) - 1
    if at >= length:
        raise ValueError(f"entry: {entry} is beyond the {length} entries of the series")
    best: tuple[ScoreEvent, str, KnownEntries, _Guess, _Guess] | None = None
    chain_of = {name: chain for name, chain, _ in local_beliefs(mechanism, beliefs)}
    for name, chain in chain_of.items():
        for facts in _adversaries(mechanism, chain, length, at, known):
            fixed = known_codes(chain, length, facts)
            if at in fixed:
                raise ValueError(f"known: entry {at + 1} is the one attacked; attack another")
            pilot = min(_PILOT if known is not None or not facts else _SHORT_PILOT, trials)
            for one, other in combinations(_guesses(mechanism, chain, length, at, fixed), 2):
                choice = choose(
                    _score(one, other, one.emitted(pilot, rng)),
                    _score(one, other, other.emitted(pilot, rng)),
                    trials,
                    confidence,
                )
                if best is None or choice.expected > best[0].expected:
                    best = (choice, name, facts, one, other)
    if best is None:
        raise NotApplicable(
            f"entry {at + 1} cannot take two values, so there is no secret to distinguish"
        )
    choice, name, facts, one, other = best
    first, second = (other, one) if choice.flipped else (one, other)
    own = _sampler(mechanism, chain_of[name])
    drawn = [_measured(secret, own, trials, rng) for secret in (first, second)]
    hits = [choice.hits(_score(one, other, symbols)) for symbols, _ in drawn]
    by = "the mechanism itself" if all(real for _, real in drawn) else "the emission matrix"
    listed = ", ".join(f"X_{n} = {state!r}" for n, state in sorted(facts.items()))
    return Audit(
        mechanism=name_of(mechanism),
        promise=float(mechanism.epsilon),
        guarantee=str(getattr(mechanism, "guarantee", "local")),
        proven=proven_epsilon(hits[0], hits[1], trials, confidence),
        confidence=confidence,
        attacker=f"likelihood ratio of {length} sanitised entries by forward recursion",
        event=choice.described("P(z | {!r})", first.label, second.label),
        trials=trials,
        hits=(hits[0], hits[1]),
        belief=name,
        entry=at + 1,
        secrets=(first.label, second.label),
        notes=((f"the attacker knows {listed}",) if facts else ())
        + (f"symbols were drawn by {by}",),
        exact=_exact(mechanism, beliefs, length, known),
        detectable=detectable_epsilon(hits[0], trials, confidence, float(mechanism.epsilon)),
    )


def _exact(
    mechanism: LocalMechanism, beliefs: Any, length: int, known: KnownEntries | None
) -> WorstCase | None:
    """The loss of the matrix over as many first entries as can be compared, a lower bound."""
    symbols = np.shape(mechanism.matrix)[1]
    most = min(MOST_ENTRIES, int(math.log(MOST_POINTS) / math.log(max(2, symbols))), length)
    knowledge = {entry: state for entry, state in (known or {}).items() if entry <= most}
    try:
        worst = worst_response(mechanism, beliefs, most, knowledge)
    except NotApplicable:
        return None
    return replace(worst, complete=worst.complete and most == length and known is not None)


def _adversaries(
    mechanism: Any, chain: MarkovChain, length: int, at: int, known: KnownEntries | None
) -> Iterator[KnownEntries]:
    """What the attacker knows: as given; else nothing, and then entries on either side.

    The latter only where the promise is against every adversary, [B] Definition 4.
    """
    if known is not None:
        yield known
        return
    yield {}
    if getattr(mechanism, "adversary", None) != "every" or len(chain) > 3:
        return
    for distance in _DISTANCES:
        if at - distance < 0 or at + distance >= length:
            return
        for left, right in product(chain.states, repeat=2):
            facts = {at - distance + 1: left, at + distance + 1: right}
            try:
                conditioned(chain, length, known_codes(chain, length, facts))
            except ValueError:
                continue  # it has probability zero, so it cannot be known
            yield facts


class _Guess:
    """A value of the attacked entry, the chain given it, and what moves behind the symbols."""

    def __init__(self, label: Hashable, path: Conditioned, mechanism: LocalMechanism) -> None:
        self.label, self.path = label, path
        self.hidden, self.matrix = seen_through(mechanism, path)

    def emitted(self, trials: int, rng: np.random.Generator) -> Emitted:
        """Sanitised series, one row each, drawn from the distribution that is claimed."""
        states, sums = self.hidden.sample(trials, rng), cumulative_rows(self.matrix)
        symbols = np.empty_like(states)
        for t in range(states.shape[1]):
            symbols[:, t] = (rng.random(trials)[:, None] >= sums[states[:, t]]).sum(axis=1)
        return symbols


def _measured(
    secret: _Guess,
    own: Callable[[Emitted], Emitted | None],
    trials: int,
    rng: np.random.Generator,
) -> tuple[Emitted, bool]:
    """Fresh sanitised series, and whether the mechanism's own sampler made them."""
    symbols = own(secret.path.sample(trials, rng))
    return (secret.emitted(trials, rng), False) if symbols is None else (symbols, True)


def _sampler(mechanism: Any, chain: MarkovChain) -> Callable[[Emitted], Emitted | None]:
    """The mechanism's own ``sanitize`` on many series at once, where it has one and will run."""

    def sanitised(states: Emitted) -> Emitted | None:
        trials, length = states.shape
        series = Series(states.ravel().astype(np.intp), chain.states, (length,) * trials)
        try:
            answered = mechanism.sanitize(series)
        except ValueError:  # it refuses, say because it does not keep its promise
            return None
        if not isinstance(answered, Series) or answered.states != chain.states:
            return None
        return answered.codes.reshape(trials, length).astype(np.uint16)

    if not hasattr(mechanism, "sanitize") or np.shape(mechanism.matrix)[1] != len(chain):
        return lambda _: None
    return sanitised


def _guesses(
    mechanism: LocalMechanism,
    chain: MarkovChain,
    length: int,
    at: int,
    fixed: Mapping[int, int],
) -> list[_Guess]:
    """The values that an entry can take; one that cannot happen is no secret."""
    guesses = []
    for code, label in enumerate(chain.states):
        try:
            path = conditioned(chain, length, {**fixed, at: code})
            guesses.append(_Guess(label, path, mechanism))
        except ValueError:
            continue
    return guesses


def _score(one: _Guess, other: _Guess, symbols: Emitted) -> Floats:
    high = log_likelihood(one.hidden, one.matrix, symbols)
    low = log_likelihood(other.hidden, other.matrix, symbols)
    with np.errstate(invalid="ignore"):
        score: Floats = high - low
    return np.nan_to_num(score, nan=0.0, posinf=np.inf, neginf=-np.inf)


def log_likelihood(path: Conditioned, matrix: Floats, symbols: Emitted) -> Floats:
    """Log-probability of each row of symbols, by the forward recursion, scaled at each step."""
    total = np.zeros(len(symbols))
    belief = np.broadcast_to(path.initial, (len(symbols), len(path.initial)))
    for t in range(symbols.shape[1]):
        if t:
            belief = belief @ path.matrices[path.which[t - 1]]
        belief = belief * matrix[:, symbols[:, t]].T
        mass = belief.sum(axis=1)
        with np.errstate(divide="ignore"):
            total += np.log(mass)
        belief = belief / np.where(mass > 0, mass, 1.0)[:, None]
    return total
