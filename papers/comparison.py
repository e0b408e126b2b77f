"""Our noise beside that of other mechanisms, with the guarantee of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

from papers.renyi import renyi_pufferfish
from papers.result import Baseline
from papers.temporal import temporal_noise
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import NamedProgress
from pufferkit.mechanisms.plan import OPTIONS, Plan, plan
from pufferkit.mechanisms.release import Guarantee
from pufferkit.shown import Shown

_HEADS = ("mechanism", "noise", "deviation", "expected L1 error", "promise")


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """A plan, and the noise of other theorems for the same query.

    Attributes
    ----------
    plan
        Our mechanisms; only these can be released.
    baselines
        Other mechanisms that apply.
    refused
        Other mechanisms that do not apply, and why.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> sides = compare(chain, pk.count(1, 100), epsilon=1, delta=1e-6)
    >>> [row["mechanism"] for row in sides.table_rows() if row["promise"].startswith("(1, 1e-06)")]
    ['renyi_near_laplace', 'renyi_gaussian_exact', 'renyi_near_gaussian_exact', 'renyi_gaussian']
    """

    plan: Plan
    baselines: tuple[Baseline, ...]
    refused: tuple[tuple[str, str], ...] = ()

    def table_rows(self) -> list[dict[str, Any]]:
        """All mechanisms: those that hide entries first, then by increasing error."""
        rows = []
        for own in self.plan.entries:
            if own.calibration is not None and own.mechanism not in OPTIONS:
                entry = own.calibration.guarantee is Guarantee.ENTRY
                scale, error = own.calibration.mean_scale, own.calibration.expected_l1_error
                promise = str(own.calibration.guarantee)
                rows.append((entry, own.mechanism, "laplace", sqrt(2) * scale, error, promise))
        for other in self.baselines:
            rows.append(
                (
                    other.weaker,
                    other.name,
                    other.noise,
                    other.deviation,
                    other.expected_l1_error,
                    f"{other.promise}; for comparison only",
                )
            )
        rows.sort(key=lambda row: (row[0], row[4]))
        return [dict(zip(_HEADS, row[1:], strict=True)) for row in rows]

    def __str__(self) -> str:
        table = [_HEADS, *self._cells()]
        widths = [max(len(line[j]) for line in table) for j in range(len(_HEADS))]
        lines = [
            "  ".join(
                cell.rjust(width) if j in (2, 3) else cell.ljust(width)
                for j, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        ]
        head = f"{self.plan.query.name}, epsilon {self.plan.epsilon:g}; {self.plan.beliefs}"
        reasons: dict[str, list[str]] = {}
        for name, why in self.refused:
            reasons.setdefault(why, []).append(name)
        not_here = [f"not applicable: {', '.join(names)}: {why}" for why, names in reasons.items()]
        return "\n".join([head, "", *lines, *([""] if not_here else []), *not_here])

    def _cells(self) -> Iterator[tuple[str, ...]]:
        for name, noise, deviation, error, promise in (row.values() for row in self.table_rows()):
            yield name, noise, f"{deviation:.6g}", f"{error:.6g}", promise


def compare(
    beliefs: Any,
    query: Query,
    epsilon: float,
    delta: float = 1e-6,
    progress: NamedProgress | None = None,
) -> Comparison:
    """Our mechanisms beside those of others, each with its guarantee. Spends nothing.

    Rényi Pufferfish privacy guarantees less: it may fail with probability ``delta``. Temporal
    privacy leakage gives the same guarantee, for one known chain. Neither can be released here.

    Parameters
    ----------
    beliefs, query, epsilon, progress
        As for `plan`.
    delta
        For guarantees that may fail with this probability.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> errors = {row["mechanism"]: row["expected L1 error"]
    ...           for row in compare(chain, count(1, 100), 1).table_rows()}
    >>> round(errors["influence_curve"], 1), round(errors["temporal_leakage"], 1)
    (3.3, 3.3)
    """
    sides = plan(beliefs, query, epsilon, progress=progress)
    asked: dict[str, Callable[[], Baseline]] = {
        "temporal_leakage": partial(temporal_noise, beliefs, query, epsilon)
    }
    renyi = partial(renyi_pufferfish, beliefs, query, epsilon, delta)
    asked["renyi_gaussian"] = renyi
    asked["renyi_gaussian_exact"] = partial(renyi, conversion="exact")
    asked["renyi_near_gaussian_exact"] = partial(renyi, conversion="exact", near=True)
    asked["renyi_near_laplace"] = partial(renyi, noise="laplace", near=True)
    baselines, refused = [], []
    for name, work in asked.items():
        try:
            baselines.append(work())
        except NotApplicable as reason:
            refused.append((name, str(reason)))
    return Comparison(sides, tuple(baselines), tuple(refused))
