"""Registration: what it answers, which digest and version a definition gets, and which version new executions take."""

import re
from typing import Any

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import cel, read, safe_write, unique, write
from tests.support.flow import Flow, register

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")


def digest_of(http: Http, *steps: Json, **fields: Json) -> str:
    return str(register(http, unique(), {"steps": list(steps), **fields}).expect(201)["digest"])


def is_current(answer: Json) -> bool:
    """Whether a registration says that its version is the one that new executions get."""
    return answer["current"] is True or answer["current"] == answer["version"]


def use(http: Http, name: str, version: str) -> None:
    http.post(f"/v1/workflows/{name}/current", {"version": version}).expect(200, 204)


def started_version(http: Http, name: str, version: str | None = None) -> str:
    body = {"workflow": name, "version": version}
    return str(http.post("/v1/executions", body).expect(202)["version"])


def test_a_new_version_is_201_with_all_that_a_worker_needs(http: Http) -> None:
    name = unique()
    answer = register(http, name, {"version": "3", "steps": [read()]})
    said = answer.expect(201)
    assert (said["name"], said["version"]) == (name, "3")
    assert re.fullmatch("[0-9a-f]{64}", said["digest"])
    assert TIME.match(said["registered_at"])
    assert is_current(said)
    protocol = said["protocol"]
    assert protocol["version"] == 1
    assert protocol["wait_seconds_max"] == 60
    assert 0 < protocol["heartbeat_seconds"] <= protocol["lease_seconds"] / 3
    assert protocol["reclaim_seconds"] >= 0
    assert isinstance(protocol["limits"], dict)
    assert protocol["limits"]
    assert isinstance(said["service"], str)
    assert said["service"]


def test_the_same_again_is_200_and_the_same_answer(http: Http) -> None:
    name = unique()
    first = register(http, name, {"version": "3", "steps": [read()]}).expect(201)
    again = register(http, name, {"version": "3", "steps": [read()]}).expect(200)
    assert again == first


def test_without_a_version_it_is_twelve_digits_of_the_digest(http: Http) -> None:
    name = unique()
    said = register(http, name, {"steps": [read()]}).expect(201)
    assert said["version"] == said["digest"][:12]
    assert register(http, name, {"steps": [read()]}).expect(200)["version"] == said["version"]
    other = register(http, name, {"steps": [read(), read("more")]}).expect(201)
    assert other["version"] == other["digest"][:12] != said["version"]


def test_a_version_that_stands_with_another_digest_is_a_conflict(http: Http) -> None:
    name = unique()
    first = register(http, name, {"version": "1", "steps": [read()]}).expect(201)
    register(http, name, {"version": "1", "steps": [read("other")]}).expect_problem(422, "definition_conflict")
    assert register(http, name, {"version": "1", "steps": [read()]}).expect(200)["digest"] == first["digest"]


def test_one_digest_may_stand_under_two_versions(http: Http) -> None:
    name = unique()
    one = register(http, name, {"version": "1", "steps": [read()]}).expect(201)
    two = register(http, name, {"version": "2", "steps": [read()]}).expect(201)
    assert one["digest"] == two["digest"]


WRITTEN_OUT: dict[str, Json] = {
    "kind": "task",
    "needs": [],
    "delivery": "at_least_once",
    "retry": {"max_attempts": 3, "initial_seconds": 2, "factor": 2, "max_seconds": 60},
    "timeout_seconds": 86400,
    "priority": 0,
    "manual_result": "allowed",
}
WRITTEN_OUT_ABOVE: dict[str, Json] = {
    "updates": [],
    "on_restart": "resume",
    "on_failure": "reconcile",
    "exclusive": False,
}


@pytest.mark.parametrize("field", WRITTEN_OUT)
def test_a_default_of_a_step_written_out_changes_no_digest(http: Http, field: str) -> None:
    assert digest_of(http, {**read(), field: WRITTEN_OUT[field]}) == digest_of(http, read())


@pytest.mark.parametrize("field", WRITTEN_OUT_ABOVE)
def test_a_default_of_a_definition_written_out_changes_no_digest(http: Http, field: str) -> None:
    assert digest_of(http, read(), **{field: WRITTEN_OUT_ABOVE[field]}) == digest_of(http, read())


