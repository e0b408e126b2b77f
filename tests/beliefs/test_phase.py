"""The phase of a clock that beliefs say is that of the data, or the release is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

import pufferkit as pk
from tests.asking import for_each

DAY, NIGHT = [[0.5, 0.5], [0.4, 0.6]], [[0.9, 0.1], [0.7, 0.3]]
KERNELS = [NIGHT] * 6 + [DAY] * 12 + [NIGHT] * 6


def clock(start: int | None, origin: str | None = "2024-01-01 00:00") -> pk.ChainClass:
    return pk.ChainClass.seasonal(KERNELS, start=start, step="1h", origin=origin)


def hours(first: str, length: int = 48, zone: str | None = None) -> pk.Series:
    return pk.Series(
        [0, 1] * (length // 2), (0, 1), (length,), calendar=pk.Calendar(first, "1h", zone)
    )


def released(theta, data) -> pk.Release:
    return pk.influence_curve(theta, pk.count(1, len(data)), 1.0).release(data)


def test_the_start_is_that_of_the_data():
    for first in (0, 5, 23):
        data = hours(f"2026-03-04 {first:02d}:00")
        released(clock(first), data)
        released(clock(None), data)
        with pytest.raises(ValueError, match="slot"):
            released(clock((first + 1) % 24), data)
        with pytest.raises(ValueError, match="slot"):
            released(clock((first + 1) % 24).with_secrets(pk.Secrets.runs(2)), data)


def test_where_the_phase_is_unknown_the_author_answers_for_it():
    for theta, data in (
        (clock(3, None), hours("2026-03-04 00:00")),
        (clock(3), pk.Series([0, 1] * 24, (0, 1), (48,))),
    ):
        assert any("begins" in matter for matter in pk.verify(released(theta, data)).assumptions)


def test_no_theorem_covers_a_change_of_clocks():
    before = hours("2026-03-28 00:00", 24, "Europe/Paris")  # instants: 01:00 there
    released(clock(1), before)
    across = hours("2026-03-28 00:00", 48, "Europe/Paris")
    year = hours("2026-03-28 00:00", 24 * 300, "Europe/Paris")  # back again in autumn
    for start in (1, None):
        for data in (across, year):
            with pytest.raises(pk.NoTheorem, match="clocks change"):
                released(clock(start), data)
    released(clock(None), hours("2026-03-28 00:00", 48, "UTC"))
    chains = [pk.MarkovChain.steady(kernel) for kernel in (DAY, NIGHT)]
    released(pk.ChainClass.hull(*chains), across)


def test_the_origin_is_kept_and_fits_write_it(tmp_path):
    theta = clock(3)
    again = pk.ChainClass.from_json(theta.to_json())
    assert (again.origin, again.step, again.start) == (theta.origin, 3600.0, 3)
    assert theta.digest != clock(3, "2024-01-01 01:00").digest
    with pytest.raises(ValueError, match="step"):
        pk.ChainClass.seasonal(KERNELS, origin="2024-01-01")
    with pytest.raises(ValueError, match="origin"):
        pk.ChainClass.seasonal([DAY], initial=[0.5, 0.5], origin="2024-01-01", step="1h")
    people = table(7)
    fitted = pk.fit(people, "seasonal", start=7)
    released(fitted, hours("2026-05-04 07:00"))
    with pytest.raises(ValueError, match="slot"):
        released(fitted, hours("2026-05-04 08:00"))


def table(first: int) -> pk.Table:
    begin, rows = datetime(2026, 3, 4, first), []
    for who in range(2):
        codes = pk.MarkovChain.steady(DAY).sample(24 * 10, seed=who)
        rows += [(f"p{who}", begin + timedelta(hours=n), int(c)) for n, c in enumerate(codes)]
    frame = pl.DataFrame(rows, schema=["who", "when", "x"], orient="row")
    return pk.read(frame, subject="who", time="when", state="x", states=[0, 1])


def test_tables_are_compared_too():
    for_each(table(9), clock(9), 1.0)
    with pytest.raises(ValueError, match="slot"):
        for_each(table(9), clock(8), 1.0)
    for_each(table(9), clock(None), 1.0)


def test_clocks_do_not_change_between_the_parts_of_an_account(tmp_path):
    ledger = pk.Ledger(str(tmp_path / "l.db"))
    before, after = (hours(f"2026-03-{day} 00:00", 24, "Europe/Paris") for day in (28, 30))
    anna = pk.Account(ledger, "anna", 2.0)
    pk.release(before, clock(None), pk.count(1), 1.0, account=anna, anyway=True)
    spent = anna.spent
    with pytest.raises(pk.NoTheorem, match="clocks change"):
        pk.release(after, clock(None), pk.count(1), 1.0, account=anna)
    assert anna.spent == spent
    bob = pk.Account(ledger, "bob", 9.0, confirm_data=True)
    for data in (before, after):
        steady = pk.MarkovChain.steady(DAY, step="1h")
        pk.release(data, steady, pk.count(1), 1.0, account=bob, anyway=True)
    with pytest.raises(pk.NoTheorem, match="clocks change"):
        bob.change_beliefs(clock(None))


def test_clocks_do_not_change_between_the_tables_of_accounts(tmp_path):
    paid = {"ledger": pk.Ledger(str(tmp_path / "l.db")), "budget": 2.0, "anyway": True}

    def day(number):
        begin = datetime(2026, 3, number, tzinfo=UTC)
        rows = [("anna", begin + timedelta(hours=n), n % 2) for n in range(24)]
        frame = pl.DataFrame(rows, schema=["who", "when", "x"], orient="row")
        options = {"time": "when", "state": "x", "states": [0, 1], "timezone": "Europe/Paris"}
        return pk.read(frame, subject="who", **options)

    for_each(day(27), clock(None), 1.0, label="27", **paid)
    for_each(day(28), clock(None), 1.0, label="28", **paid)
    with pytest.raises(pk.NoTheorem, match="clocks change"):
        for_each(day(30), clock(None), 1.0, label="30", **paid)
