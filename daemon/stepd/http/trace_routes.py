"""Owns the route by which workers in any language export their spans."""

from typing import Final

from stepd.http import handlers
from stepd.http.table import Route, Success
from stepd.service.otlp import PROTOBUF
from stepd_protocol.traces import ExportAnswer, ExportedTraces

TRACE_ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/traces",
        name="export_traces",
        summary="Take spans of workers' bodies, by OTLP over HTTP",
        handler=handlers.take_traces,
        part="worker_api",
        scopes=("worker",),
        body=ExportedTraces,
        body_media_types=(PROTOBUF,),
        successes=(
            Success(
                status=200, type=ExportAnswer, about="the spans that could be taken were, in the form of the request"
            ),
        ),
        problems=("malformed_body",),
    ),
)
