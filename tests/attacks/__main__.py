"""Climb for as long as asked, rule by rule, and print a table: ``python -m tests.attacks``."""

import argparse
import sys
import time
import warnings
from functools import partial

import numpy as np

from tests.attacks.accounts import FLEET, SESSION, by_fleet, by_session
from tests.attacks.cases import TARGETS, Case
from tests.attacks.charges import by_rule
from tests.attacks.climb import TOLERANCE, Summit, climb

HEAD = "| rule | histories | largest loss / charge | worst case |\n|---|---|---|---|"


def described(summit: Summit) -> str:
    """The worst case in a few words."""
    case: Case = summit.case
    releases = "; ".join(
        f"{a.mechanism} {a.epsilon:.3g} on {a.first} to {a.last}" for a in case.asked
    )
    size = "+".join(map(str, case.lengths))
    gaps = f" without {', '.join(map(str, case.missing))}" if case.missing else ""
    place = f"length {size}{gaps}, entry {summit.entry}"
    return f"{case.kind}, {case.states} states, {place}: {releases}"


def main() -> int:
    """Print the table; 1 if something lost more than it was charged."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=600, help="of one climb, at most")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    charges = {name: (target, partial(by_rule, rule=name)) for name, target in TARGETS.items()}
    charges |= {"Session": (SESSION, by_session), "each and all": (FLEET, by_fleet)}
    broken = False
    print(HEAD)
    for number, (name, (target, charge)) in enumerate(charges.items()):
        rng = np.random.default_rng([options.seed, number])
        end = time.monotonic() + 60 * options.minutes / len(charges)
        histories, top = 0, None
        while time.monotonic() < end:
            summit = climb(target, charge, rng, options.evaluations, 1 + TOLERANCE, end)
            histories += summit.evaluations
            top = summit if top is None or summit.ratio > top.ratio else top
        if top is None:
            continue
        print(f"| `{name}` | {histories:,} | {top.ratio:.6f} | {described(top)} |", flush=True)
        if top.ratio > 1 + TOLERANCE:
            broken = True
            print(f"BROKEN: loss {top.loss:.6f}, charged {top.charge:.6f}: {top.case}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
