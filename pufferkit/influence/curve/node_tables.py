"""Steps of many nodes, each with its own kernels, in one table.

From a fixed initial distribution the kernel P(X_{i-m} = u | X_i = x) differs from node to node
until the start is forgotten, and in an absorbing chain at all nodes. One object for each
node and block would take most of the time. Here the candidates of all of them (see
`pufferkit.influence.curve.steps`) are in one table, without the dominated ones, and one
loop goes through all nodes. Time and memory grow with nodes times blocks.

Two ways to the same steps: little work is done by numpy, all nodes of a block at once and then all
blocks of a node at once, so that a first plan need not wait for a compiler. More is done by
compiled loops over flat arrays.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.compiling import compiled_loop
from pufferkit.influence.curve.steps import LARGE, kernel_error
from pufferkit.influence.quilts.given_start import GivenStartInfluence
from pufferkit.influence.quilts.powers import TINY

_FEW = 32
_MOST_NODES = 4_000
_MANY = 5
_MOST_CELLS = 4_000_000


class NodeTables:
    """Steps to the left of nodes 1 ... ``nodes``, for blocks of these sizes."""

    def __init__(self, source: GivenStartInfluence, blocks: Sequence[int], nodes: int) -> None:
        self.nodes, self._source = nodes, source
        # Larger blocks have no kernel at any of these nodes.
        self._blocks = np.array([m for m in blocks if m < nodes], dtype=np.int64)

    def values(self, spent: Floats) -> Floats:
        """Alpha of every node; ``spent[i]`` is the total spent on the first i entries."""
        if self.solves_by_loops:
            values: Floats = _swept(*self._candidates, self._blocks, self._errors, spent)
            return values
        begun = process_time()
        try:
            return self._arrays.values(self._blocks, self._errors, spent)
        finally:
            _tabled.patient(process_time() - begun)

    @cached_property
    def solves_by_loops(self) -> bool:
        """Whether there is so much to do that compiled loops pay."""
        many = self.nodes * (_MANY if _tabled.is_kept else 1) > _MOST_NODES
        cells = self.nodes * len(self._blocks) * len(self._source.chain) ** 3
        return many or cells > _MOST_CELLS or not _tabled.patient()

    @cached_property
    def _errors(self) -> Floats:
        source = self._source
        prior = source.prior(1)[1]
        size = len(source.chain)
        rounding = [source.powers.rounding(m) for m in self._blocks.tolist()]
        return np.array([kernel_error(own + prior, size, size) for own in rounding])

    @cached_property
    def _kernels(self) -> tuple[Any, ...]:
        source = self._source
        rows = source.rows(np.arange(1, self.nodes + 1))
        possible = source.patterns[source.which[rows]]
        distributions = np.where(possible, np.exp(source.logs[rows]), 0.0)
        kernels = [source.powers[m] for m in self._blocks.tolist()]
        return (
            distributions,
            possible,
            source.underflowed[rows].any(axis=1),
            np.array([kernel.values for kernel in kernels]),
            np.array([kernel.possible for kernel in kernels]),
            self._blocks,
            TINY,
        )

    @cached_property
    def _candidates(self) -> tuple[Any, ...]:
        return _tabled(*self._kernels)  # type: ignore[no-any-return]

    @cached_property
    def _arrays(self) -> _Arrays:
        return _in_arrays(*self._kernels)


class _Arrays(NamedTuple):
    """Candidates of every node and block, padded with zeros; whether it has a kernel, and any."""

    above: Floats
    below: Floats
    has_kernel: Bools
    has_any: Bools

    def values(self, blocks: NDArray[np.int64], errors: Floats, spent: Floats) -> Floats:
        """The least bound of every node, one after another."""
        before = np.arange(len(self.above))[:, None] - blocks
        own = spent[1:, None] - spent[np.maximum(before + 1, 0)]
        own[~self.has_kernel] = np.inf
        errors = np.where(self.has_any, errors, 0.0)
        values = spent[1:].copy()
        for node in range(1, len(values)):
            variations = values[before[node]]  # of some other node where there is no kernel
            above, below = self.above[node], self.below[node]
            rise = np.expm1(np.minimum(variations, LARGE))[:, None]
            steps = np.log(((1.0 + above * rise) / (1.0 + below * rise)).max(axis=1))
            if variations.max() >= LARGE:
                far = variations >= LARGE
                steps[far] = _largest_beyond(above[far], below[far], variations[far, None])
            steps = np.minimum(steps + errors[node], variations)
            values[node] = min(values[node], (own[node] + steps).min())
        return values


def _largest_beyond(above: Floats, below: Floats, variations: Floats) -> Floats:
    """Rows of `_largest` at large variations: the shares divided by e^a, on both sides."""
    rest = np.exp(-variations)
    high, low = (share + (1.0 - share) * rest for share in (above, below))
    least = np.broadcast_to(-variations, low.shape)
    logs = [np.log(share, out=least.copy(), where=share > 0) for share in (high, low)]
    largest: Floats = (logs[0] - logs[1]).max(axis=1)
    return np.maximum(largest, 0.0)


def _in_arrays(
    distributions: Floats,
    possible: Bools,
    underflows: Bools,
    kernels: Floats,
    patterns: Bools,
    blocks: NDArray[np.int64],
    tiny: float,
) -> _Arrays:
    """The table of `_tabled`, by numpy."""
    nodes, size = distributions.shape
    tables = []
    has_kernel = np.zeros((nodes, len(blocks)), dtype=bool)
    for place, block in enumerate(blocks.tolist()):
        here = np.arange(block, nodes)
        before = here - block
        has_kernel[here, place] = ~(underflows[here] | underflows[before])
        joint = (distributions[before][:, :, None] * kernels[place]).transpose(0, 2, 1)
        total = joint.sum(axis=2, keepdims=True)
        value = np.divide(joint, total, out=np.zeros(joint.shape), where=total > 0)
        may = possible[before][:, None, :] & patterns[place].T
        upper = np.where(may, np.maximum(value, tiny), 0.0)[:, :, None, :]
        lower = np.where(value >= tiny, value, 0.0)[:, None, :, :]
        ratio = np.divide(
            upper, lower, out=np.full((len(here), *3 * [size]), np.inf), where=lower > 0
        )
        order = np.argsort(-np.where(upper > 0, ratio, -1.0), axis=3, kind="stable")
        high, low = (
            np.minimum(np.take_along_axis(np.broadcast_to(own, order.shape), order, 3).cumsum(3), 1)
            for own in (upper, lower)
        )
        both = possible[here][:, :, None] & possible[here][:, None, :] & ~np.eye(size, dtype=bool)
        kept = both[..., None] & (high > low) & has_kernel[here, place][:, None, None, None]
        tables.append(_undominated(np.where(kept, high, 0.0), np.where(kept, low, 0.0)))
    width = max((above.shape[1] for above, _ in tables), default=1)
    above, below = (np.zeros((nodes, len(blocks), width)) for _ in range(2))
    for place, own in enumerate(tables):
        for array, rows in zip((above, below), own, strict=True):
            array[nodes - len(rows) :, place, : rows.shape[1]] = rows
    return _Arrays(above, below, has_kernel, np.asarray(above.any(axis=2)))


def _undominated(above: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Of every row the candidates that are not dominated, padded with zeros."""
    above, below = above.reshape(len(above), -1), below.reshape(len(below), -1)
    order = np.argsort(-above, axis=1, kind="stable")
    above, below = np.take_along_axis(above, order, 1), np.take_along_axis(below, order, 1)
    least = np.minimum.accumulate(below, axis=1)
    kept = above > 0
    kept[:, 1:] &= below[:, 1:] < least[:, :-1]
    width = max(1, int(kept.sum(axis=1).max(initial=1)))
    first = np.argsort(~kept, axis=1, kind="stable")[:, :width]
    rows = (np.take_along_axis(np.where(kept, own, 0.0), first, 1) for own in (above, below))
    return tuple(rows)  # type: ignore[return-value]


