"""Attacks on shaped noise: random models, every entry and pair, outputs that climb.

``python -m tests.attacks.shapes SEED SECONDS`` prints what was seen, by kind of instance.
"""

import sys
import time
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

import pufferkit as pk
from pufferkit.data.series import runs_of
from pufferkit.influence.curve.engine import Side, stretches_of_both, swept
from pufferkit.influence.curve.steps import Contaminated, StepsInRow, Transport, closure
from pufferkit.influence.shape.costs import Beside, centred, regime_costs
from pufferkit.influence.shape.shaping import Shape
from pufferkit.influence.shape.theorem_s import NoisyRun, Shaped, ShapedCurve
from pufferkit.influence.shape.theorem_w import AlikeChain, window_losses
from pufferkit.verification.check_shapes import regime_bounds
from tests.oracles.shape import Outputs

MODES = ("plain", "contaminated", "hull", "windows", "beside")


@dataclass
class Instance:
    """A distribution of a class, and the noise on what its entries add."""

    mode: str
    initial: np.ndarray
    kernels: list  # of each step
    emissions: list  # of each entry
    hull: list  # vertices of the kernels
    shown: list  # vertices of the emissions
    eta: float
    shape: Shape
    runs: list
    added: list
    noises: list
    scales: np.ndarray
    grid: object = None
    notes: str = field(default="")


def rows_of(rng, rows, columns, spread=1.0):
    table = rng.dirichlet(np.full(columns, spread), rows) * 0.99 + 0.01 / columns
    return table / table.sum(axis=1, keepdims=True)


def instance_s(rng, mode) -> Instance:
    h, k = int(rng.integers(2, 4)), int(rng.integers(2, 5 if mode == "plain" else 4))
    length = int(rng.integers(2, {2: 7, 3: 6, 4: 5}[k]))
    many = 2 if mode == "hull" else 1
    stick = rng.choice([0.0, 0.5, 0.9])
    hull = [stick * np.eye(h) + (1 - stick) * rows_of(rng, h, h, 0.7) for _ in range(many)]
    spread = rng.choice([0.3, 1.0])
    shown = [rows_of(rng, h, k, spread) for _ in range(many)]
    initial = rows_of(rng, 1, h)[0]
    eta = 0.15 if mode == "contaminated" else 0.0
    m = int(rng.integers(1, 4))
    digits = rng.choice([2, 20])
    directions = rng.integers(-digits, digits + 1, size=(k, m))
    if rng.random() < 0.5:  # about equal means in the last coordinate
        real = directions[:, -1] - np.linalg.lstsq(shown[0], shown[0] @ directions[:, -1], None)[0]
        directions[:, -1] = np.round(real * (digits / max(np.abs(real).max(), 1e-9)))
    scales = np.exp(rng.uniform(np.log(0.15), np.log(12), m)) * digits / 2
    shape = Shape(directions, tuple(float(f"{s:.4g}") for s in scales))
    coordinates = [tuple(range(m))] * length
    if mode in ("windows", "beside"):
        cut, gap = int(rng.integers(0, length)), int(rng.integers(0, length))
        half = m // 2 + 1
        coordinates = [
            () if t == gap else tuple(range(half)) if t < cut else tuple(range(m))
            for t in range(length)
        ]
    beside, noises, more = None, ["sech"] * m, np.zeros((k, 0))
    if mode == "beside":
        more = rng.integers(-2, 3, size=(k, 1)).astype(float)
        quiet = float(np.exp(rng.uniform(0, np.log(15))))
        beside = np.abs(more - more.T) / quiet
        noises, scales = [*noises, "laplace"], np.append(scales, quiet)
    kernels, emissions = [], []
    for t in range(length):
        weights = rng.dirichlet(np.ones(many))
        if t:
            kernels.append(sum(w * own for w, own in zip(weights, hull, strict=True)))
        weights = rng.dirichlet(np.ones(many))
        own = sum(w * table for w, table in zip(weights, shown, strict=True))
        if eta:
            own = (1 - eta) * own + eta * np.eye(k)[rng.integers(k, size=h)]
        emissions.append(own)
    added = []
    for chosen in coordinates:
        counted = np.zeros((k, m))
        counted[:, list(chosen)] = directions[:, list(chosen)]
        added.append(np.hstack([counted, more]))
    return Instance(
        mode, initial, kernels, emissions, hull, shown, eta, shape,
        [NoisyRun(1, own[:, :m] * shape.rates, beside) for own in added], added, noises,
        np.append([float(s) for s in shape.scales], scales[m:]),
        1.0 if mode == "plain" and rng.random() < 0.5 else None,
    )  # fmt: skip


