"""What a worker call carries beside its outcome: read leniently, so that telemetry never refuses an outcome."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stepd.engine.commands import Reported, SpanReport
from stepd.engine.pricing import PriceTable
from stepd_protocol.leases import Span
from stepd_protocol.limits import Limits
from stepd_protocol.telemetry import read_spans, read_usage

NOTHING = Reported()

_encode = msgspec.json.Encoder().encode


def read_report(
    limits: Limits,
    progress: Raw | UnsetType,
    usage: Raw | UnsetType,
    spans: Raw | UnsetType,
    prices: PriceTable | None = None,
) -> tuple[Reported, list[str]]:
    """What was reported, to be priced by these prices, and a warning for each thing that was dropped; never raises."""
    if progress is UNSET and usage is UNSET and spans is UNSET:
        return NOTHING, []
    kept_progress, warnings = _read_progress(limits, progress)
    given, faults = read_usage(usage, limits)
    warnings += faults
    read, faults = read_spans(spans, limits)
    warnings += faults
    reported = Reported(
        progress=kept_progress,
        usage=None if given is None else _encode(given),
        spans=tuple(span_report(span) for span in read),
        prices=prices,
    )
    return reported, warnings


def _read_progress(limits: Limits, progress: Raw | UnsetType) -> tuple[bytes | None, list[str]]:
    if isinstance(progress, UnsetType):
        return None, []
    raw = bytes(progress)
    if len(raw) > limits.progress_bytes:
        return None, [f"progress was dropped: {len(raw)} bytes, the limit is {limits.progress_bytes}"]
    return raw, []


def span_report(span: Span) -> SpanReport:
    """A span as the engine takes it."""
    usage = None if span.usage is None else _encode(span.usage)
    return SpanReport(span.span_id, span.parent_span_id, _encode(span), usage)
