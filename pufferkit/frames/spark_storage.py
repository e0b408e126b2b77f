"""Folders of a cluster: whether its executors can draw and write there, and what was written."""

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
    """Of what draws; driver and executors must agree on it."""
    return {"pufferkit": pufferkit.__version__, "opendp": version("opendp")}


@contextmanager
def job(what: str) -> Iterator[None]:
    """Errors of a job in words."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise RuntimeError(f"executors: {what} failed ({in_words(error)})") from None


def try_executors(session: Any, folder: str | None) -> None:
    """A job that draws once in every task, throws the draw away and writes to ``folder``, if any.

    Raises
    ------
    ValueError
        If the executors cannot draw or write, or if they have other versions than the driver.
    """
    tasks = 8
    with suppress(Exception):  # a remote session does not tell how many cores there are
        tasks = max(1, min(64, int(session.sparkContext.defaultParallelism)))
    own = versions()
    trial = session.range(0, tasks, 1, tasks).mapInArrow(partial(_try, own=own), "lack string")
    where = "" if folder is None else f" and writing it to {folder}"
    leave = "" if folder is None else ", and leave to write to the storage"
    try:
        if folder is not None:
            trial.write.mode("errorifexists").parquet(folder)
            trial = session.read.parquet(folder)
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
    """Remove a folder that nobody was given; where that cannot be done it stays."""
    with suppress(Exception):
        target = session._jvm.org.apache.hadoop.fs.Path(path)
        target.getFileSystem(session._jsc.hadoopConfiguration()).delete(target, True)


def full_path(session: Any, path: str) -> str:
    """A path that means the same folder from wherever it is read."""
    with suppress(Exception):
        target = session._jvm.org.apache.hadoop.fs.Path(path)
        system = target.getFileSystem(session._jsc.hadoopConfiguration())
        return str(system.makeQualified(target).toString())
    return path


def in_words(error: Exception) -> str:
    """What went wrong in a job, without its stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if _PYTHON_ERROR.match(line)]
    java = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    last = python[-1:] or list(dict.fromkeys(java[-2:])) or lines[:1] or [type(error).__name__]
    chosen = "; ".join(last)
    return chosen if len(chosen) <= 300 else chosen[:300] + "..."
