"""Good input to start from: small, so that a call takes milliseconds."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import polars

import pufferkit as pk
from pufferkit.local import cheapest_noise
from tests.asking import Asking

STEP = [[0.9, 0.1], [0.4, 0.6]]
STATES = ["rest", "run"]
CHAIN = pk.MarkovChain.steady(STEP, STATES)
PUBLIC = [STATES[x] for x in CHAIN.sample(300, seed=1)]
PRIVATE = [STATES[x] for x in CHAIN.sample(12, seed=2)]

NETWORK = pk.BayesianNetwork(
    {"a": (), "b": ("a",), "c": ("b",)},
    {
        "a": {(): [0.5, 0.5]},
        "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]},
        "c": {(0,): [0.7, 0.3], (1,): [0.4, 0.6]},
    },
)


def models() -> dict[str, str]:
    """One model of each kind, as JSON."""
    chains = {
        "chain": CHAIN,
        "finite": pk.ChainClass.of(CHAIN, pk.MarkovChain([1, 0], STEP, STATES)),
        "any_start": pk.ChainClass.any_start(STEP, states=STATES),
        "mixing": pk.ChainClass.mixing(STATES, 0.2, 0.5, reversible=True),
        "binary": pk.ChainClass.binary(0.2, 0.8, STATES),
        "fitted": pk.fit(PUBLIC),
        "region": pk.ChainClass.around(pk.Series.of(PUBLIC), 0.9),
        "joint": pk.FiniteJoint({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25}),
        "network": NETWORK,
    }
    return {name: json.dumps(model.to_dict()) for name, model in chains.items()}


def table() -> str:
    """A series of one subject."""
    rows = [f"{n},{state},{'day' if n < 6 else 'night'}" for n, state in enumerate(PRIVATE)]
    return "\n".join(["when,state,part", *rows, ""])


def days() -> str:
    """A series of one subject over two days, on a clock of half an hour."""
    start, codes = datetime(2026, 11, 16), CHAIN.sample(96, seed=3)
    rows = [
        f"{start + n * timedelta(minutes=30):%Y-%m-%d %H:%M},{STATES[code]}"
        for n, code in enumerate(codes)
    ]
    return "\n".join(["time,state", *rows, ""])


def walks() -> str:
    """Two subjects over one day, on a clock of an hour."""
    rows = [
        f"p{who},2026-11-16 {n:02d}:00,{STATES[code]}"
        for who in range(2)
        for n, code in enumerate(CHAIN.sample(24, seed=20 + who))
    ]
    return "\n".join(["who,time,state", *rows, ""])


def public() -> str:
    """A public table of four people, long enough to choose beliefs from."""
    rows = [
        f"p{who},{n},{STATES[code]}"
        for who in range(4)
        for n, code in enumerate(CHAIN.sample(60, seed=10 + who))
    ]
    return "\n".join(["who,when,state", *rows, ""])


def people() -> str:
    """A table of three subjects, with numbers as well as states."""
    rows = [
        f"p{n % 3},{n // 3},{state},{17 * n % 90},{'north' if n % 3 else 'south'}"
        for n, state in enumerate(PRIVATE + PRIVATE[::-1])
    ]
    return "\n".join(["who,when,state,load,region", *rows, ""])


def write(folder: Path) -> None:
    """All files that the commands of `commands` name."""
    for name, text in models().items():
        (folder / f"{name}.json").write_text(text)
    (folder / "data.csv").write_text(table())
    (folder / "people.csv").write_text(people())
    (folder / "days.csv").write_text(days())
    (folder / "walks.csv").write_text(walks())
    (folder / "public.csv").write_text(public())
    (folder / "weights.csv").write_text("state,early,late\nrest,0,1\nrun,2,0.5\n")
    (folder / "entries.csv").write_text("who,state\na,0\nb,1\nc,1\n")
    for name in ("data", "people"):
        polars.read_csv(folder / f"{name}.csv").write_parquet(folder / f"{name}.parquet")
    series = pk.Series.of(PRIVATE, STATES)
    query = pk.histogram(STATES, len(PRIVATE))
    release = pk.influence_curve(CHAIN, query, 1).release(series)
    (folder / "release.json").write_text(release.to_json())
    quilt = pk.markov_quilt(NETWORK, pk.count(1, 3), 1).release({"a": 0, "b": 1, "c": 1})
    (folder / "quilt.json").write_text(quilt.to_json())
    moves = pk.influence_curve(CHAIN, pk.transition_counts(STATES, len(PRIVATE)), 1)
    (folder / "moves.json").write_text(moves.release(series).to_json())
    (folder / "week.toml").write_text(JOB)
    response = cheapest_noise(CHAIN, 2)
    (folder / "response.json").write_text(response.to_json())
    with pk.Ledger(str(folder / "book.db")) as book:
        session = Asking(series, CHAIN, 3, book, name="anna")
        session.release(query, 0.5)
    with pk.Ledger(str(folder / "home.db")) as book:
        session = Asking(series, CHAIN, 1, book, name="home")
        session.release(query, 1.0, window=(1, len(PRIVATE)))


JOB = """[data]
file = "data.csv"
state = "state"
time = "when"
[beliefs]
model = "chain.json"
[question]
query = "count"
state-value = "run"
[release]
epsilon = 1.0
"""
RELEASE = "release data.csv --model chain.json --epsilon 1 --state state --anyway"
EACH = (
    "release people.csv --model chain.json --epsilon 1 --state state --time when "
    "--subject who --anyway"
)
SANITIZE = "sanitize data.csv --model chain.json --epsilon 1 --state state --out out.csv"
TOGETHER = (
    "release data.csv --model chain.json --state state --ask histogram=20 --ask episodes:run=15"
)
DAY = (
    "release days.csv --model chain.json --epsilon 1 --state state --time time "
    "--ledger stream.db --account home --budget 1 --window 2026-11-16 --anyway"
)
ANNA = "--ledger book.db --budget 3 --account anna"
PLANS = ("chain", "finite", "any_start", "mixing", "binary", "fitted", "region")

REFUTED = ["beliefs", "choose"]
"""Command whose exit code 1 says that no class fits."""

COMMANDS = f"""
plan --model network.json --epsilon 1 --query count --state-value 1
plan --model joint.json --epsilon 1 --query mean --values 0=0,1=2.5
plan --model chain.json --epsilon 1 --data data.csv --state state --json
{RELEASE}
{RELEASE} --out out.json
{RELEASE} --query count --state-value run --mechanism markov_quilt
{RELEASE} --time when --segment part --query total --values rest=0,run=1.5
{RELEASE} {ANNA}
{RELEASE} {ANNA} --label again --out out.json
release data.parquet --model chain.json --epsilon 1 --state state --anyway --out out.json
release entries.csv --model network.json --epsilon 1 --state state --entry who --query count \
    --state-value 1 --anyway
{EACH} --out out.csv
{EACH} --window 4 --out out.parquet
{EACH.replace("csv", "parquet")} --out out.csv
{EACH} --ledger new.db --budget 2 --out out.csv
{EACH} --per region --keys north,south --out out.csv
{TOGETHER.replace("release", "plan --data")}
{TOGETHER} --out out.json
{DAY}
{DAY} --query by-hour
release walks.csv --model chain.json --epsilon 1 --state state --time time \
    --subject who --ledger stream.db --budget 1 --window 2026-11-16 --anyway
