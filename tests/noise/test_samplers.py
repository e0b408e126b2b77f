"""Which sampler draws, that records say so, and that the audit passes on either."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit import noise
from pufferkit.audit import audit
from pufferkit.noise import exact_laplace, grid_noise, opendp_draws
from pufferkit.noise.whole_noise import BATCH, CHOICE, sampler_of
from tests.asking import for_all, for_each
from tests.noise.test_noise import looks_laplace

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
OWN = pk.Query("own", lambda entries: sum(entries) / 3, 1 / 3, 6)


@pytest.mark.parametrize(
    ("scale", "numbers", "named", "sampler"),
    [
        (3, 1, "", "opendp"),
        (3, BATCH - 1, "", "opendp"),
        (3, BATCH, "", "pufferkit"),
        (2**56, BATCH, "", "pufferkit"),
        (2**56 + 1, BATCH, "", "opendp"),
        (3, 1, "pufferkit", "pufferkit"),
        (2**57, 1, "pufferkit", "opendp"),
        (3, 1000, "opendp", "opendp"),
    ],
)
def test_many_numbers_are_drawn_at_once_or_as_the_environment_says(
    monkeypatch, scale, numbers, named, sampler
):
    monkeypatch.setenv(CHOICE, named)
    assert sampler_of(Fraction(scale), numbers) == sampler


def test_a_sampler_that_is_none_is_refused_before_anything_is_drawn(monkeypatch):
    monkeypatch.setenv(CHOICE, "numpy")
    with pytest.raises(ValueError, match=r"^PUFFERKIT_SAMPLER: must be one of opendp, pufferkit, "):
        noise.laplace([[Fraction(1)]], [0], 1.0, 1.0)
    with pytest.raises(ValueError, match=r"^PUFFERKIT_SAMPLER: "):
        noise.discrete_laplace_rows(np.ones((1, 1), np.int64), np.ones((1, 1)))


@pytest.mark.parametrize("named", ["opendp", "pufferkit"])
def test_the_named_sampler_is_the_one_that_draws(monkeypatch, named):
    asked = []
    monkeypatch.setenv(CHOICE, named)
    for owner, name in ((opendp_draws, "drawn"), (exact_laplace.DiscreteLaplace, "on")):
        true = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *a, true=true, name=name: asked.append(name) or true(*a)
        )
    noise.laplace([[Fraction(1)]], [0], 1.0, 1.0)
    noise.discrete_laplace([[Fraction(1)]], [0], [1.0], Fraction(1))
    noise.discrete_laplace_rows(np.ones((2, 1), np.int64), np.array([[1.0], [2.0]]))
    assert set(asked) == {"drawn" if named == "opendp" else "on"}


@pytest.mark.parametrize("named", ["opendp", "pufferkit"])
@pytest.mark.parametrize("scale", [0.01, 12.93405])
def test_either_draws_laplace_noise_on_the_grid(monkeypatch, named, scale):
    monkeypatch.setenv(CHOICE, named)
    drawn = np.array(noise.laplace([[Fraction(1, 3)] * 2000], [0], scale, 2000.0))
    step = 2.0 ** noise.grid_exponent(2000.0, 2000)
    assert (drawn / step == np.round(drawn / step)).all()
    wrong = [looks_laplace((drawn - 1 / 3) / scale, factor) for factor in (0.7, 1, 1.4)]
    assert wrong == [False, True, False]


def test_a_scale_that_does_not_pay_for_its_grid_releases_nothing(monkeypatch):
    monkeypatch.setenv(CHOICE, "pufferkit")
    monkeypatch.setattr(grid_noise, "round_up", lambda value: value * (1 - 1e-15))
    with pytest.raises(RuntimeError, match="nothing was released"):
        noise.laplace([[Fraction(1)]], [0], 1.0, 1.0)


def test_counts_of_64_bits_without_a_sign_are_refused():
    with pytest.raises(ValueError, match=r"^rows: must be signed integers of 64 bits"):
        noise.discrete_laplace_rows(np.array([[2**63]], dtype=np.uint64), np.ones((1, 1)))


def test_a_release_records_its_sampler_and_a_plan_and_a_verdict_say_it():
    one = pk.influence_curve(CHAIN, pk.count(1, 6), 1)
    many = pk.group_dp(pk.histogram(range(40), 3), 1)
    assert (one.sampler, many.sampler) == ("opendp", "pufferkit")
    assert pk.influence_curve(CHAIN, OWN, 1).sampler == "opendp"
    for made, data, words in (
        (one, [0, 1] * 3, "once, by OpenDP"),
        (many, [0, 1, 2], "once, by pufferkit's own exact sampler"),
    ):
        release = made.release(data)
        assert release.sampler == made.sampler
        again = pk.Release.from_json(release.to_json())
        assert again.sampler == made.sampler
        assert words in " ".join(str(pk.verify(again)).split())
        record = release.to_dict()
        assert pk.Release.from_dict({**record, "sampler": None}).sampler is None
        with pytest.raises(ValueError, match=r"sampler.*opendp.*pufferkit.*'dice'"):
            pk.Release.from_dict({**record, "sampler": "dice"})
        del record["sampler"]
        with pytest.raises(ValueError, match="sampler must be given"):
            pk.Release.from_dict(record)
    plan = pk.plan(CHAIN, pk.count(1, 6), 1)
    assert "the noise would be drawn by OpenDP" in str(plan)
    assert plan.rows[0]["sampler"] == "opendp"


@pytest.mark.parametrize("query", [pk.histogram([0, 1], 6), pk.count(1, 6), OWN])
def test_the_audit_passes_on_our_own_sampler(monkeypatch, query):
    monkeypatch.setenv(CHOICE, "pufferkit")
    made = pk.influence_curve(CHAIN, query, 1)
    assert made.sampler == "pufferkit"
    told = audit(made, trials=4000, seed=1)
    assert told.passed
    assert told.noise.least < told.noise.claimed < told.noise.most


def test_a_table_of_releases_records_its_sampler(tmp_path):
    rows = {"who": ["a", "b"] * 50, "t": range(100), "x": [0, 1] * 50}
    table = pk.read(pl.DataFrame(rows), subject="who", time="t", state="x", states=[0, 1])
    drawn = for_each(table, CHAIN, 1)
    together = for_all(table, CHAIN, 1)
    for own in (drawn, together):
        assert own.sampler == own.to_dict()["sampler"] == own.row(0).sampler == "pufferkit"
        assert "own exact sampler" in " ".join(str(pk.verify(own)).split())
    verdict = pk.verify({**drawn.to_dict(), "sampler": "dice"})
    assert not verdict.ok
    assert "sampler must be one of opendp, pufferkit" in verdict.problems[0]
    kept = for_each(table, CHAIN, 1, ledger=f"{tmp_path}/l.db", budget=1)
    assert kept.sampler is None  # it may have been drawn in an earlier run
