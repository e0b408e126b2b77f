"""A hundred thousand subjects with five states each: releases with an account for everyone."""

import os
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl

import pufferkit as pk

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
    start = perf_counter()
    table = pk.read_table(
        frame, subject="who", time="when", state="what", states=range(5), max_gap=1
    )
    print(f"{table.report()}: read in {perf_counter() - start:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "ledger.db")
        start = perf_counter()
        pk.release_each(table, CHAIN, 1)
        print(f"release_each without a ledger: {perf_counter() - start:.1f} s")
        for turn in ("release_each with a ledger", "the same again, from the ledger"):
            start = perf_counter()
            pk.release_each(table, CHAIN, 1, ledger=path, budget=2)
            print(f"{turn}: {perf_counter() - start:.1f} s")
        start = perf_counter()
        pk.release_all(table, CHAIN, 0.5, ledger=path, budget=2)
        print(f"release_all, charged to everybody: {perf_counter() - start:.1f} s")
        start = perf_counter()
        with pk.Ledger(path) as book:
            assert book.verify() == []
        print(f"ledger verified: {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
