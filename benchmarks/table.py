"""All jobs in one table: CPU seconds at the largest size, a peer or limit, the ratio, the growth.

    python benchmarks/table.py                 the table, compared with the last one kept
    python benchmarks/table.py quilt noise     some jobs, by parts of their names
    python benchmarks/table.py --keep 0.2.0    and keep it in results/0.2.0.json, row by row

Times are CPU seconds of one thread, the best of a few runs; of the ledger also seconds of the
clock, which are not compared with earlier ones. The growth is the exponent of time over size, by
least squares through all three sizes. The ledger on PostgreSQL is measured if the environment names
a server in PUFFERKIT_TEST_POSTGRES, Spark if PUFFERKIT_BENCH_SPARK is set. Two tables are compared
in units of a small job of numpy and Python that is timed in the same run, so that another machine
does not count as a change. A job that takes 1.5 times as long as in the table kept last at the same
size, and more than 50 ms longer, fails the command, as does a job that ends in an error. A ratio
below 1 says that ours is faster than the peer, or within the limit: the seconds that a user may be
asked to wait for the largest size.
Loops are compiled before a job is timed, whatever was compiled before; the first plans ever find
none compiled. Every run has beliefs of its own, which differ from those of the run before in the
last digits: nothing that was kept for equal beliefs can serve.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from itertools import count, product
from pathlib import Path
from time import perf_counter, process_time, time_ns
from typing import Any

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(threads, "1")

import draws  # noqa: E402  (threads are set first)
import numpy as np  # noqa: E402

import pufferkit as pk  # noqa: E402
from pufferkit import compiling  # noqa: E402

RESULTS = Path(__file__).parent / "results"
SLOWER, LEAST, WIDE = 1.5, 0.05, 21
MODEL = Path(__file__).parents[1] / "examples" / "activity_model.json"
SERVER = "PUFFERKIT_TEST_POSTGRES"
SPARK = "PUFFERKIT_BENCH_SPARK"
BYTECODE = tempfile.TemporaryDirectory()
SLEEP = [[0.9, 0.1], [0.4, 0.6]]
SITTING = [[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]]
ABSORBING = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0, 0, 1]]
RUNS = count()

Work = Callable[[], object]
Peer = tuple[str, Callable[[int], Work]]


@dataclass(frozen=True)
class Job:
    """Work of three sizes, made before it is timed; a limit in seconds, one or two peers.

    With ``clock``, seconds of the clock count. ``needs`` is a variable of the environment without
    which the job is left out.
    """

    name: str
    sizes: tuple[int, int, int]
    made: Callable[[int], Work]
    limit: float | None = None
    peers: tuple[Peer, ...] = ()
    clock: bool = False
    needs: str | None = None


def fresh(*arguments: str) -> Work:
    """A new interpreter with bytecode, as after installation, and no code compiled by numba."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

    def work() -> None:
        with tempfile.TemporaryDirectory() as empty:
            places = {"PYTHONPYCACHEPREFIX": BYTECODE.name, "NUMBA_CACHE_DIR": empty}
            subprocess.run(
                [sys.executable, *arguments], check=True, env=kept | places, capture_output=True
            )

    return work


def fresh_plan(length: int, *query: str, model: Path = MODEL) -> Work:
    asked = ["--epsilon", "1", "--length", str(length), *query]
    return fresh("-m", "pufferkit", "plan", "--model", str(model), *asked)


def fresh_plan_from_a_start(length: int, transition: Any = SITTING) -> Work:
    start = np.eye(len(transition))[0]
    model = Path(BYTECODE.name) / f"fixed_start_{len(transition)}.json"
    model.write_text(pk.MarkovChain(start, transition).to_json())
    return fresh_plan(length, model=model)


