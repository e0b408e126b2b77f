"""Choices make objects and say themselves in code that does the same."""

import json
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from itertools import pairwise

import pytest
from typer.testing import CliRunner

import pufferkit as pk
from pufferkit.cli import app
from pufferkit.explore import calls
from pufferkit.explore.choices import OPTIONS, DataFile, PageQuestion, Request, on_page, read, words

OFF = (("of", ("it's off",)),)
CHAIN = pk.MarkovChain.steady([[0.7, 0.3], [0.4, 0.6]], ["it's off", 'on, "high"'])


@pytest.fixture
def deal(tmp_path):
    """An account of a series whose states, columns and file need quoting."""
    labels = [CHAIN.states[code] for code in CHAIN.sample(600, seed=3)]
    data = tmp_path / "my data.csv"
    cells = "\n".join('"' + label.replace('"', '""') + '"' for label in labels)
    data.write_text(f'"the state"\n{cells}\n')
    model = tmp_path / "a model.json"
    model.write_text(pk.ChainClass.of(CHAIN).to_json())
    return Request(
        DataFile(str(data), "the state"),
        str(model),
        PageQuestion("count", OFF),
        0.7,
        "influence_curve",
        str(tmp_path / "book.db"),
        "anna's; rm -rf",
        2.0,
    )


def by_python(deal):
    """The record that the program prints first; what it reads from it comes behind."""
    out = StringIO()
    with redirect_stdout(out):
        exec(deal.python(), {})
    return json.JSONDecoder().raw_decode(out.getvalue())[0]


def by_command(deal):
    name, *options = shlex.split(deal.command().replace("\\\n", " "))
    assert name == "pufferkit"
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    record.pop("derived", None)
    record.pop("read_from")  # the file and its columns, which the page does not write
    return record


@pytest.mark.parametrize(
    "question",
    [PageQuestion("count", OFF), PageQuestion("histogram"), PageQuestion("frequencies")],
)
def test_python_and_command_give_the_release_of_the_recipe(deal, question):
    deal = replace(deal, question=question)
    answer = calls.release(replace(deal, anyway=True))
    assert by_python(deal) == json.loads(answer["json"])
    assert by_command(deal) == json.loads(answer["json"])


LEVELS = pk.Bins([100, 760], unit="W")
METER = pk.MarkovChain.steady([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]], LEVELS.names)


@pytest.fixture
def meter(tmp_path):
    """Two days of a meter by the quarter of an hour, with times."""
    data, model = tmp_path / "meter.csv", tmp_path / "theta.json"
    start = datetime(2024, 3, 4)
    rows = "".join(
        f"{start + n * timedelta(minutes=15)},{(50, 500, 900)[code]}\n"
        for n, code in enumerate(METER.sample(192, seed=1))
    )
    data.write_text(f"time,power\n{rows}")
    model.write_text(pk.ChainClass.of(METER).to_json())
    return Request(
        DataFile(str(data), "power", "time", cuts="100, 760", unit="W"),
        str(model),
        PageQuestion(),
        5.0,
        "best",
        str(tmp_path / "book.db"),
        "home",
        50.0,
        anyway=True,
    )


SOON = ("by-hour", "stays", "variance", "quantile")
ALL = [kind if kind in SOON else pytest.param(kind, marks=pytest.mark.slow) for kind in on_page()]


@pytest.mark.parametrize("kind", ALL)
def test_every_question_is_released_in_the_same_way_by_page_python_and_command(meter, kind):
    deal = replace(meter, question=PageQuestion.first(kind, LEVELS.names))
    answer = calls.release(deal)
    record = json.loads(answer["json"])
    assert by_python(deal) == by_command(deal) == record
    assert answer["said"]["rows"]
    assert answer["picture"]["light"].startswith("data:image/svg+xml;base64,")
    assert record["scale"] > 0
    values = dict(deal.question.given).get("values")
    assert values is None or dict(values)["below 100 W"] < 100


