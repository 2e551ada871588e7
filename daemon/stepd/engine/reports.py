"""What an attempt reports beside its outcome: progress, usage and spans, summed into its execution."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine.canonical import decode, encode
from stepd.engine.commands import Reported
from stepd.engine.model import Attempt, Execution, SpanRow, progress_name
from stepd.engine.work import Work

COUNTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


def take_report(work: Work, attempt: Attempt, reported: Reported) -> None:
    """Keeps progress, usage and spans of a call; each replaces what was sent before (a span by its id)."""
    if reported.progress is not None:
        attempt.has_progress = True
        work.changes.payloads[progress_name(attempt.id)] = reported.progress
    if reported.usage is not None:
        attempt.usage_given = True
        _set_usage(work.execution, attempt, reported.usage)
    if reported.spans:
        work.changes.spans.extend(SpanRow(attempt.id, span.span_id, span.body) for span in reported.spans)
        summed = _sum_spans(work, attempt, reported)
        if not attempt.usage_given:
            _set_usage(work.execution, attempt, summed)


def span_usage_name(attempt_id: str) -> str:
    """The payload that says which span of an attempt used what: ``{span id: [parent, usages or null]}``."""
    return f"spans:{attempt_id}"


def _sum_spans(work: Work, attempt: Attempt, reported: Reported) -> bytes:
    """The usages of the spans sent so far; a span below which any span counts does not count itself."""
    name = span_usage_name(attempt.id)
    kept = work.payload(name)
    known: dict[str, list[Any]] = {} if kept is None else decode(kept)
    for span in reported.spans:
        known[span.span_id] = [span.parent_span_id, None if span.usage is None else msgspec.json.decode(span.usage)]
    work.changes.payloads[name] = encode(known)
    above: set[str] = set()
    for parent, usages in known.values():
        while usages is not None and parent in known and parent not in above:
            above.add(parent)
            parent = known[parent][0]
    return encode([usage for span_id, (_, usages) in known.items() if span_id not in above for usage in usages or ()])


def _set_usage(execution: Execution, attempt: Attempt, usage: bytes) -> None:
    """Replaces an attempt's usage, and moves its execution's sums by the difference."""
    before = [] if attempt.usage is None else msgspec.json.decode(attempt.usage)
    after = msgspec.json.decode(usage)
    attempt.usage = usage
    for name in COUNTS:
        change = sum(line.get(name, 0) for line in after) - sum(line.get(name, 0) for line in before)
        if change:
            setattr(execution, name, getattr(execution, name) + change)
