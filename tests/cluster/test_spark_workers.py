"""What Spark's Python workers make of sorted rows, without Spark: the same as polars in one go."""

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.cluster import spark_workers
from pufferkit.data import count
from pufferkit.data.assemble import clock_step, extents_of
from pufferkit.data.count import STATE, SUBJECT, TIME, Rules
from pufferkit.data.read import _entries, _rules
from tests.conftest import require

STATES = ("rest", "walk", "run")
OPTIONS = [
    {},
    {"independent_after": 3},
    {"window": 10},
    {"window": 7, "independent_after": 2},
    {"every": 2},
    {"every": 2, "independent_after": 4, "window": 20},
]


def _rows(kind=int):
    """A long subject, many short ones, gaps, missing states, and one without any state."""
    rng = np.random.default_rng(3)
    records = []
    for number, size in enumerate([400, *[1, 2, 9, 30] * 8]):
        times = np.cumsum(rng.choice([1, 1, 1, 2, 5], size)) + number
        records += [
            (f"s{number:02}", kind(t) / 8 if kind is float else int(t), _state(rng)) for t in times
        ]
    records += [("s90", kind(t), None) for t in range(3)]
    return pl.DataFrame(records, schema=["who", "when", "what"], orient="row")


def _state(rng):
    return None if rng.random() < 0.05 else STATES[rng.integers(3)]


def _packs(rows, rules, size):
    """What `count_rows` gives for rows in batches of this size."""
    import pyarrow as pa

    inner = rows.rename({"who": SUBJECT, "when": TIME, "what": STATE}).sort(SUBJECT, TIME)
    batches = _entries(inner, rules).to_arrow().to_batches(max_chunksize=size)
    batches = [pa.RecordBatch.from_arrays(b.columns, names=b.schema.names) for b in batches]
    packs = {"pieces": [], "pairs": [], "facts": []}
    for batch in spark_workers.count_rows(iter(batches), rules=rules):
        packs[batch["kind"][0].as_py()].append(spark_workers.opened(batch["payload"][0].as_py()))
    return packs


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    ("at_once", "lines"), [pytest.param(7, 20, marks=pytest.mark.slow), (64, 5), (10**6, 10**6)]
)
def test_batches_and_packs_of_any_size_are_one_table(options, at_once, lines, monkeypatch):
    require("pyarrow")
    monkeypatch.setattr(spark_workers, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(spark_workers, "LINES_OF_A_PACK", lines)
    names = ("independent_after", "every", "window")
    rules = _rules(False, *(options.get(name) for name in names), None, None, None)
    rows = _rows()
    expected = pk.read(rows, subject="who", time="when", state="what", states=STATES, **options)
    packs = _packs(rows, rules, 7)
    pairs = count.merged_pairs(packs["pairs"])
    assert len(packs["pieces"]) > 1 or lines > 100
    together = pl.concat(packs["pieces"])
    assert sum(pack[SUBJECT].n_unique() for pack in packs["pieces"]) == together[SUBJECT].n_unique()
    step = clock_step(pairs, extents_of(together, rules), rules)
    segmented = len(expected.segment_lengths) > len(expected.subjects)
    reading = spark_workers.SplitReading(rules, pairs, step, STATES, segmented)
    tables = [table for pack in packs["pieces"] if (table := reading.table(pack)) is not None]
    for name in ("subjects", "begins", "starts"):
        own = [item for table in tables for item in getattr(table, name)]
        assert own == list(getattr(expected, name)), name
    for name in ("pieces", "segment", "window", "first", "last", "spans", "longest"):
        own = np.concatenate([getattr(table, name) for table in tables])
        assert own.tolist() == getattr(expected, name).tolist(), name
    for table in tables:
        for name in ("step", "steps", "independent_after", "notes"):
            assert getattr(table, name) == getattr(expected, name), name
        assert table.transitions.tolist() == expected.transitions.tolist()
    for pack in packs["pieces"]:
        full, public = reading.table(pack), reading.sizes(extents_of(pack, rules))
        assert (full is None) == (public is None)
        if full is not None:
            assert full.lengths_of(0) == public.lengths_of(0)
            assert full.sizes.tolist() == public.sizes.tolist()
    (facts,) = packs["facts"]
    assert facts["nobody"].item() == 0


def test_what_is_wrong_with_rows_is_told():
    require("pyarrow")
    rows = _rows()
    nobody = rows.with_columns(who=pl.when(pl.col("who") != "s03").then("who"))
    assert _packs(nobody, Rules(), 50)["facts"][0]["nobody"].item() > 0
    twice = pl.concat([rows, rows.tail(1)])
    assert count.merged_pairs(_packs(twice, Rules(), 50)["pairs"])["low"].min() == 0
    grid = _rules(False, None, 2, None, None, None, None)
    assert _packs(twice, grid, 50)["facts"][0]["smallest"].item() == 0
    lost = rows.with_columns(when=pl.when(pl.col("who") != "s01").then("when"))
    assert count.merged_pairs(_packs(lost, Rules(), 50)["pairs"])["lost"].sum() == 1


def test_steps_without_a_clock_stay_few(monkeypatch):
    """Different times between all neighbours: moves are counted without them."""
    require("pyarrow")
    monkeypatch.setattr(count, "MOST_STEPS", 20)
    monkeypatch.setattr(spark_workers, "ROWS_AT_ONCE", 30)
    times = np.cumsum(np.arange(1, 200) ** 2).tolist()
    rows = pl.DataFrame({"who": ["a"] * 199, "when": times, "what": ["rest", "run"] * 99 + ["run"]})
    (pairs,) = _packs(rows, Rules(), 10)["pairs"]
    assert pairs.height < 20
    assert pairs["n"].sum() == 199
