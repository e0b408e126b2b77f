"""Demo data for the explorer: people who move between activities, simulated with a fixed seed."""

from __future__ import annotations

import csv
import random
from datetime import datetime, timedelta
from pathlib import Path

import pufferkit as pk
from pufferkit.explore.choices import DataFile

STATES = ("resting", "sitting", "standing", "walking")
ROWS = (
    (0.875, 0.0625, 0.04375, 0.01875),
    (0.05, 0.80, 0.08, 0.07),
    (0.08, 0.18, 0.60, 0.14),
    (0.075, 0.225, 0.20, 0.50),
)
PEOPLE = 12
STEP = timedelta(minutes=5)
WEEK = timedelta(days=7) // STEP
MONDAY = datetime(2024, 3, 4)
SEED = 20240304


def make_demo(folder: Path) -> tuple[DataFile, DataFile]:
    """Write one person's week and those of twelve others, and return how to read them."""
    chain = pk.MarkovChain.steady(ROWS, STATES)
    mine, others = folder / "demo-week.csv", folder / "demo-others.csv"
    seeds = random.Random(SEED)
    with mine.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time", "activity"])
        writer.writerows(_rows(chain, seeds))
    with others.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["person", "time", "activity"])
        for person in range(1, PEOPLE + 1):
            writer.writerows((f"person {person}", *row) for row in _rows(chain, seeds))
    for path in (mine, others):
        path.chmod(0o600)
    return (
        DataFile(str(mine), "activity", "time"),
        DataFile(str(others), "activity", "time", "person"),
    )


def _rows(chain: pk.MarkovChain, seeds: random.Random) -> list[tuple[str, str]]:
    codes = chain.sample(WEEK, seed=seeds.randrange(2**31))
    return [
        ((MONDAY + n * STEP).isoformat(timespec="minutes"), STATES[code])
        for n, code in enumerate(codes)
    ]
