"""[B] Figures 1 to 3: randomised response on binary chains."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pufferkit.audit.success_limits import success_bound
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.experiments.attack_curve import THETAS, attack_curve
from pufferkit.experiments.local_noise import noise_privacy_curves
from pufferkit.experiments.result import Chart, Claims, Result, Rows, Settings, by_these_rows
from pufferkit.local import RandomizedResponse, cheapest_noise, constraint_planes, loss

ADVERSARIES = ("ignorant", "every")

NOTE_1 = """\
q = 0.2, r = 0.35 as in the paper. `first` and `second` are the least rho_1 that each constraint
allows at a given rho_0, up to 1/2; `private` is the larger of them, and what lies above it is
shaded. A row with `cheapest` is the pair with the least expected noise.

The paper draws two lines and leaves their formulas out; here Theorem 1 is solved.

Added: the same for the adversary who may know any other entries ([B] Definition 4), which
Theorem 1 alone does not cover. `loss_every` is what each pair loses to that adversary."""

NOTE_2 = """\
Symmetric chain of 30 bits, middle bit attacked, promise epsilon = 0.5, as in the paper. dp: rho
= 1 / (e^0.5 + 1). ours: the noise that the influence curve asks for.

The published curves are in a picture only.

Panel (b) is what each success charges, the epsilon at which it would be the most allowed.

Differs: success is the mean chance that the likelier value is true, less noisy than counting
hits.

Added: our noise."""

NOTE_3 = """\
theta = 0.35, n = 30 as in the paper. Least flip probability by each rule, "-" where it has
none.

Corrected: (6) prints a factor 2 that does not belong there.

