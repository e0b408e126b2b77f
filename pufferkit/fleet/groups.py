"""Groups of subjects, with declared keys."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pufferkit import checks
from pufferkit.data.table import Counts
from pufferkit.records import digest as digest_of


@dataclass(frozen=True, eq=False)
class Groups:
    """The index of each subject's group among the keys."""

    keys: tuple[Hashable, ...]
    place: Counts

    @classmethod
    def of(
        cls,
        subjects: Sequence[Hashable],
        groups: Mapping[Hashable, Hashable] | None,
        keys: Sequence[Hashable] | None,
    ) -> Groups:
        """Check that every subject is in one group and every group is declared."""
        if groups is None or keys is None:
            raise ValueError(
                "groups and keys: must be given together; declare all possible keys, because which "
                "of them occur is a fact about the data"
            )
        if isinstance(keys, str):
            raise ValueError(f"keys: must be a list of all groups, got {keys!r}")
        declared = checks.distinct_states(keys)
        number = {key: place for place, key in enumerate(declared)}
        lost = [subject for subject in subjects if subject not in groups]
        if lost:
            raise ValueError(f"groups: {len(lost)} subjects have no group, such as {lost[0]!r}")
        strange = {groups[subject] for subject in subjects} - set(declared)
        if strange:
            few = ", ".join(sorted(repr(key) for key in strange)[:5])
            raise ValueError(f"groups: {few} not among the declared keys")
        return cls(declared, np.array([number[groups[subject]] for subject in subjects]))

    @property
    def digest(self) -> str:
        """The same for the same groups."""
        return digest_of({"keys": [str(k) for k in self.keys], "place": self.place.tolist()})

    def of_rows(self, rows: int) -> tuple[Hashable, ...]:
        """The group of each row: all windows of one group, then the next group."""
        return tuple(key for key in self.keys for _ in range(rows // len(self.keys)))
