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
from typing import Any
from unittest.mock import patch

from typer.main import get_command
from typer.testing import CliRunner, Result

from pufferkit.cli import app
from tests.fuzz import mutations, seeds

SECONDS = 30
"""Of computing; ten times as long on the clock, which a busy machine slows down."""

VERDICTS = ("verify", "audit", "ledger", "beliefs")
"""Commands whose exit code 1 is a verdict."""


COMMAND = get_command(app)


class Hang(BaseException):
    """A call took too long."""


@dataclass
class Report:
    """How calls ended, and those that ended wrongly."""

    codes: Counter[Any] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ends = ", ".join(
            f"exit code {code}: {n:,}" for code, n in sorted(self.codes.items(), key=str)
        )
        return f"{self.codes.total():,} calls; {ends}; {len(self.failures)} failures"


def fuzz(calls: int, seed: int, first: int = 0, every: int = 0) -> Report:
    """Spoil and call, ``calls`` times; the same seed and number give the same call."""
    report, commands = Report(), seeds.commands()
    with folder() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good = Path(home, "good")
        good.mkdir()
        seeds.write(good)
        originals = {path.name: path.read_bytes() for path in good.iterdir()}
        for number in range(first, first + calls):
            rng = Random(f"{seed}:{number}")
            args = list(rng.choice(commands))
            scratch = Path(home, "scratch")
            spoiled = _spoil(rng, args, originals)
            if rng.random() < 0.5 or not spoiled:
                for _ in range(rng.choice([0, 1, 1, 2])):
                    args = mutations.option(rng, args) or args
            named = {name: originals[name] for name in originals if name in " ".join(args)}
            _refill(scratch, {**named, **spoiled})
            problem, code = called(scratch, args)
            report.codes[code] += 1
            if problem is not None:
                report.failures.append(f"call {number}: {problem}\n  {args}")
                print(report.failures[-1], flush=True)
            if every and (number - first + 1) % every == 0:
                print(report, flush=True)
    return report


def _spoil(rng: Random, args: list[str], originals: dict[str, bytes]) -> dict[str, bytes]:
    """Other content for some of the files that a command names."""
    spoiled = {}
    for name in [arg for arg in args if arg in originals]:
        if rng.random() < 0.4:
            continue
        content = originals[name]
        try:
            if name.endswith(".json"):
                text = mutations.json_text(rng, content.decode())
                content = text.encode("utf-8", "surrogatepass")
            elif name.endswith(".csv"):
                text = mutations.csv_text(rng, content.decode())
                content = text.encode("utf-8", "surrogatepass")
            else:
                content = mutations.raw(rng, content)
        except RecursionError:
            continue
        spoiled[name] = content
    return spoiled


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
    def stop(*_: Any) -> None:
        raise Hang

    limits = {
        signal.SIGPROF: (signal.ITIMER_PROF, SECONDS),
        signal.SIGALRM: (signal.ITIMER_REAL, 10 * SECONDS),
    }
    before = {number: signal.signal(number, stop) for number in limits}
    try:
        for timer, seconds in limits.values():
            signal.setitimer(timer, seconds)
        yield
    finally:
        for number, (timer, _) in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
