"""The Python SDK of stepd: a client for executions, and workers that run the bodies of workflows."""

from stepd_protocol.definitions import Retry
from stepd_worker.client import Client
from stepd_worker.context import Context
from stepd_worker.errors import (
    ApiError,
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
from stepd_worker.worker import Worker
from stepd_worker.workflow import Workflow, cel

__all__ = [
    "ApiError",
    "CancelReason",
    "Cancelled",
    "Client",
    "Context",
    "ExecutionNotCompleted",
    "NotApplied",
    "Retry",
    "Retryable",
    "StepFailed",
    "StepdError",
    "Unreachable",
    "Worker",
    "WorkerRefused",
    "Workflow",
    "cel",
]
