"""Owns the program `stepd`: its commands, in the order in which the help shows them, and its entry point."""

from importlib import import_module
from typing import Final, NoReturn

import typer

from stepd.cli.exits import EXIT_CODES, run

COMMANDS: Final = (
    "serve",
    "start",
    "look",
    "watch",
    "events",
    "top",
    "signal",
    "steer",
    "resolve",
    "workflows",
    "simulate",
    "usage",
    "prices",
    "keys",
    "audit",
    "doctor",
)
"""Modules of this package; each has `register(app)`, which adds its commands."""

app = typer.Typer(
    name="stepd",
    help="Durable workflow executions: a daemon that owns the state, workers that own the code.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    # Plain help, in half the time; and an error that repeats what was typed takes none of it for markup.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> NoReturn:
    """Runs the program with the arguments of its process; never returns."""
    for command in COMMANDS:
        import_module(f"stepd.cli.{command}").register(app)
    run(app)


@app.callback()
def _program() -> None:
    """Keeps the commands named, even while there is only one."""
