"""States in, sanitised states out: the only way from a true series to answers.

Whatever comes in goes out in the same form: a `Series` as a `Series`, an array as an array, a list
(or a list of segments) as a list, and an iterator as an iterator that takes one entry at a time,
answers it, and keeps nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import noise
from pufferkit.account.accounts import Account
from pufferkit.beliefs.base import check_step
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import Provenance, check_not_fitted_on, check_paid
from pufferkit.data.series import Series, is_segment
from pufferkit.errors import NoTheorem
from pufferkit.local.losses import Loss

_BLOCK = 1024
_REMEMBERED = 8 * _BLOCK


class Sanitizer(ABC):
    """A randomised response to every entry, with the promise it makes."""

    chain: MarkovChain
    epsilon: float
    length: int | None
    loss: Loss

    @property
    @abstractmethod
    def thresholds(self) -> tuple[int, ...]:
        """The answers of every state, as thresholds for random whole numbers."""

    def answered(self, codes: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Answers to series of these lengths, one after the other."""
        del lengths  # each entry has a coin of its own
        return noise.responses(codes, self.thresholds)

    def answer_stream(self, codes: Iterator[int]) -> Iterator[int]:
        """The answer to each entry of one series, before the next is asked for."""
        return noise.response_stream(codes, self.thresholds)

    @property
    def entry_epsilon(self) -> float | None:
        """The most by which an entry changes the log-likelihood of all answers (event level).

        ``None`` where the answers to other entries depend on the same noise.
        """
        return None

    @property
    def states(self) -> tuple[Hashable, ...]:
        """Labels of the states."""
        return self.chain.states

    @property
    def is_private(self) -> bool:
        """Whether the loss is at most epsilon; only then does it sanitise anything."""
        return self.loss <= self.epsilon

    def sanitize(self, series: Any, *, account: Account | None = None, beliefs: Any = None) -> Any:
        """Answers in place of entries; see `pufferkit.local.sanitize`."""
        return sanitize(series, self, account=account, beliefs=beliefs)


def sanitize(
    series: Any, mechanism: Sanitizer, *, account: Account | None = None, beliefs: Any = None
) -> Any:
    """Answer every entry by randomised response, with randomness of the operating system.

    Parameters
    ----------
    series
        A `Series`, a one-dimensional array, a sequence of states (or of segments), or an iterator
        of states.
    mechanism
        From `cheapest_noise`, or constructed directly. Its loss must not exceed its epsilon.
    account
        Is charged the event-level epsilon of the answers before they are drawn, in every call anew;
        the answers are a `Series` then.
    beliefs
        Under which the account pays; by default the chain of the mechanism.

    Raises
    ------
    ValueError
        Among others, if the chain of the mechanism was fitted to this series. In a stream this is
        detected only after some answers have been given.

    Returns
    -------
    The same kind of thing, with answers in place of entries. An iterator is answered entry by entry
    in constant memory; an unknown state is an error when it is met.

    Notes
    -----
    Sanitise a series once: the losses of two calls do not add up, together they can be more than
    their sum. What adds up, entry by entry, are event-level epsilons, and an ``account`` computes
    their joint loss. Independent segments tell nothing of one another. An unobserved entry
    (``None``) gets no answer. That equals the whole series with some answers discarded, so the
    promise holds, also for that entry.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> from pufferkit.local import cheapest_noise
    >>> day = MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]], states=["home", "out"])
    >>> answers = sanitize(["home", "home", "out"], cheapest_noise(day, 2))
    >>> len(answers), set(answers) <= {"home", "out"}
    (3, True)
    """
    if not isinstance(mechanism, Sanitizer):
        raise ValueError(
            f"mechanism: must be what cheapest_noise returns, got {type(mechanism).__name__}"
        )
    if not mechanism.is_private:
        raise ValueError(
            f"mechanism: promises {mechanism.epsilon:g} but loses {float(mechanism.loss):.6g}; "
            "nothing was sanitised. Take more noise, see cheapest_noise"
        )
    check_paid(_sources(mechanism))
    if account is not None:
        return _charged(series, mechanism, account, mechanism.chain if beliefs is None else beliefs)
    if isinstance(series, Iterator):
        return _stream(series, mechanism)
    if isinstance(series, Series):
        _check_series(series, mechanism)
        # Answers to entries that were not observed are drawn and thrown away.
        seen = series.observed
        codes = mechanism.answered(np.where(seen, series.codes, 0), series.lengths)
        return replace(series, codes=np.where(seen, codes, series.codes))
    if isinstance(series, np.ndarray):
        _short_enough([len(series)] if series.ndim == 1 else [], mechanism)
        return _array(series, mechanism)
    coded = Series.of(series, mechanism.states)
    answered = sanitize(coded, mechanism)
    nested = any(is_segment(item) for item in series)
    return answered.as_segments() if nested else answered.labels


