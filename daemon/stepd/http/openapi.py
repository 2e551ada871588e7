"""Owns the OpenAPI document: made of the table of routes and the wire types, so that it can't say anything else.

`python -m stepd.http.openapi` writes it as YAML.
"""

import sys
from functools import cached_property
from importlib.metadata import version
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from stepd.http.examples import REQUESTS
from stepd.http.openapi_schemas import Schemas
from stepd.http.problem_responses import ProblemResponses
from stepd.http.routes import ROUTES
from stepd.http.table import Parameter, Route, Success
from stepd_protocol.names import Name
from stepd_protocol.problems import Problem

Json: TypeAlias = dict[str, Any]

ABOUT: Final = (
    "Durable workflow executions: a daemon that owns the state, workers that own the code. Unknown fields and query "
    "parameters are refused with 422; clients must pass over unknown fields in answers. Without keys the daemon serves "
    "this machine only, and needs none."
)
TAGS: Final = {"worker_api": "workers", "request_api": "executions", "admin_api": "administration", "ui": "page"}
KEY: Final = "key"


class Document:
    """The document, written out when it is first asked for."""

    @cached_property
    def content(self) -> Json:
        """As a value."""
        return _Maker().document()

    def as_yaml(self) -> bytes:
        """As YAML, the same for the same code."""
        return self._yaml

    def as_json(self) -> bytes:
        """As JSON."""
        return self._json

    @cached_property
    def _yaml(self) -> bytes:
        return yaml.dump(self.content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, encoding="utf-8")

    @cached_property
    def _json(self) -> bytes:
        return msgspec.json.encode(self.content)


class _Dumper(yaml.SafeDumper):
    """Writes what stands in two places twice: an alias is hard to read, and some tools can't."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Maker:
    """Collects what the routes name, then writes the document."""

    def __init__(self) -> None:
        self._schemas = Schemas([Problem, Name, *(kind for route in ROUTES for kind in _types(route))])
        self._problems = ProblemResponses(self._schemas.of(Problem))

    def document(self) -> Json:
        paths: dict[str, Json] = {}
        for route in ROUTES:
            paths.setdefault(route.path, {})[route.method.lower()] = self._operation(route)
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "stepd",
                "version": version("stepd"),
                "description": ABOUT,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "http://127.0.0.1:7117"}],
            "security": [{KEY: []}, {}],
            "paths": paths,
            "components": {
                "securitySchemes": {KEY: {"type": "http", "scheme": "bearer", "description": "A key of the daemon."}},
                "responses": self._problems.components(),
                "schemas": self._schemas.components(),
            },
        }

    def _operation(self, route: Route) -> Json:
        operation: Json = {
            "operationId": route.name,
            "tags": [TAGS[route.part] if route.part else "service"],
            "summary": route.summary,
        }
        if about := _who_may(route):
            operation["description"] = about
        if route.scopes is None:
            operation["security"] = []
        if parameters := [*_path_parameters(route, self._schemas), *map(self._parameter, route.parameters)]:
            operation["parameters"] = parameters
        if route.body is not None:
            operation["requestBody"] = self._body(route)
        operation["responses"] = self._responses(route)
        return operation

    def _parameter(self, parameter: Parameter) -> Json:
        schema = self._schemas.of(parameter.type)
        return {
            "name": parameter.name,
            "in": parameter.place,
            "required": parameter.required,
            "description": _sentence(parameter.about),
            "schema": {"type": "array", "items": schema} if parameter.many else schema,
        }

    def _body(self, route: Route) -> Json:
        media: Json = {"schema": self._schemas.of(route.body)}
        if (example := REQUESTS.get(route.name)) is not None:
            media["example"] = example
        others: Json = {name: {"schema": {"type": "string", "format": "binary"}} for name in route.body_media_types}
        return {"required": route.body_required, "content": {"application/json": media} | others}

    def _responses(self, route: Route) -> Json:
        responses: Json = {}
        for success in route.successes:
            responses[str(success.status)] = self._success(success)
        responses |= self._problems.of(route)
        return dict(sorted(responses.items()))

    def _success(self, success: Success) -> Json:
        response: Json = {"description": _sentence(success.about)}
        if success.headers:
            response["headers"] = {
                name: {"description": _sentence(about), "schema": {"type": "string"}} for name, about in success.headers
            }
        if success.type is not None:
            response["content"] = {success.media_type: {"schema": self._schemas.of(success.type)}}
            if success.stream:
                response["content"]["text/event-stream"] = {"schema": {"type": "string"}}
        return response


def _types(route: Route) -> list[Any]:
    kinds = [success.type for success in route.successes] + [parameter.type for parameter in route.parameters]
    return [kind for kind in [route.body, *kinds] if kind is not None]


def _who_may(route: Route) -> str:
    if route.scopes is None:
        return ""
    if not route.scopes:
        return "Any key."
    about = f"Scope {' or '.join(f'`{scope}`' for scope in route.scopes)}."
    if {"read", "execute"} <= {*route.scopes}:
        about += " A key with `execute` only sees what its principal started."
    if route.for_holders:
        about += " A lease's holder may go on with it when its key has lost the scope."
    return about


def _path_parameters(route: Route, schemas: Schemas) -> list[Json]:
    names = [segment[1:-1] for segment in route.path.split("/") if segment.startswith("{")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schemas.of(Name) if name == "name" else {"type": "string"},
        }
        for name in names
    ]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.stdout.buffer.write(Document().as_yaml())
