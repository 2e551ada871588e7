"""The generated parts of docs/api: a page for the routes of each tag, the types that they name, and the problems.

All of it is read from the OpenAPI document, and from the remarks that stand below the fields of the wire types.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import ModuleType
from typing import Any, Final, TypeAlias

import msgspec

from stepd.http import handlers, status
from stepd.http.examples import REQUESTS
from stepd.http.openapi import TAGS, Document
from stepd.http.problem_responses import problems_of
from stepd.http.routes import ROUTES
from stepd.http.table import Route, Success
from stepd_protocol import admin, definitions, executions, leases, problems, service, telemetry

Json: TypeAlias = dict[str, Any]

SERVICE: Final = "service"
MODULES: Final[tuple[ModuleType, ...]] = (
    admin, definitions, executions, leases, problems, service, telemetry, status, handlers,
)  # fmt: skip
TYPES_PAGE: Final = "types.md"
PROBLEMS_PAGE: Final = "problems.md"
# What these say is said once, on the page that opens the folder.
NAMED_TYPES: Final = {"A name: ": "name", "An RFC 3339 time": "time", "An id made": "id"}


def routes_of(tag: str) -> str:
    """Each route of a tag, in the table's order."""
    return "\n".join(_route(route) for route in ROUTES if _tag(route) == tag)


def overview() -> str:
    """Every route with its scope, each a link to its section."""
    rows = [
        f"| [`{route.method} {route.path}`]({_tag(route)}.md#{_anchor(route)}) | {_scope(route)} | {route.summary} |"
        for route in ROUTES
    ]
    return _lines("| call | scope | does |", "|---|---|---|", *rows)


def types() -> str:
    """Each type with its fields, in alphabetical order."""
    return "\n".join(_type(name, schema) for name, schema in _schemas().items())


def problem_table() -> str:
    """Every problem with its status."""
    rows = (f"| {kind.status} | `{code}` | {kind.title} |" for code, kind in problems.PROBLEMS.items())
    return _lines("| status | code | title |", "|---|---|---|", *rows)


def tags() -> list[str]:
    """The tags that have a route, in the table's order."""
    return list(dict.fromkeys(_tag(route) for route in ROUTES))


def writers() -> dict[str, Callable[[], str]]:
    """The generated parts by name."""
    own: dict[str, Callable[[], str]] = {"api-routes": overview, "api-types": types, "api-problems": problem_table}
    return own | {f"api-{tag}": partial(routes_of, tag) for tag in tags()}


# -- routes ---------------------------------------------------------------------------------------------------------


def _route(route: Route) -> str:
    operation = _document()["paths"][route.path][route.method.lower()]
    parts = [
        f"## `{route.method} {route.path}`\n",
        f"{route.summary}.\n",
        _lines("| | |", "|---|---|", *_facts(route, operation)),
    ]
    if parameters := [one for one in operation.get("parameters", ()) if one["in"] != "path"]:
        rows = (
            f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])} | {_cell(one['description'])} |"
            for one in parameters
        )
        parts.append(_lines("| parameter | in | type | says |", "|---|---|---|---|", *rows))
    if body := operation.get("requestBody"):
        schema = body["content"]["application/json"]["schema"]
        optional = "" if body["required"] else ", may be left out"
        for number, name in enumerate(_reference(one) for one in schema.get("anyOf", [schema])):
            parts.append(f"{'Or the body' if number else 'The body'}, {_link(name)}{optional}:\n")
            parts.append(_fields(name, _schemas()[name]))
    if route.name in REQUESTS:
        parts.append(f"```json\n{json.dumps(REQUESTS[route.name], indent=2, ensure_ascii=False)}\n```\n")
    return "\n".join(parts)


def _facts(route: Route, operation: Json) -> Iterator[str]:
    yield f"| scope | {_scope(route)} |"
    if route.part is not None:
        yield f"| part | `--{route.part.replace('_', '-')}` |"
    for success in route.successes:
        yield f"| {success.status} | {_answer(success, operation['responses'][str(success.status)])} |"
    codes = ", ".join(f"{problems.PROBLEMS[code].status} `{code}`" for code in problems_of(route))
    yield f"| [problems]({PROBLEMS_PAGE}) | {codes} |"


