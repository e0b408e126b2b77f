"""Six kinds of files as people have them: one step from the raw file to a verified release.

The files are generated (`tests/strategies/six_files.py`), each in the format of its device: sensors
whose clock jitters, a column for each home, R's row names, intervals, meetings by epoch seconds,
milliseconds beside an index of pandas. Public people give the beliefs, one more is released.
"""

import json
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
HOMES = {"time": "localhour", "bins": pk.Bins([0.6], unit="kWh")}
OFFICE = {"time": "date", "state": "Occupancy"}
LOGS = {"time": "Start time", "end": "End time", "state": "Activity", "every": "30m"}
WATER = {"time": "ts", "state": "litres", "bins": pk.Bins([0.1], unit="l")}


def glucose(folder):
    files = six_files.glucose(folder, people=5, days=3)
    return pk.read(files[1:], **SENSOR), pk.read(files[0], **SENSOR)


def homes(folder):
    path = six_files.homes(folder, people=6, days=14)
    names = [f"home {n}" for n in range(2, 7)]
    return pk.read(path, state=names, **HOMES), pk.read(path, state="home 1", **HOMES)


def occupancy(folder):
    (folder / "later").mkdir()
    public = six_files.occupancy(folder, days=7)
    return pk.read(public, **OFFICE), pk.read(
        six_files.occupancy(folder / "later", days=7, seed=30), **OFFICE
    )


def activities(folder):
    (folder / "mine").mkdir()
    public = six_files.activities(folder, people=4, days=14)
    mine = six_files.activities(folder / "mine", people=1, days=14, seed=40)
    return pk.read(public, subject="person", **LOGS), pk.read(mine, **LOGS)


def water(folder):
    files = six_files.water(folder, people=4, days=3)
    return pk.read(files[1:], **WATER), pk.read(files[0], **WATER)


@pytest.mark.parametrize("kind", [glucose, homes, occupancy, activities, water])
def test_from_the_raw_file_to_a_verified_release(kind, tmp_path):
    public, private = kind(tmp_path)
    theta = pk.fit(public, "around")
    query = pk.relative_frequencies(theta.states)
    released = pk.release(private, theta, query, 1.0)
    verdict = pk.verify(released)
    assert verdict.ok, str(verdict)
    assert theta.step == private.step


def test_contacts_of_138_people(tmp_path):
    """Whoever met often is coupled; the number of the ill gets noise for the network."""
    meetings, ill = six_files.contacts(tmp_path)
    pairs = {}
    for line in meetings.read_text().splitlines():
        one, other = sorted(map(int, line.split()[1:]))
        pairs[one, other] = pairs.get((one, other), 0) + 1
    assert len(pairs) > 1_000
    strength = {pair: min(0.001 * count, 0.01) for pair, count in pairs.items()}
    theta = pk.MarkovRandomField.ising(
        list(strength), strength, field=-0.7, values=["well", "ill"], nodes=range(1, 139)
    )
    rows = dict(line.split(",") for line in ill.read_text().splitlines()[1:])
    states = [rows[str(n)] for n in range(1, 139)]
    noise = pk.influence_curve(theta, pk.count("ill", lengths=138), 1.0)
    assert noise.scale < 3  # group privacy: 138
    assert pk.verify(noise.release(states)).ok


@pytest.mark.slow
def test_glucose_on_the_command_line(tmp_path, monkeypatch):
    """Choose, release, verify: three commands; the record says how the beliefs were tested."""
    monkeypatch.chdir(tmp_path)
    six_files.glucose(tmp_path, people=7, days=7)
    form = (
        "--time", SENSOR["time"], "--state", SENSOR["state"], "--every", "5m",
        "--cuts", "140,180", "--missing", "Low,High", "--query", "frequencies",
    )  # fmt: skip
    public = [f"Dexcom_00{n}.csv" for n in range(2, 8)]
    chosen = run("beliefs", "choose", *public, *form, "--quick", "--out", "theta.json")
    assert chosen.exit_code == 0, chosen.output
    assert "folds survived" in chosen.output
    out = run(
        "release", "Dexcom_001.csv", *form, "--model", "theta.json", "--epsilon", "1",
        "--out", "release.json", "--report", "page.html",
    )  # fmt: skip
    assert out.exit_code == 0, out.output
    assert run("verify", "release.json").exit_code == 0
    page = Path("page.html").read_text()
    assert "survived" in page
    record = json.loads(Path("release.json").read_text())
    assert "tested" in json.dumps(record["beliefs"])
