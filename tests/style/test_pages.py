"""The normative pages name all that the code has: fields of the wire, closed lists, events, paths."""

import re
from collections.abc import Iterable

import msgspec
import pytest

from stepd.http.routes import ROUTES
from stepd_protocol import admin, definitions, executions, leases, limits, names, problems, reasons, service
from tests.style.sources import ROOT, report

PROTOCOL = (ROOT / "docs" / "protocol.md").read_text("utf-8")
SEMANTICS = (ROOT / "docs" / "semantics.md").read_text("utf-8")
MODULES = (definitions, executions, leases, limits, problems, service)

LISTS: dict[str, Iterable[str]] = {
    "problem codes": problems.PROBLEMS,
    "reasons": reasons.REASONS,
    "scopes": names.SCOPES,
    "statuses of executions": names.EXECUTION_STATUSES,
    "statuses of steps": names.STEP_STATUSES,
    "statuses of attempts": names.ATTEMPT_STATUSES,
    "dispositions": names.DISPOSITIONS,
    "effects": names.EFFECTS,
    "reported effects": names.REPORTED_EFFECTS,
    "classes of the daemon": sorted(names.DAEMON_CLASSES),
    "hit policies": names.HIT_POLICIES,
    "kinds of spans": names.SPAN_KINDS,
}


@pytest.mark.parametrize("what", LISTS)
def test_the_protocol_page_names_every_member_of_a_closed_list(what: str) -> None:
    _check(LISTS[what], PROTOCOL, f"docs/protocol.md doesn't name these {what}:")


def test_the_protocol_page_names_every_field_of_the_wire() -> None:
    fields = {field.encode_name for type_ in _wire_types() for field in msgspec.structs.fields(type_)}
    _check(sorted(fields), PROTOCOL, "docs/protocol.md doesn't name these fields:")


def test_the_protocol_page_names_every_path() -> None:
    missing = sorted({route.path for route in ROUTES if not re.search(rf"{re.escape(route.path)}[` ?]", PROTOCOL)})
    assert not missing, report(missing, "docs/protocol.md doesn't name these paths:")


def test_the_semantics_page_names_every_event() -> None:
    missing: list[str] = [
        type_
        for type_ in names.EVENT_TYPES
        if f"`{type_}`" not in SEMANTICS and f"`.{type_.partition('.')[2]}`" not in SEMANTICS
    ]
    assert not missing, report(missing, "docs/semantics.md doesn't name these events:")


def _wire_types() -> list[type[msgspec.Struct]]:
    of_administration: list[type[msgspec.Struct]] = [admin.KeyRequest, admin.KeyCreated, admin.AuditEntry]
    return of_administration + [
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    ]


def _check(words: Iterable[str], page: str, message: str) -> None:
    missing = [word for word in words if not re.search(rf"\b{re.escape(word)}\b", page)]
    assert not missing, report(missing, message)
