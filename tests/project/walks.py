"""How many files and functions of pufferkit one call runs.

``python -m tests.project.walks`` prints a row for each call, counted in a fresh process with empty
caches; ``python -m tests.project.walks plan`` prints what ``plan`` runs, by file. Comprehensions,
lambdas and modules being imported are not counted.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parents[2] / "pufferkit")

Walk = dict[str, dict[str, int]]  # file -> function -> how often it ran


def walked(call: Callable[[], object]) -> Walk:
    """The functions of pufferkit that ``call`` runs, by file, and how often."""
    walk: Walk = {}

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            name = code.co_qualname.replace("<locals>.", "")
            if "<" not in name and not _imported(frame):
                functions = walk.setdefault(code.co_filename[len(PACKAGE) + 1 :], {})
                functions[name] = functions.get(name, 0) + 1

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return walk


def _imported(frame: FrameType | None) -> bool:
    """Whether the function runs, or its class is made, while a module is imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def calls(folder: Path) -> dict[str, Callable[[], Callable[[], object]]]:
    """Each call on twelve entries of a chain with two states; the outer function prepares it."""
    import polars as pl

    import pufferkit as pk

    states = ["rest", "work"]
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.2, 0.8]], states)
    query = pk.histogram(states, 12)
    entries = ["rest", "work", "work"] * 4

    def paid() -> Callable[[], object]:
        account = pk.Account(str(folder / "paid.db"), "a", 4.0)
        return lambda: pk.release(entries, chain, query, 1.0, account=account)

    def each() -> Callable[[], object]:
        frame = pl.DataFrame({"who": ["a"] * 12 + ["b"] * 12, "state": entries * 2})
        table = pk.read(frame, state="state", subject="who", states=states, every="1m")
        book = pk.Ledger(str(folder / "each.db")).accounts_for(table, "", 4.0)
        return lambda: pk.release(table, chain, "histogram", 1.0, account=book, per="subject")

    def verify() -> Callable[[], object]:
        release = pk.influence_curve(chain, query, 1.0).release(entries)
        return lambda: pk.verify(release)

    return {
        "plan": lambda: lambda: pk.plan(chain, query, 1.0),
        "release": lambda: lambda: pk.influence_curve(chain, query, 1.0).release(entries),
        "with account": paid,
        "each subject": each,
        "verify": verify,
    }


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = calls(Path(folder))
        if names:
            walk = walked(made[names[0]]())
            if names[1:] != ["totals"]:
                for file in sorted(walk):
                    counted = (f"{name} {often}" for name, often in sorted(walk[file].items()))
                    print(f"{file}: {', '.join(counted)}")
            functions = sum(map(len, walk.values()))
            runs = sum(sum(each.values()) for each in walk.values())
            print(f"{names[0]:16} {len(walk):3} files {functions:4} functions, {runs} runs")
        else:
            for name in made:
                subprocess.run(
                    [sys.executable, "-m", "tests.project.walks", name, "totals"], check=True
                )


if __name__ == "__main__":
    main(sys.argv[1:])
