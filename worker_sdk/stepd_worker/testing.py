"""Owns the running of a workflow's bodies without a daemon, for the tests of who writes them.

Bodies run as a worker runs them: async ones on a loop, plain ones on a thread, with a whole context. What the daemon
does is not imitated: no lease lapses, nothing waits between attempts, and expressions that compute must be answered by
the test. `run` and `run_step` block, and may be called from anywhere, also from async tests.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw

from stepd_protocol.definitions import Retry, Step
from stepd_protocol.leases import AncestorStep, Lease, LeaseExecution, Previous, Span, Usage
from stepd_worker.attempts import arguments_of
from stepd_worker.bodies import Threads, start_body
from stepd_worker.both_worlds import LoopThread
from stepd_worker.errors import CancelReason
from stepd_worker.held import Held
from stepd_worker.outcomes import Completed, Failed, Outcome, Stopped
from stepd_worker.selection import NeedsDaemon, resolve, select
from stepd_worker.values import encode
from stepd_worker.workflow import Workflow

__all__ = ["NeedsDaemon", "StepRun", "WorkflowRun", "run", "run_step"]

_LOOP: Final = LoopThread()
_SECONDS: Final = 3600.0


@dataclass
class StepRun:
    """How one step went: `status` is `succeeded`, `failed`, `stopped` (it was told to, and did) or `skipped`.

    `class_`, `message`, `details`, `retry_after` and `effect` are those of its failure; `state` is its patch.
    """

    status: Literal["succeeded", "failed", "stopped", "skipped"]
    output: Any = None
    class_: str | None = None
    message: str | None = None
    details: Any = None
    retry_after: float | str | None = None
    effect: str | None = None
    state: dict[str, Any] = field(default_factory=dict)
    progress: Any = None
    usage: list[Usage] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    attempts: int = 1


@dataclass
class WorkflowRun:
    """How a workflow went: `completed`, or `failed` with the step that ended it; each step that was reached."""

    status: Literal["completed", "failed"]
    steps: dict[str, StepRun]
    state: dict[str, Any]
    failed_step: str | None = None


def run_step(
    workflow: Workflow,
    step: str,
    input: Any = None,
    *,
    steps: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    attempt: int = 1,
    index: int | None = None,
    progress: Any = None,
    cancel: CancelReason | None = None,
    cancel_after_seconds: float = 0.05,
) -> StepRun:
    """Runs one attempt of one step's body.

    `steps` are the outputs of the steps before it, `progress` what the attempt before left. With `cancel` the body is
    told to stop so many seconds after it began. Raises KeyError for a step without a body.
    """
    lease = _lease(workflow, step, input, steps or {}, state or {}, attempt, index, progress)
    held, outcome = _LOOP.run(_attempt(workflow, lease, cancel, cancel_after_seconds))
    return _step_run(held, outcome)


def run(
    workflow: Workflow,
    input: Any = None,
    *,
    state: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    conditions: Mapping[str, bool] | None = None,
) -> WorkflowRun:
    """Runs the steps one after the other, each as often as its retry allows, until one fails or all are done.

    `outputs` stand for steps that have no body here, or whose body is not to run; `inputs` and `conditions` for the
    inputs and `when`s that compute. Raises NeedsDaemon where one of them is missing.
    """
    given = _Given(dict(outputs or {}), dict(inputs or {}), dict(conditions or {}))
    done: dict[str, StepRun] = {}
    input, now = msgspec.json.decode(encode(input)), dict(state or {})
    undoing = {step.compensate for step in workflow.steps}
    for step in workflow.steps:
        if step.id in undoing:
            continue
        result = done[step.id] = _run_one(workflow, step, input, now, done, given)
        now.update(result.state)
        if result.status not in ("succeeded", "skipped"):
            return WorkflowRun("failed", done, now, step.id)
    return WorkflowRun("completed", done, now)


@dataclass
class _Given:
    outputs: dict[str, Any]
    inputs: dict[str, Any]
    conditions: dict[str, bool]


def _run_one(
    workflow: Workflow, step: Step, input: Any, state: dict[str, Any], done: dict[str, StepRun], given: _Given
) -> StepRun:
    variables = {
        "input": input,
        "state": state,
        "steps": {name: {"status": result.status, "output": result.output} for name, result in done.items()},
    }
    if not _condition(step, variables, given):
        return StepRun("skipped")
    if step.id in given.outputs:
        return StepRun("succeeded", given.outputs[step.id])
    if step.id not in workflow.bodies or step.foreach not in (UNSET, None) or step.repeat not in (UNSET, None):
        raise NeedsDaemon(f"The step {step.id!r} is not run here: give outputs={{{step.id!r}: …}}")
    step_input = _input(step, variables, given)
    outputs = {name: result.output for name, result in done.items()}
    retry = step.retry if isinstance(step.retry, Retry) else Retry()
    for attempt in count(1):
        result = run_step(workflow, step.id, step_input, steps=outputs, state=state, attempt=attempt)
        result.attempts = attempt
        if result.class_ != "retryable" or attempt >= retry.max_attempts:
            return _caught(step, result, variables)
    raise AssertionError("counting has no end")


def _condition(step: Step, variables: Mapping[str, Any], given: _Given) -> bool:
    if step.id in given.conditions:
        return given.conditions[step.id]
    if not isinstance(step.when, str):
        return True
    way_out = f"give conditions={{{step.id!r}: True}} or False"
    return bool(select(step.when, variables, f"The condition of step {step.id!r}", way_out))


def _input(step: Step, variables: Mapping[str, Any], given: _Given) -> Any:
    if step.id in given.inputs:
        return given.inputs[step.id]
    if step.input is UNSET:
        return variables["input"]
    return resolve(step.input, variables, f"The input of step {step.id!r}", f"give inputs={{{step.id!r}: …}}")


def _caught(step: Step, result: StepRun, variables: Mapping[str, Any]) -> StepRun:
    """A failure that the definition catches is a success with the value named there."""
    if result.status == "failed" and not isinstance(step.catch, msgspec.UnsetType):
        for catch in step.catch:
            if catch.class_ in (result.class_, "*"):
                way_out = f"give outputs={{{step.id!r}: …}}"
                value = resolve(catch.value, variables, f"A catch of step {step.id!r}", way_out)
                result.status, result.output = "succeeded", value
                break
    return result


async def _attempt(
    workflow: Workflow, lease: Lease, cancel: CancelReason | None, cancel_after_seconds: float
) -> tuple[Held, Outcome]:
    body = workflow.bodies[lease.step]
    held = Held(lease, time.monotonic())
    held.announce = lambda: held.renewed(time.monotonic(), _SECONDS, started=True)
    held.started = not body.begins_effect or not lease.start_required
    threads = Threads(1)
    try:
        done = start_body(body, held, arguments_of(body, lease), threads)
        if cancel is not None:
            asyncio.get_running_loop().call_later(cancel_after_seconds, held.cancel, cancel)
        return held, await done
    finally:
        held.spans.tell_dropped(lease.step)
        held.spans.close()
        threads.close()


def _step_run(held: Held, outcome: Outcome) -> StepRun:
    result = StepRun("stopped", usage=list(held.usage.values()), spans=held.spans.all())
    if held.progress is not None:
        result.progress = msgspec.json.decode(held.progress)
    match outcome:
        case Completed(output, patch):
            result.status, result.output = "succeeded", msgspec.json.decode(output)
            result.state = msgspec.json.decode(patch) if patch is not None else {}
        case Failed(class_, message, effect, details, retry_after):
            result.status, result.class_, result.message, result.effect = "failed", class_, message, effect
            result.details = msgspec.json.decode(details) if details is not None else None
            result.retry_after = retry_after
        case Stopped(effect):
            result.effect = effect
    return result


def _lease(
    workflow: Workflow,
    step_id: str,
    input: Any,
    steps: Mapping[str, Any],
    state: Mapping[str, Any],
    attempt: int,
    index: int | None,
    progress: Any,
) -> Lease:
    if step_id not in workflow.bodies:
        known = ", ".join(workflow.bodies) or "none"
        raise KeyError(f"The workflow {workflow.name!r} has no body for {step_id!r}; it has: {known}")
    body = workflow.bodies[step_id]
    step = next(step for step in workflow.steps if step.id == step_id)
    once = step.delivery == "at_most_once" or (step.delivery is UNSET and body.effect == "non_idempotent_write")
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return Lease(
        id="test-lease",
        fence=attempt,
        attempt=attempt,
        max_attempts=step.retry.max_attempts if isinstance(step.retry, Retry) else Retry().max_attempts,
        execution=LeaseExecution(
            id="test-execution",
            workflow=workflow.name,
            version=workflow.version or "test",
            correlation=None,
            tenant=None,
            labels={},
            created_at=now,
        ),
        step=step_id,
        index=index,
        input=Raw(encode(input)),
        steps={name: AncestorStep(status="succeeded", output=Raw(encode(output))) for name, output in steps.items()},
        state=Raw(encode(dict(state))),
        previous=Previous(attempt=attempt - 1, progress=Raw(encode(progress)), error=None),
        idempotency_key=f"test-execution:{step_id}" + ("" if index is None else f"[{index}]"),
        effect=body.effect,
        delivery="at_most_once" if once else "at_least_once",
        start_required=once,
        expires_at=now,
        lease_seconds=_SECONDS,
        heartbeat_seconds=_SECONDS / 3,
        reclaim_seconds=_SECONDS,
        timeout_seconds=None,
        traceparent=None,
    )
