"""What an expression names: the paths into input, state and steps that stand in its tree, checked against its scope."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from stepd.engine.cel_syntax import (
    INDEX,
    Call,
    Fold,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Path,
    Reference,
    Selection,
    quoted,
)
from stepd.engine.scope import EXECUTION, ROOTS, STEP_PARTS, Env, ExpressionScope, References

VARIABLES = (*ROOTS, "steps", "execution")

Key: TypeAlias = str | int


class NameFault(ValueError):
    """An expression names what it may not; `at` is the number of the node."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def with_references(tree: Node, scope: ExpressionScope) -> Node:
    """Returns the tree with a Reference in place of each path. Raises NameFault at the first it may not name."""
    return _Namer(scope).visit(tree, frozenset())


def references_of(paths: Iterable[Path]) -> References:
    """Returns what reading these paths takes."""
    bases = {path.base for path in paths}
    return References(
        frozenset(base[0] for base in bases if base[0] in ROOTS),
        frozenset(base[1] for base in bases if base[0] == "steps" and base[2] == "output"),
        frozenset(base[1] for base in bases if base[0] == "steps" and base[2] == "status"),
    )


def fetch(path: Path, env: Env) -> Any:
    """Returns the value at a path's base; what `env` raises passes through."""
    match path.base:
        case ("steps", step, "output"):
            return env.output(step)
        case ("steps", step, _):
            return env.status(step)
        case ("execution",):
            return {name: env.execution[name] for name in EXECUTION}
        case base:
            return env.root(base[0])


class _Namer:
    def __init__(self, scope: ExpressionScope) -> None:
        self._scope = scope

    def visit(self, node: Node, bound: frozenset[str]) -> Node:
        chain = _chain(node, bound)
        if chain is not None:
            presence = isinstance(node, Selection) and node.presence
            return Reference(self._path(*chain, presence), chain[1])
        match node:
            case Selection():
                return replace(node, operand=self.visit(node.operand, bound))
            case Call():
                return replace(node, arguments=tuple(self.visit(argument, bound) for argument in node.arguments))
            case ListOf():
                return replace(node, items=tuple(self.visit(item, bound) for item in node.items))
            case MapOf():
                entries = ((self.visit(key, bound), self.visit(value, bound)) for key, value in node.entries)
                return replace(node, entries=tuple(entries))
            case Fold():
                return self._fold(node, bound)
            case Literal() | Name() | Reference():
                return node

    def _fold(self, node: Fold, bound: frozenset[str]) -> Fold:
        inner = bound | {node.variable, node.accumulator}
        return replace(
            node,
            over=self.visit(node.over, bound),
            start=self.visit(node.start, bound),
            condition=self.visit(node.condition, inner),
            step=self.visit(node.step, inner),
            result=self.visit(node.result, inner),
        )

    def _path(self, chain: list[Key], at: int, presence: bool) -> Path:
        root, keys = str(chain[0]), chain[1:]
        if root == "steps":
            return self._step_path(keys, at, presence)
        if root == "execution":
            if keys and keys[0] not in EXECUTION:
                raise NameFault(f"execution has no {keys[0]}, only {', '.join(EXECUTION)}", at)
        elif root not in self._scope.roots:
            raise NameFault(f"{root} is not known here", at)
        return Path((root,), tuple(keys), presence)

    def _step_path(self, keys: list[Key], at: int, presence: bool) -> Path:
        if not keys or not isinstance(keys[0], str):
            raise NameFault('steps is read one step at a time: steps.fetch.output, steps["fetch-1"].status', at)
        step = keys[0]
        if step not in self._scope.all_steps:
            raise NameFault(f"there is no step {quoted(step)}", at)
        if step not in self._scope.steps:
            raise NameFault(f"step {quoted(step)} does not come before this one: its result is not known here", at)
        if len(keys) < 2 or keys[1] not in STEP_PARTS or (presence and len(keys) == 2):
            raise NameFault(f"of step {quoted(step)} only output and status can be read", at)
        return Path(("steps", step, str(keys[1])), tuple(keys[2:]), presence)


def _chain(node: Node, bound: frozenset[str]) -> tuple[list[Key], int] | None:
    """Returns a variable and the constant keys below it, and its place; None where the node is anything else."""
    keys: list[Key] = []
    while True:
        match node:
            case Name() if node.name in VARIABLES and node.name not in bound:
                return [node.name, *reversed(keys)], node.at
            case Selection() if not (node.presence and keys):
                keys.append(node.field)
                node = node.operand
            case Call(arguments=(operand, Literal(value=str() | int() as key))) if _is_index(node, key):
                keys.append(key)
                node = operand
            case _:
                return None


def _is_index(node: Call, key: Key) -> bool:
    return node.function == INDEX and not isinstance(key, bool)
