"""How an execution goes on when steps are done: which become ready, and when it is finished."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from stepd.engine import foreach, rounds
from stepd.engine.activating import activate
from stepd.engine.budgets import keeps_from_beginning
from stepd.engine.definition import CompiledStep
from stepd.engine.effort import Effort
from stepd.engine.ending import conclude
from stepd.engine.environment import Environment
from stepd.engine.finish import finish
from stepd.engine.model import DONE_MARKS, GOING, GRAPH_DONE, OPEN_MARKS
from stepd.engine.work import Work

ITEMS_MARKS = OPEN_MARKS - {"p"}
"""Marks of a step whose items are under way."""


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
    candidates = _candidates(work, done)
    heapify(candidates)
    effort = Effort(work.settings.items_at_once)
    while candidates and work.execution.status in GOING:
        if effort.spent():
            work.execution.due_at = work.now
            return
        ordinal = heappop(candidates)
        if work.mark(ordinal) == "p" and _may_begin(work, steps[ordinal]):
            activate(work, steps[ordinal], environment, effort)
        elif work.mark(ordinal) in DONE_MARKS:
            continue
        if _go_on(work, steps[ordinal], environment, effort, is_item_done=ordinal == done):
            heappush(candidates, ordinal)
        if work.mark(ordinal) in DONE_MARKS:
            for successor in steps[ordinal].successors:
                heappush(candidates, successor)
    if work.execution.status in GOING and not work.execution.graph.strip(GRAPH_DONE):
        finish(work, environment)


def _candidates(work: Work, done: int | None) -> list[int]:
    """What may go on: all steps; the one of which an item is done; or those that need the one that is."""
    steps = work.definition.steps
    if done is None:
        return list(range(len(steps)))
    return [done] if work.mark(done) in ITEMS_MARKS and steps[done].has_items else list(steps[done].successors)


def _go_on(work: Work, compiled: CompiledStep, environment: Environment, effort: Effort, *, is_item_done: bool) -> bool:
    """Goes on with the items or rounds of a step; answers whether more of it is left for now."""
    if not compiled.has_items or work.mark(compiled.ordinal) not in ITEMS_MARKS:
        return False
    if compiled.foreach is not None:
        return foreach.go_on(work, compiled, environment, effort, make=not is_item_done)
    return rounds.go_on(work, compiled, environment, effort)


def _may_begin(work: Work, compiled: CompiledStep) -> bool:
    if keeps_from_beginning(work.execution, compiled):
        return False
    return all(work.mark(need) in DONE_MARKS for need in compiled.needs)
