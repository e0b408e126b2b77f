"""What whole accounts charge: of one series, of growing ones, of subjects and their groups."""

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
    own=True,
    starts=3,
)
GROWING = Target(
    "growing",
    ("influence_curve", "best", "markov_quilt", "group_dp"),
    (1, 2, 3),
    ("steady", "several", "fixed start", "any start"),
    segments=False,
    own=True,
    starts=3,
)
"""Series that grow from release to release, under beliefs that are changed on the way."""

GOES_ON = Target(
    "goes on",
    ("influence_curve", "best"),
    (1,),
    ("steady", "several", "any start"),
    segments=False,
    gaps=False,
    starts=3,
)
"""The same question for every window of a series without an end, of which the beginning is seen."""


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
    released for each subject, and any other query stands for one over all, or, where it is the
    user's own, for one over groups, of which another subject is in the other.
    """
    theta, seen, history, grown = beliefs_of(case), set(), [], 0
    with tempfile.TemporaryDirectory() as folder, pk.Ledger(str(Path(folder) / "l.db")) as ledger:
        for asked in case.asked:
            if not 1 <= asked.first <= asked.last <= case.length:
                raise ValueError("window out of the series")
            grown = max(grown, asked.last)
            who, when = ["p"] * grown + ["q"] * grown, [*range(grown), *range(grown)]
            frame = pl.DataFrame({"who": who, "when": when, "what": [0] * grown + [1] * grown})
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
            if asked.values is not None and asked.own:
                options |= {"groups": {"p": "a", "q": "b"}, "keys": ["a", "b"]}
            rows = release(table, theta, asked.epsilon, **options)
            mine = -(-grown // asked.first)  # rows of p come first
            for n, value in enumerate(rows.raw[:mine]):
                if tuple(value) in seen:  # the same numbers once more
                    continue
                seen.add(tuple(value))
                first, last = n * asked.first + 1, min((n + 1) * asked.first, grown)
                for x in range(case.states):
                    values = tuple(np.eye(case.states)[x].tolist())
                    history.append(NoisySum(first, last, values, float(rows.scale[n])))
        charge = ledger.account("p").total / 1e6
    return losses_of(case, theta, history), charge


def by_growth(case: Case) -> tuple[np.ndarray, float]:
    """The same for a series that grows, under beliefs that are changed before a label.

    Of several chains the first is believed until the first release with a label, then the second:
    everything so far is private under the first one, and everything under the second.
    """
    theta, changed, history, before = beliefs_of(case), None, [], []
    if case.kind == "several":
        theta, changed = (pk.MarkovChain.steady(matrix) for matrix in case.matrices())
    first, now, data = theta, theta, data_of(case)
    with tempfile.TemporaryDirectory() as folder, pk.Ledger(str(Path(folder) / "l.db")) as ledger:
        account, grown = pk.Account(ledger, "data", BUDGET), 0
        for asked in case.asked:
            if changed is not None and asked.label and now is first and history:
                account.change_beliefs(changed)
                now, before = changed, list(history)
            query = query_of(case, asked)
            grown = max(grown, asked.last)
            paid = len(account.history)
            pk.release(
                *(data.window(1, grown), now, query, asked.epsilon),
                account=account,
                mechanism=asked.mechanism,
                window=(asked.first, asked.last),
                label=asked.label,
                anyway=True,
            )
            if len(account.history) > paid:
                history += told(case, asked, account.history[-1]["scale"])
        charge = account.spent
    worst = losses_of(case, pk.ChainClass.of(now) if changed is not None else now, history)
    if before:
        worst = np.maximum(worst, losses_of(case, pk.ChainClass.of(first), before))
    return worst, charge


def by_going_on(case: Case) -> tuple[np.ndarray, float]:
    """Every window of a series that goes on, asked alike: all of them cost one epsilon."""
    theta, (asked,), history = beliefs_of(case), case.asked, []
    data, width = data_of(case), asked.last - asked.first + 1
    if not 1 <= asked.first <= asked.last <= case.length:
        raise ValueError("window out of the series")
    with tempfile.TemporaryDirectory() as folder, pk.Ledger(str(Path(folder) / "l.db")) as ledger:
        account = pk.Account(ledger, "data", BUDGET, horizon=10**6)
        for first in range(1, case.length - width + 2, width):
            window = replace(asked, first=first, last=first + width - 1)
            query = query_of(case, window)
            until = data.window(1, window.last)
            options = {"account": account, "window": (window.first, window.last), "anyway": True}
            made = pk.release(until, theta, query, asked.epsilon, **options)
            history += told(case, window, made.scale)
        charge = account.spent
    if charge > asked.epsilon + 1e-6:
        raise AssertionError(f"{charge} for windows at epsilon {asked.epsilon}")
    return losses_of(case, theta, history), charge
