"""Beliefs bought with budget: whoever uses them on the data they came from has paid for them."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.beliefs.base import beliefs_from_json
from pufferkit.local import cheapest_noise, sanitize
from tests.asking import Asking, for_all, for_each
from tests.oracles.kernel_losses import messages
from tests.strategies.command_line import good, refusal

TRUTH = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], ["a", "b"])
ENTRIES = 20_000
DATA = pk.Series(TRUTH.sample(ENTRIES, seed=1), TRUTH.states, (ENTRIES,))
WEAK = pk.ChainClass.binary(0.2, 0.9, ["a", "b"])
QUERY = pk.histogram(TRUTH.states, ENTRIES)


@pytest.fixture(scope="module")
def bought():
    return pk.private_transitions(DATA, 2.0, WEAK, 0.9)


def lost_to_both(bought, scale):
    """What some chain of the region loses to counts and histogram: every entry looks alike."""
    cost, worst = 4 / bought.release.scale + 2 / scale, 0.0
    for member in bought.region.corners():
        kernel = member.chain.transition  # two states: its own reversal
        around = messages([kernel] * 40, [np.eye(2)] * 40, [np.array([cost, 0.0])] * 40)
        worst = max(worst, cost + 2 * abs(float(np.log(around[0] / around[1]))))
    return worst


def test_a_session_charges_the_purchase_of_its_beliefs(bought, tmp_path):
    session = Asking(DATA, bought.region, 9.0, str(tmp_path / "book.db"))
    left = session.remaining
    cost = session.cost(QUERY, 1.0)
    release = session.release(QUERY, 1.0)
    loss = lost_to_both(bought, release.scale)
    assert loss > 1.3  # one release alone would be charged 1
    assert session.spent >= loss
    assert 9.0 - session.remaining >= loss
    assert left - session.remaining == pytest.approx(cost, abs=2e-6)
    first, second = session.history
    assert first["mechanism"] == "private_transitions"
    assert first["total"] < second["total"]
    assert session.profile[0]["event_epsilon"] >= bought.entry_epsilon + 2 / release.scale - 1e-9
    # Once, whoever opens the account again, from a file too.
    again = beliefs_from_json(bought.region.to_json())
    later = Asking(DATA, again, 9.0, str(tmp_path / "book.db"))
    assert later.remaining == session.remaining
    assert later.release(QUERY, 1.0).value == release.value
    later.release(pk.count("a", ENTRIES), 0.5)
    assert [row["mechanism"] for row in later.history].count("private_transitions") == 1
    assert later.ledger.verify() == []
    assert pk.verify(release).ok
    assert any("account" in words for words in pk.verify(release).assumptions)


def test_a_budget_below_the_purchase_is_refused_and_nothing_is_written(bought, tmp_path):
    book = str(tmp_path / "book.db")
    with pytest.raises(pk.OverBudget, match="bought"):
        Asking(DATA, bought.region, 0.01, book).release(QUERY, 1.0)
    cost = Asking(DATA, bought.region, 9.0, book).cost(QUERY, 1.0)
    tight = Asking(DATA, bought.region, cost - 0.1, book)
    with pytest.raises(pk.OverBudget):
        tight.release(QUERY, 1.0)
    assert tight.history == []


def test_less_data_than_the_transitions_were_counted_in(bought, tmp_path):
    with pytest.raises(ValueError, match="for_others"):
        Asking(DATA.window(1, 9000), bought.region, 9.0, str(tmp_path / "book.db")).cost(
            pk.histogram(), 1.0
        )


@pytest.mark.parametrize("through", [lambda theta: theta, lambda t: beliefs_from_json(t.to_json())])
def test_without_the_charge_a_bought_region_is_refused(bought, through):
    region = through(bought.region)
    assert "bought" in json.loads(region.to_json())["fitted_on"]
    assert any("bought" in words for words in region.caveats)
    table = pk.read(
        pl.DataFrame({"who": [1] * 99, "s": ["a", "b", "b"] * 33}),
        state="s",
        subject="who",
        every="1m",
    )
    member = region.corners()[0].chain
    for use in (
        lambda: pk.influence_curve(region, QUERY, 1.0).release(DATA),
        lambda: pk.influence_curve(region.with_secrets(pk.Secrets.runs(2)), QUERY, 1).release(DATA),
        lambda: pk.markov_quilt(region, QUERY, 1.0).release(DATA),
        lambda: for_each(table, region, 1.0),
        lambda: for_all(table, region, 1.0),
        lambda: sanitize(DATA, cheapest_noise(member, 1.0)),
    ):
        with pytest.raises(ValueError, match="for_others"):
            use()


def test_counts_and_answer_together_need_no_account(bought):
    noise = bought.calibrate(QUERY, 6.0)
    release = noise.release(DATA)
    assert pk.verify(release).ok
    assert lost_to_both(bought, release.scale) <= 6.0
    forged = replace(release, evidence=replace(release.evidence, bought=None))
    assert any("bought" in words for words in pk.verify(forged).problems)
    little = replace(release, evidence=replace(release.evidence, beside=None))
    assert not pk.verify(little).ok or any(
        "account" in words for words in pk.verify(little).assumptions
    )


def test_other_peoples_data(bought, tmp_path):
    other = pk.Series(TRUTH.sample(ENTRIES, seed=9), TRUTH.states, (ENTRIES,))
    region = beliefs_from_json(bought.for_others.to_json())
    release = pk.influence_curve(region, QUERY, 1.0).release(other)
    verdict = pk.verify(release)
    assert verdict.ok
    assert any("other" in words for words in verdict.assumptions)
    session = Asking(other, region, 1.0, str(tmp_path / "book.db"))
    session.release(QUERY, 1.0)
    assert session.remaining == 0


def test_the_command_line_charges_the_purchase_or_refuses(bought, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.json").write_text(bought.region.to_json())
    (tmp_path / "d.csv").write_text("s\n" + "\n".join(DATA.labels) + "\n")
    asked = ("release", "d.csv", "--state", "s", "--model", "r.json", "--epsilon", "1")
    assert "for_others" in refusal(*asked)
    good(*asked, "--ledger", "l.db", "--account", "me", "--budget", "9")
    assert "private_transitions" in good("ledger", "show", "l.db", "--account", "me")
