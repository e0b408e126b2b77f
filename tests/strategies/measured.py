"""Small generated files in the formats of the measured series."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import pufferkit as pk


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the experiments read."""
    folder = tmp_path_factory.mktemp("measured")
    rng = np.random.default_rng(3)
    _activity(folder / "unidata.csv", rng)
    _minutes(folder / "household_power_consumption.txt", rng)
    _ten_minutes(folder / "powerconsumption_2008_10min.csv", rng)
    (folder / "normal").mkdir()
    for name, stay in (("N5", 0.7), ("N10", 0.9)):
        _beats(folder / "normal" / name, stay, rng)
    return folder


def _walk(rows: list[list[float]], length: int, rng: np.random.Generator) -> np.ndarray:
    return pk.MarkovChain.steady(rows).sample(length, rng)


def _activity(path: Path, rng: np.random.Generator) -> None:
    levels = [[0.8, 0.15, 0.05], [0.3, 0.5, 0.2], [0.1, 0.4, 0.5]]
    lines = ["seqn,paxday,paxinten"]
    for person in (21005, 21006, 21007):
        counts = np.array([3, 200, 900])[_walk(levels, 600, rng)]
        counts[200:290] = 0  # not worn
        lines += [f"{person},{1 + n // 200},{count}" for n, count in enumerate(counts)]
    path.write_text("\n".join(lines) + "\n")


def _watts(length: int, rng: np.random.Generator) -> np.ndarray:
    levels = [[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]]
    return np.array([0.31, 0.55, 2.3])[_walk(levels, length, rng)]


def _minutes(path: Path, rng: np.random.Generator) -> None:
    lines = ["Date;Time;Global_active_power;Global_reactive_power"]
    start = datetime(2006, 12, 16, 23, 0)
    for n, kilowatts in enumerate(_watts(400, rng)):
        if n in (150, 151):
            continue  # a gap
        value = "?" if n == 300 else f"{kilowatts:.3f}"
        lines.append(f"{start + timedelta(minutes=n):%d/%m/%Y;%H:%M:%S};{value};0.1")
    path.write_text("\n".join(lines) + "\n")


def _ten_minutes(path: Path, rng: np.random.Generator) -> None:
    watts = [f"{kilowatts:.4f}" for kilowatts in _watts(300, rng)]
    watts[100] = "NA"
    lines = ["month,month_day,hour,minute,active_power", *(f"1,1,0,0.0,{w}" for w in watts)]
    path.write_text("\n".join(lines) + "\n")


def _beats(path: Path, stay: float, rng: np.random.Generator) -> None:
    bits = _walk([[stay, 1 - stay], [1 - stay, stay]], 700, rng)
    lines = [f"{52802 + 0.8 * n:.3f} {60 + 10 * bit + 0.1:.4f}" for n, bit in enumerate(bits)]
    path.write_text("\n".join(lines) + "\n")
