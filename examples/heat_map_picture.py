"""The heat map of docs/questions.md: made-up people, one release over all of them."""

import sys
from datetime import datetime

import numpy as np
import polars as pl

import pufferkit as pk
from pufferkit import plots

STATES = ["rest", "walk", "run"]
CHAIN = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.4, 0.4, 0.2], [0.4, 0.3, 0.3]], states=STATES)
PEOPLE, HOURS = 100, 24 * 28


def rows() -> pl.DataFrame:
    """People who sleep at night, and run on the mornings of weekends."""
    rng = np.random.default_rng(1)
    hour, day = np.arange(HOURS) % 24, np.arange(HOURS) // 24 % 7
    chance = np.where((hour < 7) | (hour > 22), 0.02, 0.3)
    runs = np.where((day > 4) & (hour > 7) & (hour < 11), 0.7, 0.15)
    active = rng.random((PEOPLE, HOURS)) < chance
    codes = np.where(active, np.where(rng.random((PEOPLE, HOURS)) < runs, 2, 1), 0)
    times = pl.datetime_range(
        datetime(2024, 1, 1), datetime(2024, 1, 28, 23), "1h", eager=True
    ).to_list()
    return pl.DataFrame(
        {
            "who": np.repeat(np.arange(PEOPLE), HOURS),
            "time": times * PEOPLE,
            "state": np.array(STATES)[codes.ravel()],
        }
    )


if __name__ == "__main__":
    table = pk.read(
        rows(), subject="who", time="time", state="state", states=STATES, window="hour of week"
    )
    heat = pk.release(table, CHAIN, "by-weekday-hour", 1, per="all")
    with open(sys.argv[1], "wb") as file:
        file.write(plots.picture(plots.figure_of(heat), sys.argv[1]))
