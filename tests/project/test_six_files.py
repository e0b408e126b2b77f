"""Six kinds of files as people have them: one step from the raw file to a verified release.

The files are generated (`tests/strategies/six_files.py`), each in the format of its device: sensors
whose clock jitters, a column for each home, R's row names, intervals, meetings by epoch seconds,
milliseconds beside an index of pandas. Public people give the beliefs, one more is released.
"""

import json
import math
from pathlib import Path

import pytest

import pufferkit as pk
from tests.strategies import six_files
from tests.strategies.command_line import run

SENSOR = {
    "time": "Timestamp (YYYY-MM-DDThh:mm:ss)",
    "state": "Glucose Value (mg/dL)",
    "every": "5m",
    "bins": pk.Bins([140, 180], unit="mg/dL"),
    "text": pk.TextFormat(missing=("Low", "High")),
}
GLUCOSE = ("--cuts", "140,180", "--unit", "mg/dL", "--missing", "Low,High", "--every", "5m")
HOMES = {"time": "localhour", "bins": pk.Bins([0.6], unit="kWh")}
WATER = {"time": "ts", "state": "litres", "bins": pk.Bins([0.1], unit="l")}


def glucose(folder):
    private, *public = six_files.glucose(folder, people=4, days=2)
    return private, GLUCOSE, public, ()


def homes(folder):
    path = six_files.homes(folder, people=6, days=14)
    others = ("--state", ",".join(f"home {n}" for n in range(2, 7)))
    return path, ("--cuts", "0.6", "--unit", "kWh"), [path], others


def occupancy(folder):
    (folder / "later").mkdir()
    later = six_files.occupancy(folder / "later", days=7, seed=30)
    return later, (), [six_files.occupancy(folder, days=7)], ()


def activities(folder):
    (folder / "mine").mkdir()
    mine = six_files.activities(folder / "mine", people=1, days=14, seed=40)
    intervals = ("--end", "End time", "--every", "30m")
    return mine, intervals, [six_files.activities(folder, people=4, days=14)], ()


def water(folder):
    private, *public = six_files.water(folder, people=4, days=3)
    return private, ("--cuts", "0.1", "--unit", "l"), public, ()


@pytest.mark.parametrize("kind", [glucose, homes, occupancy, activities, water])
def test_from_the_raw_file_to_a_verified_release(kind, tmp_path, monkeypatch):
    """A command each: columns are found, the job of the private file also reads the public ones."""
    monkeypatch.chdir(tmp_path)
    private, form, public, others = kind(tmp_path)
    for command in (
        ("init", private, *form, "--query", "frequencies"),
        ("beliefs", "fit", *public, *others, "--kind", "hull"),
        ("release", "--anyway"),
        ("verify",),
    ):
        done = run(*map(str, command))
        assert done.exit_code == 0, (command, done.output)
    assert "largest loss" in " ".join(done.output.split())
    released = Path("release.json" if kind is not activities else "releases.csv").read_text()
    assert released.strip()


def test_contacts_of_138_people(tmp_path, monkeypatch):
    """The public list of meetings gives the network; the number of the ill gets noise for it."""
    monkeypatch.chdir(tmp_path)
    meetings, ill = map(str, six_files.contacts(tmp_path))
    made = ("--subject", "2,3", "--states", "well,ill", "--odds", "10", "--share", "0.2")
    asked = ("--state", "state", "--entry", "person", "--query", "count", "--state-value", "ill")
    for command in (
        ("beliefs", "fit", meetings, "--kind", "contacts", *made, "--out", "contacts.json"),
        ("release", ill, "--model", "contacts.json", *asked, "--epsilon", "1", "--out", "r.json"),
        ("verify", "r.json"),
    ):
        done = run(*command)
        assert done.exit_code == 0, (command, done.output)
    scale = json.loads(Path("r.json").read_text())["scale"]
    assert 1 < scale < 1 / (1 - math.log(10) / 4)  # group privacy: 138


@pytest.mark.slow
def test_glucose_with_beliefs_that_were_tested(tmp_path, monkeypatch):
    """Init, choose, release, verify: the record says how the beliefs were tested."""
    monkeypatch.chdir(tmp_path)
    six_files.glucose(tmp_path, people=7, days=7)
    public = [f"Dexcom_00{n}.csv" for n in range(2, 8)]
    for command in (
        ("init", "Dexcom_001.csv", *GLUCOSE, "--query", "frequencies"),
        ("beliefs", "choose", *public, "--quick"),
        ("release", "--anyway", "--report", "page.html"),
        ("verify",),
    ):
        done = run(*command)
        assert done.exit_code == 0, (command, done.output)
        assert command[0] != "beliefs" or "folds survived" in done.output
    assert "survived" in Path("page.html").read_text()
    record = json.loads(Path("release.json").read_text())
    assert "tested" in json.dumps(record["beliefs"])
