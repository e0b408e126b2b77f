"""Detection of damaged Parquet files, in a child process.

The reader panics on some damaged files and prints so from a thread of its own; for others it
requests more memory than there is, which ends the process. Neither can be caught. To report the
problem in one sentence, a child process reads the file first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pufferkit.frames import raw_files

_READ = """
import io, sys
import polars as pl
source = sys.argv[1] if len(sys.argv) > 1 else io.BytesIO(sys.stdin.buffer.read())
try:
    lazy = pl.scan_parquet(source, glob=False)
    flat = [name for name, kind in lazy.collect_schema().items() if not kind.is_nested()]
    lazy.select(pl.col(flat).hash().max()).collect(engine="streaming")
except pl.exceptions.PolarsError as error:
    print(str(error).partition("\\n")[0])
    sys.exit(3)
"""
_REFUSED = 3


def check_parquet(file: Path) -> None:
    """Raise if this is a Parquet file that cannot be read completely."""
    content = raw_files.content_of(file)
    if not (raw_files.head_of(file) if content is None else content).startswith(
        raw_files.PARQUET_MAGIC
    ):
        return
    child = subprocess.run(
        [sys.executable, "-I", "-c", _READ, *([str(file)] if content is None else [])],
        input=content,
        capture_output=True,
        check=False,
    )
    if child.returncode != 0:
        reason = child.stdout.decode(errors="replace").strip()
        damaged = "it is damaged or incomplete"
        raise ValueError(
            f"{raw_files.name_of(file)}: is not a readable Parquet file "
            f"({reason if child.returncode == _REFUSED else damaged})"
        )
