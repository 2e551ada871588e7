"""Owns the bodies that call out, and the workflows that a catalogue serves with them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from stepd_worker.context import Context
from stepd_worker.errors import NotApplied, Retryable, StepFailed
from stepd_worker.http.calls import Answer, Request, build_request, call, output_of
from stepd_worker.http.catalogue import Capability, Catalogue, ServedWorkflow
from stepd_worker.workflow import Workflow

HttpBody = Callable[[Context, Any], Awaitable[Any]]

UNAVAILABLE: Final = "integration_unavailable"
MARGIN_SECONDS: Final = 1.0
"""How long before the lease a call ends, so that its outcome is told in time."""
MARGIN_SHARE: Final = 0.1
"""Of a short lease the margin is this part."""


def http_body(catalogue: Catalogue, key: str) -> HttpBody:
    """A body that is the call named `name@version`; where the catalogue has none, it says `integration_unavailable`."""

    async def body(ctx: Context, input: Any) -> Any:
        capability = catalogue.capabilities.get(key)
        if capability is None:
            message = f"The catalogue of this worker has no capability {key}"
            raise NotApplied(StepFailed(UNAVAILABLE, message))
        request = build_request(capability, input, ctx.idempotency_key)
        await ctx.begin_effect()
        return output_of(capability, await _called(ctx, capability, request))

    return body


def workflows_of(catalogue: Catalogue) -> list[Workflow]:
    """The workflows that the catalogue serves, each with its bodies. Raises ValueError for one that does not fit."""
    return [_workflow(catalogue, served) for served in catalogue.workflows]


async def _called(ctx: Context, capability: Capability, request: Request) -> Answer:
    """The answer. A write that is on its way is waited for although the body is told to stop: it ends before the lease
    does, and what became of it is worth more than the time."""
    left = ctx.seconds_left
    seconds = min(capability.timeout_seconds, left - min(MARGIN_SECONDS, MARGIN_SHARE * left))
    if seconds <= 0:
        raise NotApplied(Retryable(f"{capability.key}: no time is left for a call"))
    if capability.effect == "read_only":
        return await call(capability, request, seconds)
    calling = asyncio.ensure_future(call(capability, request, seconds))
    while not calling.done():
        try:
            await asyncio.wait({calling})
        except asyncio.CancelledError:
            ctx.log.info("asked to stop while %s is on its way: its answer is waited for", capability.key)
    return calling.result()


def _workflow(catalogue: Catalogue, served: ServedWorkflow) -> Workflow:
    definition = dict(served.definition)
    if isinstance(definition.get("steps"), list):
        definition["steps"] = [_with_schemas(catalogue, served, step) for step in definition["steps"]]
    flow = Workflow.from_definition(served.name, definition)
    if not served.steps:
        raise ValueError(f"The workflow {served.name!r} has no steps in the catalogue: name one, and its capability")
    effects = {step.id: step.effect for step in flow.steps}
    for step, key in served.steps.items():
        capability = catalogue.capabilities.get(key)
        if capability is not None and step in effects and effects[step] != capability.effect:
            raise ValueError(
                f"The step {step!r} of {served.name!r} is a {effects[step]}, and the capability {key} a "
                f"{capability.effect}: they must say the same"
            )
        flow.body(step, begins_effect=True)(http_body(catalogue, key))
    return flow


def _with_schemas(catalogue: Catalogue, served: ServedWorkflow, step: Any) -> Any:
    """A step with the schemas of its capability where it has none of its own: the daemon is who checks them."""
    key = served.steps.get(str(step.get("id"))) if isinstance(step, Mapping) else None
    capability = None if key is None else catalogue.capabilities.get(key)
    if capability is None:
        return step
    schemas = {"input_schema": capability.input_schema, "output_schema": capability.output_schema}
    return {name: schema for name, schema in schemas.items() if schema is not None} | dict(step)
