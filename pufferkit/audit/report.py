"""What can be audited, and the report of an audit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pufferkit.audit.answer_model import Conditioned
from pufferkit.audit.attackers import emission_matrix
from pufferkit.audit.noise_drawn import NoiseDrawn
from pufferkit.beliefs.base import as_beliefs
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.records import Report


@runtime_checkable
class LocalMechanism(Protocol):
    """A mechanism that turns every entry into a symbol.

    ``matrix`` has the distribution of the symbol for each state, ``epsilon`` is what it promises.
    It may also have a ``chain`` (the belief it was made for), a ``name``, an ``adversary``
    ("every"), a ``length`` (the longest series promised for), and ``sanitize``, which then draws
    the symbols. If its noise remembers, ``noise_states`` says how: the start and the moves of a
    chain of its own, and the distribution of the symbol for each pair of a state and a state of
    the noise.
    """

    @property
    def matrix(self) -> Floats:
        """Emission matrix, rows states."""
        ...

    @property
    def epsilon(self) -> float:
        """The promise."""
        ...


def belief_of(mechanism: Any, beliefs: Any) -> Any:
    """The beliefs given, or else those of the mechanism."""
    if beliefs is not None:
        return beliefs
    belief = getattr(mechanism, "beliefs", None)
    belief = getattr(mechanism, "chain", None) if belief is None else belief
    if belief is None:
        name = name_of(mechanism)
        raise ValueError(
            f"beliefs: {name} is calibrated without any; give those to audit it against"
        )
    return belief


def name_of(mechanism: Any) -> str:
    """The name of a mechanism."""
    if isinstance(mechanism, Calibration):
        return mechanism.mechanism
    return str(getattr(mechanism, "name", type(mechanism).__name__))


def checked_local(mechanism: Any) -> LocalMechanism:
    """The mechanism, if it has a matrix and an epsilon."""
    if not isinstance(mechanism, LocalMechanism):
        raise ValueError(
            f"mechanism: must be a Calibration or have a matrix and an epsilon, got "
            f"{type(mechanism).__name__}"
        )
    return mechanism


def local_beliefs(mechanism: Any, beliefs: Any) -> list[tuple[str, MarkovChain, bool]]:
    """The chains to audit a local mechanism against: name, chain, whether all are listed."""
    checked_local(mechanism)
    distributions = []
    for own in as_beliefs(belief_of(mechanism, beliefs)).distributions():
        if not isinstance(own.distribution, MarkovChain):
            raise NotApplicable("local mechanisms are audited against Markov chains")
        emission_matrix(own.distribution, np.asarray(mechanism.matrix))
        distributions.append((own.name, own.distribution, own.complete))
    return distributions


def seen_through(mechanism: Any, path: Conditioned) -> tuple[Conditioned, Floats]:
    """What moves behind the symbols, and the distribution of the symbol for each of its states."""
    if not hasattr(mechanism, "noise_states"):
        return path, np.asarray(mechanism.matrix, dtype=np.float64)
    start, moves, emission = mechanism.noise_states
    return path.beside(start, moves), np.asarray(emission, dtype=np.float64)


FORMAT = "pufferkit-audit/1"

TOLERANCE = 1e-7
"""An exact loss this much above a promise, relatively, is rounding."""


@dataclass(frozen=True)
class WorstCase:
    """The output that reveals most about a secret.

    Attributes
    ----------
    loss
        Log of the odds it moves.
    belief, entry
        Where: the distribution, and the entry, counted from 1 or by name.
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


