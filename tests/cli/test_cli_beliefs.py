"""``pufferkit beliefs choose``: public people in, a model that they do not refute out."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import pufferkit as pk
from tests.oracles.switching import draw
from tests.strategies.command_line import refusal, refusals, run

REGIMES = np.array([[0.97, 0.03], [0.03, 0.97]])
SHOWN = np.array([[0.9, 0.1], [0.2, 0.8]])
LABELS = ("rest", "run")
ASKED = ("--subject", "id", "--time", "t", "--state", "s", "--query", "frequencies")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five people, twelve days each, an entry every half hour."""
    path = tmp_path_factory.mktemp("people") / "public.csv"
    lines = ["id,t,s"]
    for person in range(5):
        start = datetime(2024, 3, 4, 6, 0)
        for n, x in enumerate(draw(REGIMES, SHOWN, 12 * 48, person)):
            when = start + n * timedelta(minutes=30)
            lines.append(f"p{person},{when:%Y-%m-%dT%H:%M},{LABELS[x]}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_from_people_to_a_model_that_they_do_not_refute(table, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    done = run(
        "beliefs",
        "choose",
        table,
        *ASKED,
        "--regimes",
        "2",
        "--out",
        "m.json",
        "--report",
        "r.html",
    )
    assert done.exit_code == 0, done.stderr
    assert "5 people in 5 folds, seed 0, left out in turn" in done.stdout
    assert "one entry gives away" in done.stdout
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert "NO" in lines["single chain"]
    assert "regimes" in lines[next(name for name in lines if name.startswith("recommended"))]
    model = pk.RegimeClass.from_json(Path("m.json").read_text())
    assert model.states == LABELS
    assert pk.influence_curve(model, pk.relative_frequencies(LABELS, 100), 1).scale > 0
    page = Path("r.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "<td>single chain</td>" in page


def test_one_person_is_cut_into_stretches(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = [line for line in table.read_text().splitlines() if line.startswith(("id", "p0"))]
    Path("one.csv").write_text("\n".join(own) + "\n")
    done = run("beliefs", "choose", "one.csv", *ASKED, "--regimes", "1", "--out", "m.json")
    assert done.exit_code == 1, done.stderr
    assert "one person only, cut into stretches" in done.stdout
    assert "recommended: none of these" in done.stdout
    assert "what may survive" in done.stdout
    assert not Path("m.json").exists()  # what fails is not written


def test_what_cannot_be_asked(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for wrong in ("0", "two", "2,,3", ""):
        assert "--regimes" in refusal("beliefs", "choose", table, *ASKED, "--regimes", wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kind", "seasonal"], "48 slots of the clock"),
        (["--kind", "seasonal", "--period", "7d"], "336 slots of the clock"),
        (["--kind", "hull"], "hull of 26 chains"),
        (["--kind", "hull", "--inflate", "0.05"], "rows inflated by 0.05"),
        (["--kind", "hull", "--inflate", "calibrated", "--period", "24"], "hull of 26 chains"),
        pytest.param(
            ["--kind", "regimes", "--regimes", "2"], "2 hidden regimes", marks=pytest.mark.slow
        ),
        (["--kind", "order", "--memory", "3"], "memory of 3 entries"),
    ],
)
def test_each_class_is_counted_by_one_command(table, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    people = ("--segment", "id", "--time", "t", "--state", "s", "--out", "m.json")
    done = run("beliefs", "fit", table, *people, *options)
    assert done.exit_code == 0, done.stderr
    shown = run("beliefs", "show", "m.json")
    assert shown.exit_code == 0, shown.stderr
    assert words in shown.stdout
    assert re.search(r"\d\.\d\d", shown.stdout)  # a matrix, not its description alone
    # Enough epsilon for the noise not to drown the answer: no remedies are sought.
    planned = run(
        "plan", "--model", "m.json", "--query", "histogram", "--length", "100", "--epsilon", "9"
    )
    assert planned.exit_code == 0, planned.stderr
    assert "influence_curve" in planned.stdout


@refusals(
    {
        "--kind hull --confidence 0.9": "--confidence: needs --kind around",
        "--kind seasonal --inflate 0.1": "--inflate: needs --kind",
        "--kind regimes": "--regimes: gives the number",
        "--regimes 2": "--regimes: needs --kind regimes",
        "--period 7d": "--period: needs --kind",
        "--kind hull --inflate much": "much",
        "--kind seasonal --period 45m": "period",
    }
)
def test_classes_that_cannot_be_counted(table, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    people = ("--segment", "id", "--time", "t", "--state", "s", "--out", "m.json")
    assert words in refusal("beliefs", "fit", table, *people, *options)
    assert not Path("m.json").exists()


def test_noise_is_for_what_was_observed(tmp_path, monkeypatch):
    """Shares were divided by every slot between the first and the last reading."""
    rows = ["id,t,s"]
    for person in range(2):
        for n in range(40):
            when = datetime(2024, 3, 4) + timedelta(minutes=n if n < 38 else 60 * n)
            rows.append(f"p{person},{when:%Y-%m-%dT%H:%M},{LABELS[n % 2]}")
    path = tmp_path / "sparse.csv"
    path.write_text("\n".join(rows) + "\n")
    asked = []

    def stopped(people, query, **options):
        asked.append(query)
        raise ValueError("seen enough")

    monkeypatch.setattr("pufferkit.fitting.choosing.choose_beliefs", stopped)
    assert "seen enough" in run("beliefs", "choose", path, *ASKED).stderr
    (query,) = asked
    assert sum(query.observed) == 40
    assert sum(query.lengths) == 60 * 39 + 1
    assert query.lipschitz == pytest.approx(2 / 40)
