"""A fleet on a local Spark against a bare Spark job that sorts and links the same rows.

``python benchmarks/cluster.py --rows 5e6 --subjects 2e4 [--ledger URL] [--skew 0.9] [--cores 2]``
prints seconds on the clock, CPU seconds of all processes and the largest memory of the driver. With
``--skew`` one subject has that share of the rows. Rows are made by Spark and deleted afterwards.
"""

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
import uuid
from functools import partial
from pathlib import Path

import numpy as np

STATES = range(5)


def cpu() -> float:
    """CPU seconds of all processes of this session: Python, Java and Spark's workers."""
    total, session = 0, os.getsid(0)
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def timed(name: str, work) -> None:
    before, start = cpu(), time.perf_counter()
    work()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name:<28} {time.perf_counter() - start:8.1f} s {cpu() - before:8.1f} CPU s "
        f"  driver's Python {memory} MB",
        flush=True,
    )


def made(spark, rows: int, subjects: int, skew: float, path: str):
    """The table, as files. Times are in order, a minute apart, and rows are mixed."""
    who = f"if(pmod(hash(id), 1000) < {1000 * skew:.0f}, 0, id % {subjects})"
    frame = spark.range(0, rows, 1, max(16, rows // 2_000_000)).selectExpr(
        f"{who} as who", "id * 60 as `when`", "pmod(hash(id, 7), 5) as what"
    )
    frame.write.parquet(path)
    return spark.read.parquet(path)


def bare(frame, path: str) -> None:
    """Sort and link with Spark's own window functions, and count states for each subject."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("who").orderBy("when")
    linked = frame.withColumn("before", f.lag("what").over(order))
    linked = linked.withColumn("step", f.col("when") - f.lag("when").over(order))
    counts = linked.groupBy("who", "what").agg(f.count("*"), f.count("before"), f.max("step"))
    counts.write.mode("overwrite").parquet(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=5e6)
    parser.add_argument("--subjects", type=float, default=2e4)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--ledger")
    parser.add_argument("--folder", help="for files and for what Spark spills")
    parser.add_argument("--what", default="bare each all")
    chosen = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if os.getpgid(0) != os.getpid():
        os.setsid()
    from pyspark.sql import SparkSession

    import pufferkit as pk

    folder = tempfile.mkdtemp(dir=chosen.folder)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.local.dir": folder,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{chosen.cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    chain = pk.MarkovChain.steady(np.full((5, 5), 0.1) + 0.5 * np.eye(5))
    rows, subjects = int(chosen.rows), int(chosen.subjects)
    try:
        frame = made(spark, rows, subjects, chosen.skew, f"{folder}/rows")
        table = pk.read_table(frame, subject="who", time="when", state="what", states=STATES)

        def paid() -> dict:
            if chosen.ledger is None:
                return {}
            return {"ledger": chosen.ledger, "budget": 10.0**6, "label": uuid.uuid4().hex}

        print(f"{rows:,} rows of {subjects:,} subjects, {chosen.skew:.0%} of them of one")
        for _ in range(chosen.turns):
            if "bare" in chosen.what:
                timed("sort and link, Spark alone", lambda: bare(frame, f"{folder}/bare"))
            if "each" in chosen.what:
                out = f"{folder}/{uuid.uuid4().hex}"
                work = partial(pk.release_each, table, chain, 1, storage=out, **paid())
                timed("release_each", work)
            if "all" in chosen.what:
                timed("release_all", lambda: pk.release_all(table, chain, 1, **paid()))
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
