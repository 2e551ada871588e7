"""Steps that are HTTP calls, against a real server that answers, delays, breaks off and lies: what each becomes."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from stepd_worker import Workflow, testing
from stepd_worker.http import http_body, read_catalogue
from tests.sdk.service import Answerer, Asked, Service, plain, running_service

WRITE = 'method = "POST"\neffect = "non_idempotent_write"'
READ = 'method = "GET"\neffect = "read_only"'


def run(url: str, folder: Path, more: str, value: Any = None, **how: Any) -> testing.StepRun:
    """Runs a step that is one call of the service, as the catalogue says."""
    file = folder / "integrations.toml"
    timeout = "" if "timeout_seconds" in more else "timeout_seconds = 5"
    file.write_text(f'[[capability]]\nname = "pay"\nversion = "1"\nurl = "{url}/charges"\n{timeout}\n{more}\n')
    catalogue = read_catalogue(file, {"PAY_KEY": "secret"})
    flow = Workflow("flow")
    body = http_body(catalogue, "pay@1")
    flow.step("call", effect=catalogue.capabilities["pay@1"].effect, begins_effect=True)(body)
    return testing.run_step(flow, "call", value, **how)


def asked(answer: Answerer, folder: Path, more: str, value: Any = None, **how: Any) -> tuple[testing.StepRun, Service]:
    """The same against a service of its own."""
    with running_service(answer) as service:
        return run(service.url, folder, more, value, **how), service


def test_a_call_is_what_the_catalogue_says_and_the_mapping_takes(tmp_path: Path) -> None:
    more = WRITE + (
        '\nheaders = { Authorization = "Bearer ${PAY_KEY}" }\nidempotency_header = "Idempotency-Key"'
        '\nbody = { amount = { "$input" = "/order/cents" }, note = { "$input" = "/note", default = "none" } }'
        '\noutput = { id = { "$body" = "/charge/id" }, status = { "$status" = true }, at = { "$header" = "Location" } }'
    )
    value = {"order": {"cents": 500}, "url": "http://elsewhere", "method": "DELETE", "capability": "other@1"}
    answer = plain(201, b'{"charge": {"id": 7, "secret": "kept here"}}', "Location: /charges/7")
    step, service = asked(lambda _: answer, tmp_path, more, value)
    assert (step.status, step.output) == ("succeeded", {"id": 7, "status": 201, "at": "/charges/7"})
    one = service.asked[0]
    assert one.line == "POST /charges HTTP/1.1"
    assert json.loads(one.body) == {"amount": 500, "note": "none"}
    assert one.headers["authorization"] == "Bearer secret"
    assert one.headers["idempotency-key"] == "test-execution:call"
    assert one.headers["content-type"] == "application/json"
    assert one.headers["accept-encoding"] == "identity"


def test_without_mappings_the_input_is_sent_and_the_answer_stays_here(tmp_path: Path) -> None:
    step, service = asked(lambda _: plain(200, b'{"raw": "stays"}'), tmp_path, WRITE, {"a": 1})
    assert step.output == {"status": 200}
    assert json.loads(service.asked[0].body) == {"a": 1}


def test_what_goes_into_the_query_is_a_value_and_nothing_else(tmp_path: Path) -> None:
    more = READ + '\nquery = { id = { "$input" = "/id" }, deep = true, gone = { "$input" = "/no", default = "" } }'
    step, service = asked(lambda _: plain(200), tmp_path, more, {"id": "a&admin=1/../x?y#z"})
    assert step.status == "succeeded"
    assert service.asked[0].line == "GET /charges?id=a%26admin%3D1%2F..%2Fx%3Fy%23z&deep=true&gone= HTTP/1.1"
    refused, service = asked(lambda _: plain(200), tmp_path, more, {"id": {"not": "plain"}})
    assert (refused.class_, refused.effect, service.asked) == ("invalid_input", "none", [])


def test_an_input_that_lacks_what_is_mapped_fails_before_anything_is_sent(tmp_path: Path) -> None:
    step, service = asked(lambda _: plain(200), tmp_path, WRITE + '\nbody = { "$input" = "/order" }', {})
    assert (step.class_, step.effect) == ("invalid_input", "none")
    assert "/order" in str(step.message)
    assert service.asked == []


@pytest.mark.parametrize(
    ("status", "class_", "effect"),
    [
        (400, "http_400", None),
        (404, "http_404", None),
        (302, "http_302", None),
        (409, "http_409", "none"),
        (408, "retryable", None),
        (425, "retryable", None),
        (429, "retryable", "none"),
        (500, "retryable", None),
        (503, "retryable", None),
        (599, "retryable", None),
    ],
)
def test_a_status_says_what_the_failure_means(tmp_path: Path, status: int, class_: str, effect: str | None) -> None:
    answer = plain(status, b"secret of theirs", "Retry-After: 7", "Location: http://127.0.0.1:1/elsewhere")
    step, service = asked(lambda _: answer, tmp_path, WRITE + "\nnot_applied = [409, 429]")
    assert (step.status, step.class_, step.effect) == ("failed", class_, effect)
    assert step.retry_after == ("7" if class_ == "retryable" else None)
    assert str(status) in str(step.message)
    assert "secret" not in str(step.message)
    assert len(service.asked) == 1, "neither tried again here, nor sent elsewhere"


def test_which_statuses_are_a_success_can_be_said(tmp_path: Path) -> None:
    step, _ = asked(lambda _: plain(202), tmp_path, WRITE + "\nsuccess = [200, 404]")
    assert step.class_ == "http_202"
    step, _ = asked(lambda _: plain(404), tmp_path, WRITE + "\nsuccess = [200, 404]")
    assert step.output == {"status": 404}


def test_where_no_connection_is_made_nothing_happened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}", "http://no-such-host.invalid", f"https://127.0.0.1:{port}"):
        step = run(url, tmp_path, WRITE)
        assert (step.class_, step.effect) == ("retryable", "none"), url
    with running_service(lambda _: plain(200)) as no_tls:
        step = run(no_tls.url.replace("http:", "https:"), tmp_path, WRITE + "\nconnect_seconds = 0.3")
    assert (step.class_, step.effect) == ("retryable", "none")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([], id="closes without a word"),
        pytest.param([b"HTTP/1.1 200 O"], id="breaks off in the head"),
        pytest.param([b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"id": 1}'], id="breaks off in the body"),
        pytest.param([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"], id="breaks off in a chunk"),
        pytest.param([b"SSH-2.0-other\r\n"], id="speaks something else"),
        pytest.param([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"], id="a head without end"),
        pytest.param([b"HTTP/1.1 200 OK\r\n", 5.0], id="is silent in the head"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 5.0], id="is silent in the body"),
    ],
)
def test_without_a_whole_answer_nobody_knows(tmp_path: Path, answer: list[bytes | float]) -> None:
    step, service = asked(lambda _: answer, tmp_path, WRITE + "\ntimeout_seconds = 0.3")
    assert (step.class_, step.effect) == ("retryable", None), step.message
    assert len(service.asked) == 1, "it is not sent again by itself"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(plain(200, b"<html>"), id="no JSON"),
        pytest.param(plain(200, b'{"id": ' * 2000), id="JSON that is too deep"),
        pytest.param(plain(200, b'{"no": "id"}'), id="not what was promised"),
        pytest.param(plain(200, b'"' + b"x" * 300_000 + b'"'), id="too long"),
        pytest.param(plain(200, b"\x1f\x8b", "Content-Encoding: gzip"), id="packed although nobody asked"),
    ],
)
def test_an_answer_that_lies_does_not_undo_what_was_done(tmp_path: Path, answer: bytes) -> None:
    output = '\noutput = { id = { "$body" = "/id" } }'
    step, _ = asked(lambda _: answer, tmp_path, WRITE + output)
    assert (step.class_, step.effect) == ("invalid_output", "applied")
    step, _ = asked(lambda _: answer, tmp_path, READ + output)
    assert (step.class_, step.effect) == ("invalid_output", None)
    step, _ = asked(lambda _: answer, tmp_path, WRITE)
    assert step.output == {"status": 200}, "a mapping that doesn't look at the answer takes it as it is"


def test_a_write_on_its_way_is_waited_for_although_it_is_told_to_stop(tmp_path: Path) -> None:
    here = threading.Event()

    def answer(_: Asked) -> list[bytes | float]:
        here.set()
        return [0.3, plain(200)]

    step, _ = asked(answer, tmp_path, WRITE, cancel="cancel_requested", cancel_after_seconds=0.1)
    assert here.is_set()
    assert step.output == {"status": 200}
    step, _ = asked(answer, tmp_path, READ, cancel="cancel_requested", cancel_after_seconds=0.1)
    assert step.status == "stopped"


def test_a_capability_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    file = tmp_path / "integrations.toml"
    file.write_text("")
    flow = Workflow("flow")
    flow.step("call", effect="non_idempotent_write")(http_body(read_catalogue(file), "pay@1"))
    step = testing.run_step(flow, "call")
    assert (step.class_, step.effect) == ("integration_unavailable", "none")
    assert "pay@1" in str(step.message)
