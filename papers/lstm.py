"""An attacker that learns, after the network of [B] 4.3.

A window of symbols goes in; symbols are embedded, an LSTM reads the window, a linear layer and a
sigmoid give the probability that a hidden bit of the window is the second state. It needs
examples, so it learns either from data whose truth is known (`cross_validate`, as in the paper) or
from data drawn from a chain (`LSTM`). It assumes nothing about the chain and can find longer memory
than a chain has, if there is any.

The paper reads a window from left to right and guesses the bit in its middle from the last state,
which must remember that far back. Here the window is read from both sides, and each bit is guessed
from the two states that meet there, whose parts add up as the logarithms of forward and backward
probabilities do. Every entry is learned from in one reading, so windows can be long. Guesses are
taken from the middle half of a window, where both sides have seen enough.

Needs torch, which is loaded when first used: ``pip install torch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.audit.answer_model import cumulative_rows
from pufferkit.audit.attackers import Attacker
from pufferkit.checks import Floats
from pufferkit.fitting.people import Codes

_WARMING = 20
"""Steps until the step size is reached."""


@dataclass(frozen=True)
class Training:
    """How the network is built and trained.

    Attributes
    ----------
    window
        Symbols that are read at once; fewer where the series is shorter.
    embedding, hidden
        Dimensions of the embedding (4 in [B]) and of the LSTM, in each direction.
    epochs, patience
        Most passes over the data, and how many without improvement end training.
    batch, rate
        Entries in a step, at least a window, and the step size of Adam.
    examples
        Length of the series drawn from the chain when there are no other examples.
    seed
        For weights, order and drawn examples.
    progress
        Whether to show a progress bar on stderr.
    """

    window: int = 128
    embedding: int = 4
    hidden: int = 16
    epochs: int = 30
    patience: int = 5
    batch: int = 1024
    rate: float = 0.02
    examples: int = 20_000
    seed: int = 0
    progress: bool = False

    def __post_init__(self) -> None:
        least = {"embedding": 1, "hidden": 1, "epochs": 1, "patience": 1, "batch": 1}
        for name, low in {"window": 1, "examples": 20, "seed": 0, **least}.items():
            checks.whole(name, getattr(self, name), low)
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
        codes = _bits("outputs", outputs, self.symbols)
        logits = self.logits_at(codes, np.arange(len(codes)))
        return np.asarray(logits.sigmoid().numpy(), dtype=np.float64)

    def logits_at(self, outputs: Codes, places: Codes) -> Any:
        """Log odds of the second state at some places, each from the middle half of a window."""
        torch = _torch()
        width = min(self.window, len(outputs))
        step = max(1, width // 2)
        starts = np.minimum(np.arange(0, len(outputs) - width + step, step), len(outputs) - width)
        used = np.clip((places - width // 4) // step, 0, len(starts) - 1)
        needed, which = np.unique(used, return_inverse=True)
        windows = torch.from_numpy(outputs[starts[needed][:, None] + np.arange(width)])
        with torch.no_grad():
            logits = torch.cat([self.network(part) for part in windows.split(1024)])
        return logits[which, places - starts[used]]


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
        everything, symbols = np.arange(len(truth)), self.matrix.shape[1]
        with _bar(self.training, 1) as advance:
            return _train(outputs, truth, everything, symbols, self.training, advance)

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

    Each part is guessed by a network of its own, which learned from no entry of it.

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
        within a window of such a stretch is not learned from, so no window that is learned from
        holds any of it. By default each part is one whole stretch: then what a network learns of
        the share of ones is wrong where it changes slowly, and it can do worse than guessing.
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
        raise ValueError(
            f"stretch: {size} leaves nothing to learn from; take a longer one, or a window shorter "
            f"than {training.window}"
        )
    symbols = int(seen.max()) + 1
    accuracies = []
    with _bar(training, folds) as advance:
        for places, others in zip(guessed, learned, strict=True):
            trained = _train(seen, hidden, others, symbols, training, advance)
            guesses = trained.logits_at(seen, places).numpy() > 0
            accuracies.append(float(np.mean(guesses == hidden[places])))
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
    learned: Codes,
    symbols: int,
    training: Training,
    advance: Any,
) -> Trained:
    """Adam on the cross-entropy at the places learned from; the best of all passes is kept.

    What is best is decided by a tenth of these places, in ten stretches, which are not learned
    from. Windows lie elsewhere in each pass. Steps grow to ``rate`` at first and shrink towards
    the last pass.
    """
    torch = _torch()
    x, y = torch.from_numpy(outputs), torch.from_numpy(truth.astype(np.float32))
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    fit, check = _parted(learned)
    fits = torch.zeros(len(outputs), dtype=torch.bool)
    fits[fit] = True
    width = min(training.window, len(outputs))
    rng = np.random.default_rng(training.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        network = _network(symbols, training)
    # It starts from the share of ones and departs from it only where that is better.
    torch.nn.init.zeros_(network.out.weight)
    torch.nn.init.constant_(network.out.bias, float(y[fit].mean().clamp(0.01, 0.99).logit()))
    trained = Trained(network, symbols, training.window)

    def checked() -> float:
        return float(entropy(trained.logits_at(outputs, check), y[check]))

    optimiser = torch.optim.Adam(network.parameters(), lr=training.rate)
    best, since, done = checked(), 0, 0
    kept = deepcopy(network.state_dict())
    for epoch in range(training.epochs):
        starts = np.arange(-rng.integers(width), len(outputs), width)
        windows = starts.clip(0, len(outputs) - width)[:, None] + np.arange(width)
        windows = torch.from_numpy(rng.permutation(windows))
        windows = windows[fits[windows].any(dim=1)]
        batches = windows.split(max(1, training.batch // width))
        for number, rows in enumerate(batches):
            done += 1
            pace = min(1, done / _WARMING) * (1 - (epoch + number / len(batches)) / training.epochs)
            optimiser.param_groups[0]["lr"] = training.rate * pace
            optimiser.zero_grad()
            own = fits[rows]
            entropy(network(x[rows])[own], y[rows][own]).backward()
            optimiser.step()
        now = checked()
        advance(1 / training.epochs)
        since += 1
        if now < best:
            best, since, kept = now, 0, deepcopy(network.state_dict())
        if since >= training.patience:
            advance((training.epochs - epoch - 1) / training.epochs)
            break
    network.load_state_dict(kept)
    return trained


def _parted(places: Codes) -> tuple[Codes, Codes]:
    """Nine tenths of at least ten places; and a tenth, every tenth of up to a hundred stretches."""
    parts = np.arange(len(places)) * min(100, len(places)) // len(places)
    held = parts % 10 == 9
    return places[~held], places[held]


def _network(symbols: int, training: Training) -> Any:
    torch = _torch()

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        """Embedding, LSTM from both sides, linear layer on the states that meet at an entry."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(symbols, training.embedding)
            self.read = torch.nn.LSTM(
                training.embedding, training.hidden, bidirectional=True, batch_first=True
            )
            self.out = torch.nn.Linear(2 * training.hidden, 1)

        def forward(self, windows: Any) -> Any:
            """Logits, a row for each window."""
            return self.out(self.read(self.embed(windows))[0])[:, :, 0]

    return Network()


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
            "the LSTM attacker needs torch, which is not installed; pip install torch"
        ) from None
    return torch
