"""Loops compiled by numba, kept on disk where there is a place that can be written.

Next to the code, or in the home directory of the user. In a container both may be read-only; then a
loop is compiled anew in each process, which takes seconds, and nothing fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled_loop(function: Callable[..., Any]) -> Any:
    """The function, compiled at its first call."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no place for what is compiled
        return njit(function)
