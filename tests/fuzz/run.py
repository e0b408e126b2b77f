"""One call after another, and what each must leave behind."""

import os
import shutil
import signal
import sqlite3
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import process_time
from typing import Any
from unittest.mock import patch

from typer.main import get_command
from typer.testing import CliRunner, Result

from pufferkit.cli import app
from tests.fuzz import mutations, seeds

SECONDS = 30
"""Of computing; after ten times as long on the clock a call must have computed a little."""

IDLE = 0.5
"""Seconds of computing within that time below which a call only waits."""

VERDICTS = ("verify", "audit", "ledger", "beliefs")
"""Commands whose exit code 1 is a verdict."""


COMMAND = get_command(app)


class Hang(BaseException):
    """A call took too long."""


@dataclass
class Report:
    """How calls ended, and those that ended wrongly."""

    codes: Counter[Any] = field(default_factory=Counter)
    unspoiled: Counter[Any] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ends = ", ".join(
            f"exit code {code}: {n:,}" for code, n in sorted(self.codes.items(), key=str)
        )
        return (
            f"{self.codes.total():,} spoiled calls; {ends}; {self.success:.0%} succeeded before "
            f"one thing was spoiled; {len(self.failures)} failures"
        )

    @property
    def success(self) -> float:
        """The share of calls that succeeded before they were spoiled."""
        return self.unspoiled[0] / max(1, self.unspoiled.total())


def fuzz(calls: int, seed: int, first: int = 0, every: int = 0) -> Report:
    """Call, spoil one thing and call again, ``calls`` times; a seed and a number give the call."""
    report = Report()
    with folder() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good = Path(home, "good")
        good.mkdir()
        seeds.write(good)
        originals = {path.name: path.read_bytes() for path in good.iterdir()}
        for number in range(first, first + calls):
            rng = Random(f"{seed}:{number}")
            args, scratch = seeds.valid(rng), Path(home, "scratch")
            named = {name: originals[name] for name in originals if name in " ".join(args)}
            files = [arg for arg in args if arg in originals]
            changed: dict[str, bytes] = {}
            other = args
            if files and rng.random() < 0.5:
                file = rng.choice(files)
                changed = {file: _spoiled(rng, file, originals[file])}
            else:
                other = mutations.option(rng, args) or args
            for counted, words, contents in (
                (report.unspoiled, args, named),
                (report.codes, other, {**named, **changed}),
            ):
                _refill(scratch, contents)
                problem, code = called(scratch, words)
                counted[code] += 1
                if problem is not None:
                    which = f"spoiled {', '.join(changed)}" if changed else "as it stands"
                    report.failures.append(f"call {number}: {problem}\n  {which}: {words}")
                    print(report.failures[-1], flush=True)
            if every and (number - first + 1) % every == 0:
                print(report, flush=True)
    return report


def _spoiled(rng: Random, name: str, content: bytes) -> bytes:
    """Other content for a file that a command names."""
    try:
        if name.endswith(".json"):
            return mutations.json_text(rng, content.decode()).encode("utf-8", "surrogatepass")
        if name.endswith(".csv"):
            return mutations.csv_text(rng, content.decode()).encode("utf-8", "surrogatepass")
    except RecursionError:
        return b"[" * 2000
    return mutations.raw(rng, content)


def called(scratch: Path, args: list[str]) -> tuple[str | None, Any]:
    """Call in the scratch directory; what is wrong, if anything, and the exit code."""
    before = _snapshot(scratch)
    here = Path.cwd()
    os.chdir(scratch)
    try:
        # The runner would build the whole command again for every call.
        with (
            _alarm(),
            _past_python() as beside,
            patch("typer.testing._get_command", lambda _: COMMAND),
        ):
            result = CliRunner().invoke(app, args)
    except Hang:
        return f"no answer within {SECONDS} s", "hang"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error!s:.300}", "escaped"
    finally:
        os.chdir(here)
    if beside and beside[0]:
        return f"said past the command line: {beside[0]!r:.300}", result.exit_code
    return _problem(args, result, before, _snapshot(scratch)), result.exit_code


def _problem(args: list[str], result: Result, before: Any, after: Any) -> str | None:
    """The first rule that a call broke."""
    error, code, words = result.exception, result.exit_code, result.stderr
    lines = words.split("\n")
    changed = [n for n in after.keys() | before.keys() if before.get(n) != after.get(n)]
    open_to_others = [n for n, (mode, _) in after.items() if n not in before and mode & 0o077]
    broken = {
        f"{type(error).__name__}: {error!s:.300}": not isinstance(error, (SystemExit, type(None))),
        f"exit code {code}": code not in (0, 1, 2) or (code == 1 and args[0] not in VERDICTS),
        "a traceback is shown": "Traceback" in result.output,
        f"control characters are shown: {words!r:.300}": not all(map(str.isprintable, lines)),
        f"not one line of error: {words!r:.300}": code == 2
        and sum(line.startswith("error: ") for line in lines) != 1,
        f"a password is shown: {words:.300}": ":secret@" in words,
        f"failed, but changed {sorted(changed)}: {words:.200}": code == 2 and bool(changed),
        f"others may read {open_to_others}": bool(open_to_others),
        "a partial file is left": any(name.endswith(".part") for name in after),
    }
    return next((rule for rule, holds in broken.items() if holds), None)


def _snapshot(folder: Path) -> dict[str, tuple[int, Any]]:
    """Mode and content of every file; of ledgers, what they say."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.endswith(("-wal", "-shm", "-journal")):
            content = _ledger(path) if path.suffix == ".db" else path.read_bytes()
            contents[str(path.relative_to(folder))] = (path.stat().st_mode & 0o777, content)
    return contents


def _ledger(path: Path) -> Any:
    content = path.read_bytes()
    try:
        with tempfile.TemporaryDirectory(dir=path.parent.parent) as folder:
            for name in (path.name, f"{path.name}-wal"):
                if path.with_name(name).is_file():
                    shutil.copy(path.with_name(name), folder)
            connection = sqlite3.connect(Path(folder, path.name))
            try:
                return "\n".join(connection.iterdump())
            finally:
                connection.close()
    except (sqlite3.Error, UnicodeDecodeError):
        return content


def _refill(folder: Path, contents: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)


@contextmanager
def folder() -> Iterator[str]:
    """In memory where that can be had: databases wait for disks."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield folder


@contextmanager
def _past_python() -> Iterator[list[str]]:
    """What libraries that are not Python write on file descriptor 2, which no runner sees."""
    said: list[str] = []
    with tempfile.TemporaryFile() as words:
        kept = os.dup(2)
        os.dup2(words.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said.append(os.pread(words.fileno(), 10_000, 0).decode(errors="replace"))


@contextmanager
def _alarm() -> Iterator[None]:
    """Stops a call that computes for too long, or that waits without computing."""
    seen = process_time()

    def computed(*_: Any) -> None:
        raise Hang

    def waited(*_: Any) -> None:
        nonlocal seen
        if process_time() - seen < IDLE:
            raise Hang
        seen = process_time()

    limits = {
        signal.SIGPROF: (signal.ITIMER_PROF, SECONDS, computed),
        signal.SIGALRM: (signal.ITIMER_REAL, 10 * SECONDS, waited),
    }
    before = {number: signal.signal(number, stop) for number, (*_, stop) in limits.items()}
    try:
        for timer, seconds, _ in limits.values():
            signal.setitimer(timer, seconds, seconds)
        yield
    finally:
        for number, (timer, *_) in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