def bounds_s(case: Instance) -> np.ndarray:
    """Theorem S for every entry: exact kernels of this distribution to the left, hull to the right.

    With the distribution of the regime given the entry, unless rows are contaminated.
    """
    length, laws, back = len(case.emissions), [case.initial], []
    for kernel in case.kernels:
        joint = (laws[-1][:, None] * kernel).T
        back.append(joint / joint.sum(axis=1, keepdims=True))
        laws.append(laws[-1] @ kernel)
    left = StepsInRow(np.array(back), 1e-13)
    shown = Shaped(Contaminated(case.shown, case.eta) if case.eta else Transport(case.shown))
    costs = [shown.learn(run) for run in case.runs]
    hidden = [(1, shown(closure(cost))) for cost in costs]
    both = (
        swept(
            Side(lambda entry, size: left[entry - 2], settled=length + 1, paid=False), hidden, 600
        ),
        swept(Side.of(Transport(case.hull)), hidden[::-1], 600),
    )
    if None in both:
        return np.full((length, *costs[0].shape), np.inf)
    out = np.empty((length, *costs[0].shape))
    for first, last, _, before, after in stretches_of_both(*both, hidden, range(1, length + 1)):
        for t in range(first - 1, last):
            adds = before + after
            if case.eta:
                own = adds.max() * (1 - np.eye(len(costs[t])))
            else:
                joint = (laws[t][:, None] * case.emissions[t]).T
                own = Transport([joint / joint.sum(axis=1, keepdims=True)])(closure(adds))
            out[t] = costs[t] + own
    return out


def worst_s(case: Instance, rng, points=300, rounds=20) -> float:
    """The largest ratio of a loss to its bound, over entries and pairs of values."""
    bound = bounds_s(case)
    found = Outputs(
        case.initial, case.kernels, case.emissions, case.added, case.scales, case.noises, case.grid
    ).climbed(rng, points, rounds)
    outside = ~np.eye(bound.shape[1], dtype=bool)
    return float((found / np.maximum(bound, 1e-9))[:, outside].max())


def worst_charge(rng, points=300, rounds=20) -> float:
    """What several releases lose together, over what an account charges for them.

    Shaped ones and Laplace noise over windows, any of them twice, in any order; regimes may be
    contaminated, and entries unobserved.
    """
    h, k, length = int(rng.integers(2, 4)), int(rng.integers(2, 4)), int(rng.integers(2, 6))
    moves = rng.choice([0.0, 0.6, 0.9]) * np.eye(h)
    moves = moves + (1 - moves[0, 0]) * rows_of(rng, h, h, 0.7)
    shown, eta = rows_of(rng, h, k, rng.choice([0.3, 1.0])), float(rng.choice([0.0, 0.1]))
    theta = pk.RegimeClass(moves, shown, emissions=eta)
    seen = (1 - eta) * shown + eta * np.eye(k)[rng.integers(k, size=h)]
    gap = int(rng.integers(-length, length))  # none if negative
    history, added, scales, noises = [], [], [], []
    for _ in range(int(rng.integers(1, 4))):
        first = int(rng.integers(0, length))
        last = int(rng.integers(first, length))
        epsilon = float(np.exp(rng.uniform(np.log(0.05), np.log(3))))
        size = last - first + 1
        if rng.random() < 0.6:
            try:
                made = pk.shaped(theta, pk.histogram(range(k), size), epsilon)
            except pk.NotApplicable:
                continue
            if not made.composes:
                continue
            table = made.rotated.shape.directions
            own, kind = [float(s) for s in made.rotated.scales], "sech"
        else:
            made = pk.influence_curve(theta, pk.count(int(rng.integers(k)), size), epsilon)
            table = np.array([[float(made.query.weights.get(x, (0,))[0])] for x in range(k)])
            own, kind = [made.scale], "laplace"
        counted = [first <= t <= last and t != gap for t in range(length)]
        if not any(counted):
            continue
        gaps = runs_of(np.array(counted[first : last + 1]))
        spending = replace(pk.Spending.of(made, (first + 1, last + 1)), gaps=gaps)
        for _ in range(int(rng.integers(1, 3))):
            history.append(spending)
            added.append([table if one else np.zeros_like(table) for one in counted])
            scales += own
            noises += [kind] * len(own)
    if not history:
        return 0.0
    start = np.linalg.matrix_power(moves, 4000)[0]
    found = Outputs(
        start / start.sum(), [moves] * (length - 1), [seen] * length,
        [np.hstack(each) for each in zip(*added, strict=True)], scales, noises,
    ).climbed(rng, points, rounds)  # fmt: skip
    return float(found.max() / pk.compose(history, theta, length).epsilon)


