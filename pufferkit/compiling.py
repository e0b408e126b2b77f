"""Loops compiled by numba and cached on disk, where a directory can be written.

The cache lies next to the code or in the user's home directory. In a container both may be
read-only; then each process compiles its loops again, which takes seconds, and nothing fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled_loop(function: Callable[..., Any]) -> Any:
    """The function, compiled at its first call."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no directory for the cache
        return njit(function)