def fresh_verification(length: int) -> Work:
    chain = pk.MarkovChain.from_json(MODEL.read_text())
    data = pk.Series.of(list(chain.states) * (length // len(chain)), chain.states)
    query = pk.histogram(chain.states, len(data))
    place = Path(BYTECODE.name) / f"release_{length}.json"
    place.write_text(pk.influence_curve(chain, query, 1).release(data).to_json())
    return fresh("-m", "pufferkit", "verify", str(place))


def verification(chain: pk.MarkovChain) -> Work:
    query = pk.histogram(chain.states, 5000)
    release = pk.influence_curve(chain, query, 1).release(chain.sample(5000, seed=1).tolist())
    return lambda: pk.verify(release)


def sum_of(states: int) -> Work:
    chain = dense(states)
    return lambda: pk.exact_sum(chain, pk.count(1, 1000), 1)


def of_days(days: int) -> Work:
    """Days with an hour or more of one state, by the distribution of their number."""
    chain, clock = steady(SLEEP), pk.Calendar("2026-01-01", "1h")
    question = pk.days_with(1, 2, 24 * days, calendar=clock)
    return lambda: pk.exact_sum(chain, question, 1)


def of_one_sum(length: int) -> Work:
    chain = steady(SLEEP)
    return lambda: pk.exact_sum(chain, pk.count(1, length), 1)


def beliefs_from_data(entries: int) -> Work:
    """Six people with days of 24 entries: every class fitted, tested and compared."""
    chain = steady(SITTING)
    people = [pk.Series.of(chain.sample(entries, seed=n).tolist(), range(3)) for n in range(6)]
    query = pk.histogram(range(3), 24 * 7)
    return lambda: pk.choose_beliefs(people, query, day=24, quick=True, repetitions=20)


def beliefs_of_a_week(people: int) -> Work:
    """People with a week of five minutes each, four levels, nights, and regimes of their own."""
    rng, day, each = np.random.default_rng(next(RUNS)), 288, []
    shown = np.array([[0.94, 0.03, 0.02, 0.01], [0.5, 0.3, 0.15, 0.05], [0.05, 0.2, 0.35, 0.4]])
    for _ in range(people):
        turns = rng.random(7 * day) < 1 / rng.uniform(8, 30)
        awake = 1 + (np.cumsum(turns) % 2)
        clock = np.arange(7 * day) % day / day
        night = (clock < rng.uniform(0.25, 0.33)) | (clock > rng.uniform(0.92, 1))
        upto = shown.cumsum(axis=1)[np.where(night, 0, awake), :-1]
        codes = (rng.random(7 * day)[:, None] > upto).sum(axis=1)
        each.append(pk.Series(codes, range(4), (7 * day,)))
    query = pk.relative_frequencies(range(4), 7 * day)
    return lambda: pk.choose_beliefs(each, query, day=day)


@cache
def spark() -> Any:
    """A session on this machine, and a folder for it; both end with the process."""
    from cluster import session

    folder = tempfile.TemporaryDirectory()
    made = session(folder.name, 2)
    atexit.register(made.stop)
    return made, folder


def spark_frame(rows: int) -> tuple[Any, str]:
    from cluster import made

    session, folder = spark()
    path = f"{folder.name}/{time_ns()}"
    return made(session, rows, max(1, rows // 100), 0.0, f"{path}-rows"), path


def spark_each(rows: int) -> Work:
    frame, path = spark_frame(rows)
    table = pk.read(frame, subject="who", time="when", state="what", states=range(5))
    chain = steady(np.full((5, 5), 0.1) + 0.5 * np.eye(5))
    released = {"per": "subject", "storage": f"{path}-released", "anyway": True}
    return lambda: pk.release(table, chain, pk.histogram(), 1, **released)


def bare_spark(rows: int) -> Work:
    from cluster import bare

    frame, path = spark_frame(rows)
    return lambda: bare(frame, f"{path}-counts")


def transported(chain: pk.MarkovChain, length: int) -> Work:
    return lambda: pk.wasserstein(chain, pk.count(1, length), 1)


def anew(matrix: Any) -> Any:
    """The same rows but for their last digits, other ones in every call; zeros stay."""
    rows = np.asarray(matrix, dtype=float)
    rows = rows * (1 + 1e-9 * np.random.default_rng(next(RUNS)).random(rows.shape))
    return rows / rows.sum(axis=-1, keepdims=True)


def steady(matrix: Any) -> pk.MarkovChain:
    return pk.MarkovChain.steady(anew(matrix))


def started(matrix: Any, initial: Any) -> pk.MarkovChain:
    return pk.MarkovChain(initial, anew(matrix))


def absorbing() -> pk.MarkovChain:
    return started(ABSORBING, [0.5, 0.3, 0.2])


def dense(states: int, seed: int = 0) -> pk.MarkovChain:
    return steady(np.random.default_rng(seed).dirichlet(np.ones(states), states))


def tridiagonal(states: int) -> pk.MarkovChain:
    """Levels of a meter: a step leads to a neighbour or nowhere."""
    matrix = 0.7 * np.eye(states) + 0.15 * (np.eye(states, k=1) + np.eye(states, k=-1))
    return steady(matrix / matrix.sum(axis=1, keepdims=True))


def seasonal(slots: int, states: int = 20) -> pk.ChainClass:
    rng = np.random.default_rng(2)
    return pk.ChainClass.seasonal(
        [anew(rng.dirichlet(np.ones(states), states)) for _ in range(slots)]
    )


def hull(members: int, states: int = 20) -> pk.ChainClass:
    return pk.ChainClass.hull(*(dense(states, seed) for seed in range(members)))


def memory_of_two(states: int) -> pk.ChainClass:
    table = np.random.default_rng(3).dirichlet(np.ones(states), (states, states))
    return pk.ChainClass.order(2, anew(table))


def around(states: int) -> pk.ChainClass:
    rows = np.random.default_rng(4).dirichlet(np.ones(states), states)
    return pk.ChainClass.around(np.round(10_000 * rows + next(RUNS) % 7 + 1).astype(int), 0.95)


def regimes(number: int, states: int = 10) -> pk.RegimeClass:
    rng = np.random.default_rng(5)
    stay = 0.9 * np.eye(number) + 0.1 / number
    return pk.RegimeClass(anew(stay), anew(rng.dirichlet(np.ones(states), number)))


def an_event(entries: int) -> object:
    return pk.ChainClass.of(steady(SITTING)).with_secrets(pk.Secrets.runs(entries))


def field(nodes: int, degree: int = 14) -> pk.MarkovRandomField:
    edges = [(n, (n + d) % nodes) for n in range(nodes) for d in range(1, degree // 2 + 1)]
    return pk.MarkovRandomField.ising(edges, 0.001 * (1 + 1e-9 * next(RUNS)), nodes=range(nodes))


def quilt(beliefs: object, length: int) -> Work:
    return lambda: pk.markov_quilt(beliefs, pk.count(1, length), 1)


def curve(beliefs: object, length: int) -> Work:
    return lambda: pk.influence_curve(beliefs, pk.count(1, length), 1)


def histogram_curve(beliefs: Any, length: int) -> Work:
    return lambda: pk.influence_curve(beliefs, pk.histogram(beliefs.states, length), 1)


def plan(beliefs: object, *lengths: int) -> Work:
    return lambda: pk.plan(beliefs, pk.count(1, lengths), 1)


def of_many(number: int) -> pk.ChainClass:
    return pk.ChainClass.of(*(dense(4, seed) for seed in range(number)))


def tree(nodes: int) -> pk.BayesianNetwork:
    rng = np.random.default_rng(1)
    parents = {n: (int(rng.integers(max(0, n - 3), n)),) if n else () for n in range(nodes)}
    table = pair_table()
    return pk.BayesianNetwork(parents, {n: table if n else {(): [0.6, 0.4]} for n in range(nodes)})


def pair_table() -> dict[tuple[int, ...], list[float]]:
    zero, one = anew([[0.8, 0.2], [0.3, 0.7]]).tolist()
    return {(0,): zero, (1,): one}


def star(nodes: int) -> pk.BayesianNetwork:
    table = pair_table()
    parents = {n: (0,) if n else () for n in range(nodes)}
    return pk.BayesianNetwork(parents, {n: table if n else {(): [0.6, 0.4]} for n in range(nodes)})


def sticky_quilt(length: int) -> Work:
    from inputs import sticky_chain

    chain = steady(sticky_chain(51, stay=3))
    return lambda: pk.markov_quilt(chain, pk.count(0, length), 5)


def quilt_scan(length: int) -> Work:
    from inputs import scan, sticky_chain

    optimum = pk.markov_quilt(
        pk.MarkovChain.steady(sticky_chain(51, stay=3)), pk.count(0, length), 5
    ).scale
    return lambda: scan(sticky_chain(51, stay=3), 5.0, optimum)


def grid(side: int) -> pk.BayesianNetwork:
    parents = {
        (r, c): ((r - 1, c),) * (r > 0) + ((r, c - 1),) * (c > 0)
        for r in range(side)
        for c in range(side)
    }

    least = 0.2 * (1 + 1e-9 * next(RUNS))

    def row(key: tuple[int, ...]) -> list[float]:
        p = least + 0.6 * sum(key) / max(1, len(key))
        return [1 - p, p]

    tables = {
        node: {key: row(key) for key in product((0, 1), repeat=len(own))}
        for node, own in parents.items()
    }
    return pk.BayesianNetwork(parents, tables)


def network_quilt(network: pk.BayesianNetwork) -> Work:
    return lambda: pk.markov_quilt(network, pk.count(1, len(network)), 1)


def plain_quilt(network: pk.BayesianNetwork) -> Work:
    """Every quilt of every node from its joint distribution, smallest X_N first."""
    from pufferkit.influence.quilts.networks import influence_in, quilts

    def best(node: int) -> float:
        graph, least = network.graph, math.inf
        for quilt, near in quilts(graph, node):
            if near.bit_count() >= least:
                break
            names = (graph.nodes[node], *graph.names(quilt))
            influence = influence_in(network.table(names)) if quilt else 0.0
            if influence < 1:
                least = min(least, near.bit_count() / (1 - influence))
        return least

    return lambda: max(best(node) for node in range(len(network)))


def repeated(act: Work, number: int) -> Work:
    def work() -> None:
        for _ in range(number):
            act()

    return work


def spends(number: int, server: str | None = None) -> Work:
    folder = tempfile.TemporaryDirectory()
    ledger = pk.Ledger(server or f"{folder.name}/l.db").__enter__()
    account = f"bench {time_ns()}"
    ledger.open_account(account, 1e6)
    return repeated(lambda: (ledger.spend(account, 0.001), folder), number)


def bare_spends(number: int) -> Work:
    from inputs import bare_sqlite

    folder = tempfile.TemporaryDirectory()
    act = bare_sqlite(f"{folder.name}/b.db")
    return repeated(lambda: (act(), folder), number)


def server_spends(number: int) -> Work:
    return spends(number, os.environ[SERVER])


def bare_server_spends(number: int) -> Work:
    from inputs import bare_server

    return repeated(bare_server(os.environ[SERVER]), number)


def rows_of(number: int) -> Work:
    from inputs import COLUMNS, made

    frame = made(number, 100)
    return lambda: pk.read(frame, **COLUMNS)


def bare_rows(number: int) -> Work:
    from inputs import bare, made

    frame = made(number, 100)
    return lambda: bare(frame)


def text_rows(number: int) -> Work:
    from inputs import COLUMNS, in_text, made

    frame = in_text(made(number, 100))
    return lambda: pk.read(frame, **COLUMNS)


def bare_text_rows(number: int) -> Work:
    from inputs import bare, in_text, made

    frame = in_text(made(number, 100))
    return lambda: bare(frame)


def integer_rows(number: int) -> Work:
    from inputs import COLUMNS, in_integers, made

    frame = in_integers(made(number, 100))
    return lambda: pk.read(frame, **COLUMNS)


def bare_integer_rows(number: int) -> Work:
    from inputs import bare, in_integers, made

    frame = in_integers(made(number, 100))
    return lambda: bare(frame)


def pandas_rows(number: int) -> Work:
    from inputs import COLUMNS, made

    frame = made(number, 100).to_pandas()
    return lambda: pk.read(frame, **COLUMNS)


def short_series(subjects: int) -> Work:
    from inputs import COLUMNS, made

    frame = made(8 * subjects, subjects)
    return lambda: pk.read(frame, **COLUMNS)


def bare_short_series(subjects: int) -> Work:
    from inputs import bare, made

    frame = made(8 * subjects, subjects)
    return lambda: bare(frame)


def series_of_texts(number: int) -> Work:
    labels = [f"state {n % 5}" for n in range(number)]
    return lambda: pk.Series.of(labels, [f"state {n}" for n in range(5)])


def hourly_releases(hours: int) -> Work:
    """All releases of a new account, so that a growth above 1 is a growth of each."""
    chain = pk.MarkovChain.steady(SLEEP)
    data = pk.Series.of(chain.sample(60 * hours, seed=1), chain.states)

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder, pk.Ledger(f"{folder}/l.db") as ledger:
            account = pk.Account(ledger, "data", 2)
            for hour in range(hours):
                window = (60 * hour + 1, 60 * hour + 60)
                pk.release(data, chain, pk.count(1), 1, account=account, window=window)

    return work


def in_duckdb(number: int) -> tuple[Any, Any]:
    import duckdb
    from inputs import made

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("made", made(number, 100).to_arrow())
    connection.execute("CREATE TABLE rows_made AS SELECT * FROM made")
    return connection, connection.table("rows_made")


def duckdb_rows(number: int) -> Work:
    from inputs import COLUMNS

    connection, rows = in_duckdb(number)
    return lambda: (pk.read(rows, **COLUMNS), connection)


def bare_duckdb(number: int) -> Work:
    """Transition counts for each subject: no gaps, no checks, no segment lengths."""
    connection, _ = in_duckdb(number)
    before = 'lag(what) OVER (PARTITION BY who ORDER BY "when")'
    linked = f"SELECT who, what, {before} AS before FROM rows_made"
    counts = f"SELECT who, before, what, count(*) FROM ({linked}) GROUP BY ALL"
    return lambda: connection.sql(counts).fetchall()


def csv_file(number: int) -> str:
    import polars as pl

    path = Path(tempfile.gettempdir()) / f"pufferkit-bench-{os.getpid()}-{number}.csv"
    minutes = pl.Series(np.arange(number) * 60_000_000).cast(pl.Datetime("us"))
    states = np.random.default_rng(0).integers(0, 5, number)
    pl.DataFrame({"when": minutes, "what": states}).write_csv(path)
    atexit.register(path.unlink, missing_ok=True)
    return str(path)


def csv_series(number: int) -> Work:
    path = csv_file(number)
    return lambda: pk.read(path, state="what", time="when", states=range(5))


def bare_csv(number: int) -> Work:
    import polars as pl

    path = csv_file(number)
    return lambda: pl.read_csv(path, try_parse_dates=True)


def each_with_accounts(number: int, server: str | None = None) -> Work:
    import polars as pl

    rows = pl.DataFrame(
        {
            "who": np.repeat(np.arange(number), 60),
            "when": np.tile(np.arange(60), number),
            "what": np.random.default_rng(0).integers(0, 2, 60 * number),
        }
    )
    columns = {"subject": "who", "time": "when", "state": "what"}
    table = pk.read(rows, **columns, states=[0, 1])
    chain = pk.MarkovChain.steady(SLEEP)

    def work() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            pk.Ledger(server or f"{folder}/l.db") as book,
        ):
            accounts = book.accounts_for(table, f"{time_ns()} ", budget=2)
            pk.release(table, chain, "histogram", 1, account=accounts, per="subject")

    return work


def each_on_server(number: int) -> Work:
    return each_with_accounts(number, os.environ[SERVER])


def different_lengths(number: int) -> Work:
    from pufferkit.account.subjects import FleetRun

    chain = pk.MarkovChain.steady([[0.99, 0.01], [0.02, 0.98]])
    run = ("each", chain, 1, "histogram", "influence_curve", "", None)
    return lambda: FleetRun.of(*run).calibrations(np.arange(1, number + 1))


def attack(steps: int) -> Work:
    from pufferkit.audit import ForwardBackward

    outputs = np.random.default_rng(0).integers(0, 2, steps)
    attacker = ForwardBackward(pk.MarkovChain.steady(SLEEP), np.array([[0.8, 0.2], [0.3, 0.7]]))
    return lambda: attacker.posterior(outputs)


def hmmlearn_model(steps: int) -> tuple[Any, Any]:
    from hmmlearn import hmm

    theirs = hmm.CategoricalHMM(n_components=2, init_params="", implementation="scaling")
    theirs.n_features, theirs.startprob_ = 2, np.array([0.8, 0.2])
    theirs.transmat_, theirs.emissionprob_ = np.array(SLEEP), np.array([[0.8, 0.2], [0.3, 0.7]])
    return theirs, np.random.default_rng(0).integers(0, 2, steps)[:, None]


def hmmlearn_attack(steps: int) -> Work:
    theirs, outputs = hmmlearn_model(steps)
    return lambda: theirs.predict_proba(outputs)


def paths(steps: int) -> Work:
    from pufferkit.audit import Viterbi

    outputs = np.random.default_rng(0).integers(0, 2, steps)
    attacker = Viterbi(pk.MarkovChain.steady(SLEEP), np.array([[0.8, 0.2], [0.3, 0.7]]))
    return lambda: attacker.guess(outputs)


def hmmlearn_paths(steps: int) -> Work:
    theirs, outputs = hmmlearn_model(steps)
    return lambda: theirs.predict(outputs)


LIBRARIES = ("numpy, scipy, polars", lambda _: fresh("-c", "import numpy, scipy, polars"))

JOBS = [
    Job("first plan ever, length", (100, 500, 2016), fresh_plan, 1, (LIBRARIES,)),
    Job(
        "first plan ever, count, length",
        (100, 500, 2016),
        lambda n: fresh_plan(n, "--query", "count", "--state-value", "walking"),
        1,
        (LIBRARIES,),
    ),
    Job("first plan ever, fixed start, length", (100, 500, 2016), fresh_plan_from_a_start, 1.5),
    Job(
        "first plan ever, drowned, states",
        (3, 5, 10),
        lambda n: fresh_plan_from_a_start(100, dense(n).transition),
        4,
    ),
    Job("fresh verify, length", (100, 500, 2016), fresh_verification, 1, (LIBRARIES,)),
    Job("verify, dense rows, states", (75, 150, 300), lambda n: verification(dense(n)), 10),
    Job("exact_sum, states", (25, 50, 100), sum_of, 3),
    Job("exact_sum, days with, days", (30, 100, 365), of_days, 4),
    Job("quilt, 51 states, length", (10**5, 10**6, 10**7), lambda n: quilt(dense(51), n), 1),
    Job(
        "quilt, 51 sticky states, length",
        (10**5, 10**6, 10**7),
        sticky_quilt,
        peers=(("scan, tables once", quilt_scan),),
    ),
    Job(
        "quilt, fixed start, length",
        (10**5, 10**6, 10**7),
        lambda n: quilt(started(SLEEP, [1.0, 0.0]), n),
        2,
    ),
    Job(
        "curve, any start, length",
        (10**9, 10**12, 10**15),
        lambda n: curve(pk.ChainClass.any_start(anew(SLEEP)), n),
        0.5,
    ),
    Job("curve, dense rows, states", (75, 100, 150), lambda n: curve(dense(n), 10**6), 1),
    Job("curve, dense, 10^12, states", (75, 150, 300), lambda n: curve(dense(n), 10**12), 2),
    Job("curve, pair by pair, states", (22, 44, 70), lambda n: curve(dense(n), 10**6), 10),
    Job("curve, class, chains", (100, 300, 1000), lambda n: curve(of_many(n), 9000), 0.5),
    Job(
        "curve, absorbing, length",
        (250, 500, 1000),
        lambda n: curve(absorbing(), n),
        0.3,
    ),
    Job(
        "curve, fixed start, length",
        (250, 500, 1000),
        lambda n: curve(started([[0.999, 0.001], [0.001, 0.999]], [1.0, 0.0]), n),
        0.3,
    ),
    Job(
        "curve, tridiagonal, states",
        (50, 70, 100),
        lambda n: histogram_curve(tridiagonal(n), 10**6),
        10,
    ),
    Job(
        "curve, seasonal, 20 states, slots", (24, 48, 168), lambda n: curve(seasonal(n), 10_080), 3
    ),
    Job("curve, hull, 20 states, members", (3, 5, 10), lambda n: curve(hull(n), 10_000), 1),
    Job("curve, memory of two, states", (9, 12, 15), lambda n: curve(memory_of_two(n), 10_000), 8),
    Job("curve, around, states", (20, 40, 60), lambda n: curve(around(n), 10_000), 8),
    Job("curve, regimes, 10 levels", (4, 8, 16), lambda n: curve(regimes(n), 10_000), 3),
    Job("curve, event of entries", (6, 24, 96), lambda n: curve(an_event(n), 10_000), 1),
    Job("curve, field of degree 14, nodes", (50, 100, 200), lambda n: curve(field(n), n), 1),
    Job(
        "wasserstein, binary, length",
        (5000, 10**4, 2 * 10**4),
        lambda n: transported(steady(SLEEP), n),
        4,
        peers=(("exact_sum", of_one_sum),),
    ),
    Job(
        "wasserstein, 5 states, length",
        (500, 1000, 2000),
        lambda n: transported(dense(5), n),
        10,
    ),
    Job(
        "plan, binary, length",
        (100, 1000, 10**4),
        lambda n: plan(steady(SLEEP), n),
        1,
    ),
    Job("plan, class, chains", (10, 100, 1000), lambda n: plan(of_many(n), 9000, 800, 70), 1),
    Job(
        "plan, lengths",
        (5, 10, 20),
        lambda n: plan(of_many(10), *(100 + 7 * m for m in range(n))),
        1,
    ),
    Job("plan, dense, 10^12, states", (75, 150, 300), lambda n: plan(dense(n), 10**12), 2),
    Job("plan, absorbing, length", (250, 500, 1000), lambda n: plan(absorbing(), n), 1),
    Job("plan, tree, nodes", (125, 250, 500), lambda n: plan(tree(n), n), 1),
    Job("plan, grid, nodes", (36, 64, 100), lambda n: plan(grid(math.isqrt(n)), n), 1),
    Job("plan, star, nodes", (125, 250, 500), lambda n: plan(star(n), n), 1),
    Job("plan, large tree, nodes", (500, 1000, 2000), lambda n: plan(tree(n), n), 3),
    Job("plan, large grid, nodes", (100, 196, 400), lambda n: plan(grid(math.isqrt(n)), n), 1),
    Job("curve, grid, nodes", (64, 100, 144), lambda n: curve(grid(math.isqrt(n)), n), 1),
    Job("quilt, tree, nodes", (500, 1000, 2000), lambda n: network_quilt(tree(n)), 2),
    Job("quilt, grid, nodes", (36, 64, 100), lambda n: network_quilt(grid(math.isqrt(n))), 2),
    Job(
        "quilt, large grid, nodes", (100, 144, 196), lambda n: network_quilt(grid(math.isqrt(n))), 6
    ),
    Job("quilt, star, nodes", (125, 250, 500), lambda n: network_quilt(star(n)), 1),
    Job(
        "quilt, small grid, nodes",
        (4, 9, 16),
        lambda n: network_quilt(grid(math.isqrt(n))),
        peers=(("plain search", lambda n: plain_quilt(grid(math.isqrt(n)))),),
    ),
    Job(
        "noise, draws",
        (10**5, 3 * 10**5, 10**6),
        draws.draws,
        1,
        peers=(("raw OpenDP", draws.opendp_draws), ("numpy, unsafe", draws.unsafe_draws)),
    ),
    Job(
        "noise, draws on a grid",
        (10**5, 3 * 10**5, 10**6),
        draws.grid_draws,
        1,
        peers=(
            ("raw OpenDP", lambda n: draws.opendp_draws(n, "f64", k=-27)),
            ("numpy, unsafe", draws.unsafe_draws),
        ),
    ),
    Job("noise, scales of 3 draws", (3000, 6000, 12_000), draws.scales_drawn, 2),
    Job(
        "randomised response, bits",
        (10**6, 3 * 10**6, 10**7),
        draws.answers,
        0.06,
        peers=(("numpy, unsafe", draws.unsafe_answers),),
    ),
    *(
        Job(
            f"ledger on {engine}, spends{', clock' if clock else ''}",
            (50, 100, 200),
            ours,
            peers=((f"bare {engine}", bare),),
            clock=clock,
            needs=needs,
        )
        for engine, ours, bare, needs in (
            ("SQLite", spends, bare_spends, None),
            ("PostgreSQL", server_spends, bare_server_spends, SERVER),
        )
        for clock in (False, True)
    ),
    Job("account, hourly releases", (100, 300, 1000), hourly_releases, 20),
    Job("beliefs, entries a person", (250, 500, 1000), beliefs_from_data, 30),
    Job("beliefs, people of a week", (5, 10, 20), beliefs_of_a_week, 10),
    Job("release for each subject, accounts", (2_000, 6_000, 20_000), each_with_accounts, 2),
    Job(
        "each subject on Spark, rows, clock",
        (1000, 3000, 10**4),
        spark_each,
        peers=(("Spark alone", bare_spark),),
        clock=True,
        needs=SPARK,
    ),
    Job(
        "release for each subject, accounts on PostgreSQL",
        (2_000, 6_000, 20_000),
        each_on_server,
        limit=1.2,
        needs=SERVER,
    ),
    Job("fleet, different lengths", (10**3, 10**4, 10**5), different_lengths, 5.0),
    Job(
        "duckdb table, rows",
        (10**5, 3 * 10**5, 10**6),
        duckdb_rows,
        peers=(("bare duckdb", bare_duckdb),),
    ),
    Job(
        "CSV series, rows",
        (10**5, 3 * 10**5, 10**6),
        csv_series,
        peers=(("bare polars", bare_csv),),
    ),
    Job("table, rows", (10**5, 3 * 10**5, 10**6), rows_of, peers=(("bare polars", bare_rows),)),
    Job(
        "table, text for subjects, rows",
        (10**5, 3 * 10**5, 10**6),
        text_rows,
        peers=(("bare polars", bare_text_rows),),
    ),
    Job(
        "table, integers for states, rows",
        (10**5, 3 * 10**5, 10**6),
        integer_rows,
        peers=(("bare polars", bare_integer_rows),),
    ),
    Job(
        "table of pandas, rows",
        (10**5, 3 * 10**5, 10**6),
        pandas_rows,
        peers=(("bare polars", bare_rows),),
    ),
    Job(
        "table, short series, subjects",
        (10**4, 5 * 10**4, 2 * 10**5),
        short_series,
        peers=(("bare polars", bare_short_series),),
    ),
    Job("series of texts, entries", (10**5, 3 * 10**5, 10**6), series_of_texts, 0.2),
    Job("attack, steps", (10**5, 3 * 10**5, 10**6), attack, peers=(("hmmlearn", hmmlearn_attack),)),
    Job("paths, steps", (10**5, 3 * 10**5, 10**6), paths, peers=(("hmmlearn", hmmlearn_paths),)),
]


def spent() -> float:
    """CPU seconds of this process so far, and of those it began and waited for."""
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + others.ru_utime + others.ru_stime


def seconds(made: Callable[[], Work], runs: int = 3, timer: Callable[[], float] = spent) -> float:
    """The least time of a few runs, each of work made anew; of one, if that takes long."""
    times: list[float] = []
    while len(times) < runs and sum(times) < 3:
        work = made()
        start = timer()
        work()
        times.append(timer() - start)
    return min(times)


def reference() -> float:
    """A small job of numpy and Python, as the unit in which tables are compared."""
    values = np.random.default_rng(0).random((200, 200))

    def work() -> float:
        total = 0.0
        for n in range(300_000):
            total += n % 7
        for _ in range(20):
            total += float((values @ values).max())
        return total

    return seconds(lambda: work, 5)


def measured(job: Job) -> dict[str, Any]:
    """The row of one job."""
    patience, compiling.PATIENCE = compiling.PATIENCE, -1.0
    job.made(job.sizes[0])()  # compile, load, warm
    compiling.PATIENCE = patience
    timer = perf_counter if job.clock else spent
    times = [seconds(partial(job.made, size), timer=timer) for size in job.sizes]
    growth = float(np.polyfit(np.log(job.sizes), np.log(times), 1)[0])
    beside = {} if job.limit is None else {"limit": job.limit}
    for name, made in job.peers:
        made(job.sizes[0])()
        beside[name] = seconds(partial(made, job.sizes[2]), timer=timer)
    return {"size": job.sizes[2], "seconds": times[2], "growth": growth, "beside": beside}


def last_kept() -> tuple[str, dict[tuple[str, int], float]] | None:
    """The table kept last: job and size to seconds in units of the reference."""
    kept = sorted(RESULTS.glob("*.json"), key=lambda path: json.loads(path.read_text())["number"])
    if not kept:
        return None
    table = json.loads(kept[-1].read_text())
    return kept[-1].stem, {
        (name, row["size"]): row["seconds"] / row["reference"]
        for name, row in table["jobs"].items()
    }


def keep_row(version: str, name: str, row: Mapping[str, Any]) -> None:
    """Put the row of one job into a table, in place of its last one; other rows stay."""
    path = RESULTS / f"{version}.json"
    table: dict[str, Any] = {"number": len(list(RESULTS.glob("*.json"))), "jobs": {}}
    if path.exists():
        table = json.loads(path.read_text())
    table["jobs"] = {job.name: table["jobs"].get(job.name) for job in JOBS} | {name: row}
    table["jobs"] = {own: kept for own, kept in table["jobs"].items() if kept is not None}
    path.write_text(json.dumps(table, indent=1) + "\n")


def printed(name: str, row: Mapping[str, Any], compared: str) -> None:
    """A line for the job and what stands beside it, one more for each further peer."""
    line = f"{name:36} {row['size']:>{WIDE},} {row['seconds']:9.3f} {row['growth']:7.2f}"
    for peer, theirs in row["beside"].items() or [("", math.nan)]:
        both = f"{theirs:9.3f} {row['seconds'] / theirs:7.2f}" if peer else f"{'-':>9} {'-':>7}"
        print(f"{line} {both}   " + ", ".join(filter(None, (peer, compared))), flush=True)
        line, compared = " " * len(line), ""


def main(arguments: list[str]) -> int:
    keep = arguments.pop(arguments.index("--keep") + 1) if "--keep" in arguments else None
    parts = [part for part in arguments if part != "--keep"]
    unit, last = reference(), last_kept()
    slower: list[str] = []
    failed: list[str] = []
    heads = (
        f"{'job':36} {'size':>{WIDE}} {'ours, s':>9} {'growth':>7} {'theirs, s':>9} {'ratio':>7}"
    )
    print(f"{heads}  peer or limit, and the last")
    for job in JOBS:
        if parts and not any(part in job.name for part in parts):
            continue
        if job.needs is not None and not os.environ.get(job.needs):
            print(f"{job.name:36} left out: {job.needs} is not set")
            continue
        try:
            row = measured(job) | {"reference": unit, "day": str(date.today())}
        except Exception as error:  # the other rows are wanted all the same
            print(f"{job.name:36} failed: {type(error).__name__}: {error}")
            failed.append(job.name)
            continue
        compared = ""
        if not job.clock and last is not None and (job.name, job.sizes[2]) in last[1]:
            before, now = last[1][job.name, job.sizes[2]] * unit, row["seconds"]
            compared = f"{now / before:.2f} times {last[0]}"
            if now > SLOWER * before and now > before + LEAST:
                slower.append(job.name)
        printed(job.name, row, compared)
        if keep is not None:
            keep_row(keep, job.name, row)
    if slower:
        print(f"slower than {SLOWER} times the last table: {', '.join(slower)}")
    return 1 if slower or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
