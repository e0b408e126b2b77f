"""Linear algebra on one thread for the time of a calculation.

The matrices here have tens or hundreds of rows. Products of that size gain little from several
threads, and on a busy machine the threads wait for one another: a hundred times the time was seen.
The same holds for OpenMP, on which scikit-learn runs. The number of threads of these libraries
belongs to the process. The thread whose calculation is the first to begin sets it to one, and sets
it back when that calculation ends; calculations within it only add libraries that were loaded
meanwhile. So other code of the process finds what it had, except while a calculation runs beside
it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock, get_ident
from typing import Any

_WITH_THREADS = ("numpy", "scipy.linalg", "torch", "sklearn.ensemble")
_LIMITED = Lock()


@dataclass(eq=False)
class _Outer:
    """The block that limits libraries: its thread, what was loaded, and what it sets back."""

    thread: int = 0
    loaded: tuple[str, ...] = ()
    before: list[tuple[Any, int]] = field(default_factory=list)

    def limit(self) -> None:
        """One thread for every library that was loaded since the last call."""
        loaded = tuple(name for name in _WITH_THREADS if name in sys.modules)
        if loaded == self.loaded:
            return
        self.loaded = loaded
        for library in _libraries(loaded):
            number = library.num_threads
            if number != 1:
                self.before.append((library, number))
                _set_threads(library, 1)

    def restore(self) -> None:
        """The threads that every library had before."""
        for library, number in self.before:
            _set_threads(library, number)
        self.thread, self.loaded, self.before = 0, (), []


_OUTER = _Outer()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and OpenMP on one thread, in a block or, as a decorator, while a function runs.

    Inside another such block of this thread only libraries that were loaded since change; the outer
    block sets them back. Inside one of another thread nothing changes.
    """
    if not _LIMITED.acquire(blocking=False):
        if _OUTER.thread == get_ident():
            _OUTER.limit()
        yield
        return
    try:
        _OUTER.thread = get_ident()
        _OUTER.limit()
        yield
    finally:
        _OUTER.restore()
        _LIMITED.release()


@cache
def _libraries(loaded: tuple[str, ...]) -> list[Any]:
    """The libraries with threads once these modules are loaded; looking takes 20 ms."""
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    every = ThreadpoolController().lib_controllers
    return [library for library in every if library.user_api in ("blas", "openmp")]


def _set_threads(library: Any, number: int) -> None:
    # Later versions let only the first thread that ever asked change the number. Here the lock
    # decides who may.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)
