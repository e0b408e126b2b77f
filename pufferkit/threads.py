"""Linear algebra on one thread for the time of a calculation.

The matrices here have tens or hundreds of rows. Products of that size gain little from several
threads, and on a busy machine the threads wait for one another: a hundred times the time was seen.
The number of threads of BLAS belongs to the process. The thread whose calculation is the first to
begin sets it to one, and sets it back when that calculation ends; the others leave it alone. So
other numpy code of the process finds what it had, except while a calculation runs beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_WITH_BLAS = ("numpy", "scipy.linalg", "torch")
_LIMITED = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS on one thread, in a block or, as a decorator, while a function runs.

    Nothing changes inside another such block, of this thread or another.
    """
    if not _LIMITED.acquire(blocking=False):
        yield
        return
    try:
        loaded = tuple(name for name in _WITH_BLAS if name in sys.modules)
        before = [(library, library.num_threads) for library in _libraries(loaded)]
        several = [(library, number) for library, number in before if number != 1]
        try:
            for library, _ in several:
                _set_threads(library, 1)
            yield
        finally:
            for library, number in several:
                _set_threads(library, number)
    finally:
        _LIMITED.release()


@cache
def _libraries(loaded: tuple[str, ...]) -> list[Any]:
    """The BLAS libraries of the process once these modules are loaded; looking takes 20 ms."""
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    every = ThreadpoolController().lib_controllers
    return [library for library in every if library.user_api == "blas"]


def _set_threads(library: Any, number: int) -> None:
    # Later versions let only the first thread that ever asked change the number. Here the lock
    # decides who may.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)
