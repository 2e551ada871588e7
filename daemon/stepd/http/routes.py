"""Owns the table of routes: every path the daemon answers, who may use it, what it takes and what it gives."""

from typing import Annotated, Final

from msgspec import Meta

from stepd.http import handlers
from stepd.http.admin_routes import ADMIN_ROUTES
from stepd.http.shared import IDEMPOTENCY, REPLAYED, VIEW
from stepd.http.signal_routes import SIGNAL_ROUTES
from stepd.http.status_routes import STATUS_ROUTES
from stepd.http.table import Parameter, Route, Success
from stepd.http.trace_routes import TRACE_ROUTES
from stepd.http.usage_routes import USAGE_ROUTES
from stepd.settings import Settings
from stepd_protocol import definitions, executions, leases, service, simulation
from stepd_protocol.fields import ShortText, Time
from stepd_protocol.limits import WAIT_SECONDS_MAX
from stepd_protocol.names import ExecutionStatus, Name
from stepd_protocol.problems import ProblemCode

LEASE_PROBLEMS: Final[tuple[ProblemCode, ...]] = ("lease_refused",)
HOLDERS_NOTE: Final = "Stays open to the lease's holder when its key has lost the scope."

_WAIT = Parameter(
    name="wait_seconds",
    type=Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)],
    about="answer when the execution has ended or needs reconciliation, or after so many seconds",
)
_LIMIT = Parameter(name="limit", type=executions.PageLimit, about="how many at most")
_CURSOR = Parameter(name="cursor", type=str, about="`next` of the page before; it holds that page's filters")
_INCLUDE = Parameter(
    name="include",
    type=Annotated[str, Meta(pattern="^(attempts|payloads)(,(attempts|payloads))*$")],
    about="also each attempt, and the inputs and outputs of steps; needs the scope `read`",
)
_TRACEPARENT = Parameter(name="traceparent", place="header", type=str, about="the trace to go on with (W3C)")

WORKER_ROUTES: Final = (
    Route(
        method="PUT",
        path="/v1/workflows/{name}",
        name="register_workflow",
        summary="Register one version of a workflow",
        handler=handlers.register,
        part="worker_api",
        scopes=("worker",),
        action="workflow.register",
        body=definitions.Definition,
        successes=(
            Success(status=201, type=definitions.RegisteredWorkflow, about="a new version"),
            Success(status=200, type=definitions.RegisteredWorkflow, about="the same again"),
        ),
        problems=("invalid_definition", "definition_conflict"),
    ),
    Route(
        method="POST",
        path="/v1/leases/claim",
        name="claim_leases",
        summary="Wait for work and take it",
        handler=handlers.claim,
        part="worker_api",
        scopes=("worker",),
        body=leases.ClaimRequest,
        new_work=True,
        successes=(Success(status=200, type=leases.ClaimAnswer, about="leases; none where nothing came in time"),),
    ),
    Route(
        method="POST",
        path="/v1/leases/{id}/heartbeat",
        name="heartbeat",
        summary="Keep a lease alive",
        handler=handlers.heartbeat,
        part="worker_api",
        scopes=("worker",),
        for_holders=True,
        body=leases.Heartbeat,
        successes=(Success(status=200, type=leases.HeartbeatAnswer, about="how long the lease lasts from here"),),
        problems=LEASE_PROBLEMS,
    ),
    Route(
        method="POST",
        path="/v1/leases/{id}/complete",
        name="complete",
        summary="Tell that the body succeeded",
        handler=handlers.complete,
        part="worker_api",
        scopes=("worker",),
        for_holders=True,
        body=leases.Complete,
        successes=(Success(status=200, type=leases.CompleteAnswer, about="the outcome was taken"),),
        problems=(*LEASE_PROBLEMS, "invalid_output"),
    ),
    Route(
        method="POST",
        path="/v1/leases/{id}/fail",
        name="fail",
        summary="Tell that the body failed",
        handler=handlers.fail,
        part="worker_api",
        scopes=("worker",),
        for_holders=True,
        body=leases.Fail,
        successes=(Success(status=200, type=leases.FailAnswer, about="what became of the step"),),
        problems=(*LEASE_PROBLEMS, "invalid_output"),
    ),
)

