"""Selection: which of several scores are the largest, without their values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from pufferkit import checks, noise
from pufferkit.account.accounts import Account
from pufferkit.beliefs.base import as_beliefs, check_series
from pufferkit.data.asking import count
from pufferkit.data.query import Query, Question, bound
from pufferkit.data.series import Series
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.mechanisms.calibration import check_states
from pufferkit.mechanisms.influence_curve import entry_epsilon
from pufferkit.rounding import round_up

_STEPS = 1 << 20
"""Steps in which a score is counted that one entry moves by 1; it is rounded down to them."""


@dataclass(frozen=True)
class Selection:
    """What was chosen, the largest first as drawn, and what it cost.

    Attributes
    ----------
    chosen
        Names of the chosen scores, in the order in which they were drawn.
    epsilon
        Pufferfish epsilon for each entry, of all draws together.
    entry_epsilon
        Event-level epsilon of all draws together.
    scale
        Scale of the noise on each score, in units of the score.
    charged
        By how much the account has grown; ``None`` without an account.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], ["rest", "run"])
    >>> made = pk.select(["rest"] * 2016, chain, epsilon=1)
    >>> made.chosen, round(made.entry_epsilon, 3), round(made.scale, 2)
    (('rest',), 0.3, 6.67)
    """

    chosen: tuple[Hashable, ...]
    epsilon: float
    entry_epsilon: float
    scale: float
    charged: float | None = None


def select(
    data: Any,
    beliefs: Any,
    epsilon: float,
    k: int = 1,
    *,
    queries: Mapping[Hashable, Query | Question] | None = None,
    account: Account | None = None,
) -> Selection:
    """The k largest of several scores: of counts of the states, or of your own queries.

    Theorem: peeling by the exponential mechanism, with `entry_epsilon`. *Secrets*: those of the
    beliefs, by default any two values of any entry. *Beliefs*: all that `entry_epsilon` takes.
    *Releases*: the names only, one after the other.

    Let one entry move no score by more than D. A draw chooses the largest score after exponential
    noise of scale s on each (permute-and-flip, which never errs more than the exponential
    mechanism); when one entry changes, its log-likelihood moves by at most 2 D / s. k draws without
    replacement move it by at most b = 2 k D / s, whatever was drawn before, so all of them together
    are a release of event-level epsilon b over the series. b is the largest that the beliefs allow
    for epsilon.

    Parameters
    ----------
    data
        A `Series` or a sequence of states, all observed.
    beliefs, epsilon
        As for `entry_epsilon`.
    k
        How many to choose, fewer than there are.
    queries
        The scores by name, each one number; by default the count of every state.
    account
        Charged with b over all entries before anything is drawn. Every call is a new charge.

    Raises
    ------
    OverBudget
        If the account has not enough left; nothing is drawn then.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], ["rest", "run"])
    >>> week = [chain.states[code] for code in chain.sample(2016, seed=1)]
    >>> pk.select(week, chain, epsilon=1).chosen
    ('rest',)
    """
    theta, epsilon, k = as_beliefs(beliefs), checks.privacy(epsilon), checks.whole("k", k, 1)
    series = data if isinstance(data, Series) else Series.of(data, theta.states)
    check_series(theta, series)
    if series.missing:
        raise NotApplicable(
            "data: some entries were not observed, and no theorem covers a selection then"
        )
    asked = queries or {state: count(state) for state in theta.states}
    if k >= len(asked):
        raise ValueError(f"k: must be below the number of scores, {len(asked)}, got {k}")
    each = {name: bound(query, theta.states, series) for name, query in asked.items()}
    for name, query in each.items():
        if query.size != 1 or query.chooses:
            raise NoTheorem(f"queries: {name!r} is not one number, so it cannot be compared")
        check_states(theta, query)
    moved = max(Fraction(query.lipschitz) for query in each.values())
    b = entry_epsilon(theta, series.lengths, epsilon)
    scale = round_up(2 * k / b)
    charged = None if account is None else account.charge(b, data=series, beliefs=theta)
    # x <= y + n for a whole number n gives floor(x) <= floor(y) + n.
    left = {name: floor(query.exact(series)[0] / moved * _STEPS) for name, query in each.items()}
    chosen = []
    for _ in range(k):
        names = list(left)
        chosen.append(names[noise.noisy_choice([left[name] for name in names], scale, _STEPS)])
        del left[chosen[-1]]
    return Selection(tuple(chosen), epsilon, b, float(round_up(scale * float(moved))), charged)
