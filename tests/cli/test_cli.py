"""The command line, used as one would: what it prints and what it writes."""

import json
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import pufferkit as pk
from pufferkit.cli import application, outputs
from tests.strategies.command_line import (
    MODEL,
    PLAN,
    RELEASE,
    folder,
    good,
    refusal,
    refusals,
    run,
    snapshot,
)

__all__ = ["folder"]

HEAVY = ("numpy", "scipy", "opendp", "polars", "narwhals", "matplotlib", "rich")


# -- help and imports ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (["plan", "--help"], False),
        (["-q", "--verbose", "ledger", "show"], False),
        (["--help", "plan"], True),
        (["--show-completion"], True),
        (["plann"], True),
        ([], True),
    ],
)
def test_a_command_is_made_alone_unless_the_whole_is_asked_for(words: list[str], whole: bool):
    made = application(words)
    assert len(made.registered_commands + made.registered_groups) == (10 if whole else 1)


def test_version():
    assert good("--version").strip() == pk.__version__


def loaded(code: str) -> set[str]:
    """Which heavy modules a program has imported when it ends."""
    report = f"import sys\n{code}\nprint([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    return set(eval(done.stderr.splitlines()[-1]))


def test_importing_the_package_imports_nothing_heavy():
    assert loaded("import pufferkit") == set()


