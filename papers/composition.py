"""[C]: what several releases cost together."""

from __future__ import annotations

from collections.abc import Sequence
from math import e, exp, log
from typing import Any, Literal

import numpy as np

from papers.result import Chart, Result, Rows, Settings, by_these_rows
from pufferkit.account.spending import Spending
from pufferkit.account.theorems import Composition, compose, entry_profile
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.data.asking import count, histogram
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.mechanisms.markov_quilt import markov_quilt_approx, max_influence

NOTE_TWICE = """\
Two entries, P(X2 = 1 | X1 = 1) = 0.9, P(X2 = 1 | X1 = 0) = 0.01; the sum is released twice,
each time with noise Lap(1). The secret is X1. Losses are logarithms.

The paper has two numbers: squared, the worst single ratio is 6.2672 e^2, and the joint one at two
equal outputs is 6.3448 e^2. So epsilons of the Wasserstein Mechanism do not add up, and this
library does not add them: two such releases are charged by what both spend on each entry.

Added: the loss at every output, not only at the worst."""

NOTE_DISTANCE = """\
Two windows of 200 entries of a chain over three activities that is not reversible, released by
markov_quilt_approx with epsilon 0.5 and 1, against the number of steps between them. The paper
gives theorems, no numbers.

theorem_3_1: [C] 3.1 with the pairing of its proof, for secrets in either window. printed: the
pairing of its statement, which can be too small. every_entry: what this library charges by the same
argument (`parallel`): entries between the windows lose to both, and 3.1 does not speak of them.
far_apart: [C] 3.3, from a gap as long as the windows on. adding: for comparison; no theorem for
windows.

Added: entry_profile, the influence curve under what both releases spend on each entry: the quilt
mechanism adds more noise than epsilon asks for. curve_profile: the same for releases by
influence_curve, whose noise is a fraction of that and leaves nothing over."""

NOTE_YEAR = """\
A histogram of three activities every week at epsilon 0.5; weeks of 2,016 entries, side by side.
The paper gives theorems, no numbers.

parallel: the argument of [C] 3.1, over all weeks and every entry. far_apart: [C] 3.3 covers two
releases by markov_quilt_approx with a gap as long as the windows: weeks 1 and 3 here. adding is not
covered by a theorem for windows; it is common practice.

Added: entry_profile. No entry is used twice."""

WEEK = MarkovChain.steady(
    [[0.90, 0.08, 0.02], [0.10, 0.80, 0.10], [0.05, 0.35, 0.60]],
    states=["resting", "sitting", "walking"],
)


def counterexample(settings: Settings) -> Result:
    """[C] Theorem 3.4: the loss of one release and of two, at every output. Draws nothing."""
    p, q = 0.9, 0.01
    rows: Rows = []
    for w in settings.tracked(
        np.linspace(-1, 3, 41 if settings.quick else 401).tolist(), "outputs"
    ):
        one = log(_ratio(w, p, q, 1))
        two = log(_ratio(w, p, q, 2))
        rows.append({"output": w, "one": one, "twice_one": 2 * one, "joint": two})
    single, joint = max(row["one"] for row in rows), max(row["joint"] for row in rows)
    levels = {"twice the worst single loss": 2 * single}
    chart = Chart(
        "lines",
        "output",
        ("twice_one", "joint"),
        labels={"twice_one": "twice the loss of one", "joint": "loss of both, equal outputs"},
        x_range=(1.9, 2.2),
        x_label="released value, near the worst",
        y_label="log-ratio of X1 = 1 to X1 = 0",
        levels=levels,
    )
    squared, both = exp(2 * single) / e**2, exp(joint) / e**2
    claims = by_these_rows(
        [
            (f"the worst single ratio, squared, is {squared:.4f} e^2", round(squared, 4) == 6.2672),
            (f"the joint one is {both:.4f} e^2", round(both, 4) == 6.3448),
            (
                f"the joint loss {joint:.4f} is above twice the single one, {2 * single:.4f}",
                joint > 2 * single,
            ),
        ]
    )
    note = f"{NOTE_TWICE}\n\n{claims}"
    title = "[C] Theorem 3.4: two releases cost more than twice one"
    return Result("composition-counterexample", title, rows, note, chart)


