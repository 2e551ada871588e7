"""Owns `python -m stepd_worker serve module:workflow`, which runs a worker from the command line."""

import argparse
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final, NoReturn

from stepd_worker.errors import StepdError
from stepd_worker.worker import Worker
from stepd_worker.workflow import Workflow

LEFT_THREADS_SECONDS: Final = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves what is named until it is stopped; 0 after an orderly end, 1 where the daemon refuses it, 2 for misuse."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=given.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.path.insert(0, "")
    try:
        worker = Worker(given.url, given.name, given.concurrency, given.drain_seconds)
        worker.register(*(_load(target) for target in given.targets))
    except (ValueError, TypeError) as fault:
        print(f"stepd_worker: {fault}", file=sys.stderr)  # noqa: T201 — this is the command's answer
        return 2
    try:
        worker.serve()
    except StepdError as fault:
        print(f"stepd_worker: {fault}", file=sys.stderr)  # noqa: T201 — this is the command's answer
        return 1
    return 0


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
    parser = argparse.ArgumentParser(prog="python -m stepd_worker", description="Runs a worker of stepd.")
    commands = parser.add_subparsers(required=True, metavar="serve")
    serve = commands.add_parser("serve", help="run the bodies of workflows until stopped")
    serve.add_argument("targets", nargs="+", metavar="module:workflow")
    serve.add_argument("--url", help="the daemon's address (STEPD_URL); the key comes from STEPD_KEY")
    serve.add_argument("--name", help="the worker's name (STEPD_WORKER_NAME)")
    serve.add_argument("--concurrency", type=int, help="how many bodies run side by side (STEPD_WORKER_CONCURRENCY)")
    serve.add_argument("--drain-seconds", type=float, help="how long they may run on (STEPD_WORKER_DRAIN_SECONDS)")
    serve.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


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