@pytest.mark.parametrize("command", [["--help"], ["plan", "--help"], ["beliefs", "--help"], []])
def test_help_imports_nothing_heavy(command: list[str]):
    code = (
        f"sys.argv = ['pufferkit', *{command}]\nfrom pufferkit.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert loaded(code) <= {"numpy"}


def test_a_plan_needs_neither_tables_nor_noise_nor_pictures(folder: Path):
    code = (
        f"sys.argv = ['pufferkit', *{list(PLAN)}]\nfrom pufferkit.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert loaded(code) <= {"numpy"}


def test_as_a_program(folder: Path):
    program = [sys.executable, "-m", "pufferkit.cli"]
    done = subprocess.run([*program, *PLAN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "markov_quilt" in done.stdout
    bad = subprocess.run(
        [*program, *PLAN, "--length", "0"], capture_output=True, text=True, check=False
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: lengths: must be at least 1, got 0\n"


def test_a_reader_that_stops_early_is_no_error(folder: Path):
    command = f"{sys.executable} -m pufferkit.cli {' '.join(PLAN)} --json | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "{"
    assert done.stderr == ""


# -- plan ---------------------------------------------------------------------------------------


def test_plan_piped_is_plain_and_complete(folder: Path):
    chain = pk.MarkovChain.steady(MODEL["transition"], MODEL["states"])
    table = pk.plan(chain, pk.histogram(chain.states, 300), 1)
    assert good(*PLAN).strip() == str(table)


def test_a_plan_fits_80_columns_and_explains_itself(folder: Path):
    text = good(*PLAN, "--explain")
    assert all(len(line) <= 80 for line in text.splitlines())
    chain = pk.MarkovChain.steady(MODEL["transition"], MODEL["states"])
    table = pk.plan(chain, pk.histogram(chain.states, 300), 1)
    assert str(table.explain()) in text
    unwrapped = " ".join(text.split())
    for row in table.entries:
        assert f"{row.mechanism}: " in unwrapped
        assert " ".join(row.why.split()) in unwrapped


def test_plan_as_json(folder: Path):
    record = json.loads(good(*PLAN, "--json"))
    assert record["epsilon"] == 1
    assert record["lengths"] == [300]
    rows = {row["mechanism"]: row for row in record["rows"]}
    assert rows["group_dp"]["scale"] == pytest.approx(600)
    assert rows["entry_dp"]["pufferfish"] is False


def test_slow_mechanisms_are_tried_on_request(folder: Path, monkeypatch: pytest.MonkeyPatch):
    asked = ["plan", "--model", "model.json", "--epsilon", "1", "--length", "20"]
    asked += ["--query", "count", "--state-value", "run"]
    monkeypatch.setattr(pk.mechanisms.plan, "LONG_WORK", 1.0)
    quick, slow = (
        {row["mechanism"]: row for row in json.loads(good(*asked, *more, "--json"))["rows"]}
        for more in ([], ["--thorough"])
    )
    assert quick["wasserstein"]["slow"]
    assert "--thorough" in quick["wasserstein"]["why"]
    assert "not tried" in good(*asked)
    assert slow["wasserstein"]["applicable"]


def test_plan_takes_lengths_from_data(folder: Path):
    by_data = [*PLAN[:-2], "--data", "data.csv", "--state", "state", "--time", "when"]
    assert good(*by_data) == good(*PLAN)


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        (["--query", "histogram"], 2.0),
        (["--query", "frequencies"], 2 / 300),
        (["--query", "count", "--state-value", "run"], 1.0),
        (["--query", "total", "--values", "rest=1, run=2.5"], 1.5),
        (["--query", "mean", "--values", "rest=-1,run=1"], 2 / 300),
    ],
)
def test_queries(folder: Path, options: list[str], scale: float):
    rows = json.loads(good(*PLAN, *options, "--json"))["rows"]
    (found,) = [row["scale"] for row in rows if row["mechanism"] == "entry_dp"]
    assert found == pytest.approx(scale)


def test_plan_draws(folder: Path):
    good(*PLAN, "--plot", "plan.png")
    assert Path("plan.png").read_bytes().startswith(b"\x89PNG")


# -- release ------------------------------------------------------------------------------------


def test_release_to_stdout_is_json(folder: Path):
    release = pk.Release.from_json(good(*RELEASE, "--time", "when"))
    assert release.labels == ("rest", "run")
    assert release.lengths == (300,)
    assert release.epsilon == 1
    assert release.mechanism not in ("group_dp", "entry_dp")
    assert set(snapshot()) == {"model.json", "data.csv"}


def test_release_writes_json_and_picture(folder: Path):
    result = run(*RELEASE, "--out", "r.json", "--plot", "r.svg")
    assert result.exit_code == 0
    release = pk.Release.from_json(Path("r.json").read_text())
    assert result.stdout.strip() == str(release)
    assert "exact" not in Path("r.svg").read_text()
    means, *_, written, drawn = result.stderr.splitlines()
    assert means.startswith("epsilon 1 is about one entry")
    assert (written, drawn) == ("written: r.json", "written: r.svg")
    assert set(snapshot()) == {"model.json", "data.csv", "r.json", "r.svg"}


def test_every_release_draws_anew(folder: Path):
    wide = (*RELEASE, "--epsilon", "0.001", "--anyway")
    drawn = {tuple(json.loads(good(*wide))["raw"]) for _ in range(3)}
    assert len(drawn) > 1  # all the same by chance: below 1e-12


def test_default_mechanism_has_the_least_pufferfish_noise(folder: Path):
    rows = json.loads(good(*PLAN, "--json"))["rows"]
    least = min(row["scale"] for row in rows if row["pufferfish"])
    assert json.loads(good(*RELEASE))["scale"] == pytest.approx(least)


def test_named_mechanisms(folder: Path):
    for row in json.loads(good(*PLAN, "--json"))["rows"]:
        if row["applicable"]:
            typed = row["mechanism"].replace(" (", "_").replace(")", "")
            for name in (row["mechanism"], typed, typed.replace("_", "-")):
                record = json.loads(good(*RELEASE, "--mechanism", name))
                assert record["scale"] == pytest.approx(row["scale"])


def test_entry_dp_warns(folder: Path):
    result = run(*RELEASE, "--mechanism", "entry_dp")
    assert result.exit_code == 0
    assert "does not hide" in result.stderr
    assert "does not hide" in json.loads(result.stdout)["promise"]


def test_a_histogram_is_proper_and_keeps_the_raw_answer(folder: Path):
    record = json.loads(good(*RELEASE, "--query", "frequencies"))
    assert sum(record["value"]) == pytest.approx(1)
    assert min(record["value"]) >= 0
    assert len(record["raw"]) == 2
    assert record["noise"] == "discrete laplace"


def test_segments(folder: Path):
    Path("two.csv").write_text("day,state\n1,rest\n1,run\n2,run\n")
    record = json.loads(good("release", "two.csv", *RELEASE[2:], "--segment", "day"))
    assert record["lengths"] == [2, 1]


# -- model --------------------------------------------------------------------------------------


def test_model_show(folder: Path):
    text = good("beliefs", "show", "model.json")
    assert "states: rest, run" in text
    assert "irreducible: yes; period: 1; reversible: yes" in text
    assert "eigengap: 0.75" in text
    assert "0.800000" in text


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"kind": "mixing", "states": 2, "pi_min": 0.2, "gap": 0.75}, "halves within 1.00 steps"),
        ({"kind": "binary", "low": 0.3, "high": 0.7}, "any"),
        ({"kind": "any_start", "transitions": [[[0, 1], [1, 0]]]}, "period: 2"),
        ({"initial": [1, 0], "transition": [[1, 0], [0, 1]]}, "not unique"),
        ({"transition": [[1]]}, "entries are independent"),
        ({"kind": "finite", "chains": [MODEL] * 9}, "the first 4 are shown"),
    ],
)
def test_model_show_other_classes(folder: Path, model: dict[str, object], words: str):
    Path("other.json").write_text(json.dumps(model))
    assert words in good("beliefs", "show", "other.json")


