"""Ten million rows on polars against the bare group-by, and memory against rows for lazy input."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl

import pufferkit as pk

ROWS, SUBJECTS, STATES = 10_000_000, 1000, 5
COLUMNS = {"subject": "who", "time": "when", "state": "what", "independent_after": 60}
WANTED = 1.5


def made(rows: int, subjects: int = SUBJECTS, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    each = rows // subjects
    return pl.DataFrame(
        {
            "who": np.repeat(np.arange(subjects), each),
            "when": np.tile(np.arange(each) * 60, subjects),
            "what": rng.integers(0, STATES, each * subjects).astype("U1"),
        }
    )


def bare(frame: pl.DataFrame) -> pl.DataFrame:
    """Transition counts for each subject: no gaps, no checks, no segment lengths."""
    before = pl.col("what").shift(1).over("who", order_by="when")
    linked = frame.lazy().with_columns(before=before).filter(pl.col("before").is_not_null())
    return linked.group_by("who", "before", "what").agg(pl.len()).collect()


def seconds(work, *args, times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        start = perf_counter()
        work(*args)
        best = min(best, perf_counter() - start)
    return best


def speed() -> None:
    in_order = made(ROWS)
    named = in_order.with_columns(who=pl.format("subject {}", "who"))
    cases = {
        "in order": in_order,
        "shuffled": in_order.sample(fraction=1, shuffle=True, seed=1),
        "in order, subjects are text": named,
    }
    print(f"{ROWS:,} rows, {SUBJECTS} subjects, best of 3:")
    for name, frame in cases.items():
        ours = seconds(lambda f: pk.read(f, **COLUMNS), frame)
        theirs = seconds(bare, frame)
        print(
            f"  {name:<28} read {ours:5.2f} s, bare group-by {theirs:5.2f} s, "
            f"ratio {ours / theirs:4.2f}, wanted {WANTED}"
        )


def memory() -> None:
    """Peak memory of a fresh process that reads a Parquet file."""
    print("peak memory of a process that reads a Parquet file lazily:")
    with tempfile.TemporaryDirectory() as folder:
        for rows in (2_000_000, 10_000_000, 40_000_000):
            path = Path(folder) / f"{rows}.parquet"
            made(rows).write_parquet(path, row_group_size=250_000)
            command = [sys.executable, __file__, str(path)]
            lazily = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            print(f"  {rows:>11,} rows: {lazily.strip()}")
            path.unlink()


def one(path: str) -> None:
    start = perf_counter()
    table = pk.read(path, **COLUMNS)
    took, rows = perf_counter() - start, int(table.sizes.sum())
    # Not getrusage: its peak includes the parent's memory at the time of the fork.
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
    print(f"{peak:6.0f} MB, {rows / took / 1e6:.1f} million rows a second")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one(sys.argv[1])
    else:
        speed()
        memory()
