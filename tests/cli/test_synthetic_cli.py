"""Made-up series on the command line: from released files alone, the same for the same seed."""

import json
from pathlib import Path

import pytest

import pufferkit as pk
from tests.strategies.command_line import folder, good, refusal

__all__ = ["folder"]

CLOCK = ("--begins", "2024-01-01 00:00", "--every", "10m")


@pytest.fixture
def joint(folder):
    lines = Path("data.csv").read_text().splitlines()[1:]
    times = [f"2024-01-{1 + n // 144:02d} {n // 6 % 24:02d}:{n % 6}0" for n in range(len(lines))]
    rows = [f"{when},{line.partition(',')[2]}" for when, line in zip(times, lines, strict=True)]
    Path("data.csv").write_text("\n".join(["when,state", *rows, ""]))
    good("release", "data.csv", "--model", "model.json", "--state", "state", "--time", "when",
         "--ask", "transitions=60", "--ask", "by-hour=60", "--out", "joint.json")  # fmt: skip


def test_a_series_from_a_joint_release(joint):
    made = ("synthetic", "joint.json", "--length", "500", *CLOCK, "--seed", "1")
    good(*made, "--out", "made.csv", "--plot", "made.svg")
    header, *rows = Path("made.csv").read_text().splitlines()
    assert header == "time,state"
    assert len(rows) == 500
    assert {row.partition(",")[2] for row in rows} == {"rest", "run"}
    assert good(*made).splitlines() == [header, *rows]  # the same seed
    report = json.loads(good(*made, "--json"))
    assert report["epsilon"] == json.loads(Path("joint.json").read_text())["epsilon"]
    assert len(report["rows"]) == 4 + 48
    assert "released share" in Path("made.svg").read_text()
    assert len(pk.read("made.csv", state="state", time="time")) == 500  # and it can be read again


def test_moves_alone_and_what_does_not_fit(joint):
    asked = ("release", "data.csv", "--model", "model.json", "--epsilon", "1", "--state", "state")
    good(*asked, "--query", "transitions", "--out", "moves.json")
    assert good("synthetic", "moves.json", "--length", "50").startswith("entry,state")
    good(*asked, "--query", "histogram", "--out", "other.json")
    for options, words in (
        (("other.json", "--length", "50"), "must be a release of transition counts"),
        (("joint.json", "--length", "50"), "calendar: must give the times"),
        (("joint.json", "--length", "50", "--every", "10m"), "must be given together"),
        (
            ("joint.json", "--length", "50", *CLOCK, "--hours", "other.json"),
            "are in the joint release",
        ),
        (("moves.json", "--length", "50", "--out", "made.txt"), "written to .csv"),
        (("model.json", "--length", "50"), "model.json"),
    ):
        assert words in refusal("synthetic", *options)
