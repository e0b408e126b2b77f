"""Exact answers planted in data appear in no output, log, temporary file, error or record.

The noise is replaced by known numbers, another one for each coordinate, so that an exact answer
that is found was not drawn by chance. What a user asks to see is left out (the
rows of a table), and so are commands about public data (``fit``, ``check``, ``beliefs``).
"""

import asyncio
import json
import logging
import re
import tempfile
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import noise
from pufferkit.explore import calls
from pufferkit.explore.workspace import PRIVATE, Workspace
from tests.asking import Asking, for_all, for_each
from tests.explore.inline import Inline
from tests.strategies.command_line import MODEL, folder, run

__all__ = ["folder"]

STATES = MODEL["states"]
VALUES = {"rest": 0, "run": 2.5}
LENGTHS = (40_009, 50_021)
RUNS = (15_101, 19_373)
"""Entries of each person, and how many of them are ``run``."""


def planted(who):
    """A series with this many entries of ``run``, in stays of varying lengths."""
    rng = np.random.default_rng(who)
    codes = np.zeros(LENGTHS[who], dtype=int)
    codes[rng.permutation(LENGTHS[who])[: RUNS[who]]] = 1
    return [STATES[code] for code in codes]


SERIES = [planted(0), planted(1)]


def canaries():
    """Exact answers of five digits and more, as they would be written."""
    numbers = set()
    for series in (*SERIES, SERIES[0] + SERIES[1]):
        data = pk.Series.of(series, STATES)
        for query in (
            pk.histogram(STATES, data),
            pk.transition_counts(STATES, data),
            pk.total(VALUES, data),
        ):
            numbers |= {str(float(answer)).removesuffix(".0") for answer in query.exact(data)}
        share = data.counts / len(data)
        numbers |= {f"{part:.9f}"[:7] for part in share.tolist()}
    return sorted(number for number in numbers if len(number) >= 5)


PATTERN = re.compile(
    rf"(?<![0-9a-fA-F.])({'|'.join(map(re.escape, canaries()))})"
    r"(?:(?<=0\.\d{5})|(?![0-9a-fA-F]))"  # shares may go on
)


def leaked(text):
    return PATTERN.findall(text)


@pytest.fixture(autouse=True)
def known_noise(monkeypatch):
    """Numbers in place of noise, another one for each coordinate."""

    def offsets(size):
        return 1_000_003.0 + 611_953.0 * np.arange(size)

    def added(answers, which, *_):
        rows = [np.array([float(Fraction(a)) for a in answers[n]]) for n in which]
        return [float(v) for row in rows for v in row + offsets(len(row))]

    monkeypatch.setattr(noise, "laplace", added)
    monkeypatch.setattr(noise, "discrete_laplace", added)
    monkeypatch.setattr(
        noise,
        "discrete_laplace_rows",
        lambda rows, *_, **__: rows + offsets(rows.shape[1]).astype(np.int64),
    )


