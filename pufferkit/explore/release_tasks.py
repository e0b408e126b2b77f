"""Calls of the library from a question to an account: plan, cost, release, joint epsilon.

Like `tasks` they run in a `Worker` and give plain data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import pufferkit as pk
from pufferkit.data.series import UNOBSERVED
from pufferkit.explore.page_questions import CLOCKED, PageQuestion, QueryAndReader
from pufferkit.explore.recipes import DataFile, Deal
from pufferkit.explore.tasks import asked, beliefs_of, series_of, table_of
from pufferkit.influence.progress import TextProgress

if TYPE_CHECKING:
    from pufferkit import Account, Calibration, ChainClass, Query, Release, Series

_DRAWS = 8
_SEED = 20240712
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

BEST = "best"
MECHANISMS = {
    BEST: "the least noise that composes with later releases",
    "influence_curve": "the influence curve",
    "influence_curve_per_bin": "the influence curve, with a scale for each bin",
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


def noise_of(mechanism: str, theta: ChainClass, query: Query, epsilon: float) -> Calibration:
    """The calibration of the mechanism, or the least noise among the quick ones."""
    from pufferkit.mechanisms.plan import calibrate  # noqa: PLC0415
    from pufferkit.mechanisms.target_errors import least_noise  # noqa: PLC0415

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
    """The noise at one epsilon, and releases of public or simulated data."""
    from pufferkit.mechanisms.posterior_odds import in_odds  # noqa: PLC0415
    from pufferkit.mechanisms.usefulness import questioned  # noqa: PLC0415

    theta = beliefs_of(model)
    series = None if private is None else series_of(private, theta.states)
    stand_in = _stand_in(theta, public, series, length)
    if series is None and question.kind in CLOCKED:
        raise ValueError("question: hours and days need a private file with times; see step 1")
    about: Any = [length] if series is None else series
    asked = question.asked(theta, about, epsilon)
    calibration = noise_of(mechanism, theta, asked.query, epsilon)
    useful = pk.Usefulness.of(calibration)
    return {
        "epsilon": epsilon,
        "scale": calibration.scale,
        "mechanism": calibration.mechanism,
        "half_width": useful.half_width,
        "what": useful.what,
        "text": ("" if asked.read is None else "For the release it is derived from: ")
        + str(useful).partition("\n")[0],
        "warning": useful.warning if useful.drowned else "",
        "odds": [*in_odds(epsilon), *filter(None, [questioned(epsilon)])],
        "simulated": None if stand_in is None else _simulated(calibration, asked, *stand_in),
    }


def _simulated(
    calibration: Calibration, asked: QueryAndReader, series: Series, whose: str
) -> dict[str, Any]:
    """A few releases of simulated data of the same shape as the data, with their exact answer."""
    releases = [calibration.release(series, anyway=True) for _ in range(_DRAWS)]
    answers = [shown(release, asked) for release in releases]
    exact = None
    if asked.read is None:
        exact = [float(value) for value in asked.query.exact(series)]
    if asked.read is None and answers[0]["grid"] is None:
        # The error bars show the noise alone, before the nearest histogram is taken.
        answers = [shown(release.as_drawn()) for release in releases]
    return {
        "labels": answers[0]["labels"],
        "exact": exact,
        "drawn": [answer["value"] for answer in answers],
        "interval": answers[0]["interval"],
        "half_width": calibration.half_width(),
        "grid": answers[0]["grid"],
        "what": answers[0]["query"] if answers[0]["derived"] else "",
        "whose": whose,
    }


def _stand_in(
    theta: ChainClass, public: DataFile | None, private: Series | None, length: int
) -> tuple[Series, str] | None:
    """Simulated entries in the places of the private ones, whose states are never used.

    Lengths, gaps and times are used: the promise treats them as public.
    """
    if public is not None and set(table_of(public).states) == set(theta.states):
        chain: Any = pk.MarkovChain.fit(table_of(public).all_series, smoothing=0.5)
        whose = "simulated entries with the transitions of the public people"
    else:
        try:
            chain = theta.distributions()[0].distribution
        except (ValueError, IndexError):
            return None
        whose = "entries simulated from the first chain of the class"
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
    tell: TextProgress,
) -> dict[str, Any]:
    """Every mechanism side by side."""
    theta, query = asked(model, question, private, length)

    def progress(mechanism: str, done: int, whole: int) -> None:
        tell(f"{mechanism}: {done:,} of {whole:,}")

    tell("every mechanism side by side")
    table = pk.plan(theta, query, epsilon, progress=progress)
    return {"rows": table.rows, "best": table.best.mechanism, "remarks": table.remarks()}


def errors(
    model: str,
    question: PageQuestion,
    private: DataFile | None,
    length: int,
    mechanisms: Sequence[str],
    tell: TextProgress,
) -> list[dict[str, Any]]:
    """Half-widths of mechanisms at several epsilons."""
    from pufferkit.mechanisms.target_errors import error_rows  # noqa: PLC0415

    theta, query = asked(model, question, private, length)
    rows: list[dict[str, Any]] = []
    for mechanism in mechanisms:
        for epsilon in _EPSILONS:
            tell(f"{mechanism}, epsilon {epsilon:g}")
            rows += error_rows(theta, query, [epsilon], [mechanism])
    return rows


def _asked(deal: Deal) -> tuple[Account, Series, QueryAndReader]:
    """The account, its data and the question."""
    theta = beliefs_of(deal.model)
    data = series_of(deal.source, theta.states)
    payer = pk.Account(deal.ledger, deal.account, deal.budget)
    return payer, data, deal.question.asked(theta, data, deal.epsilon)


def cost(deal: Deal) -> dict[str, Any]:
    """What a release would cost. Nothing is written."""
    payer, data, asked = _asked(deal)
    query, theta = asked.query, beliefs_of(deal.model)
    with payer.ledger:
        price = payer.cost(
            data, theta, query, deal.epsilon, mechanism=deal.mechanism, label=deal.label
        )
        left = payer.remaining
    useful = pk.Usefulness.of(noise_of(deal.mechanism, beliefs_of(deal.model), query, deal.epsilon))
    return {
        "cost": price,
        "remaining": left,
        "fits": price <= left,
        "text": str(useful).partition("\n")[0],
        "warning": useful.warning if useful.drowned else "",
    }


def release(deal: Deal) -> dict[str, Any]:
    """Charge the ledger, draw the noise, return the record; a drowned answer needs ``anyway``."""
    payer, data, asked = _asked(deal)
    with payer.ledger:
        noise = noise_of(deal.mechanism, beliefs_of(deal.model), asked.query, deal.epsilon)
        useful = pk.Usefulness.of(noise)
        if useful.drowned and not deal.anyway:
            raise ValueError(
                f"{useful.warning}; nothing was released. Change the question, the beliefs or "
                "epsilon, or confirm that it is intended"
            )
        answer = pk.release(
            data,
            beliefs_of(deal.model),
            asked.query,
            deal.epsilon,
            account=payer,
            mechanism=deal.mechanism,
            label=deal.label,
            anyway=True,
        )
        left = payer.remaining
    return {**shown(answer, asked), "remaining": left}


def shown(answer: Release, asked: QueryAndReader | None = None) -> dict[str, Any]:
    """A release, or the answer derived from it, as plain data for the page."""
    common: dict[str, Any] = {
        "json": answer.to_json(),
        "query": answer.query,
        "epsilon": answer.epsilon,
        "mechanism": answer.mechanism,
        "derived": False,
        "grid": _grid(answer),
    }
    if asked is not None and asked.read is not None:
        read = asked.read(answer)
        bounds = zip(read.low, read.high, strict=True)
        return {
            **common,
            "text": str(read),
            "labels": list(read.labels),
            "value": [float(value) for value in read.value],
            "interval": [[float(low), float(high)] for low, high in bounds],
            "query": read.what,
            "derived": True,
            "grid": None,
        }
    return {
        **common,
        "text": str(answer),
        "labels": [str(label) for label in answer.labels],
        "value": [float(value) for value in answer.value],
        "interval": [[float(low), float(high)] for low, high in answer.interval()],
    }


def _grid(answer: Release) -> dict[str, Any] | None:
    """Names of rows and columns of an answer that is a table, and by which it runs first."""
    picture = "bars" if answer.asks is None else answer.asks.picture
    if picture == "slots":
        slots = list((answer.question or {})["slots"])
        states = [label.removeprefix(f"{slots[0]}, ") for label in answer.labels]
        rows = states[: len(answer.labels) // len(slots)]
        return {"rows": rows, "columns": slots, "by_rows": False, "across": "time", "down": "state"}
    if picture == "moves":
        size = round(len(answer.labels) ** 0.5)
        own = [answer.labels[n * size + n] for n in range(size)]
        states = [label[: (len(label) - len(" to ")) // 2] for label in own]
        names = {"across": "to", "down": "from"}
        return {"rows": states, "columns": states, "by_rows": True, **names}
    return None


def exact(deal: Deal) -> list[float]:
    """The exact answer, which has no privacy. Only for an account that already exists."""
    payer, data, asked = _asked(deal)
    with payer.ledger:
        if not payer.history:
            raise ValueError(
                "exact: private data are drawn only after a release from an account with a budget"
            )
        return [float(value) for value in asked.query.exact(data)]


def remaining(deal: Deal) -> dict[str, Any]:
    """What remains of the account's budget, and the budget."""
    payer = pk.Account(deal.ledger, deal.account, deal.budget)
    with payer.ledger:
        return {"remaining": payer.remaining, "account": deal.account}


