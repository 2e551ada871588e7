"""The Python SDK of stepd: a client for executions, and workers that run the bodies of workflows."""

from stepd_worker.client import Client
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

__all__ = [
    "ApiError",
    "CancelReason",
    "Cancelled",
    "Client",
    "ExecutionNotCompleted",
    "NotApplied",
    "Retryable",
    "StepFailed",
    "StepdError",
    "Unreachable",
    "WorkerRefused",
]
