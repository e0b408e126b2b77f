"""Steps of the pairwise curve from recorded bases, without optimisation.

A record may have, for every programme, the spanning tree that supports its plan: the neighbour of
every node on the path to the first source, one byte each. The variation B on the arcs of the tree
gives the potentials alpha_y = B(y, z) + beta_z, these give the masses p_y e^alpha_y and q_z
e^beta_z, each scaled to sum to one, and the flow on an arc is the excess mass of the part of the
tree behind it. The result is made into a plan: negative flows are set to zero, rows are scaled to
sum to p. Its value is a sum of positive numbers, and every plan's value is an upper bound on the
step. So a false tree can only fail to show that a scale is enough.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from math import exp, inf, log
from typing import Any

import numpy as np

from pufferkit.checks import Floats
from pufferkit.verification.pair_tables import Allowance

STAY, NONE = 255, 254

_ROUNDING = 1e-13
_MOST_BYTES = 20_000_000


class Bases:
    """The bases of a text, one kernel after another."""

    def __init__(self, text: Any) -> None:
        try:
            packed = base64.b64decode(text, validate=True)
            reader = zlib.decompressobj()
            self._bytes = reader.decompress(packed, _MOST_BYTES)
            if not reader.eof or reader.unused_data:
                raise TypeError("the list of plans has the wrong length")
        except (binascii.Error, zlib.error, ValueError) as error:
            raise TypeError(f"plans cannot be read; {error}") from None
        self._place, self._before = 0, b""

    def following(self, kernel: Floats) -> bytes:
        """The bases of the next kernel."""
        counts = (kernel > 0).sum(axis=1)
        pairs = len(counts) * (len(counts) - 1)
        length = int(2 * (len(counts) - 1) * counts.sum() - pairs)
        own = self._bytes[self._place : self._place + length]
        if len(own) < length:
            raise TypeError("plans are missing")
        self._place += length
        if len(self._before) == length:
            both = np.frombuffer(own, dtype=np.uint8), np.frombuffer(self._before, dtype=np.uint8)
            own = (both[0] ^ both[1]).tobytes()
        self._before = own
        return own

    def end(self) -> None:
        """Refuse bases that were not used."""
        if self._place != len(self._bytes):
            raise TypeError("there are plans for more entries than the series has")


def steps_of_bases(kernel: Floats, limit: Floats, bases: bytes, work: Allowance) -> Floats:
    """A bound on the step of every ordered pair of rows; infinite where no plan is recorded."""
    supports = [np.flatnonzero(row > 0).tolist() for row in kernel]
    rows, variation = kernel.tolist(), limit.tolist()
    if limit.max() > 700:
        raise TypeError("a variation is too large to compute with")
    work.spend(1e4 + 3e3 * len(bases))
    table = np.zeros((len(rows), len(rows)))
    place = 0
    for x, ys in enumerate(supports):
        for other, zs in enumerate(supports):
            if other != x:
                tree = bases[place : place + len(ys) + len(zs) - 1]
                place += len(tree)
                p, q = [rows[x][y] for y in ys], [rows[other][z] for z in zs]
                if tree[0] == STAY:
                    table[x, other] = _staying(dict(zip(ys, p, strict=True)), rows[other])
                elif tree[0] == NONE:
                    table[x, other] = inf
                else:
                    own = [[variation[y][z] for z in zs] for y in ys]
                    table[x, other] = _value(p, q, own, tree)
    return table


def _staying(p: dict[int, float], q: list[float]) -> float:
    """The value of leaving all mass in place."""
    if any(q[y] <= 0 for y in p):
        return inf
    return max(0.0, log(max(mass / q[y] for y, mass in p.items())) + _ROUNDING)


def _value(p: list[float], q: list[float], variation: list[list[float]], tree: bytes) -> float:
    """Log of the largest load of the plan on a tree."""
    rows, columns = len(p), len(q)
    loads = [0.0] * columns
    for y, arcs in enumerate(_flows(p, q, variation, tree)):
        total = sum(flow for _, flow in arcs)
        for z, flow in arcs:
            # If its share is below a rounding error, any target will do.
            share = flow / total if total > 0 else 1 / len(arcs)
            loads[z] += p[y] * share * exp(variation[y][z])
    largest = max(load / mass for load, mass in zip(loads, q, strict=True))
    return max(0.0, log(largest) + _ROUNDING * (rows + columns))


def _flows(
    p: list[float], q: list[float], variation: list[list[float]], tree: bytes
) -> list[list[tuple[int, float]]]:
    """For every source its arcs: the target and the flow, at least 0."""
    rows, columns = len(p), len(q)
    towards = [-1, *(rows + z for z in tree[: rows - 1]), *tree[rows - 1 :]]
    behind: list[list[int]] = [[] for _ in towards]
    for node, neighbour in enumerate(towards[1:], 1):
        if neighbour >= rows + columns or (node < rows) == (neighbour < rows):
            raise TypeError("a plan names a state that is not there")
        behind[neighbour].append(node)
    potential, order = [0.0] * (rows + columns), [0]
    for node in order:
        for far in behind[node]:
            if far < rows:
                potential[far] = potential[node] + variation[far][node - rows]
            else:
                potential[far] = potential[node] - variation[node][far - rows]
            order.append(far)
    if len(order) < rows + columns:
        raise TypeError("the basis of a plan is not a tree")
    own = [*_masses(p, potential[:rows]), *(-m for m in _masses(q, potential[rows:]))]
    surplus = _surpluses(own, towards, behind, order)
    arcs: list[list[tuple[int, float]]] = [[] for _ in range(rows)]
    for node in order[1:]:
        if node < rows:
            arcs[node].append((towards[node] - rows, max(surplus[node], 0.0)))
        else:
            arcs[towards[node]].append((node - rows, max(-surplus[node], 0.0)))
    return arcs


def _surpluses(
    own: list[float], towards: list[int], behind: list[list[int]], order: list[int]
) -> list[float]:
    """The net mass behind every node, itself included."""
    surplus, weight = own.copy(), [abs(mass) for mass in own]
    for node in order[:0:-1]:
        surplus[towards[node]] += surplus[node]
        weight[towards[node]] += weight[node]
    # Behind more than half of all mass the net is that of the rest, which is more accurate.
    node, rest = 0, 0.0
    while behind[node]:
        heavy = max(behind[node], key=weight.__getitem__)
        if weight[heavy] <= 1:
            break
        rest += own[node] + sum(surplus[far] for far in behind[node] if far != heavy)
        surplus[heavy], node = -rest, heavy
    return surplus


def _masses(weights: list[float], potentials: list[float]) -> list[float]:
    """Tilted masses, scaled to sum to one."""
    top = max(potentials)
    tilted = [
        weight * exp(potential - top) for weight, potential in zip(weights, potentials, strict=True)
    ]
    total = sum(tilted)
    return [mass / total for mass in tilted]
