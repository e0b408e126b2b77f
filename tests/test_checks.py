"""What is a number, and what only looks like one."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import checks
from pufferkit.fitting.fit import fit

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
LOOSE = [True, False, np.True_, "1", "１", "1_0", b"1", None, 1j, [1], np.array([1.0]), object()]


@pytest.mark.parametrize("value", LOOSE)
def test_loose_numbers_are_refused(value):
    for check in (checks.real, checks.positive):
        with pytest.raises(ValueError, match="x: must be a number"):
            check("x", value)
    with pytest.raises(ValueError, match="x: must be a whole number"):
        checks.whole("x", value, 0)
    with pytest.raises(ValueError, match="epsilon: must be a number"):
        pk.influence_curve(CHAIN, pk.count(1, 5), value)
    with pytest.raises(ValueError, match="lengths"):
        pk.count(1, [value])


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), np.int32(1), np.float32(1), Fraction(1)])
def test_numbers_are_numbers(value):
    assert checks.real("x", value) == 1.0
    assert checks.positive("x", Decimal("0.5")) == 0.5


@pytest.mark.parametrize(
    "values",
    [[True, False], [1, False], ["1", "0"], np.array([True, False]), np.array(["1", "0"]), "10"],
)
def test_loose_arrays_are_refused(values):
    with pytest.raises(ValueError, match="initial: must be"):
        pk.MarkovChain(values, [[0.9, 0.1], [0.4, 0.6]])
    with pytest.raises(ValueError, match="must be numbers"):
        checks.numbers("x", np.array(["1", True], dtype=object))


def test_fractions_in_arrays_are_numbers():
    assert checks.numbers("x", [Fraction(1, 2), Decimal("0.5"), np.float64(1)]).tolist() == [
        0.5,
        0.5,
        1.0,
    ]


@pytest.mark.parametrize("value", ["false", "no", 0, 1, None, "", []])
def test_flags_are_true_or_false(value):
    with pytest.raises(ValueError, match="must be true or false"):
        pk.ChainClass.mixing(2, 0.2, 0.5, reversible=value)
    with pytest.raises(ValueError, match="theta_from_private_data: must be true or false"):
        fit([0, 1, 0, 0], smoothing=0.5, theta_from_private_data=value)


@pytest.mark.parametrize("value", [True, "1"])
def test_values_of_states_are_numbers(value):
    with pytest.raises(ValueError, match="values: must be a number"):
        pk.total({0: 0, 1: value}, 5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"a": {"b": 1, "b": 1}}', "'b' is given twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1e999}', "too large"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "must be a JSON object"),
        ("{", "not JSON"),
    ],
)
def test_json_is_read_strictly(text, words):
    with pytest.raises(ValueError, match=words):
        checks.json_object("model", text)
