"""The loss of shaped noise on the influence curve: a cost on the regimes, and nothing else anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NoTheorem
from pufferkit.influence.curve.engine import CostRuns, EntryLoss, Part, PartCurve
from pufferkit.influence.curve.steps import Contaminated, HiddenCost, Transport, closure
from pufferkit.influence.curve.transport_plans import bases_of, packed
from pufferkit.influence.shape.costs import Beside, centred, regime_costs
from pufferkit.influence.shape.shaping import Shape
from pufferkit.influence.shape.theorem_w import AlikeChain, loss_w
from pufferkit.rounding import EPS
from pufferkit.threads import one_thread


@dataclass(frozen=True, eq=False)
class NoisyRun:
    """Consecutive entries, what they add to coordinates with sech noise, and what is beside.

    Attributes
    ----------
    count
        How many entries.
    rows
        Row x is what an entry x adds to each coordinate, in scales; ``None`` without sech noise.
    beside
        The cost of other releases at these entries, Laplace noise for one, k x k; ``None`` without.
    """

    count: int
    rows: Floats | None = None
    beside: Floats | None = None

    @cached_property
    def _key(self) -> tuple[int, bytes, bytes]:
        tables = [np.zeros((0, 0)) if own is None else own for own in (self.rows, self.beside)]
        rows, beside = (repr(own.shape).encode() + own.tobytes() for own in tables)
        return self.count, rows, beside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyRun) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @classmethod
    def of(cls, shape: Shape, count: int) -> NoisyRun:
        """Entries that all coordinates of a shape count."""
        if shape.noise == "laplace":
            return cls(count, None, shape.cost)
        return cls(count, shape.directions * shape.rates)

    def cost(self, states: int) -> Floats:
        """What replacing an entry costs, rounded up."""
        cost = np.zeros((states, states)) if self.beside is None else self.beside
        if self.rows is None:
            return cost
        apart = np.abs(self.rows[:, None, :] - self.rows[None, :, :]).sum(axis=2)
        return np.asarray((cost + apart) * (1 + (self.rows.shape[1] + 6) * EPS))


class Shaped:
    """The cost of hidden regimes under sech noise: the least of several bounds.

    The engine asks for the cost of regimes by that of the entries. The transport step of the latter
    always holds; `Shaped.known` has the others (`pufferkit.influence.shape.costs`) for the costs
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

    def learn(self, run: NoisyRun) -> Floats:
        """The cost of the entries of a run; that of their regimes is kept."""
        cost = run.cost(self.emissions[0].shape[1])
        bound = self._bound(run)
        key = closure(cost).tobytes()
        before = self.known.get(key)
        self.known[key] = bound if before is None else np.maximum(before, bound)
        return cost

    def _bound(self, run: NoisyRun) -> Floats:
        worth = np.zeros((1, 0)) if run.rows is None else centred(run.rows)
        worth = worth[:, worth.any(axis=0)]
        if not worth.size:
            return np.full((len(self.emissions[0]),) * 2, np.inf)
        given = self.emissions, self.contamination, worth
        bound = regime_costs(*given)
        if run.beside is None or not run.beside.any():
            return bound
        step = self.steps(closure(run.beside))
        above = step + regime_costs(*given, Beside(run.beside, step))
        return np.asarray(np.minimum(above, bound + run.beside.max()) * (1 + 2 * EPS))

    def __call__(self, limit: Floats) -> Floats:
        """The cost of exchanging a regime for another where entries cost ``limit``, rounded up."""
        step = self.steps(limit)
        known = self.known.get(limit.tobytes())
        if known is None:
            return step
        least = np.where(known < step, known, step)  # what is not a number bounds nothing
        np.fill_diagonal(least, 0.0)
        return closure(least)

    def plans(self, runs: Sequence[NoisyRun]) -> str | None:
        """The plans of the transport steps that were taken for these runs, for a record."""

        def bases() -> Iterator[bytes]:
            for run in runs:
                self.steps(closure(run.cost(self.emissions[0].shape[1])))
                yield from bases_of(self.steps)

        return packed(bases())


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
            part, shown = self.parts[place], None
            if isinstance(part.emission, (Transport, Contaminated)):
                shown = Shaped(part.emission)
                part = replace(part, emission=HiddenCost(shown))
            self._made[place] = PartCurve(part, self.length), shown
        return self._made[place]

    def _runs(self, place: int, runs: Sequence[NoisyRun]) -> CostRuns:
        """The cost of the entries; that of their regimes is at hand for the engine."""
        curve, shown = self._curve(place)
        if shown is None:
            states = len(curve.part.possible[0])
            return [(run.count, run.cost(states)) for run in runs]
        shown.known.clear()
        return [(run.count, shown.learn(run)) for run in runs]

    def _given(self, noise: Shape | Sequence[NoisyRun]) -> Sequence[NoisyRun]:
        """Runs of entries, checked: they cover the series."""
        runs = [NoisyRun.of(noise, self.length)] if isinstance(noise, Shape) else list(noise)
        if any(run.count < 1 for run in runs) or sum(run.count for run in runs) != self.length:
            raise ValueError(f"noise: runs must cover the {self.length} entries of the series")
        for run in runs:
            beside = run.beside
            if beside is not None and not (np.isfinite(beside).all() and beside.min() >= 0):
                raise ValueError("noise: what is beside must be a finite cost of every pair")
        return runs

    def loss(self, noise: Shape | Sequence[NoisyRun]) -> float:
        """The largest loss of a secret, over all parts."""
        return self.binding(noise)[1].value

    @one_thread()
    def binding(self, noise: Shape | Sequence[NoisyRun]) -> tuple[str, EntryLoss]:
        """The part and the entry that lose most, and how much."""
        runs = self._given(noise)
        name, largest = "", EntryLoss(0.0, 1)
        for place, part in enumerate(self.parts):
            if self.reach is None:
                loss = self._curve(place)[0].loss(self._runs(place, runs))
            else:
                assert isinstance(noise, Shape)
                pairs = self._by_windows(place, noise)
                loss = EntryLoss(float(pairs.max()), (self.length + 1) // 2, pairs)
            if not isfinite(loss.value):
                raise NoTheorem("the loss of this shape is no finite number; give larger scales")
            if not name or loss.value > largest.value:
                name, largest = part.name, loss
        return name, largest

    @one_thread()
    def entry_losses(self, noise: Sequence[NoisyRun]) -> dict[str, Floats]:
        """The loss of every entry, for each part."""
        runs = self._given(noise)
        return {
            part.name: self._curve(place)[0].entry_losses(self._runs(place, runs))
            for place, part in enumerate(self.parts)
        }

    @one_thread()
    def pairs(self, shape: Shape | Sequence[NoisyRun]) -> list[Floats]:
        """The losses of all pairs of secrets of each part, for a search; infinite without a bound.

        Entries near the ends of a series are left out where windows have others.
        """
        runs, losses = self._given(shape), []
        for place in range(len(self.parts)):
            if self.reach is not None:
                assert isinstance(shape, Shape)
                losses.append(self._by_windows(place, shape, inner=True).ravel())
                continue
            rows = self._curve(place)[0].losses(self._runs(place, runs))
            own = [np.inf] if not rows else np.max([loss for *_, loss in rows], axis=0).ravel()
            losses.append(np.asarray(own))
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
        sides = self._curve(place)[0].variations(self._runs(place, self._given(shape)))
        if sides is None:
            return np.inf, np.inf
        return float(sides[0].max()), float(sides[1].max())

    @one_thread()
    def proof(self, shape: Shape) -> dict[str, Any]:
        """Limits and plans that imply the loss, part by part, for a record."""
        runs, records = self._given(shape), []
        for place in range(len(self.parts)):
            curve, shown = self._curve(place)
            record = curve.record(self._runs(place, runs))
            if record is not None and shown is not None:
                record["emission"] = shown.plans(runs)
            records.append(record)
        return {"theorem": "S" if self.reach is None else "W", "parts": records}


def loss_s(parts: Sequence[Part], runs: Sequence[NoisyRun]) -> float:
    """The largest loss of an entry under sech noise and what is beside it, rounded up.

    Theorem: SHAPE Theorem S. *Secrets*: any two values of an entry, or its regime. *Beliefs*:
    hidden regimes Z_t that are Markov, with kernels in hulls, and entries that are independent
    given them, of distributions E(z, .). *Releases*: any number of sums of vectors with sech noise,
    stacked, and beside them any of a known cost of an entry, such as Laplace noise. Let

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
    scale for each bin is a cost. All of it holds output by output, so a release may be chosen after
    looking at the earlier ones.

    Parameters
    ----------
    parts
        What each member of a class says.
    runs
        What was released, entry by entry.

    Examples
    --------
    >>> import numpy as np
    >>> import pufferkit as pk
    >>> moods = pk.RegimeClass([[.99, .01], [.02, .98]], [[.7, .2, .1], [.1, .3, .6]])
    >>> once = NoisyRun.of(Shape([[9, 0], [0, 9], [-9, -3]], (900, 90)), 1000)
    >>> beside = NoisyRun(1000, once.rows, 0.002 * (1 - np.eye(3)))
    >>> [round(loss_s(moods.parts(1000), [run]), 2) for run in (once, beside)]
    [0.98, 1.04]
    """
    return ShapedCurve(parts, sum(run.count for run in runs)).loss(runs)
