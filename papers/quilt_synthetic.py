"""[Q] Figure 4, upper row: error of the frequency of a state against the class of chains."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from papers.result import (
    Chart,
    Result,
    Rows,
    Settings,
    attempt,
    by_these_rows,
    simulated_error,
)
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.data.asking import mean
from pufferkit.data.query import Query
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.wasserstein import wasserstein
from pufferkit.rounding import last_passing

EPSILONS = (0.2, 1.0, 5.0)
MECHANISMS = ("gk16", "markov_quilt_approx", "markov_quilt", "influence_curve", "group_dp")
GROUP_PUBLISHED = {0.2: 5.0, 1.0: 1.0, 5.0: 0.2}
"""What [Q] 5.2 says of GroupDP in words; the other curves are in a picture only."""

NOTE = """\
Setting of [Q] 5.2: two states, T = 100, both staying probabilities anywhere in [alpha, 1 -
alpha], any start; the mean of the entries is asked for. `expected` is the mean error, exactly
the scale of the noise; `simulated` is its mean over random trials, as in the paper (500). The
error does not depend on the data, so none are drawn.

Published values are in a picture only, but for GroupDP. The caption prints 0.5 for the first
epsilon; it is 0.2.

Differs: `markov_quilt` is certified over the interval, where the authors lay a grid.

Added: `influence_curve`, and `wasserstein` as a yardstick. No distribution is fixed in an interval
class, so the Wasserstein Mechanism is given corners of the class with several starts: a lower
bound on what it would need for all of it, not a mechanism for the class."""


def figure_4_upper(settings: Settings) -> Result:
    """L1 error against alpha, for each epsilon and mechanism."""
    rng = np.random.default_rng(settings.seed)
    alphas = (
        (0.2, 0.4)
        if settings.quick
        else (*(round(0.1 + 0.02 * n, 2) for n in range(15)), 0.39, 0.4)
    )
    length, trials = (10, 50) if settings.quick else (100, 500)
    query = mean([0, 1], length)
    line = gk16_line(length)
    rows: Rows = []
    for alpha in settings.tracked(alphas, "classes"):
        theta = ChainClass.binary(alpha, 1 - alpha)
        few = few_chains(alpha)
        distance = wasserstein(few, query, 1.0).scale
        for epsilon in EPSILONS:
            shared = {"epsilon": epsilon, "alpha": alpha}
            for name in MECHANISMS:
                calibration = attempt(name, theta, query, epsilon)
                rows.append({**shared, **_row(name, calibration, trials, rng)})
            calibration = Calibration("wasserstein", epsilon, distance / epsilon, query, few)
            rows.append({**shared, **_row("wasserstein (few chains)", calibration, trials, rng)})
    for row in rows:
        is_group = row["mechanism"] == "group_dp"
        row["published"] = GROUP_PUBLISHED[row["epsilon"]] if is_group else None
    chart = Chart(
        "lines",
        "alpha",
        ("expected",),
        "mechanism",
        "epsilon",
        above=("group_dp",),
        x_label="alpha: staying probabilities lie in [alpha, 1 - alpha]",
        y_label="expected L1 error",
        marks={"GK16 applies to the right": line},
    )
    title = f"[Q] Figure 4, upper row: error against the class, T = {length}"
    claims = by_these_rows(agreement(rows))
    note = f"{NOTE}\n\nGK16 applies from alpha = {line:.4f} on.\n\n{claims}"
    return Result("quilt-figure-4-upper", title, rows, note, chart)


def agreement(rows: Rows) -> list[tuple[str, bool]]:
    """The claims of [Q] 5.2 about the figure, and whether these rows support them."""
    error = {(row["epsilon"], row["alpha"], row["mechanism"]): row["expected"] for row in rows}
    cells = sorted({(epsilon, alpha) for epsilon, alpha, _ in error})
    alphas = sorted({alpha for _, alpha in cells})

    def falls(name: str, epsilon: float) -> bool:
        known = [error[epsilon, alpha, name] for alpha in alphas]
        known = [value for value in known if value is not None]
        return all(after <= before * (1 + 1e-9) for before, after in pairwise(known))

    def applies(alpha: float) -> set[bool]:
        return {error[own] is not None for own in error if own[1:] == (alpha, "gk16")}

    ratios = [
        error[(*cell, "markov_quilt")] / error[(*cell, "gk16")]
        for cell in cells
        if error[(*cell, "gk16")] is not None
    ]
    epsilons = sorted({epsilon for epsilon, _ in cells})
    names = ("gk16", "markov_quilt", "markov_quilt_approx")
    group = [row for row in rows if row["mechanism"] == "group_dp"]
    return [
        ("errors fall as alpha grows", all(falls(n, e) for n in names for e in epsilons)),
        (
            "MQMExact needs no more noise than MQMApprox",
            all(error[(*c, "markov_quilt")] <= error[(*c, "markov_quilt_approx")] for c in cells),
        ),
        (
            "where GK16 applies does not depend on epsilon",
            all(len(applies(a)) == 1 for a in alphas),
        ),
        (
            "where both apply, MQMExact beats GK16 for some parameters and not for others",
            bool(ratios) and min(ratios) < 1 < max(ratios),
        ),
        (
            "GroupDP errs by about 5, 1, 0.2",
            all(abs(row["expected"] / row["published"] - 1) < 0.05 for row in group),
        ),
    ]


def gk16_line(length: int) -> float:
    """The least alpha for which GK16 applies, to 1e-6."""
    query: Query = mean([0, 1], length)

    def margin(alpha: float) -> float:
        return 1.0 if attempt("gk16", ChainClass.binary(alpha, 1 - alpha), query, 1.0) else -1.0

    return last_passing(margin, 0.5, 0.1, 2e-6)


def few_chains(alpha: float) -> ChainClass:
    """Corners of the interval class, each with a stationary start and two lopsided ones."""
    chains = []
    for stay_0, stay_1 in [(alpha, alpha), (1 - alpha, alpha), (1 - alpha, 1 - alpha)]:
        matrix = [[stay_0, 1 - stay_0], [1 - stay_1, stay_1]]
        chains += [MarkovChain.steady(matrix)]
        chains += [
            MarkovChain(distribution, matrix) for distribution in ([0.01, 0.99], [0.99, 0.01])
        ]
    return ChainClass.of(*chains)


def _row(
    name: str, calibration: Calibration | None, trials: int, rng: np.random.Generator
) -> dict[str, Any]:
    if calibration is None:
        return {"mechanism": name, "expected": None, "simulated": None}
    simulated = simulated_error(calibration, trials, rng)
    return {"mechanism": name, "expected": calibration.expected_l1_error, "simulated": simulated}
