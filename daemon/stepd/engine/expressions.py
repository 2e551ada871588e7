"""The expressions of a definition: CEL, compiled once, evaluated over no more than what each one names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class ExpressionFault(ValueError):
    """An expression that cannot be compiled; ``str()`` of it says why, and where in the text."""


class ExpressionFailed(Exception):
    """An expression that could not be evaluated; ``str()`` of it names the expression and why."""


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


@dataclass(frozen=True, slots=True)
class ExpressionScope:
    """What the expressions at one place of a definition may name."""

    roots: frozenset[str]
    """Of `input`, `state`, `item`, `index`, `last`; `execution` may always be named."""
    steps: frozenset[str]
    """Ids of the steps that may be named here."""
    all_steps: frozenset[str]
    """Ids of all steps, so that a message can tell a step that may not be named from one that isn't there."""


class Expression:
    """One compiled expression."""

    __slots__ = ("references", "source")

    source: str
    references: References

    def evaluate(self, env: Env) -> Any:
        """Returns the value as decoded JSON. Raises ExpressionFailed, and what `env` raises."""
        raise NotImplementedError


def compile_expression(source: str, scope: ExpressionScope) -> Expression:
    """Returns the compiled expression. Raises ExpressionFault."""
    raise NotImplementedError