WINDOWED = ("hidden", "sticky", "cyclic", "switching")


def worst_w(mode, rng, points=300, rounds=20) -> float:
    """Theorem W: the largest ratio of a loss to the bound of its window, over entries and pairs."""
    k = 2 if mode == "switching" else int(rng.integers(2, 4))
    length, reach = int(rng.integers(2, 8 if k == 2 else 6)), int(rng.integers(1, 5))
    if mode == "switching":
        theta = pk.RegimeClass(rows_of(rng, 2, 2), [rows_of(rng, 2, 2), rows_of(rng, 2, 2)])
        moves = theta.models[0].transition
        shown = np.tile(np.eye(2), (2, 1))
        pairs = np.einsum("zw,wxy->zxwy", moves, theta.models[0].emission).reshape(4, 4)
    elif mode == "hidden":
        h = int(rng.integers(2, 4))
        stick = rng.choice([0.0, 0.5, 0.9])
        pairs = stick * np.eye(h) + (1 - stick) * rows_of(rng, h, h, 0.7)
        shown = rows_of(rng, h, k, 0.5)
        theta = pk.RegimeClass(pairs, shown, emissions=0.0)
    else:
        pairs, shown = rows_of(rng, k, k), np.eye(k)
        turned = np.roll(np.eye(k), 1, axis=0) if mode == "cyclic" else np.eye(k)
        share = rng.choice([0.0, 0.6, 0.9])
        pairs = share * turned + (1 - share) * pairs
        theta = pk.ChainClass.of(pk.MarkovChain.steady(pairs))
    m = int(rng.integers(1, 4))
    directions = rng.integers(-4, 5, size=(k, m))
    scales = tuple(np.round(np.exp(rng.uniform(np.log(0.5), np.log(30), m)), 3).tolist())
    shape = Shape(directions, scales)
    around = [(min(n, reach), min(length - 1 - n, reach)) for n in range(length)]
    ends = ShapedCurve(theta.parts(length), length, reach).ends(0, shape)
    bound = window_losses(AlikeChain.of(theta.parts(length)[0]), around, reach, shape, ends)
    start = np.linalg.matrix_power(pairs, 4000)[0]
    found = Outputs(
        start / start.sum(),
        [pairs] * (length - 1),
        [shown] * length,
        [directions] * length,
        scales,
        ["sech"] * m,
        1.0 if rng.random() < 0.5 else None,
    ).climbed(rng, points, rounds)
    outside = ~np.eye(k, dtype=bool)
    return float((found / np.maximum(bound, 1e-9))[:, outside].max())