@pytest.fixture
def files(folder, monkeypatch):
    start, lines = datetime(2020, 1, 1), []
    for who, series in enumerate(SERIES):
        rows = [
            f"p{who},{start + n * timedelta(minutes=30):%Y-%m-%d %H:%M},{state}"
            for n, state in enumerate(series)
        ]
        Path(f"p{who}.csv").write_text("\n".join(["who,time,state", *rows, ""]))
        lines += [f"{row},north" for row in rows]
    Path("people.csv").write_text("\n".join(["who,time,state,region", *lines, ""]))
    Path("tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(Path("tmp").resolve()))
    return {path.name for path in Path().iterdir()}


def written(files):
    """The text of every file that was not there before, databases included."""
    new = [path for path in Path().rglob("*") if path.is_file() and path.name not in files]
    return {str(path): path.read_bytes().decode("latin-1") for path in new}


def test_the_canaries_would_be_seen():
    assert len(canaries()) > 20
    assert leaked("run 15101, share 0.377441") == ["15101", "0.37744"]
    assert not leaked("0.15101 a15101b 151010")


ONE = "p0.csv --model model.json --epsilon 1 --state state --time time"
BOOK = "--ledger book.db --budget 3 --account a"
TABLE = "people.csv --model model.json --epsilon 1 --state state --time time --subject who"
COMMANDS = (
    "plan --model model.json --epsilon 1 --data p0.csv --state state --time time",
    f"release {ONE} --out a.json --plot a.svg",
    f"release {ONE} --query frequencies",
    f"release {ONE} --query total --values rest=0,run=2.5 --out t.json",
    f"release {ONE} --query transitions --out moves.json {BOOK}",
    f"release {ONE} {BOOK} --label second --json",
    f"release {ONE} {BOOK} --label third --out third.json",
    "release p1.csv --model model.json --epsilon 0.00001 --state state",
    f"release {ONE} --window 7d --out weeks.csv",
    f"release {TABLE} --out each.csv --plot each.svg",
    f"release {TABLE} --query frequencies --json --confirm-data "
    "--ledger book.db --budget 2 --account each/",
    f"release {TABLE} --per region --keys north,south --out groups.csv",
    f"release {TABLE} --per region --keys west",
    f"release {ONE} --ask histogram=20 --ask transitions=30 --out joint.json".replace(
        "--epsilon 1 ", ""
    ),
    "release p0.csv --model model.json --epsilon 1 --state state --time time "
    "--ledger stream.db --account s --budget 1 --window 2020-01-01,2023-01-01 --out s.json",
    "synthetic moves.json --length 50 --seed 1",
    "verify a.json",
    "verify moves.json",
    "verify each.csv",
    "ledger show book.db --account a",
    "ledger export book.db --out book.jsonl",
    "ledger verify book.db",
    "sanitize p0.csv --model model.json --epsilon 4 --state state --out local.csv",
)


def test_no_command_shows_or_keeps_an_exact_answer(files, caplog):
    caplog.set_level(logging.DEBUG)
    codes = []
    for command in COMMANDS:
        args = command.split()
        done = run("-v", *args, *(["--anyway"] if args[0] in ("release", "release") else []))
        assert not leaked(done.output + done.stderr), command
        codes.append(done.exit_code)
    assert codes.count(0) >= len(COMMANDS) - 4, list(zip(codes, COMMANDS, strict=True))
    assert not leaked(caplog.text)
    for name, text in written(files).items():
        assert not leaked(text), name


def acts(book):
    """Public acts about one series and about many, each with what it returns."""
    chain = pk.MarkovChain.steady(MODEL["transition"], STATES)
    data, query = pk.Series.of(SERIES[0], STATES), pk.histogram(STATES, LENGTHS[0])
    session = Asking(data, chain, 2.0, book, name="session")
    paid = {"ledger": book, "budget": 1, "prefix": "p/"}
    yield pk.influence_curve(chain, query, 1).release(data)
    yield pk.markov_quilt(chain, pk.total(VALUES, data), 1).release(data)
    yield pk.plan_quantile(chain, 0.5, VALUES, LENGTHS[0], 1).release(data)
    yield pk.plan(chain, {"a": (query, 20)}).release(data)
    yield session.release(query, 1.0)
    yield session.release(pk.transition_counts(STATES, data), 0.5)
    yield session.account
    yield session.history
    yield session.profile
    yield session.plan(query, 0.1)
    again = Asking(data, chain, 2, book, name="again", confirm_data=True)
    yield again.release(query, 1.0, window=(1, LENGTHS[0]))
    table = pk.read("people.csv", subject="who", time="time", state="state", states=STATES)
    yield table
    yield for_each(table, chain, 1)
    yield for_each(table, chain, 1, query="frequencies", confirm_data=True, **paid)
    yield for_all(table, chain, 1)
    for act in (
        lambda: session.release(query, 5.0),
        lambda: session.release(query, 0.1, window=(1, 5)),
        lambda: pk.influence_curve(chain, pk.histogram(STATES, 9), 1).release(data),
        lambda: for_all(table, chain, 9, **paid),
        lambda: Asking(data, chain, 1.0, book, name="again").release(query, 1.0),
    ):
        with pytest.raises(ValueError, match=r".") as refused:
            act()
        yield refused.value


def shown(thing):
    """Everything an object says of itself."""
    said = [str(thing), repr(thing)]
    for name in ("to_json", "_repr_html_", "columns", "explain", "table_rows"):
        if hasattr(thing, name) and not (isinstance(thing, pk.Table) and name == "table_rows"):
            said.append(str(getattr(thing, name)()))
    return "\n".join(said)


def test_no_act_shows_or_keeps_an_exact_answer(files, caplog):
    caplog.set_level(logging.DEBUG)
    with pk.Ledger("book.db") as book:
        for number, thing in enumerate(acts(book)):
            text = shown(thing)
            assert not leaked(text), (number, leaked(text), text[:500])
    assert not leaked(caplog.text)
    for name, text in written(files).items():
        assert not leaked(text), name


def test_the_explorer_shows_no_exact_answer(files, tmp_path):
    async def walk():
        page = Workspace(tmp_path / "explorer", Inline)
        await page.name(PRIVATE, "p0.csv")
        page.correct(PRIVATE, state="state", time="time")
        await page.read(PRIVATE)
        await page.build("bounds", calls.bounded, STATES, 0.2, 0.8)
        await page.set_budget("a", 3)
        yield page.files[PRIVATE].seen
        yield await page.live()
        yield await page.plan()
        yield await page.cost()
        yield await page.release()

    async def seen():
        return [json.dumps(said, default=str) async for said in walk()]

    for text in asyncio.run(seen()):
        assert not leaked(text), text[:500]
    for name, text in written(files).items():
        assert not leaked(text), name