@compiled_loop
def _tabled(distributions, possible, underflows, kernels, patterns, blocks, tiny):
    """For every node and block: where its candidates begin and end, or -1 if it has no kernel."""
    nodes, size = distributions.shape
    begins = np.full((nodes, len(blocks)), -1, np.int64)
    ends = np.zeros((nodes, len(blocks)), np.int64)
    above, below = np.empty(1024), np.empty(1024)
    written = 0
    upper, lower = np.empty((size, size)), np.empty((size, size))
    highs, lows, order = np.empty(size**3), np.empty(size**3), np.empty(size**3, np.int64)
    for node in range(nodes):
        for place in range(len(blocks)):
            before = node - blocks[place]
            if before < 0 or underflows[node] or underflows[before]:
                continue
            _backwards(
                distributions[before],
                possible[before],
                kernels[place],
                patterns[place],
                tiny,
                upper,
                lower,
            )
            count = _prefixes(possible[node], upper, lower, highs, lows)
            while written + count > len(above):
                above = np.concatenate((above, np.empty(len(above))))
                below = np.concatenate((below, np.empty(len(below))))
            begins[node, place] = written
            least = np.inf
            _sort(-highs[:count], order[:count])
            for n in order[:count]:
                if lows[n] < least:
                    least = lows[n]
                    above[written], below[written] = highs[n], lows[n]
                    written += 1
            ends[node, place] = written
    return begins, ends, above[:written].copy(), below[:written].copy()


