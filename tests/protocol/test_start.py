"""Starting an execution: the answer, `Idempotency-Key`, what is refused, and `exclusive`."""

from functools import partial
from uuid import UUID

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Answer, Http, Json
from tests.support.definitions import read, unique
from tests.support.flow import Flow
from tests.support.wait import together

REPLAYED = "idempotency-replayed"


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def test_a_start_is_accepted_with_its_place_and_its_view(flow: MakeFlow) -> None:
    work = flow(read(), version="7")
    answer = work.attempt_start(input={"a": 1}, labels={"team": "blue"}, priority=5)
    view = answer.expect(202)
    assert answer.headers["location"].endswith(f"/v1/executions/{view['id']}")
    assert UUID(view["id"]).version == 7
    assert (view["workflow"], view["version"], view["status"]) == (work.name, "7", "queued")
    assert work.http.get(f"/v1/executions/{view['id']}").expect(200) == view
    assert REPLAYED not in answer.headers


def test_only_the_workflow_is_required(http: Http, flow: MakeFlow) -> None:
    view = flow(read()).start().view()
    assert (view["input"], view["state"], view["correlation"], view["tenant"]) == (None, {}, None, None)
    assert view["labels"] == {}
    assert "workflow" in str(http.post("/v1/executions", {}).expect_problem(422, "invalid_request"))


def test_nulls_are_the_defaults(flow: MakeFlow) -> None:
    nulls = dict.fromkeys(("version", "correlation", "tenant", "start_at", "on_restart", "exclusive"))
    assert flow(read()).start(**nulls).view()["status"] == "queued"


def test_an_unknown_workflow_is_not_found(http: Http) -> None:
    http.post("/v1/executions", {"workflow": unique()}).expect_problem(404, "not_found")


def test_an_input_that_breaks_the_schema_is_refused_with_its_places(flow: MakeFlow) -> None:
    schema = {
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "integer", "minimum": 1}, "to": {"type": "string"}},
    }
    work = flow(read(), input_schema=schema)
    work.start(input={"amount": 1})
    faults = work.attempt_start(input={"amount": 0, "to": 5}).expect_faults(422, "invalid_input")
    assert {"/input/amount", "/input/to"} <= faults.keys() or {"/amount", "/to"} <= faults.keys()
    work.attempt_start().expect_problem(422, "invalid_input")
    assert len(work.list()["items"]) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("on_restart", "maybe"), ("exclusive", "yes"), ("labels", []), ("state", []), ("state", 5), ("version", 3)],
)
def test_a_value_of_a_wrong_form_is_refused(flow: MakeFlow, field: str, value: Json) -> None:
    assert f"/{field}" in flow(read()).attempt_start(**{field: value}).expect_faults(422, "invalid_request")


def test_faults_are_named_all_at_once(flow: MakeFlow) -> None:
    faults = flow(read()).attempt_start(priority=500, labels={"a b": "x"}, start_at="soon", correlation="")
    named = faults.expect_faults(422, "invalid_request")
    assert {"/priority", "/start_at", "/correlation"} <= named.keys()
    assert any(path.startswith("/labels") for path in named)


def test_the_same_key_and_body_get_the_first_answer_again(flow: MakeFlow) -> None:
    work = flow(read())
    key = unique("key")
    first = work.attempt_start(input={"a": 1, "b": 2}, headers=keyed(key))
    again = work.attempt_start(input={"a": 1, "b": 2}, headers=keyed(key))
    assert again.expect(202) == first.expect(202)
    assert REPLAYED not in first.headers
    assert again.headers[REPLAYED] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert len(work.list()["items"]) == 1


def test_a_body_is_equal_as_json(flow: MakeFlow) -> None:
    work = flow(read())
    key = unique("key")
    bodies = (
        f'{{"workflow": "{work.name}", "input": {{"a": 1e2, "b": "é"}}}}',
        f'{{ "input":{{"b":"\\u00e9","a":100.0}},"workflow":"{work.name}" }}',
    )
    ids = {
        work.http.send("POST", "/v1/executions", raw=body.encode(), headers=keyed(key)).expect(202)["id"]
        for body in bodies
    }
    assert len(ids) == 1


@pytest.mark.parametrize("other", [{"input": 2}, {"input": 1.0}, {"input": 1, "priority": 1}, {}])
def test_the_same_key_with_another_body_is_a_conflict(flow: MakeFlow, other: dict[str, Json]) -> None:
    work = flow(read())
    key = unique("key")
    work.start(input=1, headers=keyed(key))
    work.attempt_start(headers=keyed(key), **other).expect_problem(409, "idempotency_conflict")
    assert len(work.list()["items"]) == 1


