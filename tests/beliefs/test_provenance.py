"""A model fitted on the data to be released is noticed, in whole or in part, and on every way."""

import json
import pickle

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.base import as_beliefs, beliefs_from_dict
from pufferkit.beliefs.provenance import Provenance, check_not_fitted_on
from pufferkit.data.passages import FALSE_ALARMS, Passages, passages_of, share_a_passage
from pufferkit.fitting.fit import fit
from pufferkit.local import cheapest_noise
from tests.asking import Asking

TRUTH = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = TRUTH.sample(400, seed=7).tolist()
OTHER = TRUTH.sample(400, seed=8).tolist()
REFUSED = "very series being released"

PARTS = {
    "all": DATA,
    "less its last entry": DATA[:-1],
    "less its first entry": DATA[1:],
    "less twenty at both ends": DATA[20:-20],
    "first half": DATA[:200],
    "second half": DATA[200:],
    "cut in two": [DATA[:200], DATA[200:]],
    "cut in five": [DATA[n : n + 80] for n in range(0, 400, 80)],
    "in another order": [DATA[200:], DATA[:200]],
    "a window": DATA[130:270],
    "with others before": OTHER + DATA,
    "with others around": [*OTHER[:200], *DATA[100:300], *OTHER[200:]],
    "twice": DATA + DATA,
}


def release(chain, data):
    segments = data if isinstance(data[0], list) else [data]
    query = pk.count(1, [len(segment) for segment in segments])
    return pk.influence_curve(chain, query, 1).release(segments)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_data_is_recognised(part):
    with pytest.raises(ValueError, match=REFUSED):
        release(pk.fit(DATA), PARTS[part])
    # And the other way round: fitted on the part, released whole.
    with pytest.raises(ValueError, match=REFUSED):
        release(pk.fit(PARTS[part]), DATA)
    release(pk.fit(PARTS[part]), TRUTH.sample(400, seed=9).tolist())


def test_a_session_over_399_of_400_entries(tmp_path):
    for window in (DATA[:-1], DATA[1:], DATA):
        asking = Asking(window, pk.fit(DATA), 1, str(tmp_path / "ledger.db"))
        with pytest.raises(ValueError, match=REFUSED):
            asking.release(pk.histogram(), 1)
    assert not (tmp_path / "ledger.db").exists()


def derived():
    """Everything that can be made of a fitted chain as an object."""
    chain = pk.fit(DATA)
    other = pk.MarkovChain.steady([[0.5, 0.5], [0.5, 0.5]])
    region = pk.ChainClass.around(pk.Series.of(DATA), 0.95, sides="any start")
    return {
        "reversal": chain.reversal,
        "reversal of the reversal": chain.reversal.reversal,
        "class": pk.ChainClass.of(chain),
        "class with others": pk.ChainClass.of(other, chain.reversal),
        "member": pk.ChainClass.of(chain).members()[0].chain,
        "dict": pk.MarkovChain.from_dict(chain.to_dict()),
        "json": pk.MarkovChain.from_json(chain.to_json()),
        "class in json": pk.ChainClass.from_json(pk.ChainClass.of(other, chain).to_json()),
        "beliefs in json": beliefs_from_dict(json.loads(chain.reversal.to_json())),
        "pickle": pickle.loads(pickle.dumps(chain)),
        "start": pk.MarkovChain([1, 0], chain.transition, chain.states, chain.fitted_on),
        "first": fit(DATA, start="first"),
        "smoothed": pk.fit(DATA, smoothing=0.5),
        "region": region,
        "region in json": pk.ChainClass.from_json(region.to_json()),
        "corner": region.corners()[0].chain,
        "mechanism": cheapest_noise(chain, 5).chain,
        "more states": fit(pk.Series.of(DATA, [1, 0, 2]), smoothing=0.5),
        "floats": fit([float(x) for x in DATA]),
        "recorded": beliefs_from_dict(
            pk.influence_curve(chain, pk.count(1, 400), 1).release(OTHER).to_dict()["beliefs"]
        ),
    }


def test_what_is_made_of_fitted_beliefs_remembers():
    for name, beliefs in derived().items():
        sources = as_beliefs(beliefs).sources
        for part in (DATA, DATA[:-1], [DATA[:200], DATA[200:]]):
            with pytest.raises(ValueError, match=REFUSED):
                check_not_fitted_on(sources, pk.Series.of(part))
            assert sources, name
        check_not_fitted_on(sources, pk.Series.of(OTHER))


def test_a_bare_matrix_forgets():
    """Out of reach, and the documentation says so."""
    chain = pk.fit(DATA)
    release(pk.ChainClass.any_start(chain.transition), DATA)


def test_a_longer_memory_remembers():
    chain = pk.fit(pk.Series.of(DATA), "order")
    for data in (DATA, [DATA[:200], DATA[200:]], DATA[:-1]):
        series = pk.Series.of(data)
        with pytest.raises(ValueError, match=REFUSED):
            pk.influence_curve(chain, pk.count(0, series.lengths), 1).release(series)


@pytest.mark.parametrize("kind", ["list", "segments", "array", "objects", "series"])
def test_sanitize_asks(kind):
    mechanism = cheapest_noise(pk.fit(DATA), 5)
    forms = {
        "list": lambda data: data,
        "segments": lambda data: [data[:150], data[150:]],
        "array": np.array,
        "objects": lambda data: np.array(data, dtype=object),
        "series": pk.Series.of,
    }
    with pytest.raises(ValueError, match=REFUSED):
        mechanism.sanitize(forms[kind](DATA[:-1]))
    mechanism.sanitize(forms[kind](OTHER))


