"""A driver that dies amid its charges: ``python -m tests.cluster.spark_driver FOLDER``.

It kills itself and its Java with SIGKILL, as a machine that loses power would; Spark's own Python
workers see their Java gone. The rows are made here, so that the restart has the same.
"""

import os
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pufferkit as pk
from pufferkit.account import subjects
from tests.asking import for_each
from tests.strategies.spark_sessions import small_spark

STATES = ["rest", "walk", "run"]
BELIEF = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=STATES)


def release(spark, folder):
    """The release of three subjects in two windows, with ledger and storage in a folder."""
    rows = [
        (f"s{who}", datetime(2024, 1, 1) + timedelta(hours=6 * n), STATES[(n * (who + 1)) % 3])
        for who in range(3)
        for n in range(56)
    ]
    frame = spark.createDataFrame(rows, "who string, when timestamp_ntz, what string")
    table = pk.read(frame, subject="who", time="when", state="what", states=STATES, window="7d")
    book, place = str(folder / "ledger.db"), str(folder / "values")
    call = {"ledger": book, "budget": 4.0, "label": "spring", "storage": place}
    return for_each(table, BELIEF, 4, **call)


def pay_once_then_die(self, batch, pay=subjects.Accounts.pay):
    pay(self, batch)
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    subjects.CHUNK = 2  # one subject is a batch
    subjects.Accounts.pay = pay_once_then_die
    with small_spark("local[1]") as session:
        release(session, Path(sys.argv[1]))
    sys.exit("the driver lived")
