"""A calibration: how much noise a query needs, and why. It sees no data until `release`.

This is the one place where the two branches of the project meet: exact answers from the data, and
scales from the mathematics.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np

import pufferkit
from pufferkit import checks, noise
from pufferkit.beliefs.base import Beliefs, as_beliefs, check_series, check_step, loss_if_unsure
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.provenance import check_paid
from pufferkit.beliefs.secrets import Secrets
from pufferkit.checks import Floats
from pufferkit.data.queries import rank_scores
from pufferkit.data.query import Query, Question, bound
from pufferkit.data.series import Series, declared_independent
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.post_processing import rank_error
from pufferkit.mechanisms.release import (
    Evidence,
    Guarantee,
    Release,
    Variant,
    expected_size,
    half_width,
)
from pufferkit.mechanisms.usefulness import warn_if_drowned
from pufferkit.records import Asked, plain
from pufferkit.shown import Shown

GAPS = (
    "the distribution of a sum over the observed entries only is not computed, and more entries "
    "do not always mean a larger distance; use influence_curve or markov_quilt, or fill the gaps"
)


OF_SUMS = frozenset({"wasserstein", "exact_sum"})
"""Mechanisms that use the distribution of the answer: their noise is for these lengths only."""

ALONE = OF_SUMS | {"shaped"}
"""Mechanisms whose promise may be for one release, as `Calibration.composes` says."""

NO_CHOICE = ALONE | {"gk16"}
"""Mechanisms for sums with Laplace noise, which do not cover the noisy choice of a level."""


@dataclass(frozen=True, repr=False)
class Calibration(Shown, Asked):
    """The noise one mechanism adds to one query.

    Its `digest` is of what was asked for: mechanism, epsilon, query, beliefs and options. The scale
    and its evidence were computed from these, and are no part of it.

    Attributes
    ----------
    mechanism
        Its name.
    epsilon
        The requested privacy parameter.
    scale
        Scale of the noise on every coordinate. If they differ, the common scale that
        would spend as much on an entry.
    scales
        The scale of each coordinate, if they differ.
    query
        The query.
    beliefs
        The class Theta; ``None`` if the mechanism needs none.
    evidence
        What binds.
    guarantee
        The guarantee.
    verification_data
        What `verify` needs besides; see `Release`.
    options
        What was asked for besides, by name, such as the reading of a theorem; an ``epsilon`` in it
        was asked for in place of the one that was found.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    >>> noise = pk.influence_curve(week, pk.count("active", 1000), epsilon=1)
    >>> round(noise.scale, 2), noise.half_width(), noise.half_widths().tolist()
    (3.34, 10.0, [10.0])
    >>> data = pk.Series.of([week.states[code] for code in week.sample(1000, seed=1)], week.states)
    >>> noise.release(data).mechanism
    'influence_curve'
    >>> sorted(noise.asked())
    ['beliefs', 'epsilon', 'mechanism', 'query']
    """

    mechanism: str
    epsilon: float
    scale: float
    query: Query
    beliefs: Beliefs | None = None
    evidence: Evidence = field(default_factory=Evidence)
    guarantee: Guarantee = Guarantee.PUFFERFISH
    verification_data: Mapping[str, Any] | None = None
    scales: tuple[float, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.privacy(self.epsilon)
        checks.positive("scale", self.scale)
        if self.scales is not None and (len(self.scales) != self.query.size or self.unit is None):
            raise ValueError(
                f"scales: must be one for each of {self.query.size} coordinates, for whole "
                "answers only"
            )
        if self.query.chooses and self.mechanism in NO_CHOICE:
            raise NotApplicable(
                f"{self.mechanism} is for numbers with noise, not for a noisy choice of a level"
            )
        if self.beliefs is not None:
            check_states(self.beliefs, self.query)
        notes = () if self.beliefs is None else self.beliefs.caveats
        if self.beliefs is not None and self.beliefs.names_secrets:
            object.__setattr__(self, "guarantee", self.guarantee.for_named_secrets)
        declared = declared_independent(self.query.independent_after)
        evidence = self.evidence.noting(*notes, *declared, missing=self.query.missing)
        object.__setattr__(self, "evidence", evidence)

    def __str__(self) -> str:
        words = f"{self.mechanism} for {self.query.name}: scale {self.scale:.6g}"
        return (
            f"{words}, epsilon {self.epsilon:g}; 95% within {self.half_width():.4g}\n"
            f"  {self.guarantee}\n  decided by: {self.evidence}"
        )

    def asked(self) -> dict[str, Any]:
        """What was asked for, as plain data: nothing that was computed from it."""
        return requested(self.mechanism, self.beliefs, self.query, self.epsilon, self.options)

    @property
    def variant(self) -> Variant | None:
        """Which reading of its theorem the mechanism used; see `Evidence`."""
        return self.evidence.variant

    @property
    def entry_epsilon(self) -> float:
        """The event-level epsilon: how far one entry moves the log-likelihood, L / scale."""
        return self.query.lipschitz / self.scale

    @property
    def composes(self) -> bool:
        """Whether an account charges its promise, also when something follows.

        Else it is for this release alone, and then charged by what its noise spends on an entry.
        """
        return self.mechanism not in OF_SUMS

    @property
    def spent_rows(self) -> tuple[tuple[float, ...], ...] | None:
        """For mixtures of coordinates: rows by state, apart as far as the noise tells them apart.

        The least of each column is 0, and the largest L1 distance 1, which costs `entry_epsilon`.
        """
        return None

    @property
    def sensitivity(self) -> float:
        """The distance that the scale was calibrated for, by which the grid of the noise is paid.

        The distance of the Wasserstein Mechanism if that is shorter than the Lipschitz constant.
        Otherwise the least positive distance between two states: rounding to the grid moves close
        answers as far as distant ones, and each pair of states has its own guarantee. For
        `exact_sum`, which pays for the grid differently, it only determines how fine the grid is.
        """
        made_for, constant = self.scale * self.epsilon, self.query.lipschitz
        if made_for < constant * (1 - 2.0**-48):
            return made_for * (1 - 2.0**-48)
        return self.query.closest

    @property
    def unit(self) -> Fraction | None:
        """The unit of discrete Laplace noise; ``None`` if it is Laplace noise on a fine grid."""
        largest = max(self.scales or (self.scale,))
        discrete = noise.is_discrete(self.query.unit, largest, self.query.largest)
        return self.query.unit if discrete else None

    @property
    def family(self) -> noise.Family:
        """The kind of the noise."""
        if self.query.chooses:
            return "noisy choice"
        return "laplace" if self.unit is None else "discrete laplace"

    @property
    def mean_scale(self) -> float:
        """The scale of the noise; the mean if coordinates have different scales."""
        return self.scale if self.scales is None else sum(self.scales) / len(self.scales)

    @property
    def expected_l1_error(self) -> float:
        """Expected L1 distance between the exact and the noisy answer.

        For a quantile, a bound on the error in ranks: the mean of the largest noise on the other
        levels, scale (1 + 1/2 + ... + 1 / (levels - 1)).
        """
        if self.query.chooses:
            scale = noise.choice_scale(self.scale, self.query.size)
            return scale * sum(1 / n for n in range(1, self.query.size))
        unit = self.unit
        if self.scales is None:
            return self.query.size * expected_size(self.scale, unit)
        return sum(expected_size(scale, unit) for scale in self.scales)

    def half_width(self, level: float = 0.95) -> float:
        """Half the width of the confidence interval of one coordinate, the widest of all.

        For a quantile, the error of the chosen level in ranks (`rank_error`).
        """
        if self.query.chooses:
            return rank_error(self.scale, self.query.size, level)
        return half_width(max(self.scales or (self.scale,)), level, unit=self.unit)

    def half_widths(self, level: float = 0.95) -> Floats:
        """The same for each coordinate."""
        if self.scales is None:
            size = 1 if self.query.chooses else self.query.size
            return np.full(size, self.half_width(level))
        each = [half_width(scale, level, unit=self.unit) for scale in self.scales]
        return np.array(each)

    def noisy(self, answers: Sequence[Sequence[Fraction]], which: Sequence[int]) -> list[float]:
        """Fresh noise on each of many answers, release after release: ``answers[which[n]]``."""
        scale, query = self.scale, self.query
        if self.unit is not None:
            each = self.scales or (scale,) * query.size
            return noise.discrete_laplace(answers, which, each, self.unit)
        return noise.laplace(answers, which, scale, self.sensitivity, query.largest)

    @property
    def drawn_scale(self) -> float:
        """The scale of the noise, including the cost of the grid of Laplace noise."""
        if self.unit is not None:
            return self.scale
        query = self.query
        return noise.paid_scale(self.scale, self.sensitivity, query.size, query.largest)

    @property
    def sampler(self) -> noise.Sampler:
        """The sampler of a release: OpenDP's, or our own for many numbers at once."""
        query = self.query
        if query.chooses:
            return "opendp"
        if self.unit is not None:
            return noise.whole_sampler(max(self.scales or (self.scale,)), self.unit, query.size)
        return noise.grid_sampler(self.scale, self.sensitivity, query.size, query.largest)

    def release(self, series: Any, *, anyway: bool = False) -> Release:
        """Answer the query on ``series``. Every call draws fresh noise and spends epsilon.

        The value of a histogram is the nearest proper one; ``raw`` is the noisy answer as drawn.

        Parameters
        ----------
        series
            A `Series`, a sequence of states, or a sequence of segments of states. For networks and
            joint distributions also a record {name: value}.
        anyway
            Noise that drowns the answer gives a warning, `DrownedAnswer`, unless this is true.
        """
        data = self.checked(series)
        warn_if_drowned(self, anyway=anyway)
        chosen = self.query.chooses
        if chosen:
            levels = (self.query.question or {})["levels"]
            place = self.chosen_place(self.query.exact(data))
            values: tuple[float, ...] = (float(levels[place]),)
        else:
            values = tuple(self.noisy([self.query.exact(data)], [0]))
        drawn = Release(
            value=values,
            raw=values,
            scale=self.scale if chosen else self.drawn_scale,
            scales=self.scales,
            noise=self.family,
            unit=None if chosen else self.unit,
            sampler=self.sampler,
            epsilon=self.epsilon,
            mechanism=self.mechanism,
            guarantee=self.guarantee,
            query=self.query.name,
            labels=(self.query.name,) if chosen else self.query.labels,
            lengths=self.query.lengths,
            observed=_gaps(data, self.query),
            lipschitz=self.query.lipschitz,
            total=None if chosen else self.query.total,
            beliefs=None if self.beliefs is None else self.beliefs.to_dict(),
            evidence=self.evidence.noting(
                *declared_independent(data.independent_after), missing=data.missing
            ),
            released_at=datetime.now(UTC).isoformat(timespec="seconds"),
            version=pufferkit.__version__,
            verification_data=self._verification_data(),
            kind=self.query.kind,
            question=self.query.question,
            step=data.step,
            calibration=self.digest,
            loss_if_unsure=loss_if_unsure(self.beliefs, self.epsilon),
        )
        return drawn.as_histogram() if self.query.binned else drawn.within_range()

    def chosen_place(self, counts: Sequence[Fraction]) -> int:
        """For a quantile: the index of a level close to it, by a fresh noisy choice.

        Examples
        --------
        >>> import pufferkit as pk
        >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
        >>> noise = pk.influence_curve(chain, pk.quantile(0.5, {0: 0, 1: 1}, 9000), 1)
        >>> noise.chosen_place([9000, 0])
        0
        """
        share = Fraction((self.query.question or {})["share"])
        scores = rank_scores(list(counts), share)
        scale = noise.choice_scale(self.scale, len(scores))
        return noise.noisy_choice(scores, scale, share.denominator)

    def _verification_data(self) -> dict[str, Any] | None:
        record = dict(self.verification_data or {})
        weights, apart = self.query.weights, self.query.apart
        if apart is not None and self.query.asks is None and self.beliefs is not None:
            nobody = (Fraction(0),) * len(next(iter(apart.values())))
            rows = [apart.get(state, nobody) for state in self.beliefs.states]
            record["apart"] = [[str(number) for number in row] for row in rows]
        if weights is not None and self.query.size > 1 and not self.query.uniform:
            states = self.query.states if self.beliefs is None else self.beliefs.states
            rows = self.query.added(states or weights)
            record["weights"] = [[str(weight) for weight in row] for row in rows]
        if weights is not None and self.query.size == 1:
            # In the order of the states of the beliefs, as fractions.
            if self.beliefs is not None:
                rows = self.query.added(self.beliefs.states)
            else:
                rows = [*weights.values(), *([(Fraction(0),)] if self.query.states is None else ())]
            record["weights"] = [str(row[0]) for row in rows]
        return record or None

    def checked(self, series: Any) -> Series:
        """The data, checked for this calibration: known states, the right lengths.

        Data with another step than the beliefs, data they were fitted on, and bought beliefs that
        nobody paid for are refused.
        """
        states = self.query.states if self.beliefs is None else self.beliefs.states
        names = None if self.beliefs is None else self.beliefs.entries
        if names is not None and isinstance(series, Mapping):
            series = in_order(series, names)
        data = Series.of(series, states) if not isinstance(series, Series) else series
        if states is not None and set(data.states) - set(states):
            # A Series may declare more states than the model, if none of them occurs.
            data = Series.of(data, states)
        if sorted(data.lengths) != sorted(self.query.lengths):
            raise ValueError(
                f"series: has segments of {_brief(data.lengths)} entries, but the noise was "
                f"calibrated for {_brief(self.query.lengths)}; make the query with these lengths"
            )
        if data.missing or self.query.missing:
            self._check_gaps(data, named=names is not None)
        if names is not None and self.beliefs is not None:
            _check_values(self.beliefs, names, data)
        if self.beliefs is not None:
            check_series(self.beliefs, data)
            check_paid(self.beliefs.sources, self.evidence.bought)
        return data

    def _check_gaps(self, data: Series, named: bool) -> None:
        """Check that query and mechanism allow the entries that were not observed."""
        if named:
            raise ValueError(
                "series: a network or a joint distribution needs a value for each of its names"
            )
        if self.mechanism in OF_SUMS:
            raise NotApplicable(GAPS)
        made_for = (self.verification_data or {}).get("pattern")
        if made_for is not None and sorted(map(tuple, made_for)) != sorted(data.pattern or ()):
            raise ValueError(
                f"series: {data.missing} of its {len(data)} entries were not observed, but not "
                f"those that the noise of {self.query.name} was made for; make the query with this "
                "series in place of the lengths"
            )
        wanted = self.query.observed
        spans = zip(data.lengths, data.observed_lengths, strict=True)
        if wanted is not None and sorted(spans) != sorted(
            zip(self.query.lengths, wanted, strict=True)
        ):
            raise ValueError(
                f"series: {data.missing} of its {len(data)} entries were not observed, but "
                f"{self.query.name} was made for {sum(wanted)} observed entries; make the query "
                "with the series in place of the lengths, like relative_frequencies(states, series)"
            )


