"""The table of "How data decide" (docs/choosing.md), from measured files that are not included.

    python examples/measured_beliefs.py FOLDER activity 10      # minutes of an entry: 1, 10 or 60
    python examples/measured_beliefs.py FOLDER power
    python examples/measured_beliefs.py FOLDER heart --seed 3

FOLDER holds `unidata.csv` (NHANES 2003-2004), `powerconsumption_2008_10min.csv` (UCI household
power) and `normal/N1` to `N11` (PhysioNet, meditation). With ``--fresh`` each person in turn is
left out of everything, and what is recommended by the others is tested on this person.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

import pufferkit as pk


def activity(folder: Path, minutes: int) -> tuple[list[pk.Series], int]:
    """Five people, a week each: levels of counts by the minute, or of their means."""
    counts: dict[str, list[float]] = {}
    with (folder / "unidata.csv").open() as file:
        for row in csv.DictReader(file):
            counts.setdefault(row["seqn"], []).append(float(row["paxinten"]))
    cuts = [100, 760, 2020, 5999] if minutes == 1 else [100, 400, 1000]
    people = []
    for own in counts.values():
        means = np.array(own).reshape(-1, minutes).mean(axis=1)
        people.append(_levels(np.searchsorted(cuts, means, side="right"), len(cuts) + 1))
    return people, 1440 // minutes


def power(folder: Path) -> tuple[list[pk.Series], int]:
    """One home by ten minutes, its months in place of people; cut at 0.4, 1 and 2 kW."""
    months: dict[str, list[int]] = {}
    with (folder / "powerconsumption_2008_10min.csv").open() as file:
        for row in csv.DictReader(file):
            kilowatts = row["active_power"]
            unseen = kilowatts in ("NA", "")
            level = -1 if unseen else np.searchsorted([0.4, 1, 2], float(kilowatts), "right")
            months.setdefault(row["month"], []).append(int(level))
    return [_levels(np.array(own), 4) for own in months.values()], 144


def heart(folder: Path) -> tuple[list[pk.Series], None]:
    """Eleven sleepers by the beat, above or below their own median."""
    rates = [np.loadtxt(folder / "normal" / f"N{n}")[:, 1] for n in range(1, 12)]
    return [_levels((rate > np.median(rate)).astype(int), 2) for rate in rates], None


def _levels(codes: np.ndarray, count: int) -> pk.Series:
    return pk.Series(codes, tuple(range(count)), (len(codes),))


def main() -> None:
    """Print the table, or how fresh people judge what the others recommend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=["activity", "power", "heart"])
    parser.add_argument("minutes", type=int, nargs="?", default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true")
    given = parser.parse_args()
    if given.kind == "activity":
        people, day = activity(given.folder, given.minutes)
    else:
        people, day = (power if given.kind == "power" else heart)(given.folder)
    query = pk.relative_frequencies(people[0].states, max(people, key=len).lengths)
    if not given.fresh:
        print(pk.choose_beliefs(people, query, day=day, seed=given.seed))
        return
    for number, person in enumerate(people):
        others = [*people[:number], *people[number + 1 :]]
        best = pk.choose_beliefs(others, query, day=day, seed=given.seed).best
        name = "nothing is recommended" if best is None else best.name
        print(f"without {number + 1}: {name}")
        if best is not None:
            print(pk.check_model(person, best.beliefs, day=day))


if __name__ == "__main__":
    main()
