"""The quilt search against a plain scan, as ratios within one run.

    python benchmarks/quilt.py            the whole table, a few minutes
    python benchmarks/quilt.py --quick    without the longest scan

The scan is the best one can do without the search: tables of log-ratios built once, then every pair
(a, b) up to the size of the optimum, vectorised. It is even told where to stop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

import pufferkit as pk

STATES, EPSILONS, LONG = 51, (5.0, 1.0, 0.2), 10**6


def sticky_chain(states: int = STATES, stay: float = 10, seed: int = 0) -> np.ndarray:
    """Moves mostly to nearby states, and seldom: mixes in hundreds of steps."""
    rng = np.random.default_rng(seed)
    place = np.arange(states)
    weights = np.exp(-np.abs(place[:, None] - place) / 2) * rng.random((states, states)) + 1e-7
    weights += stay * np.eye(states)
    return weights / weights.sum(axis=1, keepdims=True)


def timed(work: Callable[[], float], repeats: int = 1) -> tuple[float, float]:
    """Result, and the median time in seconds."""
    times, result = [], 0.0
    for _ in range(repeats):
        start = perf_counter()
        result = work()
        times.append(perf_counter() - start)
    return result, median(times)


def noise(beliefs: pk.MarkovChain | pk.ChainClass, length: int, epsilon: float) -> float:
    return pk.markov_quilt(beliefs, pk.count(0, length), epsilon).scale


def scan(transition: np.ndarray, epsilon: float, optimum: float) -> float:
    """Least score of the middle node of a long stationary chain, over all a + b - 1 <= optimum."""
    most = int(optimum * epsilon)
    distribution = pk.MarkovChain.steady(transition).stationary
    size = len(distribution)
    left, right = np.empty((most + 1, size * size)), np.empty((most + 1, size * size))
    prior = np.log(distribution)[None, :] - np.log(distribution)[:, None]
    power = np.eye(size)
    for n in range(1, most + 1):
        power = power @ transition
        logs = np.log(power)
        right[n] = (logs[:, None, :] - logs[None, :, :]).max(axis=2).ravel()
        left[n] = (prior + (logs.T[:, None, :] - logs.T[None, :, :]).max(axis=2)).ravel()
    best = np.inf
    for a in range(1, most + 1):
        # In pieces that fit the cache: three times quicker than all at once.
        pieces = [right[b : min(b + 64, most + 2 - a)] for b in range(1, most + 2 - a, 64)]
        influence = np.concatenate([(left[a] + piece).max(axis=1) for piece in pieces])
        room = epsilon - influence
        nearby = a + np.arange(len(room))
        scores = np.where(room > 0, nearby / np.where(room > 0, room, 1), np.inf)
        best = min(best, float(scores.min()))
    return best


def against_the_scan(quick: bool) -> None:
    transition = sticky_chain()
    chain = pk.MarkovChain.steady(transition)
    steps = 1 / (1 - chain.contraction)
    print(f"{STATES} states, relaxation time {steps:.0f} steps, T = {LONG:,}, stationary")
    print(f"{'epsilon':>8} {'scale':>12} {'search s':>10} {'scan s':>10} {'ratio':>8}  equal")
    for epsilon in EPSILONS[: 2 if quick else 3]:
        scale, search = timed(lambda e=epsilon: noise(chain, LONG, e), repeats=3)
        truth, brute = timed(lambda e=epsilon, s=scale: scan(transition, e, s))
        equal = abs(scale / truth - 1) < 1e-9
        print(
            f"{epsilon:>8g} {scale:>12.5f} {search:>10.3f} {brute:>10.2f} {brute / search:>8.0f}  "
            f"{'yes' if equal else f'NO: scan found {truth}'}"
        )


def lengths() -> None:
    print("\nlength of the series, 51 states, stationary")
    print(f"{'epsilon':>8} {'T = 10^5 s':>12} {'T = 10^7 s':>12} {'ratio':>8}")
    chain = pk.MarkovChain.steady(sticky_chain())
    for epsilon in EPSILONS:
        _, short = timed(lambda e=epsilon: noise(chain, 10**5, e), repeats=5)
        _, long = timed(lambda e=epsilon: noise(chain, 10**7, e), repeats=5)
        print(f"{epsilon:>8g} {short:>12.3f} {long:>12.3f} {long / short:>8.2f}")


def classes() -> None:
    rng = np.random.default_rng(1)
    many = [
        pk.MarkovChain.steady(0.9 * np.eye(4) + 0.1 * rng.dirichlet(np.ones(4), 4))
        for _ in range(1000)
    ]
    print("\n1,000 four-state chains against one, T = 9,000, stationary")
    print(f"{'epsilon':>8} {'one ms':>10} {'1,000 ms':>10} {'ratio':>8}")
    for epsilon in EPSILONS:
        one = median(timed(lambda c=chain, e=epsilon: noise(c, 9000, e))[1] for chain in many[:50])
        theta = pk.ChainClass.of(*many)
        _, all_of_them = timed(lambda t=theta, e=epsilon: noise(t, 9000, e), repeats=3)
        print(
            f"{epsilon:>8g} {1e3 * one:>10.2f} {1e3 * all_of_them:>10.1f} {all_of_them / one:>8.1f}"
        )


def starts() -> None:
    transition = sticky_chain()
    kinds = {
        "stationary": pk.MarkovChain.steady(transition),
        "sure of state 0": pk.MarkovChain(np.eye(STATES)[0], transition),
        "uniform": pk.MarkovChain(np.full(STATES, 1 / STATES), transition),
        "any start": pk.ChainClass.any_start(transition),
    }
    print(f"\nseconds by start, {STATES} states, T = {LONG:,}")
    print(f"{'epsilon':>8}" + "".join(f"{kind:>18}" for kind in kinds))
    for epsilon in EPSILONS:
        times = [timed(lambda b=b, e=epsilon: noise(b, LONG, e))[1] for b in kinds.values()]
        print(f"{epsilon:>8g}" + "".join(f"{time:>18.2f}" for time in times))


if __name__ == "__main__":
    noise(pk.MarkovChain.steady(sticky_chain(4)), 1000, 1)  # first calls load modules
    against_the_scan("--quick" in sys.argv)
    lengths()
    classes()
    starts()