Added: `every`, the noise against adversaries who may know other entries, and `dp`, which is too
little on a chain."""


def figure_1(settings: Settings) -> Result:
    """Constraints on the two flip probabilities. Draws nothing."""
    chain = MarkovChain.steady([[0.8, 0.2], [0.35, 0.65]])
    rows: Rows = []
    work = [(e, a) for e in (0.5, 2.0) for a in ADVERSARIES]
    for epsilon, adversary in settings.tracked(work, "constraints"):
        shared = {"epsilon": epsilon, "adversary": adversary}
        for row in constraint_planes(
            chain, epsilon, adversary, points=11 if settings.quick else 51
        ):
            rows.append(
                {
                    **shared,
                    "rho_0": row["rho_0"],
                    "first": _within(row["first"]),
                    "second": _within(row["second"]),
                    "private": row["least"] if row["feasible"] else None,
                    "expected_noise": row["expected_noise"] if row["feasible"] else None,
                    "cheapest": None,
                    "loss_every": None,
                }
            )
        rho_0, rho_1 = binary_noise(chain, epsilon, adversary)
        rows.append(
            {
                **shared,
                "rho_0": rho_0,
                "first": None,
                "second": None,
                "private": None,
                "expected_noise": float(chain.stationary @ np.array([rho_0, rho_1])),
                "cheapest": rho_1,
                "loss_every": float(loss(chain, rho_0, rho_1)),
            }
        )
    chart = Chart(
        "lines",
        "rho_0",
        ("first", "second", "cheapest"),
        "adversary",
        "epsilon",
        x_label="rho_0",
        y_label="rho_1",
        labels={"ignorant": "knows no entry", "every": "knows any others"},
        shade={"private": 0.5},
    )
    title = "[B] Figure 1: constraints on the noise, q = 0.2, r = 0.35"
    return Result("local-figure-1", title, rows, f"{NOTE_1}\n\n{_said_of_lines(rows)}", chart)


def _said_of_lines(rows: Rows) -> str:
    """The cheapest pairs by Theorem 1, and whether both constraints are straight lines."""
    ignorant = [row for row in rows if row["adversary"] == "ignorant"]
    pairs = "; ".join(
        f"({row['rho_0']:.6f}, {row['cheapest']:.6f}) at epsilon {row['epsilon']:g}"
        for row in ignorant
        if row["cheapest"] is not None
    )
    bends = []
    for epsilon in {row["epsilon"] for row in ignorant}:
        for column in ("first", "second"):
            own = [row for row in ignorant if row["epsilon"] == epsilon and row[column]]
            slopes = np.diff([row[column] for row in own]) / np.diff([row["rho_0"] for row in own])
            bends.append(np.ptp(slopes) if len(slopes) else 0.0)
    straight = by_these_rows([("two straight lines at each epsilon", max(bends) < 1e-6)])
    return f"Cheapest by Theorem 1: {pairs}.\n\n{straight}"


def figure_2(settings: Settings) -> Result:
    """Attackers against DP noise and ours, over the correlation."""
    thetas, trials = ((0.02, 0.2, 0.5), 500) if settings.quick else (THETAS, 100_000)
    rows: Rows = []
    for n, theta in enumerate(settings.tracked(thetas, "correlations")):
        rows += attack_curve(0.5, [theta], trials=trials, seed=settings.seed + n)
    chart = Chart(
        "lines",
        "theta",
        ("correlation_aware", "single_bit"),
        "noise",
        x_label="theta: probability of a change (left: more correlation)",
        y_label="share of guesses that are right",
        labels={
            "correlation_aware": "knows the chain",
            "single_bit": "sees one bit",
            "dp": "DP noise",
            "ours": "our noise",
        },
        levels={"most that epsilon 0.5 allows": success_bound(0.5)},
        beside=Chart(
            "lines",
            "theta",
            ("charged", "charged_single"),
            "noise",
            x_label="theta",
            y_label="epsilon charged",
            labels={
                "charged": "knows the chain",
                "charged_single": "sees one bit",
                "dp": "DP noise",
                "ours": "our noise",
            },
            levels={"most that epsilon 0.5 allows": 0.5},
        ),
    )
    said = [by_these_rows(_said_of_attackers(rows)), by_these_rows([_said_of_us(rows)], ours=True)]
    note = "\n\n".join([NOTE_2, *said])
    return Result("local-figure-2", "[B] Figure 2: DP broken by correlation", rows, note, chart)


def _said_of_attackers(rows: Rows) -> Claims:
    """The claims of [B] 4.2 about DP noise."""
    dp = sorted((row for row in rows if row["noise"] == "dp"), key=lambda row: row["theta"])
    bound, most = dp[0]["bound"], dp[0]["correlation_aware"]
    return [
        (
            f"the attacker who sees one bit stays at the bound {bound:.3f}",
            all(row["single_bit"] <= row["bound"] + 1e-9 for row in dp),
        ),
        (
            f"the attacker who knows the chain does better as theta falls, up to {most:.3f}",
            most > bound
            and all(
                low["correlation_aware"]
                >= high["correlation_aware"] - 5 * (low["standard_error"] + high["standard_error"])
                for low, high in pairwise(dp)
            ),
        ),
        (
            "the attacker who knows the chain is charged more than twice the promise",
            max(row["charged"] for row in dp) > 2 * dp[0]["epsilon"],
        ),
    ]


def _said_of_us(rows: Rows) -> tuple[str, bool]:
    ours = [row for row in rows if row["noise"] == "ours"]
    kept = all(row["correlation_aware"] <= row["bound"] + 5 * row["standard_error"] for row in ours)
    return "under our noise no attacker exceeds the bound at any theta", kept


def figure_3(settings: Settings) -> Result:
    """Least flip probability by each rule, over epsilon. Draws nothing."""
    epsilons = (1.0, 3.0, 8.0) if settings.quick else tuple(0.25 * n for n in range(1, 41))
    rows: Rows = []
    for epsilon in settings.tracked(epsilons, "epsilons"):
        rows += noise_privacy_curves(0.35, [epsilon], 30)
    chart = Chart(
        "lines",
        "epsilon",
        ("zhao_3", "zhao_6", "approximate", "every", "ignorant", "dp"),
        x_label="epsilon",
        y_label="least flip probability",
        labels={
            "zhao_3": "[15], eps_3",
            "zhao_6": "[15], eps_6",
            "approximate": "[B] Corollary 2, closed form",
            "every": "every adversary",
            "ignorant": "[B] Theorem 1, solved",
            "dp": "DP (too little)",
        },
    )
    title = "[B] Figure 3: noise against privacy, theta = 0.35"
    note = f"{NOTE_3}\n\n{by_these_rows(_said_of_bounds(rows))}"
    return Result("local-figure-3", title, rows, note, chart)


def _said_of_bounds(rows: Rows) -> Claims:
    """The order of the curves in [B] Figure 3."""
    earlier = [
        (bound, row["approximate"])
        for row in rows
        for bound in (row["zhao_3"], row["zhao_6"])
        if bound is not None
    ]
    at_one = next((row for row in rows if row["epsilon"] == 1), rows[0])
    return [
        (
            "Zhao et al. ([15]) above the closed form of Corollary 2 wherever they have a bound",
            all(bound >= closed for bound, closed in earlier),
        ),
        (
            f"the closed form is above the exact bound: {at_one['approximate']:.4f} and "
            f"{at_one['ignorant']:.4f} at epsilon {at_one['epsilon']:g}",
            all(row["approximate"] >= row["ignorant"] for row in rows),
        ),
    ]


def binary_noise(chain: MarkovChain, epsilon: float, adversary: str) -> tuple[float, float]:
    """The cheapest pair of flip probabilities of a chain with two states."""
    noise = cheapest_noise(chain, epsilon, adversary)
    assert isinstance(noise, RandomizedResponse)
    return noise.rho_0, noise.rho_1


def _within(rho: float) -> float | None:
    return max(rho, 0.0) if rho <= 0.5 else None
