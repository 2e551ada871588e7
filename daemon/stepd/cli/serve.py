"""Owns `stepd serve` and `stepd migrate`; their flags are made of the table of settings."""

import inspect
import os
from collections.abc import Callable
from typing import Any, Final, NoReturn

import typer

from stepd.cli.exits import CONFIGURATION, Ended
from stepd.settings import SETTINGS, Setting, Settings, SettingsRefused, load_settings

MIGRATE_SETTINGS: Final = ("database",)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("serve", help=SERVE_HELP)(with_flags(_serve, SETTINGS))
    chosen = tuple(setting for setting in SETTINGS if setting.name in MIGRATE_SETTINGS)
    app.command("migrate", help=MIGRATE_HELP)(with_flags(_migrate, chosen, RUNTIME_ROLE))


SERVE_HELP: Final = (
    "Run the daemon until SIGTERM or SIGINT. Keys come from the environment only: STEPD_ADMIN_KEYS, STEPD_WRITE_KEYS, "
    "STEPD_WORKER_KEYS, STEPD_EXECUTE_KEYS, STEPD_READ_KEYS and STEPD_OPERATE_KEYS, each with entries name=secret, "
    "comma separated. Without keys everybody on this machine is served, and nobody else."
)
MIGRATE_HELP: Final = (
    "Bring the database's schema up to this version. On SQLite, serve does it by itself; on PostgreSQL the owner of "
    "the schema does it with this command, and serve runs as another role."
)
RUNTIME_ROLE: Final = inspect.Parameter(
    "runtime_role",
    inspect.Parameter.KEYWORD_ONLY,
    default=typer.Option(
        None, "--runtime-role", metavar="NAME", help="On PostgreSQL: let the role NAME do just what a daemon needs."
    ),
    annotation=str | None,
)


def _serve(**flags: Any) -> NoReturn:
    settings = _settings(flags)
    # Only here: the other commands shall not wait for all the daemon's parts to be imported.
    from stepd.main import run
    from stepd.starting import StartRefused

    try:
        raise Ended(run(settings))
    except StartRefused as refusal:
        _refuse(refusal)


def _migrate(runtime_role: str | None, **flags: Any) -> None:
    settings = _settings(flags)
    from stepd.migrating import migrate
    from stepd.starting import StartRefused

    try:
        typer.echo(migrate(settings, runtime_role))
    except StartRefused as refusal:
        _refuse(refusal)


def _settings(flags: dict[str, Any]) -> Settings:
    try:
        return load_settings(flags, os.environ)
    except SettingsRefused as refusal:
        _refuse(refusal)


def _refuse(refusal: Exception) -> NoReturn:
    for line in str(refusal).splitlines():
        typer.echo(f"stepd: {line}", err=True)
    raise Ended(CONFIGURATION)


def with_flags(
    command: Callable[..., Any], settings: tuple[Setting, ...], *more: inspect.Parameter
) -> Callable[..., Any]:
    """The command with one option for each setting. None where it was not given, so that the environment counts."""

    def run(**flags: Any) -> Any:
        return command(**flags)

    parameters = [*(_option(setting) for setting in settings), *more]
    signature = inspect.Signature(parameters)
    # What typer reads a command's options from.
    vars(run)["__signature__"] = signature
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return run


def _option(setting: Setting) -> inspect.Parameter:
    name = setting.flag
    flags = f"{name}/--no-{name.removeprefix('--')}" if setting.is_switch else name
    default = "" if setting.default is None else f"; default {_written(setting.default)}"
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(
            None,
            flags,
            metavar=None if setting.is_switch else (setting.unit or "VALUE").upper(),
            help=f"{setting.help[0].upper()}{setting.help[1:]} ({setting.variable}{default}).",
            show_default=False,
        ),
        annotation=bool | None if setting.is_switch else str | None,
    )


def _written(default: Any) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
