"""The digest of a calibration is of what was asked for; caches, ledgers and records use it."""

from dataclasses import replace
from types import SimpleNamespace

import pufferkit as pk
from pufferkit.account import accounts as account_module
from pufferkit.mechanisms.influence_curve import endless
from pufferkit.mechanisms.joint_plan import joint_plan
from pufferkit.mechanisms.plan import MECHANISMS, calibrate

STATES = ("a", "b", "c")
ROWS = [[0.4, 0.35, 0.25], [0.35, 0.4, 0.25], [0.3, 0.3, 0.4]]
CHAIN = pk.MarkovChain.steady(ROWS, states=STATES)
OTHER = pk.MarkovChain.steady([ROWS[0], ROWS[2], ROWS[1]], states=STATES)
COUNT = pk.count("a", 12)
FREQUENCIES = pk.relative_frequencies(STATES, 12)
MOODS = pk.RegimeClass([[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], states=STATES)
EVENTS = [({1: "a"}, {1: "b"})], [({1: "a"}, {1: "c"})]


def requests():
    """Calibrations that differ in what was asked for, by name."""
    for_one = set(MECHANISMS) - {PER_BIN, "shaped"}
    made = {name: calibrate(name, CHAIN, COUNT, 1) for name in MECHANISMS if name in for_one}
    made |= {f"{name}, again": calibrate(name, CHAIN, COUNT, 1) for name in list(made)}
    return made | {
        "other epsilon": pk.influence_curve(CHAIN, COUNT, 1.5),
        "other beliefs": pk.influence_curve(OTHER, COUNT, 1),
        "other state": pk.influence_curve(CHAIN, pk.count("b", 12), 1),
        "other length": pk.influence_curve(CHAIN, pk.count("a", 13), 1),
        "formula": pk.markov_quilt(CHAIN, COUNT, 1, influence="formula"),
        "shares": pk.influence_curve(CHAIN, FREQUENCIES, 1),
        "shares, per bin": pk.influence_curve(CHAIN, FREQUENCIES, 1, per_bin=True),
        "secrets": pk.wasserstein(CHAIN, COUNT, 1, secrets=EVENTS[0]),
        "other secrets": pk.wasserstein(CHAIN, COUNT, 1, secrets=EVENTS[1]),
        "shaped": pk.shaped(MOODS, FREQUENCIES, 1),
        "shaped, again": pk.shaped(MOODS, FREQUENCIES, 1),
        "shaped otherwise": pk.shaped(MOODS, FREQUENCIES, 1, shape="largest"),
        "runs": pk.influence_curve(CHAIN, COUNT, 1, secrets=pk.Secrets.runs(2)),
        "several questions": joint_plan(CHAIN, {"n": (COUNT, 20)}).calibration,
        "several questions, other error": joint_plan(CHAIN, {"n": (COUNT, 21)}).calibration,
    }


PER_BIN = "influence_curve_per_bin"


def test_what_is_asked_for_has_one_digest():
    assert PER_BIN in MECHANISMS
    made = requests()
    digests = {name: own.digest for name, own in made.items() if not name.endswith(", again")}
    assert len(set(digests.values())) == len(digests)
    for name, own in made.items():
        assert own.digest == digests[name.removesuffix(", again")]


def test_nothing_that_was_computed_counts():
    noise = joint_plan(CHAIN, {"n": (COUNT, 20)}).calibration
    assert noise.scales is not None
    other = replace(
        noise,
        scale=noise.scale * (1 + 1e-15),
        scales=tuple(scale * (1 + 1e-15) for scale in noise.scales),
        epsilon=noise.epsilon * (1 - 1e-15),
        evidence=replace(noise.evidence, notes=("found on another machine",)),
        verification_data=None,
    )
    assert other.scales != noise.scales
    assert other.digest == noise.digest


def test_several_questions_on_another_machine_are_a_replay(tmp_path, monkeypatch):
    """Their scales were found by a search, whose last digits may differ."""
    account, data = pk.Account(str(tmp_path / "book.db"), "a", 50.0), ["a", "a", "b"] * 4
    asked = {"n": (COUNT, 20)}
    first, remaining = pk.release(data, CHAIN, asked, None, account=account), account.remaining
    made = replace(joint_plan(CHAIN, asked).calibration, scale=first.scale * (1 + 1e-12))
    monkeypatch.setattr(account_module, "joint_plan", lambda *_: SimpleNamespace(calibration=made))
    assert pk.release(data, CHAIN, asked, None, account=account) == first
    assert account.remaining == remaining
    assert pk.release(data, CHAIN, asked, None, account=account, label="again") != first


def test_charge_and_record_name_what_was_asked_for(tmp_path):
    account, data = pk.Account(str(tmp_path / "book.db"), "a", 50.0), ["a", "a", "b"] * 4
    release = pk.release(data, CHAIN, COUNT, 1, account=account, anyway=True)
    (entry,) = [own for own in account.ledger.entries() if own.kind == "charge"]
    assert release.calibration == entry.body["calibration"]
    assert release.calibration == endless(pk.ChainClass.of(CHAIN), COUNT, 1.0).digest
    assert pk.Release.from_json(release.to_json()).calibration == release.calibration
