"""A slice of the fuzzing that ``make fuzz`` does at length."""

from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.fuzz.run import called, folder, fuzz


@pytest.mark.slow
def test_good_commands_succeed():
    with folder() as home:
        for args in seeds.commands():
            scratch = Path(home, "scratch")
            scratch.mkdir(exist_ok=True)
            for old in scratch.iterdir():
                old.unlink()
            seeds.write(scratch)
            assert called(scratch, args) == (None, 0), args


@pytest.mark.slow
def test_spoiled_commands_end_as_documented():
    report = fuzz(calls=200, seed=7)
    assert not report.failures, "\n".join(report.failures)
    assert report.codes[0] > 20
    assert report.codes[2] > 20
