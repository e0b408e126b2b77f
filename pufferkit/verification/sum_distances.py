"""The distance of the Wasserstein Mechanism, recomputed for `pufferkit.verification.verify`.

W is the least w such that for any two values of an entry, with F and G the distribution functions
of the answer given either, F(t) <= G(t + w) and G(t) <= F(t + w) for all t ([Q] Definition 3.1).
Joint distributions and networks are computed in fractions. On chains, distributions of the
sum before and after an entry are convolved directly in extended precision; a tail counts as smaller
only if it is so by more than rounding.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import lcm
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.joint_class import JointClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.secrets import Events, Secrets, Sets
from pufferkit.verification.pair_tables import Allowance, NotChecked
from pufferkit.verification.rounded_sums import LARGE, rounded_distance

ExactDistribution = dict[Fraction, Fraction]

_ROUNDING = 1e-11
_LEAST = float(np.finfo(np.longdouble).minexp) + 200  # powers of 2 that extended precision holds
_MOST_BYTES = 2e9
MOST_EXACT = 64
"""Networks with more nodes are not walked through in fractions."""


def distance_of_joints(
    theta: JointClass, verification_data: Mapping[str, Any], work: Allowance
) -> Fraction:
    """W from the recorded answer of every row, and the rows of every secret."""
    answers = verification_data.get("answers")
    if answers is None or len(answers) != len(theta.joints):
        raise NotChecked("the record does not hold the answer to the query on each row")
    worst = Fraction(0)
    given = verification_data.get("secrets") or [None] * len(theta.joints)
    for joint, own, events in zip(theta.joints, answers, given, strict=True):
        rows = list(joint.table.items())
        if len(own) != len(rows):
            raise NotChecked(
                "the file does not hold one answer for each row of the joint distribution"
            )
        masses = [Fraction(str(p)) for _, p in rows]
        values = [None if answer is None else Fraction(answer) for answer in own]
        for secrets in _secrets([row for row, _ in rows], events):
            distributions = []
            for event in secrets:
                work.spend(2000.0 * len(event))
                distribution: ExactDistribution = {}
                for place in event:
                    value = values[place]
                    if masses[place] > 0 and value is not None:
                        distribution[value] = distribution.get(value, Fraction(0)) + masses[place]
                distributions.append(distribution)
            worst = max(worst, _largest(distributions))
    return worst


def _secrets(
    rows: Sequence[tuple[Hashable, ...]], given: Sequence[Sequence[Sequence[int]]] | None
) -> Iterable[Sequence[Sequence[int]]]:
    """Events that must stay indistinguishable, as indices of rows."""
    if given is not None:
        yield from given
        return
    for variable in range(len(rows[0])):
        events: dict[Hashable, list[int]] = {}
        for place, row in enumerate(rows):
            events.setdefault(row[variable], []).append(place)
        yield list(events.values())


def distance_of_networks(
    theta: NetworkClass, weights: Mapping[Hashable, Fraction], work: Allowance
) -> Fraction:
    """W of a sum over nodes: the distribution of the sum with one node, for every node.

    Of a large network in floats, unless they leave open what W is and fractions do not.
    """
    worst = Fraction(0)
    labels = list(weights)
    values, unit = _whole([weights[label] for label in labels])
    for network in theta.networks:
        if len(network.nodes) > LARGE:
            steps = dict(zip(labels, values, strict=True))
            least, most = rounded_distance(network, steps, work)
            if least == most or len(network.nodes) > MOST_EXACT:
                worst = max(worst, most * unit)
                continue
        exact = {node: _fractions(network, node) for node in network.nodes}
        for node in network.nodes:
            together = distribution_of(network, (node,), exact, work, weights)
            distributions: dict[Hashable, ExactDistribution] = {}
            for ((value,), total), mass in together.items():
                distributions.setdefault(value, {})[total] = mass
            worst = max(worst, _largest(list(distributions.values())))
    return worst


def distribution_of(
    network: BayesianNetwork,
    keep: Sequence[Hashable],
    tables: Mapping[Hashable, Mapping[tuple[Hashable, ...], Sequence[Any]]],
    work: Allowance,
    weights: Mapping[Hashable, Fraction] | None = None,
) -> dict[tuple[tuple[Hashable, ...], Any], Any]:
    """{(values of ``keep``, sum of weights): probability}.

    Nodes are added one at a time, parents first, those that leave the fewest open; a node is summed
    out once its children are added. Without weights, nodes that ``keep`` does not descend from are
    left out.
    """
    rest = list(network.nodes if weights is not None else network.ancestors(keep))
    needed = set(rest)
    children = {n: [c for c in network.children[n] if c in needed] for n in rest}
    open_: list[Hashable] = []
    done: set[Hashable] = set()
    table: dict[tuple[tuple[Hashable, ...], Any], Any] = {((), 0): 1}

    def over(node: Hashable, after: Hashable) -> bool:
        return node not in keep and all(c in done or c == after for c in children[node])

    while rest:
        ready = [n for n in rest if all(p in done for p in network.parents[n])]
        node = min(ready, key=lambda n: 1 - sum(over(p, n) for p in network.parents[n]))
        rest.remove(node)
        done.add(node)
        open_.append(node)
        places = [open_.index(parent) for parent in network.parents[node]]
        stays = [j for j, other in enumerate(open_) if not over(other, node)]
        moved: dict[tuple[tuple[Hashable, ...], Any], Any] = {}
        work.spend(3000.0 * len(table) * network.sizes[node])
        for (known, total), mass in table.items():
            row = tables[node][tuple(known[j] for j in places)]
            for value, p in zip(network.values[node], row, strict=True):
                if p > 0:
                    values = (*known, value)
                    more = weights.get(value, 0) if weights is not None else 0
                    key = tuple(values[j] for j in stays), total + more
                    moved[key] = moved.get(key, 0) + mass * p
        table, open_ = moved, [open_[j] for j in stays]
    order = [open_.index(node) for node in keep]
    return {(tuple(known[j] for j in order), t): mass for (known, t), mass in table.items()}


def _fractions(
    network: BayesianNetwork, node: Hashable
) -> dict[tuple[Hashable, ...], list[Fraction]]:
    """The table of a node in fractions, a float as the decimal it prints as."""
    rows = {}
    for key, row in network.tables[node].items():
        exact = [Fraction(repr(float(p))) for p in row]
        rows[key] = [p / sum(exact) for p in exact]
    return rows


def _largest(distributions: Sequence[ExactDistribution]) -> Fraction:
    possible = [distribution for distribution in distributions if distribution]
    pairs = combinations([_steps(distribution) for distribution in possible], 2)
    return max((_distance(one, other) for one, other in pairs), default=Fraction(0))


def _steps(distribution: ExactDistribution) -> list[tuple[Fraction, Fraction]]:
    """Values with the distribution function there."""
    whole, reached, steps = sum(distribution.values()), Fraction(0), []
    for value in sorted(distribution):
        reached += distribution[value]
        steps.append((value, reached / whole))
    return steps


def _distance(
    one: list[tuple[Fraction, Fraction]], other: list[tuple[Fraction, Fraction]]
) -> Fraction:
    """The least w with F(t) <= G(t + w) and G(t) <= F(t + w)."""
    worst = Fraction(0)
    for first, second in ((one, other), (other, one)):
        place = 0
        for value, height in first:
            while second[place][1] < height:
                place += 1
            worst = max(worst, second[place][0] - value)
    return worst


def distance_of_chains(
    theta: ChainClass, weights: Sequence[Fraction], lengths: Iterable[int], work: Allowance
) -> Fraction:
    """W of a sum over the entries of a chain, for every entry."""
    values, unit = _whole(weights)
    chains = [member.chain for member in theta.members()]
    return unit * max(_of_chain(c, values, n, work) for c in chains for n in set(lengths))


def _whole(weights: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """The weights as whole multiples of a unit above the least of them, and the unit."""
    denominator = lcm(*(weight.denominator for weight in weights))
    least = min(weights)
    steps = [int((weight - least) * denominator) for weight in weights]
    unit = int(np.gcd.reduce(np.array(steps, dtype=object))) or 1
    return [step // unit for step in steps], Fraction(unit, denominator)


def _check_tails(chain: MarkovChain, length: int) -> None:
    positive = np.concatenate([chain.transition.ravel(), chain.initial])
    if length * np.log2(positive[positive > 0].min()) < _LEAST:
        raise NotChecked("the probabilities of its tails underflow")


def _sums_after(chain: MarkovChain, values: list[int], count: int, top: int) -> list[Any]:
    """Sums over 0, 1, ... ``count`` entries after an entry, given its value."""
    matrix = chain.transition.astype(np.longdouble)
    after = [np.zeros((len(values), top), dtype=np.longdouble)]
    after[0][:, 0] = 1
    for _ in range(count):
        with_own = np.array([_moved(row, v) for row, v in zip(after[-1], values, strict=True)])
        after.append(matrix @ with_own)
    return after


def _of_chain(chain: MarkovChain, values: list[int], length: int, work: Allowance) -> int:
    size, top = len(values), length * max(values) + 1
    _check_tails(chain, length)
    if 16.0 * length * size * top > _MOST_BYTES:
        raise NotChecked(
            f"distributions of the sum need about {16e-9 * length * size * top:,.0f} GB of memory"
        )
    work.spend(1.5 * size * float(top) ** 2 * length / 3 + 100.0 * length * size**2 * top)
    matrix = chain.transition.astype(np.longdouble)
    after = _sums_after(chain, values, length - 1, top)
    before = np.zeros((size, top), dtype=np.longdouble)  # sums up to an entry, with its value
    for x, value in enumerate(values):
        before[x, value] = chain.initial[x]
    worst = 0
    for node in range(1, length + 1):
        most = node * max(values) + 1, (length - node) * max(values) + 1
        distributions = [
            np.convolve(before[x, : most[0]], after[length - node][x, : most[1]])
            for x in range(size)
            if before[x].any()
        ]
        for one, other in combinations(distributions, 2):
            worst = max(worst, _whole_distance(one / one.sum(), other / other.sum()))
        if node < length:
            here = matrix.T @ before
            before = np.array([_moved(row, v) for row, v in zip(here, values, strict=True)])
    return worst


def _moved(row: Any, places: int) -> Any:
    moved = np.zeros_like(row)
    moved[places:] = row[: len(row) - places]
    return moved


def _whole_distance(one: Any, other: Any) -> int:
    """The least whole w, from lower tails below the middle and upper tails above it."""
    worst = 0
    for first, second in ((one, other), (other, one)):
        for f, g in ((first, second), (first[::-1], second[::-1])):
            lower = np.cumsum(f)
            low = np.flatnonzero((f > 0) & (lower - f < 0.5))
            heights = np.minimum(lower[low], 0.5)
            reached = np.searchsorted(np.cumsum(g) * (1 + _ROUNDING), heights)
            worst = max(worst, int((reached - low).max(initial=0)))
    return worst


def distance_of_windows(
    theta: EventClass, weights: Sequence[Fraction], lengths: Iterable[int], work: Allowance
) -> Fraction:
    """W of a sum between two labels, or two values, of a window, for every window."""
    values, unit = _whole(weights)
    worst = 0
    for chain in (member.chain for member in theta.known_chains()):
        for hidden in theta.hidden:
            for length in set(lengths):
                if isinstance(hidden, Sets) and hidden.window > 1:
                    raise NotChecked("there is no recomputation of W for sets of entries")
                if not isinstance(hidden, Events) and hidden.window == 1:
                    worst = max(worst, _of_chain(chain, values, length, work))
                elif not isinstance(hidden, Events) or hidden.window <= length:
                    worst = max(worst, _of_windows(chain, values, length, hidden, work))
    return worst * unit


def _of_windows(
    chain: MarkovChain, values: list[int], length: int, hidden: Secrets, work: Allowance
) -> int:
    """The largest distance over windows: labels are read along the window, or all values."""
    size, top, window = len(values), length * max(values) + 1, min(hidden.window, length)
    _check_tails(chain, length)
    moves, ends = None, None
    if isinstance(hidden, Events):
        automaton = hidden.automaton(chain.states)
        moves, ends = automaton.moves, automaton.ends
    after = _sums_after(chain, values, length - window, top)
    before = np.zeros((size, top), dtype=np.longdouble)  # sums before an entry, with its value
    before[:, 0] = chain.initial
    matrix, worst = chain.transition.astype(np.longdouble), 0
    for first in range(1, length - window + 2):
        cases: dict[tuple[Any, int], Any] = {}
        for x in range(size):
            if before[x].any():
                memory = (x,) if moves is None else int(moves[0][0, x])
                cases[memory, x] = _moved(before[x], values[x])
        for n in range(1, window):
            work.spend(20.0 * len(cases) * size * top)
            further: dict[tuple[Any, int], Any] = {}
            for (memory, x), sums in cases.items():
                for y in np.flatnonzero(matrix[x] > 0).tolist():
                    read = (*memory, y) if moves is None else int(moves[n][memory, y])
                    moved = matrix[x, y] * _moved(sums, values[y])
                    further[read, y] = further.get((read, y), 0) + moved
            cases = further
        rest = after[length - window + 1 - first]
        distributions: dict[Any, Any] = {}
        for (memory, x), sums in cases.items():
            work.spend(1.5 * float(top) ** 2)
            label = memory if ends is None else ends[memory]
            distributions[label] = distributions.get(label, 0) + np.convolve(sums, rest[x])
        for one, other in combinations(distributions.values(), 2):
            work.spend(30.0 * top)
            worst = max(worst, _whole_distance(one / one.sum(), other / other.sum()))
        before = matrix.T @ np.array([_moved(r, v) for r, v in zip(before, values, strict=True)])
    return worst


def distance_of_conditions(
    theta: ChainClass,
    weights: Sequence[Fraction],
    lengths: Sequence[int],
    pairs: Sequence[Any],
    work: Allowance,
) -> Fraction:
    """W between events about named entries; the distances of several segments add up."""
    values, unit = _whole(weights)
    worst = 0
    for chain in (member.chain for member in theta.members()):
        _check_tails(chain, max(lengths))
        for one, other in pairs:
            events = [{int(entry): set(allowed) for entry, allowed in e} for e in (one, other)]
            total, begin = 0, 0
            for length in lengths:
                if any(begin < entry <= begin + length for event in events for entry in event):
                    given = [_conditioned(chain, values, begin, length, e, work) for e in events]
                    if all(sums.any() for sums in given):
                        shares = [sums / sums.sum() for sums in given]
                        total += _whole_distance(*shares)
                begin += length
            worst = max(worst, total)
    return worst * unit


def _conditioned(
    chain: MarkovChain,
    values: list[int],
    begin: int,
    length: int,
    event: Mapping[int, set[int]],
    work: Allowance,
) -> Any:
    """The sum over a segment together with an event, entries counted from before the segment."""
    size, top = len(values), length * max(values) + 1
    matrix = chain.transition.astype(np.longdouble)
    sums = np.zeros((size, top), dtype=np.longdouble)
    for n in range(1, length + 1):
        work.spend(50.0 * size**2 * top)
        if n == 1:
            sums[:, 0] = chain.initial
        else:
            sums = matrix.T @ sums
        allowed = event.get(begin + n, range(size))
        rows = [_moved(row, v) for row, v in zip(sums, values, strict=True)]
        sums = np.array([row if x in allowed else 0 * row for x, row in enumerate(rows)])
    return sums.sum(axis=0)


def distance_of_network_events(
    theta: NetworkClass, weights: Mapping[Hashable, Fraction], pairs: Sequence[Any], work: Allowance
) -> Fraction:
    """W between events about named nodes: values that are not allowed get probability 0."""
    worst = Fraction(0)
    for network in theta.networks:
        for pair in pairs:
            given = []
            for event in pair:
                allowed = {_hashable(node): set(values) for node, values in event}
                tables = {node: _fractions(network, node) for node in network.nodes}
                for node, values in allowed.items():
                    for key, row in tables[node].items():
                        named = zip(network.values[node], row, strict=True)
                        tables[node][key] = [p if v in values else 0 * p for v, p in named]
                together = distribution_of(network, (), tables, work, weights)
                given.append({total: mass for (_, total), mass in together.items()})
            worst = max(worst, _largest(given))
    return worst


def _hashable(node: Any) -> Hashable:
    """A name as read from JSON."""
    return tuple(node) if isinstance(node, list) else node
