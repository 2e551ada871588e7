"""The two doors of the state machine: ``begin`` makes an execution, ``decide`` gives it a command."""

from __future__ import annotations

from typing import assert_never

from stepd.engine import commands as c
from stepd.engine import control, kinship, landing, leasing, recovery, resolving, settling, signals, sweeping
from stepd.engine.beginning import begin, exclusive_key
from stepd.engine.landings import DropLoose, KeepLoose, LandSpans
from stepd.engine.pieces import cut
from stepd.engine.standing import refresh_status
from stepd.engine.work import Work

__all__ = ["begin", "decide", "exclusive_key"]


def decide(work: Work, command: c.Command) -> c.Answer:
    """Carries out one command on the rows in ``work``; what it changed is in ``work.changes``.

    Pure: no clock, no randomness, no I/O. Raises Missing where it needs rows that aren't loaded; it is then to be run
    again from the start with a fresh ``Work``.
    """
    answer = _dispatch(work, command)
    refresh_status(work)
    kinship.note_news(work)
    cut(work)
    return answer


def _dispatch(work: Work, command: c.Command) -> c.Answer:
    match command:
        case c.Complete():
            return settling.complete(work, command)
        case c.Lease():
            return leasing.lease(work, command)
        case c.Heartbeat():
            return leasing.heartbeat(work, command)
        case c.Fail():
            return settling.fail(work, command)
        case c.Renew():
            return leasing.renew(work, command)
        case c.GiveBack():
            return leasing.give_back(work, command)
        case c.AttemptDue():
            return sweeping.attempt_due(work, command)
        case c.StepDue():
            return sweeping.step_due(work, command)
        case c.ExecutionDue():
            return sweeping.execution_due(work, command)
        case c.Cancel():
            return control.cancel(work, command)
        case c.Pause():
            return control.pause(work, command)
        case c.Resume():
            return control.resume(work, command)
        case c.Signal():
            return signals.signal(work, command)
        case c.Resolve():
            return resolving.resolve(work, command)
        case c.Recover():
            return recovery.recover(work, command)
        case c.ChildBegun():
            return kinship.begun(work, command)
        case c.ChildRefused():
            return kinship.refused(work, command)
        case c.ChildNews():
            return kinship.hear(work, command)
        case c.ErrandDone():
            return kinship.errand_done(work, command)
        case c.NewsTaken():
            return kinship.news_taken(work, command)
        case LandSpans():
            return landing.land(work, command)
        case KeepLoose():
            return landing.keep_loose(work, command)
        case DropLoose():
            return landing.drop_loose(work, command)
        case _:
            assert_never(command)
