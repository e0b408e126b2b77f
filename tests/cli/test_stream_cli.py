"""``pufferkit stream``: a window a day, from files; the same answer if the job runs again."""

import json
from pathlib import Path

import pufferkit as pk
from tests.strategies.command_line import folder, good, refusal, run  # noqa: F401


def day(name="2026-11-16", *more, epsilon="1"):
    every = () if "--time" in more or name[:1] in "13s" else ("--every", "4m")
    return ("stream", "release", "data.csv", "--model", "model.json", "--state", "state",
            "--epsilon", epsilon, "--ledger", "l.db", "--account", "anna", "--window", name,
            *every, *more)  # fmt: skip


def next_day():
    """Other rows in the same file: from the middle on, and then its beginning."""
    head, *rows = Path("data.csv").read_text().splitlines()
    times, states = zip(*(row.split(",", 1) for row in rows), strict=True)
    turned = [*states[150:], *states[:150]]
    lines = [head, *(f"{t},{s}" for t, s in zip(times, turned, strict=True))]
    Path("data.csv").write_text("\n".join(lines) + "\n")


def test_a_job_a_day(folder):  # noqa: F811
    first = json.loads(good(*day()))
    assert first["evidence"]["horizon"] == 10**12
    assert "another window" in refusal(*day("2026-11-17"))  # yesterday's file
    next_day()
    second = json.loads(good(*day("2026-11-17")))
    assert json.loads(good(*day()))["raw"] == first["raw"]  # the job ran again
    assert first["scale"] == second["scale"]
    assert pk.verify(second).ok
    shown = good("ledger", "show", "l.db", "--account", "anna")
    assert "2026-11-17" in shown
    assert "no problems" in good("ledger", "verify", "l.db")
    assert "in order" in refusal(*day("2026-11-10"))
    assert "remaining 0" in refusal(*day("2026-11-17", "--label", "again"))


def test_shares_times_and_entries(folder):  # noqa: F811
    good(*day("1,300", "--share", "0.5"))
    good(*day("1,300", "--share", "0.5", "--label", "b"))
    assert "windows of entries" in refusal(*day("2026-11-16 08:00,2026-11-18 09:00"))
    assert "not a date" in refusal(*day("soon"))
    assert "two ends" in refusal(*day("1,2,3"))
    assert "share" in refusal(*day("301,600", "--share", "2"))


def test_rows_without_times_are_not_taken_for_a_window_of_time(folder):  # noqa: F811
    bare = [text for text in day() if text not in ("--every", "4m")]
    assert "--time: give the column of times" in refusal(*bare)
    assert "12 of 300 entries are not in the window" in refusal(*bare, "--every", "5m")
    assert not Path("l.db").exists()


def test_epsilon_is_changed_by_a_command_of_its_own(folder):  # noqa: F811
    good(*day())
    assert "pufferkit stream change" in refusal(*day("2026-11-17", epsilon="2"))
    words = good("stream", "change", "anna", "2", "--model", "model.json", "--epsilon", "1",
                 "--ledger", "l.db", "--why", "agreed")  # fmt: skip
    assert "epsilon 1 is now 2" in words
    next_day()
    good(*day("2026-11-17", epsilon="2"))
    assert "budget changed (agreed)" in good("ledger", "show", "l.db", "--account", "anna")
    assert "no problems" in good("ledger", "verify", "l.db")


def test_late_rows_are_refused_or_left_out(folder):  # noqa: F811
    lines = [f"2026-11-{16 + n // 24}T{n % 24:02d}:00,{'rest' if n % 3 else 'run'}"
             for n in range(48)]  # fmt: skip
    Path("data.csv").write_text("\n".join(["when,state", *lines, ""]))
    timed = ("--time", "when", "--late")
    assert "24 rows are before the window" in refusal(*day("2026-11-17", *timed, "refuse"))
    assert "24 rows are after the window" in refusal(*day("2026-11-16", *timed, "refuse"))
    assert json.loads(good(*day("2026-11-17", *timed, "leave out")))["lengths"] == [24]
    assert "needs --time" in refusal(*day("2026-11-18", "--late", "refuse"))


