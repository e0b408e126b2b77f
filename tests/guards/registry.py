"""Every class of beliefs with every question, secret, gap and account: cells, and their checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from tempfile import TemporaryDirectory
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
    "RegimeClass": (
        "regimes",
        "switching",
        "regimes contaminated",
        "regimes beside slow",
        "regime hidden",
    ),
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


@dataclass(frozen=True)
class Paid:
    """What an account released and was charged: answers of one scale, so many, for epsilon."""

    scale: float
    mechanism: str
    times: int
    epsilon: float


def _asked_twice(beliefs: Any, query: Any, epsilon: float, data: Any) -> Paid:
    """The same question twice, charged for both together; a choice once."""
    times = 1 if query.chooses else 2
    with TemporaryDirectory() as folder:
        account = pk.Account(f"{folder}/book.db", "s", 1000.0)
        for number in range(times):
            pk.release(data, beliefs, query, epsilon, account=account, label=str(number))
        paid, row = account.spent, account.history[0]
    return Paid(row["scale"], row["mechanism"], times, paid)


ACCOUNTS: dict[str, Callable[[Any, Any, float, Any], Paid] | None] = {
    "none": None,
    "Account": _asked_twice,
}
"""Ways to pay for a release of one series; `tests/account` pays for many subjects."""


def public_accounts() -> set[str]:
    """What charges releases about one series in the package."""
    named = {name: getattr(pk, name) for name in pk.__all__}
    return {
        name
        for name, own in named.items()
        if inspect.isclass(own)
        and ".account." in own.__module__
        and (hasattr(own, "release") or hasattr(own, "charge"))
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
    return "Query" in str(inspect.signature(own).return_annotation).split(" | ")


def public_secrets() -> set[str]:
    """Secrets in the package."""
    return set(_makers(pk.Secrets))


# -- cells ---------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One class with one question, secret, gap and account."""

    belief: str
    question: str
    secret: str
    gap: str
    account: str = "none"

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

    Without an account the first belief of each class meets everything, the others a third of it.
    Accounts charge what mechanisms calibrate, so of each account there are fewer cells: every
    class, and every question, meets every secret, gap and account.
    """
    first = {own[0] for own in CLASSES.values()}
    named = [own for each in CLASSES.values() for own in each] if belief is None else [belief]
    every = [
        Cell(*names)
        for names in product(named, QUESTIONS, SECRETS, GAPS)
        if BELIEFS[names[0]].entries is None or "segments" not in names[3]
    ]
    paid = [cell for cell in _paid() if belief in (None, cell.belief)]
    return [c for c in every if c.belief in first or c.chosen % 3 == 0] + paid


@cache
def _paid() -> list[Cell]:
    """The cells of all accounts."""
    named = [own for each in CLASSES.values() for own in each if own not in LONG]
    return _covering(
        [
            Cell(*names)
            for names in product(named, QUESTIONS, SECRETS, GAPS, [*ACCOUNTS][1:])
            if BELIEFS[names[0]].entries is None or "segments" not in names[3]
            if (Cell(*names[:4]).chosen // 3) % 9 == 0
        ]
    )


def _covering(some: list[Cell]) -> list[Cell]:
    """Cells in which each class and each question meets each secret and gap, by account."""
    seen, out = set(), []
    for cell in sorted(some, key=lambda cell: cell.chosen):
        kind, account = BELIEFS[cell.belief].kind, cell.account
        pairs = {(account, kind, cell.secret), (account, kind, cell.gap)}
        pairs |= {(account, cell.question, cell.secret), (account, cell.question, cell.gap)}
        if refused(cell) is None:
            pairs |= {(account, kind, cell.question), (account, cell.belief)}
        if not pairs <= seen:
            seen |= pairs
            out.append(cell)
    return out


def quick(every: list[Cell]) -> list[Cell]:
    """Cells in which every class meets every secret and gap, and every question as well."""
    seen, out = set(), []
    for cell in sorted(every, key=lambda cell: cell.chosen):
        kind = BELIEFS[cell.belief].kind
        pairs = {(kind, cell.secret), (kind, cell.gap), cell[1:3], (cell.question, cell.gap)}
        pairs |= {(kind, cell.account), (cell.question, cell.account), (cell.secret, cell.account)}
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
NEVER_MIX = ("absorbing", "apart")
LONG = ("periodic",)
"""Beliefs of which an account finds out in 20 s that a series without an end has no price."""
REFUSED: dict[str, Callable[[Cell, str], bool]] = {
    "graphs and joints hide entries only": lambda c, kind: kind in LISTED and c.secret != "entries",
    "an account of named entries needs all of them": lambda c, kind: (
        c.account == "Account" and kind in LISTED and c.gap != "none"
    ),
    "a choice of levels needs a curve, which joints have not": lambda c, kind: (
        kind == "joints" and c.question == "quantile" and c.account == "none"
    ),
    "distances of sums of a joint need all entries": lambda c, kind: (
        kind == "joints" and c.gap != "none"
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
        c.secret == "at_least twice" and max(c.over.lengths) < 4 and c.account == "none"
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
    """The least noise of any mechanism, or that of an account; or why it is refused.

    ``times`` answers of this scale together are promised at ``epsilon``.
    """

    scale: float | None
    mechanism: str
    why: str = ""
    times: int = 1
    epsilon: float | None = None


def served(cell: Cell) -> Served:
    """The least scale among all mechanisms that promise Pufferfish privacy here."""
    beliefs = beliefs_of(cell.belief, cell.secret)
    if isinstance(beliefs, Exception):
        return Served(None, "", str(beliefs))
    try:
        query = query_of(cell)
    except REFUSALS as error:
        return Served(None, "", str(error))
    pay = ACCOUNTS[cell.account]
    if pay is not None:
        try:
            paid = pay(beliefs, query, cell.epsilon, data_of(cell))
        except REFUSALS as error:
            return Served(None, "", str(error))
        return Served(paid.scale, paid.mechanism, "", paid.times, paid.epsilon)
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


def data_of(cell: Cell) -> Any:
    """Some series of this cell."""
    states, over = BELIEFS[cell.belief].states, cell.over
    labels = [None if t in over.missing else states[t % 2] for t in range(over.total)]
    starts = [sum(over.lengths[:n]) for n in range(len(over.lengths) + 1)]
    pieces = [labels[i:j] for i, j in pairwise(starts)]
    return pk.Series.of(pieces if len(pieces) > 1 else pieces[0], states)


def ratio(
    cell: Cell, scale: float, evaluations: int, times: int = 1, epsilon: float | None = None
) -> float:
    """The largest loss found over what was promised or charged."""
    rng = np.random.default_rng(cell.chosen)
    attack = Attack(cell.belief, cell.question, cell.secret, cell.over, scale, times)
    return attack.climb(rng, evaluations)[0] / (epsilon or cell.epsilon)


class Walked(NamedTuple):
    """What was seen in a cell: the ratio of loss to epsilon, ``None`` if it was refused."""

    cell: Cell
    ratio: float | None
    scale: float | None
    said: str
    times: int = 1
    epsilon: float | None = None


def walk(some: Iterable[Cell], evaluations: int) -> list[Walked]:
    """Every cell: served or refused, and attacked."""
    out = []
    for cell in some:
        own = served(cell)
        if own.scale is None:
            out.append(Walked(cell, None, None, own.why))
        else:
            paid = (own.times, own.epsilon)
            found = ratio(cell, own.scale, evaluations, *paid)
            out.append(Walked(cell, found, own.scale, own.mechanism, *paid))
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
