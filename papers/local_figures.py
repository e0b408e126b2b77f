"""[B] Figures 1 to 3: randomised response on binary chains.

Figure 2 breaks noise that ignores correlation: bits from a symmetric chain that changes with
probability theta are flipped with probability rho. Two choices of rho at the same epsilon:

- *dp*: rho = 1 / (e^epsilon + 1), [B] (5), which hides a bit that no other bit predicts;
- *ours*: rho = 1 / (e^b + 1), with b the event-level epsilon that `entry_epsilon` allows, so
  that the promise holds against adversaries who know the chain.

Figure 3 puts other published amounts of noise beside ours, for a symmetric chain with rho_0 =
rho_1 = rho. Only `exact_rho` and `every_rho` are what the package uses; the others are bounds from
the literature, as the errata correct them, and what plain differential privacy would take.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import exp, expm1, log, log1p, sqrt
from typing import Any

import numpy as np

from papers.result import Chart, Claims, Result, Rows, Settings, by_these_rows
from pufferkit import checks
from pufferkit.audit.answer_model import conditioned, cumulative_rows
from pufferkit.audit.limits import charged_epsilon, success_bound
from pufferkit.audit.local_audit import log_likelihood
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local import RandomizedResponse, cheapest_noise, constraint_planes, loss
from pufferkit.local.least_noise import answer_limits
from pufferkit.local.sides import Binary
from pufferkit.mechanisms.influence_curve import entry_epsilon

ADVERSARIES = ("ignorant", "every")
THETAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_LARGE = 700.0

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


def attack_curve(
    epsilon: float = 0.5,
    thetas: Iterable[float] = THETAS,
    *,
    length: int = 30,
    trials: int = 20_000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Rows of [B] Figure 2, one for each correlation and each kind of noise.

    Parameters
    ----------
    epsilon
        The promise.
    thetas
        Probabilities of a change between neighbours, above 0 and at most 1/2; lower is more
        correlated.
    length
        Bits in the series; the middle one is attacked.
    trials
        Sanitised series for each row.
    seed
        For data and noise, which are simulated.

    Returns
    -------
    Rows with ``theta``, ``noise`` ("dp" or "ours"), ``rho``, ``single_bit`` and
    ``correlation_aware`` (success), ``charged`` and ``charged_single`` (the epsilon
    that the success of the second and of the first means), ``bound`` and ``standard_error``.
    """
    epsilon = checks.privacy(epsilon)
    length = checks.whole("length", length, 1)
    trials = checks.whole("trials", trials, 1)
    rng = np.random.default_rng(seed)
    rows = []
    for theta in thetas:
        if not 0 < checks.real("thetas", theta) <= 0.5:
            raise ValueError(f"thetas: must lie above 0 and at most at 0.5, got {theta:g}")
        chain = MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
        b = entry_epsilon(chain, length, epsilon)
        for noise, privacy in (("dp", epsilon), ("ours", b)):
            rho = 1 / (exp(privacy) + 1)
            aware, error = _success(chain, rho, length, trials, rng)
            rows.append(
                {
                    "theta": float(theta),
                    "noise": noise,
                    "epsilon": epsilon,
                    "rho": rho,
                    "single_bit": 1 - rho,
                    "correlation_aware": aware,
                    "charged": charged_epsilon(aware),
                    "charged_single": charged_epsilon(1 - rho),
                    "bound": success_bound(epsilon),
                    "standard_error": error,
                }
            )
    return rows


