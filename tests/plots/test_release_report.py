"""One page about one release: what it says, and where."""

import re

import pufferkit as pk
from pufferkit import plots
from pufferkit.beliefs.provenance import FoldRecord, Provenance
from pufferkit.mechanisms.explain import meaning

HEADS = (
    "Question",
    "Answer",
    "What is promised",
    "Against whom",
    "How the beliefs were tested, and who is not covered",
    "How to verify it",
    "Record",
)


def page_of(length, source=None):
    chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], ["rest", "run"], source)
    noise = pk.influence_curve(chain, pk.count("run", length), 1)
    release = noise.release((["rest", "run"] * length)[:length])
    page = plots.release_report(release, chain, meaning(noise))
    cells = re.split(r"<h2>(.*?)</h2>", page)[1:]
    return release, dict(zip(cells[::2], cells[1::2], strict=True))


def test_the_parts_of_the_page():
    release, parts = page_of(60)
    assert tuple(parts) == HEADS
    assert f"{release.query}, over 60 entries" in parts["Question"]
    assert f"{release.value[0]:.0f}" in parts["Answer"]
    assert "data:image/png;base64," in parts["Answer"]
    assert "one entry" in parts["What is promised"]
    assert "not recorded" in parts[HEADS[4]]
    assert "pufferkit verify" in parts["How to verify it"]
    assert "&quot;scale&quot;" in parts["Record"]


def test_tests_are_told_whatever_the_length():
    """Of five entries no longer stretch is told; what the folds say keeps its place."""
    tested = FoldRecord(20, 5, 3, "count", 1.0, (("4 regimes", 1.59),))
    for length in (5, 60):
        _, parts = page_of(length, Provenance(digests=("x",), transitions=9, tested=tested))
        assert "not covered: 4 regimes" in parts[HEADS[4]]
        assert "4 regimes" not in parts["What is promised"]
