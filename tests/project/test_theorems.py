"""Every theorem that is used stands in the package once, and a test holds it by brute force.

A docstring that says ``Theorem: [Q] Lemma 4.6`` belongs to the function, class or module that is
this theorem (`docs/theorems.py` finds them, and makes a page of the site of them). The table names
the test that compares each with the definition.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"

THEOREMS = {
    "[Q] (5)": "influence/test_influence.py: test_influence_is_that_of_the_definition",
    "[Q] Algorithm 2": (
        "influence/test_network_influence.py: test_the_search_finds_the_best_of_all_quilts"
    ),
    "[Q] Algorithm 3": "mechanisms/test_markov_quilt.py: test_the_scan_agrees_with_the_definition",
    "[Q] Algorithm 4": (
        "mechanisms/test_markov_quilt_approx.py: test_released_count_loses_at_most_epsilon"
    ),
    "[Q] Definition 2.1": (
        "mechanisms/test_attribute_secrets.py: test_exact_sum_is_the_least_noise_by_definition"
    ),
    "[Q] Definition 2.3": (
        "fitting/test_close_adversaries.py: test_chains_by_max_plus_equal_listing_all_paths"
    ),
    "[Q] Definition 3.1": (
        "influence/test_transport.py: test_equals_the_linear_programme_on_tie_heavy_distributions"
    ),
    "[Q] Definition 4.1": "influence/test_influence.py: test_influence_is_that_of_the_definition",
    "[Q] Lemma 4.6": "mechanisms/test_markov_quilt.py: test_search_finds_the_best_of_all_quilts",
    "[Q] Lemma C.1": "mechanisms/test_markov_quilt_approx.py: test_bounds_hold_for_every_quilt",
    "[Q] Lemma C.4": "influence/test_quilts.py: test_the_hardest_node_by_bisection",
    "[Q] Theorem 2.4": (
        "fitting/test_close_adversaries.py: test_chains_by_max_plus_equal_listing_all_paths"
    ),
    "[Q] Theorem 3.2": (
        "mechanisms/test_wasserstein.py: "
        "test_never_below_the_truth_and_exact_where_fractions_decide"
    ),
    "[Q] Theorem 4.3": "influence/test_network_influence.py: test_the_noise_hides_every_node",
    "[Q] Theorem 4.4": (
        "account/test_composition.py: "
        "test_unequal_quilt_releases_add_up_where_theorem_4_4_takes_the_largest"
    ),
    "[C] Theorem 3.1": (
        "account/test_composition.py: "
        "test_parallel_is_never_below_the_loss_of_three_randomised_responses"
    ),
    "[C] Theorem 3.3": (
        "account/test_composition.py: test_far_windows_cost_the_larger_epsilon_theorem_3_3"
    ),
    "[C] Theorem 3.6": (
        "account/test_composition_rules.py: test_bounded_dependence_is_the_sum_and_twice_the_bound"
    ),
    "[C] Theorem 3.7": (
        "account/test_composition.py: test_quilt_releases_over_one_chain_add_up_theorem_3_7"
    ),
    "[B] Corollary 1": "local/test_least_noise.py: test_nothing_on_a_grid_is_private_and_cheaper",
    "[B] Definition 4": "local/test_local_loss.py: test_recursion_is_the_definition",
    "[B] Theorem 1": "local/test_local_loss.py: test_the_limit_is_reached",
    "PAIRS Theorem 1": "influence/test_pairs.py: test_steps_are_the_optimum_of_the_programme",
    "PAIRS Theorem 2": (
        "influence/test_engine.py: test_losses_are_never_below_a_release_nor_above_everything"
    ),
    "PAIRS Theorem 3": "mechanisms/test_exact_sum.py: test_the_least_scale_by_the_definition",
    "PAIRS Theorem 4": "mechanisms/test_exact_sum.py: test_the_least_scale_by_the_definition",
    "PAIRS Theorem 5": (
        "influence/test_engine.py: test_no_start_has_a_larger_step_and_some_start_has_it"
    ),
    "PAIRS Theorem 7": (
        "account/test_going_on.py: test_no_entry_of_a_long_series_loses_more_than_epsilon"
    ),
    "CLASSES Lemma 3": "influence/test_pairs.py: test_losses_cover_every_path",
    "CLASSES Theorem 0": (
        "fitting/test_measured_influence.py: "
        "test_no_laplace_noise_loses_less_than_the_influence_budgets"
    ),
    "CLASSES Theorem 10": (
        "fitting/test_row_coverage.py: test_a_new_person_is_covered_as_often_as_promised"
    ),
    "CLASSES Theorem 4": (
        "influence/test_region.py: test_no_chain_of_the_region_loses_more_than_promised"
    ),
    "ENGINE Lemma D": (
        "fitting/test_measured_influence.py: "
        "test_the_lower_limit_holds_in_nineteen_of_twenty_series"
    ),
    "ENGINE Proposition B": (
        "influence/test_kernel_curve.py: test_no_output_loses_more_than_the_bound"
    ),
    "ENGINE Theorem A": "influence/test_pairs.py: test_a_hull_covers_kernels_that_change",
    "ENGINE Theorem C": (
        "influence/test_kernel_curve.py: test_contaminated_rows_against_all_places_of_the_weight"
    ),
    "FIXES 1, Lemma 1": (
        "influence/test_sojourns.py: test_no_series_beside_known_regimes_loses_more_than_promised"
    ),
    "FIXES 1, Lemma 2": "influence/test_sojourns.py: test_no_tilted_kernel_has_a_larger_step",
    "FIXES 1, Theorem 1": "influence/test_sojourns.py: test_no_entry_of_a_known_sojourn_loses_more",
    "FIXES 2": "influence/test_beyond_epsilon.py: test_named_pairs_never_lose_more",
    "FIXES 3": "mechanisms/test_exact_distributions.py: test_days_lose_epsilon_by_definition",
    "FIXES 4": "mechanisms/test_quantiles.py: test_a_moved_entry_costs_what_the_theorem_says",
    "FIXES 6a": "influence/test_graph_curve.py: test_no_likelihood_at_all_loses_more",
    "FIXES 6a, Lemma": (
        "influence/test_averaging.py: test_some_extreme_function_attains_the_programme"
    ),
    "FIXES 6b, Lemma F": "influence/test_graph_curve.py: test_no_climb_leads_above_drawing_again",
    "FIXES 6b, Theorem G": "influence/test_graph_curve.py: test_drawing_again_bounds_every_product",
    "SHAPE 4b": (
        "mechanisms/test_shaped.py: test_no_history_with_shaped_noise_loses_more_than_is_charged"
    ),
    "SHAPE Theorem S": "influence/test_shape_s.py: test_no_output_tells_more_than_theorem_s",
    "SHAPE Theorem W": "influence/test_shape_s.py: test_no_output_tells_more_than_theorem_w",
    "GK16": "mechanisms/test_baselines.py: test_gk16_is_private_where_it_applies",
    "W-infinity of vectors": (
        "mechanisms/test_wasserstein_vectors.py: test_the_distance_is_the_definition"
    ),
    "peeling by the exponential mechanism": (
        "account/test_selection.py: test_no_entry_loses_more_than_epsilon"
    ),
    "quilts around a block": (
        "influence/test_events.py: test_quilts_around_several_entries_keep_the_promise"
    ),
    "quilts over gaps": "mechanisms/test_gaps.py: "
    "test_every_entry_is_hidden_whether_it_was_observed_or_not",
}


def finder():
    spec = importlib.util.spec_from_file_location("docs_theorems", DOCS / "theorems.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_theorem_of_the_table_is_found_once_and_no_other():
    assert Counter(one.name for one in finder().theorems()) == dict.fromkeys(THEOREMS, 1)


def test_places_are_lines_of_files():
    for one in finder().theorems():
        lines = (finder().ROOT / one.file).read_text(encoding="utf-8").split("\n")
        assert f"Theorem: {one.name}" in lines[one.line - 1]
        assert one.statement.startswith(f"Theorem: {one.name}")


def test_every_theorem_has_a_test():
    for name, held in THEOREMS.items():
        file, function = held.split(": ")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in functions, f"{name}: no {function} in {file}"


def test_the_page_of_theory_links_to_theorems_that_are_there():
    text = (DOCS / "theory.md").read_text(encoding="utf-8")
    anchors = re.findall(r"\(reference/theorems\.md#([^)]+)\)", text)
    there = {re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-") for name in THEOREMS}
    assert len(anchors) >= 12
    assert set(anchors) <= there