synthetic moves.json --length 20 --seed 1
synthetic moves.json --length 20 --seed 1 --out out.csv
beliefs choose public.csv --state state --time when --subject who --regimes 1 --quick
beliefs check chain.json
beliefs fit data.csv --state state --smoothing 1
beliefs hide chain.json --secret runs:2
beliefs hide chain.json --secret at-least:run:3 --out out.json
{SANITIZE}
{SANITIZE} --time when --adversary ignorant --length 12
beliefs fit data.csv --state state --smoothing 0.5 --out out.json
beliefs fit data.csv --state state --kind around --confidence 0.9 --states rest,run
beliefs fit data.csv --state state --kind order --memory 2
beliefs fit people.csv --state load --time when --segment who --cuts 30,60 --smoothing 1
beliefs check chain.json --data data.csv --state state
beliefs check network.json
beliefs show finite.json
beliefs show region.json
beliefs show network.json
init days.csv --query frequencies --out new.toml
init people.csv --out new.toml --json
plan --job week.toml
release --job week.toml --anyway
verify release.json --job week.toml
verify quilt.json
ledger show book.db
ledger show book.db --account anna
ledger verify book.db
ledger budget anna 4 --ledger book.db --why agreed
ledger anchor book.db out.json
ledger export book.db --out out.jsonl
audit --model chain.json --epsilon 1 --length 4 --trials 500 --json
--version
"""


def commands() -> list[list[str]]:
    """Good commands over these files, at least one of each; all but `REFUTED` end with code 0."""
    plans = [f"plan --model {kind}.json --epsilon 1 --length 12" for kind in PLANS]
    return [line.split() for line in [*plans, *COMMANDS.strip().replace("\\\n", "").split("\n")]]


# -- drawn at random ------------------------------------------------------------------------------

VALUES = "--values rest=0,run=2.5"
QUESTIONS = (
    "--query histogram",
    "--query frequencies",
    "--query top-states --top 1",
    "--query count --state-value run",
    f"--query total {VALUES}",
    f"--query total {VALUES} --clip 0,2",
    f"--query mean {VALUES}",
    f"--query variance {VALUES} --clip 0,2",
    f"--query quantile {VALUES} --at 0.5",
    f"--query cumulative {VALUES}",
    f"--query load-duration {VALUES}",
    "--query linear --weights weights.csv",
    "--query transitions",
    "--query episodes --state-value run",
    "--query stays --state-value run",
)
OF_TIMES = (
    "--query by-hour",
    "--query by-weekday-hour",
    "--query by-day",
    "--query time-in --state-value run --between 00:00-12:00",
    "--query days-with --state-value run --at-least 1h",
    f"--query peak {VALUES}",
)
SERIES = (
    "data.csv --state state",
    "data.parquet --state state",
    "data.csv --state state --segment part",
    "data.csv --state state --every 10m --begins 2026-11-16",
    "data.csv --state state --time when",
    "days.csv --state state --time time",
)
TABLES = (
    "people.csv --state state --time when --subject who",
    "people.parquet --state state --time when --subject who",
    "people.csv --state state --time when --subject who --per region --keys north,south",
    "people.csv --state state --time when --subject who --window 4",
    "walks.csv --state state --time time --subject who",
)
MECHANISMS = ("influence_curve", "markov_quilt", "markov_quilt_approx", "group_dp", "exact_sum")
OUTPUTS = ("", "--json", "--out out.json", "--label again")
EPSILONS = ("0.1", "0.5", "1", "1.0", "3", "20")


def valid(rng: Random) -> list[str]:
    """A call that should succeed: one of `commands`, or options drawn from those that fit."""
    if rng.random() < 0.4:
        return list(rng.choice(commands()))
    base = f"--model {rng.choice(PLANS)}.json --epsilon {rng.choice(EPSILONS)}"
    series = rng.choice(SERIES)
    timed = series.startswith("days")
    asked = rng.choice(OF_TIMES if timed and rng.random() < 0.5 else QUESTIONS)
    by = f"--mechanism {rng.choice(MECHANISMS)}" if rng.random() < 0.3 else ""
    if "exact_sum" in by and not any(name in asked for name in ("count", "total", "mean")):
        by = ""
    match rng.randrange(6):
        case 0:
            where = rng.choice([f"--data {series}", f"--data {series}", "--length 12"])
            asked = asked if "--data" in where else rng.choice(QUESTIONS)
            words = f"plan {base} {where} {asked} {rng.choice(['', '--json', '--target 5'])}"
        case 1 | 2:
            account = rng.choice(["", "", "--ledger new.db --budget 25 --account a"])
            words = f"release {series} {base} {asked} {by} {account} {_output(rng, account)}"
        case 3:
            account = rng.choice(["", "--ledger new.db --budget 25"])
            asked = rng.choice(["--query histogram", "--query frequencies", QUESTIONS[3]])
            output = rng.choice(["", "--json", "--out out.csv", "--out out.parquet"])
            words = f"release {rng.choice(TABLES)} {base} {asked} {account} {output}"
        case 4:
            place = "--ledger stream.db --account home --budget 9 --window 2026-11-16"
            asked = rng.choice([*QUESTIONS, *OF_TIMES])
            words = f"release {SERIES[-1]} {base} {place} {asked}"
        case _:
            output = rng.choice(["", "--json", "--out out.json"])
            model = f"--model {rng.choice(PLANS)}.json"
            words = f"release {series} {model} --ask histogram=20 --ask transitions=30 {output}"
    if words.startswith("release"):
        words += " --anyway"
    return words.split()


def _output(rng: Random, account: str) -> str:
    wanted = rng.choice(OUTPUTS)
    return "" if "--label" in wanted and not account else wanted
