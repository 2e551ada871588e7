"""What can go wrong while a step is evaluated, and as which class of failure it counts."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from stepd.engine.environment import CheckpointMismatch
from stepd.engine.expressions import ExpressionFailed
from stepd.engine.work import Work


class StepFailed(Exception):
    """A step that has no lease has failed: its class, and why."""

    def __init__(self, class_: str, message: str) -> None:
        super().__init__(message)
        self.class_ = class_


Fault: TypeAlias = ExpressionFailed | CheckpointMismatch | StepFailed
FAULTS: Final = (ExpressionFailed, CheckpointMismatch, StepFailed)
"""What evaluating may raise for the step to fail with; ``str()`` of it is the message."""


def class_of(work: Work, fault: Fault) -> str:
    """The class of the failure. Of a checkpoint that is not the step's the execution takes note."""
    match fault:
        case ExpressionFailed():
            return "expression_failed"
        case CheckpointMismatch():
            work.execution.mismatch = True
            return "checkpoint_mismatch"
        case StepFailed():
            return fault.class_
        case _:
            assert_never(fault)
