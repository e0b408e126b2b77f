"""Format 1 of a record is docs/release.schema.json: every kind of release is such a record."""

import json
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import pufferkit as pk
from pufferkit.data.query import KINDS
from pufferkit.mechanisms.release import FORMAT, Bound, CountedOver, Evidence, Guarantee, Variant
from pufferkit.verification.verify import THEOREMS
from tests.fuzz import records
from tests.guards.scales import all_rows
from tests.verification import forged

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "release.schema.json").read_text())
HONEST = cache(records.honest)
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "null": type(None),
}
CHECKED = {"$schema", "title", "description", "$defs", "$ref", "anyOf", "const", "enum", "type"}
CHECKED |= {"minimum", "exclusiveMinimum", "required", "additionalProperties", "properties"}
CHECKED |= {"items", "minItems", "maxItems"}


def differences(value, schema, at="record"):
    """Where a value is not what the schema says: the part of JSON Schema that ours uses."""
    assert set(schema) <= CHECKED
    if "$ref" in schema:
        yield from differences(value, SCHEMA["$defs"][schema["$ref"].split("/")[-1]], at)
    if "anyOf" in schema:
        each = [list(differences(value, own, at)) for own in schema["anyOf"]]
        yield from [] if [] in each else min(each, key=len)
    words = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if words is not None and (value not in words or isinstance(value, bool)):
        yield f"{at}: is {value!r:.50}"
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, TYPES[kind]) or isinstance(value, bool)):
        yield f"{at}: is no {kind}"
        return
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    if (low is not None and value < low) or (above is not None and value <= above):
        yield f"{at}: is {value}"
    if kind == "array":
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at}: has {len(value)} items"
        for number, own in enumerate(value):
            yield from differences(own, schema["items"], f"{at}[{number}]")
    if kind == "object":
        known = schema.get("properties", {})
        yield from (f"{at}: lacks {name}" for name in set(schema.get("required", ())) - set(value))
        if not schema.get("additionalProperties", True):
            yield from (f"{at}: has {name}" for name in set(value) - set(known))
        for name in set(value) & set(known):
            yield from differences(value[name], known[name], f"{at}.{name}")


@pytest.mark.parametrize("name", sorted(HONEST()))
def test_a_record_of_each_mechanism_and_shape_is_of_the_format(name):
    assert not list(differences(HONEST()[name], SCHEMA))


def test_records_of_every_class_are_of_the_format():
    seen = set()
    for row in all_rows():
        brief = row.over in ("3", "") and row.question == "count" and row.secret == "entries"
        key = row.belief, row.mechanism
        if brief and key not in seen and (record := forged.honest(row)) is not None:
            seen.add(key)
            assert not list(differences(record, SCHEMA)), row
    assert len(seen) > 20


def test_the_schema_has_the_words_of_the_package():
    release = SCHEMA["$defs"]["release"]["properties"]
    evidence = SCHEMA["$defs"]["evidence"]["properties"]
    fields = set(pk.Release.__dataclass_fields__)
    assert set(release) == fields | {"format", "promise", "derived", "read_from"}
    assert set(evidence) == set(Evidence.__dataclass_fields__)
    assert release["format"]["const"] == FORMAT
    assert release["mechanism"]["enum"] == list(THEOREMS)
    assert set(release["kind"]["enum"]) == {"own", *KINDS}  # in the order of imports
    assert release["guarantee"]["enum"] == [own.code for own in Guarantee]
    for name, words in {"bound": Bound, "variant": Variant, "counted": CountedOver}.items():
        assert evidence[name]["anyOf"][0]["enum"] == list(get_args(words))


def test_another_record_is_not_of_the_format_and_is_refused():
    record = HONEST()["curve"]
    for changed in (
        {**record, "colour": "red"},
        {name: own for name, own in record.items() if name != "step"},
        {**record, "format": 2},
        {**record, "noise": "gaussian"},
        {**record, "loss_if_unsure": "none"},
    ):
        assert list(differences(changed, SCHEMA))
        with pytest.raises(ValueError, match="release: "):
            pk.verify(changed)


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