def test_a_replay_works_after_the_end(flow: MakeFlow) -> None:
    work = flow(read())
    key = unique("key")
    run = work.start(headers=keyed(key))
    work.claim_one().complete().expect(200)
    again = work.attempt_start(headers=keyed(key))
    assert again.expect(202) == run.started.json, "the first answer, as it was"
    assert again.headers[REPLAYED] == "true"


def test_twenty_starts_at_once_with_one_key_start_one(flow: MakeFlow) -> None:
    work = flow(read())
    key = unique("key")
    answers = together([partial(work.attempt_start, input=1, headers=keyed(key)) for _ in range(20)])
    assert {answer.status for answer in answers} == {202}
    assert len({answer.json["id"] for answer in answers}) == 1
    assert sum(REPLAYED not in answer.headers for answer in answers) == 1
    assert len(work.list()["items"]) == 1
    assert len(work.claim(max=100)) == 1


def test_different_bodies_at_once_with_one_key_start_one(flow: MakeFlow) -> None:
    work = flow(read())
    key = unique("key")
    answers = together([partial(work.attempt_start, input=n, headers=keyed(key)) for n in range(10)])
    assert sorted(answer.status for answer in answers) == [202] + [409] * 9
    assert len(work.list()["items"]) == 1


def test_a_key_is_one_principal_s(http: Http, other: Http, flow: MakeFlow) -> None:
    work = flow(read())
    key = unique("key")
    mine = work.start(input=1, headers=keyed(key))
    theirs = other.post("/v1/executions", {"workflow": work.name, "input": 2}, headers=keyed(key)).expect(202)
    assert theirs["id"] != mine.id


def test_a_refused_start_uses_up_no_key(flow: MakeFlow) -> None:
    work = flow(read(), input_schema={"type": "integer"})
    key = unique("key")
    work.attempt_start(input="x", headers=keyed(key)).expect_problem(422, "invalid_input")
    assert work.attempt_start(input=5, headers=keyed(key)).status == 202


def test_a_start_without_a_key_is_another_each_time(flow: MakeFlow) -> None:
    work = flow(read())
    assert work.start().id != work.start().id


@pytest.mark.parametrize("key", ["x" * 256, "", "two words", "tab\there", "é"])
def test_a_key_that_is_none_is_refused(flow: MakeFlow, key: str) -> None:
    work = flow(read())
    work.attempt_start(headers={"Idempotency-Key": key}).expect_problem(422, "invalid_request")
    assert work.list()["items"] == []


@pytest.mark.parametrize("key", ["x", "!~" * 127 + "z", '"quoted"', "6bfb6711-b0ab-4ddc-bc6a-f13d83bae344"])
def test_visible_ascii_is_a_key(flow: MakeFlow, key: str) -> None:
    key = (unique()[-40:] + key)[-255:]
    assert flow(read()).attempt_start(headers=keyed(key)).status == 202


def check_occupied(answer: Answer, by: str) -> None:
    problem = answer.expect_problem(409, "occupied")
    assert by in str(problem)
    assert problem.get("execution", {}).get("id") == by
    assert problem["execution"]["status"]


def test_one_exclusive_execution_is_open_at_a_time(flow: MakeFlow) -> None:
    work = flow(read(), exclusive=True)
    run = work.start(correlation="case-1")
    check_occupied(work.attempt_start(correlation="case-1"), run.id)
    work.start(correlation="case-2")
    work.start(correlation="case-1", tenant="other")
    assert run.cancel().status == 202
    work.start(correlation="case-1")


def test_exclusive_may_be_asked_for_at_the_start(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start(correlation="c", exclusive=True)
    check_occupied(work.attempt_start(correlation="c", exclusive=True), run.id)
    assert flow(read()).attempt_start(correlation="c", exclusive=True).status == 202, "of this workflow"


@pytest.mark.parametrize("where", ["definition", "start"])
def test_exclusive_needs_a_correlation(flow: MakeFlow, where: str) -> None:
    work: Flow = flow(read(), exclusive=where == "definition")
    fields: dict[str, Json] = {"exclusive": True} if where == "start" else {}
    work.attempt_start(**fields).expect_problem(422, "invalid_request")


def test_of_exclusive_starts_at_once_one_is_accepted(flow: MakeFlow) -> None:
    work = flow(read(), exclusive=True)
    answers = together([partial(work.attempt_start, correlation="c") for _ in range(12)])
    accepted = [answer for answer in answers if answer.status == 202]
    assert len(accepted) == 1
    for answer in answers:
        if answer is not accepted[0]:
            check_occupied(answer, accepted[0].json["id"])


def test_an_exclusive_start_said_again_is_replayed_not_occupied(flow: MakeFlow) -> None:
    work = flow(read(), exclusive=True)
    key = unique("key")
    first = work.start(correlation="c", headers=keyed(key))
    again = work.attempt_start(correlation="c", headers=keyed(key))
    assert again.expect(202)["id"] == first.id
    assert again.headers[REPLAYED] == "true"
