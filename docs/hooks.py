"""What the pages take from the package itself when the site is built.

Every page that computes is run (`running`), and what its blocks print and draw stands below them;
``<!-- picture: name -->`` becomes a picture of `pictures`. The reference of all public names and
the help of every command are generated, so none of it can be forgotten or go stale. Formulas are
set by MathJax, which goes along.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import building  # noqa: E402
import theorems  # noqa: E402

Page = tuple[str, str, tuple[str, ...]]
REFERENCE: dict[str, Page] = {
    "release": (
        "Release and verify",
        "The one act, what comes out of it, and the check that needs no trust.",
        ("release", "Release", "verify", "Verdict"),
    ),
    "plan": (
        "Plans",
        "How much noise each mechanism would add, and what that means.",
        ("plan", "Plan", "Usefulness", "epsilon_for", "Target", "remedies", "explain"),
    ),
    "mechanisms": (
        "Mechanisms",
        "From beliefs, a query and epsilon to a scale of noise.",
        (
            *("influence_curve", "markov_quilt", "markov_quilt_approx", "exact_sum"),
            *("wasserstein", "gk16", "group_dp", "entry_dp", "entry_epsilon"),
        ),
    ),
    "calibrations": (
        "Calibrations",
        "A scale of noise, what decided it, and what it promises.",
        ("Calibration", "Evidence", "Guarantee", "InfluenceCurve"),
    ),
    "distances": (
        "Influence and distances",
        "The measures behind the mechanisms.",
        (
            *("max_influence", "w_infinity", "active_quilts", "ActiveQuilts"),
            *("PairTable", "posterior"),
        ),
    ),
    "fitting": (
        "Beliefs from data",
        "Fit beliefs to public data, and let other data refute them.",
        (
            *("fit", "choose_beliefs", "check_model", "measured_influence"),
            *("private_transitions", "closeness", "max_divergence"),
        ),
    ),
    "chains": (
        "Chains and regimes",
        "What an adversary may know of how entries follow one another.",
        ("MarkovChain", "RegimeClass"),
    ),
    "classes": ("Classes of chains", "Several chains at once.", ("ChainClass",)),
    "graphs": (
        "Networks",
        "Entries that influence one another in other ways than in time.",
        ("BayesianNetwork", "MarkovRandomField"),
    ),
    "secrets": (
        "Secrets and joint tables",
        "What is hidden beside single entries; a distribution written out in full.",
        ("Secrets", "FiniteJoint"),
    ),
    "data": (
        "Series and files",
        "Entries of one subject, and the one reader.",
        ("read", "TextFormat", "Series", "Bins"),
    ),
    "tables": ("Tables and clocks", "Many subjects, and times.", ("Table", "Calendar")),
    "questions": (
        "Questions",
        "What can be asked of data.",
        (
            *("count", "histogram", "relative_frequencies", "total", "mean", "variance"),
            *("transition_counts", "episodes", "stays"),
        ),
    ),
    "more-questions": (
        "Times, quantiles and what follows",
        "Questions with a clock, quantiles, and what is computed from a release at no cost.",
        (
            *("by_time", "time_in", "days_with", "quantile", "plan_quantile", "QuantilePlan"),
            *("Derived", "synthetic"),
        ),
    ),
    "own-questions": (
        "Your own questions",
        "Weighted sums, any function, and the query that both give.",
        ("linear", "per_entry", "Query"),
    ),
    "accounts": (
        "Accounts",
        "What releases cost together, and the account of what was spent.",
        ("Account", "Spending", "compose", "dependence"),
    ),
    "ledger": ("Ledger", "The record of all spending.", ("Ledger",)),
    "many": (
        "Many answers",
        "Releases for many subjects, several questions at once, and choices.",
        ("Releases", "select", "Selection"),
    ),
    "local": (
        "Local privacy",
        "`pufferkit.local`: randomised response, where entries arise.",
        ("cheapest_noise", "loss", "Loss", "sanitize", "estimate", "Estimates"),
    ),
    "local-responses": (
        "Local mechanisms",
        "`pufferkit.local`: what each entry is answered with.",
        (
            *("RandomizedResponse", "KaryResponse", "MatrixResponse", "CorrelatedResponse"),
            *("XorChain", "correlated_noise_rows", "constraint_planes", "tanh_bound"),
            "mechanism_from_json",
        ),
    ),
    "audit": (
        "Audit",
        "`pufferkit.audit`: measured against promised privacy.",
        ("audit", "Audit", "exact_loss", "worst_case", "WorstCase", "success_bound"),
    ),
    "attackers": (
        "Attackers",
        "`pufferkit.audit`: who attacks, and what their success proves.",
        (
            *("Attacker", "SingleBit", "Viterbi", "ForwardBackward", "trained_attack"),
            *("TrainedAttack", "LocalMechanism", "prior_odds", "proven_epsilon"),
            *("clopper_pearson", "charged_epsilon"),
        ),
    ),
}
"""Pages of the reference: title, sentence, and names in the order of reading."""

REST: Page = ("Errors and the rest", "Errors to tell apart, and public names of no other page.", ())
"""The page of every public name that the others do not list."""

PUBLIC = ("pufferkit", "pufferkit.local", "pufferkit.audit")
"""Modules whose ``__all__`` is public."""

MOST_LINES = 380
"""Of help on one page: ten screens have some 500."""


def public_names() -> dict[str, str]:
    """Full path of every public name, and the page that shows it."""
    places = {name: page for page, (_, _, names) in REFERENCE.items() for name in names}
    paths = {}
    for public in PUBLIC:
        if find_spec(public) is None:
            continue
        module = import_module(public)
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, str):  # the version
                continue
            home = getattr(thing, "__module__", None) or public
            if getattr(thing, "__name__", None) != name:
                home = public  # a constant
            paths[f"{home}.{name}"] = places.get(name, "more")
    return paths


def reference() -> dict[str, str]:
    """The pages of the reference, by their names."""
    pages = {}
    for page, (title, sentence, names) in {**REFERENCE, "more": REST}.items():
        order = {name: place for place, name in enumerate(names)}
        paths = [path for path, where in public_names().items() if where == page]
        paths.sort(key=lambda path: order.get(path.rpartition(".")[2], len(order)))
        if paths:
            blocks = "\n\n".join(f"::: {path}" for path in paths)
            pages[page] = f"# {title}\n\n{sentence}\n\n{blocks}\n"
    return {**pages, "theorems": theorems.page()}


def command_pages() -> dict[str, str]:
    """The help of every command, on pages of at most so many lines."""
    pages: list[list[str]] = []
    lines = MOST_LINES
    for text in commands():
        lines += text.count("\n")
        if lines > MOST_LINES:
            pages.append([])
            lines = text.count("\n")
        pages[-1].append(text)
    named = {}
    for texts in pages:
        ends = [text.partition("\n")[0].removeprefix("## ") for text in (texts[0], texts[-1])]
        first, last = (end.removeprefix("pufferkit ") for end in ends)
        title = f"Commands: {first}" + (f" to {last}" if last != first else "")
        named[f"commands-{len(named) + 1}"] = f"# {title}\n\n" + "\n\n".join(texts) + "\n"
    return named


def commands() -> list[str]:
    """The help of every command, as the terminal shows it."""
    from typer.main import get_command  # noqa: PLC0415

    from pufferkit.cli import app  # noqa: PLC0415

    return [
        f"## {name}\n\n```text\n{command.get_help(context)}\n```"
        for name, command, context in _walk("pufferkit", get_command(app), None)
    ]


def _walk(name: str, command: Any, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    context = command.make_context(
        name.rpartition(" ")[2], [], parent=parent, resilient_parsing=True
    )
    yield name, command, context
    for child in getattr(command, "commands", {}):
        yield from _walk(f"{name} {child}", command.commands[child], context)


def on_pre_build(**_: Any) -> None:
    """Called by mkdocs before anything else: run all pages whose outputs are not kept yet."""
    building.run_all()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return building.with_outputs(markdown, page.file.src_uri.removesuffix(".md"))


def on_config(config: Any, **_: Any) -> Any:
    """Called by mkdocs first: the generated pages of the reference stand in its menu."""
    pages = [f"reference/{name}.md" for name in (*command_pages(), *reference())]
    config.nav.append({"Reference": pages})
    return config


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Called by mkdocs when it has listed the pages: those of the reference are generated."""
    from mkdocs.structure.files import File  # noqa: PLC0415

    for name, text in {**command_pages(), **reference()}.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


