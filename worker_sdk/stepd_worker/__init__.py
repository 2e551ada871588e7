"""The Python SDK of stepd: a client for executions, and workers that run the bodies of workflows."""

from stepd_protocol.definitions import Catch, Decision, Repeat, Retry, Rule, Update
from stepd_worker.client import Client
from stepd_worker.context import Context
from stepd_worker.errors import (
    ApiError,
    Applied,
    Cancelled,
    CancelReason,
    ExecutionNotCompleted,
    NotApplied,
    Retryable,
    StepdError,
    StepFailed,
    Unreachable,
    WorkerRefused,
)
from stepd_worker.tracing import watch_provider
from stepd_worker.worker import Worker
from stepd_worker.workflow import Workflow, cel

__all__ = [
    "ApiError",
    "Applied",
    "CancelReason",
    "Cancelled",
    "Catch",
    "Client",
    "Context",
    "Decision",
    "ExecutionNotCompleted",
    "NotApplied",
    "Repeat",
    "Retry",
    "Retryable",
    "Rule",
    "StepFailed",
    "StepdError",
    "Unreachable",
    "Update",
    "Worker",
    "WorkerRefused",
    "Workflow",
    "cel",
    "watch_provider",
]
