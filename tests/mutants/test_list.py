"""The lists of mutants are about the code as it is, and the areas are there."""

import tomllib
from pathlib import Path

import pytest

from tests.mutants.__main__ import AREAS, ROOT, Verdict, difference, equivalent
from tests.mutants.defects import DEFECTS, changed

ENTRIES = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text())["mutant"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry['file']}: {entry['to']}")
def test_listed_lines_are_lines_of_the_code(entry):
    lines = [line.strip() for line in (ROOT / "pufferkit" / entry["file"]).read_text().splitlines()]
    assert all(line in lines for line in entry["from"].split("\n"))
    assert entry["why"].strip()


@pytest.mark.parametrize("name", AREAS)
def test_areas_have_files_and_tests(name):
    files = [path for glob in AREAS[name].files for path in (ROOT / "pufferkit").glob(glob)]
    assert files
    assert all((ROOT / "tests" / path).exists() for path in AREAS[name].tests)


def test_a_survivor_is_known_by_its_lines():
    head = "--- pufferkit/noise.py\n+++ pufferkit/noise.py\n@@ -1,2 +1,2 @@\n"
    diff = f"{head}     k\n-    a = 1\n+    a = 2"
    assert difference(diff) == "pufferkit/noise.py\n- a = 1\n+ a = 2"
    assert len(equivalent()) == len(ENTRIES)


def test_the_interval_is_wilsons():
    low, high = Verdict("x", 500, 100, 90).interval
    assert (low, high) == pytest.approx((0.8256, 0.9448), abs=1e-3)
    assert Verdict("x", 100, 100, 90).interval == (0.9, 0.9)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect["name"])
def test_defects_can_be_put_back(defect):
    for path, text in changed(defect, ROOT / "pufferkit").items():
        compile(text, str(path), "exec")
    file, _, name = defect["test"].partition("::")
    lines = (ROOT / "tests" / file).read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith(f"def {name}("))
    marks = []
    while place and lines[place - 1].startswith("@"):
        place -= 1
        marks.append(lines[place])
    assert not any(mark.startswith("@pytest.mark.slow") for mark in marks)  # a quick test
