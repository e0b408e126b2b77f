"""Recorded bases of plans: checked without a solver; false ones show nothing."""

import base64
import json
import zlib
from copy import deepcopy

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import verify
from pufferkit.influence.curve.steps import Transport
from pufferkit.influence.curve.transport_plans import bases_of, packed
from pufferkit.verification.check_steps import Plans, plan_values
from tests.fuzz.records import judged
from tests.influence.test_pairs import chains, metrics, programme
from tests.oracles import pairs as oracle

SPARSE = [[0.8, 0.2, 0, 0], [0.1, 0.7, 0.2, 0], [0, 0.2, 0.7, 0.1], [0, 0, 0.4, 0.6]]
CASES = {
    "long": lambda: pk.influence_curve(
        pk.MarkovChain.steady(SPARSE), pk.total([0, 1, 2, 3], 10**5), 1
    ),
    "short": lambda: pk.influence_curve(pk.MarkovChain([1, 0, 0, 0], SPARSE), pk.count(1, 9), 1),
}


@pytest.fixture(scope="module", params=CASES)
def record(request):
    calibration = CASES[request.param]()
    assert calibration.verification_data["curve"]
    return json.loads(calibration.release([0] * calibration.query.longest).to_json())


@pytest.fixture
def no_solver(monkeypatch):
    def solver(*args, **options):
        raise AssertionError("a programme was solved")

    monkeypatch.setattr("scipy.optimize.linprog", solver)


def texts(record):
    """Where the record holds bases: containers and keys."""
    (proofs,) = record["verification_data"]["curve"]
    return [(own[side], "plans") for own in proofs for side in ("left", "right")]


def changed(record, change):
    copy = deepcopy(record)
    for holder, key in texts(copy):
        holder[key] = change(holder[key])
    return copy


def test_an_honest_record_needs_no_solver(record, no_solver):
    verdict = verify(record)
    assert verdict.ok, str(verdict)
    assert not verify({**record, "scale": 0.999 * record["scale"]}).ok
    assert not verify({**record, "epsilon": 0.999 * record["epsilon"]}).ok


def test_without_plans_nothing_is_solved(record, no_solver):
    """The step at the largest variation has a formula, and is not enough here."""
    assert not verify(changed(record, lambda text: None)).ok


def bytes_of(text):
    return zlib.decompress(base64.b85decode(text))


def text_of(content):
    return base64.b85encode(zlib.compress(content)).decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-8],
        lambda text: text_of(bytes_of(text)[:-1]),
        lambda text: text_of(bytes_of(text) + b"\0"),
        lambda text: text_of(bytes([200]) * len(bytes_of(text))),
        lambda text: "no base 85 at all",
        lambda text: 5,
        lambda text: {"a": 1},
        lambda text: text_of(bytes(130_000_000)),
    ],
    ids=["cut", "too few", "too many", "no states", "no text", "number", "object", "bomb"],
)
def test_spoiled_plans_are_a_problem_and_no_crash(record, change):
    assert judged(changed(record, change)) == "not ok"


@pytest.mark.parametrize("byte", [0, 254, 255])
def test_plans_that_are_none_show_nothing(record, byte, no_solver):
    """Everything sent through the first state, no plan at all, everything left in place."""
    assert not verify(changed(record, lambda text: text_of(bytes([byte]) * len(bytes_of(text))))).ok


def test_whatever_the_plans_are_less_noise_is_not_shown(record, no_solver):
    rng = np.random.default_rng(1)

    def change(text):
        content = bytearray(bytes_of(text))
        for place in rng.integers(len(content), size=3):
            content[place] = rng.integers(4)
        return text_of(bytes(content))

    for _ in range(20):
        spoiled = changed(record, change)
        assert not verify({**spoiled, "scale": 0.999 * record["scale"]}).ok


@pytest.mark.parametrize("seed", range(16))
def test_steps_of_bases_are_those_of_the_engine(seed):
    kernel, limit = programme(seed)
    steps = Transport([kernel])
    own = steps(limit)
    bases = Plans(packed(bases_of(steps)))
    again = plan_values(kernel, limit, bases.following(kernel))
    bases.end()
    assert again == pytest.approx(own, abs=1e-11)
    assert np.all(again >= own - 1e-13 * (1 + own))


@pytest.mark.parametrize("seed", range(16))
def test_no_tree_is_worth_less_than_the_step(seed):
    """Whatever bytes are read as trees: they are none, or their plan is no better than the best."""
    kernel, limit = programme(seed)
    rng, size = np.random.default_rng(seed), len(kernel)
    best = np.array([[oracle.step(p, q, limit) for q in kernel] for p in kernel])
    length = int((size - 1) * (2 * (kernel > 0).sum() - size))
    for _ in range(60):
        trees = rng.integers(0, rng.choice([2, size, 256]), length).astype(np.uint8)
        try:
            values = plan_values(kernel, limit, trees)
        except ValueError:
            continue
        assert np.all(values >= best - 2e-6)


def test_too_many_bases_are_not_written(monkeypatch):
    steps = Transport([chains(1, 6)])
    steps(metrics(1, 6, 1))
    monkeypatch.setattr("pufferkit.influence.curve.transport_plans.MOST_TEXT", 20)
    assert packed(bases_of(steps)) is None
