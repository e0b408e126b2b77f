"""Runs what pages and notebooks show, and keeps what comes out of it.

A page runs in a folder of its own that has ``examples/`` and finds `papers`, as a clone does. Its
Python blocks share one namespace; a block shows what it prints, its last expression as a notebook
would, and the pictures it writes; of a ``figure`` the code is folded below it. Of shell blocks
every line is run; a line that is meant to fail ends in ``# exit code N``. Blocks of JSON are
models. Blocks marked ``py`` need what is not here, a cluster; they only have to be Python. ``text``
is shown as it stands.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import html
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LANGUAGES = {"python", "figure", "sh", "json", "py", "text"}
NOT_HERE = ("make ", "pip ", ".ci/run")
"""Commands that install, build or test everything: tried in CI, not here."""
THEIRS = "~/"
"""A command with this in it reads data that only the reader has."""
MOST_LINES = 45
"""Of an output; the rest is counted."""

Output = dict[str, Any]


def ran(text: str, name: str) -> list[str]:
    """The Markdown that takes the place of each block of a page: the block, and its outputs."""
    with empty_folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shutil.copytree(ROOT / "examples", "examples")
        if str(ROOT) not in sys.path:
            sys.path.append(str(ROOT))  # `papers`, and the readers' files
        _files_of_the_reader(name)
        names: dict[str, Any] = {"__name__": "page"}
        found = [_block(*match.groups(), name, names) for match in FENCE.finditer(text)]
        return [block.replace(f"{folder}/", "").replace(str(folder), ".") for block in found]


def _block(language: str, source: str, name: str, names: dict[str, Any]) -> str:
    if language not in LANGUAGES:
        raise ValueError(f"{name}: a block is {language or 'of no language'}, not of {LANGUAGES}")
    if language in ("python", "figure"):
        with _pictures() as drawn:
            outputs = [shown(output) for output in run_block(source, name, names)]
        if language == "figure":
            code = _fence("python", without_checks(source))
            folded = f"<details markdown>\n<summary>code</summary>\n\n{code}\n\n</details>"
            return "\n\n".join([*outputs, *drawn, folded])
        return "\n\n".join([_fence("python", without_checks(source)), *outputs, *drawn])
    if language == "sh":
        return "\n\n".join(part for command in _commands(source) for part in _console(command))
    if language == "json":
        import pufferkit as pk  # noqa: PLC0415

        pk.ChainClass.from_json(source)
    elif language == "py":
        compile(source, name, "exec")
    return _fence(language, source)


def run_block(source: str, name: str, names: dict[str, Any]) -> list[Output]:
    """What a block prints, and its last expression, in the form of a notebook's outputs."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    outputs: list[Output] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        outputs.append({"output_type": "execute_result", "metadata": {}, "data": _data(value)})
    return outputs


def _data(value: Any) -> dict[str, Any]:
    """A value by the kinds in which it can be shown."""
    data: dict[str, Any] = {}
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    page = value._repr_html_() if hasattr(value, "_repr_html_") else None
    if page is not None:
        data["text/html"] = page.splitlines(keepends=True)
    data["text/plain"] = repr(value).splitlines(keepends=True)
    if hasattr(value, "get_suptitle"):
        data["text/plain"] = value.get_suptitle().splitlines(keepends=True)
    return data


def shown(output: Output) -> str:
    """An output as a part of a page."""
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    data = output["data"]
    if "image/png" in data:
        return image(data["image/png"], "".join(data["text/plain"]))
    if "text/html" in data and "<table" in "".join(data["text/html"]):
        body = "".join(line for line in "".join(data["text/html"]).splitlines() if line.strip())
        return f'<div class="output">{body}</div>'
    return _text("".join(data["text/plain"]))


def image(png: str, words: str) -> str:
    """A picture that is part of the page itself, and in words for those who do not see it."""
    alt = "" if words.startswith("<") else html.escape(" ".join(words.split()), quote=True)
    return f'<p class="picture"><img alt="{alt}" src="data:image/png;base64,{png}"></p>'


