"""Loops that run as plain Python or compiled by numba, whichever is sooner done.

One function serves both ways. Little work is done in plain Python, so that a first call in a fresh
process waits neither for numba to load, a second, nor for a compiler the first time ever, half a
minute. Only non-negative sums, products and comparisons, in the same order, give the same numbers
both ways; where a loop takes exponentials they may differ in the last bit, which bounds allow for.

The compiled code is cached next to the package or in the user's home directory. In a container both
may be read-only; then each process compiles its loops again, and nothing fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cached_property
from hashlib import sha1
from math import inf
from pathlib import Path
from time import process_time
from types import FunctionType
from typing import Any

LITTLE = 4_000
"""Loops over arrays of so many numbers in all may run as plain Python."""

PATIENCE = 1.0
"""Seconds without compiled loops after which a process loads them: about what that takes."""

LOADING = 1.0
"""About how many seconds compiled loops take to load."""

FIRST = 12
"""So many times the patience, where a loop was never compiled before: that takes ten or more."""

_spent: dict[str, float] = {}
"""Seconds without compiled loops so far in this process, for the loops of each module."""


class Loop:
    """A loop over arrays; calling it runs it compiled.

    Other loops that it calls by their global names are taken the same way as itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Any = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__, self.__wrapped__ = function.__module__, function

    def __call__(self, *arguments: Any) -> Any:
        """Run the loop compiled."""
        return self.compiled(*arguments)

    def metered(self, *arguments: Any) -> Any:
        """Run it as plain Python while there is little work, in this call and in the process."""
        numbers = sum(getattr(argument, "size", 1) for argument in arguments)
        if numbers > LITTLE or not self.patient():
            return self.compiled(*arguments)
        start = process_time()
        try:
            return self.plain(*arguments)
        finally:
            self.patient(process_time() - start)

    def patient(self, seconds: float = 0.0) -> bool:
        """Whether more may be done without compiling it, after so many seconds more of that."""
        spent = _spent[self.__module__] = _spent.get(self.__module__, 0.0) + seconds
        return "compiled" not in self.__dict__ and spent <= self._patience

    def expect(self, seconds: float) -> None:
        """End the patience at once if it would end within so many seconds more of plain Python."""
        if _spent.get(self.__module__, 0.0) + seconds > self._patience:
            _spent[self.__module__] = inf

    def wait(self, seconds: float) -> float:
        """How many seconds work would wait for a compiler, if it took so many as plain Python."""
        if "compiled" in self.__dict__:
            return 0.0
        return min(seconds, LOADING * (1 if self.is_kept else FIRST))

    @property
    def _patience(self) -> float:
        return PATIENCE * (1 if self.is_kept else FIRST)

    @cached_property
    def is_kept(self) -> bool:
        """Whether an earlier process left compiled code on the disk."""
        code = self._function.__code__
        source = Path(code.co_filename).absolute()
        version = f"py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}"
        name = f"{source.stem}.{self.__name__}-{code.co_firstlineno}.{version}.nbi"
        # Where numba looks: a directory that the user names, next to the source, the user's cache.
        folder = f"{source.parent.name}_{sha1(str(source.parent).encode()).hexdigest()}"
        user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "numba" / folder
        named = os.environ.get("NUMBA_CACHE_DIR")
        places = [Path(named) / folder] if named else [source.parent / "__pycache__", user]
        indices = [place / name for place in places]
        try:
            since = source.stat().st_mtime
            return any(index.exists() and index.stat().st_mtime >= since for index in indices)
        except (OSError, RuntimeError):  # a file that is gone, or no home directory
            return False

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The loop as plain Python."""
        return self._calling(lambda loop: loop.plain)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The loop compiled; for each new combination of types numba compiles it once more."""
        from numba import njit  # noqa: PLC0415  (slow to load)

        function = self._calling(lambda loop: loop.compiled)
        try:
            compiled: Callable[..., Any] = njit(cache=True)(function)
        except RuntimeError:  # no directory for the cache
            compiled = njit(function)
        return compiled

    def _calling(self, way: Callable[[Loop], Any]) -> Callable[..., Any]:
        """The function, with the loops among its global names replaced."""
        function = self._function
        assert isinstance(function, FunctionType)
        used = {name: function.__globals__.get(name) for name in function.__code__.co_names}
        loops = {name: way(value) for name, value in used.items() if isinstance(value, Loop)}
        if not loops:
            return function
        copy = FunctionType(
            function.__code__,
            {**function.__globals__, **loops},
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        copy.__doc__ = function.__doc__
        return copy


def compiled_loop(function: Callable[..., Any]) -> Any:
    """A loop that is compiled when it is first called."""
    return Loop(function)
