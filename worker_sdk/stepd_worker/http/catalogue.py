"""Owns the catalogue of integrations: the file, what it may say, and what is refused before anything is served."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta

from stepd_protocol.names import Effect, Name
from stepd_worker.http.mapping import MARKS_OF_ANSWERS, MARKS_OF_REQUESTS, Template

TIMEOUT_SECONDS: Final = 20.0
CONNECT_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 256 * 1024

Status = Annotated[int, Meta(ge=100, le=599)]
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# Set by the call itself, or harmful where they were not.
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One capability as the file has it."""

    name: Name
    version: Name
    method: Method
    url: str
    effect: Effect
    description: str = ""
    headers: dict[str, str] = {}
    timeout_seconds: Annotated[float, Meta(ge=0.05, le=3600)] = TIMEOUT_SECONDS
    connect_seconds: Annotated[float, Meta(ge=0.05, le=60)] = CONNECT_SECONDS
    idempotency_header: str | None = None
    input_schema: Any = None
    output_schema: Any = None
    query: dict[str, Any] = {}
    body: Any = UNSET
    output: Any = UNSET
    success: list[Status] = []
    not_applied: list[Status] = []


class _Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workflow as the file has it."""

    name: Name
    definition: str
    steps: dict[Name, str]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    capability: list[_Entry] = []
    workflow: list[_Served] = []


@dataclass(frozen=True)
class Capability:
    """One call that a step may be: fixed but for what the mappings take of the step's input."""

    key: str
    """`name@version`."""
    method: Method
    url: str
    effect: Effect
    headers: Mapping[str, str] = field(repr=False)
    timeout_seconds: float
    connect_seconds: float
    idempotency_header: str | None
    input_schema: Any
    output_schema: Any
    query: Mapping[str, Template]
    body: Template | None
    """None: the request has none."""
    output: Template
    success: frozenset[int]
    """Empty: every 2xx."""
    not_applied: frozenset[int]
    """Statuses that prove that nothing was done."""


@dataclass(frozen=True)
class ServedWorkflow:
    """A workflow that the catalogue serves steps of: its definition, and the capability behind each of them."""

    name: str
    definition: Mapping[str, Any]
    steps: Mapping[str, str]


@dataclass(frozen=True)
class Catalogue:
    """What a worker may call, and for which steps; empty where nothing is said."""

    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    workflows: tuple[ServedWorkflow, ...] = ()


def read_catalogue(path: str | Path, environment: Mapping[str, str] | None = None) -> Catalogue:
    """The catalogue of a TOML file; `${NAME}` in a header or URL is taken from the environment.

    Raises ValueError, which names file, place and way out, for a file that can't be read or isn't sound.
    """
    path = Path(path)
    variables = os.environ if environment is None else environment
    try:
        content = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File)
    except OSError as fault:
        raise ValueError(f"The catalogue {path} cannot be read: {fault.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as fault:
        raise ValueError(f"The catalogue {path} is not valid: {fault}") from None
    capabilities: dict[str, Capability] = {}
    for entry in content.capability:
        key = f"{entry.name}@{entry.version}"
        if key in capabilities:
            raise ValueError(f"The catalogue {path} has two capabilities {key}: give one another version")
        try:
            capabilities[key] = _capability(key, entry, variables)
        except ValueError as fault:
            raise ValueError(f"The capability {key} in {path} is not valid: {fault}") from None
    return Catalogue(capabilities, tuple(_served(one, path) for one in content.workflow))


def _capability(key: str, entry: _Entry, variables: Mapping[str, str]) -> Capability:
    url = _expanded("the url", entry.url, variables)
    _check_url(url)
    headers = {name: _header_value(name, text, variables) for name, text in entry.headers.items()}
    if entry.idempotency_header is not None:
        _check_header(entry.idempotency_header)
    body = entry.body
    if body is UNSET and entry.method in _WITH_BODY:
        body = {"$input": ""}
    if body is not UNSET and entry.method not in _WITH_BODY:
        raise ValueError(f"a {entry.method} has no body")
    return Capability(
        key=key,
        method=entry.method,
        url=url,
        effect=entry.effect,
        headers=headers,
        timeout_seconds=entry.timeout_seconds,
        connect_seconds=entry.connect_seconds,
        idempotency_header=entry.idempotency_header,
        input_schema=entry.input_schema,
        output_schema=entry.output_schema,
        query={name: Template(value, MARKS_OF_REQUESTS) for name, value in entry.query.items()},
        body=None if body is UNSET else Template(body, MARKS_OF_REQUESTS),
        output=Template({"status": {"$status": True}} if entry.output is UNSET else entry.output, MARKS_OF_ANSWERS),
        success=frozenset(entry.success),
        not_applied=frozenset(entry.not_applied),
    )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or not url.isascii():
        raise ValueError("its url is no address like https://payments.example/charges")
    if parts.username is not None or parts.password is not None:
        raise ValueError("its url holds a user name or password: put them into a header, from the environment")


def _header_value(name: str, text: str, variables: Mapping[str, str]) -> str:
    _check_header(name)
    value = _expanded(f"the header {name}", text, variables)
    if not _VISIBLE.fullmatch(value):
        raise ValueError(f"the header {name} would hold what no header can: a line's end, or beyond Latin-1")
    return value


def _expanded(what: str, text: str, variables: Mapping[str, str]) -> str:
    for variable in _VARIABLE.findall(text):
        if variable not in variables:
            raise ValueError(f"{what} needs the environment variable {variable}, which is not set")
    return _VARIABLE.sub(lambda found: variables[found[1]], text)


def _check_header(name: str) -> None:
    if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
        raise ValueError(f"{name!r} is no header that can be set here")


def _served(entry: _Served, path: Path) -> ServedWorkflow:
    file = path.parent / entry.definition
    try:
        definition = msgspec.json.decode(file.read_bytes())
    except OSError as fault:
        raise ValueError(f"The definition {file} of {entry.name!r} cannot be read: {fault.strerror}") from None
    except msgspec.DecodeError as fault:
        raise ValueError(f"The definition {file} of {entry.name!r} is no JSON: {fault}") from None
    if not isinstance(definition, dict):
        raise ValueError(f"The definition {file} of {entry.name!r} is no object")
    return ServedWorkflow(entry.name, definition, entry.steps)
