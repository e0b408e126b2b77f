"""Many accounts in one transaction: the same chain, all or nothing, each key once."""

import pytest

from pufferkit import Ledger, OverBudget
from pufferkit.account.ledger import Charge, Terms
from tests.account.test_ledger import url  # noqa: F401

NAMES = [f"person {n}" for n in range(40)]


@pytest.fixture
def book(url):  # noqa: F811
    with Ledger(url, by="test") as ledger:
        for name in NAMES:
            ledger.open_account(name, 1.0, rule="composed", about={"beliefs": "x"})
        yield ledger


def charges(key="k", total=400_000, after=1, names=NAMES):
    return [Charge(name, key, total, total, {"what": key, "é": 'ü"\n'}, after) for name in names]


def test_many_and_one_by_one_make_the_same_chain(book):
    assert book.charge_many([c._replace(value={"value": [0.1, 1e-300]}) for c in charges()])
    book.open_account("alone", 1.0)
    book.spend("alone", 0.5)
    assert book.verify() == []
    assert len(book.entries()) == 2 * len(NAMES) + 3
    read = book.look(NAMES[:4], ["k"])
    assert read.values["person 3", "k"] == {"value": [0.1, 1e-300]}
    assert [account.total for account in read.balances.values()] == [400_000] * 4


def test_names_and_bodies_with_any_characters_are_kept_as_they_are(book):
    odd = [
        f"{text} {n}" for n in range(12) for text in ("tab\t", "\\t", "\\.", "\r\n", "é\\", "\\N")
    ]
    terms = Terms(10**6, "composed", {"about": "\t\\"})
    shared = {"what": "a\\b", "z": None}
    wanted = [
        Charge(name, "k", 1, 1, {**shared, "begins": n, "é": name}, 0, terms, {"value": name})
        for n, name in enumerate(odd)
    ]
    assert book.charge_many(wanted)
    assert {account.account for account in book.accounts()} == {*odd, *NAMES}
    assert book.look(odd, ["k"]).values == {(name, "k"): {"value": name} for name in odd}
    bodies = {e.account: e.body for e in book.entries() if e.kind == "charge"}
    opens = {"opens": {"rule": "composed", "budget": 10**6, "about": terms.about}}
    assert bodies == {c.account: {**c.body, **opens} for c in wanted}
    assert all(entry.own_digest() == entry.digest for entry in book.entries())
    assert book.verify() == []


def test_opening_again_changes_nothing_and_other_terms_are_refused(book):
    before = book.head
    book.open_account(NAMES[0], 1.0, rule="composed", about={"beliefs": "x"})
    assert book.head == before
    for options, match in [
        ({"budget": 2.0}, "ledger budget"),
        ({"about": {"beliefs": "y"}}, "other data or beliefs"),
        ({"account": ""}, "1 to 200"),
    ]:
        call = {"account": NAMES[0], "budget": 1.0, "about": {"beliefs": "x"}, **options}
        with pytest.raises(ValueError, match=match):
            book.open_account(**call, rule="composed")
    assert book.head == before


def test_each_key_is_charged_and_stored_once(book):
    assert book.charge_many(charges(key="alone", names=NAMES[:10]))
    assert book.charge_many(charges(key="alone", names=NAMES[:10]))  # nothing left to charge
    every = charges(key="alone", names=NAMES[:10]) + charges(key="alone", names=NAMES[10:])
    assert book.charge_many(every)
    assert {account.total for account in book.accounts()} == {400_000}
    assert {account.entries for account in book.accounts()} == {2}
    assert book.charge_many([c._replace(value={"value": 1}) for c in charges(after=2)])
    for after in (2, 3):
        assert not book.charge_many([c._replace(value={"value": 2}) for c in charges(after=after)])
    assert {body["value"] for body in book.look(NAMES, ["k"]).values.values()} == {1}
    assert book.verify() == []


def test_what_is_given_back_is_what_was_asked_to_be_stored(book):
    name = NAMES[0]
    for after, key in ((1, "k"), (2, "other")):
        charge = Charge(name, key, 100_000, after * 100_000, {}, after, value={"value": key})
        assert book.charge_many([charge])
        assert book.look([name], [key]).values[name, key] == {"value": key}


def test_all_or_nothing(book):
    before = book.head
    over = [*charges(names=NAMES[:-1]), *charges(total=1_000_001, names=NAMES[-1:])]
    with pytest.raises(OverBudget, match=r"^person 39: requested 1\.000001, remaining 1\.000"):
        book.charge_many(over)
    stale = [*charges(names=NAMES[:-1]), *charges(after=7, names=NAMES[-1:])]
    assert not book.charge_many(stale)
    with pytest.raises(ValueError, match="not in this ledger"):
        book.charge_many([*charges(), *charges(names=["nobody"])])
    assert book.head == before
    assert book.verify() == []


def test_what_was_read_counts_only_while_the_chain_is_the_same(book):
    name = NAMES[0]
    read = book.look([name], ["k"])
    assert book.charge_many(charges("other", names=[name]))
    assert not book.charge_many(charges(names=[name]), read=read)
    assert book.charge_many(charges(names=[name], after=2), read=book.look([name], ["k"]))
    assert book.account(name).entries == 3
    assert book.verify() == []


def test_several_charges_to_one_account_in_one_call(book):
    pair = [*charges("one", names=NAMES[:1]), *charges("two", total=500_000, names=NAMES[:1])]
    assert book.charge_many(pair)
    assert book.account(NAMES[0]).total == 500_000
    assert book.account(NAMES[0]).entries == 3
    assert book.verify() == []
