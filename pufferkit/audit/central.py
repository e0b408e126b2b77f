"""The attack on a release: draw data given each of two secrets, release them, tell them apart.

The attacker knows the belief, the query and the noise, so the best test is the likelihood ratio of
the output under the two secrets. Which entry, which two values and which threshold, a pilot with
cheap noise decides. Then fresh data are drawn and noise is added by the very sampler of a release,
and what is counted there alone enters the verdict.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import combinations
from typing import Any

import numpy as np

from pufferkit import noise
from pufferkit.audit.bounds import proven_epsilon
from pufferkit.audit.result import Audit
from pufferkit.audit.scores import Choice, choose, log_density
from pufferkit.audit.worlds import Answers, Believed, Law, World, believed, world
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration

MOST_BELIEFS = 40
"""Most laws of a class that are tried in the pilot."""

_PILOT_STEPS = 5e7
_MOST_CENTRES = 200
_MOST_VALUES = 8


def audit_release(
    calibration: Calibration,
    beliefs: Any,
    trials: int,
    confidence: float,
    entry: Hashable | None,
    rng: np.random.Generator,
) -> Audit:
    """See `pufferkit.audit.audit`."""
    laws = believed(beliefs)
    notes = []
    if len(laws) > MOST_BELIEFS:
        notes.append(f"{MOST_BELIEFS} of {len(laws)} beliefs were tried")
        places = np.linspace(0, len(laws) - 1, MOST_BELIEFS).astype(int)
        laws = [laws[n] for n in places]
    worlds = [(own, world(own.law, calibration.query)) for own in laws]
    work = sum(len(_entries(w, calibration, own, entry)) for own, w in worlds)
    steps = sum(calibration.query.lengths) * max(1, work)
    pilot = int(min(20_000, trials, max(2_000, _PILOT_STEPS / steps)))
    best: tuple[Choice, Believed, World, int, _Side, _Side] | None = None
    for own, place in worlds:
        for at in _entries(place, calibration, own, entry):
            found = _best_pair(place, at, calibration, pilot, trials, confidence, rng)
            if found is not None and (best is None or found[0].expected > best[0].expected):
                best = (found[0], own, place, at, *found[1:])
    if best is None:
        raise NotApplicable("no entry can take two values, so there is no secret to tell")
    choice, own, place, at, one, other = best

    def measured(secret: _Side) -> int:
        answers = place.draw(at, secret.code, trials, rng)
        outputs = _released(calibration, answers)
        return choice.hits(_score(one, other, outputs, calibration.scale))

    first, second = (other, one) if choice.flipped else (one, other)
    hits = measured(first), measured(second)
    known = "exact" if one.exact else "simulated"
    return Audit(
        mechanism=calibration.mechanism,
        promise=calibration.epsilon,
        guarantee=calibration.guarantee,
        proven=proven_epsilon(*hits, trials, confidence),
        confidence=confidence,
        attacker=f"likelihood ratio of the released {calibration.query.name}, {known} laws",
        event=choice.described("p(w | {!r})", first.label, second.label),
        trials=trials,
        hits=hits,
        belief=own.name,
        entry=place.entries[at],
        secrets=(first.label, second.label),
        notes=tuple(notes),
    )


class _Side:
    """One secret, the law of the answer that the attacker computes with, and pilot outputs."""

    def __init__(
        self,
        place: World,
        at: int,
        secret: tuple[int, Hashable],
        pilot: int,
        scale: float,
        rng: Any,
    ) -> None:
        self.code, self.label = secret
        answers = place.draw(at, self.code, 2 * pilot, rng)
        law = place.law(at, self.code)
        self.exact = law is not None
        self.law = law if law is not None else _empirical(answers, pilot)
        points = answers.points[answers.which[pilot:]]
        # Only a rehearsal: this noise is quick, not safe, and nothing of it is released.
        self.outputs = points + rng.laplace(scale=scale, size=points.shape)


def _empirical(answers: Answers, pilot: int) -> Law:
    """The law of the first half of the draws, on few enough centres to compute with."""
    which = answers.which[:pilot]
    if answers.points.shape[1] > 1:
        which = which[:_MOST_CENTRES]
    seen, counts = np.unique(which, return_counts=True)
    return Law(answers.points[seen], counts / counts.sum())


def _best_pair(
    place: World,
    at: int,
    calibration: Calibration,
    pilot: int,
    trials: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[Choice, _Side, _Side] | None:
    scale = calibration.scale
    values = place.values(at)[:_MOST_VALUES]
    sides = [_Side(place, at, secret, pilot, scale, rng) for secret in values]
    best: tuple[Choice, _Side, _Side] | None = None
    for one, other in combinations(sides, 2):
        choice = choose(
            _score(one, other, one.outputs, scale),
            _score(one, other, other.outputs, scale),
            trials,
            confidence,
        )
        if best is None or choice.expected > best[0].expected:
            best = (choice, one, other)
    return best


def _score(one: _Side, other: _Side, outputs: Floats, scale: float) -> Floats:
    return log_density(one.law, outputs, scale) - log_density(other.law, outputs, scale)


def _released(calibration: Calibration, answers: Answers) -> Floats:
    """Releases of these answers, as `Calibration.release` makes them, many in one call."""
    query = calibration.query
    noisy = noise.laplace_many(
        answers.distinct,
        answers.which.tolist(),
        calibration.scale,
        query.lipschitz,
        query.largest,
    )
    return np.array(noisy).reshape(-1, query.size)


def _entries(
    place: World, calibration: Calibration, own: Believed, entry: Hashable | None
) -> list[int]:
    """Entries to attack: all of a short series; else the one that binds, the middle, the ends."""
    count = len(place.entries)
    if entry is not None:
        if entry not in place.entries:
            raise ValueError(f"entry: {entry!r} is not an entry; they are 1 to {count} or named")
        return [place.entries.index(entry)]
    if count <= 10 and own.complete:
        return list(range(count))
    lengths, node = calibration.query.lengths, calibration.evidence.node
    begin = sum(lengths[: lengths.index(max(lengths))])
    chosen = {begin, begin + (max(lengths) - 1) // 2, begin + max(lengths) - 1}
    if node in place.entries:
        chosen.add(place.entries.index(node) + (begin if isinstance(node, int) else 0))
    return sorted(at for at in chosen if at < count)
