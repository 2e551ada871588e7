"""Owns what the pages' tests read of a page: its programs, and the commands below each with what they come to."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from typer import Typer

from stepd.cli.app import COMMANDS, app
from stepd_worker import ApiError, Client, Workflow

ROOT = Path(__file__).resolve().parents[2]
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = 20.0


@cache
def program() -> Typer:
    """`stepd`, with all its commands."""
    for module in COMMANDS:
        import_module(f"stepd.cli.{module}").register(app)
    return app


@dataclass
class Command:
    """One command of the program `stepd`, and what the page says it comes to; None where it says nothing."""

    words: list[str]
    comes_to: str | None = None


@dataclass
class Section:
    """One section of a page: its programs, and the commands that the page shows."""

    title: str
    programs: list[str] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)


def sections(page: str) -> list[Section]:
    """The sections of a page that have a program."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    parts = _SECTION.split(text)[1:]
    found = [_section(title, body) for title, body in zip(parts[::2], parts[1::2], strict=True)]
    return [section for section in found if section.programs]


def _section(title: str, body: str) -> Section:
    section = Section(title)
    for language, content in _BLOCK.findall(body):
        if language == "python":
            section.programs.append(content)
        elif language == "sh":
            section.commands.extend(_commands(content))
    return section


def _commands(content: str) -> Iterator[Command]:
    command: Command | None = None
    for line in content.replace("\\\n", " ").splitlines():
        if line.startswith("stepd "):
            if command is not None:
                yield command
            command = Command(shlex.split(line)[1:])
        elif line.startswith("# ") and command is not None:
            command.comes_to = line.removeprefix("# ")
    if command is not None:
        yield command


def load(program: str, name: str) -> list[Workflow]:
    """Runs a program of a page as a module, and returns the workflows that it makes."""
    module = ModuleType(name)
    exec(compile(program, name, "exec"), module.__dict__)
    return [value for value in vars(module).values() if isinstance(value, Workflow)]


class Runner:
    """Does what the program `stepd` would, by the client that it is made of."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last = ""

    def check(self, command: Command) -> None:
        """Runs a command, and checks what it comes to."""
        verb, *rest = command.words
        options, given = _parsed(rest)
        try:
            said = self._run(verb, given, options)
        except ApiError as refusal:
            said = f"{refusal.status} {refusal.code}"
        if command.comes_to is not None:
            assert said == _wanted(command.comes_to), f"stepd {shlex.join(command.words)}"

    def _run(self, verb: str, given: list[str], options: dict[str, str]) -> Any:
        client = self._client
        given = [self._last if word == "ID" else word for word in given]
        payload = json.loads(options.get("payload", "null"))
        match verb, given:
            case "start", [workflow]:
                return self._start(workflow, options)
            case "signal", [execution, name]:
                client.signal(execution, name, payload)
                return "sent"
            case "publish", [name]:
                count = client.publish(name, options["correlation"], payload)["delivered"]
                return f"delivered to {count} execution{'' if count == 1 else 's'}"
            case "simulate", [workflow]:
                return self._simulate(workflow, options)
            case "watch", [execution]:
                return self._end(execution)
            case "cancel", [execution]:
                return client.cancel(execution)["status"]
            case _:
                raise AssertionError(f"The page shows a command that its test does not know: {verb}")

    def _start(self, workflow: str, options: dict[str, str]) -> Any:
        more: dict[str, Any] = {name: options[name] for name in ("correlation", "version") if name in options}
        if "priority" in options:
            more["priority"] = int(options["priority"])
        if "state" in options:
            more["state"] = json.loads(options["state"])
        started = self._client.start(workflow, json.loads(options.get("input", "null")), **more)
        self._last = started["id"]
        return self._end(started["id"]) if "wait" in options else started["status"]

    def _simulate(self, workflow: str, options: dict[str, str]) -> Any:
        name, mark, payload = options.get("signal", "").partition("=")
        signals = [{"name": name, "payload": json.loads(payload)}] if mark else []
        return _told(self._client.simulate(workflow, steps=json.loads(options["steps"]), signals=signals))

    def _end(self, execution: str) -> Any:
        return _told(self._client.wait(execution, timeout_seconds=_SECONDS))


def _told(view: Mapping[str, Any]) -> Any:
    """The output of what completed; else the status, with the error's class where there is one."""
    if view["status"] == "completed":
        return view["output"]
    return f"{view['status']}: {view['error']['class']}" if view["error"] else view["status"]


def _parsed(words: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    given: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--wait":
            options["wait"] = ""
        elif word.startswith("--"):
            options[word.removeprefix("--")] = next(left)
        else:
            given.append(word)
    return options, given


def _wanted(text: str) -> Any:
    """What stands behind `# `: JSON is an output, anything else a word of status."""
    try:
        return json.loads(text)
    except ValueError:
        return text
