"""Checks of arguments. Each names the argument, the rule, the value and the remedy."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SUM_TOLERANCE = 1e-8
"""Largest error of the sum of a distribution; within it, the distribution is rescaled."""

LEAST_PRIVACY = 1e-100
"""A smaller epsilon, spread over the entries of a long series, would underflow."""


def frozen(values: Floats) -> Floats:
    """The same array, read-only."""
    values.setflags(write=False)
    return values


class Frozen:
    """A record whose arrays stay read-only when copied or pickled, which numpy does not keep up."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, np.ndarray):
                    part.setflags(write=False)
        self.__dict__.update(state)


def assign(record: object, **fields: Any) -> None:
    """Set the checked fields of a frozen record while it is constructed."""
    record.__dict__.update(fields)


def numbers(name: str, values: ArrayLike) -> Floats:
    """A float array of finite numbers, or an error. Strings and booleans are not numbers."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name}: must be numbers in a regular shape, rows of equal length"
        ) from None
    stranger = _no_number(values)
    if stranger is not None:
        raise ValueError(f"{name}: must be numbers, got {stranger!r:.40}; convert them first")
    if not np.isfinite(array).all():
        where = tuple(int(j) for j in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"{name}: entry {where} is {array[where]}, not a finite number; check the export"
        )
    return array


def _no_number(values: Any) -> Any:
    """The first string or boolean among the values; ``None`` if there is none."""
    if isinstance(values, (list, tuple)):
        return next((bad for value in values if (bad := _no_number(value)) is not None), None)
    if isinstance(values, (str, bytes, bool, np.bool_)):
        return values
    kind = getattr(getattr(values, "dtype", None), "kind", "f")
    if kind in "bSUT" and np.size(values):
        return np.ravel(values)[0].item() if hasattr(values, "shape") else values
    return _no_number(list(values)) if kind == "O" and np.ndim(values) == 1 else None


def _distribution(name: str, array: Floats, where: str) -> None:
    if (array < 0).any():
        worst = int(array.argmin())
        raise ValueError(
            f"{name}: {where}entry {worst} is {array[worst]:.6g}, below 0; "
            "probabilities are non-negative"
        )
    if abs(array.sum() - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"{name}: {where}sums to {array.sum():.9g}, not 1; normalise it or check the export"
        )


def _rescaled(rows: Floats) -> Floats:
    """Rows rescaled to sum to one; rows that already do, up to rounding, are left unchanged."""
    sums = rows.sum(axis=1, keepdims=True)
    near = np.abs(sums - 1) <= 4 * rows.shape[1] * np.finfo(float).eps
    scaled: Floats = np.where(near, rows, rows / sums)
    return scaled


def probability_vector(name: str, values: ArrayLike) -> Floats:
    """A distribution on finitely many states, rescaled to sum to one exactly, read-only."""
    array = numbers(name, values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name}: must be one row of probabilities, got an array of shape {array.shape}"
        )
    _distribution(name, array, "")
    return frozen(_rescaled(array[None, :])[0])


def distributions(name: str, rows: Floats) -> Floats:
    """Rows that are distributions, rescaled to sum to one exactly."""
    wrong = (rows < 0).any(axis=1) | ~(np.abs(rows.sum(axis=1) - 1) <= SUM_TOLERANCE)
    for x in np.flatnonzero(wrong):
        _distribution(name, rows[x], f"row {x} ")
    return _rescaled(rows)


def stochastic_matrix(name: str, values: ArrayLike) -> Floats:
    """A square matrix whose rows are distributions, rescaled to sum to one exactly, read-only."""
    array = numbers(name, values)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ValueError(
            f"{name}: must be a square matrix, row x the distribution of the next state after x; "
            f"got shape {array.shape}"
        )
    return frozen(distributions(name, array))


def stochastic_matrices(name: str, named: Iterable[tuple[str, ArrayLike]]) -> tuple[Floats, ...]:
    """Transition matrices over the same states, each given with its name in error messages."""
    matrices = tuple(stochastic_matrix(own, matrix) for own, matrix in named)
    if not matrices:
        raise ValueError(f"{name}: needs at least one matrix, got none")
    sizes = sorted({len(matrix) for matrix in matrices})
    if len(sizes) > 1:
        raise ValueError(f"{name}: all must have the same states; got matrices of sizes {sizes}")
    return matrices


def real(name: str, value: Any) -> float:
    """One finite number, or an error. Strings and booleans are not numbers."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, Decimal)):
        raise ValueError(f"{name}: must be a number, got {value!r:.60}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name}: is too large for a float") from None
    if not math.isfinite(number):
        raise ValueError(f"{name}: must be finite, got {number}")
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, or an error: the string "false" is neither."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: must be true or false, got {value!r:.60}")
    return bool(value)


