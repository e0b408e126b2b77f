"""A question that is defined here, as CONTRIBUTING shows it, works everywhere."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import pufferkit as pk
from pufferkit import plots
from pufferkit.data.queries import argument, entered, several
from pufferkit.data.query import KINDS, NAMES, OptionName, Question
from tests.asking import Asking, for_all, for_each
from tests.oracles import asked as oracle

STATES = ("rest", "walk", "run")
MATRIX = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
CHAIN = pk.MarkovChain.steady(MATRIX, states=STATES)


@pytest.fixture
def starts():
    """Five times the episodes of some states: an entry moves it by 5, as it says."""

    @dataclass(frozen=True)
    class Starts(Question):
        """Five points for each episode: an entry makes or ends at most one, so it moves it by 5."""

        kind: ClassVar[str] = "starts"
        names: ClassVar[Mapping[str, OptionName]] = {
            "starts": OptionName("moves", "five points for each episode of some states")
        }
        of: tuple = argument("states", "state_value", "State of the question; several as A,B.")

        def __post_init__(self):
            object.__setattr__(self, "of", several(self.of, self.kind))

        def apart(self, over):
            return {state: (Fraction(5),) for state in self.of}

        def listed(self, over):
            return self.of

        def known(self, over):
            return None

        def of_codes(self, over, codes):
            inside = (codes >= 0) & (codes < len(self.of))
            return np.array([5 * entered(inside, over.lengths)])

        def largest(self, over):
            return 5.0 * sum(over.lengths)

    yield Starts
    del NAMES["starts"], KINDS["starts"]


def answer(data):
    return [5 * oracle.episodes(data, [len(data)], {1, 2})]


def test_it_is_planned_released_charged_verified_audited_and_drawn(starts, tmp_path):
    asked = starts(("walk", "run"))
    noise = pk.plan(CHAIN, asked, 1.0, 4).best
    moved = oracle.furthest(answer, 4, 3)
    assert (moved <= noise.query.moved(STATES)[0].cost).all()
    assert moved.max() == noise.query.lipschitz == 5
    loss = oracle.loss(CHAIN.initial, MATRIX, answer, [4], [noise.scale])
    assert 0.1 < loss <= 1 + 1e-9
    assert pk.audit.audit(noise, trials=100, seed=1).passed
    assert not pk.audit.audit(replace(noise, scale=noise.scale / 8), trials=100, seed=1).passed

    data = pk.Series.of([STATES[code] for code in CHAIN.sample(300, seed=1)], STATES)
    assert asked.exact(data) == [5 * oracle.episodes(data.codes.tolist(), [300], {1, 2})]
    session = Asking(data, CHAIN, 1.0, str(tmp_path / "book.db"))
    release = session.release(asked.bind(STATES, data), 1.0)
    assert session.remaining < 1e-3
    assert release.scale >= pk.influence_curve(CHAIN, pk.episodes(["walk", "run"], 300), 1).scale
    assert plots.figure_of(release).axes
    verdict = pk.verify(json.loads(release.to_json()))
    assert verdict.ok, str(verdict)
    assert "moves the answer by 5 (starts)" in str(verdict)
    half = replace(release, scale=release.scale / 2, lipschitz=2.5)
    assert not pk.verify(half).ok


def test_it_is_released_for_each_subject_and_for_all(starts):
    asked = starts("run")
    rows = [
        (who, t, STATES[code])
        for number, who in enumerate(("ann", "bob"))
        for t, code in enumerate(CHAIN.sample(100, seed=number))
    ]
    frame = pl.DataFrame(rows, schema=["who", "t", "x"], orient="row")
    table = pk.read(frame, subject="who", time="t", state="x", states=STATES)
    needed = pk.influence_curve(CHAIN, asked, 1, 100).scale
    for releases in (
        for_each(table, CHAIN, 1, query=asked, anyway=True),
        for_all(table, CHAIN, 1, query=asked, anyway=True),
    ):
        assert (releases.scale >= needed * (1 - 1e-9)).all()
        verdict = pk.verify(json.loads(releases.to_json()))
        assert verdict.ok, str(verdict)
        assert plots.figure_of(releases).axes
        weaker = json.loads(releases.to_json())
        weaker["rows"]["scale"] = [scale / 5 for scale in weaker["rows"]["scale"]]
        assert not pk.verify(weaker).ok


def test_the_command_line_and_the_page_offer_it(starts, tmp_path):
    from pufferkit.cli import app

    (tmp_path / "model.json").write_text(pk.ChainClass.of(CHAIN).to_json())
    options = ["plan", "--model", str(tmp_path / "model.json"), "--epsilon", "1", "--length", "300"]
    done = CliRunner().invoke(app, [*options, "--query", "starts", "--state-value", "run"])
    assert done.exit_code == 0, done.output
    assert "starts" in done.output
    done = CliRunner().invoke(app, [*options, "--query", "starts"])
    assert done.exit_code == 2
    assert "--state-value" in done.output + str(done.stderr)
    from pufferkit.explore.choices import PageQuestion

    page = PageQuestion.first("starts", STATES)
    assert dict(page.given) == {"of": ("run",)}
    assert page.question(STATES) == starts(("run",))
    assert page.command() == ["--query", "starts", "--state-value", "run"]
