"""The attack on a local mechanism: tell two values of an entry apart from the sanitised series."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.audit.bounds import proven_epsilon
from pufferkit.audit.conditioned import Conditioned, conditioned, running
from pufferkit.audit.exact import known_codes
from pufferkit.audit.mechanisms import LocalMechanism, local_beliefs, name_of
from pufferkit.audit.result import Audit
from pufferkit.audit.scores import Choice, choose
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

Symbols = NDArray[np.uint16]

_PILOT = 20_000


def audit_response(
    mechanism: LocalMechanism,
    beliefs: Any,
    trials: int,
    confidence: float,
    entry: Hashable | None,
    length: int,
    known: Mapping[int, Hashable],
    rng: np.random.Generator,
) -> Audit:
    """See `pufferkit.audit.audit`."""
    matrix = np.asarray(mechanism.matrix, dtype=np.float64)
    at = (length - 1) // 2 if entry is None else checks.whole("entry", entry, 1) - 1
    if at >= length:
        raise ValueError(f"entry: {entry} is beyond the {length} entries of the series")
    pilot = min(_PILOT, trials)
    best: tuple[Choice, str, _Secret, _Secret] | None = None
    for name, chain, _ in local_beliefs(mechanism, beliefs):
        fixed = known_codes(chain, length, known)
        if at in fixed:
            raise ValueError(f"known: entry {at + 1} is the one attacked; attack another")
        for one, other in combinations(_secrets(chain, length, at, fixed), 2):
            choice = choose(
                _score(one, other, matrix, one.emitted(matrix, pilot, rng)),
                _score(one, other, matrix, other.emitted(matrix, pilot, rng)),
                trials,
                confidence,
            )
            if best is None or choice.expected > best[0].expected:
                best = (choice, name, one, other)
    if best is None:
        raise NotApplicable(f"entry {at + 1} cannot take two values; there is no secret to tell")
    choice, name, one, other = best
    first, second = (other, one) if choice.flipped else (one, other)
    hits = (
        choice.hits(_score(one, other, matrix, first.emitted(matrix, trials, rng))),
        choice.hits(_score(one, other, matrix, second.emitted(matrix, trials, rng))),
    )
    ratio = f"P(z | {one.label!r}) / P(z | {other.label!r})"
    sense = "at most" if choice.flipped else "at least"
    listed = ", ".join(f"X_{n} = {state!r}" for n, state in sorted(known.items()))
    return Audit(
        mechanism=name_of(mechanism),
        promise=float(mechanism.epsilon),
        guarantee=str(getattr(mechanism, "guarantee", "local")),
        proven=proven_epsilon(*hits, trials, confidence),
        confidence=confidence,
        attacker=f"likelihood ratio of {length} sanitised entries by forward recursion",
        event=f"{ratio} is {sense} {np.exp(choice.threshold):.4g}",
        trials=trials,
        hits=hits,
        belief=name,
        entry=at + 1,
        secrets=(first.label, second.label),
        notes=((f"the attacker knows {listed}",) if known else ())
        + ("symbols were drawn by the emission matrix",),
    )


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
