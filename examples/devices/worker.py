"""A device is provisioned: it calls in, is configured, tests itself, and is activated, or wiped again.

Run `python -m stepd_worker serve examples.devices.worker:provisioning`, then
`stepd start provisioning --input '{"model": "m-2"}' --correlation device-7`. What comes from the device is published
with its serial number as the correlation, so that whoever receives its messages needs to know nothing of executions:
`stepd publish device-online --correlation device-7 --payload '{"address": "10.0.0.7"}'`, then
`stepd publish self-test --correlation device-7 --payload '{"passed": true}'`.
"""

from typing import Any

import msgspec

from stepd_worker import Context, Retry, Rule, StepFailed, Workflow, cel

SETTLE_SECONDS = 0.2


class Device(msgspec.Struct):
    """What an execution is asked for."""

    model: str


class Online(msgspec.Struct):
    """What a device says when it first calls in."""

    address: str


class SelfTest(msgspec.Struct):
    """What it says of itself."""

    passed: bool
    message: str = ""


# One open execution a device: a second start for the same serial number is refused, and says which one is open.
provisioning = Workflow(
    "provisioning",
    input_schema=Device,
    exclusive=True,
    on_failure="compensate",
    updates={"/address": cel("steps.online.output.address")},
    output=cel("steps.activate.output"),
)


@provisioning.step(effect="idempotent_write", compensate="unregister")
def register(ctx: Context, device: Device) -> dict[str, Any]:
    """Makes the device known, under its serial number."""
    return {"serial": ctx.execution.correlation, "model": device.model}


provisioning.wait("online", event="device-online", payload_schema=Online, timeout_seconds=7 * 86_400)


@provisioning.step(
    effect="idempotent_write",
    input={"address": cel("steps.online.output.address"), "model": cel("input.model")},
    retry=Retry(max_attempts=20, initial_seconds=1, max_seconds=60),
    compensate="wipe",
)
def configure(ctx: Context, target: dict[str, Any]) -> dict[str, Any]:
    """Sends the configuration; sent twice, the device has it once."""
    return {"address": target["address"], "firmware": f"{target['model']}-1.4"}


provisioning.sleep("settle", seconds=SETTLE_SECONDS)
provisioning.wait("tested", event="self-test", payload_schema=SelfTest, timeout_seconds=600)
provisioning.decision(
    "verdict", rules=[Rule(id="passed", when="steps.tested.output.passed", then="activate")], default="refuse"
)


@provisioning.step(effect="read_only", when="steps.verdict.output == 'refuse'")
def refuse(ctx: Context, device: Device, steps: Any) -> None:
    """Ends it badly, which undoes what was done."""
    raise StepFailed("self_test_failed", steps.tested.output.get("message") or "The device did not pass its test")


@provisioning.step(effect="idempotent_write", needs=["verdict", "refuse"])
def activate(ctx: Context, device: Device) -> dict[str, Any]:
    """Lets it into the network."""
    return {"active": ctx.execution.correlation}


@provisioning.step(effect="idempotent_write")
def unregister(ctx: Context, undone: dict[str, Any]) -> dict[str, Any]:
    """Undoes `register`."""
    return {"forgotten": undone["output"]["serial"]}


@provisioning.step(effect="idempotent_write")
def wipe(ctx: Context, undone: dict[str, Any]) -> dict[str, Any]:
    """Undoes `configure`."""
    return {"wiped": undone["output"]["address"]}