def test_model_check(folder: Path):
    text = good("beliefs", "check", "model.json", "--data", "data.csv", "--state", "state")
    assert text.startswith("valid: 1 chain")
    assert "markov_quilt" in text
    assert "gk16" in text
    assert "does not apply: " in text
    assert "300 entries in 1 segment, all in states of the model" in text


def test_model_check_says_when_the_data_cannot_happen(folder: Path):
    Path("m.json").write_text(json.dumps({**MODEL, "transition": [[0, 1], [0.5, 0.5]]}))
    result = run("beliefs", "check", "m.json", "--data", "data.csv", "--state", "state")
    assert result.exit_code == 0
    assert "this series probability zero" in result.stderr


def test_model_fit(folder: Path):
    result = run("beliefs", "fit", "data.csv", "--state", "state", "--out", "fitted.json")
    assert result.exit_code == 0
    assert "must be public or historical" in result.stderr
    chain = pk.MarkovChain.from_json(Path("fitted.json").read_text())
    assert chain.states == ("rest", "run")
    assert chain.is_stationary
    series = pk.read("data.csv", state="state")
    counts = series.transitions
    assert chain.transition == pytest.approx(counts / counts.sum(axis=1, keepdims=True))
    words = refusal("release", "data.csv", "--model", "fitted.json", *RELEASE[4:])
    assert "fitted to the very series" in words
    assert "private_transitions" in words


@pytest.mark.parametrize("around", [[], ["--kind", "around", "--confidence", "0.9"]])
def test_fit_and_check(folder: Path, around: list[str]):
    fit = ("beliefs", "fit", "data.csv", "--state", "state", "--out", "m.json", *around)
    assert run(*fit).exit_code == 0
    release = ("release", "data.csv", "--model", "m.json", *RELEASE[4:])
    assert "fitted to the very series" in refusal(*release)
    assert run(*fit, "--theta-from-private-data").exit_code == 0
    assert "Theta was fitted to private data" in good(*release)
    assert "FITTED TO PRIVATE DATA" in good("plan", "--model", "m.json", *PLAN[3:])
    assert "Theta was fitted to private data" in good("beliefs", "show", "m.json")
    check = (
        "beliefs",
        "check",
        "m.json",
        "--data",
        "data.csv",
        "--state",
        "state",
        "--out",
        "report.json",
    )
    text = good(*check)
    assert "one step of memory is enough" in text
    assert "a second-order chain needs" in text
    assert json.loads(Path("report.json").read_text())["passed"] is True


