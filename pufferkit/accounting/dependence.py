"""E of [C] Theorem 3.6, computed: how far two releases of sums depend on each other."""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch

import numpy as np

from pufferkit import noise
from pufferkit.accounting.joint_sums import (
    Axis,
    chain_dependence,
    decays_of,
    listed_dependence,
)
from pufferkit.accounting.windows import PRIVATE
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.finite_class import FiniteClass
from pufferkit.beliefs.finite_joint import FiniteJoint, JointClass
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.mechanisms.calibration import GAPS, Calibration
from pufferkit.mechanisms.evidence import Guarantee
from pufferkit.mechanisms.sum_distances import known_members, values_of
from pufferkit.rounding import round_up


def dependence(first: Calibration, second: Calibration) -> float:
    """E of [C] Theorem 3.6 for two releases of sums over the whole of the same series.

    The largest, over the distributions of the class, entries i, their possible values x and outputs
    (o, q), of

        | log p(o, q | X_i = x) - log p(o | X_i = x) p(q | X_i = x) |.

    Two releases that are Pufferfish private with epsilon_A and epsilon_B lose together at most
    epsilon_A + epsilon_B + 2 E: ``compose(history, beliefs, lengths, dependence=E)`` charges that
    where it is less than the other rules charge. E covers these two releases only, not a third one,
    and a series of no more entries than they used. The second release may be chosen after looking
    at the first, because the bound holds output by output.

    Parameters
    ----------
    first, second
        Calibrations by any mechanism that promises Pufferfish privacy for each entry
        (`wasserstein`, `exact_sum`, `influence_curve`, ...) under the same known distributions,
        each for a single number: `count`, `total` or `mean`.

    Returns
    -------
    float
        E, rounded up. The extremes are computed in closed form, not searched for
        (`pufferkit.accounting.joint_sums` has the proof).

    Raises
    ------
    NoTheorem
        For secrets other than any two values of any entry.
    NotApplicable
        For beliefs that are not finitely many known chains or joint distributions, for vectors,
        for queries that are not sums, for gaps, and where it would take more than about a minute.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.1, 0.9], [0.9, 0.1]])
    >>> noise = pk.wasserstein(chain, pk.count(1, 20), epsilon=0.5)
    >>> bound = pk.dependence(noise, noise)
    >>> round(bound, 3)
    0.183
    >>> both = pk.compose([pk.Spending.of(noise)] * 2, chain, 20, dependence=bound)
    >>> round(both.epsilon, 2), both.rule
    (1.37, 'dependence')
    """
    theta = _checked(first, second)
    grids = sum(_grid(calibration) for calibration in (first, second))
    return round_up(_largest(theta, first, second) + 2 * grids)


def _grid(calibration: Calibration) -> float:
    """The most by which rounding an answer to the grid of Laplace noise changes a log-density.

    Noise is drawn with at least the calibrated scale, and additional noise is post-processing.
    """
    if calibration.unit is not None:
        return 0.0
    query = calibration.query
    step = 2.0 ** noise.grid_exponent(calibration.sensitivity, query.size, query.largest)
    return step / 2 / calibration.scale


def _scale(calibration: Calibration) -> Fraction:
    return Fraction(min(calibration.scales or (calibration.scale,)))


def _checked(first: Calibration, second: Calibration) -> Beliefs:
    """The beliefs of both, if the theorem and the computation cover them."""
    for name, calibration in (("first", first), ("second", second)):
        if not isinstance(calibration, Calibration):
            raise ValueError(
                f"{name}: must be a Calibration, such as wasserstein(chain, count(1, 100), 1), "
                f"got {type(calibration).__name__}"
            )
        theta, query = calibration.beliefs, calibration.query
        if theta is None:
            raise ValueError(
                f"{name}: {calibration.mechanism} was calibrated without beliefs, and the "
                "dependence of two releases cannot be bounded without them"
            )
        named = calibration.guarantee in (Guarantee.SECRETS, Guarantee.EVENTS)
        if named or theta.names_secrets:
            raise NoTheorem(
                f"{name}: [C] 3.6 is computed for any two values of any entry, and this release "
                "was calibrated for other secrets; calibrate it without secrets"
            )
        if calibration.mechanism not in PRIVATE:
            raise NoTheorem(
                f"{name}: [C] 3.6 needs Pufferfish privacy, got {calibration.mechanism}"
            )
        if query.weights is None or query.size != 1 or query.chooses:
            raise NotApplicable(
                f"{name}: {query.name} is not a scalar sum; E is computed for count, total and mean"
            )
        if query.missing:
            raise NotApplicable(f"{name}: {GAPS}")
    if sorted(first.query.lengths) != sorted(second.query.lengths):
        raise ValueError(
            f"second: runs over segments of {list(second.query.lengths)} entries, the first over "
            f"{list(first.query.lengths)}; both must be sums over the same series"
        )
    one, other = first.beliefs, second.beliefs
    assert one is not None
    assert other is not None
    if one is not other and one.to_dict() != other.to_dict():
        raise ValueError("second: it was calibrated for other beliefs than the first")
    return one


@singledispatch
def _largest(theta: Beliefs, first: Calibration, second: Calibration) -> float:
    raise NotApplicable(
        f"E is computed for finitely many known chains (ChainClass.of) or joint distributions; "
        f"got a {theta.description}"
    )


@_largest.register
def _(theta: FiniteClass, first: Calibration, second: Calibration) -> float:
    lengths, members = first.query.lengths, known_members(theta)
    if len(lengths) > 1 and len(members) > 1:
        raise NotApplicable(
            f"with several segments, each of them could follow a different one of {len(members)} "
            "chains; E is computed for one chain or for one segment"
        )
    axes = []
    for calibration in (first, second):
        values, unit = values_of(calibration.query, theta.states)
        axes.append(Axis(np.array(values), float(unit / _scale(calibration))))
    return max(
        chain_dependence(member.chain.initial, member.chain.transition, lengths, *axes)
        for member in members
    )


@_largest.register
def _(theta: JointClass, first: Calibration, second: Calibration) -> float:
    return max(_listed(joint, first, second) for joint in theta.joints)


def _listed(joint: FiniteJoint, first: Calibration, second: Calibration) -> float:
    """One joint distribution, row by row."""
    rows = [row for row, p in joint.table.items() if p > 0]
    places, decays = [], []
    for calibration in (first, second):
        weights = calibration.query.weights or {}
        sums = [sum((weights[v][0] for v in row if v in weights), Fraction(0)) for row in rows]
        centres = sorted(set(sums))
        place = {centre: n for n, centre in enumerate(centres)}
        places.append(np.array([place[one] for one in sums]))
        decays.append(decays_of(centres, _scale(calibration)))
    secrets = [
        np.array([row[n] == value for row in rows])
        for n, name in enumerate(joint.names)
        for value in joint.values(name)
    ]
    chances = np.array([float(joint.table[row]) for row in rows])
    return listed_dependence((places[0], places[1]), chances, secrets, decays)
