"""Children, as far as it is the same for every store: what a parent is told of the start of a child."""

from __future__ import annotations

from typing import assert_never

from stepd.engine.commands import ChildBegun, ChildRefused, Conflict, InvalidInput
from stepd.engine.model import Step
from stepd.store.base import Started, UnknownWorkflow

FAULTS_TOLD = 5
"""So many faults of an input are named in the message."""


def told_of_start(
    row: Step, workflow: str, version: str | None, answer: Started | UnknownWorkflow | Conflict | InvalidInput
) -> ChildBegun | ChildRefused:
    """What the parent is told, whose step's row armed the child, once its start was answered so."""
    key = (row.ordinal, row.index, row.child_id or "")
    if isinstance(answer, Started):
        return ChildBegun(*key, workflow, answer.rows.execution.version)
    return ChildRefused(*key, f"the child could not be started: {_why(workflow, version, answer)}")


def _why(workflow: str, version: str | None, answer: UnknownWorkflow | Conflict | InvalidInput) -> str:
    match answer:
        case UnknownWorkflow():
            what = f"workflow {workflow}" if version is None else f"version {version} of workflow {workflow}"
            return f"{what} is not registered"
        case Conflict():
            return f"execution {answer.execution_id} of this workflow, tenant and correlation is open and exclusive"
        case InvalidInput(faults):
            return "; ".join(f"{path}: {fault}" for path, fault in faults[:FAULTS_TOLD])
        case _:
            assert_never(answer)
