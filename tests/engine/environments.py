"""What expressions see in tests: decoded JSON by name, and a record of what was looked at."""

from collections.abc import Mapping
from typing import Any

from stepd.engine.scope import ExpressionScope

SCOPE = ExpressionScope(
    roots=frozenset({"input", "state"}),
    steps=frozenset({"fetch", "fetch-1"}),
    all_steps=frozenset({"fetch", "fetch-1", "later"}),
)


class NotLoaded(Exception):
    """Stands for what an environment raises of its own."""


class Seen:
    """An environment of an input, a state and the outputs of steps that succeeded."""

    def __init__(self, input: Any = None, state: Any = None, **outputs: Any) -> None:
        self._roots = {"input": input, "state": {} if state is None else state}
        self._outputs = {name.replace("_", "-"): output for name, output in outputs.items()}
        self.looked_at: list[str] = []

    @property
    def execution(self) -> Mapping[str, Any]:
        self.looked_at.append("execution")
        return {"id": "e-1", "correlation": None, "created_at": "2026-11-30T12:00:00.000Z", "secret": 1}

    def root(self, name: str) -> Any:
        self.looked_at.append(name)
        return self._roots[name]

    def output(self, step: str) -> Any:
        self.looked_at.append(f"{step}.output")
        return self._outputs.get(step)

    def status(self, step: str) -> str:
        self.looked_at.append(f"{step}.status")
        return "succeeded" if step in self._outputs else "skipped"


class Absent(Seen):
    """An environment whose payloads have to be loaded first."""

    def root(self, name: str) -> Any:
        raise NotLoaded(name)

    def output(self, step: str) -> Any:
        raise NotLoaded(step)
