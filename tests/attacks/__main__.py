"""Attack for as long as asked, group by group, and print a table: ``python -m tests.attacks``."""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tests.attacks.accounts import (
    FLEET,
    GOES_ON,
    GROWING,
    OWN,
    SESSION,
    by_fleet,
    by_going_on,
    by_growth,
    by_session,
)
from tests.attacks.cases import PRIVATE, TARGETS, Case, Target
from tests.attacks.charges import by_compose_of_others, by_rule
from tests.attacks.climb import TOLERANCE, Charge, Summit, climb
from tests.attacks.models import GRAPHS, SERIES, alone, at_outer_outputs, of_account, of_table
from tests.attacks.refusals import REFUSED, not_refused
from tests.attacks.regions import attacked
from tests.guards.beliefs import BELIEFS
from tests.guards.registry import CLASSES, cells, ratio, served

HEAD = "| group | instances | largest loss / promise | worst case |\n|---|---|---|---|"

WEIGHTS = {
    "`release` from an account": 3.0,
    "`release` from an account, own questions": 2.0,
    "each, all and groups": 2.0,
    **dict.fromkeys(REFUSED, 0.1),
}
"""Shares of the time, where they are not alike: a history of an account takes long."""

OTHERS = Target("other beliefs", PRIVATE, (1, 2), ("several",))


@dataclass
class Row:
    """What was seen of one group: how many instances, and the worst of them."""

    instances: int = 0
    largest: float = 0.0
    worst: str = ""
    details: str = ""

    def see(self, share: float, worst: str, instances: int = 1, details: str = "") -> None:
        """One instance, or the highest of several."""
        self.instances += instances
        if share > self.largest or not self.worst:
            self.largest, self.worst, self.details = share, worst, details


Group = Callable[[Row, np.random.Generator, float], None]
"""Adds some instances to a row, until a time at the latest."""


def described(summit: Summit) -> str:
    """The worst case in a few words."""
    case: Case = summit.case
    releases = "; ".join(
        f"{'own, ' if a.own and a.values else ''}{a.mechanism} {a.epsilon:.3g} "
        f"on {a.first} to {a.last}"
        for a in case.asked
    )
    size = "+".join(map(str, case.lengths))
    gaps = f" without {', '.join(map(str, case.missing))}" if case.missing else ""
    place = f"length {size}{gaps}, entry {summit.entry}"
    return f"{case.kind}, {case.states} states, {place}: {releases}"


def histories(target: Target, charge: Charge, evaluations: int) -> Group:
    """Histories of releases against what is charged for them."""

    def climbed(row: Row, rng: np.random.Generator, end: float) -> None:
        summit = climb(target, charge, rng, evaluations, 1 + TOLERANCE, end)
        words = f"loss {summit.loss:.6f}, charged {summit.charge:.6f}: {summit.case}"
        row.see(summit.ratio, described(summit), summit.evaluations, words)

    return climbed


def members(kind: str) -> Group:
    """Classes of beliefs against members of them, searched by definition."""
    every = [c for c in cells() if BELIEFS[c.belief].kind == kind]

    def searched(row: Row, rng: np.random.Generator, end: float) -> None:
        cell = every[rng.integers(len(every))]
        own = served(cell)
        if own.scale is not None:
            share = ratio(cell, own.scale, 60, own.times, own.epsilon)
            row.see(share, f"{', '.join(cell)}: {own.mechanism} {cell.epsilon:g}")

    return searched


def models(row: Row, rng: np.random.Generator, end: float) -> None:
    """One random model of any class, by every mechanism."""
    kind = str(rng.choice([*SERIES, *GRAPHS]))
    for share, words in alone(kind, rng):
        row.see(share, f"{kind}, {words[:60]}", details=words)


def histories_of_models(row: Row, rng: np.random.Generator, end: float) -> None:
    """An account, or several questions about a table, over one random model."""
    kind = str(rng.choice([*SERIES]))
    for attack in (of_account, of_table):
        seen = attack(kind, rng)
        if seen is not None:
            row.see(seen[0], f"{kind}, {attack.__name__}", details=seen[1])


def long_series(row: Row, rng: np.random.Generator, end: float) -> None:
    """Noise of every shape over long series, at outer outputs."""
    for share, words in at_outer_outputs(rng):
        row.see(share, words, details=words)


def regions(row: Row, rng: np.random.Generator, end: float) -> None:
    """Regions against kernels chosen in time; their releases are verified too."""
    seed = int(rng.integers(2**31))
    verdict, share = attacked(seed)
    row.see(share if verdict.ok else np.inf, f"seed {seed}", details=str(verdict))


def refusals(name: str) -> Group:
    """What must be refused counts as lost without bound if it is not."""

    def asked(row: Row, rng: np.random.Generator, end: float) -> None:
        tried, wrong = not_refused(name, rng)
        row.see(np.inf if wrong else 0.0, "all refused", tried, f"{wrong} were not refused")

    return asked


def groups(evaluations: int) -> dict[str, Group]:
    """Everything that is attacked."""
    named = {
        f"`{name}`": histories(target, partial(by_rule, rule=name), evaluations)
        for name, target in TARGETS.items()
    }
    named |= {
        "`compose`, noise for other beliefs": histories(OTHERS, by_compose_of_others, evaluations),
        "`release` from an account": histories(SESSION, by_session, evaluations),
        "`release` from an account, own questions": histories(OWN, by_session, evaluations),
        "each, all and groups": histories(FLEET, by_fleet, evaluations),
        "growing, beliefs changed": histories(GROWING, by_growth, evaluations),
        "a series that goes on": histories(GOES_ON, by_going_on, evaluations),
    }
    kinds = dict.fromkeys(BELIEFS[belief].kind for own in CLASSES.values() for belief in own)
    named |= {f"members: {kind}": members(kind) for kind in kinds}
    named["random models"] = models
    named["random models: accounts, tables"] = histories_of_models
    named["long series at outer outputs"] = long_series
    named["kernels in time: two-sided region"] = regions
    return named | {name: refusals(name) for name in REFUSED}


def main() -> int:
    """Print the table; 1 if something lost more than was promised."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=600, help="of one climb, at most")
    parser.add_argument("--only", default="", help="groups whose names hold this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = {n: g for n, g in groups(options.evaluations).items() if options.only in n}
    broken = False
    print(HEAD)
    for number, (name, group) in enumerate(chosen.items()):
        rng, row = np.random.default_rng([options.seed, number]), Row()
        share = WEIGHTS.get(name, 1.0) / sum(WEIGHTS.get(own, 1.0) for own in chosen)
        end = time.monotonic() + 60 * options.minutes * share
        while time.monotonic() < end:
            group(row, rng, end)
        largest = "-" if row.worst == "all refused" else f"{row.largest:.6f}"
        print(f"| {name} | {row.instances:,} | {largest} | {row.worst} |", flush=True)
        if row.largest > 1 + TOLERANCE:
            broken = True
            print(f"BROKEN: {row.details}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
