"""Draw docs/images/for-ever.png: the error of a day's histogram against the years it has run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import pufferkit as pk
from pufferkit.plots.canvas import BLACK, BLUE, ORANGE

MODEL = Path(__file__).with_name("activity_model.json")


def main(path: str = "docs/images/for-ever.png") -> None:
    """Draw it."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    beliefs = pk.ChainClass.from_dict(json.loads(MODEL.read_text()))
    query = pk.histogram(beliefs.states, 1440)
    alone = pk.influence_curve(beliefs, query, 1.0)
    ever = pk.entry_epsilon(beliefs, 10**12, 1.0)
    minutes = alone.scale * pk.entry_epsilon(beliefs, 1440, 1.0) / ever
    years = np.geomspace(1 / 365, 20, 60)
    # One budget of 1 for all days so far, shared by adding epsilons up.
    shared = [
        pk.influence_curve(beliefs, query, 1 / round(365 * year)).scale for year in years[::12]
    ]
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.loglog(years[::12], shared, "o-", color=ORANGE, label="epsilons added up, 1 in all")
    axes.loglog(
        years, np.full(60, minutes), color=BLUE, lw=2.5, label="an account, epsilon 1 in all"
    )
    axes.loglog(years, np.full(60, alone.scale), ":", color=BLACK, label="one day alone, epsilon 1")
    axes.set_xlabel("years it has run, a histogram every day")
    axes.set_ylabel("error of a bin, minutes")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
