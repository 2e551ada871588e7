"""Owns what an export of traces looks like as JSON: OTLP's ExportTraceServiceRequest and its answer."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class ExportedTraces(Struct, frozen=True, kw_only=True):
    """OTLP's ExportTraceServiceRequest, as its page on JSON says; what is not known is passed over."""

    resourceSpans: list[dict[str, Any]] | None = None  # noqa: N815 — OTLP's name


class PartialSuccess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of an export was not taken."""

    rejectedSpans: str | UnsetType = UNSET  # noqa: N815 — OTLP's name
    """How many spans, as text; left out for none."""
    errorMessage: str | UnsetType = UNSET  # noqa: N815 — OTLP's name
    """Why, and what of taken spans was left out."""


class ExportAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """OTLP's ExportTraceServiceResponse."""

    partialSuccess: PartialSuccess | UnsetType = UNSET  # noqa: N815 — OTLP's name
    """Left out where all was taken as it came."""