def test_the_default_of_needs_is_not_none_after_the_first(http: Http) -> None:
    assert digest_of(http, read("a"), read("b", needs=[])) != digest_of(http, read("a"), read("b"))


def test_the_default_of_delivery_is_the_effect_s(http: Http) -> None:
    assert digest_of(http, write(delivery="at_most_once")) == digest_of(http, write())
    assert digest_of(http, safe_write(delivery="at_least_once")) == digest_of(http, safe_write())
    assert digest_of(http, safe_write(delivery="at_most_once")) != digest_of(http, safe_write())


def test_a_retry_in_part_has_the_rest_of_its_defaults(http: Http) -> None:
    whole = {"max_attempts": 5, "initial_seconds": 2, "factor": 2, "max_seconds": 60}
    assert digest_of(http, read(retry={"max_attempts": 5})) == digest_of(http, read(retry=whole))


def test_descriptions_versions_and_annotations_are_in_no_digest(http: Http) -> None:
    bare = {"type": "object", "properties": {"a": {"type": "string"}}}
    noted = {
        "title": "T",
        "$comment": "c",
        "type": "object",
        "examples": [{}],
        "properties": {"a": {"type": "string", "description": "d", "title": "t"}},
    }
    step = read(input_schema=bare, output_schema=bare)
    same = read(input_schema=noted, output_schema=noted)
    plain = digest_of(http, step, input_schema=bare, state_schema=bare)
    assert digest_of(http, same, input_schema=noted, state_schema=noted) == plain
    assert digest_of(http, step, input_schema=bare, state_schema=bare, description="words", version="9") == plain


@pytest.mark.parametrize("word", ["title", "description", "examples", "$comment"])
def test_what_only_looks_like_an_annotation_is_in_the_digest(http: Http, word: str) -> None:
    def schema(named: str) -> dict[str, Any]:
        return {"type": "object", "properties": {named: {"type": "string"}}}

    assert digest_of(http, read(input_schema=schema(word))) != digest_of(http, read(input_schema=schema("other")))
    first, second = ({"const": {word: value}} for value in ("a", "b"))
    assert digest_of(http, read(input_schema=first)) != digest_of(http, read(input_schema=second))
    assert digest_of(http, read(input={word: "a"})) != digest_of(http, read(input={word: "b"}))


def test_the_order_of_keys_and_the_spelling_of_numbers_are_in_no_digest(http: Http) -> None:
    def raw(template: str) -> str:
        body = f'{{"steps": [{{"effect": "read_only", "id": "work", "input": {template}}}]}}'
        return str(http.send("PUT", f"/v1/workflows/{unique()}", raw=body.encode()).expect(201)["digest"])

    assert raw('{"a": 1, "b": [2]}') == raw('{ "b" : [ 2 ], "a" : 1 }')
    assert raw("1e2") == raw("100.0") == raw("1.0E+2")
    assert raw("-0") == raw("0")
    assert raw('"\\u00e9"') == raw('"é"')
    assert raw("1") != raw("1.0")
    assert raw("[1, 2]") != raw("[2, 1]")
    assert raw("9007199254740992") != raw("9007199254740993")
    assert raw("1" + "0" * 40) != raw("1" + "0" * 39 + "1")


def test_every_field_that_means_something_is_in_the_digest(http: Http) -> None:
    variants = [
        digest_of(http, read()),
        digest_of(http, safe_write()),
        digest_of(http, read(priority=1)),
        digest_of(http, read(when="1 > 0")),
        digest_of(http, read(timeout_seconds=5)),
        digest_of(http, read(timeout_seconds=None)),
        digest_of(http, read(queue_timeout_seconds=5)),
        digest_of(http, read(lease_seconds=5)),
        digest_of(http, read(reclaim_seconds=5)),
        digest_of(http, read(manual_result="refused")),
        digest_of(http, read(catch=[{"class": "x", "value": 1}])),
        digest_of(http, read(), output=cel("steps.work.output")),
        digest_of(http, read(), on_failure="fail"),
        digest_of(http, read(), on_restart="retry"),
        digest_of(http, read(), exclusive=True),
        digest_of(http, read(), timeout_seconds=5),
        digest_of(http, read(), retention_seconds=5),
        digest_of(http, read(), updates=[{"path": "/a", "value": 1}]),
    ]
    assert len(set(variants)) == len(variants)