@dataclass(frozen=True, repr=False)
class Audit(Report):
    """A promise, and what the best attack found against it.

    Attributes
    ----------
    mechanism, promise, guarantee
        The promise: epsilon, and the guarantee as text.
    proven
        A lower bound on the true epsilon, wrong with probability at most 1 - ``confidence``.
    confidence
        Of that bound.
    attacker
        What distinguished the two secrets.
    event
        When the attacker says that it was the first of ``secrets``.
    trials, hits
        Releases drawn for each secret, and how often the event happened under each.
    belief, entry, secrets
        The distribution the data were drawn from, the entry attacked (counted from 1, or its name),
        and its two values.
    notes
        Remarks on the method.
    exact
        The worst output, its loss computed by the definition, where that is feasible.
    noise
        What was measured of the noise of releases.
    detectable
        The least true loss that this audit would have detected with probability 95%.
    outside
        For an adversary whose beliefs are not those of the release: the most it can learn from so
        much noise, by its own influence curve; infinite if no bound is known. The promise does not
        speak of it. ``None`` for adversaries within the beliefs.
    """

    _called = "audit"
    _in_words = str

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
    exact: WorstCase | None = None
    noise: NoiseDrawn | None = None
    detectable: float = inf
    outside: float | None = None

    def table_rows(self) -> list[dict[str, Any]]:
        """What was promised, computed, proven and detectable."""
        rows = [{"what": "promised", "epsilon": self.promise}]
        if self.exact is not None:
            known = "exact loss" if self.exact.complete else "loss at least"
            rows.append({"what": known, "epsilon": self.exact.loss})
        rows.append({"what": "proven by attack", "epsilon": self.proven})
        if self.detectable < inf:
            rows.append({"what": "detectable", "epsilon": self.detectable})
        return rows

    @property
    def passed(self) -> bool:
        """Whether the promise stands: nothing above it was proven, and the noise is as claimed."""
        return (
            self.proven <= self.promise
            and (self.exact is None or self.exact.loss <= self.promise * (1 + TOLERANCE))
            and (self.noise is None or not self.noise.problem)
        )

    @property
    def verdict(self) -> str:
        """``passed`` or ``failed``."""
        return "passed" if self.passed else "failed"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"format": FORMAT, **asdict(self), "verdict": self.verdict}

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
            raise ValueError(f"audit: the record lacks the fields {', '.join(sorted(missing))}")
        fields = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        if fields.get("exact") is not None:
            worst = dict(fields["exact"])
            fields["exact"] = WorstCase(**{**worst, "output": tuple(worst["output"])})
        if fields.get("noise") is not None:
            fields["noise"] = NoiseDrawn(**fields["noise"])
        for name in ("hits", "secrets", "notes"):
            fields[name] = tuple(fields[name])
        return cls(**fields)

    def caption(self) -> str:
        """The promise."""
        return f"{self.mechanism}: promises epsilon {self.promise:g} ({self.guarantee})"

    def warnings(self) -> list[str]:
        """The verdict, if it failed."""
        return [] if self.passed else [self._meaning]

    def text_table(self) -> str:
        """The attack, what was computed and measured, what would be found, and the verdict."""
        first, second = self.secrets
        lines = [
            f"  best attack  {self.attacker}",
            f"               entry {self.entry}, {first!r} against {second!r}; {self.belief}",
            f"               says {first!r} if {self.event}",
            f"               {self.hits[0]:,} times under {first!r}, {self.hits[1]:,} under "
            f"{second!r}, of {self.trials:,} each",
            f"  proves       epsilon >= {self.proven:.4f} ({self._sure} confidence)",
        ]
        if self.exact is not None:
            how = "by comparing every output" if self.exact.complete else "at least, by computation"
            lines.append(f"  exact loss   {self.exact.loss:.6f}, {how}")
        if self.outside is not None:
            most = "without a bound" if self.outside == inf else f"at most {self.outside:.6g}"
            lines.append(f"  outside      the beliefs of the release; may learn {most}")
        if self.noise is not None:
            word = f"NOT as claimed: {self.noise.problem}" if self.noise.problem else "as claimed"
            lines.append(
                f"  noise drawn  scale {self.noise.least:.6g} to {self.noise.most:.6g} over "
                f"{self.noise.draws:,} draws, {word}"
            )
        if self.detectable < inf:
            lines.append(
                f"  would find   any loss of {self.detectable:.4g} or more, 19 times in 20"
            )
        else:
            lines.append("  would find   no loss, however large; take more trials")
        lines += [f"  verdict      {self._meaning}"] if self.passed else []
        return "\n".join([*lines, *(f"  note         {note}" for note in self.notes)])

    @property
    def _sure(self) -> str:
        return f"{100 * self.confidence:.9g}%"

    @property
    def _meaning(self) -> str:
        sure = self._sure
        if self.outside is not None and not (self.noise is not None and self.noise.problem):
            return self._outside_meaning(self.outside)
        if self.exact is not None and self.exact.loss > self.promise * (1 + TOLERANCE):
            return "FAILED: noise of the claimed scale breaks the promise, by computation"
        if self.proven > self.promise:
            return f"FAILED: the promise is broken ({sure} sure)"
        if not self.passed:
            return f"FAILED: the noise is not what is claimed ({sure} sure)"
        if self.exact is not None and self.exact.complete:
            return "passed: the noise is as claimed, and so much noise keeps the promise"
        proves = "no more than was promised" if self.proven > 0 else "nothing"
        return f"passed: this attack proves {proves}"

    def _outside_meaning(self, most: float) -> str:
        if not self.passed:
            return "NOT COVERED: this adversary learns more; the promise does not speak of it"
        if most <= self.promise * (1 + TOLERANCE):
            return "covered: this adversary learns no more, though outside the beliefs"
        return "unknown: nothing above the promise was found, and no bound excludes it"
