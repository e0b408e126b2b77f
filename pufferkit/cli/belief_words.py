"""Beliefs in words, for ``pufferkit beliefs show``: chains, networks, joint tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pufferkit as pk
from pufferkit.errors import printable
from pufferkit.shown import Matrix

if TYPE_CHECKING:
    from pufferkit import MarkovChain
    from pufferkit.beliefs.base import Beliefs
    from pufferkit.beliefs.chain_class import Member


def entries(beliefs: Beliefs) -> Iterator[str]:
    """The entries of networks or joint tables: parents and distributions."""
    distributions = list(getattr(beliefs, "listed", ()))
    yield f"{distributions[0].to_dict()['kind']}: {beliefs.description}"
    for number, distribution in enumerate(distributions, 1):
        if len(distributions) > 1:
            yield f"\nnumber {number}"
        if isinstance(distribution, pk.MarkovRandomField):
            yield from _field(distribution)
        elif isinstance(distribution, pk.BayesianNetwork):
            for node in distribution.nodes:
                above = ", ".join(printable(parent) for parent in distribution.parents[node])
                own = zip(distribution.values[node], distribution.distribution(node), strict=True)
                cells = ", ".join(f"{printable(value)} {p:.6g}" for value, p in own)
                yield f"  {printable(node)}{f' given {above}' if above else ''}: {cells}"
        else:
            for name in distribution.names:
                each = [
                    (value, distribution.probability(name, value))
                    for value in distribution.values(name)
                ]
                cells = ", ".join(f"{printable(value)} {float(p):.6g}" for value, p in each)
                yield f"  {printable(name)}: {cells}"


def _field(field: pk.MarkovRandomField) -> Iterator[str]:
    """The parts of a field, and the distribution of every node where it can be computed."""
    sizes = sorted((len(part) for part in field.components), reverse=True)
    yield f"  {len(sizes):,} independent parts, the largest of {sizes[0]:,} nodes"
    try:
        yield f"  exact distributions take tables of {field.width} nodes at once"
        for node in field.nodes:
            own = zip(field.values[node], field.distribution(node), strict=True)
            cells = ", ".join(f"{printable(value)} {p:.6g}" for value, p in own)
            yield f"  {printable(node)}: {cells}"
    except pk.NotApplicable as reason:
        yield f"  {reason}"


def described(member: Member) -> Iterator[str]:
    """A chain: whether it forgets, how fast, where it starts and where it ends up."""
    chain = member.chain
    yield member.name
    yield (
        f"  irreducible: {_yes(chain.is_irreducible)}; period: {chain.period}; "
        f"reversible: {_yes(chain.is_reversible)}"
    )
    if chain.is_irreducible:
        yield f"  eigengap: {chain.eigengap:.6g}; least stationary probability: {chain.pi_min:.6g}"
        yield f"  {mixes(chain.contraction)}"
    distribution = _distribution(chain)
    names = [printable(state) for state in chain.states]
    wide = max(5, *(len(name) for name in names))
    yield f"  {'state':<{wide}}  {'start':>10}  {'stationary':>10}"
    for x, name in enumerate(names):
        begins = "any" if member.any_start else f"{chain.initial[x]:.6f}"
        yield f"  {name:<{wide}}  {begins:>10}  {distribution(x):>10}"


def cells(matrix: Matrix) -> Iterator[str]:
    """A matrix with its names."""
    yield matrix.name
    names = [printable(name) for name in (matrix.down, *matrix.rows)]
    columns = [printable(name) for name in matrix.columns]
    wide, each = max(map(len, names)), max(8, *map(len, columns))
    yield f"  {names[0]:<{wide}}" + "".join(f"  {name:>{each}}" for name in columns)
    for name, row in zip(names[1:], matrix.cells, strict=True):
        yield f"  {name:<{wide}}" + "".join(f"  {p:>{each}.6f}" for p in row)


def _distribution(chain: MarkovChain) -> Callable[[int], str]:
    try:
        stationary = chain.stationary
    except ValueError:
        return lambda _: "not unique"
    return lambda x: f"{stationary[x]:.6f}"


def mixes(contraction: float) -> str:
    """How fast a chain with this contraction forgets."""
    if contraction <= 0:
        return "mixing: immediate, entries are independent"
    if contraction >= 1:
        return "mixing: the eigengap gives no bound"
    steps = math.log(2) / -math.log(contraction)
    return f"mixing: dependence between entries halves within {steps:.2f} steps"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
