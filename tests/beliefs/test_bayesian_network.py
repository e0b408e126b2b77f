"""Bayesian networks: distributions against the joint distribution, checks, files."""

import json
import pickle
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass, as_network_class
from pufferkit.errors import NotApplicable
from tests.oracles import brute_network as brute

close = pytest.approx
seeds = st.integers(0, 10**6)

SPRINKLER = {
    "parents": {
        "cloudy": (),
        "rain": ("cloudy",),
        "sprinkler": ("cloudy",),
        "wet": ("sprinkler", "rain"),
    },
    "tables": {
        "cloudy": {(): [0.5, 0.5]},
        "rain": {(0,): [0.8, 0.2], (1,): [0.2, 0.8]},
        "sprinkler": {(0,): [0.5, 0.5], (1,): [0.9, 0.1]},
        "wet": {(0, 0): [1, 0], (0, 1): [0.1, 0.9], (1, 0): [0.1, 0.9], (1, 1): [0.01, 0.99]},
    },
}


def sprinkler(**changes) -> BayesianNetwork:
    return BayesianNetwork(**{**SPRINKLER, **changes})


def random_network(seed: int, count: int = 6, most: int = 3):
    rng = np.random.default_rng(seed)
    return brute.random_network(rng, int(rng.integers(1, count + 1)), most, rng.random())


# --- distributions --------------------------------------------------------------------------------


@given(seeds)
def test_distributions_of_a_few_nodes_are_those_of_the_joint(seed):
    parents, tables = random_network(seed)
    network, joint = BayesianNetwork(parents, tables), brute.joint(parents, tables)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(parents))[: rng.integers(1, len(parents) + 1)].tolist()
    distribution = network.distribution(*chosen)
    assert distribution == close(brute.marginal(joint, chosen), rel=1e-12, abs=0)
    assert not distribution.flags.writeable
    table = network.table(chosen)
    assert (table.possible == (brute.marginal(joint, chosen) > 0)).all()
    assert table.error < 1e-12


@given(seeds)
def test_distributions_are_exact_to_the_error_they_claim(seed):
    parents, tables = random_network(seed, 5, 2)
    network = BayesianNetwork(parents, tables)
    held = {
        node: {key: row.tolist() for key, row in network.tables[node].items()} for node in parents
    }
    exact = brute.joint(parents, held, exact=True)
    for node in parents:
        table, truth = network.table([node]), brute.marginal(exact, [node])
        for value, p in zip(table.values.tolist(), truth, strict=True):
            assert abs(value - p) <= table.error * p


@given(seeds)
def test_conditional_distributions(seed):
    parents, tables = random_network(seed)
    network, joint = BayesianNetwork(parents, tables), brute.joint(parents, tables)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(parents)).tolist()
    node, known = order[0], order[1 : 1 + rng.integers(0, len(parents))]
    values = {n: int(rng.integers(joint.shape[n])) for n in known}
    rows = brute.marginal(joint, [*known, node])[tuple(values.values())]
    if rows.sum() == 0:
        with pytest.raises(ValueError, match=r"given: .* has probability 0"):
            network.distribution(node, given=values)
    else:
        assert network.distribution(node, given=values) == close(rows / rows.sum(), rel=1e-12)


@given(seeds)
def test_the_joint_distribution_is_the_product_of_the_tables(seed):
    parents, tables = random_network(seed, 5)
    joint = BayesianNetwork(parents, tables).joint()
    truth = brute.joint(parents, tables)
    assert len(joint) == truth.size
    for x, p in joint.table.items():
        assert p == close(truth[x], rel=1e-12, abs=0)


def test_sprinkler():
    network = sprinkler()
    assert network.distribution("wet")[1] == close(0.6471)
    assert network.distribution("sprinkler", given={"wet": 1})[1] == close(0.4298, abs=5e-5)
    assert network.distribution("rain", "wet", given={"cloudy": 1}).sum() == close(1)


def test_a_long_network_is_no_problem():
    step = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    length = 3000
    parents = {0: (), **{t: (t - 1,) for t in range(1, length)}}
    tables = {0: {(): [1, 0]}, **dict.fromkeys(range(1, length), step)}
    network = BayesianNetwork(parents, tables)
    assert network.distribution(length - 1) == close([0.8, 0.2])
    pair = network.distribution(length - 10, length - 1)
    assert pair[0] / pair[0].sum() == close(np.linalg.matrix_power([[0.9, 0.1], [0.4, 0.6]], 9)[0])


