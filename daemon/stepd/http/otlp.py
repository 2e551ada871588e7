"""Owns in which forms an export of traces may come: those of OTLP over HTTP."""

from typing import Final

from stepd.http.call import Call
from stepd.http.problems import Refusal
from stepd.service.otlp import JSON, PROTOBUF
from stepd_protocol.problems import make_problem

ENCODINGS: Final = ("identity", "gzip")


def otlp_form(call: Call) -> tuple[str, str]:
    """The body's media type and encoding. Raises Refusal (415)."""
    given = call.header(b"content-type") or ""
    media_type = given.partition(";")[0].strip().lower()
    if media_type not in (PROTOBUF, JSON):
        said = f"it says {given[:100]!r}" if given else "it says none"
        raise _unsupported(f"send traces as Content-Type: {PROTOBUF} or {JSON}; {said}")
    encoding = (call.header(b"content-encoding") or "identity").strip().lower()
    if encoding not in ENCODINGS:
        raise _unsupported(f"send traces as they are or with Content-Encoding: gzip; it says {encoding[:100]!r}")
    return media_type, encoding


def _unsupported(detail: str) -> Refusal:
    return Refusal(make_problem("unsupported_media_type", detail))
