"""What the output of a body, and the state it leaves, must fit; whoever tells of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stepd.engine.canonical import decode
from stepd.engine.work import Work


def patched(state: bytes, patch: Mapping[str, msgspec.Raw]) -> bytes | None:
    """The state with the patch's top-level keys in place; None where nothing changes."""
    kept = msgspec.json.decode(state, type=dict[str, msgspec.Raw])
    if all(name in kept and bytes(kept[name]) == bytes(raw) for name, raw in patch.items()):
        return None
    return msgspec.json.encode({**kept, **patch})


def output_faults(work: Work, ordinal: int, output: bytes, state: bytes | None) -> list[tuple[str, str]]:
    """Why an output, or the state it leads to, can't be taken: JSON Pointer (``/output…``, ``/state``) and message."""
    settings = work.settings
    if len(output) > settings.output_bytes:
        return [("/output", f"it has {len(output)} bytes, {settings.output_bytes} are allowed")]
    if state is not None and len(state) > settings.state_bytes:
        return [("/state", f"the state would have {len(state)} bytes, {settings.state_bytes} are allowed")]
    schema = work.definition.steps[ordinal].output_schema
    if schema is None:
        return []
    return [(f"/output{place}", fault) for place, fault in schema.faults(decode(output))]
