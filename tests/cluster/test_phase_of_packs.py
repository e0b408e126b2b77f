"""The phase of the clock, looked at pack by pack, before anyone pays and where nobody does."""

from datetime import datetime, timedelta

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.account.subjects import FleetRun
from pufferkit.cluster.packs import _Exact, _RowNoise, _Sums

DAY, NIGHT = [[0.5, 0.5], [0.4, 0.6]], [[0.9, 0.1], [0.7, 0.3]]
CLOCK = {"step": "6h", "origin": "2024-01-01 00:00"}
THETA = pk.ChainClass.seasonal([NIGHT, DAY, DAY, NIGHT], start=0, **CLOCK)


@pytest.mark.parametrize("hour", [0, 6])
def test_executors_refuse_another_phase(hour):
    begin = datetime(2024, 1, 1, hour)
    rows = [("a", begin + timedelta(hours=6 * n), n % 2) for n in range(40)]
    frame = pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")
    table = pk.read(frame, subject="who", time="when", state="what", states=[0, 1])
    run = FleetRun.of("each", THETA, 1, "histogram", "influence_curve", "", None)
    for work in (_Exact(run), _Sums(run), _RowNoise(run, {40: 3.0}, None)):
        if hour:  # which is in slot 1
            with pytest.raises(ValueError, match="slot"):
                next(work(iter([table])))
        else:
            assert next(work(iter([table])))
