"""Noise shaped to what an entry reveals: loud where regimes differ, quiet elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import Any, Literal, get_args

import numpy as np

from pufferkit.beliefs.base import Beliefs
from pufferkit.checks import Floats
from pufferkit.data.query import Query, Question
from pufferkit.data.series import Series
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.curve.engine import EntryLoss, Part
from pufferkit.influence.progress import Progress
from pufferkit.influence.shape.design import (
    Regimes,
    bases,
    best_directions,
    best_scales,
    wanted_basis,
    whole_directions,
)
from pufferkit.influence.shape.shaping import LARGEST_WHOLE, Rotated, Shape, bin_errors
from pufferkit.influence.shape.theorem_s import NoisyRun, ShapedCurve
from pufferkit.influence.shape.theorem_w import AlikeChain
from pufferkit.mechanisms.calibration import GAPS, Calibration, chains_only, checked
from pufferkit.mechanisms.release import Evidence, Release
from pufferkit.noise import LARGEST_SECH, DiscreteSech, Family, Sampler
from pufferkit.rounding import largest_within
from pufferkit.threads import one_thread

Objective = Literal["total", "largest", "equal"]
"""What is to be small: the error of all numbers together, that of the worst; or all directions
have the same noise, and nothing is searched."""

MOST_STATES = 40
"""With more states the search takes long."""

_DIGITS = (1, 2, 3)
_FINE = 4
"""Whole directions of so many digits that are tried, and those of the search."""

_SIGNIFICANT = 6
"""Digits of a scale in a record."""

_PRECISION = 1e-4
"""The certified search ends so close to epsilon."""

_FEW = 2
"""With so many regimes windows gain nothing."""

_ROUNDS, _REACHES, _SHORT = 12, (1.0, 1.5, 2.0, 2.5, 3.5, 4.5, 6.0), 64
"""Rounds of a search, windows that are tried, in memories of the chain, and the longest series that
may be one window for all entries."""

_TURNING = 10.0
"""Seconds in which directions are turned."""

_SHARP = 30.0
"""The largest error of a number stands for a soft maximum of this sharpness."""

_MOST_UNITS = 2**60
"""Coordinates are sums of whole numbers below this."""


@dataclass(frozen=True, repr=False)
class ShapedCalibration(Calibration):
    """Sech noise on whole-numbered mixtures of the numbers of an answer.

    `Calibration.scale` is that of Laplace noise which spends as much on an entry, for accounts; the
    error is that of the noise itself, number by number.

    Attributes
    ----------
    rotated
        The mixtures, and the scale of the noise on each.
    reach
        How far the windows of Theorem W reach; ``None`` by Theorem S.
    """

    rotated: Rotated = field(kw_only=True)
    reach: int | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        return (
            f"shaped noise for {self.query.name}: epsilon {self.epsilon:g}, mean error "
            f"{self.mean_scale:.4g} of each number; 95% within {self.half_width():.4g}\n"
            f"  {self.guarantee}\n  decided by: {self.evidence}"
        )

    @property
    def unit(self) -> Fraction | None:
        """None: numbers go back from whole coordinates by least squares."""
        return None

    @property
    def composes(self) -> bool:
        """Theorem S is about all releases together; within a window of W another one may turn."""
        return self.reach is None

    @property
    def spent_rows(self) -> tuple[tuple[float, ...], ...]:
        """What an entry adds to each coordinate, in units of the noise, scaled."""
        shape = self.rotated.shape
        rows = (shape.directions - shape.directions.min(axis=0)) * shape.rates
        most = np.abs(rows[:, None, :] - rows[None, :, :]).sum(axis=2).max()
        return tuple(tuple(row) for row in (rows / most).tolist())

    @property
    def family(self) -> Family:
        """The noise of the coordinates."""
        return "discrete sech"

    @property
    def mean_scale(self) -> float:
        """The mean error of a number, that of Laplace noise of this scale."""
        return self.expected_l1_error / self.query.size

    @property
    def expected_l1_error(self) -> float:
        """Expected L1 distance between the exact and the noisy answer, before any rounding."""
        return float(self.rotated.errors.sum())

    def half_width(self, level: float = 0.95) -> float:
        """Half the width of the widest confidence interval of a number."""
        return float(self.half_widths(level).max())

    def half_widths(self, level: float = 0.95) -> Floats:
        """The same for each number."""
        return self.rotated.half_widths(level)

    def _check_gaps(self, data: Series, named: bool) -> None:
        """Windows have no theorem for entries that were not observed."""
        if self.reach is not None:
            raise NotApplicable(GAPS)
        super()._check_gaps(data, named)

    def noisy(self, answers: Sequence[Sequence[Fraction]], which: Sequence[int]) -> list[float]:
        """Answers of least squares from fresh noise on the coordinates, release after release."""
        rotated, m = self.rotated, len(self.rotated.scales)
        exact = rotated.exact(answers)[list(which)]
        places = np.tile(np.arange(m), len(exact))
        drawn = DiscreteSech.of(*rotated.scales).on(exact.ravel(), places)
        numbers: list[float] = rotated.back(drawn.reshape(-1, m)).ravel().tolist()
        return numbers

    @property
    def drawn_scale(self) -> float:
        """The scale of Laplace noise that would spend as much: there is no grid to pay for."""
        return self.scale

    @property
    def sampler(self) -> Sampler:
        """Our own: OpenDP has no sech noise."""
        return "pufferkit"

    def release(self, series: Any, *, anyway: bool = False) -> Release:
        """Answer the query; see `Calibration.release`. The record has the noisy coordinates too."""
        made = super().release(series, anyway=anyway)
        # Least squares leave the coordinates as they are, so they follow from what is released.
        units = np.array(made.raw) / float(self.rotated.unit)
        coordinates = np.rint(units @ self.rotated.mix).astype(np.int64).tolist()
        data = dict(made.verification_data or {})
        data["shape"] = {**data["shape"], "coordinates": coordinates}
        return replace(made, verification_data=data)

    def _verification_data(self) -> dict[str, Any] | None:
        record = super()._verification_data() or {}
        record["shape"] = {
            **self.rotated.to_dict(),
            "objective": self.options["shape"],
            "reach": self.reach,
        }
        return record


def shaped(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    shape: Objective = "total",
    progress: Progress | None = None,
) -> Calibration:
    """Noise that is loud in the few directions in which hidden regimes differ, quiet in the others.

    One mood of a person moves every bin of a histogram, in one direction. Equal noise on all bins
    pays for it in every bin; noise on a rotated histogram pays where it must, and needs 1.4 to 3
    times less error in all for few regimes. *Secrets*: any two values of an entry, or its regime.
    *Beliefs*: hidden regimes with entries that are independent given them, known, in a hull, or
    with a share of each row unknown, by SHAPE Theorem S (`pufferkit.influence.shape.theorem_s`);
    more than two known regimes, chains that switch and known chains, for series without gaps, by
    Theorem W (`pufferkit.influence.shape.theorem_w`); finite classes of these. The least error of
    both is taken. *Releases*: one sum of vectors. With others about the same data an account
    charges what all of them lose together, by Theorem S; what windows hide is for one release and
    nothing else (`Calibration.composes`).

    The numbers are mixed into coordinates by whole numbers; each gets discrete sech noise of its
    own scale, drawn exactly; least squares bring them back.

    Parameters
    ----------
    beliefs
        A `RegimeClass`, a chain or a finite class of chains.
    query
        `histogram`, `relative_frequencies`, or another sum of at least two whole-numbered
        coordinates.
    epsilon
        Pufferfish privacy for each entry.
    shape
        ``"total"`` for the least error of all numbers together, ``"largest"`` for that of the worst
        number, ``"equal"`` for the same noise in all directions.
    progress
        Called with the number of rounds of the search, and about how many there will be.

    Raises
    ------
    NotApplicable
        For other beliefs, queries that are no such sum, and too many states.

    Examples
    --------
    >>> import pufferkit as pk
    >>> moods = pk.RegimeClass([[.99, .01], [.02, .98]], [[.7, .2, .1], [.1, .3, .6]])
    >>> query = pk.histogram([0, 1, 2], 10_000)
    >>> equal, made = (f(moods, query, 1) for f in (pk.influence_curve, pk.shaped))
    >>> made.mean_scale < 0.7 * equal.mean_scale
    True
    """
    if shape not in get_args(Objective):
        words = ", ".join(get_args(Objective))
        raise ValueError(f"shape: must be one of {words}, got {shape!r:.40}")
    theta, query, epsilon = checked(beliefs, query, epsilon, over)
    added, unit = _whole_sum(theta, query)
    parts, theorems = _served(theta, query)
    search = _Search(parts, query.lengths, added.astype(float), epsilon, shape, progress)
    reach, mix, scales = search.found(theorems)
    total = sum(query.observed or query.lengths)
    made, name, loss = search.certified(Rotated(added, mix, scales, unit, total), reach)
    if max(made.scales) > LARGEST_SECH or (
        float(np.abs(made.shape.directions).max()) * total + 64 * float(max(made.scales))
        > _MOST_UNITS
    ):
        raise NotApplicable("the series is too long for whole coordinates; use influence_curve")
    # What an entry spends, rounded up: the scale is rounded down.
    scale = query.lipschitz / (float(made.shape.cost.max()) * (1 + 1e-12))
    proof = search.curves[reach].proof(made.shape)
    return ShapedCalibration(
        "shaped",
        epsilon,
        scale,
        query,
        theta,
        Evidence(
            name,
            loss.node,
            query.longest,
            bound="directions",
            notes=_words(made, query.labels, reach),
        ),
        verification_data={"curve": [proof["parts"]]},
        options={"shape": shape},
        rotated=made,
        reach=reach,
    )


def _words(made: Rotated, labels: Sequence[str], reach: int | None) -> tuple[str, ...]:
    """What is loud and what is quiet, and by which theorem that is enough."""
    mix = made.mix - made.mix.mean(axis=0)
    sizes = np.linalg.norm(mix, axis=0)
    loudness = [float(s) / size for s, size in zip(made.scales, sizes, strict=True)]

    def named(j: int) -> str:
        counted = np.abs(mix[:, j]) >= np.abs(mix[:, j]).max() / 4
        sides = [
            ", ".join(label for label, on in zip(labels, counted & sign, strict=True) if on)
            for sign in (mix[:, j] > 0, mix[:, j] < 0)
        ]
        return f"{' against '.join(side for side in sides if side)} ({loudness[j]:.3g})"

    order = np.argsort(loudness)[::-1].tolist()
    words = [f"noise is loudest on {named(order[0])}"]
    if len(order) > 1:
        words[0] += f", least on {named(order[-1])}"
    if reach is not None:
        words.append(
            f"by windows of {reach} entries to both sides, for this release and nothing else"
        )
    return tuple(words)


def _whole_sum(theta: Beliefs, query: Query) -> tuple[Any, Fraction]:
    """What each state adds to each number, in whole units, and the unit."""
    if query.weights is None or query.unit is None or query.size < 2:
        raise NotApplicable(
            "shaped noise is for histograms and other sums of at least two whole-numbered "
            "coordinates; use influence_curve"
        )
    if len(theta.states) > MOST_STATES:
        raise NotApplicable(
            f"shaped noise takes long for more than {MOST_STATES} states, here are "
            f"{len(theta.states)}; merge levels, or use influence_curve"
        )
    nothing = (Fraction(0),) * query.size
    units = [[w / query.unit for w in query.weights.get(x, nothing)] for x in theta.states]
    if any(w.denominator != 1 or abs(w) > LARGEST_WHOLE for row in units for w in row):
        raise NotApplicable("shaped noise needs sums of whole units up to 2^20")
    return np.array([[int(w) for w in row] for row in units]), query.unit


def _served(theta: Beliefs, query: Query) -> tuple[Sequence[Part], tuple[str, ...]]:
    """The parts of beliefs whose entries are secret, and which theorems apply: S, W, or both."""
    chains = chains_only(theta, "shaped noise")
    chains.check_length(query.longest)
    try:
        parts: Sequence[Part] = chains.parts(query.longest)
        known = all(Regimes.of(part) is not None for part in parts)
    except NotApplicable:
        known = False
    if not known or not all(one.secret.is_entry and one.secret.weights is None for one in parts):
        raise NotApplicable(
            "shaped noise hides entries, or regimes, under hidden regimes and known chains; a "
            f"scale for each bin serves {theta.description}: influence_curve(per_bin=True)"
        )
    regimes = [Regimes.of(one) for one in parts if one.emission is not None]
    theorems, many = (
        [],
        max((0 if own is None else len(own.emission) for own in regimes), default=0),
    )
    if len(regimes) == len(parts) and all(map(_hides, regimes)):
        theorems.append("S")
    # Two regimes differ in one direction, and Theorem S is within 6% of what is possible.
    if not ((theorems and many <= _FEW) or query.missing) and all(map(AlikeChain.of, parts)):
        theorems.append("W")
    if not theorems:
        raise NotApplicable(
            "shaped noise needs regimes with independent entries, or, without gaps, chains with "
            f"one known matrix each; a scale for each bin serves {theta.description}: "
            "influence_curve(per_bin=True)"
        )
    return parts, tuple(theorems)


def _hides(regimes: Regimes | None) -> bool:
    """Whether a regime has more than one entry: else Theorem S says what the curve says."""
    return regimes is not None and bool(((regimes.emission > 0).sum(axis=1) > 1).any())


def shaping_work(theta: Beliefs, query: Query) -> float:
    """About how many nanoseconds the search takes; 0 where it is refused."""
    try:
        _whole_sum(theta, query)
        parts, theorems = _served(theta, query)
    except NotApplicable:
        return 0.0
    regimes = Regimes.of(parts[0])
    assert regimes is not None
    h, k = regimes.emission.shape
    work = float(24 * (k + 3) * len(parts) * (1e6 + 4e3 * h**2 * k + 3e3 * k**2))
    return work * (1 if "S" in theorems else 20)


@dataclass(frozen=True, eq=False)
class _Proposal:
    """What a search found: with windows their reach; without a mixture nothing."""

    reach: int | None
    error: float = inf
    mix: Any = None
    scales: Floats = field(default_factory=lambda: np.zeros(0))


class _Search:
    """Directions and scales of about the least error, and the certificate of those used."""

    def __init__(
        self,
        parts: Sequence[Part],
        lengths: Sequence[int],
        added: Floats,
        epsilon: float,
        objective: Objective,
        progress: Progress | None,
    ) -> None:
        self.parts, self.lengths = parts, lengths
        self.added, self.epsilon = added, epsilon
        self.objective, self.progress = objective, progress
        self.curves: dict[int | None, ShapedCurve] = {}

    def curve(self, reach: int | None) -> ShapedCurve:
        """The loss by Theorem S, or with a reach by Theorem W."""
        if reach not in self.curves:
            self.curves[reach] = ShapedCurve(self.parts, self.lengths, reach)
        return self.curves[reach]

    @one_thread()
    def found(self, theorems: Sequence[str]) -> tuple[int | None, Any, tuple[Fraction, ...]]:
        """The reach of windows, if any, the mixture of the numbers, and its scales."""
        if wanted_basis(self.added).shape[1] == 0:
            raise NotApplicable("no entry moves the answer: there is nothing to hide")
        tried: list[_Proposal] = []
        for part in self._hardest():
            regimes = Regimes.of(part)
            assert regimes is not None
            for basis, start in bases(regimes, self.added):
                begin = np.ones(len(start)) if self.objective == "equal" else start
                begin = begin / begin.max() * self._first(basis)
                if "S" in theorems:
                    tried.append(self._of_basis(basis, begin, None))
                if "W" in theorems:
                    tried.append(self._by_windows(part, basis, begin))
        best = min(tried, key=lambda one: one.error)
        if best.mix is not None and best.reach is None and self.objective != "equal":
            best = self._turned(best)
        if best.mix is None:
            raise NotApplicable(
                "no scales were found at which shaped noise loses epsilon; use influence_curve"
            )
        return best.reach, best.mix, tuple(map(_decimal, best.scales))

    def _hardest(self) -> Sequence[Part]:
        """The part that loses most by equal noise: the others are checked, not searched for."""
        if len(self.parts) == 1:
            return self.parts
        mix = self._mixed(wanted_basis(self.added), _FINE)
        shape = Shape(self.added.astype(np.int64) @ mix, (1e6,) * mix.shape[1])
        equal = [own.max() for own in self.curve(None).pairs(shape)]
        return [self.parts[int(np.argmax(equal))]]

    def _turned(self, best: _Proposal) -> _Proposal:
        """The least error with directions of their own, from those of the best basis."""
        told = self.added @ best.mix
        inside = wanted_basis(self.added)
        start = inside.T @ (told - told.mean(axis=0)) / best.scales

        def losses(rates: Floats) -> Floats:
            runs = [NoisyRun(max(self.lengths), inside @ rates)]
            return np.concatenate(self.curve(None).pairs(runs))

        def error(rates: Floats) -> float:
            basis = inside @ rates
            return self._error(self._mixed(basis, _FINE), self._sized(basis, _FINE, np.ones(1)))

        rates = best_directions(
            losses,
            error,
            start,
            self.epsilon,
            seconds=_TURNING,
            progress=self.progress,
        )
        turned = self._in_digits(inside @ rates, np.ones(rates.shape[1]), None)
        return min(best, turned, key=lambda one: one.error)

    def _by_windows(self, part: Part, basis: Floats, begin: Floats) -> _Proposal:
        """The least error by windows: their reach is chosen at scales in given proportions."""
        moves = AlikeChain.of(part)
        assert moves is not None
        longest = max(self.lengths)
        most = longest if longest <= _SHORT else (longest - 1) // 2
        reaches = {min(max(1, int(times * moves.memory)), most) for times in _REACHES}
        choices: list[tuple[float, int, Floats]] = []
        for reach in sorted(reaches):
            scales = self._scales(basis, begin, reach, rounds=1)
            if scales is not None:
                error = self._error(self._mixed(basis, _FINE), self._sized(basis, _FINE, scales))
                choices.append((error, reach, scales))
        if not choices:
            return _Proposal(None)
        # One round tells little of the end of a search: the two best go on.
        ahead = sorted(choices, key=lambda one: one[0])[:2]
        ended = [self._of_basis(basis, scales, reach) for _, reach, scales in ahead]
        return min(ended, key=lambda one: one.error)

    def _sized(self, basis: Floats, digits: int, scales: Floats) -> Floats:
        """Scales of the basis, for whole directions of so many digits."""
        return scales * _sizes(self.added @ self._mixed(basis, digits), basis)

    def _scales(
        self, basis: Floats, begin: Floats, reach: int | None, rounds: int
    ) -> Floats | None:
        fine = self._mixed(basis, _FINE)
        return best_scales(
            lambda s: self._losses(fine, self._sized(basis, _FINE, s), reach),
            lambda s: self._error(fine, self._sized(basis, _FINE, s)),
            begin,
            self.epsilon,
            rounds=1 if self.objective == "equal" else rounds,
            progress=self.progress,
        )

    def _of_basis(self, basis: Floats, begin: Floats, reach: int | None) -> _Proposal:
        """The least error in this basis, the mixture, and its scales."""
        scales = self._scales(basis, begin, reach, _ROUNDS)
        return _Proposal(reach) if scales is None else self._in_digits(basis, scales, reach)

    def _in_digits(self, basis: Floats, scales: Floats, reach: int | None) -> _Proposal:
        """Whole directions of the digits that serve best, and their scales."""
        best = _Proposal(reach)
        for digits in _DIGITS:
            mix = self._mixed(basis, digits)
            told = self.added @ mix
            if np.linalg.matrix_rank(told - told.mean(axis=0)) < len(scales):
                continue
            whole = self._sized(basis, digits, scales)
            whole = whole * (float(self._losses(mix, whole, reach).max()) / self.epsilon)
            error = self._error(mix, whole)
            if np.isfinite(error) and error < best.error:
                best = _Proposal(reach, error, mix, whole)
        return best

    def _first(self, basis: Floats) -> float:
        """A scale to begin with: an entry alone would lose epsilon."""
        return 4 * float(np.ptp(basis, axis=0).sum()) / self.epsilon

    def _mixed(self, basis: Floats, digits: int) -> Any:
        """Whole multiples of the numbers whose mixtures are close to this basis."""
        centred = self.added - self.added.mean(axis=0)
        return whole_directions(np.linalg.pinv(centred) @ basis, digits).astype(np.int64)

    def _losses(self, mix: Any, scales: Floats, reach: int | None) -> Floats:
        """The losses of all pairs."""
        if not (np.isfinite(scales).all() and scales.min() > 1e-300):
            return np.array([inf])
        shape = Shape(self.added.astype(np.int64) @ mix, tuple(scales.tolist()))
        return np.concatenate(self.curve(reach).pairs(shape))

    def _error(self, mix: Any, scales: Floats) -> float:
        """What is to be small."""
        try:
            shape = Shape(self.added.astype(np.int64) @ mix, tuple(scales.tolist()))
            errors = bin_errors(shape, self.added)
        except ValueError:  # coordinates that leave something of the answer untold
            return inf
        if self.objective != "largest":
            return float(errors.sum())
        most = float(errors.max())
        return most * float(1 + np.log(np.exp(_SHARP * (errors / most - 1)).sum()) / _SHARP)

    def certified(self, guess: Rotated, reach: int | None) -> tuple[Rotated, str, EntryLoss]:
        """The same in the proportion at which the certified loss is just within epsilon."""

        def at(rate: float) -> Rotated:
            factor = 1 / Fraction(rate)
            return replace(
                guess, scales=tuple(_decimal(float(scale * factor)) for scale in guess.scales)
            )

        def loss_at(rate: float) -> tuple[float, tuple[Rotated, str, EntryLoss]] | None:
            made = at(rate)
            try:
                if reach is not None:  # entries near the ends take long, others may decide
                    inner = max(float(own.max()) for own in self.curve(reach).pairs(made.shape))
                    if inner > self.epsilon:
                        return inner, (made, "", EntryLoss(inner, 1))
                name, loss = self.curve(reach).binding(made.shape)
            except NoTheorem:
                return None
            return loss.value, (made, name, loss)

        found = largest_within(loss_at, self.epsilon, 1.0, 1e6, _PRECISION, least=1e-6)
        if found is None:
            raise NotApplicable("no scales were certified; use influence_curve")
        return found[1]


def _sizes(directions: Floats, basis: Floats) -> Floats:
    """How much longer whole directions are than those of the basis."""
    centred = directions - directions.mean(axis=0)
    return np.asarray(np.linalg.norm(centred, axis=0) / np.linalg.norm(basis, axis=0))


def _decimal(scale: float) -> Fraction:
    """A scale of few digits, as an exact fraction."""
    return Fraction(f"{scale:.{_SIGNIFICANT}g}")
