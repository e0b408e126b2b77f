"""Any mutated record ends in a verdict; nothing else escapes."""

import json
from contextlib import suppress
from functools import cache
from random import Random

import pytest

import pufferkit as pk
from tests.fuzz import records
from tests.guards.scales import Row
from tests.verification import forged

HONEST = cache(records.honest)


def ended(name, path, value):
    end = records.judged(records.spoiled(HONEST()[name], path, value))
    assert end in {"ok", "not ok"}, (name, path, value, end)


def test_no_forged_record_passes_and_no_untouched_one_is_refused():
    """Some of the kind of ``python -m tests.verification.forged``."""
    assert not forged.attack(150, seed=1, brief=True).wrong


@pytest.mark.slow
def test_no_forged_record_passes_over_all_mechanisms():
    seen = forged.attack(1000, seed=3)
    assert not seen.wrong
    assert set(seen.made) == set(forged.MAKERS)


@pytest.mark.parametrize("scale", [5e-324, 1e-320, 1e-300, 1e-9, 1e-5])
def test_noise_of_next_to_nothing_hides_nothing(scale):
    """Where a next larger scale is hardly a number, and where the tails of the noise underflow."""
    chain = pk.MarkovChain.steady([[0.6, 0.2, 0.2], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    total, runs = pk.total({0: 0, 1: 2, 2: 3}, 5), pk.Secrets.runs(2)
    uneven = pk.exact_sum(pk.ChainClass.of(chain).with_secrets(runs), total, 1).release(
        [0, 1, 2, 1, 0], anyway=True
    )
    for record in (*HONEST().values(), json.loads(uneven.to_json())):
        if "rows" not in record and not record["scales"]:
            changed = records.spoiled(record, ("scale",), scale)
            assert records.judged(changed) == "not ok", record["mechanism"]


def test_secrets_longer_than_the_segments_are_hidden_as_all_of_a_segment():
    record = forged.honest(Row("apart", "count", "runs of 3", "1", "influence_curve", 0.2))
    assert records.judged(record) == "ok"
    assert records.judged(forged.cut(record, 0.98)) == "not ok"


@pytest.mark.parametrize(
    "row",
    [
        Row("sticky", "own", "at_least", "7", "influence_curve", 1.0),
        Row("calm", "episodes", "sets of 2", "3", "influence_curve", 0.2),
    ],
)
def test_a_segment_that_is_paid_for_whole_needs_no_other_proof(row):
    record = forged.honest(row)
    assert records.judged(record) == "ok"
    assert records.judged(forged.cut(record, 0.98)) == "not ok"


def test_the_end_of_a_quilt_may_lie_as_far_as_the_segment_reaches():
    """Around three entries in a row there are fewer places than entries."""
    row = Row("alike", "total", "throughout", "1+4", "markov_quilt", 1.0)
    assert records.judged(forged.honest(row)) == "ok"
    assert records.judged(forged.cut(forged.honest(row), 0.98)) == "not ok"


@pytest.mark.parametrize("value", [1, 1e308, float("nan"), 10**400, "1", None, []])
def test_what_other_releases_spend_beside_this_one_is_any_number(value):
    for record in (HONEST()["curve"], HONEST()["quilt"], HONEST()["exact sum"]):
        changed = records.spoiled(record, ("evidence", "beside"), value)
        ends = {"ok", "not ok"} if not value else {"not ok"}
        assert records.judged(changed) in ends


def test_every_field_of_a_record_may_be_spoiled():
    """One value for each place of the quick records; all places of all of them below."""
    rng = Random(1)
    for name in ("curve", "quilt", "group", "total", "table"):
        record = HONEST()[name]
        for path in records.places(record):
            value = rng.choice([*records.NUMBERS, *records.OTHERS, KeyError])
            ended(name, path, value)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_every_field_of_every_record_may_be_spoiled(seed):
    for name, path, value in records.every_change(Random(seed), 1):
        ended(name, path, value)


def test_a_spoiled_record_is_read_or_refused():
    """By those who do not verify it, too: synthetic series, derived answers."""
    for name in ("curve", "transitions", "quantile", "dashboard", "gaps"):
        record = HONEST()[name]
        for path in records.places(record):
            for value in (10**400, float("nan"), "1", True, [None], {"a": 1}, KeyError):
                with suppress(ValueError):
                    pk.Release.from_dict(records.spoiled(record, path, value))


def test_a_series_is_drawn_from_a_spoiled_record_or_it_is_refused():
    record = HONEST()["transitions"]
    for path in records.places(record):
        for value in (10**400, float("nan"), 0, -1, "1", [], [None], {"a": 1}, KeyError):
            with suppress(ValueError):
                moves = pk.Release.from_dict(records.spoiled(record, path, value))
                str(pk.synthetic(moves, 20, seed=1))