def _ratio(w: float, p: float, q: float, times: int) -> float:
    """p(w, ..., w | X1 = 1) / p(w, ..., w | X1 = 0) for the sum released so many times."""

    def density(at: float) -> float:
        return exp(-times * abs(w - at))

    above = density(2) * p + density(1) * (1 - p)
    return above / (density(1) * q + density(0) * (1 - q))


def distance(settings: Settings) -> Result:
    """Joint epsilon of two windows against the steps between them. Draws nothing."""
    chain, size = WEEK, 200
    first, second = (markov_quilt_approx(chain, count("walking", size), eps) for eps in (0.5, 1.0))
    ours = [influence_curve(chain, count("walking", size), eps) for eps in (0.5, 1.0)]
    gaps = (
        (1, 12, 200)
        if settings.quick
        else (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100, 200, 300)
    )
    rows: Rows = []
    for gap in settings.tracked(gaps, "distances"):
        begin = size + gap
        windows = [(1, size), (begin, begin + size - 1)]
        history = [Spending.of(first, windows[0]), Spending.of(second, windows[1])]
        row: dict[str, Any] = {"gap": gap}
        composed = compose(history, chain, begin + size - 1)
        epsilons = _by_rule(composed)
        row["theorem_3_1"] = theorem_3_1(chain, windows, (0.5, 1.0))
        row["printed"] = theorem_3_1(chain, windows, (0.5, 1.0), pairing="printed")
        row["every_entry"] = epsilons["parallel"]
        row |= {rule: epsilons[rule] for rule in ("far_apart", "entry_profile")}
        spent = [Spending.of(noise, window) for noise, window in zip(ours, windows, strict=True)]
        row["curve_profile"] = entry_profile(spent, chain, begin + size - 1)
        row["adding"] = 1.5
        rows.append(row)
    chart = Chart(
        "lines",
        "gap",
        (
            "adding",
            "every_entry",
            "theorem_3_1",
            "printed",
            "far_apart",
            "curve_profile",
            "entry_profile",
        ),
        log="x",
        labels={
            "every_entry": "[C] 3.1, entries between included",
            "theorem_3_1": "[C] 3.1 as proved, secrets in the windows",
            "printed": "[C] 3.1 as printed",
            "far_apart": "[C] 3.3",
            "curve_profile": "entry profile, released by influence_curve",
            "entry_profile": "entry profile",
        },
        x_label="steps between the windows",
        y_label="epsilon of both releases",
    )
    title = "[C] Theorems 3.1 and 3.3: two windows against their distance"
    swapped = max(row["theorem_3_1"] - row["printed"] for row in rows)
    between = max(row["every_entry"] - row["theorem_3_1"] for row in rows)
    claims = by_these_rows(
        [
            (
                f"the printed pairing is below the one of the proof by up to {swapped:.2g}",
                swapped > 0 and all(row["printed"] <= row["theorem_3_1"] for row in rows),
            ),
            (
                f"entries between the windows may lose up to {between:.2g} more than [C] 3.1 says",
                all(row["every_entry"] >= row["theorem_3_1"] - 1e-6 for row in rows),
            ),
            (
                "the entry profile, for every entry, is below [C] 3.1 at every distance",
                all(row["entry_profile"] < row["theorem_3_1"] for row in rows),
            ),
        ],
        ours=True,
    )
    return Result("composition-distance", title, rows, f"{NOTE_DISTANCE}\n\n{claims}", chart)


def _by_rule(composed: Composition) -> dict[str, float | None]:
    """Epsilon by each theorem that was considered; ``None`` where it does not apply."""
    return {c.rule: None if c.micro is None else c.micro / 1e6 for c in composed.considered}


