"""An attacker that learns: the network of [B] 4.3.

A window of symbols goes in; symbols are embedded, an LSTM reads the window, a linear layer and a
sigmoid give the probability that the hidden bit in the middle of the window is the second state.
It needs examples, so it learns either from data whose truth is known (`cross_validate`, as in the
paper) or from data drawn from a chain (`LSTM`). It assumes nothing about the chain and can find
longer memory than a chain has, if there is any.

Needs torch, which is loaded when first used: ``pip install 'pufferkit[attacks]'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.audit.attackers import Attacker
from pufferkit.audit.conditioned import cumulative_rows
from pufferkit.beliefs.sequences import Codes
from pufferkit.checks import Floats

_WARMING = 20
"""Steps until the step size is reached."""


@dataclass(frozen=True)
class Training:
    """How the network is built and trained.

    Attributes
    ----------
    window
        Symbols it sees, odd; the hidden bit is the one in the middle.
    embedding, hidden
        Dimensions of the embedding (4 in [B]) and of the LSTM.
    epochs, patience
        Most passes over the data, and how many without improvement end training.
    batch, rate
        Examples in a step, and the step size of Adam.
    examples
        Length of the series drawn from the chain when there are no other examples.
    seed
        For weights, order and drawn examples.
    progress
        Whether to show a progress bar on stderr.
    """

    window: int = 15
    embedding: int = 4
    hidden: int = 16
    epochs: int = 30
    patience: int = 3
    batch: int = 256
    rate: float = 0.01
    examples: int = 20_000
    seed: int = 0
    progress: bool = False

    def __post_init__(self) -> None:
        least = {"embedding": 1, "hidden": 1, "epochs": 1, "patience": 1, "batch": 1}
        for name, low in {"window": 1, "examples": 20, "seed": 0, **least}.items():
            checks.whole(name, getattr(self, name), low)
        if self.window % 2 == 0:
            raise ValueError(f"window: must be odd, to have a middle; got {self.window}")
        checks.positive("rate", self.rate)


@dataclass(frozen=True)
class Validation:
    """Accuracy of the network on data it was not trained on, one number for each fold."""

    accuracies: tuple[float, ...]
    sizes: tuple[int, ...]

    @property
    def accuracy(self) -> float:
        """Share of all entries guessed right."""
        return fmean(self.accuracies, self.sizes)


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained networks; ``symbols`` is how many symbols they know."""

    networks: Any
    symbols: int
    window: int

    def chances(self, outputs: ArrayLike) -> Floats:
        """The probability that each hidden entry is the second state, by the first network."""
        codes = _bits("outputs", outputs, self.symbols)
        return self.chances_at(codes, [np.arange(len(codes))])[0]

    def chances_at(self, outputs: Codes, places: list[Codes]) -> list[Floats]:
        """The same at some places for each network."""
        torch = _torch()
        windows = torch.from_numpy(_windows(outputs, self.window, self.symbols))
        most = max(map(len, places))
        padded = torch.from_numpy(np.stack([np.resize(own, most) for own in places]))
        with torch.no_grad():
            parts = [self.networks(windows[rows]) for rows in padded.split(8192, dim=1)]
            chances = torch.sigmoid(torch.cat(parts, dim=1)).numpy().astype(np.float64)
        return [row[: len(own)] for row, own in zip(chances, places, strict=True)]


@dataclass(frozen=True, eq=False)
class LSTM(Attacker):
    """Learns from a series drawn from the chain and sanitised by the matrix; two states only.

    Parameters
    ----------
    chain, matrix, symbols
        As for every `Attacker`.
    training
        How it learns.
    """

    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.chain) != 2:
            raise ValueError(
                f"chain: this attacker is for two states, got {len(self.chain)}; "
                "use ForwardBackward or Viterbi"
            )

    @cached_property
    def trained(self) -> Trained:
        """The network, trained when first asked for."""
        rng = np.random.default_rng(self.training.seed)
        truth = self.chain.sample(self.training.examples, rng)
        draws = rng.random(len(truth))[:, None]
        outputs = (draws >= cumulative_rows(self.matrix)[truth]).sum(axis=1)
        with _bar(self.training, 1) as advance:
            everything = [np.arange(len(truth))]
            return _train(outputs, truth, self.matrix.shape[1], self.training, advance, everything)

    def _posterior(self, codes: Codes, offset: int) -> Floats:
        chances = self.trained.chances(codes)
        return np.stack([1 - chances, chances], axis=1)


