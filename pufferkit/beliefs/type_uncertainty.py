"""The loss against adversaries who are unsure which distribution of a class is in force.

The guarantee over a class holds against adversaries who know the distribution in force. Let each
type z (a person, a path of regimes) have its distribution in the class, with loss epsilon, and let
an entry be informative about the type through P(z | X_i = x). Against an adversary who is unsure of
the type the loss is at most

    epsilon + max over z, x, x' of log P(z | X_i = x) / P(z | X_i = x'),

because P(o | x) = sum_z P(z | x) P(o | x, z) <= e^epsilon sum_z P(z | x) P(o | x', z). The second
term does not depend on the noise: it bounds the loss that noise for the class does not control.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit import checks

if TYPE_CHECKING:
    from pufferkit.beliefs.base import Beliefs


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
