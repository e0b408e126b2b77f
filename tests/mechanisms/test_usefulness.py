"""The noise beside the answer, and the way back from an error."""

import math
import warnings
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import polars
import pytest

import pufferkit as pk
from pufferkit.beliefs.base import as_beliefs
from pufferkit.data.series import UNOBSERVED
from pufferkit.mechanisms.explain import in_odds
from pufferkit.mechanisms.target_errors import (
    error_rows,
    helps,
    merged,
    over,
    with_fewest_entries,
    worth_having,
)
from pufferkit.mechanisms.usefulness import expected_answer, questioned
from tests.asking import Asking, for_all, for_each

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
THREE = pk.MarkovChain.steady(
    [[0.8, 0.15, 0.05], [0.3, 0.6, 0.1], [0.2, 0.3, 0.5]], states=["low", "mid", "high"]
)


FIXED = pk.MarkovChain([0.3, 0.7], [[0.9, 0.1], [0.4, 0.6]])
CLOCK = pk.Calendar("2024-01-01", every="1h")


@pytest.mark.parametrize("chain", [CHAIN, FIXED], ids=["stationary", "fixed"])
@pytest.mark.parametrize(
    ("query", "bounds", "least"),
    [
        (pk.relative_frequencies([0, 1], 6), (0, 1), 0),
        (pk.histogram([0, 1], 6), (0, 6), 0),
        (pk.count(1, 6), (0, 6), 0),
        (pk.total({0: -2, 1: 4}, 6), (-12, 24), -12),
        (pk.mean({0: 1, 1: 3}, 6), (1, 3), 1),
        (pk.by_time("week", [0, 1], 6, CLOCK), (0, 6), 0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_expected_answer_by_its_definition(chain, query, bounds, least):
    """The mean over all data, each with its probability, above the least answer."""
    mean = np.zeros(query.size)
    for path in product((0, 1), repeat=6):
        steps = [chain.transition[x, y] for x, y in pairwise(path)]
        chance = chain.initial[path[0]] * math.prod(steps)
        answer = [float(value) for value in query.exact(pk.Series.of(list(path), [0, 1]))]
        mean += chance * (np.array(answer) - least)
    useful = pk.Usefulness.of(pk.influence_curve(chain, query, 1))
    assert useful.expected == pytest.approx(mean)
    assert useful.bounds == pytest.approx(bounds)
    assert "as the beliefs expect" in " ".join(str(useful).split())


def test_answers_that_are_no_sums_are_drawn():
    moves = pk.Usefulness.of(pk.influence_curve(CHAIN, pk.transition_counts([0, 1], 5000), 1))
    assert moves.expected == pytest.approx(4999 * np.array([0.72, 0.08, 0.08, 0.12]), rel=0.2)
    runs = pk.Usefulness.of(pk.influence_curve(CHAIN, pk.episodes(1, 400_000), 1))
    assert runs.expected == pytest.approx([400_000 * 0.08], rel=0.1)  # of a part of it
    own = pk.Usefulness.of(pk.influence_curve(CHAIN, pk.Query("own", len, 1, 10), 1))
    assert own.expected is None
    assert "judge it yourself" in str(own)


def test_graphs_and_joint_distributions_expect_too():
    network = pk.BayesianNetwork(
        {"a": (), "b": ("a",)},
        {"a": {(): [0.5, 0.5]}, "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]}},
    )
    assert expected_answer(pk.count(1, 2), as_beliefs(network)) == pytest.approx([0.5 + 0.45])
    joint = pk.FiniteJoint({(0, 0): 0.4, (0, 1): 0.2, (1, 1): 0.4})
    assert expected_answer(pk.count(1, 2), as_beliefs(joint)) == pytest.approx([1.0])
    hull = pk.ChainClass.hull(CHAIN, pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]]))
    assert expected_answer(pk.count(1, 100), hull) == pytest.approx([30.0])  # 0.2 and 0.4
    unknown = pk.ChainClass.mixing(2, 0.1, 0.5)
    assert expected_answer(pk.count(1, 100), unknown) == pytest.approx([50.0])


def test_levels_are_judged_one_by_one_over_what_was_observed():
    rare = pk.MarkovChain.steady(
        [[0.9, 0.09, 0.01], [0.3, 0.69, 0.01], [0.5, 0.49, 0.01]], ["rest", "walk", "fall"]
    )
    plan = pk.plan(rare, pk.histogram(rare.states, 1000), 1)
    assert not plan.useful.drowned
    assert plan.useful.lost == ("fall",)
    assert "the noise drowns 1 of 3 counts: fall" in plan.warnings()
    assert plan.statements()[0].kind == "warning"
    assert plan.useful.to_dict()["lost"] == ["fall"]
    sparse = pk.influence_curve(CHAIN, pk.histogram([0, 1], every_67th(6700)), 1)
    assert pk.Usefulness.of(sparse).expected == pytest.approx([80.0, 20.0])


def test_noise_that_drowns_the_answer_is_called_so():
    """Counts near 1,008 with an interval of 1,584 are noise."""
    slow = pk.MarkovChain.steady([[0.999, 0.001], [0.001, 0.999]])
    plan = pk.plan(slow, pk.histogram([0, 1], 2016), 0.5)
    assert plan.useful.drowned
    assert "drowns the answer" in str(plan)
    shares = pk.influence_curve(CHAIN, pk.relative_frequencies([0, 1], 100), 0.05)
    assert pk.Usefulness.of(shares).drowned
    fine = pk.plan(CHAIN, pk.histogram([0, 1], 2016), 1)
    assert not fine.useful.drowned
    assert "drowns" not in str(fine)
    assert "95% of counts are within" in str(fine)


def test_the_threshold_is_half_of_an_average_answer():
    query = pk.relative_frequencies([0, 1], 100)
    edge = 0.25 / pk.entry_dp(query, 1).half_width() * pk.entry_dp(query, 1).scale
    # Whole counts have whole intervals: a step of 1 / 100 is about 4% here.
    for factor, drowned in ((0.95, False), (1.06, True)):
        made = pk.Calibration("entry_dp", 1, edge * factor, query)
        assert pk.Usefulness.of(made).drowned is drowned


@pytest.mark.parametrize("error", [0.2, 0.04, 0.01])
@pytest.mark.parametrize(
    "beliefs", [CHAIN, pk.ChainClass.any_start([[0.8, 0.2], [0.3, 0.7]])], ids=["chain", "any"]
)
def test_the_epsilon_it_takes_is_enough_and_not_much_more(beliefs, error):
    query = pk.relative_frequencies([0, 1], 1000)
    epsilon = pk.epsilon_for(beliefs, query, error)
    assert pk.influence_curve(beliefs, query, epsilon).half_width() <= error
    assert pk.influence_curve(beliefs, query, epsilon * 0.98).half_width() >= error
    assert epsilon == float(f"{epsilon:.3g}")
    typical = expected_answer(query, as_beliefs(beliefs)).max()
    same = pk.epsilon_for(beliefs, query, error / typical, relative=True)
    assert same == epsilon


def test_no_epsilon_is_enough_for_nothing():
    with pytest.raises(pk.NotApplicable, match="no epsilon up to 100"):
        pk.epsilon_for(CHAIN, pk.Query("own", len, 1.0, 10, states=[0, 1]), 1e-9)
    with pytest.raises(ValueError, match="error"):
        pk.epsilon_for(CHAIN, pk.count(1, 10), 0)


def test_the_fewest_entries_are_enough():
    query, target = pk.relative_frequencies([0, 1], 300), pk.Target(0.02)
    longer = with_fewest_entries(as_beliefs(CHAIN), query, 1, target)
    assert longer is not None
    size = sum(longer.query.lengths)
    assert target.is_met(pk.influence_curve(CHAIN, over(query, size), 1))
    assert not target.is_met(pk.influence_curve(CHAIN, over(query, int(size * 0.95)), 1))
    assert with_fewest_entries(as_beliefs(CHAIN), pk.count(1, 300), 1, pk.Target(0.01)) is None


@pytest.mark.parametrize(
    "query",
    [
        pk.histogram(THREE.states, 100),
        pk.relative_frequencies(THREE.states, 100),
        pk.count("mid", 100),
        pk.total({"low": 0, "mid": 1, "high": 5}, 100),
        pk.mean({"low": 0, "mid": 1, "high": 5}, 100),
    ],
    ids=lambda query: query.name,
)
def test_the_same_question_of_more_data(query):
    data = pk.Series.of([THREE.states[code] for code in THREE.sample(250, seed=2)], THREE.states)
    again = over(query, 250)
    assert again.kind == query.kind
    make = {
        "histogram": lambda: pk.histogram(THREE.states, 250),
        "relative frequencies": lambda: pk.relative_frequencies(THREE.states, 250),
        "count": lambda: pk.count("mid", 250),
        "total": lambda: pk.total({"low": 0, "mid": 1, "high": 5}, 250),
        "mean": lambda: pk.mean({"low": 0, "mid": 1, "high": 5}, 250),
    }[query.name]()
    assert [float(x) for x in again.exact(data)] == pytest.approx(
        [float(x) for x in make.exact(data)]
    )


@pytest.mark.slow
def test_every_remedy_was_tried_and_would_do():
    target = pk.Target(0.05)
    query = pk.relative_frequencies(THREE.states, 120)
    ways = pk.remedies(THREE, query, 0.5, target)
    texts = " | ".join(way.text for way in ways)
    assert "epsilon" in texts
    assert "entries in place of 120" in texts
    assert all(target.is_met(way.calibration) for way in ways)
    drowned = pk.remedies(CHAIN, pk.relative_frequencies([0, 1], 40), 0.2, worth_having())
    assert drowned
    assert all(not pk.Usefulness.of(way.calibration).drowned for way in drowned)


def test_what_only_moves_the_yardstick_is_no_remedy():
    """Merging is one where the present noise, added up, tells less of the same numbers."""
    four = pk.MarkovChain.steady(np.full((4, 4), 0.05) + 0.8 * np.eye(4))
    query, target = pk.histogram(four.states, 400), worth_having()
    theta, present = as_beliefs(four), pk.influence_curve(four, query, 0.3)
    halves = merged(query, [[0, 1], [2, 3]])
    fewer = pk.influence_curve(four, halves, 0.3)
    assert helps(theta, query, target, present, fewer, 1)
    assert not helps(theta, query, target, replace(fewer, scale=fewer.scale / 5), fewer, 1)
    assert not helps(theta, query, target, present, replace(fewer, scale=200.0), 1)
    shares = pk.relative_frequencies(four.states, 400)
    noise = pk.influence_curve(four, shares, 0.3)
    sampled = replace(noise, query=over(shares, [40]), scale=noise.scale / 10)
    assert helps(theta, shares, pk.Target(0.5, relative=True), noise, sampled, 10)
    assert not helps(theta, shares, pk.Target(0.01), noise, sampled, 10)  # 40 readings cannot


def test_no_remedy_promises_hardly_anything():
    slow = pk.MarkovChain.steady([[0.999, 0.001], [0.001, 0.999]])
    for way in pk.remedies(slow, pk.relative_frequencies([0, 1], 30), 0.2, worth_having()):
        assert way.calibration.epsilon <= 10


def test_merged_bins_count_together():
    query = pk.histogram(THREE.states, 6)
    both = merged(query, [["low"], ["mid", "high"]])
    data = pk.Series.of(["low", "mid", "high", "high", "low", "mid"], THREE.states)
    assert [int(x) for x in both.exact(data)] == [2, 4]
    assert both.labels == ("low", "mid or high")
    assert not both.uniform  # within a bin an entry moves nothing
    noise = pk.influence_curve(THREE, both, 1)
    assert noise.scale <= pk.influence_curve(THREE, query, 1).scale * (1 + 1e-6)


def test_targets_in_words():
    assert pk.Target.of_text("0.05") == pk.Target(0.05)
    shares = pk.relative_frequencies([0, 1], 9)
    assert pk.Target.of_text("5%").half_width(shares) == 0.025
    assert pk.Target.of_text("5%").half_width(shares, as_beliefs(CHAIN)) == pytest.approx(0.04)
    for wrong in ("soon", "-1", "0"):
        with pytest.raises(ValueError, match="target"):
            pk.Target.of_text(wrong)
    with pytest.raises(ValueError, match="percentage"):
        pk.Target.of_text("5%").half_width(pk.Query("own", len, 1, 10))


def test_rows_of_the_picture_go_down_with_epsilon():
    rows = error_rows(CHAIN, pk.count(1, 200), [0.1, 1, 5])
    own = [row["half_width"] for row in rows if row["mechanism"] == "influence_curve"]
    assert own == sorted(own, reverse=True)
    assert len(own) == 3


def test_posteriors_by_definition():
    """The largest posterior is reached by two answers whose likelihoods differ by e^loss."""
    for prior in (0.01, 0.1, 0.5, 0.9):
        for loss in (0.0, 0.3, 1.0, 4.0):
            likelihood = math.exp(loss)
            by_bayes = prior * likelihood / (prior * likelihood + (1 - prior))
            assert pk.posterior(prior, loss) == pytest.approx(by_bayes)
    assert "becomes at most 1 in 4.3" in in_odds(1.0)[0]
    with pytest.raises(ValueError, match="prior"):
        pk.posterior(1, 1)


def test_pairs_say_what_the_curve_knows_better():
    table = pk.explain(pk.influence_curve(THREE, pk.total({"low": 0, "mid": 1, "high": 9}, 50), 1))
    assert table.posterior(0.1) == pytest.approx(pk.posterior(0.1, table.losses.max()))
    assert table.posterior(0.1, "mid") < table.posterior(0.1)
    assert len(table.table_rows()) == 6
    assert "becomes at most" in str(table)
    with pytest.raises(ValueError, match="state"):
        table.posterior(0.1, "none")


def test_a_large_epsilon_is_questioned():
    assert questioned(10) is None
    assert "0.1 to 3 are usual" in questioned(12)
    assert "by more than 1e304;" in questioned(1e300)
    assert "0.1 to 3 are usual" in str(pk.plan(CHAIN, pk.count(1, 100), 12))


# -- before a release -----------------------------------------------------------------------------


def few(size=12, windows=None):
    rows = [(who, n, (n * who) % 2) for who in (1, 2, 3) for n in range(size)]
    columns = dict(zip(("who", "t", "x"), zip(*rows, strict=True), strict=True))
    return pk.read(
        polars.DataFrame(columns), subject="who", time="t", state="x", states=[0, 1], window=windows
    )


def acts(folder, size):
    """Every public act that releases something, over this many entries."""
    query, data = pk.relative_frequencies([0, 1], size), [0, 1] * (size // 2)
    groups = {"groups": {1: "a", 2: "b", 3: "b"}, "keys": ["a", "b"]}
    numbers = pk.mean({0: 1, 1: 3})
    plan = pk.plan_quantile(CHAIN, 0.5, {0: 0, 1: 1}, size, 0.1)
    book = f"{folder}/ledger.db"
    return {
        "calibration": lambda **more: pk.influence_curve(CHAIN, query, 0.1).release(data, **more),
        "quantile": lambda **more: plan.release(data, **more),
        "session": lambda **more: Asking(data, CHAIN, 1, book).release(query, 0.1, **more),
        "window": lambda **more: Asking(data, CHAIN, 1, book, name="s").release(
            query, 0.1, window=(1, size), **more
        ),
        "each": lambda **more: for_each(few(size), CHAIN, 0.1, **more),
        "shares of each": lambda **more: for_each(
            few(size), CHAIN, 0.1, query="frequencies", **more
        ),
        "windows of each": lambda **more: for_each(few(size, size // 2), CHAIN, 0.1, **more),
        "with a ledger": lambda **more: for_each(
            few(size), CHAIN, 0.1, ledger=book, budget=1, prefix="each/", **more
        ),
        "all": lambda **more: for_all(few(size), CHAIN, 0.1, query=numbers, **more),
        "groups": lambda **more: for_all(few(size), CHAIN, 0.1, **groups, **more),
    }


@pytest.mark.parametrize("name", acts("", 12))
def test_no_act_releases_a_drowned_answer_without_a_word(tmp_path, name):
    act = acts(tmp_path, 12)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pk.DrownedAnswer, match="anyway=True") as said:
            act()
        assert "off by up to" in str(said.value)
        assert pk.Usefulness.of(said.value.calibration).drowned
        if (tmp_path / "ledger.db").exists():
            assert not pk.Ledger(str(tmp_path / "ledger.db")).accounts()  # nothing was charged
        act(anyway=True)


def test_the_warning_points_to_the_caller():
    with pytest.warns(pk.DrownedAnswer) as pooled:
        pk.release(few(), CHAIN, "histogram", 0.1, per="subject")
    with pytest.warns(pk.DrownedAnswer) as paid:
        pk.release([0, 1] * 6, CHAIN, pk.histogram(), 0.1, mechanism="influence_curve")
    noise = pk.influence_curve(CHAIN, pk.histogram([0, 1], 12), 0.1)
    with pytest.warns(pk.DrownedAnswer) as single:
        noise.release([0, 1] * 6)
    assert [one.filename for one in (*pooled, *paid, *single)] == [__file__] * 3


@pytest.mark.parametrize("name", acts("", 4000))
def test_answers_above_their_noise_need_no_word(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        acts(tmp_path, 4000)[name]()


@pytest.mark.parametrize(
    "asked",
    [
        pk.count(1),
        pk.total({0: 0, 1: 2.5}),
        pk.variance({0: 0, 1: 2.5}, clip=(0, 2)),
        pk.quantile(0.5, {0: 0, 1: 2.5}),
        pk.histogram(),
        pk.transition_counts(),
    ],
    ids=str,
)
def test_pooled_rows_are_judged_as_one_series_of_their_size(asked):
    """One yardstick: the row of a table drowns where the same question about a series does."""
    numbers = asked.in_numbers()
    for size in (20, 60, 100, 200, 1000):
        alone = pk.influence_curve(CHAIN, numbers, 0.5, size)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for_each(few(size), CHAIN, 0.5, query=asked)
        chosen = [w.message.calibration for w in said if w.category is pk.DrownedAnswer]
        if not asked.chooses:
            assert bool(chosen) == pk.Usefulness.of(alone).drowned, size
        for noise in chosen:
            assert pk.Usefulness.of(noise).drowned


def test_remedies_divide_by_what_is_observed():
    """Of 6,700 minutes 100 were observed; remedies counted on all of them."""
    query = pk.relative_frequencies(CHAIN.states, every_67th(6700))
    target = pk.Target(0.05)
    ways = pk.remedies(CHAIN, query, 0.5, target)
    for way in ways:
        asked = way.calibration.query
        assert target.is_met(way.calibration)
        assert sum(asked.observed) <= sum(asked.lengths) / 60  # as sparse as the data
    longer = next(way for way in ways if "of them observed" in way.text)
    size = sum(longer.calibration.query.lengths)
    real = pk.relative_frequencies(CHAIN.states, every_67th(size))
    assert pk.influence_curve(CHAIN, real, 0.5).half_width() <= 0.05 * 1.01


def every_67th(size):
    codes = np.full(size, UNOBSERVED)
    codes[::67] = CHAIN.sample(len(codes[::67]), seed=1)
    return pk.Series(codes, CHAIN.states, (size,))
