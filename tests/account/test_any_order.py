"""Questions in any order from one account get the noise that a process of its own would give."""

import json
import random
import subprocess
import sys

from pufferkit.data.query import KINDS

SETTING = """
import json
import pufferkit as pk
from tests.asking import Asking

STATES = ["a", "b", "c"]
ROWS = [[0.9, 0.06, 0.04], [0.1, 0.85, 0.05], [0.3, 0.3, 0.4]]
CHAIN = pk.MarkovChain.steady(ROWS, states=STATES)
WHEN = pk.Calendar("2024-03-04 00:00", every="3h")
DATA = pk.Series(CHAIN.sample(24, seed=1), tuple(STATES), (24,), calendar=WHEN)
VALUES = {"a": 0, "b": 1, "c": 4}


def own(state, bound, unit, name="own"):
    moved = {x: bound * (x == state) for x in STATES}
    return pk.per_entry(
        lambda x: [float((x == state).sum())], moved, STATES, DATA, unit=unit, name=name, trials=5
    )


QUERIES = {
    "count a": lambda: pk.count("a", DATA),
    "count c": lambda: pk.count("c", DATA),
    "histogram": lambda: pk.histogram(STATES, DATA),
    "frequencies": lambda: pk.relative_frequencies(STATES, DATA),
    "total": lambda: pk.total(VALUES, DATA),
    "total, clipped": lambda: pk.total(VALUES, DATA, clip=(0, 2)),
    "mean": lambda: pk.mean(VALUES, DATA),
    "variance": lambda: pk.variance(VALUES, DATA, clip=(0, 4)),
    "linear": lambda: pk.linear({"a": [1, 2], "c": [0, 3]}, DATA),
    "transitions": lambda: pk.transition_counts(STATES, DATA),
    "episodes b": lambda: pk.episodes("b", DATA),
    "episodes c": lambda: pk.episodes("c", DATA),
    "stays": lambda: pk.stays("b", DATA),
    "hours": lambda: pk.by_time("hour", STATES, DATA),
    "days": lambda: pk.by_time("day", STATES, DATA),
    "slots": lambda: pk.by_time(["x", "y"] * 12, STATES, DATA),
    "mornings": lambda: pk.time_in("b", DATA),
    "nights": lambda: pk.time_in("b", DATA, start="22:00", end="06:00"),
    "days with": lambda: pk.days_with("b", 2, DATA),
    "share of days": lambda: pk.days_with("b", 2, DATA, share=True),
    "quantile": lambda: pk.quantile(0.5, VALUES, DATA),
    "quantile .9": lambda: pk.quantile(0.9, VALUES, DATA),
    "own a": lambda: own("a", 1, 1),
    "own b": lambda: own("b", 1, 1),
    "own c": lambda: own("c", 1, 1),
    "own c, further": lambda: own("c", 2, 1),
    "own c, no unit": lambda: own("c", 1, None),
    "own, one bound": lambda: pk.Query("own", lambda x: [float((x == "c").sum())], 1, DATA),
    "own, three": lambda: pk.Query("own", lambda x: [float((x == "c").sum())], 3, DATA),
}
DASHBOARDS = {
    "counts": {"a": (QUERIES["count a"](), 30), "c": (QUERIES["count c"](), 30)},
    "counts and own": {"a": (QUERIES["count a"](), 30), "c": (QUERIES["own c"](), 30)},
}


def asked(folder, names):
    session = Asking(DATA, CHAIN, 10000.0, folder + "/book.db")
    scales = {}
    for name in names:
        if name in DASHBOARDS:
            release = session.release(DASHBOARDS[name], None)
        else:
            session.cost(QUERIES[name](), 1.0)
            release = session.release(QUERIES[name](), 1.0, anyway=True)
        scales[name] = [release.query, release.scale, len(release.labels)]
    return scales, len(session.history)
"""
exec(SETTING)


def test_every_scale_is_that_of_a_fresh_process(tmp_path):
    """Every question, in a random order and its reverse, so that each follows and precedes each."""
    names = [*QUERIES, *DASHBOARDS]  # noqa: F821
    kinds = {QUERIES[name]().kind for name in QUERIES} | {"several"}  # noqa: F821
    assert kinds == {*KINDS, "own"} - {"whole"}
    random.Random(0).shuffle(names)
    (tmp_path / "together").mkdir()
    together, charges = asked(str(tmp_path / "together"), names)  # noqa: F821
    assert charges == len(names)  # none got the stored answer of another
    lines = "import sys\n" + SETTING
    lines += "print(json.dumps(asked(sys.argv[1], sys.argv[2:])[0]))\n"
    (tmp_path / "fresh").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", lines, str(tmp_path / "fresh"), *names[::-1]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == together
