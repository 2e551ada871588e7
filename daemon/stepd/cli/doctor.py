"""Owns `stepd doctor`: the examination's findings as lines or JSON, and how the program ends by them."""

import inspect
import os
from typing import TYPE_CHECKING, Any, Final

import typer

from stepd.cli.exits import Ended
from stepd.cli.options import AsJson, Key, Url
from stepd.cli.serve import with_flags
from stepd.settings import SETTINGS

if TYPE_CHECKING:
    from stepd.doctor.findings import Finding

WRONG: Final = 78
"""Exit status where anything is wrong: that of sysexits.h for a faulty configuration."""

HELP: Final = (
    "Say what is wrong with a configuration and a store. Takes the flags and the environment of serve, and looks at "
    "the settings, the database, the daemon that runs, and what waits in the queue. Only reads: nothing is written, "
    "and a daemon that runs goes on undisturbed."
)
EXIT_CODES: Final = """\b
Exit codes:
  0    nothing is wrong; there may be warnings
  64   the command line can't be read
  70   this program failed
  78   something is wrong"""
STYLES: Final = {"ok": "green", "warning": "yellow", "wrong": "red"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command = with_flags(_doctor, SETTINGS, _more("json", AsJson, False), _more("url", Url), _more("key", Key))
    app.command("doctor", help=HELP, epilog=EXIT_CODES)(command)


def _more(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _doctor(json: bool, url: str | None, key: str | None, **flags: Any) -> None:
    from stepd.doctor.examination import examine

    findings = examine(flags, os.environ, url, key)
    _print_json(findings) if json else _say(findings)
    if any(finding.status == "wrong" for finding in findings):
        raise Ended(WRONG)


def _print_json(findings: "list[Finding]") -> None:
    from stepd.cli.printing import print_json

    is_well = all(finding.status != "wrong" for finding in findings)
    print_json({"ok": is_well, "checks": [finding.as_json() for finding in findings]})


def _say(findings: "list[Finding]") -> None:
    from stepd.cli.printing import as_text, columns, say

    rows = [
        (as_text(finding.status, STYLES[finding.status]), finding.check, _sentence(finding)) for finding in findings
    ]
    for row in columns(("", "", ""), rows):
        say(row)


def _sentence(finding: "Finding") -> str:
    if finding.way_out is None:
        return finding.message
    return f"{finding.message.rstrip('.')}. {finding.way_out}"
