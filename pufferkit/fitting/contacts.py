"""Beliefs about people who meet, from a list of their contacts.

The contacts are public; what is hidden is the state of each person. The model is an Ising model on
the contacts (`MarkovRandomField.ising`): n_ij contacts of i and j couple them by

    J_ij = n_ij / max_i sum_j n_ij  log(odds) / 4,

so that the person with most contacts has ``odds`` times the odds of the second state if all of them
are in the second state in place of the first, and others less, by their share of contacts. The sum
of the couplings of a person is at most log(odds) / 4, which below 1 bounds what one person's state
tells about all others by 1 / (1 - log(odds) / 4) persons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from math import e, log
from typing import Any

from pufferkit import checks
from pufferkit.beliefs.markov_random_field import MarkovRandomField

_MOST = e**4
"""Odds from which no bound is left: a person's neighbours decide for any number of others."""


def contact_beliefs(
    contacts: Iterable[Any],
    states: Iterable[Hashable] = (0, 1),
    odds: float | None = None,
    share: float = 0.5,
) -> MarkovRandomField:
    """An Ising model of people who meet.

    Parameters
    ----------
    contacts
        A pair of names for each contact; a pair may come often. A pair with one empty name is
        somebody without contacts. Or a mapping from pairs to numbers of contacts.
    states
        The two states of a person, the rarer second.
    odds
        How much the odds of the second state grow if all contacts of a person are in it, below 54.
    share
        The share of people in the second state where contacts are half in each.

    Examples
    --------
    >>> contact_beliefs([("ada", "ben"), ("ben", "ada"), ("ben", "eve")], odds=20).description
    'Markov random field of 3 nodes, 2 edges'
    """
    if odds is None:
        raise ValueError(
            "odds: say how much the odds of a person grow if all contacts are ill in place of "
            "well; for example odds=10"
        )
    times, part = checks.positive("odds", odds), checks.real("share", share)
    if not 1 <= times < _MOST:
        raise ValueError(
            f"odds: must be from 1 to {_MOST:.3g}, got {times:g}; beyond it contacts decide alone"
        )
    if not 0 < part < 1:
        raise ValueError(f"share: must lie between 0 and 1, got {part:g}; for example 0.1")
    counts, names = _counted(contacts)
    if not counts:
        raise ValueError("contacts: there is no pair of two people")
    degrees: Counter[Hashable] = Counter()
    for pair, count in counts.items():
        degrees.update(dict.fromkeys(pair, count))
    unit = log(times) / 4 / max(degrees.values())
    couplings = {pair: count * unit for pair, count in counts.items()}
    field = log(part / (1 - part)) / 2
    return MarkovRandomField.ising(list(couplings), couplings, field, states, names)


def _counted(contacts: Iterable[Any]) -> tuple[dict[tuple[Any, Any], float], list[Any]]:
    """Contacts of each pair, and everybody's names in order of appearance."""
    given = contacts.items() if isinstance(contacts, Mapping) else ((pair, 1) for pair in contacts)
    counts: dict[tuple[Any, Any], float] = {}
    names: dict[Any, None] = {}
    for number, (pair, count) in enumerate(given, 1):
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"contacts: row {number} must be two names, got {pair!r:.60}")
        both = [name for name in pair if name is not None and name != ""]
        names |= dict.fromkeys(both)
        if len(both) == 2 and both[0] != both[1]:
            one, other = both
            met = (one, other) if (one, other) in counts else (other, one)
            counts[met] = counts.get(met, 0) + checks.positive("contacts", count)
    return counts, list(names)
