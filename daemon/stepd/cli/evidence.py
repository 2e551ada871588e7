"""Owns what an operator is shown of an execution in doubt: each uncertain step, with all that helps to find out."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from stepd.cli.printing import as_text, line
from stepd.cli.rows import PAYLOAD_LENGTH, detail_rows, headline
from stepd.wording.journal import failure_text, step_name
from stepd.wording.shown import cut, json_for_people, shown, time_text

_Json = Mapping[str, Any]
_WORTH_SAYING = frozenset({"error", "direction", "writes that stand", "input", "correlation", "tenant"})


def evidence_lines(view: _Json) -> Iterator[Text]:
    """All of it, a line at a time."""
    yield headline(view)
    for name, cell in detail_rows(view):
        if name in _WORTH_SAYING:
            yield line(f"  {name}: ", cell)
    for step in uncertain_steps(view):
        yield Text()
        yield from _step_lines(view["id"], step)
    for step in view["steps"]:
        if step["status"] == "failed":
            yield Text()
            yield line(as_text(step_name(step["id"], step["index"]), "bold"), f" failed: {failure_text(step['error'])}")


def uncertain_steps(view: _Json) -> list[_Json]:
    """The steps of which nobody knows whether their write happened."""
    return [step for step in view["steps"] if step["status"] == "uncertain"]


def has_late_outcome(step: _Json) -> bool:
    """Whether a worker told an outcome of the step that came too late."""
    return any(attempt["stale_outcome"] for attempt in step["attempts"])


def idempotency_key(execution_id: str, step: _Json) -> str:
    """What the step's body handed to the outside service, in each of its attempts."""
    index = "" if step["index"] is None else f"[{step['index']}]"
    return f"{execution_id}:{step['id']}{index}"


def _step_lines(execution_id: str, step: _Json) -> Iterator[Text]:
    name = as_text(step_name(step["id"], step["index"]), "bold")
    yield line(name, as_text(" is uncertain", "magenta"), f": {failure_text(step['error'])}")
    yield line(f"  effect: {step['effect']}")
    yield line(f"  idempotency key: {shown(idempotency_key(execution_id, step))}")
    yield line(f"  input: {_payload(step['input'])}")
    for attempt in step["attempts"]:
        yield from _attempt_lines(attempt)


def _attempt_lines(attempt: _Json) -> Iterator[Text]:
    worker = shown(attempt["worker"])
    if attempt["instance"] != attempt["worker"]:
        worker += f" ({shown(attempt['instance'])})"
    yield line(f"  attempt {attempt['attempt']} {attempt['status']} on {worker}")
    times = [("leased", attempt["leased_at"]), ("began", attempt["started_at"]), ("ended", attempt["ended_at"])]
    yield line("    ", ", ".join(f"{what} {time_text(at)}" for what, at in times if at is not None))
    if attempt["error"]:
        yield line(f"    {failure_text(attempt['error'])}; effect {attempt['effect']}")
    if attempt["progress"] is not None:
        yield line(f"    last progress: {_payload(attempt['progress'])}")
    if late := attempt["stale_outcome"]:
        yield as_text(f"    told too late, {time_text(late['at'])}: {_late_text(late)}", "magenta")


def _late_text(late: _Json) -> str:
    if late["outcome"] == "complete":
        return f"complete, output {_payload(late.get('output'))}"
    return f"fail, {failure_text(late)}; effect {late['effect'] or 'unknown'}"


def _payload(value: Any) -> str:
    return cut(json_for_people(value), PAYLOAD_LENGTH)
