"""Owns the commands' way to the daemon: a client for one command, and what is said when a call goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer

from stepd.cli.exits import UNAVAILABLE, USAGE, Ended, code_for_problem
from stepd.wording.shown import json_for_machines, shown
from stepd_worker import ApiError, Client, StepdError, Unreachable

# Long enough for a daemon that is just being restarted, short enough to wait for at a prompt.
RETRY_SECONDS: Final = 2.0

_WAYS_OUT: Final = {
    "unauthenticated": "Give a valid key with STEPD_KEY or --key.",
    "forbidden": "Use a key that may do this, with STEPD_KEY or --key.",
    "unavailable": "Nothing was done; try again in a moment.",
    "too_busy": "Nothing was done; try again in a moment.",
    "already_ended": "See how with: stepd show ID",
    "unknown": "Is that a stepd daemon? Name another one with STEPD_URL or --url.",
}


@contextmanager
def daemon(url: str | None, key: str | None, *, as_json: bool = False) -> Iterator[Client]:
    """A client for the length of one command. What goes wrong inside is said on stderr and ends the program:
    as text, or under `as_json` as the daemon's problem."""
    try:
        client = Client(url, key, retry_seconds=RETRY_SECONDS)
    except ValueError as fault:
        typer.echo(f"stepd: {shown(str(fault))}", err=True)
        raise Ended(USAGE) from None
    try:
        with client:
            yield client
    except StepdError as fault:
        typer.echo(json_for_machines(_problem(fault)) if as_json else f"stepd: {explain(fault)}", err=True)
        raise Ended(exit_code(fault)) from None


def explain(fault: StepdError) -> str:
    """What went wrong and the way out, in lines that are safe to print."""
    match fault:
        case ApiError():
            text = shown(fault.detail or f"The daemon answered {fault.status} {fault.code}")
            way_out = _WAYS_OUT.get(fault.code)
            faults = [
                f"  {shown(error.get('path') or '/')}: {shown(error.get('message', ''))}" for error in fault.errors
            ]
            return "\n".join([_sentence(text) + (f" {way_out}" if way_out else ""), *faults])
        case Unreachable():
            return (
                f"{_sentence(shown(str(fault)))} Is `stepd serve` running there? "
                "Name another daemon with STEPD_URL or --url."
            )
        case _:
            return _sentence(shown(str(fault)))


def exit_code(fault: StepdError) -> int:
    """How a command ends that a fault has ended."""
    return code_for_problem(fault.status, fault.code) if isinstance(fault, ApiError) else UNAVAILABLE


def _problem(fault: StepdError) -> dict[str, object]:
    if isinstance(fault, ApiError):
        return fault.problem
    return {"code": "unreachable", "detail": str(fault)}


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
