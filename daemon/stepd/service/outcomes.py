"""Outcomes as workers send them: a complete's patch and digest, and a fail that is always possible."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
from msgspec import Raw, UnsetType

from stepd.engine import canonical
from stepd.engine.commands import Complete, Fail
from stepd.engine.pricing import PriceTable
from stepd.service.decoding import BodyDecoder
from stepd.service.reported import read_report
from stepd_protocol import leases as wire
from stepd_protocol.limits import RETRY_AFTER_SECONDS_MAX, Limits
from stepd_protocol.names import DAEMON_CLASSES
from stepd_protocol.problems import FieldFault, Problem
from stepd_protocol.times import parse_http_date

_NUMBER = re.compile(r"[+-]?[0-9]{1,400}(\.[0-9]{0,400})?([eE][+-]?[0-9]{1,9})?", re.ASCII)
_patch = msgspec.json.Decoder(dict[str, Raw]).decode


class Outcome(msgspec.Struct, frozen=True):
    """One settling call, read: the command, the claim that rides on it, and what was dropped."""

    command: Complete | Fail
    next: Raw | UnsetType
    warnings: list[str]


def read_complete(
    principal: str, lease_id: str, body: bytes, limits: Limits, prices: PriceTable | None = None
) -> Outcome | Problem:
    """The body of a complete; a 422 leaves the lease as it was."""
    request = _COMPLETE.decode(body)
    if isinstance(request, Problem):
        return request
    state = b"{}" if isinstance(request.state, UnsetType) else bytes(request.state)
    output = _payload(request.output)
    reported, warnings = read_report(limits, msgspec.UNSET, request.usage, request.spans, prices)
    command = Complete(
        attempt_id=lease_id,
        principal=principal,
        fence=request.fence,
        output=output,
        state=_patch(state),
        digest=canonical.digest(b'{"output":%b,"state":%b}' % (output, state)),
        reported=reported,
        jitter=_jitter(),
    )
    return Outcome(command, request.next, warnings)


def read_fail(
    principal: str, lease_id: str, body: bytes, limits: Limits, prices: PriceTable | None = None
) -> Outcome | Problem:
    """The body of a fail: only its fence, class, effect and unknown fields can make it a 422."""
    request, warnings = _decode_fail(body)
    if isinstance(request, Problem):
        return request
    sent = _payload(request.details)
    details, faults = _read_details(sent, limits)
    warnings += faults
    retry_in_ms, retry_at, faults = _read_retry_after(request.retry_after)
    warnings += faults
    message, faults = _clean(request.message, limits.message_bytes)
    warnings += faults
    reported, faults = read_report(limits, msgspec.UNSET, request.usage, request.spans, prices)
    warnings += faults
    command = Fail(
        attempt_id=lease_id,
        principal=principal,
        fence=request.fence,
        class_=request.class_,
        message=message,
        details=details,
        effect=request.effect,
        retry_in_ms=retry_in_ms,
        retry_at=retry_at,
        digest=_fail_digest(request, sent),
        reported=reported,
        jitter=_jitter(),
    )
    return Outcome(command, request.next, warnings)


def _complete_faults(request: wire.Complete) -> list[FieldFault]:
    if isinstance(request.state, UnsetType) or bytes(request.state).startswith(b"{"):
        return []
    return [FieldFault(path="/state", message="must be an object: a patch of the state's keys")]


def _fail_faults(request: wire.Fail) -> list[FieldFault]:
    if request.class_ not in DAEMON_CLASSES:
        return []
    message = f"{request.class_} is a class that only the daemon gives; say fatal, or name another"
    return [FieldFault(path="/class", message=message)]


_COMPLETE = BodyDecoder(wire.Complete, _complete_faults, {"fence": 0})
_FAIL = BodyDecoder(wire.Fail, _fail_faults, {"fence": 0, "class": "fatal"})


def _decode_fail(body: bytes) -> tuple[wire.Fail | Problem, list[str]]:
    request = _FAIL.decode(body)
    if isinstance(request, wire.Fail):
        return request, []
    value = canonical.decode(body)
    if not isinstance(value, dict) or isinstance(value.get("message", ""), str):
        return request, []
    message = value["message"]
    value["message"] = "" if message is None else canonical.encode(message).decode()
    return _FAIL.decode(canonical.encode(value)), [] if message is None else ["message was no text: its JSON was kept"]


def _payload(raw: Raw | UnsetType) -> bytes:
    return b"null" if isinstance(raw, UnsetType) else bytes(raw)


def _read_details(sent: bytes, limits: Limits) -> tuple[bytes | None, list[str]]:
    if len(sent) > limits.details_bytes:
        return None, [f"details was dropped: {len(sent)} bytes, the limit is {limits.details_bytes}"]
    return (None if sent == b"null" else sent), []


def _read_retry_after(raw: Raw | UnsetType) -> tuple[int | None, int | None, list[str]]:
    """``(ms to wait, or the time of an HTTP date, warnings)``: what can't be read is ignored, never refused."""
    if isinstance(raw, UnsetType):
        return None, None, []
    value: Any = canonical.decode(bytes(raw))
    if isinstance(value, str):
        text = value.strip()
        at = parse_http_date(text)
        if at is not None:
            return None, at, []
        value = float(text) if _NUMBER.fullmatch(text) else None
    if value is None or isinstance(value, (bool, list, dict)):
        ignored = "retry_after was ignored: it must be seconds, as a number or text, or an HTTP date"
        return None, None, [] if bytes(raw) == b"null" else [ignored]
    if value < 0:
        return None, None, ["retry_after was ignored: it is negative"]
    return int(min(value, RETRY_AFTER_SECONDS_MAX) * 1000), None, []


def _clean(text: str, limit: int) -> tuple[str, list[str]]:
    """The message without what no store keeps, cut to ``limit`` bytes of UTF-8 between two characters."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(text) * 4 <= limit:
        return text, []
    raw = text.encode()
    if len(raw) <= limit:
        return text, []
    return raw[:limit].decode(errors="ignore"), [f"message was cut: {len(raw)} bytes, the limit is {limit}"]


def _fail_digest(request: wire.Fail, details: bytes) -> str:
    said = msgspec.json.encode([request.class_, request.effect])
    return canonical.digest(b"[%b,%b]" % (said, details))


def _jitter() -> int:
    return random.randint(800, 1200)
