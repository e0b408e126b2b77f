"""Recipes make objects and say themselves in code that does the same."""

import json
import shlex
from contextlib import redirect_stdout
from io import StringIO

import pytest
from typer.testing import CliRunner

import pufferkit as pk
from pufferkit.cli import app
from pufferkit.explore.recipes import Deal, Question, Source, words

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
    return Deal(
        Source(str(data), "the state"),
        str(model),
        Question("count", "it's off"),
        0.7,
        "influence_curve",
        str(tmp_path / "book.db"),
        "anna's",
        2.0,
        label="first; rm -rf",
    )


def by_python(deal):
    out = StringIO()
    with redirect_stdout(out):
        exec(deal.python(), {})
    return json.loads(out.getvalue())


def by_command(deal):
    name, *options = shlex.split(deal.command().replace("\\\n", " "))
    assert name == "pufferkit"
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "question",
    [Question("count", "it's off"), Question("histogram"), Question("frequencies")],
)
def test_python_and_command_give_the_release_of_the_recipe(deal, question):
    from dataclasses import replace

    deal = replace(deal, question=question)
    session, query = deal.session()
    with session.ledger:
        release = session.release(query, 0.7, mechanism=deal.mechanism, label=deal.label)
    assert by_python(deal) == json.loads(release.to_json())
    assert by_command(deal) == json.loads(release.to_json())


def test_levels_values_and_best_in_both_codes(tmp_path):
    levels = pk.Bins([100, 760], unit="W")
    chain = pk.MarkovChain.steady([[0.8, 0.1, 0.1]] * 3, levels.names)
    data, model = tmp_path / "meter.csv", tmp_path / "theta.json"
    numbers = "".join(f"{(50, 500, 900)[code]}\n" for code in chain.sample(400, seed=1))
    data.write_text(f"power\n{numbers}")
    model.write_text(pk.ChainClass.of(chain).to_json())
    values = tuple((name, float(n)) for n, name in enumerate(levels.names))
    deal = Deal(
        Source(str(data), "power", cuts="100, 760", unit="W"),
        str(model),
        Question("mean", values=values),
        1.0,
        "markov_quilt",
        str(tmp_path / "book.db"),
        "home",
        3.0,
        anyway=True,
    )
    assert by_python(deal) == by_command(deal)
    assert by_python(deal)["mechanism"] == "markov_quilt"


def test_a_command_is_quoted_for_a_shell():
    told = words(["pufferkit", "release", "a b.csv", "--state", "it's", "--anyway"])
    assert shlex.split(told.replace("\\\n", " ")) == [
        *("pufferkit", "release", "a b.csv", "--state", "it's", "--anyway")
    ]


@pytest.mark.parametrize(
    ("question", "words_of_error"),
    [
        (Question("median"), "'median' is unknown"),
        (Question("count", "gone"), "'gone' is not one of the states"),
        (Question("mean", values=(("it's off", 1.0),)), "values: none for on"),
    ],
)
def test_questions_that_cannot_be_asked_say_why(question, words_of_error):
    with pytest.raises(ValueError, match=words_of_error):
        question.over(CHAIN.states, 10)


def test_cut_points_that_are_no_numbers_say_so():
    with pytest.raises(ValueError, match="cuts: 'x' is not a number"):
        _ = Source("a.csv", "power", cuts="1, x").bins
