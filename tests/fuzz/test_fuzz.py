"""A slice of the fuzzing that ``make fuzz`` does at length."""

import shutil
from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.fuzz.run import called, folder, fuzz

DAMAGES = ((222, b"\x7e"), (357, b"\x59"), (788, b"\x5d"))
"""Place and byte: the reader panics, ends the process, panics."""


@pytest.mark.slow
def test_good_commands_succeed():
    with folder() as home:
        good, scratch = Path(home, "good"), Path(home, "scratch")
        good.mkdir()
        seeds.write(good)
        for args in seeds.commands():
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(good, scratch)
            assert called(scratch, args) == (None, int(args[:2] == seeds.REFUTED)), args


@pytest.mark.slow
def test_spoiled_commands_end_as_documented():
    report = fuzz(calls=150, seed=7)
    assert not report.failures, "\n".join(report.failures)
    assert report.success > 0.8  # so that one thing alone is wrong
    assert report.codes[0] > 20
    assert report.codes[2] > 20


@pytest.mark.slow
def test_damaged_parquet_gets_one_sentence_and_nothing_beside_it():
    """Bytes of the footer changed so that the reader panics, or wants more memory than there is."""
    with folder() as home:
        scratch = Path(home)
        seeds.write(scratch)
        good = (scratch / "data.parquet").read_bytes()
        ask = "release data.parquet --model chain.json --epsilon 1 --state state --anyway"
        codes = []
        for place, value in DAMAGES:
            (scratch / "data.parquet").write_bytes(good[:place] + value + good[place + 1 :])
            problem, code = called(scratch, ask.split())
            assert problem is None, (place, value)
            codes.append(code)
        assert 2 in codes  # another writer of Parquet puts other bytes there
