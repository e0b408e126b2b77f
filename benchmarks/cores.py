"""Rows a second on one core and on two: polars, and Spark if it is installed."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

ROWS, SUBJECTS = 4_000_000, 4000
STATES = range(5)
MATRIX = np.full((5, 5), 0.1) + 0.5 * np.eye(5)
COLUMNS = {
    "subject": "who",
    "time": "when",
    "state": "what",
    "states": STATES,
    "independent_after": 60,
}


def write(path: Path) -> None:
    import polars as pl

    rng, each = np.random.default_rng(0), ROWS // SUBJECTS
    pl.DataFrame(
        {
            "who": np.repeat(np.arange(SUBJECTS), each),
            "when": np.tile(np.arange(each) * 60, SUBJECTS),
            "what": rng.integers(0, 5, ROWS),
        }
    ).write_parquet(path, row_group_size=250_000)


def here(path: str) -> float:
    """Seconds to read the file and release a histogram for each subject."""
    import pufferkit as pk

    chain = pk.MarkovChain.steady(MATRIX)
    pk.influence_curve(chain, pk.count(0, 10), 1).release([0] * 10)  # compile, import
    start = perf_counter()
    pk.release(pk.read(path, **COLUMNS), chain, "histogram", 1, per="subject")
    return perf_counter() - start


def there(path: str, cores: int, folder: str) -> float:
    """The same on a local Spark, when it is warm."""
    from pyspark.sql import SparkSession

    import pufferkit as pk

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(2 * cores))
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    chain = pk.MarkovChain.steady(MATRIX)
    took = 0.0
    for turn in range(2):
        frame = spark.read.parquet(path)
        start = perf_counter()
        table = pk.read(frame, **COLUMNS)
        pk.release(
            table, chain, "histogram", 1, per="subject", storage=f"{folder}/{cores}-{turn}"
        ).count()
        took = perf_counter() - start
    spark.stop()
    return took


def main() -> None:
    engines = ["polars"]
    if importlib.util.find_spec("pyspark") and shutil.which("java"):
        engines.append("spark")
    print(f"{ROWS:,} rows of {SUBJECTS} subjects, from a Parquet file to noisy histograms:")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path)
        for engine in engines:
            for cores in (1, 2):
                environment = {**os.environ, "POLARS_MAX_THREADS": str(cores)}
                command = [sys.executable, __file__, engine, str(cores), str(path), folder]
                if shutil.which("taskset"):
                    command = ["taskset", "-c", "0" if cores == 1 else "0,1", *command]
                finished = subprocess.run(
                    command, env=environment, capture_output=True, text=True, check=True
                )
                took = float(finished.stdout.splitlines()[-1])
                print(f"  {engine:<7} {cores} core(s): {ROWS / took:>12,.0f} rows a second")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        engine, cores, path, folder = sys.argv[1:]
        print(here(path) if engine == "polars" else there(path, int(cores), folder))
    else:
        main()
