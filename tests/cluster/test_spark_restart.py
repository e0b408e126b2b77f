"""A driver may die anywhere; the next one never shows a second value for one charge."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pufferkit as pk
from pufferkit.account import subjects as run_room
from pufferkit.cluster import packs as cluster
from tests.cluster.spark_driver import release

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
ROOT = Path(pk.__file__).parents[1]


def _stored(folder):
    """Every value that the ledger has, by account and key; each is there once."""
    with pk.Ledger(folder / "ledger.db") as book:
        values = [entry for entry in book.entries() if entry.value is not None]
        charges = [entry for entry in book.entries() if entry.kind == "charge"]
        assert book.verify() == []
    stored = {(entry.account, entry.key): entry.value for entry in values}
    assert len(stored) == len(values) == len(charges)
    return stored


def test_the_restart_of_a_driver_that_was_killed_amid_its_charges(spark, tmp_path):
    driver = subprocess.run(
        [sys.executable, "-m", "tests.cluster.spark_driver", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        start_new_session=True,
        timeout=300,
        check=False,
    )
    assert driver.returncode == -signal.SIGKILL, driver.stderr.decode()
    paid = _stored(tmp_path)
    assert len(paid) == 2  # two windows of one subject
    given = sorted(release(spark, tmp_path).collect())
    stored = _stored(tmp_path)
    assert len(stored) == len(given) == 6
    assert paid.items() <= stored.items()
    # What was handed over is what is stored.
    shown = sorted((row["subject"], row["scale"], *row[4:]) for row in given)
    kept = [(name, body["scale"], *body["value"]) for (name, _), body in stored.items()]
    assert shown == sorted(kept)
    assert sorted(release(spark, tmp_path).collect()) == given


@pytest.mark.parametrize("point", ["checked", "writing", "written"])
def test_other_deaths(spark, tmp_path, monkeypatch, point):
    """Before the first charge, and before and after files are written."""
    monkeypatch.setattr(run_room, "CHUNK", 2)

    def die(*_args):
        raise KeyboardInterrupt

    def write_then_die(_path, write):
        write()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if point == "checked":
            patch.setattr(cluster._Packs, "paid", die)
        else:
            patch.setattr(cluster, "_written", die if point == "writing" else write_then_die)
        with pytest.raises(KeyboardInterrupt):
            release(spark, tmp_path)
    if point == "checked":
        assert not (tmp_path / "ledger.db").exists()
        return
    paid = _stored(tmp_path)
    given = sorted(release(spark, tmp_path).collect())
    assert len(paid) == len(given) == 6
    assert _stored(tmp_path) == paid