EXECUTION_ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/executions",
        name="start_execution",
        summary="Start an execution",
        handler=handlers.start,
        part="request_api",
        scopes=("execute",),
        action="execution.start",
        body=executions.StartRequest,
        new_work=True,
        parameters=(IDEMPOTENCY, _TRACEPARENT),
        successes=(
            Success(
                status=202,
                type=executions.ExecutionView,
                about="it is durable",
                headers=(
                    ("Location", "path of the execution"),
                    REPLAYED,
                ),
            ),
        ),
        problems=("not_found", "idempotency_conflict", "occupied", "invalid_input"),
    ),
    Route(
        method="GET",
        path="/v1/executions",
        name="list_executions",
        summary="List executions",
        handler=handlers.list_executions,
        part="request_api",
        scopes=("read", "execute"),
        parameters=(
            Parameter(name="workflow", type=Name, about="of this workflow"),
            Parameter(name="version", type=Name, about="of this version"),
            Parameter(name="status", type=ExecutionStatus, many=True, about="with one of these statuses"),
            Parameter(name="correlation", type=ShortText, about="with this correlation"),
            Parameter(name="tenant", type=ShortText, about="of this tenant"),
            Parameter(name="label", type=str, many=True, about="with all of these labels, each `key:value`"),
            Parameter(name="blocked", type=bool, about="that stand, or don't, for want of a worker"),
            Parameter(name="created_after", type=Time, about="created after this time"),
            Parameter(name="created_before", type=Time, about="created before this time"),
            Parameter(
                name="order",
                type=Annotated[str, Meta(pattern="^(newest|oldest)$")],
                about="newest first unless `oldest`",
            ),
            _LIMIT,
            _CURSOR,
        ),
        successes=(Success(status=200, type=executions.ExecutionList, about="one page"),),
    ),
    Route(
        method="GET",
        path="/v1/executions/{id}",
        name="view_execution",
        summary="See an execution",
        handler=handlers.view,
        part="request_api",
        scopes=("read", "execute"),
        parameters=(
            _WAIT,
            _INCLUDE,
        ),
        successes=(Success(status=200, type=executions.ExecutionView, about="the execution as it stands"),),
        problems=("not_found",),
    ),
    Route(
        method="GET",
        path="/v1/executions/{id}/events",
        name="list_events",
        summary="Read an execution's journal, or follow it as server-sent events",
        handler=handlers.events,
        part="request_api",
        scopes=("read", "execute"),
        parameters=(
            Parameter(name="after", type=Annotated[int, Meta(ge=0)], about="events after this `seq`"),
            _LIMIT,
            Parameter(name="Last-Event-ID", place="header", type=str, about="a stream goes on behind it"),
        ),
        successes=(
            Success(
                status=200,
                type=executions.EventsAnswer,
                about="one page, or with `Accept: text/event-stream` the journal as it grows",
                stream=True,
            ),
            Success(status=204, type=None, about="a stream was asked for after the last event of an ended execution"),
        ),
        problems=("not_found", "invalid_last_event_id"),
    ),
    Route(
        method="GET",
        path="/v1/executions/{id}/steps/{step}/items",
        name="list_items",
        summary="List the items or rounds of a step that runs more than once",
        handler=handlers.list_items,
        part="request_api",
        scopes=("read", "execute"),
        parameters=(_LIMIT, _CURSOR, _INCLUDE),
        successes=(Success(status=200, type=executions.StepList, about="one page, by index"),),
        problems=("not_found",),
    ),
    Route(
        method="GET",
        path="/v1/executions/{id}/spans",
        name="list_spans",
        summary="Read an execution's trace",
        handler=handlers.spans,
        part="request_api",
        scopes=("read", "execute"),
        parameters=(
            Parameter(name="limit", type=executions.SpanPageLimit, about="how many at most; 1,000 unless given"),
            _CURSOR,
        ),
        successes=(Success(status=200, type=executions.SpanList, about="one page, as a flat list"),),
        problems=("not_found",),
    ),
    Route(
        method="POST",
        path="/v1/executions/{id}/cancel",
        name="cancel_execution",
        summary="Ask an execution to end",
        handler=handlers.cancel,
        part="request_api",
        scopes=("execute",),
        action="execution.cancel",
        body=executions.CancelRequest,
        body_required=False,
        successes=(VIEW,),
        problems=("not_found", "already_ended"),
    ),
    Route(
        method="POST",
        path="/v1/executions/{id}/pause",
        name="pause_execution",
        summary="Hand out no more steps of an execution",
        handler=handlers.pause,
        part="request_api",
        scopes=("operate",),
        action="execution.pause",
        body=handlers.NoFields,
        body_required=False,
        successes=(VIEW,),
        problems=("not_found", "already_ended", "not_pausable"),
    ),
    Route(
        method="POST",
        path="/v1/executions/{id}/resume",
        name="resume_execution",
        summary="End a pause; with a greater budget where that was used up",
        handler=handlers.resume,
        part="request_api",
        scopes=("operate",),
        action="execution.resume",
        body=executions.ResumeRequest,
        body_required=False,
        successes=(VIEW,),
        problems=("not_found", "already_ended", "not_pausable"),
    ),
)