def account(deal: Deal) -> dict[str, Any]:
    """The releases from an account, and their joint epsilon."""
    payer, data, _ = _asked(deal)
    with payer.ledger:
        history = payer.history
        spent, left = payer.spent, payer.remaining
        examined = payer.ledger.examine() if history else None
        values = [entry for entry in payer.ledger.entries(deal.account) if entry.kind == "value"]
        try:
            profile, why = payer.profile, ""
        except ValueError as reason:
            profile, why = [], str(reason)
    clock = data.calendar
    at = None if clock is None else clock.times(data.lengths)
    return {
        "history": [{**row, "window": list(row["window"])} for row in history],
        "records": [
            {
                "query": entry.body["query"],
                "epsilon": entry.body["epsilon"],
                "json": json.dumps(dict(entry.body)),
            }
            for entry in values
        ],
        "spent": spent,
        "rule": history[-1]["rule"] if history else "nothing released",
        "text": str(payer),
        "remaining": left,
        "profile": [
            row
            if at is None
            else {**row, "from": int(at[row["first"] - 1]), "till": int(at[row["last"] - 1])}
            for row in profile
        ],
        "no_profile": why,
        "problems": [] if examined is None else list(examined.problems),
        "entries": 0 if examined is None else examined.entries,
        "head": "" if examined is None else examined.head,
    }


def verify(text: str) -> dict[str, Any]:
    """Whether the noise of a release is enough, recomputed from its record."""
    try:
        record = json.loads(text)
    except ValueError:
        raise ValueError("record: is not JSON; paste all of it, from { to }") from None
    if not isinstance(record, dict):
        raise ValueError("record: is not a release; its JSON begins with {")
    verdict = pk.verify(pk.Release.from_dict(record))
    return {"ok": verdict.ok, "text": str(verdict), **asdict(verdict)}