def _success(
    chain: MarkovChain, rho: float, length: int, trials: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Success of the correlation-aware attacker on the middle bit, and its standard error.

    The mean, over sanitised series, of the chance that the likelier value is the true one: less
    noisy than counting hits, and with the same mean.
    """
    matrix: Floats = np.array([[1 - rho, rho], [rho, 1 - rho]])
    middle = (length - 1) // 2
    truth = conditioned(chain, length, {}).sample(trials, rng)
    sums = cumulative_rows(matrix)
    seen = (rng.random(truth.shape)[..., None] >= sums[truth]).sum(axis=-1).astype(np.uint16)
    sides = [conditioned(chain, length, {middle: x}) for x in (0, 1)]
    # Equal priors: the posterior odds are the ratio of the likelihoods.
    zero, one = (log_likelihood(side, matrix, seen) for side in sides)
    chance = 1 / (1 + np.exp(-np.abs(one - zero)))
    return float(chance.mean()), float(chance.std() / sqrt(trials))


def dp_rho(epsilon: float) -> float:
    """1 / (e^eps + 1): differential privacy for each entry, [B] (5); too little on chains."""
    return _logistic(-checks.privacy(epsilon))


def exact_rho(theta: float, epsilon: float) -> float:
    """The least rho against the ignorant adversary: [B] Theorem 1 solved, as the errata do."""
    return _by_limit(theta, epsilon, "ignorant")


def every_rho(theta: float, epsilon: float) -> float:
    """The least equal rho against every adversary, for any length."""
    return _by_limit(theta, epsilon, "every")


def approximate_rho(theta: float, epsilon: float) -> float:
    """The closed form of [B] Corollary 2: enough against the ignorant adversary, but loose.

    It is written here over e^eps, so that no large epsilon overflows.
    """
    theta, epsilon = _theta(theta), checks.privacy(epsilon)
    e, square = exp(-epsilon), theta * theta
    root = sqrt(square * ((4 - 4 * theta) * e + square))
    return (square + (4 - 2 * theta) * e - root) / (2 * square + (8 + 2 * square - 8 * theta) * e)


def zhao_3(theta: float, epsilon: float) -> float | None:
    """Zhao et al.'s eps_3 = eps - 6 log((1 - theta) / theta), then 1 / (e^{eps_3} + 1).

    ``None`` where eps_3 is not positive: it then says nothing. [B] (6) prints a factor 2 too many.
    """
    theta, epsilon = _theta(theta), checks.privacy(epsilon)
    left = epsilon - 6 * (log1p(-theta) - log(theta))
    return _logistic(-left) if left > 0 else None


def zhao_6(theta: float, epsilon: float, length: int) -> float | None:
    """Zhao et al.'s eps_6, then 1 / (e^{eps_6} + 1).

    eps_6 is the largest, over 1 <= t <= n/2, of
    (eps - 6 log((1 + (1 - 2 theta)^t) / (1 - (1 - 2 theta)^t))) / (2 t - 1).
    ``None`` where none is positive.
    """
    theta, epsilon = _theta(theta), checks.privacy(epsilon)
    size = checks.whole("length", length, 2)
    best, rate = 0.0, log1p(-2 * theta)
    for t in range(1, size // 2 + 1):
        if epsilon <= best * (2 * t - 1):
            break  # no larger t can do better
        power = exp(t * rate)
        cost = 6 * (log1p(power) - log(-expm1(t * rate)))
        best = max(best, (epsilon - cost) / (2 * t - 1))
    return _logistic(-best) if best > 0 else None


def noise_privacy_curves(
    theta: float, epsilons: Iterable[float], length: int = 30
) -> list[dict[str, Any]]:
    """Least rho by each bound, one row for each epsilon ([B] Figure 3).

    Parameters
    ----------
    theta
        Probability that the chain changes state, below 1/2.
    epsilons
        Where to evaluate.
    length
        For Zhao et al.'s eps_6, whose t goes up to half of it.
    """
    return [
        {
            "epsilon": float(epsilon),
            "dp": dp_rho(epsilon),
            "ignorant": exact_rho(theta, epsilon),
            "every": every_rho(theta, epsilon),
            "approximate": approximate_rho(theta, epsilon),
            "zhao_3": zhao_3(theta, epsilon),
            "zhao_6": zhao_6(theta, epsilon, length),
        }
        for epsilon in epsilons
    ]


def _by_limit(theta: float, epsilon: float, adversary: str) -> float:
    theta = _theta(theta)
    chain = MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
    a, b = answer_limits(Binary.of(chain), checks.privacy(epsilon), adversary, None)
    return _logistic(-min(a, b))


def _logistic(x: float) -> float:
    """1 / (1 + e^-x)."""
    return 1 / (1 + exp(-x)) if x > -_LARGE else exp(x)


def _theta(theta: float) -> float:
    number = checks.real("theta", theta)
    if not 0 < number < 0.5:
        raise ValueError(f"theta: must lie between 0 and 1/2, got {number:g}")
    return number
