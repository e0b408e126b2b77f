"""The page's calls of the library. They run in a `Worker` and return plain data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.beliefs.provenance import Provenance
from pufferkit.explore.page_questions import PageQuestion
from pufferkit.explore.recipes import DataFile, read_model
from pufferkit.fitting.choosing import promise_of
from pufferkit.influence.progress import TextProgress
from pufferkit.mechanisms.changed_queries import over

if TYPE_CHECKING:
    from pufferkit import ChainClass, Query, Series, Table


_LINE, _LINES = 96, 7
_SMOOTHING = 0.5
_DAY = 24 * 60 * 60 * 10**6

_SAME = (
    "public file: it is the private file, or shares an identifying passage with it; it would be "
    "drawn and the beliefs counted from it, without noise. Give data of other people or of an "
    "earlier time, or no public file"
)

BUILT = {
    "single chain": "one chain, counted from all public people",
    "region": "every chain that the public counts leave plausible, at 95%",
    "hull": "every mixture of the public people's chains, changing at any time",
    "any start": "the counted matrix with any start: also against those who know single entries",
}
"""Descriptions of the classes fitted to a public file."""


def warm() -> None:
    """Load what the first request needs."""
    pk.influence_curve(pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), pk.count(1, 100), 1.0)


def _stamp(path: str) -> tuple[int, int]:
    """Modification time of a file, so that a changed file is read again."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def table_of(source: DataFile) -> Table:
    """The people of a public file, read once."""
    return _read_table(source, _stamp(source.path))


@lru_cache(maxsize=4)
def _read_table(source: DataFile, _: tuple[int, int]) -> Table:
    return source.table()


@lru_cache(maxsize=4)
def _read_series(source: DataFile, states: tuple[Any, ...] | None, _: tuple[int, int]) -> Series:
    return source.series(states)


def series_of(source: DataFile, states: tuple[Any, ...] | None = None) -> Series:
    """The series in a private file, read once."""
    return _read_series(source, states, _stamp(source.path))


@lru_cache(maxsize=32)
def _read_beliefs(path: str, _: tuple[int, int]) -> ChainClass:
    return read_model(path)


def beliefs_of(path: str) -> ChainClass:
    """The class in a file of the workspace."""
    return _read_beliefs(path, _stamp(path))


def _people(table: Table) -> list[Series]:
    return [table.series(subject) for subject in table.subjects]


