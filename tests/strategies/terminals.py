"""Commands in this process, before a terminal of 80 columns or into a pipe."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections import Counter
from threading import Thread
from unittest.mock import patch

from tests.fuzz.run import COMMAND

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\r")


def on_a_terminal(args: list[str], columns: int = 80) -> str:
    """What a terminal gets, without the codes that move its cursor."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    settings = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "50"}
    return _shown(here, there, args, settings)


def through_a_pipe(args: list[str]) -> str:
    """What a program gets that reads both streams."""
    return _shown(*os.pipe(), args, {})


def words(text: str) -> Counter[str]:
    """How often each word is said; numbers, which noise changes, count as one word, rules none."""
    number = re.compile(r"[-+]?\d[\d.,:]*(e[-+]?\d+)?|null")
    said = (word for word in text.split() if any(map(str.isalnum, word)))
    return Counter(number.sub("#", word) for word in said)


def _shown(here: int, there: int, args: list[str], settings: dict[str, str]) -> str:
    parts: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:  # a terminal without a writer
                return
            if not part:
                return
            parts.append(part)

    ear = Thread(target=listen)
    ear.start()
    with (
        os.fdopen(there, "w", encoding="utf-8") as out,
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", out),
        patch.dict(os.environ, settings),
    ):
        try:
            COMMAND.main(args, prog_name="pufferkit")
        except SystemExit:
            out.flush()
    ear.join()
    os.close(here)
    return _ESCAPES.sub("", b"".join(parts).decode())
