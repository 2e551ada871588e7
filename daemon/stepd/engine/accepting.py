"""What the output of a body, and the state it leaves, must fit; whoever tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stepd.engine.canonical import decode
from stepd.engine.schemas import Validator
from stepd.engine.work import Work


def patched(state: bytes, patch: Mapping[str, msgspec.Raw]) -> bytes | None:
    """The state with the patch's top-level keys in place; None where nothing changes."""
    kept = msgspec.json.decode(state, type=dict[str, msgspec.Raw])
    if all(name in kept and bytes(kept[name]) == bytes(raw) for name, raw in patch.items()):
        return None
    return msgspec.json.encode({**kept, **patch})


def output_faults(
    work: Work, ordinal: int, output: bytes, state: bytes | None, *, is_list: bool = False
) -> list[tuple[str, str]]:
    """Why an output, or the state it leads to, can't be taken: JSON Pointer (``/output…``, ``/state``) and message.

    ``is_list``: it stands for the outputs of all items of a step.
    """
    settings = work.settings
    limit = settings.foreach_outputs_bytes if is_list else settings.output_bytes
    if len(output) > limit:
        return [("/output", f"it has {len(output)} bytes, {limit} are allowed")]
    if state is not None and len(state) > settings.state_bytes:
        return [("/state", f"the state would have {len(state)} bytes, {settings.state_bytes} are allowed")]
    schema = work.definition.steps[ordinal].output_schema
    if is_list:
        return _list_faults(schema, decode(output))
    if schema is None:
        return []
    return [(f"/output{place}", fault) for place, fault in schema.faults(decode(output))]


def _list_faults(schema: Validator | None, values: Any) -> list[tuple[str, str]]:
    if not isinstance(values, list):
        return [("/output", "it is the list of the items' outputs")]
    if schema is None:
        return []
    found = [(place, schema.faults(value)) for place, value in enumerate(values)]
    return [(f"/output/{place}{pointer}", fault) for place, faults in found for pointer, fault in faults]
