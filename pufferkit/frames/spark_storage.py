"""Folders of a cluster: whether its executors can draw and write there, and what was written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

import pufferkit
from pufferkit import noise

_PYTHON_ERROR = re.compile(r"(?!org\.|java\.|scala\.|py4j\.)[A-Za-z_.]+(Error|Exception): ")
_NEVER_WRITTEN = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def versions() -> dict[str, str]:
    """Of what draws; driver and executors must agree on it."""
    return {"pufferkit": pufferkit.__version__, "opendp": version("opendp")}


def try_executors(session: Any, folder: str) -> None:
    """A job that draws once in every task, throws the draw away and writes to ``folder``.

    Raises
    ------
    ValueError
        If the executors cannot draw or write, or if they have other versions than the driver.
    """
    tasks = 8
    with suppress(Exception):  # a remote session does not tell how many cores there are
        tasks = max(1, min(64, int(session.sparkContext.defaultParallelism)))
    own = versions()
    try:
        trial = session.range(0, tasks, 1, tasks).mapInArrow(partial(_try, own=own), "lack string")
        trial.write.mode("errorifexists").parquet(folder)
        lacks = {row[0] for row in session.read.parquet(folder).collect()} - {""}
    except Exception as error:
        raise ValueError(
            f"executors: a trial of drawing noise and writing it to {folder} failed "
            f"({in_words(error)}); nothing was charged. They need pufferkit {own['pufferkit']} and "
            f"opendp {own['opendp']} in the Python that PYSPARK_PYTHON names there, and leave to "
            "write to the storage"
        ) from None
    finally:
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


def written(session: Any, path: str, rows: int) -> bool:
    """Whether all rows of a release are in a folder, each once.

    Spark moves the output of one attempt of each task there, so if no row is missing the job is
    done, whether or not its driver lived to see it.
    """
    try:
        frame = session.read.parquet(path)
        keys = [name for name in ("subject", "window_start") if name in frame.columns]
        return int(frame.count()) == rows and int(frame.select(*keys).distinct().count()) == rows
    except Exception as error:
        if _condition(error) in _NEVER_WRITTEN:
            return False
        raise ValueError(
            f"storage: {path} may hold values that were paid for, but cannot be read "
            f"({in_words(error)}); nothing is drawn until it can"
        ) from None


def read(session: Any, paths: Sequence[str]) -> Any:
    """The rows of several folders as one frame, read from their files."""
    frame = session.read.parquet(paths[0])
    for path in paths[1:]:
        more = session.read.parquet(path)
        if more.dtypes != frame.dtypes:
            raise ValueError(
                f"storage: {path} has columns {more.dtypes}, other parts of the run "
                f"{frame.dtypes}; read the table with times of the same kind as before"
            )
        frame = frame.unionByName(more)
    return frame


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


def _condition(error: Exception) -> str:
    """Spark's name of an error, without its second part."""
    for ask in ("getCondition", "getErrorClass"):
        if hasattr(error, ask):
            return str(getattr(error, ask)()).partition(".")[0]
    return ""
