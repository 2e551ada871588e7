"""Owns the views of what a service has: its workflows, its workers and itself."""

from typing import TypeAlias

from stepd_protocol.executions import ListAnswer
from stepd_protocol.fields import Answer, Count, Time
from stepd_protocol.names import Name


class VersionView(Answer, frozen=True, kw_only=True):
    """One registered version of a workflow."""

    version: Name
    digest: str
    registered_at: Time
    open_executions: Count
    served: bool
    """Whether a live worker serves it."""


class WorkflowView(Answer, frozen=True, kw_only=True):
    """A workflow, its versions and the one that new executions get."""

    name: Name
    current: Name
    versions: list[VersionView]


class ServedWork(Answer, frozen=True, kw_only=True):
    """What a worker said that it serves; null for any."""

    workflow: Name
    version: Name | None
    steps: list[Name] | None


class WorkerView(Answer, frozen=True, kw_only=True):
    """One life of a worker, as the daemon last heard of it."""

    name: Name
    instance: Name
    last_seen_at: Time
    live: bool
    serves: list[ServedWork]
    leases: Count


class ServiceView(Answer, frozen=True, kw_only=True):
    """The service that a daemon belongs to; `parts` says which are on."""

    id: str
    name: str
    version: str
    protocol_version: int
    parts: dict[str, bool]


WorkflowList: TypeAlias = ListAnswer[WorkflowView]
WorkerList: TypeAlias = ListAnswer[WorkerView]