def told_apart(one, other, added, scales, rng, beside=None) -> float:
    """The largest log-ratio of likelihoods given two regimes, over outputs that climb.

    Output t in [-1, 1]^m: as a function of the entry the sech likelihood is in proportion to one
    over the product of cosh d - t sinh d, d what the entry adds in units of the noise. Another
    release, of cost ``beside``, tells the tilted rows apart by at most their step.
    """
    away, m = (added - added.mean(axis=0)) / scales, added.shape[1]

    def ratios(outputs):
        logs = -np.log(np.cosh(away) - outputs[:, None, :] * np.sinh(away)).sum(axis=2)
        seen = np.exp(logs - logs.max(axis=1, keepdims=True))
        found = np.log(seen @ one) - np.log(seen @ other)
        if beside is None:
            return found
        tilted = seen[:, None, :] * np.array([one, other])
        tilted /= tilted.sum(axis=2, keepdims=True)
        return found + [Transport([rows])(beside)[0, 1] for rows in tilted]

    some = 100 if beside is None else 5
    corners = np.vstack([np.sign((one - other) @ away), rng.choice([-1.0, 1.0], (some, m))])
    outputs = np.vstack([corners, rng.uniform(-1, 1, (some, m)), np.zeros((1, m))])
    found = ratios(outputs)
    at, best = outputs[found.argmax()], found.max()
    for column in np.tile(np.arange(m), 3 if beside is None else 1):
        trials = np.tile(at, (9, 1))
        trials[:, column] = (-1, -0.9, -0.5, -0.2, 0, 0.2, 0.5, 0.9, 1)
        found = ratios(trials)
        if found.max() > best:
            at, best = trials[found.argmax()], found.max()
    return float(best)


def worst_cost(rng) -> tuple[float, int]:
    """The largest share of a cost of regimes that outputs show, engine's and checker's.

    With up to 13 coordinates, of which no test of whole series can have more than a few.
    """
    m = int(rng.choice([1, 3, 9, 10, 13]))
    k, h = int(rng.integers(max(3, m - 2), m + 4)), int(rng.integers(2, 4))
    shown = rng.dirichlet(np.full(k, rng.choice([0.1, 0.5, 2])), h)
    shown = shown[:1] + rng.choice([1e-4, 0.01, 0.1, 1]) * (shown - shown[:1])
    added = rng.integers(-9, 10, (k, m)).astype(float)
    if rng.random() < 0.3:  # about equal means
        added = np.round(added - np.linalg.lstsq(shown, shown @ added, None)[0])
    scales = np.exp(rng.uniform(np.log(0.5), np.log(500), m))
    share = float(rng.choice([0, 0.1]))
    costs = regime_costs([(1 - share) * shown], share, centred(added / scales))
    beside = None
    if rng.random() < 0.3 and not share:
        more = rng.integers(-3, 4, (k, 1)) * float(np.exp(rng.uniform(np.log(1e-3), np.log(0.5))))
        beside = np.abs(more - more.T)
        step, worth = Transport([shown])(beside), centred(added / scales)
        costs = step + regime_costs([shown], 0, worth, Beside(beside, step))
    worst = 0.0
    for z, y in permutations(range(h), 2):
        one, other = ((1 - share) * shown[n] + share * np.eye(k)[rng.integers(k)] for n in (z, y))
        checked = regime_bounds(one[None], other, added, 1 / scales)[0]
        least = min(costs[z, y], checked) if beside is None else costs[z, y]
        if np.isfinite(least):
            seen = told_apart(one, other, added, scales, rng, beside)
            worst = max(worst, seen / max(least, 1e-9))
    return worst, m


def main() -> None:
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    rng, end, seen = np.random.default_rng(seed), time.monotonic() + seconds, {}
    while time.monotonic() < end:
        mode = str(rng.choice(MODES + WINDOWED))
        ratio = worst_w(mode, rng) if mode in WINDOWED else worst_s(instance_s(rng, mode), rng)
        seen.setdefault(mode, []).append(ratio)
        if ratio > 1 + 1e-9:
            print("VIOLATION", mode, ratio, flush=True)
    for mode, ratios in sorted(seen.items()):
        print(
            f"{mode}: {len(ratios)} instances, largest {max(ratios):.6f}, "
            f"median {np.median(ratios):.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
