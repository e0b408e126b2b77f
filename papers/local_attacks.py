"""[B] Figure 4: attackers on sanitised bits, synthetic and heart rate, against the bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import measured_series as files
from papers.local_figures import binary_noise
from papers.lstm import Training, cross_validate
from papers.result import Chart, Claims, Result, Rows, Settings, by_these_rows
from pufferkit.audit.attackers import ForwardBackward, Viterbi
from pufferkit.audit.limits import success_bound
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.fitting.fit import fit
from pufferkit.local import loss

Bits = NDArray[np.intp]

PUBLISHED = {"N10": (0.0893, 0.1092, 26923), "N5": (0.2384, 0.3831, 16859)}
"""q, r and length that [B] gives for its two sleepers; these files have them."""

_STRETCH = 100
"""Entries side by side in a fold, fewer in a short series: every fold is of the whole night."""

NOTE = """\
Bits are sanitised by randomised response and guessed back; `success` is the share guessed
right. noise "ignorant" is that of the paper (Theorem 1, solved); noise "every" keeps the
promise also to those who know other entries ([B] Definition 4). `loss_every` is what the noise
loses to them: under "ignorant" it can exceed epsilon.

`bound` is m e^eps / (1 + m e^eps) with prior odds m; the paper prints it upside down
(`printed`): for N5 and epsilon 0.5 that is 0.506, where always guessing the commoner state gets
0.616 (`commoner`).

With --data, the heart rates of sleepers N10 and N5 are read. Published curves are in a picture
only.

The LSTM is validated on 10 folds, as in the paper, on the noise "ignorant" only. It reads 128
entries at once and from both sides; the paper's reads a window from one side and guesses the bit in
its middle from the last state. A fold is every tenth stretch of 100 entries. The share of ones
changes through the night, so with ten whole stretches as folds what it learned elsewhere misleads
it at small epsilon, to less than what always guessing the commoner state gets.

Added: the exact posterior (forward_backward), the best there is on a true chain. Viterbi seeks the
likeliest sequence, not the likeliest bit, so more than Viterbi gets is no sign of more memory than
a chain has, unless it is also more than the posterior gets. Heart rate is no true chain: there
Viterbi and the LSTM can do better than the posterior.

