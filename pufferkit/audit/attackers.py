"""Attackers on sanitised series: each sees outputs and guesses the true entries.

An entry x of a chain is independently turned into a symbol z with probability B(x, z). The
attackers differ in what they use:

- `SingleBit`: the symbol of the entry and the distribution of the entry, nothing else ([B] 4.1);
- `ForwardBackward`: all symbols and the chain; the exact posterior, so the best guess there is of
  each entry ([B] 4.1, the correlation-aware attacker);
- `Viterbi`: the likeliest whole path ([B] 4.3).

The attacker of [B] 4.3 that learns from examples is in the repository, `papers/lstm.py`.

Probabilities are kept as logarithms and scaled at every step, so a million steps neither underflow
nor lose a state that is rare for long and certain later.

The kernels are compiled, or run as plain Python on short series, where compiling costs more. They
take logarithms of the initial distribution, the transition matrix and the emission matrix (rows
states, columns symbols), and a series of symbols; `forward` returns the position of the first
output that cannot happen, or -1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.compiling import compiled_loop
from pufferkit.data.series import Series
from pufferkit.fitting.people import Codes

FINE = -1


@compiled_loop
def forward(
    initial: Any, transition: Any, emission: Any, symbols: Any, path: bool, out: Any
) -> int:
    """Log P(X_t = x | outputs up to t), or of the likeliest ``path`` to x, up to a constant."""
    length, size = out.shape
    terms = np.empty(size)
    for t in range(length):
        z = symbols[t]
        for y in range(size):
            mass = initial[y]
            if t > 0:
                for x in range(size):
                    terms[x] = out[t - 1, x] + transition[x, y]
                mass = np.max(terms) if path else _log_sum(terms)
            out[t, y] = mass + emission[y, z]
        total = np.max(out[t]) if path else _log_sum(out[t])
        if total == -np.inf:
            return t
        for y in range(size):
            out[t, y] -= total
    return FINE


@compiled_loop
def backward(transition: Any, emission: Any, symbols: Any, out: Any) -> None:
    """Turn what `forward` wrote into P(X_t = x | all outputs)."""
    length, size = out.shape
    terms = np.empty(size)
    ahead = np.zeros(size)
    fresh = np.zeros(size)
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            z = symbols[t + 1]
            for x in range(size):
                for y in range(size):
                    terms[y] = transition[x, y] + emission[y, z] + ahead[y]
                fresh[x] = _log_sum(terms)
            top = np.max(fresh)
            for x in range(size):
                ahead[x] = fresh[x] - top
        for x in range(size):
            terms[x] = out[t, x] + ahead[x]
        total = _log_sum(terms)
        for x in range(size):
            out[t, x] = np.exp(terms[x] - total)


@compiled_loop
def traced(transition: Any, out: Any, path: Any) -> None:
    """The likeliest path, from what `forward` wrote of paths; ties go to the lower state."""
    length = len(path)
    path[length - 1] = np.argmax(out[length - 1])
    for t in range(length - 2, -1, -1):
        path[t] = np.argmax(out[t] + transition[:, path[t + 1]])


@compiled_loop
def _log_sum(values: Any) -> float:
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        return top
    total = 0.0
    for value in values:
        total += np.exp(value - top)
    return float(top + np.log(total))


@compiled_loop
def walk_counts(
    start: Any, moves: Any, which: Any, draws: Any, state: Any, counts: Any, first: bool
) -> None:
    """One block of steps for many walkers: counts of the states they visit.

    ``moves[which[t]]`` are the running sums of the rows of the matrix of step t; ``start`` the
    running sums of the first distribution, used at the first step of a walk.
    """
    steps, walkers = draws.shape
    size = counts.shape[1]
    for t in range(steps):
        for n in range(walkers):
            u = draws[t, n]
            x = 0
            if first and t == 0:
                while x < size - 1 and u >= start[x]:
                    x += 1
            else:
                row = moves[which[t], state[n]]
                while x < size - 1 and u >= row[x]:
                    x += 1
            state[n] = x
            counts[n, x] += 1


_SHORT = 2_000
"""Steps times states squared below which plain Python beats loading compiled code."""


@dataclass(frozen=True, eq=False)
class Attacker:
    """A chain, and how its states turn into symbols.

    Parameters
    ----------
    chain
        The distribution of the hidden series.
    matrix
        Emission matrix: row x is the distribution of the symbol when the state is x.
    symbols
        Labels of the columns. Left out: the states of the chain if the matrix is square, otherwise
        0, 1, ...
    """

    chain: MarkovChain
    matrix: Floats
    symbols: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.chain, MarkovChain):
            raise ValueError(f"chain: must be a MarkovChain, got {type(self.chain).__name__}")
        matrix = emission_matrix(self.chain, self.matrix)
        checks.assign(self, matrix=matrix, symbols=_symbols(self.chain, matrix, self.symbols))

    @property
    def name(self) -> str:
        """For tables and reports."""
        return type(self).__name__

    def guess(self, outputs: Any) -> NDArray[Any]:
        """The state guessed for each entry, as labels of the chain."""
        return self._labelled(self.posterior(outputs).argmax(axis=1))

    def posterior(self, outputs: Any) -> Floats:
        """The attacker's posterior: one row for each entry, one column for each state.

        Segments of a `Series` are independent: each starts the chain anew.
        """
        codes = self.codes(outputs)
        parts = [self._posterior(part, at) for part, at in _parts(outputs, codes)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _posterior(self, codes: Codes, offset: int) -> Floats:
        """The same for one segment, whose first entry stands at ``offset`` in the series."""
        raise NotImplementedError

    def success(self, outputs: Any, truth: Any) -> float:
        """Share of entries guessed right."""
        guesses = self.guess(outputs)
        real = np.asarray(truth.labels if isinstance(truth, Series) else truth)
        if real.shape != guesses.shape:
            raise ValueError(
                f"truth: has shape {real.shape} for {len(guesses)} outputs; one state for each"
            )
        return float(np.mean(guesses == real))

    def codes(self, outputs: Any) -> Codes:
        """Outputs as column numbers; an unknown symbol is an error that says where it stands."""
        labels = outputs.labels if isinstance(outputs, Series) else outputs
        if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
            raise ValueError(f"outputs: must be a series of symbols, got {labels!r:.40}")
        if not isinstance(labels, np.ndarray):
            labels = list(labels)
        if len(labels) == 0:
            raise ValueError("outputs: is empty; there is nothing to attack")
        if self._counted and isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
            wrong = np.flatnonzero((labels < 0) | (labels >= len(self.symbols)))
            if labels.ndim != 1:
                raise ValueError(f"outputs: must be one row of symbols, got shape {labels.shape}")
            if len(wrong):
                raise self._unknown(int(wrong[0]), labels[wrong[0]].item())
            return labels.astype(np.intp)
        plain = labels.tolist() if isinstance(labels, np.ndarray) else labels
        index = {symbol: code for code, symbol in enumerate(self.symbols)}
        codes = np.empty(len(plain), dtype=np.intp)
        for n, label in enumerate(plain):
            code = index.get(label) if isinstance(label, Hashable) else None
            if code is None:
                raise self._unknown(n, label)
            codes[n] = code
        return codes

    @cached_property
    def _counted(self) -> bool:
        return bool(self.symbols == tuple(range(len(self.symbols))))

    def _unknown(self, place: int, label: Any) -> ValueError:
        return ValueError(
            f"outputs: {label!r} at position {place + 1} is not a symbol; "
            f"known are {list(self.symbols)[:8]}"
        )

    def _impossible(self, place: int, codes: Codes, offset: int) -> ValueError:
        where = offset + place + 1
        return ValueError(
            f"outputs: {self.symbols[codes[place]]!r} at position {where} cannot happen after "
            "what stands before it; the chain or the emission matrix is not the one that made it"
        )

    def _forward(self, codes: Codes, offset: int, path: bool) -> tuple[Floats, list[Floats]]:
        """What `forward` writes, and the logarithms of the three tables."""
        with np.errstate(divide="ignore"):
            tables = (self.chain.initial, self.chain.transition, self.matrix)
            logs = [np.log(table) for table in tables]
        messages = np.empty((len(codes), len(self.chain)))
        place = _run(forward, messages, *logs, codes, path, messages)
        if place >= 0:
            raise self._impossible(place, codes, offset)
        return messages, logs

    def _labelled(self, states: Codes) -> NDArray[Any]:
        if self.chain.states == tuple(range(len(self.chain))):
            return states
        return np.array(self.chain.states)[states]


class SingleBit(Attacker):
    """Uses one symbol at a time, and the distribution of the entry at that time.

    With equal priors and noise below one half it guesses what it sees, as in [B] 4.1.
    """

    def _posterior(self, codes: Codes, offset: int) -> Floats:
        distributions = marginals(self.chain, len(codes))
        joint: Floats = distributions * self.matrix[:, codes].T
        total = joint.sum(axis=1, keepdims=True)
        if (total <= 0).any():
            raise self._impossible(int(np.flatnonzero(total[:, 0] <= 0)[0]), codes, offset)
        belief: Floats = joint / total
        return belief


class ForwardBackward(Attacker):
    """Knows the chain and sees every symbol: the exact posterior of every entry."""

    def _posterior(self, codes: Codes, offset: int) -> Floats:
        posterior, logs = self._forward(codes, offset, path=False)
        _run(backward, posterior, *logs[1:], codes, posterior)
        return posterior


class Viterbi(Attacker):
    """Guesses the likeliest path as a whole; ties go to the state listed first."""

    def guess(self, outputs: Any) -> NDArray[Any]:
        codes = self.codes(outputs)
        return self._labelled(
            np.concatenate([self._path(part, at) for part, at in _parts(outputs, codes)])
        )

    def _path(self, codes: Codes, offset: int) -> Codes:
        scores, logs = self._forward(codes, offset, path=True)
        path = np.empty(len(codes), dtype=np.intp)
        _run(traced, scores, logs[1], scores, path)
        return path

    def _posterior(self, codes: Codes, offset: int) -> Floats:
        """All belief on the guessed path."""
        return np.eye(len(self.chain))[self._path(codes, offset)]


def emission_matrix(chain: MarkovChain, matrix: ArrayLike) -> Floats:
    """Rows are distributions of the symbol, one for each state of the chain; read-only."""
    array = checks.numbers("matrix", matrix)
    if array.ndim != 2 or array.shape[0] != len(chain) or array.shape[1] == 0:
        raise ValueError(
            f"matrix: must have one row for each of the {len(chain)} states, "
            f"got shape {array.shape}"
        )
    rows = [checks.probability_vector(f"matrix row {x}", row) for x, row in enumerate(array)]
    return checks.frozen(np.array(rows))


def marginals(chain: MarkovChain, length: int) -> Floats:
    """The distributions of X_1 ... X_length, one row each."""
    if chain.is_stationary:
        return np.broadcast_to(chain.initial, (length, len(chain)))
    distributions = np.empty((length, len(chain)))
    distribution = chain.initial
    for t in range(length):
        distributions[t] = distribution
        distribution = distribution @ chain.transition
    return distributions


def _parts(outputs: Any, codes: Codes) -> Iterator[tuple[Codes, int]]:
    """The codes of each segment, and where it begins."""
    lengths = outputs.lengths if isinstance(outputs, Series) else (len(codes),)
    begin = 0
    for length in lengths:
        yield codes[begin : begin + length], begin
        begin += length


def _symbols(
    chain: MarkovChain, matrix: Floats, symbols: Iterable[Hashable] | None
) -> tuple[Hashable, ...]:
    columns = matrix.shape[1]
    if symbols is None:
        return chain.states if columns == len(chain) else tuple(range(columns))
    labels = checks.distinct_states(symbols)
    if len(labels) != columns:
        raise ValueError(f"symbols: {len(labels)} labels for {columns} columns of the matrix")
    return labels


def _run(kernel: Any, work: Floats, *arguments: Any) -> Any:
    """The kernel, compiled unless the series is short."""
    length, size = work.shape
    return (kernel.plain if length * size * size < _SHORT else kernel.compiled)(*arguments)
