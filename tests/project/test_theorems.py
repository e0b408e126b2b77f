"""Every theorem has one function that is it, and a test that holds it by brute force.

A docstring that says ``Theorem: [Q] Lemma 4.6`` belongs to the function or class that is this
theorem. The table names each, and the test that compares it with the definition.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pufferkit

ROOT = Path(pufferkit.__file__).parent
TESTS = Path(__file__).parents[1]

NAME = re.compile(
    r"^ *Theorem: (?!`)"
    r"((?:\[[QCB]\]|PAIRS|CLASSES|ENGINE|FIXES)"
    r"(?: (?:Theorem|Lemma|Definition|Algorithm|Corollary))?"
    r" \(?[A-Z]?(?:\.?\d+)*(?:[a-z]\b)?\)?(?:, (?:Lemma|Theorem)(?: [A-Z]\b)?)?"
    r"|[^.,:(\n]+)",
    re.MULTILINE,
)
"""Of a paper with its number, or of our own up to the first stop."""

THEOREMS = {
    "[Q] Definition 2.1": (
        "influence/sums/least_scale.py: least_scale_of_tables",
        "mechanisms/test_attribute_secrets.py: test_exact_sum_is_the_least_noise_by_definition",
    ),
    "[Q] Definition 2.3": (
        "fitting/closeness.py: max_divergence",
        "fitting/test_close_adversaries.py: test_chains_by_max_plus_equal_listing_all_paths",
    ),
    "[Q] Theorem 3.2": (
        "mechanisms/wasserstein.py: wasserstein",
        "mechanisms/test_wasserstein.py: "
        "test_never_below_the_truth_and_exact_where_fractions_decide",
    ),
    "SHAPE Theorem S": (
        "influence/shape/theorem_s.py: loss_s",
        "influence/test_shape_s.py: test_no_output_tells_more_than_theorem_s",
    ),
    "SHAPE 4b": (
        "influence/shape/costs.py: regime_costs",
        "mechanisms/test_shaped.py: test_no_history_with_shaped_noise_loses_more_than_is_charged",
    ),
    "SHAPE Theorem W": (
        "influence/shape/theorem_w.py: loss_w",
        "influence/test_shape_s.py: test_no_output_tells_more_than_theorem_w",
    ),
    "[Q] Definition 3.1": (
        "influence/sums/lattice.py: w_infinity",
        "influence/test_transport.py: test_equals_the_linear_programme_on_tie_heavy_distributions",
    ),
    "W-infinity of vectors": (
        "influence/sums/lattice.py: bottleneck_distance",
        "mechanisms/test_wasserstein_vectors.py: test_the_distance_is_the_definition",
    ),
    "[Q] (5)": (
        "influence/quilts/chains.py: ChainInfluence.between",
        "influence/test_influence.py: test_influence_is_that_of_the_definition",
    ),
    "[Q] Theorem 4.3": (
        "mechanisms/markov_quilt.py: markov_quilt",
        "influence/test_network_influence.py: test_the_noise_hides_every_node",
    ),
    "[Q] Lemma 4.6": (
        "influence/quilts/search.py: best_quilt",
        "mechanisms/test_markov_quilt.py: test_search_finds_the_best_of_all_quilts",
    ),
    "[Q] Algorithm 2": (
        "influence/quilts/networks.py: hardest_node",
        "influence/test_network_influence.py: test_the_search_finds_the_best_of_all_quilts",
    ),
    "[Q] Algorithm 3": (
        "influence/quilts/chains.py: hardest_of",
        "mechanisms/test_markov_quilt.py: test_the_scan_agrees_with_the_definition",
    ),
    "[Q] Algorithm 4": (
        "mechanisms/markov_quilt.py: markov_quilt_approx",
        "mechanisms/test_markov_quilt_approx.py: test_released_count_loses_at_most_epsilon",
    ),
    "[Q] Lemma C.1": (
        "influence/quilts/chains.py: MixingInfluence",
        "mechanisms/test_markov_quilt_approx.py: test_bounds_hold_for_every_quilt",
    ),
    "[Q] Lemma C.4": (
        "influence/quilts/search.py: hardest_node",
        "influence/test_quilts.py: test_the_hardest_node_by_bisection",
    ),
    "quilts around a block": (
        "influence/quilts/chains.py: AroundBlock",
        "influence/test_events.py: test_quilts_around_several_entries_keep_the_promise",
    ),
    "quilts over gaps": (
        "influence/quilts/chains.py: hardest_observed",
        "mechanisms/test_gapped_series.py: test_every_entry_of_the_span_is_hidden",
    ),
    "PAIRS Theorem 2": (
        "influence/curve/engine.py",
        "influence/test_engine.py: test_losses_are_never_below_a_release_nor_above_everything",
    ),
    "PAIRS 3": (
        "influence/sums/least_scale.py: _likelihoods",
        "mechanisms/test_exact_sum.py: test_the_least_scale_by_the_definition",
    ),
    "PAIRS 4": (
        "influence/sums/least_scale.py: SumWindow",
        "mechanisms/test_exact_sum.py: test_the_least_scale_by_the_definition",
    ),
    "PAIRS Theorem 5": (
        "influence/curve/steps.py: Open",
        "influence/test_engine.py: test_no_start_has_a_larger_step_and_some_start_has_it",
    ),
    "FIXES 3": (
        "influence/sums/chain_sums.py: CountedDays",
        "mechanisms/test_exact_distributions.py: test_days_lose_epsilon_by_definition",
    ),
    "FIXES 1, Theorem": (
        "influence/curve/engine.py: Sojourns",
        "influence/test_sojourns.py: test_no_entry_of_a_known_sojourn_loses_more",
    ),
    "FIXES 1, Lemma": (
        "influence/curve/steps.py: Tilted",
        "influence/test_sojourns.py: test_no_tilted_kernel_has_a_larger_step",
    ),
    "FIXES 2": (
        "influence/curve/engine.py: PartCurve.largest_cost",
        "influence/test_beyond_epsilon.py: test_named_pairs_never_lose_more",
    ),
    "FIXES 4": (
        "noise/opendp_draws.py: choice_cost",
        "mechanisms/test_quantiles.py: test_a_moved_entry_costs_what_the_theorem_says",
    ),
    "FIXES 6a": (
        "influence/curve/graphs.py",
        "influence/test_graph_curve.py: test_no_likelihood_at_all_loses_more",
    ),
    "FIXES 6a, Lemma": (
        "influence/curve/graphs.py: extremes",
        "influence/test_averaging.py: test_some_extreme_function_attains_the_programme",
    ),
    "FIXES 6b, Theorem G": (
        "influence/curve/graphs.py: Rates",
        "influence/test_graph_curve.py: test_drawing_again_bounds_every_product",
    ),
    "FIXES 6b, Lemma F": (
        "influence/curve/graphs.py: Rates",
        "influence/test_graph_curve.py: test_no_climb_leads_above_drawing_again",
    ),
    "constant profile": (
        "mechanisms/influence_curve.py: endless",
        "account/test_going_on.py: test_no_entry_of_a_long_series_loses_more_than_epsilon",
    ),
    "peeling by the exponential mechanism": (
        "account/selection.py: select",
        "account/test_selection.py: test_no_entry_loses_more_than_epsilon",
    ),
    "GK16": (
        "mechanisms/baselines.py: gk16",
        "mechanisms/test_baselines.py: test_gk16_is_private_where_it_applies",
    ),
}


def named_in(source: str) -> list[tuple[str, str]]:
    """The theorems of a file, and the functions and classes that are them."""
    found = []

    def visit(node: ast.AST, place: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
                own = f"{place}.{inner.name}" if place else inner.name
                text = ast.get_docstring(inner) or ""
                found.extend((name.strip(), own) for name in NAME.findall(text))
                visit(inner, own)

    tree = ast.parse(source)
    text = ast.get_docstring(tree) or ""
    found.extend((name.strip(), "") for name in NAME.findall(text))
    visit(tree, "")
    return found


def test_every_theorem_is_found_once_where_the_table_says():
    found: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for name, own in named_in(path.read_text(encoding="utf-8")):
            place = f"{path.relative_to(ROOT)}: {own}" if own else str(path.relative_to(ROOT))
            found.setdefault(name, []).append(place)
    assert not {name: places for name, places in found.items() if len(places) > 1}
    told = {name: places[0] for name, places in found.items()}
    assert told == {name: place for name, (place, _) in THEOREMS.items()}


def test_every_theorem_has_a_test():
    for name, (_, held) in THEOREMS.items():
        file, function = held.split(": ")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in functions, f"{name}: no {function} in {file}"


def test_the_notes_say_where_each_theorem_is():
    page = (TESTS.parent / "notes" / "proofs.md").read_text(encoding="utf-8")
    table = page[page.index("## Where each theorem is") :]
    told = dict(re.findall(r"^\| (.+?) \| `(.+?)` \|$", table, re.MULTILINE))
    assert told == {name: place for name, (place, _) in THEOREMS.items()}
