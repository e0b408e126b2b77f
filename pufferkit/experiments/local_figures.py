"""[B] Figures 1 to 3: randomised response on binary chains."""

from __future__ import annotations

import numpy as np

from pufferkit.audit.limits import success_bound
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.experiments.attack_curve import THETAS, attack_curve
from pufferkit.experiments.local_noise import noise_privacy_curves
from pufferkit.experiments.result import Chart, Result, Rows, Settings
from pufferkit.local import (
    RandomizedResponse,
    cheapest_noise,
    constraint_planes,
    loss,
)

ADVERSARIES = ("ignorant", "every")

NOTE_1 = """\
q = 0.2, r = 0.35 as in the paper. `first` and `second` are the least rho_1 that each constraint
allows at a given rho_0, up to 1/2; `private` is the larger of them, and what lies above it is
shaded. A row with `cheapest` is the pair with the least expected noise.

Agrees: two straight lines. The paper leaves their formulas out; solved, Theorem 1 gives
(0.342902, 0.255443) at epsilon 2 and (0.415235, 0.5) at 0.5.

Added: the same for the adversary who may know any other entries ([B] Definition 4), which
Theorem 1 alone does not cover. `loss_every` is what each pair loses to that adversary."""

NOTE_2 = """\
Symmetric chain of 30 bits, middle bit attacked, promise epsilon = 0.5, as in the paper. dp: rho
= 1 / (e^0.5 + 1). ours: the noise that the influence curve asks for.

Agrees: the attacker who sees one bit stays at the bound 0.622; the one who knows the chain goes
far beyond it as theta falls. The published curves are in a picture only.

Panel (b) is what each success charges, the epsilon at which it would be the most allowed.

Differs: success is the mean chance that the likelier value is true, less noisy than counting
hits.

Added: our noise, under which the bound holds at every theta."""

NOTE_3 = """\
theta = 0.35, n = 30 as in the paper. Least flip probability by each rule, "-" where it has
none.

Agrees: Zhao et al. ([15]) above the closed form of Corollary 2, that above the exact bound.

Corrected: (6) prints a factor 2 that does not belong there. The closed form is loose: at
epsilon 1 it gives 0.4328, where 0.3649 is enough.

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
    return Result("local-figure-1", title, rows, NOTE_1, chart)


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
    return Result("local-figure-2", "[B] Figure 2: DP broken by correlation", rows, NOTE_2, chart)


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
    return Result("local-figure-3", title, rows, NOTE_3, chart)


def binary_noise(chain: MarkovChain, epsilon: float, adversary: str) -> tuple[float, float]:
    """The cheapest pair of flip probabilities of a chain with two states."""
    noise = cheapest_noise(chain, epsilon, adversary)
    assert isinstance(noise, RandomizedResponse)
    return noise.rho_0, noise.rho_1


def _within(rho: float) -> float | None:
    return max(rho, 0.0) if rho <= 0.5 else None