def requested(
    mechanism: str,
    beliefs: Beliefs | None,
    query: Query,
    epsilon: float,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a calibration is asked for, as plain data; its digest stands for it before it is made.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, influence_curve
    >>> chain, query = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), count(1, 100)
    >>> noise = influence_curve(chain, query, 1)
    >>> requested("influence_curve", noise.beliefs, query, 1.0) == noise.asked()
    True
    """
    return {
        "mechanism": mechanism,
        "beliefs": None if beliefs is None else beliefs.digest,
        "query": query.asked(),
        "epsilon": plain(float(epsilon)),
        **{name: plain(value) for name, value in (options or {}).items()},
    }


def chains_only(beliefs: Any, mechanism: str) -> ChainClass:
    """The beliefs as a class of chains; ``NotApplicable`` if they are of another kind."""
    theta = as_beliefs(beliefs)
    if not isinstance(theta, ChainClass):
        raise NotApplicable(f"{mechanism} needs Markov chains, not a {theta.description}")
    return theta


def checked(
    beliefs: Any,
    query: Any,
    epsilon: float,
    over: Any = None,
    secrets: Secrets | Sequence[Secrets] | None = None,
) -> tuple[Beliefs, Query, float]:
    """The beliefs, with these secrets if any, the query about ``over``, and epsilon, checked."""
    epsilon = checks.privacy(epsilon)
    theta = as_beliefs(beliefs)
    query = about(theta, query, over)
    if secrets is not None:
        named = [secrets] if isinstance(secrets, Secrets) else list(secrets)
        theta = chains_only(theta, "secrets=").with_secrets(*named)
    check_states(theta, query)
    return theta, query, epsilon


def about(beliefs: Beliefs, query: Any, over: Any) -> Query:
    """The query about ``over``; a question without it is about the entries that beliefs name."""
    if over is None and isinstance(query, Question) and beliefs.entries is not None:
        over = len(beliefs.entries)
    return bound(query, beliefs.states, over)


def check_states(beliefs: Beliefs, query: Query) -> None:
    """Refuse a query about other entries or states than those of the beliefs."""
    if isinstance(query, Mapping) or (
        isinstance(query, (list, tuple)) and any(isinstance(part, (Query, tuple)) for part in query)
    ):
        raise ValueError(
            "query: must be one Query; plan(beliefs, {name: (query, error), ...}) plans several, "
            "and release takes them"
        )
    if not isinstance(query, Query):
        raise ValueError(
            "query: expected a Query, such as histogram(states, lengths=2016), "
            f"got {type(query).__name__}"
        )
    names = beliefs.entries
    if names is not None and query.lengths != (len(names),):
        raise ValueError(
            f"query: runs over {_brief(query.lengths)} entries, but the beliefs have "
            f"{len(names)}; make the query with lengths={len(names)}"
        )
    check_step(beliefs.step, query.step)
    states = beliefs.states
    known = set(states)
    if query.states is not None and set(query.states) != known:
        raise ValueError(
            f"query: has states {list(query.states)}, the beliefs "
            f"{list(states)}; use the same labels in both"
        )
    if query.rows is not None and not set(query.rows) <= known:
        strange = sorted(repr(s) for s in set(query.rows) - known)
        raise ValueError(
            f"query: counts {', '.join(strange)}, not among the states of the beliefs; these "
            f"are {list(states)}"
        )


def in_order(values: Mapping[Any, Any], names: tuple[Hashable, ...]) -> list[Any]:
    """A record {name: value} as a list in the order of the beliefs."""
    missing = [name for name in names if name not in values]
    extra = [name for name in values if name not in names]
    if missing or extra:
        raise ValueError(
            f"series: must have one value for each of {list(names)}; "
            f"missing {missing}, unknown {extra}"
        )
    return [values[name] for name in names]


def _check_values(beliefs: Beliefs, names: tuple[Hashable, ...], data: Series) -> None:
    """Refuse an entry that is not a value of its variable."""
    for name, value in zip(names, data.labels, strict=True):
        allowed = beliefs.values(name)
        if value not in allowed:
            raise ValueError(
                f"series: {name!r} is {value!r}, which is not among its values {list(allowed)}"
            )


def _gaps(data: Series, query: Query) -> tuple[int, ...] | None:
    """How many entries of each segment were observed, in the order of the query's segments."""
    if not data.missing:
        return None
    if query.observed is not None:
        return query.observed
    left: dict[int, list[int]] = {}
    for length, seen in zip(data.lengths, data.observed_lengths, strict=True):
        left.setdefault(length, []).append(seen)
    return tuple(left[length].pop(0) for length in query.lengths)


def _brief(lengths: tuple[int, ...]) -> str:
    if len(lengths) <= 5:
        return ", ".join(str(n) for n in lengths)
    return f"{lengths[0]}, {lengths[1]}, ... ({len(lengths)} segments, {sum(lengths)} in all)"
