"""Attacks by someone who can write files: on anchors, keys and balances. Each must be noticed."""

import hashlib
import hmac
import io
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

import pufferkit as pk
from pufferkit import Ledger, LedgerError, MarkovChain, OverBudget, count
from pufferkit.account.ledger import Charge
from pufferkit.cli.inputs import text_of
from pufferkit.cli.question_options import _weights as weights_of
from pufferkit.records import read_stream
from tests.account.test_ledger import _tamper, url  # noqa: F401
from tests.asking import Asking

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = CHAIN.sample(2000, seed=1).tolist()


def rewrite(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


# -- signed anchors ------------------------------------------------------------------------------


@pytest.fixture
def signed(tmp_path):
    """A ledger with a signed anchor, and a copy of the ledger from before the last charge."""
    path, old = tmp_path / "ledger.db", tmp_path / "old.db"
    options = {"anchor": tmp_path / "head", "anchor_key": tmp_path / "head.key"}
    with Ledger(path, **options) as ledger:
        ledger.open_account("alice", 1)
    shutil.copyfile(path, old)
    with Ledger(path, **options) as ledger:
        ledger.spend("alice", 0.9)
    return path, old, options


def forge(path, anchor, key):
    """An anchor for the ledger as it is, made with a key of the attacker's own."""
    with sqlite3.connect(path) as connection:
        seq, digest = connection.execute("SELECT seq, digest FROM pufferkit_head").fetchone()
    connection.close()
    mac = hmac.new(key, f"{seq}:{digest}".encode(), hashlib.sha256).hexdigest()
    anchor.write_text(
        json.dumps({"format": "pufferkit-anchor/1", "seq": seq, "digest": digest, "mac": mac})
    )


@pytest.mark.parametrize("key", [None, bytes(32), bytes(range(32))])
def test_an_anchor_is_not_forged_without_its_key(signed, key):
    """The key file removed, or another one in its place: either is an error."""
    path, old, options = signed
    shutil.copyfile(old, path)
    forge(path, options["anchor"], key or b"")
    options["anchor_key"].unlink()
    if key is not None:
        options["anchor_key"].write_text(key.hex())
    spent = []
    with pytest.raises(LedgerError, match="key"), Ledger(path, **options) as ledger:
        spent.append(ledger.spend("alice", 0.9))
    assert spent == []
    assert options["anchor_key"].exists() == (key is not None)


def test_a_missing_key_of_an_anchor_is_not_made_anew(signed):
    path, _, options = signed
    options["anchor"].unlink()
    options["anchor_key"].unlink()
    with Ledger(path, **options) as ledger, pytest.raises(LedgerError, match="anchor"):
        ledger.spend("alice", 0.05)
    assert not options["anchor_key"].exists()


def test_a_second_keeper_has_an_anchor_and_a_key_of_its_own(signed, tmp_path):
    path, _, options = signed
    second = {"anchor": tmp_path / "second", "anchor_key": tmp_path / "second.key"}
    with Ledger(path, **second) as ledger:
        ledger.make_anchor()
        ledger.spend("alice", 0.01)
    for keeper in (options, second, {}):
        with Ledger(path, **keeper) as ledger:
            ledger.spend("alice", 0.01)
            assert ledger.verify() == []


# -- the key by which data are recognised ----------------------------------------------------------


@pytest.mark.parametrize("how", ["key file", "first entry", "marks too", "renamed"])
def test_recognition_of_data_cannot_be_reset(tmp_path, how):
    path, key = tmp_path / "ledger.db", tmp_path / "ledger.db.key"
    with Ledger(path) as ledger:
        Asking(DATA, CHAIN, 1.0, ledger, name="anna").release(count(1, 2000), 0.9)
    key.unlink()
    if how in ("first entry", "marks too"):
        rewrite(path, "DELETE FROM pufferkit_entries WHERE seq = 1")
    if how == "marks too":
        rewrite(path, "UPDATE pufferkit_entries SET marks = ''")
    if how == "renamed":
        key.write_text("11" * 32)
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError):
            Asking(DATA, CHAIN, 1.0, ledger, name="bob").release(count(1, 2000), 0.9)
        if how == "marks too":  # which are in an entry that has a digest
            with pytest.raises(LedgerError, match="was changed"):
                ledger.accounts()
        else:
            assert [account.account for account in ledger.accounts()] == ["anna"]