def test_probabilities_that_underflow_are_known_to_be_possible():
    rare = {(0,): [1, 1e-200], (1,): [1, 1e-200]}
    network = BayesianNetwork({1: (), 2: (1,)}, {1: {(): [1, 1e-200]}, 2: rare})
    table = network.table([1, 2])
    assert table.possible.all()
    assert table.values[1, 1] == 0
    with pytest.raises(NotApplicable, match="underflow"):
        network.joint()


# --- structure ------------------------------------------------------------------------------------


def test_nodes_come_parents_first_and_otherwise_as_given():
    for order in permutations(SPRINKLER["parents"]):
        network = sprinkler(parents={node: SPRINKLER["parents"][node] for node in order})
        seen = set()
        for node in network.nodes:
            assert set(network.parents[node]) <= seen
            seen.add(node)
        assert network.distribution("wet")[1] == close(0.6471)
    assert sprinkler().nodes == tuple(SPRINKLER["parents"])


def test_shape():
    network = sprinkler()
    assert not network.is_tree
    assert network.children["cloudy"] == ("rain", "sprinkler")
    assert network.ancestors(["rain"]) == ("cloudy", "rain")
    assert network.sizes == {"cloudy": 2, "rain": 2, "sprinkler": 2, "wet": 2}
    assert network.description == "network of 4 nodes, 4 edges"
    forest = BayesianNetwork(
        {1: (), 2: (1,), 3: (), 4: (1,)},
        {1: {(): [1]}, 2: {(0,): [0.5, 0.5]}, 3: {(): [0.1, 0.9]}, 4: {(0,): [0.2, 0.3, 0.5]}},
    )
    assert forest.is_tree
    assert forest.components == ((1, 2, 4), (3,))
    assert "tree-shaped" in repr(forest)


def test_values_may_have_labels():
    network = BayesianNetwork(
        {"flu": (), "fever": ("flu",)},
        {"flu": {(): [0.9, 0.1]}, "fever": {("no",): [0.9, 0.08, 0.02], ("yes",): [0.1, 0.4, 0.5]}},
        {"flu": ["no", "yes"], "fever": ["none", "some", "high"]},
    )
    assert network.distribution("flu", given={"fever": "high"})[1] == close(0.05 / 0.068)
    assert network.tables["fever"]["yes",].tolist() == [0.1, 0.4, 0.5]
    with pytest.raises(
        ValueError, match=r"value: 2 is not a value of node 'fever'; it has \['none'"
    ):
        network.distribution("flu", given={"fever": 2})


def test_nothing_can_be_changed():
    network = sprinkler()
    with pytest.raises(TypeError):
        network.parents["rain"] = ()
    with pytest.raises(ValueError, match="read-only"):
        network.tables["rain"][0,][0] = 1
    with pytest.raises(AttributeError):
        network.nodes = ()


# --- refusals -------------------------------------------------------------------------------------

COIN = {(): [0.5, 0.5]}
COPY = {(0,): [1, 0], (1,): [0, 1]}


