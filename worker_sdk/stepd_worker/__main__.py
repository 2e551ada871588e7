"""Owns `python -m stepd_worker`: workers run from the command line, of workflows in Python or of a catalogue of
integrations, and the printing of definitions."""

import argparse
import importlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final, NoReturn

from stepd_worker.errors import StepdError
from stepd_worker.http import read_catalogue, workflows_of
from stepd_worker.mermaid import mermaid
from stepd_worker.worker import Worker
from stepd_worker.workflow import Workflow

LEFT_THREADS_SECONDS: Final = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what is asked; 0 after an orderly end, 1 where the daemon refuses a worker, 2 for misuse."""
    given = _parser().parse_args(arguments)
    sys.path.insert(0, "")
    try:
        if given.command == "show":
            _show(_load(given.target), given.form)
            return 0
        worker = _worker(given)
    except (ValueError, TypeError) as fault:
        print(f"stepd_worker: {fault}", file=sys.stderr)  # noqa: T201 — this is the command's answer
        return 2
    try:
        worker.serve()
    except StepdError as fault:
        print(f"stepd_worker: {fault}", file=sys.stderr)  # noqa: T201 — this is the command's answer
        return 1
    return 0


def _worker(given: argparse.Namespace) -> Worker:
    """A worker of what is named. Raises ValueError, TypeError."""
    logging.basicConfig(level=given.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    worker = Worker(given.url, given.name, given.concurrency, given.drain_seconds)
    if given.command == "serve":
        return worker.register(*map(_load, given.targets))
    workflows = workflows_of(read_catalogue(given.catalogue))
    if not workflows:
        raise ValueError(f"The catalogue {given.catalogue} serves nothing: name a [[workflow]] in it")
    return worker.register(*workflows)


def _show(workflow: Workflow, form: str | None) -> None:
    definition = json.dumps(workflow.definition(), indent=2, ensure_ascii=False)
    shown = {"json": definition, "mermaid": mermaid(workflow), None: f"{definition}\n\n{mermaid(workflow)}"}
    print(shown[form])  # noqa: T201 — this is the command's answer


def _load(target: str) -> Workflow:
    """The workflow that `module:name` names. Raises ValueError."""
    module_name, colon, name = target.partition(":")
    if not colon:
        raise ValueError(f"{target!r} names no workflow: write module:name, like shop.flows:support")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as fault:
        raise ValueError(f"{target!r} cannot be imported: {fault}") from None
    found = getattr(module, name, None)
    if not isinstance(found, Workflow):
        named = sorted(key for key, value in vars(module).items() if isinstance(value, Workflow))
        raise ValueError(f"{module_name!r} has no workflow {name!r}; it has: {', '.join(named) or 'none'}")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stepd_worker", description="Workers of stepd.")
    commands = parser.add_subparsers(required=True, dest="command")
    serve = commands.add_parser("serve", help="run the bodies of workflows until stopped")
    serve.add_argument("targets", nargs="+", metavar="module:workflow")
    http = commands.add_parser("http", help="run steps that are calls of a catalogue of integrations until stopped")
    http.add_argument("--catalogue", required=True, metavar="FILE", help="a TOML file, see docs/integrations.md")
    for command in (serve, http):
        _add_settings(command)
    show = commands.add_parser("show", help="print a workflow's definition, as JSON and as a Mermaid graph")
    show.add_argument("target", metavar="module:workflow")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="the JSON alone")
    form.add_argument("--mermaid", dest="form", action="store_const", const="mermaid", help="the graph alone")
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--url", help="the daemon's address (STEPD_URL); the key comes from STEPD_KEY")
    command.add_argument("--name", help="the worker's name (STEPD_WORKER_NAME)")
    command.add_argument("--concurrency", type=int, help="how many bodies run side by side (STEPD_WORKER_CONCURRENCY)")
    command.add_argument("--drain-seconds", type=float, help="how long they may run on (STEPD_WORKER_DRAIN_SECONDS)")
    command.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def _leave(status: int) -> NoReturn:
    """Ends the process, also where a body left a thread behind that Python would wait for."""
    give_up_at = time.monotonic() + LEFT_THREADS_SECONDS
    left = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    for thread in left:
        thread.join(max(give_up_at - time.monotonic(), 0))
    names = ", ".join(thread.name for thread in left if thread.is_alive())
    if names:
        print(f"stepd_worker: threads that bodies left behind are given up: {names}", file=sys.stderr)  # noqa: T201 — as above
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    _leave(main())
