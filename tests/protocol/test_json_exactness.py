"""What passes through comes back equal as JSON: every number as it was, every character, every key in its place."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import cel, read
from tests.support.flow import Flow

VALUES: dict[str, str] = {
    "10^40": "1" + "0" * 40,
    "-10^40": "-1" + "0" * 40,
    "2^53+1": "9007199254740993",
    "2^63": "9223372036854775808",
    "2^64+1": "18446744073709551617",
    "1.0": "1.0",
    "0.1": "0.1",
    "small": "5e-324",
    "large": "1.7976931348623157e308",
    "NUL": '"a\\u0000b"',
    "NUL in a name": '{"a\\u0000": 1}',
    "key order": '{"z": 1, "a": 2, "m": {"2": 1, "10": 2, "1": 3}}',
    "empty name": '{"": 1}',
    "astral": '"\\ud83d\\ude00 é \\u2028"',
    "control": '"\\u0001\\b\\t\\n\\u007f"',
    "null": "null",
    "nothing": '[[], {}, null, false, 0, ""]',
    "mixed": '[1, 1.0, true, "1"]',
}


def shape(value: Json) -> str:
    """A text that is the same only for values with the same numbers, types and key order."""
    return json.dumps(value)


@contextmanager
def numbers_of_any_size() -> Iterator[None]:
    """Python refuses to read very long integers unless told that they are meant."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


@pytest.fixture(scope="module")
def chain(flow: MakeFlow) -> Flow:
    """Two steps: the second gets the first's output, the output of both is the execution's."""
    return flow(
        read("first", input=cel("input")),
        read("second", input=cel("steps.first.output")),
        output={"first": cel("steps.first.output"), "second": cel("steps.second.output.deep")},
    )


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_passes_through_the_whole_execution_unchanged(http: Http, chain: Flow, kind: str) -> None:
    value = json.loads(VALUES[kind])
    raw = f'{{"workflow": "{chain.name}", "input": {VALUES[kind]}, "state": {{"s": {VALUES[kind]}}}}}'
    started = http.send("POST", "/v1/executions", raw=raw.encode()).expect(202)
    assert shape(started["input"]) == shape(value)
    first = chain.claim_one()
    assert shape(first.data["input"]) == shape(value)
    assert shape(first.data["state"]) == shape({"s": value})
    first.complete(value, state={"t": value}).expect(200)
    second = chain.claim_one()
    assert shape(second.data["input"]) == shape(value)
    assert shape(second.data["state"]) == shape({"s": value, "t": value})
    assert shape(second.data["steps"]["first"]["output"]) == shape(value)
    second.complete({"deep": value}).expect(200)
    view = http.get(f"/v1/executions/{started['id']}", query={"include": "payloads"}).expect(200)
    assert view["status"] == "completed"
    assert shape(view["output"]) == shape({"first": value, "second": value})
    assert shape(view["input"]) == shape(value)
    assert shape(view["state"]) == shape({"s": value, "t": value})


def test_an_integer_of_five_thousand_digits_stays_one(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    digits = "7" * 5000
    raw = f'{{"workflow": "{work.name}", "input": {{"n": {digits}}}}}'.encode()
    with numbers_of_any_size():
        started = http.send("POST", "/v1/executions", raw=raw)
        assert started.status == 202, str(started)[:300]
        answer = work.attempt_claim(wait_seconds=5)
        assert digits in answer.text
        lease = answer.json["leases"][0]
        body = f'{{"fence": {lease["fence"]}, "output": {digits}}}'.encode()
        http.send("POST", f"/v1/leases/{lease['id']}/complete", raw=body).expect(200)
        view = http.get(f"/v1/executions/{started.json['id']}")
        assert digits in view.text


def test_a_value_within_a_template_is_selected_exactly(http: Http, flow: MakeFlow) -> None:
    work = flow(
        read(input={"picked": cel("input.big"), "fixed": {"z": 1.0, "a": 10**40}, "list": [cel('input["s p"]')]})
    )
    raw = f'{{"workflow": "{work.name}", "input": {{"s p": "a\\u0000b", "big": {{"n": 1{"0" * 40}, "f": 2.0}}}}}}'
    http.send("POST", "/v1/executions", raw=raw.encode()).expect(202)
    given = work.claim_one().data["input"]
    assert shape(given) == shape(
        {"picked": {"n": 10**40, "f": 2.0}, "fixed": {"z": 1.0, "a": 10**40}, "list": ["a\0b"]}
    )


def test_only_an_object_with_the_single_key_is_an_expression(flow: MakeFlow) -> None:
    template = {"a": {"$cel": "1", "other": 2}, "b": {"$cel": "1 + 1"}, "c": {"$celx": "1"}}
    work = flow(read(input=template))
    work.start()
    assert work.claim_one().data["input"] == {"a": {"$cel": "1", "other": 2}, "b": 2, "c": {"$celx": "1"}}


def test_a_template_leaves_what_it_is_given_alone(flow: MakeFlow) -> None:
    work = flow(read(input=cel("input")))
    sent = {"x": {"$cel": "1 + 1"}}
    work.start(input=sent)
    assert work.claim_one().data["input"] == sent
