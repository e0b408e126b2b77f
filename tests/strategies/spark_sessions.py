"""A small Spark on this machine, for the tests that need one."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import pufferkit as pk

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    # Compiled for a quick start, not for a long run.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # A zone with changes of the clock: nothing may depend on it.
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def small_spark(master="local[2,2]"):  # two cores, and a task may fail once
    from pyspark.sql import SparkSession

    # The executors' Python must find this package, wherever the tests are run from.
    root = str(Path(pk.__file__).parents[1])
    path = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", root + (os.pathsep + path if path else ""))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(master).appName("pufferkit")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
