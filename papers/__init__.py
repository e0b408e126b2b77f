"""Tables and figures of the papers, one function each, with our mechanisms beside theirs.

>>> import papers
>>> result = papers.run("composition-counterexample", quick=True)
>>> result.title
'[C] Theorem 3.4: two releases cost more than twice one'

[Q], [C] and [B] are the papers listed in the documentation. Every result has rows, a note on what
agrees, what cannot be compared and what is added, and a chart (`Result.plot`). The package lies
beside `pufferkit` in the repository and is not installed with it; `python -m papers` lists names.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from papers.result import Chart, Result, Settings
from pufferkit import checks
from pufferkit.influence.progress import NamedProgress

__all__ = ["EXPERIMENTS", "Chart", "Experiment", "Result", "find", "names", "run"]


@dataclass(frozen=True)
class Experiment:
    """One table or figure: where its function is, and whether it reads data."""

    name: str
    shows: str
    home: str
    data: Literal["none", "optional", "needed"] = "none"


EXPERIMENTS = (
    Experiment(
        "quilt-figure-4-upper",
        "[Q] Figure 4, upper row: error against the class of chains",
        "quilt_synthetic:figure_4_upper",
    ),
    Experiment(
        "quilt-figure-4-lower",
        "[Q] Figure 4, lower row: histograms of activity",
        "quilt_data:figure_4_lower",
        "needed",
    ),
    Experiment("quilt-table-1", "[Q] Table 1: errors on activity", "quilt_data:table_1", "needed"),
    Experiment("quilt-table-2", "[Q] Table 2: running times", "quilt_speed:table_2", "optional"),
    Experiment(
        "quilt-table-2-size",
        "[Q] Table 2 at the paper's size: 51 states, a million entries",
        "quilt_speed:paper_size",
    ),
    Experiment(
        "quilt-table-3", "[Q] Table 3: errors on electricity", "quilt_data:table_3", "needed"
    ),
    Experiment(
        "composition-counterexample",
        "[C] Theorem 3.4: two releases cost more than twice one",
        "composition:counterexample",
    ),
    Experiment(
        "composition-distance",
        "[C] 3.1 and 3.3: two windows against their distance",
        "composition:distance",
    ),
    Experiment("composition-year", "[C]: a year of weekly releases", "composition:year"),
    Experiment(
        "local-figure-1", "[B] Figure 1: constraints on the noise", "local_figures:figure_1"
    ),
    Experiment(
        "local-figure-2", "[B] Figure 2: DP broken by correlation", "local_figures:figure_2"
    ),
    Experiment("local-figure-3", "[B] Figure 3: noise against privacy", "local_figures:figure_3"),
    Experiment(
        "local-figure-4",
        "[B] Figure 4: Viterbi and LSTM attackers",
        "local_attacks:figure_4",
        "optional",
    ),
)
"""All experiments, in the order of the papers."""


def names() -> list[str]:
    """Names of all experiments."""
    return [experiment.name for experiment in EXPERIMENTS]


def find(name: str) -> Experiment:
    """The experiment of this name; an error that lists all names if there is none."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    raise ValueError(f"name: {name!r} is not an experiment; known are {', '.join(names())}")


def run(
    name: str,
    *,
    quick: bool = False,
    data: str | Path | None = None,
    seed: int = 0,
    progress: NamedProgress | None = None,
) -> Result:
    """Run one experiment.

    Parameters
    ----------
    name
        One of `names`.
    quick
        Small settings that take a second or two, instead of those of the paper.
    data
        For experiments on measured data: a file, or a folder that holds the files under their
        usual names; see `papers.measured_series`. Others do not look at it.
    seed
        Seed of all draws.
    progress
        Called with the current part, the number of parts done and the number of all parts.
    """
    experiment = find(name)
    seed = checks.whole("seed", seed, 0)
    read = None if data is None or experiment.data == "none" else Path(data)
    settings = Settings(bool(quick), seed, read, progress)
    module, _, function = experiment.home.partition(":")
    work = getattr(import_module(f"papers.{module}"), function)
    result: Result = work(settings)
    return result