def test_a_mechanism_and_several_states_in_both_codes(meter):
    for question in (
        PageQuestion("episodes", (("of", LEVELS.names[1:]),)),
        PageQuestion("frequencies"),
    ):
        deal = replace(meter, question=question, mechanism="markov_quilt")
        assert by_python(deal) == by_command(deal)
        assert by_python(deal)["mechanism"] == "markov_quilt"


def test_what_a_command_cannot_say_is_said_in_its_place(deal):
    question = PageQuestion.first("mean", CHAIN.states)
    told = replace(deal, question=question)
    assert told.command().startswith("# the command line takes no list of states whose names")
    assert "pk.mean(" in told.python()


def test_a_command_is_quoted_for_a_shell():
    told = words(["pufferkit", "release", "a b.csv", "--state", "it's", "--anyway"])
    assert shlex.split(told.replace("\\\n", " ")) == [
        *("pufferkit", "release", "a b.csv", "--state", "it's", "--anyway")
    ]


@pytest.mark.parametrize(
    ("question", "words_of_error"),
    [
        (PageQuestion("median"), "'median' is unknown"),
        (PageQuestion("count", (("of", ("gone",)),)), "'gone' is not one of the states"),
        (PageQuestion("mean", (("values", (("it's off", 1.0),)),)), "values: none for on"),
        (PageQuestion("episodes"), "states: choose at least one"),
        (PageQuestion("time-in", (*OFF, ("between", "noon"))), "between: "),
    ],
)
def test_questions_that_cannot_be_asked_say_why(question, words_of_error):
    with pytest.raises(ValueError, match=words_of_error):
        question.like(CHAIN.states, 10)


def test_cut_points_that_are_no_numbers_say_so():
    with pytest.raises(ValueError, match="cuts: 'x' is not a number"):
        _ = DataFile("a.csv", "power", cuts="1, x").bins


def clocks_go_back(path):
    """Hours of a night in which 02:00 occurs twice, as a clock on the wall shows them."""
    hours = [f"2024-10-27 0{hour}:00" for hour in (0, 1, 2, 2, 3, 4, 5, 6, 7, 8)]
    path.write_text("time,state\n" + "".join(f"{h},{'ab'[n % 2]}\n" for n, h in enumerate(hours)))
    return DataFile(str(path), "state", "time")


def test_options_of_the_reader_are_those_of_the_program_and_the_command(tmp_path):
    source = clocks_go_back(tmp_path / "night.csv")
    with pytest.raises(ValueError, match="rows 3, 4 have the same time") as refused:
        read(source)
    needed = [n for n, control in OPTIONS.items() if re.search(control.needed, str(refused.value))]
    assert needed == ["every", "repeated_hour"]
    treated = replace(source, timezone="Europe/Paris", repeated_hour="keep first")
    assert read(treated).missing == 1
    assert "timezone='Europe/Paris'" in treated.python()
    options = ["--timezone", "Europe/Paris", "--repeated-hour", "keep-first"]
    assert treated.command()[-4:] == options
    shown = replace(source, decimal=",", missing="NA").python()
    assert "pk.TextFormat(decimal=',', missing=('NA',))" in shown


def test_rows_that_are_intervals_have_a_control_for_their_end(tmp_path):
    path = tmp_path / "log.txt"
    hours = [f"2024-10-28 0{hour}:00" for hour in range(9)]
    rows = (f"{a}\t{b}\t{'xy'[n % 2]}\n" for n, (a, b) in enumerate(pairwise(hours)))
    path.write_text("from\tto\tstate\n" + "".join(rows))
    source = DataFile(str(path), "state", "from", end="to", separator="tab")
    with pytest.raises(ValueError, match="end: needs") as refused:
        read(source)
    needed = [n for n, control in OPTIONS.items() if re.search(control.needed, str(refused.value))]
    assert needed == ["every", "end"]
    assert len(read(replace(source, every="30m"))) == 16
    assert "--end to" in " ".join(source.command())
