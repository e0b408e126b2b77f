"""A job that runs once a day: for each file of a folder, named by its day, a histogram with noise.

    python examples/daily_stream.py DAYS MODEL.json LEDGER.db OUT

Run it as often as you like. A released day is returned unchanged from the ledger, so a crash
or a second run draws nothing anew. Rows of other days in a file are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pufferkit as pk


def main(days: str, model: str, ledger: str, out: str, epsilon: float = 1.0) -> list[Path]:
    """Release every day of the folder; the files that were written."""
    beliefs = pk.ChainClass.from_json(Path(model).read_text(encoding="utf-8"))
    written = []
    with pk.Ledger(ledger) as book:
        account = pk.Account(book, Path(days).name, epsilon)
        for file in sorted(Path(days).glob("*.csv")):
            data = pk.read(file, state="state", time="time", states=beliefs.states)
            release = pk.release(
                data, beliefs, pk.histogram(), epsilon, account=account, window=file.stem
            )
            target = Path(out) / f"{file.stem}.json"
            part = target.with_suffix(".part")
            part.write_text(release.to_json(), encoding="utf-8")
            part.replace(target)
            written.append(target)
    return written


if __name__ == "__main__":
    main(*sys.argv[1:])
