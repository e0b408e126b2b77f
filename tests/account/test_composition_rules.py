"""Each rule of composition at the edge of its conditions."""

from bisect import bisect_left

import pytest

import pufferkit as pk
from pufferkit import ChainClass, InfluenceCurve, MarkovChain, NoTheorem, Spending, compose
from pufferkit.account import theorems as rules
from pufferkit.account.spending import profile_of
from pufferkit.influence.profile import Run
from pufferkit.influence.quilts.search import Binding, Quilt

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
FIXED = MarkovChain([1.0, 0.0], [[0.9, 0.1], [0.4, 0.6]])


def said(result):
    return {row.rule: (row.micro, row.why) for row in result.considered}


def quilts(*windows, mechanism="markov_quilt", epsilons=(0.5, 0.25)):
    return [Spending(mechanism, e, w) for e, w in zip(epsilons, windows, strict=False)]


# --- releases over the same entries ---------------------------------------------------------------


@pytest.mark.parametrize("rule", [rules.quilt_sum, rules.quilt_max])
@pytest.mark.parametrize("other", [(1, 10), (2, 9), (12, 20)])
def test_quilts_over_different_windows_do_not_add_up(rule, other):
    with pytest.raises(NoTheorem, match="over the same entries"):
        rule(quilts((1, 9), other))


def test_what_quilts_add_up_to():
    same = quilts((3, 9), (3, 9))
    assert rules.quilt_sum(same) == 750_000
    assert rules.quilt_max(same) == 1_000_000
    mixed = [same[0], Spending("markov_quilt_approx", 0.1000001, (3, 9))]
    assert rules.quilt_sum(mixed) == 600_001  # each rounded up to a millionth
    with pytest.raises(NoTheorem, match="markov_quilt releases; the history has markov_quilt_app"):
        rules.quilt_max(mixed)
    for rule, what in ((rules.quilt_sum, "Markov quilt"), (rules.quilt_max, "markov_quilt")):
        with pytest.raises(NoTheorem, match=f"{what} releases; the history has gk16, wasserstein"):
            rule([*same, Spending("wasserstein", 1, (3, 9)), Spending("gk16", 1, (3, 9))])


def test_groups_add_up_over_any_windows_but_not_with_others():
    groups = [Spending("group_dp", 0.5, (1, 4)), Spending("group_dp", 0.25, (3, 9))]
    assert rules.group_sum(groups) == 750_000
    with pytest.raises(NoTheorem, match="group DP releases; the history has gk16"):
        rules.group_sum([*groups, Spending("gk16", 1, (1, 4))])


def test_bounded_dependence_is_the_sum_and_twice_the_bound():
    two = [Spending("wasserstein", 0.5, (1, 4)), Spending("gk16", 0.25, (2, 9))]
    assert rules.bounded_dependence(two, 0.125) == 1.0
    assert rules.bounded_dependence(two, 0) == 0.75
    with pytest.raises(NoTheorem, match="not given"):
        rules.bounded_dependence(two, None)
    with pytest.raises(ValueError, match=r"^dependence: E must be at least 0, got -0.5"):
        rules.bounded_dependence(two, -0.5)
    with pytest.raises(ValueError, match=r"^dependence: "):
        rules.bounded_dependence(two, float("nan"))
    for history in (two[:1], two * 2):
        with pytest.raises(NoTheorem, match="about two releases"):
            rules.bounded_dependence(history, 0.125)
    with pytest.raises(NoTheorem, match="Pufferfish private releases; the history has entry_dp"):
        rules.bounded_dependence([two[0], Spending("entry_dp", 1, (1, 4), 1.0)], 0.125)


# --- entry by entry -------------------------------------------------------------------------------


def test_summed_entry_epsilon_as_runs():
    history = [
        Spending("gk16", 1, (3, 5), 0.25),
        Spending("gk16", 1, (5, 8), 0.5),
        Spending("gk16", 1, (1, 20), 0.125),
    ]
    wanted = [(2, 0.125), (2, 0.375), (1, 0.875), (3, 0.625), (12, 0.125)]

    def runs(history, first, last):
        spent = profile_of(history, ChainClass.of(CHAIN))
        at = bisect_left([end for _, end, _ in spent.runs], first)
        return [(count, sum(row)) for count, row in spent._within(first, last, at)]

    def near(*wanted):
        return [(count, pytest.approx(b, rel=1e-14)) for count, b in wanted]

    assert runs(history, 1, 20) == near(*wanted)
    assert runs(history, 5, 6) == near((1, 0.875), (1, 0.625))
    assert runs(history[:1], 6, 9) == [(4, 0.0)]
    assert runs(history[:1], 1, 5) == near((2, 0.0), (3, 0.25))


