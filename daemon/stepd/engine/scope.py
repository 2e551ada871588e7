"""What expressions may see, what they may name at their place in a definition, and what they do read."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Protocol

ROOTS = ("input", "state", "item", "index", "last")
EXECUTION = ("id", "correlation", "created_at")
STEP_PARTS = ("output", "status")


class Env(Protocol):
    """What an expression may see, as decoded JSON. What its methods raise passes through an evaluation untouched."""

    def root(self, name: str) -> Any:
        """The value of `input`, `state`, `item`, `index` or `last`."""

    def output(self, step: str) -> Any:
        """The output of a step; None unless it succeeded."""

    def status(self, step: str) -> str:
        """The status of a step."""

    @property
    def execution(self) -> Mapping[str, Any]:
        """`id`, `correlation` and `created_at` (text) of the execution."""


@dataclass(frozen=True, slots=True)
class References:
    """What an expression or a template reads."""

    roots: frozenset[str] = frozenset()
    """Of `input`, `state`, `item`, `index`, `last`."""
    outputs: frozenset[str] = frozenset()
    """Ids of the steps whose output is read."""
    statuses: frozenset[str] = frozenset()
    """Ids of the steps whose status is read."""

    def __or__(self, other: "References") -> "References":
        return References(self.roots | other.roots, self.outputs | other.outputs, self.statuses | other.statuses)

    def joined(self, others: "Iterable[References]") -> "References":
        """What these and all the others read."""
        return reduce(or_, others, self)


@dataclass(frozen=True, slots=True)
class ExpressionScope:
    """What the expressions at one place of a definition may name."""

    roots: frozenset[str]
    """Of `input`, `state`, `item`, `index`, `last`; `execution` may always be named."""
    steps: Container[str]
    """Ids of the steps that may be named here."""
    all_steps: Container[str]
    """Ids of all steps, so that a message can tell a step that may not be named from one that isn't there."""
