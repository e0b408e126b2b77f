"""Every question by its name: planned, released, drawn, audited; of many and with others."""

import json
from pathlib import Path

import pytest

import pufferkit as pk
from pufferkit.data.query import NAMES
from tests.strategies.command_line import MODEL, folder, good

__all__ = ["folder"]

pytestmark = pytest.mark.slow

NUMBERS = ("--values", "rest=0,run=10")
OF = ("--state-value", "run")
MORE = {
    "count": OF,
    "episodes": OF,
    "stays": OF,
    "time-in": OF,
    "days-with": (*OF, "--at-least", "2h"),
    "share-of-days": (*OF, "--at-least", "2h"),
    "total": (*NUMBERS, "--clip", "0,4"),
    "mean": NUMBERS,
    "variance": (*NUMBERS, "--clip", "0,4"),
    "quantile": (*NUMBERS, "--at", "0.5"),
    "peak": NUMBERS,
    "load-duration": NUMBERS,
    "linear": ("--weights", "weights.csv"),
    "top-states": ("--top", "1"),
}


@pytest.mark.parametrize("name", list(NAMES))
def test_every_command(folder, name):
    Path("weights.csv").write_text("state,active,energy\nrun,1,3.5\n")
    chain, lines = pk.MarkovChain.steady(MODEL["transition"], MODEL["states"]), []
    for n, who in enumerate(("ann", "bob")):
        for t, code in enumerate(chain.sample(96, seed=n)):
            lines.append(
                f"{who},{who[0]},2024-03-{4 + t // 24:02d} {t % 24:02d}:00,{chain.states[code]}"
            )
    Path("people.csv").write_text("\n".join(["who,region,when,state", *lines, ""]))
    Path("one.csv").write_text("\n".join(["who,region,when,state", *lines[:96], ""]))
    Path("few.csv").write_text("\n".join(["who,region,when,state", *lines[22:27], ""]))
    more = ("--query", name, *MORE.get(name, ()))
    model = ("--model", "model.json", "--epsilon", "1")
    columns = ("--state", "state", "--time", "when")
    assert json.loads(good("plan", *model, "--data", "one.csv", *columns, *more, "--json"))["rows"]
    good("release", "one.csv", *model, *columns, *more, "--out", "one.json", "--plot", "one.svg")
    assert pk.verify("one.json").ok
    each = ("release", "people.csv", *model, *columns, "--subject", "who", *more)
    good(*each, "--out", "each.csv", "--plot", "each.svg")
    assert pk.verify("each.csv").ok
    good(*each, "--per", "region", "--keys", "a,b", "--out", "groups.csv")
    assert pk.verify("groups.csv").ok
    audited = ("--data", "few.csv", *columns, "--trials", "100")
    assert "passed" in good("audit", *model, *more, *audited)
    details = MORE.get(name, ())[2:] if MORE.get(name, ())[:2] == OF else MORE.get(name, ())
    of = ":run" if MORE.get(name, ())[:2] == OF else ""
    asked = ("--ask", f"{name}{of}=60", "--ask", "by-day=80", *details)
    asked = asked if name != "by-day" else asked[:2]
    files = ("release", "one.csv", "--model", "model.json", *columns)
    good(*files, *asked, "--out", "both.json", "--plot", "both.svg")
    assert pk.verify("both.json").ok
    day = ("release", "one.csv", *model, *columns, *more, "--window", "2024-03-05")
    good(*day, "--ledger", "l.db", "--account", "ann", "--budget", "1", "--out", "day.json")
    assert pk.verify("day.json").ok
