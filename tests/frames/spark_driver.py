"""A driver that dies at a given point of a release: ``python -m tests.frames.spark_driver POINT``.

It kills itself and its Java with SIGKILL, as a machine that loses power would; Spark's own Python
workers see their Java gone. The rows are made here, so that the restart has the same.
"""

import os
import signal
import sys
import time
from datetime import datetime, timedelta

import pufferkit as pk
from pufferkit.fleet import cluster
from pufferkit.frames import spark as frames
from tests.frames.spark_sessions import small_spark

STATES = ["rest", "walk", "run"]
BELIEF = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=STATES)
POINTS = ("charged", "drawing", "written", "noted")


def release(spark, folder):
    """The release of three subjects in two windows, with ledger and storage in a folder."""
    rows = [
        (f"s{who}", datetime(2024, 1, 1) + timedelta(hours=6 * n), STATES[(n * (who + 1)) % 3])
        for who in range(3)
        for n in range(56)
    ]
    frame = spark.createDataFrame(rows, "who string, when timestamp_ntz, what string")
    table = pk.read_table(
        frame, subject="who", time="when", state="what", states=STATES, window="7d"
    )
    book, place = str(folder / "ledger.db"), str(folder / "values")
    call = {"ledger": book, "budget": 4.0, "label": "spring", "storage": place}
    return pk.release_each(table, BELIEF, 4, **call)


def die(*_args, **_options):
    os.killpg(os.getpgid(0), signal.SIGKILL)


def arrange(point):
    """Put death where it is asked for."""
    if point == "charged":
        cluster.Accounts.name_folder = die
    elif point == "drawing":
        draw, group = frames._draw_batches, os.getpgid(0)

        def draw_once_then_die(batches, **options):
            yield from draw(batches, **options)
            os.killpg(group, signal.SIGKILL)
            time.sleep(60)

        frames._draw_batches = draw_once_then_die
    elif point == "written":
        written = cluster.spark_storage.written
        cluster.spark_storage.written = lambda *a: die() if written(*a) else False
    elif point == "noted":
        cluster._handed_over = die


if __name__ == "__main__":
    from pathlib import Path

    arrange(sys.argv[1])
    with small_spark("local[1]") as session:
        release(session, Path(sys.argv[2]))
    sys.exit("the driver lived")
