"""Folders of a cluster: checks that executors can draw and write, and what was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

import pufferkit
from pufferkit import noise

_PYTHON_ERROR = re.compile(r"(?!org\.|java\.|scala\.|py4j\.)[A-Za-z_.]+(Error|Exception): ")


def versions() -> dict[str, str]:
    """Versions of the packages that draw noise; driver and executors must agree."""
    return {"pufferkit": pufferkit.__version__, "opendp": version("opendp")}


@contextmanager
def job(what: str) -> Iterator[None]:
    """Turn errors of a job into a short message."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise RuntimeError(f"executors: {what} failed ({in_words(error)})") from None


def try_executors(session: Any, folder: str | None) -> None:
    """Run a trial job that draws in every task, discards the draws and writes to ``folder``.

    Raises
    ------
    ValueError
        If the executors cannot draw or write, or if they have other versions than the driver.
    """
    tasks = 8
    with suppress(Exception):  # a remote session does not report the number of cores
        tasks = max(1, min(64, int(session.sparkContext.defaultParallelism)))
    own = versions()
    trial = session.range(0, tasks, 1, tasks).mapInArrow(partial(_try, own=own), "lack string")
    where = "" if folder is None else f" and writing it to {folder}"
    leave = "" if folder is None else ", and permission to write to the storage"
    try:
        if folder is not None:
            trial.write.mode("errorifexists").parquet(folder)
            trial = session.read.schema(trial.schema).parquet(folder)
        lacks = {row[0] for row in trial.collect()} - {""}
    except Exception as error:
        raise ValueError(
            f"executors: a trial of drawing noise{where} failed ({in_words(error)}); nothing was "
            f"charged. They need pufferkit {own['pufferkit']} and opendp {own['opendp']} in the "
            f"Python that PYSPARK_PYTHON names there{leave}"
        ) from None
    finally:
        if folder is not None:
            delete(session, folder)
    if lacks:
        raise ValueError(
            f"executors: {'; '.join(sorted(lacks))}; nothing was charged. Install the versions "
            "of the driver there"
        )


def _try(batches: Iterator[Any], *, own: dict[str, str]) -> Any:
    """Runs in an executor."""
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        noise.discrete_laplace_rows(np.ones((1, 1), dtype=np.int64), np.ones((1, 1)))
        here = versions()
        other = [f"{n} is {here[n]} there and {own[n]} here" for n in own if here[n] != own[n]]
        yield pa.RecordBatch.from_pydict({"lack": [", ".join(other)] * batch.num_rows})


def delete(session: Any, path: str) -> None:
    """Remove a folder that was not handed over; if that fails, leave it."""
    with suppress(Exception):
        target = session._jvm.org.apache.hadoop.fs.Path(path)
        target.getFileSystem(session._jsc.hadoopConfiguration()).delete(target, True)


def full_path(session: Any, path: str) -> str:
    """A path that means the same folder on every machine."""
    with suppress(Exception):
        target = session._jvm.org.apache.hadoop.fs.Path(path)
        system = target.getFileSystem(session._jsc.hadoopConfiguration())
        return str(system.makeQualified(target).toString())
    return path


def in_words(error: Exception) -> str:
    """The cause of a failed job, without stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if _PYTHON_ERROR.match(line)]
    java = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    last = python[-1:] or list(dict.fromkeys(java[-2:])) or lines[:1] or [type(error).__name__]
    chosen = "; ".join(last)
    return chosen if len(chosen) <= 300 else chosen[:300] + "..."
