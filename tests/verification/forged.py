"""Forged records: noise cut by 2% or more, with the proof as it was, changed, or another's.

``python -m tests.verification.forged --records 20000 --seed 1`` makes them from the rows of the
table of scales, of every mechanism as many as of the others. None may pass, no untouched one may be
refused, and none may end in anything but a verdict.

Some noise is more than is needed: a sum that is the same given either value of an entry tells
nothing at any scale, and some scales jump. Then less is enough, and a verdict that says so is
right. It is so by definition only: all data are listed, and no member of the class that a climb
finds loses more than epsilon (`tests.guards.attacks`). Where data are too many to be listed, or
members too many to be climbed, a pass is wrong.

What a record claims (beliefs, question, epsilon, lengths, secrets) is left alone: a record that
claims less needs less noise, and is no forgery. What it brings forward as proof is changed.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pufferkit as pk
from pufferkit.verification.verify import MOST_WORK
from tests.fuzz import records
from tests.guards.asked import QUESTIONS, REFUSALS, Over, hiding
from tests.guards.attacks import LOOSE, attacked, listable
from tests.guards.beliefs import BELIEFS
from tests.guards.scales import Row, all_rows, over_of

Record = dict[str, Any]

MAKERS: dict[str, Callable[[Any, Any, float], Any]] = {
    "influence_curve": pk.influence_curve,
    "markov_quilt": pk.markov_quilt,
    "markov_quilt, formula": lambda b, q, e: pk.markov_quilt(b, q, e, influence="formula"),
    "markov_quilt_approx": pk.markov_quilt_approx,
    "exact_sum": pk.exact_sum,
    "wasserstein": pk.wasserstein,
    "gk16": pk.gk16,
    "group_dp": lambda b, q, e: pk.group_dp(q, e, b),
    "entry_dp": lambda _, q, e: pk.entry_dp(q, e),
}

CUTS = (0.98, 0.95, 0.8, 0.3, 1e-3, 1e-9, 1e-300)
CLAIMED = {"secrets", "pattern", "weights", "apart", "answers"}
"""What the verification data claim; the rest of them is proof."""
DECIDES = {"beside", "bought", "horizon", "counted", "variant"}
"""Evidence that is a claim, or chooses the theorem."""


def honest(row: Row) -> Record | None:
    """The record of one row of the table of scales; ``None`` where there is no such noise."""
    if row.mechanism not in MAKERS:
        return None
    belief, over = BELIEFS[row.belief], over_of(row)
    try:
        beliefs = hiding(belief.made(), row.secret, belief.states)
        query = QUESTIONS[row.question](belief.states, over)
        noise = MAKERS[row.mechanism](beliefs, query, row.epsilon)
        release = noise.release(_data(belief.states, over), anyway=True)
    except REFUSALS:
        return None
    record: Record = json.loads(release.to_json())
    if any("tie" in note for note in record["evidence"]["notes"]):
        return None  # an open tie is decided upwards: less than this noise is enough
    return record


def _data(states: tuple[str, ...], over: Over) -> Any:
    labels = [None if t in over.missing else states[t % 2] for t in range(over.total)]
    starts = [sum(over.lengths[:n]) for n in range(len(over.lengths) + 1)]
    pieces = [labels[i:j] for i, j in pairwise(starts)]
    return pk.Series.of(pieces if len(pieces) > 1 else pieces[0], states)


def cut(record: Record, factor: float) -> Record:
    """The record with less noise."""
    less = copy.deepcopy(record)
    less["scale"] *= factor
    if less.get("scales"):
        less["scales"] = [scale * factor for scale in less["scales"]]
    return less


def forgeries(record: Record, other: Record, rng: Random) -> Iterator[tuple[str, Record]]:
    """Records of too little noise, by how they were made."""
    for factor in CUTS[:2]:
        yield f"cut to {factor}", cut(record, factor)
    for times in (0.0, 0.5, 0.98, 1.02, 2.0, 1e6, -1.0):
        less = cut(record, rng.choice(CUTS))
        _every_number(less, lambda n, times=times: n * times)
        yield f"numbers of the proof times {times}", less
    for size in (1e-3, 1e-1, 1.0):
        less = cut(record, rng.choice(CUTS))
        _every_number(less, lambda n, size=size: n * (1 + size * rng.uniform(-1, 1)))
        yield "numbers of the proof at random", less
    borrowed = cut(record, rng.choice(CUTS))
    proof = {name: own for name, own in _data_of(other).items() if name not in CLAIMED}
    borrowed["verification_data"] = _data_of(borrowed) | copy.deepcopy(proof)
    yield "the proof of another", borrowed
    if record["unit"] is not None:
        finer = cut(record, rng.choice(CUTS))
        finer["unit"] = str(Fraction(record["unit"]) / rng.choice((2, 1024, 10**9)))
        yield "a finer unit", finer
    places = list(_places(record))
    for _ in range(6):
        if not places:
            break
        path, value = rng.choice(places), rng.choice([*records.NUMBERS, *records.OTHERS, KeyError])
        yield (
            f"{path} is {value!r:.40}",
            records.spoiled(cut(record, rng.choice(CUTS)), path, value),
        )
    lists = [path for path in places if isinstance(_at(record, path), list) and _at(record, path)]
    for _ in range(4 if lists else 0):
        less, path = cut(record, rng.choice(CUTS)), rng.choice(lists)
        rows = _at(less, path)
        one, two = rng.randrange(len(rows)), rng.randrange(len(rows))
        how = rng.choice(("swap", "drop", "twice", "copy"))
        if how == "swap":
            rows[one], rows[two] = rows[two], rows[one]
        elif how == "drop":
            del rows[one]
        elif how == "twice":
            rows.insert(one, copy.deepcopy(rows[two]))
        else:
            rows[one] = copy.deepcopy(rows[two])
        yield f"{how} in {path}", less


def _data_of(record: Record) -> Record:
    return dict(record.get("verification_data") or {})


def _at(record: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        record = record[key]
    return record


def _places(record: Record) -> Iterator[tuple[Any, ...]]:
    """The places of the proof and of the evidence that is not a claim."""
    for name in _data_of(record).keys() - CLAIMED:
        yield "verification_data", name
        if isinstance(inside := record["verification_data"][name], (dict, list)):
            yield from (("verification_data", name, *path) for path in records.places(inside))
    for name in record["evidence"].keys() - DECIDES - {"notes", "belief"}:
        yield "evidence", name


def _every_number(record: Record, change: Callable[[float], float]) -> None:
    """Change every number of the proof that is not whole, and the recorded influence."""

    def changed(value: Any) -> Any:
        if isinstance(value, float):
            return change(value)
        if isinstance(value, list):
            return [changed(own) for own in value]
        if isinstance(value, dict):
            return {name: changed(own) for name, own in value.items()}
        return value

    data = record.get("verification_data") or {}
    for name in data.keys() - CLAIMED:
        data[name] = changed(data[name])
    if record["evidence"].get("influence") is not None:
        record["evidence"]["influence"] = change(float(record["evidence"]["influence"]))


def served(rng: Random, *, brief: bool = False) -> Iterator[tuple[Row, Record]]:
    """Rows with their records, one of each mechanism after another."""
    rows = [row for row in all_rows() if row.mechanism in MAKERS]
    if brief:
        rows = [row for row in rows if row.over in ("1", "2", "3", "5", "3+2")]
    rng.shuffle(rows)
    queues = [iter([row for row in rows if row.mechanism == name]) for name in MAKERS]
    while queues:
        for queue in list(queues):
            made = ((row, honest(row)) for row in queue)
            row, record = next(((row, own) for row, own in made if own is not None), (None, None))
            if row is None or record is None:
                queues.remove(queue)
            else:
                yield row, record


def enough(row: Row, scale: float) -> bool:
    """Whether this scale keeps what a row promises, by definition."""
    known = listable(BELIEFS[row.belief].states, over_of(row)) and row.mechanism != "entry_dp"
    if not known or BELIEFS[row.belief].kind in LOOSE:
        return False
    return attacked(row, scale) <= row.epsilon * (1 + 1e-9)


@dataclass
class Attacked:
    """What went wrong, how many forgeries there were of each mechanism, and how many are right."""

    wrong: list[str] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    enough: Counter[str] = field(default_factory=Counter)


def attack(count: int, seed: int, *, brief: bool = False, progress: bool = False) -> Attacked:
    """Forge so many records, and look how each verification ends."""
    rng, seen = Random(seed), Attacked()
    last: dict[str, Record] = {}

    def told(problem: str) -> None:
        seen.wrong.append(problem)
        if progress:
            print(problem, flush=True)

    for row, record in served(rng, brief=brief):
        if seen.made.total() >= count:
            break
        if (end := records.judged(record, MOST_WORK)) != "ok":
            told(f"{row}: untouched, and {end}")
            continue
        for how, less in forgeries(record, last.get(row.mechanism, record), rng):
            end = records.judged(less, MOST_WORK)
            seen.made[row.mechanism] += 1
            if end == "ok" and enough(row, less["scale"]):
                seen.enough[str(row)] += 1
            elif end != "not ok":
                told(f"{row}: {how}: {end}")
        last[row.mechanism] = record
        if progress and seen.made.total() % 1000 < 25:
            print(seen.made.total(), len(seen.wrong), flush=True)
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.verification.forged")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    seen = attack(given.records, given.seed, progress=True)
    print(f"{seen.made.total():,} forged records:", dict(seen.made))
    print("less noise is enough, by definition:", dict(seen.enough))
    print(*(seen.wrong or ["none passes, none of the untouched is refused"]), sep="\n")
    sys.exit(bool(seen.wrong))