The chain of the heart rates is counted from the data that are sanitised, as the paper does to
compare; that is itself a release, and must not be done in practice."""


def figure_4(settings: Settings) -> Result:
    """Success of each attacker against epsilon, for each series and kind of noise."""
    rng = np.random.default_rng(settings.seed)
    series = {"synthetic": _synthetic(1500 if settings.quick else PUBLISHED["N10"][2], rng)}
    if settings.data is not None:
        for name in PUBLISHED:
            rates = files.heart_rate(files.need(settings.data, name))
            series[name] = (rates > rates.mean()).astype(np.intp)[
                : 1500 if settings.quick else None
            ]
        if settings.data.is_file():
            raise ValueError(f"data: {settings.data} must be a folder here, with files N5 and N10")
    training = Training(epochs=16, batch=2048, rate=0.04, seed=settings.seed)
    learns = not settings.quick and find_spec("torch") is not None
    epsilons = (1.0, 4.0) if settings.quick else (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
    rows: Rows = []
    work = [(name, e, a) for name in series for e in epsilons for a in ("ignorant", "every")]
    for name, epsilon, adversary in settings.tracked(work, "attacks"):
        learner = training if learns and adversary == "ignorant" else None
        outcome = _attacked(series[name], epsilon, adversary, rng, learner)
        rows += [{"series": name, **row} for row in outcome]
    chart = Chart(
        "lines",
        "epsilon",
        ("success",),
        "attack",
        "series",
        x_label="epsilon",
        y_label="share of bits guessed right",
    )
    title = "[B] Figure 4: attackers on sanitised bits against the bound"
    note = f"{NOTE}\n\n{by_these_rows(_said(rows, series, cut=settings.quick))}"
    if learns:
        note += f"\n\n{by_these_rows(_learned(rows, series), ours=True)}"
    if settings.quick:
        note += (
            "\n\nQuick settings leave the LSTM out and cut every series to 1,500 entries, so q, r "
            "and n are not held against the paper's."
        )
    elif not learns:
        note += "\n\ntorch is not installed, so there is no LSTM; pip install torch."
    return Result("local-figure-4", title, rows, note, chart)


def _said(rows: Rows, series: dict[str, Bits], *, cut: bool) -> Claims:
    """The claims of [B] 4.3 about the figure, and whether these rows support them."""
    success = {(row["series"], row["epsilon"], row["attack"]): row["success"] for row in rows}
    over = max(
        share
        - success[name, epsilon, "bound"]
        - 3 * (share * (1 - share) / len(series[name])) ** 0.5
        for (name, epsilon, attack), share in success.items()
        if attack not in ("bound", "printed")
    )
    yield "no attacker exceeds the bound by more than three standard errors", over <= 0
    for name, bits in series.items():
        gaps = [
            share - success[name, epsilon, "viterbi, ignorant"]
            for (own, epsilon, attack), share in success.items()
            if own == name and attack == "lstm, ignorant"
        ]
        if gaps:
            low, high = min(gaps), max(gaps)
            yield f"{name}: the LSTM does as well as Viterbi to 0.02 ({low:+.3f})", low >= -0.02
            yield f"{name}: it does no better than Viterbi to 0.02 ({high:+.3f})", high <= 0.02
        if name in PUBLISHED and not cut:
            row = next(row for row in rows if row["series"] == name)
            own = (row["q"], row["r"], len(bits))
            same = all(abs(a - b) <= 1e-4 for a, b in zip(own, PUBLISHED[name], strict=True))
            yield f"{name} has q = {own[0]:.4f}, r = {own[1]:.4f}, n = {own[2]}", same


def _learned(rows: Rows, series: dict[str, Bits]) -> Claims:
    """Whether the LSTM learned what there is to learn."""
    by_attack = {(row["series"], row["epsilon"], row["attack"]): row for row in rows}
    short, lost = [], []
    for (name, epsilon, attack), row in by_attack.items():
        if attack == "lstm, ignorant":
            exact = by_attack[name, epsilon, "forward_backward, ignorant"]["success"]
            if name == "synthetic":
                short.append(exact - row["success"])
            share = row["commoner"]
            error = (share * (1 - share) / len(series[name])) ** 0.5
            lost.append((share - row["success"]) / error)
    said = f"on the true chain the LSTM gets what the posterior gets to 0.01 ({-max(short):+.3f})"
    yield said, max(short) <= 0.01
    said = "the LSTM is nowhere three standard errors below always guessing the commoner state"
    yield f"{said} ({-max(lost):+.1f})", max(lost) < 3


def _attacked(
    bits: Bits,
    epsilon: float,
    adversary: str,
    rng: np.random.Generator,
    training: Training | None,
) -> Rows:
    chain = fit(Series(bits, (0, 1), (len(bits),)))
    rho_0, rho_1 = binary_noise(chain, epsilon, adversary)
    matrix: Floats = np.array([[1 - rho_0, rho_0], [rho_1, 1 - rho_1]])
    seen = np.where(rng.random(len(bits)) < np.where(bits == 0, rho_0, rho_1), 1 - bits, bits)
    success = {
        "viterbi": Viterbi(chain, matrix).success(seen, bits),
        "forward_backward": ForwardBackward(chain, matrix).success(seen, bits),
    }
    if training is not None:
        with _one_thread():
            stretch = min(_STRETCH, len(bits) // 20)
            validation = cross_validate(seen, bits, training=training, stretch=stretch)
            success["lstm"] = validation.accuracy
    odds = float(chain.stationary.max() / chain.stationary.min())
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "noise": adversary,
        "q": float(chain.transition[0, 1]),
        "r": float(chain.transition[1, 0]),
        "rho_0": rho_0,
        "rho_1": rho_1,
        "loss_every": float(loss(chain, rho_0, rho_1)),
        "commoner": float(max(bits.mean(), 1 - bits.mean())),
    }
    lines = {f"{attacker}, {adversary}": share for attacker, share in success.items()}
    if adversary == "ignorant":
        lines["bound"] = success_bound(epsilon, odds)
        lines["printed"] = exp(epsilon) / (odds + exp(epsilon))
    return [{**shared, "attack": name, "success": share} for name, share in lines.items()]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: so small a network is slower on several, especially on a busy machine."""
    import torch  # noqa: PLC0415

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _synthetic(length: int, rng: np.random.Generator) -> Bits:
    q, r, _ = PUBLISHED["N10"]
    chain = MarkovChain.steady([[1 - q, q], [r, 1 - r]])
    return np.asarray(chain.sample(length, rng), dtype=np.intp)