def _charged(data: Any, mechanism: Sanitizer, account: Account, beliefs: Any) -> Series:
    """Answers to a series, charged to its account first."""
    b = mechanism.entry_epsilon
    if b is None:
        raise NoTheorem(
            "mechanism: its flips depend on one another, so its answers have no event-level "
            "epsilon for each entry that an account could hold; use design='independent'"
        )
    if not isfinite(b):
        raise ValueError(
            "mechanism: some answer rules out a state, so its event-level epsilon is not finite "
            "and no account can pay it; use cheapest_noise with adversary='every'"
        )
    series = data if isinstance(data, Series) else Series.of(data, mechanism.states)
    _check_series(series, mechanism)
    account.charge(b, data=series, beliefs=beliefs)
    answered: Series = sanitize(series, mechanism)
    return answered


def _stream(entries: Iterator[Hashable], mechanism: Sanitizer) -> Iterator[Hashable]:
    states, most = mechanism.states, mechanism.length
    index = {label: code for code, label in enumerate(states)}

    def codes() -> Iterator[int]:
        for place, entry in enumerate(entries, 1):
            code = index.get(entry)
            if code is None:
                raise ValueError(_unknown(entry, place, states))
            if most is not None and place > most:
                raise ValueError(_too_long(most))
            yield code

    known = _watched(codes(), mechanism) if _sources(mechanism) else codes()
    return map(states.__getitem__, mechanism.answer_stream(known))


def _sources(mechanism: Sanitizer) -> tuple[Provenance, ...]:
    """What its chain was fitted on, if that is known."""
    source = mechanism.chain.fitted_on
    return () if source is None or source.private else (source,)


def _watched(codes: Iterator[int], mechanism: Sanitizer) -> Iterator[int]:
    """The same codes, until the last few thousand of them are those the chain was fitted on."""
    recent: deque[int] = deque(maxlen=_REMEMBERED)

    def check() -> None:
        series = Series(np.array(recent), mechanism.states, (len(recent),))
        check_not_fitted_on(_sources(mechanism), series)

    for place, code in enumerate(codes, 1):
        recent.append(code)
        if place % _BLOCK == 0 or (place < _BLOCK and place.bit_count() == 1):
            check()
        yield code
    if recent:
        check()


def _array(series: NDArray[Any], mechanism: Sanitizer) -> NDArray[Any]:
    if series.ndim != 1 or series.size == 0:
        raise ValueError(f"series: must be one row of states, got shape {series.shape}")
    if series.dtype == object:
        labels = sanitize(series.tolist(), mechanism)
        return np.fromiter(labels, dtype=object, count=len(labels))
    codes = coded(series, mechanism.states)
    if _sources(mechanism):
        check_not_fitted_on(_sources(mechanism), Series(codes, mechanism.states, (len(codes),)))
    answers = mechanism.answered(codes, [len(codes)])
    if codes is series:
        return answers
    labelled: NDArray[Any] = _labels(mechanism.states, series.dtype)[answers]
    return labelled


def _labels(states: tuple[Hashable, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The states as an array: of this type if it can hold them all, else of their own."""
    own = np.array(states)
    try:
        kept = own.astype(dtype)
    except (TypeError, ValueError):
        return own
    return kept if kept.tolist() == list(states) else own


def coded(series: NDArray[Any], states: tuple[Hashable, ...]) -> NDArray[Any]:
    """Codes of an array of states; the array itself if its states are 0, 1, ..."""
    plain = all(isinstance(s, int) and s == n for n, s in enumerate(states))
    if plain and series.dtype.kind == "b" and len(states) == 2:
        return series.astype(np.uint8)
    if plain and series.dtype.kind in "iu":
        if series.min() >= 0 and series.max() < len(states):
            fits = np.iinfo(series.dtype).max >= len(states) - 1
            return series if fits else series.astype(np.intp)
        place = int(np.flatnonzero((series < 0) | (series >= len(states)))[0])
        raise ValueError(_unknown(series[place].item(), place + 1, states))
    values, inverse = np.unique(series, return_inverse=True)
    index = {label: code for code, label in enumerate(states)}
    places = []
    for n, value in enumerate(values.tolist()):
        if value not in index:
            raise ValueError(_unknown(value, int(np.flatnonzero(inverse == n)[0]) + 1, states))
        places.append(index[value])
    return np.array(places, dtype=np.intp)[inverse]


def _check_series(series: Series, mechanism: Sanitizer) -> None:
    """Refuse a series that the mechanism is not for."""
    if series.states != mechanism.states:
        raise ValueError(
            f"series: has states {list(series.states)}, the mechanism {list(mechanism.states)}; "
            "declare the mechanism's states, in its order, when making the series"
        )
    _short_enough(series.lengths, mechanism)
    check_step(mechanism.chain.step, series.step, uneven=series.between is not None)
    check_not_fitted_on(_sources(mechanism), series)


def _short_enough(lengths: Iterable[int], mechanism: Sanitizer) -> None:
    if mechanism.length is not None and max(lengths, default=0) > mechanism.length:
        raise ValueError(_too_long(mechanism.length))


def _too_long(most: int) -> str:
    return (
        f"series: is longer than the {most} entries that the mechanism covers; create it for "
        "that length, or for any length with length=None"
    )


def _unknown(entry: Any, place: int, states: tuple[Hashable, ...]) -> str:
    return (
        f"series: {entry!r} at entry {place} is not among the states {list(states)}; clean the "
        "data or add the state to the model"
    )
