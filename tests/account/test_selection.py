"""Selection through the event-level epsilon: by definition, and charged to an account."""

from itertools import pairwise, permutations, product
from math import exp

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import noise

TWO = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
THREE = pk.MarkovChain.steady([[0.7, 0.3, 0.0], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]], ["a", "b", "c"])


def chances(scores, scale):
    """Permute-and-flip by listing every order: each coin in turn, until one falls on heads."""
    best, total = max(scores.values()), dict.fromkeys(scores, 0.0)
    orders = list(permutations(scores))
    for order in orders:
        none = 1.0
        for name in order:
            heads = exp((scores[name] - best) / scale)
            total[name] += none * heads / len(orders)
            none *= 1 - heads
    return total


def drawn(scores, scale, k):
    """The distribution of k draws without replacement."""
    if k == 0:
        return {(): 1.0}
    every = {}
    for name, p in chances(scores, scale).items():
        rest = {other: s for other, s in scores.items() if other != name}
        if len(rest) == 1 or k == 1:
            more = {(): 1.0} if k == 1 else {(next(iter(rest)),): 1.0}
        else:
            more = drawn(rest, scale, k - 1)
        for later, q in more.items():
            every[(name, *later)] = every.get((name, *later), 0.0) + p * q
    return every


@pytest.mark.parametrize(("chain", "length", "k"), [(TWO, 6, 1), (THREE, 5, 1), (THREE, 5, 2)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_no_entry_loses_more_than_epsilon(chain, length, k, epsilon):
    made = pk.select([chain.states[0]] * length, chain, epsilon, k)
    given = {}
    for path in product(range(len(chain)), repeat=length):
        p = chain.initial[path[0]] * np.prod([chain.transition[x, y] for x, y in pairwise(path)])
        if p == 0:
            continue
        scores = {state: float(path.count(n)) for n, state in enumerate(chain.states)}
        for answer, q in drawn(scores, made.scale, k).items():
            for entry, value in enumerate(path):
                own = given.setdefault(entry, {}).setdefault(value, {})
                own[answer] = own.get(answer, 0.0) + p * q
    worst = 0.0
    for values in given.values():
        logs = []
        for own in values.values():
            shares = np.array([own[answer] for answer in sorted(own)])
            logs.append(np.log(shares / shares.sum()))
        worst = max([worst, *(float((a - b).max()) for a, b in product(logs, repeat=2))])
    assert worst <= epsilon
    assert 2 * k / made.scale <= made.entry_epsilon
    assert made.entry_epsilon == pk.entry_epsilon(chain, length, epsilon)


def test_the_draws_are_permute_and_flip():
    scores, counts = {"a": 3, "b": 2, "c": 0}, dict.fromkeys("abc", 0)
    for _ in range(4000):
        counts["abc"[noise.noisy_choice(list(scores.values()), 2.0)]] += 1
    expected = chances(scores, 2.0)
    for name, p in expected.items():
        assert abs(counts[name] / 4000 - p) < 6 * (p * (1 - p) / 4000) ** 0.5


def test_clear_winners_are_found():
    week = [THREE.states[code] for code in THREE.sample(5000, seed=2)]
    common = sorted(THREE.states, key=week.count, reverse=True)
    assert pk.select(week, THREE, 5, 2).chosen == tuple(common[:2])
    scores = {"mostly a": pk.count("a"), "a or c": pk.total({"a": 1, "b": 0, "c": 1})}
    assert pk.select(week, THREE, 5, queries=scores).chosen == ("a or c",)


def test_scores_that_move_further_get_more_noise():
    data = ["a", "b", "c", "a", "b"]
    single = pk.select(data, THREE, 1, queries={"a": pk.count("a"), "b": pk.count("b")})
    values = {"a": 0, "b": 5, "c": 2}
    triple = pk.select(data, THREE, 1, queries={"a": pk.count("a"), "v": pk.total(values)})
    assert triple.scale == pytest.approx(5 * single.scale)


def test_the_account_pays_before_anything_is_drawn(tmp_path, monkeypatch):
    data = [THREE.states[code] for code in THREE.sample(60, seed=3)]
    anna = pk.Account(str(tmp_path / "ledger.db"), "anna", 1.0)
    first = pk.select(data, THREE, 0.5, 2, account=anna)
    assert first.charged == pytest.approx(0.5, rel=1e-3)
    assert anna.spent >= first.charged
    second = pk.select(data, THREE, 0.4, account=anna)  # every call is a new charge
    assert second.charged > 0.3
    monkeypatch.setattr(noise, "noisy_choice", lambda *_: pytest.fail("drawn without a charge"))
    with pytest.raises(pk.OverBudget):
        pk.select(data, THREE, 0.5, account=anna)


def test_refusals():
    with pytest.raises(ValueError, match="k: must be below"):
        pk.select([0, 1], TWO, 1, 2)
    with pytest.raises(pk.NoTheorem, match="one number"):
        pk.select([0, 1], TWO, 1, queries={"h": pk.histogram(), "c": pk.count(1)})
    with pytest.raises(pk.NotApplicable, match="observed"):
        pk.select(pk.Series.of([[0, None, 1]], [0, 1]), TWO, 1)
    with pytest.raises(ValueError, match="epsilon"):
        pk.select([0, 1], TWO, 0)
