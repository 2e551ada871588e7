"""A worker without the SDK, as a process: the five calls by hand, and spans by opentelemetry-sdk's own exporter.

``python -m tests.support.exporting_worker <url> <workflow>``: takes one lease, runs a body with nested spans under its
traceparent, completes, and only then lets the exporter send what it has. The key is in ``KEY``, the endpoint in
``OTEL_EXPORTER_OTLP_ENDPOINT``.
"""

import json
import os
import sys
import urllib.request
import uuid
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


def main(url: str, workflow: str) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "by-hand"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("by-hand", "1")
    claim = {"worker": "by-hand", "claim_id": str(uuid.uuid4()), "wait_seconds": 10, "serves": [{"workflow": workflow}]}
    (lease,) = _post(f"{url}/v1/leases/claim", claim)["leases"]
    context = TraceContextTextMapPropagator().extract({"traceparent": lease["traceparent"]})
    with tracer.start_as_current_span("body", context=context):
        for number in range(3):
            with tracer.start_as_current_span(f"turn {number}"), tracer.start_as_current_span("chat") as span:
                span.set_attribute("gen_ai.request.model", "m-1")
                span.set_attribute("gen_ai.usage.input_tokens", 10 + number)
                span.add_event("first token")
        with tracer.start_as_current_span("tool") as span:
            span.set_status(trace.StatusCode.ERROR, "no such tool")
    _post(f"{url}/v1/leases/{lease['id']}/complete", {"fence": lease["fence"], "output": "done"})
    provider.shutdown()


def _post(url: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['KEY']}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
