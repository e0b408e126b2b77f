"""Seasonal chains, hulls, longer memory, hidden regimes, two-sided regions: the classes."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import ChainClass, MarkovChain, RegimeClass, Series
from pufferkit.errors import NotApplicable

MATRIX = [[0.9, 0.1], [0.4, 0.6]]
OTHER = [[0.8, 0.2], [0.2, 0.8]]
EMISSION = [[0.8, 0.2], [0.3, 0.7]]
TABLE = [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]]

CLASSES = {
    "seasonal": ChainClass.seasonal([MATRIX, OTHER], ["a", "b"], start=1),
    "hull": ChainClass.hull(MarkovChain.steady(MATRIX), MarkovChain.steady(OTHER), inflate=0.1),
    "counted hull": ChainClass.hull(MarkovChain.steady(MATRIX), backward=[OTHER]),
    "order": ChainClass.order(2, TABLE),
    "regimes": RegimeClass(MATRIX, EMISSION, ["a", "b"], emissions=0.1),
    "regime": RegimeClass(MATRIX, EMISSION, secret="regime"),
    "each": RegimeClass.of(RegimeClass(MATRIX, EMISSION), RegimeClass(OTHER, EMISSION)),
    "regime hull": RegimeClass.hull_of(RegimeClass(MATRIX, EMISSION), RegimeClass(OTHER, EMISSION)),
    "switching": RegimeClass(MATRIX, [MATRIX, OTHER]),
    "beside slow": RegimeClass([[0.99, 0.01], [0.2, 0.8]], EMISSION, slow=50),
    "two-sided": ChainClass.around([[900, 100], [80, 220]], 0.95),
}


@pytest.mark.parametrize("name", CLASSES)
def test_json_keeps_everything(name):
    theta = CLASSES[name]
    again = ChainClass.from_json(theta.to_json())
    assert type(again) is type(theta)
    assert again.to_json() == theta.to_json()
    assert again.description == theta.description
    assert again.states == theta.states


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "two-sided"])
def test_every_class_says_to_whom_it_promises(name):
    theta = CLASSES[name]
    assert theta.promise in theta.caveats
    with pytest.raises(NotApplicable, match="use influence_curve"):
        theta.members()
    with pytest.raises(NotApplicable, match="use influence_curve"):
        theta.mixing_bounds()
    for own in theta.distributions():
        path = own.distribution.sample(50, seed=1)
        assert len(path) == 50
        assert path.max() < len(theta.states)


def test_seasonal_marginals_are_periodic():
    theta = ChainClass.seasonal([MATRIX, OTHER, MATRIX])
    m = theta.marginals
    for slot, matrix in enumerate((MATRIX, OTHER, MATRIX)):
        assert m[slot] @ np.array(matrix) == pytest.approx(m[(slot + 1) % 3])
    (part,) = theta.parts(9)
    for slot in range(3):
        joint = m[slot][:, None] * np.array((MATRIX, OTHER, MATRIX)[slot])
        after = (slot + 1) % 3
        assert m[after][:, None] * part.clock.left[after].kernels[0] == pytest.approx(joint.T)


def test_seasonal_states_that_cannot_occur_at_a_slot():
    there, back = [[0.0, 1.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    (part,) = ChainClass.seasonal([there, back]).parts(9)
    assert [list(p) for p in part.possible] == [[True, True], [False, True]]


def test_order_two_is_the_chain_of_pairs():
    hidden = CLASSES["order"].hidden_chain
    assert hidden.shown == (0, 1, 0, 1)
    assert hidden.chain.transition[1].tolist() == [0, 0, 0.5, 0.5]
    counted = pk.fit(Series.of([0, 1, 1, 0, 1, 0, 0, 1, 1, 1] * 20), "order")
    assert counted.table.shape == (2, 2, 2)
    assert counted.sources[0].covers(Series.of([0, 1, 1, 0, 1, 0, 0, 1, 1, 1] * 20))


def test_both_directions_cost_less_than_any_start():
    counts = [[900, 100], [80, 220]]
    both = ChainClass.around(counts, 0.95)
    start = ChainClass.around(counts, 0.95, sides="any start")
    assert both.before is not None
    assert start.before is None
    assert "both directions" in both.description
    assert any("adversaries who know single entries" in note for note in both.caveats)
    assert (both.before.low <= both.before.high).all()
    # Each direction gets half of the error, so the forward region is the wider one.
    assert (both.low <= start.low + 1e-12).all()


@pytest.mark.slow
def test_both_directions_hold_the_chain_with_the_confidence():
    chain = MarkovChain.steady([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.2, 0.2, 0.6]])
    held = 0
    for seed in range(200):
        region = ChainClass.around(Series.of(chain.sample(400, seed).tolist(), range(3)), 0.9)
        held += region.contains(chain.transition) and region.before.contains(
            chain.reversal.transition
        )
    assert held >= 180


@pytest.mark.parametrize("people", ["each", "hull", "pooled"])
def test_fit_of_people(people):
    model = CLASSES["each"].models[0]
    each = [Series.of(model.sample(800, seed).tolist(), [0, 1]) for seed in range(3)]
    theta = pk.fit(each, "regimes", regimes=2, people=people, refitted=1, restarts=2)
    assert len(theta.models) == {"each": 5, "hull": 5, "pooled": 2}[people]
    assert theta.together == ("hull" if people == "hull" else "finite")
    assert theta.sources[0].covers(each[0])


def test_a_class_of_several_fits_remembers_all_of_them():
    model = CLASSES["each"].models[0]
    one, two = (Series.of(model.sample(300, n).tolist(), [0, 1]) for n in (1, 2))
    fits = [
        pk.fit(s, "regimes", regimes=2, people="pooled", refitted=0, restarts=1) for s in (one, two)
    ]
    for theta in (RegimeClass.of(*fits), RegimeClass.hull_of(*fits).replace(emissions=0.1)):
        again = ChainClass.from_json(theta.to_json())
        for data in (one, two):
            assert any(source.covers(data) for source in again.sources)
            with pytest.raises(ValueError, match="very series being released"):
                pk.influence_curve(again, pk.count(1, 300), 1).release(data)


LASTING = [[0.99, 0.0097, 0.0003], [0, 0.65, 0.35], [0.39, 0.003, 0.607]]
SHOWN = [[0.5, 0.5], [0.999, 0.001], [0.085, 0.915]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RegimeClass(LASTING, SHOWN, slow=50, secret="regime"),
        lambda: RegimeClass(LASTING, [MATRIX, OTHER, OTHER], slow=50),
        lambda: RegimeClass.hull_of(
            RegimeClass(LASTING, SHOWN), RegimeClass(LASTING, SHOWN)
        ).replace(slow=50),
        lambda: pk.InfluenceCurve(
            RegimeClass([[0.99, 0.01, 0], [0.01, 0, 0.99], [0, 1, 0]], SHOWN, slow=50), 9
        ).epsilon(1),
    ],
)
def test_what_no_theorem_of_slow_regimes_covers_is_refused(make):
    with pytest.raises(pk.NoTheorem, match="slow"):
        make()


def test_data_beside_slow_regimes_are_drawn_from_the_middle_of_a_long_sojourn():
    """Without the slow regime rows are not rescaled: they are those of a chain that never left."""
    theta = RegimeClass(LASTING, SHOWN, slow=50)
    inside = np.array(LASTING)[1:, 1:]
    value, vector = np.linalg.eig(inside)
    root, r = value.max(), np.abs(vector[:, value.argmax()])
    (own,) = theta.representatives()
    moves = own[1].chain.transition.reshape(2, 2, 2, 2).sum(axis=3)[:, 0]
    assert moves == pytest.approx(inside * r / (root * r[:, None]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ChainClass.seasonal([]), "kernels: needs at least one matrix"),
        (lambda: ChainClass.seasonal([MATRIX, np.eye(3)]), "kernels: all must have the same"),
        (lambda: ChainClass.seasonal([np.eye(2)]), "kernels: must have a unique steady state"),
        (lambda: ChainClass.seasonal([MATRIX], start=1), "start: must be a slot from 0 to 0"),
        (ChainClass.hull, "chains: a class needs"),
        (lambda: ChainClass.hull(MATRIX), "chains: must be MarkovChain"),
        (lambda: ChainClass.hull(MarkovChain.steady([[0, 1], [0, 1]])), "never returns"),
        (lambda: ChainClass.hull(MarkovChain.steady(MATRIX), inflate=1), "inflate: must be"),
        (lambda: ChainClass.order(2, MATRIX), "table: must have 3 axes"),
        (lambda: ChainClass.order(1, [[0.5, 0.5, 0.0]]), "table: must have an axis"),
        (lambda: RegimeClass(MATRIX, [[0.5, 0.5]]), "emission: must be 2 rows"),
        (
            lambda: RegimeClass([[0, 1], [0, 1]], EMISSION),
            "transition: the stationary probability of some regimes",
        ),
        (lambda: RegimeClass(MATRIX, EMISSION, emissions=1), "emissions: must be"),
        (lambda: RegimeClass(MATRIX, EMISSION, secret="x"), "secret: must be"),
        (lambda: RegimeClass(MATRIX, [MATRIX, OTHER], emissions=0.1), "emissions: a chain"),
        (RegimeClass.of, "members: a class needs"),
        (lambda: RegimeClass.of(MarkovChain.steady(MATRIX)), "members: must be RegimeClass"),
        (
            lambda: RegimeClass.of(
                RegimeClass(MATRIX, EMISSION), RegimeClass(MATRIX, EMISSION, secret="regime")
            ),
            "members: all must have the same secret",
        ),
        (lambda: ChainClass.around([[9, 1], [1, 9]], 0.9, sides="left"), "sides: must be"),
        (lambda: pk.fit([0, 1, 0, 1], "regimes", regimes=2, people="all"), "people: must be"),
    ],
)
def test_bad_input_is_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_whoever_is_unsure_of_the_schedule_is_told_apart():
    planned = pk.plan(CLASSES["hull"], pk.count(1, 20), 1)
    both = [MarkovChain.steady(m).stationary for m in (MATRIX, OTHER)]
    shares = np.array(both) / np.sum(both, axis=0)
    assert planned.unsure == pytest.approx(
        1 + np.log(shares.max(axis=1) / shares.min(axis=1)).max()
    )
    assert "for one who is unsure" in str(planned)
    sleeps = ChainClass.seasonal([[[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]])
    assert "has no bound" in str(pk.plan(sleeps, pk.count(1, 20), 1))
    assert pk.plan(CLASSES["order"], pk.count(1, 20), 1).unsure is None


def test_many_levels_are_not_taken_at_their_word():
    emission = np.full((2, 11), 1 / 11)
    assert RegimeClass(MATRIX, emission).emissions == 0.1
    assert RegimeClass(MATRIX, emission, emissions=0).emissions == 0
    assert RegimeClass(MATRIX, EMISSION).emissions == 0
