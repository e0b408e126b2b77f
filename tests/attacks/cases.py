"""A case: beliefs and a history of releases, as plain numbers, and the cases next to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

LONGEST = {2: 8, 3: 5, 4: 4}
"""Entries for so many states, so that all data can be listed."""

KINDS = ("steady", "several", "fixed start", "any start", "binary", "mixing", "region")
SHIFTING = ("steady", "several", "any start", "binary", "mixing", "region")
"""Kinds of beliefs that say nothing of where a series starts."""

QUILTS = ("markov_quilt", "markov_quilt formula", "markov_quilt_approx", "approx tight")
SUMS = ("wasserstein", "exact_sum")
ENTRYWISE = ("influence_curve", *QUILTS, *SUMS, "gk16", "group_dp", "entry_dp")
PRIVATE = ("influence_curve", *QUILTS, "gk16", "group_dp", *SUMS)

_FACTORS = (3.0, 1 / 3, 1.25, 0.8)


@dataclass(frozen=True)
class Asked:
    """One release: its mechanism, what is added up over which window, and its epsilon."""

    mechanism: str
    values: tuple[float, ...] | None  # None: a histogram
    first: int
    last: int
    epsilon: float
    label: str = ""
    own: bool = False  # asked as a function of the user's, all of one name


@dataclass(frozen=True)
class Case:
    """Beliefs by weights of the moves, one table for each chain; a start; how wide a class is.

    A climb drives the loss of one entry. The largest loss of all entries is often equal to the
    charge from the start, at an entry that the rule has in mind, and then shows no way up for the
    others.
    """

    kind: str
    weights: tuple[tuple[tuple[float, ...], ...], ...]
    start: tuple[float, ...]
    width: float
    lengths: tuple[int, ...]
    asked: tuple[Asked, ...]
    entry: int = 1  # whose loss is driven up
    missing: tuple[int, ...] = ()  # entries that were not observed

    @property
    def states(self) -> int:
        return len(self.start)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    def matrices(self) -> list[np.ndarray]:
        tables = np.array(self.weights)
        if not (tables.sum(axis=2) > 0).all():
            raise ValueError("a row without moves")
        return list(tables / tables.sum(axis=2, keepdims=True))


@dataclass(frozen=True)
class Target:
    """What is attacked: a rule, and the histories that it is for."""

    rule: str
    mechanisms: tuple[str, ...] = ENTRYWISE
    releases: tuple[int, ...] = (1, 2, 3)
    kinds: tuple[str, ...] = KINDS
    windows: str = "any"  # "any", "same", "disjoint", "far"
    segments: bool = True
    gaps: bool = True  # whether entries may not have been observed
    own: bool = False  # whether sums may be asked as functions of the user's
    starts: int = 10  # random cases, the best of which a climb starts from


TARGETS = {
    target.rule: target
    for target in (
        Target("single", PRIVATE, (1,)),
        Target("entry_profile", ENTRYWISE),
        Target("quilt_sum", QUILTS, (2, 3), windows="same"),
        Target("quilt_max", QUILTS[:2], (2, 3), windows="same"),
        Target("group_sum", ("group_dp",), (2, 3)),
        Target("parallel", PRIVATE, (2, 3), SHIFTING, "disjoint", False),
        Target("far_apart", QUILTS[2:], (2,), ("steady", "several", "any start"), "far", False),
        Target("dependence", PRIVATE, (2,), ("steady", "fixed start"), segments=False),
        Target("compose", tuple(dict.fromkeys(ENTRYWISE + PRIVATE)), (2, 3)),
    )
}


def random_case(target: Target, rng: np.random.Generator) -> Case:
    """Somewhere to start from."""
    kind = str(rng.choice(target.kinds))
    states = 2 if kind == "binary" or target.windows == "far" else int(rng.choice([2, 3, 4]))
    length = LONGEST[states] - int(rng.integers(0, 2))
    chains = 2 if kind == "several" or (kind == "any start" and rng.random() < 0.3) else 1
    spread = 0.2 if target.windows == "far" else 1.5
    weights = np.round(np.exp(spread * rng.normal(size=(chains, states, states))), 3)
    lengths = (length,)
    if target.segments and kind in ("steady", "several", "fixed start") and rng.random() < 0.25:
        cut = int(rng.integers(1, length))
        lengths = (cut, length - cut)
    number = int(rng.choice(target.releases))
    asked = []
    for first, last in _windows(target.windows, number, length, rng):
        values = None if rng.random() < 0.25 else _values(states, rng)
        mechanism = str(rng.choice(target.mechanisms))
        epsilon = round(float(np.exp(rng.uniform(-1, 1.5))), 3)
        own = target.own and bool(rng.random() < 0.5)
        label = str(rng.choice(["", "b"]))
        asked.append(Asked(mechanism, values, first, last, epsilon, label, own))
    return Case(
        kind,
        tuple(tuple(tuple(row) for row in table) for table in weights.tolist()),
        tuple(np.round(rng.dirichlet(np.ones(states)), 3).tolist()),
        0.05,
        lengths,
        tuple(asked),
        _entry(length, asked, rng),
        _missing(length, rng) if target.gaps and rng.random() < 0.5 else (),
    )


def _missing(length: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Some entries that were not observed, not all."""
    chosen = rng.choice(length, size=int(rng.integers(1, length)), replace=False)
    return tuple(sorted(int(t) + 1 for t in chosen))


