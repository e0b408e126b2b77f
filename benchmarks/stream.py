"""A stream: the error of a day for ever over that of one day alone, and what a release costs."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import pufferkit as pk

MODEL = Path(__file__).parents[1] / "examples" / "activity_model.json"


def main(windows: int = 300, model: Path = MODEL) -> None:
    """Print the ratio of errors, and milliseconds a release, early and late."""
    beliefs = pk.ChainClass.from_dict(json.loads(model.read_text()))
    minutes = 1440
    query = pk.histogram(beliefs.states, minutes)
    day = [beliefs.states[n % len(beliefs.states)] for n in range(minutes)]
    print("epsilon  error of a day alone  for ever  ratio")
    with tempfile.TemporaryDirectory() as folder, pk.Ledger(f"{folder}/l.db") as ledger:
        for epsilon in (0.2, 1.0, 5.0):
            alone = pk.influence_curve(beliefs, query, epsilon).expected_l1_error
            stream = pk.Stream(beliefs, epsilon, ledger, name=f"{epsilon}")
            ever = stream.calibrate(query).expected_l1_error
            print(f"{epsilon:7g}  {alone:20.2f}  {ever:8.2f}  {ever / alone:.5f}")
        seconds = []
        for n in range(windows):
            start = time.perf_counter()
            stream.release(query, day, (minutes * n + 1, minutes * (n + 1)))
            seconds.append(time.perf_counter() - start)
    part = max(1, windows // 4)
    early, late = sorted(seconds[1:part])[part // 2], sorted(seconds[-part:])[part // 2]
    print(f"a release: {1e3 * early:.1f} ms early, {1e3 * late:.1f} ms after {windows} others")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *map(Path, sys.argv[2:3]))
