"""What beliefs say of themselves: their chains, matrices or nodes, and what is to be known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pufferkit.errors import NotApplicable, printable
from pufferkit.shown import MOST_ROWS, Matrix, Statement, aligned, grid, wrapped

if TYPE_CHECKING:
    from pufferkit.beliefs.base import Beliefs
    from pufferkit.beliefs.chain_class import Member

_SHOWN = 4


def statements(beliefs: Beliefs) -> list[Statement]:
    """What the beliefs are, the first of their tables, and what is to be known of them."""
    kind, tables = beliefs.to_dict()["kind"], list(islice(_tables(beliefs), _SHOWN + 1))
    if beliefs.entries is not None:
        kind = beliefs.listed[0].to_dict()["kind"]  # type: ignore[attr-defined]
    said = [Statement("head", f"{kind}: {beliefs.description}")]
    if beliefs.entries is None:
        names = ", ".join(printable(state) for state in beliefs.states)
        said.append(Statement("head", f"states: {names}"))
    said += [Statement("table", "\n" + table) for table in tables[:_SHOWN]]
    remarks = (
        [] if len(tables) <= _SHOWN else [f"the first {_SHOWN} are shown; the JSON has them all"]
    )
    return said + [Statement("remark", line) for line in (*remarks, *beliefs.caveats)]


def _tables(beliefs: Beliefs) -> Iterator[str]:
    """A table for each chain, matrix or distribution of the beliefs."""
    if beliefs.entries is not None:
        for number, one in enumerate(beliefs.listed, 1):  # type: ignore[attr-defined]
            several = [f"number {number}"] if len(beliefs.listed) > 1 else []  # type: ignore[attr-defined]
            yield "\n".join([*several, *_nodes(one)])
        return
    matrices = beliefs.matrices_shown()
    if beliefs.to_dict()["kind"] == "region":
        low, high = (matrix.cells for matrix in matrices)
        ends = [
            [f"{a:.3f} to {b:.3f}" for a, b in zip(*rows, strict=True)]
            for rows in zip(low, high, strict=True)
        ]
        yield _grid("from the least to the most, after a state the next", matrices[0], ends)
        return
    try:
        members = beliefs.members()
    except NotApplicable:
        with suppress(NotApplicable):
            yield _mixes(beliefs.mixing_bounds()[0].contraction)
            return
        for matrix in matrices:
            cells = [[f"{p:.6f}" for p in row] for row in matrix.cells]
            yield _grid(matrix.name, matrix, cells)
        return
    yield from map(_chain, members)


def _nodes(one: Any) -> Iterator[str]:
    """The parts of a field; and the distribution of every node, where it can be computed."""
    field = hasattr(type(one), "width")
    if field:
        sizes = sorted((len(part) for part in one.components), reverse=True)
        yield f"  {len(sizes):,} independent parts, the largest of {sizes[0]:,} nodes"
    try:
        if field:
            yield f"  exact distributions take tables of {one.width} nodes at once"
        nodes = getattr(one, "nodes", None) or one.names
        for node in islice(nodes, MOST_ROWS):
            name, parents = printable(node), getattr(one, "parents", {}).get(node)
            above = ", ".join(map(printable, parents or ()))
            values = one.values(node) if callable(one.values) else one.values[node]
            if hasattr(one, "distribution"):
                own: Iterable[Any] = one.distribution(node)
            else:
                own = (one.probability(node, value) for value in values)
            cells = (f"{printable(x)} {float(p):.6g}" for x, p in zip(values, own, strict=True))
            line = f"{name}{f' given {above}' if above else ''}: {', '.join(cells)}"
            yield from (f"  {part}" for part in wrapped(line, 78))
        if len(nodes) > MOST_ROWS:
            yield f"  {len(nodes) - MOST_ROWS:,} more"
    except NotApplicable as reason:
        yield from (f"  {part}" for part in wrapped(str(reason), 78))


def _chain(member: Member) -> str:
    """A chain: whether it forgets, how fast, where it starts and where it ends up."""
    chain = member.chain
    lines = [
        member.name,
        f"  irreducible: {_yes(chain.is_irreducible)}; period: {chain.period}; "
        f"reversible: {_yes(chain.is_reversible)}",
    ]
    if chain.is_irreducible:
        least = f"least stationary probability: {chain.pi_min:.6g}"
        lines += [f"  eigengap: {chain.eigengap:.6g}; {least}", f"  {_mixes(chain.contraction)}"]
    try:
        ends = [f"{p:.6f}" for p in chain.stationary]
    except ValueError:
        ends = ["not unique"] * len(chain.states)
    starts = ["any" if member.any_start else f"{p:.6f}" for p in chain.initial]
    names = [printable(state) for state in chain.states]
    rows = zip(["state", *names], ["start", *starts], ["stationary", *ends], strict=True)
    return "\n".join([*lines, *aligned(rows)])


def _grid(name: str, matrix: Matrix, cells: list[list[str]]) -> str:
    """A matrix with its names."""
    down, across = ([printable(one) for one in names] for names in (matrix.rows, matrix.columns))
    return f"{name}\n{grid(down, across, cells)}"


def _mixes(contraction: float) -> str:
    """How fast a chain with this contraction forgets."""
    if contraction <= 0:
        return "mixing: immediate, entries are independent"
    if contraction >= 1:
        return "mixing: the eigengap gives no bound"
    steps = math.log(2) / -math.log(contraction)
    return f"mixing: dependence between entries halves within {steps:.2f} steps"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
