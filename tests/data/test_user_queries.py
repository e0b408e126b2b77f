"""Your own questions: exact bounds of sums, and claims that random data refute."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.data.user_queries import refuted

STATES = ["rest", "walk", "run"]
CHAIN = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]], states=STATES)


def longest_run(entries):
    runs = "".join("x" if e == "run" else " " for e in entries).split()
    return max((len(run) for run in runs), default=0)


def changes(entries):
    return sum(a != b for a, b in pairwise(entries))


def test_a_linear_question_has_the_distances_of_its_weights():
    query = pk.linear({"walk": [1, 3.5], "run": [1, 9]}, 50, labels=["active", "energy"])
    assert query.lipschitz == 10
    data = (["rest"] * 3 + ["walk", "run"]) * 10
    assert [float(v) for v in query.exact(pk.Series.of(data, STATES))] == [20, 125]
    release = pk.influence_curve(CHAIN, query, 1).release(data)
    assert pk.verify(release).ok
    tight = pk.linear(dict(zip(STATES, (5, 6, 7), strict=True)), 50, states=STATES)
    assert tight.lipschitz == 2
    with pytest.raises(ValueError, match="same for all"):
        pk.linear(dict.fromkeys(STATES, 1), 50, states=STATES)


def test_a_bound_that_is_too_small_is_refuted_by_data_that_show_it():
    for function, bound, words in (
        (longest_run, 1, "more than 1"),
        (changes, 1, "moves the answer by 2"),
        (changes, {"run": 2}, "more than 0"),  # rest and walk are told apart too
    ):
        with pytest.raises(ValueError, match=words) as error:
            pk.per_entry(function, bound, STATES, 12, unit=1, name="own")
        assert "at entry" in str(error.value)


@pytest.mark.slow
def test_a_true_bound_survives_and_is_calibrated_pair_by_pair():
    query = pk.per_entry(changes, 2, STATES, 12, unit=1, name="changes")
    assert refuted(query, trials=500, seed=4) is None
    release = pk.influence_curve(CHAIN, query, 1).release(STATES * 4)
    verdict = pk.verify(release)
    assert verdict.ok
    assert "that one entry moves 'changes' by at most 2" in str(verdict)  # a word, not a proof
    runs = lambda entries: int(np.sum(np.asarray(entries) == "run"))  # noqa: E731
    pairs = pk.per_entry(runs, {"run": 1}, STATES, 40, unit=1, name="runs")
    whole = pk.per_entry(runs, 1, STATES, 40, unit=1, name="runs")
    assert pk.influence_curve(CHAIN, pairs, 1).scale < pk.influence_curve(CHAIN, whole, 1).scale
    honest = pk.influence_curve(CHAIN, pairs, 1).release((STATES * 14)[:40])
    assert pk.verify(pk.Release.from_json(honest.to_json())).ok, str(pk.verify(honest))
    assert not pk.verify(replace(honest, scale=honest.scale / 2)).ok
    assert not pk.verify(replace(honest, lipschitz=0.5, scale=honest.scale / 2)).ok
    assert pk.influence_curve(CHAIN, pairs, 1).scale == pytest.approx(
        pk.influence_curve(CHAIN, pk.count("run", 40), 1).scale
    )


def test_gaps_are_shown_to_the_function():
    series = pk.Series.of([["rest", None, "run", "run"]], STATES)

    def there(entries):
        return sum(entry is not None for entry in entries) + 0.0

    seen = pk.per_entry(there, 1, STATES, series, name="seen")
    assert seen.exact(series) == [3]
