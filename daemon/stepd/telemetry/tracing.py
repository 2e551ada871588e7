"""Owns whether traces are exported: as the variables of OpenTelemetry say, and not at all where no endpoint is set."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepd.telemetry.exporting import Exports
    from stepd.telemetry.metrics import Metrics

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL: Final = "http/protobuf"

_log = logging.getLogger(__name__)


def exports_wanted(environment: Mapping[str, str]) -> bool:
    """Whether there is a collector to send traces to, and nothing says not to."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if not any(environment.get(name) for name in ENDPOINTS):
        return False
    named = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if named not in ("otlp", "none"):
        _log.warning("OTEL_TRACES_EXPORTER=%s: no traces are sent; the daemon sends them by otlp only", named)
    protocol = next((value for name in PROTOCOLS if (value := environment.get(name, "").strip())), PROTOCOL)
    if protocol != PROTOCOL:
        _log.warning("traces are sent as %s, not %s: give the endpoint of that, mostly port 4318", PROTOCOL, protocol)
    return named == "otlp"


def make_exports(service: str, metrics: Metrics, environment: Mapping[str, str]) -> Exports | None:
    """The export of traces; None, at no cost, where it isn't wanted."""
    if not exports_wanted(environment):
        return None
    # Only here: a daemon that exports nothing shall not load what would do it.
    from stepd.telemetry.exporting import Exports

    return Exports(service, metrics, environment)
