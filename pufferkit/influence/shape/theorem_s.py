"""The loss of shaped noise on the influence curve: a cost on the regimes, and nothing else anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NoTheorem
from pufferkit.influence.curve.engine import CostRuns, EntryLoss, Part, PartCurve
from pufferkit.influence.curve.steps import Contaminated, HiddenCost, Transport, closure
from pufferkit.influence.curve.transport_plans import bases_of, packed
from pufferkit.influence.shape.costs import beside_costs, regime_costs
from pufferkit.influence.shape.shaping import Shape
from pufferkit.influence.shape.theorem_w import AlikeChain, loss_w
from pufferkit.rounding import EPS
from pufferkit.threads import one_thread


@dataclass(frozen=True, eq=False)
class Active:
    """Consecutive entries, the coordinates that count them, and what Laplace releases cost there.

    Attributes
    ----------
    count
        How many entries.
    coordinates
        Which coordinates count them; ``None`` for all, none of them in a gap.
    beside
        The cost of Laplace releases at these entries, k x k; ``None`` without.
    """

    count: int
    coordinates: tuple[int, ...] | None = None
    beside: Floats | None = None


CountedRuns = int | Sequence[Active]
"""A number of entries that all coordinates count, or runs of them."""


class Shaped:
    """The cost of hidden regimes under sech noise: the least of three bounds.

    The engine asks for the cost of regimes by that of the entries. The transport step of the latter
    always holds; `Shaped.known` has the other two (`pufferkit.influence.shape.costs`) for the costs
    that occur.
    """

    def __init__(self, steps: Transport | Contaminated) -> None:
        self.steps = steps
        self.known: dict[bytes, Floats] = {}

    @property
    def contamination(self) -> float:
        """Share of each row of the emission that may be any distribution."""
        if isinstance(self.steps, Transport):
            return 0.0
        return float(self.steps.programmes.kernels[0][0, self.steps.states])

    @property
    def emissions(self) -> list[Floats]:
        """Vertices of the emission, less that share."""
        if isinstance(self.steps, Transport):
            return self.steps.kernels
        h, k = self.steps.rows, self.steps.states
        return [kernel[:h, :k] for kernel in self.steps.programmes.kernels]

    def learn(self, shape: Shape, run: Active) -> Floats:
        """The cost of the entries of a run; that of their regimes is kept."""
        cost = _entry_cost(shape, run)
        key = closure(cost).tobytes()
        chosen = _chosen(shape, run)
        if not chosen or shape.noise == "laplace":
            bound = np.full((len(self.emissions[0]),) * 2, np.inf)
        else:
            added = shape.directions[:, chosen].astype(float)
            given = self.emissions, self.contamination, added, shape.rates[chosen]
            if run.beside is None:
                bound = regime_costs(*given)
            else:
                more = beside_costs(*given, run.beside)
                bound = (self.steps(closure(run.beside)) + more) * (1 + 2 * EPS)
        before = self.known.get(key)
        self.known[key] = bound if before is None else np.maximum(before, bound)
        return cost

    def __call__(self, limit: Floats) -> Floats:
        """The cost of exchanging a regime for another where entries cost ``limit``, rounded up."""
        step = self.steps(limit)
        known = self.known.get(limit.tobytes())
        if known is None:
            return step
        least = np.where(known < step, known, step)  # what is not a number bounds nothing
        np.fill_diagonal(least, 0.0)
        return closure(least)

    def plans(self, shape: Shape, runs: Sequence[Active]) -> str | None:
        """The plans of the transport steps that were taken for these runs, for a record."""

        def bases() -> Iterator[bytes]:
            for run in runs:
                for cost in (_entry_cost(shape, run), run.beside):
                    if cost is not None:
                        self.steps(closure(cost))
                        yield from bases_of(self.steps)

        return packed(bases())


def _chosen(shape: Shape, run: Active) -> list[int]:
    return list(range(shape.coordinates) if run.coordinates is None else run.coordinates)


def _entry_cost(shape: Shape, run: Active) -> Floats:
    """What replacing an entry costs: by the coordinates that count it, and by what is beside."""
    cost = shape.cost_of(_chosen(shape, run))
    return cost if run.beside is None else (cost + run.beside) * (1 + 2 * EPS)


class ShapedCurve:
    """The loss of shapes under the parts of a class; see `loss_s` and `theorem_w.loss_w`.

    What was computed for one shape begins the next.

    Parameters
    ----------
    parts
        What each member of a class says.
    lengths
        The lengths of the segments, or that of the only one.
    reach
        How far windows reach, for Theorem W; left out for Theorem S.
    """

    def __init__(
        self, parts: Sequence[Part], lengths: int | Sequence[int], reach: int | None = None
    ) -> None:
        self.parts, self.reach = parts, reach
        self.lengths = [lengths] if isinstance(lengths, int) else list(lengths)
        self.length = max(self.lengths)
        self._made: dict[int, tuple[PartCurve, Shaped | None]] = {}

    def _curve(self, place: int) -> tuple[PartCurve, Shaped | None]:
        if place not in self._made:
            part = self.parts[place]
            shown = None
            if isinstance(part.emission, (Transport, Contaminated)):
                shown = Shaped(part.emission)
                part = replace(part, emission=HiddenCost(shown))
            elif part.emission is not None:
                raise NoTheorem("shaped noise needs emissions that are known, or up to a share")
            self._made[place] = PartCurve(part, self.length), shown
        return self._made[place]

    def _runs(self, place: int, shape: Shape, over: Sequence[Active]) -> CostRuns:
        """The cost of the entries; that of their regimes is at hand for the engine."""
        _, shown = self._curve(place)
        if shown is None:
            return [(run.count, _entry_cost(shape, run)) for run in over]
        shown.known.clear()
        return [(run.count, shown.learn(shape, run)) for run in over]

    def loss(self, shape: Shape, over: CountedRuns | None = None) -> float:
        """The largest loss of a secret, over all parts."""
        return self.binding(shape, over)[1].value

    @one_thread()
    def binding(self, shape: Shape, over: CountedRuns | None = None) -> tuple[str, EntryLoss]:
        """The part and the entry that lose most, and how much."""
        runs = _active(self.length if over is None else over, shape, self.length)
        name, largest = "", EntryLoss(0.0, 1)
        for place, part in enumerate(self.parts):
            if self.reach is None:
                loss = self._curve(place)[0].loss(self._runs(place, shape, runs))
            else:
                pairs = self._by_windows(place, shape)
                loss = EntryLoss(float(pairs.max()), (self.length + 1) // 2, pairs)
            if not isfinite(loss.value):
                raise NoTheorem("the loss of this shape is no finite number; give larger scales")
            if not name or loss.value > largest.value:
                name, largest = part.name, loss
        return name, largest

    @one_thread()
    def pairs(self, shape: Shape) -> list[Floats]:
        """The losses of all pairs of secrets of each part, for a search; infinite without a bound.

        Entries near the ends of a series are left out where windows have others.
        """
        runs = _active(self.length, shape, self.length)
        losses = []
        for place in range(len(self.parts)):
            if self.reach is not None:
                losses.append(self._by_windows(place, shape, inner=True).ravel())
                continue
            rows = self._curve(place)[0].losses(self._runs(place, shape, runs))
            own = [np.inf] if not rows else np.max([loss for *_, loss in rows], axis=0).ravel()
            losses.append(np.nan_to_num(own, nan=np.inf))
        return losses

    def _by_windows(self, place: int, shape: Shape, *, inner: bool = False) -> Floats:
        """The losses by Theorem W, of one part."""
        moves = AlikeChain.of(self.parts[place])
        if moves is None or self.reach is None:
            raise NoTheorem("windows need chains whose kernels are known and the same at all times")
        ends = self.ends(place, shape)
        return loss_w(moves, self.lengths, self.reach, shape, ends, inner=inner)

    def ends(self, place: int, shape: Shape) -> tuple[float, float]:
        """How much the state of an entry, and all on its left, or right, reveal at most."""
        runs = self._runs(place, shape, [Active(self.length)])
        sides = self._curve(place)[0].variations(runs)
        if sides is None:
            return np.inf, np.inf
        return float(sides[0].max()), float(sides[1].max())

    @one_thread()
    def proof(self, shape: Shape, over: CountedRuns | None = None) -> dict[str, Any]:
        """Limits and plans that imply the loss, part by part, for a record."""
        runs = _active(self.length if over is None else over, shape, self.length)
        records = []
        for place in range(len(self.parts)):
            curve, shown = self._curve(place)
            record = curve.record(self._runs(place, shape, runs))
            if record is not None and shown is not None:
                record["emission"] = shown.plans(shape, runs)
            records.append(record)
        return {"theorem": "S" if self.reach is None else "W", "parts": records}


def loss_s(
    parts: Sequence[Part], over: CountedRuns, shape: Shape, *, prove: bool = True
) -> tuple[float, dict[str, Any] | None]:
    """The loss of an entry under shaped noise, rounded up, and its proof.

    Theorem: SHAPE Theorem S. *Secrets*: any two values of an entry, or its regime. *Beliefs*:
    hidden regimes Z_t that are Markov, with kernels in hulls, and entries that are independent
    given them, of distributions E(z, .). *Releases*: sech noise on a sum of vectors. Let

        e(z, y)  >=  sup over u of log E_z f_u / E_y f_u

    be at least what exchanging a regime costs, f_u(x) the likelihood of an output as a function of
    what entry x adds. The loss of an entry is at most

        d(x, x') + step(Pi(x, .), Pi(x', .); M),

    with Pi(x, .) the distribution of its regime given the entry, and M what both sides add by the
    engine on the regimes, at the cost e (`pufferkit.influence.curve.engine`).

    Proof. Let L(z_1 ... z_T) = E[f | Z = z]. Fix the other entries: as a function of entry t the
    likelihood is some f_u. Averaged over the others, whose distribution does not depend on z_t, it
    is a mixture of such functions, and a ratio of means of a mixture is at most the largest ratio
    of its parts. So log L moves by at most e(z_t, z'_t) if z_t is replaced, which is all that the
    theorem of single steps asks of a likelihood on the path of Z; it asks for no symmetry. With X_i
    = x' fixed the same holds for the other regimes, so the logarithm of G(z) = E[f | Z_i = z, X_i =
    x'] varies by at most M. Exchange x for x' at the cost d(x, x'); what remains is the mean of G
    under Pi(x, .) and under Pi(x', .), one more step. QED

    Parts without hidden states, and Laplace noise, have the cost of their entries, d, as ever: a
    scale for each bin is a cost. What only Laplace releases cost may be added (`Active.beside`).

    Parameters
    ----------
    parts
        What each member of a class says.
    over
        The number of entries, or runs of them.
    shape
        The noise.
    prove
        Whether to make the proof too.
    """
    length = over if isinstance(over, int) else sum(run.count for run in over)
    curve = ShapedCurve(parts, length)
    loss = curve.loss(shape, over)
    return loss, curve.proof(shape, over) if prove else None


def _active(over: CountedRuns, shape: Shape, length: int) -> Sequence[Active]:
    """Runs of entries, checked: they cover the series and name coordinates that are there."""
    runs = [Active(over)] if isinstance(over, int) else list(over)
    if any(run.count < 1 for run in runs) or sum(run.count for run in runs) != length:
        raise ValueError(f"over: runs must cover the {length} entries of the series")
    for run in runs:
        chosen = _chosen(shape, run)
        if len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(shape.coordinates)):
            raise ValueError(f"over: coordinates are 0 to {shape.coordinates - 1}, got {chosen}")
        beside = run.beside
        if beside is not None and not (
            beside.shape == (shape.states,) * 2 and np.isfinite(beside).all() and beside.min() >= 0
        ):
            raise ValueError("over: what is beside must be a finite cost for each pair of values")
    return runs
