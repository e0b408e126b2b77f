"""A job that runs once a day: for each file of a folder, named by its day, a histogram with noise.

    python examples/daily_stream.py DAYS MODEL.json LEDGER.db OUT [LATE]

Run it as often as you like. A released day is returned unchanged from the ledger, so a crash
or a second run draws nothing anew. LATE says what to do with rows of earlier days in a file:
refuse (the default) or "leave out".
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import pufferkit as pk


def main(
    days: str, model: str, ledger: str, out: str, late: str = "refuse", epsilon: float = 1.0
) -> list[Path]:
    """Release every day of the folder; the files that were written."""
    beliefs = pk.ChainClass.from_json(Path(model).read_text(encoding="utf-8"))
    written = []
    with pk.Ledger(ledger) as book:
        stream = pk.Stream(beliefs, epsilon, book, name=Path(days).name)
        for file in sorted(Path(days).glob("*.csv")):
            begin = datetime.fromisoformat(file.stem)
            data, before = pk.frames.read_window(
                file,
                "state",
                "time",
                (begin, begin + timedelta(days=1)),
                states=beliefs.states,
                late=late,  # type: ignore[arg-type]
            )
            if before:
                print(f"{file.name}: {before} rows of earlier days: {late}")
            release = stream.release(pk.histogram(beliefs.states, data), data, file.stem)
            target = Path(out) / f"{file.stem}.json"
            part = target.with_suffix(".part")
            part.write_text(release.to_json(), encoding="utf-8")
            part.replace(target)
            written.append(target)
    return written


if __name__ == "__main__":
    main(*sys.argv[1:])
