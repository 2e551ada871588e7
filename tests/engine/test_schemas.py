"""JSON Schema in definitions: what fits, what the first fault says, and which schemas are refused."""

from decimal import Decimal
from typing import Any

import pytest

from stepd.engine.schemas import SchemaFault, Validator, without_annotations


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, 1),
        ({}, None),
        ({"type": "object", "required": ["a"]}, {"a": 1}),
        ({"type": "integer", "minimum": 0}, 10**400),
        ({"type": "integer", "minimum": 0}, Decimal("7" * 5_000)),
        ({"type": "integer", "maximum": 0}, Decimal("-" + "7" * 5_000)),
        ({"items": {"type": "integer"}}, [1, Decimal("7" * 5_000)]),
        ({"const": 2**70}, 2**70),
        ({"type": "string", "format": "email"}, "no address"),
        (
            {"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"below": {"$ref": "#/$defs/tree"}}}}},
            {"below": {}},
        ),
        ({"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "items": {"$ref": "#here"}}, [1]),
        ({"items": {"$ref": "#"}}, [[[]]]),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "integer"}]}, [1]),
    ],
)
def test_what_fits(schema: Any, value: Any) -> None:
    assert Validator(schema).first_fault(value) is None


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        (False, 1, "the whole: "),
        ({"type": "object"}, [], 'the whole: the value is not of type "object"'),
        ({"required": ["a"]}, {}, 'the whole: "a" is a required property'),
        (
            {"properties": {"a/b": {"items": {"type": "integer"}}}},
            {"a/b": [1, "secret"]},
            "/a~1b/1: the value is not of",
        ),
        ({"maximum": 10}, 10**400, "the whole: the value is greater than"),
        ({"maximum": 10}, Decimal("7" * 5_000), "the whole: the value is greater than"),
        ({"const": 2**70}, 2**70 + 1, "the whole: "),
        ({"additionalProperties": False}, {"x": 1}, "the whole: False schema"),
    ],
)
def test_the_first_fault_names_the_place_and_no_value(schema: Any, value: Any, fault: str) -> None:
    told = Validator(schema).first_fault(value)
    assert told is not None
    assert told.startswith(fault)
    assert "secret" not in told


def doubling(depth: int) -> dict[str, Any]:
    """A schema that holds a value against 2 to the power of depth subschemas."""
    below = {
        str(level): {"anyOf": [{"$ref": f"#/$defs/{level + 1}"}, {"$ref": f"#/$defs/{level + 1}"}]}
        for level in range(depth)
    }
    return {"$ref": "#/$defs/0", "$defs": {**below, str(depth): {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        5,
        None,
        [],
        {"type": "sort of object"},
        {"minimum": "x"},
        {"pattern": "("},
        {"pattern": "(?=a)"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "file:///etc/hostname"},
        {"properties": {"a": {"$ref": "#/$defs/nowhere"}}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$dynamicAnchor": "a", "not": {"$dynamicRef": "#a"}},
        {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        doubling(10),
        {"items": doubling(40), "$defs": doubling(40)["$defs"]},
    ],
)
def test_schemas_that_are_refused(schema: Any) -> None:
    with pytest.raises(SchemaFault):
        Validator(schema)


def test_a_schema_may_be_held_against_itself_a_few_times() -> None:
    assert Validator(doubling(6)).first_fault("x") is None


def test_annotations_go_where_a_schema_stands_and_only_there() -> None:
    schema = {
        "title": "T",
        "description": "D",
        "$comment": "C",
        "examples": [{"title": 1}],
        "default": {"title": "kept"},
        "const": {"description": "kept"},
        "enum": [{"title": "kept"}],
        "required": ["title"],
        "properties": {"title": {"title": "T", "type": "string"}, "description": {"description": "D"}},
        "patternProperties": {"title": {"$comment": "C"}},
        "$defs": {"examples": {"examples": [1], "items": {"title": "T"}}},
        "dependentSchemas": {"title": {"title": "T"}},
        "allOf": [{"title": "T", "not": {"description": "D"}}, True],
        "additionalProperties": {"title": "T"},
        "prefixItems": [{"title": "T"}],
    }
    assert without_annotations(schema) == {
        "default": {"title": "kept"},
        "const": {"description": "kept"},
        "enum": [{"title": "kept"}],
        "required": ["title"],
        "properties": {"title": {"type": "string"}, "description": {}},
        "patternProperties": {"title": {}},
        "$defs": {"examples": {"items": {}}},
        "dependentSchemas": {"title": {}},
        "allOf": [{"not": {}}, True],
        "additionalProperties": {},
        "prefixItems": [{}],
    }
    assert without_annotations(True) is True
