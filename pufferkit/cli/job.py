"""``job.toml``: the options of a task in a file, and ``pufferkit init``, which writes one.

A job has sections for reading, and each line is an option by its name: ``state = "activity"`` is
``--state activity``. An option of a command beats the job, the job beats what is detected.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.inputs import with_options
from pufferkit.cli.question_options import OPTIONS, QuestionOptions
from pufferkit.data.files import FILE, MARKS
from pufferkit.shown import Statement

if TYPE_CHECKING:
    from pufferkit.data.roles import FileColumns

NAME = "job.toml"
"""The job of a folder."""

_SECTIONS = ("data", "beliefs", "question", "release", "account")
_PATHS = (
    "file",
    "model",
    "weights",
    "ledger",
    "out",
    "plot",
    "report",
    "anchor",
    "hours",
)
_ENDS = re.compile(r"\b(end|until|stop|finish)", re.IGNORECASE)
_MOST_BYTES = 1 << 20
_SHOWN = 8
_NEAR = 0.01  # of a step; noise of a clock averages out


class JobCommand(terminal.Command):
    """A command whose options may stand in a job."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The options given; those that are not come from the job, if there is one."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        lines = _lines(given.get("job"))
        if lines is not None:
            path, settings = lines
            taken = _taken(settings, given, {own.name for own in self.params if own.name})
            flags = {own.name for own in self.params if getattr(own, "is_flag", False)}
            for name, value in taken.items():
                if isinstance(value, bool) != (name in flags):
                    raise ValueError(f"{path}: {name}: must not be {json.dumps(value)}")
            ctx.default_map = {
                name: value if isinstance(value, (bool, list)) else str(value)
                for name, value in taken.items()
            }
            if taken:
                terminal.note(f"from {path}: {', '.join(name.replace('_', '-') for name in taken)}")
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except typer.BadParameter as error:  # or of its kind: a missing one
            none_missing = type(error) is typer.BadParameter
            if none_missing or lines is not None or self.name in ("choose", "fit"):
                raise
            missing = error.format_message().rstrip(".")
            raise ValueError(f"{missing}; or pufferkit init FILE writes a job with it") from None
        return rest


def _lines(named: Any) -> tuple[Path, dict[str, dict[str, Any]]] | None:
    """The job given by ``--job``, or the one of this folder; by sections."""
    path = Path(named) if named else Path(NAME)
    if not named and not path.is_file():
        return None
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"--job: {path} is not a file of at most 1 MB")
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: this is not TOML ({error})") from None
    for section, lines in read.items():
        if section not in _SECTIONS or not isinstance(lines, dict):
            raise ValueError(f"{path}: {section}: sections are {', '.join(_SECTIONS)}")
        for name, value in lines.items():
            if name.replace("-", "_") not in _known():
                raise ValueError(f"{path}: [{section}] {name}: there is no such option")
            if isinstance(value, dict) or (isinstance(value, list) and name != "ask"):
                raise ValueError(f"{path}: [{section}] {name}: must be text, a number or true")
    return path, {
        section: {
            name.replace("-", "_"): _placed(path, name, value) for name, value in lines.items()
        }
        for section, lines in read.items()
    }


def of_job(section: str, name: str) -> Any:
    """A line of the job of this folder; ``None`` without one."""
    lines = _lines(None)
    return None if lines is None else lines[1].get(section, {}).get(name)


def _known() -> set[str]:
    """The lines that a job may have: the options of the commands that take one."""
    from pufferkit.cli import application  # noqa: PLC0415

    app = typer.main.get_command(application())
    named = {"file"}
    for name in ("plan", "release", "audit", "synthetic"):
        named |= {own.name for own in app.commands[name].params if own.name}  # type: ignore[attr-defined]
    return named - {"files", "job", "release", "data"}