MATHJAX = "assets/mathjax/tex-svg.js"
"""One file: the letters are curves in it, so that no fonts go along."""


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page, as HTML: MathJax where there are formulas."""
    if 'class="arithmatex"' not in output:
        return output
    up = "../" * page.url.count("/")
    # Only what arithmatex marked is a formula; a dollar in a printed output is none.
    set_up = (
        'MathJax = {options: {ignoreHtmlClass: ".*", processHtmlClass: "arithmatex", '
        'enableMenu: false}, svg: {fontCache: "local"}};'
    )
    scripts = f'<script>{set_up}</script><script defer src="{up}{MATHJAX}"></script>'
    return output.replace("</head>", f"{scripts}</head>", 1)


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs at the end: MathJax and its licence, which is that of this project too."""
    place = Path(config["site_dir"]) / MATHJAX
    place.parent.mkdir(parents=True, exist_ok=True)
    package = distribution("sphinx-mathjax-offline")
    source = package.locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg.js")
    shutil.copyfile(str(source), place)
    notice = "MathJax 3, copyright The MathJax Consortium, under the Apache License 2.0:\n\n"
    licence = (HERE.parent / "LICENSE").read_text(encoding="utf-8")
    (place.parent / "LICENSE").write_text(notice + licence, encoding="utf-8")
