"""Owns the program `stepd`: its commands, in the order in which the help shows them, and its entry point."""

from importlib import import_module
from typing import Final

import typer

COMMANDS: Final = ("serve",)
"""Modules of this package; each has `register(app)`, which adds its commands."""

app = typer.Typer(
    name="stepd",
    help="Durable workflow executions: a daemon that owns the state, workers that own the code.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Runs the program with the arguments of its process; never returns."""
    for command in COMMANDS:
        import_module(f"stepd.cli.{command}").register(app)
    app(prog_name="stepd")


@app.callback()
def _program() -> None:
    """Keeps the commands named, even while there is only one."""
