"""Loops run plain or compiled, give the same numbers, and work where nothing can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching

import pufferkit
from pufferkit import compiling
from pufferkit.compiling import compiled_loop
from pufferkit.influence.sums import chain_sums, lattice

MODEL = Path(pufferkit.__file__).parents[1] / "examples" / "activity_model.json"
HEAVY = {"numba", "scipy", "polars", "narwhals", "networkx", "opt_einsum", "opendp", "sqlite3"}
HEAVY |= {"rich", "matplotlib", "pandas", "torch"}


@compiled_loop
def added(a, b):
    return a + b


@compiled_loop
def added_twice(a, b):
    return added(added(a, b), b)


def test_a_read_only_package_in_a_read_only_home(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled_loop(added.__wrapped__)(2, 3) == 5


def test_kept_on_disk_where_that_can_be_written():
    assert added.compiled.stats.cache_path


def test_what_an_earlier_process_compiled_is_known(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not compiled_loop(added.__wrapped__).is_kept
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    compiled_loop(added.__wrapped__)(2, 3)
    assert compiled_loop(added.__wrapped__).is_kept


def test_loops_call_loops_of_their_own_kind(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", np.inf)
    assert added_twice.plain(1, 2) == added_twice(1, 2) == added_twice.metered(1, 2) == 5
    assert not hasattr(added_twice.plain, "signatures")
    assert hasattr(added_twice.compiled, "signatures")


def test_work_waits_for_plain_python_or_for_the_compiler(monkeypatch):
    monkeypatch.setattr(compiling, "FIRST", 12)
    loop = compiled_loop(added.__wrapped__)
    loop.is_kept = False
    first, later = 12 * compiling.LOADING, compiling.LOADING
    assert (loop.wait(0.1), loop.wait(100.0)) == (0.1, first)
    loop.is_kept = True
    assert (loop.wait(0.1), loop.wait(100.0)) == (0.1, later)
    loop.compiled = added.__wrapped__
    assert loop.wait(100.0) == 0


def test_plain_python_ends_where_the_patience_does(monkeypatch):
    monkeypatch.setattr(compiling.Loop, "compiled", "never")
    loop = compiled_loop(added.__wrapped__)
    few, many = np.ones(3), np.ones(compiling.LITTLE)
    monkeypatch.setattr(compiling, "_spent", {})
    monkeypatch.setattr(compiling, "FIRST", 12)
    loop.is_kept = False
    assert loop.metered(few, few).tolist() == [2, 2, 2]
    with pytest.raises(TypeError):
        loop.metered(many, many)
    loop.patient(2 * compiling.PATIENCE)
    assert loop.metered(few, few).tolist() == [2, 2, 2]  # never compiled before: waits longer
    loop.expect(9 * compiling.PATIENCE)
    assert loop.patient()
    loop.expect(11 * compiling.PATIENCE)
    assert not loop.patient()
    monkeypatch.setattr(compiling, "_spent", {loop.__module__: 2 * compiling.PATIENCE})
    loop.is_kept = True
    with pytest.raises(TypeError):
        loop.metered(few, few)


@pytest.mark.parametrize("halving", [True, False])
@pytest.mark.parametrize("length", [5, 40, 70])
def test_distances_of_sums_plain_and_compiled(length, halving, monkeypatch):
    transition = np.random.default_rng(length).dirichlet(np.ones(3), size=3)
    monkeypatch.setattr(chain_sums, "fits_floats", lambda *_: False)
    monkeypatch.setattr(chain_sums, "_by_halving", lambda *_: halving)
    results = []
    for patience in (np.inf, -np.inf):  # always plain, always compiled
        monkeypatch.setattr(compiling, "PATIENCE", patience)
        for loop in vars(lattice).values():
            vars(loop).pop("compiled", None) if isinstance(loop, compiling.Loop) else None
        summed = chain_sums.SummedChain(np.full(3, 1 / 3), transition, np.array([0, 1, 2]), length)
        joint = [
            (rows.numbers.tobytes(), rows.exponents.tobytes())
            for _, rows in summed.of_labels(chain_sums.WindowLabels.values(3)).each()
        ]
        results.append((joint, summed.of_values().in_floats()))
    assert results[0] == results[1]


def loaded_after(*arguments):
    """Top-level packages in a fresh process after a command."""
    code = (
        "import sys; from pufferkit.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "query", [[], ["--query", "frequencies"], ["--query", "count", "--state-value", "walking"]]
)
def test_a_plan_loads_only_what_it_uses(query):
    loaded = loaded_after(
        "plan", "--model", str(MODEL), "--epsilon", "1", "--length", "2016", *query
    )
    assert "numpy" in loaded
    assert not loaded & HEAVY


@pytest.mark.slow
@pytest.mark.parametrize("start", [[1, 0, 0], [0.2, 0.3, 0.5]])
def test_a_first_plan_from_a_fixed_start_compiles_nothing(start, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "empty"))
    transition = [[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]]
    chain = pufferkit.MarkovChain(start, transition, states=("sit", "walk", "run"))
    (tmp_path / "model.json").write_text(chain.to_json())
    model = ["--model", str(tmp_path / "model.json")]
    assert not loaded_after("plan", *model, "--epsilon", "1", "--length", "200") & HEAVY


def test_a_verification_loads_only_what_it_uses(tmp_path):
    model = pufferkit.MarkovChain.from_json(MODEL.read_text())
    query = pufferkit.count(model.states[0], 50)
    series = pufferkit.Series.of([model.states[0]] * 50, model.states)
    release = pufferkit.influence_curve(model, query, 1).release(series)
    (tmp_path / "release.json").write_text(release.to_json())
    assert not loaded_after("verify", str(tmp_path / "release.json")) & HEAVY


def test_help_loads_nothing_heavy():
    assert not loaded_after("--help") & HEAVY


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_user_who_can_write_nowhere(tmp_path):
    """The package belongs to somebody else, and the home directory is read-only."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    code = (
        "from pufferkit.influence.sums.lattice import Masses\n"
        "import numpy as np, pufferkit.compiling as compiling\n"
        "compiling.PATIENCE = -1\n"
        "print(np.exp(Masses(np.ones((1, 32)), np.zeros((1, 1), int)).log_tails()[0][0, -1]))"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    here = str(Path(pufferkit.__file__).parents[1])
    seen = subprocess.run([*nobody, "test", "-r", pufferkit.__file__], check=False)
    python = subprocess.run([*nobody, sys.executable, "-c", ""], check=False, capture_output=True)
    if seen.returncode or python.returncode:
        pytest.skip("the package or the interpreter cannot be read by others")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
    done = subprocess.run(
        [*nobody, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "HOME": str(home), "PYTHONPATH": here, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 1.0