def _entry(length: int, asked: list[Asked], rng: np.random.Generator) -> int:
    """Whose loss to drive; half of the time one that no release uses."""
    entries = list(range(1, length + 1))
    unused = [t for t in entries if not any(a.first <= t <= a.last for a in asked)]
    return int(rng.choice(unused if unused and rng.random() < 0.5 else entries))


def _values(states: int, rng: np.random.Generator) -> tuple[float, ...]:
    return tuple(float(v) for v in rng.integers(-1, 3, size=states))


def _windows(how: str, number: int, length: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    if how == "far":
        return [(1, 3), (length - 2, length)]
    if how == "same":
        first, last = sorted(rng.integers(1, length + 1, size=2).tolist())
        return [(first, last)] * number
    if how == "disjoint":
        if rng.random() < 0.5:  # one entry each
            places = sorted(rng.choice(np.arange(1, length + 1), number, replace=False).tolist())
            return [(place, place) for place in places]
        marks = sorted(rng.integers(1, length + 1, size=2 * number).tolist())
        return [(marks[2 * n], marks[2 * n + 1]) for n in range(number)]
    pairs = (sorted(rng.integers(1, length + 1, size=2).tolist()) for _ in range(number))
    return [(first, last) for first, last in pairs]


Move = Callable[[Case], Case]


def moves(case: Case, target: Target, rng: np.random.Generator) -> list[Move]:
    """One thing changed, in random order: chains, start, windows, gaps, values, epsilons, order."""
    steps: list[Move] = []
    chains, states = len(case.weights), case.states
    options = [*(("times", f) for f in _FACTORS), ("set", 0.0), ("set", 1.0)]
    for chain, x, y in product(range(chains), range(states), range(states)):
        steps += [_weight(chain, x, y, *option) for option in options]
    if case.kind == "fixed start":
        steps += [_start(x, *option) for x in range(states) for option in options]
    if case.kind in ("binary", "region"):
        steps += [lambda c, f=f: replace(c, width=min(0.4, c.width * f)) for f in _FACTORS]
    if target.gaps:
        steps += [_observed(entry) for entry in range(1, case.length + 1)]
    for n, release in enumerate(case.asked):
        for name, change in product(("first", "last"), (-1, 1)):
            steps.append(_window(n, name, change, target.windows == "same"))
        epsilons = (round(release.epsilon * factor, 6) for factor in _FACTORS)
        steps += [_release(n, epsilon=e) for e in epsilons if 0.05 <= e <= 5]
        steps += [_release(n, mechanism=mechanism) for mechanism in target.mechanisms]
        steps += [_release(n, values=None), _release(n, values=_values(states, rng))]
        if target.own:
            steps.append(_release(n, own=not release.own))
        if n:
            steps.append(_earlier(n))
        if release.values is not None:
            for x, value in product(range(states), (0.0, 1.0, -1.0, 2.0)):
                steps.append(_value(n, x, value))
    return [steps[n] for n in rng.permutation(len(steps))]


def _changed(old: float, how: str, by: float) -> float:
    return by if how == "set" else round(old * by, 6)


def _weight(chain: int, x: int, y: int, how: str, by: float) -> Move:
    def move(case: Case) -> Case:
        tables = [[list(row) for row in table] for table in case.weights]
        tables[chain][x][y] = _changed(tables[chain][x][y], how, by)
        return replace(case, weights=tuple(tuple(tuple(r) for r in t) for t in tables))

    return move


def _observed(entry: int) -> Move:
    """An entry that was observed was not, and the other way round."""
    return lambda case: replace(case, missing=tuple(sorted({*case.missing} ^ {entry})))


def _start(x: int, how: str, by: float) -> Move:
    def move(case: Case) -> Case:
        start = list(case.start)
        start[x] = _changed(start[x], how, by)
        return replace(case, start=tuple(start))

    return move


def _release(n: int, **changes: object) -> Move:
    def move(case: Case) -> Case:
        asked = list(case.asked)
        asked[n] = replace(asked[n], **changes)  # type: ignore[arg-type]
        return replace(case, asked=tuple(asked))

    return move


def _earlier(n: int) -> Move:
    """One release before the one that preceded it."""

    def move(case: Case) -> Case:
        asked = list(case.asked)
        asked[n - 1], asked[n] = asked[n], asked[n - 1]
        return replace(case, asked=tuple(asked))

    return move


def _value(n: int, x: int, value: float) -> Move:
    def move(case: Case) -> Case:
        values = case.asked[n].values
        if values is None:
            return case
        return _release(n, values=(*values[:x], value, *values[x + 1 :]))(case)

    return move


def _window(n: int, name: str, change: int, same: bool) -> Move:
    def move(case: Case) -> Case:
        place = getattr(case.asked[n], name) + change
        for number in range(len(case.asked)) if same else (n,):
            case = _release(number, **{name: place})(case)
        return case

    return move
