"""The shares of a week, by other libraries and by pufferkit: noise, time, and what it hides.

Each peer runs in an interpreter of its own, given as NAME=PATH; one that is not given is left out:

    python benchmarks/peers.py opendp=python3 diffprivlib=peers/bin/python tumult=tumult/bin/python
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import pufferkit as pk

CHAIN = pk.MarkovChain.steady(
    [[0.90, 0.08, 0.02], [0.10, 0.80, 0.10], [0.05, 0.35, 0.60]],
    states=["resting", "sitting", "walking"],
)
LENGTH, EPSILON = 2016, 1.0

BEGIN = """
import json, sys, time
import numpy as np
codes = np.array(json.load(open(sys.argv[1])))
epsilon, draws = float(sys.argv[2]), int(sys.argv[3])
exact = np.bincount(codes, minlength=3)
"""
END = """
release()  # what is loaded or compiled once is not counted
begin = time.perf_counter()
errors = [np.abs(release() - exact).sum() / len(codes) for _ in range(draws)]
print(json.dumps([np.mean(errors), (time.perf_counter() - begin) / draws]))
"""
# Epsilon is for a *changed* entry. A library that hides an added or removed row gets half of it.
PEERS = {
    "opendp": """
import opendp.prelude as dp
dp.enable_features("contrib")
space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
noise = dp.m.make_laplace(*space, scale=2 / epsilon)
def release():
    return np.array(noise([int(n) for n in np.bincount(codes, minlength=3)]))
""",
    "diffprivlib": """
from diffprivlib.tools import histogram
def release():
    return histogram(codes, epsilon=epsilon / 2, bins=3, range=(0, 3))[0]
""",
    "tumult": """
import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
frame = spark.createDataFrame(pd.DataFrame({"state": codes.tolist()}))
session = Session.from_dataframe(
    PureDPBudget(float("inf")), "week", frame, protected_change=AddOneRow())
query = QueryBuilder("week").groupby(KeySet.from_dict({"state": [0, 1, 2]})).count()
def release():
    answer = session.evaluate(query, PureDPBudget(epsilon / 2)).toPandas()
    return answer.sort_values("state")["count"].to_numpy()
""",
}
DRAWS = {"tumult": 3}


def peer(name: str, python: str, epsilon: float, data: Path) -> tuple[float, float]:
    """Mean L1 error of the shares, and seconds for each release."""
    done = subprocess.run(
        [python, "-c", BEGIN + PEERS[name] + END, data, str(epsilon), str(DRAWS.get(name, 200))],
        env={**os.environ, "PYSPARK_PYTHON": python},
        cwd=data.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    error, seconds = json.loads(done.stdout.splitlines()[-1])
    return error, seconds


def ours(noise: pk.Calibration, codes: np.ndarray) -> tuple[float, float]:
    week = pk.Series(codes, CHAIN.states, (LENGTH,))
    exact = np.bincount(codes, minlength=3) / LENGTH
    noise.release(week)
    begin = perf_counter()
    errors = [np.abs(np.array(noise.release(week).raw) - exact).sum() for _ in range(200)]
    return float(np.mean(errors)), (perf_counter() - begin) / 200


def main() -> None:
    interpreters = dict(argument.split("=", 1) for argument in sys.argv[1:])
    codes = np.asarray(CHAIN.sample(LENGTH, seed=1))
    curve = pk.InfluenceCurve(CHAIN, LENGTH)
    entry = pk.entry_epsilon(CHAIN, LENGTH, EPSILON)
    print(f"{LENGTH:,} entries, 3 states, shares; event-level epsilon for {EPSILON:g}: {entry:.4f}")
    print(f"{'':38} {'error':>8} {'loss':>8} {'ms':>8}")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "codes.json"
        data.write_text(json.dumps(codes.tolist()))
        for name, python in interpreters.items():
            for how, given in (
                ("as it is", EPSILON),
                ("in groups of all entries", EPSILON / LENGTH),
                ("with entry_epsilon", entry),
            ):
                error, seconds = peer(name, python, given, data)
                loss = curve.epsilon(given)
                row(f"{name}, {how}", error, loss, seconds)
    query = pk.relative_frequencies(CHAIN.states, LENGTH)
    for mechanism in ("markov_quilt_approx", "markov_quilt", "influence_curve"):
        getattr(pk, mechanism)(CHAIN, pk.histogram(CHAIN.states, 50), 2)  # load what is compiled
        begin = perf_counter()
        noise = getattr(pk, mechanism)(CHAIN, query, EPSILON)
        planning = perf_counter() - begin
        error, seconds = ours(noise, codes)
        row(f"pufferkit, {mechanism}", error, EPSILON, seconds)
        print(f"{'':38} {'':8} {'':8} {1e3 * planning:8.1f} to plan, once")


def row(name: str, error: float, loss: float, seconds: float) -> None:
    print(f"{name:38} {error:8.4f} {loss:8.2f} {1e3 * seconds:8.1f}")


if __name__ == "__main__":
    main()