def _placed(job: Path, name: str, value: Any) -> Any:
    """A value; a path is relative to the folder of the job."""
    path = name in _PATHS or (name == "levels" and str(value).lower().endswith(".csv"))
    if not path or not isinstance(value, str) or "://" in value or value == "-":
        return value
    return value if job.parent == Path() else str(job.parent / value)


def _taken(
    settings: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any], known: set[str]
) -> dict[str, Any]:
    """The lines that a command takes: none that what was given replaces."""
    said = {name for name, value in given.items() if value not in (None, (), [])}
    makes_beliefs = "files" in known and "model" not in known
    lines = {name: own for section in settings.values() for name, own in section.items()}
    if said & {"query", "ask"}:  # another question has other arguments
        lines = {k: v for k, v in lines.items() if k not in {"query", "ask", *OPTIONS}}
    if said & {"ask"}:  # the least epsilon that meets the errors, unless one is given
        lines.pop("epsilon", None)
    if said & {"public"}:  # other people, read as the data of the job are
        lines.pop("file", None)
    elif said & {"length"} and not makes_beliefs:  # in place of the data
        lines = {k: v for k, v in lines.items() if k not in settings.get("data", {})}
    if said & {"cuts", "levels"}:
        lines = {k: v for k, v in lines.items() if k not in {"cuts", "levels"}}
    if makes_beliefs:  # of public files, which no job names
        kept = {**settings.get("data", {}), **settings.get("question", {})}
        made = {"epsilon": lines.get("epsilon"), "out": lines.get("model")}
        lines = {k: v for k, v in lines.items() if k in kept}
        lines |= {k: v for k, v in made.items() if v is not None}
    if "entry" in lines and "entry" not in known:  # a model of a network knows its size
        lines = {k: v for k, v in lines.items() if k not in settings.get("data", {})}
    file, result = lines.pop("file", None), lines.get("out")
    public = file is None or makes_beliefs
    places = {"files": None if public else [file], "data": file, "release": result}
    if "release" in known:  # verify and synthetic read what the job wrote
        lines.pop("out", None)
    if "data" in known and "public" not in said and "subject" in lines:
        lines.setdefault("segment", lines.pop("subject"))  # people are independent of one another
    if "files" not in known and "data" not in known:
        lines = {k: v for k, v in lines.items() if k not in settings.get("data", {})}
    lines |= {name: place for name, place in places.items() if place is not None}
    return {name: own for name, own in lines.items() if name in known and name not in said}


# -- init ---------------------------------------------------------------------------------------