def cross_validate(
    outputs: ArrayLike,
    truth: ArrayLike,
    *,
    folds: int = 10,
    training: Training | None = None,
    stretch: int | None = None,
) -> Validation:
    """Train on all but one part of a series and guess that one, for each part ([B] 4.3).

    All folds are trained at once, each by a network of its own.

    Parameters
    ----------
    outputs
        Sanitised series as numbers 0, 1, ...
    truth
        The hidden series of the same length, 0 and 1.
    folds
        How many parts.
    training
        How the network learns.
    stretch
        Length of the stretches that a part is made of, one in every ``folds`` of them; what is
        within a window of such a stretch is not learned from. By default each part is one whole
        stretch: then what a network learns of the share of ones is wrong where it changes slowly,
        and it can do worse than guessing.
    """
    training = training or Training()
    hidden = _bits("truth", truth, 2)
    seen = _bits("outputs", outputs, None)
    if len(seen) != len(hidden):
        raise ValueError(f"truth: has {len(hidden)} entries for {len(seen)} outputs")
    folds = checks.whole("folds", folds, 2)
    if len(seen) < 10 * folds:
        raise ValueError(f"outputs: {len(seen)} entries are too few for {folds} folds")
    size = -(-len(seen) // folds) if stretch is None else checks.whole("stretch", stretch, 1)
    if size * folds >= len(seen) + size:
        raise ValueError(f"stretch: {size} leaves some of {folds} folds empty; take a shorter one")
    _torch()
    stretches = np.arange(len(seen)) // size
    guessed = [np.flatnonzero(stretches % folds == fold) for fold in range(folds)]
    near = 0 if stretch is None else training.window
    learned = [_away_from(places, len(seen), near) for places in guessed]
    if min(map(len, learned)) < 10:
        raise ValueError(f"stretch: {size} leaves nothing to learn from; take a longer one")
    symbols = int(seen.max()) + 1
    with _bar(training, 1) as advance:
        trained = _train(seen, hidden, symbols, training, advance, learned)
    chances = trained.chances_at(seen, guessed)
    accuracies = [
        float(np.mean((own > 0.5) == hidden[places]))
        for own, places in zip(chances, guessed, strict=True)
    ]
    return Validation(tuple(accuracies), tuple(map(len, guessed)))


def _away_from(places: Codes, length: int, near: int) -> Codes:
    """All places but these, and but those closer to one of them than ``near``."""
    left_out = np.zeros(length, dtype=bool)
    for shift in range(-near, near + 1):
        moved = places + shift
        left_out[moved[(moved >= 0) & (moved < length)]] = True
    return np.flatnonzero(~left_out)


def _train(
    outputs: Codes,
    truth: Codes,
    symbols: int,
    training: Training,
    advance: Any,
    learned: list[Codes],
) -> Trained:
    """Adam on the cross-entropy, a network for each set of places; the best of all passes is kept.

    What is best is decided by a tenth of the examples, in ten stretches, which are not learned
    from. Steps grow to ``rate`` at first and shrink towards the last pass.
    """
    torch = _torch()
    x = torch.from_numpy(_windows(outputs, training.window, symbols))
    y = torch.from_numpy(truth.astype(np.float32))
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    fit, check = zip(*map(_parted, learned), strict=True)
    rng = np.random.default_rng(training.seed)
    # Networks learn side by side, so each pass takes as many examples of every set.
    each, held = min(map(len, fit)), min(map(len, check))
    checked = torch.from_numpy(np.stack([places[:held] for places in check]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        networks = _networks(len(learned), symbols, training)
    optimiser = torch.optim.Adam(networks.parameters(), lr=training.rate)
    steps, done = training.epochs * -(-each // training.batch), 0
    best, since = np.full(len(learned), np.inf), np.zeros(len(learned), dtype=int)
    kept = [weights.detach().clone() for weights in networks.parameters()]
    for epoch in range(training.epochs):
        order = np.stack([rng.permutation(places)[:each] for places in fit])
        for rows in torch.from_numpy(order).split(training.batch, dim=1):
            done += 1
            pace = min(1, done / _WARMING) * (1 - (done - 1) / steps)
            optimiser.param_groups[0]["lr"] = training.rate * pace
            optimiser.zero_grad()
            entropy(networks(x[rows]), y[rows], reduction="none").mean(dim=1).sum().backward()
            optimiser.step()
        with torch.no_grad():
            logits = networks(x[checked])
            now = entropy(logits, y[checked], reduction="none").mean(dim=1).numpy()
        advance(1 / training.epochs)
        better = now < best
        best, since = np.where(better, now, best), np.where(better, 0, since + 1)
        for old, weights in zip(kept, networks.parameters(), strict=True):
            old[better] = weights.detach()[better]
        if (since >= training.patience).all():
            advance((training.epochs - epoch - 1) / training.epochs)
            break
    with torch.no_grad():
        for old, weights in zip(kept, networks.parameters(), strict=True):
            weights.copy_(old)
    networks.eval()
    return Trained(networks, symbols, training.window)


def _parted(places: Codes) -> tuple[Codes, Codes]:
    """Nine tenths of at least ten places; and a tenth, every tenth of up to a hundred stretches."""
    parts = np.arange(len(places)) * min(100, len(places)) // len(places)
    held = parts % 10 == 9
    return places[~held], places[held]


def _networks(count: int, symbols: int, training: Training) -> Any:
    """Networks of the same shape, with the same first weights, worked out side by side."""
    torch = _torch()
    hidden = training.hidden

    class Networks(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        """Embedding, LSTM, linear layer on its last state; windows come a set for each network."""

        def __init__(self) -> None:
            super().__init__()

            def weights(*shape: int, normal: bool = False) -> Any:
                drawn = torch.randn(shape) if normal else (2 * torch.rand(shape) - 1) / hidden**0.5
                return torch.nn.Parameter(drawn.expand(count, *shape).clone())

            # One symbol more, for what lies beyond the ends of the series.
            self.embed = weights(symbols + 1, training.embedding, normal=True)
            self.inward = weights(training.embedding, 4 * hidden)
            self.onward = weights(hidden, 4 * hidden)
            self.bias = weights(1, 4 * hidden)
            # Memory is kept from the start: what lies in the middle must reach the last state.
            self.bias.data[:, :, hidden : 2 * hidden] += 1
            self.out = weights(hidden, 1)
            self.out_bias = weights(1, 1)

        def forward(self, windows: Any) -> Any:
            """Logits, a row for each network."""
            table = self.embed @ self.inward + self.bias  # what each symbol adds to the gates
            rows = windows + (symbols + 1) * torch.arange(len(windows))[:, None, None]
            table = table.reshape(-1, 4 * hidden)
            state = memory = torch.zeros(*windows.shape[:2], hidden)
            for t in range(windows.shape[2]):
                gates = torch.baddbmm(table[rows[:, :, t]], state, self.onward)
                gate_in, forget, fresh, shown = gates.chunk(4, dim=2)
                memory = forget.sigmoid() * memory + gate_in.sigmoid() * fresh.tanh()
                state = shown.sigmoid() * memory.tanh()
            return (torch.bmm(state, self.out) + self.out_bias)[:, :, 0]

    return Networks()


def _windows(outputs: Codes, window: int, symbols: int) -> NDArray[np.int64]:
    """One row for each entry: the symbols around it, padded with a symbol of its own."""
    half = window // 2
    padded = np.pad(outputs, half, constant_values=symbols)
    view = np.lib.stride_tricks.sliding_window_view(padded, window)
    return np.ascontiguousarray(view, dtype=np.int64)


def _bits(name: str, values: ArrayLike, count: int | None) -> Codes:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iub":
        raise ValueError(f"{name}: must be one row of whole numbers 0, 1, ...")
    array = array.astype(np.intp)
    wrong = np.flatnonzero((array < 0) | (array >= (count or 256)))
    if len(wrong):
        raise ValueError(f"{name}: {array[wrong[0]]} at position {wrong[0] + 1} is not known")
    return array


@contextmanager
def _bar(training: Training, total: int) -> Iterator[Any]:
    if not training.progress:
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=total)
        yield lambda share: bar.advance(task, share)


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "the LSTM attacker needs torch, which is not installed; "
            "pip install 'pufferkit[attacks]'"
        ) from None
    return torch