def test_sanitize_asks_while_a_stream_goes_on():
    """What was answered before it could be known is out; it stops within a block or two."""
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    long = chain.sample(20_000, seed=3).tolist()
    mechanism = cheapest_noise(pk.fit(long), 5)
    asked = []
    entries = (asked.append(entry) or entry for entry in long[5_000:])
    with pytest.raises(ValueError, match=REFUSED):
        list(mechanism.sanitize(entries))
    assert len(asked) <= 2048
    other = chain.sample(20_000, seed=4).tolist()
    assert len(list(mechanism.sanitize(iter(other)))) == len(other)


def test_owning_up_lets_it_through():
    chain = pk.fit(DATA, theta_from_private_data=True)
    assert chain.fitted_on.passages == ()
    assert release(chain.reversal, DATA[:-1]).beliefs["chains"][0]["fitted_on"] == {
        "theta_from_private_data": True,
        "smoothing": 0.0,
    }


# --- false alarms ---------------------------------------------------------------------------------


def test_shared_constant_stretches_say_nothing():
    """Two people sleep through the same hours, and one of them is public."""
    asleep = [0] * 5_000
    public = pk.fit([*DATA[:100], *asleep, *DATA[100:]])
    release(public, [*OTHER[:100], *asleep, *OTHER[100:]])


def test_shared_habits_say_nothing():
    """Home for 16 hours, out for 8, every day, except when something else happens."""
    day = [0] * 16 + [1] * 8

    def year(seed):
        rng = np.random.default_rng(seed)
        return [
            x
            for _ in range(365)
            for x in (day if rng.random() < 0.95 else rng.choice(2, 24).tolist())
        ]

    mine, yours = year(1), year(2)
    release(pk.fit(yours), mine)
    with pytest.raises(ValueError, match=REFUSED):
        release(pk.fit(mine), mine[1000:5000])


@pytest.mark.parametrize("stay", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("length", [30, 300])
def test_independent_series_are_rarely_taken_for_each_other(stay, length):
    """Under one in a thousand by the bound; in 100 pairs at most 2 (probability below 2e-4)."""
    chain = pk.MarkovChain.steady([[stay, 1 - stay], [1 - stay, stay]])
    alarms = 0
    for seed in range(100):
        one = pk.Series.of(chain.sample(length, seed=2 * seed), [0, 1])
        two = pk.Series.of(chain.sample(4 * length, seed=2 * seed + 1), [0, 1])
        alarms += share_a_passage(passages_of(one), two)
    assert alarms <= 2
    assert FALSE_ALARMS <= 1e-3


@pytest.mark.parametrize(("stay", "length"), [(0.5, 40), (0.9, 100), (0.98, 400)])
def test_short_series_less_an_entry_are_mostly_recognised(stay, length):
    chain = pk.MarkovChain.steady([[stay, 1 - stay], [1 - stay, stay]])
    known = 0
    for seed in range(50):
        data = chain.sample(length, seed=seed)
        known += share_a_passage(
            passages_of(pk.Series.of(data, [0, 1])), pk.Series.of(data[:-1], [0, 1])
        )
    assert known >= 45


# --- details --------------------------------------------------------------------------------------


def test_passages_in_plain_data():
    series = pk.Series.of(DATA)
    source = Provenance.of_series(series)
    again = Provenance.from_dict(json.loads(json.dumps(source.to_dict())))
    assert again == source
    assert again.passages
    assert len(json.dumps(source.to_dict())) < 4_000


@pytest.mark.parametrize(
    "wrong",
    [
        1,
        [1],
        {"a": 1},
        [{"reach": 5, "runs": 2, "digests": "???"}],
        [{"reach": 5, "runs": 2, "digests": "é"}],
        [{"reach": 0, "runs": 2, "digests": ""}],
        [{"reach": 5, "runs": "2", "digests": ""}],
        [{"runs": 2, "digests": ""}],
        [{"reach": 5, "runs": 2, "digests": None}],
    ],
)
def test_malformed_passages(wrong):
    data = {**TRUTH.to_dict(), "fitted_on": {"digests": [], "passages": wrong}}
    with pytest.raises(ValueError, match="fitted_on"):
        pk.MarkovChain.from_dict(data)


def test_a_long_series_keeps_few_digests_and_still_knows_its_parts():
    chain = pk.MarkovChain.steady([[0.7, 0.3], [0.4, 0.6]])
    long = chain.sample(100_000, seed=1)
    known = passages_of(pk.Series.of(long, [0, 1]))
    assert sum(len(group.digests) for group in known) <= 2 * 1024
    for start in range(0, 99_000, 9_000):
        assert share_a_passage(known, pk.Series.of(long[start : start + 1_000], [0, 1]))


def test_every_segment_of_many_people_is_known():
    chain = pk.MarkovChain.steady([[0.7, 0.3], [0.4, 0.6]])
    people = [chain.sample(100, seed=n).tolist() for n in range(300)]
    known = passages_of(pk.Series.of(people, [0, 1]))
    assert sum(share_a_passage(known, pk.Series.of(one, [0, 1])) for one in people) >= 285


def test_nothing_is_told_by_a_series_without_surprise():
    for data in ([0] * 1_000, [0, 1] * 1_000, [0, 1, 2] * 1_000, [0], [0, 1]):
        assert passages_of(pk.Series.of(data)) == ()
    assert not share_a_passage([Passages(10, 2, (1, 2))], pk.Series.of([0]))
    assert not share_a_passage([], pk.Series.of(DATA))


def test_labels_count_not_their_order():
    known = passages_of(pk.Series.of(["a" if x else "b" for x in DATA]))
    assert share_a_passage(known, pk.Series.of(["a" if x else "b" for x in DATA], ["c", "b", "a"]))
    assert not share_a_passage(known, pk.Series.of(["b" if x else "a" for x in DATA]))
