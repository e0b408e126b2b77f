"""Forward-backward and Viterbi on a million steps, against hmmlearn, in one run."""

from time import perf_counter

import numpy as np
from hmmlearn import hmm

import pufferkit as pk
from pufferkit.audit import ForwardBackward, Viterbi


def seconds(call, series: np.ndarray, repeat: int = 3) -> float:
    """The best of a few runs."""
    times = []
    for _ in range(repeat):
        start = perf_counter()
        call(series)
        times.append(perf_counter() - start)
    return min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    short = rng.integers(0, 2, size=20_000)
    warm = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    for attacker in (ForwardBackward, Viterbi):
        attacker(warm, np.full((2, 2), 0.5)).guess(short)  # compile
    for states, length in ((2, 1_000_000), (5, 1_000_000), (20, 200_000)):
        chain = pk.MarkovChain.steady(rng.dirichlet(np.ones(states), size=states))
        matrix = rng.dirichlet(np.ones(states), size=states)
        outputs = rng.integers(0, states, size=length)
        theirs = hmm.CategoricalHMM(n_components=states, init_params="", implementation="scaling")
        theirs.n_features = states
        theirs.startprob_, theirs.transmat_ = chain.initial, chain.transition
        theirs.emissionprob_ = matrix
        column = outputs[:, None]
        print(f"{states} states, {length:,} steps")
        for name, ours, other in (
            ("forward-backward", ForwardBackward(chain, matrix).posterior, theirs.predict_proba),
            ("Viterbi", Viterbi(chain, matrix).guess, theirs.decode),
        ):
            one, two = seconds(ours, outputs), seconds(other, column)
            print(
                f"  {name:<17} ours {one:6.3f} s   hmmlearn {two:6.3f} s   "
                f"ratio {two / one:5.1f}, wanted 1"
            )
        apart = np.abs(
            ForwardBackward(chain, matrix).posterior(outputs) - theirs.predict_proba(column)
        )
        print(f"  largest difference of the posteriors {apart.max():.1e}")


if __name__ == "__main__":
    main()
