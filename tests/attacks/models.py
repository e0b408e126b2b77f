"""Random models of every class, against single releases, accounts and tables, by definition.

A model is a `tests.guards.beliefs.Belief` with random numbers: full, sparse and extreme rows, point
masses, sticky chains, graphs of any edges. What is told of a small series, by whatever mechanism,
question and window, is attacked by `tests.guards.attacks`; nothing of the package is called there.
"""

from collections.abc import Callable, Iterator
from itertools import combinations, pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

import pufferkit as pk
from pufferkit.mechanisms.shaped import ShapedCalibration
from tests.guards import beliefs as small
from tests.guards.asked import QUESTIONS, REFUSALS, SECRETS, VALUES, Over, hiding
from tests.guards.attacks import Attack, listable
from tests.guards.beliefs import Belief
from tests.oracles.answers import ANSWERS
from tests.oracles.hidden import all_data
from tests.oracles.laws import stationary
from tests.oracles.outer import outer_loss
from tests.oracles.released import Answers

MECHANISMS: dict[str, Callable[[Any, Any, float], pk.Calibration]] = {
    "influence_curve": pk.influence_curve,
    "a scale for each bin": lambda b, q, e: pk.influence_curve(b, q, e, per_bin=True),
    "markov_quilt": pk.markov_quilt,
    "markov_quilt formula": lambda b, q, e: pk.markov_quilt(b, q, e, influence="formula"),
    "markov_quilt_approx": pk.markov_quilt_approx,
    "approx tight": lambda b, q, e: pk.markov_quilt_approx(b, q, e, bound="tight"),
    "exact_sum": pk.exact_sum,
    "wasserstein": pk.wasserstein,
    "gk16": pk.gk16,
    "group_dp": lambda b, q, e: pk.group_dp(q, e, b),
}
SHAPES: dict[str, Callable[[Any, Any, float], pk.Calibration]] = {
    "influence_curve": pk.influence_curve,
    "a scale for each bin": MECHANISMS["a scale for each bin"],
    "shaped": pk.shaped,
    "shaped, equal": lambda b, q, e: pk.shaped(b, q, e, shape="equal"),
}
BY_NAME = (*tuple(MECHANISMS), "best")
NAMES = {
    "a scale for each bin": "influence_curve_per_bin",
    "approx tight": "markov_quilt_approx_tight",
    "markov_quilt formula": "markov_quilt",
}
"""Names of mechanisms where `release` calls them otherwise."""

EPSILONS = (0.1, 0.3, 1.0, 2.0, 5.0, 8.0)
_NOT_ASKED = ("by_time", "time_in", "days", "own", "quantile")
PLAIN = [name for name in QUESTIONS if not name.startswith(_NOT_ASKED)]
"""Questions without clocks; noisy choices have rows of their own in the table of scales."""
BOUND = {
    "count": lambda s: pk.count("b"),
    "histogram": pk.histogram,
    "relative_frequencies": pk.relative_frequencies,
    "mean": lambda s: pk.mean({x: VALUES[x] for x in s}),
    "total": lambda s: pk.total({x: VALUES[x] for x in s}),
    "transition_counts": pk.transition_counts,
    "episodes": lambda s: pk.episodes("b"),
}
"""Questions that a table binds to each of its subjects."""
EVALUATIONS = 40
"""Of one climb over the members of a class."""

Rng = np.random.Generator


# -- models --------------------------------------------------------------------------------------


def row(rng: Rng, size: int, kind: str) -> np.ndarray:
    """A distribution of a kind, often with rounded numbers."""
    if kind == "point":
        return np.eye(size)[rng.integers(size)]
    own = 10.0 ** rng.uniform(-5, 0, size) if kind == "extreme" else rng.dirichlet(np.ones(size))
    if kind == "sparse":
        own *= rng.random(size) < 0.6
    if rng.random() < 0.3:
        own = np.round(own / max(own.sum(), 1e-9), 1)
    return own / own.sum() if own.sum() else np.full(size, 1 / size)


def matrix(rng: Rng, rows: int, columns: int = 0, *, positive: bool = False) -> list[list[float]]:
    """Rows of one kind or of several; square ones are sticky sometimes."""
    kinds = ["full", "extreme"] if positive else ["full", "extreme", "sparse", "point"]
    kind = rng.choice(kinds) if rng.random() < 0.6 else None
    size = columns or rows
    own = np.array([row(rng, size, kind or rng.choice(kinds)) for _ in range(rows)])
    if positive:
        own = np.maximum(own, 1e-4)
        own /= own.sum(axis=1, keepdims=True)
    if not columns and rng.random() < 0.4:
        stay = rng.choice([0.5, 0.9, 0.99])
        own = stay * np.eye(rows) + (1 - stay) * own
    return own.tolist()


