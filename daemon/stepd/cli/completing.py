"""Owns what a shell is told to complete: ids, workflows, versions, steps and signals, as the daemon knows them.

It is asked while somebody types: it has a second, says nothing where the daemon doesn't answer, and loads no client.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

import typer

from stepd_protocol.names import EXECUTION_STATUSES

Complete: TypeAlias = Callable[[typer.Context, list[str], str], Iterable[tuple[str, str]]]

SECONDS: Final = 1.0
IDS: Final = 100
EVENTS: Final = 200
BODY_BYTES: Final = 4_000_000
DEFAULT_URL: Final = "http://127.0.0.1:7117"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""What names and ids are made of. Whatever else an answer might hold reaches no shell."""


def executions(status: str | None = None) -> Complete:
    """Completes the id of an execution, newest first: of any, or those in this status."""
    query = f"/v1/executions?limit={IDS}" + (f"&status={status}" if status else "")

    def complete(ctx: typer.Context, args: list[str], incomplete: str) -> Iterator[tuple[str, str]]:
        found = _items(_ask(ctx, query))
        yield from _fitting(
            incomplete, ((one.get("id"), f"{one.get('workflow')} {one.get('status')}") for one in found)
        )

    return complete


def workflows(ctx: typer.Context, args: list[str], incomplete: str) -> Iterator[tuple[str, str]]:
    """Completes the name of a workflow."""
    yield from _fitting(incomplete, ((one.get("name"), "") for one in _items(_ask(ctx, "/v1/workflows"))))


def versions(ctx: typer.Context, args: list[str], incomplete: str) -> Iterator[tuple[str, str]]:
    """Completes a version of the workflow that stands before it."""
    name = ctx.params.get("workflow") or ctx.params.get("name") or _first_argument(ctx)
    answer = _ask(ctx, f"/v1/workflows/{quote(str(name), safe='')}") if name else None
    found = answer.get("versions") if isinstance(answer, dict) else None
    yield from _fitting(incomplete, ((one.get("version"), "") for one in found or () if isinstance(one, dict)))


def steps(ctx: typer.Context, args: list[str], incomplete: str) -> Iterator[tuple[str, str]]:
    """Completes a step of the execution that stands before it, those that are in doubt first."""
    answer = _ask(ctx, _execution(ctx, ""))
    found = answer.get("steps") if isinstance(answer, dict) else None
    rows = [one for one in found or () if isinstance(one, dict)]
    rows.sort(key=lambda one: one.get("status") != "uncertain")
    yield from _fitting(incomplete, ((one.get("id"), str(one.get("status"))) for one in rows))


def signals(ctx: typer.Context, args: list[str], incomplete: str) -> Iterator[tuple[str, str]]:
    """Completes the name of a signal that the execution before it has waited for, the latest first."""
    found = _items(_ask(ctx, _execution(ctx, f"/events?limit={EVENTS}")))
    names = [one.get("data", {}).get("event") for one in found if one.get("type") == "wait.armed"]
    yield from _fitting(incomplete, ((name, "") for name in dict.fromkeys(reversed(names))))


def statuses(ctx: typer.Context, args: list[str], incomplete: str) -> Iterator[tuple[str, str]]:
    """Completes the status of an execution."""
    yield from _fitting(incomplete, ((status, "") for status in EXECUTION_STATUSES))


def _execution(ctx: typer.Context, rest: str) -> str:
    return f"/v1/executions/{quote(ctx.params.get('id') or _first_argument(ctx), safe='')}{rest}"


def _first_argument(ctx: typer.Context) -> str:
    """The first word behind the command that is no option. With an option as the last word, nothing was parsed."""
    behind = _words()[len(ctx.command_path.split()) :]
    return next((word for word in behind if not word.startswith("-")), "")


def _option(ctx: typer.Context, name: str) -> str | None:
    words = _words()
    given = ctx.params.get(name)
    if given is None and f"--{name}" in words[:-1]:
        given = words[words.index(f"--{name}") + 1]
    return given


def _words() -> list[str]:
    """What was typed, as the shell's script hands it over."""
    text = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        return shlex.split(text)
    except ValueError:  # a quotation mark that is still open
        return text.split()


def _fitting(incomplete: str, found: Iterable[tuple[object, str]]) -> Iterator[tuple[str, str]]:
    """Those that begin with what was typed, each with a word for shells that show one."""
    for value, about in found:
        if isinstance(value, str) and value.startswith(incomplete) and _PLAIN.fullmatch(value):
            yield value, about if about.isprintable() else ""


def _items(answer: Any) -> list[dict[str, Any]]:
    items = answer.get("items") if isinstance(answer, dict) else None
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def _ask(ctx: typer.Context, path: str) -> Any:
    """What the daemon answers, as JSON; None where it answers nothing that is of use here."""
    import http.client
    import json

    url = urlsplit(_option(ctx, "url") or os.environ.get("STEPD_URL") or DEFAULT_URL)
    key = _option(ctx, "key") or os.environ.get("STEPD_KEY")
    kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}.get(url.scheme)
    if kind is None or not url.hostname:
        return None
    try:
        connection = kind(url.hostname, url.port, timeout=SECONDS)
        connection.request(
            "GET", url.path.rstrip("/") + path, headers={"Authorization": f"Bearer {key}"} if key else {}
        )
        response = connection.getresponse()
        return json.loads(response.read(BODY_BYTES)) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
