"""Mutation testing by mutmut, area by area: ``python -m tests.mutants [area ...] [--all]``.

Each area is copied to ``.mutants/``, where mutmut changes one operator, number, argument or value
at a time and runs the tests of that room. A run takes a sample of each area, always the same one,
and gives the share that was killed with its 95% interval; ``--all`` takes every mutant, for hours.

Not mutated: the words of errors (statements that begin with ``raise``), and what mutmut leaves
alone, namely properties and memoised functions. Compiled functions are mutated as plain Python.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".mutants"
ENOUGH = 0.85
TIMED_OUT = {-24, -14, -9, 24, 36, 152, 255}
KILLED = {1, 3} | TIMED_OUT


@dataclass(frozen=True)
class Area:
    """Files to mutate, the tests that should notice, and those of them that take too long."""

    files: Sequence[str]
    tests: Sequence[str]
    slow: str = ""


AREAS = {
    "rounding": Area(["rounding.py"], ["test_rounding.py"]),
    "sums": Area(
        [
            f"influence/sums/{name}.py"
            for name in (
                "lattice",
                "chain_sums",
                "network_sums",
                "least_scale",
            )
        ],
        [
            "influence/test_transport.py",
            "influence/test_sums.py",
            "influence/test_network_sums.py",
            "mechanisms/test_exact_sum.py",
            "mechanisms/test_wasserstein.py",
        ],
        "2000_entries or both_ways or reference_chains or stationary_binary or plans_show "
        "or never_below_the_truth or too_long or grid_of_the_noise or as_far_apart or decimal "
        "or lost_numbers or rare_states or takes_the_larger or mean_is_total or rational_values",
    ),
    "quilts": Area(
        ["influence/quilts/*.py"],
        [
            "influence/test_influence.py",
            "influence/test_network_influence.py",
            "influence/test_quilts.py",
            "mechanisms/test_markov_quilt.py",
            "mechanisms/test_markov_quilt_approx.py",
        ],
        "moderately_long or few_nodes_are_solved or search_looks_at_few or longer_chain "
        "or released or loses_at_most or scan or underflow or screening or supremum "
        "or finite_class or several "
        "or more_epsilon or larger_class or longer_series or never_means or lies_between or tiny "
        "or huge or search_finds_the_best or large_networks",
    ),
    "curve": Area(
        ["influence/curve/*.py"],
        [
            "influence/test_engine.py",
            "influence/test_influence_curve.py",
            "influence/test_influence_curve_bounds.py",
            "influence/test_pairs.py",
            "influence/test_region.py",
            "influence/test_steps.py",
            "influence/test_tree_curve.py",
        ],
        "four_hundred or stretches or more_spent_or_more_entries or what_is_solved_for "
        "or random_runs or everything_that_was_spent or binary_interval or two_hundred_states "
        "or thousands_of_nodes or a_long_way_from_the_start or json_both_ways "
        "or never_less_noise_than_for_a_member",
    ),
    "noise": Area(
        ["noise/*.py"],
        [
            "noise/test_exact_laplace.py",
            "noise/test_forks.py",
            "noise/test_noise.py",
            "noise/test_noise_exact.py",
        ],
    ),
    "composition": Area(
        ["account/theorems.py", "account/spending.py"],
        ["account/test_composition.py", "account/test_composition_rules.py"],
        "year_of_weekly or three_randomised or never_below_entry_by_entry or meet_in_the_gap",
    ),
    "ledger": Area(
        [f"account/{name}.py" for name in ("amounts", "chain", "ledger", "marks", "pay")],
        [
            "account/test_ledger.py",
            "account/test_ledger_bulk.py",
            "account/test_ledger_faults.py",
            "account/test_ledger_places.py",
            "account/test_recognition.py",
        ],
        # Tables are read by threads, which a fork of mutmut leaves behind.
        "processes or killed or postgresql or table_under_other_names or one_subject_of_many "
        "or middle_of_a_table or short_series_that_happen",
    ),
    "local": Area(
        ["local/losses.py", "local/sides.py"],
        ["local/test_local_loss.py"],
        "extremes or rates2 or limit_is_reached or compiled_recursion or seven_entries",
    ),
}


@dataclass
class Verdict:
    """What became of the mutants of one area."""

    area: str
    mutants: int
    tried: int = 0
    killed: int = 0
    survivors: list[str] = field(default_factory=list)

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the share killed (Wilson); the share itself where all were tried."""
        n, share, z = self.tried, self.killed / self.tried, 1.96
        if n == self.mutants:
            return share, share
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return middle - half, middle + half


