"""Every class of beliefs with every question, secret and gap: what a cell is, and its checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import pufferkit as pk
from tests.guards.asked import MECHANISMS, QUESTIONS, REFUSALS, SECRETS, Over, hiding
from tests.guards.attacks import Attack
from tests.guards.beliefs import BELIEFS
from tests.oracles.answers import ANSWERS
from tests.oracles.hidden import all_data

# -- what there is -------------------------------------------------------------------------------

CLASSES = {
    "MarkovChain": ("fixed start", "known start", "absorbing", "apart"),
    "MarkovChain.steady": ("calm", "two states", "alike", "periodic", "sparse"),
    "ChainClass.of": ("two chains", "chains of three"),
    "ChainClass.any_start": ("any start of two", "any start sparse"),
    "ChainClass.binary": ("binary", "binary sticky"),
    "ChainClass.mixing": ("mixing", "mixing reversible"),
    "ChainClass.around": ("around of two", "around any start", "around"),
    "ChainClass.seasonal": ("seasonal", "seasonal from slot 1", "step by step"),
    "ChainClass.hull": ("hull", "hull contaminated", "hull backward", "hull of equals"),
    "ChainClass.order": ("order", "order of one"),
    "RegimeClass": ("regimes", "switching", "regimes contaminated", "regime hidden"),
    "RegimeClass.of": ("regimes each",),
    "RegimeClass.hull_of": ("regimes hull",),
    "BayesianNetwork": ("tree", "causes", "diamond", "tree of three", "two trees"),
    "MarkovRandomField": ("potentials",),
    "MarkovRandomField.ising": ("ising",),
    "MarkovRandomField.potts": ("potts",),
    "MarkovRandomField.grid": ("grid", "row"),
    "FiniteJoint": ("joint", "joint with holes", "two joints", "joint of three"),
}
"""For each constructor of the package, the beliefs that stand for it; the first in quick tests."""

QUESTION_OF = {
    "Query": "own",
}
"""Questions whose name in the package is another one."""

SLACK = 1e-9
"""Rounding of the oracle."""

GAPS = {
    "none": Over((4,)),
    "a gap": Over((4,), frozenset({1})),
    "segments": Over((2, 3)),
    "segments with gaps": Over((3, 2), frozenset({1, 3})),
}


def _makers(cls: type) -> Iterator[str]:
    """Functions of a class that make one of its kind, from numbers rather than data or files."""
    for name, own in vars(cls).items():
        if isinstance(own, (staticmethod, classmethod)) and not name.startswith(("_", "from_")):
            made = inspect.signature(own.__func__).return_annotation
            if cls.__name__ in str(made) and name != "fit":
                yield name


def public_classes() -> set[str]:
    """Constructors of beliefs in the package."""
    found = set()
    for name in pk.__all__:
        cls = getattr(pk, name)
        if inspect.isclass(cls) and ".beliefs." in cls.__module__ and hasattr(cls, "to_json"):
            found |= {f"{name}.{made}" for made in _makers(cls)}
            if not inspect.isabstract(cls):
                found.add(name)
    return found


def public_questions() -> set[str]:
    """Questions in the package: functions that give one, and classes that are one."""
    return {name for name in pk.__all__ if _is_question(getattr(pk, name))}


def _is_question(own: Any) -> bool:
    if inspect.isclass(own):
        return issubclass(own, pk.Query)
    if not inspect.isfunction(own):
        return False
    return str(inspect.signature(own).return_annotation).rpartition(".")[2] == "Query"


def public_secrets() -> set[str]:
    """Secrets in the package."""
    return set(_makers(pk.Secrets))


# -- cells ---------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One class with one question, secret and gap."""

    belief: str
    question: str
    secret: str
    gap: str

    @property
    def over(self) -> Over:
        entries = BELIEFS[self.belief].entries
        if entries is None:
            return GAPS[self.gap]
        return Over((entries,), frozenset({1}) if self.gap == "a gap" else frozenset())

    @property
    def epsilon(self) -> float:
        return (0.3, 1.0, 4.0)[self.chosen % 3]

    @property
    def chosen(self) -> int:
        return crc32("|".join(self).encode())


def cells(belief: str | None = None) -> list[Cell]:
    """All of them, or those of one belief; graphs and joints have no segments.

    The first belief of each class meets everything, the others a third of it.
    """
    first = {own[0] for own in CLASSES.values()}
    named = [own for each in CLASSES.values() for own in each] if belief is None else [belief]
    every = (
        Cell(*names)
        for names in product(named, QUESTIONS, SECRETS, GAPS)
        if BELIEFS[names[0]].entries is None or "segments" not in names[3]
    )
    return [cell for cell in every if cell.belief in first or cell.chosen % 3 == 0]


def quick(every: list[Cell]) -> list[Cell]:
    """Cells in which every class meets every secret and gap, and every question as well."""
    seen, out = set(), []
    for cell in sorted(every, key=lambda cell: cell.chosen):
        kind = BELIEFS[cell.belief].kind
        pairs = {(kind, cell.secret), (kind, cell.gap), cell[1:3], (cell.question, cell.gap)}
        if refused(cell) is None:
            pairs.add((kind, cell.question))
        if not pairs <= seen:
            seen |= pairs
            out.append(cell)
    return out


# -- what is refused -----------------------------------------------------------------------------

EVENTS = ("at_least", "at_least twice", "throughout", "patterns", "throughout and patterns")
HIDDEN = ("order", "regimes")
LISTED = ("networks", "field", "ising", "potts", "grid", "joints")
STEADY = ("calm", "sticky", "two states", "alike", "periodic", "sparse", "two chains")
OF_ONE_NUMBER = (
    *("count", "count of the last", "total", "total, clipped", "mean", "mean, clipped"),
    *("linear of some", "per_entry", "per_entry, by state", "own"),
)


