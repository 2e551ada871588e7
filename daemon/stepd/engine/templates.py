"""Templates: JSON in which an object with the single key `$cel` stands for the value of that expression."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from stepd.engine.canonical import encode
from stepd.engine.cel_bounds import Allowance
from stepd.engine.cel_values import Unfit
from stepd.engine.expressions import Expression, ExpressionFailed, ExpressionFault, compile_expression
from stepd.engine.pointers import child_pointer
from stepd.engine.scope import Env, ExpressionScope, References
from stepd_protocol.problems import FieldFault

MARK = "$cel"


@dataclass(frozen=True, slots=True)
class _Members:
    """An object that holds an expression somewhere below."""

    members: tuple[tuple[str, "_Part"], ...]


@dataclass(frozen=True, slots=True)
class _Items:
    """An array that holds an expression somewhere below."""

    items: tuple["_Part", ...]


@dataclass(frozen=True, slots=True)
class _Constant:
    """JSON without expressions."""

    value: Any


_Part: TypeAlias = _Members | _Items | _Constant | Expression


class Template:
    """One compiled template."""

    __slots__ = ("_part", "constant", "references")

    references: References
    """What its expressions read."""
    constant: bool
    """Whether it holds no expression."""

    def __init__(self, part: _Part, references: References) -> None:
        self._part = part
        self.references = references
        self.constant = isinstance(part, _Constant)

    def render(self, env: Env, allowance: Allowance | None = None) -> Any:
        """Returns the value as decoded JSON; it may share parts with what `env` gave, so it is not to be changed.

        Its expressions take their work from one `allowance`. Raises ExpressionFailed, and what `env` raises.
        """
        if isinstance(self._part, _Constant):
            return self._part.value
        if isinstance(self._part, _Members | _Items):
            return _render(self._part, env, allowance or Allowance())
        value = self._part.evaluate(env, allowance)
        return value if allowance is None else _counted(self._part, value, allowance)


def compile_template(value: Any, scope: ExpressionScope, pointer: str, faults: list[FieldFault]) -> Template:
    """Returns the compiled template, and adds its faults to `faults`, each with its pointer below `pointer`."""
    references: list[References] = []
    part = _compile(value, scope, pointer, faults, references)
    total = References()
    for one in references:
        total |= one
    return Template(part, total)


def _compile(
    value: Any, scope: ExpressionScope, pointer: str, faults: list[FieldFault], references: list[References]
) -> _Part:
    if isinstance(value, dict):
        if len(value) == 1 and MARK in value:
            return _expression(value[MARK], scope, child_pointer(pointer, MARK), faults, references)
        members = [
            (name, _compile(member, scope, child_pointer(pointer, name), faults, references))
            for name, member in value.items()
        ]
        return _Constant(value) if _all_constant(part for _, part in members) else _Members(tuple(members))
    if isinstance(value, list):
        items = [
            _compile(item, scope, child_pointer(pointer, place), faults, references) for place, item in enumerate(value)
        ]
        return _Constant(value) if _all_constant(items) else _Items(tuple(items))
    return _Constant(value)


def _all_constant(parts: Any) -> bool:
    return all(isinstance(part, _Constant) for part in parts)


def _expression(
    source: Any, scope: ExpressionScope, pointer: str, faults: list[FieldFault], references: list[References]
) -> _Part:
    if not isinstance(source, str):
        faults.append(FieldFault(path=pointer, message=f"{MARK} holds an expression, which is a text"))
        return _Constant(None)
    try:
        expression = compile_expression(source, scope)
    except ExpressionFault as fault:
        faults.append(FieldFault(path=pointer, message=str(fault)))
        return _Constant(None)
    references.append(expression.references)
    return expression


def _render(part: _Part, env: Env, allowance: Allowance) -> Any:
    match part:
        case _Constant():
            return part.value
        case _Members():
            return {name: _render(member, env, allowance) for name, member in part.members}
        case _Items():
            return [_render(item, env, allowance) for item in part.items]
        case _:
            return _counted(part, part.evaluate(env, allowance), allowance)


def _counted(expression: Expression, value: Any, allowance: Allowance) -> Any:
    """Bounds what many expressions that select large values would copy into one result."""
    if isinstance(value, dict | list | str):
        try:
            allowance.take_bytes(len(encode(value)))
        except Unfit as unfit:
            raise ExpressionFailed(f"{expression.source}: {unfit}") from None
    return value
