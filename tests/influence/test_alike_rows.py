"""Rows that are alike up to the last bit: plans stay within their arrays, and in the process."""

import subprocess
import sys

import pytest

HULL = """
import pufferkit as pk
rows = [[0, 0, 1, 0], [0, 0, 0.7 + 0.2 + 0.1, 0], [0.25] * 4, [0.1, 0.2, 0.3, 0.4]]
hull = pk.ChainClass.hull(pk.MarkovChain.steady(rows))
for more in range(20):
    print(pk.influence_curve(hull, pk.histogram(hull.states, 1000 + more), 1.0).scale)
"""

PLANS = """
import numpy as np
from pufferkit.influence.curve.transport_plans import CompiledPlans
rng = np.random.default_rng(0)
for turn in range(150):
    states = int(rng.integers(1, 17))
    row = rng.dirichlet(np.ones(states)) if turn % 2 else np.ones(states)
    row = row * (rng.random(states) < rng.choice([0.1, 0.5, 1.0]))
    row[rng.integers(states)] += 1
    row /= row.sum()
    rounded = [row, row * (1 - 2.3e-16), np.nextafter(row, 2.0 * (row > 0))]
    rounded.append(row * (1 + 2.3e-16 * rng.integers(-1, 2, states)))
    plans = CompiledPlans(np.array(rounded), 0)
    for most in (1e-9, 0.1, 3.0):
        variation = most * (1 + rng.random((states, states))) * (1 - np.eye(states))
        steps = plans(variation)
        assert steps.max() < 1e-9, steps
        plans.trees
"""


@pytest.mark.parametrize("code", [HULL, PLANS])
def test_rows_alike_up_to_the_last_bit(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
