"""The true loss of a sanitised series, by comparing every one of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import log
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.audit.audit_targets import LocalMechanism, local_beliefs, seen_through
from pufferkit.audit.conditioned_chain import conditioned
from pufferkit.audit.report import WorstCase
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.errors import NotApplicable

MOST_ENTRIES = 10
"""Longest sanitised series of which all are compared."""

MOST_POINTS = 200_000
"""Most sanitised series that are compared for each secret."""


def check_steps(chain: MarkovChain, length: int) -> None:
    """Refuse chains of which a possible path could have probability 0 as a float."""
    tables = (chain.initial, chain.transition)
    if length * min(log(float(table[table > 0].min())) for table in tables) < log(1e-290):
        raise NotApplicable("some probabilities are too small to multiply exactly; merge states")


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
    logs, labels = [], []
    for code, label in enumerate(chain.states):
        try:
            path = conditioned(chain, length, {**fixed, entry: code})
        except ValueError:
            continue  # a value that cannot happen is no secret
        path, matrix = seen_through(mechanism, path)
        table = path.initial[None, :] * matrix.T  # outputs so far, state now
        for own in path.which:
            moved = table @ path.matrices[own]
            table = (moved[:, None, :] * matrix.T[None, :, :]).reshape(-1, len(matrix))
        with np.errstate(divide="ignore"):
            logs.append(np.log(table.sum(axis=1)))
        labels.append(label)
    if len(logs) < 2:
        return None
    stacked = np.stack(logs)
    top = stacked.max(axis=0)
    possible = np.isfinite(top)
    spread = np.full(top.shape, -np.inf)
    spread[possible] = top[possible] - stacked.min(axis=0)[possible]
    place = int(spread.argmax())
    output = np.unravel_index(place, (mechanism.matrix.shape[1],) * length)
    return (
        float(spread[place]),
        labels[int(stacked[:, place].argmax())],
        labels[int(stacked[:, place].argmin())],
        tuple(int(z) for z in output),
    )


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
