"""Beliefs fitted to *public* data: chains from counts of transitions, classes, hidden regimes.

A matrix counted from a series is information about that series. Counted from the series to be
released, it would itself be a release without noise; count it from public or historical data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from inspect import signature
from math import floor
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenModel, Within
from pufferkit.beliefs.hull_class import HullClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import MarkovRandomField
from pufferkit.beliefs.order_class import MOST_TUPLES, OrderClass
from pufferkit.beliefs.provenance import RARE, Provenance
from pufferkit.beliefs.regime_class import RegimeClass
from pufferkit.beliefs.seasonal_class import SeasonalClass
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.fitting import baum_welch
from pufferkit.fitting.baum_welch import PeopleAs, believed_models
from pufferkit.fitting.contacts import contact_beliefs
from pufferkit.fitting.people import PARTS, People, shrunk_tables
from pufferkit.fitting.row_tests import conformal_contamination, row_coverage
from pufferkit.threads import one_thread

Start = Literal["stationary", "first"]
Kind = Literal["chain", "around", "seasonal", "hull", "order", "regimes", "contacts"]

_MOST = 0.99


@overload
def fit(
    data: Any,
    kind: Literal["chain"] = ...,
    *,
    step: Any = ...,
    theta_from_private_data: bool = ...,
    **options: Any,
) -> MarkovChain: ...
@overload
def fit(
    data: Any,
    kind: Literal["regimes"],
    *,
    step: Any = ...,
    theta_from_private_data: bool = ...,
    **options: Any,
) -> RegimeClass: ...
@overload
def fit(
    data: Any,
    kind: Literal["contacts"],
    *,
    step: Any = ...,
    theta_from_private_data: bool = ...,
    **options: Any,
) -> MarkovRandomField: ...
@overload
def fit(
    data: Any,
    kind: Literal["around", "seasonal", "hull", "order"],
    *,
    step: Any = ...,
    theta_from_private_data: bool = ...,
    **options: Any,
) -> ChainClass: ...


@one_thread()
def fit(
    data: Any,
    kind: Kind = "chain",
    *,
    step: Any = None,
    theta_from_private_data: bool = False,
    **options: Any,
) -> MarkovChain | ChainClass | MarkovRandomField:
    """Beliefs of this kind from *public* or historical data.

    Never fit them to the series to be released: they would themselves be a release. Releasing that
    series is refused, unless ``theta_from_private_data`` declares it.

    Parameters
    ----------
    data
        A `Series`, a sequence of states or of segments; or several people: a `Table`, or a list
        with a `Series` for each. For ``"contacts"`` a pair of names for each contact.
    kind
        ``"chain"``: a `MarkovChain` whose rows are the shares of all transitions. ``"around"``:
        every chain in a confidence region of their counts. ``"seasonal"``: one chain for each hour.
        ``"hull"``: every chain between those of everybody, of each person and of each part of their
        days, changing at any time. ``"order"``: one chain with a longer memory. ``"regimes"``:
        entries emitted by hidden regimes, by expectation-maximisation. ``"contacts"``: an Ising
        model of people who meet (`pufferkit.fitting.contacts`).
    step
        Time from one entry to the next; data that were read with their times know it.
    theta_from_private_data
        Declare that the data are private nevertheless; every result is then marked as based on
        private data.
    options
        Of ``"chain"``: ``smoothing``, added to every count (0; above 0 every transition is
        possible), and ``start``: ``"stationary"``, or ``"first"`` for the shares of the first
        states of the segments. Of ``"around"``: ``confidence`` (0.95) and ``sides``, as for
        `ChainClass.around`. Of ``"seasonal"`` and ``"hull"``: ``period``, a day unless given, in
        entries or for a table with times a duration such as ``"7d"``, and ``firsts``, the slot at
        which each series without times begins. Of ``"seasonal"``: ``slots``, the parts of a period
        in which transitions are counted (24), and ``start``, the slot of the first entry of the
        series to be released, if it is known. Of ``"hull"``: ``parts`` of a day (4) and
        ``inflate``, a weight of contamination of every row, or ``"calibrated"``: what people held
        out require; with 18 people and more such that no row of a new person is refuted with
        probability 0.9. Of ``"order"``: ``memory`` (2). Of ``"regimes"``: ``regimes``, their
        number; ``within``: ``"independent"`` or a ``"chain"``; ``people``: ``"each"`` has his own
        moves between regimes for a whole series, ``"hull"`` moves that change between these at any
        time, ``"pooled"`` one model; ``refitted``, models refitted to data drawn from the fit,
        by default 20 with fewer than ten people (the fit alone covers the true influence in 38% of
        simulations, with these in 93%); ``emissions`` and ``secret`` as for `RegimeClass`;
        ``restarts`` (6) and their ``seed``. Of ``"contacts"``: ``states``, two, the rarer second;
        ``odds``, how much the odds of a person grow if all contacts are in the second state; and
        ``share``, of people in it (0.5).

    Raises
    ------
    ValueError
        If a state is never left and ``smoothing`` is 0, so that its row has no distribution.

    Examples
    --------
    >>> from pufferkit import fit
    >>> fit([0, 0, 1, 1, 0, 1]).transition.tolist()
    [[0.3333333333333333, 0.6666666666666666], [0.5, 0.5]]
    >>> fit([0, 0, 1, 1, 0, 1], "order", memory=2).description
    '1 chain, 2 states, memory of 2 entries, stationary start'
    """
    if kind not in _KINDS:
        raise ValueError(f"kind: must be one of {', '.join(_KINDS)}, got {kind!r:.60}")
    make = _KINDS[kind]
    known = list(signature(make).parameters)[1 if kind == "contacts" else 2 :]
    strange = [name for name in options if name not in known]
    if strange:
        raise ValueError(
            f"{strange[0]}: is no option of {kind!r} beliefs; theirs are {', '.join(known)}"
        )
    private = checks.flag("theta_from_private_data", theta_from_private_data)
    if kind == "contacts":
        if private or step is not None:
            raise ValueError("kind: contacts are public and without a clock; give only odds")
        return contact_beliefs(data, **options)
    beliefs: MarkovChain | ChainClass = make(data, private, **options).with_step(step)
    return beliefs


def _chain(
    data: Any, private: bool, smoothing: float = 0.0, start: Start = "stationary"
) -> MarkovChain:
    added = checks.real("smoothing", smoothing)
    if added < 0:
        raise ValueError(f"smoothing: must be 0 or more, got {added:g}")
    if start not in get_args(Start):
        raise ValueError(f"start: must be 'stationary' or 'first', got {start!r}")
    if isinstance(data, Table):
        counted = Provenance.of_counts(data.transitions, data.states, private)
        source = replace(counted, smoothing=added)
    else:
        data = _people(data).pooled
        source = Provenance.of_series(data, added, private)
    counts = data.transitions + added
    leaves = counts.sum(axis=1, keepdims=True)
    if (leaves == 0).any():
        stuck = [data.states[x] for x in np.flatnonzero(leaves[:, 0] == 0)]
        raise ValueError(
            f"data: one never leaves {', '.join(repr(state) for state in stuck)}, so they do not "
            "show what follows; use smoothing above 0 (for example 0.5), more data, or fewer states"
        )
    known: Any = (counts / leaves, data.states, source)
    if start == "first":
        return MarkovChain(_first_states(data, added), *known, step=data.step)
    try:
        return MarkovChain.steady(*known, step=data.step)
    except ValueError as error:
        raise ValueError(
            f"{error}, use smoothing above 0, or start from the first states"
        ) from None


def _first_states(data: Series | Table, added: float) -> Floats:
    if isinstance(data, Table):
        raise ValueError(
            "start: a table does not hold the first states; leave start out, or give the segments"
        )
    firsts = np.array([s[0] for s in data.segments if s[0] >= 0], dtype=np.intp)
    if not firsts.size and added == 0:
        raise ValueError("start: the first entry of every segment is missing; leave start out")
    counts = np.bincount(firsts, minlength=len(data.states)) + added
    initial: Floats = counts / counts.sum()
    return initial


def _around(data: Any, private: bool, confidence: float = 0.95, sides: str = "both") -> ChainClass:
    counted = data if isinstance(data, Table) else _people(data).pooled
    return ChainClass.around(counted, confidence, sides=sides, theta_from_private_data=private)


def _seasonal(
    data: Any,
    private: bool,
    period: Any = None,
    firsts: Any = None,
    slots: int | None = None,
    start: int | None = None,
) -> ChainClass:
    people = _people(data, period, firsts)
    source = _source(people, private)
    theta = SeasonalClass(people.slot_kernels(slots), people.states, start, source, people.origin)
    return theta.with_step(people.step)


def _hull(
    data: Any,
    private: bool,
    period: Any = None,
    firsts: Any = None,
    parts: int = PARTS,
    inflate: float | str = 0.0,
    alpha: float = 0.1,
    beyond: bool = False,
) -> ChainClass:
    """Mixtures of the kernels of people and parts of the day, which may change at every step.

    Backward kernels are counted, since parts of the day are not stationary; the time reversals
    of all chains are among them, so that each of these chains is a member.
    """
    people, words = _people(data, period, firsts), None
    if isinstance(inflate, str):
        if inflate != "calibrated":
            raise ValueError(f"inflate: must be a weight or 'calibrated', got {inflate!r}")
        calibrated = calibrated_contamination(people, alpha, parts)
        inflate, words = min(calibrated.eta, _MOST), calibrated.words
    forward, backward = people.hull_kernels(parts)
    if beyond:
        each = forward[1 : len(people.series) + 1]
        models = [HiddenModel(kernel, np.eye(len(kernel))) for kernel in each]
        forward += [model.transition for model in baum_welch.beyond(models)]
    known: Any = (people.states, _source(people, private))
    chains = [MarkovChain.steady(kernel, *known, step=people.step) for kernel in forward]
    reversals = [chain.reversal.transition for chain in chains]
    return HullClass(tuple(chains), inflate, (*backward, *reversals), words)


@dataclass(frozen=True)
class Calibrated:
    """A contamination that covers held-out people, and its justification in words."""

    eta: float
    words: str


def calibrated_contamination(people: People, alpha: float, parts: int = PARTS) -> Calibrated:
    """Contamination of the hull of people, calibrated on held-out people.

    With enough people, half of them define the hull and half calibrate it, and with probability
    1 - alpha no row of a new exchangeable person is refuted (`conformal_contamination`). With
    fewer, each in turn is held out and the largest is taken; no theorem gives its coverage.
    """
    count = len(people.series)
    if count < 2:
        raise NotApplicable("a calibrated hull needs at least two people")
    half = count // 2
    if floor((half + 1) * alpha) >= 1:
        built = people.only(range(half))
        etas = [_least_contamination(built, people, number, parts) for number in range(half, count)]
        eta = conformal_contamination(etas, alpha)
        return Calibrated(eta, f"covers {1 - alpha:.0%} of people, by {len(etas)} held out")
    etas = [
        _least_contamination(people.without(number), people, number, parts)
        for number in range(count)
    ]
    return Calibrated(max(etas), f"the largest that one of {count} people required when held out")


def _least_contamination(built: People, people: People, number: int, parts: int) -> float:
    """The least contamination of a hull that makes one person plausible, in both directions."""
    one, slots = people.series[number], people.slots(number)
    day = people.day or 1
    etas = [0.0]
    for kernels, turn in zip(built.hull_kernels(parts), (1, -1), strict=True):
        segments = [np.asarray(segment)[::turn] for segment in one.segments]
        times = [row[::turn] for row in slots]
        covered = row_coverage(
            segments, kernels, day=day, parts=parts if people.day else 1, slots=times
        )
        etas.append(covered.contamination)
    return max(etas)


def _order(data: Any, private: bool, memory: int = 2) -> ChainClass:
    series = _people(data).pooled
    rows = order_table(series.segments, len(series.states), memory)
    source = Provenance.of_series(series, private=private)
    return OrderClass(rows, series.states, source).with_step(series.step)


def _regimes(
    data: Any,
    private: bool,
    regimes: int | None = None,
    within: Within = "independent",
    people: PeopleAs = "each",
    refitted: int | None = None,
    emissions: float | None = None,
    secret: Any = "entry",
    restarts: int = 6,
    seed: int = 0,
) -> RegimeClass:
    if regimes is None:
        raise ValueError("regimes: hidden regimes need their number; for example regimes=3")
    everybody = _people(data)
    segments = [one.segments for one in everybody.series]
    models = believed_models(
        segments, len(everybody.states), regimes, within, people, refitted, restarts, seed
    )
    source = Provenance.of_series(everybody.pooled, private=private)
    known: Any = {"emissions": emissions, "secret": secret, "fitted_on": source}
    each = [
        RegimeClass(m.transition, m.emission, everybody.states, step=everybody.step, **known)
        for m in models
    ]
    return RegimeClass.hull_of(*each) if people == "hull" else RegimeClass.of(*each)


_KINDS: dict[str, Callable[..., Any]] = {
    "chain": _chain,
    "around": _around,
    "seasonal": _seasonal,
    "hull": _hull,
    "order": _order,
    "regimes": _regimes,
    "contacts": contact_beliefs,
}


def _people(data: Any, period: Any = None, firsts: Any = None) -> People:
    """The people of data; a sequence of states or of segments is one person."""
    several = isinstance(data, (list, tuple)) and data and isinstance(data[0], Series)
    known = several or isinstance(data, (People, Table, Series))
    return People.of(data if known else Series.of(data), period, firsts)


def _source(people: People, private: bool) -> Provenance:
    return Provenance.of_series(people.pooled, private=True) if private else people.source


def rarely_left(series: Series | Table, least: int = RARE) -> dict[Hashable, int]:
    """States left fewer than ``least`` times, whose row of the matrix is unreliable."""
    leaves = series.transitions.sum(axis=1).tolist()
    return {
        state: count for state, count in zip(series.states, leaves, strict=True) if count < least
    }


def impossible_moves(series: Series, chain: MarkovChain) -> dict[tuple[Hashable, Hashable], int]:
    """Transitions of a series to which a chain gives probability 0, and how often they occur.

    If there are any, the series is impossible under the chain, and a guarantee against adversaries
    who believe in the chain does not cover it.
    """
    position = {state: x for x, state in enumerate(chain.states)}
    rows = [position[state] for state in series.states]
    counts = np.where(chain.transition[np.ix_(rows, rows)] == 0, series.transitions, 0)
    return {(series.states[x], series.states[y]): int(counts[x, y]) for x, y in np.argwhere(counts)}


def order_table(segments: Iterable[ArrayLike], levels: int, order: int) -> Floats:
    """P_m(y | x_1..x_m) of `shrunk_tables`, an array with order + 1 axes, y last.

    Parameters
    ----------
    segments
        Rows of levels, as `pufferkit.fitting.baum_welch.fit` reads them.
    levels, order
        k and m; k^m may be at most 400.
    """
    size, steps = checks.whole("levels", levels, 1), checks.whole("order", order, 1)
    if size**steps > MOST_TUPLES:
        raise ValueError(
            f"order: {size} levels with {steps} steps of memory make {size**steps:,} tuples, "
            f"more than {MOST_TUPLES:,}; use a lower order, or merge levels"
        )
    return checks.frozen(shrunk_tables(segments, size, steps)[-1])
