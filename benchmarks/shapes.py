"""What shaped noise gains: ``python -m benchmarks.shapes FILE...`` for fits of regimes.

A file holds ``A``, the matrix of the regimes, and ``E``, what is seen in each, as numpy saves them;
without ``E`` the states of ``A`` are seen themselves. The theorem that decides is S, or W with the
reach of its windows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

import numpy as np

import pufferkit as pk

EPSILONS = 0.2, 1.0, 5.0


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        fit = np.load(path)
        hidden = "E" in fit
        moods = (
            pk.RegimeClass(fit["A"], fit["E"], emissions=0.0)
            if hidden
            else pk.ChainClass.of(pk.MarkovChain.steady(fit["A"]))
        )
        query = pk.histogram(moods.states, 10**6)
        for epsilon in EPSILONS:
            begun = process_time()
            shaped = pk.shaped(moods, query, epsilon)
            errors = [
                made.expected_l1_error
                for made in (
                    pk.influence_curve(moods, query, epsilon),
                    pk.influence_curve(moods, query, epsilon, per_bin=True),
                    shaped,
                )
            ]
            theorem = "S" if shaped.reach is None else f"W, reach {shaped.reach}"
            each = ", ".join(f"{errors[0] / error:.2f}" for error in errors[1:])
            print(
                f"{path.stem}, epsilon {epsilon:g}: equal {errors[0]:.0f}; times less per bin, "
                f"shaped: {each} by {theorem}; {process_time() - begun:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
