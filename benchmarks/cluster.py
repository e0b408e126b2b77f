"""A fleet on a local Spark against a bare Spark job that sorts and links the same rows.

``python benchmarks/cluster.py --rows 2e6 --subjects 1e4 [--ledger URL] [--skew 0.9] [--cores 2]``
prints CPU seconds of all processes, seconds on the clock and peaks of memory. The first turn pays
for the start of Java; the last one compares. With ``--ledger`` every subject has an account: in a
new database on this PostgreSQL server, dropped afterwards, or with ``--ledger file`` in a file.
With ``--skew`` one subject has that share of the rows. Rows are made by Spark and deleted again.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

STATES = range(5)
KINDS = ("driver", "java", "workers", "server")


class Processes:
    """CPU seconds and peak memory of all processes at work: driver, Java, Python workers, server.

    Those of this session, and of the PostgreSQL server if it runs on this machine. A process that
    has ended counts through its parent. Peaks are those of the largest process of a kind.
    """

    def __init__(self, ledger: str | None) -> None:
        self.server = None if ledger is None else _postmaster(ledger)
        self.peaks: dict[str, int] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu(self) -> dict[str, float]:
        total = dict.fromkeys(KINDS, 0)
        for _, kind, fields in self._all():
            total[kind] += sum(map(int, fields[11:15]))
        return {kind: ticks / os.sysconf("SC_CLK_TCK") for kind, ticks in total.items()}

    def _all(self):
        session = os.getsid(0)
        for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                name, rest = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)
            except OSError:
                continue
            fields = rest.split()
            if self.server in (process, int(fields[1])):
                yield process, "server", fields
            elif int(fields[3]) == session:
                java = name.endswith("(java")
                own = process == os.getpid()
                yield process, "driver" if own else "java" if java else "workers", fields

    def _watch(self) -> None:
        while True:
            for process, kind, _ in self._all():
                with suppress(OSError):
                    status = Path(f"/proc/{process}/status").read_text()
                    if peak := re.search(r"VmHWM:\s*(\d+) kB", status):
                        self.peaks[kind] = max(self.peaks.get(kind, 0), int(peak[1]) // 1024)
            time.sleep(0.5)

    def timed(self, name: str, work) -> None:
        before, start = self.cpu(), time.perf_counter()
        work()
        clock = time.perf_counter() - start
        time.sleep(1)  # until what has just ended counts through its parent
        after = self.cpu()
        spent = {kind: after[kind] - before[kind] for kind in KINDS}
        parts = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in spent.items())
        peaks = ", ".join(f"{kind} {self.peaks.get(kind, 0)}" for kind in KINDS[:3])
        print(
            f"{name:<14} {sum(spent.values()):8.1f} CPU s ({parts}) {clock:8.1f} s"
            f"   peak MB: {peaks}",
            flush=True,
        )


def _postmaster(ledger: str) -> int | None:
    """The process of a PostgreSQL server on this machine."""
    if "://" not in ledger:
        return None
    import psycopg

    with psycopg.connect(ledger) as connection:
        (backend,) = connection.execute("SELECT pg_backend_pid()").fetchone()
        stat = Path(f"/proc/{backend}/stat")
        return int(stat.read_text().rsplit(")", 1)[1].split()[1]) if stat.exists() else None


@contextmanager
def new_ledger(ledger: str | None, folder: str):
    """A new ledger: a database of its own on the server, dropped afterwards, or a file."""
    name = f"pufferkit_{uuid.uuid4().hex}"
    if ledger is None or "://" not in ledger:
        yield None if ledger is None else f"{folder}/{name}.db"
        return
    import psycopg

    with psycopg.connect(ledger, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(ledger)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def made(spark, rows: int, subjects: int, skew: float, path: str):
    """The table, as files. Times are in order, a minute apart, and rows are mixed."""
    who = f"if(pmod(hash(id), 1000) < {1000 * skew:.0f}, 0, id % {subjects})"
    frame = spark.range(0, rows, 1, max(16, rows // 2_000_000)).selectExpr(
        f"{who} as who", "id * 60 as `when`", "pmod(hash(id, 7), 5) as what"
    )
    frame.write.parquet(path)
    return spark.read.parquet(path)


def session(folder: str, cores: int):
    """A Spark on this machine that spills into a folder."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.local.dir": folder,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


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
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--subjects", type=float, default=1e4)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--ledger")
    parser.add_argument("--folder", help="for files and for what Spark spills")
    parser.add_argument("--what", default="bare each all")
    chosen = parser.parse_args()
    if os.getpgid(0) != os.getpid():
        os.setsid()
    import pufferkit as pk

    folder = tempfile.mkdtemp(dir=chosen.folder)
    spark = session(folder, chosen.cores)
    chain = pk.MarkovChain.steady(np.full((5, 5), 0.1) + 0.5 * np.eye(5))
    rows, subjects = int(chosen.rows), int(chosen.subjects)
    try:
        frame = made(spark, rows, subjects, chosen.skew, f"{folder}/rows")
        table = pk.read(frame, subject="who", time="when", state="what", states=STATES)

        def timed(name: str, per: str, **options) -> None:
            with (
                new_ledger(chosen.ledger, folder) as url,
                nullcontext() if url is None else pk.Ledger(url) as ledger,
            ):
                account = None if ledger is None else ledger.accounts_for(table, "", 1.0)
                asked = pk.histogram(), 1
                options |= {"per": per, "account": account, "label": "bench", "anyway": True}
                processes.timed(name, partial(pk.release, table, chain, *asked, **options))

        processes = Processes(chosen.ledger)
        print(f"{rows:,} rows of {subjects:,} subjects, {chosen.skew:.0%} of them of one")
        for _ in range(chosen.turns):
            if "bare" in chosen.what:
                processes.timed("Spark alone", lambda: bare(frame, f"{folder}/bare"))
            if "each" in chosen.what:
                timed("for each", "subject", storage=f"{folder}/{uuid.uuid4().hex}")
            if "all" in chosen.what:
                timed("for all", "all")
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
