"""Measured privacy against promised privacy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.audit.answer_model import distributions_of
from pufferkit.audit.exact_loss import MOST_ENTRIES, in_one_scale, worst_release
from pufferkit.audit.local_audit import audit_response, worst_response
from pufferkit.audit.release_audit import audit_release, worst_choice
from pufferkit.audit.report import Audit, LocalMechanism, WorstCase, belief_of
from pufferkit.audit.shaped_audit import audit_shaped, worst_shaped
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.mechanisms.calibration import Calibration, check_states
from pufferkit.mechanisms.influence_curve import loss_at
from pufferkit.mechanisms.shaped import ShapedCalibration
from pufferkit.rounding import round_up
from pufferkit.threads import one_thread

CONFIDENCE = 1 - 1e-6
"""A sound mechanism fails an audit by bad luck once in a million."""

USUAL_LENGTH = 30
"""Entries of a sanitised series under attack, as in [B] 4.1."""


@one_thread()
def audit(
    mechanism: Calibration | LocalMechanism,
    beliefs: Any = None,
    *,
    trials: int = 50_000,
    confidence: float = CONFIDENCE,
    entry: Hashable | None = None,
    length: int | None = None,
    known: Mapping[int, Hashable] | None = None,
    seed: int | np.random.Generator | None = None,
) -> Audit:
    """Attack a mechanism, and compare what the attack proves with what was promised.

    Data are drawn given each of two values of an entry and released or sanitised; the attacker
    decides between the two by their likelihood ratio. The two rates at which it names the first
    value, bounded by Clopper and Pearson, prove a lower bound on epsilon. A mechanism fails if that
    is above its promise. It passes otherwise, which proves nothing: a better attack may exist, and
    no attack can reach a promise that is not tight.

    Parameters
    ----------
    mechanism
        A `Calibration`, or a local mechanism (it has an emission ``matrix`` and an ``epsilon``).
    beliefs
        The beliefs of the adversary; by default those of the mechanism. Others are attacked with
        all the same, and the report says what they may learn, though the promise does not speak of
        them. For classes with any start, many initial distributions are tried.
    trials
        Releases for each of the two secrets.
    confidence
        The bound is wrong, or a sound mechanism fails, with probability at most 1 minus this.
    entry
        The entry to attack, counted from 1 over all segments, or its name. Left out: for releases
        the most promising one of a few, for local mechanisms the one in the middle.
    length, known
        For local mechanisms: entries in the series (30 as in [B] 4.1 if left out), and what the
        adversary knows of them, {entry counted from 1: state}. Left out: nothing, and if the
        mechanism has ``adversary="every"``, also pairs of entries around the attacked one.
    seed
        For the data that are drawn. Noise of releases cannot be seeded.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.1, 0.9]])
    >>> query = pk.count(1, lengths=6)
    >>> audit(pk.influence_curve(chain, query, epsilon=1), trials=5000).verdict
    'passed'
    >>> audit(pk.entry_dp(query, epsilon=1), chain, trials=5000).verdict
    'failed'
    """
    trials = checks.whole("trials", trials, 100)
    confidence = checks.confidence(confidence, 0.999)
    rng = np.random.default_rng(seed)
    if not isinstance(mechanism, Calibration):
        most = getattr(mechanism, "length", None) or USUAL_LENGTH
        length = min(USUAL_LENGTH, most) if length is None else checks.whole("length", length, 1)
        return audit_response(mechanism, beliefs, trials, confidence, entry, length, known, rng)
    if length is not None or known:
        raise ValueError("length, known: only for local mechanisms; a query has its own lengths")
    theta = as_beliefs(belief_of(mechanism, beliefs))
    check_states(theta, mechanism.query)
    attack: Any = audit_shaped if isinstance(mechanism, ShapedCalibration) else audit_release
    result: Audit = attack(mechanism, theta, trials, confidence, entry, rng)
    own = mechanism.beliefs
    if own is None or as_beliefs(own).digest == theta.digest:
        return result
    return replace(result, outside=_learned_outside(mechanism, theta))


def _learned_outside(calibration: Calibration, theta: Beliefs) -> float:
    """The loss to these beliefs, by their own influence curve."""
    query = calibration.query
    if query.chooses or calibration.scales is not None or calibration.spent_rows is not None:
        return inf
    try:
        return loss_at(theta, query, round_up(query.lipschitz / calibration.scale))
    except (NotApplicable, NoTheorem):
        return inf


def exact_loss(
    mechanism: Calibration | LocalMechanism,
    beliefs: Any = None,
    *,
    length: int | None = None,
    known: Mapping[int, Hashable] | None = None,
) -> float:
    """The true epsilon of a release, for at most twenty entries; see `worst_case`.

    Where a class has a range of matrices, the largest over those that are tried.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(chain, pk.count(1, 5), epsilon=1)
    >>> round(exact_loss(noise), 6)
    1.0
    """
    return worst_case(mechanism, beliefs, length=length, known=known).loss


def worst_case(
    mechanism: Calibration | LocalMechanism,
    beliefs: Any = None,
    *,
    length: int | None = None,
    known: Mapping[int, Hashable] | None = None,
) -> WorstCase:
    """The output, entry and pair of values with the largest loss.

    Parameters
    ----------
    mechanism
        A calibration, or a local mechanism (an emission matrix with a promise).
    beliefs
        The beliefs of the adversary; by default those of the mechanism.
    length, known
        For local mechanisms: entries in the series, and what the adversary knows of them, {entry
        counted from 1: state}.

    Raises
    ------
    NotApplicable
        For more than `MOST_ENTRIES` entries, or too many possible outputs.
    """
    if not isinstance(mechanism, Calibration):
        return worst_response(mechanism, beliefs, length, known or {})
    if length is not None or known:
        raise ValueError("length, known: only for local mechanisms; a query has its own lengths")
    entries = sum(mechanism.query.lengths)
    if entries > MOST_ENTRIES:
        raise NotApplicable(
            f"the exact loss is for at most {MOST_ENTRIES} entries, here are {entries}; "
            "audit() measures longer series"
        )
    theta = as_beliefs(belief_of(mechanism, beliefs))
    check_states(theta, mechanism.query)
    if mechanism.query.chooses:
        return worst_choice(theta, mechanism)
    if isinstance(mechanism, ShapedCalibration):
        return worst_shaped(theta, mechanism)
    secrets = distributions_of(theta, mechanism)
    return worst_release(theta, in_one_scale(mechanism), mechanism.scale, secrets)
