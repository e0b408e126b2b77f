"""Every class of beliefs answers the same questions, and callers do not ask what it is."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

import pufferkit as pk
from pufferkit.beliefs import base
from pufferkit.beliefs.base import (
    KINDS,
    Beliefs,
    ListedClass,
    Member,
    as_beliefs,
    beliefs_from_dict,
    beliefs_from_json,
)
from pufferkit.beliefs.chain_class import ChainClass, chain_kinds

STICKY = [[0.9, 0.1], [0.4, 0.6]]
COPY = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
CLASSES = {
    "finite": pk.ChainClass.of(pk.MarkovChain([1, 0], STICKY), pk.MarkovChain.steady(STICKY)),
    "any_start": pk.ChainClass.any_start(STICKY),
    "binary": pk.ChainClass.binary(0.3, 0.8),
    "mixing": pk.ChainClass.mixing(2, 0.2, 0.75),
    "region": pk.ChainClass.around([[90, 10], [8, 12]], 0.95),
    "wide region": pk.ChainClass.around([[90, 10, 5], [8, 12, 9], [5, 6, 70]], 0.95),
    "networks": pk.BayesianNetwork({1: (), 2: (1,)}, {1: {(): [0.8, 0.2]}, 2: COPY}),
    "fields": pk.MarkovRandomField.ising([("u", "v")], 0.3),
    "joints": pk.FiniteJoint({(0, "a"): 0.5, (1, "b"): 0.5}, names=["x", "y"]),
}
NO_LIST = {"mixing", "region", "wide region"}
NAMED = {"networks": (1, 2), "fields": ("u", "v"), "joints": ("x", "y")}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_answers(name):
    theta = as_beliefs(CLASSES[name])
    assert isinstance(theta, Beliefs)
    assert theta.entries == NAMED.get(name)
    assert theta.description in repr(theta)
    assert theta.sources == () or name.endswith("region")
    assert not theta.is_private
    assert theta.fixed_start == ("chain 1 of 2" if name == "finite" else None)
    assert beliefs_from_json(theta.to_json()).to_dict() == theta.to_dict()
    for entry in theta.entries or (1,):
        assert set(theta.values(entry)) <= set(theta.states)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_lists_distributions_or_says_that_it_cannot(name):
    theta = as_beliefs(CLASSES[name])
    if name in NO_LIST:
        with pytest.raises(pk.NotApplicable, match="has no single chain to draw data from"):
            theta.distributions()
        return
    listed = theta.distributions()
    assert len({own.name for own in listed}) == len(listed) > 0
    assert all(own.complete for own in listed) == (name not in ("any_start", "binary"))


@pytest.mark.parametrize("name", NAMED)
def test_named_entries_are_no_chains(name):
    theta = as_beliefs(CLASSES[name])
    for question in (theta.members, theta.mixing_bounds):
        with pytest.raises(pk.NotApplicable, match="no Markov chains"):
            question()
    assert theta.named_members == ()


def test_a_new_class_is_one_new_class():
    # Two chains that the class knows by one number: nothing else is written for it.
    @dataclass(frozen=True, eq=False, repr=False)
    class MirrorClass(ChainClass):
        kind = "mirror"
        stay: float
        states: tuple = (0, 1)

        @property
        def description(self):
            return f"two mirrored chains staying with {self.stay:g}"

        def members(self):
            matrices = [[self.stay, 1 - self.stay], [0.5, 0.5]]
            chains = (matrices, [row[::-1] for row in matrices[::-1]])
            return tuple(
                Member(f"mirror {n}", pk.MarkovChain.steady(chain), any_start=False)
                for n, chain in enumerate(chains, 1)
            )

        def mixing_bounds(self):
            return pk.ChainClass.of(*(m.chain for m in self.members())).mixing_bounds()

        def to_dict(self):
            return {"kind": "mirror", "stay": self.stay}

        @classmethod
        def from_plain(cls, data):
            return cls(data["stay"])

    try:
        theta, query = MirrorClass(0.8), pk.count(1, 30)
        listed = pk.ChainClass.of(*(member.chain for member in theta.members()))
        for mechanism in (pk.markov_quilt, pk.markov_quilt_approx, pk.influence_curve, pk.gk16):
            try:
                wanted = mechanism(listed, query, 1).scale
            except pk.NotApplicable:
                continue
            assert mechanism(theta, query, 1).scale == wanted
        release = pk.influence_curve(theta, query, 1).release([0, 1] * 15)
        assert pk.verify(release).ok
        assert (
            pk.compose([pk.Spending.of(pk.markov_quilt(theta, query, 1))], theta, 30).epsilon <= 1
        )
        assert ChainClass.from_dict(theta.to_dict()).stay == 0.8
        assert "mirror" in chain_kinds()
    finally:
        KINDS.pop("mirror")


def test_a_new_class_of_models_needs_no_change_elsewhere():
    @dataclass(frozen=True)
    class Coin:
        heads: float

        def to_dict(self):
            return {"kind": "coin", "heads": self.heads}

        @staticmethod
        def from_dict(data):
            return Coin(data["heads"])

    @dataclass(frozen=True, eq=False, repr=False)
    class CoinClass(ListedClass):
        kind, called = "coins", "coin"
        member, member_kind = Coin, "coin"

        coins: tuple[Coin, ...]

        def check_alike(self):
            pass

        @staticmethod
        def values_in(model, entry):
            return "heads", "tails"

        entries, description = ("coin",), "coins"

    try:
        theta = as_beliefs([Coin(0.4), Coin(0.5)])
        assert isinstance(theta, CoinClass)
        assert beliefs_from_json(theta.to_json()).coins == theta.coins
        assert beliefs_from_dict(Coin(0.3).to_dict()).coins == (Coin(0.3),)
    finally:
        del KINDS["coins"], KINDS["coin"], base._MADE_OF[Coin]


def test_callers_do_not_ask_what_a_class_is():
    # Doors turn what a user gave into a class of beliefs; nobody else looks.
    doors = {"as_beliefs", "as_chain_class", "as_network_class", "chains_only", "chains"}
    asked = []
    for path in Path(pk.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef) or function.name in doors:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                    kinds = ast.unparse(node.args[1])
                    if "Class" in kinds.replace("ClassSides", "") or "Beliefs" in kinds:
                        asked.append(f"{path.name}:{node.lineno}: {kinds}")
    assert asked == []
