"""How an operator ends an execution that needs reconciliation: by his word on what its writes have left behind."""

from __future__ import annotations

from stepd.engine.canonical import decode
from stepd.engine.commands import Conflict, Resolve, error_json
from stepd.engine.ending import end
from stepd.engine.model import Step
from stepd.engine.resolutions import Close
from stepd.engine.standing import (
    is_compensation,
    is_item,
    note_standing,
    set_status,
    settle_row,
    standing_writes,
)
from stepd.engine.verdicts import is_write
from stepd.engine.work import Work

NAMED_MAX = 5
"""How many steps a refusal names."""
MESSAGES = {
    "absent_verified": "an operator has made sure that the write did not happen",
    "compensated_verified": "an operator has made sure that the write was undone",
    "accepted": "an operator accepts that the write may have happened",
}


def close(work: Work, command: Resolve, resolution: Close) -> Conflict | None:
    """Ends the execution without outcome, updates or a new revision; says why it is refused, else None."""
    execution, verification = work.execution, resolution.verification
    if verification == "absent_verified" and (standing := standing_writes(work)):
        some = ", ".join(standing[:NAMED_MAX])
        why = f"writes stand ({some}), so they are compensated_verified or accepted, not absent_verified"
        return Conflict("not_resolvable", execution.status, execution.id, why)
    work.emit(
        "execution.resolved",
        data={
            "action": "close",
            "verification": verification,
            "operator": command.actor.principal,
            "evidence": {"reference": command.reference, "reason": command.reason},
        },
    )
    for row in work.rows():
        if row.status == "uncertain":
            _fail(work, work.change_step(row.ordinal, row.index), verification)
    if verification == "compensated_verified":
        for step in work.definition.steps:
            note_standing(work, step.ordinal, stand=False)
    error = None if execution.error is None else decode(execution.error)
    data: dict[str, object] = {"error": error, "reason": execution.cancel_reason}
    data["standing_writes"] = standing_writes(work)
    end(work, "cancelled" if execution.cancel_requested else "failed", data)
    return None


def _fail(work: Work, row: Step, verification: str) -> None:
    """An uncertain step has failed, with the operator's word as its class."""
    row.fence += 1
    row.error = error_json(verification, MESSAGES[verification])
    set_status(work, row, "failed")
    settle_row(row)
    work.emit("step.failed", row.step, row.index, data={"error": decode(row.error)})
    accepted = verification == "accepted" and is_write(work.definition.steps[row.ordinal])
    if accepted and is_item(work, row):
        row.standing_seq = work.execution.seq
    if accepted and not is_compensation(work, row.ordinal):
        note_standing(work, row.ordinal, stand=True)
