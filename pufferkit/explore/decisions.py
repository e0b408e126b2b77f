"""Calls of the library from a question to an account: plan, cost, release, what it adds up to.

Like `tasks` they run in a `Worker` and give plain data.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.explore.recipes import Deal, Question, Source
from pufferkit.explore.tasks import Tell, asked, table_of

if TYPE_CHECKING:
    from pufferkit import Calibration, ChainClass, Query, Release, Series

_DRAWS = 8
_SEED = 20240712
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def live(
    model: str,
    question: Question,
    private: Source | None,
    length: int,
    epsilon: float,
    public: Source | None,
) -> dict[str, Any]:
    """The noise at one epsilon, and releases of data that are public or made up."""
    from pufferkit.mechanisms.odds import in_odds  # noqa: PLC0415
    from pufferkit.mechanisms.usefulness import questioned  # noqa: PLC0415

    theta, query = asked(model, question, private, length)
    found = pk.influence_curve(theta, query, epsilon)
    useful = pk.Usefulness.of(found)
    return {
        "epsilon": epsilon,
        "scale": found.scale,
        "half_width": useful.half_width,
        "what": useful.what,
        "text": str(useful).partition("\n")[0],
        "warning": useful.warning if useful.drowned else "",
        "odds": [*in_odds(epsilon), *filter(None, [questioned(epsilon)])],
        "simulated": _simulated(theta, question, query, found, public),
    }


def _simulated(
    theta: ChainClass, question: Question, query: Query, found: Calibration, public: Source | None
) -> dict[str, Any] | None:
    """A few releases of a stand-in as long as the data, with their exact answer."""
    stand_in = _stand_in(theta, public, sum(query.lengths))
    if stand_in is None:
        return None
    series, whose = stand_in
    if len(query.lengths) > 1 or query.missing or series.missing:
        query = question.over(theta.states, series)
        found = pk.influence_curve(theta, query, found.epsilon)
    drawn = [found.release(series).as_drawn().value for _ in range(_DRAWS)]
    return {
        "labels": [str(label) for label in query.labels],
        "exact": [float(value) for value in query.exact(series)],
        "drawn": [[float(value) for value in answer] for answer in drawn],
        "half_width": found.half_width(),
        "whose": whose,
    }


def _stand_in(theta: ChainClass, public: Source | None, length: int) -> tuple[Series, str] | None:
    """Made-up entries over the states of the class; never the private ones."""
    if public is not None and set(table_of(public).states) == set(theta.states):
        chain: Any = pk.MarkovChain.fit(table_of(public).all_series, smoothing=0.5)
        whose = "made-up entries that move like the public people"
    else:
        try:
            chain = theta.distributions()[0].distribution
        except (ValueError, IndexError):
            return None
        whose = "entries made up by the first chain of the class"
    labels = [chain.states[code] for code in chain.sample(length, seed=_SEED)]
    return pk.Series.of(labels, theta.states), whose


def plan(
    model: str,
    question: Question,
    private: Source | None,
    length: int,
    epsilon: float,
    tell: Tell,
) -> dict[str, Any]:
    """Every mechanism side by side."""
    theta, query = asked(model, question, private, length)

    def progress(mechanism: str, done: int, whole: int) -> None:
        tell(f"{mechanism}: {done:,} of {whole:,}")

    tell("every mechanism side by side")
    table = pk.plan(theta, query, epsilon, progress)
    return {"rows": table.rows, "best": table.best.mechanism, "text": str(table)}


def errors(
    model: str,
    question: Question,
    private: Source | None,
    length: int,
    tell: Tell,
) -> list[dict[str, Any]]:
    """Half-widths of all quick mechanisms at several epsilons."""
    from pufferkit.mechanisms.plan import QUICK  # noqa: PLC0415
    from pufferkit.mechanisms.targets import error_rows  # noqa: PLC0415

    theta, query = asked(model, question, private, length)
    rows = []
    for mechanism in QUICK:
        tell(f"error against epsilon: {mechanism}")
        rows += error_rows(theta, query, _EPSILONS, [mechanism])
    return rows


def cost(deal: Deal) -> dict[str, Any]:
    """What a release would take from the account. Nothing is written."""
    session, query = deal.session()
    with session.ledger:
        price = session.cost(query, deal.epsilon, mechanism=deal.mechanism, label=deal.label)
        left = session.remaining
    useful = pk.Usefulness.of(_soon(deal, query))
    return {
        "cost": price,
        "remaining": left,
        "fits": price <= left,
        "text": str(useful).partition("\n")[0],
        "warning": useful.warning if useful.drowned else "",
    }


def _soon(deal: Deal, query: Query) -> Calibration:
    """The noise of the mechanism, or of the least that is quick to compute."""
    from pufferkit.mechanisms.plan import calibrate  # noqa: PLC0415
    from pufferkit.mechanisms.targets import least_noise  # noqa: PLC0415

    if deal.mechanism == "best":
        return least_noise(deal.beliefs(), query, deal.epsilon)
    return calibrate(deal.mechanism, deal.beliefs(), query, deal.epsilon)


def release(deal: Deal) -> dict[str, Any]:
    """Charge the ledger, draw the noise, give the record; drowned answers only ``anyway``."""
    session, query = deal.session()
    useful = pk.Usefulness.of(_soon(deal, query))
    if useful.drowned and not deal.anyway:
        session.ledger.close()
        raise ValueError(
            f"{useful.warning}; nothing was released. Change the question, the beliefs or epsilon, "
            "or say that it is meant"
        )
    with session.ledger:
        answer = session.release(query, deal.epsilon, mechanism=deal.mechanism, label=deal.label)
        left = session.remaining
    return {**shown(answer), "remaining": left}


def shown(answer: Release) -> dict[str, Any]:
    """A release as plain data for the page."""
    return {
        "text": str(answer),
        "json": answer.to_json(),
        "labels": [str(label) for label in answer.labels],
        "value": [float(value) for value in answer.value],
        "interval": [[float(low), float(high)] for low, high in answer.interval()],
        "query": answer.query,
        "epsilon": answer.epsilon,
        "mechanism": answer.mechanism,
    }


def exact(deal: Deal) -> list[float]:
    """The exact answer, which has no privacy. Only for an account that is open already."""
    session, query = deal.session()
    with session.ledger:
        if not session.history:
            raise ValueError(
                "exact: private data are drawn only after a release from an account with a budget"
            )
        return [float(value) for value in query.exact(session.data)]


def remaining(deal: Deal) -> dict[str, Any]:
    """What is left on the account, and of which budget."""
    session, _ = deal.session()
    with session.ledger:
        return {"remaining": session.remaining, "account": deal.account}


def account(deal: Deal) -> dict[str, Any]:
    """What was released from an account, and what it adds up to."""
    session, _ = deal.session()
    with session.ledger:
        history = session.history
        spent, left = session.spent, session.remaining
        examined = session.ledger.examine() if history else None
        try:
            profile, why = session.profile, ""
        except ValueError as reason:
            profile, why = [], str(reason)
    return {
        "history": [{**row, "window": list(row["window"])} for row in history],
        "spent": spent.epsilon,
        "rule": spent.rule,
        "text": str(spent),
        "remaining": left,
        "profile": profile,
        "no_profile": why,
        "problems": [] if examined is None else list(examined.problems),
        "entries": 0 if examined is None else examined.entries,
        "head": "" if examined is None else examined.head,
    }


def verify(text: str) -> dict[str, Any]:
    """Whether the noise of a release is enough, recomputed from its record."""
    verdict = pk.verify(pk.Release.from_dict(json.loads(text)))
    return {"ok": verdict.ok, "text": str(verdict), **asdict(verdict)}