def theorem_3_1(
    chain: MarkovChain,
    windows: Sequence[tuple[int, int]],
    epsilons: Sequence[float],
    *,
    pairing: Literal["proof", "printed"] = "proof",
) -> float:
    """[C] Theorem 3.1 for two windows of a stationary chain, first the earlier one.

    For secrets in either window: epsilon_A + e(X_T3 | X_T2) and epsilon_B + e(X_T2 | X_T3), the
    larger, and never more than the sum. The statement swaps the two influences. An entry between
    the windows may lose more, up to the sum: `pufferkit.compose` charges that.

    Examples
    --------
    >>> windows = [(1, 200), (212, 411)]
    >>> round(theorem_3_1(WEEK, windows, (0.5, 1.0)), 4)
    1.2052
    >>> round(theorem_3_1(WEEK, windows, (0.5, 1.0), pairing="printed"), 4)
    1.1992
    """
    (_, last), (first, _) = windows
    a, b = epsilons
    ahead = max_influence(chain, last, right=first - last)  # e(X_T3 | X_T2)
    back = max_influence(chain, first, left=first - last)  # e(X_T2 | X_T3)
    if pairing == "printed":
        ahead, back = back, ahead
    return max(min(a + b, a + ahead), min(a + b, b + back))


def year(settings: Settings) -> Result:
    """Joint epsilon of weekly histograms against the number of weeks. Draws nothing."""
    size, epsilon = (200 if settings.quick else 2016), 0.5
    query = histogram(WEEK.states, size)
    noises = {
        "influence_curve": influence_curve(WEEK, query, epsilon),
        "markov_quilt_approx": markov_quilt_approx(WEEK, query, epsilon),
    }
    weeks = (1, 2, 6) if settings.quick else (1, 2, 4, 8, 13, 26, 39, 52)
    rows: Rows = []
    for name, number in settings.tracked([(m, n) for m in noises for n in weeks], "histories"):
        noise = noises[name]
        windows = [(size * n + 1, size * (n + 1)) for n in range(number)]
        composed = compose([Spending.of(noise, w) for w in windows], WEEK, size * number)
        epsilons = _by_rule(composed)
        row: dict[str, Any] = {"mechanism": name, "scale": noise.scale, "weeks": number}
        for rule in ("entry_profile", "parallel"):
            alone = epsilon if number == 1 else None
            row[rule] = alone if epsilons[rule] is None else epsilons[rule]
        row |= {"far_apart": None, "adding": number * epsilon, "windows": "side by side"}
        rows.append(row)
    approx = noises["markov_quilt_approx"]
    apart = [Spending.of(approx, w) for w in ((1, size), (2 * size + 1, 3 * size))]
    rows.append(
        {
            "mechanism": "markov_quilt_approx",
            "scale": approx.scale,
            "weeks": 2,
            "far_apart": _by_rule(compose(apart, WEEK, 3 * size))["far_apart"],
            "windows": "weeks 1 and 3",
        }
    )
    chart = Chart(
        "lines",
        "weeks",
        ("adding", "parallel", "entry_profile", "far_apart"),
        panel="mechanism",
        log="y",
        labels={
            "parallel": "[C] 3.1, every entry",
            "entry_profile": "entry profile",
            "far_apart": "[C] 3.3, weeks 1 and 3",
        },
        x_label="weeks",
        y_label="epsilon of all weeks",
    )
    title = "A year of weekly releases, epsilon 0.5 each"
    costs = [row["entry_profile"] for row in rows if row["mechanism"] == "influence_curve"]
    dear = costs[-1] / costs[0] - 1
    claim = f"{weeks[-1]} weeks cost {100 * dear:.2g}% more than one, by the entry profile"
    note = f"{NOTE_YEAR}\n\n{by_these_rows([(claim, dear < 0.05)], ours=True)}"
    return Result("composition-year", title, rows, note, chart)