@with_options
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A raw file: text or Parquet.")],
    form: inputs.Form,
    rows: inputs.Rows,
    question: QuestionOptions,
    state: inputs.MaybeState = None,
    subject: inputs.Subject = None,
    entry: inputs.Entry = None,
    model: inputs.MaybeModel = None,
    epsilon: inputs.MaybeEpsilon = None,
    ledger: inputs.MaybeLedger = None,
    out: inputs.Out = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Read a raw file, say what it was taken for, and write job.toml for the other commands.

    Columns, step and format are detected; an option decides where a guess is wrong. plan, release,
    verify, audit, synthetic, beliefs choose and beliefs fit take their options from the job in this
    folder, or from --job. Levels and beliefs are never taken from the data: they would reveal them.
    """
    target = out or Path(NAME)
    outputs.check_outputs([target], [file, model])
    if target.exists():
        raise ValueError(
            f"{target}: is there already, and other commands use it; edit it, remove it to begin "
            "anew, or write another with --out"
        )
    from pufferkit.data.roles import columns_of  # noqa: PLC0415

    there = columns_of(str(file), form.text)
    chosen: dict[str, str | None] = {
        "state": state or there.state,
        "time": rows.time or (None if form.begins is not None else there.time) or None,
        "subject": entry or subject or there.subject or None,
    }
    if not chosen["state"]:
        raise ValueError(f"--state: {file} has no column that looks like states; name one")
    if entry is not None:
        if subject is not None or rows.time is not None:
            raise ValueError("--entry: the entries of a network have no --subject and no --time")
        chosen["time"] = None
    bins, numbers = form.given_bins(), there.many(chosen["state"] or "")
    numbers = numbers and chosen["state"] in there.numbers
    uncut = numbers and bins is None
    data = inputs.read(
        file,
        chosen["state"],
        replace(rows, time=chosen["time"]),
        form,
        bins=pk.Bins([0.0]) if uncut else bins,
        subject=chosen["subject"],
        segment=None if chosen["subject"] else rows.segment,
    )
    several = inputs.is_wide(chosen["state"] or "") or inputs.is_wide(str(file))
    if entry is not None:
        chosen = {"state": chosen["state"], "entry": entry}
        if int(data.longest.max()) > 1:
            raise ValueError(f"--entry: {entry} names an entry in two rows; each has one row")
        said = iter([f"{len(data.subjects):,} entries of a network, one row each"])
    else:
        said = _said(data, chosen, form)
    statements = [*_columns(there, chosen, rows, str(file)), *said]
    if uncut:
        statements.append(
            f"{chosen['state']} holds numbers: give public cut points as levels or cuts in {target}"
        )
    else:
        states = ", ".join(map(str, data.states[:_SHOWN]))
        statements.append(f"states: {states}{' ...' if len(data.states) > _SHOWN else ''}")
        statements += _odd(data.states)
    job = _written(file, chosen, form, rows, question, model, epsilon, ledger, numbers, several)
    outputs.write_all({target: job.encode()})
    record = {"job": str(target), "columns": chosen}
    told = [Statement("remark", line) for line in statements]
    terminal.answer(told, record if as_json else None)
    terminal.written([target])


def _odd(states: Sequence[Hashable]) -> Iterator[str]:
    """States that may be meant otherwise: marks of a missing value, and spellings of one word."""
    texts = [state for state in states if isinstance(state, str)]
    marks = [text for text in texts if text.strip() in (*MARKS, "-")]
    if marks:
        listed = ", ".join(map(repr, marks))
        yield f"{listed}: counted as states; if not observed is meant, give --missing"
    words = [text.strip().casefold() for text in texts]
    alike = [text for text, word in zip(texts, words, strict=True) if words.count(word) > 1]
    if alike:
        listed = ", ".join(map(repr, alike[:_SHOWN]))
        yield f"{listed}: states of their own that differ in capitals or blanks alone"


def _columns(
    there: FileColumns, chosen: Mapping[str, str | None], rows: inputs.Rows, file: str
) -> Iterator[str]:
    """The role of each column, those that are left out, and what else they may be."""
    state = chosen["state"] or ""
    subject = "each file" if inputs.is_wide(file) else "each column of states"
    for role, column in chosen.items():
        each = role == "subject" and (inputs.is_wide(file) or inputs.is_wide(state))
        yield f"{role}: {column or (subject if each else 'none')}"
    named = [part.strip() for own in chosen.values() if own for part in (own, *own.split(","))]
    rest = [
        name
        for name in there.names
        if name not in {rows.end, rows.segment, FILE}
        and not any(fnmatchcase(name, own) for own in named)
    ]
    if rest:
        more = f" and {len(rest) - _SHOWN} more" if len(rest) > _SHOWN else ""
        yield f"columns left out: {', '.join(rest[:_SHOWN])}{more}"
    for name in rest if rows.end is None and chosen.get("time") else ():
        if _ENDS.search(name):
            yield f"if rows are intervals that end at {name}, give --end and --every"
    alike = [state, *(name for name in rest if there.alike(name, state))]
    if len(alike) > 1 and chosen.get("subject", "entry" if "entry" in chosen else None) is None:
        pattern = re.sub(r"[\d*]+.*", "*", state)
        fits = pattern != state and all(fnmatchcase(name, pattern) for name in alike)
        yield f"if each column is a subject, give --state '{pattern if fits else ','.join(alike)}'"


def _said(data: Any, chosen: Mapping[str, str | None], form: inputs.Form) -> Iterator[str]:
    """What the file says as data: its format, its entries and gaps, its step."""
    from pufferkit.data.durations import of_seconds  # noqa: PLC0415

    if isinstance(data, pk.Series):
        yield from (f"read as: {note}" for note in data.read_as)
        segments = f" in {len(data.lengths):,} segments" if len(data.lengths) > 1 else ""
        yield f"{len(data):,} entries{segments}, {len(data) - data.missing:,} of them observed"
    else:
        yield data.report()
        if chosen["subject"] and chosen["time"] is None and int(data.longest.max()) == 1:
            yield f"if these are the entries of a network, give --entry {chosen['subject']}"
    if data.step is not None:
        yield f"step: {of_seconds(data.step)}"
    elif chosen["time"] is not None and form.every is None:
        yield "step: none, as the times are not even; rows are neighbours"
        about = _jitters_around(data)
        if about is None:
            yield "to put them on a grid, give --every with its step, like --every 5m"
        else:
            near = of_seconds(about)
            yield f"if the clock jitters around {near}, give --every {near}"


def _jitters_around(data: Any) -> float | None:
    """The usual step in seconds that times are apart on average, if there is one."""
    between = getattr(data, "between", None)
    if between is None or len(data) < _SHOWN:
        return None
    mean = (between[2] - between[1]) / (len(data) - 1) / 1e6
    steps = (n * unit for unit in (1, 60, 3600) for n in (1, 2, 5, 10, 15, 20, 30))
    return next((step for step in (*steps, 86400) if abs(mean / step - 1) < _NEAR), None)


def _written(
    file: Path,
    chosen: Mapping[str, str | None],
    form: inputs.Form,
    rows: inputs.Rows,
    question: QuestionOptions,
    model: Path | None,
    epsilon: float | None,
    ledger: str | None,
    numbers: bool,
    several: bool,
) -> str:
    """The job as TOML."""
    data = {"file": str(file), **chosen}
    more = {**vars(form), **{name: own for name, own in vars(rows).items() if name != "time"}}
    more = {name: own for name, own in more.items() if own != "refuse"}
    lines = [
        "# The options of pufferkit plan, release, verify, audit and synthetic in this folder."
    ]
    lines += ["# An option on the command line beats a line here.", "", "[data]"]
    lines += _toml({**data, **more})
    if numbers and form.given_bins() is None:
        lines.append('# levels = "200:2000"  # public cut points, never from these data')
    if more.get("every") is None and "entry" not in chosen:
        lines.append('# every = "5m"  # the step, where times are not even')
    lines += ["", "[beliefs]"]
    fitted = "# from public files: pufferkit beliefs choose FILE...   (or: beliefs fit FILE)"
    lines += [fitted] if model is None and not Path("beliefs.json").is_file() else []
    lines += _toml({"model": str(model or "beliefs.json")})
    asked = {name: own for name, own in vars(question).items() if own is not None}
    lines += ["", "[question]", *_toml(asked)]
    lines += ["", "[release]", *_toml({"epsilon": 1.0 if epsilon is None else epsilon})]
    one = chosen.get("subject") is None and not several
    lines += _toml({"out": "release.json" if one else "releases.csv"})
    name = re.sub(r"[*?\[\]]+", "", file.stem.partition(".")[0]) or "data"
    account = {"ledger": ledger or "ledger.db", "budget": 2.0, "account": name}
    written = _toml(account)
    lines += ["", "[account]", *(written if ledger else [f"# {line}" for line in written])]
    return "\n".join(lines) + "\n"


def _toml(lines: Mapping[str, Any]) -> list[str]:
    """Lines of TOML; texts of JSON are texts of TOML."""
    shown = {name: str(own) if isinstance(own, Path) else own for name, own in lines.items()}
    return [
        f"{name.replace('_', '-')} = {json.dumps(own, ensure_ascii=False)}"
        for name, own in shown.items()
        if own is not None
    ]
