"""What of the executions exists for a caller, as a condition of a query and as a look at a row."""

from __future__ import annotations

from stepd.engine.model import Execution
from stepd.store.base import Scope


def in_scope(scope: Scope, prefix: str = "") -> tuple[list[str], list[object]]:
    """Conditions on a row of ``executions`` (its columns under ``prefix``) and their parameters."""
    conditions: list[str] = []
    parameters: list[object] = []
    if scope.tenants is not None:
        places = ", ".join("?" * len(scope.tenants))
        conditions.append(f"{prefix}tenant in ({places})" if scope.tenants else "1 = 0")
        parameters += scope.tenants
    if scope.started_by is not None:
        conditions.append(f"{prefix}principal = ?")
        parameters.append(scope.started_by)
    return conditions, parameters


def sees(scope: Scope, execution: Execution) -> bool:
    """Whether the execution is in scope."""
    return (scope.tenants is None or execution.tenant in scope.tenants) and (
        scope.started_by is None or execution.principal == scope.started_by
    )
