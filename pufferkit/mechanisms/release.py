"""A release: the noisy answer, and everything a reader needs to judge it."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.checks import Floats

FORMAT = "pufferkit-release/1"


@dataclass(frozen=True)
class Evidence:
    """Why the scale is what it is: what binds.

    Attributes
    ----------
    belief
        The chain of the class that needs the most noise.
    node
        The entry that is hardest to hide: counted from 1 within its segment, or its name.
    length
        Length of that segment.
    quilt
        Nodes of its best Markov quilt; empty for the trivial quilt.
    influence
        Max-influence of the entry on that quilt, or the mechanism's own measure.
    blocks
        For the influence curve: entries paid for to the left and to the right of the entry, itself
        counted in both; ``None`` for a side that is paid for whole.
    notes
        How the numbers were obtained, in words.
    """

    belief: str | None = None
    node: Any = None
    length: int | None = None
    quilt: tuple[Any, ...] | None = None
    influence: float | None = None
    blocks: tuple[int | None, int | None] | None = None
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> Evidence:
        """The same with these notes too, each once."""
        more = tuple(note for note in notes if note not in self.notes)
        return replace(self, notes=self.notes + more)

    def __str__(self) -> str:
        parts = []
        if self.belief is not None:
            parts.append(self.belief)
        if self.node is not None:
            parts.append(f"entry {_named(self.node)} of {self.length}")
        if self.quilt is not None:
            inside = ", ".join(_named(n) for n in self.quilt)
            parts.append(f"quilt {{{inside}}}" if inside else "trivial quilt")
        if self.influence is not None:
            parts.append(f"influence {self.influence:.4g}")
        if self.blocks is not None:
            sides = zip(("left", "right"), self.blocks, strict=True)
            parts += [f"{side} block {'whole' if n is None else n}" for side, n in sides]
        return "; ".join([*parts, *self.notes])


@dataclass(frozen=True)
class Release:
    """A noisy answer that may leave the process.

    Attributes
    ----------
    value
        The answer to use: ``raw``, or what `as_histogram` made of it.
    raw
        The answer with its noise, untouched.
    scale
        Scale of the Laplace noise on every coordinate; at least what the theorem asks.
    epsilon, mechanism, guarantee
        What is promised, and by what.
    query, labels, lengths, lipschitz, total
        What was asked; lengths count entries that were not observed too.
    observed
        How many entries of each segment were observed; ``None`` if all were.
    beliefs
        The class Theta, as plain data; ``None`` if the mechanism needs none.
    evidence
        What binds.
    released_at
        Time in UTC.
    version
        Of pufferkit.
    workings
        What a check of the scale needs besides: for sums, the contribution of each state; for
        networks, a quilt of every node; for joint laws, the answer on every row.
    """

    value: tuple[float, ...]
    raw: tuple[float, ...]
    scale: float
    epsilon: float
    mechanism: str
    guarantee: str
    query: str
    labels: tuple[str, ...]
    lengths: tuple[int, ...]
    lipschitz: float
    total: float | None
    beliefs: Mapping[str, Any] | None
    evidence: Evidence
    released_at: str
    version: str
    workings: Mapping[str, Any] | None = None
    observed: tuple[int, ...] | None = None

    def interval(
        self, level: float = 0.95, *, simultaneous: bool = False
    ) -> tuple[tuple[float, float], ...]:
        """Where the exact answer lies, for each coordinate, with this confidence.

        With ``simultaneous``, all coordinates at once. It speaks of the noise alone, not of how
        well the series stands for anything else.
        """
        width = half_width(self.scale, level, len(self.raw) if simultaneous else 1)
        return tuple((value - width, value + width) for value in self.raw)

    def as_histogram(self) -> Release:
        """The nearest proper histogram: no negative bins, summing to the known total.

        Post-processing, so it costs nothing; ``raw`` stays as it was.
        """
        if self.total is None:
            raise ValueError(
                f"release: {self.query} is not a histogram, its coordinates have no known total"
            )
        nearest = project_to_simplex(np.array(self.raw), self.total)
        return replace(self, value=tuple(float(v) for v in nearest))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"format": FORMAT, **asdict(self)}

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; floats keep every digit."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Release:
        """The release that ``to_dict`` described."""
        if data.get("format") != FORMAT:
            raise ValueError(
                f"release: format is {data.get('format')!r}, not {FORMAT!r}; "
                "is this a file that pufferkit wrote?"
            )
        fields = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        missing = set(cls.__dataclass_fields__) - set(fields) - {"workings", "observed"}
        if missing:
            raise ValueError(f"release: lacks {', '.join(sorted(missing))}")
        evidence = dict(fields["evidence"])
        evidence["notes"] = tuple(evidence.get("notes", ()))
        for name in ("quilt", "blocks"):
            if evidence.get(name) is not None:
                evidence[name] = tuple(evidence[name])
        fields["evidence"] = Evidence(**evidence)
        for name in ("value", "raw", "labels", "lengths"):
            fields[name] = tuple(fields[name])
        if fields.get("observed") is not None:
            fields["observed"] = tuple(fields["observed"])
        return cls(**fields)

    @classmethod
    def from_json(cls, text: str) -> Release:
        """The release that ``to_json`` wrote."""
        return cls.from_dict(checks.json_object("release", text))

    def __str__(self) -> str:
        intervals = self.interval()
        wide = max(len(label) for label in self.labels)
        rows = [
            f"  {label:<{wide}}  {value:>12.6g}   95%: {low:.6g} to {high:.6g}"
            for label, value, (low, high) in zip(self.labels, self.value, intervals, strict=True)
        ]
        head = f"{self.query}: {self.mechanism}, epsilon {self.epsilon:g}, scale {self.scale:.6g}"
        if self.observed is not None:
            rows.append(
                f"  {sum(self.observed):,} of {sum(self.lengths):,} entries were observed; the "
                "others are hidden as well"
            )
        return "\n".join([head, *rows, f"  {self.guarantee}", f"  binds: {self.evidence}"])


def _named(node: Hashable) -> str:
    return f"X_{node}" if isinstance(node, int) else str(node)


def half_width(scale: float, level: float, count: int = 1) -> float:
    """Half the width of the interval that holds ``count`` Laplace draws at once."""
    level = checks.real("level", level)
    if not 0 < level < 1:
        raise ValueError(f"level: must lie between 0 and 1, got {level:g}; for example 0.95")
    return -scale * math.log(-math.expm1(math.log(level) / count))


def project_to_simplex(values: Floats, total: float) -> Floats:
    """The nearest point, in Euclidean distance, that is non-negative and sums to ``total``."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    nearest: Floats = np.maximum(values - excess[last], 0.0)
    return nearest
