"""Owns the way of Python values into JSON and back: what a body returns, and the type that its input is read as."""

import inspect
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

import msgspec

_UNTYPED: Final = frozenset({Any, object, inspect.Parameter.empty})


class Unencodable(ValueError):
    """A value has no equal JSON: a type that JSON lacks, NaN or Infinity, a lone surrogate, or a circle."""


def encode(value: Any) -> bytes:
    """A value as JSON: what msgspec encodes (also dataclasses and Structs), and pydantic models. Raises Unencodable."""
    try:
        content = msgspec.json.encode(value, enc_hook=_encode_model)
        # The encoder writes NaN and Infinity as null; only then is it worth a look at each number.
        if b"null" in content and _has_no_json_number(msgspec.to_builtins(value, enc_hook=_encode_model)):
            raise Unencodable("NaN and Infinity are no JSON")
    except Unencodable:
        raise
    except Exception as fault:  # noqa: BLE001 — a value's own methods may raise anything
        raise Unencodable(text_of(fault) or type(fault).__name__) from None
    return content


def storable(text: str) -> str:
    """Text as JSON can hold it: lone surrogates, as they stand in names of files, become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def text_of(value: object) -> str:
    """What a value says of itself; its type's name where it can't."""
    try:
        return storable(str(value))
    except Exception:  # noqa: BLE001 — its own __str__ may raise anything
        return type(value).__name__


def described(error: BaseException) -> str:
    """An error's type and text."""
    text, kind = text_of(error), type(error).__name__
    return f"{kind}: {text}" if text and text != kind else kind


@dataclass(frozen=True)
class InputType:
    """What a body's input is read as: its JSON Schema, and the reader of the lease's bytes."""

    schema: dict[str, Any]
    decode: Callable[[bytes], Any]


def input_type(function: Callable[..., Any], parameter: inspect.Parameter) -> InputType | None:
    """The type that a body's annotation asks for; None where it takes any JSON as it comes.

    Raises TypeError for an annotation that can't be resolved or has no JSON Schema.
    """
    annotation = _resolved(function, parameter)
    if annotation in _UNTYPED:
        return None
    if hasattr(annotation, "model_json_schema"):
        return InputType(annotation.model_json_schema(), annotation.model_validate_json)
    try:
        schema = msgspec.json.schema(annotation)
    except (TypeError, ValueError) as fault:
        raise TypeError(
            f"The body {function.__name__!r} takes its input as {annotation!r}, which has no JSON Schema: {fault}"
        ) from None
    return InputType(schema, msgspec.json.Decoder(annotation).decode)


def schema_of(given: Any) -> Any:
    """A schema as the definition has it: a JSON Schema passes as it is, a type becomes its schema."""
    if given is None or isinstance(given, dict | bool):
        return given
    if hasattr(given, "model_json_schema"):
        return given.model_json_schema()
    return msgspec.json.schema(given)


def _resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The annotation itself; one written as text is looked up where the function was made.

    Only the input's is, so that the others may name what exists for type checkers alone.
    """
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    names = inspect.getclosurevars(function).nonlocals
    holder = SimpleNamespace(__annotations__={"input": parameter.annotation})
    try:
        hints = typing.get_type_hints(holder, function.__globals__, dict(names), include_extras=True)
    except NameError as fault:
        raise TypeError(
            f"The body {function.__name__!r} takes its input as {parameter.annotation!r}, and {fault}: "
            "define that type where the body's module can see it at run time"
        ) from None
    return hints["input"]


def _encode_model(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"A value of type {type(value).__name__} has no JSON")
    return dump(mode="json")


def _has_no_json_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_no_json_number, value.values()))
    return isinstance(value, list | tuple | set) and any(map(_has_no_json_number, value))
