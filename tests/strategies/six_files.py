"""Generated look-alikes of six kinds of measured files, written as their devices write them.

Nothing here is measured. Each function writes files into a folder; the public people are in one
part of them, the person whose data are released in another.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

MONDAY = datetime(2024, 3, 4)


def _regimes(
    rng: np.random.Generator, stay: np.ndarray, jump: np.ndarray, length: int
) -> list[int]:
    """A path of hidden regimes: each lasts a geometric time, then moves by the rows of `jump`."""
    path: list[int] = []
    here = int(rng.integers(len(stay)))
    while len(path) < length:
        path += [here] * int(rng.geometric(1 - stay[here]))
        here = int(rng.choice(len(stay), p=jump[here]))
    return path[:length]


def glucose(folder: Path, people: int = 19, days: int = 8, seed: int = 1) -> list[Path]:
    """Sensors read every five minutes, some seconds off; hours are missing; Low and High are words.

    A file for each person, with semicolons.
    """
    files = []
    for person in range(people):
        rng = np.random.default_rng([seed, person])
        stay = np.array([0.985, 0.97, 0.96])
        jump = np.array([[0, 0.9, 0.1], [0.7, 0, 0.3], [0.4, 0.6, 0]])
        level = np.array([105.0, 145.0, 195.0]) + rng.normal(0, 6)
        value, when = level[0], MONDAY + timedelta(seconds=int(rng.integers(300)))
        lines = ["Index;Timestamp (YYYY-MM-DDThh:mm:ss);Event Type;Glucose Value (mg/dL)"]
        off = 0
        for n, regime in enumerate(_regimes(rng, stay, jump, 288 * days), 1):
            value += 0.25 * (level[regime] - value) + rng.normal(0, 6)
            if off == 0 and rng.random() < 0.002:
                off = int(rng.integers(6, 40))
            off = max(off - 1, 0)
            when += timedelta(seconds=300 + int(rng.integers(-4, 5)))
            if off == 0:
                shown = "Low" if value < 70 else "High" if value > 240 else f"{value:.0f}"
                lines.append(f"{n};{when:%Y-%m-%dT%H:%M:%S};EGV;{shown}")
        files.append(folder / f"Dexcom_{person + 1:03}.csv")
        files[-1].write_text("\n".join(lines) + "\n")
    return files


def homes(folder: Path, people: int = 18, days: int = 28, seed: int = 2) -> Path:
    """Electricity of homes by the hour: one table, one column for each home, decimal points."""
    columns = []
    for home in range(people):
        rng = np.random.default_rng([seed, home])
        stay, jump = np.array([0.93, 0.8]), np.array([[0.0, 1.0], [1.0, 0.0]])
        busy = np.array(_regimes(rng, stay, jump, 24 * days))
        hour = np.arange(24 * days) % 24
        base = 0.25 + 0.9 * busy + 0.35 * ((hour >= 17) & (hour < 22))
        columns.append(base * rng.lognormal(0, 0.35, len(base)))
    path = folder / "homes.csv"
    rows = [",".join(["localhour", *(f"home {n + 1}" for n in range(people))])]
    for at in range(24 * days):
        when = MONDAY + timedelta(hours=at)
        rows.append(f"{when:%Y-%m-%d %H:%M:%S}," + ",".join(f"{c[at]:.3f}" for c in columns))
    path.write_text("\n".join(rows) + "\n")
    return path


def occupancy(folder: Path, days: int = 14, seed: int = 3) -> Path:
    """An office by the minute, as R writes it: row names that the header does not name."""
    rng = np.random.default_rng(seed)
    lines, inside = ['"date","Temperature","CO2","Occupancy"'], 0
    for minute in range(1440 * days):
        when = MONDAY + timedelta(minutes=minute)
        open_ = when.weekday() < 5 and 8 <= when.hour < 18
        leave, enter = (0.01, 0.03) if open_ else (0.2, 0.00002)
        inside = int(rng.random() >= leave) if inside else int(rng.random() < enter)
        warm, air = 20 + 2 * inside + rng.normal(0, 0.2), 450 + 400 * inside + rng.normal(0, 20)
        lines.append(f'"{minute + 1}","{when:%Y-%m-%d %H:%M:%S}",{warm:.2f},{air:.1f},{inside}')
    path = folder / "datatraining.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def activities(folder: Path, people: int = 8, days: int = 21, seed: int = 4) -> Path:
    """Activity logs: a row is an interval with its start, its end and what was done."""
    names = ["Sleeping", "Leaving", "Spare time", "Meals", "Toilet"]
    means = [420, 150, 70, 25, 6]
    jump = np.array(
        [
            [0, 0.05, 0.15, 0.3, 0.5],
            [0.05, 0, 0.5, 0.25, 0.2],
            [0.08, 0.22, 0, 0.35, 0.35],
            [0.02, 0.28, 0.5, 0, 0.2],
            [0.1, 0.15, 0.5, 0.25, 0],
        ]
    )
    lines = ["person\tStart time\tEnd time\tActivity"]
    for person in range(people):
        rng = np.random.default_rng([seed, person])
        when, here, end = MONDAY, 0, MONDAY + timedelta(days=days)
        while when < end:
            span = max(int(rng.gamma(2.0, means[here] / 2) * 60), 60)
            until = when + timedelta(seconds=span)
            cells = (f"P{person + 1}", f"{when:%Y-%m-%d %H:%M:%S}", f"{until:%Y-%m-%d %H:%M:%S}")
            lines.append("\t".join((*cells, names[here])))
            when = until + timedelta(seconds=int(rng.integers(1, 120)))
            here = int(rng.choice(len(names), p=jump[here]))
    path = folder / "activities.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def contacts(folder: Path, people: int = 138, meetings: int = 9_000, seed: int = 5) -> list[Path]:
    """Contacts of people, one row a meeting with epoch seconds; and who was ill."""
    rng = np.random.default_rng(seed)
    group = rng.integers(6, size=people)
    lines = []
    for when in np.sort(rng.integers(0, 10 * 86_400, meetings)):
        one = int(rng.integers(people))
        near = np.flatnonzero((group == group[one]) & (np.arange(people) != one))
        other = int(rng.choice(near)) if rng.random() < 0.9 else int(rng.integers(people))
        if other != one:
            lines.append(f"{1_386_000_000 + int(when)} {one + 1} {other + 1}")
    meetings_file, ill_file = folder / "contacts.dat", folder / "ill.csv"
    meetings_file.write_text("\n".join(lines) + "\n")
    ill = [f"{n + 1},{'ill' if rng.random() < 0.2 else 'well'}" for n in range(people)]
    ill_file.write_text("\n".join(["person,state", *ill]) + "\n")
    return [meetings_file, ill_file]


def water(folder: Path, people: int = 5, days: int = 14, seed: int = 6) -> list[Path]:
    """Water of homes by the minute, nearly always 0: epoch milliseconds, a file for each home."""
    files = []
    begin = int((MONDAY - datetime(1970, 1, 1)).total_seconds())
    for home in range(people):
        rng = np.random.default_rng([seed, home])
        stay = np.array([0.993, 0.8, 0.93])
        jump = np.array([[0, 0.8, 0.2], [0.8, 0, 0.2], [0.6, 0.4, 0]])
        path = np.array(_regimes(rng, stay, jump, 1440 * days))
        flow = np.where(path == 0, 0.0, np.where(path == 1, 2.0, 7.0))
        flow = np.where(flow > 0, np.abs(flow + rng.normal(0, 0.6, len(flow))), 0.0)
        lines = [",ts,litres"]  # pandas' index has no name
        for n, litres in enumerate(flow):
            lines.append(f"{n},{(begin + 60 * n) * 1000},{litres:.2f}")
        files.append(folder / f"home_{home + 1}.csv")
        files[-1].write_text("\n".join(lines) + "\n")
    return files
