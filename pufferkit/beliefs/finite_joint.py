"""A joint distribution on finitely many data sets, written out row by row.

This is the most general belief, but only for small data: {tuple of values: probability}. Floats and
fractions are kept unchanged, because decisions based on a joint distribution (ties and tails, [Q]
Definition 3.1) can depend on the last digit.

Classes Theta of joint distributions: finitely many distributions of the same variables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from numbers import Rational
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import ListedClass
from pufferkit.beliefs.markov_chain import labels
from pufferkit.records import JsonRecord
from pufferkit.shown import Shown

if TYPE_CHECKING:
    pass


Probability = float | Fraction
JointRow = tuple[Hashable, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FiniteJoint(Shown, JsonRecord):
    """A distribution of (X_1, ..., X_n), one row for each data set.

    Parameters
    ----------
    table
        {tuple of values: probability}. If all are whole numbers and fractions, everything derived
        from the table is exact, and the sum must be exactly 1. Otherwise probabilities are floats,
        kept unchanged. Rows of probability zero are allowed.
    names
        Names of the variables in the order of the tuples; 1, 2, ... if left out.

    Examples
    --------
    >>> flu = FiniteJoint({(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.1, (1, 1): 0.4})
    >>> dict(flu.conditional(1, 0).table)
    {(0, 0): 0.8, (0, 1): 0.2}
    >>> flu.values(1), flu.probability(1, 0), dict(flu.marginal(2).table)
    ((0, 1), 0.5, {(0,): 0.5, (1,): 0.5})
    """

    table: Mapping[JointRow, Probability]
    names: tuple[Hashable, ...]

    def __init__(
        self, table: Mapping[JointRow, Any], names: Iterable[Hashable] | None = None
    ) -> None:
        if not isinstance(table, Mapping) or not table:
            raise ValueError(
                "table: must be a mapping {tuple of values: probability} with at least one row, "
                f"got {type(table).__name__ if not isinstance(table, Mapping) else 'none'}"
            )
        exact = all(isinstance(p, Rational) for p in table.values())
        rows = {_row(row): _probability(row, p, exact) for row, p in table.items()}
        lengths = {len(row): row for row in rows}
        if len(lengths) > 1:
            (one, first), (two, second) = islice(lengths.items(), 2)
            raise ValueError(
                f"table: row {first} has {one} values and row {second} has {two}; every row needs "
                "one value for each variable"
            )
        if len(rows) < len(table):
            raise ValueError("table: two rows are the same tuple of values; add them up")
        whole = _sum(rows.values(), exact)
        if whole != 1 and (exact or abs(float(whole) - 1) > checks.SUM_TOLERANCE):
            shown = whole if exact else f"{float(whole):.9g}"
            raise ValueError(
                f"table: sums to {shown}, not 1; normalise it or check for missing rows"
            )
        object.__setattr__(self, "table", MappingProxyType(rows))
        object.__setattr__(self, "names", _names(names, next(iter(lengths))))

    @property
    def variables(self) -> int:
        """Number of variables."""
        return len(self.names)

    def __len__(self) -> int:
        return len(self.table)

    def __str__(self) -> str:
        return f"FiniteJoint({self.description})"

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each data set and its probability."""
        names = [str(name) for name in self.names]
        return [
            {**dict(zip(names, map(str, row), strict=True)), "probability": float(p)}
            for row, p in self.table.items()
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return FiniteJoint, (dict(self.table), self.names)

    @property
    def description(self) -> str:
        """One line for tables and reports."""
        numbers = "exact fractions" if self.is_exact else "floats"
        return f"joint distribution of {self.variables} variables, {len(self)} rows, {numbers}"

    @cached_property
    def is_exact(self) -> bool:
        """Whether the probabilities are fractions."""
        return all(isinstance(p, Fraction) for p in self.table.values())

    def values(self, name: Hashable) -> tuple[Hashable, ...]:
        """Values of probability above zero of one variable, in the order of the table."""
        place = self._place(name)
        return tuple(dict.fromkeys(row[place] for row, p in self.table.items() if p > 0))

    def probability(self, name: Hashable, value: Hashable) -> Probability:
        """P(X_name = value)."""
        place = self._place(name)
        return _sum((p for row, p in self.table.items() if row[place] == value), self.is_exact)

    def marginal(self, *names: Hashable) -> FiniteJoint:
        """The joint distribution of some of the variables, in the order given."""
        places = [self._place(name) for name in names]
        if not places or len(set(places)) < len(places):
            raise ValueError(f"names: must be different variables, at least one; got {names}")
        parts: dict[JointRow, list[Probability]] = {}
        for row, p in self.table.items():
            parts.setdefault(tuple(row[place] for place in places), []).append(p)
        return FiniteJoint({row: _sum(ps, self.is_exact) for row, ps in parts.items()}, names)

    def conditional(self, name: Hashable, value: Hashable) -> FiniteJoint:
        """The joint distribution given X_name = value; rows with other values are dropped."""
        place = self._place(name)
        kept = {row: p for row, p in self.table.items() if row[place] == value}
        whole = _sum(kept.values(), self.is_exact)
        if whole == 0:
            raise ValueError(
                f"value: {value!r} has probability 0 for variable {name!r}, so nothing is defined "
                f"given it; choose one of {list(self.values(name))}"
            )
        return FiniteJoint({row: p / whole for row, p in kept.items()}, self.names)

    def _place(self, name: Hashable) -> int:
        if name not in self.names:
            raise ValueError(f"name: {name!r} is unknown; the variables are {list(self.names)}")
        return self.names.index(name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; fractions as strings such as "1/3"."""
        return {
            "kind": "finite_joint",
            "names": list(self.names),
            "rows": [
                [list(row), str(p) if isinstance(p, Fraction) else p]
                for row, p in self.table.items()
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FiniteJoint:
        """The distribution that ``to_dict`` described."""
        if "rows" not in data:
            raise ValueError("model: has no 'rows'; a finite joint lists [values, probability]")
        try:
            table = {
                labels(row): _fraction(p) if isinstance(p, str) else p for row, p in data["rows"]
            }
        except (TypeError, ValueError) as error:
            raise ValueError(f"model: rows must be [values, probability] ({error})") from None
        names = data.get("names")
        return cls(table, labels(names))


def _fraction(text: str) -> Fraction:
    """An exact probability as ``to_dict`` writes it: digits, or digits over digits."""
    if re.fullmatch(r"[0-9]+(/0*[1-9][0-9]*)?", text) is None:
        raise ValueError(f'{text!r:.40} is not a fraction such as "1/3"')
    return Fraction(text)


def _row(row: Any) -> JointRow:
    if not isinstance(row, tuple) or not row:
        raise ValueError(
            f"table: rows are tuples with one value for each variable, got {row!r}; "
            "write (value,) for a single variable"
        )
    return tuple(x.item() if isinstance(x, np.generic) else x for x in row)


def _probability(row: Any, p: Any, exact: bool) -> Probability:
    if isinstance(p, (str, bool, np.bool_)):
        raise ValueError(f"table: row {row} has {p!r:.40}, which is not a number")
    try:
        number = Fraction(p) if exact else float(p)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"table: row {row} has {p!r:.40}, which is not a number") from None
    if not exact and not math.isfinite(number):
        raise ValueError(
            f"table: row {row} has probability {number}, not a finite number; check the export"
        )
    if number < 0:
        raise ValueError(
            f"table: row {row} has probability {number}, below 0; probabilities are non-negative"
        )
    return number


def _sum(ps: Iterable[Probability], exact: bool) -> Probability:
    return sum(ps, Fraction(0)) if exact else math.fsum(ps)


def _names(names: Iterable[Hashable] | None, count: int) -> tuple[Hashable, ...]:
    if names is None:
        return tuple(range(1, count + 1))
    labels = tuple(names)
    if len(labels) != count or len(set(labels)) < count:
        raise ValueError(
            f"names: need {count} different names, one for each variable; got {labels}"
        )
    return labels


@dataclass(frozen=True, eq=False, repr=False)
class JointClass(ListedClass):
    """Several joint distributions of the same variables."""

    kind = "joints"
    member, member_kind = FiniteJoint, "finite_joint"
    called = "distribution"

    joints: tuple[FiniteJoint, ...]

    def check_alike(self) -> None:
        for joint in self.joints:
            if joint.names != self.joints[0].names:
                raise ValueError(
                    f"joints: all must be about the same variables; got "
                    f"{list(self.joints[0].names)} and {list(joint.names)}"
                )

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self.joints[0].names

    @staticmethod
    def values_in(model: FiniteJoint, entry: Hashable) -> tuple[Hashable, ...]:
        return model.values(entry)

    def values(self, entry: Hashable) -> tuple[Hashable, ...]:
        return tuple(value for joint in self.joints for value in joint.values(entry))

    @property
    def description(self) -> str:
        count, first = len(self.joints), self.joints[0].description
        return first if count == 1 else f"{count} distributions, the first a {first}"
