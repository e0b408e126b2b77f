"""The same data under a second name, and data that changed: noticed, and nothing given away."""

import json
import os

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit import Ledger, LedgerError, MarkovChain, Series, count
from pufferkit.account.marks import (
    KnownData,
    Marks,
    SeriesData,
    _pad,
    marks_of,
    same_data,
)
from pufferkit.account.store import empty
from tests.account.test_ledger import url  # noqa: F401
from tests.asking import Asking, for_all, for_each

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
LONG = CHAIN.sample(2000, seed=1).tolist()
OTHER = CHAIN.sample(2000, seed=2).tolist()
KEY = bytes(range(32))


def release(ledger, data, name, **options):
    session = Asking(data, CHAIN, 1.0, ledger, name=name, **options)
    return session.release(count(1, len(data)), 0.4, mechanism="group_dp")


@pytest.fixture
def book(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        release(ledger, LONG, "anna")
        yield ledger


def cases():
    changed = [*LONG[:900], *(1 - x for x in LONG[900:905]), *LONG[905:]]
    inserted = [*LONG[:700], 1, 0, 1, *LONG[700:]]
    return {
        "the same": LONG,
        "its beginning": LONG[:1200],
        "a window of it": LONG[301:1400],
        "grown": [*LONG, *OTHER[:50]],
        "changed in the middle": changed,
        "rows inserted": inserted,
        "later added before": [*OTHER[:80], *LONG],
        "backwards": LONG[::-1],
        "a window of it backwards": LONG[1400:200:-1],
        "every second row": LONG[::2],
        "every fifth row from the third": LONG[2::5],
        "every second row backwards": LONG[::-2],
        "each row twice": [x for x in LONG for _ in range(2)],
        "each row six times": [x for x in LONG for _ in range(6)],
        "twice, one after the other": [*LONG, *LONG],
    }


@pytest.mark.parametrize("case", cases())
def test_the_same_data_under_a_second_name_are_refused(book, case):
    before, data = book.entries(), cases()[case]
    with pytest.raises(ValueError, match=r"'bob' are, in whole or in part, those of 'anna'"):
        release(book, data, "bob")
    assert book.entries() == before
    release(book, data, "bob", confirm_data=True)
    # Known under this name now: no need to say it again.
    release(book, data, "bob")
    assert book.verify() == []


@pytest.mark.parametrize("case", cases())
def test_the_original_is_refused_after_what_was_made_of_it(tmp_path, case):
    with Ledger(tmp_path / "ledger.db") as ledger:
        release(ledger, cases()[case], "anna")
        with pytest.raises(ValueError, match=r"'bob' are, in whole or in part, those of 'anna'"):
            release(ledger, LONG, "bob")


@pytest.mark.parametrize("change", ["backwards", "twice"])
def test_short_series_with_enough_information_are_known_backwards_and_twice(tmp_path, change):
    rng, states = np.random.default_rng(3), list("abcdefghij")
    data = [states[n] for n in rng.integers(0, 10, 50)]
    other = data[::-1] if change == "backwards" else data * 2
    belief = MarkovChain.steady(np.full((10, 10), 0.1), states)
    for n, (first, second) in enumerate(((data, other), (other, data))):
        with Ledger(tmp_path / f"{n}.db") as ledger:
            Asking(first, belief, 1.0, ledger, name="anna").charge(0.1)
            with pytest.raises(ValueError, match="'bob' are"):
                Asking(second, belief, 1.0, ledger, name="bob").charge(0.1)


def test_short_series_of_few_states_are_no_evidence_backwards(book):
    release(book, LONG[:30], "short", confirm_data=True)
    release(book, OTHER[:30], "another")
    for number, start in enumerate(range(0, 300, 30)):
        some = CHAIN.sample(20, seed=100 + start).tolist()
        if some != some[::-1]:
            release(book, some, f"{number}", confirm_data=True)
            release(book, some[::-1], f"{number} backwards")


def test_people_with_the_same_habits_are_not_mistaken_for_one_another(tmp_path):
    """At home, at work from nine to five, and one day a month otherwise; hours for half a year."""

    def person(seed):
        rng, days = np.random.default_rng(seed), []
        for day in range(180):
            works = day % 7 < 5 and rng.random() > 0.05
            days += [int(works and 9 <= hour < 17) for hour in range(24)]
        return days

    with Ledger(tmp_path / "l.db") as ledger:
        for seed in range(6):
            release(ledger, person(seed), f"{seed}")


def recognised(entries):
    series = Series.of(entries)
    return SeriesData(series.codes, series.states, series.lengths)


def test_other_data_are_not_refused(book):
    release(book, OTHER, "bob")
    release(book, [1 - x for x in LONG], "carol")
    release(book, [0] * 500, "asleep")
    release(book, [0] * 600, "also asleep")
    with pytest.raises(ValueError, match=r"'third' are.*'asleep'"):
        release(book, [0] * 500, "third")
    release(book, [0] * 500, "third", confirm_data=True)


def test_unrelated_series_share_nothing():
    data = [recognised(CHAIN.sample(3000, seed=n).tolist()) for n in range(40)]
    known = KnownData()
    for n in range(20):
        marks = Marks(KEY, f"{n}", marks_of(KEY, f"{n}", data[n]))
        assert len(marks.shingles) > 100
        known.add(marks)
    for new in data[20:]:
        assert same_data(KEY, {"new": new}, known) is None


def test_changed_rows_under_the_same_name_are_refused(book):
    for where in (0, 999, 1999):
        changed = list(LONG)
        changed[where] = 1 - changed[where]
        before = book.entries()
        with pytest.raises(ValueError, match=r"entries 1 to 2000 of 'anna' differ from those"):
            release(book, changed, "anna")  # which was answered before, about other rows
        with pytest.raises(ValueError, match="differ from those"):
            Asking(changed, CHAIN, 1.0, book, name="anna").cost(count(1), 0.1)
        assert book.entries() == before
        Asking(changed, CHAIN, 1.0, book, name="anna", confirm_data=True).cost(count(1), 0.1)


def test_two_processes_cannot_open_two_names_at_once(book, monkeypatch):
    """What the check at the door did not see, the one under the lock does."""
    monkeypatch.setattr(Ledger, "check_data", lambda *_, **__: None)
    session = Asking(LONG, CHAIN, 1.0, book, name="bob")
    with pytest.raises(ValueError, match="'bob' are"):
        session.release(count(1, 2000), 0.4, mechanism="group_dp")
    assert [account.account for account in book.accounts()] == ["anna"]


def test_the_key_of_a_trial_marks_no_real_data(tmp_path):
    """A new ledger is tried in memory with a key that is forgotten, also beside another thread."""
    ledger = Ledger(tmp_path / "ledger.db")
    with empty(trial=True) as tried:
        assert ledger._recognition._key(tried, False) != ledger._recognition._key(tried, False)
        release(ledger, LONG, "anna")
    Asking(LONG, CHAIN, 1.0, ledger, name="anna")
    with pytest.raises(ValueError, match="those of 'anna'"):
        release(ledger, LONG, "bob")


def test_the_ledger_alone_tells_nothing(tmp_path):
    """Equal data of two accounts, and equal stretches of one, look like any others."""
    with Ledger(tmp_path / "l.db") as ledger:
        release(ledger, LONG, "anna")
        release(ledger, LONG, "bob", confirm_data=True)
        bodies = [e.marks for e in ledger.entries() if e.kind == "charge"]
    digests = [body["digests"][n : n + 16] for body in bodies for n in range(0, 17 * 16, 16)]
    assert len(digests) == len(set(digests)) == 34
    bits = np.unpackbits(np.frombuffer(bytes.fromhex("".join(digests)), dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(bits.size)
    # Another key makes other marks of the same data, so that guesses cannot be tried.
    series = recognised(LONG)
    assert marks_of(KEY, "anna", series) != marks_of(KEY[::-1], "anna", series)
    text = json.dumps(bodies)
    assert (tmp_path / "l.db.key").read_text().strip() not in text


def test_without_its_key_a_ledger_does_not_go_on(book, tmp_path):
    key = tmp_path / "ledger.db.key"
    kept = key.read_text()
    for content in (None, "11" * 32, "no key"):
        key.unlink(missing_ok=True)
        if content is not None:
            key.write_text(content)
        with pytest.raises(LedgerError, match="key"):
            release(book, OTHER, "bob")
        assert content is not None or not key.exists()
    key.unlink()
    assert book.verify() == []
    release(book, OTHER, "bob", confirm_data=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(kept)
    again = Ledger(tmp_path / "ledger.db", key=elsewhere)
    with again, pytest.raises(ValueError, match="'third' are"):
        release(again, LONG, "third")


def test_on_a_server_the_key_is_a_file_of_yours(url, tmp_path, monkeypatch):  # noqa: F811
    if "://" not in url:
        pytest.skip("a file has its key beside it")
    with Ledger(url) as ledger:
        assert not ledger.recognises_data
        release(ledger, LONG, "anna")
        release(ledger, LONG, "bob")  # nothing is kept, nothing is noticed
        assert not any(e.marks for e in ledger.entries())
    monkeypatch.setenv("PUFFERKIT_LEDGER_KEY", str(tmp_path / "key"))
    with Ledger(url) as ledger:
        assert ledger.recognises_data
        release(ledger, OTHER, "carol")
        assert os.stat(tmp_path / "key").st_mode & 0o777 == 0o600
        with pytest.raises(ValueError, match="'dave' are"):
            release(ledger, OTHER, "dave")
    monkeypatch.delenv("PUFFERKIT_LEDGER_KEY")
    with Ledger(url) as ledger, pytest.raises(LedgerError, match="no file was named"):
        release(ledger, LONG, "erin")


# -- tables --------------------------------------------------------------------------------------

STATES = ("rest", "walk", "run")
BELIEF = MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=STATES)


def people(sizes, seed=1):
    rows = [
        (f"p{n}", t, STATES[code])
        for n, size in enumerate(sizes)
        for t, code in enumerate(BELIEF.sample(size, seed=seed + n))
    ]
    return pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")


def run(frame, ledger, window=None, **options):
    table = pk.read(frame, subject="who", time="when", state="what", states=STATES, window=window)
    return for_each(table, BELIEF, 0.1, ledger=ledger, budget=2, mechanism="group_dp", **options)


@pytest.mark.parametrize("window", [None, 50])
def test_a_table_under_other_names_is_refused(tmp_path, window):
    frame = people([400, 350, 300, 420])
    with Ledger(tmp_path / "l.db") as ledger:
        run(frame, ledger, window)
        before = ledger.entries()
        for release_all in (False, True):
            table = pk.read(
                frame, subject="who", time="when", state="what", states=STATES, window=window
            )
            call = for_all if release_all else for_each
            with pytest.raises(ValueError, match=r"'again/p0' are.*those of 'p0'"):
                call(table, BELIEF, 0.1, ledger=ledger, budget=2, prefix="again/")
        assert ledger.entries() == before
        run(people([400, 350, 300, 420], seed=50), ledger, window, prefix="others/")
        run(frame, ledger, window, prefix="again/", confirm_data=True)
        assert ledger.verify() == []


def test_one_subject_of_many_windows_is_recognised_among_others(tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        run(people([400] * 30), ledger, 40)
        alone = people([400] * 3).filter(pl.col("who") == "p2").with_columns(who=pl.lit("x"))
        with pytest.raises(ValueError, match=r"'x' are.*those of 'p2'"):
            run(alone, ledger, 40)


def test_rows_that_changed_in_the_middle_of_a_table_are_noticed_and_growth_is_not(tmp_path):
    frame = people([100])
    with Ledger(tmp_path / "l.db") as ledger:
        for weeks in (2, 3, 5):
            run(frame.filter(pl.col("when") < 20 * weeks), ledger, 20, label="weekly")
        run(frame, ledger, label="whole")
        other = pl.when(pl.col("when") == 33).then(pl.lit("run")).otherwise(pl.col("what"))
        was = frame.filter(pl.col("when") == 33)["what"][0]
        assert was != "run"
        for window in (20, None):
            with pytest.raises(ValueError, match=r"of 'p0' differ from those it was charged for"):
                run(frame.with_columns(what=other), ledger, window, label="changed")
        assert ledger.verify() == []


@pytest.mark.parametrize("window", [None, 50])
def test_by_windows_and_then_whole_it_is_one_person(tmp_path, window):
    """Of a table counts are noted and of a series entries, but stretches of both."""
    frame = people([600])
    whole = Series.of(frame["what"].to_list(), STATES)
    query = pk.histogram(STATES, 600)
    with Ledger(tmp_path / "table.db") as ledger:
        run(frame, ledger, window)
        with pytest.raises(ValueError, match=r"'x' are.*those of 'p0'"):
            Asking(whole, BELIEF, 2.0, ledger, name="x").release(query, 0.5, mechanism="group_dp")
    with Ledger(tmp_path / "series.db") as ledger:
        Asking(whole, BELIEF, 2.0, ledger, name="x").release(query, 0.5, mechanism="group_dp")
        with pytest.raises(ValueError, match=r"'p0' are.*those of 'x'"):
            run(frame, ledger, window)


def test_short_series_that_happen_to_be_equal_are_no_evidence(tmp_path):
    rows = [(f"{c}{n}", t, STATES[(t + n) % 2]) for c in "ab" for n in range(40) for t in range(6)]
    frame = pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")
    with Ledger(tmp_path / "l.db") as ledger:
        run(frame.filter(pl.col("who").str.starts_with("a")), ledger)
        few = frame.filter(pl.col("who").is_in(["b1", "b2", "b3"]))
        assert len(run(few, ledger)) == 3


def test_marks_of_ledgers_that_exist_stay_readable():
    """How marks are hidden is part of the format: other pads would make them unknown."""
    assert _pad(b"k" * 32, "anna", 300, 8).hex() == "be79b21075db8004"


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("pufferkit.account.subjects.CHUNK", 2)


def _between_chunks(monkeypatch, act):
    """Do something before the third chunk is charged."""
    real, calls = Ledger.charge_many, []

    def charge_many(self, *args, **options):
        calls.append(None)
        if len(calls) == 3:
            act()
        return real(self, *args, **options)

    monkeypatch.setattr(Ledger, "charge_many", charge_many)


@pytest.mark.parametrize("known", [0, 2])
def test_what_another_process_writes_between_two_chunks_is_noticed(
    tmp_path, monkeypatch, small_chunks, known
):
    """Marks that were read are kept, and those of newer entries are read beside them."""
    frame = people([400, 350, 300, 420, 380, 410])
    late = frame.filter(pl.col("who") == "p4").with_columns(who=pl.lit("x"))
    others = people([200 + n for n in range(known)], seed=70)
    others = others.with_columns(who=pl.lit("other") + pl.col("who"))
    with Ledger(tmp_path / "l.db") as ledger, Ledger(tmp_path / "l.db") as second:
        if known:
            run(others, ledger)
        _between_chunks(monkeypatch, lambda: run(late, second, confirm_data=True))
        with pytest.raises(ValueError, match=r"'p4' are.*those of 'x'"):
            run(frame, ledger)
        paid = {account.account for account in ledger.accounts()}
        assert {"p0", "p3", "x"} <= paid
        assert not {"p4", "p5"} & paid


def test_marks_that_another_process_changed_are_read_again(tmp_path, monkeypatch, small_chunks):
    frame = people([400, 350, 300, 420, 380, 410])
    first = people([200], seed=70).with_columns(who=pl.lit("x"))
    late = frame.filter(pl.col("who") == "p4").with_columns(who=pl.lit("x"))
    with Ledger(tmp_path / "l.db") as ledger, Ledger(tmp_path / "l.db") as second:
        run(first, ledger)
        _between_chunks(monkeypatch, lambda: run(late, second, label="2", confirm_data=True))
        with pytest.raises(ValueError, match=r"'p4' are.*those of 'x'"):
            run(frame, ledger)


def test_a_ledger_put_back_to_an_older_copy_is_read_anew(tmp_path):
    path, frame = tmp_path / "l.db", people([400, 350])
    with Ledger(path) as ledger:
        run(people([300], seed=90).with_columns(who=pl.lit("y")), ledger)
    old = path.read_bytes()
    book = Ledger(path)
    run(frame, book, prefix="new/")
    book.close()
    path.write_bytes(old)
    with Ledger(path) as ledger:
        run(frame, ledger, prefix="other/")
    with pytest.raises(ValueError, match=r"'third/p0' are.*those of 'other/p0'"):
        run(frame, book, prefix="third/")
    book.close()
