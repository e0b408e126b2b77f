"""Functions that make questions: without lengths a `Question`, with them a `Query`."""

import inspect
from typing import get_overloads

import pytest

import pufferkit as pk
from pufferkit.data import asking
from pufferkit.data.query import Question

WHEN = pk.Calendar("2024-03-04 00:00", every="1h")
DATA = pk.Series([0, 1, 0], ("a", "b"), (3,), calendar=WHEN)
VALUES = {"a": 0, "b": 1}
ARGUMENTS = {
    "by_time": (["x", "y", "x"],),
    "count": ("a",),
    "days_with": ("a", 1),
    "episodes": ("a",),
    "linear": ({"a": 1},),
    "mean": (VALUES,),
    "quantile": (0.5, VALUES),
    "stays": ("a",),
    "time_in": ("a",),
    "total": (VALUES,),
    "variance": (VALUES,),
}
MORE = {"variance": {"clip": (0, 1)}}
FUNCTIONS = [
    name
    for name, own in vars(asking).items()
    if inspect.isfunction(own) and own.__module__ == asking.__name__ and name[0] != "_"
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_it_says(name):
    own, given, more = getattr(pk, name), ARGUMENTS.get(name, ()), MORE.get(name, {})
    unbound, bound = own(*given, **more), {**more, "lengths": 3}
    if "calendar" in inspect.signature(own).parameters:
        bound["calendar"] = WHEN
    if "states" in inspect.signature(own).parameters:
        bound["states"] = ["a", "b"]
    query = own(*given, **bound)
    assert isinstance(unbound, Question)
    assert isinstance(query, pk.Query)
    assert isinstance(unbound.exact(DATA), list)
    said = [inspect.signature(one).return_annotation for one in get_overloads(own)]
    assert said == ["Question", "Query"]
