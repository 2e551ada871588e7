"""The OpenAPI document says what the table of routes says, its examples are real, and the copy in git is current."""

import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from stepd.http.examples import REQUESTS
from stepd.http.openapi import Document
from stepd.http.problem_responses import problems_of
from stepd.http.routes import ROUTES, routes_of
from stepd.settings import load_settings
from stepd_protocol.problems import PROBLEMS
from tests.style.sources import ROOT

DOCUMENT = Document()
BY_NAME = {route.name: route for route in ROUTES}


def test_the_copy_in_git_is_current() -> None:
    assert (ROOT / "openapi.yaml").read_bytes() == DOCUMENT.as_yaml(), "run `make openapi`"


def test_it_is_the_same_every_time_and_in_both_forms() -> None:
    again = Document()
    assert again.as_yaml() == DOCUMENT.as_yaml()
    assert again.as_json() == DOCUMENT.as_json()
    assert yaml.safe_load(DOCUMENT.as_yaml()) == msgspec.json.decode(DOCUMENT.as_json())


def test_it_has_every_route_and_no_other() -> None:
    documented = {
        (method.upper(), path) for path, operations in DOCUMENT.content["paths"].items() for method in operations
    }
    assert documented == {(route.method, route.path) for route in ROUTES}
    assert len(BY_NAME) == len(ROUTES), "operations have names of their own"


def test_every_operation_documents_its_statuses() -> None:
    for route in ROUTES:
        responses = DOCUMENT.content["paths"][route.path][route.method.lower()]["responses"]
        expected = {success.status for success in route.successes}
        expected |= {PROBLEMS[code].status for code in problems_of(route)}
        assert {int(status) for status in responses} == expected, route.name


def test_everything_that_is_referred_to_is_there() -> None:
    text = DOCUMENT.as_json().decode()
    for reference in set(re.findall(r'"#/([^"]+)"', text)):
        part: Any = DOCUMENT.content
        for name in reference.split("/"):
            part = part[name]
        assert part


@pytest.mark.parametrize("name", REQUESTS)
def test_an_example_is_a_request_that_its_schema_takes(name: str) -> None:
    body = msgspec.json.encode(REQUESTS[name])
    assert msgspec.json.decode(body, type=BY_NAME[name].body) is not None
    operation = DOCUMENT.content["paths"][BY_NAME[name].path][BY_NAME[name].method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    whole = {**schema, "components": DOCUMENT.content["components"]}
    jsonschema_rs.validator_for(whole).validate(REQUESTS[name])


def test_every_body_has_an_example() -> None:
    assert {route.name for route in ROUTES if route.body is not None} == set(REQUESTS)


def test_patterns_are_json_schemas_own() -> None:
    assert "(?!" not in DOCUMENT.as_yaml().decode()


def test_a_part_that_is_off_has_no_routes() -> None:
    settings = load_settings({"worker_api": False}, {})
    left = {route.path for route in routes_of(settings)}
    assert "/v1/leases/claim" not in left
    assert {"/v1/executions", "/healthz", "/v1/service"} <= left
