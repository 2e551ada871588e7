"""The expressions of a definition: CEL, compiled once, evaluated over no more than what each one names.

An expression that only selects a value takes it by its own walk over the decoded JSON, so that the value passes
unchanged. Any other is evaluated by the CEL runtime, within the bounds of `cel_fences` and `cel_bounds`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

from cel_expr_python import cel  # type: ignore[import-untyped]  # it ships no types

from stepd.engine.cel_bounds import (
    EXPRESSION_UNITS,
    FROM_RUNTIME_UNITS,
    TO_RUNTIME_UNITS,
    Allowance,
    Estimate,
)
from stepd.engine.cel_fences import fence_faults
from stepd.engine.cel_names import VARIABLES, NameFault, fetch, references_of, with_references
from stepd.engine.cel_syntax import (
    Call,
    Fold,
    Node,
    Path,
    Reference,
    UnknownSyntax,
    nested_nodes,
    place_of,
    read_tree,
    with_root,
    without_root,
)
from stepd.engine.cel_syntax import Literal as Constant
from stepd.engine.cel_values import Size, Unfit, as_json, at_path, member, path_tree, project, size_of
from stepd.engine.scope import Env, ExpressionScope, References
from stepd_protocol.limits import EXPRESSION_LENGTH_MAX

__all__ = [
    "Env",
    "Expression",
    "ExpressionFailed",
    "ExpressionFault",
    "ExpressionScope",
    "References",
    "Wanted",
    "compile_expression",
]

Wanted: TypeAlias = Literal["any", "boolean", "list"]

SHOWN_SOURCE_LENGTH = 200
CRUDE_UNITS_MAX = 20_000
"""Below this, nodes times the weight of all values is bound enough."""


class ExpressionFault(ValueError):
    """An expression that cannot be compiled; ``str()`` of it says why, and where in the text."""


class ExpressionFailed(Exception):
    """An expression that could not be evaluated; ``str()`` of it names the expression and why."""


class Expression(Protocol):
    """One compiled expression."""

    @property
    def source(self) -> str:
        """As it was written."""

    @property
    def references(self) -> References:
        """What it reads."""

    def evaluate(self, env: Env, allowance: Allowance | None = None) -> Any:
        """Returns the value as decoded JSON, taking its work from `allowance`, or from one of its own.

        Raises ExpressionFailed, and what `env` raises.
        """


def compile_expression(source: str, scope: ExpressionScope, wanted: Wanted = "any") -> Expression:
    """Returns the compiled expression; its value is `wanted`, or evaluation fails. Raises ExpressionFault."""
    if len(source) > EXPRESSION_LENGTH_MAX:
        raise ExpressionFault(f"{len(source)} characters, of which an expression has at most {EXPRESSION_LENGTH_MAX}")
    try:
        program = _environment().compile(source)
    except RuntimeError as error:
        raise ExpressionFault(_compile_message(str(error))) from None
    serialized = program.serialize()
    try:
        tree = with_references(read_tree(serialized), scope)
    except NameFault as fault:
        raise _fault(source, serialized, [(str(fault), fault.at)]) from None
    except UnknownSyntax as unknown:
        raise ExpressionFault(f"{unknown} is not supported") from None
    faults = list(fence_faults(tree)) or list(_pattern_faults(tree))
    if faults:
        raise _fault(source, serialized, faults)
    if isinstance(tree, Reference) and not tree.path.presence:
        return _Selected(source, tree.path, wanted)
    _check_type(program.return_type().name(), wanted)
    return _Computed(source, tree, program, wanted)


class _Selected:
    """An expression that only selects a value."""

    __slots__ = ("_path", "_wanted", "references", "source")

    def __init__(self, source: str, path: Path, wanted: Wanted) -> None:
        self.source = source
        self.references = references_of([path])
        self._path = path
        self._wanted = wanted

    def evaluate(self, env: Env, allowance: Allowance | None = None) -> Any:
        value = fetch(self._path, env)
        absent = self  # no JSON value is this object
        for depth, key in enumerate(self._path.keys):
            value = member(value, key, absent)
            if value is absent:
                raise _failed(self.source, f"{Path(self._path.base, self._path.keys[: depth + 1])} is not there")
        _check_value(self.source, value, self._wanted)
        return value


class _Computed:
    """An expression that the runtime evaluates."""

    __slots__ = (
        "_crude",
        "_nodes",
        "_paths",
        "_probes",
        "_program",
        "_tree",
        "_views",
        "_wanted",
        "references",
        "source",
    )

    def __init__(self, source: str, tree: Node, program: cel.Expression, wanted: Wanted) -> None:
        nodes = list(nested_nodes(tree))
        self.source = source
        self._tree = tree
        self._program = program
        self._wanted = wanted
        self._nodes = len(nodes)
        self._paths = tuple({node.path: None for node in nodes if isinstance(node, Reference)})
        bases = {path.base: path for path in self._paths}
        self._views = tuple(
            (path, path_tree(other for other in self._paths if other.base == path.base)) for path in bases.values()
        )
        self._probes: dict[bytes, cel.Expression] = {}
        self._crude = not any(_needs_estimate(node) for node in nodes)
        self.references = references_of(self._paths)

    def evaluate(self, env: Env, allowance: Allowance | None = None) -> Any:
        bases = {path.base: fetch(path, env) for path, _ in self._views}
        try:
            data = self._shown(bases)
            self._charge(bases, data, allowance or Allowance())
            value = as_json(_run(self._program, data))
        except Unfit as unfit:
            raise _failed(self.source, str(unfit)) from None
        _check_value(self.source, value, self._wanted)
        return value

    def _shown(self, bases: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for path, tree in self._views:
            shown = project(bases[path.base], tree)
            if path.base[0] == "steps":
                data.setdefault("steps", {}).setdefault(path.base[1], {})[path.base[2]] = shown
            else:
                data[path.base[0]] = shown
        return data

    def _charge(self, bases: Mapping[tuple[str, ...], Any], data: dict[str, Any], allowance: Allowance) -> None:
        """Takes the most that evaluation can cost from the allowance. Raises Unfit where that is too much."""
        values = [None if path.presence else at_path(bases[path.base], path) for path in self._paths]
        sizes = [_size(path, value) for path, value in zip(self._paths, values, strict=True)]
        weight = sum(size.weight for size in sizes)
        if self._crude and weight * self._nodes <= CRUDE_UNITS_MAX:
            allowance.take(EXPRESSION_UNITS + weight * self._nodes)
            return
        allowance.take(EXPRESSION_UNITS + TO_RUNTIME_UNITS * weight)
        estimate = Estimate(
            dict(zip(self._paths, values, strict=True)),
            dict(zip(self._paths, sizes, strict=True)),
            lambda fold: self._count_items(fold, data),
            allowance,
        )
        result = estimate.size(self._tree)
        allowance.take(estimate.work + FROM_RUNTIME_UNITS * result.weight)

    def _count_items(self, fold: Fold, data: dict[str, Any]) -> tuple[int, bool]:
        """Evaluates what a comprehension runs over; where that fails, so will the whole, if it gets there."""
        if not self._probes:
            rootless = without_root(self._program.serialize())
            folds = (node for node in nested_nodes(self._tree) if isinstance(node, Fold))
            over = {one.over_raw: with_root(rootless, one.over_raw) for one in folds}
            self._probes = {raw: _environment().deserialize(serialized) for raw, serialized in over.items()}
        try:
            items = _run(self._probes[fold.over_raw], data)
        except Unfit:
            return 0, False
        return len(items) if isinstance(items, list | dict) else 0, isinstance(items, dict)


def _run(program: cel.Expression, data: dict[str, Any]) -> Any:
    """Returns the plain value of an evaluation. Raises Unfit."""
    try:
        value = program.eval(data=data)
        plain = value.plain_value()
    except RuntimeError as error:
        raise Unfit(_tidy(str(error))) from None
    # An error is a value too, and its plain value is its message.
    if isinstance(plain, str) and value.type() == cel.Type.ERROR:
        raise Unfit(_tidy(str(plain)))
    return plain


def _size(path: Path, value: Any) -> Size:
    try:
        return size_of(value)
    except Unfit as unfit:
        raise Unfit(f"{path} holds {unfit}") from None


def _needs_estimate(node: Node) -> bool:
    return isinstance(node, Fold) or (isinstance(node, Call) and node.function in ("contains", "matches"))


# --- what is checked once --------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _environment() -> cel.Env:
    types = dict.fromkeys(VARIABLES, cel.Type.DYN)
    return cel.NewEnv(variables={**types, "index": cel.Type.INT})


@lru_cache(maxsize=1)
def _pattern_check() -> cel.Expression:
    return _environment().compile("''.matches(string(input))")


def _pattern_faults(tree: Node) -> Iterator[tuple[str, int]]:
    for node in nested_nodes(tree):
        match node:
            case Call(function="matches", arguments=(*_, Constant(value=pattern))):
                try:
                    _run(_pattern_check(), {"input": pattern})
                except Unfit as unfit:
                    yield str(unfit), node.at
            case _:
                pass


def _check_type(type_name: str, wanted: Wanted) -> None:
    fits = {"any": True, "boolean": type_name == "BOOL", "list": type_name.startswith("LIST")}[wanted]
    if not fits and type_name != "DYN":
        raise ExpressionFault(f"its value is of the type {type_name.lower()}, where a {wanted} is wanted")


def _check_value(source: str, value: Any, wanted: Wanted) -> None:
    fits = {"any": True, "boolean": isinstance(value, bool), "list": isinstance(value, list)}[wanted]
    if not fits:
        raise _failed(source, f"its value is no {wanted}")


# --- what a person reads ---------------------------------------------------------------------------------------------

_ERROR = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")


def _failed(source: str, reason: str) -> ExpressionFailed:
    shown = source if len(source) <= SHOWN_SOURCE_LENGTH else f"{source[: SHOWN_SOURCE_LENGTH - 3]}..."
    return ExpressionFailed(f"{shown}: {reason}")


def _fault(source: str, serialized: bytes, faults: list[tuple[str, int]]) -> ExpressionFault:
    return ExpressionFault("; ".join(f"{_place(source, place_of(serialized, at))}: {fault}" for fault, at in faults))


def _place(source: str, at: int) -> str:
    before = source[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"


def _compile_message(error: str) -> str:
    """Returns the first of the runtime's messages, with its place; they repeat the text, which may be long."""
    found = _ERROR.search(error)
    if found is None or int(found[1]) < 1:
        return _tidy(error.splitlines()[0])
    message = found[3].removesuffix(" (in container '')").removesuffix(" [INVALID_ARGUMENT]")
    # The runtime's checker does not know that what an index gives may be a list.
    hint = ": write dyn(…) around it" if "'dyn' cannot be the range" in message else ""
    return f"line {found[1]}, column {found[2]}: {message[:300]}{hint}"


def _tidy(error: str) -> str:
    """Returns a message of the runtime without its status code."""
    message = re.sub(r"^[A-Z_]+: |ERROR: <input>:-1:-1: | \[[A-Z_]+\]$", "", error)
    return f"{message[:300]}"