def _clock(table: Table) -> tuple[int | None, list[int] | None]:
    """Entries in a day, and the slot of each person's first entry, where times are of days."""
    if not table.of_time or table.every is None or _DAY % table.every or table.every > _DAY / 2:
        return None, None
    begins = table.begins or (0,) * len(table.subjects)
    return int(_DAY // table.every), [int(begin % _DAY // table.every) for begin in begins]


def refuse_the_private(public: DataFile | None, private: DataFile | None) -> None:
    """Raise if the public file is the private one, or holds an identifying passage of it.

    Called before anything of the public file is shown. Files of one content are recognised by
    their bytes, others by their entries, as far as the columns that were named can be read.
    """
    if public is None or private is None:
        return
    if _content(public.path, _stamp(public.path)) == _content(private.path, _stamp(private.path)):
        raise ValueError(_SAME)
    if not (public.state and private.state):
        return
    cuts = {} if private.cuts else {"cuts": public.cuts, "unit": public.unit}
    try:
        mine, others = series_of(replace(private, **cuts)), table_of(public).all_series
    except ValueError:  # said where that file is read
        return
    if Provenance.of_series(others).covers(mine):
        raise ValueError(_SAME)


@lru_cache(maxsize=4)
def _content(path: str, _: tuple[int, int]) -> str:
    """Digest of the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def look_at_public(source: DataFile, private: DataFile | None) -> dict[str, Any]:
    """Facts about a public file that may be shown; none if it is the private one."""
    refuse_the_private(source, private)
    table = table_of(source)
    people = _people(table)
    day, _ = _clock(table)
    shown = people[0].codes[: (day or _LINE) * _LINES]
    pooled = table.all_series
    shares = pk.relative_frequencies(table.states, pooled).exact(pooled)
    return {
        "report": table.report(),
        "states": [str(state) for state in table.states],
        "people": len(people),
        "longest": max(len(one) for one in people),
        "day": day or _LINE,
        "has_clock": day is not None,
        "codes": [int(code) for code in shown],
        "shares": [float(share) for share in shares],
    }


def look_at_private(source: DataFile, public: DataFile | None) -> dict[str, Any]:
    """Length and gaps of a private series, which the promise treats as public."""
    refuse_the_private(public, source)
    series = series_of(source)
    return {
        "entries": len(series),
        "lengths": list(series.lengths),
        "missing": series.missing,
        "notes": list(series.read_as),
        "has_clock": series.calendar is not None,
    }


def suggest_cuts(source: DataFile, count: int, private: DataFile | None) -> str:
    """Cut points with equally many public readings between them."""
    from pufferkit.frames import first_rows  # noqa: PLC0415

    refuse_the_private(source, private)
    cells = first_rows(source.path, 1_000_000)[source.state]
    numbers = [float(str(cell).replace(",", ".")) for cell in cells if _is_number(cell)]
    return ", ".join(f"{cut:g}" for cut in pk.Bins.quantiles(numbers, count).cuts)


def _is_number(cell: Any) -> bool:
    try:
        float(str(cell).replace(",", "."))
    except ValueError:
        return False
    return True


def counted(kind: str, source: DataFile, folder: str) -> dict[str, Any]:
    """A class counted from a public file, written to the folder."""
    table = table_of(source)
    pooled = table.all_series
    chain = pk.MarkovChain.fit(pooled, smoothing=_SMOOTHING)
    if kind == "single chain":
        theta = pk.ChainClass.of(chain)
    elif kind == "region":
        theta = pk.ChainClass.around(pooled, 0.95)
    elif kind == "hull":
        people = _people(table)
        own = [pk.MarkovChain.fit(one, smoothing=_SMOOTHING) for one in people]
        theta = pk.ChainClass.hull(chain, *own)
    elif kind == "any start":
        theta = pk.ChainClass.any_start(chain.transition, states=chain.states, step=chain.step)
    else:
        raise ValueError(f"class: {kind!r} is unknown; known are {', '.join(BUILT)}")
    return kept(kind, theta, folder)


def _labels(names: Sequence[str]) -> list[Any]:
    from pufferkit.frames import states_from_text  # noqa: PLC0415

    return states_from_text(names)


def by_hand(rows: Sequence[Sequence[float]], states: Sequence[str], start: str, folder: str) -> Any:
    """A chain that a person typed in."""
    matrix, names = [list(row) for row in rows], _labels(states)
    if start == "any":
        theta = pk.ChainClass.any_start(matrix, states=names)
    else:
        theta = pk.ChainClass.of(pk.MarkovChain.steady(matrix, names))
    return kept("by hand", theta, folder)


def bounded(low: float, high: float, states: Sequence[str], folder: str) -> dict[str, Any]:
    """Every binary chain that stays with probabilities in a range."""
    theta = pk.ChainClass.binary(low, high, _labels(states))
    return kept(f"binary {low:g} to {high:g}", theta, folder)


def mixing(states: Sequence[str], pi_min: float, gap: float, folder: str) -> dict[str, Any]:
    """Every chain that mixes at least so well."""
    theta = pk.ChainClass.mixing(_labels(states), pi_min, gap)
    return kept(f"mixing {pi_min:g}, {gap:g}", theta, folder)


def from_file(path: str, folder: str) -> dict[str, Any]:
    """An existing model file."""
    return kept(Path(path).stem, read_model(path), folder)


def kept(name: str, theta: ChainClass, folder: str) -> dict[str, Any]:
    """Write a class to the folder, and return its description."""
    text = theta.to_json(indent=2) + "\n"
    plain = "".join(c if c.isalnum() else "-" for c in name).strip("-")
    place = Path(folder) / f"{plain}.json"
    number = 1
    while place.exists() and place.read_text(encoding="utf-8") != text:
        number += 1
        place = Path(folder) / f"{plain}-{number}.json"
    place.write_text(text, encoding="utf-8")
    place.chmod(0o600)
    return {
        "name": name if number == 1 else f"{name} ({number})",
        "path": str(place),
        "states": [str(state) for state in theta.states],
        "description": theta.description,
        "promise": promise_of(theta),
        "caveats": list(theta.caveats),
    }


def choose(
    source: DataFile,
    question: PageQuestion,
    length: int,
    missing: int,
    epsilon: float,
    folder: str,
    tell: TextProgress,
) -> dict[str, Any]:
    """Every class on some public people, tested on the others (`choose_beliefs`).

    Noise is for a series of this length, in which so many entries are missing.
    """
    table = table_of(source)
    day, firsts = _clock(table)
    asked = question.like(table.states, length)
    if missing and asked.per_entry:
        asked = over(asked, [length], [max(1, length - missing)])
    choice = pk.choose_beliefs(
        _people(table),
        asked,
        epsilon=epsilon,
        day=day,
        firsts=firsts,
        regimes=(2, 3),
        progress=tell,
    )
    rows = []
    for row, (name, promise, covers, noise) in zip(choice.rows, choice.table(), strict=True):
        budget = None if row.influence is None else row.influence.budget
        model = None if row.beliefs is None else kept(name, row.beliefs, folder)
        rows.append(
            {
                "name": name,
                "promise": promise,
                "covers": covers,
                "noise": noise,
                "budget": budget,
                "passes": row.covers,
                "model": model,
            }
        )
    measured = choice.measured
    return {
        "rows": rows,
        "recommended": None if choice.best is None else choice.best.name,
        "point": None if measured is None else measured.point,
        "lower": None if measured is None else measured.lower,
        "public": choice.public,
        "held_out": choice.held_out,
        "advice": list(choice.advice),
        "text": str(choice),
    }


def check(model: str, source: DataFile, held_out: int) -> dict[str, Any]:
    """Whether beliefs cover the last people of a public file (`check_model`)."""
    table = table_of(source)
    people = _people(table)
    day, _ = _clock(table)
    tested = people[-held_out:] if len(people) > held_out else people
    public = people[:-held_out] or None
    report = pk.check_model(tested, beliefs_of(model), day=day, public=public)
    rows = [
        {"name": c.name, "passed": c.passed, "text": c.text, "p_value": c.p_value}
        for c in report.checks
    ]
    influence = next((c for c in report.checks if hasattr(c, "budget")), None)
    return {
        "rows": rows,
        "verdict": report.verdict,
        "people": len(tested),
        "passed": report.passed,
        "level": report.level,
        "covers": influence is not None and influence.passed is not False,
        "budget": getattr(influence, "budget", None),
        "point": getattr(influence, "statistic", None),
        "influence": "" if influence is None else influence.text,
    }


def asked(
    model: str, question: PageQuestion, private: DataFile | None, length: int
) -> tuple[ChainClass, Query]:
    """The class in a file, and the question about the data or a length."""
    theta = beliefs_of(model)
    if private is None:
        return theta, question.like(theta.states, length)
    return theta, question.over(theta.states, series_of(private, theta.states))


def noise(
    models: Sequence[str],
    question: PageQuestion,
    private: DataFile | None,
    length: int,
    epsilon: float,
) -> list[dict[str, Any]]:
    """The noise of every stored class for the current question."""
    rows: list[dict[str, Any]] = []
    for model in models:
        try:
            theta, query = asked(model, question, private, length)
            calibration = pk.influence_curve(theta, query, epsilon)
        except ValueError as reason:
            rows.append({"model": model, "scale": None, "half_width": None, "why": str(reason)})
            continue
        rows.append(
            {
                "model": model,
                "scale": calibration.scale,
                "half_width": calibration.half_width(),
                "why": "",
            }
        )
    return rows
