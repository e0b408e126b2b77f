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
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.audit.attackers import Attacker
from pufferkit.audit.conditioned import Codes, cumulative_rows
from pufferkit.checks import Floats


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
    """A trained network; ``symbols`` is how many symbols it knows."""

    network: Any
    symbols: int
    window: int

    def chances(self, outputs: ArrayLike) -> Floats:
        """The probability that each hidden entry is the second state."""
        torch = _torch()
        windows = _windows(_bits("outputs", outputs, self.symbols), self.window, self.symbols)
        parts = []
        with torch.no_grad():
            for part in torch.from_numpy(windows).split(8192):
                parts.append(torch.sigmoid(self.network(part)).numpy())
        chances: Floats = np.concatenate(parts).astype(np.float64)
        return chances


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
            return _train(outputs, truth, self.matrix.shape[1], self.training, advance)

    def _posterior(self, codes: Codes, offset: int) -> Floats:
        chances = self.trained.chances(codes)
        return np.stack([1 - chances, chances], axis=1)


def cross_validate(
    outputs: ArrayLike, truth: ArrayLike, *, folds: int = 10, training: Training | None = None
) -> Validation:
    """Train on all but one stretch of a series and guess that one, for each stretch ([B] 4.3).

    Parameters
    ----------
    outputs
        Sanitised series as numbers 0, 1, ...
    truth
        The hidden series of the same length, 0 and 1.
    folds
        How many stretches; they are contiguous, because neighbours share their windows.
    training
        How the network learns.
    """
    training = training or Training()
    hidden = _bits("truth", truth, 2)
    seen = _bits("outputs", outputs, None)
    if len(seen) != len(hidden):
        raise ValueError(f"truth: has {len(hidden)} entries for {len(seen)} outputs")
    folds = checks.whole("folds", folds, 2)
    if len(seen) < 10 * folds:
        raise ValueError(f"outputs: {len(seen)} entries are too few for {folds} folds")
    _torch()
    symbols = int(seen.max()) + 1
    accuracies, sizes = [], []
    edges = np.linspace(0, len(seen), folds + 1).astype(int)
    with _bar(training, folds) as advance:
        for begin, end in pairwise(edges):
            rest = np.ones(len(seen), dtype=bool)
            rest[begin:end] = False
            fitted = _train(seen, hidden, symbols, training, advance, rest)
            guesses = fitted.chances(seen)[begin:end] > 0.5
            accuracies.append(float(np.mean(guesses == hidden[begin:end])))
            sizes.append(int(end - begin))
    return Validation(tuple(accuracies), tuple(sizes))


def _train(
    outputs: Codes,
    truth: Codes,
    symbols: int,
    training: Training,
    advance: Any,
    used: NDArray[np.bool_] | None = None,
) -> Trained:
    """Adam on the cross-entropy; the last tenth of the examples says when to stop."""
    torch = _torch()
    windows = _windows(outputs, training.window, symbols)
    places = np.arange(len(outputs)) if used is None else np.flatnonzero(used)
    held = max(1, len(places) // 10)
    fit, check = places[:-held], places[-held:]
    x, y = torch.from_numpy(windows), torch.from_numpy(truth.astype(np.float32))
    loss = torch.nn.BCEWithLogitsLoss()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        network = _network(symbols, training)
        optimiser = torch.optim.Adam(network.parameters(), lr=training.rate)
        best, kept, since = float("inf"), network.state_dict(), 0
        for epoch in range(training.epochs):
            for rows in torch.from_numpy(fit)[torch.randperm(len(fit))].split(training.batch):
                optimiser.zero_grad()
                loss(network(x[rows]), y[rows]).backward()
                optimiser.step()
            with torch.no_grad():
                now = float(loss(network(x[check]), y[check]))
            advance(1 / training.epochs)
            since = 0 if now < best else since + 1
            if now < best:
                best, kept = now, {k: v.clone() for k, v in network.state_dict().items()}
            if since >= training.patience:
                advance((training.epochs - epoch - 1) / training.epochs)
                break
        network.load_state_dict(kept)
    network.eval()
    return Trained(network, symbols, training.window)


def _network(symbols: int, training: Training) -> Any:
    torch = _torch()

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        """Embedding, LSTM, linear layer on its last state."""

        def __init__(self) -> None:
            super().__init__()
            # One symbol more, for what lies beyond the ends of the series.
            self.embed = torch.nn.Embedding(symbols + 1, training.embedding)
            self.lstm = torch.nn.LSTM(training.embedding, training.hidden, batch_first=True)
            self.linear = torch.nn.Linear(training.hidden, 1)

        def forward(self, windows: Any) -> Any:
            _, (last, _) = self.lstm(self.embed(windows))
            return self.linear(last[-1])[:, 0]

    return Network()


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