def prepared(name: str, area: Area) -> Path:
    """A copy of package and tests for mutmut to work in."""
    place = PLACE / name
    shutil.rmtree(place, ignore_errors=True)
    skip = shutil.ignore_patterns("__pycache__")
    for folder in ("pufferkit", "tests"):
        shutil.copytree(ROOT / folder, place / folder, ignore=skip)
    for path in (place / "pufferkit").rglob("*.py"):
        source = path.read_text()
        if "@njit" in source:  # mutmut passes over decorated functions
            path.write_text(source.replace("@njit(cache=True)\n", ""))
    files = [f"pufferkit/{pattern}" for pattern in area.files]
    tests = [f"tests/{path}" for path in area.tests if (place / "tests" / path).exists()]
    options = ["-p", "tests.mutants.quick_tests", "-p", "no:cacheprovider"]
    if area.slow:
        options += ["-k", f"not ({area.slow})"]
    settings = f"""
[tool.mutmut]
source_paths = ["pufferkit"]
only_mutate = {json.dumps(files)}
do_not_mutate_patterns = ['^\\s*raise ']
pytest_add_cli_args = {json.dumps(options)}
pytest_add_cli_args_test_selection = {json.dumps(tests)}
timeout_constant = 60.0
track_dependencies = false
use_git_change_detection = false
"""
    (place / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + settings)
    return place


def mutants_of(files: Sequence[Path]) -> list[str]:
    """Write the mutants of these files where mutmut looks for them; their names."""
    from mutmut.__main__ import create_mutants_for_file

    names: list[str] = []
    for path in files:
        target = Path("mutants", path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if error := create_mutants_for_file(path, target).error:
            raise error
        names += codes_of(path)
    return names


def codes_of(path: Path) -> dict[str, int | None]:
    """What the tests said of each mutant of a file."""
    codes: dict[str, int | None] = json.loads(Path("mutants", f"{path}.meta").read_text())[
        "exit_code_by_key"
    ]
    return codes


def verdict_on(name: str, sample: int | None) -> Verdict:
    """Run mutmut on one area."""
    from mutmut.configuration import reset_config
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    area = AREAS[name]
    with contextlib.chdir(prepared(name, area)):
        reset_config()
        files = sorted(path for pattern in area.files for path in Path("pufferkit").glob(pattern))
        names = mutants_of(files)
        chosen = names
        if sample is not None and sample < len(names):
            chosen = sorted(random.Random(name).sample(names, sample))
        # Results are read from mutmut's files; its log is for whoever looks into one.
        with Path("log").open("w") as log:
            run = subprocess.run(
                [Path(sys.executable).with_name("mutmut"), "run", "--max-children", "1", *chosen],
                env=os.environ | {"HYPOTHESIS_PROFILE": "mutants", "NUMBA_DISABLE_JIT": "1"},
                stdout=log,
                stderr=log,
                check=False,
            )
        if run.returncode:
            raise SystemExit(f"mutmut failed on {name}; its last words:\n{last_words('log')}")
        verdict = Verdict(name, len(names))
        for path in files:
            codes = codes_of(path)
            for mutant in sorted(set(chosen) & set(codes)):
                verdict.tried += 1
                if codes[mutant] in KILLED:
                    verdict.killed += 1
                else:
                    verdict.survivors.append(difference(get_diff_for_mutant(mutant, path=path)))
    return verdict


def last_words(path: str) -> str:
    return Path(path).read_text(errors="replace")[-2000:]


def difference(diff: str) -> str:
    """The file and the changed lines of a diff, without what stands around them."""
    lines = diff.splitlines()
    changed = [f"{line[0]} {line[1:].strip()}" for line in lines[3:] if line[:1] in ("-", "+")]
    return "\n".join([lines[0].removeprefix("--- "), *changed])


def equivalent() -> dict[str, str]:
    """Known mutants that change nothing a test could see, with the reason."""
    entries = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text())["mutant"]
    return {
        "\n".join([f"pufferkit/{e['file']}", *(f"- {x}" for x in e["from"].split("\n")),
                   *(f"+ {x}" for x in e["to"].split("\n"))]): e["why"]
        for e in entries
    }  # fmt: skip


def report(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A table of the areas, then the survivors that nobody has explained."""
    known = equivalent()
    yield "| area | mutants | tried | killed | 95% interval | equivalent | unexplained |"
    yield "|---|---|---|---|---|---|---|"
    for v in verdicts:
        low, high = v.interval
        explained = sum(difference in known for difference in v.survivors)
        yield (
            f"| {v.area} | {v.mutants} | {v.tried} | {v.killed} = {v.killed / v.tried:.1%} | "
            f"{low:.1%} to {high:.1%} | {explained} | {len(v.survivors) - explained} |"
        )
    for v in verdicts:
        for difference in v.survivors:
            if difference not in known:
                yield f"\n{difference}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("areas", nargs="*", metavar="area", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--all", action="store_true", help="every mutant instead of a sample")
    parser.add_argument("--sample", type=int, default=100, help="mutants tried in each area")
    options = parser.parse_args()
    if unknown := set(options.areas) - set(AREAS):
        parser.error(f"no area {', '.join(sorted(unknown))}; there are {', '.join(AREAS)}")
    verdicts = []
    for area in options.areas or AREAS:
        print(f"{area} ...", file=sys.stderr, flush=True)
        verdicts.append(verdict_on(area, None if options.all else options.sample))
    print("\n".join(report(verdicts)))
    return int(any(v.killed < ENOUGH * v.tried for v in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
