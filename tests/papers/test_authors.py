"""Numbers by the authors' own code, against ours."""

import json
import os
from itertools import product
from pathlib import Path

import pytest

import pufferkit as pk
from papers import measured_series as files
from papers.local_attacks import PUBLISHED

THEIRS = json.loads(Path(__file__).with_name("authors.json").read_text())
QUERY = pk.count(1, 100)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("exact", lambda chain: pk.markov_quilt(chain, QUERY, 1, influence="formula")),
        ("approx", lambda chain: pk.markov_quilt_approx(chain, QUERY, 1)),
        ("gk16", lambda chain: pk.gk16(chain, QUERY, 1)),
    ],
)
def test_81_chains_of_two_states(name, ours):
    applies = 0
    for row, column in product(range(9), repeat=2):
        q, p = (row + 1) / 10, (column + 1) / 10
        chain, theirs = pk.MarkovChain.steady([[1 - q, q], [1 - p, p]]), THEIRS[name][row][column]
        if theirs is None:
            with pytest.raises(pk.NotApplicable):
                ours(chain)
            continue
        applies += 1
        scale = ours(chain).scale
        assert scale == pytest.approx(theirs, rel=2e-10)
    assert applies == (39 if name == "gk16" else 81)


def test_the_running_example():
    chains = (
        pk.MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]]),
        pk.MarkovChain([0.9, 0.1], [[0.8, 0.2], [0.3, 0.7]]),
    )
    for chain, theirs in zip(chains, THEIRS["running_example"]["scales"], strict=True):
        assert round(pk.markov_quilt(chain, QUERY, 1, influence="formula").scale, 4) == theirs


@pytest.mark.parametrize("name", ["N5", "N10"])
def test_the_sleepers(name):
    *rates, beats = THEIRS["sleepers"][name]
    assert PUBLISHED[name] == (pytest.approx(rates[0], abs=1.01e-4), rates[1], beats)
    folder = os.environ.get("PUFFERKIT_PAPERS_DATA")
    if folder is None:
        pytest.skip("PUFFERKIT_PAPERS_DATA names no folder with the heart rates")
    rate = files.heart_rate(files.need(Path(folder), name))
    bits = (rate > rate.mean()).astype(int)
    chain = pk.fit(pk.Series(bits, (0, 1), (len(bits),)))
    counted = [chain.transition[0, 1], chain.transition[1, 0]]
    assert [round(float(share), 4) for share in counted] == rates
    assert len(bits) == beats
