"""A driver may die anywhere; the next one never shows a second value for one charge."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pufferkit as pk
from tests.conftest import require
from tests.frames.spark_driver import POINTS, release
from tests.frames.spark_sessions import small_spark

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
ROOT = Path(pk.__file__).parents[1]


@pytest.fixture(scope="module")
def dead(tmp_path_factory):
    """The folders that drivers left behind, each killed at another point."""
    require("pyspark")
    require("pyarrow")
    folders, drivers = {}, {}
    # Two at a time: starting Java is what takes long.
    for pair in (POINTS[:2], POINTS[2:]):
        for point in pair:
            folders[point] = tmp_path_factory.mktemp(point)
            command = [sys.executable, "-m", "tests.frames.spark_driver", point, folders[point]]
            drivers[point] = subprocess.Popen(
                [str(word) for word in command],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        for point in pair:
            errors = drivers[point].communicate(timeout=300)[1].decode()
            assert drivers[point].returncode == -signal.SIGKILL, (point, errors)
    return folders


def _on_disk(folder):
    """Every value that files outside Spark's scratch folders show, by subject and window."""
    shown = {}
    for file in (folder / "values").rglob("*.parquet"):
        if not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts[1:]):
            for row in pl.read_parquet(file).iter_rows():
                shown.setdefault(row[:2], set()).add(row[2:])
    return shown


def test_the_restart_of_every_death(dead):
    left = {}
    for point, folder in dead.items():
        with pk.Ledger(folder / "ledger.db") as book:
            left[point] = (len(book.entries()), _on_disk(folder))
            assert book.remaining("s0") == 0  # paid, whatever came of it
    assert [len(left[point][1]) for point in POINTS] == [0, 0, 6, 6]
    with small_spark() as spark:
        for point, folder in dead.items():
            given = sorted(release(spark, folder).collect())
            assert len(given) == 6
            # One value for each charge, in the files and in what was handed over.
            shown = _on_disk(folder)
            assert all(len(values) == 1 for values in shown.values())
            assert {row[:2]: {row[2:]} for row in map(tuple, given)} == shown
            if point in ("written", "noted"):
                assert shown == left[point][1]
            if point == "drawing":
                assert sorted(release(spark, folder).collect()) == given
            with pk.Ledger(folder / "ledger.db") as book:
                charges = [e for e in book.entries() if e.kind == "charge" and e.epsilon > 0]
                assert len(charges) == 7  # six rows, and the account of the run
                assert book.verify() == []
