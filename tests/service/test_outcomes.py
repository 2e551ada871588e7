"""Outcomes as workers send them: what makes two of them equal, and how a fail is made possible."""

import json
from typing import Any

import pytest

from stepd.engine.commands import Complete, Fail
from stepd.service.outcomes import Outcome, read_complete, read_fail
from stepd_protocol.limits import Limits
from stepd_protocol.problems import Problem

LIMITS = Limits()


def sent(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def completed(body: Any) -> Complete:
    outcome = read_complete("me", "lease", sent(body), LIMITS)
    assert isinstance(outcome, Outcome)
    assert isinstance(outcome.command, Complete)
    return outcome.command


def failed(body: Any) -> tuple[Fail, list[str]]:
    outcome = read_fail("me", "lease", sent(body), LIMITS)
    assert isinstance(outcome, Outcome)
    assert isinstance(outcome.command, Fail)
    return outcome.command, outcome.warnings


def refused(body: Any) -> set[str]:
    """The pointers of a refused fail."""
    problem = read_fail("me", "lease", sent(body), LIMITS)
    assert isinstance(problem, Problem)
    assert isinstance(problem.errors, list)
    return {fault.path for fault in problem.errors}


def test_an_output_left_out_is_null_and_a_state_left_out_changes_nothing() -> None:
    command = completed({"fence": 1})
    assert (command.output, command.state) == (b"null", {})
    assert command.digest == completed({"fence": 1, "output": None, "state": {}}).digest


def test_outcomes_are_equal_as_json() -> None:
    one = completed(b'{"fence":1,"output":{"a":1,"b":1.0},"state":{"x":[1,2]}}')
    same = completed(b'{"state":{ "x":[1, 2]},"fence":1,"output":{"b":10e-1,"a":1}}')
    other = completed(b'{"fence":1,"output":{"a":1,"b":1},"state":{"x":[1,2]}}')
    assert one.digest == same.digest != other.digest


def test_an_output_passes_as_its_bytes() -> None:
    assert completed(b'{"fence":1,"output": { "a" : 1.0 } }').output == b'{ "a" : 1.0 }'


@pytest.mark.parametrize("state", [None, [], 1, "x"])
def test_a_patch_is_an_object(state: Any) -> None:
    problem = read_complete("me", "lease", sent({"fence": 1, "state": state}), LIMITS)
    assert isinstance(problem, Problem)
    assert isinstance(problem.errors, list)
    assert [fault.path for fault in problem.errors] == ["/state"]


def test_a_fail_is_equal_by_class_effect_and_details_only() -> None:
    one, _ = failed({"fence": 1, "class": "x", "message": "a", "details": {"k": 1, "l": 2}})
    same, _ = failed({"fence": 1, "class": "x", "message": "b", "details": {"l": 2, "k": 1}, "effect": None})
    other, _ = failed({"fence": 1, "class": "x", "message": "a", "details": {"k": 1}})
    assert one.digest == same.digest != other.digest
    assert failed({"fence": 1, "class": "x", "effect": "none", "details": {"k": 1}})[0].digest != other.digest


@pytest.mark.parametrize("class_", ["timeout", "lost", "budget_exceeded", "finish_invalid", "bad name", "", 5, None])
def test_a_class_must_be_a_name_and_not_the_daemon_s(class_: Any) -> None:
    assert refused({"fence": 1, "class": class_}) == {"/class"}


def test_an_effect_is_one_of_its_list() -> None:
    assert refused({"fence": 1, "class": "x", "effect": "perhaps"}) == {"/effect"}
    assert failed({"fence": 1, "class": "x", "effect": "absent"})[0].effect == "absent"


@pytest.mark.parametrize(("message", "kept"), [(5, "5"), ({"a": [1]}, '{"a":[1]}'), ("a\0b", "a\ufffdb"), ("", "")])
def test_a_message_of_any_kind_refuses_nothing(message: Any, kept: str) -> None:
    command, warnings = failed({"fence": 1, "class": "x", "message": message})
    assert command.message == kept
    assert bool(warnings) == (not isinstance(message, str))


def test_a_message_left_out_or_null_is_empty_without_a_warning() -> None:
    for body in ({"fence": 1, "class": "x"}, {"fence": 1, "class": "x", "message": None}):
        command, warnings = failed(body)
        assert (command.message, warnings) == ("", [])


@pytest.mark.parametrize(("character", "length"), [("x", 4096), ("é", 2048), ("✓", 1365), ("😀", 1024)])
def test_a_long_message_is_cut_between_two_characters(character: str, length: int) -> None:
    command, warnings = failed({"fence": 1, "class": "x", "message": character * 5000})
    assert command.message == character * length
    assert warnings == [f"message was cut: {len((character * 5000).encode())} bytes, the limit is 4096"]


def test_details_that_are_too_large_are_dropped_with_a_warning() -> None:
    command, warnings = failed({"fence": 1, "class": "x", "details": "d" * 65_536})
    assert command.details is None
    assert "details was dropped" in warnings[0]
    assert failed({"fence": 1, "class": "x", "details": "d" * 65_534})[0].details is not None


RETRY_AFTER: list[tuple[Any, int | None]] = [
    (30, 30_000),
    (1.5, 1_500),
    ("30", 30_000),
    (" 2.5 ", 2_500),
    (0, 0),
    (1e18, 120_000),
    ("1e18", 120_000),
    ("9" * 400, 120_000),
    (10**30, 120_000),
    (-1, None),
    ("-1", None),
    ("NaN", None),
    ("inf", None),
    ("1_000", None),
    ("soon", None),
    ("", None),
    (True, None),
    ([], None),
    ({}, None),
]


@pytest.mark.parametrize(("given", "ms"), RETRY_AFTER)
def test_retry_after_is_read_leniently(given: Any, ms: int | None) -> None:
    command, warnings = failed({"fence": 1, "class": "retryable", "retry_after": given})
    assert (command.retry_in_ms, command.retry_at) == (ms, None)
    assert bool(warnings) == (ms is None)


def test_retry_after_may_be_a_date() -> None:
    command, warnings = failed({"fence": 1, "class": "retryable", "retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"})
    assert (command.retry_in_ms, command.retry_at, warnings) == (None, 253_402_300_799_000, [])


def test_null_stands_for_no_retry_after() -> None:
    command, warnings = failed({"fence": 1, "class": "retryable", "retry_after": None})
    assert (command.retry_in_ms, command.retry_at, warnings) == (None, None, [])


def test_telemetry_refuses_no_outcome() -> None:
    command, warnings = failed({"fence": 1, "class": "x", "usage": 5, "spans": [{"bad": 1}]})
    assert command.reported.usage is None
    assert command.reported.spans == ()
    assert len(warnings) == 2


@pytest.mark.parametrize("field", ["fence", "class"])
def test_only_what_cannot_be_guessed_is_required(field: str) -> None:
    whole = {"fence": 1, "class": "x"}
    assert refused({name: value for name, value in whole.items() if name != field}) == {f"/{field}"}


def test_an_unknown_field_of_a_fail_is_refused() -> None:
    assert refused({"fence": 1, "class": "x", "reason": "y", "message": 5}) == {"/reason"}
