"""How a row fails before any lease: what is raised while it is evaluated becomes its failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stepd.engine.commands import error_json
from stepd.engine.faults import FAULTS, class_of
from stepd.engine.model import Step
from stepd.engine.results import fail_step
from stepd.engine.work import Work


@contextmanager
def failing_before_lease(work: Work, row: Step) -> Iterator[None]:
    """What is raised within (ExpressionFailed, CheckpointMismatch, StepFailed) fails the row; ``catch`` may take that.

    The row is added where it isn't yet.
    """
    try:
        yield
        return
    except FAULTS as fault:
        error = error_json(class_of(work, fault), str(fault))
    work.add_step(row)
    fail_step(work, row, error)
