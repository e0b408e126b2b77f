"""Changed queries that may meet a target error: over more entries, or coarser."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable

_THINNED = (2, 5, 10, 60)
_FEW_LEVELS = (4, 2)


def over(query: Query, lengths: Sequence[int], observed: Sequence[int] | None = None) -> Query:
    """The same query over segments of other lengths, of which so many entries are observed.

    Shares and means are of the observed entries; noise is that of the unbroken span.
    """
    if query.asks is None or query.weights is None:
        raise NotApplicable(f"{query.name}: its dependence on the length is unknown")
    made = query.asks.bind(query.states, lengths if observed is None else [sum(observed)])
    if observed is not None:
        checks.assign(made, lengths=tuple(lengths), observed=tuple(observed))
    return made


def coarser(theta: Beliefs, query: Query) -> Iterator[tuple[str, Any, Query]]:
    """Coarser queries: rare states merged, fewer levels, readings further apart."""
    states = theta.states
    chains = _chains(theta)
    if query.binned and query.weights is not None:
        if len(states) > 2 and chains:
            rare = np.argsort(chains[0].stationary)[:2]
            groups = [[s] for n, s in enumerate(states) if n not in rare]
            pair = [states[n] for n in sorted(rare)]
            both = f"merge {pair[0]!r} and {pair[1]!r}, the rarest"
            yield both, theta, merged(query, [*groups, pair])
        for few in _FEW_LEVELS:
            if len(states) > few:
                parts = [list(part) for part in np.array_split(np.array(states, object), few)]
                text = f"{few} levels for {len(states)}, neighbours together"
                yield text, theta, merged(query, parts)
    for step in _THINNED if query.per_entry else ():
        fewer = [max(1, length // step) for length in query.lengths]
        seen = [max(1, count // step) for count in query.observed or query.lengths]
        if not chains or max(fewer) < 2:
            return
        thinned = [_every(chain, step) for chain in chains]
        text = f"one reading in {step} (the guarantee is then about these readings)"
        yield text, ChainClass.of(*thinned), over(query, fewer, seen if query.missing else None)


def _chains(theta: Beliefs) -> list[MarkovChain]:
    """The chains of a finite class that start in their stationary distribution."""
    try:
        members = theta.members()
    except NotApplicable:
        return []
    chains = []
    for member in members:
        try:
            steady = not member.any_start and np.allclose(
                member.chain.initial, member.chain.stationary, atol=1e-9
            )
        except ValueError:
            steady = False
        if not steady:
            return []
        chains.append(member.chain)
    return chains


def _every(chain: MarkovChain, step: int) -> MarkovChain:
    power = np.linalg.matrix_power(np.asarray(chain.transition), step)
    power = power / power.sum(axis=1, keepdims=True)
    return MarkovChain.steady(power, states=chain.states)


def merged(query: Query, groups: Sequence[Sequence[Hashable]]) -> Query:
    """A histogram whose bins are these groups of states."""
    weights = query.weights or {}
    unit = max(weight for row in weights.values() for weight in row)
    zero = Fraction(0)
    rows = {
        state: tuple(unit if j == own else zero for j in range(len(groups)))
        for own, group in enumerate(groups)
        for state in group
    }
    return Query(
        query.name,
        query.evaluate,
        query.lipschitz,
        query.lengths,
        labels=[" or ".join(str(state) for state in group) for group in groups],
        states=query.states,
        total=query.total,
        weights=rows,
        observed=query.observed,
    )
