"""Classes Theta that list finitely many models of the same entries, one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Self

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, Distribution
from pufferkit.beliefs.network_checks import Node


class ListedClass(Beliefs):
    """Models listed in the attribute that ``kind`` names; each is an instance of ``member``."""

    called: ClassVar[str]
    """The word for one model."""

    @property
    def listed(self) -> tuple[Any, ...]:
        """The models."""
        models: tuple[Any, ...] = getattr(self, self.kind)
        return models

    def __post_init__(self) -> None:
        if not self.listed:
            raise ValueError(f"{self.kind}: a class needs at least one {self.called}, got none")
        for model in self.listed:
            if not isinstance(model, self.member):
                raise ValueError(
                    f"{self.kind}: must be {self.member.__name__} objects, "
                    f"got {type(model).__name__}"
                )
        self.check_alike()
        columns = [self.values_in(model, entry) for model in self.listed for entry in self.entries]
        every = dict.fromkeys(value for column in columns for value in column)
        checks.assign(self, states=tuple(every))

    @property
    @abstractmethod
    def entries(self) -> tuple[Hashable, ...]:
        """Names of the entries that all models are about."""

    @staticmethod
    @abstractmethod
    def values_in(model: Any, entry: Hashable) -> tuple[Hashable, ...]:
        """The values that an entry can take in one of the models."""

    @abstractmethod
    def check_alike(self) -> None:
        """Refuse models that are not about the same entries."""

    def distributions(self) -> list[Distribution]:
        return [
            Distribution(f"{self.called} {n} of {len(self.listed)}", model)
            for n, model in enumerate(self.listed, 1)
        ]

    def table_rows(self) -> list[dict[str, Any]]:
        if len(self.listed) == 1:
            rows: list[dict[str, Any]] = self.listed[0].table_rows()
            return rows
        return [
            {"of": f"{self.called} {n}", **row}
            for n, model in enumerate(self.listed, 1)
            for row in model.table_rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, self.kind: [model.to_dict() for model in self.listed]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The class that ``to_dict`` described; the record of one model is a class of one."""
        if data.get("kind") != cls.kind:
            records = [data]
        elif isinstance(data.get(cls.kind), list):
            records = data[cls.kind]
        else:
            raise ValueError(f"model: a class of {cls.called}s needs a list {cls.kind!r}")
        make: Any = cls
        made: Self = make(tuple(cls.member.from_dict(own) for own in records))
        return made


class GraphClass(ListedClass):
    """Models of the same nodes of a graph, each with the same values."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in the order of the data; those of networks have parents before children."""
        nodes: tuple[Node, ...] = self.listed[0].nodes
        return nodes

    @property
    def entries(self) -> tuple[Node, ...]:
        return self.nodes

    @staticmethod
    def values_in(model: Any, entry: Hashable) -> tuple[Hashable, ...]:
        values: tuple[Hashable, ...] = model.values[entry]
        return values

    def values(self, entry: Hashable) -> tuple[Hashable, ...]:
        return self.values_in(self.listed[0], entry)

    @property
    def description(self) -> str:
        count, first = len(self.listed), self.listed[0].description
        return str(first) if count == 1 else f"{count} sets of parameters of a {first}"
