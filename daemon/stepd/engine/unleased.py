"""How a row fails before any lease: what is raised while it is evaluated becomes its failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stepd.engine.catching import mismatch_message
from stepd.engine.commands import error_json
from stepd.engine.environment import CheckpointMismatch
from stepd.engine.expressions import ExpressionFailed
from stepd.engine.inputs import StepFailed
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
    except ExpressionFailed as failed:
        error = error_json("expression_failed", str(failed))
    except CheckpointMismatch as mismatch:
        work.execution.mismatch = True
        error = error_json("checkpoint_mismatch", mismatch_message(mismatch))
    except StepFailed as failed:
        error = error_json(failed.class_, str(failed))
    work.add_step(row)
    fail_step(work, row, error)