# -- balances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["total = 0", "budget = 9000000", "rule = 'sum'", "number = 1"])
@pytest.mark.parametrize("last", [False, True])
def test_a_balance_that_was_changed_buys_nothing(url, change, last):  # noqa: F811
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1)
        ledger.spend("alice", 0.5)
        ledger.spend("alice", 0.5)
        session = Asking(DATA, CHAIN, 1.0, ledger, name="anna", confirm_data=True)
        session.release(count(1, 2000), 0.9)
        lasts = "SELECT max(seq) FROM pufferkit_entries GROUP BY account"
        where = f" AND seq IN ({lasts})" if last else " AND kind = 'charge'"
        _tamper(ledger, f"UPDATE pufferkit_entries SET {change} WHERE account <> ''{where}")
        with pytest.raises((OverBudget, LedgerError)):
            ledger.spend("alice", 0.5)
        with pytest.raises((OverBudget, LedgerError)):
            session.release(count(1, 2000), 0.9, label="again")
    with Ledger(url) as again:  # one that remembers nothing
        with pytest.raises((OverBudget, LedgerError)):
            again.spend("alice", 0.5)
        for name in ("alice", "anna"):
            after = len(again.entries(name))
            with pytest.raises((OverBudget, LedgerError)):
                again.charge_many([Charge(name, "x", 900_000, 1_400_000, {}, after)])
        assert len(again.entries("alice")) == 3
        assert again.verify()


# -- endless files -------------------------------------------------------------------------------


@pytest.fixture(params=["device", "pipe", "large"])
def endless(request, tmp_path):
    place = tmp_path / "endless"
    if request.param == "device":
        return "/dev/zero"
    if request.param == "pipe":
        os.mkfifo(place)
    else:
        with place.open("wb") as stream:
            stream.truncate(1 << 40)
    return place


def test_endless_files_are_refused_as_keys_and_anchors(tmp_path, endless):
    path = tmp_path / "ledger.db"
    for options in ({"key": endless}, {"anchor": endless},
                    {"anchor": tmp_path / "head", "anchor_key": endless}):  # fmt: skip
        with pytest.raises(LedgerError), Ledger(path, **options) as ledger:
            ledger.open_account("alice", 1)


def test_endless_files_are_refused_as_models(endless):
    with pytest.raises(ValueError, match=r"regular file|bytes"):
        text_of(Path(endless))


def test_endless_files_are_refused_wherever_a_file_is_read(tmp_path, endless):
    table = tmp_path / "endless.csv"
    table.symlink_to(endless)
    reads = (
        pk.verify,
        pk.Bins.from_file,
        lambda file: weights_of(Path(file), (0, 1)),
    )
    for read in reads:
        with pytest.raises(ValueError, match=r"regular file|bytes"):
            read(str(endless))
    if Path(endless).is_file():
        return  # tables are read lazily
    for file in (str(endless), table):
        with pytest.raises(ValueError, match="regular file"):
            pk.read(file, state="state", states=[0, 1])


def test_standard_input_is_read_up_to_a_limit(monkeypatch):
    class Endless:
        def __init__(self):
            self.asked = []

        def read(self, size=-1):
            self.asked.append(size)
            return b"0" * size

    stream = Endless()
    with pytest.raises(ValueError, match="on disk"):
        read_stream(stream, "standard input", 1000)
    assert stream.asked == [1001]
    monkeypatch.setattr("sys.stdin", io.StringIO("[1]"))
    assert text_of(Path("-")) == "[1]"
