"""Every option that a command accepts changes something, or is refused."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import pufferkit as pk
from pufferkit.cli import app
from tests.strategies.command_line import MODEL

ASKED = ["--model", "model.json", "--epsilon", "1"]
READ = [*ASKED, "--state", "state"]
TIMED = [*READ, "--time", "when"]
BOOK = ["--ledger", "l.db", "--account", "anna"]
ANYWAY = ["--anyway"]

ALL = ["--window", "2026-11-16 00:00,2026-12-01 00:00"]
SERIES = ["data.csv", *TIMED]
PAID = [*BOOK, "--budget", "3", *ANYWAY]
FIT = ["beliefs", "fit", "data.csv", "--state", "state"]
COUNT = ["--query", "count", "--state-value", "run"]

BASES = {
    "plan": ["plan", *ASKED, "--length", "300"],
    "plan of data": ["plan", *ASKED, "--data", "data.csv", "--state", "state", "--time", "when"],
    "plan of a network": ["plan", "--model", "network.json", "--epsilon", "1"],
    "release": ["release", "data.csv", *READ, *ANYWAY],
    "release with times": ["release", *SERIES, *ANYWAY],
    "release by week": ["release", *SERIES, "--window", "7d", *ANYWAY],
    "release paid": ["release", *SERIES, *BOOK, "--budget", "3", *ANYWAY],
    "release a count": ["release", *SERIES, *COUNT, *ANYWAY],
    "release of people": ["release", *SERIES, "--subject", "part", *ANYWAY],
    "release a period": ["release", *SERIES, *ALL, *PAID],
    "release a window": ["release", "data.csv", *READ, *PAID, "--window", "1,336"],
    "release of people, a period": ["release", "--subject", "part", *SERIES, *ALL, *PAID],
    "several questions": ["release", "data.csv", *READ[:2], *READ[4:], "--ask", "histogram=30"],
    "check": ["beliefs", "check", "model.json"],
    "check of data": ["beliefs", "check", "model.json", "--data", "data.csv", *READ[4:]],
    "fit": FIT,
    "fit with times": [*FIT, "--time", "when"],
    "fit of people": [*FIT, "--time", "when", "--segment", "part", "--kind", "hull"],
}

VALUES = {
    "--time": "when", "--state": "state", "--segment": "part", "--subject": "part",
    "--independent-after": "2h", "--length": "200", "--data": "data.csv", "--every": "2h",
    "--begins": "2026-11-16 00:00", "--timezone": "Europe/Paris", "--times-in": "Asia/Tokyo",
    "--repeated-hour": "shift", "--separator": ";", "--header": "no", "--decimal": ",",
    "--dates": "day-first", "--missing": "run", "--cuts": "1,2", "--levels": "1W:4W",
    "--unit": "kW", "--query": "episodes", "--state-value": "run",
    "--values": "rest=0,run=1", "--clip": "0,1", "--at": "0.5", "--at-least": "2",
    "--between": "22:00-06:00", "--top": "1", "--weights": "rest=0,run=1", "--report": "r.html",
    "--mechanism": "markov_quilt", "--window": "1d", "--end": "when", "--plot": "p.svg",
    "--out": "out.json", "--target": "5%", "--figure": "errors", "--label": "again",
    "--per": "all", "--confidence": "0.9", "--memory": "2", "--kind": "around", "--job": "job.toml",
    "--anchor": "a.txt", "--anchor-key": "k", "--ledger-key": "k", "--ledger": "m.db",
    "--budget": "2", "--account": "bob", "--entry": "when",
    "--keys": "a,b", "--share": "0.5", "--late": "refuse",
    "--epsilon": "2", "--ask": "episodes:run=20", "--states": "rest,run,walk",
    "--smoothing": "1", "--period": "2d", "--inflate": "0.1", "--regimes": "2", "--odds": "5",
}  # fmt: skip

NOTHING_TO_SHOW = {
    "--anyway": "silences a refusal that these calls do not meet",
    "--help": "is another command",
    "--thorough": "there is nothing slow to try",
    "--json": "answers without --out are JSON already",
    "--one-question": "a histogram tells all states apart",
    "--confirm-data": "there is nothing to confirm",
}
FITS_ANYWAY = {
    ("--separator", "--header", "--decimal", "--dates"): "the file may be what is said of it",
    ("--timezone", "--times-in", "--repeated-hour"): "no hour occurs twice, and none is asked for",
    ("--independent-after",): "there is no gap that long",
    ("--states",): "all of them",
}


def options_of(words: list[str]) -> list[str]:
    command = get_command(app)
    for word in words[:2]:
        command = getattr(command, "commands", {}).get(word, command)
    return [max(own.opts, key=len) for own in command.params if own.param_type_name == "option"]


def flag(words: list[str], name: str) -> bool:
    command = get_command(app)
    for word in words[:2]:
        command = getattr(command, "commands", {}).get(word, command)
    return any(own.is_flag for own in command.params if name in own.opts)


def outcome(words: list[str], folder: Path) -> tuple[int, str]:
    """Exit code, and everything that was printed or written, without noise and moments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, words)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        book = Path("l.db")
        entries = ""
        if book.exists():
            with pk.Ledger("l.db") as ledger:
                entries = str([(e.account, e.kind, e.key, e.made_by) for e in ledger.entries()])
        files = {p.name: p.read_bytes() for p in sorted(Path().iterdir()) if "l.db" not in p.name}
    text = f"{result.stdout}\n{result.stderr}\n{entries}\n{files}"
    return result.exit_code, re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", "", text)


def prepared(place: Path) -> Path:
    """A folder with two weeks of hours, a break, a change of parts, and models."""
    place.mkdir()
    (place / "model.json").write_text(json.dumps(MODEL))
    joint = pk.FiniteJoint({(0, 0): 0.5, (1, 1): 0.5})
    (place / "network.json").write_text(joint.to_json())
    codes = pk.MarkovChain.steady(MODEL["transition"]).sample(336, seed=5)
    rows = ["when,state,part"]
    for n, code in enumerate(codes):
        when = datetime(2026, 11, 16) + timedelta(hours=n + (5 if n >= 200 else 0))
        rows.append(f"{when:%Y-%m-%d %H:%M},{MODEL['states'][code]},{'a' if n < 168 else 'b'}")
    (place / "data.csv").write_text("\n".join([*rows, ""]))
    return place


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_every_option_changes_something_or_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "pufferkit.noise.discrete_laplace",
        lambda answers, which, scales, unit: [
            float(value + (unit or 1)) for n in which for value in answers[n]
        ],
    )
    base = BASES[name]
    code, usual = outcome(base, prepared(tmp_path / "base"))
    assert code == 0, usual[:2000]
    excused = set(NOTHING_TO_SHOW) | {own for group in FITS_ANYWAY for own in group}
    ignored = []
    for option in options_of(base):
        if option in base or option in excused:
            continue
        more = [option] if flag(base, option) else [option, VALUES[option]]
        place = prepared(tmp_path / option)
        code, text = outcome([*base, *more], place)
        if code == 0 and text == usual:
            ignored.append(option)
        shutil.rmtree(place)
    assert not ignored, f"{name}: {', '.join(ignored)}"
