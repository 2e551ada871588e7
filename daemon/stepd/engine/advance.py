"""How an execution goes on when steps are done: which become ready, and when it is finished."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from stepd.engine.activating import Effort, activate
from stepd.engine.definition import CompiledStep
from stepd.engine.ending import conclude
from stepd.engine.environment import Environment
from stepd.engine.finish import finish
from stepd.engine.model import DONE_MARKS, GOING, GRAPH_DONE
from stepd.engine.work import Work


def advance(work: Work, done: int | None = None) -> None:
    """Evaluates every pending step whose needs are met; finishes the execution when nothing is left.

    ``done`` is the step that has just ended, whose successors alone are looked at; None looks at all. Does nothing
    while the execution is scheduled or paused; goes on with the ending where that has begun. Where evaluating takes
    long, the rest is left to the sweeper, in transactions of their own: no definition holds the daemon.
    """
    if work.execution.direction is not None:
        conclude(work)
        return
    environment = Environment(work)
    steps = work.definition.steps
    candidates = list(range(len(steps)) if done is None else steps[done].successors)
    heapify(candidates)
    effort = Effort()
    while candidates and work.execution.status in GOING:
        if effort.spent():
            work.execution.due_at = work.now
            return
        ordinal = heappop(candidates)
        if work.mark(ordinal) != "p" or not _needs_met(work, steps[ordinal]):
            continue
        activate(work, steps[ordinal], environment, effort)
        if work.mark(ordinal) in DONE_MARKS:
            for successor in steps[ordinal].successors:
                heappush(candidates, successor)
    if work.execution.status in GOING and not work.execution.graph.strip(GRAPH_DONE):
        finish(work, environment)


def _needs_met(work: Work, compiled: CompiledStep) -> bool:
    return all(work.mark(need) in DONE_MARKS for need in compiled.needs)
