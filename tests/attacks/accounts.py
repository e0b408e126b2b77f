"""What whole accounts charge: sessions, and fleets of one subject, through their front doors."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import pufferkit as pk
from tests.asking import Asking, for_all, for_each
from tests.attacks.cases import ENTRYWISE, KINDS, PRIVATE, Asked, Case, Target
from tests.attacks.charges import beliefs_of, data_of, losses_of, query_of, told
from tests.oracles.joint_loss import NoisySum

NAMES = {"approx tight": "markov_quilt_approx_tight", "markov_quilt formula": "markov_quilt"}
"""Names of mechanisms where a session and a fleet call them otherwise."""

BUDGET = 1e6

SESSION = Target(
    "account",
    tuple(dict.fromkeys(PRIVATE + ENTRYWISE + ("best",))),
    (1, 2, 3),
    own=True,
    starts=3,
)
OWN = replace(
    SESSION,
    mechanisms=("influence_curve", "best"),
    releases=(1, 2),
    kinds=("steady", "several", "fixed start"),
)
"""Questions of the user's own, by mechanisms whose noise knows the distances of states."""

FLEET = Target(
    "each and all",
    ("influence_curve", "markov_quilt", "markov_quilt_approx", "approx tight", "group_dp"),
    (1, 2, 3),
    tuple(kind for kind in KINDS if kind != "region"),
    segments=False,
    gaps=False,
    starts=3,
)


def by_session(case: Case) -> tuple[np.ndarray, float]:
    """The loss of every entry, and what a session has charged after all releases."""
    theta, history = beliefs_of(case), []
    data = data_of(case)
    with tempfile.TemporaryDirectory() as folder, pk.Ledger(str(Path(folder) / "l.db")) as ledger:
        session = Asking(data, theta, BUDGET, ledger)
        for asked in case.asked[::-1]:  # asked about in another order than released
            name = NAMES.get(asked.mechanism, asked.mechanism)
            window = (asked.first, asked.last)
            for question in (_like(asked), asked):
                query = query_of(case, question)
                session.cost(query, asked.epsilon, mechanism=name, window=window)
        for asked in case.asked:
            paid = len(session.history)
            session.release(
                query_of(case, asked),
                asked.epsilon,
                mechanism=NAMES.get(asked.mechanism, asked.mechanism),
                window=(asked.first, asked.last),
                label=asked.label,
            )
            if len(session.history) > paid:  # else it was told before
                history += told(case, asked, session.history[-1]["scale"])
        charge = session.history[-1]["total"]
    return losses_of(case, theta, history), charge


def _like(asked: Asked) -> Asked:
    """Another question, as like this one as can be: the same numbers for other states."""
    values = asked.values
    return asked if values is None else replace(asked, values=(*values[1:], values[0]))


def by_fleet(case: Case) -> tuple[np.ndarray, float]:
    """The same for runs over one subject whose series grows.

    ``last`` is how far the series has grown and ``first`` the width of the windows; a histogram is
    released for each subject, and any other query stands for one over all.
    """
    theta, seen, history, grown = beliefs_of(case), set(), [], 0
    with tempfile.TemporaryDirectory() as folder, pk.Ledger(str(Path(folder) / "l.db")) as ledger:
        for asked in case.asked:
            query_of(case, asked)  # refuses what goes beyond the series
            grown = max(grown, asked.last)
            frame = pl.DataFrame({"who": ["p"] * grown, "when": range(grown), "what": [0] * grown})
            table = pk.read(
                frame,
                subject="who",
                time="when",
                state="what",
                states=range(case.states),
                independent_after=1,
                window=asked.first,
            )
            release = for_each if asked.values is None else for_all
            name = NAMES.get(asked.mechanism, asked.mechanism)
            options = {"mechanism": name, "ledger": ledger, "budget": BUDGET, "label": asked.label}
            rows = release(table, theta, asked.epsilon, **options)
            for n, value in enumerate(rows.value):
                if tuple(value) in seen:  # the same numbers once more
                    continue
                seen.add(tuple(value))
                first, last = n * asked.first + 1, min((n + 1) * asked.first, grown)
                for x in range(case.states):
                    values = tuple(np.eye(case.states)[x].tolist())
                    history.append(NoisySum(first, last, values, float(rows.scale[n])))
        charge = ledger.account("p").total / 1e6
    return losses_of(case, theta, history), charge
