"""The guarantee of a release, and the evidence for its scale, which `verify` reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, get_args

Variant = Literal["definition", "formula", "paper", "tight"]
"""Which reading of a theorem: influence by [Q] Definition 4.1 or by (5) as printed; mixing by [Q]
Lemma C.1 as in the paper, or by the operator norm, which is tighter."""

Bound = Literal["curve", "pairs", "quilts", "distance", "window", "neighbours", "group", "entry"]
"""Which theorem decided the scale; in words, `BOUND_WORDS`."""

BOUND_WORDS: dict[Bound, str] = {
    "curve": "the influence curve, one number for all pairs of values",
    "pairs": "the influence curve, pair of values by pair",
    "quilts": "Markov quilts ([Q] Theorem 4.3)",
    "distance": "the Wasserstein distance ([Q] Theorem 3.2)",
    "window": "the distribution of the sum, over a window",
    "neighbours": "the influence of neighbours (GK16)",
    "group": "a whole segment at once",
    "entry": "a single entry",
}

CountedOver = Literal["observed", "span"]
"""For a series with gaps, the entries that the scale was calibrated for: those observed, or all
of the span, which is never less noise."""


class Guarantee(StrEnum):
    """The guarantee of a release. The value is a sentence; files hold the ``code``.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> print(pk.influence_curve(week, pk.count(1, 100), epsilon=1).guarantee)
    Pufferfish for each entry
    """

    PUFFERFISH = "Pufferfish for each entry"
    GROUP = "Pufferfish for each entry, whatever the correlation within a segment"
    EVENTS = "Pufferfish for the secrets that the beliefs name, and for no others"
    SECRETS = "Pufferfish for the pairs of secrets that were given, and for no others"
    ENTRY = "entry DP only: does not hide entries that others predict"

    @property
    def for_named_secrets(self) -> Guarantee:
        """The same under beliefs that name their secrets."""
        return Guarantee.EVENTS if self is Guarantee.PUFFERFISH else self

    @property
    def code(self) -> str:
        """The name of the guarantee in files."""
        return self.name.lower()

    @classmethod
    def of_code(cls, code: Any) -> Guarantee:
        """The guarantee that a file names."""
        if isinstance(code, cls):
            return code
        known = {own.code: own for own in cls}
        if code not in known:
            raise ValueError(f"release: guarantee must be one of {', '.join(known)}, got {code!r}")
        return known[code]


@dataclass(frozen=True)
class Evidence:
    """What determined the scale: the binding belief, entry and quilt or blocks.

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
        counted in both; ``None`` for a side that is paid completely. For a window: how far its ends
        are from the entry; ``None`` for a side that reaches to the end of the segment.
    bound, variant
        Which theorem decided, and which reading of it; see `Bound` and `Variant`.
    counted
        For a series with gaps: which entries the bound counts; see `CountedOver`. ``None``
        without any.
    beside
        Event-level epsilon of other releases under the same guarantee; ``None`` if the guarantee
        is about this release only.
    bought
        Event-level epsilon of the noisy counts that the beliefs were bought with, where it is
        ``beside`` this release or in the account that the release is charged to.
    horizon
        With an account: number of entries that the guarantee covers, all its other releases
        included; ``None`` if it is about the entries of this release only.
    notes
        How the numbers were obtained, in words. No program reads them.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> decided = pk.markov_quilt(week, pk.count(1, 1000), epsilon=1).evidence
    >>> decided.node, decided.quilt
    (500, (495, 505))
    """

    belief: str | None = None
    node: Any = None
    length: int | None = None
    quilt: tuple[Any, ...] | None = None
    influence: float | None = None
    blocks: tuple[int | None, int | None] | None = None
    notes: tuple[str, ...] = ()
    bound: Bound | None = None
    variant: Variant | None = None
    beside: float | None = None
    counted: CountedOver | None = None
    horizon: int | None = None
    bought: float | None = None

    def __post_init__(self) -> None:
        for name, known in _WORDS.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name}: must be one of {', '.join(known)}, got {value!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evidence:
        """The evidence in a file, each field of its own type."""
        if not isinstance(data, Mapping):
            raise ValueError(f"release: evidence must be an object, got {type(data).__name__}")
        strange = sorted(set(data) - set(cls.__dataclass_fields__))
        if strange:
            raise ValueError(f"release: evidence has unknown fields {', '.join(strange)}")
        fields = dict(data)
        for name, (rule, fits) in _EVIDENCE.items():
            value = fields.get(name)
            if value is not None and not fits(value):
                raise ValueError(f"release: {name} in the evidence must be {rule}, got {value!r}")
            if isinstance(value, list):
                fields[name] = tuple(value)
        fields["notes"] = tuple(fields.get("notes") or ())
        try:
            return cls(**fields)
        except ValueError as error:
            raise ValueError(f"release: in the evidence, {error}") from None

    def noting(self, *notes: str, missing: int = 0) -> Evidence:
        """The same with these notes too, each once.

        Where entries are missing it counts the whole span, unless the mechanism counted otherwise.
        """
        spanned = missing and self.counted is None and self.bound != "entry"
        more = tuple(note for note in notes if note not in self.notes)
        counted: CountedOver | None = "span" if spanned else self.counted
        return replace(self, notes=self.notes + more, counted=counted)

    def __str__(self) -> str:
        return "; ".join([*self.decided(), *self.notes])

    def decided(self) -> list[str]:
        """The belief, the entry and the quilt or blocks, in words."""
        parts = []
        if self.belief is not None:
            parts.append(self.belief)
        if self.node is not None and (self.horizon is None or self.horizon != self.length):
            parts.append(f"entry {_named(self.node)} of {self.length}")
        if self.quilt is not None:
            inside = ", ".join(_named(n) for n in self.quilt)
            parts.append(f"quilt {{{inside}}}" if inside else "trivial quilt")
        if self.influence is not None:
            parts.append(f"influence {self.influence:.4g}")
        if self.blocks is not None:
            what = "window" if self.bound == "window" else "block"
            sides = zip(("left", "right"), self.blocks, strict=True)
            parts += [f"{side} {what} {'whole' if n is None else n}" for side, n in sides]
        if self.counted is not None:
            parts.append(_COUNTED[self.counted])
        if self.horizon is not None:
            parts.append(f"with all other releases of the account, over {self.horizon:.0e} entries")
        return parts


_COUNTED = {
    "observed": "only observed entries counted",
    "span": "noise of the unbroken span",
}

_WORDS = {"bound": get_args(Bound), "variant": get_args(Variant), "counted": get_args(CountedOver)}
"""The fields of the evidence with a fixed set of values."""


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is a number, not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_list(value: Any) -> bool:
    """Whether this is a list or a tuple."""
    return isinstance(value, (list, tuple))


_EVIDENCE: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "belief": ("text", lambda v: isinstance(v, str)),
    "length": ("a whole number above 0", lambda v: is_whole(v) and v > 0),
    "quilt": ("a list of entries", is_list),
    "influence": ("a number", is_number),
    "blocks": (
        "two whole numbers or null",
        lambda v: is_list(v) and len(v) == 2 and all(n is None or is_whole(n) for n in v),
    ),
    "notes": ("a list of texts", lambda v: is_list(v) and all(isinstance(n, str) for n in v)),
    "bound": ("text", lambda v: isinstance(v, str)),
    "variant": ("text", lambda v: isinstance(v, str)),
    "counted": ("text", lambda v: isinstance(v, str)),
    "horizon": ("a whole number above 0", lambda v: is_whole(v) and v > 0),
    "bought": ("a number of at least 0", lambda v: is_number(v) and 0 <= v < math.inf),
    "beside": ("a number of at least 0", lambda v: is_number(v) and 0 <= v < math.inf),
}
"""What each field of the evidence must be in a file, in words and as a test."""


def _named(node: Hashable) -> str:
    return f"X_{node}" if isinstance(node, int) else str(node)