def test_the_profile_is_the_curve_of_the_worst_segment():
    history = [Spending("gk16", 1, (3, 5), 0.25), Spending("markov_quilt", 1, (9, 12), 0.5)]
    first = InfluenceCurve(CHAIN, 6).epsilon([Run(2, 0.0), Run(3, 0.25), Run(1, 0.0)])
    second = InfluenceCurve(CHAIN, 6).epsilon([Run(2, 0.0), Run(4, 0.5)])
    assert rules.entry_profile(history, CHAIN, (6, 6)) == pytest.approx(
        max(first, second), rel=1e-13
    )
    assert rules.entry_profile(history[:1], CHAIN, (6, 6)) == pytest.approx(first, rel=1e-13)
    assert rules.entry_profile(history[1:], CHAIN, (6, 6)) == pytest.approx(second, rel=1e-13)
    with pytest.raises(NoTheorem, match=r"^gk16, wasserstein gives no per-entry bound"):
        rules.entry_profile(
            [*history, Spending("wasserstein", 1, (1, 2)), Spending("gk16", 1, (1, 2))], CHAIN, 12
        )


def test_the_profile_of_joint_tables_and_networks():
    joint = pk.FiniteJoint({(0, 0, 0): 0.5, (1, 1, 1): 0.5})
    history = [Spending("entry_dp", 1, (1, 3), 0.25), Spending("entry_dp", 1, (1, 3), 0.5)]
    assert 2.25 < rules.entry_profile(history, joint, 3) <= 2.25 * (1 + 1e-14)
    # A triangle and a node apart: three hang together, and are averaged out one by one.
    pair = {(a, b): [0.5, 0.5] for a in (0, 1) for b in (0, 1)}
    triangle = pk.BayesianNetwork(
        {"a": (), "b": ("a",), "c": ("a", "b"), "d": ()},
        {
            "a": {(): [0.5, 0.5]},
            "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]},
            "c": pair,
            "d": {(): [0.5, 0.5]},
        },
    )
    four = [Spending("entry_dp", 1, (1, 4), 0.25)]
    assert 0.25 < rules.entry_profile(four, triangle, 4) <= 0.428
    path = pk.BayesianNetwork(
        {"a": (), "b": ("a",)},
        {"a": {(): [0.5, 0.5]}, "b": {(0,): [0.55, 0.45], (1,): [0.5, 0.5]}},
    )
    two = [Spending("entry_dp", 1, (1, 2), 0.5)]
    assert 0.5 < rules.entry_profile(two, path, 2) < 0.6


# --- which rule, and why not the others -----------------------------------------------------------


def test_one_release_of_a_kind_that_promises_pufferfish():
    once = [Spending("wasserstein", 0.5, (1, 9))]
    result = compose(once, CHAIN, 9)
    assert (result.micro, result.rule, result.epsilon) == (500_000, "single", 0.5)
    rows = said(result)
    assert rows["single"] == (500_000, "")
    assert rows["entry_profile"] == (None, "wasserstein gives no per-entry bound")
    assert rows["quilt_sum"][0] is rows["quilt_max"][0] is rows["group_sum"][0] is None
    assert "only one release" in rows["parallel"][1]
    assert "about two releases" in rows["far_apart"][1]
    with pytest.raises(
        NoTheorem, match=r"no theorem covers.*\(single: there are several releases; "
    ):
        compose(once * 2, CHAIN, 9)
    with pytest.raises(NoTheorem, match="Pufferfish private releases; the history has entry_dp"):
        rules.single([Spending("entry_dp", 0.5, (1, 9))])
    with pytest.raises(NoTheorem, match="the history has entry_dp"):
        compose([Spending("entry_dp", 0.5, (1, 9))], CHAIN, 9)


def test_the_least_of_what_applies():
    history = [Spending("group_dp", 0.5, (1, 9), 0.5), Spending("group_dp", 0.25, (1, 9), 0.25)]
    result = compose(history, CHAIN, 9, dependence=3)
    rows = said(result)
    assert rows["group_sum"] == (750_000, "")
    assert rows["dependence"] == (6_750_000, "")
    assert result.micro == min(micro for micro, _ in rows.values() if micro is not None) == 750_000
    assert result.rule == "group_sum"
    text = str(result).splitlines()
    assert text[0] == "epsilon 0.75 by group_sum"
    assert "  group_sum            0.75  " in text
    assert any(line.startswith("  single                  -  there are several") for line in text)


def test_nothing_was_released():
    nothing = compose([], CHAIN, 9)
    assert (nothing.micro, nothing.rule, nothing.considered) == (0, "nothing released", ())


def test_a_whole_epsilon_is_not_taken_for_millionths():
    """Rules that add up count in whole micro-epsilon; an epsilon of 1 is no such count."""
    assert compose([Spending("wasserstein", 1, (1, 9))], CHAIN, 9).micro == 1_000_000
    far = quilts((1, 40), (200, 240), mechanism="markov_quilt_approx", epsilons=(2, 3))
    assert all(type(spending.epsilon) is float for spending in far)
    far = [Spending(s.mechanism, s.epsilon, s.window, quilt=(5, 30)) for s in far]
    assert said(compose([*far], CHAIN, 300))["far_apart"][0] in (None, 3_000_000)


