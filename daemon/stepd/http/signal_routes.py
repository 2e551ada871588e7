"""Owns the routes by which something outside is told to executions: signals and events."""

from typing import Final

from msgspec.structs import replace

from stepd.http import handlers
from stepd.http.shared import IDEMPOTENCY, REPLAYED, VIEW
from stepd.http.table import Route, Success
from stepd_protocol import executions

SIGNAL_ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/executions/{id}/signals",
        name="signal_execution",
        summary="Hand a payload to a wait of an execution",
        handler=handlers.signal,
        part="request_api",
        scopes=("execute",),
        action="execution.signal",
        body=executions.SignalRequest,
        parameters=(IDEMPOTENCY,),
        successes=(replace(VIEW, headers=(REPLAYED,)),),
        problems=("not_found", "already_ended", "not_signalable", "idempotency_conflict", "invalid_input"),
    ),
    Route(
        method="POST",
        path="/v1/events",
        name="publish_event",
        summary="Hand a payload to every open execution with a correlation that can take it",
        handler=handlers.publish,
        part="request_api",
        scopes=("execute",),
        action="event.publish",
        body=executions.PublishRequest,
        parameters=(IDEMPOTENCY,),
        successes=(
            Success(
                status=202,
                type=executions.PublishAnswer,
                about="it is durable in each that took it",
                headers=(REPLAYED,),
            ),
        ),
        problems=("idempotency_conflict",),
    ),
)
