"""The attack on a local mechanism: tell two values of an entry apart from the sanitised series."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.audit.bounds import proven_epsilon
from pufferkit.audit.conditioned import Conditioned, conditioned, running
from pufferkit.audit.exact import known_codes
from pufferkit.audit.mechanisms import LocalMechanism, checked_local, local_beliefs, name_of
from pufferkit.audit.result import Audit
from pufferkit.audit.scores import Choice, choose
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

Symbols = NDArray[np.uint16]

Known = Mapping[int, Hashable]

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
    matrix = np.asarray(mechanism.matrix, dtype=np.float64)
    at = (length - 1) // 2 if entry is None else checks.whole("entry", entry, 1) - 1
    if at >= length:
        raise ValueError(f"entry: {entry} is beyond the {length} entries of the series")
    best: tuple[Choice, str, Known, _Secret, _Secret] | None = None
    for name, chain, _ in local_beliefs(mechanism, beliefs):
        for facts in _adversaries(mechanism, chain, length, at, known):
            fixed = known_codes(chain, length, facts)
            if at in fixed:
                raise ValueError(f"known: entry {at + 1} is the one attacked; attack another")
            pilot = min(_PILOT if known is not None or not facts else _SHORT_PILOT, trials)
            for one, other in combinations(_secrets(chain, length, at, fixed), 2):
                choice = choose(
                    _score(one, other, matrix, one.emitted(matrix, pilot, rng)),
                    _score(one, other, matrix, other.emitted(matrix, pilot, rng)),
                    trials,
                    confidence,
                )
                if best is None or choice.expected > best[0].expected:
                    best = (choice, name, facts, one, other)
    if best is None:
        raise NotApplicable(f"entry {at + 1} cannot take two values; there is no secret to tell")
    choice, name, facts, one, other = best
    first, second = (other, one) if choice.flipped else (one, other)
    hits = (
        choice.hits(_score(one, other, matrix, first.emitted(matrix, trials, rng))),
        choice.hits(_score(one, other, matrix, second.emitted(matrix, trials, rng))),
    )
    listed = ", ".join(f"X_{n} = {state!r}" for n, state in sorted(facts.items()))
    return Audit(
        mechanism=name_of(mechanism),
        promise=float(mechanism.epsilon),
        guarantee=str(getattr(mechanism, "guarantee", "local")),
        proven=proven_epsilon(*hits, trials, confidence),
        confidence=confidence,
        attacker=f"likelihood ratio of {length} sanitised entries by forward recursion",
        event=choice.described("P(z | {!r})", first.label, second.label),
        trials=trials,
        hits=hits,
        belief=name,
        entry=at + 1,
        secrets=(first.label, second.label),
        notes=((f"the attacker knows {listed}",) if facts else ())
        + ("symbols were drawn by the emission matrix",),
    )


def _adversaries(
    mechanism: Any, chain: MarkovChain, length: int, at: int, known: Known | None
) -> Iterator[Known]:
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
                continue  # cannot happen, so nobody knows it
            yield facts


class _Secret:
    """A value of the attacked entry, and the chain given it."""

    def __init__(self, label: Hashable, path: Conditioned) -> None:
        self.label, self.path = label, path

    def emitted(self, matrix: Floats, trials: int, rng: np.random.Generator) -> Symbols:
        """Sanitised series, one row each."""
        states = self.path.sample(trials, rng)
        sums = running(matrix)
        symbols = np.empty_like(states)
        for t in range(states.shape[1]):
            symbols[:, t] = (rng.random(trials)[:, None] >= sums[states[:, t]]).sum(axis=1)
        return symbols


def _secrets(chain: MarkovChain, length: int, at: int, fixed: Mapping[int, int]) -> list[_Secret]:
    found = []
    for code, label in enumerate(chain.states):
        try:
            found.append(_Secret(label, conditioned(chain, length, {**fixed, at: code})))
        except ValueError:
            continue  # a value that cannot happen is no secret
    return found


def _score(one: _Secret, other: _Secret, matrix: Floats, symbols: Symbols) -> Floats:
    high = log_likelihood(one.path, matrix, symbols)
    low = log_likelihood(other.path, matrix, symbols)
    with np.errstate(invalid="ignore"):
        score: Floats = high - low
    return np.nan_to_num(score, nan=0.0, posinf=np.inf, neginf=-np.inf)


def log_likelihood(path: Conditioned, matrix: Floats, symbols: Symbols) -> Floats:
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
