"""The weekday-by-hour heat map of a year: reading, counting and noise, for each subject and all."""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

import pufferkit as pk
from pufferkit.account.tables import release_all, release_each

CHAIN = pk.MarkovChain.steady(
    [[0.95, 0.04, 0.01], [0.10, 0.85, 0.05], [0.05, 0.15, 0.80]], states=["rest", "walk", "run"]
)
HOURS = 24 * 365


def rows(subjects: int) -> pl.DataFrame:
    """A year by the hour for each subject."""
    start = datetime(2024, 1, 1)
    times = pl.Series([start + timedelta(hours=h) for h in range(HOURS)])
    names = pl.Series(CHAIN.states)
    return pl.concat(
        pl.DataFrame(
            {"who": [f"s{n}"] * HOURS, "time": times, "state": names[CHAIN.sample(HOURS, seed=n)]}
        )
        for n in range(subjects)
    )


def main(subjects: int = 1000) -> None:
    """Print seconds of clock and of this process for each step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "year.parquet"
        rows(subjects).write_parquet(path)
        release_each(_read(path, 2), CHAIN, 1, query="by-weekday-hour")  # compiles, loads
        clock, work = time.perf_counter(), time.process_time()
        table = _read(path, subjects)
        for make in (release_all, release_each):
            made = make(table, CHAIN, 1, query="by-weekday-hour")
            seconds = time.perf_counter() - clock, time.process_time() - work
            shape = f"{len(made):,} rows of {len(made.labels)} numbers"
            print(
                f"{make.__name__}: {shape}, {seconds[0]:.1f} s, {seconds[1]:.1f} s of work so far"
            )


def _read(path: Path, subjects: int) -> pk.Table:
    some = pl.scan_parquet(path).filter(pl.col("who").is_in([f"s{n}" for n in range(subjects)]))
    return pk.read(
        some, subject="who", time="time", state="state", states=CHAIN.states, window="hour of week"
    )  # type: ignore[return-value]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
