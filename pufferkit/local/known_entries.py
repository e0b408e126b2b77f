"""The loss against an adversary who knows one given set of entries."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.local.losses import Loss, LossPair, ends_of, own_pair, padded, unbounded
from pufferkit.local.one_sided import Binary, successors, supports


def given_set(
    binary: Binary,
    own: tuple[float, ...],
    length: int,
    known: Mapping[int, Any],
    target: int | None,
) -> Loss:
    """`pufferkit.local.loss` for known entries, over one target or all."""
    chain = binary.chain
    fixed: dict[int, frozenset[int]] = {}
    for position, value in known.items():
        node = checks.whole("known", position, 1)
        if value is None:
            fixed[node] = frozenset((0, 1))
        elif value in chain.states:
            fixed[node] = frozenset((chain.states.index(value),))
        else:
            raise ValueError(f"known: {value!r} at {node} is not a state; there are {chain.states}")
    for node in [*fixed, *([] if target is None else [target])]:
        if node > length:
            raise ValueError(f"known: position {node} lies beyond the length {length}")
    if target in fixed:
        raise ValueError(f"target: entry {target} is itself known")
    forward, backward = _possible(chain, fixed, length)
    free = [node for node in range(1, length + 1) if node not in fixed]
    nodes = free if target is None else [target]
    best = np.zeros(2)
    sure = not all(isfinite(answer) for answer in own)
    if sure:
        own = (1.0, -1.0)  # any that tell something: is there an entry left to tell?
    ordered = sorted(fixed)
    start, end = binary.unknown_left(own, length - 1), binary.unknown_right(own, length - 1)
    lefts = [ends_of(binary.known("left", value, own, length - 1)) for value in (0, 1)]
    rights = [ends_of(binary.known("right", value, own, length - 1)) for value in (0, 1)]
    zero, one = own_pair(own)
    places = np.searchsorted(ordered, nodes)
    for node, place in zip(nodes, places.tolist(), strict=True):
        left, right = ends_of(start)[:, node - 1], ends_of(end)[:, length - node]
        if place > 0:
            near = ordered[place - 1]
            left = np.max([lefts[v][:, node - near] for v in forward[near - 1]], axis=0)
        if place < len(ordered):
            near = ordered[place]
            right = np.max([rights[v][:, near - node] for v in backward[near - 1]], axis=0)
        best = np.maximum(best, left + right + [one, zero])
    pair = LossPair(float(best[1]), float(best[0]))
    if sure and max(pair) > 0:
        return unbounded(_described(fixed), length)
    directions = padded(chain, pair, length) if max(pair) > 0 else (0.0, 0.0)
    return Loss(directions, _described(fixed), length, "exact recursion", True)


def _described(fixed: Mapping[int, Any]) -> str:
    if not fixed:
        return "ignorant"
    some = ", ".join(str(node) for node in sorted(fixed)[:6]) + (", ..." if len(fixed) > 6 else "")
    return f"knows {some}"


def _possible(
    chain: MarkovChain, fixed: Mapping[int, frozenset[int]], length: int
) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """Values of each entry that agree with what is known up to it, and from it on."""
    both = frozenset((0, 1))
    forward = [supports(chain, 1)[0] & fixed.get(1, both)]
    for node in range(2, length + 1):
        forward.append(successors(chain, forward[-1]) & fixed.get(node, both))
    backward = [fixed.get(length, both)]
    for node in range(length - 1, 0, -1):
        later = backward[-1]
        ahead = frozenset(x for x in both if chain.transition[x][list(later)].any())
        backward.append(ahead & fixed.get(node, both))
    backward.reverse()
    if not all(f & b for f, b in zip(forward, backward, strict=True)):
        raise ValueError(
            "known: these entries together have probability zero, so nothing is conditioned on them"
        )
    return forward, backward
