"""A profile of event-level epsilons added up by definition: entry by entry, pair by pair."""

import numpy as np


def costs(length, releases, states):
    """What each entry spends on each pair of states.

    ``releases`` are (first, last, gaps, b, rows): rows are what the states add, ``None`` if all of
    them are equally far apart; gaps are runs, by turns observed and not.
    """
    table = np.zeros((length, states, states))
    for first, last, gaps, b, rows in releases:
        if rows is None:
            apart = ~np.eye(states, dtype=bool) * 1.0
        else:
            values = np.array(rows, dtype=float).reshape(states, -1)
            apart = np.abs(values[:, None] - values[None]).sum(axis=2)
        seen = np.ones(last - first + 1, dtype=bool)
        if gaps is not None:
            seen = np.repeat([n % 2 == 0 for n in range(len(gaps))], gaps)
        table[first - 1 : last][seen] += b * apart
    return table
