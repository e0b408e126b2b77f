"""What an audit found."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pufferkit import checks

FORMAT = "pufferkit-audit/1"


@dataclass(frozen=True)
class WorstCase:
    """The output that tells most about a secret.

    Attributes
    ----------
    loss
        Log of the odds it moves.
    belief, entry
        Where: the law, and the entry, counted from 1 or by name.
    likelier, other
        The two values: the output is e^loss times likelier under the first.
    output
        The output itself: numbers for a release, symbols for a sanitised series.
    complete
        Whether every belief, entry and output was tried. If not, the loss may be larger.
    """

    loss: float
    belief: str
    entry: Hashable
    likelier: Hashable
    other: Hashable
    output: tuple[Any, ...]
    complete: bool = True


@dataclass(frozen=True)
class Audit:
    """A promise, and what the best attack found against it.

    Attributes
    ----------
    mechanism, promise, guarantee
        What was promised: epsilon, and in words to whom.
    proven
        A lower bound on the true epsilon, wrong with probability at most 1 - ``confidence``.
    confidence
        Of that bound.
    attacker
        What told the two secrets apart.
    event
        When the attacker says that it was the first of ``secrets``.
    trials, hits
        Releases drawn for each secret, and how often the event happened under each.
    belief, entry, secrets
        The law the data were drawn from, the entry attacked (counted from 1, or its name), and
        its two values.
    notes
        How it was done, in words.
    """

    mechanism: str
    promise: float
    guarantee: str
    proven: float
    confidence: float
    attacker: str
    event: str
    trials: int
    hits: tuple[int, int]
    belief: str
    entry: Hashable
    secrets: tuple[Hashable, Hashable]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the promise stands: nothing above it was proven."""
        return self.proven <= self.promise

    @property
    def verdict(self) -> str:
        """``passed`` or ``failed``."""
        return "passed" if self.passed else "failed"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"format": FORMAT, **asdict(self), "verdict": self.verdict}

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; floats keep every digit, labels that JSON does not know become text."""
        return json.dumps(self.to_dict(), indent=indent, default=str)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Audit:
        """The audit that ``to_dict`` described. The verdict follows from its numbers."""
        if data.get("format") != FORMAT:
            raise ValueError(
                f"audit: format is {data.get('format')!r}, not {FORMAT!r}; "
                "is this a file that pufferkit wrote?"
            )
        missing = set(cls.__dataclass_fields__) - set(data)
        if missing:
            raise ValueError(f"audit: lacks {', '.join(sorted(missing))}")
        fields = {name: data[name] for name in cls.__dataclass_fields__}
        for name in ("hits", "secrets", "notes"):
            fields[name] = tuple(fields[name])
        return cls(**fields)

    @classmethod
    def from_json(cls, text: str) -> Audit:
        """The audit that ``to_json`` wrote."""
        return cls.from_dict(checks.json_object("audit", text))

    def __str__(self) -> str:
        first, second = self.secrets
        sure = f"{100 * self.confidence:.9g}%"
        if not self.passed:
            meaning = f"FAILED: the promise is broken ({sure} sure)"
        elif self.proven > 0:
            meaning = "passed: this attack proves no more than was promised"
        else:
            meaning = "passed: this attack proves nothing"
        return "\n".join(
            [
                f"{self.mechanism}: promises epsilon {self.promise:g} ({self.guarantee})",
                f"  best attack  {self.attacker}",
                f"               entry {self.entry}, {first!r} against {second!r}; {self.belief}",
                f"               says {first!r} if {self.event}",
                f"               {self.hits[0]:,} times under {first!r}, {self.hits[1]:,} under "
                f"{second!r}, of {self.trials:,} each",
                f"  proves       epsilon >= {self.proven:.4f} ({sure} confidence)",
                f"  verdict      {meaning}",
                *(f"  note         {note}" for note in self.notes),
            ]
        )