@pytest.mark.parametrize(
    ("parents", "tables", "values", "message"),
    [
        ({}, {}, None, "parents: must be a mapping"),
        ({"a": ("b",)}, {}, None, r"parents\['a'\]: 'b' is not a node"),
        ({"a": "b", "b": ()}, {}, None, r"parents\['a'\]: must be a tuple.*write \('b',\)"),
        ({"a": ("b", "b"), "b": ()}, {}, None, r"parents\['a'\]: names a parent twice"),
        ({"a": ("a",)}, {}, None, "cycle, 'a' -> 'a'"),
        (
            {"a": (), "b": ("d", "a"), "c": ("b",), "d": ("c",), "e": ("d",)},
            {},
            None,
            "cycle, ('b' -> 'c' -> 'd' -> 'b'|'c' -> 'd' -> 'b' -> 'c'|'d' -> 'b' -> 'c' -> 'd')",
        ),
        ({"a": ()}, {}, None, "tables: node 'a' has none"),
        ({"a": ()}, {"a": COIN, "z": COIN}, None, r"tables\['z'\]: is not a node"),
        ({"a": ()}, {"a": [0.5, 0.5]}, None, r"tables\['a'\]: must be a mapping"),
        (
            {"a": ()},
            {"a": {(0,): [1]}},
            None,
            r"tables\['a'\]: has a row for \(0,\).*without parents",
        ),
        (
            {"a": (), "b": ("a",)},
            {"a": COIN, "b": {(0,): [1, 0]}},
            None,
            r"tables\['b'\]: has no row for \(1,\), values of its parents \('a',\)",
        ),
        (
            {"a": (), "b": ("a",)},
            {"a": COIN, "b": {**COPY, (2,): [1, 0]}},
            None,
            r"tables\['b'\]: has a row for \(2,\)",
        ),
        (
            {"a": (), "b": ("a",)},
            {"a": COIN, "b": {0: [1, 0], 1: [0, 1]}},
            None,
            r"tables\['b'\]: has a row for 0, .* rows look like \(0,\)",
        ),
        (
            {"a": (), "b": ("a",)},
            {"a": COIN, "b": {(0,): [1, 0], (1,): [0, 0, 1]}},
            None,
            r"tables\['b'\]\[\(1,\)\]: has 3 entries, but node 'b' has 2 values",
        ),
        ({"a": ()}, {"a": {(): [0.5, 0.4]}}, None, r"tables\['a'\]\[\(\)\]: sums to 0.9, not 1"),
        ({"a": ()}, {"a": {(): [1.5, -0.5]}}, None, r"tables\['a'\]\[\(\)\]: entry 1 is -0.5"),
        ({"a": ()}, {"a": {(): [np.nan, 1]}}, None, r"tables\['a'\]: entry \(0,\) is nan"),
        ({"a": ()}, {"a": COIN}, {"z": [0, 1]}, r"values\['z'\]: is not a node"),
        (
            {"a": ()},
            {"a": COIN},
            {"a": [0]},
            r"values\['a'\]: 1 labels, but its distributions have 2",
        ),
        ({"a": ()}, {"a": COIN}, {"a": [0, 0]}, r"values\['a'\]: .*0 is listed twice"),
    ],
)
def test_bad_networks_are_named(parents, tables, values, message):
    with pytest.raises(ValueError, match=message):
        BayesianNetwork(parents, tables, values)


def test_bad_questions_are_named():
    network = sprinkler()
    with pytest.raises(
        ValueError, match="node: 'snow' is not in the network; its nodes are 'cloudy'"
    ):
        network.distribution("snow")
    with pytest.raises(ValueError, match="nodes: must be different"):
        network.distribution("rain", "rain")
    with pytest.raises(ValueError, match="nodes: must be different"):
        network.distribution("rain", given={"rain": 1})
    with pytest.raises(ValueError, match="at least one"):
        network.distribution()


def test_memory_is_checked_before_it_is_used():
    nodes = range(60)
    coins = BayesianNetwork(dict.fromkeys(nodes, ()), dict.fromkeys(nodes, COIN))
    with pytest.raises(
        NotApplicable, match=r"distribution of 0, 1, .* needs about [\d,]+ GB of memory; take"
    ):
        coins.distribution(*nodes)
    with pytest.raises(NotApplicable, match=r"rows and needs about .* GB"):
        coins.joint()


# --- files and other packages ---------------------------------------------------------------------


@given(seeds)
def test_json_both_ways(seed):
    network = BayesianNetwork(*random_network(seed))
    data = json.loads(network.to_json())
    assert data["kind"] == "bayesian_network"
    for back in (BayesianNetwork.from_dict(data), pickle.loads(pickle.dumps(network))):
        assert back.nodes == network.nodes
        assert back.parents == network.parents
        assert back.values == network.values
        for node in network.nodes:
            assert (back.arrays[node] == network.arrays[node]).all()


def test_json_may_be_written_by_hand():
    network = BayesianNetwork.from_dict(
        {
            "parents": {"a": [], "b": ["a"]},
            "tables": {"a": [[[], [0.5, 0.5]]], "b": [[["no"], [1, 0]], [["yes"], [0, 1]]]},
            "values": {"a": ["no", "yes"]},
        }
    )
    assert network.distribution("b").tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"parents": {}}, "model: has no 'tables'"),
        (
            {"nodes": ["a"], "parents": [[], []], "tables": []},
            "'parents' lists 2 entries for 1 nodes",
        ),
        ({"parents": {"a": 1}, "tables": {}}, r"parents\[.a.\]: must be a tuple of nodes"),
    ],
)
def test_bad_json_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        BayesianNetwork.from_dict(data)


