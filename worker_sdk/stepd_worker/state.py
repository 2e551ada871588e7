"""Owns what a body reads of its execution: the state, whose changes become a patch, and its ancestors' outputs."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import msgspec

from stepd_protocol.leases import AncestorStep
from stepd_protocol.names import StepStatus
from stepd_worker.values import encode


class StatePatch(MutableMapping[str, Any]):
    """The execution's state as the lease brought it. What is set, or changed in place, is sent with the outcome.

    A key can be set to None, but not removed.
    """

    def __init__(self, state: bytes) -> None:
        self._source = state
        self._values: dict[str, Any] | None = None
        self._set: set[str] = set()
        # Lists and objects that were handed out, as they were then: the body may change them in place.
        self._handed_out: dict[str, bytes] = {}

    def patch(self) -> bytes | None:
        """The changed top-level keys as JSON; None where nothing changed. Raises Unencodable."""
        changed = {key for key, before in self._handed_out.items() if encode(self._loaded()[key]) != before}
        if not self._set and not changed:
            return None
        return encode({key: value for key, value in self._loaded().items() if key in self._set or key in changed})

    def __getitem__(self, key: str) -> Any:
        value = self._loaded()[key]
        if isinstance(value, dict | list) and key not in self._set and key not in self._handed_out:
            self._handed_out[key] = encode(value)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"A key of the state is text, not {key!r}")
        self._loaded()[key] = value
        self._set.add(key)
        self._handed_out.pop(key, None)

    def __delitem__(self, key: str) -> None:
        raise TypeError(f"Nothing removes the state's key {key!r}: set it to None")

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def _loaded(self) -> dict[str, Any]:
        if self._values is None:
            self._values = msgspec.json.decode(self._source) or {}
        return self._values


class AncestorOutput:
    """One step that came before: `.status`, and `.output`, which is None unless it succeeded."""

    def __init__(self, step: str, ancestor: AncestorStep) -> None:
        self.status: StepStatus = ancestor.status
        self._step = step
        self._ancestor = ancestor

    @property
    def output(self) -> Any:
        """Raises LookupError where the output was too large to come with the lease."""
        if self._ancestor.omitted is True:
            raise LookupError(
                f"The output of step {self._step!r} was too large to come with the lease: "
                f'name what you need of it in this step\'s input, like cel("steps.{self._step}.output")'
            )
        return None if self._ancestor.output is msgspec.UNSET else msgspec.json.decode(self._ancestor.output)


class Ancestors(Mapping[str, AncestorOutput]):
    """The steps that came before: `steps["fetch"].output`, or `steps.fetch.output`."""

    def __init__(self, steps: Mapping[str, AncestorStep]) -> None:
        self._steps = steps

    def __getitem__(self, step: str) -> AncestorOutput:
        try:
            return AncestorOutput(step, self._steps[step])
        except KeyError:
            known = ", ".join(self._steps) or "none"
            raise KeyError(f"{step!r} is no step that comes before this one; those are: {known}") from None

    def __getattr__(self, step: str) -> AncestorOutput:
        if step.startswith("_"):
            raise AttributeError(step)
        try:
            return self[step]
        except KeyError as fault:
            raise AttributeError(str(fault)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)
