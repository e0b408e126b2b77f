"""Draw docs/images/week.png: a generated week of one person, and what one entry gives away."""

from __future__ import annotations

import numpy as np

import pufferkit as pk
from pufferkit.plots.canvas import BLACK, BLUE, ORANGE, SKY


def main(path: str = "docs/images/week.png") -> None:
    """Draw it."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    levels = ["still", "light", "brisk"]
    regimes = np.array([[0.98, 0.02, 0.0], [0.02, 0.95, 0.03], [0.0, 0.06, 0.94]])
    shown = np.array([[0.95, 0.04, 0.01], [0.5, 0.4, 0.1], [0.1, 0.4, 0.5]])
    person = pk.RegimeClass(regimes, shown, levels)
    codes = person.models[0].sample(7 * 144, seed=3).reshape(7, 144)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    week, bars = figure.subplots(1, 2, width_ratios=(3, 2))
    colours = np.array([[0.93, 0.93, 0.95], [0.45, 0.7, 0.9], [0.05, 0.3, 0.6]])
    week.imshow(colours[codes], aspect="auto", extent=(0, 24, 7.5, 0.5), interpolation="nearest")
    week.set_xticks(range(0, 25, 6))
    week.set_xlabel("hour")
    week.set_ylabel("day")
    week.set_title("one person, every ten minutes", fontsize=10)
    single = pk.fit([levels[x] for x in person.models[0].sample(10_000, seed=1)], smoothing=0.5)
    names = ["one chain", "hidden regimes"]
    entries = [0.05 / pk.entry_epsilon(b, 1008, 0.05) for b in (single, person)]
    bars.barh(names, entries, color=[SKY, BLUE], edgecolor=BLACK)
    for y, value in enumerate(entries):
        bars.annotate(f" {value:.0f}", (value, y), va="center")
    bars.set_xlim(0, max(entries) * 1.2)
    bars.set_xlabel("entries that one entry gives away")
    bars.invert_yaxis()
    bars.spines[["top", "right"]].set_visible(False)
    bars.set_title("what each belief budgets", fontsize=10, color=ORANGE)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
