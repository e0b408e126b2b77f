"""Good input to start from: small, so that a call takes milliseconds."""

import json
from pathlib import Path

import polars

import pufferkit as pk
from pufferkit.local import cheapest_noise

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
        "fitted": pk.MarkovChain.fit(PUBLIC),
        "region": pk.ChainClass.around(pk.Series.of(PUBLIC), 0.9),
        "joint": pk.FiniteJoint({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25}),
        "network": NETWORK,
    }
    return {name: json.dumps(model.to_dict()) for name, model in chains.items()}


def table() -> str:
    """A series of one subject."""
    rows = [f"{n},{state},{'day' if n < 6 else 'night'}" for n, state in enumerate(PRIVATE)]
    return "\n".join(["when,state,part", *rows, ""])


def people() -> str:
    """A table of three subjects, with numbers as well as states."""
    rows = [
        f"p{n % 3},{n // 3},{state},{17 * n % 90}"
        for n, state in enumerate(PRIVATE + PRIVATE[::-1])
    ]
    return "\n".join(["who,when,state,load", *rows, ""])


def write(folder: Path) -> None:
    """All files that the commands of `commands` name."""
    for name, text in models().items():
        (folder / f"{name}.json").write_text(text)
    (folder / "data.csv").write_text(table())
    (folder / "people.csv").write_text(people())
    (folder / "entries.csv").write_text("who,state\na,0\nb,1\nc,1\n")
    for name in ("data", "people"):
        polars.read_csv(folder / f"{name}.csv").write_parquet(folder / f"{name}.parquet")
    series = pk.Series.of(PRIVATE, STATES)
    query = pk.histogram(STATES, len(PRIVATE))
    release = pk.influence_curve(CHAIN, query, 1).release(series)
    (folder / "release.json").write_text(release.to_json())
    quilt = pk.markov_quilt(NETWORK, pk.count(1, 3), 1).release({"a": 0, "b": 1, "c": 1})
    (folder / "quilt.json").write_text(quilt.to_json())
    response = cheapest_noise(CHAIN, 2)
    (folder / "response.json").write_text(response.to_json())
    with pk.Ledger(str(folder / "book.db")) as book:
        session = pk.Session(series, CHAIN, 3, book, name="anna")
        session.release(query, 0.5)


RELEASE = "release data.csv --model chain.json --epsilon 1 --state state --anyway"
EACH = (
    "release-each people.csv --model chain.json --epsilon 1 --state state --time when "
    "--subject who --anyway"
)
SANITIZE = "sanitize data.csv --model chain.json --epsilon 1 --state state --out out.csv"
ANNA = "--ledger book.db --budget 3 --account anna"
PLANS = ("chain", "finite", "any_start", "mixing", "binary", "fitted", "region")

COMMANDS = f"""
plan --model network.json --epsilon 1 --query count --state-value 1
plan --model joint.json --epsilon 1 --query mean --values 0=0,1=2.5
plan --model chain.json --epsilon 1 --data data.csv --state state --json
{RELEASE}
{RELEASE} --out out.json --proper
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
{SANITIZE}
{SANITIZE} --record out.json --time when --adversary ignorant --length 12
fit data.csv --state state --smoothing 0.5 --out out.json
fit data.csv --state state --around 0.9 --states rest,run
fit data.csv --state state --order 2 --start stationary
fit people.csv --state load --time when --segment who --cuts 30,60 --max-gap 2 --smoothing 1
check chain.json --data data.csv --state state --level 0.01
check network.json
model show finite.json --all
model show region.json
model show network.json
verify release.json
verify quilt.json
ledger show book.db
ledger show book.db --account anna
ledger verify book.db
ledger export book.db --out out.jsonl
audit --model chain.json --epsilon 1 --length 4 --trials 500 --json
reproduce
--version
"""


def commands() -> list[list[str]]:
    """Good commands over these files; each ends with exit code 0."""
    plans = [f"plan --model {kind}.json --epsilon 1 --length 12" for kind in PLANS]
    return [line.split() for line in [*plans, *COMMANDS.strip().split("\n")]]