def test_fit_a_second_order_chain(folder: Path):
    result = run(
        "beliefs", "fit", "data.csv", "--state", "state", "--kind", "order", "--memory", "2"
    )
    theta = pk.ChainClass.from_json(result.stdout)
    assert theta.states == ("rest", "run")
    assert "memory of 2 entries" in theta.description


@refusals(
    {
        "--kind around --confidence 2": "confidence: must be",
        "--kind around --confidence 0.9 --smoothing 1": "--smoothing: needs --kind chain",
        "--kind order --memory 0": "order",
        "--memory 2": "--memory: needs --kind order",
    }
)
def test_bad_regions(folder: Path, options: list[str], words: str):
    assert words in refusal("beliefs", "fit", "data.csv", "--state", "state", *options)


def test_bad_checks(folder: Path):
    assert "without --data" in refusal("beliefs", "check", "model.json", "--out", "r.json")


def test_model_fit_with_declared_states(folder: Path):
    Path("p.csv").write_text("state\n" + "0\n1\n" * 30)
    options = ("--states", "0,1,2", "--smoothing", "0.5")
    result = run("beliefs", "fit", "p.csv", "--state", "state", *options)
    chain = pk.MarkovChain.from_json(result.stdout)
    assert chain.states == (0, 1, 2)
    assert "rarely or never left, and so poorly estimated: 2 (0)" in result.stderr
    assert "--cuts" not in result.stderr


def test_measurements_as_states_get_a_word(folder: Path):
    Path("p.csv").write_text("heart\n" + "".join(f"{60 + n % 30 / 7}\n" for n in range(300)))
    result = run("beliefs", "fit", "p.csv", "--state", "heart")
    assert " and 22 more; if these are measurements, cut them into levels" in result.stderr


# -- files out ----------------------------------------------------------------------------------


def test_all_files_or_none(folder: Path, monkeypatch: pytest.MonkeyPatch):
    Path("first.txt").write_bytes(b"old")
    before = snapshot()
    with pytest.raises(TypeError):
        outputs.write_all({Path("first.txt"): b"new", Path("second.txt"): "no bytes"})
    assert snapshot() == before
    outputs.write_all({Path("first.txt"): b"new", Path("second.txt"): b"2"})
    assert Path("first.txt").read_bytes() == b"new"


def test_links_are_followed(folder: Path):
    Path("real.json").write_bytes(b"old")
    Path("link.json").symlink_to("real.json")
    outputs.write_all({Path("link.json"): b"new"})
    assert Path("link.json").is_symlink()
    assert Path("real.json").read_bytes() == b"new"


def test_a_directory_that_cannot_be_written_to(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pufferkit.cli.outputs.os.access", lambda *_: False)
    with pytest.raises(ValueError, match="cannot be written"):
        outputs.check_outputs([Path("r.json"), None])


@pytest.mark.usefixtures("folder")
def test_a_report_for_the_one_who_decides_and_the_one_who_checks():
    pytest.importorskip("matplotlib")
    asked = ("release", "data.csv", "--model", "model.json", "--epsilon", "1", "--state", "state")
    done = run(*asked, "--query", "histogram", "--out", "r.json", "--report", "r.html")
    assert done.exit_code == 0, done.stderr
    assert "is about one entry" in done.stderr
    page = Path("r.html").read_text()
    for head in ("Question", "Answer", "What is promised", "Against whom", "How to verify it"):
        assert f"<h2>{head}</h2>" in page
    assert "who is not covered" in page
    kept = unescape(page.split("<pre id=record>")[1].split("</pre>")[0])
    assert json.loads(kept) == json.loads(Path("r.json").read_text())
    Path("kept.json").write_text(kept)
    assert run("verify", "kept.json").exit_code == 0
    assert "<script" not in page