def _chain(rng: Rng, k: int) -> dict[str, Any]:
    return {
        "initial": row(rng, k, rng.choice(["full", "sparse", "point"])).tolist(),
        "transition": matrix(rng, k),
    }


def _several(rng: Rng, k: int) -> dict[str, Any]:
    starts = [None if rng.random() < 0.5 else row(rng, k, "sparse").tolist() for _ in range(2)]
    return {"chains": [(start, matrix(rng, k)) for start in starts]}


def _mixing(rng: Rng, k: int) -> dict[str, Any]:
    least, gap = rng.uniform(0.02, 1 / k - 0.02), rng.uniform(0.05, 1)
    return {"pi_min": float(least), "gap": float(gap), "reversible": bool(rng.random() < 0.5)}


def _around(rng: Rng, k: int) -> dict[str, Any]:
    return {
        "counts": rng.integers(1, 300, (k, k)).tolist(),
        "confidence": float(rng.choice([0.5, 0.9, 0.99])),
        "sides": str(rng.choice(["both", "any start"])),
    }


def _seasonal(rng: Rng, k: int) -> dict[str, Any]:
    given: dict[str, Any] = {"kernels": [matrix(rng, k) for _ in range(rng.integers(1, 4))]}
    if rng.random() < 0.3:
        given["start"] = int(rng.integers(len(given["kernels"])))
    return given


def _hull(rng: Rng, k: int) -> dict[str, Any]:
    given: dict[str, Any] = {"vertices": [matrix(rng, k, positive=True) for _ in range(2)]}
    if rng.random() < 0.4:
        given["inflate"] = float(rng.choice([0.01, 0.1, 0.4]))
    if rng.random() < 0.3:
        given["backward"] = [matrix(rng, k, positive=True) for _ in range(2)]
    return given


def _order(rng: Rng, k: int) -> dict[str, Any]:
    memory = int(rng.integers(1, 4 if k == 2 else 3))
    rows = matrix(rng, k**memory, k, positive=bool(rng.random() < 0.6))
    return {"memory": memory, "table": np.reshape(rows, (k,) * (memory + 1)).tolist()}


def _regimes(rng: Rng, k: int) -> dict[str, Any]:
    h, count = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    within, models = rng.random() < 0.2, []
    for _ in range(count):
        shown = [matrix(rng, k, positive=True) for _ in range(h)]
        seen = matrix(rng, h, k, positive=bool(rng.random() < 0.7))
        models.append((matrix(rng, h, positive=True), shown if within else seen))
    given: dict[str, Any] = {"models": models}
    if count > 1:
        given["together"] = str(rng.choice(["finite", "hull"]))
    if not within and rng.random() < 0.3:
        given["emissions"] = float(rng.choice([0.02, 0.1, 0.3]))
    if rng.random() < 0.15:
        given["secret"] = "regime"
    return given


