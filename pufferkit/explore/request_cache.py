"""Requests: a worker for quick ones, another for long ones, and a cache of answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Self

from pufferkit.explore.worker import Worker


@dataclass
class LongWork:
    """A long piece of work, as the page shows it."""

    name: str = ""
    progress: str = ""

    @property
    def under_way(self) -> bool:
        """Whether there is any."""
        return bool(self.name)


class Asking:
    """Requests every answer from a worker once and then caches it."""

    def __init__(self, worker: type[Worker] = Worker) -> None:
        self.work = LongWork()
        self.version = 0
        self._answers: dict[Any, Any] = {}
        self._awaited: dict[Any, asyncio.Future[Any]] = {}
        self._quick, self._slow = worker(), worker()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start both processes before the first question."""
        self._quick.start()
        self._slow.start()

    def close(self) -> None:
        """End both processes."""
        self._quick.close()
        self._slow.close()

    async def _ask(self, task: Any, *given: Any, lane: str = "") -> Any:
        return await self._quick.run(task, *given, lane=lane)

    async def _kept(self, task: Any, given: tuple[Any, ...], lane: str) -> Any:
        """A cached answer; two pages that ask at the same time wait for the same one."""
        key = (task, given)
        if key in self._answers:
            return self._answers[key]
        if key not in self._awaited:
            self._awaited[key] = asyncio.ensure_future(self._fetch(key, lane))
        return await asyncio.shield(self._awaited[key])

    async def _fetch(self, key: tuple[Any, tuple[Any, ...]], lane: str) -> Any:
        task, given = key
        try:
            self._answers[key] = await self._ask(task, *given, lane=lane)
            return self._answers[key]
        finally:
            del self._awaited[key]

    async def _long(
        self,
        name: str,
        task: Any,
        given: tuple[Any, ...],
        *,
        telling: bool = True,
    ) -> Any:
        """A task for the slow worker; pages look at ``work`` and ``version``."""

        def show(text: str) -> None:
            self.work.progress = text

        if self.work.under_way:
            raise ValueError(f"{self.work.name.lower()} is running; wait for it or stop it")
        self.work = LongWork(name)
        try:
            return await self._slow.run(task, *given, tell=show if telling else None)
        finally:
            self.work = LongWork()
            self.version += 1

    def cancel(self) -> None:
        """Stop the long work."""
        self._slow.cancel()
