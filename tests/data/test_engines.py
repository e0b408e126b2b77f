"""Random small tables: what one engine makes of them, all others make too."""

import re
from datetime import datetime, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.data import read as reader

COLUMNS = {"subject": "who", "time": "when", "state": "what"}

# State cells and their kind in polars and Spark.
CELLS = {
    "text": (["a", "B", "b", "Ä", "10", "9", " a"], pl.String, "string"),
    "whole": ([3, -1, 10, 2], pl.Int64, "bigint"),
    "small": ([3, -1, 10, 2], pl.Int8, "tinyint"),
    "float": ([0.5, -0.0, 0.0, 2.0, float("nan")], pl.Float64, "double"),
    "decimal": (
        [Decimal("1.50"), Decimal("2.00"), Decimal("-0.25")],
        pl.Decimal(6, 2),
        "decimal(6,2)",
    ),
    "truth": ([True, False], pl.Boolean, "boolean"),
}
START = datetime(1969, 12, 28, 22)
FAR = 50_000 * 86_400_000_000_000  # more than a float can tell apart, and no moment of our years
NANO = 1_704_067_200_000_000_000  # of these years, in nanoseconds
# Times of step number n, their kinds, and rules in their units.
CLOCKS = {
    "wall": (
        lambda n: START + timedelta(minutes=20 * n),
        pl.Datetime("us"),
        "timestamp_ntz",
        {"gap": "40m", "every": "1h", "window": "1d"},
    ),
    "whole": (
        lambda n: 20 * n - 3000,
        pl.Int64,
        "bigint",
        {"gap": 40, "every": 60, "window": 1440},
    ),
    "small": (lambda n: n - 100, pl.Int16, "smallint", {"gap": 2, "every": 3, "window": 72}),
    "large": (
        lambda n: FAR + 86_400_000_000_000 * (n // 9) + n % 9 - 4,  # around midnights
        pl.Int64,
        "bigint",
        {"gap": 2, "every": 5, "window": 86_400_000_000_000},
    ),
    "nano": (  # two readings of one microsecond have the same time
        lambda n: NANO + 86_400_000_000_000 * (n // 9) + n % 9 - 4,
        pl.Int64,
        "bigint",
        {"gap": 2, "every": "5m", "window": "1d"},
    ),
    "float": (lambda n: 0.1 * n - 5, pl.Float64, "double", {"gap": 0.2, "every": 0.3, "window": 3}),
    "decimal": (
        lambda n: Decimal(n) / 4 - 10,
        pl.Decimal(12, 2),
        "decimal(12,2)",
        {"gap": 0.5, "every": 1, "window": 3},
    ),
}
PAIRS = [
    ("text", "wall"),
    ("whole", "whole"),
    ("small", "small"),
    ("float", "float"),
    ("decimal", "decimal"),
    ("truth", "large"),
    ("truth", "nano"),
]


def _rows(state, clock, seed):
    """Twenty subjects with gaps and missing states, shuffled."""
    rng = np.random.default_rng(seed)
    cells = CELLS[state][0]
    rows = []
    for who in range(20):
        steps = np.flatnonzero(rng.random(60) < rng.choice([0.3, 0.7, 0.97]))
        for n in steps.tolist():
            cell = None if rng.random() < 0.1 else cells[rng.integers(len(cells))]
            rows.append((f"s{who}", CLOCKS[clock][0](n), cell))
    return [rows[n] for n in rng.permutation(len(rows))]


def _frame(state, clock, rows):
    kinds = {"who": pl.String, "when": CLOCKS[clock][1], "what": CELLS[state][1]}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def _rules(clock):
    units = CLOCKS[clock][3]
    yield {}
    yield {"independent_after": units["gap"]}
    yield {"window": units["window"]}
    yield {"every": units["every"], "window": units["window"]}


def _facts(source, rules):
    """Everything a table says, or the rule by which it is refused.

    Which rows break it is said by their numbers, or by subject and time where they have no order.
    """
    try:
        table = pk.read(source, **COLUMNS, **rules)
        table = table.collect() if hasattr(table, "collect") else table
    except ValueError as error:
        rule = re.sub(r"^.*?: (rows? .*? ha(?:s|ve) )?", "", str(error))
        return re.split("[,;]", rule)[0]
    names = ("owner", "segment", "window", "pieces", "transitions")
    facts = {name: getattr(table, name).tolist() for name in names}
    facts["states"] = [repr(state) for state in table.states]
    return facts | {"subjects": table.subjects, "steps": table.steps, "begins": table.begins}


@pytest.mark.slow
@pytest.mark.parametrize(("state", "clock"), PAIRS)
def test_local_engines_agree(state, clock):
    for seed in range(3):
        frame = _frame(state, clock, _rows(state, clock, seed))
        base = duckdb.connect()
        base.register("arrow", frame.to_arrow())
        for rules in _rules(clock):
            expected = _facts(frame, rules)
            others = {
                "lazy": frame.lazy(),
                "arrow": frame.to_arrow(),
                "duckdb": base.sql("select * from arrow"),
            }
            if clock != "decimal":  # which pandas holds as objects, and objects are no times
                others["pandas"] = frame.to_pandas()
            for name, source in others.items():
                assert _facts(source, rules) == expected, (name, rules)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark_agrees(spark):
    """Each pair of types meets half of the rules, every rule three pairs."""
    for turn, (state, clock) in enumerate(PAIRS):
        rows = _rows(state, clock, 8)
        kinds = f"who string, when {CLOCKS[clock][2]}, what {CELLS[state][2]}"
        frame, far = _frame(state, clock, rows), spark.createDataFrame(rows, kinds)
        for rules in list(_rules(clock))[turn % 2 :: 2]:
            expected = _facts(frame, rules)
            assert _facts(far, rules) == expected, (state, clock, rules)


@pytest.mark.parametrize("batch", [1, 7, 1_000_000])
@pytest.mark.parametrize("after", [None, 1, 2, 100])
def test_duckdb_hands_over_sorted_batches(monkeypatch, batch, after):
    """Rows in any order are those of the sorted table, whatever the size of a batch."""
    monkeypatch.setattr(reader, "BATCH", batch)
    rng = np.random.default_rng(1)
    places = [np.sort(rng.choice(40, 12, replace=False)) for _ in range(5)]
    rows = pl.DataFrame(
        {
            "who": np.repeat(np.arange(5), 12),
            "when": np.concatenate(places),
            "what": rng.integers(0, 3, 60),
        }
    )
    expected = pk.read(rows, **COLUMNS, independent_after=after)
    counted = pk.read(
        duckdb.from_arrow(rows.sample(fraction=1, shuffle=True, seed=2).to_arrow()),
        **COLUMNS,
        independent_after=after,
    )
    assert counted.subjects == expected.subjects
    assert counted.steps == expected.steps
    for name in ("pieces", "transitions", "spans", "segment", "owner", "first", "last"):
        assert np.array_equal(getattr(counted, name), getattr(expected, name)), name
