"""What was asked is one thing everywhere: for the noise, for the stored answer, for the charge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.data.query import KINDS, NAMES, OptionName, Question, question
from tests.asking import Asking, for_each

STATES = ["a", "b", "c"]
CHAIN = pk.MarkovChain.steady(
    [[0.985, 0.01, 0.005], [0.01, 0.985, 0.005], [0.4975, 0.4975, 0.005]], states=STATES
)
WEAK = pk.MarkovChain.steady([[0.5, 0.5], [0.5, 0.5]])
STRONG = pk.MarkovChain.steady([[0.99, 0.01], [0.01, 0.99]])


def own(state: str, name: str | None = "own", unit: int | None = 1, n: int = 200) -> pk.Query:
    moved = {other: int(other == state) for other in STATES}
    return pk.per_entry(
        lambda x: [float((x == state).sum())], moved, STATES, n, unit=unit, name=name, trials=20
    )


def data(n: int = 200) -> list[str]:
    return [STATES[code] for code in CHAIN.sample(n, seed=1)]


def test_own_queries_of_one_name_get_the_noise_of_their_own_distances(tmp_path):
    rare, most = own("c"), own("b")
    session = Asking(data(), CHAIN, 5.0, str(tmp_path / "l.db"))
    session.cost(rare, 1.0)
    released = session.release(most, 1.0)
    needed = pk.influence_curve(CHAIN, most, 1.0).scale
    assert released.scale >= needed * (1 - 1e-9)


def test_own_queries_of_one_name_do_not_share_a_stored_answer(tmp_path):
    session = Asking(data(), CHAIN, 50.0, str(tmp_path / "l.db"))
    first = session.release(own("c"), 1.0)
    second = session.release(own("b"), 1.0)
    assert len(session.history) == 2
    assert first.scale != second.scale
    assert session.release(own("b"), 1.0).raw == second.raw


def test_an_own_function_needs_a_name():
    with pytest.raises(ValueError, match="name"):
        own("c", name=None)
    with pytest.raises(ValueError, match="name"):
        pk.Query("", lambda x: [0.0], 1, 5)


def test_every_fact_of_a_query_is_part_of_what_was_asked():
    asked = [
        own("c"),
        own("b"),
        own("c", name="other"),
        own("c", unit=None),
        pk.Query("own", lambda x: [0.0], 1, 200),
        pk.Query("own", lambda x: [0.0], 2, 200),
        pk.Query("own", lambda x: [0.0], 1, 200, unit=1),
        pk.Query("own", lambda x: [0.0], 1, 200, unit=2),
        pk.Query("own", lambda x: [0.0, 0.0], 1, 200, labels=["x", "y"]),
        pk.Query("own", lambda x: [0.0], 1, 200, apart={"a": (Fraction(1),)}),
        pk.Query("own", lambda x: [0.0], 1, 200, weights={"b": (Fraction(1),)}),
        pk.Query("own", lambda x: [0.0], 1, (100, 100)),
        pk.histogram(STATES, 200),
        pk.relative_frequencies(STATES, 200),
        pk.count("a", 200),
        pk.count("b", 200),
        pk.episodes("a", 200),
        pk.episodes(["a", "b"], 200),
        pk.stays("a", 200),
        pk.transition_counts(STATES, 200),
        pk.by_time(["x", "x", "y", "y"] * 50, STATES, 200),
        pk.by_time(["x", "y", "x", "y"] * 50, STATES, 200),
        pk.linear({"a": 1}, 200),
        pk.linear({"a": 1, "b": 2}, 200),
    ]
    assert len({query.digest for query in asked}) == len(asked)


def test_states_that_read_alike_are_different_states():
    assert pk.count(1, 5).digest != pk.count("1", 5).digest
    one, two = question("episodes", of=["a, b"]), question("episodes", of=["a", "b"])
    assert one.digest != two.digest


def test_lengths_and_a_series_without_gaps_are_the_same_question():
    series = pk.Series.of(data(), STATES)
    assert pk.count("a", 200).digest == pk.count("a", series).digest
    assert pk.histogram(STATES, 200).digest == pk.histogram(STATES, series).digest


def test_beliefs_are_known_without_their_provenance_and_what_is_derived():
    fitted = pk.fit(["x", "y", "y", "x", "y", "x", "x"] * 9)
    stated = pk.MarkovChain.steady(fitted.transition, states=fitted.states)
    assert pk.ChainClass.of(fitted).digest == pk.ChainClass.of(stated).digest
    assert "initial" not in stated.to_dict()
    again = pk.MarkovChain.from_json(fitted.to_json())
    assert pk.ChainClass.of(again).digest == pk.ChainClass.of(stated).digest
    other = pk.MarkovChain([1.0, 0.0], stated.transition, states=stated.states)
    assert pk.ChainClass.of(other).digest != pk.ChainClass.of(stated).digest


def test_noise_for_other_beliefs_is_charged_by_what_it_does():
    weak = pk.influence_curve(WEAK, pk.count(1, 200), 1.0)
    charged = pk.compose([pk.Spending.of(weak)], STRONG, 200)
    # The count of a chain that hardly moves tells the first entry: by definition of its loss.
    assert charged.epsilon > 5
    assert charged.rule == "entry_profile"
    assert pk.compose([pk.Spending.of(weak)], WEAK, 200).epsilon == 1.0


def test_quilts_and_parts_for_other_beliefs_are_no_promise_here():
    pair = pk.MarkovRandomField.ising([("Ada", "Ben"), ("Cem", "Dia")], coupling=5.0)
    four = pk.MarkovRandomField.ising(
        [("Ada", "Ben"), ("Ben", "Cem"), ("Cem", "Dia")], coupling=5.0
    )
    noise = pk.group_dp(pk.count(1, 4), 1.0, pair)
    assert pk.compose([pk.Spending.of(noise)], pair, 4).epsilon <= 1.0
    assert pk.compose([pk.Spending.of(noise)], four, 4).epsilon > 1.2
    quilt = pk.markov_quilt(WEAK, pk.count(1, 200), 1.0)
    twice = pk.compose([pk.Spending.of(quilt)] * 2, STRONG, 200)
    assert twice.rule == "entry_profile"
    assert not math.isclose(twice.epsilon, 2.0)


@pytest.fixture
def fivefold():
    """A question that says neither how far an entry moves it nor that it is a histogram."""
    known = {"fivefold": OptionName("shares and counts", "five times the entries in a state")}

    @dataclass(frozen=True)
    class Fivefold(Question):
        kind: ClassVar[str] = "fivefold"
        names: ClassVar = known

        def of_codes(self, over, codes):
            return np.array([5 * (codes == 0).sum()])

    yield Fivefold()
    del NAMES["fivefold"], KINDS["fivefold"]


def test_a_question_without_a_stated_bound_is_refused(fivefold):
    rows = pl.DataFrame({"who": ["x"] * 50, "t": range(50), "s": data(50)})
    table = pk.read(rows, subject="who", time="t", state="s", states=STATES)
    with pytest.raises(pk.NoTheorem, match="moves"):
        for_each(table, CHAIN, 1.0, query=fivefold)
    with pytest.raises(pk.NoTheorem, match="moves"):
        pk.influence_curve(CHAIN, fivefold, 1.0, 50)


def test_a_question_about_no_series_is_asked_of_the_data_of_the_account(tmp_path):
    series = pk.Series.of(data(), STATES)
    session = Asking(series, CHAIN, 50.0, str(tmp_path / "l.db"))
    for unbound, bound in (
        (pk.count("a"), pk.count("a", series)),
        (pk.histogram(), pk.histogram(STATES, series)),
        (pk.mean({"a": 0, "b": 1, "c": 2.5}), pk.mean({"a": 0, "b": 1, "c": 2.5}, 200)),
        (pk.episodes("c"), pk.episodes("c", 200)),
    ):
        first = session.release(unbound, 1.0)
        assert session.release(bound, 1.0).raw == first.raw  # the same question, free
        assert session.cost(unbound, 1.0) == 0
    assert len(session.history) == 4
