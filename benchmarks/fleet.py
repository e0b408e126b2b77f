"""A hundred thousand subjects with five states each: releases with an account for everyone."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl

import pufferkit as pk
from pufferkit.account.tables import release_all, release_each

SUBJECTS = int(os.environ.get("SUBJECTS", "100000"))
CHAIN = pk.MarkovChain.steady(
    [
        [0.80, 0.10, 0.05, 0.03, 0.02],
        [0.10, 0.70, 0.10, 0.05, 0.05],
        [0.10, 0.10, 0.60, 0.10, 0.10],
        [0.05, 0.05, 0.20, 0.60, 0.10],
        [0.02, 0.08, 0.10, 0.20, 0.60],
    ]
)


def main() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(50, 150, SUBJECTS)
    frame = pl.DataFrame(
        {
            "who": np.repeat(np.arange(SUBJECTS), lengths),
            "when": np.concatenate([np.arange(n) for n in lengths]),
            "what": rng.integers(0, 5, lengths.sum()),
        }
    )
    table = timed(
        "read",
        lambda: pk.read(
            frame, subject="who", time="when", state="what", states=range(5), independent_after=1
        ),
    )
    print(table.report())
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "ledger.db")
        paid = {"ledger": path, "budget": 2}
        timed("release_each without a ledger", lambda: release_each(table, CHAIN, 1))
        timed("release_each with a ledger", lambda: release_each(table, CHAIN, 1, **paid))
        timed("the same again", lambda: release_each(table, CHAIN, 1, **paid))
        timed("release_all, all pay", lambda: release_all(table, CHAIN, 0.5, **paid))
        with pk.Ledger(path) as book:
            assert timed("ledger.verify", book.verify) == []


def timed(name: str, work: Callable[[], Any]) -> Any:
    start, cpu = perf_counter(), process_time()
    result = work()
    print(f"{name:<32} {perf_counter() - start:6.1f} s ({process_time() - cpu:.1f} s of CPU)")
    return result


if __name__ == "__main__":
    main()
