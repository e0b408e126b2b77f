"""Format 1 of a record is docs/release.schema.json: every kind of release is such a record."""

import json
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import pufferkit as pk
from pufferkit.data.query import KINDS
from pufferkit.mechanisms.release import FORMAT, Bound, CountedOver, Evidence, Guarantee, Variant
from pufferkit.records import check_record, release_schema
from pufferkit.verification.verify import THEOREMS
from tests.fuzz import records
from tests.guards.scales import all_rows
from tests.verification import forged

PUBLISHED = Path(__file__).parents[2] / "docs" / "release.schema.json"
SCHEMA = json.loads(PUBLISHED.read_text())
HONEST = cache(records.honest)
CHECKED = {"$ref", "anyOf", "const", "enum", "type", "minimum", "exclusiveMinimum", "items"}
CHECKED |= {"required", "additionalProperties", "properties", "minItems", "maxItems", "description"}


def schemas(schema):
    """A schema, and all that it has inside."""
    yield schema
    inside = [*schema.get("anyOf", ()), *schema.get("properties", {}).values()]
    for own in [*inside, *([schema["items"]] if "items" in schema else [])]:
        yield from schemas(own)


def test_all_that_the_schema_says_is_checked():
    assert release_schema() == SCHEMA
    for name, own in SCHEMA["$defs"].items():
        for schema in schemas(own):
            assert set(schema) <= CHECKED, name
            assert schema.get("type") != "array" or "items" in schema


@pytest.mark.parametrize("name", sorted(HONEST()))
def test_a_record_of_each_mechanism_and_shape_is_of_the_format(name):
    check_record("record", HONEST()[name], "releases" if name == "table" else "release")


def test_records_of_every_class_are_of_the_format():
    beliefs, mechanisms = set(), set()
    for row in all_rows():
        brief = row.over in ("3", "") and row.question == "count" and row.secret == "entries"
        new = row.belief not in beliefs or row.mechanism not in mechanisms
        if brief and new and (record := forged.honest(row)) is not None:
            beliefs.add(row.belief)
            mechanisms.add(row.mechanism)
            check_record(str(row), record, "release")
    assert len(beliefs) > 20


def test_the_schema_has_the_words_of_the_package():
    release = SCHEMA["$defs"]["release"]["properties"]
    evidence = SCHEMA["$defs"]["evidence"]["properties"]
    fields = set(pk.Release.__dataclass_fields__)
    assert set(release) == fields | {"format", "promise", "derived", "read_from"}
    assert set(evidence) == set(Evidence.__dataclass_fields__)
    assert release["format"]["const"] == FORMAT
    assert release["mechanism"]["enum"] == list(THEOREMS)
    asked = SCHEMA["$defs"]["question_kind"]["enum"]
    assert set(asked) == {"own", *KINDS}  # in the order of imports
    assert release["guarantee"]["enum"] == [own.code for own in Guarantee]
    for name, words in {"bound": Bound, "variant": Variant, "counted": CountedOver}.items():
        assert evidence[name]["anyOf"][0]["enum"] == list(get_args(words))


def test_a_record_that_is_not_of_the_format_fails_by_the_name_of_the_field():
    record = HONEST()["curve"]
    for name, changed in {
        "colour": {**record, "colour": "red"},
        "step": {name: own for name, own in record.items() if name != "step"},
        "noise": {**record, "noise": "gaussian"},
        "loss_if_unsure": {**record, "loss_if_unsure": "none"},
    }.items():
        verdict = pk.verify(changed)
        assert not verdict.ok
        assert f"release: {name} must be" in verdict.problems[0]
        assert "get the record as it was written" in verdict.problems[0]
        with pytest.raises(ValueError, match=name):
            pk.Release.from_dict(changed)


def test_the_loss_to_an_adversary_unsure_of_the_member_is_recorded_and_checked():
    person = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    hull = pk.ChainClass.hull(person, pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]]))
    noise = pk.influence_curve(hull, pk.count(1, 20), 1)
    record = json.loads(noise.release([0, 1] * 10, anyway=True).to_json())
    verdict = pk.verify(record)
    assert verdict.ok
    assert verdict.loss_if_unsure == record["loss_if_unsure"] == 1 + hull.loss_of_type > 1
    assert "unsure which member" in str(verdict)
    for wrong in (None, 1.0, "unbounded"):
        assert "loss_if_unsure" in pk.verify({**record, "loss_if_unsure": wrong}).problems[0]
