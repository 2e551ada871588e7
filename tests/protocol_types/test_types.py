"""The wire types as a whole: requests refuse what they don't know, tables and types say the same."""

from typing import get_args

import msgspec
import pytest

from stepd_protocol import admin, definitions, executions, leases, problems, service
from stepd_protocol.definitions import STEP_FIELDS, Step
from stepd_protocol.fields import Answer, Request
from stepd_protocol.limits import Limits
from stepd_protocol.names import STEP_KINDS
from stepd_protocol.problems import PROBLEMS, FieldFault, ProblemCode, make_problem

MODULES = (admin, definitions, executions, leases, problems, service)
STRUCTS = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_requests_refuse_unknown_fields_and_answers_do_not(struct: type[msgspec.Struct]) -> None:
    assert issubclass(struct, (Request, Answer))
    assert struct.__struct_config__.forbid_unknown_fields == issubclass(struct, Request)
    assert struct.__struct_config__.frozen


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_schema_can_be_made(struct: type[msgspec.Struct]) -> None:
    _, components = msgspec.json.schema_components([struct])
    assert components[struct.__name__]["type"] == "object"


@pytest.mark.parametrize("struct", [s for s in STRUCTS if issubclass(s, Answer)], ids=lambda struct: struct.__name__)
def test_no_answer_is_made_of_what_refuses_unknown_fields(struct: type[msgspec.Struct]) -> None:
    _, components = msgspec.json.schema_components([struct])
    closed = [name for name, schema in components.items() if schema.get("additionalProperties") is False]
    assert closed == []


def test_every_step_field_belongs_to_a_kind() -> None:
    assert set(STEP_FIELDS) == set(STEP_KINDS)
    assert set().union(*STEP_FIELDS.values()) == set(Step.__struct_encode_fields__)


def test_every_code_has_its_status_and_title() -> None:
    assert set(PROBLEMS) == set(get_args(ProblemCode))
    assert all(400 <= kind.status <= 503 and kind.title for kind in PROBLEMS.values())


def test_a_problem_leaves_out_what_it_does_not_say() -> None:
    problem = make_problem("not_found", "No execution 17.", errors=[])
    assert msgspec.json.decode(msgspec.json.encode(problem)) == {
        "type": "urn:stepd:problem:not_found",
        "title": "No such object",
        "status": 404,
        "detail": "No execution 17.",
        "code": "not_found",
    }


def test_a_problem_names_its_faults() -> None:
    fault = FieldFault(path="/steps/0/id", message="must be a name")
    problem = make_problem("invalid_definition", "1 field is not valid.", errors=[fault])
    assert msgspec.json.decode(msgspec.json.encode(problem))["errors"] == [
        {"path": "/steps/0/id", "message": "must be a name"}
    ]


def test_the_default_limits() -> None:
    limits = Limits()
    assert (limits.request_bytes, limits.state_bytes, limits.claim_answer_bytes) == (1_048_576, 262_144, 8_388_608)
    assert (limits.message_bytes, limits.details_bytes, limits.progress_bytes) == (4_096, 65_536, 65_536)
    assert (limits.labels, limits.spans_per_call, limits.definition_steps) == (64, 200, 500)
