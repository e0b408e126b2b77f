"""Generated files that look like measured ones: same separators, columns and clock trouble."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

import pufferkit as pk

ACTIVITY = [[0.92, 0.06, 0.02], [0.25, 0.6, 0.15], [0.1, 0.3, 0.6]]
POWER = [[0.9, 0.08, 0.02], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]]


def _walk(rows: list[list[float]], length: int, seed: int) -> np.ndarray:
    return np.asarray(pk.MarkovChain.steady(rows).sample(length, np.random.default_rng(seed)))


def power_by_minute(path: Path, days: int = 15, seed: int = 1) -> Path:
    """Semicolons, day first, date and time in two columns, a question mark, two gaps, a stray
    space at the end of a line."""
    lines = ["Date;Time;Global_active_power;Global_reactive_power;Voltage"]
    start = datetime(2006, 12, 16, 17, 24)
    for n, level in enumerate(_walk(POWER, days * 1440, seed)):
        if n in (2000, 2001, 9000, 9001):
            continue
        value = "?" if n == 5000 else f"{(0.3, 1.4, 4.2)[level]:.3f}"
        moment = start + timedelta(minutes=n)
        lines.append(f"{moment.day}/{moment:%m/%Y;%H:%M:%S};{value};0.418;234.840")
    lines[1] += " "
    path.write_text("\n".join(lines) + "\n")
    return path


def power_by_ten_minutes(path: Path, seed: int = 2) -> Path:
    """One year; its clock lost its zone: an hour comes twice in March and never in October."""
    lines = ["month,month_day,hour,minute,active_power,week,date_time"]
    start, summer = datetime(2008, 1, 1), (datetime(2008, 3, 30, 2), datetime(2008, 10, 26, 3))
    levels = _walk(POWER, 366 * 144, seed)
    for n, level in enumerate(levels):
        local = start + timedelta(minutes=10 * n)
        shown = local - timedelta(hours=2 if summer[0] <= local < summer[1] else 1)
        value = "NA" if 9000 <= n < 9004 else f"{(0.3, 1.4, 4.2)[level]:.4f}"
        lines.append(
            f"{local.month},{local.day},{local.hour},{local.minute:.1f},{value},"
            f"{local.isocalendar().week},{shown:%Y-%m-%d %H:%M:%S}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def activity(path: Path, people: tuple[int, ...] = (21005, 21006, 21007), seed: int = 3) -> Path:
    """A week by minute of each person, and no clock: only the number of the day."""
    lines = ["seqn,paxday,paxinten"]
    for person in people:
        levels = _walk(ACTIVITY, 7 * 1440, seed + person)
        lines += [
            f"{person},{1 + n // 1440},{(0, 300, 2500)[level]}" for n, level in enumerate(levels)
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def heart_beats(folder: Path, names: tuple[str, ...] = ("N1", "N2", "N3"), seed: int = 4) -> Path:
    """One file for each sleeper: no ending, no header, spaces, a row for each beat."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        rng = np.random.default_rng(seed + number)
        fast = _walk([[0.95, 0.05], [0.1, 0.9]], 6000, seed + number)
        rate = np.where(fast, 72.0, 58.0) + rng.normal(0, 1, len(fast))
        times = 57363.008 + np.cumsum(60 / rate)
        lines = [f"{time:.3f} {bpm:.4f}" for time, bpm in zip(times, rate, strict=True)]
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def all_of_them(folder: Path) -> Path:
    """The four, under the names by which the page calls them."""
    power_by_minute(folder / "household_power_consumption.txt")
    power_by_minute(folder / "other_household.txt", seed=11)
    power_by_ten_minutes(folder / "powerconsumption_2008_10min.csv")
    activity(folder / "unidata.csv")
    activity(folder / "others.csv", people=(31001, 31002, 31003))
    heart_beats(folder / "normal")
    heart_beats(folder / "public", ("P1", "P2", "P3", "P4"), seed=40)
    return folder
