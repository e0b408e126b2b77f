"""Optional parts may be missing on a user's machine, never where they are required."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(("required", "code"), [("", 0), ("torch", 0), ("torch no_such_part", 1)])
def test_a_required_part_is_not_skipped(tmp_path, required, code):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_part.py").write_text(
        "import pytest\n\n\ndef test_part():\n    pytest.importorskip('no_such_part.inside')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PUFFERKIT_REQUIRE": required},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert ("1 skipped" in done.stdout) == (code == 0)
    assert ("PUFFERKIT_REQUIRE names no_such_part" in done.stdout) == (code == 1)


def test_ci_requires_torch_and_make_does_not_pull_it():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "torch==2.13.0" in ci
    assert "PUFFERKIT_REQUIRE" in ci
    extras = re.findall(r"\.\[(.*?)\]", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert extras
    assert not any("torch" in extra for extra in extras)


def test_ci_runs_the_readme_s_tests_and_the_slow_ones():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\nmake test test-all\n" in ci
    assert '-m "not slow"' in makefile
    assert "\ntest-all: test\n" in makefile
