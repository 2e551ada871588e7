"""A collector of traces: takes OTLP/HTTP as protobuf, and keeps the spans; it may also be slow, or refuse."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.wait import eventually


@dataclass(frozen=True, slots=True)
class Collected:
    """One span as it came, with who told of it."""

    trace_id: str
    span_id: str
    parent: str | None
    name: str
    start: int
    end: int
    status: int
    attributes: dict[str, Any]
    links: list[str]
    events: list[str]
    resource: dict[str, Any]
    scope: str

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


@dataclass
class Collector:
    """What has come so far. `status` is what it answers; while `open` is not set, it does not answer."""

    url: str = ""
    status: int = 200
    requests: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    spans: list[Collected] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)

    @property
    def env(self) -> dict[str, str]:
        """What a daemon needs to be told to send its traces here, and soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def of(self, trace_id: str) -> list[Collected]:
        return [span for span in self.spans if span.trace_id == trace_id]

    def named(self, trace_id: str, *names: str) -> list[Collected]:
        """The spans of a trace in the order of these names, each of which must come, and no others."""

        def have_come() -> bool:
            return len(self.of(trace_id)) >= len(names)

        eventually(have_come, what=f"{len(names)} spans in {trace_id}")
        found = self.of(trace_id)
        assert sorted(span.name for span in found) == sorted(names)
        left = list(found)
        return [left.pop(next(i for i, span in enumerate(left) if span.name == name)) for name in names]

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for of_resource in request.resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    self.spans.append(_collected(span, resource, of_scope.scope.name))


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a port of its own, for the length of a `with` block."""
    found = Collector()
    found.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.requests += 1
            found.headers = {name.lower(): value for name, value in self.headers.items()}
            if not found.open.wait(30):
                return
            if found.status == 200 and self.path == "/v1/traces":
                found.take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(found.status if self.path == "/v1/traces" else 404)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Says nothing of requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.open.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _collected(span: Span, resource: dict[str, Any], scope: str) -> Collected:
    return Collected(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex() or None,
        name=span.name,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        status=span.status.code,
        attributes=_attributes(span.attributes),
        links=[link.span_id.hex() for link in span.links],
        events=[event.name for event in span.events],
        resource=resource,
        scope=scope,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)
