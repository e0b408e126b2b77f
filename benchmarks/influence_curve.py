"""The influence curve against markov_quilt, in one run: a 51-state chain, any length."""

from time import perf_counter

import numpy as np

import pufferkit as pk


def slow_chain(size: int = 51) -> pk.MarkovChain:
    """A chain that mixes in hundreds of steps."""
    rng = np.random.default_rng(0)
    near = np.exp(-np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / 2)
    matrix = near * rng.random((size, size)) + 1e-7 + 10 * np.eye(size)
    return pk.MarkovChain.steady(matrix / matrix.sum(axis=1, keepdims=True))


def timed(mechanism, chain: pk.MarkovChain, query: pk.Query, epsilon: float):
    start = perf_counter()
    return mechanism(chain, query, epsilon), perf_counter() - start


def main() -> None:
    chain = slow_chain()
    print("      T   eps  quilt scale  curve scale   quilt s   curve s  time ratio  noise ratio")
    for length in (10**5, 10**6, 10**7):
        for epsilon in (0.2, 1.0, 5.0):
            query = pk.count(0, length)
            quilt, first = timed(pk.markov_quilt, chain, query, epsilon)
            curve, second = timed(pk.influence_curve, chain, query, epsilon)
            print(
                f"{length:>8} {epsilon:>4} {quilt.scale:>12.2f} {curve.scale:>12.2f} "
                f"{first:>9.3f} {second:>9.3f} {second / first:>11.1f} "
                f"{curve.scale / quilt.scale:>12.3f}"
            )
    print("wanted: time ratio below 20, flat in T")


if __name__ == "__main__":
    main()