def _networks(rng: Rng, states: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
    """One graph, or several with tables of their own; nodes have up to two parents."""
    names = list("uvwxy")[: int(rng.integers(2, 6 if len(states) == 2 else 5))]
    parents = {
        node: tuple(sorted(rng.choice(names[:n], min(n, int(rng.integers(3))), replace=False)))
        for n, node in enumerate(names)
    }
    kind, networks = rng.choice(["full", "sparse", "extreme"]), []
    for _ in range(rng.integers(1, 3)):
        tables = {
            node: {
                own: row(rng, len(states), rng.choice([kind, "full"])).tolist()
                for own in product(states, repeat=len(parents[node]))
            }
            for node in names
        }
        networks.append((parents, tables))
    return len(names), {"networks": networks}


def _edges(rng: Rng, k: int) -> tuple[int, list[tuple[str, str]]]:
    pairs = list(combinations("uvwxy"[: int(rng.integers(2, 6 if k == 2 else 4))], 2))
    kept = [pair for pair in pairs if rng.random() < 0.6] or pairs[:1]
    return len({node for pair in kept for node in pair}), kept


def _joints(rng: Rng, k: int) -> tuple[int, dict[str, Any]]:
    length, tables = int(rng.integers(2, 5 if k == 2 else 4)), []
    for _ in range(rng.integers(1, 3)):
        chances = row(rng, k**length, rng.choice(["full", "sparse", "extreme"]))
        data = ("".join(map(str, own)) for own in product(range(k), repeat=length))
        tables.append({own: float(p) for own, p in zip(data, chances, strict=True) if p > 0})
    return length, {"tables": tables}


SERIES: dict[str, tuple[str, Callable[[Rng, int], dict[str, Any]], Callable[..., Any]]] = {
    "steady": ("chains", lambda rng, k: {"transition": matrix(rng, k)}, small._steady),
    "chain": ("chains", _chain, small._chain),
    "several": ("chains", _several, small._of),
    "any start": (
        "any start",
        lambda rng, k: {"transitions": [matrix(rng, k) for _ in range(rng.integers(1, 3))]},
        small._any_start,
    ),
    "mixing": ("mixing", _mixing, small._mixing),
    "around": ("around", _around, small._around),
    "seasonal": ("seasonal", _seasonal, small._seasonal),
    "hull": ("hull", _hull, small._hull),
    "order": ("order", _order, small._order),
    "regimes": ("regimes", _regimes, small._regimes),
}
"""For each class of chains the kind of the oracle, its numbers, and how the package is told."""

GRAPHS = ("networks", "ising", "potts", "field", "joints")


def random_model(kind: str, rng: Rng) -> Belief:
    """A model of a class with random numbers."""
    states = small.TWO if rng.random() < 0.5 or kind == "ising" else small.THREE
    k = len(states)
    if kind in SERIES:
        oracle, numbers, made = SERIES[kind]
        return Belief(kind, oracle, states, numbers(rng, k), made)
    if kind == "networks":
        size, given = _networks(rng, states)
        return Belief(kind, kind, states, given, small._networks, size)
    if kind == "joints":
        size, given = _joints(rng, k)
        return Belief(kind, kind, states, given, small._joints, size)
    size, edges = _edges(rng, k)
    strength = float(rng.choice([-1, 0.1, 0.5, 2]))
    if kind == "ising":
        given = {"edges": edges, "coupling": strength, "field": float(rng.choice([0, 0.2, -1]))}
        return Belief(kind, kind, states, given, small._ising, size)
    if kind == "potts":
        given = {"edges": edges, "coupling": strength}
        return Belief(kind, kind, states, given, small._potts, size)
    least = int(rng.random() < 0.7)
    tables = {edge: rng.integers(least, 6, (k, k)).astype(float).tolist() for edge in edges}
    return Belief(kind, kind, states, {"potentials": tables}, small._field, size)


def random_over(model: Belief, rng: Rng, *, shortest: int = 1) -> Over:
    """All entries of a graph, or one or two segments of a chain; some entries are missing."""
    lengths = (model.entries or 0,)
    if model.entries is None:
        most = 7 if len(model.states) == 2 else 5
        lengths = (int(rng.integers(shortest, most + 1)),)
        if rng.random() < 0.3 and most > lengths[0]:
            lengths = (*lengths, int(rng.integers(1, most - lengths[0] + 1)))
    total, missing = sum(lengths), frozenset[int]()
    if total > 1 and rng.random() < 0.3:
        missing = frozenset(rng.choice(total, rng.integers(1, total), replace=False).tolist())
    return Over(lengths, missing)


def random_secret(model: Belief, rng: Rng, share: float = 0.3) -> str:
    if model.entries is not None or rng.random() > share:
        return "entries"
    return str(rng.choice(list(SECRETS)))


# -- attacks -------------------------------------------------------------------------------------

Told = tuple[str, int, int, tuple[float, ...], float]
"""A question, the first and last entry of its window, its noise, and what its numbers are times."""


def in_noise(told: list[Told], over: Over, states: tuple[str, ...]) -> Answers:
    """All answers to every series, in units of their noise."""
    rows = []
    for data in all_data(states, over.total):
        shown = tuple(None if t in over.missing else x for t, x in enumerate(data))
        rows.append(
            [
                times * number / scale
                for name, first, last, scales, times in told
                for number, scale in zip(
                    ANSWERS[name](shown[first - 1 : last], within(over, first, last), states),
                    scales,
                    strict=True,
                )
            ]
        )
    return Answers(rows)


def within(over: Over, first: int, last: int) -> tuple[int, ...]:
    """Lengths of the pieces of a window."""
    starts = [sum(over.lengths[:n]) for n in range(len(over.lengths))]
    ends = (
        min(last, begin + size) - max(first, begin + 1) + 1
        for begin, size in zip(starts, over.lengths, strict=True)
    )
    return tuple(size for size in ends if size > 0)


def largest(
    model: Belief,
    secret: str,
    over: Over,
    told: list[Told],
    rng: Rng,
    evaluations: int = EVALUATIONS,
) -> float:
    """The largest loss of a secret that a climb over members of the class finds."""
    answers = in_noise(told, over, model.states)
    if not answers.axes:
        return 0.0
    attack = Attack(model, "", secret, over, 1.0, told=answers)
    return attack.climb(rng, EVALUATIONS)[0]


def alone(kind: str, rng: Rng) -> Iterator[tuple[float, str]]:
    """Each mechanism on one random model: loss over epsilon, and what it was."""
    model = random_model(kind, rng)
    over, secret = random_over(model, rng), random_secret(model, rng)
    question, epsilon = str(rng.choice(PLAIN)), float(rng.choice(EPSILONS))
    if not listable(model.states, over):
        return
    try:
        beliefs = hiding(model.made(), secret, model.states)
        query = QUESTIONS[question](model.states, over)
    except REFUSALS:
        return
    for name, mechanism in MECHANISMS.items():
        try:
            made = mechanism(beliefs, query, epsilon)
        except REFUSALS:
            continue
        scales = made.scales or (made.scale,) * query.size
        told: list[Told] = [(question, 1, over.total, tuple(scales), 1.0)]
        loss = largest(model, secret, over, told, rng)
        yield loss / epsilon, f"{name}, {secret}, {question}, {over}, {epsilon:g}: {model.given}"


def of_account(kind: str, rng: Rng) -> tuple[float, str] | None:
    """A history of one account over one random model: loss over what was spent."""
    model = random_model(kind, rng)
    over, secret = random_over(model, rng, shortest=2), random_secret(model, rng)
    if not listable(model.states, over) or model.entries is not None:
        return None
    starts = [sum(over.lengths[:n]) for n in range(len(over.lengths) + 1)]
    labels = [None if t in over.missing else model.states[t % 2] for t in range(over.total)]
    pieces = [labels[i:j] for i, j in pairwise(starts)]
    data = pk.Series.of(pieces if len(pieces) > 1 else pieces[0], model.states)
    told: list[Told] = []
    try:
        beliefs = hiding(model.made(), secret, model.states)
    except REFUSALS:
        return None
    with TemporaryDirectory() as folder:
        horizon = {"horizon": 10_000} if rng.random() < 0.5 else {}
        account = pk.Account(str(Path(folder) / "l.db"), "d", 1000.0, **horizon)
        for label in range(rng.integers(1, 4)):
            first, last = 1, over.total
            if rng.random() < 0.6:
                first, last = sorted(rng.integers(1, over.total + 1, 2).tolist())
            missing = {t - first + 1 for t in over.missing if first - 1 <= t < last}
            window = Over(within(over, first, last), frozenset(missing))
            question, name = str(rng.choice(PLAIN)), str(rng.choice(BY_NAME))
            if len(missing) == window.total:
                continue
            grows = len(over.lengths) == 1 and rng.random() < 0.4
            options = {"account": account, "window": (first, last), "label": str(label)}
            try:
                made = pk.release(
                    data.window(1, last) if grows else data,
                    beliefs,
                    QUESTIONS[question](model.states, window),
                    float(rng.choice(EPSILONS)),
                    mechanism=NAMES.get(name, name),
                    anyway=True,
                    **options,
                )
            except REFUSALS:
                continue
            scales = tuple(made.scales or (made.scale,) * len(made.labels))
            told.append((question, first, last, scales, 1.0))
        spent = account.spent
    if not told:
        return None
    return _over(largest(model, secret, over, told, rng), spent, f"{told}, {secret}: {model.given}")


def of_table(kind: str, rng: Rng) -> tuple[float, str] | None:
    """Several questions about two subjects, at once: the loss of the first of them.

    Without accounts over what is stated, with them over what was spent.
    """
    model = random_model(kind, rng)
    states, over = model.states, Over((int(rng.integers(2, 6)),))
    if model.entries is not None or not listable(states, over):
        return None
    sizes, width = (over.total, int(rng.integers(1, 6))), int(rng.integers(1, over.total + 1))
    wide = rng.random() < 0.5
    subjects = zip("pq", sizes, strict=True)
    rows = [(who, t, states[t % 2]) for who, size in subjects for t in range(size)]
    table = pk.read(
        pl.DataFrame(rows, schema=["who", "t", "x"], orient="row"),
        **{"subject": "who", "time": "t", "state": "x", "states": states, "independent_after": 1},
        **({} if wide else {"window": width}),
    )
    names = rng.choice(list(BOUND)[: 7 if wide else 5], int(rng.integers(2, 4)), replace=False)
    asked = {n: (BOUND[n](states), float(10 ** rng.uniform(-0.5, 2))) for n in names.tolist()}
    per = str(rng.choice(["subject", "all"]))
    epsilon = None if rng.random() < 0.4 else float(rng.choice(EPSILONS))
    told: list[Told] = []
    with TemporaryDirectory() as folder, pk.Ledger(str(Path(folder) / "l.db")) as ledger:
        accounts = ledger.accounts_for(table, "", 1e6) if rng.random() < 0.5 else None
        options = {"per": per, "account": accounts, "anyway": True}
        try:
            made = pk.release(table, model.made(), asked, epsilon, **options)
        except REFUSALS:
            return None
        spent = made.epsilon if accounts is None else ledger.account("p").total / 1e6
    width = over.total if wide else width
    for name, own in made.items():
        for n, first in enumerate(range(1, over.total + 1, width)):
            last = min(first + width - 1, over.total)
            shared = name in ("mean", "relative_frequencies") and per == "all"
            times = (last - first + 1) / own.entries[n] if shared else 1.0
            size = len(ANSWERS[name](("a",), (1,), states))
            told.append((name, first, last, (float(own.scale[n]),) * size, times))
    loss = largest(model, "entries", over, told, rng)
    return _over(loss, spent, f"{told}, {per}, {epsilon}: {model.given}")


def _over(loss: float, spent: float, words: str) -> tuple[float, str]:
    """The ratio; where nothing is hidden, nothing may be told either."""
    if not spent:
        return (np.inf if loss > 1e-9 else 0.0), words
    return loss / spent, words


def at_outer_outputs(rng: Rng) -> Iterator[tuple[float, str]]:
    """Histograms of long series of regimes, of chains and of seasons: noise of every shape."""
    k, h = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    length, epsilon = int(rng.choice([6, 40, 300])), float(rng.choice([0.1, 0.5, 1, 3]))
    kind = str(rng.choice(["regimes", "contaminated", "finite", "hull", "chain", "seasonal"]))
    rows = [np.array(matrix(rng, h, positive=True)) for _ in range(2)]
    shown = [np.array(matrix(rng, h, k, positive=True)) for _ in range(2)]
    members = [
        (stationary(one), [one] * (length - 1), [own] * length)
        for one, own in zip(rows, shown, strict=True)
    ]
    theta: Any = pk.RegimeClass(rows[0], shown[0])
    if kind in ("finite", "hull"):
        together = pk.RegimeClass.of if kind == "finite" else pk.RegimeClass.hull_of
        theta = together(theta, pk.RegimeClass(rows[1], shown[1]))
    elif kind in ("chain", "seasonal"):
        slots = [np.array(matrix(rng, k, positive=True)) for _ in range(1 + 2 * (kind != "chain"))]
        theta = pk.ChainClass.seasonal(slots, range(k)) if len(slots) > 1 else None
        theta = theta or pk.MarkovChain.steady(slots[0])
        turns = [[*slots[n:], *slots[:n]] for n in range(len(slots))]
        members = [
            (
                stationary(np.linalg.multi_dot([*own, np.eye(k)])),
                [own[t % len(own)] for t in range(length - 1)],
                [np.eye(k)] * length,
            )
            for own in turns
        ]
    else:
        members = members[:1]
    if kind == "contaminated":  # each regime shows more of one value
        theta = pk.RegimeClass(rows[0], shown[0], emissions=0.1)
        spoiled = 0.9 * shown[0] + 0.1 * np.eye(k)[rng.integers(k, size=h)]
        members = [(members[0][0], members[0][1], [spoiled] * length)]
    # Beside a long segment a short one, which may lose more to noise that counts on cancellation.
    short = int(rng.choice([1, 2, 3, 7]))
    members += [(start, steps[: short - 1], shows[:short]) for start, steps, shows in members]
    query = pk.histogram(range(k), [length, min(short, length)])
    for name, shaping in SHAPES.items():
        try:
            made = shaping(theta, query, epsilon)
        except REFUSALS:
            continue
        added, scales = np.eye(k), np.array(made.scales or (made.scale,) * k)
        if isinstance(made, ShapedCalibration):
            shape = made.rotated.shape
            added, scales = shape.directions, np.array([float(s) for s in shape.scales])
        loss = max(outer_loss(*member, added, scales) for member in members)
        yield loss / epsilon, f"{name}, {kind}, {k} states, length {length}, {epsilon:g}"
