"""What no theorem covers, on random models: every way to release it must refuse."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pufferkit as pk
from tests.asking import Asking

LENGTH = 24


def other_steps(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    """Data of one step under beliefs of another."""
    believed, step = rng.choice([1, 2, 5, 60, 1440], 2, replace=False).tolist()
    chain = pk.MarkovChain.steady(rng.dirichlet(np.ones(2) * 3, 2), step=f"{believed}m")
    clock = pk.Calendar("2026-11-16", f"{step}m")
    data = pk.Series(chain.sample(LENGTH, seed=1), chain.states, (LENGTH,), calendar=clock)
    query, window = pk.count(1, LENGTH), (1, LENGTH)

    def within(act: Callable[[str], Any]) -> Any:
        with TemporaryDirectory() as folder:
            return act(str(Path(folder) / "l.db"))

    yield lambda: pk.influence_curve(chain, query, 1.0).release(data)
    yield lambda: pk.influence_curve(chain, pk.count(1, data), 1.0)
    yield lambda: within(lambda book: Asking(data, chain, 1.0, book).release(query, 1.0))
    yield lambda: within(
        lambda book: Asking(data, chain, 1.0, book).release(query, 1.0, window=window)
    )


REFUSED = {"other steps": other_steps}


def not_refused(name: str, rng: np.random.Generator) -> tuple[int, int]:
    """How many ways were tried on a random model, and how many of them gave a result."""
    tried = wrong = 0
    for act in REFUSED[name](rng):
        tried += 1
        try:
            act()
        except (ValueError, pk.NoTheorem):
            continue
        wrong += 1
    return tried, wrong
