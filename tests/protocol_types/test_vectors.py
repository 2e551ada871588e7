"""The golden messages in protocol/vectors: each is read, written and compared, or refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepd_protocol import admin, definitions, executions, leases, names, problems, service, simulation, times

VECTORS = Path(__file__).resolve().parents[2] / "protocol" / "vectors"
MODULES = (admin, definitions, executions, leases, names, problems, service, simulation)
# Types of the wire that stand inside other messages and are covered by those.
INSIDE_OTHERS = {
    "AncestorStep AppliedUpdate AttemptView AuditEntry BlockedView Budget BudgetView CancelWish Catch",
    "CloseResolution Decision ErrorInfo Evidence ExecutionError ExecutionSummary FieldFault KeyView",
    "LeaseExecution ListAnswer MatchedRules ParentView PausedView Previous Price PriceView ProtocolInfo Repeat",
    "Resolution ResumeResolution Retry Rule ServedWork Serves Settled SignalNotTaken SimulatedFailure",
    "SimulatedOutcome SimulatedStep SpanView StaleOutcome StandingWrite Step StepResult StepView Update",
    "UsageGroup UsageTotal UsageView VersionView WorkerView",
}


def _files() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(VECTORS.glob("*.json"))]


FILES = _files()


def _entries(part: str) -> list[Any]:
    return [
        pytest.param(file["type"], entry, id=f"{file['type']}: {entry['name']}")
        for file in FILES
        for entry in file[part]
    ]


VALID = _entries("valid")
INVALID = _entries("invalid")


@pytest.mark.parametrize(("type_name", "entry"), VALID)
def test_a_valid_message_comes_back_equal(type_name: str, entry: dict[str, Any]) -> None:
    written = _read_and_write(type_name, json.dumps(entry["message"]).encode())
    assert json.loads(written) == entry.get("full", entry["message"])


@pytest.mark.parametrize(("type_name", "entry"), INVALID)
def test_an_invalid_message_is_refused(type_name: str, entry: dict[str, Any]) -> None:
    # A wrong time is text like any other to the decoder; it is refused by the one who reads it.
    refusal = ValueError if type_name == "Time" else msgspec.ValidationError
    with pytest.raises(refusal):
        _read_and_write(type_name, json.dumps(entry["message"]).encode())
    assert entry["why"]


@pytest.mark.parametrize(("type_name", "entry"), VALID)
def test_what_was_written_is_read_as_the_same(type_name: str, entry: dict[str, Any]) -> None:
    written = _read_and_write(type_name, json.dumps(entry["message"]).encode())
    assert json.loads(_read_and_write(type_name, written)) == json.loads(written)


def test_every_message_has_its_vectors() -> None:
    with_vectors = {file["type"] for file in FILES} - {"Name", "Time"}
    inside = {name for line in INSIDE_OTHERS for name in line.split()}
    structs = {
        name
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    }
    assert structs - inside <= with_vectors
    assert all(file["valid"] and file["invalid"] for file in FILES)


def test_a_payload_keeps_its_bytes() -> None:
    body = rb'{"fence":1,"output":{"b": 1.0, "a": 100000000000000000000000000000001, "z": "\u0000", "e": -0.0}}'
    complete = msgspec.json.decode(body, type=leases.Complete)
    assert msgspec.json.encode(complete) == body


def test_views_write_their_nulls() -> None:
    answer = leases.HeartbeatAnswer(expires_at="2026-11-30T12:00:00.000Z", lease_seconds=30, cancel=None, warnings=[])
    assert json.loads(msgspec.json.encode(answer))["cancel"] is None


def _read_and_write(type_name: str, message: bytes) -> bytes:
    if type_name == "Time":
        return msgspec.json.encode(times.format_time(times.parse_time(msgspec.json.decode(message, type=str))))
    return msgspec.json.encode(msgspec.json.decode(message, type=_type(type_name)))


def _type(name: str) -> Any:
    found = [getattr(module, name) for module in MODULES if hasattr(module, name)]
    assert found, f"no wire type {name}"
    return found[0]
