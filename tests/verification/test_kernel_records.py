"""`verify` on releases under seasonal chains, hulls, longer memory and hidden regimes."""

import json

import numpy as np
import pytest

import pufferkit as pk

MATRIX = [[0.9, 0.1], [0.4, 0.6]]
OTHER = [[0.8, 0.2], [0.2, 0.8]]
EMISSION = [[0.8, 0.2], [0.3, 0.7]]
ONE, TWO = pk.MarkovChain.steady(MATRIX), pk.MarkovChain.steady(OTHER)

CLASSES = {
    "hull": pk.ChainClass.hull(ONE, TWO),
    "inflated": pk.ChainClass.hull(ONE, TWO, inflate=0.05),
    "clock": pk.ChainClass.seasonal([MATRIX] * 3 + [OTHER] * 3),
    "order": pk.ChainClass.order(2, [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]]),
    "regimes": pk.RegimeClass(MATRIX, EMISSION),
    "contaminated": pk.RegimeClass(MATRIX, EMISSION, emissions=0.1),
    "regime secret": pk.RegimeClass(MATRIX, EMISSION, secret="regime"),
    "each": pk.RegimeClass.of(pk.RegimeClass(MATRIX, EMISSION), pk.RegimeClass(OTHER, EMISSION)),
    "beside slow": pk.RegimeClass(
        [[0.98, 0.01, 0.01], [0.02, 0.8, 0.18], [0.1, 0.3, 0.6]], [[0.5, 0.5], *EMISSION], slow=40
    ),
    "two-sided": pk.ChainClass.around([[900, 100], [80, 220]], 0.95),
}


@pytest.fixture(scope="module", params=CLASSES)
def record(request):
    theta = CLASSES[request.param]
    data = np.random.default_rng(0).integers(0, 2, 90).tolist()
    return pk.influence_curve(theta, pk.histogram([0, 1], 90), 1).release(data).to_json()


def test_an_honest_record_passes(record):
    verdict = pk.verify(pk.Release.from_json(record))
    assert verdict.ok, str(verdict)


def test_less_noise_is_caught(record):
    data = json.loads(record)
    data["scale"] *= 0.97
    assert not pk.verify(pk.Release.from_json(json.dumps(data))).ok


def test_a_lowered_limit_is_caught(record):
    data = json.loads(record)
    (parts,) = (data.get("verification_data") or {}).get("curve") or [[]]
    lowered = 0
    for part in parts:
        for name in ("left", "right"):
            sides = part[name] if isinstance(part[name], list) else [part[name]]
            for one in (limit for side in sides for limit in side.get("limits", [side])):
                if one["limit"] is not None:
                    one["limit"][0] *= 0.9
                    lowered += 1
    if lowered:
        assert not pk.verify(pk.Release.from_json(json.dumps(data))).ok
    elif parts:
        data["verification_data"] = None
        assert not pk.verify(pk.Release.from_json(json.dumps(data))).ok
