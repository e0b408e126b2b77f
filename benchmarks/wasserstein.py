"""W-infinity for all entries of a binary chain, against doing each entry from scratch."""

from time import perf_counter

import numpy as np

import pufferkit as pk

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


def distribution_given(node: int, state: int, length: int) -> np.ndarray:
    """Distribution of the count given X_node = state, by one pass over the whole chain."""
    distribution = np.zeros((2, length + 1))
    for x in range(2):
        if node > 1 or x == state:
            distribution[x, x] = CHAIN.initial[x]
    for step in range(2, length + 1):
        moved = np.zeros_like(distribution)
        for y in range(2):
            if step != node or y == state:
                reached = (
                    CHAIN.transition[0, y] * distribution[0]
                    + CHAIN.transition[1, y] * distribution[1]
                )
                moved[y, y:] = reached[: length + 1 - y]
        distribution = moved
    total = distribution.sum(axis=0)
    return total / total.sum()


def seconds(length: int) -> float:
    start = perf_counter()
    pk.wasserstein(CHAIN, pk.count(1, length), 1)
    return perf_counter() - start


def main() -> None:
    pk.wasserstein(CHAIN, pk.count(1, 50), 1)  # compile
    length, sample = 2000, 10
    start = perf_counter()
    for node in np.linspace(1, length, sample).astype(int):
        for state in range(2):
            distribution_given(int(node), state, length)
    direct = (perf_counter() - start) / sample * length
    ours = seconds(length)
    print(f"T = {length}, all nodes: ours {ours:.2f} s; each node from scratch {direct:.0f} s")
    print(f"  (from {sample} of the {length} nodes); ratio {direct / ours:.0f}, wanted 50")
    print("growth:")
    for longer in (1000, 2000, 4000, 10_000):
        print(f"  T = {longer:>6}: {seconds(longer):6.2f} s")


if __name__ == "__main__":
    main()
