"""Every class of beliefs, in small: its numbers as plain data, and how the package is told them.

The oracle reads ``kind`` and ``given`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pufferkit as pk

THREE = ("a", "b", "c")
TWO = ("a", "b")

CALM = [[0.7, 0.2, 0.1], [0.25, 0.6, 0.15], [0.1, 0.3, 0.6]]
STICKY = [[0.95, 0.04, 0.01], [0.1, 0.85, 0.05], [0.02, 0.08, 0.9]]
ABSORBING = [[1.0, 0.0, 0.0], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]]
PERIODIC = [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
SPARSE = [[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]]
APART = [[1.0, 0.0, 0.0], [0.0, 0.7, 0.3], [0.0, 0.4, 0.6]]
ALIKE = [[0.5, 0.3, 0.2]] * 3
REST = [[0.9, 0.1], [0.4, 0.6]]
WALK = [[0.6, 0.4], [0.3, 0.7]]
EVEN = [[0.8, 0.2], [0.2, 0.8]]
SWIFT = [[0.6, 0.4], [0.4, 0.6]]
START = [0.7, 0.2, 0.1]
COUNTS = [[90, 20, 10], [20, 60, 20], [10, 25, 65]]
PAIRS = [[180, 40], [40, 140]]
MEMORY = [[[0.8, 0.2], [0.5, 0.5]], [[0.6, 0.4], [0.3, 0.7]]]
MOVES = [[0.9, 0.1], [0.2, 0.8]]
OTHER_MOVES = [[0.8, 0.2], [0.3, 0.7]]
SHOWN = [[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]]
OTHER_SHOWN = [[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]]
WITHIN = [REST, WALK]
LASTING = [[0.96, 0.03, 0.01], [0.02, 0.4, 0.58], [0.1, 0.7, 0.2]]
SEEN = [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]


@dataclass(frozen=True)
class Belief:
    """A class of beliefs: ``kind`` says what its members are, ``given`` are the numbers."""

    name: str
    kind: str
    states: tuple[str, ...]
    given: dict[str, Any]
    make: Callable[..., Any] = field(repr=False)
    entries: int | None = None
    """How many entries there are, if that is part of the beliefs."""

    def made(self) -> Any:
        return self.make(self.states, **self.given)


def _steady(states, transition):
    return pk.MarkovChain.steady(transition, states)


def _chain(states, initial, transition):
    return pk.MarkovChain(initial, transition, states)


def _of(states, chains):
    return pk.ChainClass.of(
        *(_steady(states, p) if start is None else _chain(states, start, p) for start, p in chains)
    )


def _any_start(states, transitions):
    return pk.ChainClass.any_start(*transitions, states=states)


def _binary(states, low, high):
    return pk.ChainClass.binary(low, high, states)


def _mixing(states, pi_min, gap, reversible):
    return pk.ChainClass.mixing(states, pi_min, gap, reversible)


def _around(states, counts, confidence, sides):
    return pk.ChainClass.around(counts, confidence, states, sides=sides)


def _seasonal(states, kernels, start=None, initial=None, period=None):
    return pk.ChainClass.seasonal(kernels, states, period, start=start, initial=initial)


def _hull(states, vertices, inflate=0.0, backward=None):
    chains = [_steady(states, p) for p in vertices]
    return pk.ChainClass.hull(*chains, inflate=inflate, backward=backward)


def _order(states, memory, table):
    return pk.ChainClass.order(memory, table, states)


def _regimes(states, models, together="finite", emissions=0.0, secret="entry", slow=None):
    members = [
        pk.RegimeClass(moves, shown, states, emissions=emissions, secret=secret, slow=slow)
        for moves, shown in models
    ]
    if len(members) == 1:
        return members[0]
    return (pk.RegimeClass.of if together == "finite" else pk.RegimeClass.hull_of)(*members)


def _networks(states, networks):
    made = [
        pk.BayesianNetwork(parents, tables, dict.fromkeys(parents, states))
        for parents, tables in networks
    ]
    return made[0] if len(made) == 1 else made


def _ising(states, edges, coupling, field):
    return pk.MarkovRandomField.ising(edges, coupling, field, states)


def _potts(states, edges, coupling):
    return pk.MarkovRandomField.potts(edges, coupling, states)


def _grid(states, rows, columns, coupling, field):
    return pk.MarkovRandomField.grid(rows, columns, coupling, field, states)


def _field(states, potentials):
    nodes = {node for edge in potentials for node in edge}
    return pk.MarkovRandomField(potentials, dict.fromkeys(sorted(nodes), states))


def _joints(states, tables):
    made = [
        pk.FiniteJoint({tuple(states[int(x)] for x in row): p for row, p in table.items()})
        for table in tables
    ]
    return made[0] if len(made) == 1 else made


def _tables(parents, rows):
    """Tables of a network whose rows depend on how many parents are in the second state."""
    tables = {}
    for node, own in parents.items():
        tables[node] = {
            tuple("b" if bits >> n & 1 else "a" for n in range(len(own))): rows[bits.bit_count()]
            for bits in range(2 ** len(own))
        }
    return tables


_ROWS = ([0.7, 0.3], [0.4, 0.6], [0.15, 0.85])
_TREE = {"u": (), "v": ("u",), "w": ("u",), "x": ("w",)}
_CAUSES = {"u": (), "v": (), "w": ("u", "v"), "x": ("w",)}
_DIAMOND = {"u": (), "v": ("u",), "w": ("u",), "x": ("v", "w")}
_TREE_OF_THREE = {
    "u": {(): [0.5, 0.3, 0.2]},
    "v": {("a",): CALM[0], ("b",): CALM[1], ("c",): CALM[2]},
    "w": {("a",): CALM[1], ("b",): CALM[0], ("c",): CALM[2]},
}
_CYCLE = [("u", "v"), ("v", "w"), ("w", "x"), ("x", "u")]
_TRIANGLE = [("u", "v"), ("v", "w"), ("w", "u")]
_JOINT = {
    "000": 0.3,
    "001": 0.1,
    "010": 0.05,
    "011": 0.1,
    "100": 0.1,
    "101": 0.05,
    "110": 0.1,
    "111": 0.2,
}
_HOLES = {"000": 0.4, "001": 0.1, "011": 0.2, "110": 0.1, "111": 0.2}
_THREE = {
    "00": 0.2,
    "01": 0.1,
    "02": 0.05,
    "10": 0.1,
    "11": 0.15,
    "12": 0.1,
    "20": 0.05,
    "21": 0.05,
    "22": 0.2,
}

_ALL = [
    ("calm", "chains", THREE, {"transition": CALM}, _steady),
    ("sticky", "chains", THREE, {"transition": STICKY}, _steady),
    ("two states", "chains", TWO, {"transition": REST}, _steady),
    ("alike", "chains", THREE, {"transition": ALIKE}, _steady),
    ("periodic", "chains", THREE, {"transition": PERIODIC}, _steady),
    ("sparse", "chains", THREE, {"transition": SPARSE}, _steady),
    ("fixed start", "chains", THREE, {"initial": START, "transition": CALM}, _chain),
    ("known start", "chains", THREE, {"initial": [0, 1, 0], "transition": CALM}, _chain),
    ("absorbing", "chains", THREE, {"initial": START, "transition": ABSORBING}, _chain),
    ("apart", "chains", THREE, {"initial": START, "transition": APART}, _chain),
    ("two chains", "chains", TWO, {"chains": [(None, REST), (None, WALK)]}, _of),
    ("chains of three", "chains", THREE, {"chains": [(None, CALM), (START, SPARSE)]}, _of),
    ("any start", "any start", THREE, {"transitions": [CALM]}, _any_start),
    ("any start of two", "any start", TWO, {"transitions": [REST, EVEN]}, _any_start),
    ("any start sparse", "any start", THREE, {"transitions": [SPARSE]}, _any_start),
    ("binary", "binary", TWO, {"low": 0.3, "high": 0.8}, _binary),
    ("binary sticky", "binary", TWO, {"low": 0.6, "high": 0.9}, _binary),
    ("mixing", "mixing", THREE, {"pi_min": 0.2, "gap": 0.5, "reversible": False}, _mixing),
    ("mixing reversible", "mixing", TWO, {"pi_min": 0.3, "gap": 1.0, "reversible": True}, _mixing),
    ("around", "around", THREE, {"counts": COUNTS, "confidence": 0.9, "sides": "both"}, _around),
    (
        "around of two",
        "around",
        TWO,
        {"counts": PAIRS, "confidence": 0.8, "sides": "both"},
        _around,
    ),
    (
        "around any start",
        "around",
        TWO,
        {"counts": PAIRS, "confidence": 0.8, "sides": "any start"},
        _around,
    ),
    ("seasonal", "seasonal", TWO, {"kernels": [REST, WALK, EVEN]}, _seasonal),
    ("seasonal of three", "seasonal", THREE, {"kernels": [CALM, ALIKE]}, _seasonal),
    (
        "seasonal from slot 1",
        "seasonal",
        TWO,
        {"kernels": [REST, WALK, EVEN], "start": 1},
        _seasonal,
    ),
    ("seasonal spread", "seasonal", TWO, {"kernels": [REST, WALK], "period": 4}, _seasonal),
    (
        "step by step",
        "seasonal",
        TWO,
        {"kernels": [REST, WALK, EVEN, REST, EVEN, WALK, REST], "initial": [0.6, 0.4]},
        _seasonal,
    ),
    ("hull", "hull", TWO, {"vertices": [REST, EVEN]}, _hull),
    ("hull of equals", "hull", TWO, {"vertices": [EVEN, SWIFT]}, _hull),
    ("hull of three", "hull", THREE, {"vertices": [CALM, ALIKE]}, _hull),
    ("hull contaminated", "hull", TWO, {"vertices": [REST, WALK], "inflate": 0.05}, _hull),
    ("hull backward", "hull", TWO, {"vertices": [REST, WALK], "backward": [REST, EVEN]}, _hull),
    ("order", "order", TWO, {"memory": 2, "table": MEMORY}, _order),
    ("order of one", "order", THREE, {"memory": 1, "table": CALM}, _order),
    ("regimes", "regimes", THREE, {"models": [(MOVES, SHOWN)]}, _regimes),
    ("switching", "regimes", TWO, {"models": [(MOVES, WITHIN)]}, _regimes),
    (
        "regimes contaminated",
        "regimes",
        THREE,
        {"models": [(MOVES, SHOWN)], "emissions": 0.05},
        _regimes,
    ),
    (
        "regimes beside slow",
        "regimes",
        TWO,
        {"models": [(LASTING, SEEN)], "slow": 20},
        _regimes,
    ),
    ("regime hidden", "regimes", THREE, {"models": [(MOVES, SHOWN)], "secret": "regime"}, _regimes),
    (
        "regimes each",
        "regimes",
        THREE,
        {"models": [(MOVES, SHOWN), (OTHER_MOVES, OTHER_SHOWN)]},
        _regimes,
    ),
    (
        "regimes hull",
        "regimes",
        THREE,
        {"models": [(MOVES, SHOWN), (OTHER_MOVES, OTHER_SHOWN)], "together": "hull"},
        _regimes,
    ),
    ("tree", "networks", TWO, {"networks": [(_TREE, _tables(_TREE, _ROWS))]}, _networks, 4),
    ("causes", "networks", TWO, {"networks": [(_CAUSES, _tables(_CAUSES, _ROWS))]}, _networks, 4),
    (
        "diamond",
        "networks",
        TWO,
        {"networks": [(_DIAMOND, _tables(_DIAMOND, _ROWS))]},
        _networks,
        4,
    ),
    (
        "tree of three",
        "networks",
        THREE,
        {"networks": [({"u": (), "v": ("u",), "w": ("v",)}, _TREE_OF_THREE)]},
        _networks,
        3,
    ),
    (
        "two trees",
        "networks",
        TWO,
        {
            "networks": [
                (_TREE, _tables(_TREE, _ROWS)),
                (_TREE, _tables(_TREE, [[0.5, 0.5], [0.2, 0.8]])),
            ]
        },
        _networks,
        4,
    ),
    ("ising", "ising", TWO, {"edges": _CYCLE, "coupling": 0.3, "field": 0.1}, _ising, 4),
    ("potts", "potts", THREE, {"edges": _TRIANGLE, "coupling": 0.5}, _potts, 3),
    ("grid", "grid", TWO, {"rows": 2, "columns": 3, "coupling": 0.25, "field": 0.0}, _grid, 6),
    ("row", "grid", TWO, {"rows": 1, "columns": 4, "coupling": 0.4, "field": 0.2}, _grid, 4),
    (
        "potentials",
        "field",
        TWO,
        {"potentials": {("u", "v"): [[2, 1], [1, 3]], ("v", "w"): [[1, 2], [2, 2]]}},
        _field,
        3,
    ),
    ("joint", "joints", TWO, {"tables": [_JOINT]}, _joints, 3),
    ("joint with holes", "joints", TWO, {"tables": [_HOLES]}, _joints, 3),
    ("two joints", "joints", TWO, {"tables": [_JOINT, _HOLES]}, _joints, 3),
    ("joint of three", "joints", THREE, {"tables": [_THREE]}, _joints, 2),
]

BELIEFS = {each[0]: Belief(*each) for each in _ALL}
