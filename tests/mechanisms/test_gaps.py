"""Gaps do not erase memory: entries that were not observed, by the definition of privacy."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.data.asking import transition_counts
from pufferkit.verification.verify import verify
from tests.asking import Asking
from tests.oracles import brute
from tests.strategies.generators import chains

MECHANISMS = {
    "influence_curve": pk.influence_curve,
    "markov_quilt": pk.markov_quilt,
    "markov_quilt_approx": pk.markov_quilt_approx,
    "gk16": pk.gk16,
    "group_dp": lambda _, query, epsilon: pk.group_dp(query, epsilon),
}
STICKY = [[0.9, 0.1], [0.1, 0.9]]


def patterns(most: int) -> st.SearchStrategy[list[bool]]:
    return st.lists(st.booleans(), min_size=1, max_size=most).filter(any)


def with_gaps(observed, state=0):
    return pk.Series.of([state if seen else None for seen in observed], [0, 1])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=25)
@given(
    chain=chains(3, least=2),
    observed=patterns(6),
    epsilon=st.sampled_from([0.3, 1.0, 4.0]),
    shares=st.lists(st.integers(0, 3), min_size=3, max_size=3),
)
def test_every_entry_is_hidden_whether_it_was_observed_or_not(
    mechanism, chain, observed, epsilon, shares
):
    """Sums whose states are not equally far apart."""
    initial, transition = chain
    belief, values = pk.MarkovChain(initial, transition), shares[: len(transition)]
    assume(len(set(values)) > 1)
    data = pk.Series.of([0 if seen else None for seen in observed], range(len(transition)))
    try:
        noise = MECHANISMS[mechanism](belief, pk.total(values, data), epsilon)
    except pk.NotApplicable:
        assume(False)
    answer = brute.of_observed(brute.sum_of(values), observed)
    loss = brute.privacy_loss(initial, transition, len(observed), answer, noise.scale)
    assert loss <= epsilon * (1 + 1e-9)
    whole = MECHANISMS[mechanism](belief, pk.total(values, len(observed)), epsilon)
    assert noise.scale <= whole.scale  # never more than for the unbroken span


def test_pieces_around_a_gap_taken_as_independent_lose_more_than_promised():
    """The mistake: 111?111 read as two independent segments of three."""
    observed, distribution, epsilon = [True] * 3 + [False] + [True] * 3, [0.5, 0.5], 1.0
    belief = pk.MarkovChain.steady(STICKY)
    answer = brute.of_observed(brute.count_of(1), observed)

    def loss(scale):
        return brute.privacy_loss(distribution, STICKY, 7, answer, scale)

    wrong = pk.influence_curve(belief, pk.count(1, (3, 3)), epsilon)
    assert loss(wrong.scale) > 1.3 * epsilon
    right = pk.influence_curve(belief, pk.count(1, with_gaps(observed)), epsilon)
    assert loss(right.scale) <= epsilon
    # The entry in the gap, which nobody observed, is not the safest: it loses to both sides.
    joint = brute.joint_distribution(distribution, STICKY, 7)
    losses = [
        brute.laplace_loss(brute.answers_given(joint, node, answer), wrong.scale)
        for node in range(1, 8)
    ]
    assert losses[3] > epsilon
    assert max(losses) == pytest.approx(losses[2])


def test_leading_entries_matter_to_a_fixed_start():
    belief = pk.MarkovChain([1, 0], [[0.6, 0.4], [0.3, 0.7]])
    late = pk.Series.of([None, None, 0, 1, 1], [0, 1])
    noise = pk.influence_curve(belief, pk.count(1, late), 1)
    answer = brute.of_observed(brute.count_of(1), [False, False, True, True, True])
    loss = brute.privacy_loss([1, 0], belief.transition.tolist(), 5, answer, noise.scale)
    assert loss <= 1
    assert noise.evidence.length == 5


def test_the_wasserstein_mechanism_refuses_gaps():
    belief, data = pk.MarkovChain.steady(STICKY), pk.Series.of([0, 1, None, 1, 0])
    with pytest.raises(pk.NotApplicable, match="observed entries only"):
        pk.wasserstein(belief, pk.count(1, data), 1)
    blind = pk.wasserstein(belief, pk.count(1, 5), 1)
    with pytest.raises(pk.NotApplicable, match="observed entries only"):
        blind.release(data)
    # A longer sum is not always further away: the distance is not monotone in the span.
    flip = pk.MarkovChain.steady([[0.0, 1.0], [1.0, 0.0]])
    distance = [pk.wasserstein(flip, pk.count(1, n), 1).scale for n in (1, 3)]
    with pytest.raises(pk.NotApplicable, match="nothing to hide"):
        pk.wasserstein(flip, pk.count(1, 2), 1)
    assert min(distance) > 0
    reasons = dict(pk.plan(belief, pk.count(1, data), 1).explain().rows)
    assert "observed entries only" in reasons["wasserstein"]


def test_shares_and_means_divide_by_what_was_observed():
    data = pk.Series.of([0, 1, None, 1, 1, None], [0, 1])
    belief = pk.MarkovChain.steady(STICKY)
    shares = pk.relative_frequencies([0, 1], data)
    assert shares.exact(data) == [0.25, 0.75]
    assert shares.lipschitz == 0.5
    assert pk.mean([0, 1], data).exact(data) == [0.75]
    assert pk.histogram([0, 1], data).total == 4
    assert pk.count(1, data).exact(data) == pk.count(1, data.lengths).exact(data) == [3]
    for blind in (
        pk.relative_frequencies([0, 1], data.lengths),
        pk.histogram([0, 1], 6),
        pk.mean([0, 1], 6),
        transition_counts([0, 1], 6),
    ):
        with pytest.raises(ValueError, match=r"2 of its 6 entries were not observed.*the series"):
            pk.influence_curve(belief, blind, 1).release(data)
    moves = transition_counts([0, 1], data)
    assert moves.exact(data) == [0, 1, 0, 1]
    assert moves.total == 2
    own = pk.Query("ones", lambda entries: float((entries == 1).sum()), 1, data)
    assert own.exact(data) == [3]


def test_a_record_of_a_series_with_gaps_is_verified():
    data = pk.Series.of([[0, 1, None, 1, 1, None], [1, 1, 0]], [0, 1])
    belief = pk.MarkovChain.steady(STICKY)
    for query in (pk.relative_frequencies([0, 1], data), pk.count(1, data), pk.count(1, (6, 3))):
        for name, mechanism in MECHANISMS.items():
            try:
                release = mechanism(belief, query, 1).release(data)
            except pk.NotApplicable:
                assert name == "gk16"
                continue
            assert release.observed == (4, 3)
            again = pk.Release.from_json(release.to_json())
            assert again == release
            assert verify(again).ok, name
            assert "7 of 9 entries were observed" in str(release)
    few = pk.group_dp(pk.count(1, data), 1)
    assert few.scale == pytest.approx(4)
    forged = {**few.release(data).to_dict(), "observed": [2, 3], "scale": 3.0}
    assert "gaps" in " ".join(verify(forged).problems)
    assert "observed" in verify({**forged, "observed": [7, 3]}).problems[0]
    assert not verify({**forged, "observed": [4, 3]}).ok


def test_declared_breaks_are_named_everywhere(tmp_path):
    path = tmp_path / "hours.csv"
    hours = [0, 1, 2, 3, 9, 10, 11]
    path.write_text("hour,state\n" + "".join(f"{hour},{hour % 2}\n" for hour in hours))
    declared = pk.read(path, state="state", time="hour", independent_after=3)
    assert declared.lengths == (4, 3)
    belief, said = pk.MarkovChain.steady(STICKY), "pieces more than 3 apart were declared"
    query = pk.count(1, declared)
    assert said in " ".join(str(pk.plan(belief, query, 1)).split())
    for asked in (query, pk.count(1, declared.lengths)):
        release = pk.influence_curve(belief, asked, 1).release(declared)
        assert any(said in note for note in release.evidence.notes)
        assert verify(release).ok
    book = str(tmp_path / "ledger.db")
    session = Asking(declared, belief, 2, book)
    assert said in session.release(query, 1).to_json()
    plain = pk.read(path, state="state", time="hour")
    assert (plain.lengths, plain.missing) == ((12,), 5)
    assert "5 not observed" in str(pk.plan(belief, pk.count(1, plain), 1))


def test_named_entries_need_their_values():
    network = pk.BayesianNetwork(
        {"a": (), "b": ("a",)}, {"a": {(): [0.5, 0.5]}, "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]}}
    )
    noise = pk.markov_quilt(network, pk.count(1, 2), 1)
    with pytest.raises(ValueError, match="needs a value for each"):
        noise.release([0, None])


def test_answers_leave_out_what_was_not_observed():
    chain = pk.MarkovChain.steady(STICKY)
    mechanism = pk.local.cheapest_noise(chain, 2)
    answers = pk.local.sanitize([0, None, 1, 1], mechanism)
    assert [answer is None for answer in answers] == [False, True, False, False]
    estimates = pk.local.estimate(pk.Series.of([0, 1, None, 1, 0] * 50, [0, 1]), mechanism)
    assert estimates.length == 200
    assert estimates.counts.sum() == pytest.approx(200)
    assert estimates.transitions.sum() == pytest.approx(149)