def test_rows_on_no_even_clock_are_not_taken_for_the_window(folder):  # noqa: F811
    times = [f"2026-11-{16 + n // 24}T{n % 24:02d}:{n * n % 60:02d}" for n in range(48)]
    lines = [f"{when},{'rest' if n % 3 else 'run'}" for n, when in enumerate(times)]
    Path("data.csv").write_text("\n".join(["when,state", *lines, ""]))
    assert "not evenly spaced" in refusal(*day("2026-11-17", "--time", "when"))
    kept = good(*day("2026-11-17", "--time", "when", "--late", "leave out"))
    assert json.loads(kept)["lengths"] == [24]


def people(days, who=("ann", "bob")):
    chain, rows = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "run"]), []
    for n, name in enumerate(who):
        codes = chain.sample(24 * days, seed=n)
        rows += [f"{name},2026-11-{16 + t // 24}T{t % 24:02d}:00,{chain.states[code]}"
                 for t, code in enumerate(codes)]  # fmt: skip
    Path("people.csv").write_text("\n".join(["who,when,state", *rows, ""]))


def each(window, *more):
    return ("stream", "release-each", "people.csv", "--model", "model.json", "--state", "state",
            "--subject", "who", "--time", "when", "--epsilon", "1", "--ledger", "l.db",
            "--window", window, "--out", "out", *more)  # fmt: skip


def test_a_window_of_the_stream_of_each_subject(folder):  # noqa: F811
    """Rows of earlier days may be in the file; every day is drawn and charged once for each."""
    Path("out").mkdir()
    people(1)
    assert "2 of 2 subjects have entries" in run(*each("2026-11-16")).stdout
    first = {path.name: json.loads(path.read_text()) for path in Path("out").iterdir()}
    assert sorted(first) == ["ann.json", "bob.json"]
    people(2)  # the file grows
    again = run(*each("2026-11-16"))
    assert again.exit_code == 0, again.stderr
    assert {p.name: json.loads(p.read_text()) for p in Path("out").iterdir()} == first
    shown = json.loads(run(*each("2026-11-16", "--json")).stdout)
    assert {f"{who}.json": record for who, record in shown.items()} == first
    days_with = ("--query", "share-of-days", "--state-value", "run", "--at-least", "1h")
    assert run(*each("2026-11-17", *days_with)).exit_code == 0
    assert pk.verify("out/bob.json").ok
    with pk.Ledger("l.db") as ledger:
        for who in ("ann", "bob"):
            assert ledger.account(who).total == 10**6
            assert sum(entry.kind == "charge" for entry in ledger.entries(who)) == 2
    assert "no subject has entries" in run(*each("2026-12-01")).stderr
    numbers = ("--query", "quantile", "--at", "0.5", "--values", "rest=0,run=1")
    people(3)
    assert run(*each("2026-11-18", *numbers)).exit_code == 0
    assert json.loads(Path("out/ann.json").read_text())["derived"]["what"] == "quantile 0.5"
    assert "is not a folder" in run(*each("2026-11-19", "--out", "gone")).stderr


def test_late_rows_on_a_grid_are_on_the_grid(folder):  # noqa: F811
    times = [f"2026-11-16T{n // 60:02d}:{n % 60:02d}" for n in range(1440)]
    lines = [f"{when},{'rest' if n % 3 else 'run'}" for n, when in enumerate(times)]
    late = [f"2026-11-15T23:{n:02d},rest" for n in range(30)]
    Path("data.csv").write_text("\n".join(["when,state", *lines, *late, ""]))
    grid = ("--time", "when", "--every", "5m", "--late")
    made = json.loads(good(*day("2026-11-16", *grid, "leave out")))
    assert (made["lengths"], made["step"]) == ([288], 300.0)
    assert pk.verify(made).ok
    assert "30 rows are before the window" in refusal(*day("2026-11-16", *grid, "refuse"))
    for option, value in (
        ("--timezone", "Europe/Paris"),
        ("--times-in", "UTC"),
        ("--repeated-hour", "shift"),
        ("--independent-after", "3h"),
        ("--segment", "state"),
        ("--cuts", "1,2"),
        ("--begins", "2026-11-16"),
    ):
        assert option in refusal(*day("2026-11-16", *grid, "leave out", option, value))
