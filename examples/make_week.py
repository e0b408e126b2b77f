"""Generate the demo's data: one person's week, and a model from other people's weeks.

Everyone in this small world moves between four activities by the same matrix, in steps of five
minutes, whatever the time of day. One week of one person is the series to be released. The model is
counted from 52 other weeks, so it knows nothing about that person in particular.

Run ``python examples/make_week.py`` to make both files again; the seed is fixed.
"""

from __future__ import annotations

import argparse
import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from pufferkit import MarkovChain, Series
from pufferkit.fitting.fit import fit

HERE = Path(__file__).parent
ACTIVITIES = ("resting", "sitting", "standing", "walking")
MEAN_STAY = np.array([8.0, 5.0, 2.5, 2.0])  # in steps of five minutes
WHERE_TO = np.array(
    [
        [0.00, 0.50, 0.35, 0.15],
        [0.25, 0.00, 0.40, 0.35],
        [0.20, 0.45, 0.00, 0.35],
        [0.15, 0.45, 0.40, 0.00],
    ]
)
STEP = timedelta(minutes=5)
WEEK = timedelta(days=7) // STEP
MONDAY = datetime(2024, 3, 4)
OTHERS = 52
SEED = 20240304


def true_chain() -> MarkovChain:
    """The matrix by which everyone moves. Only the generator knows it."""
    leaving = 1 / MEAN_STAY
    matrix = np.diag(1 - leaving) + leaving[:, None] * WHERE_TO
    return MarkovChain.steady(matrix, ACTIVITIES)


def named(codes: np.ndarray) -> list[str]:
    """The activities with these numbers."""
    return [ACTIVITIES[code] for code in codes]


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the demo's data.")
    parser.add_argument("--into", type=Path, default=HERE, help="directory to write to")
    parser.add_argument("--others", type=Path, help="also write the 52 other weeks to this CSV")
    options = parser.parse_args()

    random, chain = np.random.default_rng(SEED), true_chain()
    week = chain.sample(WEEK, random)
    others = [chain.sample(WEEK, random) for _ in range(OTHERS)]
    times = [(MONDAY + n * STEP).isoformat(timespec="minutes") for n in range(WEEK)]

    with (options.into / "week.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time", "activity"])
        writer.writerows(zip(times, named(week), strict=True))

    model = fit(Series(np.concatenate(others), ACTIVITIES, (WEEK,) * OTHERS)).with_step("5m")
    text = json.dumps(model.to_dict(), indent=2) + "\n"
    (options.into / "activity_model.json").write_text(text, encoding="utf-8")

    if options.others is not None:
        with options.others.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["person", "time", "activity"])
            for person, codes in enumerate(others, 1):
                writer.writerows(zip([person] * WEEK, times, named(codes), strict=True))


if __name__ == "__main__":
    main()
