"""The page's calls of the library. They run in a `Worker` and return plain data.

Pictures are those of `pufferkit.plots`, drawn here and sent as SVG, once for light and once for
dark pages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pufferkit as pk
from pufferkit import plots
from pufferkit.beliefs.provenance import Provenance
from pufferkit.data.durations import of_seconds
from pufferkit.data.query import NAMES
from pufferkit.data.series import UNOBSERVED
from pufferkit.explore.choices import DataFile, PageQuestion, QueryAndReader, Request, read
from pufferkit.explore.choices import read_model as _read_model
from pufferkit.explore.worker import Tell
from pufferkit.fitting.choosing import promise_of
from pufferkit.fitting.people import People
from pufferkit.mechanisms.explain import meaning
from pufferkit.mechanisms.plan import QUICK, calibrate
from pufferkit.mechanisms.target_errors import error_rows, least_noise, over
from pufferkit.mechanisms.usefulness import questioned
from pufferkit.shown import Shown

if TYPE_CHECKING:
    from pufferkit import Account, Calibration, ChainClass, Query, Series, Table

BEST = "best"
MECHANISMS = {
    BEST: "the least noise that composes with later releases",
    "influence_curve": "the influence curve",
    "influence_curve_per_bin": "the influence curve, with a scale for each bin",
    "shaped": "noise shaped to what an entry reveals of hidden regimes",
    "exact_sum": "the least noise for one number and no other",
    "wasserstein": "the Wasserstein Mechanism, for one number and no other; slow",
    "markov_quilt": "the Markov Quilt Mechanism",
    "markov_quilt_approx": "the same, bounded by how fast the chain mixes",
    "markov_quilt_approx_tight": "the same, with a tighter bound",
    "gk16": "by the norm of an influence matrix",
    "group_dp": "hides whole segments",
}
"""Descriptions of the mechanisms to choose from. Entry DP does not hide correlated entries."""

FOR_SUMS = ("exact_sum", "wasserstein")
"""Mechanisms that may take minutes."""

SAME = (
    "public file: it is the private file, or shares an identifying passage with it; it would be "
    "drawn and the beliefs counted from it, without noise. Give data of other people or of an "
    "earlier time, or no public file"
)
"""Refuses a public file."""

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_LINE, _LINES = 96, 7
_SMOOTHING = 0.5
_DRAWS, _SEED = 8, 20240712
_CLASSES = 10
"""Steps of a choice of beliefs, about."""


# --- pictures -----------------------------------------------------------------------------------


def picture(figure: Any, words: str) -> dict[str, Any]:
    """A figure as SVG for light and dark pages, without its title, and a description of it."""
    figure.suptitle("")
    for ground in (figure, *figure.axes):
        ground.patch.set_alpha(0.0)  # cards have tints
    shades = {shade: plots.picture(figure, "page.svg", dark=shade == "dark") for shade in SHADES}
    drawn = {
        shade: "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
        for shade, svg in shades.items()
    }
    return {**drawn, "words": words, "inches": float(figure.get_figwidth())}


SHADES = ("light", "dark")


# --- files --------------------------------------------------------------------------------------


def _stamp(path: str) -> tuple[int, int]:
    """Modification time of a file, so that a changed file is read again."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)
