"""Writes `deploy/.env.example`: every variable that `stepd serve` reads, with its default."""

from collections.abc import Iterator
from typing import Final

from stepd import keys
from stepd.settings import SETTINGS, Setting

HEAD: Final = """\
# Every variable that `stepd serve` reads, each with its default. Uncomment what you change: systemd takes this file as
# EnvironmentFile, compose as env_file. Written by `make docs`; docs/configuration.md says more.
"""
OF_KEYS: Final = """\
# Keys: entries name=secret, comma separated; the first of them need one with the scope admin. Make a secret with
# openssl rand -hex 32, and let nobody read this file but the daemon.
"""


def text() -> str:
    """The whole file."""
    of_keys = OF_KEYS + "".join(f"#{variable}=\n" for variable in keys.VARIABLES)
    return "\n".join([HEAD, *(entry for setting in SETTINGS for entry in _entry(setting)), of_keys])


def _entry(setting: Setting) -> Iterator[str]:
    unit = f", in {setting.unit}" if setting.unit else ""
    yield f"# {setting.help[0].upper()}{setting.help[1:]}{unit}.\n#{setting.variable}={_default(setting)}\n"


def _default(setting: Setting) -> str:
    if setting.default is None:
        return ""
    if setting.is_switch:
        return str(setting.default).lower()
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)
