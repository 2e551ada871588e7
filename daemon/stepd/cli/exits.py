"""Owns how the program ends: its exit codes, which refusal has which, and the text that documents them."""

import sys
import traceback
from typing import Final, NoReturn

import typer

OK: Final = 0
FAILED: Final = 1
CANCELLED: Final = 2
NEEDS_RECONCILIATION: Final = 3
# The rest are those of sysexits.h, so that none of them reads as how an execution ended.
USAGE: Final = 64
REFUSED: Final = 65
NOT_FOUND: Final = 66
UNAVAILABLE: Final = 69
INTERNAL: Final = 70
OUTPUT_CLOSED: Final = 74
NO_PERMISSION: Final = 77
CONFIGURATION: Final = 78
INTERRUPTED: Final = 130

# What typer itself ends with: when it can't read the command line, and when nobody reads what is printed any more.
_OF_TYPER: Final = {2: USAGE, 1: OUTPUT_CLOSED}

_BY_STATUS: Final = {
    "completed": OK,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "reconciliation_required": NEEDS_RECONCILIATION,
}

# The form feed's meaning for the help: keep these lines as they are.
_VERBATIM: Final = "\b\n"

EXIT_CODES: Final = (
    _VERBATIM
    + """\
Exit codes:
  0    done
  64   the command line can't be read
  65   the daemon refused the request
  66   no such execution, workflow or file
  69   no daemon answers, or it is unavailable for now
  70   the daemon or this program failed
  74   nobody reads what it prints any more
  77   the key is missing, not valid, or lacks the scope
  78   serve or migrate: the settings or the database keep it from starting
  130  interrupted"""
)
ENDING_EXIT_CODES: Final = EXIT_CODES.replace(
    "  0    done\n",
    "  0    the execution completed\n"
    "  1    it failed\n"
    "  2    it was cancelled\n"
    "  3    it needs reconciliation: an operator must say what happened\n",
)


class Ended(Exception):
    """Raised by a command that ends with `code`, after it has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run(app: typer.Typer) -> NoReturn:
    """Runs the program with the arguments of its process, and ends it with one of the codes above."""
    _write_what_the_terminal_lacks_as_escapes()
    try:
        app(prog_name=app.info.name if isinstance(app.info.name, str) else None)
    except Ended as ended:
        sys.exit(ended.code)
    except SystemExit as ended:
        sys.exit(_OF_TYPER.get(ended.code, ended.code) if isinstance(ended.code, int) else ended.code)
    except Exception:  # noqa: BLE001 — whatever it is, it must not end with the code for "the execution failed"
        traceback.print_exc()
        sys.exit(INTERNAL)
    sys.exit(OK)


def code_for_status(status: str) -> int:
    """How a command that waits for an execution ends when it is `status`."""
    return _BY_STATUS.get(status, INTERNAL)


def code_for_problem(http_status: int, code: str) -> int:
    """How a command ends when the daemon answers with a problem."""
    if http_status in (401, 403):
        return NO_PERMISSION
    if code == "not_found":
        return NOT_FOUND
    # `unknown` is what the client calls an answer that no stepd daemon gave.
    if http_status in (429, 503) or code == "unknown":
        return UNAVAILABLE
    return INTERNAL if http_status >= 500 else REFUSED


def _write_what_the_terminal_lacks_as_escapes() -> None:
    """A terminal that isn't UTF-8 gets what it can't show as an escape, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
