"""Every public name has an example, and pytest runs the examples of docstrings.

A function or class of `pufferkit` has one of its own. A method of a class that people meet is used
in an example of that class, or has its own.
"""

import inspect

import pytest

import pufferkit as pk

NAMES = [name for name in pk.__all__ if not name.startswith("__")]

FOR_THE_PACKAGE = {
    "BayesianNetwork": {"from_pgmpy", "table"},
    "Bins": {"from_file", "named", "level"},
    "Calendar": {"days", "instants", "times", "weeks", "window"},
    "Calibration": {"checked", "chosen_place", "noisy"},
    "ChainClass": {
        *("boxes", "check_length", "corners", "distributions", "every_secret", "from_plain"),
        *("known_members", "matrices_shown", "members", "mixing_bounds", "nearest", "parts"),
    },
    "Evidence": {"noting"},
    "Guarantee": {"of_code"},
    "InfluenceCurve": {"binding", "largest_cost", "rows", "solve"},
    "Ledger": {
        *("charge_many", "check_data", "make_anchor", "look", "beliefs", "change_terms"),
    },
    "Plan": {"cells"},
    "Query": {"closest"},
    "Question": {"like", "one_entry", "ordered", "over_numbers"},
    "MarkovChain": {"limit_distance", "limit_distribution"},
    "RegimeClass": {"from_plain", "parts", "matrices_shown", "replace", "representatives"},
    "Release": {"asked_again", "cost"},
    "Releases": {"columns", "follows", "row"},
    "Secrets": {"attached"},
    "Series": {"as_segments"},
    "Spending": {"ordered"},
    "Table": {"codes_of", "lengths_between", "lengths_of"},
}
"""Methods that other rooms call, or that need what is not installed."""

EVERYWHERE = {"caption", "from_dict", "remarks", "shown_rows", "table_rows", "to_dict"} | {
    *("statements", "text_table", "warnings"),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example(name):
    assert ">>>" in (getattr(pk, name).__doc__ or "")


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isclass(getattr(pk, name))])
def test_every_method_is_used_in_an_example(name):
    kind = getattr(pk, name)
    methods = {
        method: getattr(given, "__func__", given).__doc__ or ""
        for method, given in vars(kind).items()
        if not method.startswith("_") and inspect.isfunction(getattr(given, "__func__", given))
    }
    examples = "\n".join(
        line
        for text in (kind.__doc__ or "", *methods.values())
        for line in text.splitlines()
        if line.strip().startswith((">>>", "..."))
    )
    others = EVERYWHERE | FOR_THE_PACKAGE.get(name, set())
    assert not [
        method for method in methods if f".{method}(" not in examples and method not in others
    ]
