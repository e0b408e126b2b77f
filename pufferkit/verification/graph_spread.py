"""GK16 and group DP on graphs, recomputed for `verify`: how far a change of one node spreads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pufferkit.beliefs.junction_tree import GraphModel
from pufferkit.verification.graph_bounds import (
    components,
    graph_of,
)

if TYPE_CHECKING:
    pass


def largest_part(model: GraphModel) -> int:
    """Number of nodes of the largest connected component."""
    graph = graph_of(len(model.nodes), (scope for scope, _ in model.log_factors))
    return max(len(part) for part in components(graph))
