"""A process that computes while the page stays responsive; ending it cancels the work.

Threads are not enough: a plan holds the interpreter, and a thread cannot be stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

Tell = Callable[[float | None, str], None]
"""Called with the part that is done, if it is known, and with what is being done."""

_LOG = logging.getLogger(__name__)
_TELL_EVERY = 0.1


class Refused(Exception):
    """The error message of the library in place of a result."""


class Cancelled(Exception):
    """The user, or a newer request, stopped the work."""


class Worker:
    """One process and one piece of work at a time; the process lives on between them.

    A task is a function of a module with arguments that can be pickled. If it takes ``tell``, what
    it tells is shown while it works.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._ours: Connection | None = None
        self._turn = asyncio.Lock()
        self._newest: dict[str, int] = {}
        self._under_way: set[asyncio.Future[Any]] = set()

    def start(self) -> None:
        """Start the process, so that the first task finds the library loaded."""
        if self._process is None or not self._process.is_alive():
            self._ours, theirs = self._context.Pipe()
            self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()

    async def run(
        self,
        task: Callable[..., Any],
        *given: Any,
        tell: Tell | None = None,
        lane: str = "",
    ) -> Any:
        """What the task gives; of waiting tasks in one lane only the newest is done.

        Raises
        ------
        Refused
            With the sentence of the library.
        Cancelled
            If the process was ended, or a newer task took this one's place.
        """
        # A page that closes cancels its request; the answer must be read anyway, or the next
        # request would get it.
        work = asyncio.ensure_future(self._run(task, given, tell, lane))
        self._under_way.add(work)
        work.add_done_callback(self._done)
        return await asyncio.shield(work)

    def _done(self, work: asyncio.Future[Any]) -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # retrieved, so that asyncio does not warn if the page is gone

    async def _run(
        self, task: Callable[..., Any], given: Sequence[Any], tell: Tell | None, lane: str
    ) -> Any:
        ticket = self._newest[lane] = self._newest.get(lane, 0) + 1
        async with self._turn:
            if lane and ticket != self._newest[lane]:
                raise Cancelled("a newer question took its place")
            self.start()
            connection = self._ours
            assert connection is not None
            try:
                connection.send((task, given, tell is not None))
                while True:
                    kind, content = await asyncio.to_thread(connection.recv)
                    if kind != "progress":
                        break
                    if tell is not None:
                        tell(*content)
            except (EOFError, OSError):
                self._process = None
                raise Cancelled("stopped") from None
        if kind == "refused":
            raise Refused(content)
        return content

    @property
    def busy(self) -> bool:
        """Whether a task is under way."""
        return self._turn.locked()

    def cancel(self) -> None:
        """End the process, and with it the task; the next task starts another."""
        if self._process is not None and self.busy:
            self._process.kill()

    def close(self) -> None:
        """End the process for good."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(connection: Connection) -> None:
    """The process: tasks in, answers out, until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this one
    while True:
        try:
            task, given, telling = connection.recv()
        except (EOFError, OSError):
            return
        last = 0.0

        def tell(part: float | None, words: str) -> None:
            nonlocal last
            if monotonic() - last > _TELL_EVERY:
                last = monotonic()
                connection.send(("progress", (part, words)))

        answer = answered(task, given, tell if telling else None)
        with contextlib.suppress(OSError):  # the server may be gone by now
            connection.send(answer)


def answered(task: Callable[..., Any], given: Sequence[Any], tell: Tell | None) -> tuple[str, Any]:
    """``("done", what the task gives)``, or ``("refused", a sentence)``."""
    try:
        return "done", task(*given, **({} if tell is None else {"tell": tell}))
    except (ValueError, OSError, ImportError, OverflowError) as error:
        return "refused", _sentence(error)
    except Exception as error:
        _LOG.exception("a task failed")
        return "refused", f"Something went wrong; the terminal has the details ({error})"


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
