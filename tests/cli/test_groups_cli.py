"""Groups of subjects on the command line."""

import json
from pathlib import Path

import pytest

import pufferkit as pk
from tests.strategies.command_line import MODEL, folder, good, refusal, refusals

__all__ = ["folder"]

EACH = ("release", "people.csv", "--model", "model.json", "--epsilon", "2")
COLUMNS = ("--subject", "who", "--time", "t", "--state", "s")
GROUPS = ("--per", "region", "--keys", "north,south,west")


@pytest.fixture
def people(folder):
    chain, rows = pk.MarkovChain.steady(MODEL["transition"]), ["who,region,t,s"]
    for who, region in ((1, "north"), (2, "south"), (3, "north")):
        codes = chain.sample(300, seed=who)
        rows += [f"{who},{region},{t},{MODEL['states'][code]}" for t, code in enumerate(codes)]
    Path("people.csv").write_text("\n".join([*rows, ""]))


def test_a_row_for_each_declared_key(people):
    record = json.loads(good(*EACH, *COLUMNS, *GROUPS, "--json"))
    assert record["rows"]["group"] == ["north", "south", "west"]
    good(*EACH, *COLUMNS, *GROUPS, "--out", "groups.csv")
    assert pk.verify("groups.csv").ok
    header, *lines = Path("groups.csv").read_text().splitlines()
    assert "group" in header.split(",")
    assert len(lines) == 3


def test_groups_cost_what_one_release_costs(people):
    book = ("--ledger", "ledger.db", "--budget", "2")
    first = good(*EACH, *COLUMNS, *GROUPS, *book)
    assert good(*EACH, *COLUMNS, *GROUPS, *book) == first
    accounts = pk.Ledger("ledger.db").accounts()
    assert {account.total for account in accounts} == {2_000_000}


@refusals(
    {
        "--per region": "--per and --keys: groups need both",
        "--keys north": "--per and --keys: groups need both",
        "--per region --keys north": "'south' not among the declared keys",
        "--per nothing --keys a,b": "there is no column 'nothing'",
        "--per t --keys a,b": "two groups",
    }
)
def test_what_does_not_fit_is_refused(people, options, words):
    assert words in refusal(*EACH, *COLUMNS, *options)
