"""Time and memory for the curve of a graph, estimated from its cliques before work begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from pufferkit.beliefs.junction_tree import CliqueTree, GraphModel
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.removals import AT_ONCE, means_of, ratios_of

MOST_BYTES = 2_000_000_000
"""Most memory that the curve of a class of graphs may take."""

_PASSES = 5  # a search makes about so many
_WAYS = 3  # two orders; some nodes are paid, and then averaged too
_NANOSECONDS = 4.0  # a ratio
_EACH = 3e5  # a message
_BOTH = 5e8  # up to so much time both trees are tried
_PER_ENTRY, _PER_MEAN, _PER_CLIQUE = 24, 48, 15_000  # bytes


def sizes_of(model: GraphModel) -> list[int]:
    """The number of values of each node."""
    return [len(model.values[node]) for node in model.nodes]


def quick_trees(model: GraphModel) -> list[CliqueTree]:
    """The quicker of the trees of narrow parts; both, if they take little time.

    Neither has always less loss.
    """
    sizes = sizes_of(model)
    trees = CliqueTree.all_of(sizes, [scope for scope, _ in model.log_factors], None)
    works = [_work(sizes, tree) for tree in trees]
    return trees if sum(works) <= _BOTH else [trees[works.index(min(works))]]


def graph_work(model: GraphModel) -> float:
    """Approximate nanoseconds for the search for the largest event-level epsilon."""
    return sum(_work(sizes_of(model), tree) for tree in quick_trees(model))


def _work(sizes: Sequence[int], tree: CliqueTree) -> float:
    """Those for one tree."""
    ratios, messages = 0.0, 0
    for clique, kept in _messages(sizes, tree):
        out = [sizes[n] for n in clique if n not in kept]
        stay = [sizes[n] for n in kept]
        messages += 1
        if len(out) > 1:
            each = (ratios_of(out, stay, [size]) for size in stay)
            ratios += _WAYS * sum(each)
        elif out:
            ratios += ratios_of(out, stay, stay)
    return _PASSES * (_NANOSECONDS * ratios + _EACH * messages)


def _messages(
    sizes: Sequence[int], tree: CliqueTree
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """A clique and the nodes that stay, for both directions of every edge and for every node."""
    home: dict[int, tuple[int, ...]] = {}
    for c, own in enumerate(tree.cliques):
        above = tree.parent[c]
        if above >= 0:
            kept = tree.separator(c)
            yield own, kept
            yield tree.cliques[above], kept
        for n in own:
            home[n] = min(own, home.get(n, own), key=lambda nodes: prod(sizes[m] for m in nodes))
    for n, own in home.items():
        yield own, (n,)


def curve_bytes(model: GraphModel, trees: Sequence[CliqueTree]) -> float:
    """About how many bytes the curve of one model takes."""
    sizes = sizes_of(model)
    kept, largest, together = 0.0, 0.0, 0.0
    for tree in trees:
        homes = Counter(tree.home)
        for c, own in enumerate(tree.cliques):
            means = means_of([sizes[n] for n in own])
            kept += _PER_ENTRY * prod(sizes[n] for n in own) + _PER_CLIQUE
            largest = max(largest, means)
            together += 2 * means * homes[c]  # ways of all nodes are followed at once
    return kept + _PER_MEAN * max(largest, min(AT_ONCE, together))


def check_memory(models: Sequence[GraphModel], trees: Sequence[Sequence[CliqueTree]]) -> None:
    """Refuse models that need too much memory, before it is used."""
    needed = sum(curve_bytes(model, own) for model, own in zip(models, trees, strict=True))
    if needed > MOST_BYTES:
        raise NotApplicable(
            f"the influence curve of {len(models):,} graphs needs about {needed / 1e9:.3g} GB of "
            f"memory, more than {MOST_BYTES / 1e9:.3g}; list fewer, or merge values of nodes"
        )