@compiled_loop
def _backwards(distribution, possible, kernel, pattern, tiny, upper, lower):
    """P(X_{i-m} = u | X_i = x): upper and lower bounds in view of underflow."""
    size = len(distribution)
    for x in range(size):
        total = 0.0
        for u in range(size):
            total += distribution[u] * kernel[u, x]
        for u in range(size):
            value = distribution[u] * kernel[u, x] / total if total > 0.0 else 0.0
            upper[x, u] = max(value, tiny) if possible[u] and pattern[u, x] else 0.0
            lower[x, u] = value if value >= tiny else 0.0


@compiled_loop
def _prefixes(possible, upper, lower, highs, lows):
    """K(x, S) and K(x', S) for possible x, x' and prefixes S, where the first is larger."""
    size, count = len(possible), 0
    ratios, order = np.empty(size), np.empty(size, np.int64)
    for x in range(size):
        for other in range(size):
            if x == other or not (possible[x] and possible[other]):
                continue
            for u in range(size):
                if upper[x, u] == 0.0:
                    ratios[u] = 1.0
                else:
                    ratios[u] = -upper[x, u] / lower[other, u] if lower[other, u] else -np.inf
            high, low = 0.0, 0.0
            _sort(ratios, order)
            for state in order:
                high, low = high + upper[x, state], low + lower[other, state]
                if min(high, 1.0) > min(low, 1.0):
                    highs[count], lows[count] = min(high, 1.0), min(low, 1.0)
                    count += 1
    return count


@compiled_loop
def _sort(keys, order):
    """Indices of the keys in increasing order; by insertion if they are few, as is usual."""
    if len(keys) > _FEW:
        order[:] = np.argsort(keys)
        return
    for n in range(len(keys)):
        place = n
        while place > 0 and keys[order[place - 1]] > keys[n]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = n


@compiled_loop
def _swept(begins, ends, above, below, blocks, errors, spent):
    """The least bound of every node, one after another."""
    values = np.empty(len(begins))
    for node in range(len(begins)):
        best = spent[node + 1]
        for place in range(len(blocks)):
            before = node - blocks[place]
            own = spent[node + 1] - spent[max(before + 1, 0)]
            if before < 0 or own >= best:
                break  # larger blocks cost more still
            begin, end = begins[node, place], ends[node, place]
            if begin >= 0:
                step = _largest(above, below, begin, end, values[before]) + errors[place]
                best = min(best, own + (min(step, values[before]) if end > begin else 0.0))
        values[node] = best
    return values


@compiled_loop
def _largest(above, below, begin, end, variation):
    """The largest log (1 + A (e^a - 1)) / (1 + B (e^a - 1)) of some candidates."""
    if variation < LARGE:
        rise, ratio = np.expm1(variation), 1.0
        for n in range(begin, end):
            ratio = max(ratio, (1.0 + above[n] * rise) / (1.0 + below[n] * rise))
        return np.log(ratio)
    # The same divided by e^a; a share that may have underflowed counts as zero.
    rest, largest = np.exp(-variation), 0.0
    for n in range(begin, end):
        low = below[n] + (1.0 - below[n]) * rest
        high = above[n] + (1.0 - above[n]) * rest
        largest = max(largest, np.log(high) - (np.log(low) if low > 0.0 else -variation))
    return largest
