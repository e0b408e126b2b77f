"""What read gives is taken where data are: its entries are kept one by one."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.data import read as reader
from tests.asking import Asking

ROWS = st.lists(
    st.tuples(
        st.sampled_from("pq"), st.integers(0, 30), st.sampled_from(["a", "b", None])
    ),
    min_size=2, max_size=25, unique_by=lambda row: row[:2],
).filter(lambda rows: any(state for *_, state in rows))  # fmt: skip
COLUMNS = {"subject": "who", "time": "when", "state": "what"}


def frame(rows):
    return pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")


@pytest.mark.slow
@settings(max_examples=40)
@given(ROWS, st.sampled_from([{}, {"independent_after": 4}, {"every": 3}, {"window": 7}]))
def test_series_say_what_counts_say(rows, options):
    table = pk.read(frame(rows), **COLUMNS, states=["a", "b"], **options)
    whole = table.all_series
    assert whole.counts.tolist() == table.counts.sum(axis=0).tolist()
    assert whole.transitions.tolist() == table.transitions.tolist()
    assert whole.lengths == tuple(table.segment_lengths)
    for number, subject in enumerate(table.subjects):
        own = table.series(subject)
        assert own.lengths == table.lengths_of(number)
        assert own.counts.tolist() == table.counts[number].tolist()


def test_tables_are_taken_where_series_are(tmp_path):
    chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["a", "b"])
    codes = chain.sample(3000, seed=4)
    rows = pl.DataFrame({"when": range(3000), "what": [chain.states[code] for code in codes]})
    table = pk.read(rows, time="when", state="what")
    report = pk.check_model(table, chain)
    assert report.passed
    assert [check.passed for check in report.checks[:2]] == [True, True]  # memory and change
    assert report.second_order_factor is not None
    query = pk.histogram(chain.states, table)
    assert query.lengths == (3000,)
    with pk.Ledger(tmp_path / "l.db") as ledger:
        session = Asking(table, chain, 2, ledger)
        release = session.release(query, 1)
        assert pk.verify(release).ok
    assert pk.influence_curve(chain, query, 1).release(table).lengths == (3000,)


def test_no_memory_is_found_missing_in_a_table():
    rng = np.random.default_rng(1)
    bits = [0, 0]
    for _ in range(4000):
        same = bits[-1] == bits[-2]
        bits.append(int(bits[-1] ^ (rng.random() < (0.1 if same else 0.6))))
    rows = pl.DataFrame({"when": range(len(bits)), "what": bits})
    table = pk.read(rows, time="when", state="what")
    chain = pk.fit(pk.Series.of(bits), theta_from_private_data=True)
    memory = pk.check_model(table, chain).checks[0]
    assert memory.passed is False


def test_several_subjects_and_many_rows_say_what_to_do(monkeypatch):
    data = frame([("p", 1, "a"), ("p", 2, "b"), ("q", 1, "a")])
    table = pk.read(data, **COLUMNS)
    with pytest.raises(ValueError, match=r"table.series\('p'\)"):
        pk.histogram(["a", "b"], table)
    with pytest.raises(ValueError, match="not in the table"):
        table.series("r")
    monkeypatch.setattr(reader, "BATCH", 2)
    large = pk.read(data.lazy(), **COLUMNS)
    assert large.codes is None
    with pytest.raises(ValueError, match="only counts"):
        large.series("p")


@pytest.mark.parametrize("ask", [pk.histogram, pk.relative_frequencies])
def test_a_table_is_no_list_of_states(ask):
    data = frame([("p", 1, "a"), ("p", 2, "b")])
    for wrong in ((data,), (data, 2), (data.to_pandas(), 2), (pk.Series.of(["ab"]),)):
        with pytest.raises(ValueError, match="name the states first"):
            ask(*wrong)
    with pytest.raises(ValueError, match="over"):
        pk.entry_dp(ask(["a", "b"]), 1)


def test_pandas_and_polars_kinds():
    import pandas as pd

    times = pd.date_range("2024-01-01", periods=4, freq="1h")
    frame = pd.DataFrame({"x": pd.Categorical(["a", "b", "a", "b"])}, index=times)
    table = pk.read(frame, time="index", state="x")
    assert (table.states, table.step) == (("a", "b"), 3600)
    named = frame.rename_axis("when")
    assert pk.read(named, time="when", state="x").counts.tolist() == [2, 2]
    nullable = pd.DataFrame({"t": pd.array([1, 2, 3], dtype="Int64"),
                             "x": pd.array([1, None, 2], dtype="Int64")})  # fmt: skip
    table = pk.read(nullable, time="t", state="x")
    assert (table.states, table.missing) == ((1, 2), 1)
    kinds = pl.DataFrame({"t": [1, 2, 3], "x": pl.Series(["a", "b", None], dtype=pl.Enum("abc"))})
    assert pk.read(kinds, time="t", state="x").counts.tolist() == [1, 1, 0]
    assert pk.Series.of(kinds["x"]).labels == ["a", "b", None]
    assert pk.Series.of(frame["x"]).labels == ["a", "b", "a", "b"]
    assert pk.Series.of(nullable["x"]).labels == [1, None, 2]