SERVICE_ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/workflows",
        name="list_workflows",
        summary="List workflows",
        handler=handlers.list_workflows,
        part="request_api",
        scopes=("read",),
        parameters=(_LIMIT, _CURSOR),
        successes=(Success(status=200, type=service.WorkflowList, about="one page"),),
    ),
    Route(
        method="GET",
        path="/v1/workflows/{name}",
        name="view_workflow",
        summary="See a workflow and its versions",
        handler=handlers.workflow,
        part="request_api",
        scopes=("read",),
        successes=(Success(status=200, type=service.WorkflowView, about="the workflow"),),
        problems=("not_found",),
    ),
    Route(
        method="POST",
        path="/v1/workflows/{name}/current",
        name="use_version",
        summary="Choose the version that new executions get",
        handler=handlers.make_current,
        part="request_api",
        scopes=("operate",),
        action="workflow.use",
        body=definitions.CurrentRequest,
        successes=(Success(status=200, type=service.WorkflowView, about="the workflow as it is now"),),
        problems=("not_found",),
    ),
    Route(
        method="POST",
        path="/v1/workflows/{name}/simulate",
        name="simulate_workflow",
        summary="See what a workflow would do, were its steps to come to this",
        handler=handlers.simulate,
        part="request_api",
        scopes=("read",),
        body=simulation.SimulateRequest,
        body_required=False,
        successes=(Success(status=200, type=simulation.SimulationAnswer, about="what became of it; nothing is kept"),),
        problems=("not_found", "invalid_input"),
    ),
    Route(
        method="GET",
        path="/v1/workers",
        name="list_workers",
        summary="List the workers heard of within the last hour",
        handler=handlers.list_workers,
        part="request_api",
        scopes=("read",),
        successes=(Success(status=200, type=service.WorkerList, about="the workers"),),
    ),
    Route(
        method="GET",
        path="/v1/service",
        name="view_service",
        summary="See which service this is and which of its parts are on",
        handler=handlers.service,
        part=None,
        scopes=(),
        successes=(Success(status=200, type=service.ServiceView, about="the service"),),
    ),
)

ROUTES: Final = (
    *WORKER_ROUTES,
    *TRACE_ROUTES,
    *EXECUTION_ROUTES,
    *SIGNAL_ROUTES,
    *SERVICE_ROUTES,
    *USAGE_ROUTES,
    *ADMIN_ROUTES,
    *STATUS_ROUTES,
)


def routes_of(settings: Settings) -> tuple[Route, ...]:
    """The routes of the parts that are on; what is off does not exist."""
    parts = settings.parts()
    return tuple(route for route in ROUTES if route.part is None or parts[route.part])