def _text(text: str) -> str:
    lines = text.rstrip().splitlines()
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 5], f"... and {len(lines) - MOST_LINES + 5:,} more lines"]
    ruled = any(len(line) > 40 and not line.strip("- ") for line in lines)
    kind = " .ruled" if ruled else ""  # a table, whose lines cannot be wrapped
    return _fence(f"{{ .text .output{kind} .no-copy }}", "\n".join(line.rstrip() for line in lines))


def _fence(head: str, text: str) -> str:
    return f"```{head}\n{text.rstrip()}\n```"


def without_checks(source: str) -> str:
    """A block without its assertions: they hold the page to what it says, and tell nobody more."""
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.Assert):
            del lines[node.lineno - 1 : node.end_lineno]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).strip("\n")


def _commands(source: str) -> Iterator[str]:
    """The commands of a shell block as they stand, continued lines together."""
    yield from re.findall(r"^(?:.*\\\n)*.+$", source, re.M)


def _console(line: str) -> list[str]:
    """A command, and what it prints and draws."""
    command, _, remark = re.sub(r"\s*\\\n\s*", " ", line).strip().partition("  # ")
    fence = _fence("sh", line)
    if not command or command.startswith(("#", *NOT_HERE)) or THEIRS in command:
        return [fence]
    wanted = int(remark.removeprefix("exit code ")[0]) if remark.startswith("exit code ") else 0
    program, *arguments = shlex.split(command)
    if program == "mkdir":
        Path(arguments[-1]).mkdir(parents=True, exist_ok=True)
        return [fence]
    with _pictures() as drawn:
        code, printed = _run(program, arguments)
    if code != wanted:
        raise RuntimeError(f"{line}\nexit code {code}\n{printed}")
    return [fence, *([_text(printed)] if printed.strip() else []), *drawn]


def _run(program: str, arguments: list[str]) -> tuple[int, str]:
    if program == "pufferkit":
        return _pufferkit(arguments)
    if program == "python":
        return _python(arguments)
    raise ValueError(f"the shell blocks of pages run pufferkit and python, not {program}")


def _pufferkit(arguments: list[str]) -> tuple[int, str]:
    """Exit code and printed lines, standard error among them as on a terminal."""
    import typer.testing  # noqa: PLC0415
    from typer.main import get_command  # noqa: PLC0415

    from pufferkit.cli import app  # noqa: PLC0415

    # Typer makes all commands anew at every call, which takes longer than most of them do.
    typer.testing._get_command = _once(get_command)
    done = typer.testing.CliRunner(env={"COLUMNS": "88"}).invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


_once = cache(cache)  # one cache for each function, made once


def _python(arguments: list[str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@contextlib.contextmanager
def _pictures() -> Iterator[list[str]]:
    """The pictures that are written meanwhile, as parts of the page."""

    def there() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in sorted(Path().rglob("*.png"))}

    before, drawn = there(), []
    yield drawn
    for path, time in there().items():
        if before.get(path) != time:
            drawn.append(image(base64.b64encode(path.read_bytes()).decode(), path.stem))


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    """Work in a folder that is gone afterwards."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(here)


def _files_of_the_reader(name: str) -> None:
    """Files that two pages take as the reader's own, simulated."""
    if name == "many-subjects":
        _table_of_subjects()
    if name == "raw-files":
        from tests.strategies import look_alikes  # noqa: PLC0415

        look_alikes.all_of_them(Path())


def _table_of_subjects() -> None:
    import polars as pl  # noqa: PLC0415

    import pufferkit as pk  # noqa: PLC0415

    chain = pk.MarkovChain.steady(
        [[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.35, 0.6]], ["resting", "sitting", "walking"]
    )
    Path("model.json").write_text(json.dumps(chain.to_dict()))
    codes = [chain.sample(2016, seed=n) for n in range(3)]
    rows = pl.DataFrame(
        {
            "person": [f"person {n}" for n, own in enumerate(codes) for _ in own],
            "minutes": [5 * t for own in codes for t in range(len(own))],
            "activity": [chain.states[code] for own in codes for code in own],
        }
    )
    start = pl.datetime(2024, 1, 1)
    rows.with_columns(time=start + pl.duration(minutes="minutes")).drop("minutes").write_parquet(
        "table.parquet"
    )
