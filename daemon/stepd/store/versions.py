"""Registered versions as they are compiled: each once, and kept within a bound."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec.structs import replace

from stepd.engine.definition import Compiled, compile_definition
from stepd.store.base import VersionRow
from stepd_protocol.limits import Limits

STORED: Final = replace(Limits(), definition_bytes=1 << 62, definition_steps=1 << 62)
"""What was accepted once is not measured again: a limit lowered later must not strand what runs."""

KEPT_STEPS: Final = 5_000
"""Steps of all versions that are kept compiled, at about 5 KB each; others are compiled again when they are used."""


class Definitions:
    """The compiled versions that were used last, by workflow and version; a version never changes."""

    def __init__(self, steps_max: int = KEPT_STEPS) -> None:
        self._compiled: OrderedDict[tuple[str, str], Compiled] = OrderedDict()
        self._steps_max = steps_max
        self._steps = 0

    def keep(self, compiled: Compiled) -> None:
        """Keeps one that was compiled elsewhere, once its registration is committed."""
        key = (compiled.name, compiled.version)
        if (known := self._compiled.pop(key, None)) is not None:
            self._steps -= len(known.steps)
        self._compiled[key] = compiled
        self._steps += len(compiled.steps)
        while self._steps > self._steps_max and len(self._compiled) > 1:
            _, forgotten = self._compiled.popitem(last=False)
            self._steps -= len(forgotten.steps)

    def cached(self, workflow: str, version: str) -> Compiled | None:
        """The compiled version where it is still kept."""
        compiled = self._compiled.get((workflow, version))
        if compiled is not None:
            self._compiled.move_to_end((workflow, version))
        return compiled

    def keep_row(self, row: VersionRow) -> Compiled:
        """Compiles a version as it stands in the store, and keeps it."""
        compiled = compile_definition(row.workflow, row.definition, STORED)
        if isinstance(compiled, list):
            faults = "; ".join(f"{fault.path}: {fault.message}" for fault in compiled)
            raise RuntimeError(f"Version {row.version} of workflow {row.workflow} can't be compiled any more: {faults}")
        self.keep(compiled)
        return compiled