def test_the_version_first_registered_last_is_current(http: Http) -> None:
    name = unique()
    assert is_current(register(http, name, {"version": "1", "steps": [read()]}).expect(201))
    assert is_current(register(http, name, {"version": "2", "steps": [read()]}).expect(201))
    assert started_version(http, name) == "2"
    assert not is_current(register(http, name, {"version": "1", "steps": [read()]}).expect(200))
    assert started_version(http, name) == "2"


def test_another_version_can_be_made_current(http: Http, flow: MakeFlow) -> None:
    work = flow(read("old"), version="1")
    flow(read("new"), version="2", name=work.name)
    running = work.start()
    use(http, work.name, "1")
    assert started_version(http, work.name) == "1"
    assert running.view()["version"] == "2", "running ones keep theirs"


def test_making_current_names_what_is_not_there(http: Http, flow: MakeFlow) -> None:
    work = flow(read(), version="1")
    http.post(f"/v1/workflows/{work.name}/current", {"version": "2"}).expect_problem(404, "not_found")
    http.post(f"/v1/workflows/{unique()}/current", {"version": "1"}).expect_problem(404, "not_found")
    http.post(f"/v1/workflows/{work.name}/current", {}).expect_problem(422, "invalid_request")
    http.post(f"/v1/workflows/{work.name}/current", {"version": "1", "x": 1}).expect_problem(422, "invalid_request")


def test_a_start_may_name_a_version(http: Http, flow: MakeFlow) -> None:
    work = flow(read(), version="1")
    flow(read("new"), version="2", name=work.name)
    assert started_version(http, work.name, "1") == "1"
    answer = http.post("/v1/executions", {"workflow": work.name, "version": "3"})
    answer.expect_problem(404, "not_found")


def test_workflows_are_listed_with_their_versions(http: Http, flow: MakeFlow) -> None:
    work = flow(read(), version="1")
    flow(read("new"), version="2", name=work.name)
    work.start()
    shown = http.get(f"/v1/workflows/{work.name}").expect(200)
    assert {version["version"] for version in shown["versions"]} == {"1", "2"}
    assert shown["current"] == "2"
    names = {item["name"] for item in all_workflows(http)}
    assert work.name in names
    http.get(f"/v1/workflows/{unique()}").expect_problem(404, "not_found")


def all_workflows(http: Http) -> list[Json]:
    items: list[Json] = []
    query: dict[str, str] = {}
    while True:
        page = http.get("/v1/workflows", query=query).expect(200)
        items += page["items"]
        if page["next"] is None:
            return items
        query = {"cursor": page["next"]}


def test_a_worker_registers_a_definition_of_every_field(flow: MakeFlow) -> None:
    work: Flow = flow(
        read(
            "a",
            kind="task",
            needs=[],
            when="input != null",
            input={"x": cel("input.x")},
            input_schema={"type": "object"},
            output_schema={"type": "object"},
            delivery="at_most_once",
            retry={"max_attempts": 2, "initial_seconds": 0, "factor": 1.5, "max_seconds": 5},
            lease_seconds=0.05,
            reclaim_seconds=0,
            timeout_seconds=None,
            queue_timeout_seconds=31536000,
            priority=-100,
            catch=[{"class": "*", "value": {}}],
            manual_result="refused",
        ),
        description="all of it",
        input_schema={"type": "object"},
        state_schema={"type": "object"},
        outcome={"hit_policy": "first", "rules": [{"id": "r", "when": "true", "then": 1}], "default": 2},
        updates=[{"path": "/x", "value": cel("steps.a.output")}],
        output=cel("steps.a.output"),
        timeout_seconds=86400,
        on_restart="fail",
        on_failure="fail",
        exclusive=False,
        retention_seconds=60,
    )
    assert work.version == work.registered["digest"][:12]
