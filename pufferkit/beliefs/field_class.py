"""Classes Theta of Markov random fields: finitely many fields of the same nodes."""

from __future__ import annotations

from dataclasses import dataclass

from pufferkit.beliefs.base import Distribution
from pufferkit.beliefs.listed_class import GraphClass
from pufferkit.beliefs.markov_random_field import MarkovRandomField
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass


@dataclass(frozen=True, eq=False, repr=False)
class FieldClass(GraphClass):
    """Markov random fields over the same nodes with the same values; their graphs may differ.

    Parameters
    ----------
    fields
        At least one.
    """

    kind = "fields"
    member, member_kind = MarkovRandomField, "markov_random_field"
    called = "field"

    fields: tuple[MarkovRandomField, ...]

    def check_alike(self) -> None:
        first = self.fields[0]
        for number, other in enumerate(self.fields, 1):
            if other.nodes != first.nodes:
                raise ValueError(
                    f"fields: number {number} has other nodes than the first, or in another order"
                )
            for node in first.nodes:
                if other.values[node] != first.values[node]:
                    raise ValueError(
                        f"fields: number {number} gives {node!r} the values "
                        f"{other.values[node]}, the first one {first.values[node]}"
                    )

    @property
    def edges(self) -> tuple[tuple[Node, Node], ...]:
        return tuple(dict.fromkeys(edge for field in self.fields for edge in field.edges))

    @property
    def largest_part(self) -> int:
        return max(len(part) for field in self.fields for part in field.components)

    def distributions(self) -> list[Distribution]:
        return [
            Distribution(f"field {n} of {len(self.fields)}", field.joint())
            for n, field in enumerate(self.fields, 1)
        ]

    def networks(self) -> tuple[list[NetworkClass], float]:
        """Each field as a class of one network, and the most that rounding adds to a loss.

        For any data set the probabilities differ by a factor of at most e^eta, where eta is the
        error of the distributions times the number of nodes. Conditional probabilities given a
        value then differ by a factor of at most e^(2 eta), and a loss by at most 4 eta.
        """
        each = [NetworkClass((field.network(),)) for field in self.fields]
        error = max(field.junction_tree.error for field in self.fields)
        return each, 4 * len(self.nodes) * (3 * error + 1e-15)
