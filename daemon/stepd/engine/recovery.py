"""How a daemon that starts alone judges an execution it finds open, by its ``on_restart``."""

from __future__ import annotations

from stepd.engine.commands import Done, Recover, error_json
from stepd.engine.ending import begin_ending, conclude
from stepd.engine.leasing import requeue
from stepd.engine.model import ENDING, GOING, Step
from stepd.engine.standing import end_attempt
from stepd.engine.sweeping import take_back
from stepd.engine.work import Work


def recover(work: Work, command: Recover) -> Done:
    """Judges one open execution. Running it again changes nothing more."""
    execution = work.execution
    if execution.status in ENDING:
        conclude(work)
    elif execution.status in GOING and execution.on_restart == "fail":
        _fail(work)
    elif execution.status in GOING:
        for row in work.unsettled():
            _judge(work, row, command.jitter)
    return Done(execution.status)


def _fail(work: Work) -> None:
    message = "the daemon started again, and the execution's on_restart is fail"
    work.emit("execution.recovered", data={"on_restart": "fail"})
    work.execution.forced = True
    begin_ending(work, "failing", error_json("server_restarted", message, step=None, cause=None))


def _judge(work: Work, row: Step, jitter: int) -> None:
    if row.lease_id is None or work.execution.status not in GOING:
        return
    attempt = work.change_attempt(row.lease_id)
    if attempt.status == "leased":
        work.emit(
            "execution.recovered", row.step, row.index, attempt.number, data={"on_restart": work.execution.on_restart}
        )
        end_attempt(work, attempt, row, "restarted", "daemon")
        requeue(work, row, attempt, "restarted")
    elif work.execution.on_restart == "retry":
        work.emit("execution.recovered", row.step, row.index, attempt.number, data={"on_restart": "retry"})
        take_back(work, attempt, jitter)
