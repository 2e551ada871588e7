"""The limits on what callers send: what is beyond one is refused by its name, with the limit and the size."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Answer, Http, Json, compact
from tests.support.definitions import read, unique
from tests.support.flow import Flow, register

BODY_MAX = 1024 * 1024
PAYLOAD_MAX = 256 * 1024


@pytest.fixture(scope="module")
def plain(flow: MakeFlow) -> Flow:
    return flow(read())


def text_of(size: int) -> str:
    """A text whose JSON is `size` bytes."""
    return "x" * (size - 2)


def numbers_in(value: Any) -> set[int]:
    """All whole numbers in a problem, in its fields and in its words."""
    words = str(value).replace(",", "").replace("_", "")
    return {int(word) for word in "".join(c if c.isdigit() else " " for c in words).split()}


def check_too_large(answer: Answer, limit: int, size: int) -> None:
    problem = answer.expect_problem(413, "payload_too_large")
    assert {limit, size} <= numbers_in(problem), str(answer)


def test_a_body_beyond_its_limit_is_refused_with_limit_and_size(http: Http, plain: Flow) -> None:
    body = {"workflow": plain.name, "input": [text_of(PAYLOAD_MAX)] * 5}
    check_too_large(plain.attempt_start(input=body["input"]), BODY_MAX, len(compact(body)))


def test_input_and_state_of_a_start_have_a_limit_each(plain: Flow) -> None:
    assert plain.attempt_start(input=text_of(PAYLOAD_MAX)).status == 202
    check_too_large(plain.attempt_start(input=text_of(PAYLOAD_MAX + 1)), PAYLOAD_MAX, PAYLOAD_MAX + 1)
    state = {"s": text_of(PAYLOAD_MAX)}
    check_too_large(plain.attempt_start(state=state), PAYLOAD_MAX, len(compact(state)))


def test_sizes_are_counted_in_bytes_of_utf8(plain: Flow) -> None:
    text = "é" * (PAYLOAD_MAX // 2)
    check_too_large(plain.attempt_start(input=text), PAYLOAD_MAX, PAYLOAD_MAX + 2)


def test_a_body_whose_length_is_not_told_before_is_limited_too(http: Http, plain: Flow) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"workflow":"x","input":"'
        for _ in range(20):
            yield b"x" * 65536
        yield b'"}'

    answer = http.send("POST", "/v1/executions", raw=chunks())
    answer.expect_problem(413, "payload_too_large")


def test_a_definition_has_a_size_and_a_number_of_steps(http: Http) -> None:
    steps = [read(f"s{number}") for number in range(500)]
    assert register(http, unique(), {"steps": steps}).status == 201
    faults = register(http, unique(), {"steps": [*steps, read("one-more")]}).expect_faults(422, "invalid_definition")
    assert "/steps" in faults
    large = {"description": "x" * PAYLOAD_MAX, "steps": [read()]}
    register(http, unique(), large).expect_problem(413, "payload_too_large")


def test_labels_have_a_number_and_a_form(plain: Flow) -> None:
    many = {f"k{number}": "v" for number in range(64)}
    assert plain.attempt_start(labels=many).status == 202
    bad: list[Json] = [
        {**many, "one-more": "v"},
        {"bad key": "v"},
        {"k" * 129: "v"},
        {"ends\n": "v"},
        {"k": ""},
        {"k": "v" * 257},
        {"k": 1},
        {"k": None},
    ]
    for labels in bad:
        assert "/labels" in "".join(plain.attempt_start(labels=labels).expect_faults(422, "invalid_request"))
    assert plain.attempt_start(labels={"K.1:x_y-z": "any text ✓", "l" * 128: "v" * 256}).status == 202


@pytest.mark.parametrize("field", ["correlation", "tenant"])
def test_correlation_and_tenant_are_texts_of_1_to_256_characters(plain: Flow, field: str) -> None:
    good: list[Json] = ["x", "é" * 256, "two words\t✓"]
    bad: list[Json] = ["", "x" * 257, 5, ["x"]]
    for value in good:
        assert plain.start(**{field: value}).view()[field] == value
    for value in bad:
        assert f"/{field}" in plain.attempt_start(**{field: value}).expect_faults(422, "invalid_request")


@pytest.mark.parametrize("priority", [-101, 101, 1.5, "1", True])
def test_a_priority_out_of_range_is_refused(plain: Flow, priority: Json) -> None:
    assert "/priority" in plain.attempt_start(priority=priority).expect_faults(422, "invalid_request")


@pytest.mark.parametrize("time", ["2030-01-01T00:00:00", "2030-01-01", "tomorrow", "", 5, "2030-13-01T00:00:00Z"])
def test_a_time_must_be_whole_and_carry_an_offset(plain: Flow, time: Json) -> None:
    assert "/start_at" in plain.attempt_start(start_at=time).expect_faults(422, "invalid_request")


@pytest.mark.parametrize("name", ["-x", ".x", "a b", "ä", "x" * 129, "x\n", "a/b"])
def test_names_have_one_form_everywhere(http: Http, plain: Flow, name: str) -> None:
    register(http, unique(), {"version": name, "steps": [read()]}).expect_problem(
        422, "invalid_definition", "invalid_request"
    )
    register(http, unique(), {"steps": [read(name)]}).expect_problem(422, "invalid_definition", "invalid_request")
    assert "/worker" in plain.attempt_claim(worker=name).expect_faults(422, "invalid_request")
    answer = plain.attempt_claim(serves=[{"workflow": name}])
    assert "/serves/0/workflow" in answer.expect_faults(422, "invalid_request")


def test_the_longest_name_is_a_name(http: Http, flow: MakeFlow) -> None:
    name = unique("N.a:m_e").ljust(128, "x")
    assert flow(read("s" * 128), name=name, version="v" * 128).name == name


def test_a_path_with_a_bad_name_registers_nothing(http: Http) -> None:
    answer = register(http, "bad%20name", {"steps": [read()]})
    assert answer.status in (404, 422), str(answer)