def _read(source: DataFile, states: Any, many: bool, _: Any) -> tuple[Any, tuple[str, ...]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        entries = read(source, states, many=many)
    return entries, tuple(dict.fromkeys(str(warning.message) for warning in said))


def table_of(source: DataFile) -> Table:
    """The people of a public file, read once."""
    table: Table = _read(source, None, True, _stamp(source.path))[0]
    return table


def series_of(source: DataFile, states: tuple[Any, ...] | None = None) -> Series:
    """The series in a private file, read once."""
    series: Series = _read(source, states, False, _stamp(source.path))[0]
    return series


@lru_cache(maxsize=32)
def _read_beliefs(path: str, _: tuple[int, int]) -> ChainClass:
    return _read_model(path)


def beliefs_of(path: str) -> ChainClass:
    """The class in a file of the workspace."""
    return _read_beliefs(path, _stamp(path))


def said(shown: Shown) -> dict[str, Any]:
    """What an object says, and the rows of its table, for `page_parts.said`."""
    rows = [dict(row) for row in shown.shown_rows()]
    return {"statements": [tuple(one) for one in shown.statements()], "rows": rows}


def refuse_the_private(public: DataFile | None, private: DataFile | None) -> None:
    """Raise if the public file is the private one, or holds an identifying passage of it.

    Called before anything of the public file is shown. Files of one content are recognised by
    their bytes, others by their entries, as far as the columns that were named can be read.
    """
    if public is None or private is None:
        return
    if _content(public.path, _stamp(public.path)) == _content(private.path, _stamp(private.path)):
        raise ValueError(SAME)
    if not (public.state and private.state):
        return
    cuts = {} if private.cuts else {"cuts": public.cuts, "unit": public.unit}
    try:
        mine, others = series_of(replace(private, **cuts)), table_of(public).all_series
    except ValueError:  # said where that file is read
        return
    if Provenance.of_series(others).covers(mine):
        raise ValueError(SAME)


@lru_cache(maxsize=4)
def _content(path: str, _: tuple[int, int]) -> str:
    """Digest of the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def look_at_public(source: DataFile, private: DataFile | None) -> dict[str, Any]:
    """Counts of a public file; none if it is the private one. Nothing is drawn yet."""
    refuse_the_private(source, private)
    table = table_of(source)
    return {
        "report": table.report(),
        "states": [str(state) for state in table.states],
        "notes": list(_read(source, None, True, _stamp(source.path))[1]),
    }


def look_at_private(source: DataFile, public: DataFile | None) -> dict[str, Any]:
    """Length and gaps of a private series, which the promise treats as public."""
    refuse_the_private(public, source)
    series = series_of(source)
    noticed = _read(source, None, False, _stamp(source.path))[1]
    return {
        "entries": len(series),
        "lengths": list(series.lengths),
        "missing": series.missing,
        "notes": [*(f"read as: {note}" for note in series.read_as), *noticed],
        "has_clock": series.calendar is not None,
    }


def compare(public: DataFile, private: DataFile) -> dict[str, Any]:
    """Both files side by side, and then the pictures of the public one."""
    refuse_the_private(public, private)
    table, mine = table_of(public), series_of(private)
    people = People.of(table)
    day = people.day
    before = [UNOBSERVED] * people.firsts[0]  # lines begin at midnight
    first = [*before, *people.series[0].codes.tolist()][: (day or _LINE) * _LINES]
    pooled = table.all_series
    shares = pk.relative_frequencies(table.states, pooled).exact(pooled)
    steps = table.step, mine.step
    words = "One public person's entries, a colour for each state"
    return {
        "rows": [
            ["people", f"{len(table.subjects):,}", "1"],
            ["entries", f"{len(pooled):,}", f"{len(mine):,}"],
            ["not observed", f"{pooled.missing:,}", f"{mine.missing:,}"],
            ["time between entries", *map(of_seconds, steps)],
        ],
        "other_step": None not in steps and steps[0] != steps[1],
        "shares": [
            [str(state), f"{float(share):.1%}"]
            for state, share in zip(table.states, shares, strict=True)
        ],
        "picture": picture(
            plots.days_figure(first, table.states, day or _LINE, "", clock=bool(day)),
            words,
        ),
    }


def suggest_cuts(source: DataFile, count: int, private: DataFile | None) -> str:
    """Cut points with equally many public readings between them."""
    from pufferkit.data.files import first_rows  # noqa: PLC0415

    refuse_the_private(source, private)
    numbers = []
    for cell in first_rows(source.path, 1_000_000)[source.state]:
        try:
            numbers.append(float(str(cell).replace(",", ".")))
        except ValueError:
            continue
    return ", ".join(f"{cut:g}" for cut in pk.Bins.quantiles(numbers, count).cuts)


# --- beliefs ------------------------------------------------------------------------------------


def _chain(series: Series) -> pk.MarkovChain:
    return pk.fit(series, smoothing=_SMOOTHING)


def like_these(public: DataFile) -> ChainClass:
    """Every chain that the counts of public people leave plausible."""
    return pk.fit(table_of(public).all_series, "around", confidence=0.95)


def any_of_these(public: DataFile) -> ChainClass:
    """Every mixture of the chains of public people, changing at any time."""
    return pk.fit(table_of(public), "hull")


def single_chain(public: DataFile) -> ChainClass:
    """One chain, counted from all public people."""
    return pk.ChainClass.of(_chain(table_of(public).all_series))


def any_start(public: DataFile) -> ChainClass:
    """The same, also against those who know single entries."""
    chain = _chain(table_of(public).all_series)
    return pk.ChainClass.any_start(chain.transition, states=chain.states, step=chain.step)


def bounded(states: Sequence[str], low: float, high: float) -> ChainClass:
    """Every chain on two states that stays with probabilities in a range."""
    return pk.ChainClass.binary(low, high, _labels(states))


def mixing(states: Sequence[str], rarest: float, gap: float) -> ChainClass:
    """Every chain that mixes at least so well."""
    return pk.ChainClass.mixing(_labels(states), rarest, gap)


def by_hand(states: Sequence[str], rows: Sequence[Sequence[float]], start: str) -> ChainClass:
    """A chain that a person typed in."""
    matrix, names = [list(row) for row in rows], _labels(states)
    if start == "any":
        return pk.ChainClass.any_start(matrix, states=names)
    return pk.ChainClass.of(pk.MarkovChain.steady(matrix, names))


def _labels(names: Sequence[str]) -> list[Any]:
    from pufferkit.data.assemble import states_from_text  # noqa: PLC0415

    return states_from_text(names)


def keep(folder: str, name: str, make: Callable[..., ChainClass], *given: Any) -> dict[str, Any]:
    """Make a class, write it to the folder, and return its description."""
    return _kept(folder, name, make(*given))


def _kept(folder: str, name: str, theta: ChainClass) -> dict[str, Any]:
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
    tell: Tell,
) -> dict[str, Any]:
    """Every class on some public people, tested on the others (`choose_beliefs`).

    Noise is for a series of this length, in which so many entries are missing.
    """
    table = table_of(source)
    asked = question.like(table.states, length)
    if missing and asked.per_entry:
        asked = over(asked, [length], [max(1, length - missing)])
    done = 0

    def progress(words: str) -> None:
        nonlocal done
        tell(min(done / _CLASSES, 0.95), words)
        done += 1

    choice = pk.choose_beliefs(table, asked, epsilon=epsilon, progress=progress, regimes=(2, 3))
    models = {
        row.name: _kept(folder, row.name, row.beliefs)
        for row in choice.rows
        if row.beliefs is not None
    }
    words = "Entries that one entry may give away, by class, and what people show"
    return {
        "said": said(choice),
        "models": list(models.values()),
        "recommended": None if choice.best is None else models[choice.best.name],
        "picture": None if choice.influence is None else picture(choice.plot(), words),
    }


def check(model: str, source: DataFile, held_out: int) -> dict[str, Any]:
    """Whether beliefs cover the last people of a public file (`check_model`)."""
    people = People.of(table_of(source))
    each = list(people.series)
    tested = each[-held_out:] if len(each) > held_out else each
    public = each[:-held_out] or None
    return said(pk.check_model(tested, beliefs_of(model), day=people.day, public=public))


# --- question -----------------------------------------------------------------------------------

Asked = tuple[str, PageQuestion, DataFile | None, int]
"""A model, the question, and the private file or a length: what all calls below are about."""


def _asked(
    model: str, question: PageQuestion, private: DataFile | None, length: int
) -> tuple[ChainClass, Query]:
    """The class in a file, and the question about the data or a length."""
    theta = beliefs_of(model)
    if private is None:
        return theta, question.like(theta.states, length)
    asked = question.question(theta.states).in_numbers()
    return theta, asked.bind(theta.states, series_of(private, theta.states))


def noise(
    models: Sequence[str],
    question: PageQuestion,
    private: DataFile | None,
    length: int,
    epsilon: float,
) -> dict[str, str]:
    """How exact the answer would be under every stored class, or why there is none."""
    words = {}
    for model in models:
        try:
            useful = pk.Usefulness.of(
                pk.influence_curve(*_asked(model, question, private, length), epsilon)
            )
            words[model] = f"95% of {useful.what} within {useful.half_width:.3g}"
        except ValueError as reason:
            words[model] = f"no answer: {reason}"
    return words


def noise_of(mechanism: str, theta: ChainClass, query: Query, epsilon: float) -> Calibration:
    """The calibration of the mechanism, or the least noise among the quick ones."""
    if mechanism == BEST:
        return least_noise(theta, query, epsilon)
    return calibrate(mechanism, theta, query, epsilon)


def live(
    model: str,
    question: PageQuestion,
    private: DataFile | None,
    length: int,
    epsilon: float,
    mechanism: str,
    public: DataFile | None,
) -> dict[str, Any]:
    """The noise at one epsilon, and releases of simulated data."""
    theta = beliefs_of(model)
    series = None if private is None else series_of(private, theta.states)
    if series is None and NAMES[question.kind].clocked:
        raise ValueError("question: hours and days need a private file with times; see step 1")
    asked = question.asked(theta, [length] if series is None else series, epsilon)
    calibration = noise_of(mechanism, theta, asked.query, epsilon)
    useful = pk.Usefulness.of(calibration, beliefs=theta)
    stand_in = _stand_in(theta, public, series, length)
    return {
        "epsilon": epsilon,
        "scale": calibration.scale,
        "mechanism": calibration.mechanism,
        "text": ("" if asked.read is None else "For the release it is derived from: ")
        + useful.remarks()[0],
        "warning": useful.warning if useful.drowned else "",
        "meaning": [*meaning(calibration), *filter(None, [questioned(epsilon)])],
        "whose": "" if stand_in is None else stand_in[1],
        "picture": None if stand_in is None else _simulated(calibration, asked, stand_in[0]),
    }


def _simulated(calibration: Calibration, asked: QueryAndReader, series: Series) -> dict[str, Any]:
    """A picture of a few releases of simulated data with the shape of the private ones."""
    releases = [calibration.release(series, anyway=True) for _ in range(_DRAWS)]
    first = releases[0]
    if asked.read is not None:
        return picture(plots.figure_of(asked.read(first)), "What follows from a simulated release")
    if first.asks is not None and first.asks.picture != "bars":
        return picture(plots.figure_of(first), f"One simulated release: {first.query}")
    exact = [float(value) for value in asked.query.exact(series)]
    drawn = [[float(value) for value in one.as_drawn().value] for one in releases]
    figure = plots.simulation_figure(exact, drawn, first.labels, str(asked.query.name))
    pairs = ", ".join(f"{a} {b:.3g}" for a, b in zip(first.labels, exact, strict=True))
    return picture(figure, f"Simulated releases around the answer without noise: {pairs}")


def _stand_in(
    theta: ChainClass, public: DataFile | None, private: Series | None, length: int
) -> tuple[Series, str] | None:
    """Simulated entries in the places of the private ones, whose states are never used.

    Lengths, gaps and times are used: the promise treats them as public.
    """
    if public is not None and set(table_of(public).states) == set(theta.states):
        chain: Any = _chain(table_of(public).all_series)
        whose = "with entries that move as the public people do"
    else:
        try:
            chain = theta.distributions()[0].distribution
        except (ValueError, IndexError):
            return None
        whose = "with entries of the first chain of the beliefs"
    size = length if private is None else len(private)
    places = np.array([theta.states.index(state) for state in chain.states])
    codes = places[chain.sample(size, seed=_SEED)]
    if private is None:
        return pk.Series(codes, theta.states, (size,)), whose
    return replace(private, codes=np.where(private.codes < 0, UNOBSERVED, codes)), whose


def plan(
    model: str,
    question: PageQuestion,
    private: DataFile | None,
    length: int,
    epsilon: float,
    tell: Tell,
) -> dict[str, Any]:
    """Every mechanism side by side, and error against epsilon."""
    theta, query = _asked(model, question, private, length)

    def progress(mechanism: str, done: int, whole: int) -> None:
        tell(0.5 * done / max(whole, 1), mechanism)

    tell(0.0, "every mechanism side by side")
    table = pk.plan(theta, query, epsilon, progress=progress)
    there = [row["mechanism"] for row in table.rows if row["applicable"]]
    quick = [name for name in there if name in QUICK]
    rows: list[dict[str, Any]] = []
    for n, name in enumerate(quick):
        for m, other in enumerate(_EPSILONS):
            tell(0.5 + 0.5 * (n + m / len(_EPSILONS)) / len(quick), f"{name}, epsilon {other:g}")
            rows += error_rows(theta, query, [other], [name])
    words = "Half-width at 95% of every quick mechanism, against epsilon, on log scales"
    return {
        "best": table.best.mechanism,
        "said": said(table),
        "reasons": [[row["mechanism"], row["why"]] for row in table.rows],
        "errors": rows,
        "picture": picture(plots.error_figure(rows, what="answers"), words) if rows else None,
    }


# --- release and account ------------------------------------------------------------------------


def _payer(request: Request) -> tuple[Account, Series, ChainClass, QueryAndReader]:
    """The account, its data, the beliefs and the question."""
    theta = beliefs_of(request.model)
    data = series_of(request.source, theta.states)
    payer = pk.Account(request.ledger, request.account, request.budget)
    return payer, data, theta, request.question.asked(theta, data, request.epsilon)


def cost(request: Request) -> dict[str, Any]:
    """What a release would cost. Nothing is written."""
    payer, data, theta, asked = _payer(request)
    with payer.ledger:
        price = payer.cost(data, theta, asked.query, request.epsilon, mechanism=request.mechanism)
        left = payer.remaining
    noise = noise_of(request.mechanism, theta, asked.query, request.epsilon)
    useful = pk.Usefulness.of(noise, beliefs=theta)
    return {
        "cost": price,
        "remaining": left,
        "fits": price <= left,
        "warning": useful.warning if useful.drowned else "",
    }


def release(request: Request) -> dict[str, Any]:
    """Charge the ledger, draw the noise, return the record; a drowned answer needs ``anyway``."""
    payer, data, theta, asked = _payer(request)
    with payer.ledger:
        noise = noise_of(request.mechanism, theta, asked.query, request.epsilon)
        useful = pk.Usefulness.of(noise, beliefs=theta)
        if useful.drowned and not request.anyway:
            raise ValueError(
                f"{useful.warning}; nothing was released. Change the question, the beliefs or "
                "epsilon, or confirm that it is intended"
            )
        how: Any = {"mechanism": request.mechanism, "anyway": True}
        answer = pk.release(data, theta, asked.query, request.epsilon, account=payer, **how)
        left = payer.remaining
    read = None if asked.read is None else asked.read(answer)
    shown = answer if read is None else read
    each = zip(shown.labels, shown.value, strict=False)
    words = ", ".join(f"{label} {float(value):.3g}" for label, value in islice(each, _MOST_TOLD))
    return {
        "json": answer.to_json(),
        "query": answer.query if read is None else read.what,
        "epsilon": answer.epsilon,
        "derived": read is not None,
        "said": said(shown),
        "picture": picture(plots.figure_of(shown), f"Released, with intervals: {words}"),
        "report": plots.release_report(
            answer, theta, meaning(noise), [] if read is None else [read]
        ),
        "remaining": left,
        "python": request.python(),
        "command": request.command(),
        "request": request,
    }


_MOST_TOLD = 12


def exact(request: Request, record: str) -> dict[str, Any]:
    """The release with the exact answer, which has no privacy; for an account that has paid."""
    payer, data, _, asked = _payer(request)
    with payer.ledger:
        if not payer.history:
            raise ValueError(
                "exact: private data are drawn only after a release from an account with a budget"
            )
    truth = [float(value) for value in asked.query.exact(data)]
    figure = plots.release_figure(pk.Release.from_dict(json.loads(record)), truth)
    return picture(figure, "The release, and the exact answer, which is private")


def remaining(request: Request) -> float:
    """What remains of the account's budget."""
    payer = pk.Account(request.ledger, request.account, request.budget)
    with payer.ledger:
        return payer.remaining


def account(request: Request) -> dict[str, Any]:
    """The releases from an account, their joint epsilon, and the state of the ledger."""
    payer, data, _, _ = _payer(request)
    with payer.ledger:
        history = payer.history
        spent, left = payer.spent, payer.remaining
        examined = payer.ledger.examine() if history else None
        values = [e.value for e in payer.ledger.entries(request.account) if e.value is not None]
        try:
            profile, why = payer.profile, ""
        except ValueError as reason:
            profile, why = [], str(reason)
    clock = data.calendar
    at = None if clock is None else clock.times(data.lengths).tolist()
    words = "Pufferfish loss of each entry over time, and the event-level epsilon spent on it"
    return {
        "rows": [
            [
                f"{row['query']}, entries {row['window'][0]} to {row['window'][1]}",
                row["mechanism"],
                f"{row['epsilon']:g}",
                f"{row['total']:g}",
                row["made_at"][:16].replace("T", " "),
            ]
            for row in history
        ],
        "records": [
            {"name": f"{one['query']}, epsilon {one['epsilon']:g}", "json": json.dumps(dict(one))}
            for one in values
        ],
        "spent": spent,
        "remaining": left,
        "picture": picture(plots.profile_figure(profile, at), words) if profile else None,
        "no_profile": why,
        "problems": [] if examined is None else list(examined.problems),
        "ledger": ""
        if examined is None
        else f"{examined.entries} entries, nothing wrong; head {examined.head}",
    }


def verify(text: str) -> dict[str, Any]:
    """Whether the noise of a release is enough, recomputed from its record."""
    try:
        record = json.loads(text)
    except ValueError:
        raise ValueError("record: is not JSON; paste all of it, from { to }") from None
    if not isinstance(record, Mapping):
        raise ValueError("record: is not a release; its JSON begins with {")
    verdict = pk.verify(pk.Release.from_dict(record))
    return {"ok": verdict.ok, "said": said(verdict)}