REFUSED: dict[str, Callable[[Cell, str], bool]] = {
    "graphs and joints hide entries only": lambda c, kind: kind in LISTED and c.secret != "entries",
    "distances of sums of a joint need all entries": lambda c, kind: (
        kind == "joints" and c.gap != "none"
    ),
    "a joint has no theorem but that of one number": lambda c, kind: (
        kind == "joints" and c.question not in OF_ONE_NUMBER
    ),
    "other secrets than entries need entries that are a Markov chain": lambda c, kind: (
        kind in HIDDEN and c.secret != "entries"
    ),
    "events need known chains with a stationary start": lambda c, kind: (
        c.secret in (*EVENTS, "sets of 2") and c.belief not in STEADY
    ),
    "sets of entries need chains without impossible transitions": lambda c, kind: (
        c.secret == "sets of 2" and c.belief in ("periodic", "sparse")
    ),
    "the window is longer than every segment": lambda c, kind: (
        c.secret == "at_least twice" and max(c.over.lengths) < 4
    ),
}
"""Cells that every mechanism refuses, by the reason; all others must be served."""


def refused(cell: Cell) -> str | None:
    """Why a cell is refused; ``None`` if it must be served."""
    kind = BELIEFS[cell.belief].kind
    return next((reason for reason, fits in REFUSED.items() if fits(cell, kind)), None)


PUFFERFISH = [
    name for name in MECHANISMS if name not in ("entry_dp", "entry_epsilon", "group_dp", "best")
]
"""Mechanisms whose promise is about these beliefs; the least of them is what "best" can give."""


@cache
def beliefs_of(belief: str, secret: str) -> Any:
    own = BELIEFS[belief]
    try:
        return hiding(own.made(), secret, own.states)
    except REFUSALS as error:
        return error


def query_of(cell: Cell) -> Any:
    return QUESTIONS[cell.question](BELIEFS[cell.belief].states, cell.over)


@dataclass(frozen=True)
class Served:
    """The least noise of any mechanism; or why all of them refuse."""

    scale: float | None
    mechanism: str
    why: str = ""


def served(cell: Cell) -> Served:
    """The least scale among all mechanisms that promise Pufferfish privacy here."""
    beliefs = beliefs_of(cell.belief, cell.secret)
    if isinstance(beliefs, Exception):
        return Served(None, "", str(beliefs))
    try:
        query = query_of(cell)
    except REFUSALS as error:
        return Served(None, "", str(error))
    best = Served(None, "", "no mechanism")
    for name in PUFFERFISH:
        try:
            scale = MECHANISMS[name](beliefs, query, cell.epsilon)
        except REFUSALS as error:
            if best.scale is None and name == "influence_curve":
                best = Served(None, "", str(error))
            continue
        if best.scale is None or scale < best.scale:
            best = Served(scale, name)
    return best


def ratio(cell: Cell, scale: float, evaluations: int) -> float:
    """The largest loss found over epsilon."""
    rng = np.random.default_rng(cell.chosen)
    attack = Attack(cell.belief, cell.question, cell.secret, cell.over, scale)
    return attack.climb(rng, evaluations)[0] / cell.epsilon


class Walked(NamedTuple):
    """What was seen in a cell: the ratio of loss to epsilon, ``None`` if it was refused."""

    cell: Cell
    ratio: float | None
    scale: float | None
    said: str


def walk(some: Iterable[Cell], evaluations: int) -> list[Walked]:
    """Every cell: served or refused, and attacked."""
    out = []
    for cell in some:
        own = served(cell)
        if own.scale is None:
            out.append(Walked(cell, None, None, own.why))
        else:
            found = ratio(cell, own.scale, evaluations)
            out.append(Walked(cell, found, own.scale, own.mechanism))
    return out


def broken(walked: Iterable[Walked]) -> list[str]:
    """Cells that lose more than was promised, or are served or refused against the list."""
    out = []
    for own in walked:
        name, reason = " | ".join(own.cell), refused(own.cell)
        if own.ratio is None and reason is None:
            out.append(f"{name}: refused, and not listed: {own.said}")
        elif own.ratio is not None and reason is not None:
            out.append(f"{name}: served, but listed as refused: {reason}")
        elif own.ratio is not None and own.ratio > 1 + SLACK:
            out.append(f"{name}: loss of {own.ratio:.6f} epsilon by {own.said}, scale {own.scale}")
    return out


# -- how far an entry moves an answer ------------------------------------------------------------


def stated(query: Any, states: tuple[str, ...], over: Over) -> np.ndarray:
    """What the question says: how far each entry moves the answer, for each pair of states.

    The one place that reads it.
    """
    runs = query.moved(states)
    told = np.concatenate([np.repeat(run.cost[None], run.entries, axis=0) for run in runs])
    assert told.shape == (over.total, len(states), len(states))
    assert told.max() <= query.lipschitz
    return told


def enumerated(question: str, states: tuple[str, ...], over: Over) -> np.ndarray:
    """The same by listing all data and changing every entry."""
    size, answer = len(states), ANSWERS[question]
    shape = (size,) * over.total
    table = np.array(
        [
            answer(
                tuple(None if t in over.missing else x for t, x in enumerate(data)),
                over.lengths,
                states,
            )
            for data in all_data(states, over.total)
        ],
        dtype=float,
    ).reshape(*shape, -1)
    out = np.zeros((over.total, size, size))
    for t in range(over.total):
        turned = np.moveaxis(table, t, 0).reshape(size, -1, table.shape[-1])
        away = np.abs(turned[:, None] - turned[None]).sum(axis=3)
        out[t] = away.max(axis=2)
    return out
