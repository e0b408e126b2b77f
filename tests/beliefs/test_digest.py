"""The digest of beliefs is of what the promise depends on: all of that, and nothing else."""

from copy import deepcopy
from dataclasses import fields

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.base import as_beliefs, beliefs_from_dict
from pufferkit.records import PROVENANCE, unsourced
from tests.guards.beliefs import BELIEFS


def one_of_each():
    classes = {}
    for own in BELIEFS.values():
        theta = as_beliefs(own.made())
        classes.setdefault(type(theta).__name__, theta)
    secret = pk.Secrets.at_least("b", within=2)
    classes["EventClass"] = as_beliefs(BELIEFS["calm"].made()).with_secrets(secret)
    return classes


EACH = one_of_each()


def changed(record):
    """The record with one number or label changed, for every one of them, and its path."""

    def walk(value, path):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in list(items):
            if key in ("kind", *PROVENANCE):
                continue
            if isinstance(item, (dict, list)):
                yield from walk(item, (*path, key))
            else:
                yield (*path, key)

    for path in walk(record, ()):
        copy = deepcopy(record)
        place = copy
        for key in path[:-1]:
            place = place[key]
        before = place[path[-1]]
        if isinstance(before, bool):
            place[path[-1]] = not before
        elif isinstance(before, float) and isinstance(path[-1], int) and len(place) > 1:
            other = (path[-1] + 1) % len(place)  # rows of probabilities keep their sum
            if not isinstance(place[other], float):
                continue
            place[path[-1]], place[other] = before / 2, place[other] + before / 2
        elif isinstance(before, (int, float)):
            place[path[-1]] = before + 1 if isinstance(before, int) else before * 0.99
        else:
            place[path[-1]] = f"{before}'"
        if copy != record:
            yield path, copy


@pytest.mark.parametrize("name", EACH)
def test_every_number_and_label_counts(name):
    record, known, tried = EACH[name].to_dict(), EACH[name].digest, set()
    for path, other in changed(record):
        try:
            theta = beliefs_from_dict(other)
        except (ValueError, KeyError):  # no such beliefs
            continue
        if theta.to_dict() != record:  # a limit that other limits imply may not change anything
            assert theta.digest != known, path
            tried.add(path[0])
    assert tried


@pytest.mark.parametrize("name", EACH)
def test_every_argument_is_in_the_record(name):
    words = {"matrices": "kernels", "hidden": "secrets"}
    of_members = {"states"}  # of a list of models, which have them
    given = [own.name for own in fields(EACH[name]) if getattr(EACH[name], own.name) is not None]
    own = {words.get(field, field) for field in given}
    assert own - PROVENANCE <= {*EACH[name].to_dict(), *of_members}


@pytest.mark.parametrize("name", EACH)
def test_where_beliefs_come_from_does_not_count(name):
    plain = beliefs_from_dict(unsourced(EACH[name].to_dict()))
    assert plain.digest == EACH[name].digest


def test_a_region_is_known_by_its_limits():
    """Its limits are all that the noise depends on; counts and confidence say how they came about.

    Fitted again from the same counts it is the same, read from its file it is too, and limits that
    were given in place of counts are no other beliefs.
    """

    def around(counts, confidence=0.9, sides="any start"):
        return pk.ChainClass.around(counts, confidence, states=["a", "b"], sides=sides)

    counts = np.array([[90, 10], [20, 30]])
    fitted = around(counts)
    limits = {"low": fitted.low.tolist(), "high": fitted.high.tolist(), "states": ["a", "b"]}
    given = beliefs_from_dict({"kind": "region", **limits})
    assert around(counts).digest == fitted.digest == given.digest
    scales = [pk.influence_curve(own, pk.count("a", 50), 1).scale for own in (fitted, given)]
    assert scales[0] == scales[1]
    others = (around(2 * counts), around(counts, 0.95), around(counts, sides="both"))
    assert len({own.digest for own in (fitted, *others)}) == 4


def test_private_data_are_provenance():
    series = pk.Series.of(["a", "b", "a", "a", "b"] * 20, ["a", "b"])
    public = pk.ChainClass.around(series, 0.9)
    private = pk.ChainClass.around(series, 0.9, theta_from_private_data=True)
    assert public.digest == private.digest
    assert public.caveats != private.caveats
