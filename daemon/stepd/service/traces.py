"""Where an execution stands in a distributed trace: trace context in and out, made from ids where none is given."""

from __future__ import annotations

import re

from stepd.engine.model import Execution

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)
_LENGTH_OF_FIRST_VERSION = 55
_LENGTH_MAX = 512


def read_traceparent(text: str | None) -> str | None:
    """A caller's ``traceparent`` in its first version's form; None where there is none or it is not valid."""
    if text is None or len(text) > _LENGTH_MAX:
        return None
    match = _TRACEPARENT.fullmatch(text)
    if match is None or (text.startswith("00") and len(text) != _LENGTH_OF_FIRST_VERSION):
        return None
    trace_id, span_id, flags = match[1], match[2], match[3]
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return f"00-{trace_id}-{span_id}-{flags}"


def lease_traceparent(execution: Execution, span_id: str) -> str:
    """The trace context under which an attempt's body runs: its own span in its execution's trace."""
    given = execution.traceparent
    if given is not None:
        return f"{given[:36]}{span_id}{given[52:]}"
    return f"00-{execution.id.replace('-', '')}-{span_id}-01"


def trace_id(execution_id: str, traceparent: str | None) -> str:
    """The trace that an execution belongs to: its caller's, else its own."""
    return execution_id.replace("-", "") if traceparent is None else traceparent[3:35]


def is_sampled(execution: Execution) -> bool:
    """Whether whoever began the trace wants it to be followed; it is, where the execution began it."""
    return execution.traceparent is None or bool(int(execution.traceparent[53:55], 16) & 1)


def caller_span_id(execution: Execution) -> str | None:
    """The span under which the execution was started."""
    given = execution.traceparent
    return None if given is None else given[36:52]
