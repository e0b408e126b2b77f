"""Groups of subjects on the command line."""

import html
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


ASKED = ("--ask", "histogram=300", "--ask", "count:run=90")


@pytest.mark.parametrize("about", [(), ("--per", "all"), GROUPS, ("--window", "150")])
def test_several_questions_are_one_payment_with_a_table_each(people, about):
    book = ("--ledger", "ledger.db", "--budget", "2", "--out", "t.csv")
    call = (*EACH[:4], *COLUMNS, *ASKED, *about, *book)
    said = good(*call)
    assert "one of 2 questions" in said
    tables = [Path(f"t-{name}.csv") for name in ("histogram", "count-run")]
    first = [path.read_text() for path in tables]
    assert all(pk.verify(str(path)).ok for path in tables)
    good(*call)
    assert [path.read_text() for path in tables] == first


def test_several_questions_need_a_place_for_their_tables(people):
    for more in (
        (),
        ("--out", "t.csv", "--plot", "p.png"),
        ("--out", "t.csv", "--report", "r.html"),
    ):
        assert "writes a table for each question" in refusal(*EACH, *COLUMNS, *ASKED, *more)
    assert not list(Path().glob("t*"))


@pytest.mark.parametrize("about", [(), GROUPS])
def test_a_report_of_a_table(people, about):
    said = good(*EACH, *COLUMNS, *about, "--out", "t.csv", "--report", "r.html")
    page = Path("r.html").read_text()
    assert said.splitlines()[0] in page  # the same statements on a terminal and on the page
    assert "image/png" in page
    record = html.unescape(page.partition("<pre id=record>")[2].partition("</pre>")[0])
    assert pk.verify(json.loads(record)).ok


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