def test_windows_end_with_the_series():
    compose([Spending("gk16", 1, (1, 9), 0.1)], CHAIN, (4, 5))
    with pytest.raises(ValueError, match="window: 2 to 10 goes beyond the series of 9 entries"):
        compose([Spending("gk16", 1, (2, 10), 0.1)], CHAIN, (4, 5))


def test_records_are_used_whole():
    joint = pk.FiniteJoint({(0, 0): 0.5, (1, 1): 0.5})
    assert compose([Spending("wasserstein", 1, (1, 2))], joint, 2).epsilon == 1
    with pytest.raises(ValueError, match=r"lengths: the beliefs have 2 entries, got \[3\]"):
        compose([Spending("wasserstein", 1, (1, 2))], joint, 3)
    with pytest.raises(NoTheorem, match="use all entries, not a window"):
        compose([Spending("wasserstein", 1, (1, 1))], joint, 2)


# --- where windows start --------------------------------------------------------------------------


def test_windows_within_a_segment_need_beliefs_without_a_start():
    for window in ((1, 4), (6, 9), (6, 7)):
        assert compose([Spending("wasserstein", 1, window)], FIXED, (5, 4)).epsilon == 1
    for window in ((2, 4), (5, 9), (7, 9)):
        with pytest.raises(NoTheorem, match="fixed initial distribution"):
            compose([Spending("wasserstein", 1, window)], FIXED, (5, 4))
        assert compose([Spending("wasserstein", 1, window)], CHAIN, (5, 4)).epsilon == 1
    # Group DP asks no beliefs.
    assert compose([Spending("group_dp", 1, (2, 4), 1.0)], FIXED, (5, 4)).epsilon == 1


def test_which_chain_has_a_start_of_its_own():
    assert ChainClass.of(CHAIN).fixed_start is None
    assert ChainClass.any_start(CHAIN.transition).fixed_start is None
    assert ChainClass.mixing(2, 0.2, 0.5).fixed_start is None
    both = ChainClass.of(CHAIN, FIXED)
    assert both.fixed_start == both.members()[1].name


def test_disjoint_windows_are_disjoint():
    touching = [Spending("gk16", 1, (6, 9)), Spending("gk16", 1, (1, 5))]
    assert rules.parallel(touching, CHAIN, 9) > 1
    for history, why in (
        ([Spending("gk16", 1, (5, 9)), Spending("gk16", 1, (1, 5))], "some overlap"),
        (touching[:1], "only one release"),
    ):
        with pytest.raises(NoTheorem, match=why):
            rules.parallel(history, CHAIN, 9)
    with pytest.raises(NoTheorem, match="several segments"):
        rules.parallel(touching, CHAIN, (5, 4))
    with pytest.raises(NoTheorem, match="the history has entry_dp"):
        rules.parallel([*touching, Spending("entry_dp", 1, (11, 12), 1.0)], CHAIN, 12)


def test_entries_of_a_short_gap_are_looked_at_one_by_one():
    assert list(rules._stretches(8)) == [(n, n) for n in range(1, 9)]
    assert list(rules._stretches(9)) == [(1, 1), (2, 3), (4, 4), (9, 9), (7, 8), (5, 6)]
    assert list(rules._stretches(0)) == []


def test_quilts_of_far_windows_may_touch_but_not_meet(monkeypatch):
    """An entry in the gap borrows the quilt of either window; none may reach both."""
    history = [Spending("markov_quilt_approx", e, w) for e, w in ((0.5, (1, 10)), (0.75, (30, 39)))]
    sides = {0.5: (4, 12), 0.75: (9, 5)}

    def hardest(length, epsilon):
        assert length == 10
        return lambda *_: Binding(5, Quilt(1.0, 0.0, *sides[epsilon], True, True))

    monkeypatch.setattr(rules, "hardest", hardest)
    assert rules.far_apart(history, CHAIN, 60) == 0.75
    sides[0.75] = (10, 5)
    with pytest.raises(NoTheorem, match="a gap of at least 21 entries, there are 20"):
        rules.far_apart(history, CHAIN, 60)


# --- spending -------------------------------------------------------------------------------------


def test_what_a_release_spends():
    quilt = pk.markov_quilt(CHAIN, pk.count(1, 50), 1.0)
    spending = Spending.of(quilt)
    assert (spending.mechanism, spending.epsilon) == ("markov_quilt", 1.0)
    assert spending.window == (1, 50)
    assert spending.entry_epsilon == quilt.entry_epsilon
    assert spending.quilt == quilt.evidence.quilt
    assert Spending.of(quilt, (11, 60)).window == (11, 60)
    exact = pk.wasserstein(CHAIN, pk.count(1, 5), 1.0)
    assert Spending.of(exact).entry_epsilon == exact.entry_epsilon  # it is a sum
    assert Spending("gk16", 1, (1, 1)).window == (1, 1)
    for bad in ({"epsilon": 0}, {"entry_epsilon": 0.0}, {"entry_epsilon": -1.0}):
        with pytest.raises(ValueError, match=f"^{next(iter(bad))}: "):
            Spending(**({"mechanism": "gk16", "epsilon": 1, "window": (1, 3)} | bad))