def as_pgmpy(network: BayesianNetwork):
    """What `from_pgmpy` reads of a model: nodes, and tables with the node on the first axis."""
    cpds = [
        SimpleNamespace(
            variable=node,
            variables=[node, *network.parents[node]],
            values=np.moveaxis(network.arrays[node], -1, 0),
            state_names={n: list(network.values[n]) for n in (node, *network.parents[node])},
        )
        for node in network.nodes
    ]
    return SimpleNamespace(nodes=lambda: network.nodes, get_cpds=lambda: cpds)


@given(seeds)
def test_pgmpy_models(seed):
    network = BayesianNetwork(*random_network(seed))
    back = BayesianNetwork.from_pgmpy(as_pgmpy(network))
    assert back.to_dict() == network.to_dict()


def test_bad_pgmpy_models_are_refused():
    with pytest.raises(ValueError, match=r"model: must be a pgmpy .* got int"):
        BayesianNetwork.from_pgmpy(3)
    half = as_pgmpy(sprinkler())
    half.get_cpds().pop()
    with pytest.raises(ValueError, match="model: node 'wet' has no table"):
        BayesianNetwork.from_pgmpy(half)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_pgmpy_itself_agrees(tmp_path):
    """Its models, its elimination, its BIF files."""
    models = pytest.importorskip("pgmpy.models")
    factors = pytest.importorskip("pgmpy.factors.discrete")
    inference = pytest.importorskip("pgmpy.inference")
    readwrite = pytest.importorskip("pgmpy.readwrite")
    names = {
        "cloudy": ["no", "yes"],
        "rain": ["dry", "rainy"],
        "sprinkler": ["off", "on"],
        "wet": ["no", "yes"],
    }
    own = sprinkler()
    model = models.DiscreteBayesianNetwork()
    model.add_nodes_from(own.nodes)
    for node in own.nodes:
        parents = list(own.parents[node])
        model.add_edges_from((parent, node) for parent in parents)
        model.add_cpds(
            factors.TabularCPD(
                node,
                2,
                own.arrays[node].reshape(-1, 2).T,
                evidence=parents,
                evidence_card=[2] * len(parents),
                state_names={n: names[n] for n in (node, *parents)},
            )
        )
    network = BayesianNetwork.from_pgmpy(model)
    assert network.values == {n: tuple(own) for n, own in names.items()}
    theirs = inference.VariableElimination(model).query(
        ["rain"], {"wet": "yes"}, show_progress=False
    )
    assert network.distribution("rain", given={"wet": "yes"}) == close(theirs.values, rel=1e-12)
    readwrite.BIFWriter(model).write(str(tmp_path / "s.bif"))
    model = readwrite.BIFReader(str(tmp_path / "s.bif")).get_model()
    read = BayesianNetwork.from_pgmpy(model)
    assert read.distribution("wet", "rain") == close(network.distribution("wet", "rain"))


# --- classes --------------------------------------------------------------------------------------


def test_classes_share_one_graph():
    network = sprinkler()
    other = sprinkler(
        parents={**SPRINKLER["parents"], "wet": ("rain", "sprinkler")},  # another order is fine
        tables={**SPRINKLER["tables"], "cloudy": {(): [0.1, 0.9]}},
    )
    theta = as_network_class([network, other])
    assert as_network_class(theta) is theta
    assert theta.nodes == network.nodes
    assert theta.description == "2 sets of parameters of a network of 4 nodes, 4 edges"
    back = NetworkClass.from_json(theta.to_json())
    assert back.to_dict() == theta.to_dict()
    assert NetworkClass.from_json(network.to_json()).to_dict()["networks"] == [network.to_dict()]


def test_bad_classes_are_named():
    network = sprinkler()
    lone = BayesianNetwork({"cloudy": ()}, {"cloudy": COIN})
    cut = sprinkler(
        parents={**SPRINKLER["parents"], "rain": ()}, tables={**SPRINKLER["tables"], "rain": COIN}
    )
    for bad, message in [
        ([], "at least one network"),
        (3, "beliefs: must be a BayesianNetwork"),
        ([network, 3], "networks: must be BayesianNetwork objects, got int"),
        ([network, lone], "number 2 differs in its nodes"),
        ([network, cut], "number 2 gives 'rain' the parents"),
        ([network, sprinkler(values={"wet": ["no", "yes"]})], "number 2 gives 'wet' the values"),
    ]:
        with pytest.raises(ValueError, match=message):
            as_network_class(bad)