def _scope(route: Route) -> str:
    if route.scopes is None:
        return "none, without a key"
    return " or ".join(f"`{scope}`" for scope in route.scopes) or "any key"


def _answer(success: Success, response: Json) -> str:
    kinds = [_kind(content["schema"]) for media, content in response.get("content", {}).items() if "json" in media]
    headers = "".join(f"; header `{name}`: {about}" for name, about in success.headers)
    return f"{', '.join(kinds) + ': ' if kinds else ''}{_cell(success.about)}{headers}"


def _tag(route: Route) -> str:
    return TAGS[route.part] if route.part else SERVICE


def _anchor(route: Route) -> str:
    """As the place where pages are read makes anchors of headings: letters, digits, dashes and underscores only."""
    heading = f"{route.method} {route.path}".lower().replace(" ", "-")
    return "".join(mark for mark in heading if mark.isalnum() or mark in "-_")


# -- types ----------------------------------------------------------------------------------------------------------


def _type(name: str, schema: Json) -> str:
    about = schema.get("description")
    return "\n".join([f"## {name}\n", *([f"{about}\n"] if about else []), _fields(name, schema)])


def _fields(name: str, schema: Json) -> str:
    """The fields of an object as a table."""
    if not (properties := schema.get("properties")):
        return "It has no fields.\n"
    required = schema.get("required", ())
    remarks = _remarks(name)
    rows = (
        f"| `{field}`{' *' if field in required else ''} | {_kind(one)} | {_says(one, remarks.get(field, ''))} |"
        for field, one in properties.items()
    )
    return _lines("| field | type | says |", "|---|---|---|", *rows)


def _says(schema: Json, remark: str) -> str:
    about = schema.get("description", "")
    told = [] if any(about.startswith(begin) for begin in NAMED_TYPES) or not about else [about]
    if remark:
        told.append(remark)
    if "default" in schema and schema["default"] not in (None, [], {}):
        told.append(f"Default `{json.dumps(schema['default'])}`.")
    return _cell(" ".join(told))


def _kind(schema: Json) -> str:
    """A schema as a few words."""
    if (reference := _reference(schema)) in _schemas():
        return _link(reference)
    if "anyOf" in schema:
        kinds = list(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
        return " or ".join(kind for kind in kinds if kind != "null") + (", or null" if "null" in kinds else "")
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for begin, word in NAMED_TYPES.items():
        if schema.get("description", "").startswith(begin):
            return word
    match schema.get("type"):
        case None:
            return "any JSON"
        case "array":
            return f"list of {_kind(schema['items'])}{_bounds(schema, 'Items')}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_kind(schema['additionalProperties'])}"
        case "string":
            return f"text{_bounds(schema, 'Length')}"
        case "integer" | "number" as kind:
            return f"{kind}{_bounds(schema, 'imum')}"
        case kind:
            return str(kind)


def _bounds(schema: Json, of: str) -> str:
    least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
    match least, most:
        case None, None:
            return ""
        case None, _:
            return f", at most {most:,}"
        case _, None:
            return f", at least {least:,}"
    return f" from {least:,} to {most:,}" if of == "imum" else f", {least:,} to {most:,}"


def _remarks(name: str) -> dict[str, str]:
    """What stands below the fields of a wire type in its source, by field."""
    found: dict[str, str] = {}
    for kind in reversed(_classes().get(name, object).__mro__):
        if kind.__module__.startswith("stepd"):
            found |= _remarks_of(kind)
    return found


@cache
def _remarks_of(kind: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(remark.value.value.split())
        for field, remark in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(remark, ast.Expr)
        and isinstance(remark.value, ast.Constant)
        and isinstance(remark.value.value, str)
    }


@cache
def _classes() -> dict[str, type]:
    return {
        kind.__name__: kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }


# -- the document ---------------------------------------------------------------------------------------------------


@cache
def _document() -> Json:
    return Document().content


def _schemas() -> Json:
    schemas: Json = _document()["components"]["schemas"]
    return schemas


def _reference(schema: Json) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _link(name: str) -> str:
    return f"[{name}]({TYPES_PAGE}#{name.lower()})"


def _cell(text: str) -> str:
    """Text in one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"