def positive(name: str, value: Any) -> float:
    """One finite number above zero, or an error."""
    number = real(name, value)
    if number <= 0:
        raise ValueError(f"{name}: must be above 0, got {number:g}")
    return number


def privacy(epsilon: Any) -> float:
    """A privacy parameter: finite, above zero, and not so small that it underflows."""
    try:
        value = positive("epsilon", epsilon)
        if value < LEAST_PRIVACY:
            raise ValueError(f"epsilon: must be at least {LEAST_PRIVACY:g}, got {value:g}")
    except ValueError as error:
        raise ValueError(f"{error}; common choices lie between 0.1 (strong) and 5 (weak)") from None
    return value


def confidence(value: Any, example: float = 0.95) -> float:
    """A confidence level: below one, and at least one half, where the intervals are proved."""
    level = real("confidence", value)
    if not 0.5 <= level < 1:
        raise ValueError(
            f"confidence: must be at least 0.5 and below 1, got {level:g}; for example {example:g}"
        )
    return level


def whole(name: str, value: Any, least: int) -> int:
    """A whole number, at least ``least``."""
    integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integral and not (isinstance(value, float) and value.is_integer()):
        raise ValueError(f"{name}: must be a whole number, got {value!r:.60}")
    if int(value) < least:
        raise ValueError(f"{name}: must be at least {least}, got {int(value)}")
    return int(value)


def segment_lengths(lengths: int | Iterable[int]) -> tuple[int, ...]:
    """Lengths of independent segments, each at least one."""
    if isinstance(lengths, Iterable):
        lengths = tuple(lengths)
        if any(isinstance(n, tuple) for n in lengths):
            raise ValueError(
                "lengths: belong to many subjects; give those of one, as in table.lengths_of(0)"
            )
        numbers = tuple(whole("lengths", n, 1) for n in lengths)
        if not numbers:
            raise ValueError("lengths: must name at least one segment, got none")
        return numbers
    return (whole("lengths", lengths, 1),)


def json_value(name: str, text: str | bytes) -> Any:
    """The value of a JSON text, parsed strictly: NaN, infinity and duplicate keys are errors."""
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite
        )
    except RecursionError:
        raise ValueError(f"{name}: is nested too deeply to be read") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: is not JSON ({error})") from None


def json_object(name: str, text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text, or an error."""
    data = json_value(name, text)
    if not isinstance(data, dict):
        raise ValueError(f"{name}: must be a JSON object, as to_json() writes, got {data!r:.40}")
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r:.40} is given twice; keep one of them")
    return record


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is too large for a float")
    return number


def distinct_states(states: Sequence[Hashable] | Iterable[Hashable]) -> tuple[Hashable, ...]:
    """State labels: at least one, all different."""
    if isinstance(states, (str, bytes)) or not isinstance(states, Iterable):
        raise ValueError(f"states: must be a list of labels, got {states!r}")
    labels = tuple(x.item() if isinstance(x, np.generic) else x for x in states)
    if not labels:
        raise ValueError("states: must name at least one state, got none")
    seen: set[Hashable] = set()
    for label in labels:
        if not isinstance(label, Hashable):
            raise ValueError(f"states: {label!r} cannot be a label; use text or numbers")
        if label is None:
            raise ValueError(
                "states: an entry without a state was not observed, so null is no state; name it"
            )
        if label in seen:
            raise ValueError(f"states: {label!r} is listed twice; every state needs its own label")
        seen.add(label)
    return labels
